"""``mcpkit migrate``: what is written instead of what, what is left to people, and what stays."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from textwrap import dedent, indent
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpkit import ProtocolError
from mcpkit._utils.names import PeerName, peer_names
from mcpkit.cli._migrate.imports import MARK
from mcpkit.cli._migrate.rewrite import migrate
from mcpkit.testing import TestClient
from tests.authoring import module_from
from tests.cli.commands import mcpkit, single_line
from tests.docs.pages import ROOT

IMPORT: Final = "from fastmcp import Context, FastMCP\n"
APP: Final = 'mcp = FastMCP("shop")\n'


def rewritten(source: str) -> str:
    """The new text; whatever is in it, migrating it again changes nothing."""
    made = migrate(dedent(source))
    assert migrate(made.text).text == made.text
    compile(made.text, "server.py", "exec")
    return made.text


def body(lines: str, head: str = IMPORT + APP) -> str:
    """What becomes of lines below an app."""
    made = rewritten(head + lines)
    return made.split('MCPKit("shop")\n')[-1].strip()


def inside(lines: str) -> str:
    """What becomes of lines in an async tool with a context."""
    made = rewritten(f"{IMPORT}async def fn(ctx: Context, x):\n{indent(lines, '    ')}\n")
    return dedent(made.split("async def fn(ctx: Context, x):\n")[1]).strip()


def pairs(table: str) -> list[list[str]]:
    """The cells of a table; its arrows may begin a line, and its line ends are written out."""
    lines = table.strip().replace("\n  =>  ", "  =>  ").splitlines()
    return [[cell.replace("\\n", "\n") for cell in line.split("  =>  ")] for line in lines]


def rows(on: str, *how: str) -> list[PeerName]:
    return [each for each in peer_names().values() if each.on == on and each.how in how]


# --- every row of the table -----------------------------------------------------------------------


@pytest.mark.parametrize(("on", "name", "become"), [("ctx", "ctx", inside), ("app", "mcp", body)])
def test_attributes_are_renamed_or_marked(on: str, name: str, become: Callable[[str], str]) -> None:
    named = rows(on, "rename")
    made = become("\n".join(f"x = {name}.{row.theirs}" for row in named))
    assert made.splitlines() == [f"x = {name}.{row.ours}" for row in named]
    named = rows(on, "hand")
    lines = [f"x = {name}.{row.theirs}" for row in named]
    marks = [f"{MARK}{name}.{row.theirs}: {row.advice}" for row in named]
    made = become("\n".join(lines))
    assert made.splitlines() == [each for both in zip(marks, lines, strict=True) for each in both]


def test_names_that_are_imported_are_renamed_or_marked() -> None:
    for row in rows("import", "rename"):
        module, name = row.home
        made = rewritten(f"from mcp.types import {row.theirs}\n\nx: {row.theirs}\n")
        assert made == f"from {module} import {name}\n\nx: {name}\n"
    for row in rows("import", "hand"):
        made = rewritten(f"from fastmcp.somewhere import {row.theirs}\n\nx = {row.theirs}\n")
        assert made == (
            f"{MARK}{row.theirs}: {row.advice}\n"
            f"from mcpkit.unmigrated import {row.theirs}\n\nx = {row.theirs}\n"
        )
    for row in rows("module", "hand"):
        made = rewritten(f"from fastmcp.{row.theirs}.inner import Odd as O\n\nx = O\n")
        assert made == (f"{MARK}O: {row.advice}\nfrom mcpkit.unmigrated import Odd as O\n\nx = O\n")


OPTIONS: Final = {
    "MCPKit(…)": 'mcp = FastMCP("shop", {})',
    "tool(…)": "mcp.tool(fn, {})",
    "resource(…)": 'mcp.resource("a://b", {})',
    "prompt(…)": "mcp.prompt(fn, {})",
    "run(…)": 'mcp.run("http", {})',
    "elicit(…)": 'await ctx.elicit("a", {})',
    "sample(…)": 'await ctx.sample("a", {})',
    "log(…)": 'await ctx.info("a", {})',
}


@pytest.mark.parametrize(("on", "call"), OPTIONS.items())
def test_options(on: str, call: str) -> None:
    for row in rows(on, "rename", "drop", "hand", "keep"):
        if not row.theirs.isidentifier():
            continue
        line = call.format(f"{row.theirs}=x")
        head = IMPORT if on == "MCPKit(…)" else IMPORT + APP
        made = (inside(line) if "ctx" in call else rewritten(head + line)).splitlines()
        before = call.replace("FastMCP", "MCPKit")
        kept = {"rename": row.ours, "keep": row.theirs}.get(row.how)
        assert made[-1] == (
            before.format(f"{kept}=x") if kept else before.format("").replace(", )", ")")
        )
        mark = f"{MARK}{row.theirs}=: {row.advice}"
        assert (mark in made) is (row.how != "rename"), row
        assert (f"#     {row.theirs}=x" in made) is (row.how in ("drop", "hand")), row


# --- what is rewritten by more than a name --------------------------------------------------------


APP_CALLS: Final = r"""
@mcp.tool("look")\ndef fn(): ...  =>  @mcp.tool(name="look")\ndef fn(): ...
mcp.prompt(name_of(fn))(fn)  =>  mcp.prompt(name=name_of(fn))(fn)
mcp.tool(fn)  =>  mcp.tool(fn)
mcp.add_tool(fn, a, b, c)  =>  mcp.add_tool(fn, name=a, title=b, description=c)
@mcp.tool(annotations={"readOnlyHint": True})\ndef fn(): ...
  =>  @mcp.tool(annotations={"readOnlyHint": True})\ndef fn(): ...
