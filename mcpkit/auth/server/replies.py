"""Answers of an authorization server."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from mcpkit.auth.server import pages

__all__ = ["ANY_ORIGIN", "Reply", "json_of", "page", "see"]


@dataclass
class Reply:
    """An answer."""

    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict[str, str])
    cookies: list[str] = field(default_factory=list[str])

    async def send(self, method: str, send: Any) -> None:
        """Send it."""
        pairs = [(name.lower(), value) for name, value in self.headers.items()]
        pairs += [("set-cookie", each) for each in self.cookies]
        if self.status != 204:
            pairs.append(("content-length", str(len(self.body))))
        headers = [(name.encode("ascii"), value.encode("ascii")) for name, value in pairs]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if method == "HEAD" else self.body})


ANY_ORIGIN: Final = {"Access-Control-Allow-Origin": "*"}


def json_of(value: Mapping[str, Any], status: int = 200) -> Reply:
    """Return JSON, which nobody may keep unless the answer says so."""
    headers = {"Content-Type": "application/json", "Cache-Control": "no-store"}
    return Reply(status, json.dumps(value).encode(), headers)


def page(text: str, status: int = 200, targets: tuple[str, ...] = ()) -> Reply:
    """Return a page; `targets` are where its forms lead in the end."""
    headers = {"Content-Type": "text/html; charset=utf-8", **pages.headers_of(targets)}
    return Reply(status, text.encode(), headers)


def see(url: str) -> Reply:
    """Send the browser elsewhere, with GET (RFC 9700, 4.12)."""
    headers = {"Location": url, "Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}
    return Reply(303, headers=headers)
