"""An authorization server beside the endpoint: OAuth 2.1, for those who have no other.

The README of this folder says what is where, and which library does what.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from hashlib import sha256
from typing import Any, Final, TypeAlias, cast
from urllib.parse import urlencode, urlsplit

from mcpkit._utils.fetch import check_address
from mcpkit._utils.json import is_array
from mcpkit._utils.logs import get_logger
from mcpkit._utils.names import with_suggestions
from mcpkit._utils.rates import Rate
from mcpkit._utils.targets import is_loopback_name
from mcpkit.auth.server import pages
from mcpkit.auth.server.choice import Choice
from mcpkit.auth.server.clients import (
    Clients,
    RegisteredClient,
    is_allowed,
    is_secret_of,
    origin_of,
)
from mcpkit.auth.server.errors import OAuthError
from mcpkit.auth.server.grants import ON_ITS_WAY, Grants, challenge_of
from mcpkit.auth.server.keys import NEEDS, KeyStore
from mcpkit.auth.server.login import (
    Login,
    LoginAttempt,
    LoginRefused,
    Outcome,
    Page,
    Redirect,
    User,
)
from mcpkit.auth.server.messages import VISIT_S, Request, read_body
from mcpkit.auth.server.replies import ANY_ORIGIN, Reply, json_of, page, see
from mcpkit.auth.server.store import AuthStore, MemoryAuthStore, SqliteAuthStore
from mcpkit.auth.server.visits import LoginState, Wish, scopes_given
from mcpkit.auth.verifiers import LOGINS, EmbeddedServer, Place
from mcpkit.permissions import is_scope
from mcpkit.types import Principal

__all__ = ["AuthorizationServer"]

log = get_logger("mcpkit.auth")

Ask: TypeAlias = Callable[[LoginAttempt], "Outcome | Awaitable[Outcome]"]
"""A function that is all of a login: asked first without fields, then with what was sent."""

AUTHORIZE: Final = "/authorize"
LOGIN: Final = "/authorize/login"
CONSENT: Final = "/authorize/consent"
TOKEN: Final = "/token"
REGISTER: Final = "/register"
REVOKE: Final = "/revoke"
KEYS: Final = "/.well-known/jwks.json"
METADATA: Final = "/.well-known/oauth-authorization-server"
OPENID: Final = "/.well-known/openid-configuration"

_MOST_VISITS: Final = 10_000
"""Logins that are on their way; one address has a tenth of them."""

_ANSWERS_OF_ONE: Final = 300
"""Answers of one address to all its logins in ten minutes."""

_MOST_ANSWERS: Final = 50
"""Answers of a browser to one login."""

_SHORTEST_SECRET: Final = 16
_WAYS: Final = ("none", "client_secret_basic", "client_secret_post")


class AuthorizationServer(EmbeddedServer):
    """An authorization server of the app's own, which serves beside the endpoint.

    It speaks OAuth 2.1: codes with PKCE, refresh tokens that are used once, tokens for this server
    only (RFC 8707), registration of clients (RFC 7591, and by documents), revocation, and metadata.
    Needs ``pip install "mcpkit[auth]"``, and ``public_url`` for the endpoint, except on loopback.

    Args:
        login: How users log in: a `Login`, several to choose from, or a function.
        store: Where clients, grants and keys are kept: the path of a file of SQLite, or a store.
            None: in the file that ``MCPKIT_LOGINS`` names, or in this process, which forgets them
            when it ends.
        secret: Seals what is kept, 16 bytes at least; several to rotate them, the current one
            first. ``MCPKIT_SECRET`` if None. A store that outlives the process needs one.
        clients: Those that need not register.
        scopes: The scopes that users can give, with what each means to them. Those that entries of
            the app need are always among them.
        dynamic_registration: Any client may register itself.
        client_documents: The id of a client may be the https URL of a document about it.
        token_lifetime: Seconds of an access token.
        refresh_lifetime: Seconds after which a login ends that is not used.
        key_lifetime: Seconds after which tokens are signed with a new key.
        cache_time: Seconds for which a token is believed without a look whether it was revoked.

    Raises:
        ImportError: The extra is not installed.
        TypeError: ``login`` or ``store`` is none.
        ValueError: An option makes no sense; the message names it.
    """

    paths = frozenset({AUTHORIZE, LOGIN, CONSENT, TOKEN, REGISTER, REVOKE, KEYS, METADATA, OPENID})
    needs_resource = False

    @with_suggestions()
    def __init__(
        self,
        login: Login | Ask | Sequence[Login],
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
        _check_extra()
        for name, given, least in (
            ("token_lifetime", token_lifetime, 1),
            ("refresh_lifetime", refresh_lifetime, token_lifetime),
            ("key_lifetime", key_lifetime, token_lifetime),
            ("cache_time", cache_time, 0),
        ):
            if not least <= given < 1e9:
                raise ValueError(f"{name} must be at least {least:g} seconds, not {given!r}")
        self._login = _login_of(login)
        named = os.environ.get(LOGINS) or None
        self._store = _store_of(named if store is None else store, clock)
        self.is_alone = isinstance(store, MemoryAuthStore)
        self._scopes = dict(scopes or {})
        for each in self._scopes:
            if not is_scope(each):
                raise ValueError(f"scopes: {each!r} is no scope")
        self._clock = clock
        self.cache_time = cache_time
        self._vault = KeyStore(
            self._store,
            _secrets_of(secret, self._store),
            lifetime=key_lifetime,
            overlap=token_lifetime + ON_ITS_WAY,
            clock=clock,
        )
        if isinstance(self._store, SqliteAuthStore):
            self._vault.check(self._store.peek("keys", "keys"), repr(self._store))
        self._clients = Clients(
            self._store,
            clients,
            dynamic=dynamic_registration,
            documents=client_documents,
            clock=clock,
        )
        self._visits = Rate(_MOST_VISITS // 10, VISIT_S, "logins at the moment", clock)
        self._answers = Rate(_ANSWERS_OF_ONE, VISIT_S, "attempts", clock)
        self._places = {f"{LOGIN}/{key}": key for key in _keys_of(self._login)}
        """Where answers of logins come that are one of several, and whose they are."""

        self.paths = frozenset((*self.paths, *self._places))
        self._grants = Grants(
            self._store,
            self._vault,
            token_lifetime=token_lifetime,
            refresh_lifetime=refresh_lifetime,
            refresh=self._login.refresh,
            still=self._login.still,
            clock=clock,
        )

    def __repr__(self) -> str:
        return f"<AuthorizationServer: {type(self._login).__name__.lstrip('_')}>"

    async def verify(self, token: str, resource: str | None) -> Principal | None:
        """Return whoever a token belongs to that this server has issued, and not revoked."""

        def is_ours(issuer: str, audience: str) -> bool:
            if resource is not None:
                return audience == resource
            # Without public_url: it has been issued on loopback, and is good there.
            hosts = urlsplit(issuer).hostname, urlsplit(audience).hostname
            return all(host is not None and is_loopback_name(host) for host in hosts)

        return await self._grants.verify(token, is_ours)

    async def end_logins(self, user: str) -> None:
        """End all logins of a user: their tokens do no more, within ``cache_time``.

        Args:
            user: The `User.id`, which is the claim ``sub`` of ``ctx.principal``.
        """
        await self._grants.end_of(user)

    async def aclose(self) -> None:
        """Let go of the store."""
        await self._store.aclose()

    # --- requests ---------------------------------------------------------------------------------

    async def serve(
        self, path: str, place: Place, scope: Mapping[str, Any], receive: Any, send: Any
    ) -> None:
        """Answer a request at one of the paths."""
        if path in _FOR_PROGRAMS:
            methods, answer = _FOR_PROGRAMS[path]
            reply = await self._for_programs(answer, methods, place, scope, receive)
        else:
            methods, answer = _FOR_PEOPLE[LOGIN if path in self._places else path]
            if path in self._places:
                answer = partial(AuthorizationServer._log_in, at=self._places[path])
            reply = await self._for_people(answer, methods, place, scope, receive)
        await reply.send(scope["method"], send)

    async def _for_programs(
        self, answer: _Answer, methods: str, place: Place, scope: Mapping[str, Any], receive: Any
    ) -> Reply:
        """Answer with JSON; pages of any origin may read it, as no cookie is looked at."""
        method = scope["method"]
        if method == "OPTIONS":
            allowed = {
                "Access-Control-Allow-Methods": methods,
                "Access-Control-Allow-Headers": "*, Authorization",
                "Access-Control-Max-Age": "3600",
            }
            return Reply(204, headers={**ANY_ORIGIN, **allowed})
        if method not in methods.split(", "):
            return Reply(405, headers={**ANY_ORIGIN, "Allow": methods})
        try:
            request = Request(place, scope, await read_body(scope, receive))
            reply = await answer(self, request)
        except OAuthError as error:
            reply = json_of({"error": error.code, "error_description": str(error)}, error.status)
            if error.status == 401:
                reply.headers["WWW-Authenticate"] = "Basic"
        except Exception:
            log.exception("the authorization server has failed")
            reply = json_of({"error": "server_error"}, 500)
        reply.headers.update(ANY_ORIGIN)
        return reply

    async def _for_people(
        self, answer: _Answer, methods: str, place: Place, scope: Mapping[str, Any], receive: Any
    ) -> Reply:
        """Answer with a page, or send the browser elsewhere."""
        if scope["method"] not in methods.split(", "):
            return Reply(405, headers={"Allow": methods})
        try:
            request = Request(place, scope, await read_body(scope, receive))
            origin = request.header(b"origin")
            if request.posted and origin not in (None, "null", request.origin):
                raise OAuthError("access_denied", "This form is not from here", 403)
            return await answer(self, request)
        except OAuthError as error:
            return page(pages.error(str(error)), error.status)
        except Exception:
            log.exception("the authorization server has failed")
            return page(pages.error("Something has gone wrong on this server"), 500)

    # --- metadata (RFC 8414) ----------------------------------------------------------------------

    async def _metadata(self, request: Request) -> Reply:
        base = request.place.base
        document: dict[str, Any] = {
            "issuer": base,
            "authorization_endpoint": base + AUTHORIZE,
            "token_endpoint": base + TOKEN,
            "jwks_uri": base + KEYS,
            "revocation_endpoint": base + REVOKE,
            "scopes_supported": self._known_scopes(request.place),
            "response_types_supported": ["code"],
            "response_modes_supported": ["query"],
            "grant_types_supported": ["authorization_code", "refresh_token", "client_credentials"],
            "token_endpoint_auth_methods_supported": list(_WAYS),
            "revocation_endpoint_auth_methods_supported": list(_WAYS),
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": True,
            "client_id_metadata_document_supported": self._clients.documents,
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256"],
        }
        if self._clients.dynamic:
            document["registration_endpoint"] = base + REGISTER
        return json_of(document)

    async def _keys(self, request: Request) -> Reply:
        del request
        reply = json_of({"keys": await self._vault.public_keys()})
        reply.headers["Cache-Control"] = "public, max-age=300"
        return reply

    def _known_scopes(self, place: Place) -> list[str]:
        return list(dict.fromkeys((*place.required, *place.scopes, *self._scopes)))

    # --- the beginning of a login (OAuth 2.1, 4.1.1) ----------------------------------------------

    async def _authorize(self, request: Request) -> Reply:
        """Begin a visit, if users may be sent back to the client that has sent them."""
        given = request.fields
        if not request.repeated.isdisjoint(("client_id", "redirect_uri")):
            raise OAuthError("invalid_request", "The program has sent two addresses, or two names")
        client = await self._find(request, given.get("client_id", ""))
        redirect_uri = given.get("redirect_uri", "")
        if not redirect_uri and len(client.redirect_uris) == 1:
            redirect_uri = client.redirect_uris[0]
        if not is_allowed(redirect_uri, client.redirect_uris):
            raise OAuthError(
                "invalid_request", "The program wants its answer where it is not registered"
            )
        wish = Wish(
            client.id,
            client.name,
            _host_of(client),
            redirect_uri,
            given.get("state"),
            challenge=given.get("code_challenge", ""),
        )
        try:
            self._check_wish(request, given)
            wish = replace(wish, scopes=self._scopes_for(request.place, client, given.get("scope")))
            return await self._begin(request, wish)
        except OAuthError as error:
            told = {"error": error.code, "error_description": str(error)}
            back = self._back(request.place, wish, **told)
            if client.is_given:
                return back
            # Whoever registers itself must not have users sent anywhere by a link (RFC 9700, 4.11).
            text = pages.error(str(error), back.headers["Location"], origin_of(redirect_uri))
            return page(text, 400)

    def _check_wish(self, request: Request, given: Mapping[str, str]) -> None:
        if request.repeated:
            raise OAuthError("invalid_request", "A parameter is there more than once")
        if given.get("response_type") != "code":
            raise OAuthError("unsupported_response_type", "response_type has to be code")
        if given.get("response_mode", "query") != "query":
            raise OAuthError("invalid_request", "response_mode has to be query")
        if given.get("code_challenge_method") != "S256" or not challenge_of(
            given.get("code_challenge", "")
        ):
            raise OAuthError("invalid_request", "PKCE is needed, with the method S256 (RFC 7636)")
        if "request" in given or "request_uri" in given:
            raise OAuthError("request_not_supported", "Requests are sent as parameters here")
        request.check_resource()

    def _scopes_for(
        self, place: Place, client: RegisteredClient, asked: str | None
    ) -> tuple[str, ...]:
        """Return the scopes that a user is asked for: those that a client wants and may have."""
        known = self._known_scopes(place)
        wanted = place.required if asked is None else tuple(dict.fromkeys(asked.split()))
        found = [each for each in wanted if each in known]
        if client.scopes is not None:
            found = [each for each in found if each in client.scopes]
        unknown = [each for each in wanted if each not in found and each != "offline_access"]
        if unknown and not found:
            raise OAuthError("invalid_scope", "None of these scopes can be had")
        return tuple(found)

    async def _begin(self, request: Request, wish: Wish) -> Reply:
        self._visits.count(request.place.caller)
        browser = request.browser() or secrets.token_urlsafe(32)
        state = secrets.token_urlsafe(32)
        until = self._clock() + VISIT_S
        visit = LoginState(asdict(wish), sha256(browser.encode()).hexdigest(), until)
        kept = visit.written(self._vault)
        if not await self._store.add("visit", state, kept, until, _MOST_VISITS):
            raise OAuthError("temporarily_unavailable", "Too many logins at the moment")
        reply = await self._ask(self._login.begin, request, state, kept, visit)
        reply.cookies.append(request.cookie(browser))
        return reply

    # --- logging in -------------------------------------------------------------------------------

    async def _log_in(self, request: Request, at: str = "") -> Reply:
        """Hand what a browser has sent to the login."""
        self._answers.count(request.place.caller)
        state, kept, visit = await self._visit(request)
        if visit.user is not None:
            return see(f"{request.place.base}{CONSENT}?{urlencode({'state': state})}")
        if visit.answers >= _MOST_ANSWERS:
            raise OAuthError("access_denied", "There were too many attempts", 429)
        visit.answers += 1
        # Before the login is asked: many at once are counted each, and see what those before saw.
        counted = visit.written(self._vault)
        if not await self._store.change("visit", state, kept, counted, visit.until):
            raise OAuthError("invalid_request", "This page was sent twice at once", 409)
        return await self._ask(self._login.answer, request, state, counted, visit, at)

    async def _ask(
        self,
        ask: Callable[[LoginAttempt], Awaitable[Outcome]],
        request: Request,
        state: str,
        kept: bytes,
        visiting: LoginState,
        at: str = "",
    ) -> Reply:
        """Ask the login, and do what it says."""
        wish = visiting.wanted
        visit = LoginAttempt(
            state,
            request.place.base + LOGIN,
            wish.client_name,
            wish.scopes,
            request.fields if visiting.answers else {},
            request.posted,
            visiting.memory,
            at,
            request.place.name,
        )
        try:
            outcome = await ask(visit)
        except LoginRefused as error:
            await self._store.take("visit", state)
            log.info("a login was refused")
            return self._back(
                request.place, wish, error="access_denied", error_description=_safe(str(error))
            )
        visiting.memory = visit.memory
        if isinstance(outcome, User):
            # What follows has a name that nobody can have known before (fixation).
            if await self._store.take("visit", state) is None:
                raise OAuthError("invalid_request", "This page was sent twice at once", 409)
            visiting.user = outcome
            visiting.until = self._clock() + VISIT_S
            state = secrets.token_urlsafe(32)
            await self._store.add("visit", state, visiting.written(self._vault), visiting.until)
            return see(f"{request.place.base}{CONSENT}?{urlencode({'state': state})}")
        changed = visiting.written(self._vault)
        await self._store.change("visit", state, kept, changed, visiting.until)
        if isinstance(outcome, Redirect):
            check_address(outcome.url.partition("#")[0], "Redirect")
            return see(outcome.url)
        return page(pages.whole(outcome.title, outcome.body), outcome.status)

    async def _visit(
        self, request: Request, *, take: bool = False
    ) -> tuple[str, bytes, LoginState]:
        """Return the visit that a request belongs to, if its browser has begun it.

        Raises:
            OAuthError: There is none, or it is another browser's.
        """
        gone = OAuthError("invalid_request", "This page has been open for too long, or was used")
        state = request.fields.get("state", "")
        kept = await self._store.get("visit", state)
        browser = request.browser()
        if kept is None or browser is None or request.repeated:
            raise gone
        visit = LoginState.read(self._vault, kept)
        if not secrets.compare_digest(visit.browser, sha256(browser.encode()).hexdigest()):
            raise gone
        if take and await self._store.take("visit", state) is None:
            raise gone
        return state, kept, visit

    # --- consent ----------------------------------------------------------------------------------

    async def _consent(self, request: Request) -> Reply:
        """Ask the user, or take the answer."""
        place = request.place
        if not request.posted:
            state, _, visit = await self._visit(request)
            user, wish = visit.user, visit.wanted
            if user is None:
                raise OAuthError("invalid_request", "Nobody has logged in")
            target = origin_of(wish.redirect_uri)
            text = pages.consent(
                action=place.base + CONSENT,
                state=state,
                server=place.name,
                client_name=wish.client_name,
                client_host=wish.client_host,
                redirect_to=target,
                is_local=target.startswith("http:"),
                user=user.name or user.id,
                scopes=tuple((each, self._scopes.get(each, each)) for each in scopes_given(visit)),
            )
            return page(text, targets=(target,))
        _, _, visit = await self._visit(request, take=True)
        user, wish = visit.user, visit.wanted
        if user is None:
            raise OAuthError("invalid_request", "Nobody has logged in")
        if request.fields.get("answer") != "allow":
            return self._back(
                place, wish, error="access_denied", error_description="The user has not allowed it"
            )
        try:
            code = await self._grants.begin(
                user,
                client_id=wish.client_id,
                redirect_uri=wish.redirect_uri,
                challenge=wish.challenge,
                issuer=place.base,
                resource=place.resource,
                scopes=scopes_given(visit),
            )
        except OAuthError as error:
            return self._back(place, wish, error=error.code, error_description=str(error))
        return self._back(place, wish, code=code)

    def _back(self, place: Place, wish: Wish, **answer: str) -> Reply:
        """Send the browser back to the client, with the issuer's name (RFC 9207)."""
        if wish.state is not None:
            answer["state"] = wish.state
        answer["iss"] = place.base
        separator = "&" if "?" in wish.redirect_uri else "?"
        return see(f"{wish.redirect_uri}{separator}{urlencode(answer)}")

    # --- tokens (OAuth 2.1, 3.2) ------------------------------------------------------------------

    async def _token(self, request: Request) -> Reply:
        request.check_form()
        client = await self._authenticated(request)
        given = request.fields
        kind = given.get("grant_type")
        request.check_resource()
        if kind == "authorization_code":
            issued = await self._grants.redeem(
                given.get("code", ""),
                client_id=client.id,
                redirect_uri=given.get("redirect_uri"),
                verifier=given.get("code_verifier"),
            )
        elif kind == "refresh_token":
            scope = given.get("scope")
            issued = await self._grants.refresh(
                given.get("refresh_token", ""),
                client_id=client.id,
                scopes=None if scope is None else tuple(dict.fromkeys(scope.split())),
            )
        elif kind == "client_credentials":
            if not client.machine:
                raise OAuthError("unauthorized_client", "This client cannot act for itself")
            scopes = self._scopes_for(request.place, client, given.get("scope"))
            place = request.place
            issued = await self._grants.for_machine(client.id, place.base, place.resource, scopes)
        else:
            raise OAuthError("unsupported_grant_type", "This grant_type is not served")
        await self._clients.note_use(client)
        return json_of(issued.told())

    async def _revoke(self, request: Request) -> Reply:
        request.check_form()
        client = await self._authenticated(request)
        await self._grants.revoke(request.fields.get("token", ""), client.id)
        return Reply(200, headers={"Cache-Control": "no-store"})

    async def _authenticated(self, request: Request) -> RegisteredClient:
        """Return the client that has sent a request, by the one way that it has (RFC 6749, 2.3).

        Raises:
            OAuthError: It has not proven that it is.
        """
        refused = OAuthError("invalid_client", "The client is not known by what it has sent", 401)
        given = request.fields
        sent = request.credentials()
        id, secret, way = given.get("client_id", ""), given.get("client_secret"), "none"
        if secret is not None:
            way = "client_secret_post"
        if sent is not None:
            if secret is not None or id not in ("", sent[0]):
                raise OAuthError("invalid_request", "The client authenticates in two ways")
            (id, secret), way = sent, "client_secret_basic"
        try:
            client = await self._find(request, id)
        except OAuthError as error:
            # What may change says nothing of the client, which would forget what it is known by.
            raise (error if error.status in (429, 503) else refused) from None
        if client.method not in ("", way) or (way == "none") != (client.secret_hash is None):
            raise refused
        if secret is not None and not is_secret_of(client, secret):
            raise refused
        return client

    async def _find(self, request: Request, id: str) -> RegisteredClient:
        if not id or not id.isascii() or not id.isprintable():
            raise OAuthError("invalid_client", "There is no client_id, or a malformed one")
        return await self._clients.find(id, request.place.caller)

    async def _register(self, request: Request) -> Reply:
        if not self._clients.dynamic:
            raise OAuthError("access_denied", "Clients are registered by the owner here", 403)
        told = await self._clients.register(request.body, request.place.caller)
        return json_of(told, 201)


