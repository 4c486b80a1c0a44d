"""What the HTTP requests of this process have in common."""

from __future__ import annotations

import errno
import os
import re
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterator
from datetime import datetime, timedelta, timezone
from ipaddress import ip_address
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import httpx2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from starlette.responses import JSONResponse, Response

from mcpkit import Client
from mcpkit._utils import fetch as fetch_module
from mcpkit._utils.fetch import fetch_json, proxy_for, reason_of, tls_for
from mcpkit.auth import JWT, Introspection, VerifierUnavailable
from mcpkit.client.auth.base import request
from tests.auth.issuer import RESOURCE, Issuer, issuing
from tests.uvicorns import listen, running

# --- certificates ---------------------------------------------------------------------------------


class Encrypted(NamedTuple):
    """A server with a certificate that it has signed itself."""

    port: int
    certificate: Path


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Encrypted]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "tests")])
    now = datetime.now(timezone.utc)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False
        )
        .sign(key, hashes.SHA256())
    )
    folder = tmp_path_factory.mktemp("certificates")
    certificate, private = folder / "certificate.pem", folder / "key.pem"
    certificate.write_bytes(made.public_bytes(Encoding.PEM))
    private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    listener = listen()
    options = {"ssl_certfile": certificate, "ssl_keyfile": private, "lifespan": "off"}
    with running(JSONResponse({"served": "yes"}), listener, **options):
        yield Encrypted(listener.getsockname()[1], certificate)


async def of_clients(url: str) -> object:
    return await Client(url).__aenter__()


async def of_issuers(url: str) -> object:
    return (await request(url, "the metadata", "")).document


async def of_servers(url: str) -> object:
    return await fetch_json(url)


def asked(ask: Callable[[str], Awaitable[object]], url: str) -> str:
    """What a part of this library got from a URL, or why it got nothing."""
    try:
        return str(anyio.run(ask, url))
    except Exception as error:
        return str(error)


