"""The clients for tests, and the pytest fixture."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import anyio
import pytest
from typing_extensions import Unpack

from mcpkit import Context, Depends, MCPKit, ResourceError, TextResourceContents, ToolError
from mcpkit.auth import Principal
from mcpkit.client import Client, Progress
from mcpkit.errors import ProtocolError
from mcpkit.testing import REVISIONS, AppOptions, AsyncTestClient, TestClient

ROOT = Path(__file__).resolve().parents[1]

app = MCPKit("tested", version="1", instructions="Test it.")


@app.tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@app.tool
async def talk(ctx: Context) -> str:
    """Log and report progress."""
    ctx.warning("words")
    ctx.progress(1, 2)
    return "said"


@app.tool
def crash() -> str:
    """Fail unexpectedly."""
    raise LookupError("the real one")


@app.tool
def complain() -> str:
    """Fail for the model."""
    raise ToolError("for the model")


@app.tool(task="optional")
async def ask(ctx: Context) -> str:
    """Ask as a task."""
    return str((await ctx.elicit("How many?", int)).data)


@app.resource("note://{name}")
def note(name: str) -> str:
    """A note."""
    if name == "sorry":
        raise ResourceError("closed")
    if name == "broken":
        raise LookupError("the real one")
    return name


@app.resource("index://all")
def index() -> str:
    """All notes."""
    return "all"


@app.prompt
def greet(name: str, loud: bool = False) -> str:
    """Greet someone."""
    return f"hello {name}" + "!" * loud


# --- as a principal -------------------------------------------------------------------------------

guarded = MCPKit("guarded", scope_hierarchy={"notes": ["notes:read"]})


@guarded.tool
def whoami(ctx: Context) -> str:
    """Tell the caller."""
    return "nobody" if ctx.principal is None else f"{ctx.principal} {sorted(ctx.principal.scopes)}"


@guarded.tool(scopes=["notes:read"])
def read() -> str:
    """Read the notes."""
    return "notes"


@guarded.tool(allow=lambda principal, arguments: principal.id == arguments["owner"])
def delete(owner: str) -> str:
    """Delete the notes of their owner."""
    return f"deleted of {owner}"


@pytest.mark.parametrize("revision", REVISIONS)
def test_calls_are_those_of_a_principal(revision: str) -> None:
    """AUTH-12: scopes, predicates and the principal are as over HTTP."""

    def used(**options: Unpack[AppOptions]) -> tuple[list[str], str, str, str]:
        with TestClient(guarded, revision=revision, **options) as client:

            def called(name: str, **arguments: str) -> str:
                try:
                    return client.call_tool(name, arguments).text
                except ProtocolError:
                    return "refused"

            names = [each.name for each in client.list_tools()]
            return names, called("whoami"), called("read"), called("delete", owner="ada")

    everything = ["whoami", "read", "delete"]
    assert used() == (everything, "nobody", "notes", "deleted of ada")
    assert used(scopes=["notes"]) == (everything, "user ['notes']", "notes", "refused")
    ada = ("ada []", "refused", "deleted of ada")
    assert used(principal="ada") == (["whoami", "delete"], *ada)
    assert used(principal=Principal("ada", frozenset({"notes"})), scopes=()) == used(
        principal="ada"
    )
    assert used(principal=Principal("ada", frozenset({"notes"})))[2] == "notes"
    assert used(principal=None) == (["whoami", "delete"], "nobody", "refused", "refused")
    with pytest.raises(ValueError, match="must be a list"):
        used(scopes="notes:read")
    with pytest.raises(TypeError, match="needs a principal"):
        used(principal=None, scopes=["notes"])


# --- with await -----------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", REVISIONS)
async def test_the_real_exception_is_raised_on_demand(revision: str) -> None:
    """ERR-6: by default it is hidden, as from any client."""
    async with AsyncTestClient(app, revision=revision) as client:
        assert "the real one" not in (await client.call_tool("crash")).text
    async with AsyncTestClient(app, revision=revision, raise_exceptions=True) as client:
        with pytest.raises(LookupError, match="the real one"):
            await client.call_tool("crash")
        assert (await client.call_tool("add", {"a": 1, "b": 2})).text == "3"
        with pytest.raises(LookupError, match="the real one"):
            await client.read_resource("note://broken")
        with pytest.raises(ToolError, match="for the model"):
            await client.call_tool("complain")
        with pytest.raises(ResourceError, match="closed"):
            await client.read_resource("note://sorry")


async def test_what_a_callback_raises_is_raised_on_demand() -> None:
    """A test whose own callback fails must not stay green."""
    logging: MCPKit = MCPKit("logging")

    @logging.tool
    async def say(ctx: Context) -> str:
        await ctx.info("hello")
        return "said"

    @logging.tool
    async def hush() -> str:
        return "hushed"

    def fail(*message: Any) -> None:
        raise ZeroDivisionError("in the callback")

    options: dict[str, Any] = {"revision": "2025-11-25", "on_log": fail, "on_notification": fail}
    async with AsyncTestClient(logging, **options) as client:
        assert (await client.call_tool("say")).text == "said"
    client = AsyncTestClient(logging, **options, raise_exceptions=True)
    await client.__aenter__()
    with pytest.raises(ZeroDivisionError):
        await client.call_tool("say")
    assert (await client.call_tool("hush")).text == "hushed"  # it is raised once
    logging.list_changed("tools")
    await anyio.wait_all_tasks_blocked()
    with pytest.raises(ZeroDivisionError):  # or at the end
        await client.__aexit__(None, None, None)


# --- without await --------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("revision", REVISIONS)
def test_the_sync_client_speaks_every_revision(revision: str, backend: str) -> None:
    assert list(REVISIONS) == sorted(REVISIONS)
    with TestClient(app, revision=revision, backend=backend) as client:
        assert client.revision == revision
        assert client.call_tool("add", {"a": 1, "b": 2}).text == "3"


def test_it_has_the_methods_of_the_async_client() -> None:
    with TestClient(app, revision=REVISIONS[0]) as client:
        client.ping()
        client.set_log_level("error")
        client.subscribe("index://all")
        client.unsubscribe("index://all")
    logs: list[Any] = []
    with TestClient(app, on_log=lambda *message: logs.append(message)) as client:
        assert client.revision == REVISIONS[-1]
        assert client.server_info is not None
        assert (client.server_info.name, client.server_info.version) == ("tested", "1")
        assert client.instructions == "Test it."
        assert "tools" in client.server_capabilities
        tools = ["add", "talk", "crash", "complain", "ask"]
        assert [each.name for each in client.list_tools()] == tools
        assert [each.uri for each in client.list_resources()] == ["index://all"]
        assert [each.uri_template for each in client.list_resource_templates()] == ["note://{name}"]
        assert [each.name for each in client.list_prompts()] == ["greet"]
        contents = TextResourceContents("note://a", "a", mime_type="text/plain")
        assert client.read_resource("note://a") == [contents]
        assert client.get_prompt("greet", {"name": "Ada"}).messages[0].text == "hello Ada"
        assert client.complete("loud", "t", prompt="greet").values[0] == "true"
        assert client.request("tools/list")["resultType"] == "complete"
        progress: list[Any] = []
        client.call_tool("talk", log_level="debug", on_progress=progress.append)
        assert (logs, progress) == ([("warning", "words", None)], [Progress(1, 2, None)])


def test_it_must_be_entered_first_and_has_the_methods_of_the_async_client() -> None:
    with pytest.raises(RuntimeError, match="with TestClient"):
        TestClient(app).list_tools()

    def public(cls: type) -> set[str]:
        return {name for name, _ in inspect.getmembers(cls) if not name.startswith("_")}

    without_sync_form = {"link", "listen", "notify"}
    assert public(Client) - without_sync_form <= public(TestClient)


# --- others in the place of what an app depends on ------------------------------------------------


class Database(NamedTuple):
    """What an app depends on, and tests do without."""

    name: str


@asynccontextmanager
async def production(app: MCPKit[Any]) -> AsyncIterator[str]:
    raise AssertionError("no test reaches production")
    yield "production"


@asynccontextmanager
async def elsewhere(app: MCPKit[Any]) -> AsyncIterator[str]:
    yield "elsewhere"


left: list[str] = []


def settings(ctx: Context) -> str:
    return f"settings of {ctx.state}"


def database(found: Annotated[str, Depends(settings)]) -> Iterator[Database]:
    yield Database(found)
    left.append(found)


async def in_memory() -> AsyncIterator[Database]:
    yield Database("in memory")
    left.append("in memory")


def make_guarded() -> MCPKit[Any]:
    guarded: MCPKit[Any] = MCPKit("guarded", lifespan=production)

    @guarded.tool
    async def which(db: Annotated[Database, Depends(database)]) -> str:
        return db.name

    @guarded.tool
    def which_in_thread(db: Annotated[Database, Depends(database)], more: int = 0) -> str:
        return f"{db.name} {more}"

    return guarded


REPLACED: list[tuple[AppOptions, str]] = [
    ({"lifespan": None}, "settings of None"),
    ({"lifespan": None, "overrides": {database: in_memory}}, "in memory"),
    ({"lifespan": elsewhere}, "settings of elsewhere"),
    ({"lifespan": elsewhere, "overrides": {settings: lambda: "made up"}}, "made up"),
]


@pytest.mark.parametrize(("options", "name"), REPLACED, ids=[name for _, name in REPLACED])
@pytest.mark.parametrize("revision", REVISIONS)
def test_a_lifespan_and_dependencies_may_be_replaced(
    revision: str, options: AppOptions, name: str
) -> None:
    left.clear()
    with TestClient(make_guarded(), revision=revision, **options) as client:
        assert client.call_tool("which").text == name
        assert client.call_tool("which_in_thread", {"more": 1}).text == f"{name} 1"
    assert left == [name, name]


@pytest.mark.parametrize("options", [{"overrides": {settings: settings}}, {"lifespan": None}])
def test_these_are_for_an_app_object(options: Any) -> None:
    with pytest.raises(TypeError, match=r"(overrides|lifespan): of an app object only"):
        TestClient("server.py", **options)


def test_options_are_those_of_a_client() -> None:
    """Written down for editors, they must not drift."""
    known = set(inspect.signature(Client).parameters) - {"target", "revision", "timeout"}
    assert AppOptions.__optional_keys__ == known | {"overrides", "lifespan", "principal", "scopes"}


SAMPLE = '''
from mcpkit import MCPKit

app = MCPKit("sample")
clients = []

@app.tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b

def test_add(mcp_client):
    clients.append(mcp_client(app, revision="2025-06-18"))
    assert clients[0].revision == "2025-06-18"
    assert clients[0].call_tool("add", {"a": 1, "b": 2}).data == 3

def test_it_was_closed():
    import pytest
    with pytest.raises(Exception):
        clients[0].list_tools()
'''


def test_the_plugin_works_in_a_project_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "test_sample.py").write_text(SAMPLE)
    installed = any(each.name == "mcpkit" for each in entry_points(group="pytest11"))
    plugin = [] if installed else ["-p", "mcpkit.pytest_plugin"]
    run = subprocess.run(
        [sys.executable, "-W", "error", "-m", "pytest", "-q", *plugin, str(tmp_path)],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "2 passed" in run.stdout, run.stdout + run.stderr


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_tasks_without_await(revision: str) -> None:
    """TASKL-4, TASKX-5."""
    answer = {"action": "accept", "content": {"value": 3}}
    with TestClient(app, revision=revision, elicitation=lambda params: answer) as client:
        task = client.start("ask")
        assert [each.status for each in task][-1] == "completed"
        assert (task.result(timeout=10).text, task.is_over) == ("3", True)
        assert task.id is not None
        again = client.task(task.id)
        assert again.look() == task.status == again.status
        assert (again.result().text, "completed" in repr(again)) == ("3", True)
        other = client.start("ask")
        while other.look().status != "input_required":
            pass
        ((key, question),) = other.questions().items()
        assert question.params["message"] == "How many?"
        other.answer({key: {"action": "accept", "content": {"value": 4}}})
        assert other.result(timeout=10).text == "4"
        other.cancel()
        if revision == "2025-11-25":
            assert {task.id, other.id} == {each.id for each in client.tasks()}


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("handled", ["elicitation", "sampling", "roots", None])
def test_a_client_gives_the_name_that_it_was_given(revision: str, handled: str | None) -> None:
    """META-2: whatever it answers."""
    app: MCPKit[Any] = MCPKit("names")

    @app.tool
    async def who(ctx: Context) -> str:
        info = ctx.client.info
        assert info is not None
        return f"{info.name} {info.version}"

    handlers: dict[str, Any] = {handled: lambda params: {}} if handled else {}
    with TestClient(app, revision=revision, name="Editor", version="7", **handlers) as client:
        assert client.call_tool("who").text == "Editor 7"
