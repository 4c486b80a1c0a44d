"""The server card: tells clients about a server before they connect (SEP-2127, a draft)."""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Any, Final

from mcpkit._protocol import wire
from mcpkit._protocol.messages import encode
from mcpkit._protocol.revisions import REVISIONS
from mcpkit._utils.json import is_object
from mcpkit.http import Receive, Scope, Send, by_name
from mcpkit.transports.http.http_error import HttpError, Pairs, respond, send_error
from mcpkit.transports.http.options import CardOptions, HttpSettings
from mcpkit.transports.http.security import canonical_url
from mcpkit.types import Implementation

_SCHEMA: Final = "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json"
_NAME: Final = re.compile(r"[A-Za-z0-9.-]+/[A-Za-z0-9._-]+")
_RANGE: Final = re.compile(r"[\^~<>=*|]|\.x\b|\s-\s")
_LENGTHS: Final = {
    "name": (3, 200),
    "title": (1, 100),
    "description": (1, 100),
    "version": (1, 255),
}
_TYPE: Final = (b"content-type", b"application/mcp-server-card+json")  # CARD-2

_CORS: Final[Pairs] = [  # CARD-8
    (b"access-control-allow-origin", b"*"),
    (b"access-control-allow-methods", b"GET"),
    (b"access-control-allow-headers", b"Content-Type, If-None-Match"),
    (b"access-control-expose-headers", b"ETag"),
]


def make_card(info: Implementation, settings: HttpSettings) -> dict[str, Any]:
    """Return the card of a server (CARD-3…7).

    Raises `TypeError` or `ValueError` if an option is wrong, or a member is missing or too long.
    """
    given: Any = {} if settings.card is True else settings.card
    if not is_object(given) or given.keys() - CardOptions.__optional_keys__:
        known = ", ".join(sorted(CardOptions.__optional_keys__))
        raise TypeError(f"card={given!r}: pass True, or a dict with some of {known}")
    card: dict[str, Any] = wire.some(
        name=given.get("name", info.name),
        version=info.version,
        title=info.title,
        description=given.get("description", info.description) or "",
        websiteUrl=info.website_url,
        icons=wire.icons_to_wire(info.icons),
        repository=given.get("repository"),
    )
    for member, (least, most) in _LENGTHS.items():
        value = card.get(member, "-")
        if not isinstance(value, str) or not least <= len(value) <= most:
            raise ValueError(
                f"card: the {member} needs {least} to {most} characters, not {value!r}; pass "
                f"MCPKit({member}=…)"
            )
    if _NAME.fullmatch(card["name"]) is None:
        raise ValueError(
            f"card: {card['name']!r} is not a name like com.example/weather, a domain of yours, "
            f'reversed, and a name; pass card={{"name": …}}'
        )
    if _RANGE.search(card["version"]):
        raise ValueError(f"card: {card['version']!r} is a range of versions, not one")
    if not {"source", "url"} <= {*card.get("repository", ("source", "url"))}:
        raise ValueError('card: a repository has a "url" and a "source", such as "github"')
    if settings.public_url is not None:  # what a request says may be an internal address (CARD-10)
        versions = [each.version for each in REVISIONS]
        remote = {"type": "streamable-http", "url": canonical_url(settings.public_url)}
        card["remotes"] = [{**remote, "supportedProtocolVersions": versions}]
    return {"$schema": _SCHEMA, **card}


class ServerCard:
    """Serves the card of a server, to every caller and to pages of every origin (CARD-10).

    It is the same for all of them, so neither ``Host`` nor ``Origin`` is checked.
    """

    def __init__(self, info: Implementation, settings: HttpSettings) -> None:
        self._body = encode(make_card(info, settings))
        self._tag = f'"{sha256(self._body).hexdigest()[:32]}"'.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request (CARD-8, CARD-9)."""
        method = scope["method"]
        if method == "OPTIONS":
            await respond(send, 204, _CORS)
        elif method not in ("GET", "HEAD"):
            headers = [(b"allow", b"GET"), *_CORS]
            await send_error(send, HttpError(405, "Only GET is answered here", headers))
        else:
            headers = [(b"etag", self._tag), (b"cache-control", b"public, max-age=3600"), *_CORS]
            known = by_name(scope["headers"]).get(b"if-none-match", b"").split(b",")
            if not {self._tag, b"*"}.isdisjoint(each.strip().removeprefix(b"W/") for each in known):
                await respond(send, 304, headers)
            else:
                await respond(send, 200, [_TYPE, *headers], self._body, head=method == "HEAD")
