"""An authorization server beside the endpoint (OAuth 2.1)."""

from __future__ import annotations

import os
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from types import NoneType
from typing import Any, Final, TypeAlias, cast
from urllib.parse import urlencode, urlsplit

from starlette.responses import JSONResponse, Response

from mcpkit._environment import variable
from mcpkit._utils.addresses import check_address
from mcpkit._utils.logs import get_logger
from mcpkit._utils.names import with_suggestions
from mcpkit._utils.quota import Quota, RateLimit
from mcpkit._utils.sealing import SECRET, new_secret, read_secrets, secret_weakness
from mcpkit.auth.server import pages
from mcpkit.auth.server.clients import METHODS, Clients, RegisteredClient, origin_of
from mcpkit.auth.server.grants import CHALLENGE, AuthorizationRequest, Grants, LoginState
from mcpkit.auth.server.keys import KeyStore, hash_of
from mcpkit.auth.server.login import Login, LoginAttempt, LoginRefused, Redirect, User
from mcpkit.auth.server.messages import (
    LOGIN_S,
    MAX_BODIES,
    NO_STORE,
    OAuthError,
    Request,
    check_rate,
    redirect,
)
from mcpkit.auth.server.store import AuthStore, MemoryAuthStore, SqliteAuthStore
from mcpkit.auth.server.users import LoginChooser, LoginFunction, login_of
from mcpkit.auth.verifiers import LOGINS, EmbeddedServer, EndpointUrls
from mcpkit.permissions import is_scope
from mcpkit.types import Principal

log = get_logger("mcpkit.auth")

AUTHORIZE: Final = "/authorize"
LOGIN: Final = "/authorize/login"
CONSENT: Final = "/authorize/consent"
TOKEN: Final = "/token"
REGISTER: Final = "/register"
REVOKE: Final = "/revoke"
KEYS: Final = "/.well-known/jwks.json"

MAX_LOGINS: Final = 10_000  # unfinished logins; one address may have a tenth of them
MAX_ANSWERS_EACH: Final = 300  # answers of one address to all its logins in ten minutes
MAX_ANSWERS: Final = 50  # answers of a browser to one login
_LOGIN: Final = "visit"  # the kind of the records of unfinished logins


