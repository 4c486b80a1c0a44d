"""The endpoint as a resource server of OAuth: tokens, challenges, and its metadata."""

from __future__ import annotations

import re
import time
from collections import OrderedDict
from collections.abc import Coroutine, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlsplit

from mcpkit._protocol.messages import encode
from mcpkit._utils.addresses import is_loopback_name
from mcpkit._utils.logs import log
from mcpkit._utils.turns import Turns
from mcpkit.auth.verifiers import EmbeddedServer, EndpointUrls, VerifierUnavailable, resource_server
from mcpkit.http import Asgi, HttpRequest, Receive, Scope, Send
from mcpkit.transports.http.http_error import (
    JSON,
    HttpError,
    Pairs,
    respond,
    retry_after,
    send_error,
)
from mcpkit.transports.http.options import HttpSettings
from mcpkit.transports.http.quotas import owner_of
from mcpkit.transports.http.security import bearer_challenge, canonical_url, parsed_authority
from mcpkit.types import Principal

if TYPE_CHECKING:
    from mcpkit._server.server import Server

WELL_KNOWN: Final = "/.well-known/oauth-protected-resource"  # RFC 9728, 3
_BEARER: Final = re.compile(rb"[Bb][Ee][Aa][Rr][Ee][Rr] +([A-Za-z0-9\-._~+/]+=*)")  # RFC 6750, 2.1
_IS_BEARER: Final = re.compile(rb"[Bb][Ee][Aa][Rr][Ee][Rr](?:[ \t,]|$)")
MAX_CREDENTIALS: Final = 16 * 1024  # bytes of the header with a token
MAX_VERIFIED_EACH: Final = 3  # unknown tokens of one network verified at once; the others wait
_PATH: Final = re.compile(r"(?:/[A-Za-z0-9._~!$&'()*+,;=:@%-]*)*")  # for a quoted string (SEC-18)
_CORS: Final[Pairs] = [  # of the metadata (AUTH-14)
    (b"access-control-allow-origin", b"*"),
    (b"access-control-allow-methods", b"GET"),
    (b"access-control-allow-headers", b"*"),
    (b"access-control-max-age", b"3600"),
]


