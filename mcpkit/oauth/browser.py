"""The user's browser: where it is sent, and the place on this machine that it comes back to."""

from __future__ import annotations

import sys
import webbrowser
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from html import escape
from typing import Any, Final, TypeAlias
from urllib.parse import parse_qsl, urlsplit

import anyio
from anyio.abc import SocketAttribute, SocketStream

from mcpkit.oauth.errors import AuthorizationFailed

__all__ = ["PATH", "Return", "Show", "open_browser", "waiting"]

PATH: Final = "/callback"
_HOST: Final = "127.0.0.1"
_LONGEST_HEAD: Final = 32 * 1024
_HEAD_S: Final = 10.0
_BROKEN: Final = (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError)

Show: TypeAlias = Callable[[str], "Awaitable[object] | object"]
"""Shows an address to the user: given the URL, it opens a browser, or prints it."""

_PAGE: Final = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
    '<meta name="viewport" content="width=device-width, initial-scale=1">'
    '<body style="font: 1.1rem system-ui, sans-serif; margin: 4rem auto; max-width: 30rem; '
    'padding: 0 1rem"><h1>{title}</h1><p>{text}</p>'
)


def open_browser(url: str) -> None:
    """Open a URL in the user's browser, and say where it is, for whoever has none here.

    Only http and https are opened, and through no shell (SEC-19).

    Raises:
        AuthorizationFailed: It is something else.
    """
    if urlsplit(url).scheme not in ("http", "https"):
        raise AuthorizationFailed("the address for the login is no web address")
    sys.stderr.write(f"Log in here, if no browser opens: {url}\n")
    sys.stderr.flush()
    webbrowser.open(url)


class Return:
    """The place on this machine that the browser comes back to.

    Args:
        port: It listens on.
    """

    def __init__(self, port: int) -> None:
        self.redirect_uri = f"http://{_HOST}:{port}{PATH}"
        self.state = ""
        """What the browser has to bring along; anything else is not for us."""
        self._arrived = anyio.Event()
        self._fields: dict[str, str] = {}

    async def wait(self, seconds: float) -> dict[str, str]:
        """Return the parameters that the browser comes back with.

        Raises:
            AuthorizationFailed: It does not come.
        """
        with anyio.move_on_after(seconds):
            await self._arrived.wait()
            return self._fields
        raise AuthorizationFailed(f"nobody has logged in within {seconds:g} seconds")

    async def serve(self, stream: SocketStream) -> None:
        """Answer one connection.

        Browsers open some in advance, and close them without a word.
        """
        async with stream:
            with anyio.move_on_after(_HEAD_S), suppress(anyio.EndOfStream, *_BROKEN):
                head = b""
                while b"\r\n\r\n" not in head and len(head) < _LONGEST_HEAD:
                    head += await stream.receive()
                status, title, text = self._take(head)
                body = _PAGE.format(title=escape(title), text=escape(text)).encode()
                lines = (
                    f"HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\n"
                    f"Content-Length: {len(body)}\r\nCache-Control: no-store\r\n"
                    "Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; "
                    "frame-ancestors 'none'\r\n"
                    "Referrer-Policy: no-referrer\r\nConnection: close\r\n\r\n"
                )
                await stream.send(lines.encode("ascii") + body)

    def _take(self, head: bytes) -> tuple[str, str, str]:
        line = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
        target = urlsplit(line[1]) if len(line) == 3 else urlsplit("")
        if len(line) != 3 or line[0] != "GET" or target.path != PATH:
            return "404 Not Found", "Nothing is here", "This page is not there."
        pairs = parse_qsl(target.query, keep_blank_values=True)
        fields = dict(pairs)
        if len(fields) != len(pairs) or not self.state or fields.get("state") != self.state:
            # Another page, or another program, has sent the browser here (CSRF).
            return "400 Bad Request", "This is not what was asked for", "Nothing was done."
        if not self._arrived.is_set():
            self._fields = fields
            self._arrived.set()
        if "error" in fields:
            return "200 OK", "The login has failed", "You can close this page."
        return "200 OK", "You have logged in", "You can close this page."


@asynccontextmanager
async def waiting(port: int = 0, *, strict: bool = False) -> AsyncGenerator[Return, None]:
    """Listen on this machine for the browser to come back, inside the ``async with``.

    Args:
        port: To listen on, if it is free; 0 for any.
        strict: Take no other one: the issuer knows this one.

    Raises:
        AuthorizationFailed: It is not free.
    """
    try:
        listener = await anyio.create_tcp_listener(local_host=_HOST, local_port=port)
    except OSError:
        if strict:
            raise AuthorizationFailed(
                f"the browser cannot come back to port {port}: somebody listens there already"
            ) from None
        listener = await anyio.create_tcp_listener(local_host=_HOST, local_port=0)
    bound: Any = listener.extra(SocketAttribute.local_port)
    found = Return(int(bound))
    failed: Exception | None = None
    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, found.serve)
        try:
            yield found
        except Exception as error:
            failed = error  # which the group would put into an exception of its own
        finally:
            group.cancel_scope.cancel()
    if failed is not None:
        raise failed
