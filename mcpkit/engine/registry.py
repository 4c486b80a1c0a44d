"""What the decorators recorded: tools, resources, templates and prompts, each ready to be called.

Lists are encoded once per revision, page and state of the registry, and sent as they are.
"""

from __future__ import annotations

import binascii
import re
import threading
from base64 import urlsafe_b64decode, urlsafe_b64encode
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol, TypeAlias

from mcpkit._json_schema import JsonSchema
from mcpkit.context import Context, ListKind
from mcpkit.engine.call_plan import CallPlan
from mcpkit.errors import InvalidParams, RegistrationError
from mcpkit.functions.arguments import Arguments
from mcpkit.functions.output import Output
from mcpkit.functions.uri_template import UriTemplate
from mcpkit.protocol import wire
from mcpkit.protocol.headers import HeaderParameter
from mcpkit.protocol.messages import encode
from mcpkit.protocol.revision import Capability, Revision
from mcpkit.types import Annotations, CacheScope, Icon, Meta, ToolAnnotations

__all__ = [
    "Completer",
    "Prompt",
    "Registry",
    "Resource",
    "ResourceProvider",
    "ResourceTemplate",
    "Tool",
]

Listing: TypeAlias = Literal["tools", "resources", "resourceTemplates", "prompts"]
"""A list of the protocol, by the member it is sent in."""

Completer: TypeAlias = Callable[
    [str, Mapping[str, str] | None, Context[Any]], Awaitable[Iterable[str]]
]
"""From what was typed, and the other arguments if they are known, to suggestions."""

_TOOL_NAME: Final = re.compile(r"[A-Za-z0-9_.\-]{1,64}")


@dataclass(slots=True, kw_only=True)
class Description:
    """What every listed thing says of itself."""

    name: str
    title: str | None = None
    description: str | None = None
    icons: Sequence[Icon] | None = None
    meta: Meta | None = None
    tags: frozenset[str] = frozenset()
    number: int = field(default=0, init=False)
    """The place in the order of registration."""

    def described(self) -> dict[str, Any]:
        """The members that all descriptions share."""
        return wire.some(
            name=self.name,
            title=self.title,
            description=self.description,
            icons=wire.icons_to_wire(self.icons),
            _meta=self.meta,
        )


@dataclass(slots=True, kw_only=True)
class Tool(Description):
    """A function that a model may call."""

    plan: CallPlan
    arguments: Arguments
    output: Output
    input_schema: JsonSchema
    annotations: ToolAnnotations | None = None
    headers: tuple[HeaderParameter, ...] = ()
    """The arguments that an HTTP request repeats in headers."""

    def __post_init__(self) -> None:
        if _TOOL_NAME.fullmatch(self.name) is None:
            raise RegistrationError(
                f"{self.name!r} is no tool name that hosts accept; "
                f"use 1 to 64 letters, digits, '_', '-' and '.' (pass name=...)"
            )

    @property
    def key(self) -> str:
        """What it is known by."""
        return self.name

    def to_wire(self, revision: Revision) -> dict[str, Any]:
        """Its entry in ``tools/list``."""
        members = self.described()
        members["inputSchema"] = self.input_schema
        schema = self.output.schema
        if schema is not None:
            wrapped = revision.structured_output == "object" and not self.output.is_object
            members["outputSchema"] = self.output.wrapped_schema if wrapped else schema
        if self.annotations is not None:
            members["annotations"] = wire.hints_to_wire(self.annotations)
        return revision.keep(revision.tool_members, members)


@dataclass(slots=True, kw_only=True)
class Readable(Description):
    """What a resource and a resource template have in common."""

    plan: CallPlan
    mime_type: str | None = None
    annotations: Annotations | None = None
    ttl: float | None = None
    cache_scope: CacheScope | None = None

    def readable(self, revision: Revision) -> dict[str, Any]:
        """The members that both have in their lists."""
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
    """Something to read at one URI."""

    uri: str
    size: int | None = None

    @property
    def key(self) -> str:
        """What it is known by."""
        return self.uri

    def to_wire(self, revision: Revision) -> dict[str, Any]:
        """Its entry in ``resources/list``."""
        members = {"uri": self.uri, **self.readable(revision)}
        if self.size is not None:
            members["size"] = self.size
        return revision.keep(revision.resource_members, members)


