"""Sealed texts: encrypted with ``cryptography``, signed without it (MRTR-5)."""

from __future__ import annotations

import secrets
from base64 import urlsafe_b64decode

import pytest

from mcpkit.asking import sealing
from mcpkit.asking.sealing import SealBroken, Sealer, secrets_from_environment


@pytest.fixture(params=["encrypted", "signed"], autouse=True)
def encrypts(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    if request.param == "signed":
        monkeypatch.setattr(sealing, "_load_aead", lambda: None)
    else:
        pytest.importorskip("cryptography")
    return bool(request.param == "encrypted")


def sealer(*known: str, purpose: str = "state") -> Sealer:
    return Sealer(known or ("secret",), purpose)


@pytest.mark.parametrize("value", [b"", b"x", b"\0\xff" * 100, secrets.token_bytes(5000)], ids=len)
def test_what_was_sealed_is_opened(value: bytes) -> None:
    assert sealer().open(sealer().seal(value)) == value


def test_the_text_is_safe_everywhere() -> None:
    text = sealer().seal(secrets.token_bytes(1000))
    assert text.replace("-", "").replace("_", "").isalnum()
    assert text.isascii()


def test_each_text_is_different() -> None:
    """MRTR-14."""
    assert len({sealer().seal(b"same") for _ in range(100)}) == 100


def test_only_encryption_hides_the_value(encrypts: bool) -> None:
    text = sealer().seal(b"swordfish")
    sealed = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    assert (b"swordfish" in sealed) != encrypts


def test_every_changed_character_is_noticed() -> None:
    text = sealer().seal(b"value")
    for place, letter in enumerate(text):
        for other in ("A", "B", "-", "=", " ", "\n", "ü"):
            if other != letter:
                with pytest.raises(SealBroken):
                    sealer().open(text[:place] + other + text[place + 1 :])


def test_every_other_length_is_noticed() -> None:
    text = sealer().seal(b"value")
    for length in range(len(text)):
        with pytest.raises(SealBroken):
            sealer().open(text[:length])
    for more in ("A", "=", "==", "AAAA", "\n", " "):
        with pytest.raises(SealBroken):
            sealer().open(text + more)


@pytest.mark.parametrize("text", ["", "A", "====", "\udcff", "AQ", "Ag", "Aw" * 40, "A" * 100_000])
def test_what_was_never_sealed_is_refused(text: str) -> None:
    with pytest.raises(SealBroken):
        sealer().open(text)


def test_another_secret_does_not_open() -> None:
    with pytest.raises(SealBroken):
        sealer("other").open(sealer("secret").seal(b"value"))


def test_another_purpose_does_not_open() -> None:
    with pytest.raises(SealBroken):
        sealer(purpose="session").open(sealer(purpose="state").seal(b"value"))


def test_secrets_are_rotated() -> None:
    """The first one seals; the others still open."""
    old, both, new = sealer("old"), sealer("new", "old"), sealer("new")
    assert both.open(old.seal(b"value")) == b"value"
    assert new.open(both.seal(b"value")) == b"value"
    with pytest.raises(SealBroken):
        old.open(both.seal(b"value"))


def test_without_a_secret_nobody_else_opens() -> None:
    one, other = Sealer((), "state"), Sealer((), "state")
    assert one.open(one.seal(b"value")) == b"value"
    with pytest.raises(SealBroken):
        other.open(one.seal(b"value"))


def test_a_server_that_encrypts_opens_what_one_that_cannot_has_signed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    able = sealer()
    monkeypatch.setattr(sealing, "_load_aead", lambda: None)
    assert able.open(sealer().seal(b"value")) == b"value"


def test_a_server_that_cannot_decrypt_says_so(
    monkeypatch: pytest.MonkeyPatch, encrypts: bool
) -> None:
    text = sealer().seal(b"value")
    monkeypatch.setattr(sealing, "_load_aead", lambda: None)
    if encrypts:
        with pytest.raises(SealBroken):
            sealer().open(text)
    else:
        assert sealer().open(text) == b"value"


@pytest.mark.parametrize("guess", [b"password=swordfish", b"password=nonsense!"])
def test_the_length_tells_nothing_of_what_is_sealed(guess: bytes) -> None:
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
