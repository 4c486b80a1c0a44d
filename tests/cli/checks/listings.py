"""Servers for rules to check, written as the lists that they would send."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mcpkit._protocol.revisions import HANDSHAKE, PER_REQUEST
from mcpkit.cli._check.listing import Entry, Kind, Listing

ORDER = {"type": "string", "description": "Such as A-17."}


def tool(name: str = "cancel_order", /, **members: Any) -> Entry:
    """A tool that no rule matches, unless members are changed.

    Args:
        name: The tool's name.
        members: As on the wire; ``properties`` and ``schema`` for members of the input schema, and
            the fields of an entry that are not sent. A member that is None is omitted.
    """
    schema: dict[str, Any] = {
        "type": "object",
        "properties": members.pop("properties", {"order_id": ORDER}),
        **members.pop("schema", {}),
    }
    fields: dict[str, Any] = {
        field: members.pop(field)
        for field in (
            *("unknown_parameters", "foreign_names", "blocking_calls", "repeated_calls"),
            "lacks_text",
        )
        if field in members
    }
    raw = {
        "name": name,
        "description": "Cancel an order that has not been sent, and say what is paid back.",
        "inputSchema": schema,
        **members,
    }
    return _entry("tool", name, raw, **fields)


def _entry(kind: Kind, name: str, raw: dict[str, Any], **fields: Any) -> Entry:
    kept = {key: value for key, value in raw.items() if value is not None}
    return Entry(kind, name, kept, **fields)


def resource(uri: str = "orders://today", /, **members: Any) -> Entry:
    """A resource that no rule matches."""
    return _readable("resource", "uri", uri, members)


def template(uri: str = "orders://{id}", /, **members: Any) -> Entry:
    """A template that no rule matches."""
    return _readable("template", "uriTemplate", uri, members)


def skill(uri: str = "skill://orders/SKILL.md", /, **members: Any) -> Entry:
    """A skill that no rule matches."""
    usual = {"name": "orders", "description": "Cancel orders. Use it when a customer asks."}
    fields = {"fault": members.pop("fault", "")}
    return _entry("skill", uri, {"uri": uri, **usual, **members}, **fields)


def _readable(kind: Kind, key: str, uri: str, members: dict[str, Any]) -> Entry:
    usual = {"name": "orders", "description": "What was ordered.", "mimeType": "text/plain"}
    page = members.pop("page", None)
    return _entry(kind, uri, {key: uri, **usual, **members}, page=page)


def argument(name: str, description: str | None = "Which one.") -> dict[str, Any]:
    """An argument of a prompt."""
    return {"name": name} if description is None else {"name": name, "description": description}


def prompt(name: str = "complain", /, **members: Any) -> Entry:
    """A prompt that no rule matches."""
    raw = {"name": name, "description": "Write a letter to the shop.", **members}
    return _entry("prompt", name, raw)


def server(
    *entries: Entry,
    name: str = "shop",
    instructions: str = "Everything about the orders of the shop.",
    troubles: Sequence[str] = (),
    modern: bool = True,
) -> Listing:
    """A server that lists these."""
    return Listing(
        PER_REQUEST[-1] if modern else HANDSHAKE[-1],
        Entry("server", name, {"name": name, "version": "1.2.0"}),
        instructions,
        entries,
        troubles,
    )
