"""The names of other libraries for MCP servers, and what is written instead of each here.

One table for whoever meets such a name: errors about a name that is not there, the rule of
``mcpkit check`` and ``mcpkit migrate``. It has FastMCP 2, 3 and 4 and the official SDK 1 and 2; a
name that means the same here is in it only if it has to be imported.
"""

from __future__ import annotations

from functools import cache
from typing import Final, Literal, NamedTuple, TypeAlias

from mcpkit.support.wrong_names import Library

__all__ = [
    "GUIDES",
    "PeerName",
    "named",
    "peer_names",
]

GUIDES: Final[dict[Library, str]] = {
    "FastMCP": "docs/migration/fastmcp.md",
    "the official SDK": "docs/migration/python-sdk.md",
}

How: TypeAlias = Literal["rename", "drop", "rewrite", "hand", "keep", "guard"]
"""How a migration treats a name: writes ours, leaves it out, has a function for it, or marks it.

An option that is marked is left out too, except for those that guard something (``keep``): the
server does not start before somebody has decided. One that may be off (``guard``) is left out, and
what is written instead does not let the server start if it is on.
"""

_NAMES: Final = "#name-by-name"
_SERVER: Final = "#the-server-and-its-state"
_TOOLS: Final = "#tools-context-errors"
_RESOURCES: Final = "#resources"
_ASKING: Final = "#asking-the-user"
_RUNNING: Final = "#running-testing-mounting"
_MISSING: Final = "#what-is-not-here"


class PeerName(NamedTuple):
    """A name of another library.

    Args:
        on: What it is written on: ``ctx``, ``app``, ``answer``, ``import``, or something that is
            called with it as a keyword, such as ``tool(…)``.
        theirs: The name.
        how: What a migration does with it.
        ours: Our name; empty if none means the same.
        say: What to do, as the rest of a sentence; ``write`` and our name if empty.
        guide: The section of the migration guides that has more about it.
    """

    on: str
    theirs: str
    how: How
    ours: str = ""
    say: str = ""
    guide: str = _NAMES

    @property
    def advice(self) -> str:
        """What to do, as the rest of a sentence."""
        return self.say or f"write {self.ours}"


def _table(on: str, *rows: tuple[str, How, str, str, str]) -> list[PeerName]:
    return [PeerName(on, *row) for row in rows]


_CONTEXT: Final = _table(
    "ctx",
    ("report_progress", "rename", "progress", "write ctx.progress(1, 2)", _TOOLS),
    ("lifespan_context", "rename", "state", "write ctx.state", _SERVER),
    (
        "request_context",
        "rewrite",
        "",
        "write ctx.state for its lifespan_context, ctx.meta, ctx.request_id or ctx.http",
        _SERVER,
    ),
    ("list_roots", "rename", "roots", "write await ctx.roots()", _ASKING),
    ("protocol_version", "rename", "revision", "write ctx.revision", _NAMES),
    ("headers", "rewrite", "http.headers", "write ctx.http.headers", _NAMES),
    (
        "client_capabilities",
        "rewrite",
        "client.capabilities",
        "write ctx.client.capabilities, or ctx.client.supports(…)",
        _NAMES,
    ),
    ("client_params", "hand", "", "write ctx.client.info or ctx.client.capabilities", _NAMES),
    ("client_id", "hand", "", "write ctx.client.info, or ctx.principal for who it is", _NAMES),
    ("notify_resource_updated", "rename", "changed", "write ctx.changed(uri)", _NAMES),
    ("send_tool_list_changed", "rewrite", "", 'write ctx.list_changed("tools")', _NAMES),
    ("send_resource_list_changed", "rewrite", "", 'write ctx.list_changed("resources")', _NAMES),
    ("send_prompt_list_changed", "rewrite", "", 'write ctx.list_changed("prompts")', _NAMES),
    ("send_notification", "hand", "", "write ctx.list_changed(…) or ctx.changed(uri)", _NAMES),
    ("set_state", "hand", "", "keep it in ctx.state under the user's id", _NAMES),
    ("get_state", "hand", "", "keep it in ctx.state under the user's id", _NAMES),
    ("delete_state", "hand", "", "keep it in ctx.state under the user's id", _NAMES),
    (
        "session",
        "hand",
        "",
        "ask and tell the client with ctx itself: ctx.elicit, ctx.sample, ctx.info",
        _NAMES,
    ),
    ("session_id", "hand", "", "nothing depends on sessions; write ctx.principal", _NAMES),
    ("fastmcp", "hand", "", "use the app by its name in the module", _NAMES),
    ("mcp_server", "hand", "", "use the app by its name in the module", _NAMES),
    ("access_token", "hand", "", "write ctx.principal", _MISSING),
    ("transport", "hand", "", "write ctx.http, which is None on stdio", _NAMES),
    (
        "input_responses",
        "hand",
        "",
        "write await ctx.elicit(…); it works on every revision",
        _ASKING,
    ),
    ("request_state", "hand", "", "write await ctx.elicit(…), or ctx.step(…)", _ASKING),
    ("close_sse_stream", "rename", "close_stream", "write ctx.close_stream()", _NAMES),
    ("enable_components", "hand", "", "add and remove tools with the app", _MISSING),
    ("disable_components", "hand", "", "add and remove tools with the app", _MISSING),
    ("list_tools", "hand", "", "use the app's functions themselves", _NAMES),
    ("call_tool", "hand", "", "call the function itself", _NAMES),
)

