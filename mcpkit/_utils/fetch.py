"""Requests to authorization servers, with bounds on addresses, times and sizes."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from contextlib import aclosing
from typing import Any, Final, Generic, NamedTuple, TypeVar
from urllib.parse import urlsplit

from mcpkit._utils.json import is_object
from mcpkit._utils.outgoing import tls_for
from mcpkit._utils.targets import is_loopback_name

__all__ = [
    "Answer",
    "PerEventLoop",
    "Unreachable",
    "ask",
    "check_address",
    "fetch_document",
    "fetch_json",
]

T = TypeVar("T")

_PATIENCE: Final = 5.0
"""Seconds for a whole request."""

_LARGEST: Final = 1024 * 1024
_NEEDS: Final = (
    'Fetching from an authorization server needs the auth extra: pip install "mcpkit[auth]"'
)


class Unreachable(Exception):
    """An authorization server has not answered, or not with JSON."""


class Answer(NamedTuple):
    """An answer of an authorization server.

    Args:
        status: Of it.
        document: The JSON object in it; empty if it is a refusal without one.
    """

    status: int
    document: dict[str, Any]


class PerEventLoop(Generic[T]):
    """A value for each event loop, for what may not be shared by several.

    Args:
        make: Makes the value of a loop.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._variable: Any = None

    def get(self) -> T:
        """Return the value of the loop that runs."""
        if self._variable is None:
            from anyio.lowlevel import RunVar  # importing an app should not load an event loop

            self._variable = RunVar(f"mcpkit {id(self)}")
        try:
            found: T = self._variable.get()
        except LookupError:
            found = self._make()
            self._variable.set(found)
        return found


def check_address(url: object, option: str) -> None:
    """Refuse a URL that answers and secrets may not travel to (SEC-16).

    Args:
        url: Absolute; https, or http on a loopback address.
        option: For messages.

    Raises:
        ValueError: It is something else, or has what cannot stand in a header (SEC-18).
    """
    if not isinstance(url, str) or not url.isascii() or not url.isprintable():
        raise ValueError(f"{option}: {url!r} is no URL")
    if not set(url).isdisjoint(' "\\<>{}|^`') or "#" in url:
        raise ValueError(f"{option}: {url!r} is no URL without a fragment")
    try:
        parts = urlsplit(url)
        host = parts.hostname
        _ = parts.port
    except ValueError:
        raise ValueError(f"{option}: {url!r} is no URL") from None
    if not host or parts.scheme not in ("https", "http") or "@" in parts.netloc:
        raise ValueError(f"{option}: {url!r} is no URL, which looks like https://example.com/path")
    if parts.scheme == "http" and not is_loopback_name(host):
        raise ValueError(f"{option}: {url!r} is not safe on its way; use https")


async def fetch_json(
    url: str,
    *,
    form: Mapping[str, str] | None = None,
    credentials: tuple[str, str] | None = None,
) -> dict[str, Any]:
    """Return the JSON object at a URL. Redirects are not followed.

    Args:
        url: As `check_address` allows it.
        form: Sent with POST; None: GET.
        credentials: A client id and its secret, sent as RFC 6749 has it (section 2.3.1).

    Raises:
        Unreachable: There is none; the message says why, without what was sent.
        ImportError: The HTTP client is not installed.
    """
    return _accepted(url, await ask(url, form=form, credentials=credentials))


async def ask(
    url: str,
    *,
    form: Mapping[str, str] | None = None,
    credentials: tuple[str, str] | None = None,
    token: str | None = None,
) -> Answer:
    """Return what is answered at a URL, refusals too. Redirects are not followed.

    Args:
        url: As `check_address` allows it.
        form: Sent with POST; None: GET.
        credentials: A client id and its secret, sent as RFC 6749 has it (section 2.3.1).
        token: Sent in the header (RFC 6750).

    Raises:
        Unreachable: Nobody answers, or the answer is no JSON; the message says why, without what
            was sent.
        ImportError: The HTTP client is not installed.
    """
    options: dict[str, Any] = {"data": form}
    headers: dict[str, str] = {}
    if credentials is not None:
        from urllib.parse import quote

        httpx2 = _library()
        options["auth"] = httpx2.BasicAuth(*(quote(each, safe="") for each in credentials))
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    method = "GET" if form is None else "POST"
    return await _ask(url, method, options, _LARGEST, headers)


