"""Views: pages that hosts show with the results of tools (the extension MCP Apps)."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast, get_args

from typing_extensions import TypedDict, Unpack

from mcpkit._entries import CommonOptions
from mcpkit._protocol.wire import some
from mcpkit._utils.names import caller, caller_folder, suggest
from mcpkit.errors import RegistrationError

if TYPE_CHECKING:
    from mcpkit.context import Context

Permission: TypeAlias = Literal["camera", "microphone", "geolocation", "clipboardWrite"]
"""A permission that a page asks its host for (APP-10)."""

Domain: TypeAlias = "str | Callable[[Context[Any]], str | None]"
"""The origin of a page, or a function of the context, because each host has its own (APP-11)."""

Audience: TypeAlias = Literal["model", "app"]
"""The only users of a tool, if hosts do as they are told: the model, or views (APP-6)."""


class Csp(TypedDict, total=False):
    """The origins that a page may use, such as ``https://*.example.com``; others are blocked."""

    connectDomains: Sequence[str]
    """For requests and WebSockets."""
    resourceDomains: Sequence[str]
    """For scripts, styles, images, fonts and media."""
    frameDomains: Sequence[str]
    """For frames inside; Claude ignores them."""
    baseUriDomains: Sequence[str]
    """For the base of relative URLs."""


class PageOptions(TypedDict, total=False):
    """The options of a page, for its host."""

    csp: Csp | None
    """The origins that the page may use; None: only what is in it."""
    permissions: Sequence[Permission]
    """Such as ``["camera"]``; hosts may grant them."""
    domain: Domain | None
    """An origin of its own, for APIs that require one; most pages need none."""
    prefers_border: bool
    """False if the host should draw no border."""


class UiOptions(CommonOptions, PageOptions, total=False):
    """The options of `MCPKit.ui`, in addition to the common ones."""

    cache_ttl: float | None
    """Seconds for which clients may cache the page (2026-07-28); the app's by default."""


class Html:
    """A page that hosts show with the results of a tool: ``@app.tool(ui=Html("chart.html"))``.

    Local scripts, styles and images are put into the page when the tool is added, because hosts
    load nothing but the page. Its URI contains its hash, so that hosts do not show an older one.

    Args:
        source: A file, relative to the file with this call, or the text of a page.
        options: See `PageOptions`.

    Raises:
        RegistrationError: An option has an invalid value.
    """

    def __init__(self, source: str | os.PathLike[str], /, **options: Unpack[PageOptions]) -> None:
        self.at = caller()
        """The place of the call, for messages."""
        self.folder = Path(caller_folder())
        self.text, self.path = "", None
        if isinstance(source, str) and "<" in source:
            self.text = source
        elif not isinstance(source, (str, os.PathLike)):
            raise RegistrationError(f"{self.at}Html(…) takes a file or a text, not {source!r:.50}")
        else:
            self.path = self.folder / source
            self.folder = self.path.parent
        self.domain = options.get("domain")
        self.meta = page_meta(options, f"{self.at}Html(…)")


_ORIGIN: Final = re.compile(r"(?:https?|wss?)://(?:\*\.)?[A-Za-z0-9.-]+(?::\d+)?")


def page_meta(options: Mapping[str, Any], at: str) -> dict[str, Any]:
    """Check the options of a page, and return its ``_meta.ui`` (APP-8)."""
    if wrong := [each for each in options if each not in PageOptions.__optional_keys__]:
        advice = suggest("Html(…)", wrong[0], PageOptions.__optional_keys__)
        raise RegistrationError(f"{at}: there is no option {wrong[0]!r}; {advice}")
    given: Any = options.get("csp") or {}
    permissions: Any = options.get("permissions") or ()
    if not isinstance(given, Mapping):
        raise RegistrationError(f"{at}: csp is a dict of lists of origins, not {given!r:.50}")
    csp = cast("Mapping[str, Any]", given)
    for name, origins in csp.items():
        if name not in Csp.__optional_keys__:
            advice = suggest("csp", name, Csp.__optional_keys__)
            raise RegistrationError(f"{at}: csp has no member {name!r}; {advice}")
        if isinstance(origins, str) or not all(_ORIGIN.fullmatch(str(each)) for each in origins):
            raise RegistrationError(
                f"{at}: {name} is a list of origins, such as https://example.com, not {origins!r}"
            )
    if isinstance(permissions, str) or not {*permissions} <= {*get_args(Permission)}:
        known = ", ".join(get_args(Permission))
        raise RegistrationError(f"{at}: permissions is a list of {known}, not {permissions!r}")
    domain = options.get("domain")
    return some(
        csp={name: [*origins] for name, origins in csp.items()} or None,
        permissions={each: {} for each in permissions} or None,
        domain=domain if isinstance(domain, str) else None,
        prefersBorder=options.get("prefers_border", True),  # APP-10: hosts differ in their default
    )
