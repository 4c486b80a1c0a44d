"""Type hints of functions, resolved; names and locations of functions."""

from __future__ import annotations

import ast
import functools
import inspect
import sys
import textwrap
import types
import typing
from collections.abc import Callable
from contextlib import suppress
from itertools import chain
from typing import Any, Final, Generic, Protocol, cast

from typing_extensions import TypeAliasType, get_type_hints

from mcpkit._signature.forms import ANNOTATED, GENERICS, LITERAL, UNIONS
from mcpkit._utils.json import UNSET
from mcpkit.errors import RegistrationError


def unalias(annotation: Any) -> Any:
    """Return the type that a ``type X = ...`` statement names; any other type as it is."""
    while type(annotation) in _ALIASES:
        annotation = annotation.__value__
    return annotation


# Python 3.12 has its own class.
_ALIASES: Final[Any] = {TypeAliasType, getattr(typing, "TypeAliasType", TypeAliasType)}


def resolve_hints(fn: Callable[..., Any], place: str) -> dict[str, Any]:
    """Return the annotations of a function as types.

    Strings (``from __future__ import annotations``) are evaluated in the function's globals and
    closure, and in the functions around it if they are still running; names imported only under
    ``if TYPE_CHECKING:`` are imported now. Messages begin with `place`.

    Raises:
        RegistrationError: A name cannot be resolved.
    """
    scope = _closure(fn)
    settled = _settled_hints(fn, scope)
    if settled is not None:
        return settled
    while True:
        try:
            return get_type_hints(fn, localns=scope or None, include_extras=True)
        except NameError as error:
            missing = error.name or str(error)
            found = UNSET if missing in scope else _local_name(fn, missing)
            if found is UNSET and missing not in scope:
                found = _typing_only_import(fn, missing)
            if found is UNSET:
                raise RegistrationError(
                    f"{place}: the annotation names {missing!r}, which cannot be found "
                    f"at run time; import it outside `if TYPE_CHECKING:` and at module level"
                ) from None
            scope[missing] = found
        except Exception as error:
            raise RegistrationError(
                f"{place}: an annotation cannot be evaluated: {error}"
            ) from error


# --- hints without a search --------------------------------------------------------------------


def _settled_hints(fn: Callable[..., Any], scope: dict[str, Any]) -> dict[str, Any] | None:
    """Return the result of `get_type_hints` in a tenth of its time; None for unusual types."""
    if type(fn) is not types.FunctionType or (fn.__dict__ and fn.__dict__.keys() & _ELSEWHERE):
        return None
    hints: dict[str, Any] = {}
    try:
        for name, annotation in fn.__annotations__.items():
            if type(annotation) is str:
                annotation = eval(_compiled(annotation), fn.__globals__, scope or fn.__globals__)
            if annotation is None:
                annotation = type(None)
            elif not _is_settled(annotation):
                return None
            hints[name] = annotation
    except Exception:
        return None  # the slow path has the message
    return hints


_ELSEWHERE: Final = frozenset({"__no_type_check__", "__wrapped__"})
"""Attributes of functions whose annotations do not count, or belong to another function."""


@functools.lru_cache(maxsize=4096)
def _compiled(annotation: str) -> types.CodeType:
    return compile(annotation, "<annotation>", "eval", dont_inherit=True)


def _is_settled(annotation: object) -> bool:
    """Return True if an annotation needs no evaluation and cannot be invalid."""
    kind = type(annotation)
    if kind is type:
        return annotation is not Generic
    origin: object = getattr(annotation, "__origin__", None)
    if kind is ANNOTATED:
        return _is_settled(origin)
    # This excludes ClassVar[...] and the like.
    if kind in UNIONS or (kind in GENERICS and isinstance(origin, type)):
        parts: tuple[object, ...] = getattr(annotation, "__args__", ())
        return all(map(_is_settled, parts))
    if kind is LITERAL or annotation is Any or annotation is ...:
        return True
    return issubclass(kind, type) and annotation is not Protocol