_APP: Final = _table(
    "app",
    ("mount", "rename", "include", "write app.include(other, prefix=…)", _RUNNING),
    ("import_server", "rename", "include", "write app.include(other, prefix=…)", _RUNNING),
    (
        "add_provider",
        "hand",
        "",
        "mark the functions with @mcpkit.tool and app.include(…) them",
        _MISSING,
    ),
    ("add_transform", "hand", "", "give tools their names and options where they are", _MISSING),
    ("add_tool_transformation", "hand", "", "give tools their options where they are", _MISSING),
    ("add_middleware", "rewrite", "", "write @app.middleware over a function", _MISSING),
    (
        "http_app",
        "rename",
        "asgi",
        "the app itself is an ASGI application, or app.asgi(…)",
        _RUNNING,
    ),
    (
        "streamable_http_app",
        "rename",
        "asgi",
        "the app itself is an ASGI application, or app.asgi(…)",
        _RUNNING,
    ),
    ("sse_app", "rewrite", "", "write app.asgi(sse=True)", _RUNNING),
    ("custom_route", "rewrite", "", "append a starlette Route to app.routes", _RUNNING),
    ("run_async", "rewrite", "", "write app.run(), without asyncio.run", _RUNNING),
    ("run_stdio_async", "rewrite", "", "write app.run(), without asyncio.run", _RUNNING),
    ("run_http_async", "rewrite", "", 'write app.run("http"), without asyncio.run', _RUNNING),
    ("run_sse_async", "rewrite", "", 'write app.run("sse"), without asyncio.run', _RUNNING),
    (
        "run_streamable_http_async",
        "rewrite",
        "",
        'write app.run("http"), without asyncio.run',
        _RUNNING,
    ),
    ("session_manager", "hand", "", "there is none to run; mount the app itself", _RUNNING),
    ("lifespan", "hand", "", "pass nothing on; a mounted app enters its own lifespan", _RUNNING),
    ("settings", "rewrite", "", 'pass options to app.run("http", port=…)', _RUNNING),
    ("completion", "hand", "", "write Complete(…) at the parameter", _NAMES),
    ("subscribe_resource", "hand", "", "nothing; clients that watch a resource are known", _NAMES),
    ("call_tool", "hand", "", "call the function itself, or mcpkit.testing.TestClient", _RUNNING),
    ("list_tools", "hand", "", "use mcpkit.testing.TestClient(app).list_tools()", _RUNNING),
    ("get_tools", "hand", "", "use mcpkit.testing.TestClient(app).list_tools()", _RUNNING),
    ("get_tool", "hand", "", "use mcpkit.testing.TestClient(app).list_tools()", _RUNNING),
    ("list_resources", "hand", "", "use mcpkit.testing.TestClient(app)", _RUNNING),
    ("get_resources", "hand", "", "use mcpkit.testing.TestClient(app)", _RUNNING),
    (
        "read_resource",
        "hand",
        "",
        "call the function itself, or mcpkit.testing.TestClient",
        _RUNNING,
    ),
    ("list_prompts", "hand", "", "use mcpkit.testing.TestClient(app)", _RUNNING),
    ("get_prompts", "hand", "", "use mcpkit.testing.TestClient(app)", _RUNNING),
    ("get_prompt", "hand", "", "call the function itself, or mcpkit.testing.TestClient", _RUNNING),
    ("get_context", "hand", "", "take a parameter ctx: Context", _TOOLS),
    ("notify_resource_updated", "rename", "changed", "write app.changed(uri)", _NAMES),
    ("enable", "hand", "", "add and remove tools with the app", _MISSING),
    ("disable", "hand", "", "add and remove tools with the app", _MISSING),
    ("from_openapi", "hand", "", "write a tool for each operation that a model needs", _MISSING),
    ("from_fastapi", "hand", "", 'mount the app with app.attach(api, "/mcp")', _MISSING),
    ("as_proxy", "hand", "", "use mcpkit.Client inside of tools", _MISSING),
    ("instructions", "hand", "", "pass instructions= to MCPKit(…)", _SERVER),
    ("dependencies", "hand", "", "name them in pyproject.toml", _SERVER),
    ("_mcp_server", "hand", "", "what is private there has no counterpart", _MISSING),
    ("_tool_manager", "hand", "", "what is private there has no counterpart", _MISSING),
    ("_lowlevel_server", "hand", "", "what is private there has no counterpart", _MISSING),
)

