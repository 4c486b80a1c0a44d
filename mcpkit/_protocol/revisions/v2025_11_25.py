"""Adds icons and longer descriptions of an implementation; the last with a handshake."""

from __future__ import annotations

from mcpkit._protocol.revision import Method, Revision

REVISION = Revision(
    version="2025-11-25",
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
        "tasks/get": Method("get_task", "tasks"),
        "tasks/result": Method("task_result", "tasks", asks=True),
        "tasks/list": Method("list_tasks", "tasks"),
        "tasks/cancel": Method("cancel_task", "tasks"),
    },
    notices={
        "notifications/initialized": "initialized",
        "notifications/cancelled": "cancelled",
        "notifications/progress": "progress",
        "notifications/roots/list_changed": "roots_changed",
    },
    batching=False,
    errors_without_id=True,
    resource_not_found=-32002,
    structured_output="object",
    content_types=frozenset({"text", "image", "resource", "audio", "resource_link"}),
    tool_members=frozenset(
        {
            "name",
            "description",
            "inputSchema",
            "annotations",
            "title",
            "outputSchema",
            "_meta",
            "icons",
            "execution",
        }
    ),
    resource_members=frozenset(
        {"uri", "name", "description", "mimeType", "size", "annotations", "title", "_meta", "icons"}
    ),
    template_members=frozenset(
        {"uriTemplate", "name", "description", "mimeType", "annotations", "title", "_meta", "icons"}
    ),
    prompt_members=frozenset({"name", "description", "arguments", "title", "_meta", "icons"}),
    argument_members=frozenset({"name", "description", "required", "title"}),
    implementation_members=frozenset(
        {"name", "version", "title", "description", "websiteUrl", "icons"}
    ),
    annotation_members=frozenset({"audience", "priority", "lastModified"}),
    block_meta=True,
    server_capabilities=frozenset(
        {"experimental", "logging", "prompts", "resources", "tools", "completions", "tasks"}
    ),
    progress_message=True,
    completion_context=True,
    completion_flag=True,
    stamped=False,
    elicitation_modes=frozenset({"form", "url"}),
    elicitation_ids=True,
    elicitation_rich=True,
    sampling_types=frozenset({"text", "image", "audio", "tool_use", "tool_result"}),
    sampling_tools=True,
    client_asks="request",
    polling=True,
    tasks="wished",
)
