"""The docstring of a function: its description, and those of its parameters.

The library docstring-parser reads the parameters. It drops sections that it does not know, such as
``Note:``, so the sections are found here, and all other text stays in the description.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, Final, Literal, NamedTuple, TypeAlias

PartKind: TypeAlias = Literal["text", "section", "returns"]


class Part(NamedTuple):
    """A part of a docstring, as it is shown.

    Args:
        kind: ``"text"`` for text as it was written, ``"section"`` for a section of a known name,
            such as ``Raises: …``, and ``"returns"`` for the section about the result.
        text: With its heading, without the indentation of the source.
    """

    kind: PartKind
    text: str


class Docs(NamedTuple):
    """The texts of a docstring.

    Args:
        parts: Everything in order, except the descriptions of parameters.
        parameters: A description by parameter name.
    """

    parts: tuple[Part, ...]
    parameters: Mapping[str, str]

    @property
    def description(self) -> str | None:
        """All parts; None if there are none."""
        return self.told()

    @property
    def returns(self) -> str:
        """The section about the result, with its heading; empty if there is none."""
        return "\n".join(each.text for each in self.parts if each.kind == "returns")

    def told(self, *left_out: PartKind) -> str | None:
        """Return the text of all parts except those of some kinds; None if it is empty."""
        made = ""
        before = ""
        for kind, text in self.parts:
            if kind in left_out:
                continue
            if made:
                short = kind != "text" and before != "text" and "\n" not in text
                made += "\n" if short and made[-1] != "\n" else "\n\n"
            made += text
            before = kind
        return made or None


def parse_docstring(text: str, names: Collection[str] | None = None) -> Docs:
    """Read a docstring in the style of Google, NumPy or reST.

    Args:
        text: Without the indentation of the source, as returned by `inspect.getdoc`.
        names: The parameters of the function. Entries for other names stay in the description.
            None: everything that looks like a parameter is one.
    """
    text = text.strip()
    if not text:
        return Docs((), {})
    if _MARK.search(f"\n{text}") is None:
        return Docs((Part("text", text),), {})
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
_KNOWN: Final = (
    *(_DESCRIBING | _RETURNING | _RAISING | _YIELDING),
    *("example", "examples", "exceptions", "note", "notes", "reference", "references", "see also"),
    *("warning", "warnings", "warns"),
)
_TITLES: Final = "|".join(sorted(_KNOWN, key=len, reverse=True))
_MARK: Final = re.compile(rf"\n(?:(?:{_TITLES})[ ]*(?::[ ]*)?\n|:\w[^:\n]*:(?:\s|\Z))", re.I)
"""The start of a section, behind the end of the line before it, which makes the search fast."""

_TITLE: Final = re.compile(rf"({_TITLES})[ ]*:[ ]*", re.IGNORECASE)
_UNDERLINE: Final = re.compile(r"[-=~]{3,}[ ]*")
_FIELD: Final = re.compile(r":(\w+)(?:[ ]+([^:\n]+|[^\n]+?(?=:(?:\s|\Z))))?:(?:[ ]+(.*)|[ ]*)")
_FENCE: Final = re.compile(r"[ ]*(?:```|~~~)")
_PARAMETERS: Final = frozenset(
    {"arg", "argument", "key", "keyword", "kwarg", "kwparam", "param", "parameter"}
)
_ITEM: Final = re.compile(
    r"(?:[-+*•][ ]+)?([`*]{0,2}[^\W\d]\w*[`*]{0,2}(?:[ ]*,[ ]*[`*]{0,2}[^\W\d]\w*[`*]{0,2})*)[ ]*"
    r"(?=[:(]|[-–—][ ]|\Z)"
)
"""``name``, ``*names``, ``name, another``, also as items of a list, before a colon or a type."""

_NAMING: Final = _RETURNING | _RAISING | _YIELDING | {"exceptions", "warns"}
"""Sections whose items have a name or a type, and below it a description."""

_DASH: Final = re.compile(r"\A((?:\(.*?\))?)[ ]*[-–—][ ]+")
_COLON: Final = r"\1: "


class _Reader:
    """Reads a docstring line by line; sections begin where nothing is indented.

    Args:
        text: The docstring.
        names: As for `parse_docstring`.
    """

    def __init__(self, text: str, names: Collection[str] | None) -> None:
        self._lines = text.expandtabs().splitlines()
        self._names = names
        self._parts: list[Part] = []
        self._plain: list[str] = []
        self._found: dict[str, str] = {}

    def read(self) -> Docs:
        """Return the texts."""
        lines = self._lines
        place = 0
        fenced = False
        while place < len(lines):
            line = lines[place]
            if _FENCE.match(line) is not None:
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
            return end if self._field(place, end) else place
        title = _TITLE.fullmatch(line if ":" in line else f"{line}:")
        if title is None:
            return place
        if ":" in line:
            body = _without_blanks(lines[place + 1 : end])
            if body:
                self._titled(title[1], body)
            return end if body else place
        if not self._is_underlined(place):
            return place
        end = place + 2
        while end < len(lines) and not self._is_underlined(end):
            end += 1
        self._titled(title[1], _without_blanks(lines[place + 2 : end]), underlined=True)
        return end

    def _is_underlined(self, place: int) -> bool:
        heading, below = self._lines[place][:1], self._lines[place + 1 : place + 2]
        return heading not in ("", " ") and any(map(_UNDERLINE.fullmatch, below))

    def _end_text(self) -> None:
        text = "\n".join(_without_blanks(self._plain)).rstrip()
        self._plain = []
        if text:
            self._parts.append(Part("text", text))

    def _add(self, kind: PartKind, title: str, text: str, *, block: bool = False) -> None:
        self._end_text()
        gap = "\n" if block or "\n" in text else " "
        self._parts.append(Part(kind, f"{title}:{gap}{text}" if text else f"{title}:"))

    def _titled(self, title: str, body: list[str], *, underlined: bool = False) -> None:
        kind = title.lower()
        if kind not in _DESCRIBING:
            text = "\n".join(_dedented(body)).rstrip()
            if not kind.startswith("example") and ">>>" not in text:
                text = _named_items(body) if underlined and kind in _NAMING else ""
                text = text or _folded(_dedented(body))
            self._add("returns" if kind in _RETURNING else "section", title, text)
            return
        self._end_text()
        others: list[str] = []
        prose: list[str] = []
        items = [*_items(body)]
        heads = [self._head(item, underlined=underlined) for item in items]
        parsed = iter(_parsed(_NUMPY if underlined else _GOOGLE, [*filter(None, heads)]))
        for item, head in zip(items, heads, strict=True):
            if head and self._describe(next(parsed), item[1:]):
                continue
            # Text that follows parameters in the style of NumPy is not indented.
            if underlined and _ITEM.match(item[0]) is None:
                prose += item
            else:
                others += item
        if others:
            text = "\n".join(_dedented(_without_blanks(others)))
            self._add("text", title, text, block=True)
        self._plain += [*prose, ""] if prose else prose

    def _head(self, item: Sequence[str], *, underlined: bool) -> str:
        """Return the first line of an item as docstring-parser knows it, or an empty string."""
        line = item[0].strip()
        match = _ITEM.match(line)
        if match is None:
            return ""
        rest = line[match.end() :]
        if underlined:
            is_named = rest[:1] == ":" or (not rest and len(item) > 1)
            return f"{match[1]} {rest}" if is_named else ""
        return f"{match[1]} {_DASH.sub(_COLON, rest, count=1) if self._names else rest}"

    def _describe(self, parsed: Any, more: Sequence[str]) -> bool:
        """Add what is said of parameters; False if one is unknown."""
        if parsed is None:
            return False
        names = [each.strip("*` ") for each in parsed.arg_name.split(",")]
        if self._names is not None and not all(each in self._names for each in names):
            return False
        # The library joins paragraphs, so only the first line is taken from it.
        first = (parsed.description or "").split("\n")[0]
        told = _with_choices(parsed.type_name or "", _folded([first, *more]))
        for name in names:
            before = self._found.get(name)
            if before:  # a parameter that is described twice
                self._found[name] = before if told in before else f"{before}\n{told}"
            elif told:
                self._found[name] = told
        return True

    def _field(self, place: int, end: int) -> bool:
        """Read a field of reST; False if it is unknown."""
        lines = self._lines[place:end]
        field = _FIELD.fullmatch(lines[0])
        if field is None:
            return False
        kind, about = field[1].lower(), (field[2] or "").strip()
        text = _folded([field[3] or "", *lines[1:]])
        if kind in _PARAMETERS and about:
            head = f":param {about}: {field[3] or ''}"
            if not self._describe(_parsed(_REST, [head])[0], lines[1:]):
                return False
            self._end_text()
        elif kind == "type" and about:
            if self._names is not None and about not in self._names:
                return False
            if _with_choices(text, ""):
                self._found[about] = _with_choices(text, self._found.get(about, ""))
            self._end_text()
        elif kind in _RETURNING:
            self._add("returns", "Returns", text)
        elif kind == "rtype":
            self._add("returns", "Return type", text)
        elif kind in _RAISING:
            self._add("section", f"Raises {about}".strip(), text)
        elif kind in _YIELDING:
            self._add("section", "Yields", text)
        else:
            return False
        return True


_GOOGLE: Final = ("google", "\nArgs:\n", " ")
_NUMPY: Final = ("numpydoc", "\nParameters\n----------\n", "")
_REST: Final = ("rest", "\n", "")
"""A parser of docstring-parser, with the text before the parameters and that before each."""


def _parsed(style: tuple[str, str, str], heads: Sequence[str]) -> list[Any]:
    """Return parameters as docstring-parser reads their first lines, None for those it rejects."""
    if not heads:
        return []
    from docstring_parser import DocstringParam, ParseError

    parser, before, indent = style
    try:
        text = before + "\n".join(f"{indent}{each}" for each in heads)
        found: list[Any] = import_module(f"docstring_parser.{parser}").parse(text).meta
    except ParseError:
        found = []
    if len(found) == len(heads) and all(isinstance(each, DocstringParam) for each in found):
        return found
    return [None] if len(heads) == 1 else [_parsed(style, [each])[0] for each in heads]


def _with_choices(kind: str, text: str) -> str:
    """Keep the values in a type that no annotation has: ``{'asc', 'desc'}``."""
    if "{" not in kind and '"' not in kind and "'" not in kind:
        return text
    return f"{text} ({kind})" if text else kind


def _named_items(body: Sequence[str]) -> str:
    """Return items in the style of NumPy as ``name: text``."""
    made: list[str] = []
    for item in _items(body):
        text = _folded(["", *_without_blanks(item[1:])])
        made.append(f"{item[0].strip()}: {text}" if text else item[0].strip())
    return "\n".join(made)


# --- lines ----------------------------------------------------------------------------------------


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _without_blanks(lines: Sequence[str]) -> list[str]:
    """Return lines without the blank ones at their start and their end."""
    first, last = 0, len(lines)
    while first < last and not lines[first].strip():
        first += 1
    while last > first and not lines[last - 1].strip():
        last -= 1
    return list(lines[first:last])


def _dedented(lines: Sequence[str]) -> list[str]:
    indent = min((_indent(each) for each in lines if each.strip()), default=0)
    return [each[indent:].rstrip() for each in lines]


def _items(body: Sequence[str]) -> Iterator[list[str]]:
    """Yield the items of a section: a line that is indented as the first one, and what follows."""
    indent = _indent(body[0]) if body else 0
    item: list[str] = []
    for line in body:
        if item and line.strip() and _indent(line) <= indent:
            yield item
            item = []
        item.append(line)
    if item:
        yield item


_BEGINS: Final = re.compile(
    r"(?:[-+*•][ ]|\d+[.)][ ]|>>>|[|]"
    r"|[`\"']?[\w./-]+[`\"']?(?:[ ]*\([^)]*\))?(?:[ ]*[:=]|[ ]+[-–—])(?:[ ]|\Z))"
)
"""The beginning of an item of a list, of a row of a table, or of ``name: what it means``."""


def _folded(lines: Sequence[str]) -> str:
    """Return lines as text: sentences on one line, lists, tables and paragraphs as they were.

    Args:
        lines: The first stands where the others need not begin.
    """
    first, *more = lines
    if not more or (len(more) == 1 and not first):
        return (first or "".join(more)).strip()
    rows = [first.strip(), *_dedented(more)]
    made: list[str] = []
    indent = 0
    fenced = blank = False
    for row in _without_blanks(rows):
        text = row.strip()
        fence = _FENCE.match(row) is not None
        if not text or fence or fenced:
            fenced ^= fence
            blank = not text and not fenced
            if text or fenced:
                made.append(row)
                indent = -1
            continue
        begun = bool(made) and not blank and _BEGINS.match(made[-1].strip()) is not None
        continues = (
            bool(made)
            and not blank
            and indent >= 0
            and _BEGINS.match(text) is None
            and not made[-1].endswith(":")
            and (_indent(row) == indent or (begun and _indent(row) > indent))
        )
        if continues:
            made[-1] += f" {text}"
        else:
            if blank and made:
                made.append("")
            made.append(row)
            indent = _indent(row)
        blank = False
    return "\n".join(made)
