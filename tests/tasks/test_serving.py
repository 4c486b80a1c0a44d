"""What a server does for its tasks, beyond what their clients see."""

from __future__ import annotations

import random
import re
import secrets
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio
import httpx2
import pytest

from mcpkit import Context, Limits, MCPKit, RegistrationError, TaskOptions, TaskSupport
from mcpkit._protocol.connection import CAPABILITIES_KEY
from mcpkit._stores import make_store, plain_name
from mcpkit._stores.base import StoreUnavailable
from mcpkit._stores.memory import MemoryStore
from mcpkit._stores.sqlite import SqliteStore
from mcpkit.errors import InternalError, InvalidParams, MethodNotFound, ProtocolError
from mcpkit.tasks import task_runs
from mcpkit.tasks.record import Task
from mcpkit.tasks.transitions import CODEC
from tests.asking.conftest import accept
from tests.asking.test_sealing import EarlierSealer
from tests.kit import PATIENCE, until
from tests.messages import announced
from tests.tasks.conftest import present
from tests.tasks.wire.conftest import CORE, EXTENSION, EXTENSIONS, Tasked, text_of
from tests.uvicorns import listen, running

QUICK: TaskOptions = {"poll_interval": 0.02}


def connected(app: MCPKit[Any] | str, revision: str = EXTENSION, **options: Any) -> Tasked:
    return Tasked(app, revision=revision, **options)


# --- at registration ------------------------------------------------------------------------------


TOOL = {"task": "optional"}


@pytest.mark.parametrize(
    ("tasks", "tool", "kind", "said"),
    [
        ({}, {"task": True}, RegistrationError, 'task=True; write one of "optional", "required"'),
        ({}, {"task": "sometimes"}, RegistrationError, "task='sometimes'; write one of"),
        (True, TOOL, TypeError, 'use @app.tool(task="optional")'),
        ({"stores": "x"}, TOOL, TypeError, "has no option 'stores'; did you mean 'store'?"),
        ({"ttl": -1}, TOOL, ValueError, "ttl must be more than 0"),
        ({"max_running": 0}, TOOL, ValueError, "max_running must be more than 0"),
        ("ftp://somewhere", TOOL, ValueError, "tasks cannot be stored at ftp://"),
    ],
)
def test_invalid_options_are_rejected(
    tasks: Any, tool: Any, kind: type[Exception], said: str
) -> None:
    with pytest.raises(kind, match=re.escape(said)):
        MCPKit("refused", tasks=tasks).tool(**tool)(_nothing)


def _nothing() -> None:
    """Do nothing."""


@pytest.mark.parametrize("revision", [CORE, EXTENSION])
async def test_a_tool_that_is_added_while_the_app_is_served_runs_as_a_task(revision: str) -> None:
    """TASKL-4, TASKX-1: the next client learns of it."""
    app: MCPKit = MCPKit("growing", tasks=QUICK)
    async with connected(app, revision):
        app.add_tool(lambda: 7, name="late", task="optional")
        async with connected(app, revision) as next_client:
            assert text_of(await next_client.result(await next_client.begin("late"))) == "7"


async def test_the_tools_of_an_included_app_run_as_tasks() -> None:
    """An app with other extensions cannot be included, but every app has tasks."""
    app: MCPKit = MCPKit("whole", tasks=QUICK)
    app.include(make_app(), prefix="part")
    async with connected(app) as client:
        id = await client.begin("part_ask")
        await client.until(id, "input_required")
        await client.reply(id, accept("now"))
        assert text_of(await client.result(id)) == "yes first now"


# --- what outlives a process ----------------------------------------------------------------------


