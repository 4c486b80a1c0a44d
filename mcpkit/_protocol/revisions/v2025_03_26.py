"""Adds batching, audio, tool annotations, the completions capability and progress messages."""

from __future__ import annotations

from mcpkit._protocol.revision import Method, Revision

REVISION = Revision(
    version="2025-03-26",
    handshake=True,
    methods={
        "initialize": Method("initialize"),
        "ping": Method("ping"),
        "tools/list": Method("list_tools", "tools"),
        "tools/call": Method("call_tool", "tools", asks=True),
        "resources/list": Method("list_resources", "resources"),
        "resources/templates/list": Method("list_templates", "resources"),
        "resources/read": Method("read_resource", "resources", asks=True),
        "resources/subscribe": Method("subscribe", "resources"),
        "resources/unsubscribe": Method("unsubscribe", "resources"),
        "prompts/list": Method("list_prompts", "prompts"),
        "prompts/get": Method("get_prompt", "prompts", asks=True),
        "completion/complete": Method("complete", "completions"),
        "logging/setLevel": Method("set_level", "logging"),
    },
    notices={
        "notifications/initialized": "initialized",
        "notifications/cancelled": "cancelled",
        "notifications/progress": "progress",
        "notifications/roots/list_changed": "roots_changed",
    },
    batching=True,
    errors_without_id=False,
    resource_not_found=-32002,
    structured_output="none",
    content_types=frozenset({"text", "image", "resource", "audio"}),
    tool_members=frozenset({"name", "description", "inputSchema", "annotations"}),
    resource_members=frozenset({"uri", "name", "description", "mimeType", "size", "annotations"}),
    template_members=frozenset({"uriTemplate", "name", "description", "mimeType", "annotations"}),
    prompt_members=frozenset({"name", "description", "arguments"}),
    argument_members=frozenset({"name", "description", "required"}),
    implementation_members=frozenset({"name", "version"}),
    annotation_members=frozenset({"audience", "priority"}),
    block_meta=False,
    server_capabilities=frozenset(
        {"experimental", "logging", "prompts", "resources", "tools", "completions"}
    ),
    progress_message=True,
    completion_context=False,
    completion_flag=True,
    stamped=False,
    elicitation_modes=frozenset(),
    elicitation_ids=False,
    elicitation_rich=False,
    sampling_types=frozenset({"text", "image", "audio"}),
    sampling_tools=False,
    client_asks="request",
    polling=False,
    tasks="none",
)
