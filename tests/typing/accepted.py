"""What type checkers must accept, with the types they must see. Checked, never run.

What the documentation and the examples use is checked where it stands (`tests/test_typing.py`).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal

from typing_extensions import assert_type

import mcpkit
from mcpkit import (
    Accepted,
    Annotations,
    Apps,
    Audio,
    Client,
    Complete,
    Context,
    Declined,
    Depends,
    Dismissed,
    Html,
    Icon,
    Idempotent,
    Image,
    MCPKit,
    Message,
    PromptResult,
    SyncContext,
    ToolAnnotations,
    ToolResult,
    UserMessage,
)
from mcpkit.client import CallResult, Completion, ListedTool, Progress, PromptMessages
from mcpkit.context import Delivery
from mcpkit.testing import AsyncTestClient, TestClient
from mcpkit.types import Implementation, ResourceContents

# --- the app --------------------------------------------------------------------------------------


@dataclass
class State:
    users: dict[str, int]


@asynccontextmanager
async def lifespan(app: MCPKit[Any]) -> AsyncGenerator[State, None]:
    assert_type(app.name, str)
    yield State({})


app = MCPKit("typed")
assert_type(app, MCPKit[Any])

stateful = MCPKit("stateful", lifespan=lifespan)
assert_type(stateful, MCPKit[State])

everything = MCPKit(
    "everything",
    website_url="https://example.org",
    icons=[Icon("https://example.org/icon.png", sizes=["48x48"])],
    cache_ttl={"tools": 1.5, "resources": 60},
    cache_scope="public",
    log_level="warning",
    max_threads=4,
    max_in_flight=10,
)

# --- tools: the decorator returns what it is given ------------------------------------------------


@app.tool
def sync_bare(city: str, nights: int = 2) -> list[str]:
    return [city] * nights


@app.tool()
async def async_called(city: str, *, ctx: Context) -> int:
    return len(city)


@app.tool(
    icons=[],
    meta={"a": 1},
    tags=["web"],
    open_world=None,
    structured_output=None,
    input_schema={"type": "object"},
    annotations=ToolAnnotations(title="Search"),
    ui=Html(
        "<p>",
        csp={"connectDomains": ["https://example.com"]},
        permissions=["camera"],
        domain=lambda ctx: ctx.revision,
    ),
    always_load=True,
    host_max_result=1000,
)
def sync_options(query: str, *, limit: int) -> ToolResult:
    return ToolResult(query * limit)


@app.ui("ui://page", csp={"resourceDomains": []}, title="Page")
def page() -> str:
    return "<p>"


app.ui("ui://other", Html("page.html"))
assert_type(page(), str)


@app.tool(once=lambda order, amount: f"{order} {amount}")
def buy(order: str, amount: int = 1) -> None: ...


@app.tool(once=lambda order: order)
async def cancel(order: str) -> None: ...


@app.tool
async def pay(key: Annotated[str, Idempotent(lifetime=3600)]) -> str:
    assert_type(key, str)
    return key


@app.tool(annotations={"title": "Search", "readOnlyHint": True})
def wire_hints(query: str) -> str:
    return query


@app.tool
async def asks(ctx: Context) -> int:
    answer = await ctx.elicit("How many?", int)
    if answer.action == "accept":
        assert_type(answer, Accepted[int])
    elif answer.action == "decline":
        assert_type(answer, Declined)
    else:
        assert_type(answer, Dismissed)
    if not answer.accepted:
        return 0
    assert_type(answer.data, int)
    other = await ctx.elicit("And how many more?", int)
    if other.accepted:
        assert_type(other.data, int)
        return answer.data + other.data
    return answer.data


assert_type(sync_bare("Oslo"), list[str])
assert_type(sync_bare(city="Oslo", nights=3), list[str])
assert_type(sync_options("a", limit=2), ToolResult)

whole = partial(sync_bare, nights=1)
app.add_tool(whole, name="whole")
assert_type(app.tool(name="also_whole")(whole), partial[list[str]])
assert_type(app.tool(whole), partial[list[str]])


class Shop:
    @mcpkit.tool
    def buy(self, item: str) -> int:
        return len(item)

    @mcpkit.tool(title="Sell")
    async def sell(self, item: str) -> float:
        return len(item)

    @staticmethod
    @mcpkit.tool
    def count(items: Sequence[str]) -> int:
        return len(items)

    @classmethod
    @mcpkit.tool(read_only=True)
    def named(cls, name: str) -> Shop:
        return cls()

    @mcpkit.resource("shop://{shelf}")
    def task_table(self, task_table: str) -> bytes:
        return task_table.encode()


shop = Shop()
assert_type(shop.buy("bread"), int)
assert_type(Shop.count(["bread"]), int)
assert_type(shop.count(["bread"]), int)
assert_type(Shop.named("corner"), Shop)
assert_type(shop.task_table("top"), bytes)
assert_type(app.tool(shop.buy)(item="bread"), int)
app.include(shop, prefix="shop")
app.include(Shop)


# --- module-level marks ---------------------------------------------------------------------------


@mcpkit.tool
@mcpkit.prompt
@mcpkit.resource
def marked(a: int) -> str:
    return str(a)


@mcpkit.tool(name="marked", tags={"x"})
@mcpkit.prompt(title="Marked")
@mcpkit.resource("notes://{day}")
@mcpkit.resource(mime_type="text/markdown")
async def marked_called(day: str) -> str:
    return day


assert_type(marked(1), str)


# --- resources ------------------------------------------------------------------------------------


@app.resource
def resource_bare(day: str) -> dict[str, int]:
    return {day: 1}


@app.resource("notes://{day}/{part}")
async def resource_uri(day: str, part: int = 0) -> bytes:
    return day.encode()


@app.resource(
    "notes://today",
    mime_type="text/plain",
    size=3,
    annotations=Annotations(priority=1),
    audience=["user", "assistant"],
    priority=0.5,
    cache_ttl=60,
    cache_scope="private",
)
def resource_options() -> str:
    return "..."


assert_type(resource_bare("monday"), dict[str, int])
assert_type(resource_options(), str)
app.files("notes", "files://notes", pattern="*.md")


# --- prompts --------------------------------------------------------------------------------------


@app.prompt
def prompt_bare(topic: str) -> list[Message]:
    return [UserMessage(topic), UserMessage(Image(b"..."))]


@app.prompt(title="Review")
async def prompt_called(topic: str, days: int = 3) -> PromptResult:
    return PromptResult([UserMessage(topic), Audio(b"...")], description="...")


assert_type(prompt_bare("cats"), list[Message])


async def call_the_decorated(ctx: Context) -> None:
    assert_type(await async_called("Oslo", ctx=ctx), int)
    assert_type(await shop.sell("bread"), float)
    assert_type(await marked_called("monday"), str)
    assert_type(await resource_uri("monday", part=2), bytes)
    assert_type(await prompt_called("cats"), PromptResult)


# --- injected values keep their type --------------------------------------------------------------


class Database:
    def find(self, name: str) -> int:
        return len(name)


async def connect(ctx: Context[State]) -> AsyncIterator[Database]:
    assert_type(ctx.state.users, dict[str, int])
    yield Database()


def cities(typed: str, country: str | None = None) -> list[str]:
    return [typed]


@stateful.tool
def with_dependency(name: str, db: Annotated[Database, Depends(connect)]) -> int:
    assert_type(db, Database)
    return db.find(name)


@stateful.prompt
def with_completion(
    city: Annotated[str, Complete(cities)],
    country: Annotated[str, Complete(["no", "se"])],
    tone: Literal["kind", "strict"] = "kind",
) -> str:
    assert_type(city, str)
    assert_type(country, str)
    return f"{city} {country} {tone}"


assert_type(with_dependency("a", Database()), int)

# --- contexts -------------------------------------------------------------------------------------


async def fetch(count: int, *, flag: bool = False) -> list[int]:
    return [count]


async def fetch_or_not(count: int) -> str | None:
    return None


def compute(count: int) -> dict[str, int]:
    return {"count": count}


def untyped() -> Any: ...


@stateful.tool
async def uses_context(ctx: Context[State]) -> None:
    assert_type(ctx.state, State)
    assert_type(ctx.cancelled, bool)
    assert_type(ctx.request_id, str | int)
    assert_type(ctx.revision, str)
    assert_type(ctx.meta, Mapping[str, Any])
    assert_type(ctx.client.info, Implementation | None)
    assert_type(ctx.client.supports("sampling", "tools"), bool)
    assert_type(ctx.client.supports(Apps), bool)

    assert_type(ctx.info("plain"), Delivery)
    ctx.info({"any": ["value"]}, logger="here")
    await ctx.info("awaited")
    ctx.log("critical", 1)
    await ctx.log("debug", None)
    ctx.progress(1)
    await ctx.progress(0.5, total=2, message="half")
    ctx.notify_resource_updated("notes://today")
    ctx.list_changed("tools")

    assert_type(await ctx.read_resource("notes://today"), Sequence[ResourceContents])

    assert_type(await ctx.step("fetch", fetch, 1, flag=True), list[int])
    assert_type(await ctx.step("maybe", fetch_or_not, 1), str | None)
    assert_type(await ctx.step("compute", compute, 1), dict[str, int])
    assert_type(await ctx.step("sell", shop.sell, "bread"), float)
    assert_type(await ctx.step("untyped", untyped), Any)


@stateful.tool
def uses_sync_context(ctx: SyncContext[State]) -> None:
    assert_type(ctx.state, State)
    assert_type(ctx.cancelled, bool)
    ctx.warning("careful")
    assert_type(ctx.read_resource("notes://today"), Sequence[ResourceContents])
    assert_type(ctx.step("compute", compute, 1), dict[str, int])


def uses_untyped_context(ctx: Context, blocking: SyncContext) -> None:
    assert_type(ctx.state, Any)
    assert_type(blocking.state, Any)


# --- clients --------------------------------------------------------------------------------------


async def uses_client() -> None:
    def show(now: Progress) -> None: ...

    async with Client(stateful, revision="2025-11-25", on_log=print, timeout=None) as client:
        assert_type(client, Client)
        assert_type(client.revision, str)
        assert_type(client.server_info, Implementation | None)
        assert_type(await client.list_tools(), list[ListedTool])
        result = await client.call_tool("add", {"a": 1}, on_progress=show, log_level="info")
        assert_type(result, CallResult)
        assert_type(result.text, str)
        assert_type(result.data, Any)
        assert_type(result.is_error, bool)
        assert_type(await client.read_resource("notes://today"), list[ResourceContents])
        messages = await client.get_prompt("pack", {"city": "Oslo"})
        assert_type(messages, PromptMessages)
        assert_type(messages.messages[0].text, str)
        assert_type(await client.complete("city", "O", prompt="pack"), Completion)
        async with client.listen(lambda method, params: None, tools=True) as agreed:
            assert_type(agreed, Mapping[str, Any])

    async with AsyncTestClient(app) as testing:
        assert_type(testing, AsyncTestClient)
        assert_type(await testing.call_tool("add"), CallResult)

    async with Client(["node", "server.js"]), Client("server.py:app"):
        pass


with TestClient(stateful, revision="2026-07-28", backend="trio") as blocking:
    assert_type(blocking, TestClient)
    assert_type(blocking.call_tool("add", {"a": 1}), CallResult)
    assert_type(blocking.list_tools(), list[ListedTool])
    assert_type(blocking.read_resource("notes://today"), list[ResourceContents])
    assert_type(blocking.get_prompt("pack"), PromptMessages)
    assert_type(blocking.complete("city", "O", template="notes://{day}"), Completion)

app.run()
app.run("stdio")
