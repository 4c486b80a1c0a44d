"""Requests to an authorization server: their parameters, credentials and cookies."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import parse_qsl, unquote_plus, urlsplit

import anyio

from mcpkit.auth.server.errors import OAuthError
from mcpkit.auth.verifiers import Place

__all__ = ["VISIT_S", "Request", "read_body"]

_LARGEST_BODY: Final = 64 * 1024
_LONGEST_QUERY: Final = 16 * 1024
_BODY_S: Final = 30.0
"""Seconds that a body may take to arrive."""

VISIT_S: Final = 600.0
"""Seconds that a user has from the first page to the last."""


class Request:
    """A request to one of the endpoints.

    Args:
        place: Where all of this is.
        scope: Of the connection.
        body: Of the request.

    Raises:
        OAuthError: Its parameters cannot be read.
    """

    def __init__(self, place: Place, scope: Mapping[str, Any], body: bytes) -> None:
        self.place = place
        self.body = body
        self.posted = scope["method"] == "POST"
        self._headers: list[tuple[bytes, bytes]] = scope["headers"]
        query: bytes = scope.get("query_string") or b""
        if len(query) > _LONGEST_QUERY:
            raise OAuthError("invalid_request", "The query is too long", 414)
        self._media = (self.header(b"content-type") or "").partition(";")[0].strip().lower()
        is_form = self._media == "application/x-www-form-urlencoded"
        text = (body if self.posted else query).decode("latin-1")
        pairs: list[tuple[str, str]] = []
        if not self.posted or is_form:
            try:
                pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=100, errors="strict")
            except ValueError:
                raise OAuthError("invalid_request", "The parameters cannot be read") from None
        self.resources = [value for name, value in pairs if name == "resource" and value]
        names = [name for name, _ in pairs if name != "resource"]
        self.repeated = frozenset(each for each in names if names.count(each) > 1)
        # Without a value is as if it were not there (RFC 6749, 3.1).
        self.fields = {name: value for name, value in pairs if value and name != "resource"}

    @property
    def origin(self) -> str:
        """The origin of the pages."""
        parts = urlsplit(self.place.base)
        return f"{parts.scheme}://{parts.netloc}"

    def header(self, name: bytes) -> str | None:
        """Return a header; None if it is not there."""
        found = [value for each, value in self._headers if each == name]
        return found[0].decode("latin-1") if found else None

    def check_form(self) -> None:
        """Refuse what is no form, or has a parameter twice (RFC 6749, 3.2).

        Raises:
            OAuthError: It is refused.
        """
        if self._media != "application/x-www-form-urlencoded":
            raise OAuthError("invalid_request", "The body has to be a form")
        if self.repeated:
            raise OAuthError("invalid_request", "A parameter is there more than once")

    def check_resource(self) -> None:
        """Refuse a request for a token that is for another server (RFC 8707, 2).

        Raises:
            OAuthError: It is refused.
        """
        for each in self.resources:
            try:
                is_ours = plain_url(each) == plain_url(self.place.resource)
            except ValueError:
                is_ours = False
            if not is_ours:
                raise OAuthError("invalid_target", "Tokens are issued for this server only")

    def credentials(self) -> tuple[str, str] | None:
        """Return the id and the secret of the header Authorization; None if there is none.

        Raises:
            OAuthError: They cannot be read.
        """
        sent = self.header(b"authorization")
        if sent is None:
            return None
        kind, _, rest = sent.partition(" ")
        malformed = OAuthError("invalid_client", "The header Authorization is malformed", 401)
        if kind.lower() != "basic":
            raise malformed
        try:
            text = b64decode(rest.strip(), validate=True).decode()
        except ValueError:
            raise malformed from None
        id, colon, secret = text.partition(":")
        if not colon:
            raise malformed
        return unquote_plus(id), unquote_plus(secret)

    # --- the browser ------------------------------------------------------------------------------

    @property
    def _cookie_name(self) -> str:
        # Browsers take this name from https alone, and from this host alone.
        secure = self.place.base.startswith("https:")
        return "__Host-mcpkit-visit" if secure else "mcpkit-visit"

    def browser(self) -> str | None:
        """Return what a browser is known by; None if it has not been here."""
        for each, value in self._headers:
            if each != b"cookie" or len(value) >= _LONGEST_QUERY:
                continue
            # Cookies of others may be malformed; they stand beside ours on every shared host.
            for pair in value.decode("latin-1").split(";"):
                name, _, found = pair.strip().partition("=")
                if name == self._cookie_name and 32 <= len(found) <= 64:
                    return found
        return None

    def cookie(self, browser: str) -> str:
        """Return the header that a browser is known by from now on."""
        secure = "; Secure" if self.place.base.startswith("https:") else ""
        age = int(VISIT_S)
        return (
            f"{self._cookie_name}={browser}; Path=/; HttpOnly; SameSite=Lax; Max-Age={age}{secure}"
        )


async def read_body(scope: Mapping[str, Any], receive: Any) -> bytes:
    """Return the body of a POST.

    Raises:
        OAuthError: It is too large, or does not arrive.
    """
    if scope["method"] != "POST":
        return b""
    body = bytearray()
    with anyio.move_on_after(_BODY_S):
        while True:
            event = await receive()
            if event["type"] == "http.disconnect":
                raise OAuthError("invalid_request", "The request was not sent to its end")
            body += event.get("body", b"")
            if len(body) > _LARGEST_BODY:
                raise OAuthError("invalid_request", "The request is too large", 413)
            if not event.get("more_body"):
                return bytes(body)
    raise OAuthError("invalid_request", "The request has not arrived in time", 408)


def plain_url(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme.lower()}://{parts.netloc.lower()}{parts.path.rstrip('/')}"
