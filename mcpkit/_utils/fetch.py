"""The HTTP requests of OAuth: bounded in time, size and address; TLS settings; reasons in words."""

from __future__ import annotations

import errno
import os
import re
import socket
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, aclosing, suppress
from dataclasses import dataclass, field
from functools import cache, lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote, urlsplit

import anyio
from anyio import from_thread, to_thread
from pydantic_core import from_json

from mcpkit._utils.addresses import is_loopback_name
from mcpkit._utils.json import BYTE_ORDER_MARK, is_object
from mcpkit._utils.turns import Turns

if TYPE_CHECKING:
    import ssl

    import httpx2

TIMEOUT: Final = 5.0  # default seconds for a whole request
MAX_BODY: Final = 1024 * 1024  # default limit of a response's body, in bytes
MAX_RESOLVING: Final = 8  # names given by unknown callers that are looked up at once
_MAX_TEXT: Final = 200
_MAX_ERRORS: Final = 100  # errors examined for a reason: one per address that was tried, and causes
_NEEDS: Final = (
    'Requests to an authorization server need an HTTP client: pip install "mcpkit[auth]" or '
    '"mcpkit[client]"'
)
_SECRET_FIELDS: Final = (
    "client_secret",
    "client_assertion",
    "assertion",
    "subject_token",
    "refresh_token",
    "token",
    "code",
    "code_verifier",
)
"""Fields of a form that no error may repeat (SEC-13)."""


class FetchError(Exception):
    """A request failed. The message says where and why, without anything that was sent.

    Args:
        why: The message.
        is_temporary: True if the same request may succeed later.
    """

    def __init__(self, why: str, *, is_temporary: bool = False) -> None:
        super().__init__(why)
        self.is_temporary = is_temporary


@dataclass(frozen=True)
class Response:
    """The response of an authorization server."""

    url: str  # for messages: without a query, and with the proxy
    status: int
    document: dict[str, Any] = field(repr=False)  # empty if the body is not a JSON object
    headers: Mapping[str, str] = field(repr=False)  # by name in lower case
    is_json: bool

    @property
    def is_temporary(self) -> bool:
        """True if the failure says nothing about the request: the server is busy or has failed."""
        return self.status in (408, 425, 429) or self.status >= 500


# --- addresses ------------------------------------------------------------------------------------


