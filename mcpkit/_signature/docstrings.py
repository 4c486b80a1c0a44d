"""The docstring of a function: its description, and those of its parameters.

The library docstring-parser drops sections that it does not know, such as ``Note:``, so sections
are found here, and all other text stays in the description. The library reads the parameters in the
style of NumPy; those of Google, the most frequent ones, are read here in a tenth of the time, and
so are those of reST, whose types may have several words.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from textwrap import dedent
from typing import Any, Final, NamedTuple


class Part(NamedTuple):
    """A part of a docstring, as it is shown."""

    text: str  # with its heading, without the indentation of the source
    is_result: bool = False  # True for a section about the result


class Docs(NamedTuple):
    """The texts of a docstring."""

    parts: tuple[Part, ...]  # everything in order, except the descriptions of parameters
    parameters: Mapping[str, str]  # a description by parameter name

    @property
    def description(self) -> str | None:
        """All parts; None if there are none."""
        return "\n\n".join(each.text for each in self.parts) or None

    @property
    def returns(self) -> str:
        """The sections about the result, with their headings; empty if there are none."""
        return "\n".join(each.text for each in self.parts if each.is_result)

    @property
    def without_returns(self) -> str | None:
        """All other parts; None if there are none."""
        return "\n\n".join(each.text for each in self.parts if not each.is_result) or None


def parse_docstring(text: str, names: Collection[str] | None = None) -> Docs:
    """Read a docstring in the style of Google, NumPy or reST.

    Args:
        text: Without the indentation of the source, as returned by `inspect.getdoc`.
        names: The parameters of the function. Entries for other names stay in the description.
            None: everything that looks like a parameter is one.
    """
    text = text.strip()
    if ":" not in text and _UNDERLINE.search(text) is None:
        return Docs((Part(text),) if text else (), {})  # there are no sections
    return _Reader(text, names).read()


_DESCRIBING: Final = frozenset(
    {
        *("args", "arguments", "attributes", "params", "parameters", "other parameters"),
        *("keyword args", "keyword arguments"),
    }
)
_RETURNING: Final = frozenset({"return", "returns"})
_RAISING: Final = frozenset({"except", "exception", "raise", "raises"})
_YIELDING: Final = frozenset({"yield", "yields"})
_TITLES: Final = frozenset(
    {
        *(_DESCRIBING | _RETURNING | _RAISING | _YIELDING),
        *("example", "examples", "exceptions", "note", "notes", "reference", "references"),
        *("see also", "warning", "warnings", "warns"),
    }
)
_UNDERLINE: Final = re.compile(r"[-=~]{3,}")
_FIELD: Final = re.compile(r":(\w+)(?:[ ]+([^:\n]+|[^\n]+?(?=:(?:\s|\Z))))?:(?:[ ]+(.*)|[ ]*)")
_FENCE: Final = re.compile(r"```|~~~")
_PARAMETERS: Final = frozenset(
    {"arg", "argument", "key", "keyword", "kwarg", "kwparam", "param", "parameter"}
)
_ITEM: Final = re.compile(
    r"(?:[-+*•][ ]+)?([`*]{0,2}[^\W\d]\w*[`*]{0,2}(?:[ ]*,[ ]*[`*]{0,2}[^\W\d]\w*[`*]{0,2})*)[ ]*"
    r"(?=[:(]|[-–—][ ]|\Z)"
)
"""``name``, ``*names``, ``name, another``, also as items of a list, before a colon or a type."""

_GOOGLE: Final = re.compile(r"(?:\(([^:]*?)(?:, optional)?\)[ ]*)?(?::|[-–—][ ])[ ]*(.*)")
"""The type and the description behind a name."""

_NAMING: Final = _RETURNING | _RAISING | _YIELDING | {"exceptions", "warns"}
"""Sections whose items have a name or a type, and below it a description."""

_FIELD_TITLES: Final[Mapping[str, str]] = {
    **dict.fromkeys(_RETURNING, "Returns"),
    **dict.fromkeys(_RAISING, "Raises"),
    **dict.fromkeys(_YIELDING, "Yields"),
    "rtype": "Return type",
}
"""The titles of the fields of reST that do not describe parameters."""


class _Reader:
    """Reads a docstring line by line; sections begin where nothing is indented."""

    def __init__(self, text: str, names: Collection[str] | None) -> None:
        self._lines = [line.rstrip() for line in text.expandtabs().splitlines()]
        self._names = names
        self._parts: list[Part] = []
        self._plain: list[str] = []
        self._found: dict[str, str] = {}

    def read(self) -> Docs:
        lines = self._lines
        place = 0
        fenced = False
        while place < len(lines):
            line = lines[place]
            if line.lstrip()[:3] in ("```", "~~~"):
                fenced = not fenced
            end = place if fenced or line[:1] in ("", " ") else self._section(place)
            if end == place:
                self._plain.append(line)
                end += 1
            place = end
        self._end_text()
        return Docs(tuple(self._parts), self._found)

    def _section(self, place: int) -> int:
        """Read the section that begins in a line; return the line behind it, or the same."""
        lines = self._lines
        line = lines[place]
        end = place + 1
        while end < len(lines) and lines[end][:1] in ("", " "):
            end += 1
        if line[0] == ":":
            return end if self._field(lines[place:end]) else place
        title, colon, rest = line.partition(":")
        title = title.rstrip()
        if rest or title.lower() not in _TITLES:
            return place
        if colon:
            body = _without_blanks(lines[place + 1 : end])
            if body:
                self._titled(title, body)
            return end if body else place
        if not self._is_underlined(place):
            return place
        end = place + 2
        while end < len(lines) and not self._is_underlined(end):
            end += 1
        self._titled(title, _without_blanks(lines[place + 2 : end]), underlined=True)
        return end

    def _is_underlined(self, place: int) -> bool:
        heading, below = self._lines[place][:1], self._lines[place + 1 : place + 2]
        return heading not in ("", " ") and any(map(_UNDERLINE.fullmatch, below))

    def _end_text(self) -> None:
        text = "\n".join(self._plain).strip("\n")
        self._plain = []
        if text:
            self._parts.append(Part(text))

    def _add(self, title: str, text: str) -> None:
        self._end_text()
        gap = "\n" if "\n" in text else " "
        is_result = title.lower().startswith("return")
        self._parts.append(Part(f"{title}:{gap}{text}".rstrip(), is_result))

    def _titled(self, title: str, body: list[str], *, underlined: bool = False) -> None:
        kind = title.lower()
        if kind not in _DESCRIBING:
            if kind.startswith("example") or any(">>>" in each for each in body):
                text = dedent("\n".join(body))
            elif underlined and kind in _NAMING:
                items = [(item[0].strip(), _folded("", item[1:])) for item in _items(body)]
                text = "\n".join(": ".join(filter(None, item)) for item in items)
            else:
                text = _folded("", body)
            self._add(title, text)
            return
        self._end_text()
        others: list[str] = []
        prose: list[str] = []
        for item in _items(body):
            match = _ITEM.match(item[0].strip())
            if match is not None and self._item(match, item[1:], underlined):
                continue
            # Text that follows parameters in the style of NumPy is not indented.
            (prose if underlined and match is None else others).extend(item)
        if others:
            self._add(title, dedent("\n".join(_without_blanks(others))))
        self._plain += [*prose, ""] if prose else prose

    def _item(self, match: re.Match[str], more: Sequence[str], underlined: bool) -> bool:
        """Read the name of an item and the rest of its first line; False if it is unknown."""
        rest = match.string[match.end() :]
        # ``city: Where.`` has no type: NumPy has a blank before the colon of one.
        if not underlined or (rest[:1] == ":" and not more and match[0][-1] != " "):
            found = _GOOGLE.fullmatch(rest)
            return found is not None and self._describe(match[1], found[1], found[2], more)
        if rest[:1] != ":" and (rest or not more):
            return False
        parsed = _parsed(f"Parameters\n----------\n{match[1]} {rest}")
        return parsed is not None and self._describe(match[1], parsed.type_name, "", more)

    def _describe(self, names: str, kind: str | None, first: str, more: Sequence[str]) -> bool:
        """Add a description of parameters; False if one is unknown."""
        each_name = [each.strip("*` ") for each in names.split(",")]
        if self._names is not None and not all(each in self._names for each in each_name):
            return False
        text = _with_choices(kind or "", _folded(first, more))
        for name in each_name:
            before = self._found.get(name, "")
            if text not in before:  # a parameter may be described twice
                self._found[name] = f"{before}\n{text}" if before else text
        return True

    def _field(self, lines: Sequence[str]) -> bool:
        """Read a field of reST; False if it is unknown."""
        field = _FIELD.fullmatch(lines[0])
        if field is None:
            return False
        kind, about, first = field[1].lower(), (field[2] or "").strip(), field[3] or ""
        if kind in _PARAMETERS and about:
            written, _, name = about.rpartition(" ")  # the library takes one word for a type
            if not self._describe(name, written, first, lines[1:]):
                return False
        elif kind == "type" and about:
            if self._names is not None and about not in self._names:
                return False
            text = _with_choices(_folded(first, lines[1:]), self._found.get(about, ""))
            if text:
                self._found[about] = text
        elif kind in _FIELD_TITLES:
            self._add(f"{_FIELD_TITLES[kind]} {about}".strip(), _folded(first, lines[1:]))
        else:
            return False
        self._end_text()
        return True


def _parsed(text: str) -> Any:
    """Return the parameter that docstring-parser finds in a text; None if it finds none."""
    from docstring_parser import DocstringParam, ParseError, numpydoc

    try:
        found = numpydoc.parse(text).meta
    except ParseError:
        return None
    return found[0] if len(found) == 1 and isinstance(found[0], DocstringParam) else None


def _with_choices(kind: str, text: str) -> str:
    """Keep the values in a type that no annotation has: ``{'asc', 'desc'}``."""
    if "{" not in kind and '"' not in kind and "'" not in kind:
        return text
    return f"{text} ({kind})" if text else kind


# --- lines ----------------------------------------------------------------------------------------


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _without_blanks(lines: Sequence[str]) -> list[str]:
    """Return lines without the blank ones at their start and their end."""
    text = "\n".join(lines).strip("\n")
    return text.split("\n") if text else []


def _items(body: Sequence[str]) -> Iterator[list[str]]:
    """Yield the items of a section: a line that is indented as the first one, and what follows."""
    indent = _indent(body[0]) if body else 0
    item: list[str] = []
    for line in body:
        if item and line and _indent(line) <= indent:
            yield item
            item = []
        item.append(line)
    if item:
        yield item


_LAID_OUT: Final = re.compile(
    r"\n[ ]*(?:[-+*•][ ]|\d+[.)][ ]|>>>|[|]"
    r"|[`\"']?[\w./-]+[`\"']?(?:[ ]*\([^)]*\))?(?:[ ]*[:=]|[ ]+[-–—])(?:[ ]|$))",
    re.MULTILINE,
)
"""A line with an item of a list, a row of a table, code, or ``name: what it means``."""


def _folded(first: str, more: Sequence[str]) -> str:
    """Return lines as text: a paragraph on one line, unless its lines have a meaning."""
    if not more:
        return first.strip()
    text = "\n".join([first.strip(), dedent("\n".join(more))]).strip("\n")
    if _FENCE.search(text) is not None:
        return text
    paragraphs = re.split(r"\n{2,}", text)
    return "\n\n".join(
        each if _LAID_OUT.search(each) else " ".join(each.split()) for each in paragraphs
    )