_OPTIONS: Final = [
    *_table(
        "MCPKit(…)",
        (
            "dependencies",
            "drop",
            "",
            "name them in pyproject.toml, or in the host's command",
            _SERVER,
        ),
        ("host", "hand", "", 'pass it to app.run("http", host=…)', _RUNNING),
        ("port", "hand", "", 'pass it to app.run("http", port=…)', _RUNNING),
        ("debug", "drop", "", "use mcpkit run --debug", _RUNNING),
        ("mask_error_details", "drop", "", "leave it out; they are always masked", _TOOLS),
        ("strict_input_validation", "drop", "", "leave it out; arguments are validated", _TOOLS),
        ("validate_input", "drop", "", "leave it out; arguments are validated", _TOOLS),
        ("include_fastmcp_meta", "drop", "", "leave it out", _SERVER),
        ("include_tags", "keep", "", "register what shall be offered", _MISSING),
        ("exclude_tags", "keep", "", "register what shall be offered", _MISSING),
        ("on_duplicate", "drop", "", "leave it out; a name that is taken is refused", _TOOLS),
        ("on_duplicate_tools", "drop", "", "leave it out; a name that is taken is refused", _TOOLS),
        (
            "on_duplicate_resources",
            "drop",
            "",
            "leave it out; a URI that is taken is refused",
            _TOOLS,
        ),
        (
            "on_duplicate_prompts",
            "drop",
            "",
            "leave it out; a name that is taken is refused",
            _TOOLS,
        ),
        ("warn_on_duplicate_tools", "drop", "", "leave it out", _TOOLS),
        ("warn_on_duplicate_resources", "drop", "", "leave it out", _TOOLS),
        ("warn_on_duplicate_prompts", "drop", "", "leave it out", _TOOLS),
        ("list_page_size", "rename", "page_size", "write page_size=", _NAMES),
        ("client_log_level", "rename", "log_level", "write log_level=", _NAMES),
        ("tools", "keep", "", "app.add_tool(…) each of them", _TOOLS),
        ("tags", "hand", "", "servers have no tags; tools have", _SERVER),
        ("auth", "guard", "", "give auth= a verifier of mcpkit.auth, such as JWT(…)", _MISSING),
        ("auth_server_provider", "guard", "", "put the app into a framework that has it", _MISSING),
        ("token_verifier", "guard", "", "give auth= a verifier of mcpkit.auth", _MISSING),
        ("middleware", "rewrite", "", "write @app.middleware over a function", _MISSING),
        ("providers", "keep", "", "use app.include(…)", _MISSING),
        ("transforms", "keep", "", "give tools their names and options where they are", _MISSING),
        ("event_store", "drop", "", "leave it out; streams can be resumed", _RUNNING),
        ("retry_interval", "drop", "", 'pass http={"retry": …}', _RUNNING),
        ("tool_serializer", "hand", "", "return text from the tools", _TOOLS),
        ("session_state_store", "hand", "", "keep it in ctx.state", _MISSING),
        ("sampling_handler", "hand", "", "ask the client's model with ctx.sample(…)", _MISSING),
        (
            "sampling_handler_behavior",
            "hand",
            "",
            "ask the client's model with ctx.sample(…)",
            _MISSING,
        ),
        ("stateless_http", "drop", "", "leave it out; any worker serves any session", _RUNNING),
        ("json_response", "drop", "", "leave it out; what does not stream is JSON", _RUNNING),
        ("streamable_http_path", "hand", "", 'pass http={"path": …}', _RUNNING),
        ("sse_path", "hand", "", "serve the old addresses with mcpkit run --sse", _RUNNING),
        ("message_path", "hand", "", "serve the old addresses with mcpkit run --sse", _RUNNING),
        ("mount_path", "hand", "", "mount the app with app.attach(…)", _RUNNING),
        ("transport_security", "keep", "", 'pass http={"allowed_hosts": …}', _RUNNING),
        ("request_state_security", "hand", "", "pass secret=", _ASKING),
        ("extensions", "hand", "", "there are none", _MISSING),
        ("resource_security", "drop", "", "leave it out; unchecked= at a resource", _RESOURCES),
        ("cache_hints", "hand", "", "pass ttl= and cache_scope=", _RESOURCES),
        ("subscriptions", "drop", "", "leave it out", _RESOURCES),
        ("tool_transformations", "hand", "", "give tools their options where they are", _MISSING),
    ),
    *_table(
        "tool(…)",
        (
            "output_schema",
            "rewrite",
            "",
            "annotate what the function returns, or pass structured_output=False",
            _NAMES,
        ),
        ("enabled", "rewrite", "", "leave it out, or do not register the function", _TOOLS),
        ("exclude_args", "keep", "", "fill them with Annotated[T, Depends(…)]", _TOOLS),
        ("serializer", "hand", "", "return the text", _TOOLS),
        ("timeout", "hand", "", "bound it inside of the function", _TOOLS),
        ("version", "hand", "", "tools have none", _MISSING),
        ("app", "hand", "", "there are no MCP Apps", _MISSING),
        ("auth", "keep", "", "write scopes=[…], or allow=…", _MISSING),
        ("run_in_thread", "hand", "", "a plain def runs in a thread; or pass inline=True", _TOOLS),
        (
            "read_only_hint",
            "hand",
            "",
            "write read_only=",
            _NAMES,
        ),
    ),
    *_table(
        "resource(…)",
        ("uri", "rewrite", "", 'write the URI first: resource("notes://…")', _RESOURCES),
        ("uri_template", "rewrite", "", 'write the URI first: resource("notes://…")', _RESOURCES),
        ("enabled", "rewrite", "", "leave it out, or do not register the function", _RESOURCES),
        ("task", "hand", "", "there are none", _MISSING),
        ("version", "hand", "", "resources have none", _MISSING),
        ("app", "hand", "", "there are no MCP Apps", _MISSING),
        ("auth", "keep", "", "write scopes=[…], or allow=…", _MISSING),
        ("security", "hand", "", "write unchecked=[…]", _RESOURCES),
        ("cache_hint", "hand", "", "pass ttl= and cache_scope=", _RESOURCES),
    ),
    *_table(
        "prompt(…)",
        ("enabled", "rewrite", "", "leave it out, or do not register the function", _NAMES),
        ("task", "hand", "", "there are none", _MISSING),
        ("version", "hand", "", "prompts have none", _MISSING),
        ("auth", "keep", "", "write scopes=[…], or allow=…", _MISSING),
    ),
    *_table(
        "annotations",
        ("readOnlyHint", "rename", "read_only", "", _NAMES),
        ("destructiveHint", "rename", "destructive", "", _NAMES),
        ("idempotentHint", "rename", "idempotent", "", _NAMES),
        ("openWorldHint", "rename", "open_world", "", _NAMES),
        ("read_only_hint", "rename", "read_only", "", _NAMES),
        ("destructive_hint", "rename", "destructive", "", _NAMES),
        ("idempotent_hint", "rename", "idempotent", "", _NAMES),
        ("open_world_hint", "rename", "open_world", "", _NAMES),
    ),
    *_table(
        "elicit(…)",
        (
            "response_type",
            "rename",
            "schema",
            "write schema=, or the type as the second argument",
            _ASKING,
        ),
        ("response_title", "hand", "", "give the field its title", _ASKING),
        ("response_description", "hand", "", "give the field its description", _ASKING),
    ),
    *_table(
        "sample(…)",
        ("system_prompt", "rename", "system", "write system=", _ASKING),
        ("stop_sequences", "rename", "stop", "write stop=", _ASKING),
        ("model_preferences", "hand", "", "write hints=[…]", _ASKING),
        ("mask_error_details", "drop", "", "leave it out; they are always masked", _ASKING),
    ),
    *_table(
        "log(…)",
        ("logger_name", "rename", "logger", "write logger=", _TOOLS),
        ("message", "rename", "data", "write the message first", _TOOLS),
        ("extra", "hand", "", "put it into the message, which may be a dict", _TOOLS),
    ),
    *_table(
        "Image(…)",
        ("data", "rewrite", "", "write the bytes first: Image(png_bytes)", _TOOLS),
        ("path", "rewrite", "", 'write the path first: Image("plot.png")', _TOOLS),
        (
            "format",
            "rewrite",
            "",
            'write the MIME type second: Image(png_bytes, "image/png")',
            _TOOLS,
        ),
    ),
    *_table(
        "Audio(…)",
        ("data", "rewrite", "", "write the bytes first: Audio(wav_bytes)", _TOOLS),
        ("path", "rewrite", "", 'write the path first: Audio("note.wav")', _TOOLS),
        (
            "format",
            "rewrite",
            "",
            'write the MIME type second: Audio(wav_bytes, "audio/wav")',
            _TOOLS,
        ),
    ),
    *_table(
        "File(…)",
        ("data", "rewrite", "", "write the bytes first: File(pdf_bytes)", _TOOLS),
        ("path", "rewrite", "", 'write the path first: File("report.pdf")', _TOOLS),
        (
            "format",
            "rewrite",
            "",
            'write the MIME type second: File(pdf_bytes, "application/pdf")',
            _TOOLS,
        ),
        ("name", "hand", "", "write uri=", _TOOLS),
    ),
    *_table(
        "run(…)",
        ("streamable-http", "rewrite", "http", 'write "http"', _RUNNING),
        ("show_banner", "drop", "", "leave it out", _RUNNING),
        ("log_level", "drop", "", "leave it out", _RUNNING),
        ("stateless_http", "drop", "", "leave it out; any worker serves any session", _RUNNING),
        ("json_response", "drop", "", "leave it out; what does not stream is JSON", _RUNNING),
        ("streamable_http_path", "rename", "path", "write path=", _RUNNING),
        ("mount_path", "hand", "", "mount the app with app.attach(…)", _RUNNING),
        ("middleware", "keep", "", "mount the app in a framework that has it", _RUNNING),
        ("uvicorn_config", "hand", "", "serve the app with uvicorn yourself", _RUNNING),
        ("event_store", "drop", "", "leave it out; streams can be resumed", _RUNNING),
        ("stateless", "drop", "", "leave it out; any worker serves any session", _RUNNING),
        ("transport_security", "keep", "", "write allowed_hosts=[…]", _RUNNING),
    ),
    *_table(
        "answer",
        ("content", "rename", "data", "write answer.data", _ASKING),
    ),
]


