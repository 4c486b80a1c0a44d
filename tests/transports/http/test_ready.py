"""Readiness: a load balancer learns if this process can serve requests, and not more than that."""

from __future__ import annotations

import logging
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest

from mcpkit import MCPKit
from mcpkit._stores.base import StoreUnavailable
from mcpkit._stores.sqlite import SqliteStore
from mcpkit.auth.server.login import User
from mcpkit.auth.server.server import AuthorizationServer
from mcpkit.auth.server.store import MemoryAuthStore
from mcpkit.errors import RegistrationError
from mcpkit.transports.http import readiness
from tests.kit import at_once
from tests.transports.http.plain import serving

OK = (200, {"status": "ok"})


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each request runs the checks."""
    monkeypatch.setattr(readiness, "_FRESH", 0.0)


class Probe:
    """A load balancer that looks at an application."""

    def __init__(self, application: Any) -> None:
        self.application = application
        transport = httpx2.ASGITransport(application)
        self.client = httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1")

    async def look(self, path: str = "/ready") -> tuple[int, Any]:
        response = await self.client.get(path)
        assert response.headers["cache-control"] == "no-store"
        return response.status_code, response.json()


@asynccontextmanager
async def probing(app: MCPKit[Any], **options: Any) -> AsyncGenerator[Probe, None]:
    application = app.asgi(ready=True, **options)
    probe = Probe(application)
    async with application.lifespans.hold(), probe.client:
        yield probe


def failed(*names: str) -> tuple[int, Any]:
    return 503, {"status": "unavailable", "failed": list(names)}


# --- the process itself ---------------------------------------------------------------------------


async def test_a_server_that_switches_it_on_is_ready_once_served() -> None:
    async with probing(MCPKit("ready")) as probe:
        assert await probe.look() == OK
        assert (await probe.client.head("/ready")).content == b""
        assert (await probe.client.post("/ready")).status_code == 405
        assert (await probe.client.get("/health")).status_code == 404


async def test_the_path_is_the_authors_choice_below_that_of_the_app() -> None:
    application = MCPKit("ready").asgi(ready="/up")
    async with application.lifespans.hold(), Probe(application).client as client:
        assert (await client.get("/up")).status_code == 200
        assert (await client.get("/ready")).status_code == 404


async def test_it_fails_as_soon_as_the_server_is_to_stop() -> None:
    application = MCPKit("ready").asgi(ready=True)
    probe = Probe(application)
    async with application.lifespans.hold() as lifespan, probe.client:
        lifespan.drain()
        assert await probe.look() == (503, {"status": "draining"})


async def test_without_lifespan_events_the_first_look_starts_the_app() -> None:
    """Else no request would, since the load balancer waits."""
    application = MCPKit("ready").asgi(ready=True)
    async with (probe := Probe(application)).client:
        assert await probe.look() == OK
        assert (await application.lifespans.current()).started


async def test_a_lifespan_that_fails_or_is_slow_is_not_ready(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    entered = anyio.Event()
    broken = True

    @asynccontextmanager
    async def lifespan(app: object) -> AsyncGenerator[None, None]:
        if broken:
            raise OSError("no database")
        await entered.wait()
        yield

    monkeypatch.setattr(readiness, "_TIMEOUT", 0.05)
    async with (probe := Probe(MCPKit("ready", lifespan=lifespan).asgi(ready=True))).client:
        assert await probe.look() == (503, {"status": "starting"})
        broken = False
        assert await probe.look() == (503, {"status": "starting"})
        entered.set()
        monkeypatch.setattr(readiness, "_TIMEOUT", 5.0)
        assert await probe.look() == OK


# --- checks of the app ----------------------------------------------------------------------------


async def test_checks_name_what_fails_and_do_not_tell_why(caplog: pytest.LogCaptureFixture) -> None:
    app, up = MCPKit("ready"), dict.fromkeys(("database", "queue", "model"), True)

    @app.ready
    async def database() -> None:
        if not up["database"]:
            raise ConnectionError("password=hunter2\nrefused")

    @app.ready
    def queue() -> bool:
        return up["queue"]

    @app.ready(timeout=0.05)
    async def model() -> None:
        while not up["model"]:
            await anyio.sleep(1)

    async with probing(app) as probe:
        assert await probe.look() == OK
        up.update(dict.fromkeys(up, False))
        assert await probe.look() == failed("database", "model", "queue")
        assert await probe.look() == failed("database", "model", "queue")
        up.update(dict.fromkeys(up, True))
        assert await probe.look() == OK
    told = sorted(each.getMessage() for each in caplog.records if each.levelno == logging.WARNING)
    assert told == [
        "not ready: the check database failed: ConnectionError: password=hunter2 refused",
        "not ready: the check model failed: no result after 0.05 seconds",
        "not ready: the check queue failed: it returned False",
    ]


async def test_a_check_takes_the_state_of_the_lifespan() -> None:
    @asynccontextmanager
    async def lifespan(app: object) -> AsyncGenerator[dict[str, bool], None]:
        yield {"up": False}

    app: MCPKit[dict[str, bool]] = MCPKit("ready", lifespan=lifespan)

    @app.ready
    def pool(state: dict[str, bool], retries: int = 3) -> bool:
        assert retries == 3
        return state["up"]

    async with probing(app) as probe:
        assert await probe.look() == failed("pool")


async def test_a_check_that_never_returns_holds_one_thread_at_most() -> None:
    app, release, entered = MCPKit("ready"), threading.Event(), list[int]()

    @app.ready(timeout=0.05)
    def stuck() -> None:
        entered.append(1)
        assert release.wait(30)

    async with probing(app) as probe:
        try:
            for _ in range(3):
                assert await probe.look() == failed("stuck")
            assert entered == [1]
        finally:
            release.set()


async def test_many_callers_share_one_run_of_the_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness, "_FRESH", 60.0)
    app, runs = MCPKit("ready"), list[int]()

    @app.ready
    async def counted() -> None:
        runs.append(1)
        await anyio.sleep(0.01)

    async with probing(app) as probe:
        await at_once(20, probe.look)
    assert runs == [1]


def two(one: int, other: int) -> None: ...
def none() -> None: ...


@pytest.mark.parametrize(("check", "timeout"), [(two, 1), (none, 0)])
def test_a_check_that_cannot_be_called_is_refused(check: Callable[..., Any], timeout: int) -> None:
    with pytest.raises(
        RegistrationError, match="a check takes no parameter but the state of the lifespan"
    ):
        MCPKit("ready").ready(timeout=timeout)(check)


# --- stores ---------------------------------------------------------------------------------------


async def test_a_store_that_cannot_be_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*given: object) -> None:
        raise StoreUnavailable("/secret/place is gone")

    auth = AuthorizationServer(lambda visit: User("ada"), store=MemoryAuthStore())
    app = MCPKit("ready", tasks=str(tmp_path / "tasks.db"), auth=auth)

    @app.tool(task="optional")
    async def report() -> None: ...

    async with probing(app) as probe:
        assert await probe.look() == OK
        with monkeypatch.context() as patch:
            patch.setattr(SqliteStore, "find", fail)
            assert await probe.look() == failed("tasks")
            patch.setattr(MemoryAuthStore, "get", fail)
            assert await probe.look() == failed("logins", "tasks")
        assert await probe.look() == OK


# --- what it costs --------------------------------------------------------------------------------


def test_a_server_without_it_does_not_import_it(tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(
        "import sys\nfrom mcpkit import MCPKit\napp = MCPKit('plain', http={'health': True})\n"
        "@app.tool\ndef loaded() -> bool:\n"
        "    return 'mcpkit.transports.http.readiness' in sys.modules\n"
    )
    with serving("server.py", "--http", cwd=tmp_path, cold=True) as server:
        assert server.client("2025-11-25").call("loaded") == "false"
