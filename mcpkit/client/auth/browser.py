"""The user's browser: opened with a URL, and redirected back to a port on this machine."""

from __future__ import annotations

import sys
import threading
import webbrowser
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from hmac import compare_digest
from html import escape
from typing import Any, Final, TypeAlias
from urllib.parse import parse_qsl, urlsplit

import anyio
from anyio.abc import SocketAttribute, SocketStream

from mcpkit.client.auth.base import AuthorizationFailed

PATH: Final = "/callback"
_HOST: Final = "127.0.0.1"
MAX_HEAD: Final = 32 * 1024
_HEAD_S: Final = 10.0
_BROKEN: Final = (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError)

Show: TypeAlias = Callable[[str], "Awaitable[object] | object"]
"""Shows a URL to the user: opens a browser, or prints the URL."""

_PAGE: Final = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
    '<meta name="viewport" content="width=device-width, initial-scale=1">'
    '<body style="font: 1.1rem system-ui, sans-serif; margin: 4rem auto; max-width: 30rem; '
    'padding: 0 1rem"><h1>{title}</h1><p>{text}</p>'
)


def open_browser(url: str) -> None:
    """Open a URL in the user's browser, and print it for users without a browser here.

    Only http and https are opened, and without a shell (SEC-19).
    """
    if urlsplit(url).scheme not in ("http", "https"):
        raise AuthorizationFailed("the URL for the login is not a web address")
    sys.stderr.write(f"Log in here, if no browser opens: {url}\n")
    sys.stderr.flush()

    def start() -> None:
        with suppress(webbrowser.Error):
            webbrowser.open(url)

    # Some browsers return only when the user closes them.
    threading.Thread(target=start, name="mcpkit-browser", daemon=True).start()


class Callback:
    """The URL on this machine to which the browser is redirected."""

    def __init__(self, port: int) -> None:
        self.redirect_uri = f"http://{_HOST}:{port}{PATH}"
        self.state = ""
        """The ``state`` that the redirect must have; requests without it are rejected."""
        self._arrived = anyio.Event()
        self._fields: dict[str, str] = {}

    async def wait(self) -> dict[str, str]:
        """Return the parameters of the redirect."""
        await self._arrived.wait()
        return self._fields

    async def serve(self, stream: SocketStream) -> None:
        """Answer one connection."""
        # Browsers open connections that they do not use, and other programs may connect too.
        with suppress(anyio.EndOfStream, *_BROKEN):
            async with stream:
                with anyio.move_on_after(_HEAD_S):
                    await self._serve(stream)

    async def _serve(self, stream: SocketStream) -> None:
        head = b""
        while b"\r\n\r\n" not in head and len(head) < MAX_HEAD:
            head += await stream.receive()
        fields, (status, title, text) = self._take(head)
        body = _PAGE.format(title=escape(title), text=escape(text)).encode()
        lines = (
            f"HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\n"
            f"Content-Length: {len(body)}\r\nCache-Control: no-store\r\n"
            "Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; "
            "frame-ancestors 'none'\r\n"
            "Referrer-Policy: no-referrer\r\nConnection: close\r\n\r\n"
        )
        try:
            await stream.send(lines.encode("ascii") + body)
        finally:
            # The listener closes once this is set: the user has to see the page first.
            if fields is not None and not self._arrived.is_set():
                self._fields = fields
                self._arrived.set()

    def _take(self, head: bytes) -> tuple[dict[str, str] | None, tuple[str, str, str]]:
        """Return the parameters of a request, if it is the redirect, and its response."""
        line = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
        path, _, query = line[1].partition("?") if len(line) == 3 else ("", "", "")
        if line[0] != "GET" or path != PATH:
            return None, ("404 Not Found", "Not found", "There is no such page.")
        pairs = parse_qsl(query, keep_blank_values=True)
        fields = dict(pairs)
        state = fields.get("state", "").encode()
        is_ours = self.state != "" and compare_digest(state, self.state.encode())
        if len(fields) != len(pairs) or not is_ours:
            # Another page, or another program, has sent the browser here (CSRF).
            return None, ("400 Bad Request", "Unexpected request", "Nothing was done.")
        if "error" in fields:
            return fields, ("200 OK", "The login has failed", "Your program has the details.")
        return fields, ("200 OK", "You are logged in", "You can close this page.")


@asynccontextmanager
async def listening(port: int = 0, *, strict: bool = False) -> AsyncGenerator[Callback, None]:
    """Listen on this machine for the redirect, inside the ``async with``."""
    try:
        listener = await anyio.create_tcp_listener(local_host=_HOST, local_port=port)
    except OSError:
        if strict:
            raise AuthorizationFailed(
                f"port {port}, to which the browser is redirected, is in use"
            ) from None
        listener = await anyio.create_tcp_listener(local_host=_HOST, local_port=0)
    bound: Any = listener.extra(SocketAttribute.local_port)
    found = Callback(int(bound))
    failure: BaseException | None = None
    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, found.serve)
        try:
            yield found
        except anyio.get_cancelled_exc_class():
            raise
        except BaseException as error:
            failure = error  # raised below: a task group would wrap it in an exception group
        finally:
            group.cancel_scope.cancel()
    if failure is not None:
        raise failure
