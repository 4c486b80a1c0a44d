"""What a handler may ask the client: a form or a page for the user, the model, the roots.

An ask is a value. It knows what to send in each revision, what the client must have declared, and
how to read the answer; how it gets there is not its concern.
"""

from __future__ import annotations

import copy
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Literal, NamedTuple, TypeAlias

from pydantic_core import ValidationError
from typing_extensions import TypedDict, TypeVar

from mcpkit.asking.elicitation import Accepted, Declined, Dismissed, Elicitation, Form
from mcpkit.errors import ElicitationError, InvalidAnswer, MissingClientCapability
from mcpkit.functions.markers import DeclaredAsk
from mcpkit.functions.schema import block_of, copy_schema, explain, form_of, settle_references
from mcpkit.protocol import wire
from mcpkit.protocol.connection import ClientFacts
from mcpkit.protocol.messages import encode
from mcpkit.protocol.revision import Revision
from mcpkit.types import (
    UNSET,
    AudioContent,
    ContentBlock,
    ImageContent,
    Media,
    Role,
    TextContent,
    is_array,
    is_object,
)

if TYPE_CHECKING:
    from pathlib import Path

__all__ = [
    "Ask",
    "Elicit",
    "ElicitUrl",
    "Root",
    "Roots",
    "Sample",
    "SampleMessage",
    "SampleResult",
    "ToolUse",
    "ToolUseResult",
]

T = TypeVar("T", default=Any)


class Ask(DeclaredAsk, Generic[T]):
    """Something to ask a client.

    Args:
        key: Names the ask within the call; derived from its place and its content if None.
        timeout: Seconds to wait for the answer (handshake revisions); None: the server's setting.
    """

    METHOD: ClassVar[str]

    key: str | None = None
    timeout: float | None = None

    def params(self, revision: Revision) -> dict[str, Any]:
        """The ``params`` of the request.

        Raises:
            ElicitationError: The revision cannot carry it.
        """
        raise NotImplementedError

    def needs(self, revision: Revision) -> dict[str, Any]:
        """The capabilities that a client must have declared, as the object it would declare."""
        raise NotImplementedError

    def read(self, result: Mapping[str, Any]) -> T:
        """The answer as a value.

        Raises:
            InvalidAnswer: It is malformed.
        """
        raise NotImplementedError

    def check(self, revision: Revision, client: ClientFacts) -> None:
        """Refuse to ask what the client has not declared (S2C-1, MRTR-4).

        Raises:
            MissingClientCapability: With what is missing.
        """
        needed = self.needs(revision)
        if not _has(client.capabilities, needed):
            raise MissingClientCapability(needed)

    def fingerprint(self, revision: Revision) -> str:
        """What tells this ask from a different one: the same for the same question."""
        asked = encode([self.METHOD, self.params(revision)])
        return _digest(asked)


def _digest(asked: bytes) -> str:
    from hashlib import sha256  # loaded when needed: it brings OpenSSL along

    return sha256(asked).hexdigest()[:16]


def _has(declared: Any, needed: Mapping[str, Any]) -> bool:
    return is_object(declared) and all(
        _has(declared.get(name), below) for name, below in needed.items()
    )


# --- the user -------------------------------------------------------------------------------------


