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
from mcpkit.context import Context, SyncContext
from mcpkit.errors import (
    ConnectionClosed,
    MCPKitError,
    PromptError,
    ProtocolError,
    RegistrationError,
    ResourceError,
    ResourceNotFound,
    ToolError,
)
from mcpkit.markers import Complete, Depends
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

__all__ = [
    "Annotations",
    "AssistantMessage",
    "Audio",
    "AudioContent",
    "BlobResourceContents",
    "Client",
    "Complete",
    "ConnectionClosed",
    "Context",
    "Depends",
    "EmbeddedResource",
    "File",
    "Icon",
    "Image",
    "ImageContent",
    "MCPKit",
    "MCPKitError",
    "Message",
    "PromptError",
    "PromptResult",
    "ProtocolError",
    "RegistrationError",
    "ResourceError",
    "ResourceLink",
    "ResourceNotFound",
    "ResourceResult",
    "SyncContext",
    "TextContent",
    "TextResourceContents",
    "ToolAnnotations",
    "ToolError",
    "ToolResult",
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
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