@dataclass(slots=True, kw_only=True)
class ResourceTemplate(Readable):
    """Something to read at every URI that fits an RFC 6570 template."""

    template: UriTemplate
    arguments: Arguments
    completers: Mapping[str, Completer] = field(default_factory=dict[str, Completer])

    @property
    def key(self) -> str:
        """What it is known by."""
        return self.template.template

    def to_wire(self, revision: Revision) -> dict[str, Any]:
        """Its entry in ``resources/templates/list``."""
        members = {"uriTemplate": self.template.template, **self.readable(revision)}
        return revision.keep(revision.template_members, members)


@dataclass(slots=True, kw_only=True)
class Prompt(Description):
    """Messages that a user may ask for by name."""

    plan: CallPlan
    arguments: Arguments
    completers: Mapping[str, Completer] = field(default_factory=dict[str, Completer])

    @property
    def key(self) -> str:
        """What it is known by."""
        return self.name

    def to_wire(self, revision: Revision) -> dict[str, Any]:
        """Its entry in ``prompts/list``."""
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
            for each, schema in self._argument_schemas()
        ]
        if arguments:
            members["arguments"] = arguments
        return revision.keep(revision.prompt_members, members)

    def _argument_schemas(self) -> Iterable[tuple[Any, JsonSchema]]:
        properties = self.arguments.schema().get("properties", {})
        return [(each, properties[each.wire_name]) for each in self.arguments.fields]


class ResourceProvider(Protocol):
    """Resources that come and go by themselves, such as the files of a directory.

    They are listed after the registered ones; a template registered with them reads them.
    """

    def resources(self) -> Iterable[Resource]:
        """What there is now."""
        ...


