"""A function → its parameters, types, defaults, documentation, and what is injected where.

All introspection happens here, once, when a function is registered.
"""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import re
import sys
import textwrap
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeAlias, cast, get_args, get_origin

from typing_extensions import TypeAliasType, get_type_hints

from mcpkit.errors import RegistrationError
from mcpkit.functions.markers import Complete, DeclaredAsk, Depends, Header
from mcpkit.types import UNSET

__all__ = ["Docs", "Parameter", "Signature", "inspect_function"]

Source: TypeAlias = Literal["argument", "context", "depends", "ask"]


class Docs(NamedTuple):
    """What a docstring says.

    Args:
        description: The text above the sections, unwrapped of its indentation; None if empty.
        parameters: A description by parameter name.
    """

    description: str | None
    parameters: Mapping[str, str]


class Parameter(NamedTuple):
    """One parameter.

    Args:
        name: As in Python; also the name of the argument.
        annotation: The resolved type, with its ``Annotated`` metadata; `Any` if there is none.
        default: `UNSET` if it must be given.
        description: From the docstring; ``Annotated`` metadata wins over it when a schema is made.
        source: Who fills it: the client, the context, or a dependency.
        depends: The dependency, if that is the source.
        complete: Where suggestions come from, if the author says so.
        ask: What the client is asked to fill it, if that is the source.
    """

    name: str
    annotation: Any
    default: Any
    description: str | None
    source: Source
    depends: Depends | None = None
    complete: Complete | None = None
    ask: DeclaredAsk | None = None

    @property
    def required(self) -> bool:
        """Whether a value must be given."""
        return self.default is UNSET


class Signature(NamedTuple):
    """What registration needs to know of a function.

    Args:
        name: The function's own name.
        is_async: Whether calling it gives an awaitable.
        parameters: In order, injected ones included.
        returns: The resolved return annotation; `UNSET` if there is none.
        docs: From the docstring.
        where: ``file:line`` of the definition, for messages.
    """

    name: str
    is_async: bool
    parameters: tuple[Parameter, ...]
    returns: Any
    docs: Docs
    where: str

    @property
    def arguments(self) -> tuple[Parameter, ...]:
        """The parameters that the client fills."""
        return tuple(each for each in self.parameters if each.source == "argument")


def inspect_function(fn: Callable[..., Any], *, contexts: tuple[type, ...] = ()) -> Signature:
    """Everything about a function, once.

    Args:
        fn: A function, method, partial, instance with ``__call__``, or builtin with a signature.
        contexts: The types by which a parameter for the context is recognised.

    Raises:
        RegistrationError: A parameter or annotation cannot be served; the message has the fix.
    """
    target = underlying(fn)
    where = location(target)
    name = function_name(fn)
    if isinstance(fn, classmethod):
        raise RegistrationError(
            f"{where}: {name}() has no class to be called on yet; mark it with the decorators of "
            f"mcpkit, and include the class: app.include(...)"
        )
    try:
        raw = inspect.signature(fn)
    except (TypeError, ValueError):
        raise RegistrationError(f"{name}: has no signature that Python can show; wrap it") from None
    hints = resolve_hints(target, name, where)
    if isinstance(fn, type):
        hints["return"] = fn
    docs = parse_docstring(_docstring(fn, target))
    parameters = tuple(
        _parameter(each, hints, docs, name, where, contexts) for each in raw.parameters.values()
    )
    returns = hints.get("return", UNSET)
    return Signature(name, is_async(fn), parameters, returns, docs, where)