def is_public(address: str) -> bool:
    """Return True if an IP address is on the public internet, in whatever notation."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(found, IPv6Address):
        # IPv4 inside IPv6: mapped, 6to4, Teredo, NAT64 (RFC 6052).
        inner = found.ipv4_mapped or found.sixtofour
        if found.teredo is not None:
            inner = found.teredo[1]
        if found in ip_network("64:ff9b::/96") or int(found) >> 32 == 0:
            inner = IPv4Address(int(found) & 0xFFFFFFFF)
        if inner is not None:
            return is_public(str(inner))
        if found not in ip_network("2000::/3"):
            return False  # a local network may route it anywhere
    elif found in ip_network("192.0.0.0/24"):
        return False
    return found.is_global and not found.is_multicast


_lookups, _lookups_of = Turns(MAX_RESOLVING), Turns(1)


async def resolve(host: str, port: int, caller: str) -> list[str]:
    """Return the addresses of a host that a caller has named; raise `OSError` if it has none.

    A name server may take longer than anybody waits, and a lookup cannot be stopped: so each has a
    thread that nothing else needs, and each caller one at a time, until the name server answers.
    """
    with ExitStack() as stack:
        for turn in (_lookups_of.of(caller), _lookups.of("")):
            await turn.acquire()
            stack.callback(turn.release)

        def look_up() -> Any:
            with suppress(RuntimeError), ExitStack() as held:  # the event loop may have ended
                held.callback(from_thread.run_sync, stack.pop_all().close)
                return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)

        limiter = anyio.CapacityLimiter(1)
        found = await to_thread.run_sync(look_up, abandon_on_cancel=True, limiter=limiter)
        return [str(each[4][0]) for each in found]


# --- proxies --------------------------------------------------------------------------------------


class Proxy(NamedTuple):
    """The proxy of a URL, and the environment variable that names it."""

    url: str
    variable: str

    def __str__(self) -> str:
        shown = shorten(re.sub("//.*@", "//", self.url))
        return f"the proxy {shown} ({self.variable})"


def proxy_for(url: str) -> Proxy | None:
    """Return the proxy that the environment names for a URL.

    A proxy cannot reach what is on this machine, and must not get the tokens for it: so there is
    none for loopback addresses, whatever the environment says.
    """
    from urllib.request import getproxies  # loaded when needed: it imports OpenSSL

    parts = urlsplit(url)
    host, location = parts.hostname or "", parts.netloc.rpartition("@")[2].lower()
    named = getproxies()
    exempt = [each.strip().lower() for each in named.get("no", "").split(",")]
    if is_loopback_name(host) or any(_covers(each, host, location) for each in exempt):
        return None
    for scheme in (parts.scheme, "all"):
        if found := named.get(scheme):
            names = (f"{scheme}_proxy", f"{scheme}_proxy".upper())
            variable = next(filter(os.environ.get, names), "of the system")
            return Proxy(found if "://" in found else f"http://{found}", variable)
    return None


def _covers(exempt: str, host: str, location: str) -> bool:
    """Return True if an entry of ``NO_PROXY`` covers a host: a name, domain, address or network."""
    exempt = exempt.rpartition("://")[2]
    domain = exempt.removeprefix("*").removeprefix(".")
    if exempt == "*" or domain in (host, location):
        return True
    with suppress(ValueError):
        return ip_address(host) in ip_network(re.sub(r"[][]", "", exempt), strict=False)
    return bool(domain) and host.endswith(f".{domain}")


def open_client(url: str, proxy: Proxy | None, **options: Any) -> httpx2.AsyncClient:
    """Return an HTTP client for the requests to one origin.

    Args:
        url: Of the origin.
        proxy: As `proxy_for` returns it.
        options: Others of the client.

    Raises:
        FetchError: The trusted certificates or the proxy cannot be used.
    """
    import httpx2

    try:
        tls = tls_for(url)
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise FetchError(f"the certificates in SSL_CERT_FILE cannot be read ({why})") from None
    address = None if proxy is None else proxy.url
    try:
        return httpx2.AsyncClient(verify=tls, proxy=address, trust_env=False, **options)
    except ImportError:
        raise FetchError('it needs pip install "httpx2[socks]"') from None
    except (ValueError, httpx2.InvalidURL):  # may quote a password
        raise FetchError("it has no URL with http, https or socks5") from None


# --- requests -------------------------------------------------------------------------------------


async def fetch_json(url: str, **options: Any) -> dict[str, Any]:
    """Return the JSON object in a response with status 200; as `fetch` otherwise."""
    response = await fetch(url, **options)
    if response.status != 200:
        raise FetchError(f"{response.url} answered {response.status}")
    if not response.is_json:
        raise FetchError(f"{response.url} answered with something that is not a JSON object")
    return response.document


async def fetch_public(url: str, max_body: int, caller: str) -> dict[str, Any]:
    """Return the JSON object at a URL that an unknown client has named.

    Its host has to be on the public internet: the first of its addresses is connected to, and none
    may belong to this machine or to a private network, in whatever notation. So this server cannot
    be made to send requests into its own network (SSRF). Proxies are not used.

    Args:
        url: It begins with ``https://``.
        max_body: Limit of the body, in bytes.
        caller: The network of the client.

    Raises:
        FetchError: There is no such object, or the URL must not be requested; temporary if the
            name server did not answer in time.
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    try:
        with anyio.fail_after(TIMEOUT):
            addresses = await resolve(host, parts.port or 443, caller)
    except TimeoutError:
        raise FetchError("its host was not found in time", is_temporary=True) from None
    except (OSError, UnicodeError, ValueError):
        addresses = []
    if not addresses or not all(map(is_public, addresses)):
        # Same error for "no such host": otherwise anyone could probe internal DNS names.
        raise FetchError("its host is not on the public internet")
    # Exactly the address that was checked: the name server may answer differently the next time.
    location = f"[{addresses[0]}]" if ":" in addresses[0] else addresses[0]
    if parts.port is not None:
        location = f"{location}:{parts.port}"
    return await fetch_json(
        parts._replace(netloc=location).geturl(),
        headers={"Host": parts.netloc},
        max_body=max_body,
        tls_name=host,
    )


