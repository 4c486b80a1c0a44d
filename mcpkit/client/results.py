"""The values that a client returns. `raw` always is the JSON object as it was sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal, TypeAlias, TypeVar, cast, get_args

from pydantic_core import SchemaValidator, core_schema

from mcpkit._protocol import wire
from mcpkit._utils.json import UNSET, is_object, value_at
from mcpkit.errors import ProtocolError
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

Params: TypeAlias = Mapping[str, Any]
"""A JSON object, as on the wire."""

T = TypeVar("T")


def _entry(make: Callable[..., T], raw: Params, *texts: str, **members: Any) -> T:
    """Make an entry of a list; `texts` are the members that it must have."""
    required = {name: wire.text_in(raw, name) for name in texts}
    common = {name: raw.get(name) for name in ("title", "description")}
    return make(**{**common, **required, **members, "raw": raw})


@dataclass(frozen=True, slots=True)
class ListedTool:
    """An entry of ``tools/list``."""

    name: str
    title: str | None
    description: str | None
    input_schema: Params
    output_schema: Params | None
    annotations: ToolAnnotations | None
    icons: Sequence[Icon] | None
    raw: Params

    @classmethod
    def from_wire(cls, raw: Params) -> ListedTool:
        """Read the wire form; `parse` turns every error of this into a ValueError."""
        hints = raw.get("annotations")
        return _entry(
            cls,
            raw,
            "name",
            input_schema=raw["inputSchema"],
            output_schema=raw.get("outputSchema"),
            annotations=None if hints is None else wire.hints_from_wire(hints),
            icons=wire.icons_from_wire(raw.get("icons")),
        )

    @property
    def task_support(self) -> str:
        """``forbidden``, ``optional`` or ``required``: may a call become a task (2025-11-25)?"""
        found = value_at(self.raw, "execution", "taskSupport")
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
    raw: Params

    @classmethod
    def from_wire(cls, raw: Params) -> ListedResource:
        """Read the wire form; `parse` turns every error of this into a ValueError."""
        annotations = wire.annotations_from_wire(raw.get("annotations"))
        more = {"mime_type": raw.get("mimeType"), "size": raw.get("size")}
        return _entry(cls, raw, "uri", "name", annotations=annotations, **more)


@dataclass(frozen=True, slots=True)
class ListedTemplate:
    """An entry of ``resources/templates/list``."""

    uri_template: str
    name: str
    title: str | None
    description: str | None
    mime_type: str | None
    raw: Params

    @classmethod
    def from_wire(cls, raw: Params) -> ListedTemplate:
        """Read the wire form; `parse` turns every error of this into a ValueError."""
        template = wire.text_in(raw, "uriTemplate")
        return _entry(cls, raw, "name", uri_template=template, mime_type=raw.get("mimeType"))


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
    raw: Params

    @classmethod
    def from_wire(cls, raw: Params) -> ListedPrompt:
        """Read the wire form; `parse` turns every error of this into a ValueError."""
        arguments = [
            PromptArgument(
                wire.text_in(each, "name"),
                each.get("title"),
                each.get("description"),
                bool(each.get("required", False)),
            )
            for each in raw.get("arguments") or ()
        ]
        return _entry(cls, raw, "name", arguments=arguments)


@dataclass(frozen=True, slots=True)
class CallResult:
    """The result of a tool call.

    Args:
        content: The blocks for the model.
        structured_content: A JSON value; `UNSET` if there is none.
        is_error: True if the tool reports a failure.
        meta: The result's ``_meta``; empty if it has none.
        raw: The result as it was sent.
    """

    content: Sequence[ContentBlock]
    structured_content: Any
    is_error: bool
    meta: Params
    raw: Params

    @classmethod
    def from_wire(cls, raw: Params) -> CallResult:
        """Read the wire form; `parse` turns every error of this into a ValueError."""
        return cls(
            [wire.block_from_wire(each) for each in raw["content"]],
            raw.get("structuredContent", UNSET),
            bool(raw.get("isError", False)),
            raw.get("_meta") or {},
            raw,
        )

    @property
    def text(self) -> str:
        """The texts of all blocks that have one, joined by newlines."""
        return "\n".join(text for text in map(_text_of, self.content) if text is not None)

    @property
    def data(self) -> Any:
        """The structured content; None if there is none.

        The wrapper ``{"result": …}``, which servers put around anything but an object, is removed.
        """
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
    """A message of a prompt."""

    role: Role
    content: ContentBlock

    @property
    def text(self) -> str:
        """The text of the content; empty if the content is not text."""
        return _text_of(self.content) or ""


@dataclass(frozen=True, slots=True)
class PromptMessages:
    """The result of ``prompts/get``."""

    messages: Sequence[PromptMessage]
    description: str | None
    raw: Params

    @classmethod
    def from_wire(cls, raw: Params) -> PromptMessages:
        """Read the wire form; `parse` turns every error of this into a ValueError."""
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
    def from_wire(cls, raw: Params) -> Completion:
        """Read the wire form; `parse` turns every error of this into a ValueError."""
        found = raw["completion"]
        return cls(found["values"], found.get("total"), bool(found.get("hasMore", False)))


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a request has come.

    Args:
        progress: Increases with every notification.
        total: The value of `progress` at the end; None if unknown.
        message: For people; None if there is none.
    """

    progress: float
    total: float | None
    message: str | None


