"""mcpkit: MCP servers from decorated Python functions, for every protocol revision at once.

    from mcpkit import MCPKit

    app = MCPKit("trips")

    @app.tool
    def add(a: int, b: int) -> int:
        "Add two numbers."
        return a + b

`mcpkit run server.py` serves it.
"""

from __future__ import annotations

TYPE_CHECKING = False  # Type checkers know the name; importing `typing` for it would take longer.
if TYPE_CHECKING:
    from typing import Any

    from mcpkit.app import MCPKit, prompt, resource, tool
    from mcpkit.asking.elicitation import Accepted, Declined, Dismissed, Elicit, Elicitation
    from mcpkit.asking.forms import Choices
    from mcpkit.asking.roots import Root, Roots
    from mcpkit.asking.sampling import Sample, SampleMessage, SampleResult
    from mcpkit.client import Client
    from mcpkit.client_tasks import TaskHandle, TaskQuestion, TaskStatus
    from mcpkit.context import CallNext, Context, CurrentTask, SyncContext
    from mcpkit.errors import (
        AskError,
        AskRefused,
        AskTimeout,
        ConnectionClosed,
        ElicitationError,
        InvalidAnswer,
        MCPKitError,
        MissingClientCapability,
        PromptError,
        ProtocolError,
        RegistrationError,
        ResourceError,
        ResourceNotFound,
        TaskCancelled,
        ToolError,
        UrlElicitationRequired,
    )
    from mcpkit.functions.markers import Claim, Complete, Depends, Env, Header
    from mcpkit.tasks.settings import TaskOptions
    from mcpkit.types import (
        Annotations,
        AssistantMessage,
        Audio,
        AudioContent,
        BlobResourceContents,
        EmbeddedResource,
        File,
        Icon,
        Image,
        ImageContent,
        Message,
        Principal,
        PromptResult,
        ResourceLink,
        ResourceResult,
        TextContent,
        TextResourceContents,
        ToolAnnotations,
        ToolResult,
        UserMessage,
    )
    from mcpkit.web import HttpOptions, HttpRequest

__all__ = [
    "Accepted",
    "Annotations",
    "AskError",
    "AskRefused",
    "AskTimeout",
    "AssistantMessage",
    "Audio",
    "AudioContent",
    "BlobResourceContents",
    "CallNext",
    "Choices",
    "Claim",
    "Client",
    "Complete",
    "ConnectionClosed",
    "Context",
    "CurrentTask",
    "Declined",
    "Depends",
    "Dismissed",
    "Elicit",
    "Elicitation",
    "ElicitationError",
    "EmbeddedResource",
    "Env",
    "File",
    "Header",
    "HttpOptions",
    "HttpRequest",
    "Icon",
    "Image",
    "ImageContent",
    "InvalidAnswer",
    "MCPKit",
    "MCPKitError",
    "Message",
    "MissingClientCapability",
    "Principal",
    "PromptError",
    "PromptResult",
    "ProtocolError",
    "RegistrationError",
    "ResourceError",
    "ResourceLink",
    "ResourceNotFound",
    "ResourceResult",
    "Root",
    "Roots",
    "Sample",
    "SampleMessage",
    "SampleResult",
    "SyncContext",
    "TaskCancelled",
    "TaskHandle",
    "TaskOptions",
    "TaskQuestion",
    "TaskStatus",
    "TextContent",
    "TextResourceContents",
    "ToolAnnotations",
    "ToolError",
    "ToolResult",
    "UrlElicitationRequired",
    "UserMessage",
    "prompt",
    "resource",
    "tool",
]

_HOMES = {
    "mcpkit.app": ["MCPKit", "prompt", "resource", "tool"],
    "mcpkit.asking.elicitation": [
        "Accepted",
        "Declined",
        "Dismissed",
        "Elicit",
        "Elicitation",
    ],
    "mcpkit.asking.forms": ["Choices"],
    "mcpkit.asking.roots": ["Root", "Roots"],
    "mcpkit.asking.sampling": ["Sample", "SampleMessage", "SampleResult"],
    "mcpkit.client": ["Client"],
    "mcpkit.client_tasks": ["TaskHandle", "TaskQuestion", "TaskStatus"],
    "mcpkit.context": ["CallNext", "Context", "CurrentTask", "SyncContext"],
    "mcpkit.tasks.settings": ["TaskOptions"],
    "mcpkit.errors": [
        "AskError",
        "AskRefused",
        "AskTimeout",
        "ConnectionClosed",
        "ElicitationError",
        "InvalidAnswer",
        "MCPKitError",
        "MissingClientCapability",
        "PromptError",
        "ProtocolError",
        "RegistrationError",
        "ResourceError",
        "ResourceNotFound",
        "TaskCancelled",
        "ToolError",
        "UrlElicitationRequired",
    ],
    "mcpkit.web": ["HttpOptions", "HttpRequest"],
    "mcpkit.functions.markers": ["Claim", "Complete", "Depends", "Env", "Header"],
    "mcpkit.types": [
        "Annotations",
        "AssistantMessage",
        "Audio",
        "AudioContent",
        "BlobResourceContents",
        "EmbeddedResource",
        "File",
        "Icon",
        "Image",
        "ImageContent",
        "Message",
        "Principal",
        "PromptResult",
        "ResourceLink",
        "ResourceResult",
        "TextContent",
        "TextResourceContents",
        "ToolAnnotations",
        "ToolResult",
        "UserMessage",
    ],
}
"""Module → the public names that it has."""

_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """A public name, its module imported when it is first asked for (PEP 562).

    So nobody waits for what they do not use: a server not for the client and its event loop, the
    command line's help and completion for none of it.
    """
    module = _HOME_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    found = globals()[name] = getattr(import_module(module), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
