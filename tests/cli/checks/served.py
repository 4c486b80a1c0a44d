"""Servers for rules to look at, written as what they would list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mcpkit._protocol.revisions import HANDSHAKE, PER_REQUEST
from mcpkit.cli._check.listing import Entry, Kind, Served

__all__ = ["argument", "prompt", "resource", "server", "template", "tool"]

ORDER = {"type": "string", "description": "Such as A-17."}


def tool(name: str = "cancel_order", /, **members: Any) -> Entry:
    """A tool that no rule has anything to say about, unless members are changed.

    Args:
        name: The tool's name.
        members: As on the wire; ``properties`` and ``schema`` for the input schema, or for members
            of it. A member that is None is left out.
    """
    schema: dict[str, Any] = {
        "type": "object",
        "properties": members.pop("properties", {"order_id": ORDER}),
        **members.pop("schema", {}),
    }
    untyped = members.pop("untyped_data", None)
    hidden = members.pop("hidden_errors", ())
    unknown = members.pop("unknown_parameters", ())
    foreign = members.pop("foreign_names", ())
    times = members.pop("task_times", None)
    slow = members.pop("slow", "")
    raw = {
        "name": name,
        "description": "Cancel an order that has not been sent, and say what is paid back.",
        "inputSchema": schema,
        **members,
    }
    kept = {key: value for key, value in raw.items() if value is not None}
    return Entry(
        "tool",
        name,
        kept,
        untyped_data=untyped,
        hidden_errors=hidden,
        unknown_parameters=unknown,
        foreign_names=foreign,
        task_times=times,
        slow=slow,
    )


def resource(uri: str = "orders://today", /, **members: Any) -> Entry:
    """A resource that no rule has anything to say about."""
    return _readable("resource", "uri", uri, members)


def template(uri: str = "orders://{id}", /, **members: Any) -> Entry:
    """A template that no rule has anything to say about."""
    return _readable("template", "uriTemplate", uri, members)


def _readable(kind: Kind, key: str, uri: str, members: dict[str, Any]) -> Entry:
    raw = {
        key: uri,
        "name": "orders",
        "description": "What was ordered.",
        "mimeType": "text/plain",
        **members,
    }
    return Entry(kind, uri, {key: value for key, value in raw.items() if value is not None})


def argument(name: str, description: str | None = "Which one.") -> dict[str, Any]:
    """An argument of a prompt."""
    return {"name": name} if description is None else {"name": name, "description": description}


def prompt(name: str = "complain", /, **members: Any) -> Entry:
    """A prompt that no rule has anything to say about."""
    raw = {"name": name, "description": "Write a letter to the shop.", **members}
    return Entry("prompt", name, {key: value for key, value in raw.items() if value is not None})


def server(
    *entries: Entry,
    name: str = "shop",
    version: str | None = "1.2.0",
    instructions: str = "Everything about the orders of the shop.",
    capabilities: dict[str, Any] | None = None,
    troubles: Sequence[str] = (),
    modern: bool = True,
) -> Served:
    """A server that lists these."""
    raw = {"name": name} if version is None else {"name": name, "version": version}
    listed: dict[Kind, list[Entry]] = {}
    for entry in entries:
        listed.setdefault(entry.kind, []).append(entry)
    return Served(
        PER_REQUEST[-1] if modern else HANDSHAKE[-1],
        Entry("server", name, raw),
        instructions,
        capabilities or {},
        listed.get("tool", []),
        listed.get("resource", []),
        listed.get("template", []),
        listed.get("prompt", []),
        troubles,
    )
