"""An identity provider for each test, in a thread that they share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.auth.issuer import Issuer, Key, issuing


@pytest.fixture(scope="package")
def _shared_issuer() -> Iterator[Issuer]:
    with issuing(Issuer) as issuer:
        yield issuer


@pytest.fixture
def issuer(_shared_issuer: Issuer) -> Issuer:
    fresh = _shared_issuer
    fresh.asked.clear()
    fresh.credentials.clear()
    fresh.answers.clear()
    fresh.away, fresh.delay = False, 0.0
    fresh.key = Key("one")
    fresh.keys = [fresh.key.public]
    return fresh
