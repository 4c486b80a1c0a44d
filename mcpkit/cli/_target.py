"""The way from a target on the command line to the app object."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import re
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Final, TypeGuard

from mcpkit._entries import marked_in
from mcpkit._utils.names import library_of
from mcpkit._utils.targets import split
from mcpkit.app import MCPKit
from mcpkit.errors import RegistrationError

_NOT_THE_AUTHORS: Final = ("<frozen", str(Path(__file__).parents[1]))

_LIBRARY: Final = str(Path(os.__file__).parent)
_PLACE: Final = re.compile(r"\S+:\d+: ")

NAMES: Final = ("app", "server", "mcp")
"""The names under which an app is looked for first."""


FACTORIES: Final = ("make_app", "create_app", "make_server", "create_server")
"""The usual names of functions that make an app; they are called only if they are named."""


class TargetError(Exception):
    """A target that cannot be served; the message is one line with the fix."""


def load_app(target: str, flags: Sequence[str] | None = None) -> MCPKit[Any]:
    """Import and return the app that a target names.

    Args:
        target: ``server.py``, ``server.py:app``, ``package.module`` or ``package.module:app``. In
            the place of the app may stand a function that makes it.
        flags: For the server: the module finds them in ``sys.argv`` as a script does, a function
            gets them as arguments. None leaves ``sys.argv`` as it is.

    Raises:
        TargetError: There is no such file, module or app, there are several, or it cannot be
            imported. The cause is the exception of the module, if there is one.
        typer.Exit: The flags ask for help, which has been shown.
    """
    place, name = split(target)
    if flags is not None:
        sys.argv = [place, *flags]
    module = _import(place)
    if name is not None:
        return _named(module, name, place, flags or ())
    apps = {key: value for key, value in vars(module).items() if _is_app(value)}
    for each in NAMES:
        if each in apps:
            return apps[each]
    distinct = {id(value): key for key, value in apps.items()}
    if len(distinct) > 1:
        names = ", ".join(distinct.values())
        first = next(iter(distinct.values()))
        raise TargetError(
            f"{place} has {len(distinct)} apps: {names}; say which, as in {place}:{first}"
        )
    if apps:
        return next(iter(apps.values()))
    return _from_marks(module, place)


def passed_over(app: MCPKit[Any]) -> str | None:
    """Return the name of an application that an app is part of, and that has middleware.

    The middleware runs only where that application is served.

    Args:
        app: As it was loaded.

    Returns:
        ``module:name``; None if there is none.
    """
    for module in [*sys.modules.values()]:
        known = getattr(module, "__dict__", {})
        if not any(each is app for each in [*known.values()]):
            continue
        for name, host in known.items():
            if getattr(host, "user_middleware", None) and _is_among(app, host.routes):
                return f"{module.__name__}:{name}"
    return None


def _is_among(app: MCPKit[Any], routes: Sequence[Any]) -> bool:
    lifespans = app.asgi().lifespans  # which all applications of the app share
    served = [getattr(each, "app", None) for each in routes]
    return any(each is app or getattr(each, "lifespans", None) is lifespans for each in served)


def _is_app(value: object) -> TypeGuard[MCPKit[Any]]:
    return isinstance(value, MCPKit)


def _named(module: ModuleType, name: str, place: str, flags: Sequence[str]) -> MCPKit[Any]:
    found = getattr(module, name, None)
    if _is_app(found):
        return found
    if found is None:
        raise TargetError(f"{place} has nothing named {name!r}")
    if not inspect.isroutine(found):
        raise TargetError(f"{name!r} in {place} is a {type(found).__name__}, not an MCPKit app")
    import typer

    from mcpkit.cli._factories import FlagError, called_with

    try:
        made = called_with(found, flags, f"mcpkit run {place}:{name} --")
    except typer.Exit:
        raise
    except FlagError as error:
        raise TargetError(f"{place}:{name}: {error}") from None
    except RegistrationError as error:
        raise TargetError(str(error)) from error
    except (Exception, SystemExit) as error:
        raise TargetError(_failed(f"{place}:{name} failed", place, error)) from error
    if not _is_app(made):
        raise TargetError(f"{place}:{name} returned a {type(made).__name__}, not an MCPKit app")
    return made


def _from_marks(module: ModuleType, place: str) -> MCPKit[Any]:
    for key, value in vars(module).items():
        library = library_of(value)
        if type(value).__name__ in ("FastMCP", "MCPServer", "Server") and library is not None:
            raise TargetError(
                f"{key!r} in {place} is a server of {library}; mcpkit migrate {place} rewrites it"
            )
    name = module.__name__.rpartition(".")[2]
    if not marked_in(module):
        for each in FACTORIES:
            if inspect.isfunction(getattr(module, each, None)):
                raise TargetError(f"{place} has no app, but makes one: say {place}:{each}")
        raise TargetError(
            f"{place} has no app: make one, app = MCPKit({name!r}), "
            f"or mark functions with @mcpkit.tool"
        )
    app: MCPKit[Any] = MCPKit(name, instructions=module.__doc__)
    try:
        app.include(module)
    except RegistrationError as error:
        raise TargetError(str(error)) from error
    return app


def _import(place: str) -> ModuleType:
    path = Path(place)
    is_module_name = all(part.isidentifier() for part in place.split("."))
    if not path.is_file() and (path.suffix == ".py" or not is_module_name):
        raise TargetError(f"there is no file {place}")
    try:
        if path.is_file():
            return _import_file(path.resolve())
        if "" not in sys.path:
            sys.path.insert(0, "")
        return importlib.import_module(place)
    except RegistrationError as error:
        said = str(error)
        place = "" if _PLACE.match(said) else _where(error)
        raise TargetError(f"{said}{place}") from error
    except ModuleNotFoundError as error:
        if error.name is not None and (place == error.name or place.startswith(error.name + ".")):
            raise TargetError(f"there is no module or file {place}") from error
        raise TargetError(_cannot_import(place, error)) from error
    except (Exception, SystemExit) as error:
        raise TargetError(_cannot_import(place, error)) from error


def _cannot_import(place: str, error: BaseException) -> str:
    return _failed(f"{place} cannot be imported", place, error)


def _failed(what: str, place: str, error: BaseException) -> str:
    said = (str(error).strip().splitlines() or [""])[0]
    where = "" if _PLACE.match(said) else _where(error)
    if isinstance(error, SyntaxError):
        said = error.msg
        where = f" ({Path(error.filename or place).name}:{error.lineno})"
    why = f"{type(error).__name__}: {said}" if said else type(error).__name__
    return f"{what}: {why}{where}"


def _where(error: BaseException) -> str:
    """Return the last line of the author's own before an error, in brackets; empty if none.

    Installed code is not the author's, as long as other code is on the way to the error.
    """
    frames = traceback.extract_tb(error.__traceback__)
    found = [each for each in frames if not each.filename.startswith(_NOT_THE_AUTHORS)]
    own = [each for each in found if not _is_installed(each.filename)] or found
    return f" ({Path(own[-1].filename).name}:{own[-1].lineno})" if own else ""


def _is_installed(file: str) -> bool:
    return file.startswith(_LIBRARY) or any(part.endswith("-packages") for part in Path(file).parts)


def _import_file(path: Path) -> ModuleType:
    """Import a module from a file; one inside a package is imported as part of that."""
    parts = [path.stem]
    folder = path.parent
    while (folder / "__init__.py").is_file():
        parts.insert(0, folder.name)
        folder = folder.parent
    sys.path.insert(0, str(folder))
    if len(parts) > 1:
        return importlib.import_module(".".join(parts))
    # A server may be called json.py; imports of json still want the other one.
    name = path.stem if path.stem not in sys.modules else f"served.{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise TargetError(f"{path.name} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
