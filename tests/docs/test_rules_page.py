"""The page about the rules has those that are cited, and no others."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from mcpkit.testing import REVISIONS
from tests.docs.pages import DOCS, ROOT

PAGE: Final = DOCS / "rules.md"
GROUPS: Final = re.compile(
    "APPS|AUTH|CACHE|CANC|COMP|CONT|DISC|ELIC|ERA|ERR|EXT|HDR|HTTPL|HTTPM|LIFE|LOG|META|MRTR|MSG"
    "|PAGE|PING|PROG|PROMPT|RES|ROOT|S2C|SAMP|SEC|SSE|STDIO|SUB|TASKL|TASKX|TOOL|VER"
)
"""What the ids of rules begin with; ``UTF`` and others that only look so are not among them."""
RULE: Final = re.compile(r"\b([A-Z][A-Z0-9]*)-(\d+)(?:…(\d+))?\b")
REVISION: Final = "|".join(map(re.escape, REVISIONS))
SOURCE: Final = re.compile(
    rf"; (?:from (?:{REVISION})(?:, and (?:our reading|implied) before)?|until (?:{REVISION})"
    rf"|(?:{REVISION}) (?:only|to (?:{REVISION})))$"
)
"""How a source ends: with the revisions in which its rule holds."""


def rules_in(text: str) -> set[str]:
    """Every rule that a text names, those within a range included."""
    return {
        f"{group}-{number}"
        for group, first, last in RULE.findall(text)
        if GROUPS.fullmatch(group)
        for number in range(int(first), int(last or first) + 1)
    }


def citing() -> Iterator[Path]:
    """The files that may cite rules, but for the page and this test of it."""
    yield from (ROOT / "mcpkit").rglob("*.py")
    yield from (ROOT / "mcpkit").rglob("*.md")
    yield from (each for each in (ROOT / "tests").rglob("*.py") if each != Path(__file__))
    for suffix in ("md", "py", "svg"):
        yield from (each for each in DOCS.rglob(f"*.{suffix}") if each != PAGE)


def cited() -> dict[str, list[str]]:
    """Every rule that is cited, with the files that do."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in citing():
        for rule in rules_in(path.read_text(encoding="utf-8")):
            found[rule].append(path.relative_to(ROOT).as_posix())
    return found


def tables() -> dict[str, list[list[str]]]:
    """The rows of the page by their group."""
    found: dict[str, list[list[str]]] = {}
    for section in re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        group, _, about = section.partition("\n")[0].partition(": ")
        assert about, f"{group} is not said to be about anything"
        assert "| id | rule | source |\n|---|---|---|\n" in section, group
        lines = re.findall(r"^\| (?!id \|)(.*) \|$", section, re.MULTILINE)
        found[group] = [line.split(" | ") for line in lines]
    return found


def test_the_page_has_every_rule_that_is_cited_and_no_other() -> None:
    known, used = [row[0] for rows in tables().values() for row in rows], cited()
    assert {rule: files for rule, files in used.items() if rule not in known} == {}
    assert [rule for rule in known if rule not in used] == []
    assert len(known) == len(set(known))


def test_every_rule_has_one_sentence_and_a_source_in_the_table_of_its_group() -> None:
    for group, rows in tables().items():
        numbers: list[int] = []
        for name, sentence, source in rows:
            assert name.startswith(f"{group}-"), f"{name} is in the table of {group}"
            numbers.append(int(name.removeprefix(f"{group}-")))
            assert re.fullmatch(r"[A-Z`].*[^.]\.", sentence), name
            assert ". " not in sentence, f"{name} has more than one sentence"
            assert SOURCE.search(source), f"{name} does not say in which revisions it holds"
            assert SOURCE.sub("", source).strip(), f"{name} has no source"
        assert numbers == sorted(numbers), group
