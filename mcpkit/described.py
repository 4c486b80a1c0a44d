"""Entries that are described, not derived from a function: imported, forwarded or generated ones.

    from mcpkit import described

    async def search(arguments, ctx):
        return await api.search(**arguments)

    app.add(described.tool(search, name="search", input_schema=SCHEMA, output_schema=FOUND))

What they say about themselves is given as the protocol has it, and sent as it is. All options of
functions apply: limits, scopes, ``allow=``, tasks and keys.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, TypeAlias, cast

from typing_extensions import Self, Unpack

from mcpkit._entries import NO_APP, Defaults, Entry, annotations_from, entry_fields, without_prefix
from mcpkit._injection import CallPlan, DescribedPlan, limited
from mcpkit._protocol.input_request import InputRequest
from mcpkit._protocol.revisions import Revision
from mcpkit._signature.input_schema import Argument as Argument
from mcpkit._signature.input_schema import GivenArguments, GivenOutput
from mcpkit._signature.signature import can_take, is_async
from mcpkit._signature.validation import Problems
from mcpkit._utils.json import JsonSchema
from mcpkit._utils.names import caller
from mcpkit._utils.uri_template import UriTemplate
from mcpkit.completion import Completer
from mcpkit.context import Context
from mcpkit.errors import InvalidArguments, RegistrationError
from mcpkit.prompts import Prompt, PromptOptions
from mcpkit.resources import (
    SCHEME,
    Readable,
    Resource,
    ResourceOptions,
    ResourceTemplate,
    unchecked_from,
)
from mcpkit.tools import Tool, ToolOptions, assembled
from mcpkit.types import Annotations, PromptResult, ResourceResult, ToolResult

Call: TypeAlias = Callable[[dict[str, Any], Context[Any]], "Awaitable[ToolResult | Any]"]
"""From the arguments, as the client sent them, to a `ToolResult`, a text or a JSON value."""

Read: TypeAlias = Callable[[str, Context[Any]], "Awaitable[ResourceResult | Any]"]
"""From the URI, without the prefix of an inclusion, to a `ResourceResult`, a text or another value
that a resource may return."""

Get: TypeAlias = Callable[[dict[str, str], Context[Any]], "Awaitable[PromptResult | Any]"]
"""From the arguments to a `PromptResult`, a text or messages."""

Complete: TypeAlias = Callable[
    [str, str, Mapping[str, str], Context[Any]], Awaitable[Iterable[str]]
]
"""From the name of an argument, the text so far and the other arguments, to suggestions."""


class DescribedEntry:
    """A tool, resource, resource template or prompt for `MCPKit.add`."""

    def __init__(self, make: Callable[[Defaults], Entry]) -> None:
        self._make = make
        make(NO_APP)  # what is wrong is reported where it is written

    def entry(self, defaults: Defaults) -> Entry:
        """Return the entry of an app with these defaults."""
        return self._make(defaults)


def tool(
    call: Call, /, *, output_schema: JsonSchema | None = None, **options: Unpack[ToolOptions]
) -> DescribedEntry:
    """Return a tool that is described.

    Args:
        call: An ``async def`` of the arguments, which fit the input schema, and the context.
        output_schema: The JSON Schema (2020-12) of the structured content; a result that does not
            fit is an error. None: results are content only, unless `call` returns a `ToolResult`
            with structured content.
        options: As for `MCPKit.tool`; ``name`` and ``input_schema`` are required.

    Raises:
        RegistrationError: The name, a schema or an option is missing or invalid.
    """
    at = f"{caller()}described.tool({options.get('name')!r})"
    schema = options.get("input_schema")
    if schema is None:
        raise RegistrationError(f"{at}: it needs an input_schema=")
    if options.get("structured_output") is not None:
        raise RegistrationError(f"{at}: structured_output= is for functions; use output_schema=")

    def make(defaults: Defaults) -> Tool:
        fields, plan = _parts(Tool, ToolOptions, call, options, defaults, at)
        accepts = GivenArguments(schema, f"{at}: input_schema")
        output = GivenOutput(output_schema, f"{at}: output_schema", defaults.converters)
        return assembled(fields, plan, accepts, output, options, at)

    return DescribedEntry(make)


def resource(read: Read, uri: str, /, **options: Unpack[ResourceOptions]) -> DescribedEntry:
    """Return a resource that is described.

    Args:
        read: An ``async def`` of the URI and the context. Contents at this URI are sent with the
            URI that the client has asked for, which has a prefix if the app is included with one.
        uri: Absolute, without variables.
        options: As for `MCPKit.resource`; ``name`` is required.

    Raises:
        RegistrationError: The URI, the name or an option is missing or invalid.
    """
    at = f"{caller()}described.resource({uri!r})"
    if not _template(uri, at).is_literal:
        raise RegistrationError(f"{at}: the URI has variables; use described.template(…)")

    def make(defaults: Defaults) -> Resource:
        return _Resource(**_readable(_Resource, read, options, defaults, at), uri=uri)

    return DescribedEntry(make)


def template(
    read: Read,
    uri_template: str,
    /,
    *,
    complete: Complete | None = None,
    **options: Unpack[ResourceOptions],
) -> DescribedEntry:
    """Return a resource template that is described.

    Args:
        read: As for `resource`; it gets each URI that matches, as a whole.
        uri_template: RFC 6570, absolute, with variables.
        complete: Suggests values for the variables.
        options: As for `resource`, with ``unchecked``.

    Raises:
        RegistrationError: The template, the name or an option is missing or invalid.
    """
    at = f"{caller()}described.template({uri_template!r})"
    parsed = _template(uri_template, at)
    if parsed.is_literal:
        raise RegistrationError(f"{at}: it has no variables; use described.resource(…)")
    names = [Argument(each.name, required=each.required) for each in parsed.variables]

    def make(defaults: Defaults) -> ResourceTemplate:
        fields = _readable(_ResourceTemplate, read, options, defaults, at)
        fields["unchecked"] = unchecked_from(options, parsed, at)
        return _ResourceTemplate(
            **fields,
            template=parsed,
            accepts=_Texts(names),
            completers=_completers(names, complete, at),
        )

    return DescribedEntry(make)


def prompt(
    get: Get,
    /,
    *,
    arguments: Sequence[Argument] = (),
    complete: Complete | None = None,
    **options: Unpack[PromptOptions],
) -> DescribedEntry:
    """Return a prompt that is described.

    Args:
        get: An ``async def`` of the arguments and the context.
        arguments: What clients may fill in.
        complete: Suggests values for the arguments.
        options: As for `MCPKit.prompt`; ``name`` is required.

    Raises:
        RegistrationError: The name or an option is missing or invalid.
    """
    at = f"{caller()}described.prompt({options.get('name')!r})"
    taken = tuple(arguments)
    names = [getattr(each, "name", None) for each in taken]
    if not all(isinstance(each, str) for each in names) or len({*names}) < len(names):
        raise RegistrationError(
            f"{at}: arguments= are values of described.Argument with different names"
        )

    def make(defaults: Defaults) -> Prompt:
        fields, plan = _parts(Prompt, PromptOptions, get, options, defaults, at)
        return Prompt(
            **fields,
            plan=plan,
            converters=defaults.converters,
            accepts=_Texts(taken),
            completers=_completers(taken, complete, at),
        )

    return DescribedEntry(make)


class Question(InputRequest[dict[str, Any]]):
    """A request for input as it is on the wire, such as that of another server.

    Its answer is the result that the client sent: ``[answer] = await ctx.gather(Question(…))``.

    Args:
        method: ``"elicitation/create"``, ``"sampling/createMessage"`` or ``"roots/list"``.
        params: Its params, as the revision of the client has them.
        needs: The capabilities that the client must have declared; those of the method by default.
        key, timeout: As for `Context.elicit`.

    Raises:
        ValueError: The method is unknown.
    """

    def __init__(
        self,
        method: str,
        params: Mapping[str, Any],
        *,
        needs: Mapping[str, Any] | None = None,
        key: str | None = None,
        timeout: float | None = None,
    ) -> None:
        super().__init__(key=key, timeout=timeout)
        if method not in _METHODS:
            raise ValueError(f"{method!r} does not ask for input; use {', '.join(_METHODS)}")
        self.METHOD = method
        needs = {method.partition("/")[0]: {}} if needs is None else needs
        self._params, self._needs = dict(params), dict(needs)

    def params(self, revision: Revision) -> dict[str, Any]:
        """Return the params, without ``_meta`` from 2026-07-28 on."""
        dropped = () if revision.handshake else ("_meta",)
        return {name: each for name, each in self._params.items() if name not in dropped}

    def required_capabilities(self, revision: Revision) -> dict[str, Any]:
        """Return what the client must have declared."""
        return self._needs

    def parse_result(self, result: Mapping[str, Any]) -> dict[str, Any]:
        """Return the result."""
        return dict(result)


_METHODS: Final = ("elicitation/create", "sampling/createMessage", "roots/list")


# --- parts ----------------------------------------------------------------------------------------


def _parts(
    kind: Any, declared: Any, call: Any, options: Mapping[str, Any], defaults: Defaults, at: str
) -> tuple[dict[str, Any], CallPlan]:
    """Return the fields and the plan of an entry."""
    name = options.get("name")
    if not isinstance(name, str) or not name:
        raise RegistrationError(f"{at}: it needs a name=")
    fields = entry_fields(kind, declared, options, defaults, at)
    return fields, limited(DescribedPlan(call, at), options, name, at)


def _readable(
    kind: Any, read: Read, options: Mapping[str, Any], defaults: Defaults, at: str
) -> dict[str, Any]:
    fields, plan = _parts(kind, ResourceOptions, read, options, defaults, at)
    fields["annotations"] = annotations_from(options, Annotations, at)
    return {**fields, "plan": plan, "converters": defaults.converters}


def _template(uri: str, at: str) -> UriTemplate:
    try:
        found = UriTemplate(uri)
    except ValueError as error:
        raise RegistrationError(f"{at}: {error}") from None
    if SCHEME.match(uri) is None:
        raise RegistrationError(f"{at}: it has no scheme, such as notes://")
    return found


class _Texts:
    """What a described prompt or template takes: texts with names."""

    def __init__(self, fields: Sequence[Argument]) -> None:
        self.fields = fields

    def schema(self) -> JsonSchema:
        return {
            "type": "object",
            "properties": {
                each.name: {"title": each.title, "description": each.description}
                for each in self.fields
            },
        }

    def validate(self, raw: Mapping[str, Any]) -> dict[str, Any]:
        names = [each.name for each in self.fields]
        missing = [each.name for each in self.fields if each.required and each.name not in raw]
        unknown = [name for name in raw if name not in names]
        if missing or unknown:
            problems = Problems()
            for name in missing:
                problems.add(name, "required, but missing")
            problems.add_unknown(unknown, names)
            raise InvalidArguments(problems.lines())
        return dict(raw)


def _completers(
    arguments: Iterable[Argument], complete: Complete | None, at: str
) -> dict[str, Completer]:
    if complete is None:
        return {}
    if not is_async(complete) or not can_take(complete, "", "", {}, None):
        raise RegistrationError(
            f"{at}: complete= is an async function of the name of an argument, the text so far, "
            f"the other arguments, and the context"
        )

    async def suggest(
        name: str, typed: str, others: Mapping[str, str] | None, context: Context[Any]
    ) -> Iterable[str]:
        return await complete(name, typed, others or {}, context)

    return {each.name: partial(suggest, each.name) for each in arguments}


class _OwnUri(Readable):
    """Hands the plan the URI without the prefix of an inclusion, instead of variables."""

    __slots__ = ()

    prefix: str

    def prefixed(self, prefix: str) -> Self:
        whole = f"{prefix}/{self.prefix}" if self.prefix else prefix
        made: Any = super().prefixed(prefix)
        return cast("Self", replace(made, prefix=whole))

    async def admit(self, uri: str, variables: Mapping[str, Any], context: Context[Any]) -> Any:
        await super().admit(uri, variables, context)
        return self._own(uri)

    async def read(
        self, uri: str, variables: Mapping[str, Any], context: Context[Any]
    ) -> ResourceResult:
        found, own = await super().read(uri, variables, context), self._own(uri)
        if own == uri:
            return found
        moved = [replace(each, uri=uri) if each.uri == own else each for each in found.contents]
        return replace(found, contents=moved)

    def _own(self, uri: str) -> str:
        return without_prefix(self.prefix, uri, self.key) if self.prefix else uri


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class _Resource(_OwnUri, Resource):
    prefix: str = ""


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class _ResourceTemplate(_OwnUri, ResourceTemplate):
    prefix: str = ""
