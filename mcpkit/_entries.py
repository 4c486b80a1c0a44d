"""Entries of a server's lists: tools, resources, resource templates and prompts.

An entry can be listed and used, and says nothing of how it does that. A Python function is one
variety (`mcpkit._from_functions`).
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final, Literal, Protocol, TypeAlias

from typing_extensions import Self

from mcpkit._protocol import wire
from mcpkit._protocol.headers import HeaderParameter
from mcpkit._protocol.revisions import Revision
from mcpkit._signature.output import Rendered, wrapped_schema
from mcpkit._utils.json import JsonSchema
from mcpkit._utils.uri_template import UriTemplate
from mcpkit.context import Context, ListKind
from mcpkit.errors import RegistrationError
from mcpkit.types import (
    Annotations,
    CacheScope,
    Icon,
    Meta,
    PromptResult,
    ResourceResult,
    ToolAnnotations,
)

__all__ = [
    "TASK_SUPPORT",
    "Argument",
    "Entry",
    "Listing",
    "Prompt",
    "Provider",
    "Readable",
    "Resource",
    "ResourceTemplate",
    "TaskSupport",
    "Tool",
    "prefixed_uri",
]

Listing: TypeAlias = Literal["tools", "resources", "resourceTemplates", "prompts"]
"""A list of the protocol, by the member it is sent in."""


TaskSupport: TypeAlias = Literal["optional", "required", "forbidden"]
"""Whether a call of a tool may, must or must not become a task."""

TASK_SUPPORT: Final[tuple[TaskSupport, ...]] = ("optional", "required", "forbidden")


def prefixed_uri(prefix: str, uri: str) -> str:
    """Return a URI or a template of URIs with a prefix behind its scheme."""
    scheme, separator, rest = uri.partition("://")
    return f"{scheme}://{prefix}/{rest}" if separator else f"{prefix}/{uri}"


_TOOL_NAME: Final = re.compile(r"[A-Za-z0-9_.\-]{1,64}")


@dataclass(slots=True, kw_only=True)
class Entry(ABC):
    """An entry of a list.

    Args:
        name: For programs; a tool's and a prompt's key.
        title: For people.
        description: For models and people.
        icons: Pictures that a client may show.
        meta: Its ``_meta``.
        tags: For selecting; never sent.
        uses_context: True if using it may log, report progress, or ask the client.
        function: The Python function behind it, if there is one; for tools that inspect code.
        errors: The exceptions whose text is shown to the other side, as that of `PublicError` is.
        scopes: That whoever uses it over HTTP needs.
        allow: Says whether whoever uses it over HTTP may do so with their arguments.
        environment: The variables of the environment that it cannot be used without.
    """

    listing: ClassVar[Listing]
    """The list that it is an entry of."""

    name: str
    title: str | None = None
    description: str | None = None
    icons: Sequence[Icon] | None = None
    meta: Meta | None = None
    tags: frozenset[str] = frozenset()
    uses_context: bool = True
    function: Callable[..., Any] | None = None
    errors: tuple[type[Exception], ...] = ()
    scopes: tuple[str, ...] = ()
    allow: Callable[..., Any] | None = None
    environment: tuple[str, ...] = ()
    tells_how: bool = field(default=True, init=False)
    """False once the log has said how the text of its exceptions could be shown."""

    number: int = field(default=0, init=False)
    """The place in the order of registration."""

    @property
    @abstractmethod
    def key(self) -> str:
        """The name or URI that the entry is looked up by."""

    @abstractmethod
    def to_wire(self, revision: Revision) -> dict[str, Any]:
        """Return the entry as the list of a revision has it."""

    def prefixed(self, prefix: str) -> Self:
        """Return the same entry with a prefix in its name, and in its URI if it has one."""
        return replace(self, name=f"{prefix}_{self.name}")

    def described(self) -> dict[str, Any]:
        """Return the members that all entries share."""
        return wire.some(
            name=self.name,
            title=self.title,
            description=self.description,
            icons=wire.icons_to_wire(self.icons),
            _meta=self.meta,
        )


@dataclass(slots=True, kw_only=True)
class Tool(Entry):
    """A tool that a model may call.

    Args:
        input_schema: JSON Schema of the arguments, an object.
        output_schema: JSON Schema of the structured content; None if none is promised.
        annotations: Hints for clients.
        headers: The arguments that an HTTP request repeats in headers.
        raw_output: True to wrap structured content that is no object only where it must be.
        task: Whether a call may become a task.
        resumable: True if a task may be run again whose process has ended in the middle.
        task_ttl: Seconds that its tasks are kept for; None: the server's setting.

    Raises:
        RegistrationError: Hosts do not accept the name.
    """

    listing = "tools"

    input_schema: JsonSchema
    output_schema: JsonSchema | None = None
    annotations: ToolAnnotations | None = None
    headers: tuple[HeaderParameter, ...] = ()
    raw_output: bool = False
    task: TaskSupport = "forbidden"
    resumable: bool = False
    task_ttl: float | None = None

    def __post_init__(self) -> None:
        if _TOOL_NAME.fullmatch(self.name) is None:
            raise RegistrationError(
                f"{self.name!r} is no tool name that hosts accept; "
                f"use 1 to 64 letters, digits, '_', '-' and '.' (pass name=...)"
            )

    @property
    def key(self) -> str:
        """The name."""
        return self.name

    @abstractmethod
    async def call(self, arguments: dict[str, Any], context: Context[Any]) -> Rendered:
        """Call the tool.

        Args:
            arguments: As the client sent them.
            context: Of the request that is served.

        Raises:
            Exception: The tool failed, or does not accept the arguments; see
                `mcpkit._server.handlers.use_tool`.
        """

    async def admit(self, arguments: dict[str, Any], context: Context[Any]) -> None:
        """Refuse a call that may not be, before a task is made of it.

        Raises:
            Exception: As for `call`.
        """
        del arguments, context

    async def prepare(self, arguments: dict[str, Any], context: Context[Any]) -> None:
        """Check the arguments of a call that becomes a task, and ask what it wants to know first.

        Raises:
            Exception: As for `call`.
        """
        del arguments, context

    def to_wire(self, revision: Revision) -> dict[str, Any]:
        """Return its entry in ``tools/list``."""
        members = self.described()
        members["inputSchema"] = self.input_schema
        schema = self.output_schema
        if schema is not None:
            knows_objects_only = revision.structured_output == "object"
            is_object = schema.get("type") == "object"
            if not is_object and (knows_objects_only or not self.raw_output):
                schema = wrapped_schema(schema)  # TOOL-11
            members["outputSchema"] = schema
        if self.annotations is not None:
            members["annotations"] = wire.hints_to_wire(self.annotations)
        if self.task != "forbidden":
            members["execution"] = {"taskSupport": self.task}
        return revision.keep(revision.tool_members, members)


@dataclass(slots=True, kw_only=True)
class Readable(Entry):
    """The common part of resources and resource templates.

    Args:
        mime_type: Of the contents.
        annotations: Hints for clients.
        ttl: For how many seconds the contents may be kept; None: the server's setting.
        cache_scope: Who may keep them; None: the server's setting.
    """

    mime_type: str | None = None
    annotations: Annotations | None = None
    ttl: float | None = None
    cache_scope: CacheScope | None = None

    @abstractmethod
    async def read(
        self, uri: str, variables: Mapping[str, Any], context: Context[Any]
    ) -> ResourceResult:
        """Read the contents.

        Args:
            uri: As the client sent it.
            variables: The values that the URI gives the variables of a template.
            context: Of the request that is served.

        Raises:
            ResourceNotFound: There is nothing at this URI.
        """

    async def admit(self, uri: str, variables: Mapping[str, Any], context: Context[Any]) -> None:
        """Refuse whoever may not read the contents, and so not hear of their changes.

        Raises:
            Exception: As for `read`.
        """
        del uri, variables, context

    def readable(self, revision: Revision) -> dict[str, Any]:
        """Return the members that resources and templates share."""
        members = self.described()
        members.update(
            wire.some(
                mimeType=self.mime_type,
                annotations=wire.annotations_to_wire(self.annotations, revision),
            )
        )
        return members


@dataclass(slots=True, kw_only=True)
class Resource(Readable):
    """Contents at one URI.

    Args:
        uri: Where.
        size: In bytes, if known.
    """

    listing = "resources"

    uri: str
    size: int | None = None

    @property
    def key(self) -> str:
        """The URI."""
        return self.uri

    def prefixed(self, prefix: str) -> Self:
        """Return the same resource at a URI with a prefix."""
        return replace(self, name=f"{prefix}_{self.name}", uri=prefixed_uri(prefix, self.uri))

    def to_wire(self, revision: Revision) -> dict[str, Any]:
        """Return its entry in ``resources/list``."""
        members = {"uri": self.uri, **self.readable(revision)}
        if self.size is not None:
            members["size"] = self.size
        return revision.keep(revision.resource_members, members)


class Argument(Protocol):
    """An argument of a prompt, or a variable of a resource template."""

    @property
    def wire_name(self) -> str:
        """The name that clients send."""
        ...

    @property
    def required(self) -> bool:
        """True if it has no default."""
        ...


class _Completable(ABC):
    """An entry whose arguments may have suggestions."""

    __slots__ = ()

    @property
    @abstractmethod
    def argument_names(self) -> Iterable[str]:
        """The names of the arguments, as clients send them."""

    @property
    @abstractmethod
    def has_completions(self) -> bool:
        """True if any argument has suggestions."""

    @abstractmethod
    def complete(
        self, name: str, typed: str, others: Mapping[str, str] | None, context: Context[Any]
    ) -> Awaitable[Iterable[str]]:
        """Suggest values for an argument.

        Args:
            name: Of the argument; one of `argument_names`.
            typed: The text so far.
            others: The arguments that have a value already; None if the client did not say.
            context: Of the request that is served.
        """


@dataclass(slots=True, kw_only=True)
class ResourceTemplate(Readable, _Completable):
    """Contents at every URI that fits a template.

    Args:
        template: As RFC 6570 has them.
    """

    listing = "resourceTemplates"

    template: UriTemplate

    @property
    def key(self) -> str:
        """The text of the template."""
        return self.template.template

    def prefixed(self, prefix: str) -> Self:
        """Return the same template with a prefix in its URIs."""
        template = UriTemplate(prefixed_uri(prefix, self.key), whole=self.template.whole)
        return replace(self, name=f"{prefix}_{self.name}", template=template)

    def to_wire(self, revision: Revision) -> dict[str, Any]:
        """Return its entry in ``resources/templates/list``."""
        members = {"uriTemplate": self.template.template, **self.readable(revision)}
        return revision.keep(revision.template_members, members)


@dataclass(slots=True, kw_only=True)
class Prompt(Entry, _Completable):
    """Messages that a user may ask for by name."""

    listing = "prompts"

    @property
    def key(self) -> str:
        """The name."""
        return self.name

    @property
    @abstractmethod
    def arguments(self) -> Sequence[tuple[Argument, JsonSchema]]:
        """The arguments, each with its JSON Schema."""

    @abstractmethod
    async def get(self, arguments: dict[str, str], context: Context[Any]) -> PromptResult:
        """Make the messages.

        Args:
            arguments: As the client sent them.
            context: Of the request that is served.

        Raises:
            InvalidArguments: The prompt does not accept the arguments.
        """

    def to_wire(self, revision: Revision) -> dict[str, Any]:
        """Return its entry in ``prompts/list``."""
        members = self.described()
        arguments = [
            revision.keep(
                revision.argument_members,
                wire.some(
                    name=each.wire_name,
                    title=schema.get("title"),
                    description=schema.get("description"),
                    required=True if each.required else None,
                ),
            )
            for each, schema in self.arguments
        ]
        if arguments:
            members["arguments"] = arguments
        return revision.keep(revision.prompt_members, members)


class Provider(Protocol):
    """Entries that come and go by themselves: files of a directory, tools of another server.

    They are listed after the registered ones, in the order of their keys. A registered entry hides
    a provided one of the same key.
    """

    @property
    def listings(self) -> frozenset[Listing]:
        """The lists that it adds entries to."""
        ...

    async def entries(
        self, listing: Listing, after: str, limit: int | None, context: Context[Any]
    ) -> Sequence[Entry]:
        """Return entries in the order of their keys.

        Args:
            listing: One of `listings`.
            after: Only those with a greater key.
            limit: At most so many; None: all.
            context: Of the request that is served.
        """
        ...

    async def find(self, listing: Listing, key: str, context: Context[Any]) -> Entry | None:
        """Return the entry of a key; for a resource also a template that fits the URI."""
        ...

    def on_change(self, announce: Callable[[ListKind], None]) -> None:
        """Take the function to call, from any thread, when a list has changed."""
        ...