async def fetch(
    url: str,
    *,
    form: Mapping[str, str] | None = None,
    json: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
    timeout: float = TIMEOUT,
    max_body: int = MAX_BODY,
    tls_name: str | None = None,
) -> Response:
    """Send a request, and return the response, whatever its status. Redirects are not followed.

    Args:
        url: As `check_address` allows it.
        form: Sent with POST.
        json: Sent with POST; without it and without a form, the method is GET.
        headers: Additional headers.
        timeout: Seconds for the whole request.
        max_body: Limit of the response's body, in bytes.
        tls_name: The name that the certificate has to be for, and no proxies; by default the host
            of the URL, and the proxies of the environment.

    Raises:
        FetchError: There is no response, or one that is too large.
        ImportError: No HTTP client is installed.
    """
    try:
        import httpx2
    except ModuleNotFoundError:
        raise ImportError(_NEEDS) from None
    proxy = proxy_for(url) if tls_name is None else None
    where = shorten(url.partition("?")[0]) + (f" through {proxy}" if proxy else "")
    # No compression: a few bytes may unpack to any number of them.
    sent = {"Accept": "application/json", "Accept-Encoding": "identity", **(headers or {})}
    options: dict[str, Any] = {"data": form, "json": json, "headers": sent}
    if tls_name is not None:
        options["extensions"] = {"sni_hostname": tls_name}
    method = "GET" if form is None and json is None else "POST"
    body = bytearray()
    try:
        client = open_client(url, proxy, timeout=timeout, follow_redirects=False)
    except FetchError as error:
        raise FetchError(f"cannot connect to {where}: {error}") from None
    try:
        with anyio.fail_after(timeout):
            async with client, client.stream(method, url, **options) as response:
                if response.headers.get("content-encoding", "identity").lower() != "identity":
                    raise FetchError(f"{where} answered with a compressed body")
                async with aclosing(response.aiter_bytes()) as parts:
                    async for part in parts:
                        body += part
                        if len(body) > max_body:
                            raise FetchError(f"{where} answered with more than {max_body} bytes")
    except (TimeoutError, httpx2.TimeoutException):
        raise FetchError(f"{where} did not answer within {timeout:g} seconds") from None
    except (httpx2.NetworkError, httpx2.ProxyError) as error:
        why = reason_of(error) or shorten(error) or type(error).__name__
        raise FetchError(f"cannot connect to {where}: {why}") from None
    except (httpx2.HTTPError, httpx2.InvalidURL, UnicodeError) as error:  # may quote a secret
        raise FetchError(f"{where} did not answer as HTTP does ({type(error).__name__})") from None
    try:
        found: Any = from_json(bytes(body).removeprefix(BYTE_ORDER_MARK), allow_inf_nan=False)
    except ValueError:
        found = None
    document = found if is_object(found) else {}
    redact(document, (form[name] for name in _SECRET_FIELDS if form and name in form))
    return Response(where, response.status_code, document, dict(response.headers), is_object(found))


def s256(text: str) -> str:
    """Return the SHA-256 of an ASCII text in base64url, as PKCE has it (RFC 7636, 4.2)."""
    from hashlib import sha256  # loaded when needed: it imports OpenSSL

    digest = sha256(text.encode("ascii")).digest()
    return urlsafe_b64encode(digest).decode("ascii").rstrip("=")


