"""Rules about views, the pages that hosts show with the results of tools."""

from __future__ import annotations

from collections.abc import Iterator

from mcpkit._protocol.revisions import VIEW_TYPE
from mcpkit._utils.json import value_at
from mcpkit.cli._check.listing import Listing
from mcpkit.cli._check.rules import Match, rule


@rule(
    "VIEW001 warning: tool with a view, whose result has no text of its own",
    reason="The model, and hosts without views, get the text. Without one, the data for the view "
    "is sent as JSON.",
    fix="say in words what the view shows (in mcpkit: ToolResult(text, structured_content=data))",
    source="https://github.com/modelcontextprotocol/ext-apps/blob/main/specification/2026-01-26/apps.mdx",
)
def no_text(listing: Listing) -> Iterator[Match]:
    for tool in listing.tools:
        if tool.lacks_text:
            yield Match(tool)


@rule(
    "VIEW002 warning: page that does not begin the handshake",
    reason="Hosts show a page when it has sent ui/initialize; in Claude it stays invisible.",
    fix="send ui/initialize and ui/notifications/initialized, or use the official library, "
    "@modelcontextprotocol/ext-apps",
    source="https://github.com/anthropics/claude-ai-mcp/issues/61",
)
def silent_page(listing: Listing) -> Iterator[Match]:
    for view in listing.of("resource"):
        # A script of another host may contain it.
        loads = value_at(view.raw, "_meta", "ui", "csp", "resourceDomains")
        if view.page and "ui/initialize" not in view.page and not loads:
            yield Match(view)


@rule(
    "VIEW003 note: view with frames inside",
    reason="Claude ignores frameDomains, and shows no frames inside of views.",
    fix="show the same without a frame, or link to it",
    source="https://github.com/anthropics/claude-ai-mcp/issues/40",
)
def frames(listing: Listing) -> Iterator[Match]:
    for view in listing.of("resource"):
        is_view = view.raw.get("mimeType") == VIEW_TYPE
        if is_view and value_at(view.raw, "_meta", "ui", "csp", "frameDomains"):
            yield Match(view)
