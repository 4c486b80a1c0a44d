"""The reference has every public name."""

from __future__ import annotations

import re
from typing import Final

import mcpkit
import mcpkit.auth
import mcpkit.client.auth
import mcpkit.testing
from tests.docs.pages import DOCS

SHOWN: Final = [
    name
    for page in sorted((DOCS / "reference").glob("*.md"))
    for name in re.findall(r"^::: ([\w.]+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
]


def test_every_public_name_is_in_the_reference() -> None:
    wanted = {f"mcpkit.{name}" for name in mcpkit.__all__}
    wanted |= {f"mcpkit.testing.{name}" for name in mcpkit.testing.__all__}
    wanted |= {f"mcpkit.auth.{name}" for name in mcpkit.auth.__all__}
    wanted |= {f"mcpkit.client.auth.{name}" for name in mcpkit.client.auth.__all__}
    assert wanted <= set(SHOWN)


def test_nothing_is_in_the_reference_twice() -> None:
    assert len(SHOWN) == len(set(SHOWN))
