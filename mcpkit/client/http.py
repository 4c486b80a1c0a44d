"""The way to a server over HTTP: Streamable HTTP of every revision, and HTTP+SSE.

A request is one exchange: the task that makes it sends the POST, reads the response, and passes on
the messages before the answer. So a cancelled request closes its response. Beside the exchanges
there is at most one stream, for the server's own messages (handshake revisions).
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping
from contextlib import AbstractContextManager, suppress
from typing import Any, Final

import anyio
import httpx2

from mcpkit._concurrency.loop import Loop
from mcpkit._protocol.client_connection import IsAnswered, OutgoingMessage, parse
from mcpkit._protocol.headers import HeaderParameter, declared_in, encode_value, parameter_headers
from mcpkit._utils.fetch import FetchError, open_client, proxy_for, reason_of
from mcpkit._utils.json import is_object
from mcpkit._utils.logs import get_logger
from mcpkit._utils.text import truncate
from mcpkit.client.auth.base import HttpAuth, HttpRequest
from mcpkit.client.event_stream import MAX_EVENT_BYTES, EventStream, EventTooLarge
from mcpkit.errors import ConnectionClosed, ProtocolError

log = get_logger("mcpkit.client")

_JSON: Final = "application/json"
_EVENTS: Final = "text/event-stream"
_SESSION: Final = "Mcp-Session-Id"
_VERSION: Final = "MCP-Protocol-Version"

_CONNECT_S: Final = 10.0  # seconds until a server must have accepted a connection
_MAX_RESUMPTIONS: Final = 5  # times that a stream without new events is resumed
_MIN_BACK_OFF_S: Final = 0.05  # before a stream is resumed; doubled if it received no message
_MAX_REDIRECTS: Final = 5  # redirects of one request
_SHOWN_CHARS: Final = 200  # characters of a response that is not MCP in an error message
_MAX_FOREIGN_BYTES: Final = 1024 * 1024  # of the body of a response that is not MCP
_FOREIGN_S: Final = 2.0  # seconds for reading that body
_CLOSE_S: Final = 1.0  # seconds for each step of closing, such as the end of a stream
_OPEN_STREAM_S: Final = 0.5
"""Seconds to wait until the server's own stream is open, so that no notification is missed."""

_MAX_RETRIES: Final = 5  # times that a server may postpone a request with 429
_MAX_RETRY_AFTER_S: Final = 10.0  # seconds for which it may do so each time
_MAX_TOKENS: Final = 4  # times that a request is sent again with another token
_WANTS_TOKEN: Final = re.compile(r"(?:^|,)[ \t]*(?:Bearer|DPoP)(?![^ \t,])", re.IGNORECASE)
"""A challenge for a token, among those of ``WWW-Authenticate`` (RFC 9110, 11.6.1)."""

_OF_ONE_SESSION: Final = ("initialize", "notifications/initialized", "notifications/cancelled")
"""Methods of messages that are not sent again in another session."""


class _SessionLost(ConnectionClosed):
    """The server has forgotten the session (HTTPL-16)."""