@pytest.mark.parametrize("scheme", ["https", "HTTPS"])
@pytest.mark.parametrize("ask", [of_clients, of_issuers, of_servers])
def test_a_server_that_is_not_trusted_gets_no_request(
    encrypted: Encrypted,
    ask: Callable[[str], Awaitable[object]],
    scheme: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """SEC-16: by whatever part of this library, and however the URL is written."""
    url = f"{scheme}://127.0.0.1:{encrypted.port}/x"
    assert "served" not in asked(ask, url)
    monkeypatch.setenv("SSL_CERT_FILE", str(encrypted.certificate))
    assert "served" in asked(ask, url)
    monkeypatch.delenv("SSL_CERT_FILE")
    assert "served" not in asked(ask, url)


def test_a_client_for_http_trusts_no_certificate(
    encrypted: Encrypted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client for http that is made to speak https all the same, as by a redirect."""
    monkeypatch.setenv("SSL_CERT_FILE", str(encrypted.certificate))

    async def ask() -> None:
        async with httpx2.AsyncClient(verify=tls_for("http://127.0.0.1")) as client:
            await client.get(f"https://127.0.0.1:{encrypted.port}")

    with pytest.raises(httpx2.ConnectError) as raised:
        anyio.run(ask)
    assert reason_of(raised.value).startswith("its certificate is not valid")


def test_certificates_are_read_once_and_only_for_what_is_encrypted(
    encrypted: Encrypted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[object] = []

    def create() -> ssl.SSLContext:
        read.append(1)
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)

    monkeypatch.setattr(httpx2, "create_ssl_context", create)
    fetch_module._trusting.cache_clear()
    assert tls_for("http://a") is tls_for("http://b") is not tls_for("https://a")
    assert tls_for("https://a") is tls_for("https://b")
    assert len(read) == 1
    file = tmp_path / "trusted.pem"
    file.write_bytes(encrypted.certificate.read_bytes())
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    assert tls_for("https://a") is tls_for("https://b")
    assert len(read) == 2
    os.utime(file, (1, 1))  # which has been replaced
    assert tls_for("https://a") is tls_for("https://b")
    assert len(read) == 3
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none.pem"))
    assert tls_for("http://a")
    with pytest.raises(FileNotFoundError, match=r"none\.pem"):
        tls_for("https://a")


def test_clients_share_what_they_trust(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each would take 20 ms and more to read it."""
    given: list[object] = []
    make = httpx2.AsyncClient.__init__

    def noted(client: httpx2.AsyncClient, **options: object) -> None:
        given.append(options["verify"])
        make(client, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(httpx2.AsyncClient, "__init__", noted)
    for ask in (of_clients, of_issuers, of_servers):
        asked(ask, "https://127.0.0.1:1")
    assert given == [tls_for("https://127.0.0.1")] * 3


# --- proxies --------------------------------------------------------------------------------------

CLOSED = "http://127.0.0.1:9"
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Sets proxy variables, and removes all others."""
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    return monkeypatch.setenv


@pytest.mark.parametrize("ask", [of_clients, of_issuers, of_servers])
@pytest.mark.parametrize("proxy", [CLOSED, "socks5://127.0.0.1:9", "ftp://127.0.0.1", "http://a:b"])
def test_what_is_on_this_machine_is_asked_without_a_proxy(
    encrypted: Encrypted,
    ask: Callable[[str], Awaitable[object]],
    proxy: str,
    environment: Callable[[str, str], None],
) -> None:
    """Also if no proxy could be used."""
    environment("SSL_CERT_FILE", str(encrypted.certificate))
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        environment(name, proxy)
    assert "served" in asked(ask, f"https://127.0.0.1:{encrypted.port}/x")


@pytest.mark.parametrize(
    ("url", "is_direct"),
    [
        *((f"http://{host}:8/mcp", True) for host in ("localhost", "a.localhost", "127.9.9.9")),
        *((f"http://{host}:8/mcp", True) for host in ("[::1]", "[::ffff:127.0.0.1]", "LocalHost")),
        *((f"https://{host}", True) for host in ("a.example", "b.a.example", "10.9.8.7")),
        *((f"https://{host}", True) for host in ("b.c.example", "[fd00::7]", "d.example:8")),
        *((f"https://{host}", True) for host in ("192.0.2.1", "[2001:db8::1]", "e.example")),
        *((f"https://{host}", False) for host in ("xa.example", "11.9.8.7", "[fd01::7]")),
        *((f"https://{host}", False) for host in ("d.example", "d.example:9", "localhost.example")),
        ("http://e.example.:8/mcp", False),
    ],
)
def test_no_proxy_names_hosts_domains_addresses_and_networks(
    url: str, is_direct: bool, environment: Callable[[str, str], None]
) -> None:
    exempt = "a.example, .c.example,10.0.0.0/8,fd00::/16,d.example:8,192.0.2.1,[2001:db8::1]"
    environment("NO_PROXY", exempt + ",*.e.example,https://e.example,,x/y")
    environment("ALL_PROXY", CLOSED)
    assert (proxy_for(url) is None) is is_direct
    environment("NO_PROXY", "*")
    assert proxy_for(url) is None


@pytest.mark.parametrize("ask", [of_clients, of_issuers, of_servers])
@pytest.mark.parametrize(
    ("variable", "proxy", "named", "why"),
    [
        ("HTTPS_PROXY", CLOSED, CLOSED, "the connection is refused"),
        ("https_proxy", "ann:hush@127.0.0.1:9", CLOSED, "the connection is refused"),
        (
            "ALL_PROXY",
            "socks5://a:hush@b:9",
            "socks5://b:9",
            'it needs pip install "httpx2[socks]"',
        ),
        ("ALL_PROXY", "ftp://b", "ftp://b", "it has no URL with http, https or socks5"),
        ("ALL_PROXY", "http://a:b", "http://a:b", "it has no URL with http, https or socks5"),
    ],
)
def test_a_connection_that_a_proxy_fails_names_it_and_its_variable(
    ask: Callable[[str], Awaitable[object]],
    variable: str,
    proxy: str,
    named: str,
    why: str,
    environment: Callable[[str, str], None],
) -> None:
    environment(variable, proxy)
    said = asked(ask, "https://mcp.example/x")
    assert (
        f"annot connect to https://mcp.example/x through the proxy {named} ({variable}): {why}"
        in said
    )
    assert "hush" not in said


@pytest.mark.parametrize(
    ("ask", "scheme", "status"),
    [
        *((each, "https", "400 Bad Request") for each in (of_clients, of_issuers, of_servers)),
        *((each, "http", "502") for each in (of_clients, of_servers)),
    ],
)
def test_what_a_proxy_answers_is_not_taken_for_the_server(
    ask: Callable[[str], Awaitable[object]],
    scheme: str,
    status: str,
    environment: Callable[[str, str], None],
) -> None:
    """It refuses tunnels for https; requests for http are answered."""
    listener = listen()
    proxy = f"http://127.0.0.1:{listener.getsockname()[1]}"
    environment("ALL_PROXY", proxy)
    with running(Response(status_code=502), listener, lifespan="off"):
        said = asked(ask, f"{scheme}://mcp.example/x")
    assert f"{scheme}://mcp.example/x through the proxy {proxy} (ALL_PROXY)" in said
    assert status in said


def test_certificates_that_cannot_be_read_are_a_failed_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none.pem"))
    for ask in (of_clients, of_issuers, of_servers):
        said = asked(ask, "https://127.0.0.1:9/x")
        assert "annot connect to https://127.0.0.1:9/x: the certificates in SSL_CERT_FILE" in said


@pytest.mark.parametrize("proxy", ["socks5://127.0.0.1:9", "ftp://127.0.0.1", CLOSED])
async def test_a_token_is_not_wrong_because_its_issuer_cannot_be_asked(
    proxy: str, environment: Callable[[str, str], None], caplog: pytest.LogCaptureFixture
) -> None:
    environment("ALL_PROXY", proxy)
    there = "https://issuer.example"
    verifiers: list[Any] = [
        JWT(issuer=there, audience=RESOURCE),
        JWT(issuer=there, audience=RESOURCE, jwks_url=f"{there}/keys"),
        Introspection(f"{there}/ask", "me", "secret", issuer=there, audience=RESOURCE),
    ]
    with issuing(Issuer) as issuer:
        token = issuer.token(iss=there)
    for each in verifiers:
        with pytest.raises(VerifierUnavailable):
            await each.verify(token, RESOURCE)
    assert caplog.text.count("(ALL_PROXY)") >= len(verifiers)


# --- why a connection failed ----------------------------------------------------------------------


def certificate() -> ssl.SSLCertVerificationError:
    made = ssl.SSLCertVerificationError(1, "certificate verify failed")
    made.verify_message = "self-signed certificate"
    return made


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (ConnectionRefusedError(errno.ECONNREFUSED, "Connect call failed"), "is refused"),
        (ConnectionResetError(errno.ECONNRESET, "reset"), "is broken off"),
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), "its name is not known"),
        (socket.gaierror(socket.EAI_AGAIN, "Try again later"), "Try again later"),
        (OSError(errno.ENETUNREACH, "Connect call failed"), os.strerror(errno.ENETUNREACH)),
        (certificate(), r"its certificate is not valid \(self-signed certificate\)"),
        (ssl.SSLError(1, "[SSL] wrong"), r"TLS fails \(SSLError\)"),
        (OSError("All connection attempts failed"), "^$"),
        (FileNotFoundError(errno.ENOENT, "of another library"), "^$"),
    ],
    ids=lambda each: type(each).__name__ if isinstance(each, Exception) else "",
)
def test_the_reason_of_a_failed_connection_is_what_the_system_says(
    said: Exception, reason: str
) -> None:
    """However deep it is: of asyncio as the cause, of trio in a group, of others as the context."""

    class Group(Exception):
        exceptions = (OSError("the first address"), said)

    outer = RuntimeError("cannot connect")
    outer.__cause__ = Group()
    inner = RuntimeError("ConnectError")
    inner.__context__ = said
    for error in (said, outer, inner):
        assert re.search(reason, reason_of(error))


def test_errors_that_go_in_circles_end() -> None:
    one, other = RuntimeError("one"), RuntimeError("other")
    one.__cause__, other.__cause__ = other, one
    assert reason_of(one) == ""
