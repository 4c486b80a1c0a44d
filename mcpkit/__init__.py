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

from typing import TYPE_CHECKING, Any

from mcpkit.app import MCPKit, prompt, resource, tool
from mcpkit.asks import Elicit, Root, Roots, Sample, SampleMessage, SampleResult
from mcpkit.context import Context, SyncContext
from mcpkit.elicitation import Accepted, Choices, Declined, Dismissed, Elicitation
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
    ToolError,
    UrlElicitationRequired,
)
from mcpkit.markers import Complete, Depends, Header
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
    PromptResult,
    ResourceLink,
    ResourceResult,
    TextContent,
    TextResourceContents,
    ToolAnnotations,
    ToolResult,
    UserMessage,
)

if TYPE_CHECKING:
    from mcpkit.client import Client
    from mcpkit.http import HttpOptions, HttpRequest

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
    "Choices",
    "Client",
    "Complete",
    "ConnectionClosed",
    "Context",
    "Declined",
    "Depends",
    "Dismissed",
    "Elicit",
    "Elicitation",
    "ElicitationError",
    "EmbeddedResource",
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


def __getattr__(name: str) -> Any:
    # A server never needs the client, nor the event loop that comes with it, to be imported.
    if name == "Client":
        from mcpkit.client import Client

        return Client
    if name in ("HttpOptions", "HttpRequest"):  # nor, unless it is served so, what HTTP adds
        import mcpkit.http

        return getattr(mcpkit.http, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
