"""The requests that a client sends to issuers: bounded in time and size, and never redirected."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import anyio

from mcpkit.auth.fetch import check_address
from mcpkit.oauth.errors import AuthorizationFailed
from mcpkit.types import is_object

__all__ = ["Answer", "get_json", "post_form", "post_json", "shown"]

_PATIENCE: Final = 15.0
"""Seconds for a whole request."""

_LARGEST: Final = 256 * 1024
_LONGEST_TEXT: Final = 200
_NEEDS: Final = 'Authorization needs the client extra: pip install "mcpkit[client]"'


class Answer(NamedTuple):
    """An answer of an issuer.

    Args:
        status: Of it.
        document: The JSON object in it; empty if there is none.
        headers: By name in lower case.
    """

    status: int
    document: dict[str, Any]
    headers: Mapping[str, str]


async def get_json(url: str, what: str) -> dict[str, Any] | None:
    """Return the JSON object at a URL; None if there is none (a status from 400 to 499).

    Raises:
        AuthorizationFailed: Nobody answers, or the URL is not safe.
    """
    answer = await _send("GET", url, what, headers={"Accept": "application/json"})
    if answer.status == 200 and answer.document:
        return answer.document
    if answer.status >= 500:
        raise AuthorizationFailed(f"{what} answers {answer.status}")
    return None


async def post_form(
    url: str, what: str, fields: Mapping[str, str], headers: Mapping[str, str]
) -> Answer:
    """Send a form.

    Raises:
        AuthorizationFailed: Nobody answers, or the URL is not safe.
    """
    sent = {"Accept": "application/json", **headers}
    return await _send("POST", url, what, data=dict(fields), headers=sent)


async def post_json(url: str, what: str, document: Mapping[str, Any]) -> Answer:
    """Send JSON.

    Raises:
        AuthorizationFailed: Nobody answers, or the URL is not safe.
    """
    return await _send(
        "POST", url, what, json=dict(document), headers={"Accept": "application/json"}
    )


async def _send(method: str, url: str, what: str, **options: Any) -> Answer:
    try:
        import httpx2
    except ModuleNotFoundError:
        raise ImportError(_NEEDS) from None
    from pydantic_core import from_json

    try:
        check_address(url, what)
    except ValueError as error:
        raise AuthorizationFailed(str(error)) from None
    body = bytearray()
    try:
        with anyio.fail_after(_PATIENCE):
            client: Any = httpx2.AsyncClient(timeout=_PATIENCE, follow_redirects=False)
            async with client, client.stream(method, url, **options) as response:
                async for part in response.aiter_bytes():
                    body += part
                    if len(body) > _LARGEST:
                        raise AuthorizationFailed(f"{what} answers with too much")
    except TimeoutError:
        raise AuthorizationFailed(f"{what} does not answer") from None
    except httpx2.HTTPError as error:
        raise AuthorizationFailed(f"{what} does not answer: {type(error).__name__}") from None
    try:
        found: Any = from_json(bytes(body), allow_inf_nan=False) if body else {}
    except ValueError:
        found = {}
    document: dict[str, Any] = found if is_object(found) else {}
    headers: dict[str, str] = {name.lower(): value for name, value in response.headers.items()}
    return Answer(response.status_code, document, headers)


def shown(text: object) -> str:
    """Return what an issuer says, as an error may repeat it."""
    said = " ".join(str(text).split())
    return "".join(each for each in said if each.isprintable())[:_LONGEST_TEXT]
