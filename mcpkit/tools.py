"""Tools: functions that a model may call."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_args, overload

from typing_extensions import Self, TypedDict, TypeVar, Unpack

from mcpkit import _wings
from mcpkit._entries import (
    NO_APP,
    CommonOptions,
    Defaults,
    Entry,
    annotations_from,
    decorated,
    entry_fields,
    mark,
    prefixed_uri,
)
from mcpkit._injection import CallPlan, inspect_handler, plan_of
from mcpkit._protocol import wire
from mcpkit._protocol.connection import RequestSource
from mcpkit._protocol.headers import HeaderParameter, declared_in
from mcpkit._protocol.revisions import Revision
from mcpkit._signature.arguments import Arguments
from mcpkit._signature.output import Output, Rendered, wrapped_schema
from mcpkit._signature.signature import Signature
from mcpkit._utils.json import UNSET, JsonSchema, every_schema
from mcpkit.context import Context
from mcpkit.dependencies import Idempotent
from mcpkit.errors import RegistrationError
from mcpkit.types import ToolAnnotations

if TYPE_CHECKING:
    from mcpkit.views import Html

F = TypeVar("F", bound=Callable[..., Any])

Audience: TypeAlias = Literal["model", "app"]
"""The only users of a tool, if hosts do as they are told: the model, or views (APP-6)."""

TaskMode: TypeAlias = Literal["optional", "required", "forbidden"]
"""Whether a call of a tool may, must or must not become a task."""


@dataclass(frozen=True, slots=True)
class TaskSupport:
    """How a tool runs as a task: ``@app.tool(task=TaskSupport(resumable=True))``.

    Args:
        mode: ``"optional"`` lets clients that support tasks turn a call into a task; ``"required"``
            refuses all other calls; ``"forbidden"`` refuses tasks.
        resumable: True if a task whose process ended may run again; completed steps are not
            repeated. Otherwise it has failed.
        ttl: Seconds for which its tasks are stored; the app's by default.

    Raises:
        ValueError: The mode is unknown, `ttl` is not more than 0, or there is an option although
            the mode is ``"forbidden"``.
    """

    mode: TaskMode = "optional"
    _: KW_ONLY
    resumable: bool = False
    ttl: float | None = None

    def __post_init__(self) -> None:
        if self.mode not in get_args(TaskMode):
            known = ", ".join(map('"{}"'.format, get_args(TaskMode)))
            raise ValueError(f"task={self.mode!r}; write one of {known}")
        if self.mode == "forbidden" and (self.resumable or self.ttl is not None):
            raise ValueError('resumable= and ttl= are for tasks; write "optional" or "required"')
        if self.ttl is not None and not self.ttl > 0:
            raise ValueError(f"the ttl= of tasks is seconds, more than 0, not {self.ttl!r}")


_LEAST_RESULT: Final = 1000
_NAME: Final = re.compile(r"[A-Za-z0-9_.\-]{1,64}")


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class Tool(Entry):
    """A function that a model may call."""

    listing = "tools"

    plan: CallPlan
    accepts: Arguments
    output: Output
    input_schema: JsonSchema
    output_schema: JsonSchema | None = None
    annotations: ToolAnnotations | None = None
    headers: tuple[HeaderParameter, ...] = ()  # the arguments that HTTP requests repeat in headers
    raw_output: bool = False  # wrap other values than objects only where the revision requires it
    task: TaskSupport = TaskSupport("forbidden")
    max_result: int | None = None
    repeats: Any = None  # the `Once` or `SingleFlight` of `mcpkit.idempotency`
    ui: str | None = None  # the URI of its view
    html: Html | None = None  # its view, until that is registered
    visibility: Audience | None = None

    def __post_init__(self) -> None:
        if _NAME.fullmatch(self.name) is None:
            raise RegistrationError(
                f"{self.name!r} is not a tool name that hosts accept; "
                f"use 1 to 64 letters, digits, '_', '-' and '.' (pass name=...)"
            )

    def prefixed(self, prefix: str) -> Self:
        """Return a copy with a prefix in its name, and in the URI of its view."""
        ui = None if self.ui is None else prefixed_uri(prefix, self.ui)
        return replace(self, name=f"{prefix}_{self.name}", ui=ui)

    @property
    def is_hidden(self) -> bool:
        """True for a tool of views, which clients without views would show to the model."""
        return self.visibility == "app"

    async def call(self, arguments: dict[str, Any], context: Context[Any]) -> Rendered:
        """Validate the arguments, call the function, and render its result.

        Raises `InvalidArguments` and `OutputMismatch` for values that do not fit the signature.
        """
        values = self.accepts.validate(arguments)
        if self.allow is not None and context.task is None:
            await self.check_allowed(values, context.request.origin)
        if self.repeats is not None:
            found: Rendered = await self.repeats.call(self, arguments, values, context)
            return found
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
        schema, hints, mode = self.output_schema, self.annotations, self.task.mode
        wraps = revision.structured_output == "object" or not self.raw_output
        if schema is not None and wraps and schema.get("type") != "object":
            schema = wrapped_schema(schema)  # TOOL-11
        members = wire.some(
            **self.described(),
            inputSchema=self.input_schema,
            outputSchema=schema,
            annotations=None if hints is None else wire.hints_to_wire(hints),
            execution=None if mode == "forbidden" else {"taskSupport": mode},
        )
        visibility = None if self.visibility is None else [self.visibility]
        if view := wire.some(resourceUri=self.ui, visibility=visibility):
            # APP-5: some hosts read the flat key only.
            flat = wire.some(**{"ui/resourceUri": self.ui})
            members["_meta"] = {"ui": view, **flat, **(self.meta or {})}
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
    """A JSON Schema to advertise instead of the derived one. The signature still validates the
    arguments; a function that takes ``**arguments`` gets all that the schema allows, validated by
    the schema."""
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


HOST_HINTS: Final[Mapping[str, tuple[str, type]]] = {
    "always_load": ("anthropic/alwaysLoad", bool),
    "always_ask": ("anthropic/requiresUserInteraction", bool),
    "host_max_result": ("anthropic/maxResultSizeChars", int),
    "search_hint": ("anthropic/searchHint", str),
}
"""Option of a tool → its member of ``_meta``, and its type (HOST-1 to HOST-4).

