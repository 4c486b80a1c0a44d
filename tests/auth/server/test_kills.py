"""What an authorization server has answered holds, whoever of its processes is killed.

Two processes share a file. Clients log in, redeem codes, refresh and revoke at either of them, and
each is killed at random moments and started again.
"""

from __future__ import annotations

import random
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final

import pytest

from tests import warm
from tests.auth.browser import Browser, Page
from tests.auth.server.conftest import Asked, Clock, Site
from tests.auth.server.killed import CLIENT
from tests.kit import eventually
from tests.uvicorns import listen

BASE: Final = "http://127.0.0.1:9"
"""Where both say that they are: a proxy would pass on to either of them."""

PATIENCE: Final = 30.0
CLIENTS: Final = 4

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="has no SIGKILL")


class Processes:
    """The two processes."""

    def __init__(self, file: Path) -> None:
        self._file = file
        with listen() as one, listen() as other:
            self.ports = [each.getsockname()[1] for each in (one, other)]
        self._running = [self._start(each) for each in self.ports]

    def _start(self, port: int) -> subprocess.Popen[bytes]:
        arguments = [str(port), BASE, str(self._file)]
        return warm.Popen([sys.executable, "-m", "tests.auth.server.killed", *arguments])

    def wait(self, number: int) -> None:
        """Wait until one of them listens."""

        def listens() -> bool:
            assert self._running[number].poll() is None, "a process has ended by itself"
            with suppress(OSError):
                socket.create_connection(("127.0.0.1", self.ports[number]), 1).close()
                return True
            return False

        eventually(listens)

    def kill(self, number: int) -> None:
        """Kill one of them, and start it again."""
        self._running[number].kill()
        self._running[number].wait(PATIENCE)
        self._running[number] = self._start(self.ports[number])
        self.wait(number)

    def end(self) -> None:
        for each in self._running:
            each.kill()
            each.wait(PATIENCE)

    def some(self, url: str) -> str:
        """The same address, at either of them."""
        return url.replace(BASE, f"http://127.0.0.1:{random.choice(self.ports)}", 1)


GONE: Final = (OSError, HTTPException)
"""What a client sees of a process that is killed: no answer, or the half of one."""


class AnywhereBrowser(Browser):
    """A browser behind a proxy that passes on to either process."""

    def __init__(self, processes: Processes) -> None:
        super().__init__(button="allow")
        self._processes = processes

    def open(self, url: str, *given: Any) -> Page:
        page = super().open(self._processes.some(url), *given)
        page.url = url
        return page


class Anywhere(Site):
    """The server, at either process; requests are sent once."""

    def __init__(self, processes: Processes) -> None:
        super().__init__(BASE, Clock(), None, CLIENT.id, AnywhereBrowser(processes))  # type: ignore[arg-type]
        self._processes = processes

    def send(self, path: str, *given: Any, **named: Any) -> Page:
        at = Site(self._processes.some(BASE), self.clock, self.server)
        return at.send(path, *given, **named)


def until_answered(send: Callable[[], Page]) -> Page:
    """What is answered in the end: whoever hears nothing sends it again."""
    until = time.monotonic() + PATIENCE
    while True:
        try:
            return send()
        except GONE:
            assert time.monotonic() < until


class Walks:
    """What clients go through, again and again."""

    finished = 0

    def __init__(self, site: Anywhere, enough: threading.Event) -> None:
        self.site = site
        self._enough = enough

    def go_on(self) -> None:
        while not self._enough.is_set():
            asked = self._code()
            if random.random() < 0.3:
                self._redeem_twice(asked)
            else:
                self._live(asked)

    def _code(self) -> Asked:
        while True:
            with suppress(*GONE):
                return self.site.log_in(scope=None)

    def _redeem_twice(self, asked: Asked) -> None:
        """Two with one code: one of them has tokens at most, and then nobody has."""

        def redeem(_: int) -> Page:
            return until_answered(lambda: self.site.redeem(asked))

        with ThreadPoolExecutor(2) as pool:
            answers = [*pool.map(redeem, range(2))]
        statuses = sorted(each.status for each in answers)
        assert statuses in ([200, 400], [400, 400]), [each.text for each in answers]
        for each in answers:
            if each.status == 200:
                token = each.json["access_token"]
                assert until_answered(lambda: self.site.call(token)).status == 401  # noqa: B023

    def _live(self, asked: Asked) -> None:
        try:
            page = self.site.redeem(asked)
        except GONE:
            # Nobody knows whether it was redeemed. If it was, it has been redeemed twice now.
            again = until_answered(lambda: self.site.redeem(asked))
            assert again.status in (200, 400), again.text
            return
        assert page.status == 200, page.text
        tokens = page.json
        for _ in range(3):
            called = until_answered(lambda: self.site.call(tokens["access_token"]))  # noqa: B023
            assert called.status == 200, called.text
            assert called.json["result"]["content"][0]["text"] == "ada"
            # A refresh token whose answer was lost does once more, for the same successor.
            old = tokens["refresh_token"]
            page = until_answered(lambda: self.site.refresh(old))  # noqa: B023
            assert page.status == 200, page.text
            again = until_answered(lambda: self.site.refresh(old))  # noqa: B023
            assert again.json["refresh_token"] == page.json["refresh_token"] != old
            tokens = page.json
        last = tokens["refresh_token"]
        fields = {"token": last, "client_id": self.site.client_id}
        assert until_answered(lambda: self.site.form("/revoke", None, **fields)).status == 200
        assert until_answered(lambda: self.site.refresh(last)).status == 400
        assert until_answered(lambda: self.site.call(tokens["access_token"])).status == 401
        self.finished += 1


def test_what_was_answered_holds(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """AUTH-16: codes once, refresh tokens rotate, and what was revoked stays so."""
    kills = 100 if request.config.getoption("--deep") else 3
    file = tmp_path / "auth.db"
    processes = Processes(file)
    enough = threading.Event()
    try:
        for number in range(2):
            processes.wait(number)
        walks = [Walks(Anywhere(processes), enough) for _ in range(CLIENTS)]
        with ThreadPoolExecutor(CLIENTS) as pool:
            going = [pool.submit(each.go_on) for each in walks]
            try:
                for _ in range(kills):
                    time.sleep(random.random() * 0.3)
                    processes.kill(random.randrange(2))
                    if any(each.done() for each in going):
                        break
            finally:
                enough.set()
            for each in going:
                each.result(3 * PATIENCE)
    finally:
        enough.set()
        processes.end()
    assert sum(each.finished for each in walks) > 0
    assert file.stat().st_mode & 0o777 == 0o600