class Elicit(Ask[Elicitation[T]]):
    """A form for the user; also written inside ``Annotated`` to have a parameter asked for.

    Args:
        message: The question.
        schema: What to answer: a model, dataclass or TypedDict with flat fields, a scalar type,
            Literal, Enum, a list of choices, `Choices`, or None for a confirmation.
        key, timeout: See `Ask`.

    Raises:
        ElicitationError: The schema does not fit into a form.
    """

    METHOD = "elicitation/create"

    def __init__(
        self,
        message: str | Callable[..., str],
        schema: Any = UNSET,
        *,
        key: str | None = None,
        timeout: float | None = None,
    ) -> None:
        self.message = message
        self.schema = schema
        self.key = key
        self.timeout = timeout
        self.form: Form[T] = Form(None if schema is UNSET else schema)

    def params(self, revision: Revision) -> dict[str, Any]:
        """The ``params`` of the request."""
        if "form" not in revision.elicitation_modes:
            raise ElicitationError(f"revision {revision.version} has no elicitation")
        if not isinstance(self.message, str):
            raise ElicitationError("only a declared question may have a function for a message")
        params: dict[str, Any] = {}
        if "url" in revision.elicitation_modes:
            params["mode"] = "form"
        params["message"] = self.message
        params["requestedSchema"] = self.form.requested(revision)
        return params

    def needs(self, revision: Revision) -> dict[str, Any]:
        """Form mode, which an empty ``elicitation`` means as well."""
        return {"elicitation": {}}

    def check(self, revision: Revision, client: ClientFacts) -> None:
        """Refuse to ask what the client has not declared."""
        declared = client.capabilities.get("elicitation")
        # ELIC-1: `elicitation: {}` means form only.
        if not is_object(declared) or not (declared == {} or "form" in declared):
            raise MissingClientCapability({"elicitation": {}})

    def read(self, result: Mapping[str, Any]) -> Elicitation[T]:
        """Accepted with validated data, declined, or dismissed."""
        action = _action(result)
        if action == "accept":
            return Accepted(self.form.read(result.get("content")))
        return Declined() if action == "decline" else Dismissed()


class ElicitUrl(Ask[Elicitation[None]]):
    """A page for the user to open: for what must not pass through the client, such as credentials.

    Args:
        message: Why.
        url: Where; nothing personal or authenticating in it (ELIC-6).
        elicitation_id: Identifies it towards the client (2025-11-25).
    """

    METHOD = "elicitation/create"

    def __init__(
        self,
        message: str,
        url: str,
        elicitation_id: str,
        *,
        key: str | None = None,
        timeout: float | None = None,
    ) -> None:
        self.message = message
        self.url = url
        self.elicitation_id = elicitation_id
        self.key = key
        self.timeout = timeout

    def params(self, revision: Revision) -> dict[str, Any]:
        """The ``params`` of the request."""
        if "url" not in revision.elicitation_modes:
            raise ElicitationError(f"revision {revision.version} cannot ask to open a URL")
        params = {"mode": "url", "message": self.message, "url": self.url}
        if revision.elicitation_ids:
            params["elicitationId"] = self.elicitation_id
        return params

    def needs(self, revision: Revision) -> dict[str, Any]:
        """Url mode, said explicitly."""
        return {"elicitation": {"url": {}}}

    def read(self, result: Mapping[str, Any]) -> Elicitation[None]:
        """Accepted means consent to open, not completion (ELIC-10)."""
        action = _action(result)
        if action == "accept":
            return Accepted(None)
        return Declined() if action == "decline" else Dismissed()

    def fingerprint(self, revision: Revision) -> str:
        """The page, not the id, which differs each time."""
        asked = encode([self.METHOD, self.message, self.url])
        return _digest(asked)


def _action(result: Mapping[str, Any]) -> str:
    action = result.get("action")
    if isinstance(action, str) and action in ("accept", "decline", "cancel"):
        return action
    raise InvalidAnswer(f'"action" must be accept, decline or cancel, got {action!r}')


# --- the model ------------------------------------------------------------------------------------


@dataclass(slots=True)
class ToolUse:
    """The model wants a tool called (2025-11-25 and later)."""

    id: str
    name: str
    input: Mapping[str, Any]


@dataclass(slots=True)
class ToolUseResult:
    """What the tool answered."""

    id: str
    content: Sequence[ContentBlock]
    is_error: bool = False


SampleBlock: TypeAlias = ContentBlock | ToolUse | ToolUseResult


@dataclass(slots=True)
class SampleMessage:
    """A message of the conversation that the model continues."""

    content: str | Media | SampleBlock | Sequence[SampleBlock]
    role: Role = "user"


@dataclass(slots=True)
class SampleResult:
    """What the model said.

    Args:
        content: The blocks.
        model: Which model it was.
        stop_reason: Why it stopped; None if the client does not say.
    """

    content: Sequence[SampleBlock]
    model: str
    stop_reason: str | None
    role: Role = "assistant"

    @property
    def text(self) -> str:
        """The text of all blocks that are text, a line each."""
        return "\n".join(each.text for each in self.content if isinstance(each, TextContent))

    @property
    def tool_uses(self) -> list[ToolUse]:
        """The tools the model wants called."""
        return [each for each in self.content if isinstance(each, ToolUse)]


