"""What mcpkit promises by name: the list and reality, and a docstring on all of it."""

from __future__ import annotations

import ast
import importlib
import inspect
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_origin

import pytest

import mcpkit

PACKAGE = Path(mcpkit.__file__).parent
OWN = {"TYPE_CHECKING", "annotations", "importer"}
"""What the root module needs for itself."""

NAMES: list[str] = mcpkit.__all__

MODULES = sorted(
    ".".join(("mcpkit", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")
    for path in PACKAGE.rglob("*.py")
    if path.name != "__main__.py"
)


def test_all_lists_every_public_name() -> None:
    assert len(NAMES) == len(set(NAMES))
    for name in NAMES:
        assert getattr(mcpkit, name) is not None
    importlib.import_module("mcpkit.client")
    there = {
        name
        for name, value in vars(mcpkit).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType)
    }
    assert there - OWN <= set(NAMES) <= set(dir(mcpkit))
    found: dict[str, Any] = {}
    exec("from mcpkit import *", found)
    assert set(NAMES) <= found.keys()
    with pytest.raises(AttributeError, match="nonsense"):
        mcpkit.nonsense  # noqa: B018


@pytest.mark.parametrize("package", ["", ".auth", ".client", ".client.auth", ".tasks"])
def test_type_checkers_and_the_interpreter_see_the_same_names(package: str) -> None:
    module = importlib.import_module(f"mcpkit{package}")
    tree = ast.parse(Path(module.__file__ or "").read_text(encoding="utf-8"))
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    homes = {alias.name: node.module or "" for node in imports for alias in node.names}
    assert sorted(homes) == module.__all__
    for name, home in homes.items():
        assert getattr(module, name) is getattr(importlib.import_module(home), name)


def test_a_module_has_a_docstring_and_every_name_in_all() -> None:
    assert (PACKAGE / "py.typed").exists()
    modules = {name: importlib.import_module(name) for name in MODULES}
    assert [name for name, module in modules.items() if not module.__doc__] == []
    assert [
        f"{name}.{each}"
        for name, module in modules.items()
        for each in getattr(module, "__all__", ())
        if not hasattr(module, each)
    ] == []


# --- documentation --------------------------------------------------------------------------------


def members_of(cls: type) -> Iterator[tuple[str, Any]]:
    """The public methods and properties that a class defines itself."""
    for name, value in vars(cls).items():
        if name.startswith("_"):
            continue
        if isinstance(value, (staticmethod, classmethod)):
            yield name, value.__func__
        elif isinstance(value, property) or inspect.isfunction(value):
            yield name, value


def public() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in NAMES:
        value = getattr(mcpkit, name)
        if not (inspect.isclass(value) or inspect.isfunction(value)):
            continue  # a name for a type
        found[name] = value
        if inspect.isclass(value):
            for base in value.__mro__:
                if base.__module__.startswith("mcpkit"):
                    for member, each in members_of(base):
                        found[f"{name}.{member}"] = each
    return found


def test_everything_public_has_a_docstring_of_its_own() -> None:
    found = public()
    assert len(found) > 150
    without: list[str] = []
    for name, value in found.items():
        if get_origin(value) is not None:
            continue  # an alias, such as `CallNext`, has none that Python could know
        text = vars(value).get("__doc__") if inspect.isclass(value) else value.__doc__
        # A dataclass without one gets its signature instead.
        if not text or text.startswith(f"{name}("):
            without.append(name)
    assert without == []
