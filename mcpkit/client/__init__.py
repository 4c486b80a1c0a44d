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

_ELSEWHERE = {
    "mcpkit.client.client": ["Client"],
    "mcpkit.client.connection": ["Handler", "Target"],
    "mcpkit.client.tasks": ["TaskHandle"],
}
_NAMED = {name for names in _ELSEWHERE.values() for name in names}

__getattr__ = importer(
    __name__,
    {**_ELSEWHERE, "mcpkit.client.results": [name for name in __all__ if name not in _NAMED]},
)
