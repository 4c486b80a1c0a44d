"""The client: `Client`, the values that it returns, and `mcpkit.client.auth`."""

from __future__ import annotations

from mcpkit._utils.lazy import importer

TYPE_CHECKING = False  # type checkers know the name; importing `typing` for it would take longer
if TYPE_CHECKING:
    from mcpkit.client.client import Client as Client
    from mcpkit.client.connection import Handler as Handler
    from mcpkit.client.connection import Target as Target
    from mcpkit.client.results import CallResult as CallResult
    from mcpkit.client.results import Completion as Completion
    from mcpkit.client.results import InputRequest as InputRequest
    from mcpkit.client.results import ListedPrompt as ListedPrompt
    from mcpkit.client.results import ListedResource as ListedResource
    from mcpkit.client.results import ListedTemplate as ListedTemplate
    from mcpkit.client.results import ListedTool as ListedTool
    from mcpkit.client.results import Progress as Progress
    from mcpkit.client.results import PromptArgument as PromptArgument
    from mcpkit.client.results import PromptMessage as PromptMessage
    from mcpkit.client.results import PromptMessages as PromptMessages
    from mcpkit.client.results import TaskStatus as TaskStatus
    from mcpkit.client.skills import ListedFile as ListedFile
    from mcpkit.client.skills import ListedSkill as ListedSkill
    from mcpkit.client.tasks import TaskHandle as TaskHandle

__getattr__ = importer(
    __name__,
    {
        "mcpkit.client.client": "Client",
        "mcpkit.client.connection": "Handler Target",
        "mcpkit.client.results": (
            "CallResult Completion ListedPrompt ListedResource ListedTemplate ListedTool "
            "Progress PromptArgument PromptMessage PromptMessages InputRequest TaskStatus"
        ),
        "mcpkit.client.skills": "ListedFile ListedSkill",
        "mcpkit.client.tasks": "TaskHandle",
    },
)
