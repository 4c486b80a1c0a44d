"""The five revisions of the protocol, as data: every question in which they differ.

No other module names a version. A revision is a value, written as what it changes in the one
before; to add one, write `replace()` of the newest, and list it in `REVISIONS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeAlias

from mcpkit._utils.json import value_at

Capability: TypeAlias = Literal["tools", "resources", "prompts", "completions", "logging", "tasks"]
"""A server capability that must be advertised before its methods exist."""

APPS_EXTENSION: Final = "io.modelcontextprotocol/ui"
"""The name of the extension for views, in capabilities (APP-1)."""

VIEW_TYPE: Final = "text/html;profile=mcp-app"
"""The MIME type of views (APP-3)."""

Notice: TypeAlias = Literal["initialized", "cancelled", "progress", "roots_changed"]
"""The meaning of a notification from the client."""


class Declarable(Protocol):
    """An extension, which knows how capabilities declare it; see `mcpkit.Extension`."""

    def declared_in(self, capabilities: Mapping[str, Any], /) -> Mapping[str, Any] | None: ...


class ClientProfile(NamedTuple):
    """The facts that a client states about itself, in the handshake or in one request.

    Args:
        capabilities: The object as it was sent.
        info: ``clientInfo`` as it was sent; None if it was not.
    """

    capabilities: Mapping[str, Any]
    info: Mapping[str, Any] | None

    def supports(self, *path: str | Declarable) -> bool:
        """Return True if the client declared a capability: ``supports("sampling", "tools")``.

        Or an extension: ``supports(Apps)``. An empty ``elicitation`` means form mode (ELIC-1).
        """
        if len(path) == 1 and not isinstance(path[0], str):
            return path[0].declared_in(self.capabilities) is not None
        if path == ("elicitation", "form") and self.capabilities.get("elicitation") == {}:
            return True
        value = value_at(self.capabilities, *map(str, path))
        return value is not None and value is not False

    @property
    def shows_views(self) -> bool:
        """True if the client shows the views of tools (APP-2)."""
        types = value_at(self.capabilities, "extensions", APPS_EXTENSION, "mimeTypes")
        return isinstance(types, list) and VIEW_TYPE in types


UNKNOWN_CLIENT: Final = ClientProfile({}, None)


class Method(NamedTuple):
    """A request that a client may send, or a notification of an extension.

    Args:
        operation: The name of its handler in `mcpkit._server`.
        capability: The capability, or the extension, that the server must advertise, or None.
        cacheable: Whether its complete result carries cache hints.
        may_request_input: Whether its handler may request input (``input_required``).
        mirrored: The member of the params that the HTTP header ``Mcp-Name`` repeats, or None.
        is_notification: Whether it has no response.
    """

    operation: str
    capability: str | None = None
    cacheable: bool = False
    may_request_input: bool = False
    mirrored: str | None = None
    is_notification: bool = False


@dataclass(slots=True, eq=False, repr=False)
class Revision:
    """One dated revision of the protocol. The defaults are those of the oldest.

    Args:
        version: The string on the wire.
        handshake: Whether ``initialize`` opens a session; otherwise each request announces version
            and capabilities in its ``_meta``.
        methods: The requests a client may send.
        notices: The notifications a client may send.
        batching: Whether an array of messages is a message.
        errors_without_id: Whether an error response may omit an id that could not be read.
        resource_not_found: The error code for a URI without a resource.
        structured_output: The type that ``structuredContent`` may have.
        content_types: The types of content blocks.
        tool_members, resource_members, template_members, prompt_members, argument_members,
        implementation_members, annotation_members: The members that a description may have.
        block_meta: Whether content blocks and resource contents may carry ``_meta``.
        server_capabilities: The members that a server's capabilities object may have.
        progress_message: Whether a progress notification may carry a message.
        completion_context: Whether a completion request carries the arguments filled in before.
        result_metadata: Whether results carry ``resultType``, the server's identity, cache hints.
        elicitation_modes: The ways to ask a user: by a form, by a URL to open.
        elicitation_ids: Whether a URL to open has an id that can be reported as completed.
        elicitation_rich: Whether forms have defaults, titled choices and multiple choices.
        sampling_types: The types of content blocks that a model may be given, and may return.
        sampling_tools: Whether a model may be given tools, and messages several blocks.
        input_via: How a handler requests input: with a request to the client, or with a result.
        polling: Whether a client reconnects to a stream that was closed before its end.
        tasks: Who decides that a call becomes a task: the client, with a member of the call
            (2025-11-25), or the server, if the client supports the extension (2026-07-28).
    """

    version: str
    methods: Mapping[str, Method]
    notices: Mapping[str, Notice]
    handshake: bool = True
    batching: bool = False
    errors_without_id: bool = False
    resource_not_found: int = -32002
    structured_output: Literal["none", "object", "any"] = "none"
    content_types: frozenset[str] = frozenset({"text", "image", "resource"})
    tool_members: frozenset[str] = frozenset({"name", "description", "inputSchema"})
    resource_members: frozenset[str] = frozenset(
        {"uri", "name", "description", "mimeType", "size", "annotations"}
    )
    template_members: frozenset[str] = frozenset(
        {"uriTemplate", "name", "description", "mimeType", "annotations"}
    )
    prompt_members: frozenset[str] = frozenset({"name", "description", "arguments"})
    argument_members: frozenset[str] = frozenset({"name", "description", "required"})
    implementation_members: frozenset[str] = frozenset({"name", "version"})
    annotation_members: frozenset[str] = frozenset({"audience", "priority"})
    block_meta: bool = False
    server_capabilities: frozenset[str] = frozenset(
        {"experimental", "logging", "prompts", "resources", "tools"}
    )
    progress_message: bool = False
    completion_context: bool = False
    result_metadata: bool = False
    elicitation_modes: frozenset[str] = frozenset()
    elicitation_ids: bool = False
    elicitation_rich: bool = False
    sampling_types: frozenset[str] = frozenset({"text", "image"})
    sampling_tools: bool = False
    input_via: Literal["request", "result"] = "request"
    polling: bool = False
    tasks: Literal["none", "client", "extension"] = "none"

    def keep(self, members: frozenset[str], value: Mapping[str, Any]) -> dict[str, Any]:
        """Return the members of a description that this revision has (CONT-2)."""
        return {name: item for name, item in value.items() if name in members}

    def lets_ask(self, *path: object) -> bool:
        """Return False if a capability of clients is newer than this revision."""
        match path:
            case ("elicitation", *mode):
                return self.elicitation_modes.issuperset(mode) and bool(self.elicitation_modes)
            case ("sampling", "tools"):
                return self.sampling_tools
            case _:
                return True

    def __repr__(self) -> str:
        return f"<Revision {self.version}>"


# The handshake, text, images and embedded resources.
_V2024_11_05 = Revision(
    version="2024-11-05",
    methods={
        "initialize": Method("initialize"),
        "ping": Method("ping"),
        "tools/list": Method("list_tools", "tools"),
        "tools/call": Method("call_tool", "tools", may_request_input=True),
        "resources/list": Method("list_resources", "resources"),
        "resources/templates/list": Method("list_templates", "resources"),
        "resources/read": Method("read_resource", "resources", may_request_input=True),
        "resources/subscribe": Method("subscribe", "resources"),
        "resources/unsubscribe": Method("unsubscribe", "resources"),
        "prompts/list": Method("list_prompts", "prompts"),
        "prompts/get": Method("get_prompt", "prompts", may_request_input=True),
        "completion/complete": Method("complete", "completions"),
        "logging/setLevel": Method("set_level", "logging"),
    },
    notices={
        "notifications/initialized": "initialized",
        "notifications/cancelled": "cancelled",
        "notifications/progress": "progress",
        "notifications/roots/list_changed": "roots_changed",
    },
)

# Adds batching, audio, tool annotations, the completions capability and progress messages.
_V2025_03_26 = replace(
    _V2024_11_05,
    version="2025-03-26",
    batching=True,
    content_types=_V2024_11_05.content_types | {"audio"},
    tool_members=_V2024_11_05.tool_members | {"annotations"},
    server_capabilities=_V2024_11_05.server_capabilities | {"completions"},
    progress_message=True,
    sampling_types=_V2024_11_05.sampling_types | {"audio"},
)

# Removes batching; adds titles, structured output, resource links, forms and completion context.
_V2025_06_18 = replace(
    _V2025_03_26,
    version="2025-06-18",
    batching=False,
    structured_output="object",
    content_types=_V2025_03_26.content_types | {"resource_link"},
    tool_members=_V2025_03_26.tool_members | {"title", "outputSchema", "_meta"},
    resource_members=_V2025_03_26.resource_members | {"title", "_meta"},
    template_members=_V2025_03_26.template_members | {"title", "_meta"},
    prompt_members=_V2025_03_26.prompt_members | {"title", "_meta"},
    argument_members=_V2025_03_26.argument_members | {"title"},
    implementation_members=_V2025_03_26.implementation_members | {"title"},
    annotation_members=_V2025_03_26.annotation_members | {"lastModified"},
    block_meta=True,
    completion_context=True,
    elicitation_modes=frozenset({"form"}),
)

# Adds icons, tasks, tools in sampling, and URLs to open. The last revision with a handshake.
_V2025_11_25 = replace(
    _V2025_06_18,
    version="2025-11-25",
    methods={
        **_V2025_06_18.methods,
        "tasks/get": Method("get_task", "tasks"),
        "tasks/result": Method("task_result", "tasks", may_request_input=True),
        "tasks/list": Method("list_tasks", "tasks"),
        "tasks/cancel": Method("cancel_task", "tasks"),
    },
    errors_without_id=True,
    tool_members=_V2025_06_18.tool_members | {"icons", "execution"},
    resource_members=_V2025_06_18.resource_members | {"icons"},
    template_members=_V2025_06_18.template_members | {"icons"},
    prompt_members=_V2025_06_18.prompt_members | {"icons"},
    implementation_members=_V2025_06_18.implementation_members
    | {"description", "websiteUrl", "icons"},
    server_capabilities=_V2025_06_18.server_capabilities | {"tasks"},
    elicitation_modes=frozenset({"form", "url"}),
    elicitation_ids=True,
    elicitation_rich=True,
    sampling_types=_V2025_06_18.sampling_types | {"tool_use", "tool_result"},
    sampling_tools=True,
    polling=True,
    tasks="client",
)

# Removes the handshake: every request announces itself, and every result carries metadata.
_V2026_07_28 = replace(
    _V2025_11_25,
    version="2026-07-28",
    handshake=False,
    methods={
        "server/discover": Method("discover", cacheable=True),
        "tools/list": Method("list_tools", "tools", cacheable=True),
        "tools/call": Method("call_tool", "tools", may_request_input=True, mirrored="name"),
        "resources/list": Method("list_resources", "resources", cacheable=True),
        "resources/templates/list": Method("list_templates", "resources", cacheable=True),
        "resources/read": Method(
            "read_resource", "resources", cacheable=True, may_request_input=True, mirrored="uri"
        ),
        "prompts/list": Method("list_prompts", "prompts", cacheable=True),
        "prompts/get": Method("get_prompt", "prompts", may_request_input=True, mirrored="name"),
        "completion/complete": Method("complete", "completions"),
        "subscriptions/listen": Method("listen"),
        "tasks/get": Method("get_task", "tasks", mirrored="taskId"),
        "tasks/update": Method("update_task", "tasks", mirrored="taskId"),
        "tasks/cancel": Method("cancel_task", "tasks", mirrored="taskId"),
    },
    notices={"notifications/cancelled": "cancelled"},
    resource_not_found=-32602,
    structured_output="any",
    tool_members=_V2025_11_25.tool_members - {"execution"},
    server_capabilities=_V2025_11_25.server_capabilities - {"tasks"} | {"extensions"},
    result_metadata=True,
    elicitation_ids=False,
    input_via="result",
    polling=False,
    tasks="extension",
)

REVISIONS: Final = (_V2024_11_05, _V2025_03_26, _V2025_06_18, _V2025_11_25, _V2026_07_28)
"""All revisions, oldest first."""

BY_VERSION: Final[dict[str, Revision]] = {each.version: each for each in REVISIONS}
OPERATIONS: Final = {
    name: each.operation for revision in REVISIONS for name, each in revision.methods.items()
}
"""Method → the name of its handler."""

HANDSHAKE: Final = tuple(each for each in REVISIONS if each.handshake)
PER_REQUEST: Final = tuple(each for each in REVISIONS if not each.handshake)
