"""The results a client receives, as Python values; `raw` always has the object as it was sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from mcpkit._protocol import wire
from mcpkit._utils.json import UNSET, is_object
from mcpkit.types import (
    Annotations,
    ContentBlock,
    EmbeddedResource,
    Icon,
    Role,
    TextContent,
    TextResourceContents,
    ToolAnnotations,
)

__all__ = [
    "CallResult",
    "Completion",
    "ListedPrompt",
    "ListedResource",
    "ListedTemplate",
    "ListedTool",
    "PromptArgument",
    "PromptMessage",
    "PromptMessages",
]

Raw = Mapping[str, Any]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ListedTool:
    """An entry of ``tools/list``."""

    name: str
    title: str | None
    description: str | None
    input_schema: Raw
    output_schema: Raw | None
    annotations: ToolAnnotations | None
    icons: Sequence[Icon] | None
    raw: Raw

    @classmethod
    def from_wire(cls, raw: Raw) -> ListedTool:
        """Return the value for an object as it was sent.

        Raises:
            KeyError, TypeError, AttributeError, ValueError: A member is missing or malformed.
        """
        hints = raw.get("annotations")
        return cls(
            wire.text_in(raw, "name"),
            raw.get("title"),
            raw.get("description"),
            raw["inputSchema"],
            raw.get("outputSchema"),
            None if hints is None else wire.hints_from_wire(hints),
            wire.icons_from_wire(raw.get("icons")),
            raw,
        )

    @property
    def task_support(self) -> str:
        """Whether a call may become a task: ``forbidden``, ``optional`` or ``required``.

        In 2026-07-28 a tool does not say so.
        """
        execution = self.raw.get("execution")
        found = execution.get("taskSupport") if is_object(execution) else None
        return found if found in ("optional", "required") else "forbidden"


@dataclass(frozen=True, slots=True)
class ListedResource:
    """An entry of ``resources/list``."""

    uri: str
    name: str
    title: str | None
    description: str | None
    mime_type: str | None
    size: int | None
    annotations: Annotations | None
    raw: Raw

    @classmethod
    def from_wire(cls, raw: Raw) -> ListedResource:
        """Return the value for an object as it was sent.

        Raises:
            KeyError, TypeError, AttributeError, ValueError: A member is missing or malformed.
        """
        return cls(
            wire.text_in(raw, "uri"),
            wire.text_in(raw, "name"),
            raw.get("title"),
            raw.get("description"),
            raw.get("mimeType"),
            raw.get("size"),
            wire.annotations_from_wire(raw.get("annotations")),
            raw,
        )


@dataclass(frozen=True, slots=True)
class ListedTemplate:
    """An entry of ``resources/templates/list``."""

    uri_template: str
    name: str
    title: str | None
    description: str | None
    mime_type: str | None
    raw: Raw

    @classmethod
    def from_wire(cls, raw: Raw) -> ListedTemplate:
        """Return the value for an object as it was sent.

        Raises:
            KeyError, TypeError, AttributeError, ValueError: A member is missing or malformed.
        """
        return cls(
            wire.text_in(raw, "uriTemplate"),
            wire.text_in(raw, "name"),
            raw.get("title"),
            raw.get("description"),
            raw.get("mimeType"),
            raw,
        )


@dataclass(frozen=True, slots=True)
class PromptArgument:
    """An argument of a prompt."""

    name: str
    title: str | None
    description: str | None
    required: bool


@dataclass(frozen=True, slots=True)
class ListedPrompt:
    """An entry of ``prompts/list``."""

    name: str
    title: str | None
    description: str | None
    arguments: Sequence[PromptArgument]
    raw: Raw

    @classmethod
    def from_wire(cls, raw: Raw) -> ListedPrompt:
        """Return the value for an object as it was sent.

        Raises:
            KeyError, TypeError, AttributeError, ValueError: A member is missing or malformed.
        """
        arguments = [
            PromptArgument(
                wire.text_in(each, "name"),
                each.get("title"),
                each.get("description"),
                bool(each.get("required", False)),
            )
            for each in raw.get("arguments") or ()
        ]
        return cls(
            wire.text_in(raw, "name"), raw.get("title"), raw.get("description"), arguments, raw
        )


@dataclass(frozen=True, slots=True)
class CallResult:
    """The result of a tool call.

    Args:
        content: The blocks for the model.
        structured_content: As on the wire; `UNSET` if there is none.
        is_error: True if the tool reports a failure.
        meta: The result's ``_meta``; empty if it has none.
        raw: The result as it was sent.
    """

    content: Sequence[ContentBlock]
    structured_content: Any
    is_error: bool
    meta: Raw
    raw: Raw

    @classmethod
    def from_wire(cls, raw: Raw) -> CallResult:
        """Return the value for an object as it was sent.

        Raises:
            KeyError, TypeError, AttributeError, ValueError: A member is missing or malformed.
        """
        return cls(
            [wire.block_from_wire(each) for each in raw["content"]],
            raw.get("structuredContent", UNSET),
            bool(raw.get("isError", False)),
            raw.get("_meta") or {},
            raw,
        )

    @property
    def text(self) -> str:
        """The text of all blocks that have one, a line each."""
        return "\n".join(text for text in map(_text_of, self.content) if text is not None)

    @property
    def data(self) -> Any:
        """The structured content, out of the wrapper ``{"result": …}`` that servers put around
        anything but an object; None if there is none."""
        found = self.structured_content
        if found is UNSET:
            return None
        wrapped = is_object(found) and found.keys() == {"result"}
        return found["result"] if wrapped else found


def _text_of(block: ContentBlock) -> str | None:
    if isinstance(block, TextContent):
        return block.text
    if isinstance(block, EmbeddedResource) and isinstance(block.resource, TextResourceContents):
        return block.resource.text
    return None


@dataclass(frozen=True, slots=True)
class PromptMessage:
    """A message of a prompt, its content made a block."""

    role: Role
    content: ContentBlock

    @property
    def text(self) -> str:
        """The text of the content; empty if it is something else."""
        return _text_of(self.content) or ""


@dataclass(frozen=True, slots=True)
class PromptMessages:
    """The result of ``prompts/get``."""

    messages: Sequence[PromptMessage]
    description: str | None
    raw: Raw

    @classmethod
    def from_wire(cls, raw: Raw) -> PromptMessages:
        """Return the value for an object as it was sent.

        Raises:
            KeyError, TypeError, AttributeError, ValueError: A member is missing or malformed.
        """
        messages = [
            PromptMessage(each["role"], wire.block_from_wire(each["content"]))
            for each in raw["messages"]
        ]
        return cls(messages, raw.get("description"), raw)


@dataclass(frozen=True, slots=True)
class Completion:
    """The result of ``completion/complete``."""

    values: Sequence[str]
    total: int | None
    has_more: bool

    @classmethod
    def from_wire(cls, raw: Raw) -> Completion:
        """Return the value for an object as it was sent.

        Raises:
            KeyError, TypeError, AttributeError, ValueError: A member is missing or malformed.
        """
        found = raw["completion"]
        return cls(found["values"], found.get("total"), bool(found.get("hasMore", False)))


def parse(make: Callable[[Raw], T], raw: Raw, what: str) -> T:
    """Read a result with `make`.

    Raises:
        ValueError: A required member is missing or malformed; the message names the result.
    """
    try:
        return make(raw)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"The server's answer to {what} is malformed: {error!r}") from error
