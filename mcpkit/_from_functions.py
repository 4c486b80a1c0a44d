"""Functions and options → entries. This is where a bad signature is refused."""

from __future__ import annotations

import enum
import inspect
import re
import types
import typing
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    NamedTuple,
    TypeAlias,
    TypedDict,
    cast,
    get_args,
    get_origin,
)

from typing_extensions import NotRequired, TypeVar, Unpack

from mcpkit._entries import (
    TASK_SUPPORT,
    Argument,
    Prompt,
    Resource,
    ResourceTemplate,
    TaskSupport,
    Tool,
    prefixed_uri,
)
from mcpkit._injection import CONTEXTS, CallPlan, inspect_handler
from mcpkit._protocol import wire
from mcpkit._protocol.headers import declared_in
from mcpkit._signature.arguments import Arguments
from mcpkit._signature.converters import (
    Converters,
    NoConverter,
    NotSerializable,
    block_of,
    refuse_infinities_in,
)
from mcpkit._signature.docstrings import Docs
from mcpkit._signature.hints import function_name, unalias
from mcpkit._signature.output import Output, Rendered, is_structured
from mcpkit._signature.signature import Parameter, Signature, inspect_function, takes_any
from mcpkit._utils.json import UNSET, JsonSchema, every_schema, is_binary, is_object
from mcpkit._utils.names import library_of, suggest
from mcpkit._utils.text import truncate
from mcpkit._utils.uri_template import UriTemplate, misleads
from mcpkit.context import Context
from mcpkit.errors import Forbidden, InvalidArguments, RegistrationError, ResourceNotFound
from mcpkit.permissions import Allow, check_allowed, needed_scopes
from mcpkit.types import (
    Annotations,
    BlobResourceContents,
    CacheScope,
    Icon,
    Media,
    Message,
    Meta,
    PromptResult,
    ResourceContents,
    ResourceResult,
    Role,
    TextResourceContents,
    ToolAnnotations,
    contents_of,
)

__all__ = [
    "Defaults",
    "Errors",
    "PromptOptions",
    "ResourceOptions",
    "ToolOptions",
    "errors_of",
    "make_prompt",
    "make_resource",
    "make_tool",
]


Completer: TypeAlias = Callable[
    [str, Mapping[str, str] | None, Context[Any]], Awaitable[Iterable[str]]
]
"""From what was typed, and the other arguments if they are known, to suggestions."""


# --- the entries ----------------------------------------------------------------------------------


@dataclass(slots=True, kw_only=True)
class FunctionTool(Tool):
    """A tool that is a Python function."""

    plan: CallPlan
    accepts: Arguments
    output: Output

    async def call(self, arguments: dict[str, Any], context: Context[Any]) -> Rendered:
        """Validate the arguments, call the function, and render what it returns.

        Raises:
            InvalidArguments: The arguments do not fit the signature.
            OutputMismatch: The returned value does not fit the return annotation.
        """
        values = self.accepts.validate(arguments)
        if self.allow is not None and context.peer.task is None:  # which was a request before
            await check_allowed(self, values, context)
        return self.output.render(await self.plan.run(values, context))

    async def admit(self, arguments: dict[str, Any], context: Context[Any]) -> None:
        """Ask the predicate of the tool, if it has one."""
        if self.allow is not None:
            await check_allowed(self, self.accepts.validate(arguments), context)

    async def prepare(self, arguments: dict[str, Any], context: Context[Any]) -> None:
        """Validate the arguments, and ask what the parameters declare."""
        values = self.accepts.validate(arguments)
        if self.allow is not None:
            await check_allowed(self, values, context)
        await self.plan.ask_first(values, context)


@dataclass(slots=True, kw_only=True)
class FunctionResource(Resource):
    """A resource whose contents a Python function returns."""

    plan: CallPlan
    converters: Converters = field(default_factory=Converters)

    async def read(
        self, uri: str, variables: Mapping[str, Any], context: Context[Any]
    ) -> ResourceResult:
        """Call the function."""
        await self.admit(uri, variables, context)
        return _resource_result(await self.plan.run({}, context), uri, self)

    async def admit(self, uri: str, variables: Mapping[str, Any], context: Context[Any]) -> None:
        """Ask the predicate of the resource, if it has one."""
        del uri, variables
        if self.allow is not None:
            await check_allowed(self, {}, context)


