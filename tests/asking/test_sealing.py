"""Sealed texts: encrypted with ``cryptography``, signed without it (MRTR-5)."""

from __future__ import annotations

import json
import secrets
from base64 import urlsafe_b64decode
from typing import Any

import pytest

from mcpkit import MCPKit
from mcpkit._utils import sealing
from mcpkit._utils.sealing import SealBroken, Sealer, new_secret, secrets_from_environment
from mcpkit.errors import MissingEnvironment


@pytest.fixture(params=["encrypted", "signed"], autouse=True)
def encrypts(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    if request.param == "signed":
        monkeypatch.setattr(sealing, "_load_aead", lambda: None)
    else:
        pytest.importorskip("cryptography")
    return bool(request.param == "encrypted")


def sealer(*known: str, purpose: str = "state", app: str = "shop") -> Sealer:
    return Sealer(known or ("secret",), purpose, app)


class EarlierSealer(Sealer):
    """Seals and opens as the version before, which knew neither apps nor places."""

    def seal(self, value: bytes, *place: str) -> str:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sealing, "_nonce", lambda *_: secrets.token_bytes(12))
            patch.setattr(sealing, "_BOUND", b"")
            return super().seal(value)

    def open(self, text: str, *place: str) -> bytes:
        sealed = urlsafe_b64decode(text + "=" * (-len(text) % 4))
        value = self._open_with(self._keys[0][0], sealed)
        if value is None:
            raise SealBroken
        return value


@pytest.mark.parametrize("value", [b"", b"x", b"\0\xff" * 100, secrets.token_bytes(5000)], ids=len)
def test_what_was_sealed_is_opened(value: bytes) -> None:
    assert sealer().open(sealer().seal(value)) == value


def test_the_text_is_safe_everywhere_and_different_for_each_place() -> None:
    """MRTR-14."""
    text = sealer().seal(secrets.token_bytes(1000))
    assert text.replace("-", "").replace("_", "").isalnum()
    assert text.isascii()
    assert len({sealer().seal(b"same", str(place)) for place in range(100)}) == 100


PLACES = [(), ("",), ("a",), ("b",), ("a", "b"), ("ab",), ("a", "\0"), ("\ud800",)]


@pytest.mark.parametrize("value", [b"[1]", b""])
def test_a_value_is_opened_in_its_app_and_at_its_place_only(value: bytes) -> None:
    """A client, or who writes a database, cannot move it to where it was not meant for."""
    for place in PLACES[1:]:
        text = sealer().seal(value, *place)
        assert sealer().open(text, *place) == value
        for other in PLACES[1:]:
            if other != place:
                with pytest.raises(SealBroken):
                    sealer().open(text, *other)
        with pytest.raises(SealBroken):
            sealer(app="bank").open(text, *place)


@pytest.mark.parametrize("purpose", ["request state", "session"])
def test_apps_with_one_secret_do_not_take_the_values_of_each_other(purpose: str) -> None:
    """MRTR-5, SEC-6: one secret may be set for all servers of a machine."""
    shop, bank = (MCPKit(name, secret="s" * 32).server.sealer(purpose) for name in ("shop", "bank"))
    with pytest.raises(SealBroken):
        bank.open(shop.seal(b"[1]"))


def test_the_version_before_and_this_one_open_the_values_of_each_other() -> None:
    """So that both can serve the same clients and tasks while a new version is deployed."""
    earlier = EarlierSealer(["secret"], "state", "shop")
    assert sealer().open(earlier.seal(b"[1]"), "place") == b"[1]"
    assert json.loads(earlier.open(sealer().seal(b"[1]", "place"))) == [1]


def test_only_encryption_hides_the_value(encrypts: bool) -> None:
    text = sealer().seal(b"swordfish")
    sealed = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    assert (b"swordfish" in sealed) != encrypts


def test_every_changed_character_and_other_length_is_noticed() -> None:
    text = sealer().seal(b"value")
    changed = [
        text[:place] + other + text[place + 1 :]
        for place in range(len(text))
        for other in ("A", "B", "-", "=", " ", "\n", "ü")
    ]
    shorter = [text[:length] for length in range(len(text))]
    longer = [text + more for more in ("A", "=", "==", "AAAA", "\n", " ")]
    strange = ["====", "\udcff", "AQ", "Ag", "Aw" * 40, "A" * 100_000]
    for each in {*changed, *shorter, *longer, "A", *strange} - {text}:
        with pytest.raises(SealBroken):
            sealer().open(each)


