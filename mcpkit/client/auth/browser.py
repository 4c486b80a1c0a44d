"""The user's browser: where it is sent, and the place on this machine that it comes back to."""

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

from mcpkit.client.auth.errors import AuthorizationFailed

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

    def begin() -> None:
        with suppress(webbrowser.Error):
            webbrowser.open(url)

    # Some of them only return when the user closes them.
    threading.Thread(target=begin, name="mcpkit-browser", daemon=True).start()


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

    async def wait(self) -> dict[str, str]:
        """Return the parameters that the browser comes back with."""
        await self._arrived.wait()
        return self._fields

    async def serve(self, stream: SocketStream) -> None:
        """Answer one connection."""
        # Browsers open connections that they do not need, and anybody here may come along.
        with suppress(anyio.EndOfStream, *_BROKEN):
            async with stream:
                with anyio.move_on_after(_HEAD_S):
                    await self._serve(stream)

    async def _serve(self, stream: SocketStream) -> None:
        head = b""
        while b"\r\n\r\n" not in head and len(head) < _LONGEST_HEAD:
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
            # Nobody listens any more once this is known: the user is to see the page before.
            if fields is not None and not self._arrived.is_set():
                self._fields = fields
                self._arrived.set()

    def _take(self, head: bytes) -> tuple[dict[str, str] | None, tuple[str, str, str]]:
        """Return what a request brings, if it is the one, and how it is answered."""
        line = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
        path, _, query = line[1].partition("?") if len(line) == 3 else ("", "", "")
        if line[0] != "GET" or path != PATH:
            return None, ("404 Not Found", "Nothing is here", "This page is not there.")
        pairs = parse_qsl(query, keep_blank_values=True)
        fields = dict(pairs)
        state = fields.get("state", "").encode()
        is_ours = self.state != "" and compare_digest(state, self.state.encode())
        if len(fields) != len(pairs) or not is_ours:
            # Another page, or another program, has sent the browser here (CSRF).
            said = "400 Bad Request", "This is not what was asked for", "Nothing was done."
            return None, said
        back = "Go back to your program, which says more. You can close this page."
        title = "The login has failed" if "error" in fields else "Your program has the answer"
        return fields, ("200 OK", title, back)


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
    failure: BaseException | None = None
    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, found.serve)
        try:
            yield found
        except anyio.get_cancelled_exc_class():
            raise
        except BaseException as error:
            failure = error  # raised below: a task group would put it into a group
        finally:
            group.cancel_scope.cancel()
    if failure is not None:
        raise failure
