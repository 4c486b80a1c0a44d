"""The place on this machine that a browser comes back to: whoever else comes along is harmless."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

import anyio
import pytest

from mcpkit.client.auth import AuthorizationFailed
from mcpkit.client.auth.browser import Callback, listening

pytestmark = pytest.mark.anyio

STATE = "the-state-of-this-login"
GOOD = f"/callback?code=c&state={STATE}"


async def say(back: Callback, data: bytes, *, close: bool = False) -> bytes:
    """Send bytes, and return all that comes back."""
    port = urlsplit(back.redirect_uri).port
    assert port is not None
    found = b""
    with anyio.fail_after(20):
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            if data:
                await stream.send(data)
            if close:
                return b""
            try:
                while True:
                    found += await stream.receive()
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                return found


def get(target: str, verb: str = "GET") -> bytes:
    return f"{verb} {target} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode("latin-1")


async def comes_back(back: Callback) -> dict[str, str]:
    """The honest browser."""
    answer = await say(back, get(GOOD))
    assert answer.startswith(b"HTTP/1.1 200")
    with anyio.fail_after(20):
        return await back.wait()


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (get("/"), b"404"),
        (get("/favicon.ico"), b"404"),
        (get("/callback/"), b"404"),
        (get(GOOD, "POST"), b"404"),
        (get(GOOD, "HEAD"), b"404"),
        (get("/callback"), b"400"),
        (get("/callback?code=c"), b"400"),
        (get("/callback?code=c&state="), b"400"),
        (get("/callback?code=c&state=other"), b"400"),
        (get(f"/callback?code=c&state={STATE}x"), b"400"),
        (get(f"/callback?code=c&code=d&state={STATE}"), b"400"),
        (get(f"/callback?code=c&state={STATE}&state={STATE}"), b"400"),
        (get("/callback?code=c&state=%ff%fe"), b"400"),
        (get("http://["), b"404"),
        (b"\r\n\r\n", b"404"),
        (b"\x16\x03\x01 tls\r\n\r\n", b"404"),
        (b"GET /" + b"a" * 40_000, b"404"),
        (get(GOOD).replace(b" HTTP/1.1", b""), b"404"),
    ],
    ids=str,
)
async def test_what_is_not_the_answer_is_refused_and_the_answer_still_taken(
    data: bytes, status: bytes
) -> None:
    """SEC-17, and OAuth 2.1, 7.12: no other page and no other program can bring a code."""
    async with listening() as back:
        back.state = STATE
        answer = await say(back, data[:100_000])
        assert answer.startswith(b"HTTP/1.1 " + status) or answer == b""
        assert await comes_back(back) == {"code": "c", "state": STATE}


async def test_before_there_is_a_state_nothing_is_an_answer() -> None:
    async with listening() as back:
        assert (await say(back, get("/callback?code=c&state="))).startswith(b"HTTP/1.1 400")


@pytest.mark.parametrize("data", [b"", b"GET /call"], ids=["nothing", "half a line"])
async def test_who_connects_and_leaves_does_no_harm(data: bytes) -> None:
    """Browsers open connections in advance, and close those that they do not need."""
    async with listening() as back:
        back.state = STATE
        for _ in range(3):
            await say(back, data, close=True)
        assert await comes_back(back) == {"code": "c", "state": STATE}


async def test_who_connects_and_stays_does_no_harm() -> None:
    """And is gone with the login."""
    async with listening() as back:
        back.state = STATE
        port = urlsplit(back.redirect_uri).port
        assert port is not None
        idle = await anyio.connect_tcp("127.0.0.1", port)
        assert await comes_back(back) == {"code": "c", "state": STATE}
    with anyio.fail_after(20), pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
        await idle.receive()
    await idle.aclose()


async def test_the_first_answer_counts() -> None:
    """One that comes later has nothing to say."""
    async with listening() as back:
        back.state = STATE
        await say(back, get(GOOD))
        await say(back, get(f"/callback?code=d&state={STATE}"))
        assert (await back.wait())["code"] == "c"


async def test_the_user_sees_a_page_before_anybody_goes_on() -> None:
    """Also if whoever waits leaves as soon as the answer is there."""
    pages: list[bytes] = []

    async def visit(back: Callback) -> None:
        pages.append(await say(back, get(GOOD)))

    async with anyio.create_task_group() as group, listening() as back:
        back.state = STATE
        group.start_soon(visit, back)
        await back.wait()
    assert b"Your program has the answer" in pages[0]
    assert pages[0].endswith(b"</p>")


async def test_the_page_has_nothing_of_the_request_in_it_and_no_script_runs() -> None:
    async with listening() as back:
        back.state = STATE
        evil = "%3Cscript%3Ealert(1)%3C/script%3E"
        answer = await say(
            back, get(f"/callback?error={evil}&error_description={evil}&state={STATE}")
        )
    assert b"script" not in answer.partition(b"\r\n\r\n")[2]
    head = answer.partition(b"\r\n\r\n")[0].lower()
    assert b"content-security-policy: default-src 'none'" in head
    assert b"cache-control: no-store" in head
    assert b"referrer-policy: no-referrer" in head


async def test_it_is_on_this_machine_alone() -> None:
    """SEC-2: nobody in the network can bring a code."""
    async with listening() as back:
        assert back.redirect_uri.startswith("http://127.0.0.1:")
        port = urlsplit(back.redirect_uri).port
        assert port is not None
        with pytest.raises(OSError, match=r"."):
            await anyio.connect_tcp("127.0.0.2", port)


async def test_a_port_that_is_taken_is_replaced_unless_it_was_wished_for() -> None:
    """The redirect URI is registered with the port that it has, or issuers pass over it."""
    async with listening() as one:
        port = urlsplit(one.redirect_uri).port
        assert port is not None
        async with listening(port) as other:
            assert other.redirect_uri != one.redirect_uri
        with pytest.raises(AuthorizationFailed, match=f"port {port}, to which the browser"):
            async with listening(port, strict=True):
                pass


@pytest.mark.parametrize("error", [RuntimeError("x"), KeyboardInterrupt()], ids=repr)
async def test_what_goes_wrong_meanwhile_is_raised_as_it_is(error: BaseException) -> None:
    async def fail() -> None:
        async with listening():
            raise error

    run: Callable[[], Awaitable[None]] = fail
    with pytest.raises(type(error)) as raised:
        await run()
    assert raised.value is error