class SampleOptions(TypedDict, total=False):
    """Options of a question to the model; see `Sample`."""

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


class Sample(Ask[SampleResult]):
    """Something for the client's model to say.

    Args:
        messages: A text, or the conversation so far.
        max_tokens: How long the answer may be at most.
        system, temperature, stop, metadata: Passed on.
        hints: Names of models that would do, the best first.
        cost, speed, intelligence: How much each matters, from 0 to 1.
        include_context: What else the client may tell the model.
        tools: As in ``tools/list``.
        tool_choice: Whether the model may, must or must not use them.
    """

    METHOD = "sampling/createMessage"

    def __init__(
        self,
        messages: str | SampleMessage | Sequence[str | SampleMessage],
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
        self.key = key
        self.timeout = timeout

    def continued(
        self,
        messages: Sequence[SampleMessage],
        tools: Sequence[Mapping[str, Any]],
        *,
        key: str | None,
    ) -> Sample:
        """The same question with a longer conversation."""
        made = copy.copy(self)
        made.messages = list(messages)
        made.tools = tools
        made.key = key
        return made

    def corrected(self, said: SampleResult, problem: str) -> Sample:
        """The same question once more, with what was wrong with the answer."""
        made = copy.copy(self)
        again = SampleMessage(f"That does not fit: {problem}. Answer with the JSON value only.")
        made.messages = [*self.messages, SampleMessage(said.text, "assistant"), again]
        made.key = f"{self.key}.again" if self.key else None
        return made

    def params(self, revision: Revision) -> dict[str, Any]:
        """The ``params`` of the request."""
        if self._uses_tools and not revision.sampling_tools:
            raise ElicitationError(f"revision {revision.version} has no sampling with tools")
        messages = [
            each for message in self.messages for each in _sample_message(message, revision)
        ]
        params: dict[str, Any] = {"messages": messages, "maxTokens": self.max_tokens, **self._rest}
        if self.include_context is not None:
            params["includeContext"] = self.include_context
        if self.tools is not None:
            params["tools"] = list(self.tools)
        if self.tool_choice is not None:
            params["toolChoice"] = {"mode": self.tool_choice}
        return params

    @property
    def _uses_tools(self) -> bool:
        return self.tools is not None or self.tool_choice is not None

    def needs(self, revision: Revision) -> dict[str, Any]:
        """Sampling; with tools or context where the revision tells them apart (SAMP-1, SAMP-3)."""
        needed: dict[str, Any] = {}
        if self._uses_tools:
            needed["tools"] = {}
        if self.include_context in ("thisServer", "allServers") and revision.sampling_tools:
            needed["context"] = {}
        return {"sampling": needed}

    def read(self, result: Mapping[str, Any]) -> SampleResult:
        """What the model said."""
        model, content = result.get("model"), result.get("content")
        if not isinstance(model, str) or not (is_object(content) or is_array(content)):
            raise InvalidAnswer('a sampling result needs "model" and "content"')
        parts: list[Any] = content if is_array(content) else [content]
        try:
            blocks = [_sample_block_from_wire(part) for part in parts]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InvalidAnswer(f"malformed content: {error}") from error
        reason = result.get("stopReason")
        return SampleResult(blocks, model, reason if isinstance(reason, str) else None)


def _sample_message(message: SampleMessage, revision: Revision) -> list[dict[str, Any]]:
    content = message.content
    given: Sequence[Any] = content if isinstance(content, (list, tuple)) else [content]
    blocks = [_sample_block_to_wire(each, revision) for each in given]
    if len(blocks) > 1 and revision.sampling_tools:
        return [{"role": message.role, "content": blocks}]
    # Before 2025-11-25 a message has one block: several of them become several messages.
    return [{"role": message.role, "content": block} for block in blocks]


def _sample_block_to_wire(block: Any, revision: Revision) -> dict[str, Any]:
    if isinstance(block, ToolUse):
        made: dict[str, Any] = {"type": "tool_use", "id": block.id, "name": block.name}
        made["input"] = dict(block.input)
    elif isinstance(block, ToolUseResult):
        content = [wire.block_to_wire(each, revision) for each in block.content]
        made = {"type": "tool_result", "toolUseId": block.id, "content": content}
        if block.is_error:
            made["isError"] = True
    else:
        block = block_of(block)
        made = wire.block_to_wire(block, revision)
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
        raise ValueError(f"a model does not say {kind!r}")
    return block


def json_instruction(wanted: Any, system: str | None) -> str:
    """The system prompt that has a model answer with JSON of a type."""
    schema = settle_references(copy_schema(form_of(wanted).schema("validation")))
    text = encode(schema).decode()
    wish = f"Answer with one JSON value that fits this JSON Schema, and nothing else:\n{text}"
    return f"{system}\n\n{wish}" if system else wish


_FENCE: Final = re.compile(r"```(?:json)?\s*\n(.*?)```", re.DOTALL)


def read_json(text: str, wanted: Any) -> Any:
    """The value that a model wrote as JSON, perhaps inside a fence or a sentence.

    Raises:
        InvalidAnswer: It does not fit the type; says where, for the model to mend.
    """
    form = form_of(wanted)
    fenced = _FENCE.search(text)
    candidate = fenced[1] if fenced else text
    try:
        return form.validator.validate_json(candidate.strip())
    except ValidationError:
        pass  # perhaps there is a sentence around it
    starts = [place for place in (candidate.find("{"), candidate.find("[")) if place >= 0]
    ends = max(candidate.rfind("}"), candidate.rfind("]"))
    if not fenced and starts and ends > min(starts):
        candidate = candidate[min(starts) : ends + 1]
    try:
        return form.validator.validate_json(candidate.strip())
    except ValidationError as error:
        problems = explain(error, None, "answer")
        raise InvalidAnswer("; ".join(problems)) from error


# --- the roots ------------------------------------------------------------------------------------


class Root(NamedTuple):
    """A place the client is willing to let servers look at: a hint, not a permission (ROOT-1).

    Args:
        uri: A ``file://`` URI.
        name: For the user; None if it has none.
    """

    uri: str
    name: str | None = None

    @property
    def path(self) -> Path | None:
        """The directory or file, percent-decoded; None if the URI is not a local file."""
        from pathlib import Path  # only those who look at roots pay for these
        from urllib.parse import unquote, urlsplit

        try:
            parts = urlsplit(self.uri)
        except ValueError:
            return None
        if parts.scheme != "file" or parts.netloc.lower() not in ("", "localhost"):
            return None
        path = unquote(parts.path)
        if not path.startswith("/"):  # it would be relative to wherever this process stands
            return None
        if os.name == "nt" and re.match(r"/[A-Za-z]:", path):
            path = path[1:]
        return Path(path)

    def contains(self, path: str | os.PathLike[str]) -> bool:
        """Whether a path lies inside, after resolving symbolic links and ``..``.

        Args:
            path: A path, or a ``file://`` URI.
        """
        from pathlib import Path  # as above

        root = self.path
        text = os.fspath(path)
        inner = Root(text).path if text.startswith("file:") else Path(text)
        if root is None or inner is None or "\0" in os.fspath(inner):
            return False
        try:
            return inner.resolve().is_relative_to(root.resolve())
        except (OSError, RuntimeError, ValueError):
            return False


class Roots(Ask[list[Root]]):
    """Where the client is willing to let servers look."""

    METHOD = "roots/list"

    def __init__(self, *, key: str | None = None, timeout: float | None = None) -> None:
        self.key = key
        self.timeout = timeout

    def params(self, revision: Revision) -> dict[str, Any]:
        """Nothing."""
        return {}

    def needs(self, revision: Revision) -> dict[str, Any]:
        """Roots."""
        return {"roots": {}}

    def read(self, result: Mapping[str, Any]) -> list[Root]:
        """The roots."""
        found = result.get("roots")
        if not is_array(found):
            raise InvalidAnswer('a roots result needs "roots", an array')
        roots: list[Root] = []
        for each in found:
            uri = each.get("uri") if is_object(each) else None
            if not is_object(each) or not isinstance(uri, str):
                raise InvalidAnswer('a root needs "uri", a string')
            name = each.get("name")
            roots.append(Root(uri, name if isinstance(name, str) else None))
        return roots