@dataclass(slots=True, kw_only=True)
class FunctionTemplate(ResourceTemplate):
    """A resource template whose contents a Python function returns."""

    plan: CallPlan
    converters: Converters = field(default_factory=Converters)
    accepts: Arguments
    completers: Mapping[str, Completer] = field(default_factory=dict[str, Completer])
    unchecked: frozenset[str] = frozenset()
    """The variables whose values may be what leads out of a directory."""

    async def read(
        self, uri: str, variables: Mapping[str, Any], context: Context[Any]
    ) -> ResourceResult:
        """Call the function with the variables of the URI.

        Raises:
            ResourceNotFound: The variables do not fit the signature, or have what a path had better
                not have, so the URI names nothing (SEC-11).
        """
        values = await self._admitted(uri, variables, context)
        return _resource_result(await self.plan.run(values, context), uri, self)

    async def admit(self, uri: str, variables: Mapping[str, Any], context: Context[Any]) -> None:
        """Ask the predicate of the template, if it has one."""
        if self.allow is not None:
            await self._admitted(uri, variables, context)

    async def _admitted(
        self, uri: str, variables: Mapping[str, Any], context: Context[Any]
    ) -> dict[str, Any]:
        for name, value in variables.items():
            if name not in self.unchecked:
                why = misleads(value)
                if why:
                    raise ResourceNotFound(
                        uri, f"Resource not found: {truncate(uri)} ({name}: {why})"
                    )
        try:
            values = self.accepts.validate(variables)
        except InvalidArguments as error:
            raise ResourceNotFound(uri, f"Resource not found: {truncate(uri)} ({error})") from error
        if self.allow is not None:
            await check_allowed(self, values, context)
        return values

    @property
    def argument_names(self) -> Iterable[str]:
        """The names of the variables that the function takes."""
        return [each.wire_name for each in self.accepts.fields]

    @property
    def has_completions(self) -> bool:
        """True if any variable has suggestions."""
        return bool(self.completers)

    async def complete(
        self, name: str, typed: str, others: Mapping[str, str] | None, context: Context[Any]
    ) -> Iterable[str]:
        """Suggest values for a variable."""
        return await _complete(self, name, typed, others, context)


@dataclass(slots=True, kw_only=True)
class FunctionPrompt(Prompt):
    """A prompt whose messages a Python function returns."""

    plan: CallPlan
    converters: Converters = field(default_factory=Converters)
    accepts: Arguments
    completers: Mapping[str, Completer] = field(default_factory=dict[str, Completer])

    @property
    def arguments(self) -> Sequence[tuple[Argument, JsonSchema]]:
        """The arguments of the function, each with its JSON Schema."""
        properties = self.accepts.schema().get("properties", {})
        return [(each, properties[each.wire_name]) for each in self.accepts.fields]

    @property
    def argument_names(self) -> Iterable[str]:
        """The names of the arguments."""
        return [each.wire_name for each in self.accepts.fields]

    @property
    def has_completions(self) -> bool:
        """True if any argument has suggestions."""
        return bool(self.completers)

    async def get(self, arguments: dict[str, str], context: Context[Any]) -> PromptResult:
        """Call the function with the arguments, which arrive as strings (PROMPT-3)."""
        values = self.accepts.validate(arguments)
        if self.allow is not None:
            await check_allowed(self, values, context)
        value = await self.plan.run(values, context)
        if isinstance(value, PromptResult):
            return replace(value, messages=self._messages(value.messages))
        if value is None:
            raise TypeError(f"the prompt {self.name!r} returned None; return text or messages")
        several = isinstance(value, (list, tuple))
        return PromptResult(
            self._messages(cast("Sequence[Any]", value) if several else [value]),
            description=self.description,
        )

    def _messages(self, values: Iterable[Any]) -> list[Message]:
        """Return the messages that values stand for, and dicts with role and content among them."""
        made: list[Message] = []
        for value in values:
            if type(value) is str:
                made.append(Message(value))
            elif isinstance(value, Message):
                made.append(replace(value, content=self.converters.converted(value.content)))
            elif is_object(value) and value.keys() & _MESSAGE == _MESSAGE:
                made += self._from_dict(value)
            else:
                made.append(Message(self._content(value)))
        return made

    def _from_dict(self, value: Mapping[str, Any]) -> Iterable[Message]:
        unknown = value.keys() - _MESSAGE
        if unknown:
            raise NotSerializable(
                f"a message of a prompt has a role and a content, but no "
                f"{', '.join(map(str, sorted(unknown, key=str)))}"
            )
        content = value["content"]
        contents = (
            cast("Iterable[Any]", content) if isinstance(content, (list, tuple)) else [content]
        )
        try:
            return [Message(self._content(each), value["role"]) for each in contents]
        except ValueError as error:
            raise NotSerializable(str(error)) from error

    def _content(self, value: Any) -> Any:
        value = self.converters.converted(value)
        if is_object(value) and isinstance(value.get("type"), str):
            try:
                return wire.block_from_wire(value)
            except ValueError:
                pass  # data that has a type
        if isinstance(value, (str, Message, Media)):
            return value
        return block_of(value, self.converters)

    async def complete(
        self, name: str, typed: str, others: Mapping[str, str] | None, context: Context[Any]
    ) -> Iterable[str]:
        """Suggest values for an argument."""
        return await _complete(self, name, typed, others, context)


