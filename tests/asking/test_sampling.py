"""Questions to the client's model: params, answers, and the loop with tools (SAMP-1…4)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel

from mcpkit import (
    Context,
    ElicitationError,
    ImageContent,
    InvalidInputResponse,
    MCPKit,
    Sample,
    SampleMessage,
    TextContent,
    ToolError,
)
from mcpkit._protocol.revisions import REVISIONS, Revision
from mcpkit.sampling import ToolUse, ToolUseResult, read_json
from mcpkit.types import AudioContent
from tests.asking.conftest import Asked, Connect, speak
from tests.asking.server import COUNTS, count
from tests.scenarios.tapped import MODERN, since, until
from tests.schemas import check_value

revisions = pytest.mark.parametrize("revision_data", REVISIONS, ids=str)
TOOLS = [{"name": "add", "inputSchema": {"type": "object"}}]


def params(sample: Sample, revision: Revision) -> dict[str, Any]:
    """What is sent, after the official schema had its say."""
    found = sample.params(revision)
    asked = {"jsonrpc": "2.0", "id": 1, "method": "sampling/createMessage", "params": found}
    check_value(asked, revision.version, "CreateMessageRequest")
    return found


# --- what is sent ---------------------------------------------------------------------------------


@revisions
def test_a_text_is_a_message(revision_data: Revision) -> None:
    assert params(Sample("Hello"), revision_data) == {
        "messages": [{"role": "user", "content": {"type": "text", "text": "Hello"}}],
        "maxTokens": 1024,
    }


@revisions
def test_all_options(revision_data: Revision) -> None:
    sample = Sample(
        ["Hello", SampleMessage("Hi", "assistant"), "Go on"],
        max_tokens=7,
        system="Be brief",
        temperature=0.5,
        stop=["."],
        hints=["claude", "gpt"],
        cost=0.1,
        speed=0.2,
        intelligence=0.3,
        include_context="none",
        metadata={"a": 1},
    )
    found = params(sample, revision_data)
    assert [each["role"] for each in found.pop("messages")] == ["user", "assistant", "user"]
    assert found == {
        "maxTokens": 7,
        "systemPrompt": "Be brief",
        "temperature": 0.5,
        "stopSequences": ["."],
        "modelPreferences": {
            "hints": [{"name": "claude"}, {"name": "gpt"}],
            "costPriority": 0.1,
            "speedPriority": 0.2,
            "intelligencePriority": 0.3,
        },
        "includeContext": "none",
        "metadata": {"a": 1},
    }


@revisions
def test_several_blocks_of_a_message(revision_data: Revision) -> None:
    """Before 2025-11-25 each is a message of its own."""
    blocks: list[TextContent | ImageContent] = [TextContent("a"), ImageContent(b"x", "image/png")]
    found = params(Sample(SampleMessage(blocks)), revision_data)
    assert len(found["messages"]) == (1 if revision_data.sampling_tools else 2)


@revisions
def test_audio_and_tools_are_refused_where_they_do_not_exist(revision_data: Revision) -> None:
    """SAMP-1: whatever the client declares."""
    audio = Sample(SampleMessage(AudioContent(b"x", "audio/wav")))
    if "audio" in revision_data.sampling_types:
        assert params(audio, revision_data)["messages"][0]["content"]["type"] == "audio"
    else:
        with pytest.raises(ElicitationError, match="cannot sample with AudioContent"):
            audio.params(revision_data)
    tools = Sample("Hello", tools=TOOLS, tool_choice="required")
    if revision_data.sampling_tools:
        found = params(tools, revision_data)
        assert (found["tools"], found["toolChoice"]) == (TOOLS, {"mode": "required"})
    else:
        with pytest.raises(ElicitationError, match="no sampling with tools"):
            tools.params(revision_data)


@revisions
def test_what_a_client_must_have_declared(revision_data: Revision) -> None:
    """SAMP-1, SAMP-3."""
    context: dict[str, Any] = {"context": {}} if revision_data.sampling_tools else {}
    for sample, needed in (
        (Sample("x"), {}),
        (Sample("x", tools=TOOLS), {"tools": {}}),
        (Sample("x", include_context="none"), {}),
        (Sample("x", include_context="thisServer"), context),
        (Sample("x", include_context="allServers"), context),
    ):
        assert sample.required_capabilities(revision_data) == {"sampling": needed}


# --- answers --------------------------------------------------------------------------------------


def said(*content: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "model": "m", "content": list(content)}


USE = {"type": "tool_use", "id": "1", "name": "add", "input": {"a": 1}}


def test_an_answer_is_read() -> None:
    found = Sample("x").parse_result(
        {**said({"type": "text", "text": "a"}, USE), "stopReason": "toolUse"}
    )
    assert (found.text, found.model, found.stop_reason) == ("a", "m", "toolUse")
    assert found.tool_uses == [ToolUse("1", "add", {"a": 1})]
    assert Sample("x").parse_result(speak("a")).text == "a", "one block is a list of one"
    block = {"type": "tool_result", "toolUseId": "1", "content": [{"type": "text", "text": "a"}]}
    (result,) = Sample("x").parse_result(said(block)).content
    assert result == ToolUseResult("1", [TextContent("a")])


@pytest.mark.parametrize(
    "result",
    [
        {},
        {"model": "m"},
        {"model": 1, "content": []},
        {"model": "m", "content": "text"},
        said({"type": "text"}),
        said({"type": "unheard of"}),
        said({"type": "resource_link", "uri": "a:b", "name": "c"}),
        said({**USE, "input": "text"}),
        said({**USE, "id": 1}),
        {"model": "m", "content": [7]},
    ],
    ids=str,
)
def test_a_malformed_answer_is_invalid(result: dict[str, Any]) -> None:
    """MRTR-11, S2C-4."""
    with pytest.raises(InvalidInputResponse):
        Sample("x").parse_result(result)


class City(BaseModel):
    name: str


@pytest.mark.parametrize(
    ("text", "wanted", "value"),
    [
        ('{"name": "Oslo"}', City, City(name="Oslo")),
        ('```json\n{"name": "Oslo"}\n```', City, City(name="Oslo")),
        ('Here you are: {"name": "Oslo"}.', City, City(name="Oslo")),
        ("[1, 2]", list[int], [1, 2]),
        ("```json \n\n [1, 2]\n\n```", list[int], [1, 2]),
        (" 42\n", int, 42),
        ('"a {b} c"', str, "a {b} c"),
    ],
)
def test_json_is_found_in_the_text_of_a_model(text: str, wanted: Any, value: Any) -> None:
    assert read_json(text, wanted) == value


@pytest.mark.parametrize(
    ("text", "wanted", "why"),
    [
        (json.dumps(["no"] * 10_000), list[int], "answer[0]: expected an integer"),
        (json.dumps([0] * 50_001), list[int], "the answer has more than 50,000 values"),
        ("1e400", Any, "answer: expected a finite number"),
        ("```" + "\n" * 500_000, City, "answer: Invalid JSON"),
        ("```json" + " \n" * 500_000, City, "answer: Invalid JSON"),
        (json.dumps({"name": [0] * 40_000}), City, "answer.name: expected a string, got [0,0"),
        *((text, City, "answer") for text in ("", "no", '{"name": "Oslo"', "```\n```")),
    ],
    ids=lambda each: str(each)[:20],
)
def test_the_error_for_a_value_that_does_not_fit_is_short(text: str, wanted: Any, why: str) -> None:
    with pytest.raises(InvalidInputResponse, match=re.escape(why)) as caught:
        read_json(text, wanted)
    assert len(str(caught.value)) < 300


# --- in handlers ----------------------------------------------------------------------------------


def make_app(tag: str, rounds: int = 3) -> MCPKit[None]:
    app: MCPKit[None] = MCPKit("sampling")

    def add(a: int, b: int) -> int:
        """Add."""
        count(tag)
        return a + b

    async def fail() -> str:
        raise ToolError("no luck")

    async def crash() -> str:
        raise RuntimeError("secret")

    async def confirm(ctx: Context) -> str:
        return (await ctx.sample("Sure?")).text

    @app.tool
    async def loop(ctx: Context) -> str:
        tools: list[Callable[..., Any]] = [add, fail, crash, confirm]
        return (await ctx.sample("Go", tools=tools, tool_rounds=rounds)).text

    @app.tool
    async def city(ctx: Context) -> str:
        return (await ctx.sample("Where?", result_type=City)).name

    return app


def use(name: str, id: str = "1", **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": name, "input": arguments}


@pytest.mark.in_memory
@pytest.mark.revisions(*since("2025-11-25"))
class TestTools:
    async def test_each_use_is_answered_and_each_tool_runs_once(
        self, connect: Connect, tag: str
    ) -> None:
        """SAMP-2: results alone in a user message, under the ids of the uses."""
        async with connect(make_app(tag)) as client:
            uses = [use("add", "x", a=1, b=2), use("add", "y", a=3, b=4)]
            client.script(said(*uses), said(use("add", "x", a=5, b=6)), "done")
            assert (await client.call_tool("loop")).text == "done"
            last = client.questions[-1]["messages"]
            assert [each["role"] for each in last] == ["user", "assistant"] * 2 + ["user"]
            assert [(each["toolUseId"], each["content"]) for each in last[2]["content"]] == [
                ("x", [{"type": "text", "text": "3"}]),
                ("y", [{"type": "text", "text": "7"}]),
            ]
            assert not client.violations
        assert COUNTS[tag] == 3

    @pytest.mark.parametrize(
        ("asked", "text"),
        [
            (use("fail"), "no luck"),
            (use("crash"), "reference"),
            (use("missing"), "There is no tool missing"),
            (use("add", a="x"), "b: required, but missing"),
        ],
        ids=["failure", "crash", "unknown", "arguments"],
    )
    async def test_a_tool_that_fails_tells_the_model(
        self, connect: Connect, tag: str, asked: dict[str, Any], text: str
    ) -> None:
        async with connect(make_app(tag)) as client:
            client.script(said(asked), "done")
            assert (await client.call_tool("loop")).text == "done"
            answer = client.questions[-1]["messages"][-1]["content"]
            (result,) = answer if isinstance(answer, list) else [answer]
            assert result["isError"]
            assert text in result["content"][0]["text"]
            assert "secret" not in str(client.questions)

    async def test_the_model_must_answer_in_the_end(self, connect: Connect, tag: str) -> None:
        """SAMP-4: and a tool may ask it something else meanwhile."""
        async with connect(make_app(tag, rounds=2)) as client:
            client.script(said(use("confirm")), "sure", said(use("add", a=1, b=2)), said(USE))
            await client.call_tool("loop")
            choices = [each.get("toolChoice") for each in client.questions]
            assert choices == [None, None, None, {"mode": "none"}]
            assert "sure" in str(client.questions[2])
        assert COUNTS[tag] == 1

    @pytest.mark.revisions(*until("2025-11-25"), *since("2025-11-25"))
    async def test_a_client_without_tools_is_not_asked(self, connect: Connect, tag: str) -> None:
        """SAMP-1."""
        async with connect(make_app(tag), capabilities={"sampling": {}}) as client:
            if client.revision == MODERN:
                with pytest.raises(Exception, match="sampling"):
                    await client.call_tool("loop")
            else:
                assert (await client.call_tool("loop")).is_error
            assert not client.questions


async def city_of(client: Asked, *answers: str) -> Any:
    client.script(*answers)
    return await client.call_tool("city")


@pytest.mark.in_memory
async def test_a_result_type(connect: Connect, tag: str) -> None:
    """The model sees once what was wrong with its answer."""
    async with connect(make_app(tag)) as client:
        assert (await city_of(client, '{"name": "Oslo"}')).text == "Oslo"
        assert '"name"' in client.questions[0]["systemPrompt"]
        assert (await city_of(client, "{}", '{"name": "Oslo"}')).text == "Oslo"
        assert "name: required" in client.messages[1]
        assert (await city_of(client, "{}", "{}", '{"name": "Oslo"}')).is_error
        assert len(client.questions) == 2