def _parameter(
    raw: inspect.Parameter,
    hints: Mapping[str, Any],
    docs: Docs,
    function: str,
    where: str,
    contexts: tuple[type, ...],
) -> Parameter:
    at = f"{where}: {function}()"
    if raw.kind is raw.VAR_POSITIONAL or raw.kind is raw.VAR_KEYWORD:
        star = "*" if raw.kind is raw.VAR_POSITIONAL else "**"
        kind = "list" if star == "*" else "dict"
        raise RegistrationError(
            f"{at}: {star}{raw.name} has no names a client could use; "
            f"write a parameter of type {kind} instead"
        )
    if raw.kind is raw.POSITIONAL_ONLY:
        raise RegistrationError(
            f"{at}: {raw.name} is positional-only, arguments arrive by name; remove the /"
        )
    if raw.name in ("self", "cls") and raw.name not in hints:
        raise RegistrationError(
            f"{at}: is a method, and nothing fills {raw.name}; mark it with the decorators of "
            f"mcpkit, and include the object: app.include(...)"
        )
    if raw.name == "ctx" and raw.name not in hints and contexts:
        raise RegistrationError(
            f"{at}: ctx has no annotation, so a client would have to send it; write ctx: Context, "
            f"or ctx: SyncContext in a plain def"
        )
    annotation = hints.get(raw.name, Any)
    named = unalias(annotation)
    if get_origin(named) is Annotated or _is_context(named, contexts):
        annotation = named  # a recursive alias has to keep its name
    default: Any = UNSET if raw.default is raw.empty else raw.default
    description = docs.parameters.get(raw.name)
    if isinstance(default, (Depends, Complete, DeclaredAsk, Header)):
        kind = type(default).__name__
        raise RegistrationError(
            f"{at}: write {raw.name}: Annotated[<type>, {kind}(...)] instead of a default value"
        )
    metadata = _metadata(annotation)
    injected = any(isinstance(m, (Depends, DeclaredAsk)) for m in metadata)
    if any(isinstance(m, Header) for m in metadata) and (
        injected or _is_context(annotation, contexts)
    ):
        raise RegistrationError(
            f"{at}: {raw.name} is not sent by the client, so no header can repeat it; "
            f"remove Header(...)"
        )
    if _is_context(annotation, contexts):
        return Parameter(raw.name, annotation, default, description, "context")
    markers = [m for m in metadata if isinstance(m, (Depends, Complete))]
    depends = next((m for m in markers if isinstance(m, Depends)), None)
    complete = next((m for m in markers if isinstance(m, Complete)), None)
    if depends is not None:
        return Parameter(raw.name, annotation, default, description, "depends", depends=depends)
    ask = next((m for m in metadata if isinstance(m, DeclaredAsk)), None)
    if ask is not None:
        return Parameter(raw.name, annotation, default, description, "ask", ask=ask)
    if raw.name.startswith("_"):
        raise RegistrationError(
            f"{at}: the name {raw.name} begins with an underscore, which hosts refuse; rename it"
        )
    return Parameter(raw.name, annotation, default, description, "argument", complete=complete)


def _metadata(annotation: Any) -> tuple[Any, ...]:
    return annotation.__metadata__ if get_origin(annotation) is Annotated else ()


def _is_context(annotation: Any, contexts: tuple[type, ...]) -> bool:
    """Whether an annotation is a context type, also as ``Context[State]`` or ``Context | None``."""
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    if get_origin(annotation) in (typing.Union, types.UnionType):
        return any(_is_context(part, contexts) for part in get_args(annotation))
    base = get_origin(annotation) or annotation
    return isinstance(base, type) and issubclass(base, contexts) if contexts else False


# --- what a callable really is --------------------------------------------------------------------


