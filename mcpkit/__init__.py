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
from mcpkit._wings import PUBLIC as _PUBLIC

TYPE_CHECKING = False  # type checkers know the name; importing `typing` for it would take longer
if TYPE_CHECKING:
    from mcpkit._server.views import Caller as Caller
    from mcpkit.app import MCPKit as MCPKit
    from mcpkit.call_limits import CallLimits as CallLimits
    from mcpkit.client.client import Client as Client
    from mcpkit.client.results import InputRequest as InputRequest
    from mcpkit.client.results import TaskStatus as TaskStatus
    from mcpkit.client.tasks import TaskHandle as TaskHandle
    from mcpkit.context import CallNext as CallNext
    from mcpkit.context import Context as Context
    from mcpkit.context import SyncContext as SyncContext
    from mcpkit.dependencies import Claim as Claim
    from mcpkit.dependencies import Complete as Complete
    from mcpkit.dependencies import Depends as Depends
    from mcpkit.dependencies import Env as Env
    from mcpkit.dependencies import Idempotent as Idempotent
    from mcpkit.dependencies import MirroredHeader as MirroredHeader
    from mcpkit.elicitation import Accepted as Accepted
    from mcpkit.elicitation import Choices as Choices
    from mcpkit.elicitation import Declined as Declined
    from mcpkit.elicitation import Dismissed as Dismissed
    from mcpkit.elicitation import Elicit as Elicit
    from mcpkit.elicitation import Elicitation as Elicitation
    from mcpkit.errors import ConnectionClosed as ConnectionClosed
    from mcpkit.errors import ElicitationError as ElicitationError
    from mcpkit.errors import InputRequestError as InputRequestError
    from mcpkit.errors import InputRequestRefused as InputRequestRefused
    from mcpkit.errors import InputRequestTimeout as InputRequestTimeout
    from mcpkit.errors import InvalidInputResponse as InvalidInputResponse
    from mcpkit.errors import LimitExceeded as LimitExceeded
    from mcpkit.errors import MCPKitError as MCPKitError
    from mcpkit.errors import MissingClientCapability as MissingClientCapability
    from mcpkit.errors import PromptError as PromptError
    from mcpkit.errors import ProtocolError as ProtocolError
    from mcpkit.errors import RegistrationError as RegistrationError
    from mcpkit.errors import ResourceError as ResourceError
    from mcpkit.errors import ResourceNotFound as ResourceNotFound
    from mcpkit.errors import SkillError as SkillError
    from mcpkit.errors import TaskCancelled as TaskCancelled
    from mcpkit.errors import ToolError as ToolError
    from mcpkit.errors import UrlElicitationRequired as UrlElicitationRequired
    from mcpkit.extension import Extension as Extension
    from mcpkit.extensions.apps.extension import Apps as Apps
    from mcpkit.http import HttpRequest as HttpRequest
    from mcpkit.limits import Limits as Limits
    from mcpkit.prompts import prompt as prompt
    from mcpkit.resources import resource as resource
    from mcpkit.roots import Root as Root
    from mcpkit.roots import Roots as Roots
    from mcpkit.sampling import Sample as Sample
    from mcpkit.sampling import SampleMessage as SampleMessage
    from mcpkit.sampling import SampleResult as SampleResult
    from mcpkit.tasks.current import CurrentTask as CurrentTask
    from mcpkit.tasks.options import TaskOptions as TaskOptions
    from mcpkit.tasks.support import TaskSupport as TaskSupport
    from mcpkit.tools import tool as tool
    from mcpkit.transports.http.options import HttpOptions as HttpOptions
    from mcpkit.types import Annotations as Annotations
    from mcpkit.types import AssistantMessage as AssistantMessage
    from mcpkit.types import Audio as Audio
    from mcpkit.types import AudioContent as AudioContent
    from mcpkit.types import BlobResourceContents as BlobResourceContents
    from mcpkit.types import EmbeddedResource as EmbeddedResource
    from mcpkit.types import File as File
    from mcpkit.types import Icon as Icon
    from mcpkit.types import Image as Image
    from mcpkit.types import ImageContent as ImageContent
    from mcpkit.types import Message as Message
    from mcpkit.types import Principal as Principal
    from mcpkit.types import PromptResult as PromptResult
    from mcpkit.types import ResourceLink as ResourceLink
    from mcpkit.types import ResourceResult as ResourceResult
    from mcpkit.types import TextContent as TextContent
    from mcpkit.types import TextResourceContents as TextResourceContents
    from mcpkit.types import ToolAnnotations as ToolAnnotations
    from mcpkit.types import ToolResult as ToolResult
    from mcpkit.types import UserMessage as UserMessage
    from mcpkit.views import Html as Html

__getattr__ = importer(
    __name__,
    {
        **_PUBLIC,
        "mcpkit.app": "MCPKit",
        "mcpkit._server.views": "Caller",
        "mcpkit.context": "CallNext Context SyncContext",
        "mcpkit.dependencies": "Claim Complete Depends Env Idempotent MirroredHeader",
        "mcpkit.elicitation": "Accepted Choices Declined Dismissed Elicit Elicitation",
        "mcpkit.errors": (
            "ConnectionClosed ElicitationError InputRequestError InputRequestRefused "
            "InputRequestTimeout InvalidInputResponse LimitExceeded MCPKitError "
            "MissingClientCapability PromptError ProtocolError RegistrationError ResourceError "
            "ResourceNotFound SkillError TaskCancelled ToolError UrlElicitationRequired"
        ),
        "mcpkit.extension": "Extension",
        "mcpkit.http": "HttpRequest",
        "mcpkit.limits": "Limits",
        "mcpkit.prompts": "prompt",
        "mcpkit.resources": "resource",
        "mcpkit.roots": "Root Roots",
        "mcpkit.sampling": "Sample SampleMessage SampleResult",
        "mcpkit.tools": "tool",
        "mcpkit.transports.http.options": "HttpOptions",
        "mcpkit.types": (
            "Annotations AssistantMessage Audio AudioContent BlobResourceContents "
            "EmbeddedResource File Icon Image ImageContent Message Principal PromptResult "
            "ResourceLink ResourceResult TextContent TextResourceContents ToolAnnotations "
            "ToolResult UserMessage"
        ),
    },
)