class HttpLink:
    """A server behind a URL; raises ValueError if that is malformed, or has no host.

    Args:
        url: The endpoint.
        loop: Runs the reading of streams that belong to no request.
        on_text: Called with each message of the server.
        on_close: Called when the stream of HTTP+SSE has ended.
        renew: Shakes hands again when the server has forgotten the session.
        without_timeout: Returns a context manager that pauses all timeouts, for logins.
        headers, http_client, auth: As of `mcpkit.Client`.

    Attributes:
        status: The HTTP status of the latest response to a message; None if there was none.
        version: The revision that a handshake has agreed on; None before.
        declared: Tool → which of its arguments are repeated in headers, from its schema.
    """

    def __init__(
        self,
        url: str,
        loop: Loop,
        on_text: Callable[[bytes], None],
        on_close: Callable[[], None],
        renew: Callable[[], Awaitable[None]],
        without_timeout: Callable[[], AbstractContextManager[object]],
        *,
        headers: Mapping[str, str] | None = None,
        http_client: httpx2.AsyncClient | None = None,
        auth: HttpAuth | None = None,
    ) -> None:
        try:
            self._url = httpx2.URL(url)
        except httpx2.InvalidURL as error:
            raise ValueError(f"{url!r} is not a URL: {error}") from None
        if not self._url.host:
            raise ValueError(f"{url!r} is not a URL: it has no host")
        self._loop = loop
        self._on_text = on_text
        self._on_close = on_close
        self._renew = renew
        self._renewing = anyio.Lock()
        self._headers = httpx2.Headers(headers)
        self._auth = auth
        self._server = str(self._url)
        self._token = ""
        self._without_timeout = without_timeout
        self._is_own_client = http_client is None
        # Idle connections are closed before a server does so, often after five seconds, because a
        # request could cross the end on its way.
        self._proxy = proxy_for(self._server) if self._is_own_client else None
        try:
            self._client = http_client or open_client(
                self._server,
                self._proxy,
                timeout=httpx2.Timeout(None, connect=_CONNECT_S),
                limits=httpx2.Limits(
                    max_connections=None, max_keepalive_connections=20, keepalive_expiry=4
                ),
            )
        except FetchError as error:
            raise ConnectionClosed(f"Cannot connect to {self._shown}: {error}") from None
        self._timeout = httpx2.Timeout(None, connect=self._client.timeout.connect)
        self.declared: dict[str, tuple[HeaderParameter, ...]] = {}
        self._session: str | None = None
        self._endpoint: httpx2.URL | None = None
        self._exchanges: set[anyio.CancelScope] = set()
        self._stop_listening: Callable[[], object] = lambda: None
        self.status: int | None = None
        self.version: str | None = None

    # --- exchanges --------------------------------------------------------------------------------

    async def exchange(self, sent: OutgoingMessage, answered: IsAnswered | None = None) -> None:
        """Send a message, and pass on the messages of the response until the answer.

        `answered` returns True once the answer has been passed on; it is None if none is expected.

        Raises:
            ConnectionClosed: The server cannot be reached, responds with something that is not
                MCP, or ends the response before the answer.
            ProtocolError: The server rejects the message.
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

    async def _exchange(self, sent: OutgoingMessage, answered: IsAnswered | None) -> None:
        if sent.method is None or sent.method in _OF_ONE_SESSION:  # None: an answer
            await self._post(sent, answered)
            return
        if self._renewing.locked():
            async with self._renewing:
                pass
        session, version = self._session, self.version
        try:
            await self._post(sent, answered)
        except _SessionLost:
            # A request in an unknown session was not processed, so it may be sent again, once.
            async with self._renewing:
                if self._session == session:
                    try:
                        await self._renew()
                    except BaseException:
                        # The next request is to find out in the same way that the session is gone.
                        self._session, self.version = session, version
                        raise
            await self._post(sent, answered)

    async def _post(self, sent: OutgoingMessage, answered: IsAnswered | None) -> None:
        self.status = None
        begins_session = sent.method == "initialize" and self._endpoint is None
        if begins_session:
            self._stop_listening()
            self._session = self.version = None
        in_session = self._session is not None and sent.version is None
        url = self._endpoint or self._url
        response = await self._send("POST", url, self._headers_of(sent), sent.text)
        self.status = response.status_code
        kind = _type_of(response) if self._endpoint is None else ""
        if response.is_success and begins_session:
            self._session = response.headers.get(_SESSION)
        if response.is_success and kind == _EVENTS:
            await self._follow(response, sent, answered)
            return
        is_answer = response.is_success and kind == _JSON
        body = await (
            self._read(response, MAX_EVENT_BYTES) if is_answer else self._read_foreign(response)
        )
        if response.is_success and self._endpoint is not None:
            return  # the answer comes on the stream
        if is_answer and body:
            self._on_text(body)
            if answered is not None and not answered():
                raise _error_in(body) or self._foreign(response, body)
        elif response.status_code == 404 and in_session:
            raise _SessionLost(f"{self._shown} has forgotten the session")
        elif not response.is_success or answered is not None:
            error = _error_in(body)
            if error is None or answered is not None or sent.id is None:
                raise self._with_advice(error or self._foreign(response, body), response)
            self._on_text(body)

    def _headers_of(self, sent: OutgoingMessage) -> dict[str, str]:
        headers = {"Accept": f"{_JSON}, {_EVENTS}", "Content-Type": _JSON}
        if sent.version is None:
            return {**headers, **self._session_headers()}
        headers[_VERSION] = sent.version
        if sent.method is not None:
            headers["Mcp-Method"] = sent.method
        if sent.name is not None:
            headers["Mcp-Name"] = encode_value(sent.name)
            headers.update(parameter_headers(self.declared.get(sent.name, ()), sent.arguments))
        return headers

    def _session_headers(self) -> dict[str, str]:
        found = {_SESSION: self._session, _VERSION: self.version}
        return {name: value for name, value in found.items() if value is not None}

    # --- event streams ----------------------------------------------------------------------------

    async def _follow(
        self, response: httpx2.Response, sent: OutgoingMessage, answered: IsAnswered | None
    ) -> None:
        """Read a stream until the answer, and resume it if it breaks off."""
        stream = EventStream(limit=MAX_EVENT_BYTES)
        stale = idle = 0
        found: httpx2.Response | None = response
        while True:
            before = stream.last_id
            received = 0 if found is None else await self._pump(found, stream, answered)
            if answered is None or answered():
                return
            if sent.version is not None or not stream.last_id:
                break
            stale = stale + 1 if stream.last_id == before else 0
            if stale >= _MAX_RESUMPTIONS:
                break
            idle = 0 if received else idle + 1
            # "The client MUST respect the retry field" (HTTPL-7).
            await anyio.sleep(max(stream.retry / 1000, _back_off(idle)))
            found = await self._resume(stream)
        raise ConnectionClosed(f"{self._shown} ended the stream of {sent.method} without an answer")

    async def _resume(self, stream: EventStream) -> httpx2.Response | None:
        """Resume a stream (HTTPL-13); None if that failed, but may succeed later."""
        try:
            response = await self._get(stream)
        except ConnectionClosed as error:
            log.info("a stream could not be resumed: %s", error)
            return None
        if _is_stream(response):
            return response
        if response.status_code >= 500:
            await _close(response)
            return None
        foreign = self._foreign(response, await self._read_foreign(response))
        raise ConnectionClosed(f"A stream broke off and cannot be resumed: {foreign}")

    async def _get(self, stream: EventStream) -> httpx2.Response:
        headers: dict[str, str | bytes] = {"Accept": _EVENTS, **self._session_headers()}
        if stream.last_id:
            headers["Last-Event-ID"] = stream.last_id
        return await self._send("GET", self._url, headers)

    async def _pump(
        self,
        response: httpx2.Response,
        stream: EventStream,
        answered: IsAnswered | None = None,
        on_endpoint: Callable[[bytes], None] | None = None,
    ) -> int:
        """Pass on the messages of a response until its end or the answer; return their number."""
        stream.connect()
        chunks = await self._body_of(response)
        received = 0
        ending = False
        try:
            async for chunk in chunks:
                for event in stream.feed(chunk):
                    # Events without data only have an id to resume from (HTTPL-6).
                    if event.data and event.type == "message":
                        received += 1
                        self._on_text(event.data)
                    elif event.type == "endpoint" and on_endpoint is not None:
                        on_endpoint(event.data)
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
        if ending:  # in the background, so that its connection can be reused
            self._start(_drain(response, chunks))
        return received

    async def _body_of(self, response: httpx2.Response) -> AsyncGenerator[bytes, None]:
        # A small body that is compressed could fill the memory.
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
        """Open the stream for the server's own messages, if there is one (HTTPL-8)."""
        if self._endpoint is not None:
            return
        opened = anyio.Event()
        self._stop_listening = self._start(self._listen(opened))
        with anyio.move_on_after(_OPEN_STREAM_S):
            await opened.wait()

    async def _listen(self, opened: anyio.Event) -> None:
        stream = EventStream(limit=MAX_EVENT_BYTES)
        idle = stale = 0
        try:
            while True:
                before = stream.last_id
                try:
                    response = await self._get(stream)
                except ConnectionClosed:
                    stale += 1
                else:
                    opened.set()
                    if not _is_stream(response):
                        log.debug("no stream beside requests: %d", response.status_code)
                        await _close(response)
                        return
                    received = await self._pump(response, stream)
                    idle = 0 if received else idle + 1
                    stale = 0 if stream.last_id != before else stale + 1
                longer = 2 ** max(min(stale, _MAX_RESUMPTIONS) - 1, 0)
                await anyio.sleep(max(stream.retry / 1000 * longer, _back_off(idle)))
        except ConnectionClosed as error:
            log.warning("the server's own stream has ended: %s", error)
        finally:
            opened.set()

    # --- HTTP+SSE (2024-11-05) --------------------------------------------------------------------

    async def look_for_endpoint(self, limit: float) -> bool:
        """Return True if a GET within `limit` seconds brings the stream of HTTP+SSE (ERA-12).

        Raises `ConnectionClosed` if its first event names an endpoint of another origin.
        """
        found = anyio.Event()
        named: list[str] = []
        stop = self._start(self._read_old(named, found))
        with anyio.move_on_after(limit):
            await found.wait()
        if self._endpoint is not None:
            self._stop_listening = stop
            return True
        stop()
        if named:
            shown = truncate(named[0], _SHOWN_CHARS)
            raise ConnectionClosed(f"{self._shown} has an endpoint of another origin, {shown}")
        return False

    async def _read_old(self, named: list[str], found: anyio.Event) -> None:
        def on_endpoint(reference: bytes) -> None:
            if not named:
                named.append(reference.decode(errors="replace").strip())
                self._endpoint = _resolve(self._url, named[0])
                found.set()

        stream = EventStream(limit=MAX_EVENT_BYTES)
        try:
            response = await self._get(stream)
            if _is_stream(response):
                await self._pump(response, stream, on_endpoint=on_endpoint)
            else:
                await _close(response)
        except ConnectionClosed as error:
            log.info("the stream of %s has ended: %s", self._shown, error)
        finally:
            found.set()
            if self._endpoint is not None:
                self._on_close()

    # --- beside the exchanges ---------------------------------------------------------------------

    def _start(self, work: Coroutine[Any, Any, None]) -> Callable[[], object]:
        """Run a coroutine in the background; return the function that cancels it."""

        async def run() -> None:
            try:
                await work
            except Exception:
                # The user's own HTTP client may raise anything.
                log.exception("a stream of %s failed", self._shown)

        return self._loop.start(run())

    # --- parameters in headers --------------------------------------------------------------------

    def learn(self, tool: str, schema: Mapping[str, Any]) -> None:
        """Remember which arguments of a tool headers repeat; ValueError if it is wrong (HDR-3)."""
        self.declared.pop(tool, None)
        self.declared[tool] = declared_in(schema)

    # --- one HTTP request -------------------------------------------------------------------------

    @property
    def _shown(self) -> str:
        return self._show(self._url)

    def _show(self, url: httpx2.URL) -> str:
        shown = str(url.copy_with(userinfo=b"", query=None, fragment=None))
        return shown if self._proxy is None else f"{shown} through {self._proxy}"

    async def _send(
        self,
        method: str,
        url: httpx2.URL,
        headers: Mapping[str, str | bytes],
        content: bytes | None = None,
        *,
        may_log_in: bool = True,
    ) -> httpx2.Response:
        """Return the response to a request, whose body is still to be read.

        Redirects to the same origin are followed, and requests repeated that the server postpones
        or, if `may_log_in`, wants with another token.
        """
        if self._client.is_closed:
            raise ConnectionClosed("The client has left the server")
        merged = self._headers.copy()
        for name, value in headers.items():  # those of an event's id may be any bytes
            merged.update({name.encode(): value if isinstance(value, bytes) else value.encode()})
        merged["Accept-Encoding"] = "identity"
        redirects = retries = tokens_rejected = 0
        auth = self._auth
        while redirects < _MAX_REDIRECTS:
            described = HttpRequest(method, str(url), self._server)
            tokens: Mapping[str, str] = {} if auth is None else await auth.headers(described)
            self._token = tokens.get("Authorization", "").rpartition(" ")[2]
            sent = merged.copy()
            sent.update(tokens)
            request = self._client.build_request(
                method, url, headers=sent, content=content, timeout=self._timeout
            )
            try:
                response = await self._client.send(request, stream=True, follow_redirects=False)
            except httpx2.HTTPError as error:
                shown, reason = self._show(url), _reason(error)
                unreached = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.ProxyError)
                if isinstance(error, unreached):
                    raise ConnectionClosed(f"Cannot connect to {shown}: {reason}") from error
                raise ConnectionClosed(f"{shown} does not answer: {reason}") from error
            pause = _pause_before_retry(response)
            if pause is not None and retries < _MAX_RETRIES:
                await _close(response)
                retries += 1
                log.info("%s asks to wait for %g s", self._show(url), pause)
                await anyio.sleep(pause)
                continue
            is_refused = response.status_code in (401, 403) and tokens_rejected < _MAX_TOKENS
            if auth is not None and may_log_in and is_refused:
                tokens_rejected += 1
                fields = {name: response.headers.get_list(name) for name in response.headers}
                status = response.status_code
                try:
                    with self._without_timeout():
                        granted = await auth.refused(described, tokens, status, fields)
                except BaseException:
                    await _close(response)
                    raise
                if granted:
                    await _close(response)
                    continue
            location = response.headers.get("Location", "")
            target = _resolve(url, location) if response.status_code in (307, 308) else None
            if target is None:
                return response
            await _close(response)
            redirects += 1
            if url == self._url:
                self._url = target
            url = target
        raise ConnectionClosed(f"{self._show(url)} redirects again and again")

    def _foreign(self, response: httpx2.Response, body: bytes) -> ConnectionClosed:
        status = f"{response.status_code} {response.reason_phrase}".strip()
        said = " ".join(body[: 8 * _SHOWN_CHARS].decode(errors="replace").split())
        if self._token:
            said = said.replace(self._token, "…")  # some repeat the token that they reject (SEC-13)
        location = response.headers.get("Location")
        if response.is_redirect and location:
            said = f"a redirect to {truncate(location, _SHOWN_CHARS)}, which is not followed"
        elif len(said) > _SHOWN_CHARS:
            said = f"{said[:_SHOWN_CHARS]}…"
        if response.is_success:
            status += f" with {_type_of(response) or 'no content'} instead of an answer"
        return ConnectionClosed(f"{self._shown} answered {status}" + (f": {said}" if said else ""))

    def _with_advice(
        self, error: ConnectionClosed | ProtocolError, response: httpx2.Response
    ) -> ConnectionClosed | ProtocolError:
        """Return the error, with advice if the server wants a token and none was sent."""
        wants_token = response.status_code == 401 and _WANTS_TOKEN.search(
            ",".join(response.headers.get_list("WWW-Authenticate"))
        )
        if wants_token and self._auth is None and "Authorization" not in response.request.headers:
            advice = "pass auth=mcpkit.client.auth.OAuth() to log in, or auth= with a token"
            error.args = (f"{error}; {advice}",)
        return error

    async def _read(self, response: httpx2.Response, limit: int) -> bytes:
        """Return the body of a response, and close it."""
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
        finally:
            await _close(response, chunks)
        return b"".join(parts)

    async def _read_foreign(self, response: httpx2.Response) -> bytes:
        """Return the body of a response that is not MCP; empty if it is too slow or too long."""
        if _type_of(response) != _EVENTS:
            with suppress(ConnectionClosed), anyio.move_on_after(_FOREIGN_S):
                return await self._read(response, _MAX_FOREIGN_BYTES)
        await _close(response)
        return b""

    # --- leaving ----------------------------------------------------------------------------------

    async def aclose(self) -> None:
        """Close the exchanges that run, and end the session (HTTPL-17)."""
        self._stop_listening()
        for scope in self._exchanges:
            scope.cancel()
        if self._session is not None:
            with anyio.move_on_after(_CLOSE_S):
                try:
                    headers = self._session_headers()
                    await _close(await self._send("DELETE", self._url, headers, may_log_in=False))
                except Exception as error:
                    log.debug("the session could not be ended: %s", error)
        if self._is_own_client:
            with anyio.move_on_after(_CLOSE_S):
                await self._client.aclose()