@mcp.tool(annotations=HINTS)\ndef fn(): ...  =>  @mcp.tool(annotations=HINTS)\ndef fn(): ...
@mcp.tool(output_schema=None)\ndef fn(): ...
  =>  @mcp.tool(structured_output=False)\ndef fn(): ...
@mcp.tool(enabled=True)\ndef fn(): ...  =>  @mcp.tool()\ndef fn(): ...
@mcp.resource(uri="a://{path*}", name="a")\ndef fn(path): ...
  =>  @mcp.resource("a://{+path}", name="a")\ndef fn(path): ...
mcp.run(transport="streamable-http")  =>  mcp.run(transport="http")
mcp.run("streamable-http", port=1)  =>  mcp.run("http", port=1)
asyncio.run(mcp.run_async())  =>  mcp.run()
asyncio.run(mcp.run_http_async(port=1))  =>  mcp.run("http", port=1)
anyio.run(mcp.run_stdio_async)  =>  mcp.run()
x = mcp.streamable_http_app()  =>  x = mcp.asgi()
x = mcp.http_app(path="/")  =>  x = mcp.asgi(path="/")
mcp.mount(other)  =>  mcp.include(other)
mcp.mount(other, "a")  =>  mcp.include(other, prefix="a")
mcp.mount(other, namespace="a")  =>  mcp.include(other, prefix="a")
mcp.mount("a", other)  =>  mcp.include(other, prefix="a")
mcp.mount(prefix="a", server=other)  =>  mcp.include(other, prefix="a")
x = mcp.sse_app()  =>  x = mcp.asgi(sse=True)
mcp.settings.port = 1\nmcp.run("sse")
  =>  mcpkit_settings.port = 1\nmcp.run("sse", port=mcpkit_settings.port)
mcp.add_tool(Tool.from_function(fn, name="a"))  =>  mcp.add_tool(fn, name="a")
@mcp.custom_route("/up", methods=["GET"])\nasync def health(request): ...
  =>  async def health(request): ...\n\n\nmcp.routes.append(Route("/up", health, methods=["GET"]))
@mcp.tool(task=True)\nasync def f(): ...  =>  @mcp.tool(task="optional")\nasync def f(): ...
@mcp.tool(task=False)\nasync def f(): ...  =>  @mcp.tool()\nasync def f(): ...
@mcp.tool(task=TaskConfig(mode="required"))\nasync def f(): ...
  =>  @mcp.tool(task="required")\nasync def f(): ...
@mcp.tool(task=TaskConfig(mode="forbidden"))\nasync def f(): ...
  =>  @mcp.tool()\nasync def f(): ...
@mcp.tool(task=TaskConfig())\nasync def f(): ...
  =>  @mcp.tool(task="optional")\nasync def f(): ...
"""


@pytest.mark.parametrize(("theirs", "ours"), pairs(APP_CALLS))
def test_calls_of_the_app(theirs: str, ours: str) -> None:
    assert body(theirs) == ours


CONTEXT_CALLS: Final = r"""
x = ctx.request_context.lifespan_context.db  =>  x = ctx.state.db
x = ctx.lifespan_context["db"]  =>  x = ctx.state["db"]
x = ctx.request_context.request.headers  =>  x = ctx.http.headers
x = ctx.headers  =>  x = ctx.http.headers
await ctx.report_progress(1, total=2)  =>  await ctx.progress(1, total=2)
await ctx.send_tool_list_changed()  =>  ctx.list_changed("tools")
await ctx.session.send_prompt_list_changed()  =>  ctx.list_changed("prompts")
await ctx.log("text", level="info")  =>  await ctx.log("info", "text")
await ctx.info("text", logger_name="a")  =>  await ctx.info("text", logger="a")
x = await ctx.elicit("How many?", response_type=int)
  =>  x = await ctx.elicit("How many?", schema=int)
"""


@pytest.mark.parametrize(("theirs", "ours"), pairs(CONTEXT_CALLS))
def test_calls_of_the_context(theirs: str, ours: str) -> None:
    assert inside(theirs) == ours


VALUES: Final = r"""
mcp.types.TextContent  =>  TextContent(type="text", text=x)  =>  TextContent(text=x)
mcp.types.CallToolResult
  =>  CallToolResult(isError=True, content=[x])  =>  ToolResult(is_error=True, content=[x])
fastmcp.tools.ToolResult
  =>  ToolResult(content=[x], structured_content=None)  =>  ToolResult(content=[x])
mcp.types.ToolAnnotations
  =>  ToolAnnotations(readOnlyHint=x, icon=y)  =>  ToolAnnotations(read_only=x, extra={"icon": y})
mcp.types.ImageContent
  =>  ImageContent(type="image", data=base64.b64encode(x).decode(), mimeType="image/png")
  =>  ImageContent(data=x, mime_type="image/png")
mcp.types.TextResourceContents
  =>  TextResourceContents(uri=AnyUrl(x), text="", mimeType=y)
  =>  TextResourceContents(uri=x, text="", mime_type=y)