async def _complete(
    entry: FunctionTemplate | FunctionPrompt,
    name: str,
    typed: str,
    others: Mapping[str, str] | None,
    context: Context[Any],
) -> Iterable[str]:
    completer = entry.completers.get(name)
    if completer is None:
        return ()
    found = await completer(typed, others, context)
    if entry.allow is None or context.request.origin is None:
        return found
    allowed: list[str] = []
    for each in islice(found, _MOST_ASKED):
        try:
            values = entry.accepts.validate({**(others or {}), name: str(each)})
            await check_allowed(entry, values, context)
        except (InvalidArguments, Forbidden):
            continue  # it is refused, or nobody can tell without the other arguments
        allowed.append(str(each))
    return allowed


_MOST_ASKED: Final = 200
"""Suggestions that a predicate is asked about."""


_MESSAGE: Final = frozenset({"role", "content"})
_CONTENTS: Final = (TextResourceContents, BlobResourceContents)


def _resource_result(
    value: Any, uri: str, entry: FunctionResource | FunctionTemplate
) -> ResourceResult:
    if isinstance(value, ResourceResult):
        return value
    if value is None:
        raise ResourceNotFound(uri)
    if isinstance(value, (list, tuple)):
        items = cast("Sequence[Any]", value)
        if items and all(isinstance(item, _CONTENTS) for item in items):
            return ResourceResult(cast("Sequence[ResourceContents]", items))
    value = entry.converters.converted(value)
    return ResourceResult([_contents(value, uri, entry.mime_type, entry.converters)])


def _contents(
    value: Any, uri: str, mime_type: str | None, converters: Converters
) -> ResourceContents:
    if isinstance(value, _CONTENTS):
        return value
    if isinstance(value, str):
        refuse_infinities_in(value)
        return TextResourceContents(uri, value, mime_type=mime_type or "text/plain")
    if is_binary(value):
        mime_type = mime_type or "application/octet-stream"
        return BlobResourceContents(uri, bytes(value), mime_type=mime_type)
    if isinstance(value, Media):
        return contents_of(uri, value.data, mime_type or value.mime_type)
    text = converters.json(value).decode()
    return TextResourceContents(uri, text, mime_type=mime_type or "application/json")


# --- options --------------------------------------------------------------------------------------

Errors: TypeAlias = type[Exception] | Iterable[type[Exception]] | Literal["all"]
"""The exceptions of a handler whose text is shown: a class, several, or ``"all"``."""


class Defaults(NamedTuple):
    """The part of an app that its entries are made with.

    Args:
        converters: For values that are no JSON.
        errors: The exceptions that are shown, where an entry does not say.
    """

    converters: Converters = Converters()
    errors: tuple[type[Exception], ...] = ()


_NO_APP: Final = Defaults()


class CommonOptions(TypedDict):
    """Options that tools, resources and prompts share."""

    name: NotRequired[str | None]
    title: NotRequired[str | None]
    description: NotRequired[str | None]
    icons: NotRequired[Sequence[Icon] | None]
    meta: NotRequired[Meta | None]
    tags: NotRequired[Iterable[str]]
    inline: NotRequired[bool]
    errors: NotRequired[Errors | None]
    scopes: NotRequired[Iterable[str] | None]
    allow: NotRequired[Allow | None]


