"""How many lines of files are neither empty nor only a comment.

    python -m benchmarks.lines examples/ported/*.py

Docstrings count: those of tools are what models read.
"""

from __future__ import annotations

import io
import sys
import tokenize
from pathlib import Path

_NOTHING = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def lines_of(text: str) -> int:
    """Count the lines of a Python file.

    Args:
        text: What is in it.
    """
    written = text.splitlines()
    counted: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _NOTHING:
            counted.update(range(token.start[0], token.end[0] + 1))
    return sum(1 for number in counted if written[number - 1].strip())


def main(files: list[str]) -> None:
    total = 0
    for each in files:
        count = lines_of(Path(each).read_text(encoding="utf-8"))
        total += count
        print(f"{count:6}  {each}")
    if len(files) > 1:
        print(f"{total:6}  together")


if __name__ == "__main__":
    main(sys.argv[1:])
