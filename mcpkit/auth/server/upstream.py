"""Logins with a provider: OpenID Connect, or OAuth with an address that tells who somebody is.

The provider knows this server as one of its clients, and sends browsers back to
``/authorize/login``. Its tokens stay here; the clients of this server get tokens of this server.
"""

from __future__ import annotations

import inspect
import json
import re
import secrets
import time
from base64 import urlsafe_b64encode
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from hmac import compare_digest
from html import escape
from typing import Any, Final, TypeAlias, cast
from urllib.parse import parse_qsl, urlencode, urlsplit

from mcpkit._utils.fetch import Answer, Unreachable, ask, check_address, fetch_json
from mcpkit._utils.json import is_array
from mcpkit._utils.logs import get_logger
from mcpkit._utils.names import with_suggestions
from mcpkit.auth.jwt import JWT
from mcpkit.auth.server.login import (
    Login,
    LoginAttempt,
    LoginRefused,
    Outcome,
    Page,
    ProviderUnavailable,
    Redirect,
    UpstreamTokens,
    User,
)
from mcpkit.auth.server.pages import heading
from mcpkit.auth.server.providers import PROVIDERS, Provider
from mcpkit.auth.verifiers import VerifierUnavailable
from mcpkit.permissions import is_scope, scopes_of

__all__ = ["Allow", "Allowed", "UpstreamLogin"]

log = get_logger("mcpkit.auth")

_FRESH_S: Final = 3600.0
"""Seconds for which the metadata of a provider is believed."""

_LONGEST_NAME: Final = 100
_LONGEST_CLAIMS: Final = 32 * 1024
"""Bytes of JSON that the facts about a user may have: they are kept with each grant."""

_LONGEST_S: Final = 1e10
_CONSUMERS: Final = "9188040d-6c67-4c5b-b112-36a304b66dad"
"""The tenant that all personal accounts of Microsoft are in."""

_TENANT: Final = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE
)
_ALGORITHMS: Final = ("RS256", "ES256", "EdDSA", "PS256")
_OF_TOKENS: Final = frozenset(
    {"iss", "aud", "azp", "exp", "iat", "nbf", "nonce", "jti", "at_hash", "c_hash", "auth_time"}
)
"""Claims that say something of an ID token, and nothing of a user."""

Allowed: TypeAlias = "bool | User | Awaitable[bool | User]"
"""Whether a user may log in, or the user as they shall be."""

Allow: TypeAlias = Iterable[str] | Mapping[str, "Iterable[str] | None"] | Callable[[User], Allowed]
"""Who may log in: names, names with the scopes they may give, or a function."""


@dataclass(frozen=True)
class _Endpoints:
    """What is known of a provider."""

    authorization: str
    token: str
    user: str
    id_tokens: JWT | None
    names_itself: bool
    takes_basic: bool


