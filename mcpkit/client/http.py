"""A client's way to a server over HTTP: Streamable HTTP of every revision, and HTTP+SSE.

A request is one exchange: the task that asks sends the POST, reads the response, and passes on what
stands before the answer. So a request that is cancelled closes its response, and a client that
leaves has nothing to look for. Beside the exchanges there is at most one stream that the server
may use at any time (handshake revisions).
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Final

import anyio
import httpx2

from mcpkit._concurrency.loop import Loop
from mcpkit._protocol.client_connection import Sent, parse, read
from mcpkit._protocol.headers import (
    HeaderParameter,
    declared_in,
    encode_value,
    parameter_headers,
)
from mcpkit._utils.fetch import reason_of, tls_for
from mcpkit._utils.json import is_object
from mcpkit._utils.logs import get_logger
from mcpkit._utils.text import truncate
from mcpkit.client.event_stream import MAX_EVENT_BYTES, EventStream, EventTooLarge
from mcpkit.errors import ConnectionClosed, ProtocolError

if TYPE_CHECKING:
    from mcpkit.client.auth.base import HttpAuth, HttpRequest

__all__ = ["HttpLink"]

log = get_logger("mcpkit.client")

_JSON: Final = "application/json"
_EVENTS: Final = "text/event-stream"
_SESSION: Final = "Mcp-Session-Id"
_VERSION: Final = "MCP-Protocol-Version"

_CONNECT_S: Final = 10.0
"""Seconds until a server must have accepted a connection."""

_MAX_RESUMPTIONS: Final = 5
"""Times that a stream which brings nothing new is resumed."""

_SHORTEST_PAUSE_S: Final = 0.05
"""Seconds before a stream is taken up again, whatever it says; twice as many each time it has
brought nothing."""

_MAX_REDIRECTS: Final = 5
"""Redirects of one request."""

_MAX_CHARS_SHOWN: Final = 200
"""Characters of a foreign answer that an error repeats."""

_MAX_FOREIGN_BYTES: Final = 1024 * 1024
"""Bytes that are read at most of a body that is no answer."""

_FOREIGN_S: Final = 2.0
"""Seconds that the reading of such a body may take."""

_COURTESY_S: Final = 1.0
"""Seconds for each step of leaving in order, such as the end of a stream or of the session."""

_OPEN_STREAM_S: Final = 0.5
"""Seconds to wait until the server's own stream is open, so that nothing it tells is missed."""

_WANTS_TOKEN: Final = re.compile(r"(?:^|,)[ \t]*(?:Bearer|DPoP)(?![^ \t,])", re.IGNORECASE)
"""A challenge for a token, among those of ``WWW-Authenticate`` (RFC 9110, 11.6.1)."""

_OF_ONE_SESSION: Final = (
    None,  # an answer
    "initialize",
    "notifications/initialized",
    "notifications/cancelled",
)
"""Methods of what belongs to one session, and means nothing to the next."""

Answered = Callable[[], bool]
"""Returns True once the answer to a request has arrived."""


_MAX_POSTPONED: Final = 5
_MAX_REFUSED: Final = 4
"""Times that a request is sent again with another token."""

_LONGEST_PAUSE_S: Final = 10.0
"""Seconds, and how often, for which a server may have a request come again later."""


class _SessionLost(ConnectionClosed):
    """The server does not know the session any more (HTTPL-16)."""