class Authorization:
    """Verifies bearer tokens, and says to clients how to get one.

    Args:
        settings: Of the endpoint; its ``auth`` is given.
        path: Of the endpoint, below the path that the app is mounted at.
        server: The server of the app.
        loopback: True if only this machine can reach it; None if that is not known.

    Raises:
        TypeError: ``auth`` is not a verifier.
        ValueError: ``public_url`` is malformed, or missing where a verifier needs it; or there are
            two authorization servers.
    """

    def __init__(
        self, settings: HttpSettings, path: str, server: Server, *, loopback: bool | None = None
    ) -> None:
        self.resource_server = resource_server(settings.auth)
        self.resource = None
        self._resource_path = ""
        if settings.public_url is not None:
            self.resource = canonical_url(settings.public_url)
            self._resource_path = urlsplit(self.resource).path
        self._path = path.rstrip("/")
        self._server = server
        self._name = server.info.title or server.info.name
        self.embedded: EmbeddedServer | None = None
        for each in self.resource_server.verifiers:
            if each.needs_resource and self.resource is None:
                raise ValueError(
                    f"{each!r}: tokens are for one server only, and its URL is not known; pass "
                    f"audience=…, or public_url=… with the URL of the endpoint"
                )
            if isinstance(each, EmbeddedServer):
                self._embed(each, loopback)
        self._known: OrderedDict[bytes, tuple[Principal, float]] = OrderedDict()
        self._turns = Turns(MAX_VERIFIED_EACH)

    def _embed(self, embedded: EmbeddedServer, loopback: bool | None) -> None:
        if self.embedded is not None:
            raise ValueError("auth= has two authorization servers, but their paths are the same")
        if self.resource is None and loopback is False:
            raise ValueError(
                "other machines can reach this server, so its login needs the public URL of the "
                'endpoint: http={"public_url": "https://notes.example.com/mcp"}'
            )
        if self.resource and not self._resource_path.endswith(self._path):
            raise ValueError(
                f"{embedded!r}: public_url has to end with the path of the endpoint, "
                f"{self._path}, because the pages of the login are beside it"
            )
        self.embedded = embedded

    # --- tokens -----------------------------------------------------------------------------------

    def find(self, http: HttpRequest) -> Principal | Coroutine[Any, Any, Principal]:
        """Return the principal of a request: at once, if the token is known."""
        raw = http.raw.get(b"authorization")
        query: bytes = http.scope.get("query_string") or b""
        if query and any(each.startswith(b"access_token=") for each in query.split(b"&")):
            # AUTH-10: the logs of every proxy have it by now.
            raise self._malformed(http, "A token must not be in the URL")
        if raw is None or _IS_BEARER.match(raw) is None:
            # RFC 6750, 3.1: without a token there is no error, as there was no attempt.
            raise HttpError(401, "A bearer token is needed", self.challenge(http))
        found = _BEARER.fullmatch(raw) if len(raw) <= MAX_CREDENTIALS else None
        if found is None:
            raise self._malformed(http, "The header Authorization is malformed")
        token = found[1]
        from hashlib import sha256

        key = sha256(token).digest()  # the token itself is kept nowhere
        known = self._known.get(key)
        if known is not None:
            principal, until = known
            if until > time.time():
                self._known.move_to_end(key)
                return principal
            self._known.pop(key, None)
        return self._verify(http, key, token.decode("ascii"))

    def _malformed(self, http: HttpRequest, text: str) -> HttpError:
        return HttpError(400, text, self.challenge(http, "invalid_request"))

    async def _verify(self, http: HttpRequest, key: bytes, token: str) -> Principal:
        away: VerifierUnavailable | None = None
        for each in self.resource_server.verifiers:
            try:
                async with self._turns.of(owner_of(http)):
                    principal = await each.verify(token, self.resource)
            except VerifierUnavailable as error:
                away = error
                continue
            now = time.time()
            if principal is None or (
                principal.expires_at is not None and principal.expires_at <= now
            ):
                continue
            needed = self.resource_server.required_scopes
            hierarchy = self._server.settings.scope_hierarchy
            if not hierarchy.held(principal.scopes).issuperset(needed):
                raise HttpError(
                    403,
                    f"This server needs the scopes {' '.join(needed)}",
                    self.challenge(http, "insufficient_scope"),
                )
            until = now + each.cache_time
            if principal.expires_at is not None:
                until = min(until, principal.expires_at)
            self._known[key] = principal, until
            while len(self._known) > self.resource_server.cache_size:
                self._known.popitem(last=False)
            return principal
        if away is not None:
            raise HttpError(503, str(away), retry_after(5))
        raise HttpError(401, "The token is not valid", self.challenge(http, "invalid_token"))

    # --- challenges -------------------------------------------------------------------------------

    def challenge(
        self, http: HttpRequest, error: str | None = None, scopes: Iterable[str] = ()
    ) -> Pairs:
        """Return the header that says how to get a token (RFC 6750, 3; RFC 9728, 5.1).

        Of the client's input it has nothing but the name of the host, and that only if it is
        well-formed (SEC-18).

        Args:
            http: The request.
            error: A code of RFC 6750 (section 3.1); None if no token was sent.
            scopes: Scopes that the request needs, beside those that every request needs.
        """
        needed = dict.fromkeys([*self.resource_server.required_scopes, *scopes])
        return bearer_challenge(error, needed, self._metadata_url(http.scope))

    # --- metadata ---------------------------------------------------------------------------------

    @property
    def has_metadata(self) -> bool:
        """True if there is an authorization server to get a token from (AUTH-2)."""
        return self.embedded is not None or bool(self.resource_server.authorization_servers)

    def _metadata_url(self, scope: Scope) -> str | None:
        """Return the URL of the metadata; None if there is none, or the request names no host.

        It is below the path that the app is mounted at: a host or a proxy that brings requests for
        the endpoint here brings those here too, and perhaps no others.
        """
        if not self.has_metadata:
            return None
        given = self.resource_server.metadata_url
        if given is not None:
            return given
        found = self._url(scope)
        if found is None:
            return None
        origin, path = found
        prefix = path[: len(path) - len(self._path)] if path.endswith(self._path) else ""
        return f"{origin}{prefix}{WELL_KNOWN}{path[len(prefix) :]}"

    def _url(self, scope: Scope) -> tuple[str, str] | None:
        """Return the origin and the path of the endpoint, as clients know them."""
        if self.resource is not None:
            return self.resource.removesuffix(self._resource_path), self._resource_path
        host = next((value for name, value in scope["headers"] if name == b"host"), b"")
        name = host.decode("latin-1").lower()
        path = quote(scope.get("root_path", "").rstrip("/")) + self._path
        if parsed_authority(name) is None or _PATH.fullmatch(path) is None:
            return None
        scheme = "https" if scope.get("scheme") == "https" else "http"
        return f"{scheme}://{name}", path

    def metadata_at(self, path: str, root: str) -> Asgi | None:
        """Return the application for metadata, of the endpoint or of its authorization server.

        The path is below the root that the app is mounted at. A proxy may pass on the URL that
        follows from the one that clients know.
        """
        root, known = root.rstrip("/"), self._resource_path
        if path.startswith(WELL_KNOWN):
            own = {"", self._path, root + self._path, known}
            is_own = path[len(WELL_KNOWN) :].rstrip("/") in own
            return self.serve_metadata if is_own and self.has_metadata else None
        for each, application in self.server_paths.items():
            if each.startswith("/.well-known/") and path.startswith(f"{each}/"):
                # The path of the issuer follows (RFC 8414, 3.1).
                own = {root, self._path, known, known[: len(known) - len(self._path)]}
                return application if path[len(each) :] in own else None
        return None

    async def aclose(self) -> None:
        """Close the verifiers."""
        for each in self.resource_server.verifiers:
            await each.aclose()

    async def serve_metadata(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with the metadata: to every caller, without a token, to pages too (AUTH-14)."""
        method, document = scope["method"], self.metadata(scope)
        if method == "OPTIONS":
            await respond(send, 204, _CORS)
        elif method not in ("GET", "HEAD"):
            await respond(send, 405, [(b"allow", b"GET"), *_CORS])
        elif document is None:
            await respond(send, 400, _CORS)
        else:
            # A client that names another host must not determine the response to others.
            age = b"public, max-age=3600" if self.resource else b"no-store"
            headers = [JSON, (b"cache-control", age), *_CORS]
            await respond(send, 200, headers, encode(document), head=method == "HEAD")

    def metadata(self, scope: Scope) -> dict[str, Any] | None:
        """Return the metadata (RFC 9728, 2); None if the request names no host."""
        found = self._url(scope)
        if found is None:
            log.debug("the metadata was asked for without a host")
            return None
        of = self.resource_server
        issuers = [] if self.embedded is None else [self._base(scope, found)]
        document: dict[str, Any] = {
            "resource": "".join(found),
            "authorization_servers": [*issuers, *of.authorization_servers],
            "bearer_methods_supported": ["header"],
            "resource_name": self._name,
        }
        if self._scopes:
            document["scopes_supported"] = self._scopes
        if of.documentation is not None:
            document["resource_documentation"] = of.documentation
        return document

    @property
    def _scopes(self) -> tuple[str, ...]:
        of = self.resource_server
        if of.scopes_supported is not None:
            return of.scopes_supported
        return tuple(dict.fromkeys((*of.required_scopes, *self._server.registry.scopes)))

    # --- the authorization server beside it -------------------------------------------------------

    def _base(self, scope: Scope, found: tuple[str, str]) -> str:
        """Return the URL that all paths of the app are below: the issuer."""
        origin, path = found
        if path == scope.get("root_path", "").rstrip("/"):
            return f"{origin}{path}"  # the endpoint is where the app is mounted
        return f"{origin}{path[: len(path) - len(self._path)]}"

    @property
    def server_paths(self) -> Mapping[str, Asgi]:
        """The applications of the app's authorization server by path; empty if it has none."""
        if self.embedded is None:
            return {}
        return {each: partial(self._serve_embedded, each) for each in self.embedded.paths}

    async def _serve_embedded(self, path: str, scope: Scope, receive: Receive, send: Send) -> None:
        embedded, found = self.embedded, self._url(scope)
        assert embedded is not None
        if found is None or not (
            self.resource or is_loopback_name(urlsplit(found[0]).hostname or "")
        ):
            problem = "Set public_url, so that this server knows by which URL it is reached"
            await send_error(send, HttpError(400, problem))
            return
        urls = EndpointUrls(
            self._base(scope, found),
            "".join(found),
            self._name,
            self._scopes,
            self.resource_server.required_scopes,
            owner_of(HttpRequest(scope)),
        )
        await embedded.serve(path, urls, scope, receive, send)
