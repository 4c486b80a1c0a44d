"""From a target on the command line to the app object.

A target names a file or a module, and in it an app, or a function that makes one from flags.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import inspect
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from inspect import Parameter, Signature
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Final, get_args, get_origin

import typer
from pydantic import ValidationError, validate_call
from typer.models import ParameterInfo

from mcpkit._entries import marked_in
from mcpkit._settings import FOLDER, SettingError
from mcpkit._utils.names import library_of
from mcpkit._utils.targets import TargetError, module_at, split
from mcpkit.app import MCPKit
from mcpkit.errors import RegistrationError

NAMES: Final = ("app", "server", "mcp")
"""The names under which an app is looked for first."""

FACTORIES: Final = ("make_app", "create_app", "make_server", "create_server")
"""Usual names of functions that make an app; such a function is called only if it is named."""

_LIBRARIES: Final = (
    *("<frozen", "<string>"),  # the methods that dataclasses generate
    *(str(Path(__file__).parents[1]), str(Path(os.__file__).parent)),
)
_PLACE: Final = re.compile(r"\S+:\d+: ")


def load_app(target: str, flags: Sequence[str] | None = None) -> MCPKit[Any]:
    """Import and return the app that a target names.

    Args:
        target: ``server.py``, ``server.py:app``, ``package.module`` or ``package.module:app``; the
            name may also be that of a function that makes the app.
        flags: For the server: a module finds them in ``sys.argv``, a function gets them as
            arguments. None leaves ``sys.argv`` unchanged.

    Raises:
        TargetError: There is no such file, module or app, there are several, or it cannot be
            imported. The cause is the exception of the module, if there is one.
        typer.Exit: The flags ask for help, which has been printed.
    """
    source, name = split(target)
    if flags is not None:
        sys.argv = [source, *flags]
    module = _import(source)
    if name is not None:
        return _named(module, name, source, flags or ())
    apps: dict[str, MCPKit[Any]] = {
        key: each for key, each in vars(module).items() if isinstance(each, MCPKit)
    }
    for each in NAMES:
        if each in apps:
            return apps[each]
    distinct = list({id(app): key for key, app in apps.items()}.values())
    if len(distinct) > 1:
        raise TargetError(
            f"{source} has {len(distinct)} apps: {', '.join(distinct)}; say which, as in "
            f"{source}:{distinct[0]}"
        )
    return apps[distinct[0]] if distinct else _from_marks(module, source)


def _from_marks(module: ModuleType, source: str) -> MCPKit[Any]:
    for key, value in vars(module).items():
        library = library_of(value)
        if type(value).__name__ in ("FastMCP", "MCPServer", "Server") and library is not None:
            raise TargetError(
                f"{key!r} in {source} is a server of {library}; mcpkit migrate {source} rewrites it"
            )
    name = module.__name__.rpartition(".")[2]
    if not marked_in(module):
        for each in FACTORIES:
            if inspect.isfunction(getattr(module, each, None)):
                raise TargetError(f"{source} has no app, but makes one: say {source}:{each}")
        raise TargetError(
            f"{source} has no app: make one, app = MCPKit({name!r}), "
            f"or mark functions with @mcpkit.tool"
        )
    in_folder = FOLDER.set(str(Path(module.__file__ or "").resolve().parent))
    try:
        app: MCPKit[Any] = MCPKit(name, instructions=module.__doc__)
        app.include(module)
    except (RegistrationError, SettingError) as error:
        raise TargetError(str(error)) from error
    finally:
        FOLDER.reset(in_folder)
    return app


# --- importing ------------------------------------------------------------------------------------


def _import(source: str) -> ModuleType:
    path = Path(source)
    is_module_name = all(part.isidentifier() for part in source.split("."))
    if not path.is_file() and (path.suffix == ".py" or not is_module_name):
        raise TargetError(f"there is no file {source}")
    try:
        if path.is_file():
            return _import_file(path.resolve())
        if "" not in sys.path:
            sys.path.insert(0, "")
        return importlib.import_module(source)
    except TargetError:
        raise
    except SettingError as error:
        raise TargetError(str(error)) from error
    except RegistrationError as error:
        text = str(error)
        raise TargetError(text if _PLACE.match(text) else text + _where(error)) from error
    except (Exception, SystemExit) as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing is not None and f"{source}.".startswith(f"{missing}."):
            raise TargetError(f"there is no module or file {source}") from error
        raise TargetError(_failed(f"{source} cannot be imported", source, error)) from error


def _import_file(path: Path) -> ModuleType:
    """Import a module from a file; one inside a package is imported as part of it."""
    folder, name = module_at(path)
    sys.path.insert(0, str(folder))
    if folder != path.parent:
        return importlib.import_module(name)
    # A server may be called json.py; other modules still import the library.
    name = name if name not in sys.modules else f"served.{name}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise TargetError(f"{path.name} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _failed(what: str, source: str, error: BaseException) -> str:
    text = (str(error).strip().splitlines() or [""])[0]
    where = "" if _PLACE.match(text) else _where(error)
    if isinstance(error, SyntaxError):
        text = error.msg
        where = f" ({Path(error.filename or source).name}:{error.lineno})"
    return f"{what}: {type(error).__name__}{': ' if text else ''}{text}{where}"


def _where(error: BaseException) -> str:
    """Return the last line before an error that is not in a library, in brackets."""
    files = [(each.filename, each.lineno) for each in traceback.extract_tb(error.__traceback__)]
    own = [each for each in files if not each[0].startswith(_LIBRARIES)]
    own = [each for each in own if "-packages" not in each[0]] or own
    return f" ({Path(own[-1][0]).name}:{own[-1][1]})" if own else ""


# --- functions that make an app -------------------------------------------------------------------


def _named(module: ModuleType, name: str, source: str, flags: Sequence[str]) -> MCPKit[Any]:
    found: Any = getattr(module, name, None)
    if isinstance(found, MCPKit):
        return found  # pyright: ignore[reportUnknownVariableType]
    if found is None:
        raise TargetError(f"{source} has nothing named {name!r}")
    if not inspect.isroutine(found):
        raise TargetError(f"{name!r} in {source} is a {type(found).__name__}, not an MCPKit app")
    if any(each is found for each in _served_by(module)):
        raise TargetError(
            f"{name!r} in {source} is served by an app, and does not make one; say {source}"
        )
    try:
        made = _called_with(found, flags, f"mcpkit run {source}:{name} --")
    except typer.Exit:
        raise
    except _FlagError as error:
        raise TargetError(
            f"{source}:{name} is called to make an app, and its parameters are flags: {error}"
        ) from None
    except (RegistrationError, SettingError) as error:
        raise TargetError(str(error)) from error
    except (Exception, SystemExit) as error:
        raise TargetError(_failed(f"{source}:{name} failed", source, error)) from error
    if not isinstance(made, MCPKit):
        raise TargetError(f"{source}:{name} returned a {type(made).__name__}, not an MCPKit app")
    return made  # pyright: ignore[reportUnknownVariableType]


def _served_by(module: ModuleType) -> Iterator[object]:
    """Yield the functions of a module that are tools, resources or prompts."""
    yield from (each[0] for each in marked_in(module))
    for app in vars(module).values():
        if isinstance(app, MCPKit):
            known = app.server.registry
            for table in (known.tools, known.resources, known.templates, known.prompts):
                yield from (each.plan.fn for each in table.values())


class _FlagError(Exception):
    """The flags do not match the parameters of a function."""


def _called_with(function: Callable[..., Any], flags: Sequence[str], name: str) -> Any:
    """Call a function with a flag for each parameter, ``--name value``, and return its result."""
    given = _parsed(function, flags, name)
    validated: Any = validate_call(config={"arbitrary_types_allowed": True})(function)
    try:
        found = validated(**given)
    except ValidationError as error:
        if error.title != validated.__name__:  # it is one of the function
            raise
        first = error.errors()[0]
        flag = str(first["loc"][0]).replace("_", "-")
        raise _FlagError(f"Invalid value for '--{flag}': {first['msg']}") from None
    if inspect.isawaitable(found):
        from mcpkit._concurrency.loop import run_loop  # loads an event loop

        found = run_loop(_awaited, found)
    return found


async def _awaited(found: Any) -> Any:
    return await found


def _parsed(function: Callable[..., Any], flags: Sequence[str], name: str) -> dict[str, Any]:
    """Return the arguments of a function in flags, without defaults, which are not validated."""
    signature, found = _flagged(function), list[dict[str, Any]]()

    @functools.wraps(function)
    def call(**given: Any) -> None:
        found.append(given)

    call.__signature__ = signature  # type: ignore[attr-defined]
    call.__annotations__ = {key: each.annotation for key, each in signature.parameters.items()}
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    alone.command()(call)
    try:
        typer.main.get_command(alone).main([*flags], prog_name=name, standalone_mode=False)
    except Exception as error:
        message = getattr(error, "format_message", None)
        if message is None:
            raise
        raise _FlagError(message()) from None
    if not found:
        raise typer.Exit
    defaults = {key: each.default for key, each in signature.parameters.items()}
    return {key: value for key, value in found[0].items() if value is not defaults[key]}


def _flagged(function: Callable[..., Any]) -> Signature:
    """Return a signature in which every parameter is a flag."""
    signature = inspect.signature(function, eval_str=True)
    parameters: list[Parameter] = []
    for each in signature.parameters.values():
        if each.kind not in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY):
            raise _FlagError(f"the parameter {each} cannot be a flag")
        annotation = str if each.annotation is Parameter.empty else each.annotation
        extras = get_args(annotation)[1:] if get_origin(annotation) is Annotated else ()
        if not any(isinstance(extra, ParameterInfo) for extra in (*extras, each.default)):
            annotation = Annotated[annotation, typer.Option()]
        parameters.append(each.replace(annotation=annotation))
    return signature.replace(parameters=parameters, return_annotation=None)
