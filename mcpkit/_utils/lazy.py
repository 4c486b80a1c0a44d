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
        A function from a name to its object, which it keeps in the package;
        it raises `AttributeError` for any other name.
    """
    home_of = {name: module for module, names in homes.items() for name in names.split()}
    namespace = vars(sys.modules[package])
    namespace["__all__"] = sorted(home_of)
    namespace["__dir__"] = lambda: sorted({*namespace, *home_of})

    def load(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        is_enabled = gc.isenabled()
        gc.disable()  # it would search everything again and again while modules are loaded
        try:
            value = getattr(import_module(home_of[name]), name)
        finally:
            if is_enabled:
                gc.enable()
        namespace[name] = value
        return value

    return load
