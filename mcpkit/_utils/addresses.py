"""URLs that secrets may be sent to, and the names of this machine."""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import urlsplit


def check_address(url: object, option: str) -> str:
    """Return a URL that secrets and responses may be sent to (SEC-16).

    Args:
        url: Absolute; https, or http on a loopback address.
        option: For messages.

    Raises:
        ValueError: The URL is something else, or has characters that a header cannot (SEC-18).
    """
    refused = ValueError(
        f"{option}: {url!r} is not a URL without a fragment, such as https://example.com/path"
    )
    if not isinstance(url, str) or not url.isascii() or not url.isprintable():
        raise refused
    try:
        parts = urlsplit(url)
        host = parts.hostname
        _ = parts.port
    except ValueError:
        raise refused from None
    if not host or parts.scheme not in ("https", "http") or "@" in parts.netloc:
        raise refused
    if not set(url).isdisjoint(' "\\<>{}|^`#'):
        raise refused
    if parts.scheme == "http" and not is_loopback_name(host):
        raise ValueError(f"{option}: {url!r} is not encrypted; use https")
    return url


def is_loopback_name(host: str) -> bool:
    """Return True if the host of a URL is this machine, for every reader (RFC 6761, 6.3)."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return False
    # Before Python 3.13 a mapped address is not what it maps.
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback
