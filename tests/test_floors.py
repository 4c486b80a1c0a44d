"""The plan of the house, kept true: who may import whom, and what `import mcpkit` loads."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from mcpkit.transports import TRANSPORTS

ROOT: Final = Path(__file__).resolve().parents[1]
PACKAGE: Final = ROOT / "mcpkit"

FLOORS: Final[dict[str, int]] = {
    # 1: values that everybody may know
    "support": 1,
    "errors": 1,
    "types": 1,
    "web": 1,
    # 2: what functions look like, and what the wire looks like; neither knows the other
    "functions": 2,
    "protocol": 2,
    "tasks": 2,  # and what lasts, which knows neither
    "auth": 2,  # nor does what knows tokens
    "oauth": 3,  # and what gets tokens, which knows no messages
    # 3: what a handler may ask, and the ways to get the answer
    "asking": 3,
    # 4: what a handler is given
    "context": 4,
    # 5: what serves
    "engine": 5,
    # 6: ways of moving messages
    "transports": 6,
    # 7: the roof
    "app": 7,
    "client": 7,
    "client_tasks": 7,
    "client_offers": 7,
    "results": 7,
    "testing": 7,
    "pytest_plugin": 7,
    "": 7,  # mcpkit itself: the public names
    # 8: the command line
    "cli": 8,
    "__main__": 8,
}

DEFERRED: Final = {
    ("client", "client_offers"): "so that only a client that offers tasks loads them",
    ("client", "app"): "so that a client of processes does not load what serves",
    (
        "transports.http.application",
        "transports.http.sse",
    ): "so that only those who serve the old endpoints load them",
    ("transports.http", "transports.http.serve"): "so that a mounted app does not load a server",
    ("transports.http.sse", "transports.http.serve"): "as above",
    ("cli.run", "cli.reloading.reload"): "so that a server loads nothing that starts others",
    (
        "cli.run",
        "cli.reloading.supervise",
    ): "so that only who wants several processes loads what makes them",
    ("cli.run", "cli.reloading.worker"): "as above",
    ("cli.options", "cli.access"): "so that only whoever names a URL loads what knows tokens",
    ("cli.target", "cli.factories"): "so that only whoever names a function loads what reads flags",
    (
        "support.wrong_names",
        "support.peers",
    ): "so that only those who get a name wrong load the table of names",
    ("cli.migrate", "cli.migrating.rewrite"): "because it needs LibCST, which few have",
    ("tasks.places", "tasks.sqlite"): "so that only what a server uses is loaded",
    ("tasks.places", "tasks.redis"): "and needs to be installed",
    ("tasks.places", "tasks.postgres"): "as above",
    ("pytest_plugin", "testing"): "so that pytest starts quickly where mcpkit is merely installed",
}
"""Imports inside functions that point upwards or sideways on purpose."""

STRAIGHT: Final = {
    ("cli.run", "transports.http.serve"): "whoever starts several processes binds their socket",
    ("cli.reloading.worker", "transports.http.serve"): "and each of those serves on it",
}
"""Imports of transports that are in the table, by somebody who does not ask the table for them."""


class Import(NamedTuple):
    """One import of one of our own modules."""

    importer: str
    imported: str
    deferred: bool
    line: int


@cache
def modules() -> list[Path]:
    found = sorted(PACKAGE.rglob("*.py"))
    assert found, f"there is nothing in {PACKAGE}"
    return found


def name_of(path: Path) -> str:
    """``protocol.wire`` for mcpkit/protocol/wire.py; empty for the package itself."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def floor_of(module: str) -> int:
    return FLOORS[module.partition(".")[0]]