_Answer: TypeAlias = Callable[[AuthorizationServer, Request], Awaitable[Reply]]

_FOR_PROGRAMS: Final[Mapping[str, tuple[str, _Answer]]] = {
    METADATA: ("GET, HEAD", AuthorizationServer._metadata),
    OPENID: ("GET, HEAD", AuthorizationServer._metadata),
    KEYS: ("GET, HEAD", AuthorizationServer._keys),
    TOKEN: ("POST", AuthorizationServer._token),
    REGISTER: ("POST", AuthorizationServer._register),
    REVOKE: ("POST", AuthorizationServer._revoke),
}
_FOR_PEOPLE: Final[Mapping[str, tuple[str, _Answer]]] = {
    AUTHORIZE: ("GET", AuthorizationServer._authorize),
    LOGIN: ("GET, POST", AuthorizationServer._log_in),
    CONSENT: ("GET, POST", AuthorizationServer._consent),
}


# --- options --------------------------------------------------------------------------------------


class _Asked(Login):
    """A function as a login."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    async def begin(self, visit: LoginAttempt) -> Outcome:
        """Ask the function."""
        return await self.answer(visit)

    async def answer(self, visit: LoginAttempt) -> Outcome:
        """Ask the function."""
        import inspect

        found = self._ask(visit)
        if inspect.isawaitable(found):
            found = await found
        if not isinstance(found, (User, Page, Redirect)):
            raise TypeError(
                f"a function of login= returns a User, a Page or a Redirect, "
                f"not {type(found).__name__}"
            )
        return found


def _login_of(given: Any) -> Login:
    if is_array(given):
        several = [_login_of(each) for each in given]
        if not several:
            raise ValueError("login= needs a Login at least")
        keys = [each.key for each in several if each.key]
        if len(set(keys)) < len(keys):
            raise ValueError("login= has two logins with the same provider")
        return several[0] if len(several) == 1 else Choice(several)
    if isinstance(given, Login):
        return given
    if callable(given) and not isinstance(given, type):
        return _Asked(cast("Ask", given))
    raise TypeError("login= takes a Login, several, or a function from a LoginAttempt to a User")


def _keys_of(login: Login) -> list[str]:
    """Return the keys of logins that are some of several, with a place for the answers of each."""
    return login.keys if isinstance(login, Choice) else []


def _store_of(given: Any, clock: Callable[[], float]) -> AuthStore:
    if given is None:
        return MemoryAuthStore(clock)
    if isinstance(given, (str, os.PathLike)):
        return SqliteAuthStore(cast("str | os.PathLike[str]", given), clock=clock)
    if not hasattr(given, "take"):
        raise TypeError("store= takes the path of a file, or an AuthStore")
    return cast("AuthStore", given)


def _secrets_of(given: str | Sequence[str] | None, store: AuthStore) -> list[str]:
    found = [given] if isinstance(given, str) else [*(given or ())]
    if given is None:
        found = os.environ.get("MCPKIT_SECRET", "").split()
    if not found:
        if isinstance(store, MemoryAuthStore):
            return [secrets.token_urlsafe(32)]
        raise ValueError(
            "AuthorizationServer keeps its keys in its store, sealed with a secret: pass "
            "secret=…, or set MCPKIT_SECRET; make one with: "
            'python -c "import secrets; print(secrets.token_hex(32))"'
        )
    if any(len(each.encode()) < _SHORTEST_SECRET for each in found):
        where = "MCPKIT_SECRET" if given is None else "secret="
        raise ValueError(
            f"{where} has a secret of fewer than {_SHORTEST_SECRET} bytes, which can be guessed"
        )
    return found


def _host_of(client: RegisteredClient) -> str:
    return (urlsplit(client.id).hostname or "") if client.is_document else ""


def _safe(text: str) -> str:
    """Return a text as a description may be (RFC 6749, 4.1.2.1)."""
    return "".join(each for each in text if " " <= each <= "~" and each not in '"\\')[:200]


def _check_extra() -> None:
    from importlib.util import find_spec

    if find_spec("jwt") is None or find_spec("cryptography") is None:
        raise ImportError(NEEDS)
