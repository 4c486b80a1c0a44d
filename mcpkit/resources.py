"""Resources and resource templates: data that clients read by URI."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Final, cast, get_args, get_origin, overload

from typing_extensions import Self, TypedDict, TypeVar, Unpack

from mcpkit._entries import (
    NO_APP,
    CommonOptions,
    Defaults,
    Entry,
    annotations_from,
    decorated,
    function_fields,
    mark,
    prefixed_uri,
    refuse_marks_of_tools,
)
from mcpkit._injection import CallPlan, inspect_handler, plan_of
from mcpkit._protocol import wire
from mcpkit._protocol.revisions import Revision
from mcpkit._signature.arguments import Arguments, Takes
from mcpkit._signature.converters import Converters, NoConverter
from mcpkit._signature.output import is_structured
from mcpkit._utils.json import UNSET, JsonSchema, is_binary
from mcpkit._utils.text import truncate
from mcpkit._utils.uri_template import UriTemplate, misleads
from mcpkit.completion import Completable, Completer, completers_of
from mcpkit.context import Context
from mcpkit.errors import InvalidArguments, RegistrationError, ResourceNotFound
from mcpkit.types import (
    Annotations,
    BlobResourceContents,
    CacheScope,
    Media,
    ResourceContents,
    ResourceResult,
    Role,
    TextResourceContents,
    contents_of,
)

F = TypeVar("F", bound=Callable[..., Any])


_CONTENTS: Final = (TextResourceContents, BlobResourceContents)


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class Readable(Entry):
    """The common part of resources and resource templates: functions that return contents."""

    plan: CallPlan
    converters: Converters = field(default_factory=Converters)
    mime_type: str | None = None
    annotations: Annotations | None = None
    cache_ttl: float | None = None  # seconds for which clients may cache the contents
    cache_scope: CacheScope | None = None  # None, as for `cache_ttl`: the setting of the server

    async def read(
        self, uri: str, variables: Mapping[str, Any], context: Context[Any]
    ) -> ResourceResult:
        """Call the function; raises `ResourceNotFound` if there is nothing at this URI."""
        value = await self.plan.run(await self.admit(uri, variables, context), context)
        if isinstance(value, ResourceResult):
            return value
        if value is None:
            raise ResourceNotFound(uri)
        if isinstance(value, (list, tuple)):
            items = cast("Sequence[Any]", value)
            if items and all(isinstance(item, _CONTENTS) for item in items):
                return ResourceResult(items)
        return ResourceResult([self._contents(self.converters.converted(value), uri)])

    @property
    def is_guarded(self) -> bool:
        """True if `admit` decides about subscriptions."""
        return self.allow is not None

    async def admit(
        self, uri: str, variables: Mapping[str, Any], context: Context[Any]
    ) -> dict[str, Any]:
        """Return the arguments of the function for a caller who may read and subscribe.

        Raises `Forbidden`, or `ResourceNotFound` if there is nothing at this URI.
        """
        await self.check_allowed({}, context.request.origin)
        return {}

    def _contents(self, value: Any, uri: str) -> ResourceContents:
        mime_type = self.mime_type
        if isinstance(value, _CONTENTS):
            return value
        if isinstance(value, str):
            return TextResourceContents(uri, value, mime_type=mime_type or "text/plain")
        if is_binary(value):
            mime_type = mime_type or "application/octet-stream"
            return BlobResourceContents(uri, bytes(value), mime_type=mime_type)
        if isinstance(value, Media):
            return contents_of(uri, value.data, mime_type or value.mime_type)
        text = self.converters.json(value).decode()
        return TextResourceContents(uri, text, mime_type=mime_type or "application/json")

    def readable(self, revision: Revision) -> dict[str, Any]:
        """Return the members that resources and templates share."""
        return {
            **self.described(),
            **wire.some(
                mimeType=self.mime_type,
                annotations=wire.annotations_to_wire(self.annotations, revision),
            ),
        }


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class Resource(Readable):
    """A function that returns the contents at one URI."""

    listing = "resources"

    uri: str
    size: int | None = None

    @property
    def key(self) -> str:
        """The URI."""
        return self.uri

    def prefixed(self, prefix: str) -> Self:
        """Return the same resource at a URI with a prefix."""
        made = super(Resource, self).prefixed(prefix)
        return replace(made, uri=prefixed_uri(prefix, self.uri))

    def to_wire(self, revision: Revision) -> dict[str, Any]:
        """Return its entry in ``resources/list``."""
        members = {"uri": self.uri, **self.readable(revision), **wire.some(size=self.size)}
        return revision.keep(revision.resource_members, members)


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class ResourceTemplate(Readable, Completable):
    """A function that returns the contents at every URI that matches a template (RFC 6570)."""

    listing = "resourceTemplates"

    template: UriTemplate
    accepts: Takes
    completers: Mapping[str, Completer] = field(default_factory=dict[str, Completer])
    unchecked: frozenset[str] = frozenset()
    """The variables whose values may lead out of a directory."""

    @property
    def key(self) -> str:
        """The text of the template."""
        return self.template.template

    def prefixed(self, prefix: str) -> Self:
        """Return the same template with a prefix in its URIs."""
        template = UriTemplate(prefixed_uri(prefix, self.key), whole=self.template.whole)
        return replace(super(ResourceTemplate, self).prefixed(prefix), template=template)

    def to_wire(self, revision: Revision) -> dict[str, Any]:
        """Return its entry in ``resources/templates/list``."""
        members = {"uriTemplate": self.template.template, **self.readable(revision)}
        return revision.keep(revision.template_members, members)

    async def admit(
        self, uri: str, variables: Mapping[str, Any], context: Context[Any]
    ) -> dict[str, Any]:
        """Return the validated variables; see `Readable.admit`."""
        why = ""
        for name, value in variables.items():
            found = None if name in self.unchecked else misleads(value)  # SEC-11
            why = why or (f"{name}: {found}" if found else "")
        values: dict[str, Any] = {}
        try:
            if not why:
                values = self.accepts.validate(variables)
        except InvalidArguments as error:
            why = str(error)
        if why:
            raise ResourceNotFound(uri, f"Resource not found: {truncate(uri)} ({why})")
        await self.check_allowed(values, context.request.origin)
        return values


class ResourceHints(TypedDict, total=False):
    """The annotations of a resource, as the protocol names them."""

    audience: Sequence[Role]
    priority: float
    lastModified: str


class ResourceOptions(CommonOptions, total=False):
    """The options of `MCPKit.resource` and `add_resource`, in addition to the common ones."""

    mime_type: str | None
    """Taken from the return annotation by default."""
    size: int | None
    """In bytes, if known."""
    annotations: Annotations | ResourceHints | None
    """An `Annotations`, or a dict with the names of the protocol."""
    audience: Sequence[Role] | None
    """The roles that it is meant for: ``"user"``, ``"assistant"``."""
    priority: float | None
    """From 0, optional, to 1, required."""
    cache_ttl: float | None
    """Seconds for which clients may cache the contents (2026-07-28); the app's by default."""
    cache_scope: CacheScope | None
    """``"public"`` if principals may share cached contents; the app's by default."""
    unchecked: Sequence[str]
    """Variables that are passed on without a check. Any other value with a part ``..``, the start
    of an absolute path, or control characters names no resource, because handlers often build paths
    from variables."""


