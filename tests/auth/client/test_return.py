"""The redirect of the browser to this machine: other requests are harmless."""

from __future__ import annotations

from contextlib import suppress
from urllib.parse import urlsplit

import anyio
import pytest

from mcpkit.client.auth import AuthorizationFailed
from mcpkit.client.auth.browser import Callback, listening

STATE = "the-state-of-this-login"
GOOD = f"/callback?code=c&state={STATE}"


def port_of(back: Callback) -> int:
    return urlsplit(back.redirect_uri).port or 0


async def say(back: Callback, data: bytes, *, close: bool = False) -> bytes:
    found = b""
    with anyio.fail_after(20):
        async with await anyio.connect_tcp("127.0.0.1", port_of(back)) as stream:
            if data:
                await stream.send(data)
            with suppress(anyio.EndOfStream, anyio.BrokenResourceError):
                while not close:
                    found += await stream.receive()
    return found


def get(target: str, verb: str = "GET") -> bytes:
    return f"{verb} {target} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode("latin-1")


async def comes_back(back: Callback) -> None:
    assert (await say(back, get(GOOD))).startswith(b"HTTP/1.1 200")
    with anyio.fail_after(20):
        assert await back.wait() == {"code": "c", "state": STATE}


@pytest.mark.parametrize(
    ("data", "status"),
    [
        *((get(each), b"404") for each in ("/", "/favicon.ico", "/callback/", "http://[")),
        *((get(GOOD, verb), b"404") for verb in ("POST", "HEAD")),
        *(
            (get(f"/callback{each}"), b"400")
            for each in (
                *("", "?code=c", "?code=c&state=", "?code=c&state=other"),
                *(f"?code=c&state={STATE}x", f"?code=c&code=d&state={STATE}"),
                *(f"?code=c&state={STATE}&state={STATE}", f"?code=c&state={STATE}&iss=a&iss=b"),
                *("?error=access_denied", "?code=c&state=%ff%fe"),
            )
        ),
        (b"\r\n\r\n", b"404"),
        (b"\x16\x03\x01 tls\r\n\r\n", b"404"),
        (b"GET /" + b"a" * 40_000, b"404"),
        (get(GOOD).replace(b" HTTP/1.1", b""), b"404"),
    ],
    ids=str,
)
async def test_other_requests_are_refused(data: bytes, status: bytes) -> None:
    """SEC-17, and OAuth 2.1, 7.12: no other page and no other program can bring a code."""
    async with listening() as back:
        back.state = STATE
        answer = await say(back, data[:100_000])
        assert answer.startswith(b"HTTP/1.1 " + status) or answer == b""
        await comes_back(back)


async def test_idle_connections_are_harmless() -> None:
    """Browsers open connections in advance. They are closed with the login."""
    async with listening() as back:
        assert (await say(back, get("/callback?code=c&state="))).startswith(b"HTTP/1.1 400")
        back.state = STATE
        for data in (b"", b"GET /call"):
            await say(back, data, close=True)
        idle = await anyio.connect_tcp("127.0.0.1", port_of(back))
        await comes_back(back)
        await say(back, get(f"/callback?code=d&state={STATE}"))
        assert (await back.wait())["code"] == "c", "the first answer counts"
    with anyio.fail_after(20), pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
        await idle.receive()
    await idle.aclose()


async def test_the_user_sees_a_page_before_the_login_continues() -> None:
    """It has nothing of the request in it, and no script runs."""
    pages: list[bytes] = []
    evil = "%3Cscript%3Ealert(1)%3C/script%3E"
    target = f"/callback?error={evil}&error_description={evil}&state={STATE}"

    async def visit(back: Callback, target: str) -> None:
        pages.append(await say(back, get(target)))

    for each in (target, GOOD):
        async with anyio.create_task_group() as group, listening() as back:
            back.state = STATE
            group.start_soon(visit, back, each)
            await back.wait()
    assert b"You are logged in" in pages[1]
    for page in pages:
        head, _, body = page.partition(b"\r\n\r\n")
        assert body.endswith(b"</p>")
        assert b"script" not in body
        assert b"content-security-policy: default-src 'none'" in head.lower()
        assert b"cache-control: no-store" in head.lower()
        assert b"referrer-policy: no-referrer" in head.lower()


async def test_it_is_on_this_machine_alone() -> None:
    """SEC-2: no other machine can bring a code."""
    async with listening() as back:
        assert back.redirect_uri.startswith("http://127.0.0.1:")
        with pytest.raises(OSError, match=r"."):
            await anyio.connect_tcp("127.0.0.2", port_of(back))


async def test_a_port_that_is_in_use_is_replaced_unless_it_is_required() -> None:
    """The redirect URI is registered with the port that it has, or issuers pass over it."""
    async with listening() as one:
        port = port_of(one)
        async with listening(port) as other:
            assert other.redirect_uri != one.redirect_uri
        with pytest.raises(AuthorizationFailed, match=f"port {port}, to which the browser"):
            async with listening(port, strict=True):
                pass


@pytest.mark.parametrize("error", [RuntimeError("x"), KeyboardInterrupt()], ids=repr)
async def test_errors_during_a_login_are_raised_as_they_are(error: BaseException) -> None:
    with pytest.raises(type(error)) as raised:
        async with listening():
            raise error
    assert raised.value is error