def _type_of(response: httpx2.Response) -> str:
    kind: str = response.headers.get("Content-Type", "")
    return kind.partition(";")[0].strip().lower()


def _is_stream(response: httpx2.Response) -> bool:
    return response.status_code == 200 and _type_of(response) == _EVENTS


def _resolve(base: httpx2.URL, reference: str) -> httpx2.URL | None:
    """Resolve a reference of the server; None if it is not a URL of the same origin."""
    try:
        found = base.join(reference)
    except (httpx2.InvalidURL, ValueError):  # ValueError: not a domain name
        return None
    origin, own = ((each.scheme, each.host, each.port) for each in (found, base))
    return found if found.host and origin == own else None


def _back_off(idle: int) -> float:
    return _MIN_BACK_OFF_S * (1 << max(min(idle, _MAX_RESUMPTIONS) - 1, 0))


def _pause_before_retry(response: httpx2.Response) -> float | None:
    """Return the seconds after which to repeat a request that got 429 (RFC 6585, 4), or None."""
    said = response.headers.get("Retry-After", "")
    if response.status_code != 429 or not said.isascii() or not said.isdigit():
        return None
    seconds = float(said[:10])
    return seconds if seconds <= _MAX_RETRY_AFTER_S else None


def _reason(error: Exception) -> str:
    if isinstance(error, httpx2.ConnectTimeout):
        return "it takes too long"
    reason = reason_of(error) if isinstance(error, httpx2.NetworkError) else ""
    return reason or str(error) or type(error).__name__


def _error_in(body: bytes) -> ProtocolError | None:
    """Return the JSON-RPC error in a body, whatever its id; None if it is something else."""
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
    # Also when the reading task is cancelled: the server must see that the response is closed.
    if response.is_closed:
        return
    if chunks is not None:
        # A body is read through nested generators. Closing the outermost would leave the others to
        # the garbage collector, which trio warns of: so the reading is cancelled.
        with anyio.CancelScope(shield=True) as scope, suppress(httpx2.HTTPError):
            scope.cancel()
            async for _ in chunks:
                pass
    with anyio.move_on_after(_CLOSE_S, shield=True):
        await response.aclose()


async def _drain(response: httpx2.Response, chunks: AsyncGenerator[bytes, None]) -> None:
    try:
        with anyio.move_on_after(_CLOSE_S), suppress(httpx2.HTTPError):
            async for _ in chunks:
                pass
    finally:
        await _close(response, chunks)
