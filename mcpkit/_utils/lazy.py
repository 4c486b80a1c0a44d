"""Packages whose names are imported when they are first used (PEP 562)."""

from __future__ import annotations

import gc
import sys
from importlib import import_module

TYPE_CHECKING = False  # importing `typing` for it would take longer
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any


def importer(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package, and set its ``__all__`` and ``__dir__``.

    Args:
        package: Its ``__name__``.
        homes: For each module, the public names that the package takes from it, separated by
            blanks.

    Returns:
        A function from a name, or a deprecated one, to its object, which it keeps in the package;
        it raises `AttributeError` for any other name.
    """
    home_of = {name: module for module, names in homes.items() for name in names.split()}
    namespace = vars(sys.modules[package])
    namespace["__all__"] = sorted(home_of)
    namespace["__dir__"] = lambda: sorted({*namespace, *home_of})

    def load(name: str) -> Any:
        present: str | None = name
        if name not in home_of and not name.startswith("__"):
            from mcpkit._utils.names import present_name  # loaded only if a name is unknown

            present = present_name(package, name)
        if present not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        is_enabled = gc.isenabled()
        gc.disable()  # it would search everything again and again while modules are loaded
        try:
            value = getattr(import_module(home_of[present]), present)
        finally:
            if is_enabled:
                gc.enable()
        if present == name:
            namespace[name] = value
        return value

    return load


def moved(module: str, present: str) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a module whose public names are in another one now."""

    def load(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        value = getattr(import_module(present), name)
        from mcpkit._utils.names import warn_deprecated

        warn_deprecated(f"{module}.{name} is now {present}.{name}")
        return value

    return load