def basic_credentials(client_id: str, secret: str) -> str:
    """Return the header ``Authorization`` of a client with a secret (RFC 6749, 2.3.1)."""
    text = f"{quote(client_id, safe='')}:{quote(secret, safe='')}"
    return f"Basic {b64encode(text.encode()).decode('ascii')}"


def is_token(text: object) -> bool:
    """Return True if a value can be a token in a header (SEC-18)."""
    return isinstance(text, str) and re.fullmatch("[!-~]+", text) is not None


def redact(document: dict[str, Any], secrets: Iterable[str]) -> None:
    """Remove every secret from the error in a response, because servers repeat what they got."""
    secrets = [each for each in secrets if each]
    for name in ("error", "error_description"):
        said = document.get(name)
        if isinstance(said, str):
            for each in secrets:
                said = said.replace(each, "…")
            document[name] = said


def shorten(text: object) -> str:
    """Return foreign text as an error may repeat it: short, printable, and in one line."""
    said = " ".join(str(text)[: 8 * _MAX_TEXT].split())
    return "".join(each for each in said if each.isprintable())[:_MAX_TEXT]


# --- TLS and reasons ------------------------------------------------------------------------------

_NO_NAME: Final = {
    getattr(socket, name)
    for name in ("EAI_NONAME", "EAI_NODATA", "EAI_ADDRFAMILY")
    if hasattr(socket, name)
}
_UNREACHABLE: Final = {
    errno.EADDRNOTAVAIL,
    errno.EHOSTDOWN,
    errno.EHOSTUNREACH,
    errno.ENETDOWN,
    errno.ENETUNREACH,
}


def tls_for(url: str) -> ssl.SSLContext:
    """Return the TLS context with which an HTTP client verifies the certificates of servers.

    Loading the trusted certificates takes longer than many requests, so all clients share one
    context, made by the first that needs it: the certificates of the system, or those that
    ``SSL_CERT_FILE`` and ``SSL_CERT_DIR`` name. A URL with http needs none; if the connection
    becomes encrypted after all, as by a redirect, it fails because nothing is trusted.

    Args:
        url: The URL of the requests.

    Raises:
        OSError: There is no such file.
    """
    if url.partition(":")[0].lower() == "http":
        return _trusting_none()
    file, folder = os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")
    # A file may be replaced while this process runs; a folder is read at every handshake.
    return _trusting(file, folder, os.stat(file).st_mtime_ns if file else None)


@cache
def _trusting_none() -> ssl.SSLContext:
    import ssl  # which loads OpenSSL

    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


@lru_cache(maxsize=1)
def _trusting(*environment: object) -> ssl.SSLContext:
    import httpx2

    context: ssl.SSLContext = httpx2.create_ssl_context()
    return context


def reason_of(error: BaseException) -> str:
    """Return in plain words why a host could not be reached, without anything that was sent.

    It is the rest of a sentence; empty if the system gives no reason. Event loops and HTTP clients
    wrap the system's error in errors that say less, and some in a group, one for each address.
    """
    errors = [error]
    for found in errors:  # which grows meanwhile
        if reason := _reason(found):
            return reason
        around = (*getattr(found, "exceptions", ()), found.__cause__, found.__context__)
        if len(errors) < _MAX_ERRORS:
            errors += [each for each in around if each is not None and each not in errors]
    return ""


def _reason(error: BaseException) -> str:
    import ssl  # as above

    if isinstance(error, socket.gaierror):
        return "its name is not known" if error.errno in _NO_NAME else str(error.strerror)
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not valid ({error.verify_message})"
    if isinstance(error, ssl.SSLError):
        # Some have no reason, and those made elsewhere not even the attribute.
        return f"TLS fails ({getattr(error, 'reason', None) or type(error).__name__})"
    if isinstance(error, ConnectionRefusedError):
        return "the connection is refused"
    if isinstance(error, ConnectionError):
        return "the connection is broken off"
    if isinstance(error, OSError) and error.errno in _UNREACHABLE:
        return os.strerror(error.errno)
    return ""
