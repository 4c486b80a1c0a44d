"""Tools: functions that a model may call."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias, overload

from typing_extensions import TypedDict, TypeVar, Unpack

from mcpkit import _wings
from mcpkit._entries import (
    NO_APP,
    CommonOptions,
    Defaults,
    Entry,
    annotations_from,
    decorated,
    function_fields,
    mark,
)
from mcpkit._injection import CallPlan, inspect_handler, plan_of
from mcpkit._protocol import wire
from mcpkit._protocol.connection import RequestSource
from mcpkit._protocol.headers import HeaderParameter, declared_in
from mcpkit._protocol.revisions import Revision
from mcpkit._signature.arguments import Arguments, Takes
from mcpkit._signature.output import Output, Rendered, wrapped_schema
from mcpkit._signature.signature import Signature
from mcpkit._utils.json import UNSET, JsonSchema, every_schema
from mcpkit.context import Context
from mcpkit.dependencies import Idempotent
from mcpkit.errors import RegistrationError
from mcpkit.types import ToolAnnotations

if TYPE_CHECKING:
    from mcpkit.tasks.support import TaskMode, TaskSupport
    from mcpkit.views import Audience, Html

F = TypeVar("F", bound=Callable[..., Any])

_NAME: Final = re.compile(r"[A-Za-z0-9_.\-]{1,64}")


class Around(Protocol):
    """What runs the calls of a tool instead of the tool itself."""

    async def call(
        self,
        tool: Any,
        given: Mapping[str, Any],
        values: dict[str, Any],
        context: Context[Any],
    ) -> Rendered:
        """Return the rendered result of a call with validated values, or that of another call."""
        ...


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class Tool(Entry):
    """A function that a model may call."""

    listing = "tools"

    plan: CallPlan
    accepts: Takes
    output: Output
    input_schema: JsonSchema
    output_schema: JsonSchema | None = None
    annotations: ToolAnnotations | None = None
    headers: tuple[HeaderParameter, ...] = ()  # the arguments that HTTP requests repeat in headers
    raw_output: bool = False  # wrap other values than objects only where the revision requires it
    around: Around | None = None

    def __post_init__(self) -> None:
        if _NAME.fullmatch(self.name) is None:
            raise RegistrationError(
                f"{self.name!r} is not a tool name that hosts accept; "
                f"use 1 to 64 letters, digits, '_', '-' and '.' (pass name=...)"
            )

    async def call(self, arguments: dict[str, Any], context: Context[Any]) -> Rendered:
        """Validate the arguments, call the function, and render its result.

        Raises `InvalidArguments` and `OutputMismatch` for values that do not fit the signature.
        """
        values = self.accepts.validate(arguments)
        if self.allow is not None and context.task is None:
            await self.check_allowed(values, context.request.origin)
        if self.around is not None:
            return await self.around.call(self, arguments, values, context)
        return self.output.render(await self.plan.run(values, context))

    async def admit(self, arguments: dict[str, Any], origin: RequestSource | None) -> None:
        """Refuse a call that ``allow=`` does not permit, before it becomes a task."""
        if self.allow is not None:
            await self.check_allowed(self.accepts.validate(arguments), origin)

    async def prepare(self, arguments: dict[str, Any], context: Context[Any]) -> None:
        """Validate the arguments of a call that becomes a task, and ask for declared input."""
        values = self.accepts.validate(arguments)
        await self.check_allowed(values, context.request.origin)
        await self.plan.ask_first(values, context)

    def to_wire(self, revision: Revision) -> dict[str, Any]:
        """Return its entry in ``tools/list``."""
        schema, hints = self.output_schema, self.annotations
        wraps = revision.structured_output == "object" or not self.raw_output
        if schema is not None and wraps and schema.get("type") != "object":
            schema = wrapped_schema(schema)  # TOOL-11
        members = wire.some(
            **self.described(),
            inputSchema=self.input_schema,
            outputSchema=schema,
            annotations=None if hints is None else wire.hints_to_wire(hints),
        )
        meta: dict[str, Any] = {}
        for each in self.options.values():
            added = each.members()
            meta |= added.get("_meta", {})
            members |= added
        if meta:
            members["_meta"] = {**meta, **(self.meta or {})}
        return revision.keep(revision.tool_members, members)


KeyFunction: TypeAlias = (
    Callable[[Any], str | None]
    | Callable[[Any, Any], str | None]
    | Callable[[Any, Any, Any], str | None]
    | Callable[[Any, Any, Any, Any], str | None]
    | Callable[[Any, Any, Any, Any, Any], str | None]
)
"""From arguments of a tool, by name, to the key of a call. Not ``Callable[..., …]``, for which type
checkers do not know the parameters of a lambda."""


class ToolHints(TypedDict, total=False):
    """The annotations of a tool, as the protocol names them."""

    title: str
    readOnlyHint: bool
    destructiveHint: bool
    idempotentHint: bool
    openWorldHint: bool


class ToolOptions(CommonOptions, total=False):
    """The options of `MCPKit.tool` and `add_tool`, in addition to the common ones."""

    annotations: ToolAnnotations | ToolHints | None
    """A `ToolAnnotations`, or a dict with the names of the protocol."""
    read_only: bool | None
    """Hint: the tool does not change anything."""
    destructive: bool | None
    """Hint: the tool may delete or overwrite something."""
    idempotent: bool | None
    """Hint: a repeated call has no further effect."""
    open_world: bool | None
    """Hint: the tool reaches other systems, such as the web."""
    structured_output: bool | Literal["raw"] | None
    """False for content only, True to require structured output; None, the default, decides by the
    return annotation. A value that is not an object is sent as ``{"result": …}``; ``"raw"``
    requires structured output and does not wrap it from 2026-07-28 on."""
    input_schema: JsonSchema | None
    """A JSON Schema (2020-12) to advertise instead of the derived one. Arguments are validated
    against it, and then by the signature; a function that takes ``**arguments`` gets all that the
    schema allows."""
    max_result: int | None
    """The characters of a result, at least 1000: longer lists and texts are truncated, and the
    model is told what is missing and where it can read that."""
    once: KeyFunction | None
    """The key of a call, from those of its arguments that the function names: the first call with
    a key runs, and a repeat gets its result. None if the call has no key. See `Idempotent`."""
    single_flight: bool
    """True if equal calls of one principal at the same moment share one run: for reads."""
    task: TaskMode | TaskSupport
    """``"optional"`` lets clients that support tasks turn a call into a task; ``"required"``
    refuses all other calls. A `TaskSupport` also says how its tasks run."""
    ui: Html | str | None
    """The view that hosts show with its results: a page, or the URI of `MCPKit.ui`. Without a view,
    hosts show the text of the result only."""
    visibility: Audience | None
    """``"app"`` for a tool that only views call; clients that show no views do not see it.
    ``"model"`` for one that views may not call. Hosts apply it, and anyone can call the tool."""
    always_load: bool | None
    """Host hint: show the tool to the model at once, not only when the model searches for tools."""
    always_ask: bool | None
    """Host hint: ask the user before every call, whatever else the user has allowed."""
    host_max_result: int | None
    """Host hint: the characters of text up to which a result stays in the conversation, at most
    500,000; longer ones become files."""
    search_hint: str | None
    """Host hint: more words by which a search for tools finds it."""


def make_tool(
    fn: Callable[..., Any], defaults: Defaults = NO_APP, /, **options: Unpack[ToolOptions]
) -> Tool:
    """Return a tool that calls a function; raises `RegistrationError`."""
    given = options.get("input_schema")
    signature = inspect_handler(fn, allows_open=given is not None)
    fields = function_fields(Tool, ToolOptions, signature, options, defaults)
    if given is None:
        arguments = Arguments(signature)
    else:
        from mcpkit._signature.input_schema import BothArguments

        arguments = BothArguments(signature, given)
    output = Output(signature, options.get("structured_output"), defaults.converters)
    if not options.get("description") and _repeats(signature, output.schema):
        fields["description"] = signature.docs.without_returns
    plan = plan_of(fn, signature, options)
    return assembled(fields, plan, arguments, output, options, signature.place)


def assembled(
    fields: dict[str, Any],
    plan: CallPlan,
    accepts: Takes,
    output: Output,
    options: Mapping[str, Any],
    at: str,
) -> Tool:
    """Return a tool of its parts, with the options of wings; raises `RegistrationError`."""
    fields = {**fields, "annotations": annotations_from(options, ToolAnnotations, at)}
    fields["input_schema"] = accepts.schema()
    try:
        headers = declared_in(fields["input_schema"])
    except ValueError as error:
        raise RegistrationError(f"{at}: {error}") from None
    made = Tool(
        **fields,
        plan=plan,
        accepts=accepts,
        output=output,
        output_schema=output.schema,
        headers=headers,
        raw_output=output.is_raw,
    )
    given = {name for name, value in options.items() if value is not None}
    if any(isinstance(each.mark, Idempotent) for each in accepts.fields):
        given.add("once")
    _wings.prepare(given, made, options, at)
    return made


def _repeats(signature: Signature, schema: JsonSchema | None) -> bool:
    """Return True if the docstring only repeats what the return type or output schema says."""
    returns = signature.docs.returns
    if not returns or signature.returns is UNSET:
        return False
    known = _TYPE_WORDS.union(_WORD.findall(str(signature.returns).lower()))
    lines = returns.partition(":")[2].strip().splitlines()
    texts = [each for each in lines if not known.issuperset(_WORD.findall(each.lower()))]
    if not texts or schema is None:
        return not texts
    described = "\n".join(str(each.get("description")) for each in every_schema(schema))
    plain = [(each.strip(" .-"), each.partition(":")[2].strip(" .-")) for each in texts]
    return all(any(each and each in described for each in choices) for choices in plain)


_WORD: Final = re.compile(r"\w+")
_TYPE_WORDS: Final = frozenset(
    {
        *("a", "an", "and", "array", "bool", "boolean", "bytes", "dict", "dictionary", "float"),
        *("int", "integer", "json", "list", "none", "null", "number", "object", "of", "or"),
        *("str", "string", "text", "the", "tuple"),
    }
)


@overload
def tool(fn: F, /) -> F: ...


@overload
def tool(**options: Unpack[ToolOptions]) -> Callable[[F], F]: ...


def tool(fn: Any = None, /, **options: Unpack[ToolOptions]) -> Any:
    """Mark a function as a tool for `MCPKit.include` or ``mcpkit run``, and return it.

    Args:
        fn: The function; also a static or class method.
        options: See `ToolOptions`.
    """
    return decorated(mark, fn, make_tool, **options)