def test_a_text_is_opened_with_its_secret_and_for_its_purpose_only() -> None:
    """While secrets are rotated, the first one seals, and the others still open."""
    old, both, new = sealer("old"), sealer("new", "old"), sealer("new")
    assert both.open(old.seal(b"value")) == b"value"
    assert new.open(both.seal(b"value")) == b"value"
    here, elsewhere = Sealer((), "state", "shop"), Sealer((), "state", "shop")
    assert here.open(here.seal(b"value")) == b"value"
    for opening, sealing_with in (
        (old, both),
        (sealer("other"), sealer("secret")),
        (sealer(purpose="session"), sealer(purpose="state")),
        (elsewhere, here),
    ):
        with pytest.raises(SealBroken):
            opening.open(sealing_with.seal(b"value"))


def test_what_is_signed_only_is_nothing_to_a_server_that_encrypts(
    monkeypatch: pytest.MonkeyPatch, encrypts: bool
) -> None:
    able = sealer()
    monkeypatch.setattr(sealing, "_load_aead", lambda: None)
    unable = sealer()
    if encrypts:
        with pytest.raises(SealBroken):
            able.open(unable.seal(b"value"))
        with pytest.raises(SealBroken):
            unable.open(able.seal(b"value"))
    else:
        assert able.open(unable.seal(b"value")) == b"value"


def test_each_algorithm_has_a_key_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealing, "_load_aead", lambda: object)
    encrypting = sealer()
    monkeypatch.setattr(sealing, "_load_aead", lambda: None)
    made = [encrypting, sealer(), sealer(purpose="session")]
    assert len({key for each in made for key in each._keys[0]}) == 6


@pytest.mark.parametrize("secret", ["", "a", "a" * 15, ["a" * 16, "old"]])
def test_a_secret_that_can_be_guessed_is_refused_with_a_way_to_make_one(secret: Any) -> None:
    with pytest.raises(ValueError, match=r"fewer than 16 bytes.*token_hex"):
        MCPKit("sealed", secret=secret)


def test_a_short_secret_in_the_environment_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCPKIT_SECRET", f"{'a' * 16} b")
    app = MCPKit("sealed")
    for start in (app.check_environment, lambda: app.run("http", port=0)):
        with pytest.raises(MissingEnvironment, match=r"^MCPKIT_SECRET has .*16 bytes.*token_hex"):
            start()


@pytest.mark.parametrize(
    "secret",
    ["${MCPKIT_SECRET}", f"{'a' * 16} ${{MCPKIT_SECRET}}", "{{mcpkit_secret}}", "<your-secret>"],
)
def test_a_placeholder_is_not_a_secret(secret: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everybody knows it."""
    with pytest.raises(ValueError, match=r"^secret= has a placeholder"):
        MCPKit("sealed", secret=secret.split())
    monkeypatch.setenv("MCPKIT_SECRET", secret)
    with pytest.raises(MissingEnvironment, match=r"^MCPKIT_SECRET has a placeholder"):
        MCPKit("sealed").check_environment()


@pytest.mark.parametrize("secret", [None, "a" * 16, "é" * 8, ["b" * 16, "a" * 16], []])
def test_other_secrets_are_taken(secret: Any) -> None:
    assert MCPKit("sealed", secret=secret)
    assert MCPKit("sealed", secret=new_secret())


@pytest.mark.parametrize("guess", [b"password=swordfish", b"password=nonsense!"])
def test_the_length_reveals_nothing_of_the_sealed_value(guess: bytes) -> None:
    """Who chooses a part of it would see from the length whether the rest has the same (CRIME)."""
    assert len(sealer().seal(b"password=swordfish" + guess)) == len(sealer().seal(bytes(36)))


def test_what_could_not_be_opened_again_is_not_sealed() -> None:
    with pytest.raises(ValueError, match="more than can be sealed"):
        sealer().seal(bytes(4 * 1024 * 1024 + 1))
    assert len(sealer().open(sealer().seal(bytes(4 * 1024 * 1024)))) == 4 * 1024 * 1024


def test_secrets_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MCPKIT_SECRET", raising=False)
    assert secrets_from_environment() == []
    monkeypatch.setenv("MCPKIT_SECRET", " new  old ")
    assert secrets_from_environment() == ["new", "old"]
