"""``mcpkit run --reload`` on stdio: the host keeps its pipe, the server behind it changes."""

from __future__ import annotations

import os
import signal
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from mcpkit._protocol.connection import CAPABILITIES_KEY, TASKS_EXTENSION
from mcpkit.testing import REVISIONS, TestClient
from tests.cli.commands import change
from tests.cli.hurried import HURRIED, limits
from tests.kit import eventually
from tests.messages import (
    LAST_HANDSHAKE,
    MODERN,
    Message,
    announced,
    called,
    cancelled,
    initialize,
    notification,
    request,
)
from tests.transports.processes import REPOSITORY, TIMEOUT, Process, call, modern, started
from tests.warm import python

ARGUMENTS: Final = ["run", "server.py", "--reload"]
SUBSCRIPTION: Final = "io.modelcontextprotocol/subscriptionId"

HOLD: Final = "mcpkit.cli._run.reload._HOLD_S"
FINISH: Final = "mcpkit.cli._run.reload._FINISH_S"
LIMITS: Final = {
    # What no test is about, and so never reached.
    HOLD: 60,
    FINISH: 60,
    # Waits that repeat.
    "mcpkit.cli._run.files._LOOK_S": 0.02,
}

FIRST = """
import os, time
from pathlib import Path
from mcpkit import Context, Extension, MCPKit

app = MCPKit("first")
version = "First"
geo = Extension("com.example/geo")

@geo.request("geo/version")
def tell() -> dict[str, str]:
    return {"version": version}

app.extend(geo)

@app.tool
async def greet(name: str) -> str:
    return f"{version}, {name}"

@app.tool
async def secret() -> str:
    return os.environ["MCPKIT_SECRET"]

@app.tool
def wait_for(file: str) -> str:
    print("waits", file=__import__("sys").stderr, flush=True)
    while not Path(file).exists():
        time.sleep(0.01)
    return version

@app.tool
async def touch(ctx: Context) -> None:
    ctx.notify_resource_updated("notes://one")
    ctx.notify_resource_updated("notes://two")

@app.tool
async def debug(ctx: Context) -> None:
    ctx.debug(version)

@app.tool
async def ask(ctx: Context) -> str:
    answer = await ctx.elicit("Really?", bool)
    return f"{version}: {type(answer).__name__}"

@app.resource("notes://one")
def one() -> str:
    return version

@app.resource("notes://two")
def two() -> str:
    return version
"""
SECOND = FIRST.replace("First", "Second")
MORE = SECOND + "\n@app.tool\ndef more() -> None: ...\n"
EXTENDED = MORE.replace(
    "app.extend",
    '@geo.request("geo/more")\ndef also() -> dict[str, str]: return tell()\n\napp.extend',
)
HINT = "\n@app.prompt\ndef hint() -> str:\n    return version\n"
GROWING = """
from mcpkit import MCPKit

app = MCPKit("growing")

@app.tool
async def grow() -> None:
    async def late() -> str:
        return "late"

    app.add_tool(late, task="optional")
"""
WRONG = "def f(:"
SLOW = "import time, pathlib\nwhile not pathlib.Path('go').exists(): time.sleep(0.01)\n" + SECOND


def changed(folder: Path, source: str, server: Process) -> None:
    """Change the server, and wait until that has been seen."""
    before = server.stderr.count("changed: reloading")
    change(folder, source)
    eventually(lambda: server.stderr.count("changed: reloading") > before)


@contextmanager
def reloading(folder: Path, seconds: Mapping[str, float] = {}) -> Iterator[Process]:
    """The command, for as long as the block lasts.

    Args:
        folder: Has the server.
        seconds: Limits that are to be reached.
    """
    env = limits({**LIMITS, **seconds})
    with started([*HURRIED, *ARGUMENTS], cwd=folder, env=env, within=True) as process:
        yield process


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    change(tmp_path, FIRST)
    return tmp_path


@pytest.fixture
def server(folder: Path) -> Iterator[Process]:
    with reloading(folder) as process:
        yield process


def greet(server: Process, id: str = "greet") -> str:
    return server.text(call(id, "greet", name="you"))


