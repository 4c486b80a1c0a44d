"""Logins with a provider: OpenID Connect, or OAuth with an endpoint for the user's claims.

This server is a client of the provider, which redirects browsers to ``/authorize/login``. The
provider's tokens stay here; the clients of this server get tokens of this server.
"""

from __future__ import annotations

import inspect
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from hmac import compare_digest
from html import escape
from typing import Any, Final, TypeAlias
from urllib.parse import parse_qsl, urlencode, urlsplit

from pydantic_core import to_json

from mcpkit._utils.addresses import check_address
from mcpkit._utils.fetch import (
    FetchError,
    Response,
    basic_credentials,
    fetch,
    fetch_json,
    is_token,
    s256,
    shorten,
)
from mcpkit._utils.json import is_array
from mcpkit._utils.logs import get_logger
from mcpkit._utils.names import with_suggestions
from mcpkit.auth.jwt import JWT, endpoint_in, fetch_metadata
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
from mcpkit.auth.verifiers import VerifierUnavailable
from mcpkit.permissions import is_scope, scopes_of

log = get_logger("mcpkit.auth")

_FRESH_S: Final = 3600.0  # seconds for which the metadata of a provider are cached
MAX_NAME: Final = 100
MAX_CLAIMS: Final = 32 * 1024  # characters of a user's claims as JSON, stored with each grant
MAX_LIFETIME: Final = 1e10
_CONSUMERS: Final = "9188040d-6c67-4c5b-b112-36a304b66dad"  # all personal accounts of Microsoft
_TENANT: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_ALGORITHMS: Final = ("RS256", "ES256", "EdDSA", "PS256")
_TOKEN_CLAIMS: Final = frozenset(
    {"iss", "aud", "azp", "exp", "iat", "nbf", "nonce", "jti", "at_hash", "c_hash", "auth_time"}
)
"""Claims about an ID token, not about its user."""

OPENID: Final = ("openid", "profile", "email")  # the user's identity (OpenID Connect Core, 5.4)


@dataclass(frozen=True)
class Provider:
    """An authorization server that authenticates users, and how it describes them.

    Either `issuer` is given, and all else is discovered (OpenID Connect Discovery), or the three
    endpoints are.

    Args:
        name: Shown to users.
        issuer: The issuer of ID tokens. ``{tenant}`` in it is replaced by that of `UpstreamLogin`.
        authorization_endpoint: Where browsers are redirected.
        token_endpoint: Where codes are redeemed.
        user_endpoint: Returns the claims of an access token's user, as a JSON object.
        scopes: To request.
        id: The claim that identifies a user, and is never reused.
        names: The claims by which ``allow=`` may name users; ``email`` only if the provider has
            verified it.
        domain: The claim with the domain of a user's organization; "" for that of the e-mail
            address.
        parameters: Extra parameters of the authorization request.
        offline: Further ones, sent only if `UpstreamLogin` requests scopes of its own, so that the
            tokens can be refreshed after the login.
        needs_secret: True if every client needs a secret.

    Raises:
        ValueError: A URL is missing, or not safe.
    """

    name: str
    issuer: str = ""
    authorization_endpoint: str = ""
    token_endpoint: str = ""
    user_endpoint: str = ""
    scopes: tuple[str, ...] = OPENID
    id: str = "sub"
    names: tuple[str, ...] = ("email",)
    domain: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict[str, str], hash=False)
    offline: Mapping[str, str] = field(default_factory=dict[str, str], hash=False)
    needs_secret: bool = False

    def __post_init__(self) -> None:
        options = ("authorization_endpoint", "token_endpoint", "user_endpoint")
        for option in ("issuer",) if self.issuer else options:
            check_address(getattr(self, option).replace("{tenant}", "tenant"), option)


