"""A provider that users come from: OpenID Connect, and plain OAuth with an address for the user."""

from __future__ import annotations

import secrets
from typing import Any, Final
from urllib.parse import urlencode

from mcpkit._utils.fetch import s256
from mcpkit.auth import Provider
from tests.auth.issuer import Issuer, Reply, Seen, present

CLIENT: Final = "mcp-server"
CLIENT_SECRET: Final = "the secret / of the server"


class IdentityProvider(Issuer):
    """A provider in which a user is logged in, and agrees to everything."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.user: dict[str, Any] = {
            "sub": "248289",
            "name": "Ada",
            "email": "Ada@example.com",
            "email_verified": True,
        }
        self.account: dict[str, Any] = {"id": 583231, "login": "Ada", "name": "Ada", "email": None}
        self.metadata: dict[str, Any] = {}  # changes of the metadata; None leaves a member out
        self.id_claims: dict[str, Any] = {}  # changes of the ID token
        self.id_key: Any = None
        self.token_changes: dict[str, Any] = {}  # changes of what is said of tokens
        self.back: dict[str, str | None] = {}  # changes of what the browser brings back
        self.lasts = 3600
        self.refuses = 0  # the status of answers to a request for tokens, if it is none
        self.number = 0
        self._codes: dict[str, dict[str, str]] = {}

    def plain(self) -> Provider:
        """The provider without OpenID Connect, as GitHub is."""
        return Provider(
            "Plain",
            authorization_endpoint=f"{self.url}/authorize",
            token_endpoint=f"{self.url}/token",
            user_endpoint=f"{self.url}/account",
            scopes=("read:user",),
            id="id",
            names=("login",),
        )

    @property
    def access_token(self) -> str:
        return f"upstream-access-{self.number}"

    @property
    def refresh_token(self) -> str:
        return f"upstream-refresh-{self.number}"

    def answer(self, seen: Seen) -> Any:
        if seen.path == "/.well-known/openid-configuration":
            return self._metadata()
        if seen.path == "/authorize":
            return self._authorize(seen.query)
        if seen.path == "/token":
            return self._token(seen.form)
        if seen.path in ("/userinfo", "/account"):
            found = self.user if seen.path == "/userinfo" else self.account
            is_known = seen.headers["authorization"] == f"Bearer {self.access_token}"
            return found if is_known else Reply(401, {})
        return super().answer(seen)

    def _metadata(self) -> dict[str, Any]:
        usual = {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize?tenant=a",
            "token_endpoint": f"{self.url}/token",
            "userinfo_endpoint": f"{self.url}/userinfo",
            "jwks_uri": self.jwks_url,
            "id_token_signing_alg_values_supported": ["ES256"],
            **self.metadata,
        }
        return present(usual)

    def _authorize(self, query: dict[str, str]) -> Reply:
        assert query["response_type"] == "code"
        assert query["client_id"] == CLIENT
        code = secrets.token_urlsafe(16)
        self._codes[code] = query
        usual = {"code": code, "state": query["state"], "scope": "openid"}
        answer = urlencode(present({**usual, **self.back}))
        return Reply(302, headers={"Location": f"{query['redirect_uri']}?{answer}"})

    def _token(self, form: dict[str, str]) -> Any:
        if self.refuses:
            return Reply(self.refuses, {"error": "invalid_grant"})
        if form["grant_type"] == "refresh_token":
            if form["refresh_token"] != self.refresh_token:
                return Reply(400, {"error": "invalid_grant"})
            return self._issued(None)
        query = self._codes.pop(form["code"], None)
        challenge = s256(form["code_verifier"])
        if (
            query is None
            or query["redirect_uri"] != form["redirect_uri"]
            or (query["code_challenge"], query["code_challenge_method"]) != (challenge, "S256")
        ):
            # GitHub says it with 200.
            return Reply(200 if "nonce" not in (query or {}) else 400, {"error": "invalid_grant"})
        return self._issued(query)

    def _issued(self, query: dict[str, str] | None) -> dict[str, Any]:
        self.number += 1
        found: dict[str, Any] = {
            "access_token": self.access_token,
            "token_type": "bearer",
            "refresh_token": self.refresh_token,
            "expires_in": self.lasts,
        }
        if query is not None and "nonce" in query:
            claims = {"aud": CLIENT, "sub": self.user["sub"], "nonce": query["nonce"]}
            claims |= {"client_id": None, "scope": None, **self.id_claims}
            found["id_token"] = self.token(self.id_key, **claims)
        return present({**found, **self.token_changes})
