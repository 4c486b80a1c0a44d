"""Hostile clients: raw sockets, one byte at a time, and connections that just vanish."""

from __future__ import annotations

import json
import socket
import struct
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, closing, suppress
from typing import Any, Final

from tests.kit import PATIENCE
from tests.transports.http.wire import EVENTS, JSON

_ACCEPT: Final = f"{JSON}, {EVENTS}"


def head(method: str, path: str, headers: Mapping[str, str] | None = None) -> bytes:
    """A request line and headers, as they are sent."""
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"


def post_head(path: str, headers: Mapping[str, str] | None = None) -> bytes:
    """The head of a POST of JSON."""
    return head("POST", path, {"Content-Type": JSON, "Accept": _ACCEPT, **(headers or {})})


def post(path: str, message: Any, headers: Mapping[str, str] | None = None) -> bytes:
    """A whole POST, as it is sent."""
    body = json.dumps(message).encode()
    return post_head(path, {"Content-Length": str(len(body)), **(headers or {})}) + body


def hostile_headers(size: int) -> dict[str, str]:
    """Headers that are longer than any server should take."""
    return {f"X-{number}": "y" * 1000 for number in range(size // 1000)}


class Raw:
    """A connection that sends and reads what a test wants."""

    def __init__(self, port: int, *, receive_buffer: int | None = None) -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if receive_buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(PATIENCE)
        self.socket.connect(("127.0.0.1", port))

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def status(self) -> int:
        """The status of the next answer, whose headers are read and whose body is not."""
        return int(self.until(b"\r\n\r\n").split(b" ", 2)[1])

    def answer(self) -> tuple[dict[str, str], bytes]:
        """The next answer: its headers by names in lower case, with its status, and its body."""
        first, *lines = self.until(b"\r\n\r\n").decode().split("\r\n")[:-2]
        headers = {"status": first.split(" ", 1)[1]}
        for line in lines:
            name, _, value = line.partition(": ")
            headers[name.lower()] = value
        body = b""
        while missing := int(headers["content-length"]) - len(body):
            part = self.socket.recv(missing)
            assert part, "the server has closed the connection"
            body += part
        return headers, body

    def until(self, end: bytes) -> bytes:
        """What arrives, up to some bytes; what is behind them is left where it is."""
        found = b""
        while not found.endswith(end):
            there = self.socket.recv(65536, socket.MSG_PEEK)
            assert there, f"the server has closed the connection after {found!r}"
            at = (found + there).find(end)
            wanted = len(there) if at < 0 else at + len(end) - len(found)
            found += self.socket.recv(wanted)
        return found

    def rest(self) -> bytes:
        """All that arrives until the server closes the connection."""
        parts: list[bytes] = []
        with suppress(ConnectionResetError):
            while part := self.socket.recv(65536):
                parts.append(part)
        return b"".join(parts)

    def is_closed_within(self, seconds: float = PATIENCE) -> bool:
        """Whether the server closes the connection; what it sends before is thrown away."""
        self.socket.settimeout(seconds)
        try:
            self.rest()
        except TimeoutError:
            return False
        return True

    def trickle(self, data: bytes, pause: float) -> bool:
        """Send one byte at a time; whether the server has had enough before the end."""
        for byte in data:
            try:
                self.socket.sendall(bytes([byte]))
            except OSError:
                return True
            time.sleep(pause)
        return False

    def is_cut_off(self, data: bytes) -> bool:
        """Send the same again and again; whether the server has had enough in time."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            try:
                self.socket.sendall(data)
            except ConnectionError:
                return True
        return False

    def half_close(self) -> None:
        """Say that nothing more will be sent."""
        self.socket.shutdown(socket.SHUT_WR)

    def vanish(self) -> None:
        """Go away with RST, as a process that is killed with data unread does."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def close(self) -> None:
        self.socket.close()


def connect(port: int, **options: Any) -> AbstractContextManager[Raw]:
    """A raw connection that is closed in the end."""
    return closing(Raw(port, **options))
