"""The client: `Client`, the values that it returns, and `mcpkit.client.auth`."""

from __future__ import annotations

from mcpkit._utils.lazy import importer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcpkit.client.client import Client
    from mcpkit.client.connection import Handler, Target
    from mcpkit.client.results import (
        CallResult,
        Completion,
        ListedPrompt,
        ListedResource,
        ListedTemplate,
        ListedTool,
        Progress,
        PromptArgument,
        PromptMessage,
        PromptMessages,
        TaskQuestion,
        TaskStatus,
    )
    from mcpkit.client.tasks import TaskHandle

__all__ = [
    "CallResult",
    "Client",
    "Completion",
    "Handler",
    "ListedPrompt",
    "ListedResource",
    "ListedTemplate",
    "ListedTool",
    "Progress",
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
        "mcpkit.client.results": __all__,  # but for those of the other modules
        "mcpkit.client.client": ["Client"],
        "mcpkit.client.connection": ["Handler", "Target"],
        "mcpkit.client.tasks": ["TaskHandle"],
    },
)
