"""``ui=`` and ``visibility=``: the view of a tool, and who may call the tool."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, get_args

from mcpkit._entries import Entry, EntryOption, prefixed_uri
from mcpkit._protocol.revisions import APPS_EXTENSION, VIEW_TYPE
from mcpkit._protocol.wire import some
from mcpkit.errors import RegistrationError
from mcpkit.extensions.apps.extension import page_of
from mcpkit.views import Audience, Html


@dataclass(frozen=True)
class View(EntryOption):
    """The view of a tool, and who may call the tool."""

    uri: str | None = None
    html: Html | None = None
    """The page, until it is registered."""
    visibility: Audience | None = None

    capabilities = (APPS_EXTENSION,)

    @property
    def hides(self) -> bool:
        """True for a tool of views, which clients without views would show to the model."""
        return self.visibility == "app"

    def prefixed(self, prefix: str) -> EntryOption:
        """Return it with a prefix in the URI."""
        return self if self.uri is None else replace(self, uri=prefixed_uri(prefix, self.uri))

    def companions(self, entry: Entry) -> Collection[Entry]:
        """Return the resource with the page, whose URI the tool has from now on."""
        if self.html is None:
            return ()
        page = page_of(entry, self.html)
        entry.options["ui"] = replace(self, uri=page.uri, html=None)
        return (page,)

    def check(self, entry: Entry, registry: Any) -> None:
        """Raise `RegistrationError` if the URI is not that of a view (APP-4)."""
        found = None if self.uri is None else registry.resource(self.uri)
        if self.uri is not None and (found is None or found[0].mime_type != VIEW_TYPE):
            raise RegistrationError(
                f"the tool {entry.name!r} has ui={self.uri!r}, which is not a view; add it "
                f"with @app.ui({self.uri!r})"
            )

    def members(self) -> Mapping[str, Any]:
        """Return what hosts look for."""
        visibility = None if self.visibility is None else [self.visibility]
        # APP-5: some hosts read the flat key only.
        flat = some(**{"ui/resourceUri": self.uri})
        return {"_meta": {"ui": some(resourceUri=self.uri, visibility=visibility), **flat}}


def view_of(tool: Entry) -> View:
    """Return the view of a tool; an empty one if it has none."""
    found = tool.options.get("ui")
    return found if isinstance(found, View) else View()


def prepare(tool: Entry, options: Mapping[str, Any], at: str) -> None:
    """Give a tool its view; raises `RegistrationError`."""
    ui, visibility = options.get("ui"), options.get("visibility")
    if visibility is not None and visibility not in get_args(Audience):
        raise RegistrationError(f'{at}: visibility= is "model" or "app", not {visibility!r}')
    if ui is None or isinstance(ui, str):
        if ui is not None and not ui.startswith("ui://"):
            raise RegistrationError(f'{at}: ui={ui!r}; write "ui://…", or Html({ui!r})')
        tool.options["ui"] = View(ui, None, visibility)
        return
    if not isinstance(ui, Html):
        raise RegistrationError(f'{at}: ui= is Html("page.html") or a URI, not {ui!r:.50}')
    tool.options["ui"] = View(None, ui, visibility)
