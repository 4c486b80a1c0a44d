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

from mcpkit._utils.lazy import importer

TYPE_CHECKING = False  # Type checkers know the name; importing `typing` for it would take longer.
if TYPE_CHECKING:
    from mcpkit._forms import Choices
    from mcpkit.app import MCPKit, prompt, resource, tool
    from mcpkit.client.client import Client
    from mcpkit.client.results import TaskQuestion, TaskStatus
    from mcpkit.client.tasks import TaskHandle
    from mcpkit.context import CallNext, Context, CurrentTask, SyncContext
    from mcpkit.dependencies import Claim, Complete, Depends, Env, Header
    from mcpkit.elicitation import Accepted, Declined, Dismissed, Elicit, Elicitation
    from mcpkit.errors import (
        ConnectionClosed,
        ElicitationError,
        InputRequestError,
        InputRequestRefused,
        InputRequestTimeout,
        InvalidInputResponse,
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
    from mcpkit.http import HttpRequest
    from mcpkit.limits import Limits
    from mcpkit.roots import Root, Roots
    from mcpkit.sampling import Sample, SampleMessage, SampleResult
    from mcpkit.tasks.options import TaskOptions
    from mcpkit.transports.http.options import HttpOptions
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

__all__ = [
    "Accepted",
    "Annotations",
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
    "InputRequestError",
    "InputRequestRefused",
    "InputRequestTimeout",
    "InvalidInputResponse",
    "Limits",
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
    "mcpkit.elicitation": [
        "Accepted",
        "Declined",
        "Dismissed",
        "Elicit",
        "Elicitation",
    ],
    "mcpkit._forms": ["Choices"],
    "mcpkit.roots": ["Root", "Roots"],
    "mcpkit.sampling": ["Sample", "SampleMessage", "SampleResult"],
    "mcpkit.client.client": ["Client"],
    "mcpkit.client.results": ["TaskQuestion", "TaskStatus"],
    "mcpkit.client.tasks": ["TaskHandle"],
    "mcpkit.context": ["CallNext", "Context", "CurrentTask", "SyncContext"],
    "mcpkit.tasks.options": ["TaskOptions"],
    "mcpkit.errors": [
        "InputRequestError",
        "InputRequestRefused",
        "InputRequestTimeout",
        "ConnectionClosed",
        "ElicitationError",
        "InvalidInputResponse",
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
    "mcpkit.http": ["HttpRequest"],
    "mcpkit.limits": ["Limits"],
    "mcpkit.transports.http.options": ["HttpOptions"],
    "mcpkit.dependencies": ["Claim", "Complete", "Depends", "Env", "Header"],
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

__getattr__ = importer(
    __name__,
    _HOMES,
    renamed={
        "AskError": "InputRequestError",
        "AskRefused": "InputRequestRefused",
        "AskTimeout": "InputRequestTimeout",
        "InvalidAnswer": "InvalidInputResponse",
    },
)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
