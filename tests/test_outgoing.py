"""What the HTTP requests of this process have in common."""

from __future__ import annotations

import errno
import os
import re
import socket
import ssl

import pytest

from mcpkit.support.outgoing import reason_of


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