PROVIDERS: Final[Mapping[str, Provider]] = {
    # Accounts can be renamed, and old names reused: only the number is stable.
    "github": Provider(
        "GitHub",
        authorization_endpoint="https://github.com/login/oauth/authorize",
        token_endpoint="https://github.com/login/oauth/access_token",
        user_endpoint="https://api.github.com/user",
        scopes=("read:user",),
        id="id",
        names=("login",),
        needs_secret=True,
    ),
    # Only accounts of an organization have "hd". A refresh token requires a consent.
    "google": Provider(
        "Google",
        issuer="https://accounts.google.com",
        domain="hd",
        offline={"access_type": "offline", "prompt": "consent"},
        needs_secret=True,
    ),
    # Addresses and names of users can be changed without proof. A client may have no secret.
    "entra": Provider(
        "Microsoft",
        issuer="https://login.microsoftonline.com/{tenant}/v2.0",
        scopes=(*OPENID, "offline_access"),
        id="oid",
        names=("oid",),
    ),
}
"""Providers by the names that `UpstreamLogin` takes."""


Allowed: TypeAlias = "bool | User | Awaitable[bool | User]"
"""Whether a user may log in, or the user with changed name, claims or scopes."""

Allow: TypeAlias = Iterable[str] | Mapping[str, "Iterable[str] | None"] | Callable[[User], Allowed]
"""Who may log in: names, names with the scopes that they may grant, or a function."""


