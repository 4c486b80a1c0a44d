"""Keys that an author hands out, and functions of a token."""

from __future__ import annotations

import hashlib
import hmac
from typing import Any
from unittest.mock import Mock

import pytest

from mcpkit import MCPKit, Principal
from mcpkit.auth import JWT, Keys, ResourceServer, hash_key, new_key
from mcpkit.auth.verifiers import resource_server


async def test_a_key_names_its_owner() -> None:
    """AUTH-16: its hash says nothing."""
    ann, bob = new_key(), new_key()
    keys = Keys({ann.hash: Principal("ann", frozenset({"read"})), bob.hash: "bob"})
    assert await keys.verify(ann.key, None) == Principal("ann", frozenset({"read"}))
    assert await keys.verify(bob.key, None) == Principal("bob")
    for wrong in (ann.hash, "", ann.key + "x", ann.key[:-1], new_key().key):
        assert await keys.verify(wrong, None) is None
    assert len(ann.key) > 40
    assert hash_key(ann.key) == ann.hash
    assert ann.key not in ann.hash + repr(keys.__dict__)


async def test_the_time_of_an_answer_reveals_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """AUTH-16: hashes are compared, whole ones, in constant time, and all of them each time."""
    compare = Mock(side_effect=bytes.__eq__)
    monkeypatch.setattr(hmac, "compare_digest", compare)
    known = ["the-first-of-some-keys", "the-second-of-some-keys", "the-third-of-some-keys"]
    keys = Keys({hash_key(each): each for each in known})
    for sent in (*known, known[0][:-1], "nothing-like-them"):
        compare.reset_mock()
        found = await keys.verify(sent, None)
        assert (None if found is None else found.id) == (sent if sent in known else None)
        digest = hashlib.sha256(sent.encode()).digest()
        compared = [(len(one), other) for (one, other), _ in compare.call_args_list]
        assert compared == [(32, digest)] * len(known)


async def test_a_key_that_is_not_hashed_is_refused_and_not_shown() -> None:
    """SEC-13."""
    with pytest.raises(ValueError, match="sha256:…") as caught:
        Keys({"mk_a-key-that-is-secret": "ann"})
    assert "secret" not in str(caught.value)
    with pytest.raises(ValueError, match="at least 16"):
        hash_key("short")


async def test_a_function_may_know_tokens() -> None:
    async def later(token: str) -> Principal | None:
        return Principal(token)

    for given in (later, lambda token: Principal(token)):
        [verifier] = resource_server(given).verifiers
        assert await verifier.verify("ann", None) == Principal("ann")
    [verifier] = resource_server(str.upper).verifiers
    with pytest.raises(TypeError, match="a Principal or None"):
        await verifier.verify("ann", None)


@pytest.mark.parametrize(
    ("auth", "says"),
    [
        ("a token", "takes an AuthorizationServer"),
        ([7], "takes an AuthorizationServer"),
        ([], "needs a verifier"),
        (JWT, r"call it: JWT\(…\)"),
        ({"a": 1}, "takes an AuthorizationServer"),
    ],
)
async def test_auth_takes_verifiers_alone(auth: Any, says: str) -> None:
    with pytest.raises(TypeError, match=says):
        MCPKit("notes", auth=auth)


async def test_only_one_may_say_who_asks() -> None:
    keys, find = Keys({}), lambda http: None
    with pytest.raises(ValueError, match="auth= and principal="):
        MCPKit("notes", auth=keys, http={"principal": find})
    with pytest.raises(ValueError, match="given twice"):
        MCPKit("notes", auth=keys, http={"auth": keys})
    app = MCPKit("notes", auth=keys)
    with pytest.raises(ValueError, match="auth= and principal="):
        app.asgi(principal=find)
    app.asgi(principal=find, auth=None)


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"authorization_servers": "https://a.example.com"}, TypeError, "a list"),
        ({"authorization_servers": ["http://a.example.com"]}, ValueError, "use https"),
        ({"metadata_url": 'https://a.example.com/"'}, ValueError, "not a URL"),
        ({"required_scopes": ["a b"]}, ValueError, "not a scope"),
        ({"required_scopes": ["offline_access"]}, ValueError, "offline_access"),
        ({"scopes_supported": ["offline_access"]}, ValueError, "offline_access"),
        ({"scopes_supported": ["a\n"]}, ValueError, "not a scope"),
        ({"cache_size": -1}, ValueError, "cache_size"),
    ],
)
async def test_settings_that_make_no_sense_are_refused(options: Any, error: Any, says: str) -> None:
    """SEC-16, SEC-18; AUTH-11: offline_access is not for resources."""
    with pytest.raises(error, match=says):
        ResourceServer(Keys({}), **options)


async def test_an_issuers_tokens_are_for_this_server_only() -> None:
    """AUTH-8: a server without a URL accepts no tokens. SEC-16: the URL is safe."""
    app = MCPKit("notes", auth=JWT(issuer="https://login.example.com"))
    with pytest.raises(ValueError, match="audience=…, or public_url=…"):
        app.asgi()
    app.asgi(public_url="https://notes.example.com/mcp")
    for url in ("a.example.com", "http://a.example.com/mcp", "https://a/mcp?x=1", "https://a/#b"):
        with pytest.raises(ValueError, match="public_url"):
            app.asgi(public_url=url)
