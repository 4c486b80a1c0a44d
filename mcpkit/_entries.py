"""The common part of tools, resources, resource templates and prompts: the entries of a server.

An `Entry` can be listed and used, and says nothing about how. A Python function is one variety: its
options are checked and its fields are filled here, for every kind of entry.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Final,
    Literal,
    NamedTuple,
    Protocol,
    TypeAlias,
    cast,
)

from typing_extensions import Self, TypedDict, TypeVar

from mcpkit._protocol import wire
from mcpkit._protocol.connection import RequestSource
from mcpkit._protocol.revisions import Revision
from mcpkit._signature.arguments import Arguments
from mcpkit._signature.converters import Converters
from mcpkit._signature.hints import function_name
from mcpkit._signature.signature import Signature, can_take
from mcpkit._utils.json import every_schema
from mcpkit._utils.names import advice_on, library_of, suggest
from mcpkit._utils.text import truncate
from mcpkit.dependencies import Idempotent
from mcpkit.errors import AccessDenied, Forbidden, RegistrationError
from mcpkit.limits import check_several
from mcpkit.permissions import Allow, needed_scopes
from mcpkit.types import Annotations, Icon, Meta, ToolAnnotations

if TYPE_CHECKING:
    from mcpkit.call_limits import CallLimits

Listing: TypeAlias = Literal["tools", "resources", "resourceTemplates", "prompts"]
"""A list of the protocol, by the member of the result that carries it."""

Errors: TypeAlias = type[Exception] | Iterable[type[Exception]] | Literal["all"]
"""The exceptions of a handler whose text is shown: a class, several, or ``"all"``."""


# --- interfaces -----------------------------------------------------------------------------------


class EntryOption:
    """An option of one entry that a wing serves, checked: what it adds to the entry.

    The defaults add nothing.
    """

    capabilities: Collection[str] = ()
    """The capabilities that a server has because of it; an extension by its identifier."""

    @property
    def hides(self) -> bool:
        """True if it hides the entry from clients that show no views."""
        return False

    def members(self) -> Mapping[str, Any]:
        """Return the members that the entry has in its list, besides its own."""
        return {}

    def prefixed(self, prefix: str) -> EntryOption:
        """Return the same for an entry that is included with a prefix."""
        return self

    def companions(self, entry: Entry) -> Collection[Entry]:
        """Return entries to add after this one, unless their keys are taken."""
        return ()

    def check(self, entry: Entry, registry: Any) -> None:
        """Raise `RegistrationError` if what the entry needs is not registered; before serving."""


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class Entry(ABC):
    """An entry of a list."""

    listing: ClassVar[Listing]
    """The list that it is an entry of."""

    name: str
    title: str | None = None
    description: str | None = None
    icons: Sequence[Icon] | None = None
    meta: Meta | None = None
    options: dict[str, EntryOption] = field(default_factory=dict[str, EntryOption])
    """What wings add to it, by the options of the function."""
    tags: frozenset[str] = frozenset()
    expose_errors: tuple[type[Exception], ...] = ()  # shown to the client, like a `PublicError`
    scopes: tuple[str, ...] = ()  # that a caller over HTTP needs
    allow: Allow | None = None
    origin: tuple[Any, ...] = ()
    """How the app that it comes from is included, the `Inclusion` of that app first."""
    tells_how: bool = field(default=True, init=False)
    """False once the log has explained how to show the text of its exceptions."""

    number: int = field(default=0, init=False)
    """The position in the order of registration."""

    @property
    def key(self) -> str:
        """The name or URI that the entry is looked up by."""
        return self.name

    @property
    def is_hidden(self) -> bool:
        """True if it is hidden from clients that show no views."""
        return any(each.hides for each in self.options.values())

    @abstractmethod
    def to_wire(self, revision: Revision) -> dict[str, Any]:
        """Return the entry as a list of this revision shows it."""

    def prefixed(self, prefix: str) -> Self:
        """Return a copy with a prefix in its name, and in its URI if it has one."""
        options = {name: each.prefixed(prefix) for name, each in self.options.items()}
        return replace(self, name=f"{prefix}_{self.name}", options=options)

    def described(self) -> dict[str, Any]:
        """Return the members that all entries share."""
        return wire.some(
            name=self.name,
            title=self.title,
            description=self.description,
            icons=wire.icons_to_wire(self.icons),
            _meta=self.meta,
        )

    async def check_allowed(
        self, arguments: Mapping[str, Any], origin: RequestSource | None
    ) -> None:
        """Raise `Forbidden` unless ``allow=`` permits a call with validated arguments.

        Like scopes, it applies to requests over HTTP and to the tasks that they start.
        """
        if self.allow is None or origin is None:
            return
        principal = origin.principal
        if principal is None:
            raise Forbidden(f"Authentication required for {truncate(self.key)}", status=401)
        try:
            found = self.allow(principal, dict(arguments))
            if inspect.isawaitable(found):
                found = await found
        except AccessDenied as error:
            raise Forbidden(str(error), status=error.status) from None
        if not found:
            raise Forbidden(f"You may not use {truncate(self.key)} with these arguments")


def prefixed_uri(prefix: str, uri: str) -> str:
    """Return a URI or URI template with a prefix after its scheme."""
    scheme, separator, rest = uri.partition("://")
    return f"{scheme}://{prefix}/{rest}" if separator else f"{prefix}/{uri}"


def without_prefix(prefix: str, uri: str, key: str) -> str:
    """Return a URI without the prefix that `prefixed_uri` has added to the `key` of its entry."""
    scheme, separator, rest = uri.partition("://")
    if separator and "://" in key.partition("{")[0]:
        return scheme + separator + rest.removeprefix(f"{prefix}/")
    return uri.removeprefix(f"{prefix}/")


# --- access ---------------------------------------------------------------------------------------


class Restricted(Protocol):
    """Something that needs scopes: an entry, or a method of an extension."""

    @property
    def key(self) -> str: ...
    @property
    def scopes(self) -> tuple[str, ...]: ...


def refusal_of(entry: Restricted, held: frozenset[str], *, is_known: bool) -> Forbidden | None:
    """Return the error for a caller who lacks a scope; None if none is missing.

    `is_known` is False if the caller is not authenticated.
    """
    if held.issuperset(entry.scopes):
        return None
    return Forbidden(
        f"{truncate(entry.key)} needs the scopes {' '.join(entry.scopes)}",
        scopes=entry.scopes,
        status=403 if is_known else 401,
    )


# --- options of functions -------------------------------------------------------------------------


class Defaults(NamedTuple):
    """The settings of an app that apply to all its entries."""

    converters: Converters = Converters()
    errors: tuple[type[Exception], ...] = ()  # unless an entry has its own ``expose_errors=``


NO_APP: Final = Defaults()


class CommonOptions(TypedDict, total=False):
    """The options that tools, resources and prompts share.

    An option is declared here or in a subclass, and nowhere else: its value, unless None, becomes
    the field of the same name of the entry. The exceptions are in `entry_fields` and in what makes
    the entries: `make_tool`, `make_resource` and `make_prompt`.
    """

    name: str | None
    """The name of the function by default."""
    title: str | None
    """For people."""
    description: str | None
    """Taken from the docstring by default."""
    icons: Sequence[Icon] | None
    """Pictures that a client may show (2025-11-25 and later)."""
    meta: Meta | None
    """The ``_meta`` of the entry."""
    tags: Iterable[str]
    """For selecting entries; not sent."""
    inline: bool
    """True to run a plain ``def`` on the event loop, not in a thread."""
    timeout: float | None
    """Seconds for which the function may run; the app's by default. See `CallLimits`."""
    concurrency: int | None
    """Calls that run at once; more wait."""
    rate: str | None
    """Calls in any second, minute or hour: ``"10/s"``, ``"100/min"``, ``"1000/h"``."""
    call_limits: CallLimits | None
    """The limits that have no option of their own."""
    expose_errors: Errors | None
    """The exceptions whose text clients see, like that of a `ToolError`: a class, several, or
    ``"all"``; ``()`` hides all. The app's by default."""
    scopes: Iterable[str] | None
    """The scopes that a caller over HTTP needs; others do not see the entry."""
    allow: Allow | None
    """A function, async or not, of the `Principal` and the arguments (for a template the variables
    of the URI): decides if a call over HTTP is allowed."""