They are sent to every client, because those that do not know a member ignore it (HOST-20).
"""

_MAX_RESULT: Final = 500_000


def make_tool(
    fn: Callable[..., Any], defaults: Defaults = NO_APP, /, **options: Unpack[ToolOptions]
) -> Tool:
    """Return a tool that calls a function; raises `RegistrationError`."""
    given = options.get("input_schema")
    signature = inspect_handler(fn, allows_open=given is not None)
    fields = entry_fields(Tool, ToolOptions, signature, options, defaults)
    if given is None:
        arguments = Arguments(signature)
        input_schema = arguments.schema()
    else:
        from mcpkit._signature.input_schema import arguments_of

        arguments = arguments_of(signature, given)
        input_schema = given
    try:
        headers = declared_in(input_schema)
    except ValueError as error:
        raise RegistrationError(f"{signature.place}: {error}") from None
    limit = options.get("max_result")
    if limit is not None and (type(limit) is not int or limit < _LEAST_RESULT):
        raise RegistrationError(
            f"{signature.place}: max_result= is a number of characters, at least "
            f"{_LEAST_RESULT}, not {limit!r}"
        )
    output = Output(signature, options.get("structured_output"), defaults.converters)
    if not options.get("description") and _repeats(signature, output.schema):
        fields["description"] = signature.docs.without_returns
    fields.update(
        plan=plan_of(fn, signature, options),
        accepts=arguments,
        output=output,
        input_schema=input_schema,
        output_schema=output.schema,
        annotations=annotations_from(options, ToolAnnotations, signature.place),
        headers=headers,
        raw_output=output.is_raw,
        task=_task_support(options, signature.place),
        **_view(options, signature.place),
        meta={**_host_hints(options, signature.place), **(options.get("meta") or {})} or None,
    )
    is_marked = any(isinstance(each.mark, Idempotent) for each in signature.arguments)
    if is_marked or options.get("once") is not None or options.get("single_flight"):
        _wings.idempotency.add_repeats(fields, signature, options)
    return Tool(**fields)


def _view(options: Mapping[str, Any], at: str) -> dict[str, Any]:
    """Return the fields of a tool for its view."""
    ui, visibility = options.get("ui"), options.get("visibility")
    if visibility is not None and visibility not in get_args(Audience):
        raise RegistrationError(f'{at}: visibility= is "model" or "app", not {visibility!r}')
    if ui is None or isinstance(ui, str):
        if ui is not None and not ui.startswith("ui://"):
            raise RegistrationError(f'{at}: ui={ui!r}; write "ui://…", or Html({ui!r})')
        return {"ui": ui, "visibility": visibility}
    if not isinstance(ui, _wings.views.Html):
        raise RegistrationError(f'{at}: ui= is Html("page.html") or a URI, not {ui!r:.50}')
    return {"ui": None, "html": ui, "visibility": visibility}


def _host_hints(options: Mapping[str, Any], at: str) -> dict[str, Any]:
    """Return the members of ``_meta`` for hosts; ``meta=`` may have others (HOST-21)."""
    found: dict[str, Any] = {}
    for option, (key, kind) in HOST_HINTS.items():
        value: Any = options.get(option)
        if value is None:
            continue
        if type(value) is not kind or (kind is int and value not in range(1, _MAX_RESULT + 1)):
            wanted = f"a number from 1 to {_MAX_RESULT}" if kind is int else f"a {kind.__name__}"
            raise RegistrationError(f"{at}: {option}= is {wanted}, not {value!r}")
        if value:  # HOST-1: only true counts
            found[key] = value
    return found


def _task_support(options: Mapping[str, Any], at: str) -> TaskSupport:
    given: Any = options.get("task") or "forbidden"
    if isinstance(given, TaskSupport):
        return given
    try:
        return TaskSupport(given)
    except ValueError as error:
        raise RegistrationError(f"{at}: {error}") from None


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