class ToolHints(TypedDict, total=False):
    """The annotations of a tool, as the protocol writes them."""

    title: str
    readOnlyHint: bool
    destructiveHint: bool
    idempotentHint: bool
    openWorldHint: bool


class Hints(TypedDict, total=False):
    """The annotations of a resource, as the protocol writes them."""

    audience: Sequence[Role]
    priority: float
    lastModified: str


class ToolOptions(CommonOptions):
    """Options of a tool."""

    annotations: NotRequired[ToolAnnotations | ToolHints | None]
    read_only: NotRequired[bool | None]
    destructive: NotRequired[bool | None]
    idempotent: NotRequired[bool | None]
    open_world: NotRequired[bool | None]
    structured_output: NotRequired[bool | Literal["raw"] | None]
    input_schema: NotRequired[JsonSchema | None]
    task: NotRequired[TaskSupport]
    resumable: NotRequired[bool]
    task_ttl: NotRequired[float | None]


class ResourceOptions(CommonOptions):
    """Options of a resource or a resource template."""

    mime_type: NotRequired[str | None]
    size: NotRequired[int | None]
    annotations: NotRequired[Annotations | Hints | None]
    audience: NotRequired[Sequence[Role] | None]
    priority: NotRequired[float | None]
    ttl: NotRequired[float | None]
    cache_scope: NotRequired[CacheScope | None]
    unchecked: NotRequired[Sequence[str]]


class PromptOptions(CommonOptions):
    """Options of a prompt."""


def _check_options(signature: Signature, options: Mapping[str, Any], kind: Any) -> None:
    known: frozenset[str] = kind.__required_keys__ | kind.__optional_keys__
    for name in options:
        if name not in known:
            on = f"{kind.__name__.removesuffix('Options').lower()}(…)"
            meant = suggest(on, name, known)
            raise RegistrationError(f"{signature.place}: there is no option {name!r}; {meant}")


def errors_of(errors: object, place: str) -> tuple[type[Exception], ...]:
    """Return the exceptions that an author wants to be shown, as `isinstance` takes them.

    Args:
        errors: As for the option of this name.
        place: For messages.

    Raises:
        RegistrationError: It is something else.
    """
    if errors == "all":
        return (Exception,)
    found: Any = (errors,) if isinstance(errors, type) else errors
    if not isinstance(found, str) and hasattr(found, "__iter__"):
        classes: tuple[Any, ...] = tuple(found)
        if all(isinstance(each, type) and issubclass(each, Exception) for each in classes):
            return classes
    raise RegistrationError(
        f'{place}: errors is "all" or classes of exceptions, such as (ValueError,), not {errors!r}'
    )


def _common(
    fn: Callable[..., Any],
    signature: Signature,
    options: CommonOptions,
    prefix: str | None,
    defaults: Defaults,
) -> dict[str, Any]:
    name = options.get("name") or signature.name
    if name == "<lambda>":
        raise RegistrationError(f"{signature.where}: a lambda has no name; pass name=...")
    plan = CallPlan(fn, signature, inline=options.get("inline", False))
    errors = options.get("errors")
    return {
        "function": fn,
        "errors": defaults.errors if errors is None else errors_of(errors, signature.place),
        "uses_context": plan.uses_context,
        "plan": plan,
        "name": f"{prefix}_{name}" if prefix else name,
        "title": options.get("title"),
        "description": options.get("description") or signature.docs.description,
        "icons": options.get("icons"),
        "meta": options.get("meta"),
        "tags": frozenset(options.get("tags", ())),
        "scopes": needed_scopes(options.get("scopes"), signature.place),
        "allow": _predicate(options.get("allow"), signature),
        "environment": plan.environment,
    }


def _predicate(allow: object, signature: Signature) -> Allow | None:
    """Return the function that says who may use an entry.

    Raises:
        RegistrationError: It is no function of a principal and arguments.
    """
    if allow is None:
        return None
    if callable(allow):
        try:
            inspect.signature(allow).bind(None, {})
        except TypeError:
            pass
        except ValueError:  # no signature that Python could show
            return cast("Allow", allow)
        else:
            return cast("Allow", allow)
    raise RegistrationError(
        f"{signature.place}: allow= is a function of a principal and the arguments, such as "
        f"lambda principal, arguments: True"
    )