fastmcp.utilities.types.Image  =>  Image(path=x)  =>  Image(x)
fastmcp.utilities.types.Image  =>  Image(data=x, format="jpg")  =>  Image(x, "image/jpeg")
mcp.server.fastmcp.Image  =>  Image(data=x, format=form)  =>  Image(x, f"image/{form}")
fastmcp.exceptions.NotFoundError  =>  NotFoundError("no")  =>  ResourceNotFound(message="no")
fastmcp.FastMCP  =>  FastMCP()  =>  MCPKit("server")
fastmcp.FastMCP  =>  FastMCP("a", "Do.")  =>  MCPKit("a", instructions="Do.")
"""


@pytest.mark.parametrize(("imported", "theirs", "ours"), pairs(VALUES))
def test_values(imported: str, theirs: str, ours: str) -> None:
    module, _, name = imported.rpartition(".")
    made = rewritten(f"from {module} import {name}\n\nvalue = {theirs}\n")
    assert made.splitlines()[-1] == f"value = {ours}"


# --- middleware -----------------------------------------------------------------------------------

MIDDLEWARE: Final = '''\
from fastmcp import FastMCP
from fastmcp.exceptions import ClientError
from fastmcp.server.dependencies import get_http_headers
from fastmcp.server.middleware import Middleware, MiddlewareContext
from fastmcp.tools import ToolResult

seen = []


class Signal(Middleware):
    """Errors are told."""

    # A hook.
    async def on_call_tool(self, context: MiddlewareContext, call_next):
        result = await call_next(context)
        seen.append(context.message.name)
        if isinstance(result, ToolResult) and result.structured_content.get("wrong"):
            return ToolResult(
                content=result.content,
                structured_content=result.structured_content,
                is_error=True,
            )
        return result


class Hosts(Middleware):
    async def on_request(self, context, call_next):
        headers = get_http_headers(include_all=True)
        if headers.get("host") == "evil":
            raise ClientError("not you")
        return await call_next(context)


mcp = FastMCP("shop", auth=None, middleware=[Hosts()])
mcp.add_middleware(Signal())


@mcp.tool
def look(wrong: bool) -> dict[str, bool]:
    return {"wrong": wrong}


@mcp.tool
def fail() -> str:
    raise ValueError
'''


def test_middleware_that_passes_on_is_called_here(tmp_path: Path) -> None:
    made = rewritten(MIDDLEWARE)
    assert MARK not in made
    assert "fastmcp" not in made
    assert "    # A hook.\n    async def on_call_tool(self, context: Context, call_next):" in made
    module = module_from(tmp_path / "shop.py", made)
    with TestClient(module.mcp) as client:
        assert not client.call_tool("look", {"wrong": False}).is_error
        wrong = client.call_tool("look", {"wrong": True})
        assert (wrong.is_error, wrong.structured_content) == (True, {"wrong": True})
        assert client.call_tool("fail").is_error
    assert module.seen == ["look", "look"], "theirs raises where a tool has failed"


HOOKS: Final = [
    ("on_call_tool", "await call_next(context)"),
    ("on_call_tool", "return await other(call_next)"),
    ("on_call_tool", "return context.message"),
    ("on_call_tool", "context.message.name = 'a'\nreturn await call_next(context)"),
    (
        "on_call_tool",
        "try:\n    return await call_next(context)\nexcept ValueError:\n    return None",
    ),
    ("on_call_tool", "x = await call_next(context)\nreturn x.structured_content is None"),
    ("on_call_tool", "x = await call_next(context)\nreturn changed(x)"),
    ("on_list_tools", "x = await call_next(context)\nreturn [each for each in x]"),
    ("on_request", "get_http_headers()\nreturn await call_next(context)"),
    ("on_request", "return await call_next(context.copy(method='a'))"),
    ("on_notification", "return await call_next(context)"),
    ("look", "return get_http_headers(include_all=True)"),
]


@pytest.mark.parametrize(
    "hook",
    [
        *(
            f"async def {name}(self, context, call_next):\n{indent(lines, ' ' * 8)}"
            for name, lines in HOOKS
        ),
        "@traced\n    async def on_request(self, context, call_next):\n        return None",
    ],
)
def test_other_middleware_is_marked_and_refuses(tmp_path: Path, hook: str) -> None:
    source = (
        "from fastmcp import FastMCP\n"
        "from fastmcp.server.dependencies import get_http_headers\n"
        "from fastmcp.server.middleware import Middleware\n\ntraced = lambda fn: fn\n\n"
        f"class Odd(Middleware):\n    {hook}\n\n"
        "mcp = FastMCP('shop')\nmcp.add_middleware(Odd())\n"
        "@mcp.tool\ndef order(): return 'yes'\n"
    )
    made = rewritten(source)
    assert f"class Odd(Middleware):\n    {hook}\n" in made
    advice = "write @app.middleware over a function"
    assert "\nmcp.middleware(Odd())" in made
    assert f"{MARK}Middleware: {advice}" in made
    kept = source.replace("FastMCP('shop')\n", "FastMCP('shop', middleware=[Odd()])\n")
    assert "mcp = MCPKit('shop')\nmcp.middleware(Odd())\n" in rewritten(kept)
    module = module_from(tmp_path / "shop.py", made)
    for name in ("list", "call"):
        is_refused = f"on_{name}_" in hook or "on_request" in hook
        expected = pytest.raises(ProtocolError) if is_refused else nullcontext()
        with expected, TestClient(module.mcp) as client:
            client.list_tools() if name == "list" else client.call_tool("order")


AUTH: Final = f"{MARK}auth=: give auth= a verifier of mcpkit.auth, such as JWT(…)\n"
GUARDS: Final = {
    'mcp = FastMCP("a", middleware=[One(), Two(3)])': (
        'mcp = MCPKit("a")\nmcp.middleware(One())\nmcp.middleware(Two(3))'
    ),
    'x = [FastMCP("a", middleware=chain)]': (
        f"{MARK}middleware=: write @app.middleware over a function\n"
        'x = [MCPKit("a", middleware=chain)]'
    ),
    'mcp = FastMCP("a", auth=found() if LOGIN else None)': (
        f"{AUTH}if (found() if LOGIN else None) is not None:\n"
        '    raise RuntimeError("nothing here does what auth= did: give auth= a verifier '
        'of mcpkit.auth, such as JWT(…)")\nmcp = MCPKit("a")'
    ),
    'mcp = FastMCP("a", auth=None)': 'mcp = MCPKit("a")',
    'mcp = FastMCP("a", auth=JWTVerifier())': f'{AUTH}mcp = MCPKit("a", auth=JWTVerifier())',
    'app(FastMCP("a", auth=found()))': f'{AUTH}app(MCPKit("a", auth=found()))',
}


@pytest.mark.parametrize(("theirs", "ours"), GUARDS.items())
def test_what_guards_an_app_is_kept_moved_or_refused(theirs: str, ours: str) -> None:
    head = "from fastmcp import FastMCP\nfrom fastmcp.server.auth import JWTVerifier\n\n"
    assert rewritten(head + theirs + "\n").strip().endswith("\n" + ours)


# --- imports --------------------------------------------------------------------------------------


IMPORTS: Final = r"""
from fastmcp import FastMCP as F\n\nx = F('a')\n
  =>  from mcpkit import MCPKit as F\n\nx = F('a')\n