def make_app(
    store: Any = None,
    happened: list[str] | None = None,
    go_on: anyio.Event | None = None,
    *,
    secret: str | None = None,
    **tasks: Any,
) -> MCPKit[Any]:
    """An app whose tools run as tasks."""
    options: Any = {**QUICK, **tasks} if store is None else {**QUICK, "store": store, **tasks}
    app: MCPKit = MCPKit("served", tasks=options, secret=secret)
    happened = [] if happened is None else happened

    @app.tool(task="optional")
    async def ask(ctx: Context, word: str = "yes", twice: bool = False) -> str:
        def note(what: str) -> str:
            happened.append(what)
            return what

        first = await ctx.step("begin", note, "first")
        if twice:
            await ctx.elicit("Really?", str)
        return f"{word} {first} {(await ctx.elicit('And?', str)).data}"

    @app.tool(task="optional")
    async def say(ctx: Context) -> str:
        for _ in range(2):
            ctx.debug("details")
            ctx.warning("attention")
        return "said"

    @app.tool(task="optional")
    async def wait() -> str:
        await (go_on or anyio.Event()).wait()
        return "done"

    @app.tool(task="optional")
    async def give(size: int = 1) -> str:
        return "x" * size

    @app.tool(task="optional")
    async def keep(size: int, ctx: Context) -> int:
        return len(await ctx.step("long", lambda: "x" * size))

    return app


async def test_tasks_that_are_not_resumable_get_the_grace_of_a_shutdown(tmp_path: Path) -> None:
    """For as long as calls may; what may be run again is left to others at once."""
    stopping = threading.Event()
    started: list[str] = []

    def make_app() -> MCPKit[Any]:
        app: MCPKit = MCPKit("ending", tasks={"store": str(tmp_path / "tasks.db"), **QUICK})

        @app.tool(task="optional")
        def ends() -> str:
            started.append("ends")
            return str(stopping.wait(PATIENCE))

        @app.tool(task="optional")
        async def stays() -> None:
            started.append("stays")
            await anyio.sleep_forever()

        @app.tool(task=TaskSupport(resumable=True))
        async def again() -> str:
            started.append("again")
            if started.count("again") == 1:
                await anyio.sleep_forever()
            return "done"

        return app

    inner = make_app().asgi(limits=Limits(grace=0.5))

    async def application(scope: Any, receive: Any, send: Any) -> None:
        async def noted() -> Any:
            message = await receive()
            if message["type"] == "lifespan.shutdown":
                stopping.set()
            return message

        await inner(scope, noted if scope["type"] == "lifespan" else receive, send)

    listener = listen()
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
    ids: dict[str, str] = {}
    with running(application, listener):
        async with connected(url) as client:
            for tool in ("ends", "stays", "again"):
                ids[tool] = await client.begin(tool)
            await until(lambda: len(started) == 3)
    async with connected(make_app()) as client:
        assert text_of(await client.result(ids["ends"])) == "True"
        assert text_of(await client.result(ids["again"])) == "done"
        found = await client.until(ids["stays"], "failed")
        assert "may be run again" in found["error"]["message"]
    assert sorted(started) == ["again", "again", "ends", "stays"]


async def test_stored_tasks_are_sealed_with_the_secret(tmp_path: Path) -> None:
    """SEC-8: also from a reader of the file."""
    file = str(tmp_path / "tasks.db")
    async with connected(make_app(file, secret="s" * 32)) as client:
        id = await client.begin("ask", word="confidential")
        await client.reply(id, accept("discreet"))
        assert "confidential" in text_of(await client.result(id))
        other = await client.begin("ask", word="confidential")
        await client.until(other, "input_required")
        kept = b"".join(each.read_bytes() for each in tmp_path.iterdir())
        assert id.encode() in kept
        for secret in (b"confidential", b"discreet", b"And?", b"first"):
            assert secret not in kept
    async with connected(make_app(file, secret="t" * 32)) as client:
        with pytest.raises(ProtocolError):
            await client.state(other)


