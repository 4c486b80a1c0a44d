"""What is kept of logins: readable by its user alone, whole, and used once."""

from __future__ import annotations

import json
import os
import random
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import anyio
import pytest

from mcpkit.client.auth import (
    AuthorizationFailed,
    Credentials,
    FileTokenStore,
    MemoryTokenStore,
    OAuth,
    TokenStore,
)
from mcpkit.client.auth import storage as credentials_module
from mcpkit.client.auth.storage import default_store
from tests.auth.client.killed import SERVER, credentials
from tests.auth.client.world import READ, User, World, call, kept
from tests.kit import PATIENCE
from tests.transports.processes import Process, started

posix = pytest.mark.skipif(sys.platform == "win32", reason="has neither modes nor SIGKILL")

WHOLE = Credentials(
    "https://login.example.com",
    SERVER,
    "an id",
    "the-secret",
    "client_secret_post",
    "http://127.0.0.1:9/callback",
    "the-access-token",
    1_900_000_000.5,
    3600.0,
    "the-refresh-token",
    ("a", "b"),
    ("a",),
    "client_credentials",
    "the-key",
)


class Keyring:
    def __init__(self, priority: float | None = 5) -> None:
        self.kept: dict[tuple[str, str], Any] = {}
        self._priority = priority

    def get_keyring(self) -> Any:
        return SimpleNamespace(priority=self._priority)

    def get_password(self, service: str, name: str) -> str | None:
        return self.kept.get((service, name))

    def set_password(self, service: str, name: str, password: str) -> None:
        self.kept[service, name] = password

    def delete_password(self, service: str, name: str) -> None:
        del self.kept[service, name]


@pytest.fixture(params=["memory", "files", "keyring"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> TokenStore:
    if request.param == "memory":
        return MemoryTokenStore()
    return FileTokenStore(tmp_path, keyring=Keyring() if request.param == "keyring" else None)


async def test_what_is_kept_is_found_again(store: TokenStore) -> None:
    """SEC-13, AUTH-16: and its repr has no secrets."""
    assert await store.get(SERVER) is None
    await store.set(SERVER, WHOLE)
    other = Credentials("https://other.example.com")
    await store.set("https://other.example.com/mcp", other)
    assert await store.get(SERVER) == WHOLE
    said = repr(store) + str(store) + repr(WHOLE) + str(WHOLE)
    for secret in ("the-secret", "the-access-token", "the-refresh-token", "the-key"):
        assert secret not in said
        assert secret in WHOLE.to_json()
    await store.set(SERVER, None)
    await store.set(SERVER, None)
    assert await store.get(SERVER) is None
    assert await store.get("https://other.example.com/mcp") == other


async def test_one_at_a_time_has_the_lock_of_a_server(store: TokenStore) -> None:
    inside = most = 0

    async def enter() -> None:
        nonlocal inside, most
        async with store.lock(SERVER):
            inside += 1
            most = max(most, inside)
            await anyio.sleep(0)
            inside -= 1

    with anyio.fail_after(PATIENCE):
        async with store.lock(SERVER), store.lock("https://other.example.com/mcp"):
            pass
        async with anyio.create_task_group() as group:
            for _ in range(10):
                group.start_soon(enter)
    assert most == 1


@posix
async def test_files_are_for_their_user_alone(tmp_path: Path) -> None:
    """AUTH-16: whatever the mask of the process; SEC-11, SEC-13: names reveal and reach nothing."""
    before = os.umask(0)
    url = "https://h/../../../etc/passwd?key=secret"
    try:
        folder = tmp_path / "made"
        store = FileTokenStore(folder)
        async with store.lock(url):
            await store.set(url, WHOLE)
            modes = {each: stat.S_IMODE(each.stat().st_mode) for each in folder.iterdir()}
    finally:
        os.umask(before)
    assert set(modes.values()) == {0o600}
    assert {each.suffix for each in modes} == {".json", ".lock"}
    assert all(each.stem.isalnum() for each in modes)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert [each.name for each in tmp_path.iterdir()] == ["made"]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe\x00",
        b"{",
        b"[]",
        b"null",
        b"{}",
        b"[" * 100_000,
        WHOLE.to_json().encode()[:-20],
        b'{"issuer": 5}',
        b'{"issuer": "i", "access_token": 5}',
        b'{"issuer": "i", "access_token": "a\\r\\nX: 1"}',
        b'{"issuer": "i", "access_token": "t", "expires_at": "soon"}',
        b'{"issuer": "i", "access_token": "t", "expires_at": NaN}',
        b'{"issuer": "i", "access_token": "t", "expires_at": 1e999}',
        b'{"issuer": "i", "scopes": "a b"}',
        b'{"issuer": "i", "scopes": [5]}',
        b'{"issuer": "i", "refresh_token": []}',
    ],
    ids=lambda content: repr(content[:50]),
)
async def test_unreadable_files_are_ignored(tmp_path: Path, content: bytes) -> None:
    """Nor does it stand in the way of what is kept next."""
    store = FileTokenStore(tmp_path)
    await store.set(SERVER, WHOLE)
    [file] = tmp_path.iterdir()
    file.write_bytes(content)
    assert await store.get(SERVER) is None
    await store.set(SERVER, WHOLE)
    # A later version may have written more.
    file.write_text(json.dumps({**json.loads(WHOLE.to_json()), "unheard_of": [1]}))
    assert await store.get(SERVER) == WHOLE