def make_resource(
    fn: Callable[..., Any],
    uri: str | None = None,
    defaults: Defaults = NO_APP,
    /,
    **options: Unpack[ResourceOptions],
) -> Resource | ResourceTemplate:
    """Return a resource that calls a function, or a resource template if the URI has variables.

    Without a URI it is ``resource://`` with the name of the function and its arguments as segments.
    """
    signature = inspect_handler(fn)
    at = signature.place
    arguments = Arguments(signature)
    refuse_marks_of_tools(arguments, at)
    names = [each.wire_name for each in arguments.fields]
    uri = uri or "/".join([f"resource://{signature.name}", *(f"{{{name}}}" for name in names)])
    try:
        texts = [each for each in arguments.fields if _is("string", each.form.schema("validation"))]
        template = UriTemplate(uri, whole=[each.wire_name for each in texts])
    except ValueError as error:
        raise RegistrationError(f"{at}: {error}") from None
    if "://" not in uri and SCHEME.match(uri) is None:
        raise RegistrationError(f'{at}: {uri!r} has no scheme; write "resource://{uri}"')
    try:
        returns = defaults.converters.returned(signature.returns)
    except NoConverter as error:
        raise RegistrationError(
            f"{at}: the return type {error} cannot be read; return text, bytes, a model, "
            f"a dataclass or built-in types, or give the app a converter"
        ) from None
    kind = Resource if template.is_literal else ResourceTemplate
    fields = function_fields(kind, ResourceOptions, signature, options, defaults)
    fields.update(
        plan=plan_of(fn, signature, options),
        converters=defaults.converters,
        mime_type=options.get("mime_type") or _mime_type_of(returns),
        annotations=annotations_from(options, Annotations, at),
    )
    if template.is_literal:
        if names:
            raise RegistrationError(
                f"{at}: the URI {uri!r} has no variables, so nothing fills {', '.join(names)}; "
                f"write them into the URI as {{{names[0]}}}"
            )
        return Resource(**fields, uri=uri)
    _check_variables(template, arguments, at)
    if not options.get("description"):
        # Templates have no members for the descriptions of their variables.
        told = signature.docs.parameters
        lines = ["Args:", *(f"- {name}: {told[name]}" for name in names if name in told)]
        parts = [signature.docs.description, "\n".join(lines) if lines[1:] else None]
        fields["description"] = "\n\n".join(filter(None, parts)) or None
    fields.update(
        template=template,
        accepts=arguments,
        completers=completers_of(arguments, signature, CallPlan),
        unchecked=unchecked_from(options, template, at),
    )
    return ResourceTemplate(**fields)