@pytest.mark.parametrize("moved", ["call", "owner", "outcome", "answers", "input_requests"])
async def test_a_sealed_field_cannot_be_moved_to_another_task(tmp_path: Path, moved: str) -> None:
    """SEC-8: who may write the store, but has no secret, neither reads nor acts as others."""
    file = str(tmp_path / "tasks.db")
    async with connected(make_app(file, secret="s" * 32)) as client:
        ids = [await client.begin("ask", word=word, twice=True) for word in ("admin", "mallory")]
        for id in ids:
            await client.until(id, "input_required")
        if moved in ("outcome", "answers"):
            await client.reply(ids[0], accept("private"))
            await client.until(ids[0], "input_required")
        if moved == "outcome":
            await client.reply(ids[0], accept("private"))
            await client.until(ids[0], "completed")
    store = SqliteStore[Task](file)
    await store.open(CODEC)
    victim = await store.get(ids[0])
    others: dict[str, dict[str, Any]] = {
        "call": {},
        "owner": {"owner": "0" * 32},
        "outcome": {"status": "completed", "open": ()},
        "answers": {"status": "working", "open": ()},
        "input_requests": {},
    }
    changes = {moved: getattr(victim, moved), **others[moved]}
    await store.change(ids[1], lambda task, now: replace(task, **changes))
    if moved == "owner":  # the worker sees what its client does not
        await store.change(ids[1], lambda task, now: replace(task, status="working", open=()))
    async with connected(make_app(file, secret="s" * 32)) as client:
        if moved == "call":
            await client.reply(ids[1], accept("then"))
        if moved in ("call", "owner"):  # no process runs it
            await client.until(await client.begin("give"), "completed")
            found = present(await store.get(ids[1]))
            assert (found.status, found.attempt) == ("working", 1)
        elif moved in ("outcome", "input_requests"):
            with pytest.raises(InternalError):
                await client.state(ids[1])
        else:
            await until_left(store, ids[1])
    await store.aclose()


async def until_left(store: SqliteStore[Task], id: str) -> None:
    """Wait until a task was claimed and left to others."""
    with anyio.fail_after(PATIENCE):
        while (found := await store.get(id)) is None or found.attempt == 1 or found.worker:
            await anyio.sleep(0.01)
    assert (found.status, found.starts, found.crashes) == ("working", 0, 0)


@pytest.mark.parametrize("earlier", [0, 1, None])
async def test_a_task_continues_in_another_process(tmp_path: Path, earlier: int | None) -> None:
    """Also while the version before is replaced, which has the secret, too."""
    happened: list[str] = []
    secret = None if earlier is None else "s" * 32
    file = str(tmp_path / "tasks.db")
    first, second = (make_app(file, happened, secret=secret) for _ in range(2))
    if earlier is not None:
        (first, second)[earlier].server._sealers["tasks"] = EarlierSealer(
            ["s" * 32], "tasks", "served"
        )
    async with connected(first) as client:
        id = await client.begin("ask", word="well")
        await client.until(id, "input_required")
        over = await client.begin("give")
        await client.until(over, "completed")
    async with connected(second) as client:
        assert text_of(await client.result(over)) == "x"
        await client.reply(id, accept("then"))
        assert text_of(await client.result(id)) == "well first then"
    async with connected(first) as client:
        assert text_of(await client.result(id)) == "well first then"
    assert happened == ["first"]


ODD: Final = ["a\0b", "\ud800", random.Random(1).randbytes(20_000).hex(), "sha256:", "ä\n\u2028"]


@pytest.mark.parametrize("kind", ["memory", "sqlite", "redis", "postgres"])
async def test_a_step_may_have_any_name(location: Any) -> None:
    """Such as one that a client has chosen: the task ends, and each step runs once."""
    app: MCPKit = MCPKit(f"odd{secrets.token_hex(4)}", tasks={**QUICK, "store": location})
    happened: list[str] = []

    @app.tool(task="optional")
    async def load(ctx: Context) -> int:
        for name in ODD:
            await ctx.step(name, partial(happened.append, name))
        return len((await ctx.elicit("And?", str)).data)

    async with connected(app) as client:
        id = await client.begin("load")
        await client.reply(id, accept("then"))
        assert text_of(await client.result(id)) == "4"
        for unknown in ("a\0b", "x" * 48, "0" * 47, "0" * 49):
            with pytest.raises(InvalidParams, match="Unknown task"):
                await client.state(unknown)
    assert happened == ODD


# --- limits ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", [CORE, EXTENSION])
async def test_tasks_in_threads_leave_the_threads_of_calls_alone(revision: str) -> None:
    """However long they take: tools that answer at once do not wait for them."""
    app: MCPKit = MCPKit("threads", max_threads=2, tasks=QUICK)
    go_on = threading.Event()

    @app.tool(task="optional")
    def long() -> str:
        go_on.wait(PATIENCE)
        return "done"

    @app.tool
    def short() -> str:
        return "at once"

    async with connected(app, revision) as client:
        try:
            ids = [await client.begin("long") for _ in range(5)]
            assert (await client.call_tool("short", timeout=PATIENCE / 2)).text == "at once"
        finally:
            go_on.set()
        for id in ids:
            await client.until(id, "completed")