class UpstreamLogin(Login):
    """Users log in with their account at a provider.

    Register this server as a client of the provider, with the redirect URI ``/authorize/login``
    below its own URL, such as ``https://notes.example.com/authorize/login``.

    Args:
        provider: ``"github"``, ``"google"``, ``"entra"``; the issuer of OpenID Connect, such as
            ``"https://login.example.com"``; or a `Provider`.
        client_id: The id of that client.
        client_secret: Its secret; None if it has none, which GitHub and Google do not allow.
        allow: Who may log in: names, with or without the scopes that they may grant, or a function,
            async or not, from the `User` to True, False, or a changed `User`. A name is a claim of
            the provider (the login for GitHub; elsewhere a verified e-mail address), the id of the
            `User`, such as ``github:583231``, or ``@example.com`` for a whole domain. Required,
            except for a directory of Entra: there None allows each of its accounts.
        scopes: The provider's scopes for ``ctx.principal.upstream``, in addition to those for the
            identity of the user.
        tenant: The id of the directory, for ``"entra"``.
        clock: Seconds since the epoch.

    Raises:
        ValueError: An option is not valid or missing, or anyone could log in without ``allow``.
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
        self.key, self._provider = _found(provider)
        name = self._provider.name
        self.label = f"Log in with {name}"
        self._issuer = self._provider.issuer
        if "{tenant}" in self._issuer:
            if tenant is None or _TENANT.fullmatch(tenant) is None:
                # Names such as "common" would allow all tenants.
                raise ValueError(f"{name} needs tenant=, the id of a directory, such as 8f3e…-…")
            self._issuer = self._issuer.replace("{tenant}", tenant.lower())
        elif tenant is not None:
            raise ValueError(f"tenant= is not an option of {name}")
        if not client_id:
            raise ValueError(f"client_id= is missing: register this server with {name} first")
        if self._provider.needs_secret and not client_secret:
            raise ValueError(f"client_secret= is missing: {name} requires it for every login")
        if allow is None and not ("{tenant}" in self._provider.issuer and tenant != _CONSUMERS):
            raise ValueError(f"anyone can have an account with {name}: name the users in allow=[…]")
        self._client = client_id, client_secret
        self._may = _allowing(allow, self._provider)
        self._more = (scopes,) if isinstance(scopes, str) else tuple(scopes)
        for each in self._more:
            if not is_scope(each):
                raise ValueError(f"scopes: {each!r} is not a scope")
        self._scopes = tuple(dict.fromkeys((*self._provider.scopes, *self._more)))
        self._clock = clock
        self._id_tokens: JWT | None = None  # with OpenID Connect, once its metadata are known
        self._names_itself = self._takes_basic = False
        self._discover_after = 0.0

    def __repr__(self) -> str:
        return f"<UpstreamLogin: {self._provider.name}>"

    # --- redirects (OpenID Connect Core, 3.1) -----------------------------------------------------

    async def begin(self, attempt: LoginAttempt) -> Outcome:
        """Redirect the browser to the provider."""
        try:
            await self._discover()
        except FetchError as error:
            return self._problem(attempt, "does not answer", str(error))
        verifier, nonce = secrets.token_urlsafe(48), secrets.token_urlsafe(32)
        attempt.memory.clear()
        attempt.memory.update(verifier=verifier, nonce=nonce)
        query = {
            **self._provider.parameters,
            "response_type": "code",
            "client_id": self._client[0],
            "redirect_uri": attempt.action,
            "scope": " ".join(self._scopes),
            "state": attempt.state,
            "code_challenge": s256(verifier),
            "code_challenge_method": "S256",
        }
        if self._id_tokens is not None:
            query["nonce"] = nonce
        if self._more:
            query.update(self._provider.offline)
        if "offline_access" in self._more:
            query["prompt"] = "consent"  # required (OpenID Connect Core, 11)
        parts = urlsplit(self._provider.authorization_endpoint)
        encoded = urlencode([*parse_qsl(parts.query), *query.items()])
        return Redirect(parts._replace(query=encoded).geturl())

    async def answer(self, attempt: LoginAttempt) -> Outcome:
        """Handle the redirect from the provider."""
        fields, name = attempt.fields, self._provider.name
        verifier, nonce = attempt.memory.get("verifier"), attempt.memory.get("nonce")
        attempt.memory.clear()  # both are for one use
        if attempt.posted or verifier is None or not fields.keys() & {"code", "error"}:
            return await self.begin(attempt)
        try:
            await self._discover()
            named = fields.get("iss", "" if self._names_itself else self._issuer)
            if not compare_digest(named.encode(), self._issuer.encode()):
                raise LoginRefused(f"The redirect is not from {name}")  # RFC 9207
            if "error" in fields:
                raise LoginRefused(f"{name} has refused the login")
            form = {
                "grant_type": "authorization_code",
                "code": fields.get("code", ""),
                "redirect_uri": attempt.action,
                "code_verifier": verifier,
            }
            response = await self._request(form)
            tokens = self._tokens(response, UpstreamTokens("", scopes=frozenset(self._scopes)))
            claims = None
            if tokens is not None:
                claims = await self._claims(response.document, tokens, nonce)
        except (FetchError, VerifierUnavailable) as error:
            return self._problem(attempt, "does not answer", str(error))
        if tokens is None or claims is None:
            return self._problem(attempt, "has not confirmed the login", _error_of(response))
        return await self._admitted(claims, tokens)

    def _problem(self, attempt: LoginAttempt, problem: str, why: str) -> Page:
        log.warning("a login with %s has failed: %s", self._provider.name, why)
        attempt.memory.clear()
        again = f"{attempt.action}?{urlencode({'state': attempt.state})}"
        body = (
            f"{heading(attempt)}"
            f'<p class="problem" role="alert">{escape(self._provider.name)} {escape(problem)}.</p>'
            f'<a class="button" href="{escape(again)}">Try again</a>'
        )
        return Page(body, "Log in", 502)

    # --- users and their tokens -------------------------------------------------------------------

    async def _claims(
        self, document: Mapping[str, Any], tokens: UpstreamTokens, nonce: str | None
    ) -> dict[str, Any] | None:
        """Return the claims of a user; None if they are not valid."""
        found: dict[str, Any] = {}
        if self._id_tokens is not None:
            principal = await self._id_tokens.verify(str(document.get("id_token")), None)
            found = {} if principal is None else dict(principal.claims)
            client = self._client[0]
            # The nonce is not a secret: the browser has sent it along.
            if not nonce or found.get("nonce") != nonce or found.get("azp", client) != client:
                return None
        # The ID token may contain nothing but the subject (Core, 5.3).
        if self._provider.user_endpoint and not ("name" in found and "email" in found):
            headers = {"Authorization": f"Bearer {tokens.access_token}"}
            more = await fetch_json(self._provider.user_endpoint, headers=headers)
            if found and more.get("sub") != found["sub"]:
                return None  # the claims of another user (Core, 5.3.2)
            if "email" in found:
                more.pop("email_verified", None)  # it may be about another address
            found = {**more, **found}
        return {name: value for name, value in found.items() if name not in _TOKEN_CLAIMS}

    async def _admitted(self, claims: dict[str, Any], tokens: UpstreamTokens) -> User:
        """Return the user, or raise `LoginRefused` if they may not log in."""
        id: Any = claims.get(self._provider.id)
        if isinstance(id, bool) or not isinstance(id, (str, int)) or id == "":
            raise LoginRefused(f"{self._provider.name} does not identify the user")
        try:
            is_large = len(to_json(claims)) > MAX_CLAIMS
        except ValueError:  # text that is not Unicode
            is_large = True
        if is_large:
            raise LoginRefused(f"{self._provider.name} sends claims that cannot be stored")
        names = (claims.get(each) for each in ("name", *self._provider.names))
        name = next((each for each in names if isinstance(each, str) and each), None)
        user = User(f"{self.key}:{id}", name and name[:MAX_NAME], claims, upstream=tokens)
        found = await self.still(user)
        if found is None:
            log.info("%s of %s may not log in", user.id, self._provider.name)
            raise LoginRefused("This account may not log in here")
        return found

    def _tokens(self, response: Response, before: UpstreamTokens) -> UpstreamTokens | None:
        """Return the tokens in a response, which replace those before; None if there are none."""
        document = response.document
        token: Any = document.get("access_token")
        if response.status != 200 or not is_token(token):
            return None
        lifetime: Any = document.get("expires_in")
        refresh: Any = document.get("refresh_token")
        scope: Any = document.get("scope")
        # GitHub separates them by commas.
        granted = scope.replace(",", " ").split() if isinstance(scope, str) else None
        is_number = isinstance(lifetime, (int, float)) and 0 <= lifetime <= MAX_LIFETIME
        return UpstreamTokens(
            token,
            refresh if isinstance(refresh, str) else before.refresh_token,
            self._clock() + float(lifetime) if is_number else None,
            before.scopes if granted is None else frozenset(granted),
            self.key,
        )

    async def still(self, user: User) -> User | None:
        """Return a user if ``allow`` still allows them, by their stored claims."""
        found = self._may(user)
        found = await found if inspect.isawaitable(found) else found
        if isinstance(found, User):
            return found
        return user if found is True else None

    async def refresh(self, tokens: UpstreamTokens) -> UpstreamTokens:
        """Return new tokens of the provider."""
        ended = LoginRefused(f"{self._provider.name} has ended the login; log in again")
        if tokens.refresh_token is None:
            raise ended
        form = {"grant_type": "refresh_token", "refresh_token": tokens.refresh_token}
        try:
            await self._discover()
            response = await self._request(form)
        except FetchError as error:
            raise ProviderUnavailable(f"{self._provider.name} does not answer: {error}") from None
        if response.is_temporary:
            raise ProviderUnavailable(f"{self._provider.name} answers {response.status}")
        found = self._tokens(response, tokens)
        if found is None:
            log.info("a login with %s has ended: %s", self._provider.name, _error_of(response))
            raise ended
        return found

    async def _request(self, form: Mapping[str, str]) -> Response:
        """Request tokens, authenticated as the provider's client (RFC 6749, 2.3.1)."""
        id, secret = self._client
        headers: dict[str, str] = {}
        if secret is not None and self._takes_basic:
            headers["Authorization"] = basic_credentials(id, secret)
        else:
            form = {**form, "client_id": id}
            if secret is not None:
                form["client_secret"] = secret
        url = self._provider.token_endpoint
        response = await fetch(url, form=form, headers=headers)
        if response.status == 200 and not response.is_json:
            raise FetchError(f"{url} answered without JSON")
        return response

    # --- discovery --------------------------------------------------------------------------------

    async def _discover(self) -> None:
        """Find the endpoints in the metadata (OpenID Connect Discovery, 4), from time to time."""
        now = time.monotonic()
        if not self._issuer or now < self._discover_after:
            return
        try:
            await self._read_metadata()
        except FetchError:
            if self._id_tokens is None:
                raise
        self._discover_after = now + _FRESH_S

    async def _read_metadata(self) -> None:
        url = f"{self._issuer.rstrip('/')}/.well-known/openid-configuration"
        metadata = await fetch_metadata(url, self._issuer)
        known: Any = metadata.get("id_token_signing_alg_values_supported")
        usable = [each for each in _ALGORITHMS if not is_array(known) or each in known]
        id_tokens = JWT(
            issuer=self._issuer,
            audience=self._client[0],
            jwks_url=endpoint_in(metadata, "jwks_uri"),
            algorithms=usable or _ALGORITHMS,
        )
        has_user = "userinfo_endpoint" in metadata
        self._provider = replace(
            self._provider,
            authorization_endpoint=endpoint_in(metadata, "authorization_endpoint"),
            token_endpoint=endpoint_in(metadata, "token_endpoint"),
            user_endpoint=endpoint_in(metadata, "userinfo_endpoint") if has_user else "",
        )
        methods: Any = metadata.get("token_endpoint_auth_methods_supported")
        self._takes_basic = not is_array(methods) or "client_secret_basic" in methods
        self._names_itself = metadata.get("authorization_response_iss_parameter_supported") is True
        self._id_tokens = id_tokens