# --- what a host sees of a change -----------------------------------------------------------------


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_client_that_stays_connected_calls_the_new_version(folder: Path, revision: str) -> None:
    notified: list[str] = []
    with TestClient(
        [python(within=True), *HURRIED[1:], *ARGUMENTS],
        revision=revision,
        cwd=folder,
        env={"PYTHONPATH": str(REPOSITORY), **limits(LIMITS)},
        probe_timeout=TIMEOUT,
        on_notification=lambda method, params: notified.append(method),
    ) as client:
        assert "more" not in [tool.name for tool in client.list_tools()]
        assert client.request("geo/version")["version"] == "First"
        change(folder, EXTENDED)
        eventually(lambda: "more" in [tool.name for tool in client.list_tools()])
        assert client.call_tool("greet", {"name": "you"}).text == "Second, you"
        assert client.request("geo/version")["version"] == "Second"
        assert client.request("geo/more")["version"] == "Second"
        client.call_tool("touch")
    expected = [] if revision == MODERN else ["notifications/tools/list_changed"]  # TOOL-14, SUB-3
    assert notified == expected


def test_tasks_go_on_in_versions_that_begin_none(folder: Path) -> None:
    """TASKX-3, also of a tool that came while its version was served."""
    change(folder, GROWING)
    with reloading(folder) as server:
        server.ask(call(1, "grow"))
        of_tasks: Message = {CAPABILITIES_KEY: {"extensions": {TASKS_EXTENSION: {}}}}
        begin = announced(2, "tools/call", name="late", arguments={}, _meta=of_tasks)
        id = server.ask(begin)["result"]["taskId"]
        changed(folder, FIRST, server)
        assert greet(server) == "First, you"
        get = announced(3, "tasks/get", taskId=id, _meta=of_tasks)
        assert server.ask(get)["result"]["status"] == "completed"


def test_a_session_keeps_what_it_has_agreed_on(server: Process, folder: Path) -> None:
    """Log level, subscriptions, and the secret that was made for it."""
    server.shake_hands()
    secret = server.text(request(1, "tools/call", called("secret", {})))
    assert len(secret) >= 32
    server.ask(request(2, "logging/setLevel", level="debug"))
    server.ask(request(3, "resources/subscribe", uri="notes://one"))
    server.ask(request(4, "resources/subscribe", uri="notes://two"))
    server.ask(request(5, "resources/unsubscribe", uri="notes://two"))
    changed(folder, SECOND, server)
    assert server.text(request(6, "tools/call", called("greet", {"name": "you"}))) == "Second, you"
    assert server.others == []
    assert server.stderr == "mcpkit: server.py changed: reloading\n"
    server.ask(request(7, "tools/call", called("debug", {})))
    assert [each["params"]["data"] for each in server.others] == ["Second"]
    server.others.clear()
    server.ask(request(8, "tools/call", called("touch", {})))
    server.ask(request(9, "ping"))
    assert server.others == [notification("notifications/resources/updated", uri="notes://one")]
    assert server.text(request(10, "tools/call", called("secret", {}))) == secret


