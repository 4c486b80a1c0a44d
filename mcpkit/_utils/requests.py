"""The requests that a client sends to issuers: bounded in time and size, and never redirected."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import urlsplit

import anyio

from mcpkit._utils.fetch import check_address, is_public
from mcpkit._utils.json import is_object
from mcpkit._utils.outgoing import reason_of, tls_for
from mcpkit._utils.targets import is_loopback_name
from mcpkit.client.auth.errors import AuthorizationFailed

__all__ = [
    "Answer",
    "check_named",
    "get_json",
    "hide",
    "is_temporary",
    "post_form",
    "post_json",
    "refusal",
    "shown",
]

_PATIENCE: Final = 15.0
"""Seconds for a whole request."""

_LARGEST: Final = 256 * 1024
_LONGEST_TEXT: Final = 200
_NEEDS: Final = 'Authorization needs the client extra: pip install "mcpkit[client]"'

_SECRET: Final = (
    "client_secret",
    "client_assertion",
    "assertion",
    "subject_token",
    "refresh_token",
    "token",
    "code",
    "code_verifier",
)
"""Fields of requests that no error may repeat (SEC-13)."""


@dataclass(frozen=True)
class Answer:
    """An answer of an issuer.

    Args:
        status: Of it.
        document: The JSON object in it; empty if there is none.
        headers: By name in lower case.
    """

    status: int
    document: dict[str, Any] = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)


def is_temporary(status: int) -> bool:
    """Return True if an answer says nothing but that somebody is busy, or has failed."""
    return status in (408, 425, 429) or status >= 500


async def get_json(url: str, what: str, server: str) -> dict[str, Any] | None:
    """Return the JSON object at a URL; None if there is none.

    Args:
        url: Of the document.
        what: It is, for messages.
        server: Whose authorization this is about.

    Raises:
        AuthorizationFailed: Nobody answers, or not now, or the URL is not safe.
    """
    answer = await _send("GET", url, what, server)
    if is_temporary(answer.status):
        raise AuthorizationFailed(f"{what} cannot be had: {_place(url)} answers {answer.status}")
    return answer.document if answer.status == 200 and answer.document else None


async def post_form(
    url: str, what: str, server: str, fields: Mapping[str, str], headers: Mapping[str, str]
) -> Answer:
    """Send a form.

    Raises:
        AuthorizationFailed: Nobody answers, or the URL is not safe.
    """
    answer = await _send("POST", url, what, server, headers, data=dict(fields))
    hide(answer, [fields[name] for name in _SECRET if name in fields])
    return answer


async def post_json(url: str, what: str, server: str, document: Mapping[str, Any]) -> Answer:
    """Send JSON.

    Raises:
        AuthorizationFailed: Nobody answers, or the URL is not safe.
    """
    return await _send("POST", url, what, server, json=dict(document))


def check_named(url: object, what: str, server: str) -> None:
    """Refuse an address that a server, or its issuer, must not send this client or its user to.

    A server elsewhere has no business on this machine, and none at addresses in private networks
    unless it is at one itself (SSRF). Names are not looked up: what they lead to has to prove with
    a certificate that it has this name, before it is asked for anything (SEC-16).

    Args:
        url: The address.
        what: It is, for messages.
        server: The URL of the server; empty if the address comes from whoever runs this program.

    Raises:
        AuthorizationFailed: It must not be used.
    """
    try:
        check_address(url, what)
    except ValueError as error:
        raise AuthorizationFailed(shown(error)) from None
    own = urlsplit(server).hostname or ""
    if not server or is_loopback_name(own):
        return
    host = urlsplit(str(url)).hostname or ""
    address = _literal(host)
    if is_loopback_name(host) or (address is not None and ip_address(address).is_loopback):
        raise AuthorizationFailed(f"{what}: a server elsewhere names {shown(url)}, on this machine")
    mine = _literal(own)
    is_inside = mine is not None and not is_public(mine)
    if address is not None and not is_public(address) and not is_inside:
        raise AuthorizationFailed(
            f"{what}: a server elsewhere names {shown(url)}, in a private network"
        )


def _literal(host: str) -> str | None:
    """Return the address that a host is written as, in whatever way; None if it is a name."""
    try:
        return str(ip_address(host.partition("%")[0]))
    except ValueError:
        pass
    try:
        return socket.inet_ntoa(socket.inet_aton(host))  # 127.1, 0x7f000001, 2130706433
    except (OSError, UnicodeError, ValueError):
        return None


def _new_client(url: str) -> Any:
    """Return an HTTP client for one request."""
    try:
        import httpx2
    except ModuleNotFoundError:
        raise ImportError(_NEEDS) from None
    return httpx2.AsyncClient(verify=tls_for(url), timeout=_PATIENCE, follow_redirects=False)


async def _send(
    method: str,
    url: str,
    what: str,
    server: str,
    headers: Mapping[str, str] | None = None,
    **options: Any,
) -> Answer:
    from pydantic_core import from_json

    check_named(url, what, server)
    client = _new_client(url)

    import httpx2

    # A few bytes may unpack to any number of them, so nothing is to be packed.
    sent = {"Accept": "application/json", "Accept-Encoding": "identity", **(headers or {})}
    body = bytearray()
    try:
        with anyio.fail_after(_PATIENCE):
            async with client, client.stream(method, url, headers=sent, **options) as response:
                if response.headers.get("content-encoding", "identity").lower() != "identity":
                    raise AuthorizationFailed(f"{what} answers with what it was not asked for")
                async with aclosing(response.aiter_bytes()) as parts:
                    async for part in parts:
                        body += part
                        if len(body) > _LARGEST:
                            raise AuthorizationFailed(f"{what} answers with too much")
    except (TimeoutError, httpx2.TimeoutException):
        problem = f"{_place(url)}, {what}, does not answer within {_PATIENCE:g} seconds"
        raise AuthorizationFailed(problem) from None
    except httpx2.NetworkError as error:
        why = reason_of(error) or "nobody answers"
        raise AuthorizationFailed(f"cannot connect to {_place(url)}, {what}: {why}") from None
    except (httpx2.HTTPError, httpx2.InvalidURL, UnicodeError):  # whose text may have a secret
        problem = f"{_place(url)}, {what}, does not answer, or not as HTTP has it"
        raise AuthorizationFailed(problem) from None
    try:
        found: Any = from_json(bytes(body), allow_inf_nan=False) if body else {}
    except ValueError:
        found = {}
    document: dict[str, Any] = found if is_object(found) else {}
    named: dict[str, str] = {name.lower(): value for name, value in response.headers.items()}
    return Answer(response.status_code, document, named)


def _place(url: str) -> str:
    """Return a URL as an error may repeat it."""
    return shown(url.partition("?")[0])


def hide(answer: Answer, secrets: Sequence[str]) -> None:
    """Take out of what an issuer says of an error whatever it repeats of what it was sent."""
    for name in ("error", "error_description"):
        said = answer.document.get(name)
        if isinstance(said, str):
            for each in secrets:
                said = said.replace(each, "…") if each else said
            answer.document[name] = said


def refusal(told: Mapping[str, Any]) -> str:
    """Return what an issuer says of a refusal: its sentence, if there is one, and the code."""
    code, said = shown(told.get("error", "")), shown(told.get("error_description", ""))
    said = said.strip(" .")
    return f"{said} ({code})" if said else code


def shown(text: object) -> str:
    """Return what somebody else says, as an error may repeat it: short, and in one line."""
    said = " ".join(str(text)[: 8 * _LONGEST_TEXT].split())
    return "".join(each for each in said if each.isprintable())[:_LONGEST_TEXT]
