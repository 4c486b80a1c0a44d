"""What the documentation tells people to do is done, in order, and prints what it says."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest

from tests.docs.pages import (
    DOCS,
    PAGES,
    README,
    ROOT,
    Block,
    blocks_of,
    code_of,
    followed,
    pattern_of,
    with_code,
)

RUN = [
    page
    for page in [README, *PAGES]
    if any("run" in block.words for block in blocks_of(page.read_text(encoding="utf-8")))
]
FROM_ELSEWHERE = {"checks.md", "hosts.md", "reload.md"}


def name_of(path: Path) -> str:
    return path.name if path == README else path.relative_to(DOCS).as_posix()


@pytest.mark.skipif(sys.platform == "win32" or not shutil.which("bash"), reason="commands for bash")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("path", RUN, ids=name_of)
def test_the_commands_of_a_page_print_what_it_says(path: Path, tmp_path: Path) -> None:
    def check(block: Block, printed: str) -> None:
        fits = pattern_of(block.body).fullmatch(printed.rstrip("\n") + "\n")
        assert fits is not None, f"{name_of(path)}:{block.line} prints\n{printed}"

    # What is installed runs the README; the rest is about what commands print.
    with followed(path, tmp_path, cold=path == README) as page:
        page.follow(check)


OWN = [page for page in PAGES if page.name not in FROM_ELSEWHERE]


@pytest.mark.parametrize("path", OWN, ids=name_of)
def test_python_on_a_page_is_from_a_file_that_is_tested(path: Path) -> None:
    for block in blocks_of(path.read_text(encoding="utf-8")):
        if block.language == "python":
            assert block.source is not None, f"{name_of(path)}:{block.line} is from no file"


@pytest.mark.parametrize("path", [README, *PAGES], ids=name_of)
def test_a_page_has_the_code_that_its_files_have(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    marked = [block for block in blocks_of(text) if block.source is not None]
    assert text.count("<!-- from ") == len(marked)  # each stands right before a block
    assert "--8<--" not in text  # nothing would be there for those who read the file itself
    assert text == with_code(text), "python -m tests.docs.pages --code writes it"


@pytest.mark.parametrize("path", OWN, ids=name_of)
def test_every_command_is_run_or_says_that_it_is_only_shown(path: Path) -> None:
    for block in blocks_of(path.read_text(encoding="utf-8")):
        if block.language in ("sh", "bash", "shell", "console"):
            said = {"run", "shown"} & block.words
            assert len(said) == 1, f"{name_of(path)}:{block.line} says neither or both"


def test_every_page_is_in_the_navigation() -> None:
    listed = set(re.findall(r"[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text(encoding="utf-8")))
    assert listed == {name_of(page) for page in PAGES}


def test_every_file_of_code_is_shown_somewhere() -> None:
    shown = {
        block.source[0]
        for page in [README, *PAGES]
        for block in blocks_of(page.read_text(encoding="utf-8"))
        if block.source is not None
    }
    files = {each for each in (DOCS / "code").rglob("*.py") if each.name != "__init__.py"}
    assert files <= shown


# --- the reader of pages --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expected", "printed", "fits"),
    [
        ("one\n", "one\n", True),
        ("one\n", "two\n", False),
        ("took … s\n", "took 0.2 s\n", True),
        ("took … s\n", "took 0.2 m\n", False),
        ("a\n…\nz\n", "a\nb\nc\nz\n", True),
        ("a\n…\nz\n", "a\nz\n", True),
        ("a\n", "a\nb\n", False),
        ("1.5\n", "1x5\n", False),
    ],
)
def test_three_dots_stand_for_anything(expected: str, printed: str, fits: bool) -> None:
    assert (pattern_of(expected).fullmatch(printed) is not None) is fits


def test_a_fence_says_what_its_block_is() -> None:
    (block,) = blocks_of('text\n\n```sh run fails title="x"\nfalse\n```\n')
    assert (block.language, sorted(block.words), block.title) == ("sh", ["fails", "run"], "x")
    assert (block.body, block.line, block.source) == ("false\n", 3, None)


def test_a_word_that_no_fence_has_is_refused() -> None:
    with pytest.raises(AssertionError, match="line 1: sh runs"):
        list(blocks_of("```sh runs\nfalse\n```\n"))


def test_code_is_written_where_it_is_marked() -> None:
    mark = "  <!-- from docs/code/flags.py:factory -->\n"
    page = f"Before.\n\n{mark}  ```python\n  old\n  ```\n\n```python\nelse\n```\n"
    code = code_of(DOCS / "code" / "flags.py", "factory")
    assert code.endswith("\n")
    assert "region" not in code
    indented = "".join(f"  {line}".rstrip() + "\n" for line in code.splitlines())
    assert with_code(page) == page.replace("  old\n", indented)
    assert with_code(with_code(page)) == with_code(page)
