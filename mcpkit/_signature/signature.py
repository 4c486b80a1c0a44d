"""A function → its parameters, types, defaults, documentation, and injected values.

All introspection happens here, once, when a function is registered.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypeVar, cast

from mcpkit._signature.docstrings import Docs, Part, parse_docstring
from mcpkit._signature.forms import ANNOTATED, UNIONS
from mcpkit._signature.hints import (
    function_name,
    location,
    resolve_hints,
    unalias,
    underlying,
    without_arguments,
)
from mcpkit._utils.json import UNSET
from mcpkit._utils.names import library_of
from mcpkit.dependencies import (
    Claim,
    Complete,
    Depends,
    Env,
    Idempotent,
    InputMarker,
    MirroredHeader,
)
from mcpkit.errors import RegistrationError

T = TypeVar("T")

Source: TypeAlias = Literal["argument", "context", "depends", "ask", "given"]


class Parameter(NamedTuple):
    """One parameter."""

    name: str  # as in Python; also the name of the argument
    annotation: Any  # the resolved type, with its metadata; `Any` if there is none
    default: Any  # `UNSET` if it must be given
    description: str | None  # from ``Annotated[..., "text"]``, else from the docstring
    source: Source
    mark: Any = None  # names the source; for an argument `Idempotent` or `Complete`, if any

    @property
    def required(self) -> bool:
        """True if a value must be given."""
        return self.default is UNSET


class Signature(NamedTuple):
    """The facts about a function that registration needs."""

    name: str
    is_async: bool
    parameters: tuple[Parameter, ...]  # in order, injected ones included
    returns: Any  # the resolved return annotation; `UNSET` if there is none
    docs: Docs
    place: str  # ``file:line: name()``, for messages
    is_open: bool = False  # True if it takes ``**arguments``, which are not among the parameters

    @property
    def arguments(self) -> tuple[Parameter, ...]:
        """The parameters that the client fills."""
        return tuple([each for each in self.parameters if each.source == "argument"])


def inspect_function(
    fn: Callable[..., Any], *, contexts: tuple[type, ...] = (), allows_open: bool = False
) -> Signature:
    """Return the signature of a function.

    Args:
        fn: A function, method, partial, instance with ``__call__``, or builtin with a signature.
        contexts: The types of parameters that receive the context.
        allows_open: True to accept ``**arguments``.

    Raises:
        RegistrationError: A parameter or annotation is unsupported; the message has the fix.
    """
    target = underlying(fn)
    place = location(fn)
    if isinstance(fn, classmethod):
        raise RegistrationError(f"{place} is a method of no class yet; {_INCLUDE}")
    raw = _parameters(fn, place)
    is_open = allows_open and any(each[2] is inspect.Parameter.VAR_KEYWORD for each in raw)
    if is_open:
        raw = [each for each in raw if each[2] is not inspect.Parameter.VAR_KEYWORD]
    names = {each[0] for each in raw}
    hints = resolve_hints(target, place)
    if fn is not target or "__signature__" in getattr(fn, "__dict__", ()):
        hints.update(_changed_hints(fn, target, names, place))
    if isinstance(fn, type):
        hints["return"] = fn
    # Hide arguments bound by `functools.partial` from the description, as we hide dependencies.
    code = getattr(target, "__code__", None)
    filled = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount] if code else ()
    docs = parse_docstring(_docstring(fn, target), {*names, *filled})
    returned = _text_in(hints.get("return"))
    if returned is not None and not docs.returns:
        docs = docs._replace(parts=(*docs.parts, Part(f"Returns: {returned}", is_result=True)))
    parameters = tuple([_parameter(each, hints, docs, place, contexts) for each in raw])
    returns = hints.get("return", UNSET)
    return Signature(function_name(fn), is_async(fn), parameters, returns, docs, place, is_open)


_INCLUDE: Final = (
    "mark it with the decorators of mcpkit, and include its object or class: app.include(...)"
)


def _changed_hints(
    fn: Callable[..., Any], target: Callable[..., Any], names: Set[str], place: str
) -> dict[str, Any]:
    """Return the annotations in which a wrapper differs from the function that it wraps.

    Those of a wrapper that takes ``*args`` and ``**kwargs`` are ignored, and so is ``-> Any``.
    """
    before: dict[str, Any] = getattr(target, "__annotations__", {})
    changed: dict[str, Any] = {}
    scope: dict[str, Any] = {}
    for each in reversed([fn, *_wrapped_by(fn)]):
        scope = {**getattr(each, "__globals__", {}), **scope}
        written: Any = getattr(each, "__annotations__", None)
        if each is not target and type(each) is types.FunctionType and written is not before:
            own = {key: written[key] for key in written if key in names or key == "return"}
            if own.keys() - {"return"} or not names:
                changed.update(own)
        signature = getattr(each, "__dict__", {}).get("__signature__")
        if isinstance(signature, inspect.Signature):
            every = {one.name: one.annotation for one in signature.parameters.values()}
            every["return"] = signature.return_annotation
            is_empty = inspect.Signature.empty
            changed.update({key: found for key, found in every.items() if found is not is_empty})
    changed = {key: found for key, found in changed.items() if found is not before.get(key)}
    if changed.get("return") is Any and "return" in before:
        del changed["return"]
    code = getattr(target, "__code__", None)
    if not changed or code is None:
        return {key: found for key, found in changed.items() if not isinstance(found, str)}
    # A string may refer to the module of the decorator or to that of the function.
    probe = types.FunctionType(code, scope, closure=getattr(target, "__closure__", None))
    probe.__annotations__ = changed
    return resolve_hints(probe, place)


def _wrapped_by(fn: Callable[..., Any]) -> list[Callable[..., Any]]:
    """Return the functions that a function wraps, from the outermost to the innermost."""
    found: list[Callable[..., Any]] = []
    each: Any = without_arguments(fn)
    if each is not fn:
        found.append(each)
    while (each := getattr(each, "__wrapped__", None)) is not None and each not in found:
        found.append(each)
    return found


def _text_in(annotation: Any) -> str | None:
    """Return the text in ``Annotated[..., "text"]``, also of a choice of a union."""
    if type(annotation) is ANNOTATED:
        texts = [getattr(each, "documentation", each) for each in annotation.__metadata__]
        text = "\n".join(each.strip() for each in texts if isinstance(each, str))
        return text or _text_in(annotation.__origin__)
    if type(annotation) in UNIONS:
        return next(filter(None, map(_text_in, annotation.__args__)), None)
    return None


_Raw: TypeAlias = tuple[str, Any, Any]
"""A parameter: its name, its default or `UNSET`, and its kind as in `inspect`."""


def _parameters(fn: Callable[..., Any], place: str) -> list[_Raw]:
    """Return the parameters of a callable, except bound ones."""
    plain = _plain_parameters(fn)
    if plain is not None:
        return plain
    shown: Any = cast("Any", fn)
    if type(fn) is functools.partial and "__signature__" not in vars(fn):
        # Without `__wrapped__`, behind which `inspect` would not see what is bound.
        shown = functools.partial(shown.func, *shown.args, **shown.keywords)
    try:
        found = inspect.signature(shown).parameters.values()
    except (TypeError, ValueError):
        raise RegistrationError(
            f"{place}: has no signature that Python can show; wrap it"
        ) from None
    return [
        (each.name, UNSET if each.default is each.empty else each.default, each.kind)
        for each in found
    ]


def _plain_parameters(fn: Callable[..., Any]) -> list[_Raw] | None:
    # Much faster than `inspect.signature`; None if the code of the function alone does not tell.
    bound = type(fn) is types.MethodType
    function = cast("types.MethodType", fn).__func__ if bound else fn
    if type(function) is not types.FunctionType:
        return None
    if function.__dict__ and function.__dict__.keys() & _ELSEWHERE:
        return None
    code = function.__code__
    positional = code.co_argcount
    if code.co_flags & _STARS or code.co_posonlyargcount or bound > positional:
        return None
    names = code.co_varnames
    given = function.__defaults__ or ()
    defaults = (UNSET,) * (positional - len(given)) + given
    raw = [(names[place], defaults[place], _NAMED) for place in range(bound, positional)]
    if code.co_kwonlyargcount:
        optional: dict[str, Any] = function.__kwdefaults__ or {}
        last = names[positional : positional + code.co_kwonlyargcount]
        raw += [(each, optional.get(each, UNSET), _NAMED) for each in last]
    return raw


_ELSEWHERE: Final = frozenset({"__signature__", "__wrapped__"})
"""Attributes of functions that have the parameters of another."""

_NAMED: Final = inspect.Parameter.POSITIONAL_OR_KEYWORD
_STARS: Final = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS


def _parameter(
    raw: _Raw, hints: Mapping[str, Any], docs: Docs, at: str, contexts: tuple[type, ...]
) -> Parameter:
    name, default, kind = raw
    if kind is not _NAMED or name in _RESERVED or isinstance(default, _MARKS):
        _refuse_raw(raw, hints, at, contexts)
    annotation = hints.get(name, Any)
    named = unalias(annotation)
    is_context = is_context_type(named, contexts)
    marks: list[Any] = []
    if is_context or type(named) is ANNOTATED:
        annotation = named  # a recursive alias keeps its name
        marks = [each for each in getattr(named, "__metadata__", ()) if isinstance(each, _MARKS)]
    key_marks = [
        each
        for part in (named, *(named.__args__ if type(named) in UNIONS else ()))
        for each in getattr(part, "__metadata__", ())
        if each is Idempotent or isinstance(each, Idempotent)
    ]
    description = _text_in(annotation) or docs.parameters.get(name)
    source: Source = "context" if is_context else "argument"
    mark: Any = None
    for each in marks if not is_context else ():
        for kind, name_of_source in _SOURCES:
            if isinstance(each, kind):
                source, mark = name_of_source, each
    if source != "argument":
        if key_marks or any(isinstance(each, MirroredHeader) for each in marks):
            mark_of = "Idempotent" if key_marks else "MirroredHeader"
            use = "a call has no key there" if key_marks else "no header can repeat it"
            raise RegistrationError(
                f"{at}: {name} is not sent by the client, so {use}; remove {mark_of}(...)"
            )
        return Parameter(name, annotation, default, description, source, mark)
    if annotation is not Any:
        _refuse_foreign(annotation, name, at)
    if name[0] == "_":
        raise RegistrationError(
            f"{at}: the name {name} begins with an underscore, which hosts refuse; rename it"
        )
    if Idempotent in key_marks:
        raise RegistrationError(f"{at}: write {name}: Annotated[str, Idempotent()], with ()")
    completes = [each for each in marks if isinstance(each, Complete)]
    mark = next(iter([*key_marks, *completes]), None)
    return Parameter(name, annotation, default, description, "argument", mark)


_SOURCES: Final[Sequence[tuple[type, Source]]] = (
    (Depends, "depends"),
    (InputMarker, "ask"),
    (Claim, "given"),
    (Env, "given"),
)


def _refuse_raw(raw: _Raw, hints: Mapping[str, Any], at: str, contexts: tuple[type, ...]) -> None:
    name, default, kind = raw
    if kind is inspect.Parameter.VAR_POSITIONAL:
        raise RegistrationError(
            f"{at}: *{name} has no names a client could use; write a parameter of type list instead"
        )
    if kind is inspect.Parameter.VAR_KEYWORD:
        raise RegistrationError(
            f"{at}: **{name} has no names a client could use; write a parameter of type dict "
            f"instead, or describe them with input_schema="
        )
    if kind is inspect.Parameter.POSITIONAL_ONLY:
        raise RegistrationError(
            f"{at}: {name} is positional-only, arguments arrive by name; remove the /"
        )
    if name in _METHODS and name not in hints:
        raise RegistrationError(f"{at}: is a method, and nothing fills {name}; {_INCLUDE}")
    if name == "ctx" and name not in hints and contexts:
        raise RegistrationError(
            f"{at}: ctx has no annotation, so a client would have to send it; write ctx: Context, "
            f"or ctx: SyncContext in a plain def"
        )
    if isinstance(default, _MARKS):
        marker = type(default).__name__
        raise RegistrationError(
            f"{at}: write {name}: Annotated[<type>, {marker}(...)] instead of a default value"
        )


def _refuse_foreign(annotation: Any, name: str, at: str) -> None:
    """Reject the context of another library, alone, with parameters, or in a union."""
    parts = getattr(annotation, "__args__", ()) if type(annotation) in UNIONS else (annotation,)
    for part in parts:
        found = getattr(part, "__origin__", part)
        if getattr(found, "__name__", None) == "Context":
            library = library_of(found)
            if library is not None:
                raise RegistrationError(
                    f"{at}: {name} is a Context of {library}, which mcpkit does not fill; write "
                    f"from mcpkit import Context, and {name}: mcpkit.Context"
                )


_METHODS: Final = frozenset({"cls", "self"})
_RESERVED: Final = _METHODS | {"ctx"}
_MARKS: Final = (Depends, Complete, InputMarker, MirroredHeader, Claim, Env, Idempotent)


def is_context_type(annotation: object, contexts: tuple[type, ...]) -> bool:
    """Return True for a context type, also as ``Context[State]`` or ``Context | None``."""
    if type(annotation) in UNIONS:
        parts: tuple[object, ...] = getattr(annotation, "__args__", ())
        return any(is_context_type(part, contexts) for part in parts)
    base: object = getattr(annotation, "__origin__", annotation)
    if type(annotation) is ANNOTATED:
        return is_context_type(base, contexts)
    return isinstance(base, type) and issubclass(base, contexts)


# --- facts about a callable -----------------------------------------------------------------------


def _docstring(fn: Callable[..., Any], target: Callable[..., Any]) -> str:
    fn = without_arguments(fn)
    for each in (fn, *_wrapped_by(fn)):
        if inspect.isroutine(each) and each.__doc__ is not None:
            return inspect.cleandoc(each.__doc__)  # a wrapper may have its own
    if target.__doc__ is None and not inspect.isroutine(fn):
        # An object with ``__call__``, or a class: the class has the docstring.
        return inspect.cleandoc((fn if isinstance(fn, type) else type(fn)).__doc__ or "")
    return inspect.getdoc(target) or ""


def is_async(fn: Callable[..., Any]) -> bool:
    """Return True if calling a function returns a coroutine."""
    fn = without_arguments(fn)
    if isinstance(fn, staticmethod):
        fn = fn.__func__
    if inspect.iscoroutinefunction(fn):
        return True
    return not inspect.isroutine(fn) and inspect.iscoroutinefunction(type(fn).__call__)


def can_take(fn: Any, *args: object) -> bool:
    """Return False if calling a function with these arguments raises `TypeError`."""
    try:
        inspect.signature(fn).bind(*args)
    except TypeError:
        return False
    except ValueError:
        pass  # a callable without a signature that Python can show
    return True