def _hints(options: ToolOptions, signature: Signature) -> ToolAnnotations | None:
    """Return the annotations of a tool; None if they say nothing."""
    given = options.get("annotations")
    hints = _given(given, ToolAnnotations, _WIRE_HINTS, signature) or ToolAnnotations()
    hints = replace(hints)  # an author may share one between tools
    short: dict[str, bool | None] = {
        "read_only": options.get("read_only"),
        "destructive": options.get("destructive"),
        "idempotent": options.get("idempotent"),
        "open_world": options.get("open_world"),
    }
    for name, value in short.items():
        if value is not None:
            setattr(hints, name, value)
    return hints if hints != ToolAnnotations() else None


_WIRE_HINTS: Final = {
    "title": "title",
    "readOnlyHint": "read_only",
    "destructiveHint": "destructive",
    "idempotentHint": "idempotent",
    "openWorldHint": "open_world",
}
_WIRE_ANNOTATIONS: Final = {
    "audience": "audience",
    "priority": "priority",
    "lastModified": "last_modified",
}
"""Members of annotations as the protocol has them → ours."""

_AnnotationsT = TypeVar("_AnnotationsT", ToolAnnotations, Annotations)


def _given(
    given: Any, kind: type[_AnnotationsT], names: Mapping[str, str], signature: Signature
) -> _AnnotationsT | None:
    """Return annotations that may be given as the object of the protocol, too.

    Raises:
        RegistrationError: They are neither, or have another member.
    """
    if given is None or isinstance(given, kind):
        return given
    at = f"{signature.place}: annotations"
    if not isinstance(given, Mapping):
        library = library_of(given)
        of = f" of {library}" if library else ""
        raise RegistrationError(
            f"{at} is a {type(given).__name__}{of}; write a mcpkit.{kind.__name__}, or a dict"
        )
    members = cast("Mapping[str, Any]", given)
    made: dict[str, Any] = {}
    for name, value in members.items():
        if name not in names and name not in names.values():
            meant = suggest("annotations", name, names)
            raise RegistrationError(f"{at} has no member {name!r}; {meant}")
        made[names.get(name, name)] = value
    return kind(**made)


def make_tool(
    fn: Callable[..., Any],
    /,
    *,
    prefix: str | None = None,
    defaults: Defaults = _NO_APP,
    **options: Unpack[ToolOptions],
) -> FunctionTool:
    """A tool from a function.

    Args:
        prefix: Put at the start of the name.
        defaults: Of the app.

    Raises:
        RegistrationError: The function or an option cannot be served; the message has the fix.
    """
    given = options.get("input_schema")
    is_open = given is not None and takes_any(fn)
    signature = inspect_handler(fn, is_open=is_open)
    _check_options(signature, options, ToolOptions)
    hints = _hints(options, signature) if options else None
    if given is None:
        arguments = Arguments(signature)
        input_schema = arguments.schema()
    else:
        from mcpkit._signature.input_schema import OpenArguments, check_input_schema  # few have one

        arguments = OpenArguments(signature, given) if is_open else Arguments(signature)
        check_input_schema(signature, arguments, given, is_open)
        input_schema = given
    try:
        headers = declared_in(input_schema)
    except ValueError as error:
        raise RegistrationError(f"{signature.where}: {signature.name}(): {error}") from None
    output = Output(signature, options.get("structured_output"), defaults.converters)
    common = _common(fn, signature, options, prefix, defaults)
    if not options.get("description") and _repeats(signature, output.schema):
        common["description"] = signature.docs.told("returns")
    return FunctionTool(
        **common,
        accepts=arguments,
        output=output,
        input_schema=input_schema,
        output_schema=output.schema,
        annotations=hints,
        headers=headers,
        raw_output=output.is_raw,
        **_task_options(options, signature),
    )


def _task_options(options: ToolOptions, signature: Signature) -> dict[str, Any]:
    """Return what a tool says about tasks.

    Raises:
        RegistrationError: It makes no sense.
    """
    support = options.get("task", "forbidden")
    if support not in TASK_SUPPORT:
        known = ", ".join(map('"{}"'.format, TASK_SUPPORT))
        raise RegistrationError(f"{signature.place}: task={support!r}; write one of {known}")
    found: dict[str, Any] = {
        name: value for name, value in options.items() if name in ("resumable", "task_ttl")
    }
    if found and support == "forbidden":
        raise RegistrationError(
            f"{signature.place}: {next(iter(found))}= is for tools that run as tasks; add "
            f'task="optional", or "required"'
        )
    ttl = found.get("task_ttl")
    if ttl is not None and not ttl > 0:
        raise RegistrationError(f"{signature.place}: task_ttl= is seconds, more than 0")
    return {"task": support, **found}


