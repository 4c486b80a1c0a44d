"""Functions of one call of the client: what the server asks and logs goes to the call it is for."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcpkit import Client, Context, InputRequest, MCPKit
from mcpkit.errors import MethodNotFound
from mcpkit.testing import REVISIONS
from tests.kit import PATIENCE, Recorder
from tests.transports.http.wire import Host

ASKS: Mapping[str, Any] = {"elicitation": {}}
EACH = "import sys; sys.path.insert(0, {root!r}); from {module} import app; app.run()"
every_revision = pytest.mark.parametrize("revision", REVISIONS[2:])

app = MCPKit("asking")


@app.tool
async def ask(topic: str, ctx: Context[Any]) -> str:
    ctx.info(f"asking about {topic}")
    answer = await ctx.elicit(f"What about {topic}?", str)
    return f"{topic}: {answer.data}"


both = anyio.Event()
together: list[str] = []


@app.tool
async def ask_together(topic: str, ctx: Context[Any]) -> str:
    together.append(topic)
    if len(together) == 2:
        both.set()
    await both.wait()
    return await ask(topic, ctx)


@app.tool(task="optional")
async def work(topic: str, ctx: Context[Any]) -> str:
    return await ask(topic, ctx)


@app.resource("topics://{topic}")
async def read(topic: str, ctx: Context[Any]) -> str:
    return await ask(topic, ctx)


@app.prompt
async def talk(topic: str, ctx: Context[Any]) -> str:
    return await ask(topic, ctx)


@pytest.fixture(params=["memory", "stdio", "http"])
def target(request: pytest.FixtureRequest, host: Host) -> Any:
    if request.param == "http":
        return url_of(host)
    if request.param == "stdio":
        root = str(Path(__file__).parents[3])
        return [sys.executable, "-c", EACH.format(root=root, module=__name__)]
    return app


def url_of(host: Host) -> str:
    return f"http://127.0.0.1:{host.port}{host.serve(app).path}"


def answering(text: str) -> Any:
    def on_input(asked: InputRequest) -> Mapping[str, Any]:
        assert asked.method == "elicitation/create"
        about = str(asked.params["message"]).removeprefix("What about ").removesuffix("?")
        return {"action": "accept", "content": {"value": f"{text} to {about}"}}

    return on_input


def client_of(target: Any, revision: str, **options: Any) -> Client:
    return Client(target, revision=revision, timeout=PATIENCE, capabilities=ASKS, **options)


@every_revision
async def test_a_call_answers_and_hears_instead_of_the_client(target: Any, revision: str) -> None:
    of_client, of_call = Recorder(), Recorder()
    async with client_of(target, revision, on_log=of_client) as client:
        options: dict[str, Any] = {"on_input": answering("mine"), "on_log": of_call}
        found = await client.call_tool("ask", {"topic": "tea"}, log_level="info", **options)
        assert found.text == "tea: mine to tea"
        [contents] = await client.read_resource("topics://milk", on_input=answering("read"))
        assert "milk: read to milk" in str(contents)
        prompt = await client.get_prompt("talk", {"topic": "jam"}, on_input=answering("got"))
        assert "jam: got to jam" in str(prompt)
        if revision == REVISIONS[-1]:
            with pytest.raises(MethodNotFound, match="does not answer elicitation"):
                await client.call_tool("ask", {"topic": "ham"})
        else:
            assert (await client.call_tool("ask", {"topic": "ham"})).is_error
    assert ("info", "asking about tea") in [each[:2] for each in of_call.calls]
    assert not any("tea" in str(each) for each in of_client.calls)


@every_revision
async def test_each_of_many_calls_has_its_own(host: Host, revision: str) -> None:
    async with client_of(url_of(host), revision) as client:
        results: dict[str, str] = {}

        async def call(name: str) -> None:
            options = {"on_input": answering(name)}
            results[name] = (await client.call_tool("ask", {"topic": "tea"}, **options)).text

        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as group:
                for number in range(8):
                    group.start_soon(call, f"n{number}")
        assert results == {f"n{each}": f"tea: n{each} to tea" for each in range(8)}


async def test_questions_on_a_pipe_that_two_calls_could_have_are_for_the_client(
    host: Host,
) -> None:
    root = str(Path(__file__).parents[3])
    target = [sys.executable, "-c", EACH.format(root=root, module=__name__)]
    answer = answering("client")

    def elicitation(params: dict[str, Any]) -> Mapping[str, Any]:
        return dict(answer(InputRequest("elicitation/create", params)))

    async with client_of(target, "2025-11-25", elicitation=elicitation) as client:
        found: list[str] = []

        async def call(name: str) -> None:
            options = {"on_input": answering(name)}
            found.append((await client.call_tool("ask_together", {"topic": name}, **options)).text)

        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as group:
                group.start_soon(call, "a")
                group.start_soon(call, "b")
        # The second one may be alone when it is asked.
        assert sorted(found)[0] in ("a: client to a", "a: a to a")
        assert "client to" in "".join(found)


@pytest.mark.parametrize("revision", REVISIONS[3:])
async def test_a_task_that_a_call_waits_for_asks_the_call(target: Any, revision: str) -> None:
    async with client_of(target, revision, extensions=[]) as client:
        found = await client.call_tool("work", {"topic": "tea"}, on_input=answering("mine"))
        assert found.text == "tea: mine to tea"


async def test_what_nobody_declared_is_not_asked() -> None:
    async with Client(app, revision="2025-11-25") as client:
        found = await client.call_tool("ask", {"topic": "tea"}, on_input=answering("mine"))
        assert found.is_error
        with pytest.raises(MethodNotFound):
            await client._handle("elicitation/create", {})
