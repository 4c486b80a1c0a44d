"""The Apps extension: tools with views, and the resources with their pages (SEP-1865)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from hashlib import sha256
from typing import Any, Final
from urllib.parse import quote

from pydantic_core import to_json

from mcpkit._entries import Defaults, Entry
from mcpkit._injection import CallPlan, inspect_handler
from mcpkit._protocol.revisions import APPS_EXTENSION, PER_REQUEST, VIEW_TYPE, ClientProfile, Method
from mcpkit._protocol.wire import some
from mcpkit._server.registry import Registry
from mcpkit._signature.hints import location
from mcpkit._utils.names import caller
from mcpkit.context import Context
from mcpkit.errors import RegistrationError
from mcpkit.extension import Extension, ExtensionMethod, Settings
from mcpkit.extensions.apps.inline import inlined
from mcpkit.resources import Resource, make_resource
from mcpkit.types import ResourceResult
from mcpkit.views import Domain, Html, PageOptions, page_meta


def _pong(*_: object) -> dict[str, Any]:
    return {}


class _Apps(Extension):
    _is_official = True
    is_implicit = True

    def __init__(self) -> None:
        super().__init__(APPS_EXTENSION)
        # Hosts with views ping on every revision, and hide a view if that fails (ext-apps#671).
        versions = frozenset(each.version for each in PER_REQUEST)
        known = Method("ping", APPS_EXTENSION)
        self.methods["ping"] = ExtensionMethod("ping", (), known, _pong, versions)

    def declared_in(self, capabilities: Mapping[str, Any], /) -> Settings | None:
        """Return the settings of a client that shows pages of our type (APP-2)."""
        profile = ClientProfile(capabilities, None)
        return super().declared_in(capabilities) if profile.shows_views else None


Apps: Final = _Apps()
"""The extension, for ``ctx.client.supports(Apps)``. Servers with views declare it by themselves."""


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class UiResource(Resource):
    """A resource with a page, whose options are in its ``_meta.ui``."""

    domain: Domain | None = None
    text: str | None = None
    """The page, unless a function makes it; for ``mcpkit check``."""

    async def read(
        self, uri: str, variables: Mapping[str, Any], context: Context[Any]
    ) -> ResourceResult:
        """Return the page, with its ``_meta``, which hosts prefer to that of the list (APP-8)."""
        found = await Resource.read(self, uri, variables, context)
        ui: dict[str, Any] = {**(self.meta or {})["ui"]}
        if callable(self.domain):
            found = replace(found, cache_scope="private")
            ui.update(some(domain=self.domain(context)))
        contents = [replace(each, meta={"ui": ui, **(each.meta or {})}) for each in found.contents]
        return replace(found, contents=contents)


def add_function(
    registry: Registry, defaults: Defaults, fn: Callable[..., Any], uri: str, **options: Any
) -> None:
    """Add the page that a function returns; see `MCPKit.ui`."""
    at = location(fn)
    page = {name: options.pop(name) for name in PageOptions.__optional_keys__ & options.keys()}
    meta: dict[str, Any] = {"ui": page_meta(page, at), **(options.pop("meta", None) or {})}
    made = make_resource(fn, uri, defaults, mime_type=VIEW_TYPE, meta=meta, **options)
    if not isinstance(made, Resource) or not uri.startswith("ui://"):
        raise RegistrationError(f'{at}: the URI of a view is "ui://…", without variables')
    known = {each.name: getattr(made, each.name) for each in fields(made) if each.init}
    registry.add(UiResource(**known, domain=page.get("domain")))


def add_page(registry: Registry, html: Any, uri: str, **options: Any) -> None:
    """Add a page under a URI; see `MCPKit.ui`."""
    if not isinstance(html, Html):
        raise RegistrationError(
            f'{caller()}ui(…) takes Html("page.html"), or decorates a function, not {html!r:.50}'
        )
    if options:
        raise RegistrationError(f"{html.at}ui(…, Html(…)) has no options; pass them to Html(…)")
    if not uri.startswith("ui://"):
        raise RegistrationError(f'{html.at}the URI of a view is "ui://…", not {uri!r}')
    registry.add(_resource_with(html, uri.removeprefix("ui://"), uri))


def page_of(tool: Entry, html: Html) -> UiResource:
    """Return the resource with the page of a tool; raises `RegistrationError`."""
    return _resource_with(html, tool.name if html.path is None else html.path.stem)


def _resource_with(html: Html, name: str, uri: str | None = None) -> UiResource:
    text = inlined(html)

    def page() -> str:
        return text

    # APP-15: hosts cache pages by their URIs.
    digest = sha256(text.encode() + to_json(html.meta)).hexdigest()[:16]
    return UiResource(
        name=name,
        uri=uri or f"ui://{quote(name)}/{digest}.html",
        mime_type=VIEW_TYPE,
        meta={"ui": html.meta},
        plan=CallPlan(page, inspect_handler(page), inline=True),
        domain=html.domain,
        text=text,
    )
