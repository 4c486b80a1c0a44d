"""The layout of the package: which module may import which, and what `import mcpkit` loads.

Every import counts: at run time, under ``TYPE_CHECKING`` and inside functions. Floors alone leave
out the types of wings that the core imports where it declares options (`.ci/ties` lists the files).
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Final

from mcpkit._signature.converters import BUILT_IN_CONVERTERS
from tests.wings import WINGS, core_files, files_of

ROOT: Final = Path(__file__).resolve().parents[1]
PACKAGE: Final = ROOT / "mcpkit"

FLOORS: Final[dict[str, int]] = {
    "_utils": 1,
    "_wings": 1,
    "limits": 1,
    "_environment": 2,
    "dependencies": 2,
    "errors": 2,
    "unmigrated": 2,
    "http": 2,
    "permissions": 2,
    "types": 2,
    "_concurrency": 3,
    "_protocol": 3,
    "_signature": 3,
    "_stores": 3,
    "tracing": 3,
    "auth": 4,
    "client": 4,
    "elicitation": 4,
    "roots": 4,
    "sampling": 4,
    "_input_requests": 5,
    "context": 6,
    "_entries": 7,
    "_injection": 7,
    "call_limits": 6,
    "completion": 7,
    "described": 7,
    "extension": 7,
    "host_hints": 7,
    "idempotency": 7,
    "middleware": 7,
    "prompts": 7,
    "providers": 7,
    "resources": 7,
    "tools": 7,
    "views": 7,
    "_server": 8,
    "extensions": 9,
    "transports": 9,
    "_registration": 9,
    "audit": 9,
    "metrics": 9,
    "telemetry": 9,
    "_settings": 9,
    "tasks": 9,
    "app": 10,
    "": 11,  # the public names
    "pytest_plugin": 11,
    "testing": 11,
    "__main__": 12,
    "cli": 12,
}
"""Module or package → its floor. A module imports from its own floor or from below."""

APART: Final = [
    {"_concurrency", "_protocol", "_signature", "_stores"},
    {"auth", "client", "elicitation", "roots", "sampling"},
]
"""Neighbors on one floor that do not know each other."""

LONGEST_CHAIN: Final = 15
"""Modules in the longest chain of imports. It may only become shorter."""

MAX_FILE: Final = 750
MAX_CLASS: Final = 700
"""Lines."""


@cache
def trees() -> dict[str, ast.Module]:
    """Module → its tree: ``_protocol.wire`` for mcpkit/_protocol/wire.py, "" for the package."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        if "templates" in path.relative_to(PACKAGE).parts:
            continue
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        name = ".".join(part for part in parts if part != "__init__")
        found[name] = ast.parse(path.read_text(encoding="utf-8"))
    return found


@cache
def graph() -> dict[str, set[str]]:
    """Module → the modules of ours that it imports."""
    return {name: set(imported_by(tree)) - {name} for name, tree in trees().items()}