OnProgress: TypeAlias = Callable[[Progress], object]


# --- tasks ----------------------------------------------------------------------------------------

Status: TypeAlias = Literal["working", "input_required", "completed", "failed", "cancelled"]

_TIMES: Final = SchemaValidator(core_schema.datetime_schema())


@dataclass(frozen=True, slots=True)
class TaskStatus:
    """The state of a task.

    Args:
        id: Of the task.
        status: ``working``, ``input_required``, ``completed``, ``failed`` or ``cancelled``. A tool
            that reports a failure to the model has ``failed`` in 2025-11-25, and ``completed`` in
            2026-07-28.
        message: The server's message about the status; None if there is none.
        created, updated: When the task was created, and when it last changed.
        ttl: Seconds from its creation for which the server stores it; None: for ever.
        poll_interval: Seconds between two polls that the server asks for; None if it does not.
        raw: The task as it was sent.
    """

    id: str
    status: Status
    message: str | None
    created: datetime
    updated: datetime
    ttl: float | None
    poll_interval: float | None
    raw: Params = field(compare=False, repr=False)

    @classmethod
    def from_wire(cls, raw: Params) -> TaskStatus:
        """Read the wire form of either revision, as `CallResult.from_wire`."""
        status = wire.text_in(raw, "status")
        if status not in get_args(Status):
            raise ValueError(f'"status" is {status!r}')
        return cls(
            wire.text_in(raw, "taskId"),
            cast("Status", status),
            wire.optional_text(raw, "statusMessage"),
            _TIMES.validate_python(wire.text_in(raw, "createdAt")),
            _TIMES.validate_python(wire.text_in(raw, "lastUpdatedAt")),
            _seconds(raw, "ttl"),
            _seconds(raw, "pollInterval"),
            raw,
        )

    @property
    def is_over(self) -> bool:
        """True if the task has ended; its status is final then."""
        return self.status in ("completed", "failed", "cancelled")


def _seconds(raw: Params, name: str) -> float | None:
    found = raw.get(f"{name}Ms", raw.get(name))
    if found is None:
        return None
    if isinstance(found, bool) or not isinstance(found, (int, float)):
        raise TypeError(f'"{name}" must be a number of milliseconds')
    return found / 1000


@dataclass(frozen=True, slots=True)
class InputRequest:
    """Input that a server asks the client for.

    Args:
        method: ``elicitation/create``, ``sampling/createMessage`` or ``roots/list``.
        params: As on the wire.
    """

    method: str
    params: Params


# --- reading --------------------------------------------------------------------------------------


def parse(make: Callable[[Params], T], raw: Params, what: str) -> T:
    """Read a result with `make`; ValueError: a member is missing or malformed."""
    try:
        return make(raw)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"The server's answer to {what} is malformed: {error!r}") from error


def input_requests_in(raw: Params, method: str, limit: int) -> dict[str, InputRequest]:
    """Return the input requests of a result, by key.

    Raises ValueError if one is malformed, and ProtocolError if there are more than `limit`.
    """

    def make(raw: Params) -> dict[str, InputRequest]:
        requests: Params = raw.get("inputRequests") or {}
        found: dict[str, InputRequest] = {}
        for key, request in requests.items():
            params = request.get("params")
            if params is not None and not is_object(params):
                raise TypeError('"params" must be an object')
            found[key] = InputRequest(wire.text_in(request, "method"), params or {})
        return found

    requests = parse(make, raw, method)
    if len(requests) > limit:
        raise ProtocolError(
            f"The server asks for {len(requests)} inputs at once; "
            f"it gets {limit} at most (max_input_requests)"
        )
    return requests