async def test_results_steps_and_calls_have_a_size_limit() -> None:
    """SEC-17."""
    async with connected(make_app(max_bytes=2000)) as client:
        assert len(text_of(await client.result(await client.begin("give", size=1000))))
        found = await client.until(await client.begin("give", size=3000), "failed")
        assert found["error"]["message"] == "The result has more than 2000 bytes"
        found = await client.until(await client.begin("keep", size=3000), "completed")
        assert found["result"]["isError"]
        with pytest.raises(InvalidParams, match="more than 2000 bytes"):
            await client.begin("ask", word="x" * 2000)


async def test_the_steps_of_a_task_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """SEC-17."""
    monkeypatch.setattr(task_runs, "MAX_STEPS", 3)
    app: MCPKit = MCPKit("many steps", tasks=QUICK)

    @app.tool(task="required")
    async def work(ctx: Context) -> str:
        for number in range(3):
            await ctx.step(f"step {number}", str, number)
        with pytest.raises(ValueError, match="at most 3 steps"):
            await ctx.step("step 3", str, 3)
        return "refused"

    async with connected(app) as client:
        found = await client.result(await client.begin("work"))
    assert text_of(found) == "refused"


async def test_polling_has_a_rate_limit() -> None:
    """TASKX-17: after a number of looks that no client needs."""
    async with connected(make_app(poll_interval=1000.0)) as client:
        id = await client.begin("wait")
        for _ in range(100):
            await client.state(id)
        with pytest.raises(InternalError, match="wait 1000 s between polls"):
            await client.state(id)
        other = await client.begin("wait")
        assert (await client.state(other))["status"] == "working"


# --- whose they are -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """An endpoint that knows who is there by a header."""
    app = make_app()
    listener = listen()
    asgi = app.asgi(principal=lambda http: http.headers.get("x-user"))
    with running(asgi, listener):
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"


@pytest.mark.parametrize("revision", [CORE, EXTENSION])
async def test_a_task_belongs_to_its_principal(url: str, revision: str) -> None:
    """TASKL-13, TASKX-16, SEC-7, SEC-9: everybody else gets the error for an unknown task."""
    ann: dict[str, Any] = {"headers": {"X-User": "ann"}}
    async with connected(url, revision, **ann) as client:
        id = await client.begin("wait")
        for headers in ({"X-User": "bob"}, {}):
            async with connected(url, revision, headers=headers) as other:
                for method in ("tasks/get", "tasks/cancel"):
                    with pytest.raises(InvalidParams, match="Unknown task"):
                        await other.request(method, {"taskId": id})
                if revision == CORE and headers:
                    listed = (await other.request("tasks/list"))["tasks"]
                    assert id not in [each["taskId"] for each in listed]
                elif revision == CORE:
                    assert "list" not in other.server_capabilities["tasks"]
                    with pytest.raises(MethodNotFound):
                        await other.request("tasks/list")
        async with connected(url, revision, **ann) as again:
            assert (await again.state(id))["status"] == "working"
            if revision == CORE:
                listed = (await again.request("tasks/list"))["tasks"]
                assert listed[-1]["taskId"] == id  # behind those of the event loop before
            await again.request("tasks/cancel", {"taskId": id})


async def test_a_task_of_one_shape_is_unknown_in_the_other(url: str) -> None:
    """TASKX-18."""
    async with connected(url, EXTENSION) as client, connected(url, CORE) as older:
        ids = {client: await client.begin("wait"), older: await older.begin("wait")}
        for each, other in ((client, older), (older, client)):
            with pytest.raises(InvalidParams, match="Unknown task"):
                await each.state(ids[other])
            await each.request("tasks/cancel", {"taskId": ids[each]})


@pytest.mark.parametrize("method", ["tasks/get", "tasks/update", "tasks/cancel"])
async def test_a_header_names_the_task(url: str, method: str) -> None:
    """TASKX-14, HTTPM-2: some clients do not send the header, so that the body alone names it."""
    meta = {CAPABILITIES_KEY: {"extensions": EXTENSIONS}}
    message = announced(1, method, taskId="one", inputResponses={}, _meta=meta)
    for named, code in (("one", -32602), ("other", -32020), (None, -32602)):
        headers = {
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": EXTENSION,
            "Mcp-Method": method,
            **({} if named is None else {"Mcp-Name": named}),
        }
        async with httpx2.AsyncClient(timeout=PATIENCE) as http:
            answer = (await http.post(url, json=message, headers=headers)).json()
        assert answer["error"]["code"] == code