# --- the search for names -------------------------------------------------------------------------


def _closure(fn: Callable[..., Any]) -> dict[str, Any]:
    code, cells = getattr(fn, "__code__", None), getattr(fn, "__closure__", None)
    scope: dict[str, Any] = {}
    if code is not None and cells:
        for name, cell in zip(code.co_freevars, cells, strict=False):
            with suppress(ValueError):  # a name that is not bound yet
                scope[name] = cell.cell_contents
    for parameter in getattr(fn, "__type_params__", ()):
        scope[parameter.__name__] = parameter
    return scope


def _local_name(fn: Callable[..., Any], wanted: str) -> Any:
    """Return a local variable of the running function in which `fn` is defined, or UNSET."""
    code = getattr(fn, "__code__", None)
    frame: types.FrameType | None = sys._getframe(1)
    while code is not None and frame is not None:
        if wanted in frame.f_locals and _defines(frame.f_code, code):
            return frame.f_locals[wanted]
        frame = frame.f_back
    return UNSET


def _defines(outer: types.CodeType, inner: types.CodeType) -> bool:
    """Return True if one function is defined inside another, directly or further down."""
    return any(
        each is inner or _defines(each, inner)
        for each in outer.co_consts
        if isinstance(each, types.CodeType)
    )


def _typing_only_import(fn: Callable[..., Any], wanted: str) -> Any:
    """Import a name that the module of a function imports under TYPE_CHECKING; UNSET if none."""
    module = sys.modules.get(fn.__module__)
    try:
        tree = ast.parse(inspect.getsource(cast("types.ModuleType", module)))
    except (OSError, TypeError, SyntaxError):
        return UNSET
    tests = [node for node in ast.walk(tree) if isinstance(node, ast.If)]
    blocks = [each.body for each in tests if ast.unparse(each.test).endswith("TYPE_CHECKING")]
    for statement in chain.from_iterable(blocks):
        if not isinstance(statement, (ast.Import, ast.ImportFrom)):
            continue
        if wanted in [each.asname or each.name.partition(".")[0] for each in statement.names]:
            scope = {key: vars(module).get(key) for key in ("__name__", "__package__")}
            with suppress(ImportError, AttributeError):
                exec(compile(ast.Module([statement], []), "<import>", "exec"), scope)
            return scope.get(wanted, UNSET)
    return UNSET


# --- the function behind a callable ---------------------------------------------------------------


def without_arguments(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that a `functools.partial` calls in the end; any other as it is."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    return fn


def underlying(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function whose annotations describe `fn`."""
    if type(fn) is types.FunctionType and "__wrapped__" not in fn.__dict__:
        return fn
    fn = inspect.unwrap(without_arguments(fn))
    if isinstance(fn, types.MethodType):
        return fn.__func__
    inner: Any = fn
    if isinstance(fn, type):
        inner = cast("Any", fn).__init__
    elif not inspect.isroutine(fn):
        inner = type(fn).__call__
    return inner if inspect.isfunction(inner) else fn


def syntax_of(fn: Callable[..., Any]) -> ast.Module:
    """Return the syntax tree of a function; an empty one if its source is not known."""
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(fn)))
    except (OSError, SyntaxError, TypeError):
        return ast.Module([], [])


def function_name(fn: Callable[..., Any]) -> str:
    """Return the name of a callable: its own, or that of its class."""
    fn = without_arguments(fn)
    name = getattr(fn, "__name__", None)
    return name if isinstance(name, str) else type(fn).__name__


def location(fn: Callable[..., Any]) -> str:
    """Return ``file:line: name()`` of a callable, or its module instead of the file and line."""
    target = underlying(fn)
    where = str(getattr(target, "__module__", "?"))
    code = getattr(target, "__code__", None)
    if isinstance(code, types.CodeType):
        where = f"{code.co_filename.rpartition('/')[2]}:{code.co_firstlineno}"
    return f"{where}: {function_name(fn)}()"