import fastmcp\n\nx = fastmcp.FastMCP('a')\n  =>  from mcpkit import MCPKit\n\nx = MCPKit('a')\n
import mcp.types as types\n\nx = types.TextContent(text='a')\n
  =>  from mcpkit import TextContent\n\nx = TextContent(text='a')\n
from mcp import types\n\nx = types.TextContent(text='a')\n
  =>  from mcpkit import TextContent\n\nx = TextContent(text='a')\n
from PIL import Image\nfrom fastmcp.utilities.types import Image as P\n\nx = P(a)\n
  =>  from PIL import Image\nfrom mcpkit import Image as P\n\nx = P(a)\n
from fastmcp import FastMCP\nfrom ours import MCPKit\n\nx = FastMCP('a')\n
  =>  from mcpkit import MCPKit as MCPKitMCPKit\nfrom ours import MCPKit\n\nx = MCPKitMCPKit('a')\n
from fastmcp import Client\nfrom a import mcp\n\nx = Client(mcp)\n
  =>  from a import mcp\nfrom mcpkit.testing import AsyncTestClient\n\nx = AsyncTestClient(mcp)\n
from mcp.server.fastmcp import Context\nfrom mcp import ServerSession as S\n\nx: Context[S, int]\n
  =>  from mcpkit import Context\n\nx: Context[int]\n
from fastmcp import FastMCP\nfrom mcp.types import TextContent\n\nx = FastMCP, TextContent\n
  =>  from mcpkit import MCPKit, TextContent\n\nx = MCPKit, TextContent\n
from mcp.types import AudioContent\n\nx = AudioContent(data=b)\n
  =>  from mcpkit import AudioContent\nimport base64\n\nx = AudioContent(data=base64.b64decode(b))\n
"""


@pytest.mark.parametrize(("theirs", "ours"), pairs(IMPORTS))
def test_imports(theirs: str, ours: str) -> None:
    assert rewritten(theirs) == ours


# --- tricky code ----------------------------------------------------------------------------------


HARDER: Final = r"""
async def fn(ctx: 'Context'):\n    ctx.report_progress(1)  =>      ctx.progress(1)
async def fn(ctx: 'f.Context | None'):\n    ctx.lifespan_context  =>      ctx.state
async def fn(ctx: Context):\n    self.ctx = ctx\n    self.ctx.headers  =>  ctx.http.headers
async def fn(ctx: Context[State, Any]): ...  =>  async def fn(ctx: Context[State]): ...
x: 'types.TextContent | None'  =>  x: 'TextContent | None'
def fn(x: list['FastMCP']): ...  =>  def fn(x: list['MCPKit']): ...
if (app := FastMCP('a')):\n    app.mount(x)  =>      app.include(x)
a, b = FastMCP('a'), FastMCP('b')\nb.mount(x)  =>  b.include(x)
self.app.add_tool(f.tools.Tool.from_function(fn))  =>  self.app.add_tool(fn)
x = f.utilities.types.Image(path=p).to_image_content()  =>  x = Image(p).block()
class Own(FastMCP): ...\nown = Own('a')\nown.mount(x)  =>  own.include(x)
def add(to):\n    @to.tool(output_schema=None)\n    def fn(): ...
  =>      @to.tool(structured_output=False)\n    def fn(): ...
mcp.add_tool(fn=look)  =>  mcp.add_tool(look)
x = f'{mcp.run("streamable-http")!r:>{x}}'  =>  x = f'{mcp.run("http")!r:>{x}}'
def run():\n    mcp.run('sse')\nmcp = FastMCP('a', port=1)  =>  mcp = MCPKit('a')
import fastmcp\nasync def fn(ctx: Context):\n    ctx.log('hello', 'info')
  =>      ctx.log('info', 'hello')
