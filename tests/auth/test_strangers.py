"""What the requests of strangers cost others, before it is known whose they are (SEC-17)."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from http.client import HTTPConnection
from typing import Any, Final

import anyio
import anyio.to_thread
import pytest

from mcpkit import Limits, MCPKit
from mcpkit._utils import fetch as fetch_module
from mcpkit._utils.fetch import FetchError, fetch_public, resolve
from mcpkit._utils.turns import Turns
from mcpkit.transports.http import authorization
from mcpkit.transports.http.server import _remove_query
from mcpkit.types import Principal
from tests.kit import PATIENCE, until
from tests.messages import announced, called
from tests.transports.http.plain import Client
from tests.uvicorns import listen, running

HERE: Final = "127.0.0.1"
THERE: Final = "127.0.0.2"


class Slow:
    """A verifier that is asked about ``slow…``, and does not answer before `answered` is set."""

    def __init__(self) -> None:
        self.answered = threading.Event()
        self.asked = threading.Semaphore(0)

    async def __call__(self, token: str) -> Principal | None:
        if token.startswith("slow"):
            self.asked.release()
            limiter = anyio.CapacityLimiter(1)
            await anyio.to_thread.run_sync(self.answered.wait, PATIENCE, limiter=limiter)
        return Principal("ada") if token == "good" else None


@contextmanager
def serving(verifier: Slow, **options: Any) -> Iterator[Callable[..., int]]:
    """A server, and what calls its tool and returns the status."""
    app: MCPKit[None] = MCPKit("notes", auth=verifier)

    @app.tool
    def who() -> str:
        return "you"

    message = announced(1, "tools/call", **called("who", {}))
    with listen() as listener:
        port = listener.getsockname()[1]
        client = Client(f"http://{HERE}:{port}/mcp", [])

        def status(token: str, address: str = HERE, more: Mapping[str, str] = {}) -> int:
            with closing(HTTPConnection(HERE, port, PATIENCE, (address, 0))) as connection:
                client.send(message, connection, {**more, "Authorization": f"Bearer {token}"})
                return connection.getresponse().status

        with running(app.asgi(**options), listener):
            try:
                yield status
            finally:
                verifier.answered.set()


def test_requests_of_a_stranger_are_counted_while_their_tokens_are_verified() -> None:
    """SEC-10: they have the room of one client, and others have theirs."""
    verifier = Slow()
    with ExitStack() as stack:
        pool = stack.enter_context(ThreadPoolExecutor(2))
        status = stack.enter_context(serving(verifier, limits=Limits(max_each=2)))
        waiting = [pool.submit(status, f"slow {n}".replace(" ", "-"), HERE) for n in range(2)]
        for _ in waiting:
            assert verifier.asked.acquire(timeout=PATIENCE)
        assert status("bad", HERE) == 429
        assert status("good", THERE) == 200
        verifier.answered.set()
        assert [each.result(PATIENCE) for each in waiting] == [401, 401]
        assert status("good", HERE) == 200


def test_tokens_of_one_network_are_verified_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A network that sends many waits for them; others do not."""
    monkeypatch.setattr(authorization, "MAX_VERIFIED_EACH", 1)
    verifier = Slow()
    with ExitStack() as stack:
        pool = stack.enter_context(ThreadPoolExecutor(2))
        status = stack.enter_context(serving(verifier))
        waiting = [pool.submit(status, f"slow-{n}", HERE) for n in range(2)]
        assert verifier.asked.acquire(timeout=PATIENCE)
        assert status("good", THERE) == 200
        assert not verifier.asked.acquire(blocking=False), "both are verified at once"
        verifier.answered.set()
        assert [each.result(PATIENCE) for each in waiting] == [401, 401]


def test_bad_tokens_count_to_the_rate_of_their_network() -> None:
    """SEC-10: and a good one is then refused before anybody is asked."""
    with serving(Slow(), limits=Limits(rate_limit=0.01)) as status:
        assert [status("bad", HERE), status("bad", HERE)] == [401, 429]
        assert status("good", HERE) == 429
        assert status("good", THERE) == 200


def test_each_proxy_that_is_not_believed_is_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    """Or all its clients would share the room of one; also if a stranger sends the header first."""
    believed, other = {"X-Forwarded-For": THERE}, {"X-Forwarded-For": "192.0.2.1, 192.0.2.2"}
    untrusted = ("127.0.0.3", THERE)
    with serving(Slow()) as status:
        assert status("good", HERE, believed) == 200
        assert caplog.text == ""
        assert [status("good", each, other) for each in untrusted * 2] == [200] * 4
    for each in untrusted:
        assert caplog.text.count(f"{each} is not a trusted proxy") == 1


def test_the_log_of_requests_has_no_query() -> None:
    """SEC-13: a query may have a code, a state or a token."""
    args = ("127.0.0.1:1", "GET", "/authorize/login?code=secret", "1.1", 200)
    record = logging.LogRecord("uvicorn.access", 20, "", 0, '%s "%s %s HTTP/%s" %d', args, None)
    assert _remove_query(record)
    assert record.getMessage() == '127.0.0.1:1 "GET /authorize/login HTTP/1.1" 200'


async def test_names_of_strangers_are_looked_up_one_at_a_time_for_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A lookup goes on after its caller has given up, and takes no thread of others."""
    answered = threading.Event()
    lookups: list[str] = []

    async def begins(host: str, caller: str) -> None:
        count = len(lookups)
        async with anyio.create_task_group() as group:
            group.start_soon(resolve, host, 443, caller)
            await until(lambda: len(lookups) > count)
            group.cancel_scope.cancel()

    async def waits(host: str, caller: str) -> bool:
        with anyio.move_on_after(0.01) as scope:
            await resolve(host, 443, caller)
        return scope.cancelled_caught

    def getaddrinfo(host: str, *args: Any, **options: Any) -> list[Any]:
        lookups.append(host)
        if host == "slow.example":
            answered.wait(PATIENCE)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.0.2.1", 443))]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    monkeypatch.setattr(fetch_module, "_lookups", Turns(2))
    try:
        await begins("slow.example", HERE)
        assert await waits("quick.example", HERE)
        with anyio.fail_after(PATIENCE):
            assert await resolve("quick.example", 443, THERE) == ["192.0.2.1"]
        await begins("slow.example", THERE)
        assert await waits("quick.example", "a third")
        monkeypatch.setattr(fetch_module, "TIMEOUT", 0.01)
        with pytest.raises(FetchError) as caught:
            await fetch_public("https://quick.example", 100, HERE)
        assert caught.value.is_temporary
    finally:
        answered.set()
    with anyio.fail_after(PATIENCE):
        assert await resolve("quick.example", 443, HERE) == ["192.0.2.1"]