def _without_arguments(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The function that a `functools.partial` calls in the end; any other as it is."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    return fn


def underlying(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The function whose annotations describe `fn`."""
    fn = inspect.unwrap(_without_arguments(fn))
    if isinstance(fn, types.MethodType):
        fn = fn.__func__
    if not inspect.isroutine(fn) and not isinstance(fn, type):
        call = type(fn).__call__
        return call if inspect.isfunction(call) else fn
    if isinstance(fn, type):
        init = cast("Any", fn).__init__
        return init if inspect.isfunction(init) else fn
    return fn


def _docstring(fn: Callable[..., Any], target: Callable[..., Any]) -> str:
    fn = _without_arguments(fn)
    if target.__doc__ is None and not inspect.isroutine(fn):
        # An object with ``__call__``, or a class: they are described where they are defined.
        return inspect.cleandoc((fn if isinstance(fn, type) else type(fn)).__doc__ or "")
    return inspect.getdoc(target) or ""


def function_name(fn: Callable[..., Any]) -> str:
    """The name a callable goes by: its own, or that of its class."""
    fn = _without_arguments(fn)
    name = getattr(fn, "__name__", None)
    return name if isinstance(name, str) else type(fn).__name__


def is_async(fn: Callable[..., Any]) -> bool:
    """Whether calling it gives a coroutine."""
    fn = _without_arguments(fn)
    if isinstance(fn, staticmethod):
        fn = fn.__func__
    if inspect.iscoroutinefunction(fn):
        return True
    return not inspect.isroutine(fn) and inspect.iscoroutinefunction(type(fn).__call__)


def location(fn: Callable[..., Any]) -> str:
    """``file:line`` where a function is defined, or its module."""
    code = getattr(fn, "__code__", None)
    if isinstance(code, types.CodeType):
        return f"{code.co_filename.rpartition('/')[2]}:{code.co_firstlineno}"
    return str(getattr(fn, "__module__", "?"))


# --- type hints -----------------------------------------------------------------------------------


def resolve_hints(fn: Callable[..., Any], name: str, where: str) -> dict[str, Any]:
    """The annotations of a function as types.

    Strings (``from __future__ import annotations``) are evaluated in the function's globals and
    closure, and in the functions around it if they are still running; names imported only under
    ``if TYPE_CHECKING:`` are imported now.

    Raises:
        RegistrationError: A name cannot be resolved.
    """
    scope = _closure(fn)
    tried: set[str] = set()
    while True:
        try:
            return get_type_hints(fn, localns=scope or None, include_extras=True)
        except NameError as error:
            missing = error.name if error.name else str(error)
            if missing not in tried:
                tried.add(missing)
                found = _local_name(fn, missing)
                if found is UNSET:
                    found = _typing_only_import(fn, missing)
                if found is not UNSET:
                    scope[missing] = found
                    continue
            raise RegistrationError(
                f"{where}: {name}(): the annotation names {missing!r}, which cannot be found at "
                f"run time; import it outside `if TYPE_CHECKING:` and at module level"
            ) from None
        except Exception as error:
            raise RegistrationError(
                f"{where}: {name}(): an annotation cannot be evaluated: {error}"
            ) from error


def _closure(fn: Callable[..., Any]) -> dict[str, Any]:
    code, cells = getattr(fn, "__code__", None), getattr(fn, "__closure__", None)
    scope: dict[str, Any] = {}
    if code is not None and cells:
        for name, cell in zip(code.co_freevars, cells, strict=False):
            try:
                scope[name] = cell.cell_contents
            except ValueError:  # a name that is not bound yet
                continue
    for parameter in getattr(fn, "__type_params__", ()):
        scope[parameter.__name__] = parameter
    return scope


def unalias(annotation: Any) -> Any:
    """What a ``type X = ...`` statement names; any other annotation as it is."""
    while isinstance(annotation, TypeAliasType) or type(annotation) in _ALIASES:
        annotation = annotation.__value__
    return annotation


# From Python 3.12 on there is one of its own.
_ALIASES: Final = (getattr(typing, "TypeAliasType", TypeAliasType),)


def _local_name(fn: Callable[..., Any], wanted: str) -> Any:
    """A local variable of the running function in which `fn` is defined, or UNSET."""
    code = getattr(fn, "__code__", None)
    frame: types.FrameType | None = sys._getframe(1)
    while code is not None and frame is not None:
        if wanted in frame.f_locals and _defines(frame.f_code, code):
            return frame.f_locals[wanted]
        frame = frame.f_back
    return UNSET


def _defines(outer: types.CodeType, inner: types.CodeType) -> bool:
    """Whether one function's text is inside another's, also in a class or function in between."""
    return any(
        each is inner or _defines(each, inner)
        for each in outer.co_consts
        if isinstance(each, types.CodeType)
    )


def _typing_only_import(fn: Callable[..., Any], wanted: str) -> Any:
    """The object behind a name that the function's module imports under TYPE_CHECKING, or UNSET."""
    module = sys.modules.get(fn.__module__)
    if module is None:
        return UNSET
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(module)))
    except (OSError, TypeError, SyntaxError):
        return UNSET
    package = getattr(module, "__package__", None) or ""
    for statement in _typing_only_statements(tree):
        try:
            if isinstance(statement, ast.Import):
                for alias in statement.names:
                    if (alias.asname or alias.name.partition(".")[0]) == wanted:
                        top = alias.name if alias.asname else alias.name.partition(".")[0]
                        importlib.import_module(alias.name)
                        return sys.modules[top]
            elif isinstance(statement, ast.ImportFrom):
                for alias in statement.names:
                    if (alias.asname or alias.name) == wanted:
                        source = "." * statement.level + (statement.module or "")
                        found = importlib.import_module(source, package)
                        return getattr(found, alias.name)
        except (ImportError, AttributeError):
            return UNSET
    return UNSET


def _typing_only_statements(tree: ast.Module) -> Iterator[ast.stmt]:
    for node in ast.walk(tree):
        if isinstance(node, ast.If):
            test = node.test
            guard = test.attr if isinstance(test, ast.Attribute) else getattr(test, "id", "")
            if guard == "TYPE_CHECKING":
                yield from node.body


# --- docstrings -----------------------------------------------------------------------------------

_SECTION: Final = re.compile(
    r"^[ \t]*(?:(?:Args|Arguments|Parameters|Params|Returns?|Raises|Yields?|Examples?|Attributes|"
    r"Keyword Args|Keyword Arguments|Note|Notes|See Also|Other Parameters)[ \t]*:?[ \t]*$|:\w+.*:)",
    re.MULTILINE,
)


def parse_docstring(text: str) -> Docs:
    """What a docstring in the style of Google, NumPy or reST says about a function.

    Args:
        text: Without the indentation of the source, as `inspect.getdoc` gives it.
    """
    text = text.strip()
    if not text:
        return Docs(None, {})
    if _SECTION.search(text) is None:
        return Docs(text, {})
    # Only docstrings with sections pay for the parser.
    from docstring_parser import parse

    # The parser would take a section in the first line for the summary.
    bare = _SECTION.match(text) is not None
    parsed = parse(f"-\n\n{text}" if bare else text)
    parts = [None if bare else parsed.short_description, parsed.long_description]
    gap = "\n\n" if parsed.blank_after_short_description else "\n"
    description = gap.join(part for part in parts if part) or None
    found = {
        name.split()[0].lstrip("*"): " ".join(each.description.split())
        for each in parsed.params
        for name in each.arg_name.split(",")  # NumPy describes several at once: ``x, y : int``
        if each.description and name.strip()
    }
    return Docs(description, found)