def _found(provider: Any) -> tuple[str, Provider]:
    """Return the key of a provider in ids of users, and the provider.

    The key is a name of `PROVIDERS`, or a URL without a scheme, as one host may have several.
    """
    if isinstance(provider, str):
        for name, each in PROVIDERS.items():
            if provider == name or each.issuer == provider.rstrip("/"):
                return name, each
        if "://" not in provider:
            raise ValueError(
                f"there is no provider {provider!r}: use {', '.join(PROVIDERS)}, or an issuer's URL"
            )
        provider = Provider(urlsplit(provider).netloc, issuer=provider)
    if not isinstance(provider, Provider):
        raise TypeError("provider= takes a name, the URL of an issuer, or a Provider")
    parts = urlsplit(provider.issuer or provider.authorization_endpoint)
    path = parts.path.rstrip("/") if provider.issuer else ""
    return f"{parts.netloc.lower()}{path}", provider


def _allowing(allow: Allow | None, provider: Provider) -> Callable[[User], Allowed]:
    if allow is None:
        return lambda user: True
    if isinstance(allow, str):
        raise ValueError(f"allow= takes a list of names: [{allow!r}]")
    if callable(allow):
        return allow
    given: Any = allow
    several: dict[Any, Any] = dict(given) if isinstance(allow, Mapping) else dict.fromkeys(given)
    limits: dict[str, frozenset[str] | None] = {}
    for name, scopes in several.items():
        if not isinstance(name, str) or not name.strip("@ "):
            raise ValueError(f"allow: {name!r} is not a name")
        if name.startswith("@") and not ("email" in provider.names or provider.domain):
            raise ValueError(f"allow: {provider.name} has no domains of users: {name!r}")
        limit = None if scopes is None else frozenset(scopes_of(scopes, f"allow[{name!r}]"))
        limits[_plain(name)] = limit

    def may(user: User) -> bool | User:
        # A user takes precedence over their domain.
        found = (name for name in _names_of(user, provider) if name in limits)
        name = next(found, None)
        return name is not None and replace(user, scopes=limits[name])

    return may


def _names_of(user: User, provider: Provider) -> list[str]:
    claims = dict(user.claims)
    email: Any = claims.pop("email", None)
    if claims.get("email_verified") is True and isinstance(email, str):
        claims["email"] = email
    names = [claims.get(each) for each in provider.names]
    texts = [each for each in names if isinstance(each, str) and each]
    # A name that a user chooses must not be the id of another user, or a domain.
    found = [each for each in texts if ":" not in each and not each.startswith("@")]
    domain: Any = claims.get(provider.domain)
    if not provider.domain and "email" in provider.names:
        domain = claims.get("email", "").rpartition("@")[2]
    if isinstance(domain, str) and domain:
        found.append(f"@{domain}")
    # The id is exact, and begins with the key: a name may equal the number of another user.
    return [user.id, *map(_plain, found)]


def _plain(name: str) -> str:
    """Return a name in lower case, if it is ASCII and not an id."""
    return name.lower() if name.isascii() and ":" not in name else name


def _error_of(response: Response) -> str:
    """Return the status and the error code, from which all secrets are removed."""
    return f"it answers {response.status} {shorten(response.document.get('error', ''))}"
