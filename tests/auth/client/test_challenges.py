"""What a client reads in ``WWW-Authenticate`` (RFC 9110, 11.6.1; RFC 6750, 3; RFC 9449, 7)."""

from __future__ import annotations

import time

import pytest

from mcpkit.client.auth.discovery import Challenge, read_challenge

BEARER = 'Bearer resource_metadata="https://h/m", scope="a b", error="invalid_token"'


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ([], Challenge()),
        (["Basic realm=x"], Challenge()),
        (["Bearer"], Challenge()),
        ([BEARER], Challenge("invalid_token", ("a", "b"), "https://h/m")),
        ([BEARER.lower().replace("bearer", "BEARER")], Challenge("invalid_token", ("a", "b"), "https://h/m")),
        (["Bearer error=x,scope=a"], Challenge("x", ("a",))),
        (["Bearer\terror = x ,  scope = a"], Challenge("x", ("a",))),
        (["Bearer scope=\"\""], Challenge("", ())),
        ([r'Bearer error="a\"b\\c"'], Challenge(r'a"b\c')),
        (['Basic realm="x", Bearer error="y", Digest error="z"'], Challenge("y")),
        (['Basic realm="Bearer error=evil", Bearer error="y"'], Challenge("y")),
        (["Negotiate abc==, Bearer error=y"], Challenge("y")),
        (["Basic realm=x", "Bearer error=y"], Challenge("y")),
        (["Bearer error=y, error=z"], Challenge("y")),
        (["Bearer error=y", "Bearer error=z"], Challenge("y")),
        (["Bearers error=y"], Challenge()),
        (['Bearer error="never ends'], Challenge()),
        (['DPoP algs="ES256"'], Challenge(has_proof=True)),
        (['Bearer scope=a, DPoP algs="ES256", error=e'], Challenge("", ("a",))),
        (['DPoP algs="ES256"', "Bearer scope=a"], Challenge("", ("a",))),
        (['Bearer scope="a b\\"c \x1b[2J tést d a"'], Challenge("", ("a", "d"))),
    ],
    ids=str,
)  # fmt: skip
def test_a_challenge_is_found_among_others(values: list[str], found: Challenge) -> None:
    """AUTH-3, AUTH-5, SEC-18: what cannot be a scope is left out."""
    assert read_challenge(values) == found


def test_of_two_the_one_for_the_token_that_was_sent_counts() -> None:
    """RFC 9449, 7.2: a server may take both kinds, and what it says of one is not of the other."""
    both = ['Bearer resource_metadata="https://h/m", scope="a"', 'DPoP error="use_dpop_nonce"']
    found = Challenge("use_dpop_nonce", ("a",), "https://h/m", has_proof=False)
    assert read_challenge(both, has_proof=True) == found
    assert read_challenge(both).error == ""


@pytest.mark.parametrize("text", ["a", ",", 'a="', '\\"', " ="])
@pytest.mark.parametrize(("start", "end"), [("Bearer ", ""), ("Bearer ", '"'), ('Bearer a="', "")])
def test_no_challenge_takes_long_to_read(start: str, text: str, end: str) -> None:
    """SEC-17: a server cannot keep the client busy with one header."""
    before = time.process_time()
    read_challenge([start + text * 50_000 + end])
    assert time.process_time() - before < 1
