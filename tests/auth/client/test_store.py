"""What is kept of logins: readable by its user alone, whole, and used once."""

from __future__ import annotations

import json
import os
import random
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

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
from tests import warm
from tests.auth.client.killed import SERVER, SIZES, credentials
from tests.auth.client.world import PATIENCE, READ, User, World, call

pytestmark = pytest.mark.anyio
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
    """A keyring as a module has it: what it is asked, and what it has."""

    def __init__(self, priority: float = 5) -> None:
        self.kept: dict[tuple[str, str], str] = {}
        self.asked: list[tuple[str, str]] = []
        self.fails: Exception | None = None
        self._priority = priority

    def get_keyring(self) -> Any:
        return SimpleNamespace(priority=self._priority)

    def _note(self, service: str, name: str) -> tuple[str, str]:
        if self.fails is not None:
            raise self.fails
        self.asked.append((service, name))
        return service, name

    def get_password(self, service: str, name: str) -> str | None:
        return self.kept.get(self._note(service, name))

    def set_password(self, service: str, name: str, password: str) -> None:
        self.kept[self._note(service, name)] = password

    def delete_password(self, service: str, name: str) -> None:
        del self.kept[self._note(service, name)]


@pytest.fixture(params=["memory", "files", "keyring"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> TokenStore:
    if request.param == "memory":
        return MemoryTokenStore()
    keyring = Keyring() if request.param == "keyring" else None
    return FileTokenStore(tmp_path / "kept", keyring=keyring)


# --- what all of them do --------------------------------------------------------------------------


async def test_what_is_kept_is_found_again(store: TokenStore) -> None:
    assert await store.get(SERVER) is None
    await store.set(SERVER, WHOLE)
    other = Credentials("https://other.example.com")
    await store.set("https://other.example.com/mcp", other)
    assert await store.get(SERVER) == WHOLE
    assert await store.get("https://other.example.com/mcp") == other
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


async def test_nothing_secret_is_told(store: TokenStore) -> None:
    """SEC-13, AUTH-16."""
    await store.set(SERVER, WHOLE)
    said = repr(store) + str(store) + repr(WHOLE) + str(WHOLE) + f"{WHOLE}"
    for secret in ("the-secret", "the-access-token", "the-refresh-token", "the-key"):
        assert secret not in said
        assert secret in WHOLE.to_json()


# --- files ----------------------------------------------------------------------------------------


@posix
async def test_files_are_for_their_user_alone(tmp_path: Path) -> None:
    """AUTH-16: whatever the mask of the process."""
    before = os.umask(0)
    try:
        folder = tmp_path / "made"
        store = FileTokenStore(folder)
        async with store.lock(SERVER):
            await store.set(SERVER, WHOLE)
            names = {each.name: stat.S_IMODE(each.stat().st_mode) for each in folder.iterdir()}
    finally:
        os.umask(before)
    assert set(names.values()) == {0o600}
    assert {Path(each).suffix for each in names} == {".json", ".lock"}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


async def test_names_of_files_tell_nothing_and_lead_nowhere(tmp_path: Path) -> None:
    """SEC-11, SEC-13: an address may have anything in it."""
    folder = tmp_path / "kept"
    store = FileTokenStore(folder)
    await store.set("https://h/../../../etc/passwd?key=secret", WHOLE)
    [file] = folder.iterdir()
    assert file.stem.isalnum()
    assert [each.name for each in tmp_path.iterdir()] == ["kept"]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe\x00",
        b"{",
        b"[]",
        b"null",
        b"5",
        b'"text"',
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
async def test_what_cannot_be_read_is_nothing(tmp_path: Path, content: bytes) -> None:
    """Nor does it stand in the way of what is kept next."""
    store = FileTokenStore(tmp_path)
    await store.set(SERVER, WHOLE)
    [file] = tmp_path.iterdir()
    file.write_bytes(content)
    assert await store.get(SERVER) is None
    await store.set(SERVER, WHOLE)
    assert await store.get(SERVER) == WHOLE


async def test_what_a_later_version_has_written_can_be_read(tmp_path: Path) -> None:
    store = FileTokenStore(tmp_path)
    await store.set(SERVER, WHOLE)
    [file] = tmp_path.iterdir()
    file.write_text(json.dumps({**json.loads(WHOLE.to_json()), "unheard_of": [1]}))
    assert await store.get(SERVER) == WHOLE


async def test_unreadable_credentials_are_followed_by_a_login(
    world: World, user: User, tmp_path: Path
) -> None:
    store = FileTokenStore(tmp_path)
    await store.set(world.url, WHOLE)
    [file] = tmp_path.iterdir()
    file.write_bytes(b"\xff")
    assert await call(world.url, OAuth(show=user.show, store=store)) == READ


@posix
async def test_a_folder_that_cannot_be_used_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = FileTokenStore(tmp_path / "file" / "kept")
    for use in (store.get(SERVER), store.set(SERVER, WHOLE), store.set(SERVER, None)):
        with pytest.raises(AuthorizationFailed, match=r"cannot be stored in .*: Not a"):
            await use
    with pytest.raises(AuthorizationFailed, match=r"cannot be stored in .*: "):
        async with store.lock(SERVER):
            pass


# --- processes ------------------------------------------------------------------------------------


@contextmanager
def running(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that has begun."""
    command = [sys.executable, "-m", "tests.auth.client.killed", *arguments]
    process = warm.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        yield process
    finally:
        process.kill()
        process.communicate(timeout=PATIENCE)


def is_whole(found: Credentials | None) -> bool:
    """Whether all parts are of one writing."""
    assert found is not None
    return found == credentials(int(found.client_id))


@posix
@pytest.mark.timeout(300)
def test_credentials_are_whole_whoever_is_killed(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that writes without pause is killed; nobody ever reads a half."""
    kills = 100 if request.config.getoption("--deep") else 5
    store = FileTokenStore(tmp_path)
    read = 0
    for _ in range(kills):
        with running("write", str(tmp_path)) as process:
            deadline = time.monotonic() + random.uniform(0, 0.05)
            while time.monotonic() < deadline:
                assert is_whole(anyio.run(store.get, SERVER))
                read += 1
            process.kill()
            process.wait(PATIENCE)
        assert is_whole(anyio.run(store.get, SERVER))
    assert read > 0
    assert len(SIZES) == 2
    # Nor does what they have left stay for ever.
    monkeypatch.setattr(credentials_module, "_LEFT_S", -1.0)
    anyio.run(store.set, SERVER, WHOLE)
    assert len(list(tmp_path.iterdir())) == 1


@posix
def test_the_lock_of_a_dead_process_is_free_at_once(tmp_path: Path) -> None:
    """However it has died; and nobody takes it from one that lives."""
    store = FileTokenStore(tmp_path)

    async def take(limit: float) -> bool:
        with anyio.move_on_after(limit):
            async with store.lock(SERVER):
                return True
        return False

    with running("hold", str(tmp_path), SERVER) as process:
        assert not anyio.run(take, 0.1)
        old = time.time() - 3600
        for each in tmp_path.iterdir():
            os.utime(each, (old, old))
        assert not anyio.run(take, 0.1), "it lives, however long it takes"
        process.kill()
        process.wait(PATIENCE)
    assert len(list(tmp_path.iterdir())) == 1, "the file is still there"
    assert anyio.run(take, PATIENCE)
    assert list(tmp_path.iterdir()) == []


@posix
async def test_nobody_waits_for_ever_for_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SEC-17: another process may stand still."""
    monkeypatch.setattr(credentials_module, "_LOCKED_S", 0.05)
    store = FileTokenStore(tmp_path)
    async with store.lock(SERVER):
        with pytest.raises(AuthorizationFailed, match="another process"):
            async with FileTokenStore(tmp_path).lock(SERVER):
                pass


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
        kept = await store.get(world.url)
        assert kept is not None
        await store.set(world.url, replace(kept, expires_at=0.0))
        with (
            running("renew", str(tmp_path), world.url, "2") as one,
            running("renew", str(tmp_path), world.url, "2") as other,
        ):
            for each in (one, other):
                assert each.stdin is not None
                each.stdin.write(b"\n")
                each.stdin.flush()
            for each in (one, other):
                found = await anyio.to_thread.run_sync(each.communicate)
                assert found[0].decode().split() == [READ, READ]
        assert world.grants() == ["authorization_code", *["refresh_token"] * number]
    assert world.faults == []
    assert [each.suffix for each in tmp_path.iterdir()] == [".json"]


# --- the keyring ----------------------------------------------------------------------------------


async def test_the_keyring_has_everything_if_it_is_there(tmp_path: Path) -> None:
    """SEC-13: nothing secret is in a file then."""
    keyring = Keyring()
    store = FileTokenStore(tmp_path / "kept", keyring=keyring)
    async with store.lock(SERVER):
        await store.set(SERVER, WHOLE)
    assert await store.get(SERVER) == WHOLE
    assert set(keyring.asked) == {("mcpkit", SERVER)}
    assert list((tmp_path / "kept").iterdir()) == []
    await store.set(SERVER, None)
    assert keyring.kept == {}


@pytest.mark.parametrize("found", ["no JSON", "", 5, b"{}"])
async def test_what_the_keyring_has_from_others_is_nothing(tmp_path: Path, found: Any) -> None:
    keyring = Keyring()
    keyring.kept["mcpkit", SERVER] = found
    assert await FileTokenStore(tmp_path, keyring=keyring).get(SERVER) is None


async def test_a_keyring_that_refuses_is_said_so(tmp_path: Path) -> None:
    """SEC-13: with the name of its exception alone."""
    keyring = Keyring()
    keyring.fails = RuntimeError("the-secret")
    store = FileTokenStore(tmp_path, keyring=keyring)
    for use in (store.get(SERVER), store.set(SERVER, WHOLE), store.set(SERVER, None)):
        with pytest.raises(
            AuthorizationFailed, match="keyring cannot be used: RuntimeError"
        ) as raised:
            await use
        assert "the-secret" not in str(raised.value)


@pytest.mark.parametrize("priority", [5, 0, -1, None])
def test_a_keyring_that_is_good_for_something_is_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, priority: float | None
) -> None:
    """One that keeps nothing, or cannot say, is as good as none: then there are files."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("APPDATA", str(tmp_path))
    monkeypatch.setitem(sys.modules, "keyring", Keyring(priority))  # type: ignore[arg-type]
    found = repr(default_store({}))
    if priority == 5:
        assert found == "<FileTokenStore: the keyring>"
    else:
        assert found == f"<FileTokenStore: {tmp_path / 'mcpkit' / 'credentials'}>"


@pytest.mark.parametrize("module", [None, SimpleNamespace()], ids=["missing", "broken"])
def test_without_a_keyring_there_are_files(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, module: Any
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("APPDATA", str(tmp_path))
    monkeypatch.setitem(sys.modules, "keyring", module)
    found = repr(default_store({}))
    assert found == f"<FileTokenStore: {tmp_path / 'mcpkit' / 'credentials'}>"


def test_an_environment_may_say_where(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """``MCPKIT_CREDENTIALS`` counts for more than a keyring."""
    monkeypatch.setitem(sys.modules, "keyring", Keyring())
    assert repr(default_store({"MCPKIT_CREDENTIALS": "here"})) == "<FileTokenStore: here>"
    monkeypatch.setenv("MCPKIT_CREDENTIALS", str(tmp_path))
    assert repr(default_store()) == f"<FileTokenStore: {tmp_path}>"