@posix
async def test_a_folder_that_cannot_be_used_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = FileTokenStore(tmp_path / "file" / "kept")
    for use in (store.get(SERVER), store.set(SERVER, WHOLE), store.set(SERVER, None)):
        with pytest.raises(AuthorizationFailed, match=r"cannot be stored in .*: Not a"):
            await use
    with pytest.raises(AuthorizationFailed, match=r"cannot be stored in .*: "):
        async with store.lock(SERVER):
            pass


@contextmanager
def running(*arguments: str) -> Iterator[Process]:
    """A process that is killed at the end of the block."""
    command = [sys.executable, "-m", "tests.auth.client.killed", *arguments]
    with started(command) as process:
        assert process.line() == b"ready\n"
        yield process


@posix
@pytest.mark.timeout(300)
def test_credentials_are_whole_when_a_process_is_killed(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that writes without pause is killed; readers see whole credentials only."""
    kills = 100 if request.config.getoption("--deep") else 5
    store = FileTokenStore(tmp_path)

    def check() -> None:
        """All parts are of one writing."""
        found = anyio.run(store.get, SERVER)
        assert found is not None
        assert found == credentials(int(found.client_id))

    for _ in range(kills):
        with running("write", str(tmp_path)):
            deadline = time.monotonic() + random.uniform(0, 0.05)
            while time.monotonic() < deadline:
                check()
        check()
    # Nor does what they have left stay for ever.
    monkeypatch.setattr(credentials_module, "_LEFT_S", -1.0)
    anyio.run(store.set, SERVER, WHOLE)
    assert len(list(tmp_path.iterdir())) == 1


@posix
def test_the_lock_of_a_dead_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is free however the process has died, and held as long as it lives (SEC-17)."""
    store = FileTokenStore(tmp_path)

    async def take() -> None:
        async with store.lock(SERVER):
            pass

    with running("hold", str(tmp_path), SERVER):
        old = time.time() - 3600
        for each in tmp_path.iterdir():
            os.utime(each, (old, old))
        with monkeypatch.context() as patch:
            patch.setattr(credentials_module, "_LOCKED_S", 0.1)
            with pytest.raises(AuthorizationFailed, match="another process"):
                anyio.run(take)
    assert len(list(tmp_path.iterdir())) == 1, "the file is still there"
    anyio.run(take)


@posix
@pytest.mark.timeout(300)
async def test_processes_that_renew_at_once_use_a_refresh_token_once(
    tmp_path: Path, world: World, user: User, request: pytest.FixtureRequest
) -> None:
    """Issuers revoke everything when one is used a second time."""
    rounds = 20 if request.config.getoption("--deep") else 2
    store = FileTokenStore(tmp_path)
    await call(world.url, OAuth(show=user.show, store=store))
    for number in range(1, rounds + 1):
        found = await kept(store, world)
        await store.set(world.url, replace(found, expires_at=0.0))
        with (
            running("renew", str(tmp_path), world.url, "2") as one,
            running("renew", str(tmp_path), world.url, "2") as other,
        ):
            for each in (one, other):
                each.send_bytes(b"\n")
            for each in (one, other):
                lines = await anyio.to_thread.run_sync(list, iter(each.line, None))
                assert lines == [f"{READ}\n".encode()] * 2
        assert world.grants() == ["authorization_code", *["refresh_token"] * number]
    assert world.faults == []
    assert {each.suffix for each in tmp_path.iterdir()} == {".json", ".lock"}


async def test_the_keyring_has_everything_if_it_is_there(tmp_path: Path) -> None:
    """SEC-13: nothing secret is in a file, nor in an error."""
    keyring = Keyring()
    store = FileTokenStore(tmp_path / "kept", keyring=keyring)
    async with store.lock(SERVER):
        await store.set(SERVER, WHOLE)
    assert await store.get(SERVER) == WHOLE
    assert set(keyring.kept) == {("mcpkit", SERVER)}
    assert [each.suffix for each in (tmp_path / "kept").iterdir()] == [".lock"]
    await store.set(SERVER, None)
    assert keyring.kept == {}
    for found in ("no JSON", "", 5, b"{}"):  # from others
        keyring.kept["mcpkit", SERVER] = found
        assert await store.get(SERVER) is None
    failing = Mock(side_effect=RuntimeError("the-secret"))
    store = FileTokenStore(
        tmp_path, keyring=SimpleNamespace(get_password=failing, set_password=failing)
    )
    for use in (store.get(SERVER), store.set(SERVER, WHOLE), store.set(SERVER, None)):
        with pytest.raises(AuthorizationFailed, match="cannot be used: RuntimeError") as raised:
            await use
        assert "the-secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("module", "is_used"),
    [
        (Keyring(5), True),
        *((each, False) for each in (Keyring(0), Keyring(-1), Keyring(None), None, object())),
    ],
)
def test_a_usable_keyring_is_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, module: Any, is_used: bool
) -> None:
    """Else there are files; ``MCPKIT_CREDENTIALS`` counts for more than both."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("APPDATA", str(tmp_path))
    monkeypatch.setitem(sys.modules, "keyring", module)
    files = f"<FileTokenStore: {tmp_path / 'mcpkit' / 'credentials'}>"
    monkeypatch.delenv("MCPKIT_CREDENTIALS", raising=False)
    assert repr(default_store()) == ("<FileTokenStore: the keyring>" if is_used else files)
    monkeypatch.setenv("MCPKIT_CREDENTIALS", "here")
    assert repr(default_store()) == "<FileTokenStore: here>"
