"""The walk through the house names rooms that are there."""

from __future__ import annotations

import importlib
import re
from typing import Final

import pytest

from tests.docs.pages import DOCS, ROOT

PAGE: Final = (DOCS / "internals" / "architecture.md").read_text(encoding="utf-8")
NAMES: Final = sorted(set(re.findall(r"`([a-z_]+(?:\.[a-z_]+)*\.[A-Z]?\w+(?:\.\w+)?)`", PAGE)))
FOLDERS: Final = sorted(set(re.findall(r"`(transports/\w+)`", PAGE)))


def test_names_are_found() -> None:
    assert "_server.handlers.call_tool" in NAMES
    assert "transports/stdio" in FOLDERS


@pytest.mark.parametrize("name", [each for each in NAMES if not each.startswith("ctx.")])
def test_what_the_walk_names_is_there(name: str) -> None:
    module, _, rest = name.partition(".")
    found = importlib.import_module(f"mcpkit.{module}")
    for part in rest.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            found = importlib.import_module(f"{found.__name__}.{part}")


@pytest.mark.parametrize("place", FOLDERS)
def test_transports_of_the_walk_are_there(place: str) -> None:
    path = ROOT / "mcpkit" / place
    assert path.is_dir() or path.with_suffix(".py").is_file()
