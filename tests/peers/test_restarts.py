"""Other clients continue their session when a server has been restarted."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from threading import Barrier, Event
from typing import Any

import pytest

from tests.kit import eventually
from tests.peers.installed import ROOT, copy_scripts, require
from tests.peers.test_peers import FOLDERS, HANDSHAKES, MODES, SERVER, Driver
from tests.transports.http.plain import serving

pytestmark = pytest.mark.peers


def children_of(pid: int) -> set[str]:
    """The processes that one has started, as Linux knows them."""
    return set(Path(f"/proc/{pid}/task/{pid}/children").read_text().split())


def come_back(client: str, url: str, connected: Barrier, restarted: Event) -> Any:
    """What a client reports that is connected before a restart and after it."""
    driver = Driver(client, COME_BACK="1")
    try:
        try:
            assert driver.tell(HANDSHAKES[-1], url) == "connected"
        finally:
            connected.wait(50)
        assert restarted.wait(50)
        return driver.tell("go on")
    finally:
        driver.end()


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Future[Any]]]:
    """The reports of all clients of one server that is restarted once."""
    require(*FOLDERS)
    copy_scripts()
    folder = tmp_path_factory.mktemp("restarts")
    copy = shutil.copy(SERVER, folder)
    shutil.copy(ROOT / "examples" / "glossary.py", folder)
    connected, restarted = Barrier(len(MODES) + 1), Event()
    with (
        serving("server.py", "--http", "--reload", cwd=folder, within=True) as server,
        ThreadPoolExecutor(len(MODES)) as pool,
    ):
        reports = {
            client: pool.submit(come_back, client, server.url, connected, restarted)
            for client in MODES
        }
        connected.wait(50)
        before = children_of(server.process.pid)
        os.utime(copy)
        server.process.wait_for_stderr("server.py changed: reloading")
        # A message on a connection that is being closed is lost, with any server.
        eventually(lambda: not before <= children_of(server.process.pid))
        restarted.set()
        yield reports


@pytest.mark.parametrize("client", MODES)
def test_session_and_its_stream_survive_a_reload(
    client: str, reports: dict[str, Future[Any]]
) -> None:
    assert reports[client].result() == {"answer": "42", "heard": True}