class AuthorizationServer(EmbeddedServer):
    """An authorization server of the app's own, beside its endpoint.

    It implements OAuth 2.1: codes with PKCE, refresh tokens for one use, tokens for this server
    only (RFC 8707), registration of clients (RFC 7591, and by documents), revocation, and metadata.
    Needs ``pip install "mcpkit[auth]"``, and ``public_url`` for the endpoint, except on loopback.

    Args:
        login: How users log in: a `Login`, several to choose from, or a function.
        store: Where clients, grants and keys are stored: the path of a SQLite file, or a store.
            None: the file in ``MCPKIT_LOGINS``, or else the memory of this process.
        secret: Encrypts stored records, at least 16 bytes; several to rotate them, the current one
            first. ``MCPKIT_SECRET`` if None. A store that outlives the process needs one.
        clients: Clients that need not register.
        scopes: The scopes that users can grant, each with its meaning for them. Scopes that entries
            of the app require are always included.
        dynamic_registration: Any client may register itself.
        client_documents: A client id may be the https URL of a client metadata document.
        token_lifetime: Seconds of an access token.
        refresh_lifetime: Seconds after which an unused login expires.
        key_lifetime: Seconds after which tokens are signed with a new key.
        cache_time: Seconds for which a token is valid without checking whether it was revoked.

    Raises:
        ImportError: The extra is not installed.
        TypeError: ``login``, ``store`` or ``scopes`` has a wrong type.
        ValueError: An option is not valid; the message names it.
    """

    @with_suggestions()
    def __init__(
        self,
        login: Login | LoginFunction | Sequence[Login],
        store: AuthStore | str | os.PathLike[str] | None = None,
        *,
        secret: str | Sequence[str] | None = None,
        clients: Iterable[RegisteredClient] = (),
        scopes: Mapping[str, str] | None = None,
        dynamic_registration: bool = True,
        client_documents: bool = True,
        token_lifetime: float = 3600,
        refresh_lifetime: float = 30 * 24 * 3600,
        key_lifetime: float = 30 * 24 * 3600,
        cache_time: float = 30,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if find_spec("jwt") is None or find_spec("cryptography") is None:
            raise ImportError('AuthorizationServer(…) needs pip install "mcpkit[auth]"')
        for name, given, minimum in (
            ("token_lifetime", token_lifetime, 1),
            ("refresh_lifetime", refresh_lifetime, token_lifetime),
            ("key_lifetime", key_lifetime, token_lifetime),
            ("cache_time", cache_time, 0),
        ):
            if not minimum <= given < 1e9:
                raise ValueError(f"{name} must be at least {minimum:g} seconds, not {given!r}")
        self._login = login_of(login)
        named = variable(LOGINS) or None
        self._store = _store_of(named if store is None else store, clock)
        self.is_alone = isinstance(store, MemoryAuthStore)
        if not isinstance(scopes, (Mapping, NoneType)):
            raise TypeError('scopes= is a dict such as {"notes:read": "Read your notes"}')
        self._scopes = dict(scopes or {})
        for each in self._scopes:
            if not is_scope(each):
                raise ValueError(f"scopes: {each!r} is not a scope")
        self._clock = clock
        self.cache_time = cache_time
        found = _secrets_of(secret, self._store)
        self._keys = KeyStore(self._store, found, key_lifetime, token_lifetime, clock)
        record = self._store.peek() if isinstance(self._store, SqliteAuthStore) else None
        if record is not None:
            try:
                self._keys.open(record)
            except RuntimeError as error:
                raise ValueError(str(error)) from None
        self._clients = Clients(self._store, clients, dynamic_registration, client_documents, clock)
        self._logins = RateLimit(MAX_LOGINS // 10, MAX_LOGINS // 10 / LOGIN_S, clock)
        self._answers = RateLimit(MAX_ANSWERS_EACH, MAX_ANSWERS_EACH / LOGIN_S, clock)
        self._bodies = Quota(MAX_BODIES, MAX_BODIES // 8)
        keys = self._login.keys if isinstance(self._login, LoginChooser) else []
        # Where there are several logins, each provider has a path for its redirects.
        self.paths = frozenset((*_ENDPOINTS, *(f"{LOGIN}/{each}" for each in keys)))
        self._grants = Grants(
            self._store, self._keys, self._login, token_lifetime, refresh_lifetime, clock
        )

    def __repr__(self) -> str:
        return f"<AuthorizationServer: {type(self._login).__name__.lstrip('_')}>"

    async def verify(self, token: str, resource: str | None) -> Principal | None:
        """Return the principal of a token that this server has issued and not revoked."""
        return await self._grants.verify(token, resource)

    async def end_logins(self, user: str) -> None:
        """End all logins of a user: their tokens become invalid within ``cache_time``.

        Args:
            user: The `User.id`, which is the claim ``sub`` of ``ctx.principal``.
        """
        await self._grants.end_of(user)

    async def aclose(self) -> None:
        """Close the store."""
        await self._store.aclose()

    async def check_store(self) -> None:
        """Read from the store. Raises an exception if it cannot be reached."""
        await self._store.get(_LOGIN, "")

    async def serve(
        self, path: str, urls: EndpointUrls, scope: Mapping[str, Any], receive: Any, send: Any
    ) -> None:
        """Serve a request at one of the paths."""
        login_key = path.partition(f"{LOGIN}/")[2]
        methods, endpoint = _ENDPOINTS[LOGIN if login_key else path]
        is_page = path.startswith(AUTHORIZE)
        if scope["method"] == "OPTIONS" and not is_page:
            headers = {
                "Access-Control-Allow-Methods": methods,
                "Access-Control-Allow-Headers": "*, Authorization",
                "Access-Control-Max-Age": "3600",
            }
            response = Response(status_code=204, headers=headers)
        elif scope["method"] not in methods.split(", "):
            response = Response(status_code=405, headers={"Allow": methods})
        else:
            try:
                request = await Request.receive(urls, scope, receive, self._bodies)
                request.login_key = login_key
                request.check_origin(is_page)
                response = await endpoint(self, request)
            except OAuthError as error:
                response = _error_response(error, is_page)
            except Exception:
                log.exception("the authorization server has failed")
                why = "Something has gone wrong on this server"
                response = _error_response(OAuthError("server_error", why, 500), is_page)
        if not is_page:
            # Pages of any origin may read it, because no cookie is looked at.
            response.headers["Access-Control-Allow-Origin"] = "*"
        if scope["method"] == "HEAD":
            response.body = b""
        await response(cast("Any", scope), receive, send)

    async def _metadata(self, request: Request) -> Response:
        """Return the metadata (RFC 8414)."""
        base = request.urls.base
        document: dict[str, Any] = {
            "issuer": base,
            "authorization_endpoint": base + AUTHORIZE,
            "token_endpoint": base + TOKEN,
            "jwks_uri": base + KEYS,
            "revocation_endpoint": base + REVOKE,
            "scopes_supported": self._known_scopes(request.urls),
            "response_types_supported": ["code"],
            "response_modes_supported": ["query"],
            "grant_types_supported": ["authorization_code", "refresh_token", "client_credentials"],
            "token_endpoint_auth_methods_supported": list(METHODS),
            "revocation_endpoint_auth_methods_supported": list(METHODS),
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": True,
            "client_id_metadata_document_supported": self._clients.documents,
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256"],
        }
        if self._clients.dynamic:
            document["registration_endpoint"] = base + REGISTER
        return JSONResponse(document, headers=NO_STORE)

    async def _jwks(self, _: Request) -> Response:
        keys = await self._keys.public_keys()
        return JSONResponse({"keys": keys}, headers={"Cache-Control": "public, max-age=300"})

    def _known_scopes(self, urls: EndpointUrls) -> list[str]:
        return list(dict.fromkeys((*urls.required, *urls.scopes, *self._scopes)))

    async def _authorize(self, request: Request) -> Response:
        """Start a login, if the client and its redirect URI are valid (OAuth 2.1, 4.1.1)."""
        fields = request.fields
        if not request.repeated.isdisjoint(("client_id", "redirect_uri")):
            raise OAuthError("invalid_request", "client_id or redirect_uri is repeated")
        client = await self._clients.find(fields.get("client_id", ""), request.urls.caller)
        redirect_uri = fields.get("redirect_uri", "")
        if not redirect_uri and len(client.redirect_uris) == 1:
            redirect_uri = client.redirect_uris[0]
        if not client.allows(redirect_uri):
            raise OAuthError("invalid_request", "The program has not registered this redirect_uri")
        wanted = AuthorizationRequest(
            client.id,
            client.name,
            "" if client.is_given else urlsplit(client.id).hostname or "",  # of its document
            redirect_uri,
            fields.get("state"),
            challenge=fields.get("code_challenge", ""),
        )
        try:
            _check_authorization(request)
            scopes = self._scopes_for(request.urls, client, fields.get("scope"))
            return await self._start(request, replace(wanted, scopes=scopes))
        except OAuthError as error:
            return await self._refused(request, wanted, error)

    async def _refused(
        self, request: Request, wanted: AuthorizationRequest, error: OAuthError
    ) -> Response:
        """Tell the client of an error, if the user wants that.

        A client that anyone can register must not redirect users by a link (RFC 9700, 4.11).
        """
        back = _redirect_back(request.urls, wanted, **error.members)
        if wanted.client_id in self._clients.given:
            return back
        target = origin_of(wanted.redirect_uri)
        return pages.error(str(error), error.status, back.headers["Location"], target)

    def _scopes_for(
        self, urls: EndpointUrls, client: RegisteredClient, scope: str | None
    ) -> tuple[str, ...]:
        """Return the requested scopes that exist and that the client may have."""
        known = set(self._known_scopes(urls))
        if client.scopes is not None:
            known &= client.scopes
        wanted = urls.required if scope is None else tuple(dict.fromkeys(scope.split()))
        found = tuple(each for each in wanted if each in known)
        if not found and set(wanted) - {"offline_access"}:
            raise OAuthError("invalid_scope", "None of these scopes is available")
        return found

    async def _start(self, request: Request, wanted: AuthorizationRequest) -> Response:
        check_rate(self._logins, request.urls.caller, "logins at the moment")
        browser = request.browser() or secrets.token_urlsafe(32)
        id = secrets.token_urlsafe(32)
        expires = self._clock() + LOGIN_S
        state = LoginState(wanted, hash_of(browser), expires)
        record = state.dump(self._keys)
        if not await self._store.add(_LOGIN, id, record, expires, MAX_LOGINS):
            raise OAuthError("temporarily_unavailable", "Too many logins at the moment")
        response = await self._ask_login(request, id, record, state)
        request.set_browser(response, browser)
        return response

    # --- logging in -------------------------------------------------------------------------------

    async def _log_in(self, request: Request) -> Response:
        """Pass the browser's answer to the login."""
        id, record, state = await self._state(request)
        check_rate(self._answers, request.urls.caller, "attempts")
        if state.user is not None:
            return redirect(f"{request.urls.base}{CONSENT}?{urlencode({'state': id})}")
        if state.answers >= MAX_ANSWERS:
            raise OAuthError("access_denied", "There were too many attempts", 429)
        state.answers += 1
        # Stored before the login is asked: concurrent answers are counted one by one, and each sees
        # the memory of those before it.
        counted = state.dump(self._keys)
        if not await self._store.change(_LOGIN, id, record, counted, state.expires):
            raise OAuthError("invalid_request", "This page was sent twice at once", 409)
        return await self._ask_login(request, id, counted, state)

    async def _ask_login(
        self, request: Request, id: str, record: bytes, state: LoginState
    ) -> Response:
        """Ask the login, and turn its outcome into a response."""
        wanted = state.wanted
        attempt = LoginAttempt(
            id,
            request.urls.base + LOGIN,
            wanted.client_name,
            wanted.scopes,
            request.fields if state.answers else {},
            request.is_post,
            state.memory,
            request.login_key,
            request.urls.name,
            request.urls.caller,
        )
        try:
            ask = self._login.answer if state.answers else self._login.begin
            outcome = await ask(attempt)
        except LoginRefused as error:
            await self._store.take(_LOGIN, id)
            log.info("a login was refused")
            # The characters that error_description may have (RFC 6749, 4.1.2.1).
            why = re.sub(r'[^ -~]|["\\]', "", str(error))[:200]
            return await self._refused(request, wanted, OAuthError("access_denied", why))
        state.memory = attempt.memory
        if isinstance(outcome, User):
            # A new id, which an attacker cannot have known before (session fixation).
            if await self._store.take(_LOGIN, id) is None:
                raise OAuthError("invalid_request", "This page was sent twice at once", 409)
            state.user = outcome
            state.expires = self._clock() + LOGIN_S
            id = secrets.token_urlsafe(32)
            await self._store.add(_LOGIN, id, state.dump(self._keys), state.expires)
            return redirect(f"{request.urls.base}{CONSENT}?{urlencode({'state': id})}")
        await self._store.change(_LOGIN, id, record, state.dump(self._keys), state.expires)
        if isinstance(outcome, Redirect):
            check_address(outcome.url.partition("#")[0], "Redirect")
            return redirect(outcome.url)
        return pages.page(outcome.title, outcome.body, outcome.status)

    async def _state(
        self, request: Request, *, take: bool = False
    ) -> tuple[str, bytes, LoginState]:
        """Return the login of a request, of the same browser: its id, its record, and its state."""
        gone = OAuthError("invalid_request", "This page has expired, or was used already")
        id = request.fields.get("state", "")
        record = await self._store.get(_LOGIN, id)
        browser = request.browser()
        if record is None or browser is None or request.repeated:
            raise gone
        state = LoginState.load(self._keys, record)
        if not secrets.compare_digest(state.browser, hash_of(browser)):
            raise gone
        if take and await self._store.take(_LOGIN, id) is None:
            raise gone
        return id, record, state

    async def _consent(self, request: Request) -> Response:
        urls = request.urls
        id, _, state = await self._state(request, take=request.is_post)
        user, wanted = state.user, state.wanted
        if user is None:
            raise OAuthError("invalid_request", "The login is not complete")
        if not request.is_post:
            return pages.consent(id, state, urls.name, self._scopes)
        try:
            if request.fields.get("answer") != "allow":
                raise OAuthError("access_denied", "The user has not allowed it")
            code = await self._grants.begin(user, wanted, state.scopes, urls)
        except OAuthError as error:
            return _redirect_back(urls, wanted, **error.members)
        return _redirect_back(urls, wanted, code=code)

    async def _token(self, request: Request) -> Response:
        request.check_form()
        client = await self._authenticated(request)
        fields, urls = request.fields, request.urls
        request.check_resource()
        grant_type = fields.get("grant_type")
        if grant_type == "authorization_code":
            issued = await self._grants.redeem(client.id, fields, urls.resource)
        elif grant_type == "refresh_token":
            issued = await self._grants.refresh(client.id, fields, urls.resource)
        elif grant_type == "client_credentials":
            if not client.machine:
                raise OAuthError("unauthorized_client", "This client cannot act for itself")
            scopes = self._scopes_for(urls, client, fields.get("scope"))
            issued = await self._grants.for_machine(client.id, scopes, urls)
        else:
            raise OAuthError("unsupported_grant_type", "This grant_type is not supported")
        await self._clients.note_use(client)
        return JSONResponse(issued, headers=NO_STORE)

    async def _revoke(self, request: Request) -> Response:
        request.check_form()
        client = await self._authenticated(request)
        await self._grants.revoke(request.fields.get("token", ""), client.id)
        return Response(headers=NO_STORE)

    async def _authenticated(self, request: Request) -> RegisteredClient:
        """Return the client of a request, authenticated by its one method (RFC 6749, 2.3)."""
        refused = OAuthError("invalid_client", "The client is not authenticated", 401)
        fields = request.fields
        sent = request.credentials()
        id, secret = fields.get("client_id", ""), fields.get("client_secret")
        method = "none" if secret is None else "client_secret_post"
        if sent is not None:
            if secret is not None or id not in ("", sent[0]):
                raise OAuthError("invalid_request", "The client authenticates in two ways")
            (id, secret), method = sent, "client_secret_basic"
        try:
            client = await self._clients.find(id, request.urls.caller)
        except OAuthError as error:
            # A temporary failure must not make the client delete its registration.
            raise (error if error.status in (429, 503) else refused) from None
        if client.method not in ("", method) or (method == "none") != (client.secret_hash is None):
            raise refused
        if secret is not None and not client.has_secret(secret):
            raise refused
        return client

    async def _register(self, request: Request) -> Response:
        if not self._clients.dynamic:
            raise OAuthError("access_denied", "Clients cannot register themselves here", 403)
        members = await self._clients.register(request.body, request.urls.caller)
        return JSONResponse(members, 201, NO_STORE)


_Endpoint: TypeAlias = Callable[[AuthorizationServer, Request], Awaitable[Response]]

_ENDPOINTS: Final[Mapping[str, tuple[str, _Endpoint]]] = {
    "/.well-known/oauth-authorization-server": ("GET, HEAD", AuthorizationServer._metadata),
    "/.well-known/openid-configuration": ("GET, HEAD", AuthorizationServer._metadata),
    KEYS: ("GET, HEAD", AuthorizationServer._jwks),
    TOKEN: ("POST", AuthorizationServer._token),
    REGISTER: ("POST", AuthorizationServer._register),
    REVOKE: ("POST", AuthorizationServer._revoke),
    AUTHORIZE: ("GET", AuthorizationServer._authorize),
    LOGIN: ("GET, POST", AuthorizationServer._log_in),
    CONSENT: ("GET, POST", AuthorizationServer._consent),
}


def _error_response(error: OAuthError, is_page: bool) -> Response:
    if is_page:
        return pages.error(str(error), error.status)
    response = JSONResponse(error.members, error.status, NO_STORE)
    if error.status == 401:
        response.headers["WWW-Authenticate"] = "Basic"
    return response


def _check_authorization(request: Request) -> None:
    """Reject an authorization request that this server does not support."""
    fields = request.fields
    request.check_repeated()
    if fields.get("response_type") != "code":
        raise OAuthError("unsupported_response_type", "response_type has to be code")
    if fields.get("response_mode", "query") != "query":
        raise OAuthError("invalid_request", "response_mode has to be query")
    is_challenge = CHALLENGE.fullmatch(fields.get("code_challenge", "")) is not None
    if fields.get("code_challenge_method") != "S256" or not is_challenge:
        raise OAuthError("invalid_request", "PKCE with the method S256 is required (RFC 7636)")
    if "request" in fields or "request_uri" in fields:
        raise OAuthError("request_not_supported", "request and request_uri are not supported")
    request.check_resource()


def _redirect_back(urls: EndpointUrls, wanted: AuthorizationRequest, **answer: str) -> Response:
    """Redirect the browser to the client, with the name of the issuer (RFC 9207)."""
    if wanted.state is not None:
        answer["state"] = wanted.state
    answer["iss"] = urls.base
    separator = "&" if "?" in wanted.redirect_uri else "?"
    return redirect(f"{wanted.redirect_uri}{separator}{urlencode(answer)}")


# --- options --------------------------------------------------------------------------------------


def _store_of(given: Any, clock: Callable[[], float]) -> AuthStore:
    if given is None:
        return MemoryAuthStore(clock)
    if isinstance(given, (str, os.PathLike)):
        return SqliteAuthStore(cast("str | os.PathLike[str]", given), clock=clock)
    if not hasattr(given, "take"):
        raise TypeError("store= takes the path of a file, or an AuthStore")
    return cast("AuthStore", given)


def _secrets_of(given: str | Sequence[str] | None, store: AuthStore) -> Sequence[str]:
    found = read_secrets(given)
    if not found:
        if isinstance(store, MemoryAuthStore):
            return [new_secret()]
        raise ValueError(
            "AuthorizationServer stores its keys encrypted with a secret: pass secret=…, or set "
            f'{SECRET}; make one with: python -c "import secrets; print(secrets.token_hex(32))"'
        )
    if weakness := secret_weakness(found):
        raise ValueError(f"{SECRET} {weakness}")
    return found