def entry_fields(
    entry: type[Entry],
    declared: Any,
    options: Mapping[str, Any],
    defaults: Defaults,
    at: str,
) -> dict[str, Any]:
    """Check the options of an entry at a place in the code, and return its fields."""
    for option in options:
        if option.partition(".")[0] not in declared.__optional_keys__:
            on = f"{declared.__name__.removesuffix('Options').lower()}(…)"
            advice = suggest(on, option, declared.__optional_keys__)
            raise RegistrationError(f"{at}: there is no option {option!r}; {advice}")
    known: Mapping[str, Any] = entry.__dataclass_fields__
    fields = {key: each for key, each in options.items() if each is not None and key in known}
    errors = options.get("expose_errors")
    fields["expose_errors"] = defaults.errors if errors is None else errors_of(errors, at)
    try:
        for option in ("tags", "icons"):
            check_several(f"{option}=", options.get(option))
        for icon in options.get("icons") or ():
            check_several("sizes= of an icon", getattr(icon, "sizes", None))
    except ValueError as error:
        raise RegistrationError(f"{at}: {error}") from None
    fields["tags"] = frozenset(options.get("tags") or ())
    fields["scopes"] = needed_scopes(options.get("scopes"), at)
    if "allow" in fields and not can_take(fields["allow"], None, {}):
        raise RegistrationError(
            f"{at}: allow= is a function of a principal and the arguments, such as "
            f"lambda principal, arguments: True"
        )
    return fields