def _repeats(signature: Signature, schema: JsonSchema | None) -> bool:
    """True if a docstring says no more of the result than an output schema or a type does."""
    returns = signature.docs.returns
    if not returns or signature.returns is UNSET:
        return False
    known = {each.lower() for each in _WORD.findall(str(signature.returns))} | _TYPE_WORDS
    texts = [
        text
        for text in returns.partition(":")[2].strip().splitlines()
        if not known.issuperset(map(str.lower, _WORD.findall(text)))
    ]
    if not texts or schema is None:
        return not texts
    described = [str(each["description"]) for each in every_schema(schema) if "description" in each]
    return all(
        any(_is_in(text, each) or _is_in(text.partition(":")[2], each) for each in described)
        for text in texts
    )


def _is_in(text: str, description: str) -> bool:
    plain = text.strip(" .-")
    return bool(plain) and plain in description


_WORD: Final = re.compile(r"\w+")
_TYPE_WORDS: Final = frozenset(
    {
        *("a", "an", "and", "array", "bool", "boolean", "bytes", "dict", "dictionary", "float"),
        *("int", "integer", "json", "list", "none", "null", "number", "object", "of", "or"),
        *("str", "string", "text", "the", "tuple"),
    }
)


def make_resource(
    uri: str | None,
    fn: Callable[..., Any],
    /,
    *,
    prefix: str | None = None,
    defaults: Defaults = _NO_APP,
    **options: Unpack[ResourceOptions],
) -> FunctionResource | FunctionTemplate:
    """A resource from a function, or a resource template if the URI has variables.

    Args:
        uri: ``resource://`` and the function's name, with its arguments as segments, if None.
        prefix: Put at the start of the name, and of what follows the URI's scheme.
        defaults: Of the app.

    Raises:
        RegistrationError: The function, the URI or an option cannot be served.
    """
    signature = inspect_handler(fn)
    _check_options(signature, options, ResourceOptions)
    at = f"{signature.where}: {signature.name}()"
    arguments = Arguments(signature)
    _refuse_headers(arguments, at)
    names = [each.wire_name for each in arguments.fields]
    uri = uri or "/".join([f"resource://{signature.name}", *(f"{{{name}}}" for name in names)])
    if prefix:
        uri = prefixed_uri(prefix, uri)
    try:
        template = UriTemplate(uri, whole=_texts_among(arguments))
    except ValueError as error:
        raise RegistrationError(f"{at}: {error}") from None
    if "://" not in uri and _SCHEME.match(uri) is None:
        raise RegistrationError(f'{at}: {uri!r} has no scheme; write "resource://{uri}"')
    try:
        returns = defaults.converters.returned(signature.returns)
    except NoConverter as error:
        raise RegistrationError(
            f"{at}: nothing can be read of {error}, the return type; return text, bytes, a model, "
            f"a dataclass or built-in types, or give the app a converter"
        ) from None
    annotations = _given(options.get("annotations"), Annotations, _WIRE_ANNOTATIONS, signature)
    if options.get("audience") is not None or options.get("priority") is not None:
        annotations = replace(annotations or Annotations())
        for name in ("audience", "priority"):
            if options.get(name) is not None:
                setattr(annotations, name, options.get(name))
    shared: dict[str, Any] = {
        **_common(fn, signature, options, prefix, defaults),
        "converters": defaults.converters,
        "mime_type": options.get("mime_type") or _mime_type_of(returns),
        "annotations": annotations,
        "ttl": options.get("ttl"),
        "cache_scope": options.get("cache_scope"),
    }
    if template.is_literal:
        if names:
            raise RegistrationError(
                f"{at}: the URI {uri!r} has no variables, so nothing fills {', '.join(names)}; "
                f"write them into the URI as {{{names[0]}}}"
            )
        return FunctionResource(**shared, uri=uri, size=options.get("size"))
    _check_variables(template, arguments, at)
    if not options.get("description"):
        shared["description"] = _with_variables(signature.docs, names)
    unchecked = options.get("unchecked") or ()
    variables = [each.name for each in template.variables]
    if isinstance(unchecked, str) or not set(unchecked) <= set(variables):
        raise RegistrationError(
            f"{at}: unchecked must be a list of variables of {uri!r}, such as {variables[:1]}, "
            f"not {unchecked!r}"
        )
    return FunctionTemplate(
        **shared,
        template=template,
        accepts=arguments,
        completers=_completers(arguments, signature),
        unchecked=frozenset(unchecked),
    )


