"""Removes the handshake: every request announces itself, and every result is stamped."""

from __future__ import annotations

from mcpkit._protocol.revision import Method, Revision

REVISION = Revision(
    version="2026-07-28",
    handshake=False,
    methods={
        "server/discover": Method("discover", cacheable=True),
        "tools/list": Method("list_tools", "tools", cacheable=True),
        "tools/call": Method("call_tool", "tools", asks=True, mirrored="name"),
        "resources/list": Method("list_resources", "resources", cacheable=True),
        "resources/templates/list": Method("list_templates", "resources", cacheable=True),
        "resources/read": Method(
            "read_resource", "resources", cacheable=True, asks=True, mirrored="uri"
        ),
        "prompts/list": Method("list_prompts", "prompts", cacheable=True),
        "prompts/get": Method("get_prompt", "prompts", asks=True, mirrored="name"),
        "completion/complete": Method("complete", "completions"),
        "subscriptions/listen": Method("listen"),
        "tasks/get": Method("get_task", "tasks", mirrored="taskId"),
        "tasks/update": Method("update_task", "tasks", mirrored="taskId"),
        "tasks/cancel": Method("cancel_task", "tasks", mirrored="taskId"),
    },
    notices={"notifications/cancelled": "cancelled"},
    batching=False,
    errors_without_id=True,
    resource_not_found=-32602,
    structured_output="any",
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
        {"experimental", "logging", "prompts", "resources", "tools", "completions", "extensions"}
    ),
    progress_message=True,
    completion_context=True,
    completion_flag=True,
    stamped=True,
    elicitation_modes=frozenset({"form", "url"}),
    elicitation_ids=False,
    elicitation_rich=True,
    sampling_types=frozenset({"text", "image", "audio", "tool_use", "tool_result"}),
    sampling_tools=True,
    client_asks="result",
    polling=False,
    tasks="extension",
)