def _accepted(url: str, answer: Answer) -> dict[str, Any]:
    if answer.status != 200:
        raise Unreachable(f"{url} answers {answer.status}")
    return answer.document


async def fetch_document(url: str, largest: int) -> dict[str, Any]:
    """Return the JSON object at a URL that somebody unknown has named.

    It has to be on the public internet: of the addresses of its host the first is connected to, and
    none may be of this machine or of a private network, however it is written. So nobody can have
    this server ask others in its network (SSRF). Redirects are not followed, and proxies not used.

    Args:
        url: It begins with ``https://``.
        largest: Bytes that it may have.

    Raises:
        Unreachable: There is none, or it must not be asked.
        ImportError: The HTTP client is not installed.
    """
    import anyio

    parts = urlsplit(url)
    host = parts.hostname or ""
    try:
        with anyio.fail_after(_PATIENCE):
            addresses = await addresses_of(host, parts.port or 443)
    except (OSError, UnicodeError, ValueError):
        addresses = []
    if not addresses or not all(map(is_public, addresses)):
        # Whether it is there at all would tell anybody what names a network has inside.
        raise Unreachable("its host is not on the public internet")
    first = addresses[0]
    # Exactly the address that was looked at: another answer of the name server is too late.
    port = "" if parts.port is None else f":{parts.port}"
    place = f"[{first}]{port}" if ":" in first else f"{first}{port}"
    options: dict[str, Any] = {"extensions": {"sni_hostname": host}}
    pinned = parts._replace(netloc=place).geturl()
    headers = {"Host": parts.netloc}
    return _accepted(pinned, await _ask(pinned, "GET", options, largest, headers, proxies=False))


async def addresses_of(host: str, port: int) -> list[str]:
    """Return the addresses of a host.

    Raises:
        OSError: It has none.
    """
    import anyio

    found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(each[4][0]) for each in found]


def is_public(address: str) -> bool:
    """Return True if an address is on the public internet, in whatever way it is written."""
    import ipaddress

    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(found, ipaddress.IPv6Address):
        # Ways to write an address of the older kind: mapped, 6to4, Teredo, NAT64 (RFC 6052).
        inner = found.ipv4_mapped or found.sixtofour
        if found.teredo is not None:
            inner = found.teredo[1]
        if found in ipaddress.ip_network("64:ff9b::/96") or int(found) >> 32 == 0:
            inner = ipaddress.IPv4Address(int(found) & 0xFFFFFFFF)
        if inner is not None:
            return is_public(str(inner))
        if found not in ipaddress.ip_network("2000::/3"):
            return False  # whatever a local network makes of them
    elif found in ipaddress.ip_network("192.0.0.0/24"):
        return False
    return found.is_global and not found.is_multicast


def _library() -> Any:
    try:
        import httpx2
    except ModuleNotFoundError:
        raise ImportError(_NEEDS) from None
    return httpx2


async def _ask(
    url: str,
    method: str,
    options: Mapping[str, Any],
    largest: int,
    headers: Mapping[str, str],
    *,
    proxies: bool = True,
) -> Answer:
    import anyio
    from pydantic_core import from_json

    httpx2 = _library()
    context = tls_for(url)
    body = bytearray()
    sent = {"Accept": "application/json", **headers}
    try:
        with anyio.fail_after(_PATIENCE):
            client: Any = httpx2.AsyncClient(verify=context, timeout=_PATIENCE, trust_env=proxies)
            async with client:
                asked = client.stream(method, url, headers=sent, **options)
                async with asked as response:
                    status: int = response.status_code
                    async with aclosing(response.aiter_bytes()) as parts:
                        async for part in parts:
                            body += part
                            if len(body) > largest:
                                raise Unreachable(f"{url} answers with more than {largest} bytes")
    except TimeoutError:
        raise Unreachable(f"{url} has not answered within {_PATIENCE:g} seconds") from None
    except httpx2.HTTPError as error:
        raise Unreachable(f"{url} cannot be reached: {type(error).__name__}") from None
    try:
        found: Any = from_json(bytes(body), allow_inf_nan=False)
    except ValueError:
        found = None
    if is_object(found):
        return Answer(status, found)
    if status == 200:
        raise Unreachable(f"{url} answers with what is no JSON object")
    return Answer(status, {})
