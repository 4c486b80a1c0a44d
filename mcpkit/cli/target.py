"""The way from a target on the command line to the app object."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any, Final, TypeGuard

from mcpkit.app import MCPKit
from mcpkit.engine import from_functions
from mcpkit.errors import RegistrationError
from mcpkit.support.target import split
from mcpkit.support.wrong_names import library_of

__all__ = ["TargetError", "load_app"]

_NOT_THE_AUTHORS: Final = ("<frozen", str(Path(__file__).parents[1]))

_LIBRARY: Final = str(Path(os.__file__).parent)
_PLACE: Final = re.compile(r"\S+:\d+: ")

NAMES: Final = ("app", "server", "mcp")
"""The names under which an app is looked for first."""


class TargetError(Exception):
    """A target that cannot be served; the message is one line with the fix."""


def load_app(target: str) -> MCPKit[Any]:
    """Import and return the app that a target names.

    Args:
        target: ``server.py``, ``server.py:app``, ``package.module`` or ``package.module:app``.

    Raises:
        TargetError: There is no such file, module or app, there are several, or it cannot be
            imported. The cause is the exception of the module, if there is one.
    """
    place, name = split(target)
    module = _import(place)
    if name is not None:
        return _named(module, name, place)
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


def _is_app(value: object) -> TypeGuard[MCPKit[Any]]:
    return isinstance(value, MCPKit)


def _named(module: ModuleType, name: str, place: str) -> MCPKit[Any]:
    found = getattr(module, name, None)
    if _is_app(found):
        return found
    if found is None:
        raise TargetError(f"{place} has nothing named {name!r}")
    raise TargetError(f"{name!r} in {place} is a {type(found).__name__}, not an MCPKit app")


def _from_marks(module: ModuleType, place: str) -> MCPKit[Any]:
    for key, value in vars(module).items():
        library = library_of(value)
        if type(value).__name__ in ("FastMCP", "MCPServer", "Server") and library is not None:
            raise TargetError(
                f"{key!r} in {place} is a server of {library}; mcpkit migrate {place} rewrites it"
            )
    name = module.__name__.rpartition(".")[2]
    if not from_functions.marked_in(module):
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
    said = (str(error).strip().splitlines() or [""])[0]
    where = _where(error)
    if isinstance(error, SyntaxError):
        said = error.msg
        where = f" ({Path(error.filename or place).name}:{error.lineno})"
    what = f"{type(error).__name__}: {said}" if said else type(error).__name__
    return f"{place} cannot be imported: {what}{where}"


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
        raise TargetError(f"{path.name} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
