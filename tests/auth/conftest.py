"""An identity provider for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.auth.issuer import Issuer, issuing


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with issuing(Issuer) as found:
        yield found
