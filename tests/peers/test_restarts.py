"""Other people's clients go on with their session when a server has been started anew."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.peers.installed import copy_scripts, require
from tests.peers.test_peers import FOLDERS, HANDSHAKES, MODES, SERVER, command_of
from tests.transports.http.plain import serving
from tests.transports.processes import (
    until,
)

pytestmark = pytest.mark.peers


def children_of(pid: int) -> set[str]:
    """The processes that one has started, as Linux knows them."""
    return set(Path(f"/proc/{pid}/task/{pid}/children").read_text().split())


@pytest.mark.parametrize("client", MODES)
def test_session_and_its_stream_survive_a_reload(client: str, tmp_path: Path) -> None:
    require(*FOLDERS)
    copy_scripts()
    copy = shutil.copy(SERVER, tmp_path)
    with serving("server.py", "--http", "--reload", cwd=tmp_path) as server:
        driver = subprocess.Popen(
            [*command_of(client), HANDSHAKES[-1], server.url],
            env={**os.environ, "COME_BACK": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert driver.stdout is not None
            assert driver.stdout.readline() == "connected\n"
            before = children_of(server.process.pid)
            os.utime(copy)
            server.process.wait_for_stderr("server.py changed: starting anew")
            # What is sent on a connection that is just being closed is lost, whoever the server is.
            until(lambda: not before <= children_of(server.process.pid))
            report, _ = driver.communicate("\n", timeout=50)
        finally:
            driver.kill()
            driver.wait()
        assert json.loads(report) == {"answer": "42", "heard": True}
