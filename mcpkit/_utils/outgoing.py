"""What the HTTP requests of this process have in common, whoever sends them."""

from __future__ import annotations

import errno
import os
import socket
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import ssl

__all__ = ["reason_of", "tls_for"]

_MOST_ERRORS: Final = 100
"""That are looked at: one for each address that was tried, and what is around them."""

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


_believed: tuple[object, ssl.SSLContext] | None = None
_trusting_nobody: ssl.SSLContext | None = None


def tls_for(url: str) -> ssl.SSLContext:
    """Return what an HTTP client checks the certificates of servers with.

    To read those that are trusted takes longer than many requests, so all clients share one
    context, which is made by the first that needs it: those of the system, or what
    ``SSL_CERT_FILE`` and ``SSL_CERT_DIR`` name. Where nothing is encrypted none are read; whatever
    comes to be encrypted all the same fails, because nobody is trusted.

    Args:
        url: That requests go to.

    Raises:
        OSError: There is no such file.
    """
    global _believed, _trusting_nobody
    if url.partition(":")[0].lower() == "http":
        import ssl  # which brings OpenSSL along

        if _trusting_nobody is None:
            _trusting_nobody = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        return _trusting_nobody
    file, folder = os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")
    # A file may be replaced while this process runs; a folder is read at every handshake.
    named = file, folder, os.stat(file).st_mtime_ns if file else None
    if _believed is None or _believed[0] != named:
        import httpx2

        context: Any = httpx2.create_ssl_context()
        _believed = named, context
    return _believed[1]


def reason_of(error: BaseException) -> str:
    """Return in plain words why somebody could not be reached, without anything that was sent.

    Event loops and HTTP clients put what the system says into errors of their own, which say less,
    and some into a group of one for each address.

    Args:
        error: Of the HTTP client.

    Returns:
        The rest of a sentence; empty if the system says nothing.
    """
    errors = [error]
    for found in errors:  # which grows meanwhile
        if said := _said_by(found):
            return said
        around = (*getattr(found, "exceptions", ()), found.__cause__, found.__context__)
        if len(errors) < _MOST_ERRORS:
            errors += [each for each in around if each is not None and each not in errors]
    return ""


def _said_by(error: BaseException) -> str:
    import ssl  # as above

    if isinstance(error, socket.gaierror):
        return "its name is not known" if error.errno in _NO_NAME else str(error.strerror)
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not valid ({error.verify_message})"
    if isinstance(error, ssl.SSLError):
        # Not every one has a reason, and one that was made elsewhere not even an empty one.
        return f"TLS fails ({getattr(error, 'reason', None) or type(error).__name__})"
    if isinstance(error, ConnectionRefusedError):
        return "the connection is refused"
    if isinstance(error, ConnectionError):
        return "the connection is broken off"
    if isinstance(error, OSError) and error.errno in _UNREACHABLE:
        return os.strerror(error.errno)
    return ""
