"""What the HTTP requests of this process have in common."""

from __future__ import annotations

import errno
import os
import re
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable, Iterator
from datetime import datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple

import anyio
import httpx2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from mcpkit import Client
from mcpkit._utils import fetch as fetch_module
from mcpkit._utils.fetch import fetch_json, reason_of, tls_for
from mcpkit.client.auth.base import request

# --- whom they trust ------------------------------------------------------------------------------


class Encrypted(NamedTuple):
    """A server with a certificate that it has signed itself."""

    port: int
    certificate: Path


class _Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = b'{"told": "yes"}'
        self.rfile.read(int(self.headers.get("Content-Length", "0")))
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        self.do_GET()

    def log_message(self, format: str, *args: object) -> None:
        del format, args


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of clients that do not trust it."""


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
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, private)
    server = _Server(("127.0.0.1", 0), _Answers)
    server.socket = context.wrap_socket(
        server.socket, server_side=True, do_handshake_on_connect=False
    )
    thread = threading.Thread(target=server.serve_forever, args=[0.01])
    thread.start()
    yield Encrypted(server.server_port, certificate)
    server.shutdown()
    thread.join(20)
    server.server_close()


async def of_clients(url: str) -> str:
    try:
        await Client(url).__aenter__()
    except Exception as error:
        return str(error)
    return ""


async def of_issuers(url: str) -> str:
    try:
        return str((await request(url, "the metadata", "")).document)
    except Exception as error:
        return str(error)


async def of_servers(url: str) -> str:
    try:
        return str(await fetch_json(url))
    except Exception as error:
        return str(error)


@pytest.mark.parametrize("scheme", ["https", "HTTPS"])
@pytest.mark.parametrize("ask", [of_clients, of_issuers, of_servers])
def test_who_is_not_trusted_is_not_asked(
    encrypted: Encrypted,
    ask: Callable[[str], Awaitable[str]],
    scheme: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """SEC-16: by whatever part of this library, and however the URL is written."""
    url = f"{scheme}://127.0.0.1:{encrypted.port}/x"
    assert "told" not in anyio.run(ask, url)
    monkeypatch.setenv("SSL_CERT_FILE", str(encrypted.certificate))
    assert "told" in anyio.run(ask, url)
    monkeypatch.delenv("SSL_CERT_FILE")
    assert "told" not in anyio.run(ask, url)


def test_whoever_does_not_say_the_truth_about_encryption_is_trusted_by_nobody(
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
        anyio.run(ask, "https://127.0.0.1:1")
    assert given == [tls_for("https://127.0.0.1")] * 3


# --- why nobody was reached -----------------------------------------------------------------------


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
        (FileNotFoundError(errno.ENOENT, "of somebody else"), "^$"),
    ],
    ids=lambda each: type(each).__name__ if isinstance(each, Exception) else "",
)
def test_why_nobody_was_reached_is_what_the_system_says(said: Exception, reason: str) -> None:
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
