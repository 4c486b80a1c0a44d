"""Requests to an authorization server, its responses, and OAuth errors."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import parse_qsl, unquote_plus, urlsplit

import anyio
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, cookie_parser
from starlette.requests import Request as HttpRequest
from starlette.responses import RedirectResponse, Response

from mcpkit._utils.addresses import is_loopback_name
from mcpkit._utils.quota import Quota, QuotaExceeded, RateLimit
from mcpkit.auth.verifiers import EndpointUrls

MAX_BODY: Final = 64 * 1024
MAX_BODIES: Final = 400  # bodies that arrive at once, an eighth of them for one address
MAX_QUERY: Final = 16 * 1024
LOGIN_S: Final = 600.0  # seconds from the first page of a login to the last
_BODY_S: Final = 30.0  # seconds for a body to arrive
NO_STORE: Final = {"Cache-Control": "no-store"}


class OAuthError(Exception):
    """A rejected request (RFC 6749, 4.1.2.1 and 5.2).

    Args:
        code: The error code of the standard.
        description: For developers; it contains nothing from the request.
        status: The HTTP status of a JSON response.
    """

    def __init__(self, code: str, description: str, status: int = 400) -> None:
        super().__init__(description)
        self.status = status
        self.members = {"error": code, "error_description": description}
        """The members of an error response."""


def check_rate(limit: RateLimit, address: str, what: str) -> None:
    """Count a request of an address, and raise an `OAuthError` if it has made too many."""
    if limit.take(address):
        raise OAuthError("temporarily_unavailable", f"Too many {what}; try later", 429)


class Request:
    """A request to one of the endpoints; an `OAuthError` if its parameters cannot be read."""

    @classmethod
    async def receive(
        cls, urls: EndpointUrls, scope: Mapping[str, Any], receive: Any, bodies: Quota
    ) -> Request:
        """Return a request with its body, unless that is too large or does not arrive."""
        if scope["method"] != "POST":
            return cls(urls, scope, b"")
        http, body = HttpRequest(dict(scope), receive), bytearray()
        length = http.headers.get("content-length", "")
        if length.isdecimal() and (len(length) > 9 or int(length) > MAX_BODY):
            raise OAuthError("invalid_request", "The request is too large", 413)
        try:
            slot = bodies.take(urls.caller)
        except QuotaExceeded as full:
            status = 429 if full.own else 503
            why = "Too many requests are arriving; try later"
            raise OAuthError("temporarily_unavailable", why, status) from None
        try:
            with anyio.fail_after(_BODY_S):
                async for part in http.stream():
                    body += part
                    if len(body) > MAX_BODY:
                        raise OAuthError("invalid_request", "The request is too large", 413)
        except ClientDisconnect:
            raise OAuthError("invalid_request", "The request is not complete") from None
        except TimeoutError:
            raise OAuthError(
                "invalid_request", "The request has not arrived in time", 408
            ) from None
        finally:
            slot.release()
        return cls(urls, scope, bytes(body))

    def __init__(self, urls: EndpointUrls, scope: Mapping[str, Any], body: bytes) -> None:
        self.urls = urls
        self.login_key = ""  # the `Login.key` at the end of the path; empty without one
        self.body = body
        self.is_post = scope["method"] == "POST"
        self.headers = Headers(raw=scope["headers"])
        self._is_secure = urls.base.startswith("https:")
        # Browsers accept this prefix over https only, and from this host only.
        self._cookie_name = "__Host-mcpkit-visit" if self._is_secure else "mcpkit-visit"
        query: bytes = scope.get("query_string") or b""
        if len(query) > MAX_QUERY:
            raise OAuthError("invalid_request", "The query is too long", 414)
        media_type = self.headers.get("content-type", "").partition(";")[0].strip().lower()
        self._is_form = media_type == "application/x-www-form-urlencoded"
        text = (body if self.is_post else query).decode("latin-1")
        pairs: list[tuple[str, str]] = []
        if not self.is_post or self._is_form:
            try:
                pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=100, errors="strict")
            except ValueError:
                raise OAuthError("invalid_request", "The parameters cannot be read") from None
        self.resources = [value for name, value in pairs if name == "resource" and value]
        names = [name for name, _ in pairs if name != "resource"]
        self.repeated = frozenset(each for each in names if names.count(each) > 1)
        # A parameter without a value is ignored (RFC 6749, 3.1).
        self.fields = {name: value for name, value in pairs if value and name != "resource"}

    def check_origin(self, is_page: bool) -> None:
        """Reject a request from the page of another site (CSRF).

        Pages of any origin may ask for tokens, unless the server is for this machine only. Pages
        for people are for a window, and not for scripts and pictures of other sites.
        """
        base, origin = urlsplit(self.urls.base), self.headers.get("origin")
        allowed = (None, "null", f"{base.scheme}://{base.netloc}")
        if is_page:
            is_foreign = self.is_post and origin not in allowed
            is_foreign |= self.headers.get("sec-fetch-dest", "document") != "document"
        else:
            is_local = is_loopback_name(base.hostname or "") and self.is_post
            is_foreign = is_local and origin is not None and not _is_local(origin)
        if is_foreign:
            raise OAuthError("access_denied", "This request is from another site", 403)

    def check_repeated(self) -> None:
        """Reject a repeated parameter (RFC 6749, 3.1 and 3.2)."""
        if self.repeated:
            raise OAuthError("invalid_request", "A parameter is repeated")

    def check_form(self) -> None:
        """Reject a body that is not a form, or repeats a parameter (RFC 6749, 3.2)."""
        if not self._is_form:
            raise OAuthError("invalid_request", "The body has to be a form")
        self.check_repeated()

    def check_resource(self) -> None:
        """Reject a request for a token for another server (RFC 8707, 2)."""
        ours = _plain_url(self.urls.resource)
        if any(_plain_url(each) != ours for each in self.resources):
            raise OAuthError("invalid_target", "Tokens are issued for this server only")

    def credentials(self) -> tuple[str, str] | None:
        """Return the id and the secret in the header ``Authorization``; None if it is missing."""
        sent = self.headers.get("authorization")
        if sent is None:
            return None
        kind, _, rest = sent.partition(" ")
        try:
            text = b64decode(rest.strip(), validate=True).decode()
        except ValueError:
            text = ""
        id, colon, secret = text.partition(":")
        if kind.lower() != "basic" or not colon:
            raise OAuthError("invalid_client", "The header Authorization is malformed", 401)
        return unquote_plus(id), unquote_plus(secret)

    def browser(self) -> str | None:
        """Return the id of the browser; None if it has no cookie of this server."""
        text = "; ".join(self.headers.getlist("cookie"))[:MAX_QUERY]
        found = cookie_parser(text).get(self._cookie_name, "")
        return found if 32 <= len(found) <= 64 else None

    def set_browser(self, response: Response, browser: str) -> None:
        """Add the cookie with the id of the browser to a response."""
        response.set_cookie(
            self._cookie_name,
            browser,
            max_age=int(LOGIN_S),
            secure=self._is_secure,
            httponly=True,
            samesite="lax",
        )


def _plain_url(url: str) -> str:
    """Return a URL without query, in lower case up to its path, and without a slash at its end."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    return f"{parts.scheme.lower()}://{parts.netloc.lower()}{parts.path.rstrip('/')}"


def redirect(url: str) -> Response:
    """Redirect the browser, with GET (RFC 9700, 4.12)."""
    return RedirectResponse(url, 303, {**NO_STORE, "Referrer-Policy": "no-referrer"})


def _is_local(origin: str) -> bool:
    try:
        return is_loopback_name(urlsplit(origin).hostname or "")
    except ValueError:
        return False