class UpstreamLogin(Login):
    """Users log in with a provider that they have an account with.

    At the provider a client has to be registered whose redirect URI is that of this server with
    ``/authorize/login`` behind it, such as ``https://notes.example.com/authorize/login``.

    Args:
        provider: ``"github"``, ``"google"``, ``"entra"``; the issuer of OpenID Connect, such as
            ``"https://login.example.com"``; or a `Provider`.
        client_id: Of that client.
        client_secret: Of it; None if it has none, which GitHub and Google do not allow.
        allow: Who may log in: names, with or without the scopes that they may give, or a function,
            async or not, that is given the `User` and returns whether they may, or the user as
            they shall be. A name is a claim of the provider (the login for GitHub; elsewhere an
            e-mail address that it has verified), the id of the `User`, such as
            ``github:583231``, or ``@example.com`` for all of a domain. None: whoever has an
            account, in a directory of Entra; anywhere else it is needed.
        scopes: Of the provider, to ask for beside those that tell who somebody is; what
            ``ctx.principal.upstream`` is good for.
        tenant: The id of the directory, for ``"entra"``.
        clock: Seconds since the epoch.

    Raises:
        ValueError: An option makes no sense or is missing, or anybody could log in without
            ``allow``.
    """

    @with_suggestions()
    def __init__(
        self,
        provider: str | Provider,
        *,
        client_id: str,
        client_secret: str | None = None,
        allow: Allow | None = None,
        scopes: Iterable[str] = (),
        tenant: str | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._key, self._provider = _found(provider)
        name = self._provider.name
        self._issuer = self._provider.issuer
        if "{tenant}" in self._issuer:
            if tenant is None or _TENANT.fullmatch(tenant) is None:
                # The names that stand for all tenants would let in whoever has one.
                raise ValueError(f"{name} needs tenant=, the id of a directory, such as 8f3e…-…")
            self._issuer = self._issuer.replace("{tenant}", tenant.lower())
        elif tenant is not None:
            raise ValueError(f"tenant= means nothing to {name}")
        if not client_id:
            raise ValueError(f"client_id= is missing: register this server with {name} first")
        if self._provider.needs_secret and not client_secret:
            raise ValueError(
                f"client_secret= is missing: {name} gives one to each client, and lets nobody log "
                f"in without it"
            )
        if allow is None and not ("{tenant}" in self._provider.issuer and tenant != _CONSUMERS):
            raise ValueError(
                f"anybody may have an account with {name}: say who may log in, with "
                f"allow=[…]; allow=lambda user: True lets everybody in"
            )
        self._client = client_id, client_secret
        self._may = _allowing(allow, self._provider, self._key)
        self._more = _checked(scopes)
        self._scopes = tuple(dict.fromkeys((*self._provider.scopes, *self._more)))
        self._clock = clock
        self._known: tuple[float, _Endpoints] | None = None
        self.key = self._key
        self.label = f"Log in with {name}"

    def __repr__(self) -> str:
        return f"<UpstreamLogin: {self._provider.name}>"

    # --- the way there and back (OpenID Connect Core, 3.1) ----------------------------------------

    async def begin(self, visit: LoginAttempt) -> Outcome:
        """Send the browser to the provider."""
        try:
            endpoints = await self._endpoints()
        except Unreachable as error:
            return self._problem(visit, "does not answer", str(error))
        verifier, nonce = secrets.token_urlsafe(48), secrets.token_urlsafe(32)
        visit.memory.clear()
        visit.memory.update(verifier=verifier, nonce=nonce)
        digest = sha256(verifier.encode("ascii")).digest()
        asked = {
            **self._provider.parameters,
            "response_type": "code",
            "client_id": self._client[0],
            "redirect_uri": visit.action,
            "scope": " ".join(self._scopes),
            "state": visit.state,
            "code_challenge": urlsafe_b64encode(digest).decode("ascii").rstrip("="),
            "code_challenge_method": "S256",
        }
        if endpoints.id_tokens is not None:
            asked["nonce"] = nonce
        if self._more:
            asked.update(self._provider.offline)
        if "offline_access" in self._more:
            asked["prompt"] = "consent"  # or it is ignored (OpenID Connect Core, 11)
        parts = urlsplit(endpoints.authorization)
        query = urlencode([*parse_qsl(parts.query), *asked.items()])
        return Redirect(parts._replace(query=query).geturl())

    async def answer(self, visit: LoginAttempt) -> Outcome:
        """Take what the browser brings back from the provider."""
        fields = visit.fields
        verifier, nonce = visit.memory.get("verifier"), visit.memory.get("nonce")
        visit.memory.clear()  # whatever comes of it, this much was used
        if visit.posted or verifier is None or not fields.keys() & {"code", "error"}:
            return await self.begin(visit)
        try:
            endpoints = await self._endpoints()
            self._check_sender(fields, endpoints)
            if "error" in fields:
                raise LoginRefused(f"{self._provider.name} has not let them in")
            form = {
                "grant_type": "authorization_code",
                "code": fields.get("code", ""),
                "redirect_uri": visit.action,
                "code_verifier": verifier,
            }
            told = await self._ask(endpoints, form)
            tokens = self._tokens(told)
            if tokens is None:
                return self._problem(visit, "has not confirmed the login", _error_of(told))
            claims = await self._claims(endpoints, told.document, tokens, nonce)
        except (Unreachable, VerifierUnavailable) as error:
            return self._problem(visit, "does not answer", str(error))
        if claims is None:
            return self._problem(visit, "has not confirmed the login", "its answer is not valid")
        return await self._admitted(claims, tokens)

    def _check_sender(self, fields: Mapping[str, str], endpoints: _Endpoints) -> None:
        """Refuse what another provider has sent (RFC 9207)."""
        named = fields.get("iss")
        if named is None and not endpoints.names_itself:
            return
        if named is None or not compare_digest(named.encode(), self._issuer.encode()):
            raise LoginRefused(f"The answer is not from {self._provider.name}")

    def _problem(self, visit: LoginAttempt, what: str, why: str) -> Page:
        log.warning("a login with %s has failed: %s", self._provider.name, why)
        visit.memory.clear()
        again = f"{visit.action}?{urlencode({'state': visit.state})}"
        body = (
            f"{heading(visit)}"
            f'<p class="problem" role="alert">{escape(self._provider.name)} {escape(what)}.</p>'
            f'<a class="button" href="{escape(again)}">Try again</a>'
        )
        return Page(body, "Log in", 502)

    # --- what the provider says -------------------------------------------------------------------

    async def _claims(
        self,
        endpoints: _Endpoints,
        told: Mapping[str, Any],
        tokens: UpstreamTokens,
        nonce: str | None,
    ) -> dict[str, Any] | None:
        """Return the facts about a user; None if what is said of them is not valid."""
        found: dict[str, Any] = {}
        if endpoints.id_tokens is not None:
            id_token: Any = told.get("id_token")
            if not isinstance(id_token, str):
                return None
            principal = await endpoints.id_tokens.verify(id_token, None)
            if principal is None:
                return None
            found = dict(principal.claims)
            sent: Any = found.get("nonce")
            if not nonce or not isinstance(sent, str):
                return None
            if not compare_digest(sent.encode(), nonce.encode()):
                return None
            party: Any = found.get("azp", self._client[0])
            if party != self._client[0]:
                return None
        # Many put into the ID token nothing but the subject, and the rest here (Core, 5.3).
        if endpoints.user and not ("name" in found and "email" in found):
            answer = await ask(endpoints.user, token=tokens.access_token)
            if answer.status != 200:
                raise Unreachable(f"{endpoints.user} answers {answer.status}")
            facts = answer.document
            if found and facts.get("sub") != found["sub"]:
                return None  # the facts about somebody else (Core, 5.3.2)
            if "email" in found:
                facts.pop("email_verified", None)  # which says nothing of another address
            found = {**facts, **found}
        return {name: value for name, value in found.items() if name not in _OF_TOKENS}

    async def _admitted(self, claims: dict[str, Any], tokens: UpstreamTokens) -> User:
        """Return the user, if they may log in.

        Raises:
            LoginRefused: They may not, or nobody can tell who they are.
        """
        id: Any = claims.get(self._provider.id)
        if isinstance(id, bool) or not isinstance(id, (str, int)) or id == "":
            raise LoginRefused(f"{self._provider.name} does not say who they are")
        if len(json.dumps(claims)) > _LONGEST_CLAIMS:
            raise LoginRefused(f"{self._provider.name} says too much of them")
        names = (claims.get(each) for each in ("name", *self._provider.names))
        name = next((each for each in names if isinstance(each, str) and each), None)
        name = name and name.encode("utf-8", "replace").decode()[:_LONGEST_NAME]
        user = User(f"{self._key}:{id}", name, claims, upstream=tokens)
        found = await self.still(user)
        if found is None:
            log.info("%s of %s may not log in", user.id, self._provider.name)
            raise LoginRefused("This account may not log in here")
        return found

    def _tokens(
        self, answer: Answer, before: UpstreamTokens | None = None
    ) -> UpstreamTokens | None:
        """Return the tokens in an answer; None if there are none."""
        told = answer.document
        token: Any = told.get("access_token")
        if answer.status != 200 or not isinstance(token, str) or not token.isascii():
            return None
        if not token.isprintable() or " " in token:
            return None
        lasts: Any = told.get("expires_in")
        refresh: Any = told.get("refresh_token")
        scope: Any = told.get("scope")
        # GitHub separates them by commas.
        given = scope.replace(",", " ").split() if isinstance(scope, str) else None
        usual = self._scopes if before is None else before.scopes
        is_number = isinstance(lasts, (int, float)) and 0 <= lasts <= _LONGEST_S
        return UpstreamTokens(
            token,
            refresh if isinstance(refresh, str) else getattr(before, "refresh_token", None),
            self._clock() + float(lasts) if is_number else None,
            frozenset(usual if given is None else given),
            self._key,
        )

    async def still(self, user: User) -> User | None:
        """Return a user if they may still log in, by what the provider has said of them."""
        found = self._may(user)
        if inspect.isawaitable(found):
            found = await found
        if isinstance(found, User):
            return found
        return user if found is True else None

    async def refresh(self, tokens: UpstreamTokens) -> UpstreamTokens:
        """Get new tokens of the provider.

        Raises:
            LoginRefused: The provider has ended the login.
            ProviderUnavailable: It does not answer.
        """
        ended = LoginRefused(f"{self._provider.name} has ended the login; log in again")
        if tokens.refresh_token is None:
            raise ended
        form = {"grant_type": "refresh_token", "refresh_token": tokens.refresh_token}
        try:
            answer = await self._ask(await self._endpoints(), form)
        except Unreachable as error:
            raise ProviderUnavailable(f"{self._provider.name} does not answer: {error}") from None
        if answer.status >= 500 or answer.status == 429:
            raise ProviderUnavailable(f"{self._provider.name} answers {answer.status}")
        found = self._tokens(answer, tokens)
        if found is None:
            log.info("a login with %s has ended: %s", self._provider.name, _error_of(answer))
            raise ended
        return found

    async def _ask(self, endpoints: _Endpoints, form: Mapping[str, str]) -> Answer:
        """Ask for tokens, as the client that this server is there (RFC 6749, 2.3.1)."""
        id, secret = self._client
        if secret is None:
            return await ask(endpoints.token, form={**form, "client_id": id})
        if endpoints.takes_basic:
            return await ask(endpoints.token, form=form, credentials=(id, secret))
        return await ask(endpoints.token, form={**form, "client_id": id, "client_secret": secret})

    # --- where it is ------------------------------------------------------------------------------

    async def _endpoints(self) -> _Endpoints:
        """Return where the provider is, discovered again from time to time.

        Raises:
            Unreachable: It does not say, and has not said before.
        """
        now = time.monotonic()
        if self._known is not None and now - self._known[0] < _FRESH_S:
            return self._known[1]
        try:
            found = await self._discovered() if self._issuer else self._given()
        except Unreachable:
            if self._known is None:
                raise
            found = self._known[1]
        self._known = now, found
        return found

    def _given(self) -> _Endpoints:
        provider = self._provider
        return _Endpoints(
            provider.authorization_endpoint,
            provider.token_endpoint,
            provider.user_endpoint,
            id_tokens=None,
            names_itself=False,
            takes_basic=False,
        )

    async def _discovered(self) -> _Endpoints:
        """Return what the metadata say (OpenID Connect Discovery, 4)."""
        url = f"{self._issuer.rstrip('/')}/.well-known/openid-configuration"
        metadata = await fetch_json(url)
        if metadata.get("issuer") != self._issuer:
            raise Unreachable(f"{url} is the metadata of another issuer")

        def address(name: str, *, needed: bool = True) -> str:
            found: Any = metadata.get(name)
            if found is None and not needed:
                return ""
            try:
                check_address(found, name)
            except ValueError as error:
                raise Unreachable(str(error)) from None
            return cast("str", found)

        # All of them, before anything of it is used.
        known: Any = metadata.get("id_token_signing_alg_values_supported")
        usable = [each for each in _ALGORITHMS if not is_array(known) or each in known]
        methods: Any = metadata.get("token_endpoint_auth_methods_supported")
        return _Endpoints(
            address("authorization_endpoint"),
            address("token_endpoint"),
            address("userinfo_endpoint", needed=False),
            JWT(
                issuer=self._issuer,
                audience=self._client[0],
                jwks_url=address("jwks_uri"),
                algorithms=usable or _ALGORITHMS,
            ),
            metadata.get("authorization_response_iss_parameter_supported") is True,
            not is_array(methods) or "client_secret_basic" in methods,
        )


def _found(provider: Any) -> tuple[str, Provider]:
    """Return what a provider is known by in ids of users, and the provider."""
    if isinstance(provider, Provider):
        if provider.issuer:
            return _key_of(provider.issuer), provider
        return urlsplit(provider.authorization_endpoint).netloc.lower(), provider
    if not isinstance(provider, str):
        raise TypeError(
            f"provider= takes a name, an issuer or a Provider, not {type(provider).__name__}"
        )
    known = PROVIDERS.get(provider)
    if known is not None:
        return provider, known
    if "://" not in provider:
        raise ValueError(
            f"there is no provider {provider!r}: there are {', '.join(PROVIDERS)}, and any issuer "
            f"of OpenID Connect by its URL"
        )
    for name, each in PROVIDERS.items():
        if each.issuer == provider.rstrip("/"):
            return name, each
    host = urlsplit(provider).netloc
    return _key_of(provider), Provider(host, issuer=provider)


def _key_of(url: str) -> str:
    """Return what a provider is known by: one host may have several."""
    parts = urlsplit(url)
    return f"{parts.netloc.lower()}{parts.path.rstrip('/')}"


def _checked(scopes: Iterable[str]) -> tuple[str, ...]:
    found = (scopes,) if isinstance(scopes, str) else tuple(scopes)
    for each in found:
        if not is_scope(each):
            raise ValueError(f"scopes: {each!r} is no scope, which is a text without blanks")
    return found


def _allowing(allow: Allow | None, provider: Provider, key: str) -> Callable[[User], Allowed]:
    """Return the function that says whether a user may log in."""
    if allow is None:
        return lambda user: True
    if isinstance(allow, str):
        raise ValueError(f"allow= takes several names: [{allow!r}]")
    if callable(allow):
        return allow
    given: Any = allow
    has_scopes = isinstance(allow, Mapping)
    several: dict[Any, Any] = dict(given) if has_scopes else dict.fromkeys(given)
    limits: dict[str, frozenset[str] | None] = {}
    for name, scopes in several.items():
        if not isinstance(name, str) or not name.strip("@ "):
            raise ValueError(f"allow: {name!r} is no name")
        has_mail = "email" in provider.names
        if name.startswith("@") and not (has_mail or provider.domain):
            raise ValueError(f"allow: {provider.name} says no domain of its users: {name!r}")
        if "@" in name[1:] and ":" not in name and not has_mail:
            known = ", ".join(provider.names)
            raise ValueError(f"allow: {provider.name} names its users by {known}: {name!r}")
        if name.isdigit() and "sub" not in provider.names:
            raise ValueError(f"allow: {name!r} is no name; an id is written {key}:{name}")
        limit = None if scopes is None else frozenset(scopes_of(scopes, f"allow[{name!r}]"))
        limits[_plain(name)] = limit

    def may(user: User) -> bool | User:
        # A user alone before the whole of a domain.
        for name in _names_of(user, provider):
            if name in limits:
                return User(user.id, user.name, user.claims, limits[name], user.upstream)
        return False

    return may


def _names_of(user: User, provider: Provider) -> list[str]:
    """Return what ``allow`` may call a user."""
    found: list[str] = []
    email: Any = user.claims.get("email")
    verified = isinstance(email, str) and user.claims.get("email_verified") is True
    for claim in provider.names:
        value: Any = user.claims.get(claim)
        # No name that somebody has chosen is the id of another user, or a whole domain.
        is_name = isinstance(value, str) and ":" not in value and not value.startswith("@")
        if is_name and value and (claim != "email" or verified):
            found.append(value)
    domain: Any = user.claims.get(provider.domain) if provider.domain else None
    if not provider.domain and "email" in provider.names and verified:
        domain = email.rpartition("@")[2]
    if isinstance(domain, str) and domain:
        found.append(f"@{domain}")
    # The id is exact, and has the key before it: the name of one may be the number of another.
    return [user.id, *map(_plain, found)]


def _plain(name: str) -> str:
    """Return a name without capitals, if nothing else becomes of it; ids are left alone."""
    return name.lower() if name.isascii() and ":" not in name else name


def _error_of(answer: Answer) -> str:
    """Return the code of an error, which has nothing of anybody's in it."""
    code: Any = answer.document.get("error")
    known = isinstance(code, str) and re.fullmatch(r"[A-Za-z0-9_.-]{1,60}", code) is not None
    return f"it answers {answer.status}" + (f" ({code})" if known else "")
