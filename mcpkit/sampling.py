"""Sampling: requests to the client's model, its answers, and JSON in them."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from pydantic_core import ValidationError, from_json
from typing_extensions import TypedDict

from mcpkit._protocol import wire
from mcpkit._protocol.input_request import InputRequest
from mcpkit._protocol.messages import encode
from mcpkit._protocol.revisions import Revision
from mcpkit._signature.schema import form_of, settle_references
from mcpkit._signature.validation import MAX_JSON_VALUES, explain
from mcpkit._utils.json import copy_schema, excess_of, is_array, is_object
from mcpkit._utils.text import quote
from mcpkit.errors import ElicitationError, InvalidInputResponse
from mcpkit.limits import check_several
from mcpkit.types import (
    AudioContent,
    ContentBlock,
    ImageContent,
    Media,
    Role,
    TextContent,
    content_block,
)


@dataclass(slots=True)
class ToolUse:
    """The model calls a tool (2025-11-25 and later)."""

    id: str
    name: str
    input: Mapping[str, Any]


@dataclass(slots=True)
class ToolUseResult:
    """The result of a tool call."""

    id: str
    content: Sequence[ContentBlock]
    is_error: bool = False


SampleBlock: TypeAlias = ContentBlock | ToolUse | ToolUseResult


@dataclass(slots=True)
class SampleMessage:
    """A message of the conversation that the model continues."""

    content: str | Media | SampleBlock | Sequence[SampleBlock]
    role: Role = "user"


Conversation: TypeAlias = str | SampleMessage | Sequence[str | SampleMessage]
"""What the model answers: a text, or the conversation so far."""


@dataclass(slots=True)
class SampleResult:
    """The answer of a model.

    Args:
        content: The blocks.
        model: The name of the model.
        stop_reason: Why it stopped; None if the client does not say.
    """

    content: Sequence[SampleBlock]
    model: str
    stop_reason: str | None
    role: Role = "assistant"

    @property
    def text(self) -> str:
        """The text of all text blocks, joined by newlines."""
        return "\n".join(each.text for each in self.content if isinstance(each, TextContent))

    @property
    def tool_uses(self) -> list[ToolUse]:
        """The tool calls of the model."""
        return [each for each in self.content if isinstance(each, ToolUse)]


class SampleOptions(TypedDict, total=False):
    """The options of a request to the model; see `Sample`."""

    max_tokens: int
    system: str | None
    temperature: float | None
    stop: Sequence[str] | None
    hints: Sequence[str]
    cost: float | None
    speed: float | None
    intelligence: float | None
    include_context: Literal["none", "thisServer", "allServers"] | None
    metadata: Mapping[str, Any] | None
    tool_choice: Literal["auto", "required", "none"] | None
    key: str | None
    timeout: float | None


class AskModelOptions(SampleOptions, total=False):
    """The options of `mcpkit.Context.sample`, which has functions for tools."""

    tools: Sequence[Callable[..., Any]] | None
    tool_rounds: int


class Sample(InputRequest[SampleResult]):
    """A request to the client's model; inside ``Annotated`` it fills a parameter.

    Args:
        messages: A text, or the conversation so far.
        max_tokens: The maximum length of the answer.
        system, temperature, stop, metadata: Sent to the model.
        hints: Names of suitable models, the best first.
        cost, speed, intelligence: Their priority, from 0 to 1.
        include_context: The context of servers that the client may add.
        tools: As in ``tools/list``.
        tool_choice: Whether the model may, must or must not use them.
        key, timeout: See `InputRequest`.
    """

    METHOD = "sampling/createMessage"

    def __init__(
        self,
        messages: Conversation,
        *,
        max_tokens: int = 1024,
        system: str | None = None,
        temperature: float | None = None,
        stop: Sequence[str] | None = None,
        hints: Sequence[str] = (),
        cost: float | None = None,
        speed: float | None = None,
        intelligence: float | None = None,
        include_context: Literal["none", "thisServer", "allServers"] | None = None,
        metadata: Mapping[str, Any] | None = None,
        tools: Sequence[Mapping[str, Any]] | None = None,
        tool_choice: Literal["auto", "required", "none"] | None = None,
        key: str | None = None,
        timeout: float | None = None,
    ) -> None:
        check_several("hints", hints)
        check_several("stop", stop)
        given = [messages] if isinstance(messages, (str, SampleMessage)) else messages
        self.messages = [SampleMessage(m) if isinstance(m, str) else m for m in given]
        self.max_tokens = max_tokens
        self.tools = tools
        self.tool_choice = tool_choice
        self.include_context = include_context
        preferences = wire.some(
            hints=[{"name": name} for name in hints] or None,
            costPriority=cost,
            speedPriority=speed,
            intelligencePriority=intelligence,
        )
        self._rest = wire.some(
            modelPreferences=preferences or None,
            systemPrompt=system,
            temperature=temperature,
            stopSequences=None if stop is None else list(stop),
            metadata=None if metadata is None else dict(metadata),
        )
        super().__init__(key=key, timeout=timeout)

    def continued(self, messages: Sequence[SampleMessage], suffix: str) -> Sample:
        """Return the same request with another conversation, and a suffix to its key."""
        made = copy.copy(self)
        made.messages = list(messages)
        made.key = f"{self.key}.{suffix}" if self.key else None
        return made

    def corrected(self, said: SampleResult, problem: str) -> Sample:
        """Return the same request with the answer, and the problem with it, in the conversation."""
        again = SampleMessage(f"That does not fit: {problem}. Answer with the JSON value only.")
        said_before = SampleMessage(said.text, "assistant")
        return self.continued([*self.messages, said_before, again], "again")

    def params(self, revision: Revision) -> dict[str, Any]:
        """Return the ``params`` of the request."""
        if self._uses_tools and not revision.sampling_tools:
            raise ElicitationError(f"revision {revision.version} has no sampling with tools")
        messages: list[dict[str, Any]] = []
        for message in self.messages:
            content = message.content
            given: Sequence[Any] = content if isinstance(content, (list, tuple)) else [content]
            blocks = [_sample_block_to_wire(each, revision) for each in given]
            # Before 2025-11-25 a message has one block: several of them become several messages.
            together = [blocks] if len(blocks) > 1 and revision.sampling_tools else blocks
            messages += [{"role": message.role, "content": each} for each in together]
        more = wire.some(
            includeContext=self.include_context,
            tools=None if self.tools is None else list(self.tools),
            toolChoice=None if self.tool_choice is None else {"mode": self.tool_choice},
        )
        return {"messages": messages, "maxTokens": self.max_tokens, **self._rest, **more}

    @property
    def _uses_tools(self) -> bool:
        return self.tools is not None or self.tool_choice is not None

    def required_capabilities(self, revision: Revision) -> dict[str, Any]:
        """Return the capability, with tools or context if it needs them (SAMP-1, SAMP-3)."""
        needed: dict[str, Any] = {}
        if self._uses_tools:
            needed["tools"] = {}
        if self.include_context in ("thisServer", "allServers") and revision.sampling_tools:
            needed["context"] = {}
        return {"sampling": needed}

    def parse_result(self, result: Mapping[str, Any]) -> SampleResult:
        """Return the answer of the model."""
        model, content = result.get("model"), result.get("content")
        if not isinstance(model, str) or not (is_object(content) or is_array(content)):
            raise InvalidInputResponse('a sampling result needs "model" and "content"')
        parts: list[Any] = content if is_array(content) else [content]
        try:
            blocks = [_sample_block_from_wire(part) for part in parts]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InvalidInputResponse(f"malformed content: {error}") from error
        reason = result.get("stopReason")
        return SampleResult(blocks, model, reason if isinstance(reason, str) else None)


def _sample_block_to_wire(block: Any, revision: Revision) -> dict[str, Any]:
    made: dict[str, Any]
    if isinstance(block, ToolUse):
        input = dict(block.input)
        made = {"type": "tool_use", "id": block.id, "name": block.name, "input": input}
    elif isinstance(block, ToolUseResult):
        blocks = [wire.block_to_wire(each, revision) for each in block.content]
        made = {"type": "tool_result", "toolUseId": block.id, "content": blocks}
        if block.is_error:
            made["isError"] = True
    else:
        content = content_block(block)
        if content is None:
            kind = type(block).__name__
            raise ElicitationError(f"a message to the model is text, media or a block, not {kind}")
        block, made = content, wire.block_to_wire(content, revision)
    if made["type"] not in revision.sampling_types:
        kind = type(block).__name__
        raise ElicitationError(f"revision {revision.version} cannot sample with {kind}")
    return made


def _sample_block_from_wire(value: Mapping[str, Any]) -> SampleBlock:
    kind = value.get("type")
    if kind == "tool_use":
        id, name, given = value["id"], value["name"], value["input"]
        if not (isinstance(id, str) and isinstance(name, str) and is_object(given)):
            raise ValueError("tool_use needs id and name, strings, and input, an object")
        return ToolUse(id, name, given)
    if kind == "tool_result":
        blocks = [wire.block_from_wire(each) for each in value["content"]]
        return ToolUseResult(value["toolUseId"], blocks, bool(value.get("isError", False)))
    block = wire.block_from_wire(value)
    if not isinstance(block, (TextContent, ImageContent, AudioContent)):
        raise ValueError(f"a model cannot answer with {quote(kind)}")
    return block


def json_instruction(wanted: Any, system: str | None) -> str:
    """Return a system prompt that makes a model answer with JSON of a type."""
    schema = settle_references(copy_schema(form_of(wanted).schema("validation")))
    text = encode(schema).decode()
    order = f"Answer with one JSON value that fits this JSON Schema, and nothing else:\n{text}"
    return f"{system}\n\n{order}" if system else order


# Exactly one line break after the opening fence: with any number of them, the search would start
# again at each in an unclosed fence.
_FENCE: Final = re.compile(r"```(?:json)?[^\S\n]*\n(.*?)```", re.DOTALL)


def read_json(text: str, wanted: Any) -> Any:
    """Return the value that a model wrote as JSON, perhaps inside a fence or a sentence."""
    form = form_of(wanted)
    if excess := excess_of(text.encode(), MAX_JSON_VALUES):
        raise InvalidInputResponse(f"the answer has {excess}")
    fenced = _FENCE.search(text)
    candidates = [fenced[1] if fenced else text]
    starts = [at for at in (text.find("{"), text.find("[")) if at >= 0]
    end = max(text.rfind("}"), text.rfind("]")) + 1
    if not fenced and starts and end > min(starts):
        candidates.append(text[min(starts) : end])  # there may be a sentence around it
    problem = ""
    for candidate in candidates:
        try:
            value = from_json(candidate.strip(), allow_inf_nan=False)
        except ValueError as error:
            problem = f"answer: Invalid JSON: {error}"
            continue
        try:
            return form.validate(value)
        except ValidationError as error:
            problem = "; ".join(explain(error, value, "answer"))
    raise InvalidInputResponse(problem)