class Registry:
    """Everything a server offers, in the order it was registered.

    Its tables are replaced and never changed, since what is offered may change in one thread while
    others look it up.
    """

    def __init__(self) -> None:
        self.tools: Mapping[str, Tool] = {}
        self.resources: Mapping[str, Resource] = {}
        self.templates: Mapping[str, ResourceTemplate] = {}
        self.prompts: Mapping[str, Prompt] = {}
        self.providers: tuple[ResourceProvider, ...] = ()
        self.on_change: Callable[[ListKind], None] = lambda kind: None
        self._version = 0
        """Counts the changes: what was prepared before one is of no use after it."""
        self._pages: dict[tuple[int, Listing, str, str | None, int | None], bytes] = {}
        self._advertised: tuple[int, frozenset[Capability]] = (-1, frozenset())
        self._changing = threading.RLock()

    # --- changing ---------------------------------------------------------------------------------

    def add(self, item: Tool | Resource | ResourceTemplate | Prompt) -> None:
        """Offer something.

        Raises:
            RegistrationError: Its name or URI is taken.
        """
        name, kind, noun = _home(item)
        with self._changing:
            table: Mapping[str, Any] = getattr(self, name)
            if item.key in table:
                raise RegistrationError(
                    f"a {noun} {item.key!r} is registered already; remove it first, or choose "
                    f"another"
                )
            item.number = self._version
            setattr(self, name, {**table, item.key: item})
            self._forget()
        self.on_change(kind)

    def add_provider(self, provider: ResourceProvider) -> None:
        """Offer resources that come and go by themselves."""
        with self._changing:
            self.providers = (*self.providers, provider)
            self._forget()
        self.on_change("resources")

    def remove(self, kind: ListKind, key: str) -> None:
        """Stop offering the tool or prompt of this name, or the resource or template of this URI.

        Raises:
            KeyError: There is none.
        """
        names = ("resources", "templates") if kind == "resources" else (kind,)
        with self._changing:
            for name in names:
                table: Mapping[str, Any] = getattr(self, name)
                if key in table:
                    setattr(self, name, {each: table[each] for each in table if each != key})
                    self._forget()
                    break
            else:
                raise KeyError(f"nothing is registered as {key!r} among the {kind}")
        self.on_change(kind)

    def _forget(self) -> None:
        """What was prepared is out of date."""
        self._version += 1
        self._pages.clear()

    # --- what there is ----------------------------------------------------------------------------

    @property
    def has_resources(self) -> bool:
        """Whether there is, or may be, anything to read."""
        return bool(self.resources or self.templates or self.providers)

    @property
    def has_completions(self) -> bool:
        """Whether any argument has suggestions."""
        tables: list[Mapping[str, Prompt | ResourceTemplate]] = [self.prompts, self.templates]
        return any(each.completers for table in tables for each in table.values())

    @property
    def advertised(self) -> frozenset[Capability]:
        """The capabilities that what is registered gives the server."""
        prepared, found = self._advertised
        version = self._version
        if prepared != version:
            present: dict[Capability, bool] = {
                "tools": bool(self.tools),
                "resources": self.has_resources,
                "prompts": bool(self.prompts),
                "completions": self.has_completions,
                "logging": self.uses_context,
            }
            there: list[Capability] = [name for name, is_there in present.items() if is_there]
            found = frozenset(there)
            self._advertised = version, found
        return found

    @property
    def uses_context(self) -> bool:
        """Whether any handler can log, report progress or ask."""
        every = (self.tools, self.resources, self.templates, self.prompts)
        return any(each.plan.uses_context for table in every for each in table.values())

    def find_resource(self, uri: str) -> tuple[Readable, dict[str, Any]] | None:
        """The resource at a URI, or the first template that fits it with the variables' values."""
        resource = self.resources.get(uri)
        if resource is not None:
            return resource, {}
        for template in self.templates.values():
            variables = template.template.match(uri)
            if variables is not None:
                return template, dict(variables)
        return None

    # --- lists ------------------------------------------------------------------------------------

    def page(
        self, listing: Listing, revision: Revision, cursor: str | None, size: int | None
    ) -> bytes:
        """The encoded members of one page of a list.

        Args:
            listing: Which list.
            revision: Whose members the descriptions may have.
            cursor: From the page before; None for the first.
            size: How many entries a page has at most; None: all on one.

        Raises:
            InvalidParams: The cursor is not one of ours (PAGE-3).
        """
        if listing == "resources" and self.providers:
            return self._encode(listing, revision, cursor, size)
        # A page that was encoded while something changed is kept for nobody.
        key = (self._version, listing, revision.version, cursor, size)
        found = self._pages.get(key)
        if found is None:
            found = self._encode(listing, revision, cursor, size)
            if len(self._pages) < 1024:
                self._pages[key] = found
        return found

    def _encode(
        self, listing: Listing, revision: Revision, cursor: str | None, size: int | None
    ) -> bytes:
        tables: dict[Listing, Mapping[str, Any]] = {
            "tools": self.tools,
            "resources": self.resources,
            "resourceTemplates": self.templates,
            "prompts": self.prompts,
        }
        # Removal keeps a dict in order of registration, so the numbers ascend. What a provider
        # offers has no number and follows in the order of its URIs.
        items: list[Any] = list(tables[listing].values())
        places: list[tuple[int, str]] = [(item.number, "") for item in items]
        if listing == "resources":
            offered = {
                each.uri: each
                for provider in self.providers
                for each in provider.resources()
                if each.uri not in self.resources
            }
            for uri in sorted(offered):
                items.append(offered[uri])
                places.append((_OFFERED, uri))
        start = 0 if cursor is None else bisect_right(places, _read_cursor(listing, cursor))
        end = len(items) if size is None else min(start + size, len(items))
        members = wire.some(
            **{listing: [item.to_wire(revision) for item in items[start:end]]},
            nextCursor=_write_cursor(listing, places[end - 1]) if end < len(items) else None,
        )
        return encode(members)[1:-1]


def _home(item: Tool | Resource | ResourceTemplate | Prompt) -> tuple[str, ListKind, str]:
    """The table for an entry, the list that it appears in, and what it is called."""
    if isinstance(item, Tool):
        return "tools", "tools", "tool"
    if isinstance(item, Prompt):
        return "prompts", "prompts", "prompt"
    if isinstance(item, Resource):
        return "resources", "resources", "resource"
    return "templates", "resources", "resource template"


_OFFERED: Final = 2**53
"""The number that stands for every resource of a provider in a cursor."""


def _write_cursor(listing: Listing, place: tuple[int, str]) -> str:
    """A cursor that holds all that is needed to go on: stable while the list changes (PAGE-4)."""
    return urlsafe_b64encode(f"{listing}:{place[0]}:{place[1]}".encode()).decode("ascii")


def _read_cursor(listing: Listing, cursor: str) -> tuple[int, str]:
    try:
        kind, number, uri = urlsafe_b64decode(cursor.encode("ascii")).decode().split(":", 2)
        place = int(number), uri
    except (ValueError, binascii.Error):
        raise InvalidParams("The cursor is malformed") from None
    if kind != listing or _write_cursor(listing, place) != cursor:
        raise InvalidParams("The cursor belongs to another list")
    return place