def imported_by(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"relative import in line {node.lineno}"
            modules = [
                f"{node.module}.{alias.name}"
                if f"{node.module}.{alias.name}".removeprefix("mcpkit.") in trees()
                else node.module or ""
                for alias in node.names
            ]
        else:
            continue
        for module in modules:
            root, _, rest = module.partition(".")
            if root == "mcpkit":
                yield rest


def top(module: str) -> str:
    return module.partition(".")[0]


def arrows() -> Iterator[tuple[str, str]]:
    return ((importer, each) for importer, found in graph().items() for each in found)


def test_every_module_has_a_floor_and_imports_never_point_upwards() -> None:
    assert {top(module) for module in trees()} == set(FLOORS)
    upwards = [a for a in arrows() if FLOORS[top(a[1])] > FLOORS[top(a[0])]]
    core, wings = names(core_files()), names(files_of(*WINGS))
    assert [a for a in upwards if not (a[0] in core and a[1] in wings)] == []


def names(files: Iterable[Path]) -> set[str]:
    return {".".join(path.with_suffix("").parts).removesuffix(".__init__") for path in files}


def test_neighbors_that_stand_apart_do_not_know_each_other() -> None:
    pairs = [(top(a), top(b)) for a, b in arrows()]
    assert [p for p in pairs if p[0] != p[1] and any(set(p) <= group for group in APART)] == []


def test_imports_have_no_cycles_and_their_longest_chain_is_short() -> None:
    chains: dict[str, list[str]] = {}
    for module in TopologicalSorter(graph()).static_order():
        below = max((chains[each] for each in graph()[module]), key=len, default=[])
        chains[module] = [module, *below]
    longest = max(chains.values(), key=len)
    assert len(longest) <= LONGEST_CHAIN, " → ".join(longest)


def test_few_modules_import_the_app_and_the_authorization_server() -> None:
    assert {top(a) for a, b in arrows() if b == "app"} <= {"", "cli", "testing"}
    outside = {a for a, b in arrows() if b.startswith("auth.server")}
    assert {each for each in outside if not each.startswith("auth.server")} <= {"auth"}


def test_no_file_and_no_class_is_too_long() -> None:
    classes = {
        f"{name}.{node.name}": node.end_lineno - node.lineno + 1
        for name, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and node.end_lineno
    }
    files = {str(p): len(p.read_text("utf-8").splitlines()) for p in PACKAGE.rglob("*.py")}
    assert {name: lines for name, lines in files.items() if lines > MAX_FILE} == {}
    assert {name: lines for name, lines in classes.items() if lines > MAX_CLASS} == {}


# --- the protocol, without input or output --------------------------------------------------------

OUTSIDE: Final = {"anyio", "asyncio", "trio", "socket", "os", "time", "threading", "logging"}


def waits_or_looks_outside(node: ast.AST) -> bool:
    if isinstance(node, ast.Import):
        return bool({alias.name.partition(".")[0] for alias in node.names} & OUTSIDE)
    if isinstance(node, ast.ImportFrom):
        return (node.module or "").partition(".")[0] in OUTSIDE
    return isinstance(node, (ast.AsyncFunctionDef, ast.Await, ast.AsyncFor, ast.AsyncWith))


def test_the_protocol_neither_waits_nor_looks_outside() -> None:
    protocol = {name: tree for name, tree in trees().items() if top(name) == "_protocol"}
    assert len(protocol) > 5
    assert [
        f"{name}: {ast.unparse(node)}"
        for name, tree in protocol.items()
        for node in ast.walk(tree)
        if waits_or_looks_outside(node)
    ] == []


VERSION: Final = re.compile(r"20\d\d-\d\d-\d\d")


def versions_in(tree: ast.Module) -> Iterator[str]:
    """The protocol versions in the code, docstrings apart."""
    documentation: set[int] = set()
    for node in ast.walk(tree):  # parents before their children
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            documentation.add(id(node.value))
        elif (
            isinstance(node, ast.Constant)
            and id(node) not in documentation
            and VERSION.fullmatch(str(node.value))
        ):
            yield str(node.value)


def test_only_the_table_of_revisions_names_their_versions() -> None:
    naming = {name for name, tree in trees().items() if any(versions_in(tree))}
    assert naming == {"_protocol.revisions"}


# --- the price of an import -----------------------------------------------------------------------

HEAVY: Final = {
    "anyio",
    "asyncio",
    "click",
    *(module for module, _ in BUILT_IN_CONVERTERS if module not in sys.builtin_module_names),
    "docstring_parser",
    "httptools",
    "httpx2",
    "jsonschema",
    "starlette",
    "typer",
    "uvicorn",
}


def loaded_by(code: str) -> set[str]:
    """The modules that a fresh interpreter has after running some code."""
    code += "\nimport sys; print(*sys.modules, file=sys.stderr)"
    run = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        stdin=subprocess.DEVNULL,
    )
    return set(run.stderr.split())


def test_making_an_app_loads_nothing_heavy_and_the_pytest_plugin_no_event_loop() -> None:
    tools = "app.add_tool(lambda: 1, name='a'); app.add_tool(lambda: 1, name='b', task='optional')"
    assert loaded_by(f"import mcpkit; app = mcpkit.MCPKit('a'); {tools}") & HEAVY == set()
    once = "app.add_tool(lambda: 1, name='a', once=lambda: 'a')"
    assert loaded_by(f"import mcpkit; app = mcpkit.MCPKit('a'); {once}") & HEAVY == set()
    limited = "app.add_tool(lambda: 1, name='a', timeout=1)"
    loaded = loaded_by(f"import mcpkit; app = mcpkit.MCPKit('a'); {limited}")
    assert (loaded & HEAVY, "mcpkit.call_limits" in loaded) == (set(), True)
    assert loaded_by("import pytest, mcpkit.pytest_plugin") & {"anyio", "asyncio"} == set()


def test_a_server_loads_nothing_that_it_does_not_use() -> None:
    """EXT-7."""

    def extensions(options: str) -> set[str]:
        code = (
            f"import mcpkit; app = mcpkit.MCPKit('a'); app.add_tool(lambda: 1, name='b'{options})"
        )
        names = ("extension", "tasks.", "views", "call_limits", "idem", "audit", "metrics")
        packages = (*(f"mcpkit.{each}" for each in names), "mcpkit.telemetry")
        return {each for each in loaded_by(f"{code}; app.run()") if each.startswith(packages)}

    assert extensions("") == set()
    assert "mcpkit.tasks.handlers" in extensions(", task='optional'")
    assert {"mcpkit.idempotency", "mcpkit.tasks.extension"} <= extensions(", once=lambda: None")
    assert "mcpkit.extensions.apps.extension" in extensions(", ui=mcpkit.Html('<p>')")


def test_a_client_loads_anyio_and_nothing_for_http() -> None:
    """Which also shows that `loaded_by` sees loaded modules."""
    found = loaded_by("from mcpkit import Client")
    assert {"anyio", "mcpkit"} <= found
    assert "httpx2" not in found
