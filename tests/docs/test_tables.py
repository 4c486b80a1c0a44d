"""Tables and lists of the guides have what the code has."""

from __future__ import annotations

import re
from typing import Any, Final

import pytest

from benchmarks.__main__ import CASES, GROUPS
from benchmarks.budgets import (
    BUDGETS,
    FIRST_LIST,
    IDLE_SESSION,
    LATER_LIST,
    START,
    http,
    stdio,
)
from benchmarks.client import IN_FLIGHT, LEGACY, MODERN
from benchmarks.measure import BARE, OFFICIAL, AtLeast, Ceiling, Promise
from mcpkit.cli.commands import COMMANDS
from mcpkit.cli.new import TEMPLATES
from mcpkit.cli.tokens import tool_tokens
from mcpkit.testing import TestClient
from mcpkit.web import HttpSettings
from tests.docs.pages import DOCS
from tests.docs.test_code import app_of


def rows_of(page: str, heading: str) -> list[list[str]]:
    """The cells of the table whose first heading is this; pages are in ``docs`` or above it."""
    text = (DOCS / page).read_text(encoding="utf-8")
    (table,) = re.findall(rf"^\| {heading} \|.*\n\|[-|]+\n((?:\|.*\n)+)", text, re.MULTILINE)
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]


DEFAULTS: Final[dict[str, str]] = {
    name: default.strip()
    for names, defaults, *_ in rows_of("http.md", "option")
    for name, default in zip(
        re.findall(r"`(\w+)`", names),
        defaults.split(",") if names.count("`") > 2 else [defaults],
        strict=True,
    )
}

UNITS: Final = {
    "MiB": 1024 * 1024,
    "s": 1,
    "min": 60,
    "h": 3600,
    "days": 24 * 3600,
}


def in_words(value: Any) -> set[str]:
    """The ways in which a default may be written."""
    if value is None:
        return {"none", '`scope["user"]`'}
    if value is False:
        return {"off"}
    if isinstance(value, str):
        return {f"`{value}`"}
    if isinstance(value, tuple):
        return {"none"}
    counted = {f"{value / size:g} {unit}" for unit, size in UNITS.items() if value % size == 0}
    return {f"{value:,}", str(value), *counted}


def test_every_option_of_an_endpoint_is_in_the_table() -> None:
    assert set(DEFAULTS) == set(HttpSettings._fields)


@pytest.mark.parametrize("name", HttpSettings._fields)
def test_the_table_has_the_default_of_an_option(name: str) -> None:
    assert DEFAULTS[name] in in_words(HttpSettings._field_defaults[name])


def test_every_command_has_a_section() -> None:
    text = (DOCS / "cli.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^## mcpkit (\w+)$", text, re.MULTILINE)) == set(COMMANDS)


def test_the_templates_are_those_that_there_are() -> None:
    assert [[f"`{name}`", each.about] for name, each in TEMPLATES.items()] == rows_of(
        "cli.md", "template"
    )


# --- what is measured -----------------------------------------------------------------------------

MEASURED: Final = {cells[0]: cells[1:] for cells in rows_of("../README.md", "figure")}
FIGURES: Final = {
    f"calls per second, stdio, {IN_FLIGHT} in flight": [stdio(LEGACY, IN_FLIGHT)],
    "latency of a call, stdio": [stdio(LEGACY, 1)],
    "calls per second, HTTP, 1 connection": [http(LEGACY, 1), http(MODERN, 1)],
    "calls per second, HTTP, 32 connections": [http(LEGACY, 32), http(MODERN, 32)],
    "cold start of a server's file": [START],
    "500 tools, made and listed": [FIRST_LIST],
    "500 tools, listed later": [LATER_LIST],
    "memory of an idle HTTP session": [IDLE_SESSION],
}


def bounds_in(text: str) -> set[tuple[str, str, float]]:
    """What a cell says: at least or at most, how much, of what."""
    found: set[tuple[str, str, float]] = set()
    way = ""
    for said, number, of in re.findall(r"(at least|at most)?,? ?([\d.]+) (?:× )?(\w+)", text):
        way = said or way
        found.add((way, of, float(number)))
    return found


def bound_of(promise: Promise) -> tuple[str, str, float]:
    """A budget as the table says it."""
    if isinstance(promise, Ceiling):
        return "at most", promise.unit, promise.most
    named = {BARE: "bare", OFFICIAL: "SDK"}
    way = "at least" if isinstance(promise, AtLeast) else "at most"
    return way, named.get(promise.reference, "SDK"), promise.factor


@pytest.mark.parametrize("row", FIGURES)
def test_the_readme_has_the_bounds_of_the_benchmarks(row: str) -> None:
    for figure in FIGURES[row]:
        wanted = {bound_of(each.promise) for each in BUDGETS if each.figure == figure}
        assert bounds_in(MEASURED[row][0]) == wanted


@pytest.mark.parametrize("row", MEASURED)
def test_the_readme_measures_by_commands_that_there_are(row: str) -> None:
    command = MEASURED[row][1].strip("`")
    if " --only " in command:
        assert set(command.partition(" --only ")[2].split()) <= {*CASES, *GROUPS}
    else:
        assert command.startswith(("mcpkit inspect ", "python -m benchmarks.migrate "))


def test_the_readme_has_the_price_of_its_tool() -> None:
    with TestClient(app_of("readme_server").app) as client:
        (book,) = client.list_tools()
    price = MEASURED["what the tool `book` above costs a model"][0]
    assert price == f"about {tool_tokens(book.raw)} tokens in each conversation"