def _with_variables(docs: Docs, names: Iterable[str]) -> str | None:
    """Return the description of a template, and of its variables: a list has no other place."""
    told = [f"- {name}: {docs.parameters[name]}" for name in names if name in docs.parameters]
    parts = [docs.description, "Args:\n" + "\n".join(told) if told else None]
    return "\n\n".join(filter(None, parts)) or None


def _texts_among(arguments: Arguments) -> list[str]:
    """Return the names of the arguments that are text, or may be missing."""
    return [
        each.wire_name
        for each in arguments.fields
        if each.form.schema("validation").get("type") == "string"
        or _choices(each.form.schema("validation")) <= {"string", "null"}
    ]


def _choices(schema: JsonSchema) -> set[str]:
    return {str(each.get("type")) for each in schema.get("anyOf", [{}])}


_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:")


def _check_variables(template: UriTemplate, arguments: Arguments, at: str) -> None:
    parameters = {each.wire_name: each for each in arguments.fields}
    for variable in template.variables:
        parameter = parameters.get(variable.name)
        if parameter is None:
            raise RegistrationError(
                f"{at}: the URI has a variable {{{variable.name}}}, but no parameter takes it"
            )
        if parameter.required and not variable.required:
            raise RegistrationError(
                f"{at}: {{{variable.name}}} may be missing from a URI; give the parameter a default"
            )
    filled = {variable.name for variable in template.variables}
    for name, parameter in parameters.items():
        if parameter.required and name not in filled:
            raise RegistrationError(
                f"{at}: nothing in the URI fills {name}; add {{{name}}} to it, "
                f"or give the parameter a default"
            )


def _mime_type_of(returns: Any) -> str | None:
    """The MIME type that a return annotation gives away; None if it says nothing."""
    if get_origin(returns) is Annotated:
        returns = get_args(returns)[0]
    if returns is str:
        return "text/plain"
    if returns is bytes:
        return "application/octet-stream"
    if returns is UNSET or not is_structured(returns):
        return None
    return "application/json"


def make_prompt(
    fn: Callable[..., Any],
    /,
    *,
    prefix: str | None = None,
    defaults: Defaults = _NO_APP,
    **options: Unpack[PromptOptions],
) -> FunctionPrompt:
    """A prompt from a function.

    Args:
        prefix: Put at the start of the name.
        defaults: Of the app.

    Raises:
        RegistrationError: The function or an option cannot be served; the message has the fix.
    """
    signature = inspect_handler(fn)
    _check_options(signature, options, PromptOptions)
    arguments = Arguments(signature)
    _refuse_headers(arguments, f"{signature.where}: {signature.name}()")
    return FunctionPrompt(
        **_common(fn, signature, options, prefix, defaults),
        converters=defaults.converters,
        accepts=arguments,
        completers=_completers(arguments, signature),
    )


def _refuse_headers(arguments: Arguments, at: str) -> None:
    for each in arguments.fields:
        if any("x-mcp-header" in part for part in every_schema(each.form.schema("validation"))):
            raise RegistrationError(
                f"{at}: {each.name} has a Header(...), but only calls of tools repeat arguments in "
                f"headers; remove it"
            )


# --- completion -----------------------------------------------------------------------------------


def _completers(arguments: Arguments, signature: Signature) -> Mapping[str, Completer]:
    found: dict[str, Completer] = {}
    for each in arguments.fields:
        completer = _completer(each.parameter, signature)
        if completer is not None:
            found[each.wire_name] = completer
    return found


def _completer(parameter: Parameter, signature: Signature) -> Completer | None:
    if parameter.complete is None:
        choices = choices_of(parameter.annotation)
        return _from_values(choices) if choices else None
    values = parameter.complete.values
    if not callable(values):
        return _from_values(list(values))
    return _from_function(values, signature)