def function_fields(
    entry: type[Entry],
    declared: Any,
    signature: Signature,
    options: Mapping[str, Any],
    defaults: Defaults,
) -> dict[str, Any]:
    """Check the options of a function, and return the fields of its entry."""
    name = options.get("name") or signature.name
    if name == "<lambda>":
        raise RegistrationError(f"{signature.place}: a lambda has no name; pass name=...")
    fields = entry_fields(entry, declared, options, defaults, signature.place)
    described = options.get("description") or signature.docs.description
    return {**fields, "name": name, "description": described}


def errors_of(errors: object, at: str) -> tuple[type[Exception], ...]:
    """Return the value of an ``expose_errors=`` option as classes for `isinstance`."""
    if errors == "all":
        return (Exception,)
    found: Any = (errors,) if isinstance(errors, type) else errors
    if not isinstance(found, str) and hasattr(found, "__iter__"):
        classes: tuple[Any, ...] = tuple(found)
        if all(isinstance(each, type) and issubclass(each, Exception) for each in classes):
            return classes
    raise RegistrationError(
        f'{at}: expose_errors is "all" or classes of exceptions, such as (ValueError,), '
        f"not {errors!r}"
    )


AnnotationsT = TypeVar("AnnotationsT", ToolAnnotations, Annotations)