@mcp.tool(exclude_args=['a'])\ndef fn(a: int=1, b=2): ...
  =>  @mcp.tool()\ndef fn(a: Annotated[int, Depends(lambda: 1)]=1, b=2): ...
mcp.add_tool(fn, exclude_args=['a'])  =>  mcp.add_tool(fn, exclude_args=['a'])
@mcp.tool(enabled=FLAG)\ndef fn(): ...
  =>  @(mcp.tool() if FLAG else lambda fn: fn)\ndef fn(): ...
@mcp.prompt(\n    enabled=not OFF,\n    name='a',\n)\ndef fn(): ...
  =>  @(mcp.prompt(\n    name='a',\n) if (not OFF) else lambda fn: fn)\ndef fn(): ...
mcp.tool(fn, enabled=FLAG)  =>  mcp.tool(fn, enabled=FLAG)
mcp.disable(names=OFF)  =>  mcp.disable(names=OFF)
@mcp.tool(annotations=types.ToolAnnotations(\n    readOnlyHint=True,  # looks\n))\ndef fn(): ...
  =>  ToolAnnotations(\n    read_only=True,  # looks\n))\ndef fn(): ...
raise f.McpError(types.ErrorData(code=types.INVALID_PARAMS, message=m))  =>  raise InvalidParams(m)
try: ...\nexcept f.McpError as e: raise f.McpError(f.ErrorData(code=c, message=e.error.data))
  =>  except ProtocolError as e: raise ProtocolError(e.data, code=c)
"""


@pytest.mark.parametrize(("theirs", "ours"), pairs(HARDER))
def test_what_is_harder_to_see_is_rewritten_too(theirs: str, ours: str) -> None:
    head = "import fastmcp as f\nfrom fastmcp import Context, FastMCP\nfrom mcp import types\n"
    made = rewritten(f"{head}mcp = FastMCP('shop')\n{theirs}\n")
    assert made.rstrip().endswith(ours)


MARKED: Final = r"""
f.settings.port = 1  =>  f.settings.port  =>  pass options to MCPKit(…) or app.run(…)
x = f.nothing  =>  f.nothing  =>  mcpkit has no equivalent; remove what uses it
x = FastMCP.as_proxy(y)  =>  FastMCP.as_proxy  =>  use mcpkit.Client inside tools
x = f.resources.FileResource()  =>  f.resources.FileResource  =>  write app.files(path, uri)
raise McpError(f.types.ErrorData(x))  =>  McpError  =>  write ProtocolError(message, code=…)
class Failed(f.tools.ToolResult):\n    def to_mcp_result(self): return None
  =>  to_mcp_result  =>  nothing calls it; pass is_error= and the like to ToolResult
mcp.settings.log_level = 'DEBUG'  =>  mcp.settings.log_level
  =>  set the level of logging, or use mcpkit run --debug
mcp.settings.auth = x  =>  mcp.settings.auth
  =>  give auth= a verifier of mcpkit.auth, such as JWT(…)
mcp._mcp_server.version = found()  =>  mcp._mcp_server  =>  private names have no counterpart
x = [FastMCP('a', port=1)]  =>  port=  =>  pass it to app.run("http", port=…)
x = FastMCP('a', tasks=True)  =>  tasks=True
  =>  add task="optional" to each tool that may run as a task
@mcp.tool(task=SLOW)\nasync def g(): ...
  =>  task=  =>  write task="optional", "required" or "forbidden"
@mcp.tool(task=f.server.tasks.TaskConfig(poll_interval=1))\nasync def g(): ...
  =>  TaskConfig(poll_interval=)  =>  write MCPKit(…, tasks={"poll_interval": …}), for the whole app
"""


@pytest.mark.parametrize(("line", "name", "say"), pairs(MARKED))
def test_what_is_not_understood_is_marked(line: str, name: str, say: str) -> None:
    head = "import fastmcp as f\nfrom fastmcp import FastMCP\nfrom mcp import McpError\n"
    made = rewritten(f"{head}mcp = FastMCP('a')\nmcp.run('http')\n{line}\n")
    assert f"{MARK}{name}: {say}\n" in made


def test_what_stands_above_an_import_that_goes_stays() -> None:
    made = rewritten(
        """\
        import os

        # Ours and theirs.
        import mcp.types as types

        from fastmcp import FastMCP
        try:
            # For tests.
            import fastmcp
        except ImportError:
            pass
        self.mcp = FastMCP("a"), types.TextContent
        """
    )
    assert made == dedent(
        """\
        import os

        # Ours and theirs.
        from mcpkit import MCPKit, TextContent
        try:
            pass
            # For tests.
        except ImportError:
            pass
        self.mcp = MCPKit("a"), TextContent
        """
    )


# --- what stays -----------------------------------------------------------------------------------

SHOP: Final = '''\
#!/usr/bin/env python
"""A shop."""

from mcp.server.fastmcp import Context, FastMCP  # the framework
from mcp.types import ToolAnnotations

# What we sell.
STOCK = {"tea": 3}

mcp = FastMCP(
    "shop",  # its name
    instructions="Look before you buy.",
    dependencies=["httpx"],
)


@mcp.tool(
    title="Look",  # for people
    annotations=ToolAnnotations(readOnlyHint=True),
)
async def look(item: str, ctx: Context) -> int:
    """Look."""
    await ctx.report_progress(1, 1)  # done
    return STOCK[item]


if __name__ == "__main__":
    mcp.run(transport="stdio")
'''

MIGRATED: Final = '''\
#!/usr/bin/env python
"""A shop."""

from mcpkit import Context, MCPKit, ToolAnnotations  # the framework

# What we sell.
STOCK = {"tea": 3}

mcp = MCPKit(
    "shop",  # its name
    instructions="Look before you buy.",
)


@mcp.tool(
    title="Look",  # for people
    annotations=ToolAnnotations(read_only=True),
)
async def look(item: str, ctx: Context) -> int:
    """Look."""
    await ctx.progress(1, 1)  # done
    return STOCK[item]


if __name__ == "__main__":
    mcp.run(transport="stdio")
'''


def test_comments_layout_line_ends_and_marks_of_bytes_stay(tmp_path: Path) -> None:
    assert rewritten(SHOP) == MIGRATED
    assert migrate(SHOP.replace("\n", "\r\n")).text == MIGRATED.replace("\n", "\r\n")
    assert migrate("\ufeff" + SHOP).text == "\ufeff" + MIGRATED
    with TestClient(module_from(tmp_path / "shop.py", MIGRATED).mcp) as client:
        assert client.call_tool("look", {"item": "tea"}).data == 3


def test_a_file_without_their_imports_is_not_touched() -> None:
    for folder in ("examples", "mcpkit/cli", "tests/cli"):
        for path in (ROOT / folder).glob("*.py"):
            if path.name != Path(__file__).name:
                source = path.read_text(encoding="utf-8")
                assert migrate(source) == (source, []), path


@given(st.text(alphabet="import fastmcp \nfrom#'\"=()\\\t\x0c"))
def test_nor_is_any_text_that_names_them_elsewhere(text: str) -> None:
    source = f"'''{text.encode('unicode_escape').decode()}'''\nfastmcp = mcp = 1\n"
    assert migrate(source) == (source, [])


def test_both_sides_of_the_guides_are_migrated() -> None:
    for name in ("fastmcp_server", "official_server", "fastmcp_test", "official_test"):
        path = ROOT / "docs" / "code" / "migration" / f"{name}.py"
        made = rewritten(path.read_text(encoding="utf-8"))
        assert "MCPKit(" in made or "AsyncTestClient(" in made


# --- the command ----------------------------------------------------------------------------------


@pytest.fixture
def server(tmp_path: Path) -> Path:
    path = tmp_path / "server.py"
    path.write_text(SHOP)
    return path


def test_the_difference_is_shown_before_files_are_written(server: Path) -> None:
    server.chmod(0o755)
    ended = mcpkit("migrate", "server.py", cwd=server.parent)
    assert ended.code == 0
    assert ended.stdout.startswith("--- server.py\n+++ server.py\n@@ ")
    assert "-from mcp.server.fastmcp import Context, FastMCP  # the framework" in ended.stdout
    assert "+from mcpkit import Context, MCPKit, ToolAnnotations  # the framework" in ended.stdout
    assert ended.stderr == "mcpkit: nothing has been changed; --write rewrites 1 file\n"
    assert server.read_text() == SHOP
    ended = mcpkit("migrate", "server.py", "--write", cwd=server.parent)
    imported = "mcpkit: server.py was imported, without errors\n"
    assert ended == (0, "", f"mcpkit: 1 file rewritten\n{imported}")
    assert server.read_text() == MIGRATED
    assert server.stat().st_mode & 0o777 == 0o755
    assert os.listdir(server.parent) == ["server.py"]
    again = mcpkit("migrate", "server.py", "--write", cwd=server.parent)
    assert (again.code, again.stderr) == (0, "mcpkit: there is nothing to rewrite\n")


def test_what_is_left_is_listed_with_its_place_in_the_guide(server: Path) -> None:
    server.write_text(SHOP + "\n\nmcp.add_provider(other)\n")
    ended = mcpkit("migrate", "server.py", "--write", cwd=server.parent)
    assert ended.code == 1
    assert ended.stdout == (
        "Left to you:\n"
        "  server.py:29: mcp.add_provider: mark the functions with @mcpkit.tool and app.include(…) "
        "them  (docs/migration/python-sdk.md#what-is-not-here)\n"
    )
    assert server.read_text().splitlines()[28].startswith(f"{MARK}mcp.add_provider: ")


def test_folders_are_walked(server: Path) -> None:
    for name in ("src/a.py", ".venv/b.py", "src/node_modules/c.py", "src/d.txt"):
        path = server.parent / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(SHOP)
    (server.parent / "src" / "link.py").symlink_to(server)
    (server.parent / "src" / "own.py").write_text("x = 1\n")
    ended = mcpkit("migrate", "src", "--write", cwd=server.parent)
    imported = "mcpkit: src/a.py was imported, without errors\n"
    assert ended.stderr == f"mcpkit: 1 file rewritten\n{imported}"
    assert server.read_text() == SHOP


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda path: None, "there is no such file"),
        (os.mkfifo, "it is not a regular file"),
        (lambda path: path.write_bytes(b"\xff"), "it is not UTF-8"),
        (
            lambda path: path.write_text("import fastmcp\n(\n"),
            "line 2 is not Python: '(' was never closed",
        ),
    ],
)
@pytest.mark.skipif(sys.platform == "win32", reason="there are no pipes with names")
def test_what_cannot_be_rewritten(tmp_path: Path, make: object, why: str) -> None:
    make(tmp_path / "a.py")  # type: ignore[operator]
    ended = mcpkit("migrate", "a.py", "--write", cwd=tmp_path)
    assert ended.code == 2
    assert ended.stderr.startswith("mcpkit: a.py cannot be rewritten: ")
    assert why in ended.stderr


def test_nothing_of_a_file_steers_the_terminal(server: Path) -> None:
    server.write_text(SHOP.replace("A shop.", "A \x1b[31mshop."))
    ended = mcpkit("migrate", "server.py", cwd=server.parent)
    assert "\x1b" not in ended.stdout
    assert "\\x1b[31m" in ended.stdout


def test_without_libcst_the_installation_is_named(tmp_path: Path) -> None:
    (tmp_path / "libcst.py").write_text("raise ModuleNotFoundError('no', name='libcst')\n")
    env = {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    ended = mcpkit("migrate", "server.py", cwd=tmp_path, env=env, cold=True)
    assert ended.code == 2
    assert single_line(ended) == 'mcpkit migrate needs LibCST: pip install "mcpkit[migrate]"'


# --- nothing is lost ------------------------------------------------------------------------------

VALUES_OF: Final = {
    "MCPKit(…)": [row.theirs for row in rows("MCPKit(…)", "drop", "hand", "move", "guard")],
    "run(…)": [row.theirs for row in rows("run(…)", "drop", "hand") if row.theirs.isidentifier()],
}
TRANSPORTS: Final = ["", '"stdio"', '"sse"', "transport='http'", "KIND", "transport=kind()"]


@st.composite
def servers(draw: st.DrawFn) -> tuple[str, int]:
    """A server whose options are calls and have comments, with their count."""
    count = 0

    def options(names: list[str]) -> str:
        nonlocal count
        lines = ""
        for name in draw(st.lists(st.sampled_from(names), max_size=4, unique=True)):
            count += 1
            lines += f"    {name}=value(V{count}),  # C{count}.\n"
        return lines

    made = f"FastMCP(\n    'shop',  # C0.\n{options(VALUES_OF['MCPKit(…)'])})\n"
    transport = draw(st.sampled_from(TRANSPORTS))
    given = f"    {transport},  # C0.\n" if transport else ""
    ran = f"mcp.run(\n{given}{options(VALUES_OF['run(…)'])})\n"
    if draw(st.booleans()):
        ran = indent(f"def main():\n{indent(ran, '    ')}", "")
    settings = ""
    if draw(st.booleans()):
        count += 1
        settings = f"mcp.settings.port = value(V{count})  # C{count}.\n"
    return f"from fastmcp import FastMCP\n\nmcp = {made}{settings}{ran}", count


@given(servers())
@settings(max_examples=60)
def test_no_value_and_no_comment_is_lost(server: tuple[str, int]) -> None:
    source, count = server
    made = rewritten(source)
    for number in range(1, count + 1):
        assert re.search(rf"\bV{number}\b", made), made
        assert f"C{number}." in made, made


MOVED: Final = r"""
mcp = FastMCP("a", host=HOST)\nmcp.run("sse")
  =>  mcp = MCPKit("a")\nmcp.run("sse", host=HOST)
mcp = FastMCP("a", port=1, streamable_http_path="/")\nmcp.run(transport=KIND)
  =>  mcp = MCPKit("a")\nmcp.run(transport=KIND, **({} if KIND == "stdio" else {"port": 1, "path": "/"}))
mcp = FastMCP("a", host="::", port=1)\nmcp.settings.port = x.port\nmcp.run(kind())
  =>  mcp = MCPKit("a")\nmcpkit_settings.port = 1\nmcpkit_settings.port = x.port\nmcp.run((mcp_transport := kind()), **({} if mcp_transport == "stdio" else {"host": "::", "port": mcpkit_settings.port}))
one = FastMCP("one", port=1)\ntwo = FastMCP("two", port=2)\none.run("http")\ntwo.run("http")
  =>  one = MCPKit("one")\ntwo = MCPKit("two")\none.run("http", port=1)\ntwo.run("http", port=2)
mcp = FastMCP("a")\nmcp._mcp_server.version = v.own  =>  mcp = MCPKit("a", version=v.own)
mcp = FastMCP("a", port=1)\nasync def main(): await mcp.run_http_async()
  =>  mcp = MCPKit("a")\nasync def main(): await mcp.serve("http", port=1)
"""  # noqa: E501


@pytest.mark.parametrize(("theirs", "ours"), pairs(MOVED))
def test_options_of_http_move_to_the_run(theirs: str, ours: str) -> None:
    assert rewritten(f"from fastmcp import FastMCP\n{theirs}\n").endswith(f"{ours}\n")


def test_settings_are_kept_until_the_run() -> None:
    made = rewritten(
        """\
        from fastmcp import FastMCP

        mcp = FastMCP("shop")


        def main(port):
            if port:
                mcp.settings.port = port  # Theirs.
            print(f"{mcp.settings.host}:{mcp.settings.port}")
            mcp.run(transport="sse")
        """
    )
    assert made == dedent(
        """\
        from mcpkit import MCPKit
        from types import SimpleNamespace

        mcpkit_settings = SimpleNamespace(host="127.0.0.1", port=8000)

        mcp = MCPKit("shop")


        def main(port):
            if port:
                mcpkit_settings.port = port  # Theirs.
            print(f"{mcpkit_settings.host}:{mcpkit_settings.port}")
            mcp.run(transport="sse", host=mcpkit_settings.host, port=mcpkit_settings.port)
        """
    )


STAYING: Final = r"""
mcp = FastMCP("a", port=PORT)\nmcp.run()
def main(port): return FastMCP("a", port=port)\nmcp = main(1)\nmcp.run("http")
mcp = FastMCP("a", port=port)\ndef main(port): mcp.run("http")
mcp = FastMCP("a", port=1)\nmcp.run("http", port=2)
"""


@pytest.mark.parametrize(
    "source", [each.replace("\\n", "\n") for each in STAYING.split("\n")[1:-1]]
)
def test_an_option_that_no_run_can_take_stays_in_a_comment(source: str) -> None:
    made = rewritten(f"from fastmcp import FastMCP\n{source}\n")
    value = re.search(r"port=(\w+)", source)
    assert value is not None
    assert f'{MARK}port=: pass it to app.run("http", port=…)\n' in made
    assert f"#     port={value[1]}\n" in made


def test_no_import_of_another_library_is_left() -> None:
    lines = ["import fastmcp", "import mcp.types as t", "from mcp import types", "import mcp, os"]
    for line in lines:
        made = migrate(f"{line}\nprint(fastmcp, t.Nothing, types, mcp, os)\n")
        assert len(made.remarks) >= 1, line
        assert made.text.splitlines()[0].startswith(MARK), line
        assert "mcpkit.unmigrated" in made.text.splitlines()[1], line
        again = migrate(made.text)
        assert again.text == made.text
        assert [each.text for each in again.remarks] == [each.text for each in made.remarks]
    made = migrate(
        "try:\n    from fastmcp import Context\nexcept ImportError:\n    class Context: ...\n"
    )
    assert "    from mcpkit import Context\n" in made.text


UNMIGRATED: Final = """\
from typing import Optional

import mcp.types as mt
from fastmcp import FastMCP, settings
from fastmcp.exceptions import OddError
from fastmcp.server.dependencies import get_context
from fastmcp.server.middleware import Middleware, MiddlewareContext
from fastmcp.tools import Tool

mcp = FastMCP("shop")


class Odd(Middleware):
    def look(self, context: MiddlewareContext[mt.Request]) -> "Optional[Tool] | None": ...


def tools() -> list[Tool | None] | None: ...


@mcp.tool
def order(kind: str) -> str:
    try:
        used = {
            "call": get_context,
            "part": lambda: Tool.from_function(order),
            "if": lambda: not settings,
            "is": lambda: isinstance(1, Tool),
        }
        used[kind]()
    except OddError:
        return "no"
    return "yes"
"""


def test_what_is_not_migrated_loads_and_says_what_to_write_when_it_is_used(tmp_path: Path) -> None:
    made = rewritten(UNMIGRATED)
    assert "import fastmcp" not in made
    assert "from fastmcp" not in made
    module = module_from(tmp_path / "shop.py", made)
    said = {
        "call": r"get_context is not migrated: take a parameter ctx: Context",
        "if": r"settings is not migrated: pass options to MCPKit\(…\) or app\.run\(…\)",
        "part": r"Tool\.from_function is not migrated: register the function: app\.add_tool",
        "is": r"Tool is not migrated: register the function: app\.add_tool\(fn, …\)",
    }
    for kind, say in said.items():
        with pytest.raises(NotImplementedError, match=rf"^shop\.py:\d+: {say}"):
            module.order(kind)
    with pytest.raises(NotImplementedError, match=r"settings\.a is not migrated"):
        module.settings.a.b = 1


# --- hostile files --------------------------------------------------------------------------------


DEEP: Final = {
    "parentheses": "(" * 3000 + ")" * 3000,
    "a sum": "1+" * 20_000 + "1",
    "attributes": "a" + ".b" * 5000,
    "signs": "-" * 100_000 + "1",
    "calls": "f" + "()" * 3000,
}


@pytest.mark.parametrize("code", DEEP.values(), ids=DEEP)
def test_deep_code_is_refused_at_once(code: str) -> None:
    with pytest.raises(ValueError, match=r"nested|line 2 is not Python"):
        migrate(f"import fastmcp\n{code}\n")


def test_code_at_the_limit_of_depth_is_rewritten() -> None:
    assert migrate(f"from fastmcp import FastMCP\nx = FastMCP, {'1+' * 240}1\n").text != ""
    with pytest.raises(ValueError, match="has more than 4194304 characters; split it"):
        migrate("import fastmcp\n" + "#" * 2**22)


# --- the result -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("import nothing_of_this", "No module named 'nothing_of_this'"),
        ("1 / 0", "division by zero"),
    ],
)
def test_a_result_that_does_not_import_is_a_failure(server: Path, line: str, why: str) -> None:
    server.write_text(f"{line}\n{SHOP}")
    ended = mcpkit("migrate", "server.py", "--write", cwd=server.parent)
    assert ended.code == 1
    assert "mcpkit: server.py does not import: " in ended.stderr
    assert why in ended.stderr
    assert "see the marks, or install missing packages" in ended.stderr
    server.write_text(f"{line}\n{SHOP}")
    assert mcpkit("migrate", "server.py", "--write", "--no-import", cwd=server.parent).code == 0