class HttpLink:
    """A server behind a URL.

    Args:
        url: The endpoint.
        loop: Runs the reading of streams that belong to no request.
        on_text: Called with each message of the server.
        on_close: Called when nothing more can come (HTTP+SSE).
        renew: Makes a new handshake, when the server has forgotten the session.
        headers: Sent with every request, such as ``Authorization``.
        http_client: Used instead of a client of our own, and not closed.
        auth: Adds a token to requests, and gets another one if it is refused.
        unhurried: Returns a context manager, inside of which nothing that waits runs out of time.

    Attributes:
        status: The HTTP status of the latest answer to a message; None if there was none.
        version: The revision that a handshake has agreed on; None before one.

    Raises:
        ValueError: The URL is malformed, or names no host.
    """

    def __init__(
        self,
        url: str,
        loop: Loop,
        on_text: Callable[[bytes], None],
        on_close: Callable[[], None],
        renew: Callable[[], Awaitable[None]],
        *,
        headers: Mapping[str, str] | None = None,
        http_client: httpx2.AsyncClient | None = None,
        auth: HttpAuth | None = None,
        unhurried: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        try:
            self._url = httpx2.URL(url)
        except httpx2.InvalidURL as error:
            raise ValueError(f"{url!r} is not a URL: {error}") from None
        if not self._url.host:
            raise ValueError(f"{url!r} is not a URL: it names no host")
        self._loop = loop
        self._on_text = on_text
        self._on_close = on_close
        self._renew = renew
        self._renewing = anyio.Lock()
        self._headers = httpx2.Headers(headers)
        self._auth = auth
        self._server = str(self._url)
        self._token = ""
        self._without_timeout = unhurried
        self._owned = None if http_client is not None else _client_of_our_own(self._server)
        client = http_client or self._owned
        assert client is not None
        self._client: httpx2.AsyncClient = client
        connecting = client.timeout.connect
        self._timeout = httpx2.Timeout(None, connect=connecting)
        self._declared: dict[str, tuple[HeaderParameter, ...]] = {}
        self._session: str | None = None
        self._endpoint: httpx2.URL | None = None
        self._exchanges: set[anyio.CancelScope] = set()
        self._stop_listening: Callable[[], object] = _nothing
        self.status: int | None = None
        self.version: str | None = None

    # --- exchanges --------------------------------------------------------------------------------

    async def send_text(self, text: bytes) -> None:
        """Send a message that somebody else has written; the answers are passed on later.

        Raises:
            ConnectionClosed: The message is no request, and did not reach the server.
        """
        sent = read(text)
        if sent.id is None:
            await self.exchange(sent)
            return

        async def carry() -> None:
            try:
                await self.exchange(sent)
            except (ConnectionClosed, ProtocolError) as error:
                log.warning("%s was not answered: %s", sent.method, error)

        self._start(carry())

    async def exchange(self, sent: Sent, answered: Answered | None = None) -> None:
        """Send a message, and pass on what comes back until it has been answered.

        Args:
            sent: The message.
            answered: Returns True once the answer has been passed on; None if that does not
                matter.

        Raises:
            ConnectionClosed: The server cannot be reached, refuses in words that are not MCP's, or
                ends before it has answered.
            ProtocolError: The server refuses.
        """
        scope = anyio.CancelScope()
        self._exchanges.add(scope)
        try:
            with scope:
                await self._exchange(sent, answered)
                return
        finally:
            self._exchanges.discard(scope)
        raise ConnectionClosed("The client has left the server")

    async def _exchange(self, sent: Sent, answered: Answered | None) -> None:
        if sent.method in _OF_ONE_SESSION:
            await self._post(sent, answered)
            return
        if self._renewing.locked():
            async with self._renewing:
                pass
        session = self._session
        try:
            await self._post(sent, answered)
        except _SessionLost:
            # A request in an unknown session was not processed, so it may be sent again, once.
            async with self._renewing:
                if self._session == session:
                    await self._begin_again()
            await self._post(sent, answered)

    async def _begin_again(self) -> None:
        session, version = self._session, self.version
        try:
            await self._renew()
        except BaseException:
            # The next request is to find out in the same way that there is no session.
            self._session, self.version = session, version
            raise

    async def _post(self, sent: Sent, answered: Answered | None) -> None:
        self.status = None
        if sent.method == "initialize" and self._endpoint is None:
            self._forget_session()
        in_session = self._session is not None and sent.version is None
        url = self._endpoint or self._url
        response = await self._send("POST", url, self._headers_of(sent), sent.text)
        self.status = response.status_code
        kind = _type_of(response) if self._endpoint is None else ""
        if response.is_success and sent.method == "initialize" and self._endpoint is None:
            self._session = response.headers.get(_SESSION)
        if response.is_success and kind == _EVENTS:
            await self._follow(response, sent, answered)
            return
        is_answer = response.is_success and kind == _JSON
        try:
            body = await (
                self._read(response, MAX_EVENT_BYTES) if is_answer else self._read_foreign(response)
            )
        finally:
            await _close(response)
        if response.is_success and self._endpoint is not None:
            return  # whatever is said to it comes on the stream
        if is_answer and body:
            self._on_text(body)
            if answered is not None and not answered():
                raise _error_in(body) or self._foreign(response, body)
        elif response.status_code == 404 and in_session:
            raise _SessionLost(f"{self._shown} does not know the session any more")
        elif not response.is_success or answered is not None:
            error = _error_in(body)
            if error is None or answered is not None or sent.id is None:
                raise self._with_advice(error or self._foreign(response, body), response)
            self._on_text(body)

    def _headers_of(self, sent: Sent) -> dict[str, str]:
        headers = {"Accept": f"{_JSON}, {_EVENTS}", "Content-Type": _JSON}
        if sent.version is None:
            return {**headers, **self._session_headers(handshake=sent.method == "initialize")}
        headers[_VERSION] = sent.version
        if sent.method is not None:
            headers["Mcp-Method"] = sent.method
        if sent.name is not None:
            headers["Mcp-Name"] = encode_value(sent.name)
            headers.update(parameter_headers(self._declared.get(sent.name, ()), sent.arguments))
        return headers

    def _session_headers(self, *, handshake: bool = False) -> dict[str, str]:
        headers: dict[str, str] = {}
        if self._session is not None:
            headers[_SESSION] = self._session
        if self.version is not None and not handshake:
            headers[_VERSION] = self.version
        return headers

    # --- event streams ----------------------------------------------------------------------------

    async def _follow(
        self, response: httpx2.Response, sent: Sent, answered: Answered | None
    ) -> None:
        """Read a stream until it has the answer, over as many connections as that takes."""
        stream = EventStream(limit=MAX_EVENT_BYTES)
        barren = idle = 0
        found: httpx2.Response | None = response
        while True:
            before = stream.last_id
            brought = 0 if found is None else await self._pump(found, stream, answered)
            if answered is None or answered():
                return
            if sent.version is not None or not stream.last_id:
                break
            barren = barren + 1 if stream.last_id == before else 0
            if barren >= _MAX_RESUMPTIONS:
                break
            idle = 0 if brought else idle + 1
            # "The client MUST respect the retry field" (HTTPL-7).
            await anyio.sleep(max(stream.retry / 1000, _shortest_pause(idle)))
            found = await self._resume(stream)
        raise ConnectionClosed(
            f"{self._shown} ended the stream that was to answer {sent.method} without the answer"
        )

    async def _resume(self, stream: EventStream) -> httpx2.Response | None:
        """Take up a stream where it broke off (HTTPL-13); None if that did not work yet.

        Raises:
            ConnectionClosed: The server refuses to.
        """
        try:
            response = await self._get(stream)
        except ConnectionClosed as error:
            log.info("a stream could not be taken up again: %s", error)
            return None
        if response.status_code == 200 and _type_of(response) == _EVENTS:
            return response
        try:
            if response.status_code < 500:
                foreign = self._foreign(response, await self._read_foreign(response))
                raise ConnectionClosed(
                    f"A stream broke off and cannot be taken up again: {foreign}"
                )
            return None
        finally:
            await _close(response)

    async def _get(self, stream: EventStream) -> httpx2.Response:
        headers: dict[str, str | bytes] = {"Accept": _EVENTS, **self._session_headers()}
        if stream.last_id:
            headers["Last-Event-ID"] = stream.last_id
        return await self._send("GET", self._url, headers)

    async def _pump(
        self, response: httpx2.Response, stream: EventStream, answered: Answered | None
    ) -> int:
        """Pass on the messages of a connection until it ends, or has brought the answer.

        The response is closed afterwards, or will be.

        Returns:
            The number of messages.
        """
        stream.connect()
        chunks = await self._body_of(response)
        brought = 0
        ending = False
        try:
            async for chunk in chunks:
                for event in stream.feed(chunk):
                    # Events without data only have an id to resume from (HTTPL-6).
                    if event.data and event.type == "message":
                        brought += 1
                        self._on_text(event.data)
                if answered is not None and answered():
                    ending = True
                    break
        except httpx2.HTTPError as error:
            log.info("a stream of %s broke off: %s", self._shown, _reason(error))
        except EventTooLarge as error:
            raise ConnectionClosed(f"{self._shown} sends too much: {error}") from None
        finally:
            if not ending:
                await _close(response, chunks)
        if ending:
            self._start(_let_end(response, chunks))
        return brought

    async def _body_of(self, response: httpx2.Response) -> AsyncGenerator[bytes, None]:
        """Return the bytes of an answer as they arrive.

        Raises:
            ConnectionClosed: They are compressed, so that a few of them may be any number; the
                response is closed.
        """
        coding = response.headers.get("Content-Encoding", "identity").strip().lower()
        if coding in ("", "identity"):
            return response.aiter_bytes()
        await _close(response)
        raise ConnectionClosed(
            f"{self._shown} answers in the content coding {truncate(coding)}, "
            f"which it was not asked for"
        )

    # --- the server's own stream ------------------------------------------------------------------

    async def listen(self) -> None:
        """Open the stream on which the server tells things unasked, if it has one (HTTPL-8)."""
        if self._endpoint is not None:
            return
        self._stop_listening()
        opened = anyio.Event()
        self._stop_listening = self._start(self._listen(opened))
        with anyio.move_on_after(_OPEN_STREAM_S):
            await opened.wait()

    async def _listen(self, opened: anyio.Event) -> None:
        stream = EventStream(limit=MAX_EVENT_BYTES)
        failures = idle = fruitless = 0
        try:
            while failures <= _MAX_RESUMPTIONS:
                before = stream.last_id
                try:
                    response = await self._get(stream)
                except ConnectionClosed:
                    failures += 1
                else:
                    opened.set()
                    if response.status_code != 200 or _type_of(response) != _EVENTS:
                        log.debug("no stream beside requests: %d", response.status_code)
                        await _close(response)
                        return
                    brought = await self._pump(response, stream, None)
                    failures = 0
                    idle = 0 if brought else idle + 1
                    fruitless = 0 if stream.last_id != before else fruitless + 1
                longer = 2 ** max(min(fruitless, _MAX_RESUMPTIONS) + failures - 1, 0)
                await anyio.sleep(max(stream.retry / 1000 * longer, _shortest_pause(idle)))
        except ConnectionClosed as error:
            log.warning("the server's own stream has ended: %s", error)
        finally:
            opened.set()

    def _forget_session(self) -> None:
        self._stop_listening()
        self._stop_listening = _nothing
        self._session = None
        self.version = None

    # --- HTTP+SSE (2024-11-05) --------------------------------------------------------------------

    def is_old(self) -> bool:
        """Return True if the latest refusal and the path both look like HTTP+SSE."""
        return self.status in (404, 405) and self._url.path.endswith("/sse")

    async def look_for_endpoint(self, limit: float) -> bool:
        """Try a GET, as clients of HTTP+SSE do (ERA-12).

        Args:
            limit: Seconds to wait for the first event of the stream.

        Returns:
            True if it brings the stream of HTTP+SSE, which is used from now on.

        Raises:
            ConnectionClosed: The endpoint is of another origin.
        """
        found = anyio.Event()
        foreign: list[str] = []

        def take(data: bytes) -> None:
            named = data.decode(errors="replace").strip()
            endpoint = _joined(self._url, named)
            if endpoint is not None and _origin(endpoint) == _origin(self._url):
                self._endpoint = endpoint
            else:
                foreign.append(truncate(named, _MAX_CHARS_SHOWN))
            found.set()

        stop = self._start(self._read_old(take, found))
        with anyio.move_on_after(limit):
            await found.wait()
        if self._endpoint is None:
            stop()
        else:
            self._stop_listening = stop
        if foreign:
            raise ConnectionClosed(
                f"{self._shown} wants messages to be sent to another origin, {foreign[0]}"
            )
        return self._endpoint is not None

    async def _read_old(self, take: Callable[[bytes], None], found: anyio.Event) -> None:
        stream = EventStream(limit=MAX_EVENT_BYTES)
        try:
            response = await self._get(stream)
            chunks = await self._body_of(response)
            try:
                if response.status_code != 200 or _type_of(response) != _EVENTS:
                    return
                async for chunk in chunks:
                    for event in stream.feed(chunk):
                        if event.type == "message" and found.is_set():
                            self._on_text(event.data)
                        elif event.type == "endpoint" and not found.is_set():
                            take(event.data)
            finally:
                await _close(response, chunks)
        except (ConnectionClosed, httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
            log.info("the stream of %s has ended: %s", self._shown, error)
        finally:
            found.set()
            if self._endpoint is not None:
                self._on_close()

    # --- beside the exchanges ---------------------------------------------------------------------

    def _start(self, work: Coroutine[Any, Any, None]) -> Callable[[], object]:
        """Start a task that nobody waits for; return the function that cancels it."""

        async def run() -> None:
            try:
                await work
            except Exception:
                # An HTTP client that is not ours may raise anything.
                log.exception("a stream of %s failed", self._shown)

        return self._loop.start(run())

    # --- parameters in headers --------------------------------------------------------------------

    def learn(self, tool: str, schema: Mapping[str, Any]) -> None:
        """Remember which arguments of a listed tool are repeated in headers.

        Args:
            tool: Its name.
            schema: Its input schema, as on the wire.

        Raises:
            ValueError: The tool must not be used, because its schema is wrong (HDR-3).
        """
        self._declared.pop(tool, None)
        self._declared[tool] = declared_in(schema)

    def known(self, tool: str) -> tuple[HeaderParameter, ...] | None:
        """Return the parameters of a tool that are repeated in headers; None if not learnt."""
        return self._declared.get(tool)

    # --- one HTTP request -------------------------------------------------------------------------

    @property
    def _shown(self) -> str:
        return _without_secrets(self._url)

    async def _send(
        self,
        method: str,
        url: httpx2.URL,
        headers: Mapping[str, str | bytes],
        content: bytes | None = None,
        *,
        may_log_in: bool = True,
    ) -> httpx2.Response:
        """Return the response to a request, its body still to be read.

        Args:
            method: Of the request.
            url: Where it goes.
            headers: Of it.
            content: Its body.
            may_log_in: False if it is not worth another token.

        Raises:
            ConnectionClosed: There is no response.
        """
        if self._client.is_closed:
            raise ConnectionClosed("The client has left the server")
        merged = self._headers.copy()
        merged.update({_bytes(name): _bytes(value) for name, value in headers.items()})
        merged["Accept-Encoding"] = "identity"
        detours = postponed = refused = 0
        while detours < _MAX_REDIRECTS:
            tokens: Mapping[str, str] = {}
            sent = merged
            asked: HttpRequest | None = None
            if self._auth is not None:
                from mcpkit.client.auth.base import HttpRequest  # loaded by whoever has an auth

                asked = HttpRequest(method, str(url), self._server)
                tokens = await self._auth.headers(asked)
                sent = merged.copy()
                sent.update(tokens)
                self._token = tokens.get("Authorization", "").rpartition(" ")[2]
            request = self._client.build_request(
                method, url, headers=sent, content=content, timeout=self._timeout
            )
            try:
                response = await self._client.send(request, stream=True, follow_redirects=False)
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
                shown = _without_secrets(url)
                is_slow = isinstance(error, httpx2.ConnectTimeout)
                reason = "it takes too long" if is_slow else _reason(error)
                raise ConnectionClosed(f"Cannot connect to {shown}: {reason}") from error
            except httpx2.HTTPError as error:
                shown = _without_secrets(url)
                raise ConnectionClosed(f"{shown} does not answer: {_reason(error)}") from error
            pause = _pause_before_retry(response)
            if pause is not None and postponed < _MAX_POSTPONED:
                await _close(response)
                postponed += 1
                log.info("%s asks to wait for %g s", _without_secrets(url), pause)
                await anyio.sleep(pause)
                continue
            if asked is not None and may_log_in and response.status_code in (401, 403):
                refused += 1
                answer = {
                    name.lower(): response.headers.get_list(name)
                    for name in ("WWW-Authenticate", "DPoP-Nonce")
                    if name in response.headers
                }
                if refused <= _MAX_REFUSED and await self._is_granted(
                    asked, tokens, response, answer
                ):
                    continue
            target = self._detour(url, response)
            if target is None:
                return response
            await _close(response)
            detours += 1
            if url == self._url:
                self._url = target
            url = target
        raise ConnectionClosed(f"{_without_secrets(url)} redirects again and again")

    async def _is_granted(
        self,
        request: HttpRequest,
        sent: Mapping[str, str],
        response: httpx2.Response,
        answer: Mapping[str, list[str]],
    ) -> bool:
        """Return True if there is another token for a request; its answer is closed then."""
        assert self._auth is not None
        try:
            with self._without_timeout():
                granted = await self._auth.refused(request, sent, response.status_code, answer)
        except BaseException:
            await _close(response)
            raise
        if granted:
            await _close(response)
        return granted

    def _detour(self, url: httpx2.URL, response: httpx2.Response) -> httpx2.URL | None:
        """Return the target of a redirect, if the request may go there: to the same origin."""
        if response.status_code not in (307, 308):
            return None
        target = _joined(url, response.headers.get("Location", ""))
        return target if target is not None and _origin(target) == _origin(url) else None

    def _foreign(self, response: httpx2.Response, body: bytes) -> ConnectionClosed:
        status = f"{response.status_code} {response.reason_phrase}".strip()
        said = " ".join(body[: 8 * _MAX_CHARS_SHOWN].decode(errors="replace").split())
        if self._token:
            said = said.replace(self._token, "…")  # some repeat what they refuse (SEC-13)
        location = response.headers.get("Location")
        if response.is_redirect and location:
            said = f"a redirect to {truncate(location, _MAX_CHARS_SHOWN)}, which is not followed"
        elif len(said) > _MAX_CHARS_SHOWN:
            said = f"{said[:_MAX_CHARS_SHOWN]}…"
        if response.is_success:
            status += f" with {_type_of(response) or 'no content'} instead of an answer"
        return ConnectionClosed(f"{self._shown} answered {status}" + (f": {said}" if said else ""))

    def _with_advice(
        self, error: ConnectionClosed | ProtocolError, response: httpx2.Response
    ) -> ConnectionClosed | ProtocolError:
        """Return an error, which says what to do if a token is wanted and nobody has sent one."""
        wants_token = response.status_code == 401 and _WANTS_TOKEN.search(
            ",".join(response.headers.get_list("WWW-Authenticate"))
        )
        if wants_token and self._auth is None and "Authorization" not in response.request.headers:
            advice = "pass auth=mcpkit.client.auth.OAuth() to log in, or auth= with a token"
            error.args = (f"{error}; {advice}",)
        return error

    async def _read(self, response: httpx2.Response, limit: int) -> bytes:
        parts: list[bytes] = []
        size = 0
        chunks = await self._body_of(response)
        try:
            async for chunk in chunks:
                size += len(chunk)
                if size > limit:
                    raise ConnectionClosed(f"{self._shown} sends too much: more than {limit} bytes")
                parts.append(chunk)
        except httpx2.HTTPError as error:
            reason = _reason(error)
            raise ConnectionClosed(f"{self._shown} broke off its answer: {reason}") from error
        except BaseException:
            await _interrupt(chunks)
            raise
        return b"".join(parts)

    async def _read_foreign(self, response: httpx2.Response) -> bytes:
        """Return the body of what is no answer; empty if it is long in coming, or too long."""
        if _type_of(response) == _EVENTS:
            return b""
        try:
            with anyio.move_on_after(_FOREIGN_S):
                return await self._read(response, _MAX_FOREIGN_BYTES)
        except ConnectionClosed:
            pass
        return b""

    # --- leaving ----------------------------------------------------------------------------------

    async def aclose(self) -> None:
        """Leave: what runs is closed, and a session is ended (HTTPL-17)."""
        self._stop_listening()
        for scope in self._exchanges:
            scope.cancel()
        if self._session is not None:
            with anyio.move_on_after(_COURTESY_S):
                await self._end_session()
        if self._owned is not None:
            with anyio.move_on_after(_COURTESY_S):
                await self._owned.aclose()

    async def _end_session(self) -> None:
        try:
            headers = self._session_headers()
            await _close(await self._send("DELETE", self._url, headers, may_log_in=False))
        except Exception as error:  # whatever it is, the client leaves
            log.debug("the session could not be ended: %s", error)


def _client_of_our_own(url: str) -> httpx2.AsyncClient:
    """Return a client for requests to a URL, and to others of its origin."""
    # Connections are given up before servers do so, which end idle ones after five seconds: a
    # request would cross the end on its way.
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=20, keepalive_expiry=4)
    timeout = httpx2.Timeout(None, connect=_CONNECT_S)
    return httpx2.AsyncClient(verify=tls_for(url), timeout=timeout, limits=limits)


def _nothing() -> None:
    """Stop nothing, because nothing listens."""


def _type_of(response: httpx2.Response) -> str:
    kind: str = response.headers.get("Content-Type", "")
    return kind.partition(";")[0].strip().lower()


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    port = url.port if url.port is not None else {"http": 80, "https": 443}.get(url.scheme)
    return url.scheme, url.host, port


def _joined(base: httpx2.URL, reference: str) -> httpx2.URL | None:
    """Return the URL that a reference of a server names; None if it names none."""
    try:
        found = base.join(reference)
        return found if found.host else None
    except (httpx2.InvalidURL, ValueError):  # the latter of names that are no domains
        return None


def _shortest_pause(idle: int) -> float:
    """Return the least seconds before a stream is taken up that brought nothing so many times."""
    return _SHORTEST_PAUSE_S * (1 << max(min(idle, _MAX_RESUMPTIONS) - 1, 0))


def _bytes(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode()


def _pause_before_retry(response: httpx2.Response) -> float | None:
    """Return the seconds after which a request may be sent again that came too early.

    It has not been processed then (RFC 6585, 4); None if it is not so, or a person should know.
    """
    said = response.headers.get("Retry-After", "")
    if response.status_code != 429 or not said.isascii() or not said.isdigit():
        return None
    seconds = float(said[:10])
    return seconds if seconds <= _LONGEST_PAUSE_S else None


def _without_secrets(url: httpx2.URL) -> str:
    return str(url.copy_with(userinfo=b"", query=None, fragment=None))


def _reason(error: Exception) -> str:
    said = reason_of(error) if isinstance(error, httpx2.NetworkError) else ""
    return said or str(error) or type(error).__name__


def _error_in(body: bytes) -> ProtocolError | None:
    """Return the JSON-RPC error that a body is, whatever id it has; None if it is none."""
    try:
        message = parse(body)
    except ProtocolError:
        return None
    if not is_object(message) or message.get("jsonrpc") != "2.0":
        return None
    error = message.get("error")
    return ProtocolError.from_wire(error) if is_object(error) else None


async def _close(
    response: httpx2.Response, chunks: AsyncGenerator[bytes, None] | None = None
) -> None:
    # Also when the reading task is cancelled: the server must see that nobody reads any more.
    if response.is_closed:
        return
    if chunks is not None:
        await _interrupt(chunks)
    with anyio.move_on_after(_COURTESY_S, shield=True):
        await response.aclose()


async def _interrupt(chunks: AsyncGenerator[bytes, None]) -> None:
    """Let a body end where it waits for more.

    A body is read through generators inside each other; closing the outermost leaves some to
    the garbage collector, which trio complains about; being cancelled ends them all.
    """
    with anyio.CancelScope(shield=True) as scope:
        scope.cancel()
        try:
            async for _ in chunks:
                pass
        except httpx2.HTTPError:
            pass


async def _let_end(response: httpx2.Response, chunks: AsyncGenerator[bytes, None]) -> None:
    """Wait for a stream that has told everything, so that its connection can be used again."""
    try:
        with anyio.move_on_after(_COURTESY_S):
            async for _ in chunks:
                pass
    except httpx2.HTTPError:
        pass
    finally:
        await _close(response, chunks)