def unchecked_from(options: Mapping[str, Any], template: UriTemplate, at: str) -> frozenset[str]:
    """Return the value of the option ``unchecked=``; raises `RegistrationError`."""
    unchecked = options.get("unchecked") or ()
    variables = [each.name for each in template.variables]
    if isinstance(unchecked, str) or not set(unchecked) <= set(variables):
        raise RegistrationError(
            f"{at}: unchecked must be a list of variables of {template.template!r}, such as "
            f"{variables[:1]}, not {unchecked!r}"
        )
    return frozenset(unchecked)


def _is(kind: str, schema: JsonSchema) -> bool:
    """Return True for the schema of a kind of value, or of that or null."""
    return {part.get("type") for part in schema.get("anyOf", [schema])} - {"null"} == {kind}


SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:")


def _check_variables(template: UriTemplate, arguments: Arguments, at: str) -> None:
    parameters = {each.wire_name: each for each in arguments.fields}
    filled = {variable.name for variable in template.variables}
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
        if _is("array", parameter.form.schema("validation")) and not variable.multiple:
            raise RegistrationError(
                f"{at}: {{{variable.name}}} is one text and never a list; write {variable.name}*"
            )
    for name, parameter in parameters.items():
        if parameter.required and name not in filled:
            raise RegistrationError(
                f"{at}: nothing in the URI fills {name}; add {{{name}}} to it, "
                f"or give the parameter a default"
            )


def _mime_type_of(returns: Any) -> str | None:
    """Return the MIME type that a return annotation implies; None if it implies none."""
    if get_origin(returns) is Annotated:
        returns = get_args(returns)[0]
    if returns is str:
        return "text/plain"
    if returns is bytes:
        return "application/octet-stream"
    if returns is UNSET or not is_structured(returns):
        return None
    return "application/json"


@overload
def resource(fn: F, /) -> F: ...


@overload
def resource(uri: str | None = None, /, **options: Unpack[ResourceOptions]) -> Callable[[F], F]: ...


def resource(uri: Any = None, /, **options: Unpack[ResourceOptions]) -> Any:
    """Mark a function as a resource for `MCPKit.include` or ``mcpkit run``, and return it.

    Args:
        uri: A URI or an RFC 6570 template.
        options: See `ResourceOptions`.
    """
    fn = None if isinstance(uri, str) else uri
    return decorated(mark, fn, make_resource, uri if fn is None else None, **options)