def _imports(how: How, guide: str, **names: str) -> list[PeerName]:
    return [PeerName("import", theirs, how, ours, "", guide) for theirs, ours in names.items()]


_IMPORTS: Final = [
    *_imports("rename", _SERVER, FastMCP="MCPKit", MCPServer="MCPKit"),
    PeerName("import", "Context", "rename", "Context", "write mcpkit.Context", _TOOLS),
    *_imports(
        "rename",
        _TOOLS,
        Annotations="Annotations",
        Audio="Audio",
        AudioContent="AudioContent",
        BlobResourceContents="BlobResourceContents",
        CallToolResult="ToolResult",
        ContentBlock="types.ContentBlock",
        EmbeddedResource="EmbeddedResource",
        File="File",
        Icon="Icon",
        Image="Image",
        ImageContent="ImageContent",
        ResourceLink="ResourceLink",
        TextContent="TextContent",
        TextResourceContents="TextResourceContents",
        ToolAnnotations="ToolAnnotations",
        ToolError="ToolError",
        ToolResult="ToolResult",
    ),
    *_imports(
        "rename",
        _RESOURCES,
        NotFoundError="ResourceNotFound",
        ResourceError="ResourceError",
        ResourceNotFoundError="ResourceNotFound",
    ),
    *_imports(
        "rename",
        "#prompts",
        AssistantMessage="AssistantMessage",
        GetPromptResult="PromptResult",
        Message="Message",
        PromptError="PromptError",
        PromptMessage="Message",
        PromptResult="PromptResult",
        UserMessage="UserMessage",
    ),
    *_imports(
        "rename",
        _ASKING,
        AcceptedElicitation="Accepted",
        AcceptedUrlElicitation="Accepted",
        CancelledElicitation="Dismissed",
        DeclinedElicitation="Declined",
        ElicitationResult="Elicitation",
        SamplingMessage="SampleMessage",
    ),
    *_imports(
        "rename",
        _NAMES,
        MCPError="ProtocolError",
        McpError="ProtocolError",
        UrlElicitationRequiredError="UrlElicitationRequired",
    ),
    *[
        PeerName("import", theirs, "rewrite", ours, f"write mcpkit.errors.{ours}", _NAMES)
        for theirs, ours in {
            "INTERNAL_ERROR": "InternalError",
            "INVALID_PARAMS": "InvalidParams",
            "INVALID_REQUEST": "InvalidRequest",
            "METHOD_NOT_FOUND": "MethodNotFound",
            "PARSE_ERROR": "ParseError",
        }.items()
    ],
    PeerName("import", "ErrorData", "rewrite", "", "write ProtocolError(message, code=…)", _NAMES),
    PeerName(
        "import",
        "Client",
        "rewrite",
        "Client",
        "write mcpkit.Client, or mcpkit.testing.AsyncTestClient for an app",
        _RUNNING,
    ),
    *[
        PeerName("import", theirs, "hand", "", say, guide)
        for theirs, say, guide in (
            ("Server", "there is no public low-level server; write tools as functions", _MISSING),
            ("stdio_server", "write app.run()", _RUNNING),
            ("get_context", "take a parameter ctx: Context", _TOOLS),
            ("get_http_headers", "write ctx.http.headers", _NAMES),
            ("get_http_request", "write ctx.http", _NAMES),
            ("get_access_token", "write ctx.principal", _MISSING),
            ("CurrentContext", "take a parameter ctx: Context", _TOOLS),
            ("Depends", "write name: Annotated[T, mcpkit.Depends(…)]", _TOOLS),
            ("Resolve", "write Annotated[T, Depends(fn)] or Annotated[T, Elicit(…)]", _ASKING),
            ("Elicit", "write Annotated[T, Elicit(fn)], where fn returns the message", _ASKING),
            ("Sample", "write await ctx.sample(…)", _ASKING),
            ("ClientSession", "write mcpkit.Client", _RUNNING),
            ("StdioServerParameters", 'write mcpkit.Client(["command", "argument"])', _RUNNING),
            ("stdio_client", 'write mcpkit.Client(["command", "argument"])', _RUNNING),
            ("streamablehttp_client", 'write mcpkit.Client("https://…")', _RUNNING),
            ("streamable_http_client", 'write mcpkit.Client("https://…")', _RUNNING),
            ("sse_client", 'write mcpkit.Client("https://…")', _RUNNING),
            (
                "create_connected_server_and_client_session",
                "write mcpkit.testing.AsyncTestClient(app)",
                _RUNNING,
            ),
            ("Tool", "register the function: app.add_tool(fn, …)", _TOOLS),
            ("FunctionTool", "register the function: app.add_tool(fn, …)", _TOOLS),
            ("Prompt", "register the function: app.add_prompt(fn, …)", "#prompts"),
            ("PromptArgument", "give the function parameters", "#prompts"),
            ("Resource", "register the function: app.add_resource(fn, uri, …)", _RESOURCES),
            ("FunctionResource", "write app.add_resource(fn, uri, …)", _RESOURCES),
            ("TextResource", "write a function with @app.resource(uri)", _RESOURCES),
            ("BinaryResource", "write a function with @app.resource(uri)", _RESOURCES),
            ("FileResource", "write app.files(path, uri)", _RESOURCES),
            ("DirectoryResource", "write app.files(path, uri)", _RESOURCES),
            ("ResourceTemplate", "write app.add_resource(fn, uri, …)", _RESOURCES),
            ("ResourceResult", "write mcpkit.ResourceResult, of contents", _RESOURCES),
            ("Middleware", "write @app.middleware over a function", _MISSING),
            ("MiddlewareContext", "write @app.middleware over a function", _MISSING),
            ("tool", "write @mcpkit.tool, and app.include(…) the module", _TOOLS),
            ("resource", "write @mcpkit.resource(uri), and app.include(…) the module", _RESOURCES),
            ("prompt", "write @mcpkit.prompt, and app.include(…) the module", "#prompts"),
            ("ServerRequestContext", "there is no low-level server; write functions", _MISSING),
            ("AccessToken", "put the app into a framework that has it", _MISSING),
            ("AuthSettings", "put the app into a framework that has it", _MISSING),
            ("TokenVerifier", "put the app into a framework that has it", _MISSING),
            ("JWTVerifier", "put the app into a framework that has it", _MISSING),
            ("create_proxy", "use mcpkit.Client inside of tools", _MISSING),
            ("ProxyClient", "use mcpkit.Client inside of tools", _MISSING),
            ("FastMCPError", "write mcpkit.MCPKitError", _TOOLS),
            ("ValidationError", "write mcpkit.ToolError", _TOOLS),
            ("ClientError", "look at is_error of the result", _RUNNING),
            ("TransportSecuritySettings", "pass allowed_hosts= to the endpoint", _RUNNING),
        )
    ],
]


@cache
def peer_names() -> dict[tuple[str, str], PeerName]:
    """Return the table, by what a name is written on and the name."""
    return {(each.on, each.theirs): each for each in (*_CONTEXT, *_APP, *_OPTIONS, *_IMPORTS)}


def named(on: str, theirs: str) -> PeerName | None:
    """Return what the table has for a name; None if it has nothing."""
    return peer_names().get((on, theirs))
