"""A world and a user for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.auth.client.world import Host, User, World, hosting


@pytest.fixture(scope="package")
def host() -> Iterator[Host]:
    with hosting() as found:
        yield found


@pytest.fixture(scope="package")
def another_host() -> Iterator[Host]:
    with hosting() as found:
        yield found


@pytest.fixture
def world(host: Host) -> Iterator[World]:
    with host.world() as found:
        yield found


@pytest.fixture
def elsewhere(another_host: Host) -> Iterator[World]:
    with another_host.world() as found:
        yield found


@pytest.fixture
def user() -> User:
    return User()
