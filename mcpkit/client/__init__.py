"""The client: `Client`, the values that it returns, and `mcpkit.client.auth`."""

from __future__ import annotations

from mcpkit._utils.lazy import importer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcpkit.client.client import Client, Handler, Target
    from mcpkit.client.results import (
        CallResult,
        Completion,
        ListedPrompt,
        ListedResource,
        ListedTemplate,
        ListedTool,
        PromptArgument,
        PromptMessage,
        PromptMessages,
    )
    from mcpkit.client.tasks import TaskHandle, TaskQuestion, TaskStatus

__all__ = [
    "CallResult",
    "Client",
    "Completion",
    "Handler",
    "ListedPrompt",
    "ListedResource",
    "ListedTemplate",
    "ListedTool",
    "PromptArgument",
    "PromptMessage",
    "PromptMessages",
    "Target",
    "TaskHandle",
    "TaskQuestion",
    "TaskStatus",
]

__getattr__ = importer(
    __name__,
    {
        "mcpkit.client.client": ["Client", "Handler", "Target"],
        "mcpkit.client.results": [
            "CallResult",
            "Completion",
            "ListedPrompt",
            "ListedResource",
            "ListedTemplate",
            "ListedTool",
            "PromptArgument",
            "PromptMessage",
            "PromptMessages",
        ],
        "mcpkit.client.tasks": ["TaskHandle", "TaskQuestion", "TaskStatus"],
    },
)
