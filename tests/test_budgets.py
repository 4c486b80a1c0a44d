"""Tools with a budget: what a client gets of a long result, and who may read the rest."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import anyio
import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from pydantic import BaseModel, Field

from mcpkit import Image, MCPKit, Principal, ResourceLink, TextContent, ToolError, ToolResult
from mcpkit.errors import ProtocolError, RegistrationError
from mcpkit.tasks import budgets
from mcpkit.testing import REVISIONS, AsyncTestClient
from tests.kit import PATIENCE

MODERN = REVISIONS[-1]
BUDGET = 2000
TEXT = "a line of the log\n" * 500


class Row(BaseModel):
    id: int
    name: str


class Report(BaseModel):
    rows: list[Row]
    log: str
    day: Annotated[str, Field(pattern=r"^\d+-\d+-\d+$")] = "2026-11-28"


def make_app(**options: Any) -> MCPKit[Any]:
    app: MCPKit[Any] = MCPKit("budgets", **options)

    @app.tool(max_result=BUDGET)
    def report(rows: int = 400) -> Report:
        return Report(rows=[Row(id=n, name=f"row {n}") for n in range(rows)], log=TEXT)

    @app.tool(max_result=BUDGET)
    def log() -> str:
        return TEXT

    @app.tool(max_result=BUDGET, task="optional")
    def later() -> str:
        return TEXT

    @app.tool(max_result=BUDGET, scopes=["log"], allow=lambda principal, arguments: True)
    def guarded(text: str = TEXT) -> str:
        return text

    @app.tool(max_result=BUDGET)
    def picture() -> list[str | Image]:
        return ["short", Image(b"\x89PNG\r\n\x1a\n" * 1000), TEXT, "never shown"]

    @app.tool(max_result=BUDGET, structured_output=True)
    def day() -> Annotated[str, Field(pattern=r"^\d")]:
        return "1" * 3000

    @app.tool(max_result=BUDGET)
    def whole(kind: str) -> ToolResult:
        if kind == "failed":
            return ToolResult(TEXT, is_error=True)
        if kind == "raised":
            raise ToolError(TEXT)
        content = TEXT if kind == "both" else []
        numbers: list[Any] = [1] * 1000 if kind == "deep" else [*range(1000)]
        for _ in range(229 if kind == "deep" else 0):
            numbers = [numbers]
        return ToolResult(content, structured_content={"n": numbers}, meta={"a.b/c": 1})

    return app


def texts(result: Mapping[str, Any]) -> list[str]:
    return [each["text"] for each in result["content"] if each["type"] == "text"]


async def call(client: AsyncTestClient, name: str, **arguments: Any) -> Mapping[str, Any]:
    return await client.request("tools/call", {"name": name, "arguments": arguments})


async def rest_of(client: AsyncTestClient, result: Mapping[str, Any]) -> str:
    """The text of all pages, each read at the URI that the page before names."""
    [note] = [each for each in texts(result) if "result://" in each and "minutes" in each]
    uri = note.partition("minutes: ")[2].split()[0]
    found: list[str] = []
    for _ in range(50):
        page, *more = (await client.request("resources/read", {"uri": uri}))["contents"]
        assert len(page["text"]) <= BUDGET
        found.append(page["text"])
        if not more:
            assert note.endswith(f" {uri}")
            return "".join(found)
        uri = more[0]["text"].rpartition(" ")[2]
    raise AssertionError("it does not end")


@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_long_result_is_truncated_and_the_rest_is_read_page_by_page(revision: str) -> None:
    async with AsyncTestClient(make_app(), revision=revision) as client:
        assert "resources" in client.server_capabilities
        result = await call(client, "report")
        shown, note = texts(result)[:2]
        assert sum(map(len, texts(result))) <= BUDGET
        assert note.startswith("Truncated to 1,2")
        assert "rows: 24 of 400; log: 612 of 9,000 characters. The rest can be read for" in note
        kept = Report.model_validate_json(shown)
        [tool] = [each for each in await client.list_tools() if each.name == "report"]
        if tool.output_schema is not None:
            assert result["structuredContent"] == kept.model_dump()
            Draft202012Validator(tool.output_schema).validate(result["structuredContent"])
        lines = (await rest_of(client, result)).splitlines()
        assert [each.partition(" = ")[0] for each in lines] == [
            *(f"rows[{n}]" for n in range(24, 400)),
            "log[612:]",
        ]
        assert lines[0] == 'rows[24] = {"id":24,"name":"row 24"}'


@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_text_ends_with_a_line_and_its_link_leads_to_the_next(revision: str) -> None:
    async with AsyncTestClient(make_app(), revision=revision) as client:
        result = await call(client, "log")
        shown, note, *_ = texts(result)
        assert TEXT.startswith(shown)
        assert shown.endswith("\n")
        assert shown + await rest_of(client, result) == TEXT
        link = result["content"][-1]
        if revision < "2025-06-18":  # which has no links
            assert link["text"].startswith("The rest: result://")
        else:
            assert link["type"] == "resource_link"
            assert link["uri"] in note


async def test_a_result_within_its_budget_is_left_alone() -> None:
    async with AsyncTestClient(make_app(), revision=MODERN) as client:
        result = await call(client, "report", rows=0)
        assert "Truncated" in texts(result)[1]  # because of the log
        result = await call(client, "guarded", text="x" * BUDGET)
        assert result["content"] == [{"type": "text", "text": "x" * BUDGET}]
        result = await call(client, "guarded", text="x" * (BUDGET + 1))
        assert len(texts(result)) == 2


async def test_texts_count_together_and_other_blocks_do_not() -> None:
    async with AsyncTestClient(make_app(), revision=MODERN) as client:
        result = await call(client, "picture")
        assert [each["type"] for each in result["content"]] == [
            *("text", "image", "text", "text", "resource_link")
        ]
        short, shown, note = texts(result)
        assert (short, len(short + shown + note) <= BUDGET) == ("short", True)
        assert shown + await rest_of(client, result) == TEXT + "never shown"


@pytest.mark.parametrize("kind", ["failed", "raised", "structured", "both"])
async def test_a_whole_result_and_a_failure_are_truncated_as_well(kind: str) -> None:
    async with AsyncTestClient(make_app(), revision=MODERN) as client:
        result = await call(client, "whole", kind=kind)
        rest = await rest_of(client, result)
        if kind in ("failed", "raised"):
            assert result["isError"] is True
            assert texts(result)[0] + rest == TEXT
            return
        assert result["_meta"]["a.b/c"] == 1
        numbers = result["structuredContent"]["n"]
        assert numbers == [*range(len(numbers))]
        assert f"n[{len(numbers)}] = {len(numbers)}\n" in rest
        assert (rest.startswith("a line of the log")) == (kind == "both")


async def test_a_result_that_its_schema_does_not_let_truncate_is_an_error_with_all_of_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with AsyncTestClient(make_app(), revision=MODERN) as client:
        result = await call(client, "day")
        assert result["isError"] is True
        assert "structuredContent" not in result
        [note] = texts(result)
        assert note.startswith(
            "The result of 3,002 characters cannot be truncated to 1,300. It can"
        )
        assert await rest_of(client, result) == f'"{"1" * 3000}"'
    assert "a result of day cannot be truncated to its max_result=" in caplog.text


async def test_a_value_too_deep_to_be_parsed_is_left_whole_as_well() -> None:
    async with AsyncTestClient(make_app(), revision=MODERN) as client:
        result = await call(client, "whole", kind="deep")
        assert result["isError"] is True
        deep = await rest_of(client, result)
        assert deep == f'{{"n":{"[" * 230}{"1," * 999}1{"]" * 230}}}'


# --- who may read the rest ------------------------------------------------------------------------


async def uri_of_rest(client: AsyncTestClient, name: str = "log") -> str:
    link = (await call(client, name))["content"][-1]
    uri: str = link["uri"]
    return uri


async def is_readable(client: AsyncTestClient, uri: str) -> bool:
    try:
        await client.read_resource(uri)
    except ProtocolError as error:
        if "is kept for 10 minutes; call the tool again" not in error.message:
            raise
        return False
    return True


async def test_only_the_caller_reads_the_rest_on_all_its_connections() -> None:
    app = make_app()
    async with AsyncTestClient(app, principal="ann", revision=MODERN) as client:
        uri = await uri_of_rest(client)
        assert await is_readable(client, uri)
        assert not await is_readable(client, uri.replace(uri[9:13], "0000"))
        async with AsyncTestClient(app, principal="bob", revision=MODERN) as other:
            assert not await is_readable(other, uri)
        async with AsyncTestClient(app, principal="ann", revision=REVISIONS[0]) as again:
            assert await is_readable(again, uri)
        for malformed in (f"{uri}0", uri[:-1] + "0", uri[:-2], "result://x/1"):
            with pytest.raises(ProtocolError, match="not found"):
                await client.read_resource(malformed)


async def test_a_caller_that_may_not_call_the_tool_any_more_may_not_read_the_rest() -> None:
    app = make_app()
    ann = Principal("ann", frozenset(["log"]))
    async with AsyncTestClient(app, principal=ann, revision=MODERN) as client:
        uri = await uri_of_rest(client, "guarded")
        assert await is_readable(client, uri)
    async with AsyncTestClient(app, principal="ann", revision=MODERN) as client:
        with pytest.raises(ProtocolError, match="guarded needs the scopes log"):
            await client.read_resource(uri)


async def test_the_rest_is_no_task_of_its_caller() -> None:
    async with AsyncTestClient(make_app(), revision="2025-11-25") as client:
        id = (await uri_of_rest(client)).split("/")[2]
        assert await client.request("tasks/list", {}) == {"tasks": []}
        with pytest.raises(ProtocolError, match="Unknown task"):
            await client.request("tasks/get", {"taskId": id})


async def test_the_rest_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budgets, "KEPT_S", 0.01)
    async with AsyncTestClient(make_app(), revision=MODERN) as client:
        uri = await uri_of_rest(client)

        with anyio.fail_after(PATIENCE):
            while await is_readable(client, uri):
                await anyio.sleep(0.002)


async def test_other_workers_read_the_rest_from_a_shared_store(tmp_path: Path) -> None:
    options = {"tasks": str(tmp_path / "tasks.db"), "secret": "a secret of sixteen"}
    async with (
        AsyncTestClient(make_app(**options), principal="ann", revision=MODERN) as client,
        AsyncTestClient(make_app(**options), principal="ann", revision=MODERN) as other,
        AsyncTestClient(make_app(**options), principal="bob", revision=MODERN) as stranger,
    ):
        result = await call(client, "log")
        assert texts(result)[0] + await rest_of(other, result) == TEXT
        assert not await is_readable(stranger, result["content"][-1]["uri"])
    assert TEXT[:50].encode() not in (tmp_path / "tasks.db").read_bytes()


async def test_a_rest_that_cannot_be_stored_is_not_promised() -> None:
    app = make_app(tasks={"max_bytes": 5000})
    async with AsyncTestClient(app, revision=MODERN) as client:
        result = await call(client, "log")
        _, note = texts(result)
        assert note.endswith("The rest cannot be read; ask for less at once.")
        assert len(result["content"]) == 2


async def test_the_oldest_rest_of_a_caller_makes_room() -> None:
    app = make_app(tasks={"max_stored": 60_000})  # half of it for one caller
    async with (
        AsyncTestClient(app, principal="ann", revision=MODERN) as client,
        AsyncTestClient(app, principal="bob", revision=MODERN) as other,
    ):
        kept = await uri_of_rest(other)
        uris = [await uri_of_rest(client) for _ in range(5)]
        assert [await is_readable(client, uri) for uri in uris] == [False] * 3 + [True] * 2
        assert await is_readable(other, kept)


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
async def test_the_result_of_a_task_is_truncated(revision: str) -> None:
    async with AsyncTestClient(make_app(), revision=revision) as client:
        task = await client.start("later")
        result = await task.result()
        shown, note, link = result.content
        assert isinstance(shown, TextContent)
        assert isinstance(note, TextContent)
        assert isinstance(link, ResourceLink)
        assert note.text.startswith("Truncated to 1,")
        assert await is_readable(client, link.uri)


# --- registration ---------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [0, -1, 999, True, 2000.0, "20k"])
async def test_a_budget_is_a_number_of_characters(limit: Any) -> None:
    app: MCPKit[Any] = MCPKit("wrong")
    with pytest.raises(
        RegistrationError, match=r"test_budgets.py:\d+: search\(\): max_result= is a number of"
    ) as e:

        @app.tool(max_result=limit)
        def search() -> str:
            return ""

    assert repr(limit) in str(e.value)


async def test_without_a_budget_nothing_is_advertised() -> None:
    app: MCPKit[Any] = MCPKit("plain")

    @app.tool
    def search() -> str:
        return TEXT

    async with AsyncTestClient(app, revision=MODERN) as client:
        assert "resources" not in client.server_capabilities
        assert (await client.call_tool("search")).text == TEXT