def annotations_from(
    options: Mapping[str, Any], kind: type[AnnotationsT], at: str
) -> AnnotationsT | None:
    """Return the annotations of an entry, from the option of this name and from single members."""
    given = options.get("annotations")
    names = wire.HINTS if kind is ToolAnnotations else wire.ANNOTATIONS
    at = f"{at}: annotations"
    members: dict[str, Any] = {}
    if isinstance(given, Mapping):
        for name, value in cast("Mapping[str, Any]", given).items():
            attribute = names.get(name, name)
            if attribute not in names.values():
                # What resembles no name is a host's own; of resources, revisions define them all.
                if kind is not ToolAnnotations or advice_on("annotations", name, names):
                    advice = suggest("annotations", name, names)
                    raise RegistrationError(f"{at} has no member {name!r}; {advice}")
                members["extra"] = {**members.get("extra", {}), name: value}
            else:
                members[attribute] = value
    elif isinstance(given, kind):
        members = {each.name: getattr(given, each.name) for each in fields(given)}
    elif given is not None:
        library = library_of(given)
        of = f" of {library}" if library else ""
        raise RegistrationError(
            f"{at} is a {type(given).__name__}{of}; write a mcpkit.{kind.__name__}, or a dict"
        )
    for attribute in names.values():
        if attribute != "title" and options.get(attribute) is not None:
            members[attribute] = options[attribute]
    made: Any = kind(**members)
    try:
        check_several("annotations: audience", getattr(made, "audience", None))
    except ValueError as error:
        raise RegistrationError(f"{at.removesuffix(': annotations')}: {error}") from None
    return made if made != kind() else None


def refuse_marks_of_tools(arguments: Arguments, at: str) -> None:
    """Refuse ``MirroredHeader(...)`` and ``Idempotent(...)``, which are for calls of tools only."""
    for each in arguments.fields:
        if isinstance(each.mark, Idempotent):
            raise RegistrationError(
                f"{at}: {each.name} has an Idempotent(...), but only calls of tools have a key; "
                f"remove it"
            )
        if any("x-mcp-header" in part for part in every_schema(each.form.schema("validation"))):
            raise RegistrationError(
                f"{at}: {each.name} has a MirroredHeader(...), but only calls of tools repeat "
                f"arguments in headers; remove it"
            )


# --- marks on functions ---------------------------------------------------------------------------

_MARK: Final = "__mcpkit_marks__"


def decorated(add: Callable[..., object], fn: Any, /, *args: Any, **options: Any) -> Any:
    """Call `add` with a function and return it; without one, return a decorator that does so."""

    def register(fn: Any) -> Any:
        add(fn, *args, **options)
        return fn

    return register if fn is None else register(fn)


def mark(fn: Any, make: Callable[..., Entry], /, *args: Any, **options: Any) -> None:
    """Note on a function how to make an entry of it; raises `RegistrationError`."""
    target = _unwrapped(fn)
    try:
        setattr(target, _MARK, [*getattr(target, _MARK, ()), (make, args, options)])
    except AttributeError:
        name = function_name(target)
        raise RegistrationError(f"{name} cannot be marked; use a decorator of the app") from None


def _unwrapped(raw: Any) -> Any:
    """Return the function inside a static or class method; anything else as it is."""
    found: Any = raw  # pyright would narrow `raw` to a partially unknown type
    return found.__func__ if isinstance(raw, (staticmethod, classmethod)) else found


Marked: TypeAlias = tuple[Callable[..., Any], Callable[..., Any], tuple[Any, ...], dict[str, Any]]
"""A function, and how to make an entry of it: a function with further arguments and options."""


def marked_in(source: Any) -> list[Marked]:
    """Return every marked function of a module, class or object, in the order of definition."""
    found: list[Marked] = []
    is_class = isinstance(source, type)
    bases = reversed((source if is_class else type(source)).__mro__)
    names = [name for base in bases for name in vars(base)]
    if not is_class:
        names += getattr(source, "__dict__", {})
    seen: set[int] = set()
    for name in dict.fromkeys(names):
        raw: Any = inspect.getattr_static(source, name, None)
        target = _unwrapped(raw)
        marks = getattr(target, "__dict__", {}).get(_MARK)
        if not marks or id(target) in seen:
            continue
        seen.add(id(target))
        if isinstance(source, type) and inspect.isfunction(raw):
            raise RegistrationError(
                f"{source.__name__}.{name} is a method; include an instance: {source.__name__}(...)"
            )
        fn = getattr(source, name)
        found += [(fn, *each) for each in marks]
    return found
