"""Where an authorization server stores its records."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mcpkit._stores.base import StoreUnavailable
from mcpkit.auth import AuthStore, MemoryAuthStore, SqliteAuthStore
from tests.auth.server.conftest import Clock


@pytest.fixture
def time() -> Clock:
    clock = Clock()
    clock.now = 1000.0
    return clock


@pytest.fixture(params=["memory", "sqlite"])
async def store(
    request: pytest.FixtureRequest, tmp_path: Path, time: Clock
) -> AsyncIterator[AuthStore]:
    store: AuthStore = MemoryAuthStore(time)
    if request.param == "sqlite":
        store = SqliteAuthStore(tmp_path / "auth.db", clock=time)
    yield store
    await store.aclose()


async def test_a_record_is_there_until_it_expires(store: AuthStore, time: Clock) -> None:
    assert await store.add("code", "a", b"1", 1010)
    assert not await store.add("code", "a", b"2", 1010)
    assert await store.get("code", "a") == b"1"
    assert await store.get("grant", "a") is None
    time.now = 1010
    assert await store.get("code", "a") is None
    assert not await store.change("code", "a", b"1", b"3", 2000)
    assert await store.take("code", "a") is None
    assert await store.add("code", "a", b"2", 1020)
    assert await store.get("code", "a") == b"2"


async def test_a_change_replaces_the_content_that_it_expects(store: AuthStore, time: Clock) -> None:
    await store.add("client", "a", b"1", 1010)
    assert not await store.change("client", "a", b"other", b"2", 1100)
    assert await store.change("client", "a", b"1", b"2", 1100)
    time.now = 1050
    assert await store.get("client", "a") == b"2"


async def test_a_record_is_taken_once_and_a_closed_store_opened_again(store: AuthStore) -> None:
    await store.add("visit", "a", b"1", 1010)
    await store.aclose()
    await store.aclose()
    assert await store.take("visit", "a") == b"1"
    assert await store.take("visit", "a") is None
    assert await store.get("visit", "a") is None
    assert await store.add("visit", "a", b"2", 1010)


async def test_a_kind_has_a_limit(store: AuthStore, time: Clock) -> None:
    assert await store.add("grant", "a", b"", 1010, 2)
    assert await store.add("grant", "b", b"", 3000, 2)
    assert not await store.add("grant", "c", b"", 3000, 2)
    assert await store.add("code", "c", b"", 3000, 2)
    await store.take("grant", "b")
    assert await store.add("grant", "c", b"", 3000, 2)
    time.now += 61  # a has expired, and is swept
    assert await store.add("grant", "d", b"", 3000, 2)


def earlier(path: Path, version: int = 1) -> None:
    """Make a file as the first version has."""
    connection = sqlite3.connect(path)
    connection.execute(
        "CREATE TABLE records (kind TEXT NOT NULL, key TEXT NOT NULL, value BLOB NOT NULL, "
        "expires REAL NOT NULL, PRIMARY KEY (kind, key)) WITHOUT ROWID"
    )
    connection.execute("INSERT INTO records VALUES ('grant', 'a', x'00ff', 1010)")
    connection.execute(f"PRAGMA user_version = {version}")
    connection.commit()
    connection.close()


async def test_a_file_of_the_first_version_is_migrated(tmp_path: Path, time: Clock) -> None:
    earlier(tmp_path / "auth.db")
    store = SqliteAuthStore(tmp_path / "auth.db", clock=time)
    assert await store.get("grant", "a") == b"\0\xff"
    time.now = 1010
    assert await store.get("grant", "a") is None
    await store.aclose()


async def test_a_file_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    earlier(tmp_path / "auth.db", version=9)
    with pytest.raises(StoreUnavailable, match="written by a newer mcpkit"):
        await SqliteAuthStore(tmp_path / "auth.db").get("grant", "a")


def test_looking_makes_no_file(tmp_path: Path) -> None:
    assert SqliteAuthStore(tmp_path / "auth.db").peek() is None
    assert not [*tmp_path.iterdir()]