class TestAChange:
    def test_only_what_a_host_knows_of_is_announced(self, server: Process, folder: Path) -> None:
        """LIFE-8: of prompts, which are new, the developer learns instead."""
        server.shake_hands()
        changed(folder, MORE + HINT, server)
        names = [each["name"] for each in server.ask(request(1, "tools/list"))["result"]["tools"]]
        assert "more" in names
        server.wait_for_stderr("mcpkit: the server has prompts now, which its host does not know")
        assert server.others == [{"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}]

    def test_nothing_is_announced_before_the_session_is_open(
        self, server: Process, folder: Path
    ) -> None:
        """LIFE-6"""
        server.version = LAST_HANDSHAKE
        server.ask(initialize(id=1))
        changed(folder, MORE, server)
        server.ask(request(2, "tools/list"))
        assert server.others == []
        server.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        assert server.receive()["method"] == "notifications/tools/list_changed"

    def test_a_module_of_the_same_second_and_size_is_read_again(self, folder: Path) -> None:
        def put(name: str, nanoseconds: int) -> None:
            new = folder / "beside.new"
            new.write_text(f"version = {name!r}")
            os.utime(new, ns=(0, 10**18 + nanoseconds))
            new.replace(folder / "beside.py")

        put("one", 1)
        change(folder, FIRST + "\nfrom beside import version\n")
        with reloading(folder) as server:
            assert greet(server) == "one, you"
            put("two", 2)
            server.wait_for_stderr("mcpkit: beside.py changed: reloading\n")
            assert greet(server, "again") == "two, you"


VIEWED = """
from mcpkit import Html, MCPKit
app = MCPKit("first")

@app.tool(ui=Html("page.html"))
def show() -> str:
    return "shown"
"""


def page_of(server: Process) -> tuple[str, str]:
    """The URI of the view of a tool, and its page."""
    [tool] = server.ask(modern("list", "tools/list"))["result"]["tools"]
    uri = tool["_meta"]["ui"]["resourceUri"]
    [found] = server.ask(modern("read", "resources/read", uri=uri))["result"]["contents"]
    return uri, found["text"]


def test_the_files_of_views_are_watched(tmp_path: Path) -> None:
    """APP-15: an edited page has another URI, so that a host does not show the one before."""
    (tmp_path / "page.html").write_text("<!doctype html><script src=page.js></script>")
    (tmp_path / "page.js").write_text("first")
    change(tmp_path, VIEWED)
    with reloading(tmp_path) as server:
        first, text = page_of(server)
        assert "first" in text
        (tmp_path / "notes.txt").write_text("not of a page")
        (tmp_path / "page.js").write_text("the second")
        server.wait_for_stderr("mcpkit: page.js changed: reloading\n")
        second, text = page_of(server)
        assert "the second" in text
        assert first != second
        assert server.stderr.count("changed") == 1


def test_streams_of_changes_go_on_until_the_host_leaves(server: Process, folder: Path) -> None:
    """SUB-3, SUB-4, SUB-6, SUB-7 and SUB-9, for ``subscriptions/listen`` (2026-07-28)."""
    streams: dict[str, dict[str, Any]] = {
        "tools": {"toolsListChanged": True, "resourcesListChanged": True},
        "resources": {"resourcesListChanged": True},
        "one": {"resourceSubscriptions": ["notes://one"]},
        "ended": {"toolsListChanged": True},
    }
    for id, wanted in streams.items():
        server.send(modern(id, "subscriptions/listen", notifications=wanted))
        assert server.receive()["method"] == "notifications/subscriptions/acknowledged"
    server.send(cancelled("ended"))
    changed(folder, MORE + HINT, server)
    server.ask(call(1, "touch"))
    assert greet(server) == "Second, you"
    found: dict[str, list[Message]] = defaultdict(list)
    for each in server.others:
        found[each["params"]["_meta"][SUBSCRIPTION]].append(each)
    meta = {SUBSCRIPTION: "tools"}
    assert found["tools"] == [notification("notifications/tools/list_changed", _meta=meta)]
    assert found["resources"] == []
    [update] = found["one"]
    assert update["params"] == {"uri": "notes://one", "_meta": {SUBSCRIPTION: "one"}}
    assert found["ended"] == []
    server.close_stdin()
    last = server.rest()
    cancelled_ids = [each["params"]["requestId"] for each in last if "params" in each]
    ended = [each["id"] for each in last if "id" in each]
    assert sorted(cancelled_ids) == sorted(ended) == ["one", "resources", "tools"]


# --- requests while versions change ---------------------------------------------------------------


def test_a_call_is_finished_by_the_version_that_began_it(server: Process, folder: Path) -> None:
    """One that was cancelled is not answered (CANC-4)."""
    server.send(call(1, "wait_for", file="go"), call(2, "wait_for", file="go"))
    eventually(lambda: server.stderr.count("waits") == 2)
    server.send(cancelled(2))
    changed(folder, SECOND, server)
    assert greet(server) == "Second, you"
    (folder / "go").touch()
    assert server.answer(1)["result"]["content"][0]["text"] == "First"
    server.close_stdin()
    assert [*server.others, *server.rest()] == []


def test_an_answer_reaches_the_version_that_asked(server: Process, folder: Path) -> None:
    server.version = "2025-06-18"
    server.ask(initialize(server.version, "hello", capabilities={"elicitation": {}}))
    server.send(notification("notifications/initialized"))
    server.send(request("asked", "tools/call", called("ask", {})))
    question = server.receive()
    assert question["method"] == "elicitation/create"
    changed(folder, SECOND, server)
    server.ask(request(3, "tools/list"))
    server.send({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "decline"}})
    assert server.answer("asked")["result"]["content"][0]["text"] == "First: Declined"


def test_the_next_version_takes_the_answer_in_a_request_that_is_continued(folder: Path) -> None:
    """MRTR-16, on 2026-07-28: the request state is sealed with a secret that both know."""

    def answer(params: Any) -> dict[str, Any]:
        change(folder, SECOND)
        eventually(lambda: "changed: reloading" in log.read_text())
        return {"action": "decline"}

    log = folder / "log"
    with (
        log.open("wb") as stderr,
        TestClient(
            [sys.executable, "-m", "mcpkit", *ARGUMENTS],
            cwd=folder,
            env={"PYTHONPATH": str(REPOSITORY)},
            probe_timeout=TIMEOUT,
            stderr=stderr.fileno(),
            elicitation=answer,
        ) as client,
    ):
        assert client.call_tool("ask").text == "Second: Declined"


def test_a_request_waits_for_the_new_version_and_pings_do_not(
    server: Process, folder: Path
) -> None:
    """PING-1"""
    server.shake_hands()
    changed(folder, SLOW, server)
    server.send(request(1, "tools/call", name="greet", arguments={"name": "you"}))
    assert server.ask(request(2, "ping"))["result"] == {}
    (folder / "go").touch()
    assert server.answer(1)["result"]["content"][0]["text"] == "Second, you"


def test_a_request_that_waits_too_long_is_served_by_the_version_before(folder: Path) -> None:
    with reloading(folder, {HOLD: 0.1}) as server:
        greet(server)
        changed(folder, SLOW, server)
        assert greet(server, "again") == "First, you"
        (folder / "go").touch()  # or it would not notice that it is not needed any more


# --- versions that do not work --------------------------------------------------------------------


def test_while_a_version_cannot_be_imported_the_one_before_it_goes_on(
    server: Process, folder: Path
) -> None:
    greet(server)
    changed(folder, WRONG, server)
    assert greet(server, "meanwhile") == "First, you"
    server.wait_for_stderr(
        "mcpkit: server.py cannot be imported: SyntaxError: invalid syntax (server.py:1)\n"
        "mcpkit: the previous version continues\n"
    )
    changed(folder, SECOND, server)
    assert greet(server, "again") == "Second, you"


class TestAFirstVersionThatCannotBeImported:
    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        change(tmp_path, WRONG)
        return tmp_path

    def test_stderr_says_so_and_the_exit_code_is_that_of_the_server(self, server: Process) -> None:
        server.wait_for_stderr(
            "mcpkit: server.py cannot be imported: SyntaxError: invalid syntax (server.py:1)\n"
            "mcpkit: it reloads when a file changes\n"
        )
        server.close_stdin()
        assert server.exit_code() == 2

    def test_a_host_that_opens_its_session_at_once_need_not_do_so_again(
        self, server: Process, folder: Path
    ) -> None:
        server.version = LAST_HANDSHAKE
        server.send(initialize(id=1), notification("notifications/initialized"))
        server.wait_for_stderr("it reloads when a file changes")
        changed(folder, SECOND, server)
        assert server.answer(1)["result"]["serverInfo"]["name"] == "first"
        changed(folder, MORE, server)
        assert server.receive()["method"] == "notifications/tools/list_changed"


@pytest.mark.parametrize("target", ["missing.py", "missing.py:app"])
def test_a_file_that_does_not_exist_is_not_waited_for(tmp_path: Path, target: str) -> None:
    command = [*HURRIED, "run", target, "--reload"]
    with started(command, cwd=tmp_path, env=limits(LIMITS)) as server:
        assert server.exit_code() == 2
        server.wait_for_stderr("mcpkit: there is no file missing.py\n")


# --- the end --------------------------------------------------------------------------------------


def test_the_host_leaves(server: Process) -> None:
    """STDIO-4: requests of before are answered."""
    server.send(call(1, "greet", name="you"))
    server.close_stdin()
    [answer] = server.rest()
    assert answer["result"]["content"][0]["text"] == "First, you"
    assert server.exit_code() == 0
    assert server.stderr == ""


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.parametrize("starting", [False, True], ids=["running", "starting"])
@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGTERM, 0), (signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)],
)
def test_a_signal_leaves_no_process_behind(
    server: Process, folder: Path, number: signal.Signals, code: int, starting: bool
) -> None:
    greet(server)
    if starting:
        changed(folder, SLOW, server)
    server.signal(number)
    assert server.exit_code() == code
    assert server.stderr == ("mcpkit: server.py changed: reloading\n" if starting else "")


def test_a_secret_that_there_is_is_that_of_the_versions(folder: Path) -> None:
    env = {"MCPKIT_SECRET": "mine-and-long-enough", **limits(LIMITS)}
    with started([*HURRIED, *ARGUMENTS], cwd=folder, env=env, within=True) as server:
        assert server.text(call(1, "secret")) == "mine-and-long-enough"
