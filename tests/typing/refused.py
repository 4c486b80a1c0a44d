"""What type checkers must refuse: exactly the lines marked ``# error``. Checked, never run."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any

import mcpkit
from mcpkit import Client, Complete, Context, Depends, Image, MCPKit, SyncContext, UserMessage
from mcpkit.testing import TestClient

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

app = MCPKit("refused")

# --- the app --------------------------------------------------------------------------------------

MCPKit()  # error
MCPKit("a", log_level="loud")  # error
MCPKit("a", cache_scope="shared")  # error
MCPKit("a", page_size="ten")  # error
MCPKit("a", versoin="1.0.0")  # error
MCPKit("a", dependencies=["httpx"])  # error
MCPKit("a").mount(MCPKit("b"))  # error


@asynccontextmanager
async def needs_a_database(url: str) -> AsyncGenerator[int, None]:
    yield len(url)


async def no_context_manager(app: MCPKit[Any]) -> int:
    return len(app.name)


MCPKit("a", lifespan=needs_a_database)  # error
MCPKit("a", lifespan=no_context_manager)  # error

# --- options --------------------------------------------------------------------------------------


def function(city: str, nights: int = 1) -> int:
    return len(city) * nights


app.tool(tilte="Search")  # error
app.tool(title=1)  # error
app.tool(once="key")  # error
app.tool(once=lambda order: 1)  # error
app.tool(read_only="yes")  # error
app.tool("name")  # error
app.tool(ttl=60)  # error
app.add_tool(function, annotations={"readonly": True})  # error
app.add_resource(function, annotations={"audience": ["model"]})  # error
app.resource("notes://today", mimetype="text/plain")  # error
app.resource("notes://today", audience=["model"])  # error
app.resource("notes://today", cache_scope="shared")  # error
app.resource(uri="notes://today")  # error
app.prompt(name=b"pack")  # error
app.prompt(read_only=True)  # error
mcpkit.tool(tilte="Search")  # error
mcpkit.tool("name")  # error
mcpkit.tool(visibility="user")  # error
mcpkit.Html("<p>", csp={"connect": []})  # error
mcpkit.resource("notes://today", size="big")  # error
mcpkit.prompt(tags=[1])  # error

# --- decorated functions are unchanged ------------------------------------------------------------


@app.tool
def bare(city: str) -> int:
    return len(city)


@app.tool(title="Called")
async def called(city: str) -> int:
    return len(city)


@app.resource("notes://{day}")
def resource(day: str) -> bytes:
    return day.encode()


@app.prompt
def prompt(topic: str) -> str:
    return topic


@mcpkit.tool
def marked(city: str) -> int:
    return len(city)


@mcpkit.resource("notes://{day}")
def marked_resource(day: str) -> bytes:
    return day.encode()


class Shop:
    @mcpkit.tool
    def buy(self, item: str) -> int:
        return len(item)

    @staticmethod
    @mcpkit.tool(title="Count")
    def count(item: str) -> int:
        return len(item)


bare(1)  # error
bare("Oslo").upper()  # error
bare("Oslo", days=2)  # error
resource(1)  # error
prompt()  # error
marked(None)  # error
marked_resource("monday").encode()  # error
Shop().buy(1)  # error
Shop.count(1)  # error


async def call_the_decorated() -> None:
    await called(1)  # error
    (await called("Oslo")).upper()  # error


# --- markers --------------------------------------------------------------------------------------


def connect() -> int:
    return 1


Depends(1)  # error
Depends("connect")  # error
Complete([1, 2])  # error
Complete(1)  # error


def with_dependency(number: Annotated[int, Depends(connect)]) -> None:
    number.upper()  # error


# --- contexts -------------------------------------------------------------------------------------


async def fetch(count: int) -> list[int]:
    return [count]


async def uses_context(ctx: Context[dict[str, int]]) -> None:
    ctx.state.append(1)  # error
    ctx.log("loud", "text")  # error
    ctx.info("text", "here")  # error
    ctx.progress("half")  # error
    ctx.list_changed("tool")  # error
    await ctx.step("fetch", fetch, "one")  # error
    await ctx.step("fetch", fetch)  # error
    await ctx.step("fetch", fetch(1))  # error
    (await ctx.step("fetch", fetch, 1)).upper()  # error
    ctx.revision = "2025-11-25"  # error
    ctx.report_progress(1)  # error
    await ctx.elicit("How many?", response_type=int)  # error
    answer = await ctx.elicit("How many?", int)
    if answer.action == "accept":
        answer.data.upper()  # error


def uses_sync_context(ctx: SyncContext[dict[str, int]]) -> None:
    ctx.state.append(1)  # error
    ctx.step("len", len, 1)  # error
    ctx.read_resource(1)  # error


# --- values and clients ---------------------------------------------------------------------------

Image(1)  # error
Image(data=b"")  # error
Image()  # error
UserMessage(1)  # error


async def uses_client(client: Client) -> None:
    Client(1)  # error
    Client("server.py", timeout="long")  # error
    await client.call_tool("add", [1, 2])  # error
    await client.call_tool("add", log_level="loud")  # error
    await client.get_prompt("pack", {"days": 3})  # error
    await client.set_log_level("loud")  # error
    print((await client.list_tools()).data)  # error


def uses_test_client(client: TestClient) -> None:
    client.call_tool(1)  # error
    print(client.call_tool("add").txt)  # error
    client.set_log_level("loud")  # error
