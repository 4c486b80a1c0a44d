"""The docstring of a function: its description, and those of its parameters."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

__all__ = ["Docs", "parse_docstring"]


class Docs(NamedTuple):
    """The texts of a docstring.

    Args:
        description: The text above the sections, unwrapped of its indentation; None if empty.
        parameters: A description by parameter name.
    """

    description: str | None
    parameters: Mapping[str, str]


_SECTION: Final = re.compile(
    r"\n[ \t]*(?:(?:Args|Arguments|Parameters|Params|Returns?|Raises|Yields?|Examples?|Attributes|"
    r"Keyword Args|Keyword Arguments|Note|Notes|See Also|Other Parameters)[ \t]*:?[ \t]*(?:\n|\Z)|"
    r":\w+.*:)"
)
"""The start of a section, behind the end of the line before it: so the search is fast."""


def _has_other_blanks(text: str) -> bool:
    """True if a text has white space other than blanks and ends of lines."""
    if not text.isascii():
        return _OTHER_BLANKS.search(text) is not None
    return any(map(text.__contains__, _ASCII_BLANKS))


_OTHER_BLANKS: Final = re.compile(r"[^\S\n ]")
_ASCII_BLANKS: Final = "\t\r\f\v\x1c\x1d\x1e\x1f"


def parse_docstring(text: str) -> Docs:
    """Read a docstring in the style of Google, NumPy or reST.

    Args:
        text: Without the indentation of the source, as `inspect.getdoc` gives it.
    """
    text = text.strip()
    if not text:
        return Docs(None, {})
    if "\n" in text:
        docs = _google_docs(text)
        if docs is not None:
            return docs
    return Docs(text, {}) if _SECTION.search(f"\n{text}") is None else _parsed_docs(text)


def _parsed_docs(text: str) -> Docs:
    from docstring_parser import parse  # only docstrings with sections pay for it

    # The parser would take a section in the first line for the summary.
    bare = _SECTION.match(f"\n{text}") is not None
    parsed = parse(f"-\n\n{text}" if bare else text)
    parts = [None if bare else parsed.short_description, parsed.long_description]
    gap = "\n\n" if parsed.blank_after_short_description else "\n"
    description = gap.join(part for part in parts if part) or None
    found = {
        name.split()[0].lstrip("*"): " ".join(each.description.split())
        for each in parsed.params
        for name in each.arg_name.split(",")  # NumPy describes several at once: ``x, y : int``
        if each.description and name.strip()
    }
    return Docs(description, found)


# --- sections in the style of Google --------------------------------------------------------------

_TITLE: Final = re.compile(
    r"\n(Args|Arguments|Attributes|Params|Parameters|Except|Exceptions|Raises|Examples?|Returns"
    r"|Yields):[ ]*(?=\n|\Z)"
)
_DESCRIBING: Final = frozenset({"Args", "Arguments", "Attributes", "Params", "Parameters"})
_RAISING: Final = frozenset({"Except", "Exceptions", "Raises"})
_DOUBTFUL: Final = re.compile(r"\n(?:[:@]|\.\. |[ ]+(?:\n|\Z)|[ ]*[-=~]{2,}[ ]*(?:\n|\Z))")
"""A mark of another style, or a line of blanks."""

_NAMES: Final = re.compile(r"([\w*][\w*, ]*?)(?:[ ]*\([ ]*[^()\s][^()]*\))?")
"""``name``, ``name, another`` or ``name (type)``."""


def _google_docs(text: str) -> Docs | None:
    """Read a docstring with sections in the style of Google, in a fifth of the parser's time.

    Returns:
        None if it has none, or if anything in it is out of the ordinary: then the parser judges.
    """
    head, *parts = _TITLE.split(f"\n{text}")
    titles = set(parts[::2])
    if not head or titles <= _RAISING or len(titles) < len(parts) // 2:
        return None
    if text[0] in "@." or _SECTION.match(f"\n{text}") is not None:
        return None
    if _DOUBTFUL.search(text) is not None or _has_other_blanks(text):
        return None
    found: dict[str, str] = {}
    for title, body in zip(parts[::2], parts[1::2], strict=True):
        items = _items(body)
        if items is None:
            return None
        if title in _DESCRIBING and not (items and _describe(items, found)):
            return None
        if title in _RAISING and not (items and all(":" in item for item in items)):
            return None
    summary, _, rest = head[1:].partition("\n")
    if not rest:
        return Docs(summary, found)
    gap = "\n\n" if rest[0] == "\n" else "\n"
    return Docs(gap.join([part for part in (summary, rest.strip()) if part]), found)


def _items(body: str) -> list[str] | None:
    """Return the items of a section with the lines that continue them; None if one is astray."""
    lines = body.strip("\n")
    indent = lines[: len(lines) - len(lines.lstrip(" "))]
    if not indent:
        return None if lines else []
    items: list[str] = []
    for part in f"\n{lines}".split(f"\n{indent}")[1:]:
        item = part.rstrip("\n")
        if "\n" in item:
            return None
        if item[0] == " ":
            items[-1] += f"\n{item}"
        else:
            items.append(item)
    return items


def _describe(items: Iterable[str], found: dict[str, str]) -> bool:
    """Add the descriptions of parameters; False if an item does not describe one."""
    for item in items:
        before, _, after = item.partition(":")
        text = " ".join(after.split())
        if not text:
            return False
        if before.isidentifier():
            found[before] = text
            continue
        names = _NAMES.fullmatch(before)
        if names is None:
            return False
        for name in names[1].split(","):
            if name.strip():
                found[name.split()[0].lstrip("*")] = text
    return True