# --- an app's own ---------------------------------------------------------------------------------


async def test_an_app_starts_tasks_itself() -> None:
    app = make_app()

    @app.tool
    async def begin(ctx: Context) -> str:
        return await app.tasks.start("ask", {"word": "rain:"}, ctx=ctx)

    @app.tool
    async def plain() -> None:
        """Never a task."""

    with pytest.raises(RuntimeError, match="not served on this event loop"):
        await app.tasks.start("ask")
    async with connected(app) as client:
        id = (await client.call_tool("begin")).text
        await client.reply(id, accept("short"))
        assert text_of(await client.result(id)) == "rain: first short"
        other = await app.tasks.start("ask", principal="cron")
        with pytest.raises(InvalidParams):
            await client.state(other)
        for wrong, said in (("nothing", "no tool"), (plain, "does not run as a task")):
            with pytest.raises(ValueError, match=said):
                await app.tasks.start(wrong)


# --- when the store is away -----------------------------------------------------------------------


class Fickle(MemoryStore[Any]):
    """A store that cannot always be reached."""

    is_shared = True  # it is looked at every second
    away = False

    def __init__(self) -> None:
        super().__init__()
        self.noticed = threading.Event()

    def __getattribute__(self, name: str) -> Any:
        if name in ("open", "add", "change", "claim") and self.away:
            if name == "claim":
                self.noticed.set()
            raise StoreUnavailable("out to lunch")
        return super().__getattribute__(name)


async def test_an_unavailable_store_loses_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """A task is refused that could not be kept; a result waits until it can be."""
    store, go_on = Fickle(), anyio.Event()
    store.away = True
    async with connected(make_app(lambda: store, go_on=go_on)) as client:
        with pytest.raises(InternalError, match="unavailable at the moment"):
            await client.begin("wait")
        store.away = False
        id = await client.begin("wait")
        await client.until(id, "working")
        store.away = True
        go_on.set()
        with pytest.raises(InternalError, match="unavailable"):
            await client.begin("wait")
        assert (await client.state(id))["status"] == "working"
        store.away = False
        assert text_of(await client.result(id)) == "done"
        assert text_of(await client.result(await client.begin("wait"))) == "done"
    assert "out to lunch" in caplog.text


# --- many -----------------------------------------------------------------------------------------


async def test_middleware_is_around_each_run() -> None:
    """Also if it waits for answers."""
    app = make_app()
    seen: list[bool] = []

    @app.middleware
    async def note(ctx: Context, call_next: Callable[[], Any]) -> Any:
        if ctx.method == "tools/call":
            seen.append(ctx.task is not None)
        return await call_next()

    async with connected(app) as client:
        id = await client.begin("ask")
        await client.reply(id, accept("so"))
        await client.until(id, "completed")
    assert seen == [False, True]


# --- places ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("place", "kind"),
    [
        ("tasks.db", "SqliteStore"),
        ("sqlite:///tasks.db", "SqliteStore"),
        ("redis://localhost/1", "RedisStore"),
        ("valkeys://localhost", "RedisStore"),
        ("unix:///run/redis.sock", "RedisStore"),
        ("postgresql://localhost/x", "PostgresStore"),
    ],
)
def test_a_path_or_url_names_a_store(place: str, kind: str) -> None:
    MCPKit("here", tasks=place)
    assert type(make_store(place, "app")).__name__ == kind


def test_a_missing_library_is_reported_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcpkit.tasks.options.find_spec", lambda module: None)
    with pytest.raises(ValueError, match=re.escape('need: pip install "mcpkit[redis]"')):
        MCPKit("nowhere", tasks="valkey://localhost")
    MCPKit("here", tasks="tasks.db")


def test_names_of_apps_separate_their_tasks() -> None:
    names = ["trips", "Trips", "my trips", "my_trips", "{x}", "x" * 80, "x" * 81, "€"]
    plain = [plain_name(each) for each in names]
    assert plain[0] == "trips"
    assert len(set(plain)) == len(names)
    assert all(re.fullmatch("[a-z0-9_]{1,40}", each) for each in plain)
