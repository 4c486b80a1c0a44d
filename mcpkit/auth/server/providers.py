"""Providers that users may come from, in one table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from mcpkit._utils.fetch import check_address

__all__ = ["OPENID", "PROVIDERS", "Provider"]

OPENID: Final = ("openid", "profile", "email")
"""The scopes that OpenID Connect has for who somebody is (Core, 5.4)."""


@dataclass(frozen=True)
class Provider:
    """An authorization server that knows users, and where it says what of them.

    Either `issuer` is given, and all else is found there (OpenID Connect Discovery), or the three
    endpoints are.

    Args:
        name: Shown to users.
        issuer: Of ID tokens. ``{tenant}`` in it is replaced by what `UpstreamLogin` is given.
        authorization_endpoint: Where browsers are sent.
        token_endpoint: Where codes are redeemed.
        user_endpoint: Where an access token gets the facts about its user, as a JSON object.
        scopes: To ask for.
        id: The claim that is one user's alone and for ever.
        names: The claims that ``allow=`` may name users by. Of ``email`` only what the provider has
            verified counts.
        domain: The claim with the domain of a user's organization; "" for that of the e-mail
            address.
        parameters: More parameters for browsers to bring along.
        offline: And more, if `UpstreamLogin` asks for scopes of its own: so that the tokens outlive
            the visit of the user.
        needs_secret: No client of it works without a secret.

    Raises:
        ValueError: An address is missing, or not safe.
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
    # Accounts can be renamed, and old names taken by others: the number stays.
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
    # "hd" is there for accounts of an organization only, which it has not left. A refresh token
    # comes with a consent only.
    "google": Provider(
        "Google",
        issuer="https://accounts.google.com",
        domain="hd",
        offline={"access_type": "offline", "prompt": "consent"},
        needs_secret=True,
    ),
    # Addresses and names of users can be changed there without proof. A client may be a public
    # one, without a secret.
    "entra": Provider(
        "Microsoft",
        issuer="https://login.microsoftonline.com/{tenant}/v2.0",
        scopes=(*OPENID, "offline_access"),
        id="oid",
        names=("oid",),
    ),
}
"""Name → provider, as `UpstreamLogin` takes it."""