def is_within(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module", autouse=True)
def _forget() -> Iterator[None]:
    """Keep no trees: in other tests they would be looked through for garbage."""
    yield
    tree_of.cache_clear()


@cache
def names() -> frozenset[str]:
    return frozenset(map(name_of, modules()))


def imports_of(path: Path) -> Iterator[Import]:
    yield from _imports(tree_of(path).body, name_of(path), deferred=False)


def _imports(body: list[ast.stmt], importer: str, *, deferred: bool) -> Iterator[Import]:
    for node in body:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from _imports(node.orelse, importer, deferred=deferred)
            continue
        for found in _own(node):
            yield Import(importer, found, deferred, node.lineno)
        inside = deferred or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        for field in ("body", "orelse", "finalbody"):
            yield from _imports(getattr(node, field, []), importer, deferred=inside)
        for handler in getattr(node, "handlers", []):
            yield from _imports(handler.body, importer, deferred=inside)


def _own(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            if alias.name.partition(".")[0] == "mcpkit":
                yield alias.name.partition(".")[2]
    elif isinstance(node, ast.ImportFrom):
        assert node.level == 0, f"relative import in line {node.lineno}"
        root, _, module = (node.module or "").partition(".")
        if root == "mcpkit":
            for alias in node.names:
                whole = f"{module}.{alias.name}" if module else alias.name
                yield whole if whole in names() else module


@cache
def every_import() -> list[Import]:
    return [found for path in modules() for found in imports_of(path)]


# --- the drawing ----------------------------------------------------------------------------------


def test_every_module_has_a_floor() -> None:
    assert {name_of(path).partition(".")[0] for path in modules()} <= set(FLOORS)


def test_every_floor_in_the_table_is_inhabited() -> None:
    assert {name_of(path).partition(".")[0] for path in modules()} >= set(FLOORS)


def test_imports_never_point_upwards() -> None:
    wrong = [
        each
        for each in every_import()
        if not each.deferred and floor_of(each.imported) > floor_of(each.importer)
    ]
    assert wrong == []


def test_neighbours_do_not_import_in_circles() -> None:
    graph: dict[str, set[str]] = {}
    for each in every_import():
        if not each.deferred and each.importer != each.imported:
            graph.setdefault(each.importer, set()).add(each.imported)
    TopologicalSorter(graph).prepare()


def test_nobody_imports_the_roof() -> None:
    roof = {each.importer for each in every_import() if each.imported == "app"}
    assert roof == {"client", "cli.target"}


def test_the_two_stacks_of_the_second_floor_do_not_know_each_other() -> None:
    stacks = {"functions", "protocol"}
    wrong = [
        each
        for each in every_import()
        for top, other in [(each.importer.partition(".")[0], each.imported.partition(".")[0])]
        if {top, other} == stacks
    ]
    assert wrong == []


def test_deferred_imports_are_known() -> None:
    """Downwards is fine anywhere; what points elsewhere is listed with its reason."""
    found = {
        (each.importer, each.imported)
        for each in every_import()
        if each.deferred and floor_of(each.imported) >= floor_of(each.importer)
    }
    assert found == set(DEFERRED)


def test_transports_are_reached_by_name_only() -> None:
    """So that a server on stdio never loads a web server."""
    in_table = {module.removeprefix("mcpkit.") for module in TRANSPORTS.values()}
    assert in_table <= names()
    straight = [
        each
        for each in every_import()
        if any(is_within(each.imported, one) for one in in_table)
        and not any(is_within(each.importer, one) for one in in_table)
    ]
    assert {(each.importer, each.imported) for each in straight} == set(STRAIGHT)
    web = [each for each in straight if is_within(each.imported, "transports.http")]
    assert [each for each in web if not each.deferred] == []


def test_the_roof_imports_the_transports_of_clients_only() -> None:
    reached = {
        each.imported
        for each in every_import()
        if floor_of(each.importer) == FLOORS["app"] and each.imported.startswith("transports.")
    }
    assert reached == {"transports.memory", "transports.process", "transports.http_client"}


def test_what_serves_sessions_over_http_can_be_taken_away() -> None:
    """Only the door chooses it, and only the application has its paths."""
    room = "transports.http."
    of_sessions = {f"{room}{name}" for name in ("legacy", "session_ids", "sessions", "sse")}
    needing = {
        each.importer
        for each in every_import()
        if each.imported in of_sessions and each.importer not in of_sessions
    }
    assert needing == {f"{room}endpoint", f"{room}application"}


# --- the protocol, without input or output --------------------------------------------------------

OUTSIDE: Final = {"anyio", "asyncio", "trio", "socket", "os", "time", "threading", "logging"}


def waits_or_looks_outside(node: ast.AST) -> bool:
    if isinstance(node, ast.Import):
        return bool({alias.name.partition(".")[0] for alias in node.names} & OUTSIDE)
    if isinstance(node, ast.ImportFrom):
        return (node.module or "").partition(".")[0] in OUTSIDE
    return isinstance(node, (ast.AsyncFunctionDef, ast.Await, ast.AsyncFor, ast.AsyncWith))


def test_the_protocol_neither_waits_nor_looks_outside() -> None:
    protocol = [path for path in modules() if is_within(name_of(path), "protocol")]
    wrong = [
        f"{name_of(path)}: {ast.unparse(node)}"
        for path in protocol
        for node in ast.walk(tree_of(path))
        if waits_or_looks_outside(node)
    ]
    assert len(protocol) > 1
    assert wrong == []


# --- revisions ------------------------------------------------------------------------------------

VERSION: Final = re.compile(r"\b20\d\d-\d\d-\d\d\b")


def literals(tree: ast.Module) -> Iterator[ast.Constant]:
    """Every literal in the code that is not a docstring."""
    documentation: set[int] = set()
    for node in ast.walk(tree):  # parents before their children
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            documentation.add(id(node.value))
        elif isinstance(node, ast.Constant) and id(node) not in documentation:
            yield node


def test_only_a_revisions_own_file_names_its_version() -> None:
    own, others = (
        {
            f"{name_of(path)}: {node.value!r}"
            for path in modules()
            if is_within(name_of(path), "protocol.revisions") is inside
            for node in literals(tree_of(path))
            if VERSION.search(str(node.value))
        }
        for inside in (True, False)
    )
    assert own, "the test can see them"
    assert others == set()


# --- what an import costs -------------------------------------------------------------------------

HEAVY: Final = [
    "anyio",
    "asyncio",
    "click",
    "httptools",
    "httpx2",
    "starlette",
    "typer",
    "uvicorn",
]


def loaded_by(code: str) -> set[str]:
    """The top-level modules that a fresh interpreter has after running some code."""
    code += "\nimport sys; print(*{name.partition('.')[0] for name in sys.modules})"
    run = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return set(run.stdout.split())


def test_importing_mcpkit_loads_nothing_heavy() -> None:
    assert loaded_by("import mcpkit") & set(HEAVY) == set()


def test_nor_does_making_an_app() -> None:
    assert loaded_by("from mcpkit import MCPKit; MCPKit('a')") & set(HEAVY) == set()


def test_nor_does_the_pytest_plugin() -> None:
    assert loaded_by("import pytest, mcpkit.pytest_plugin") & {"anyio", "asyncio"} == set()


def test_the_test_can_see_what_is_loaded() -> None:
    assert {"anyio", "mcpkit"} <= loaded_by("from mcpkit import Client")