def choices_of(annotation: Any) -> list[str]:
    """The values that a type allows, as a client would write them: Literal, Enum and bool."""
    annotation = unalias(annotation)
    if get_origin(annotation) is Annotated:
        return choices_of(get_args(annotation)[0])
    if get_origin(annotation) is Literal:
        values = [getattr(each, "value", each) for each in get_args(annotation)]
        return [str(each).lower() if isinstance(each, bool) else str(each) for each in values]
    if annotation is bool:
        return ["true", "false"]
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return [str(member.value) for member in annotation]
    if get_origin(annotation) in (typing.Union, types.UnionType):
        return [choice for part in get_args(annotation) for choice in choices_of(part)]
    return []


def _from_values(values: Sequence[str]) -> Completer:
    """Those that begin with what was typed, then those that contain it; case does not matter."""

    async def complete(
        typed: str, others: Mapping[str, str] | None, context: Context[Any]
    ) -> Iterable[str]:
        del others, context
        wanted = typed.casefold()
        begins = [each for each in values if each.casefold().startswith(wanted)]
        contains = [each for each in values if wanted in each.casefold() and each not in begins]
        return [*begins, *contains]

    return complete


def _from_function(fn: Callable[..., Any], handler: Signature) -> Completer:
    signature = inspect_function(fn, contexts=CONTEXTS)
    at = f"{signature.where}: {signature.name}()"
    if not signature.arguments:
        raise RegistrationError(f"{at}: a completion function takes what was typed as its argument")
    first, *rest = signature.arguments
    known = {each.name for each in handler.arguments}
    for each in rest:
        if each.name not in known and each.required:
            raise RegistrationError(
                f"{at}: {each.name} is no argument of {handler.name}(); completion functions get "
                f"what was typed, and the other arguments by name"
            )
    plan = CallPlan(fn, signature)

    async def complete(
        typed: str, others: Mapping[str, str] | None, context: Context[Any]
    ) -> Iterable[str]:
        values: dict[str, Any] = {first.name: typed}
        for each in rest:
            if others is not None and each.name in others:
                values[each.name] = others[each.name]
            elif each.required:
                values[each.name] = None
        suggested: Iterable[str] = await plan.run(values, context)
        return suggested

    return complete


# --- marks ----------------------------------------------------------------------------------------

MarkKind = Literal["tool", "resource", "prompt"]
_MARK = "__mcpkit_marks__"


def mark(fn: Any, kind: MarkKind, uri: str | None, options: Mapping[str, Any]) -> None:
    """Note on a function what it is to be registered as.

    Raises:
        RegistrationError: It is no function that can carry a note.
    """
    target = _without_binding(fn)
    marks = [*getattr(target, _MARK, ()), (kind, uri, dict(options))]
    try:
        setattr(target, _MARK, marks)
    except AttributeError:
        name = function_name(target)
        raise RegistrationError(f"{name} cannot be marked; use app.{kind}(...) on it") from None


def _without_binding(raw: object) -> Any:
    """The function inside a static or class method; anything else as it is."""
    return cast("Any", raw).__func__ if isinstance(raw, (staticmethod, classmethod)) else raw


def marked_in(
    source: Any,
) -> list[tuple[Callable[..., Any], MarkKind, str | None, dict[str, Any]]]:
    """Every marked function of a module, class or object, in the order of definition."""
    found: list[tuple[Callable[..., Any], MarkKind, str | None, dict[str, Any]]] = []
    if inspect.ismodule(source):
        names: Iterable[str] = vars(source)
    else:
        cls: type = source if isinstance(source, type) else type(source)
        bases = [vars(base) for base in reversed(cls.__mro__)]
        names = dict.fromkeys([name for base in bases for name in base])
        if not isinstance(source, type):
            names = [*names, *(n for n in getattr(source, "__dict__", {}) if n not in names)]
    seen: set[int] = set()
    for name in list(names):
        raw: Any = inspect.getattr_static(source, name, None)
        target = _without_binding(raw)
        marks = getattr(target, "__dict__", {}).get(_MARK)
        if not marks or id(target) in seen:
            continue
        seen.add(id(target))
        fn = getattr(source, name)
        if isinstance(source, type) and inspect.isfunction(raw):
            raise RegistrationError(
                f"{source.__name__}.{name} is a method; include an instance: {source.__name__}(...)"
            )
        for kind, uri, options in marks:
            found.append((fn, kind, uri, options))
    return found
