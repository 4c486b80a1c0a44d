"""What an authorization server has answered holds, whichever of its processes is killed.

Two processes share a file. Clients log in, redeem codes, refresh and revoke at either of them, and
each is killed at random moments and started again.
"""

from __future__ import annotations

import random
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final
from urllib.request import OpenerDirector, Request

import pytest

from tests.auth import browser
from tests.auth.browser import Browser, Page, sent
from tests.auth.server import conftest, killed
from tests.auth.server.conftest import Asked, Clock, Site
from tests.auth.server.killed import BASE, CLIENT
from tests.transports.http import plain
from tests.transports.http.plain import Server

PATIENCE: Final = 30.0
CLIENTS: Final = 4

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="has no SIGKILL")


class Processes:
    def __init__(self, stack: ExitStack, file: Path) -> None:
        self._stack = stack
        self._env = {"LOGINS": str(file)}
        self._running = [self._start() for _ in range(2)]

    def _start(self) -> Server:
        program = Path(killed.__file__)
        serving = plain.serving(str(program), "--http", cwd=program.parents[3], env=self._env)
        return self._stack.enter_context(serving)

    def kill(self) -> None:
        """Kill one of them, and start it again."""
        number = random.randrange(2)
        self._running[number].process.signal(signal.SIGKILL)
        self._running[number].process.exit_code(PATIENCE)
        self._running[number] = self._start()

    def pass_on(self, request: Request, opener: OpenerDirector | None = None) -> Page:
        """Send a request to either of them, as a proxy would."""
        url, place = request.full_url, random.choice(self._running).url.removesuffix("/mcp")
        request.full_url = url.replace(BASE, place, 1)
        page = sent(request, opener)
        page.url = url
        return page


GONE: Final = (OSError, HTTPException)
"""What a client sees of a process that is killed: no response, or half of one."""


class Anywhere(Site):
    def __init__(self, *, retries: bool) -> None:
        user = Browser(button="allow")
        super().__init__(BASE, Clock(), None, CLIENT.id, user)  # type: ignore[arg-type]
        self._retries = retries

    def send(self, *given: Any, **named: Any) -> Page:
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                return super().send(*given, **named)
            except GONE:
                if not self._retries or time.monotonic() > deadline:
                    raise


class Walks:
    finished = 0

    def __init__(self, enough: threading.Event) -> None:
        self._once = Anywhere(retries=False)
        self._site = Anywhere(retries=True)
        self._enough = enough

    def go_on(self) -> None:
        while not self._enough.is_set():
            try:
                asked = self._once.log_in(scope=None)
            except GONE:
                continue
            if random.random() < 0.3:
                self._redeem_twice(asked)
            else:
                self._live(asked)

    def _redeem_twice(self, asked: Asked) -> None:
        """Two with one code: at most one of them gets tokens, and these are revoked."""
        with ThreadPoolExecutor(2) as pool:
            pages = [*pool.map(lambda _: self._site.redeem(asked), range(2))]
        assert sorted(each.status for each in pages) in ([200, 400], [400, 400])
        for each in pages:
            if each.status == 200:
                assert self._site.call(each.json["access_token"]).status == 401

    def _live(self, asked: Asked) -> None:
        try:
            page = self._once.redeem(asked)
        except GONE:
            # If it was redeemed, it has been redeemed twice now.
            assert self._site.redeem(asked).status in (200, 400)
            return
        assert page.status == 200, page.text
        tokens, site = page.json, self._site
        for _ in range(3):
            assert site.said(tokens["access_token"]) == "ada"
            # A refresh token whose response was lost does once more, for the same successor.
            old = tokens["refresh_token"]
            page, again = site.refresh(old), site.refresh(old)
            assert page.status == 200, page.text
            tokens = page.json
            assert again.json["refresh_token"] == tokens["refresh_token"] != old
        last = tokens["refresh_token"]
        assert site.form("/revoke", None, token=last, client_id=site.client_id).status == 200
        assert site.refresh(last).status == 400
        assert site.call(tokens["access_token"]).status == 401
        self.finished += 1


def test_what_was_answered_holds(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AUTH-16: codes once, refresh tokens rotate, and what was revoked stays so."""
    kills = 100 if request.config.getoption("--deep") else 3
    file = tmp_path / "auth.db"
    enough = threading.Event()
    with ExitStack() as stack:
        processes = Processes(stack, file)
        for module in (browser, conftest):
            monkeypatch.setattr(module, "sent", processes.pass_on)
        walks = [Walks(enough) for _ in range(CLIENTS)]
        with ThreadPoolExecutor(CLIENTS) as pool:
            going = [pool.submit(each.go_on) for each in walks]
            try:
                for _ in range(kills):
                    time.sleep(random.random() * 0.3)
                    processes.kill()
                    if any(each.done() for each in going):
                        break
            finally:
                enough.set()
            for each in going:
                each.result(3 * PATIENCE)
    assert sum(each.finished for each in walks) > 0
    assert file.stat().st_mode & 0o777 == 0o600
