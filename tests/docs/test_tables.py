"""Tables and lists of the guides have what the code has."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Any, Final

import pytest

from benchmarks.__main__ import CASES, GROUPS
from mcpkit.cli._commands import COMMANDS
from mcpkit.cli._token_estimate import tool_tokens
from mcpkit.cli.new import TEMPLATES
from mcpkit.limits import Limits
from mcpkit.testing import TestClient
from mcpkit.transports.http.options import HttpSettings
from tests.docs.pages import DOCS
from tests.docs.test_code import app_of


def rows_of(page: str, heading: str) -> list[list[str]]:
    """The cells of the table whose first heading is this; pages are in ``docs`` or above it."""
    text = (DOCS / page).read_text(encoding="utf-8")
    (table,) = re.findall(rf"^\| {heading} \|.*\n\|[-:|]+\n((?:\|.*\n)+)", text, re.MULTILINE)
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]


DEFAULTS: Final[dict[str, str]] = {
    name: default.strip()
    for heading in ("option", "limit")
    for names, defaults, *_ in rows_of("http.md", heading)
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
    if isinstance(value, Limits):
        return {"those of the app"}
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


VALUES: Final[dict[str, Any]] = {
    **HttpSettings._field_defaults,
    **{each.name: each.default for each in fields(Limits)},
}
"""The defaults of all options and limits of an endpoint."""

del VALUES["max_share"]  # deprecated


def test_every_option_and_limit_of_an_endpoint_is_in_a_table() -> None:
    assert set(DEFAULTS) == set(VALUES)


@pytest.mark.parametrize("name", sorted(VALUES))
def test_the_table_has_the_default_of_an_option(name: str) -> None:
    assert DEFAULTS[name] in in_words(VALUES[name])


def test_every_command_has_a_section() -> None:
    text = (DOCS / "cli.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^## mcpkit (\w+)$", text, re.MULTILINE)) == set(COMMANDS)


def test_the_templates_are_those_that_there_are() -> None:
    assert [[f"`{name}`", each.about] for name, each in TEMPLATES.items()] == rows_of(
        "cli.md", "template"
    )


# --- what is measured -----------------------------------------------------------------------------


@pytest.mark.parametrize("row", rows_of("performance.md", "figure"), ids=lambda row: row[0])
def test_figures_name_the_command_that_measures_them(row: list[str]) -> None:
    _, *_, command = row
    assert set(command.strip("`").partition(" --only ")[2].split()) <= {*CASES, *GROUPS}
    assert " --only " in command


def test_the_token_estimate_of_the_readme_is_current() -> None:
    with TestClient(app_of("readme_server").app) as client:
        (book,) = client.list_tools()
    price = f"costs a model about {tool_tokens(book.raw)} tokens in each conversation"
    assert price in (DOCS / "performance.md").read_text(encoding="utf-8")
