"""The docstring of a function: its description, and those of its parameters.

Written here and not taken from a parser of documentation, because those keep the sections that they
know. A model is to read all of it: nothing leaves the description but what became something else.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

PartKind: TypeAlias = Literal["text", "section", "returns"]


class Part(NamedTuple):
    """A part of a docstring, as it is shown.

    Args:
        kind: ``"text"`` stands as it was written. ``"section"`` is a section of a known name, such
            as ``Raises: …``; ``"returns"`` is the one about the result.
        text: With its heading, without the indentation of the source.
    """

    kind: PartKind
    text: str


class Docs(NamedTuple):
    """The texts of a docstring.

    Args:
        parts: All of it in order, but for the descriptions of parameters.
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
        """Return the text of all parts but those of some kinds; None if that is nothing."""
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
        text: Without the indentation of the source, as `inspect.getdoc` gives it.
        names: The parameters of the function. What a section says of anything else stays in the
            description. None: whatever looks like a parameter is one.
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
_KNOWN: Final = (
    *_DESCRIBING,
    *_RETURNING,
    *("example", "examples", "except", "exceptions", "note", "notes", "raise", "raises"),
    *("reference", "references", "see also", "warning", "warnings", "warns", "yield", "yields"),
)
_TITLES: Final = "|".join(sorted(_KNOWN, key=len, reverse=True))
_MARK: Final = re.compile(rf"\n(?:(?:{_TITLES})[ ]*(?::[ ]*)?\n|:\w[^:\n]*:(?:\s|\Z))", re.I)
"""The start of a section, behind the end of the line before it: so the search is fast."""

_TITLE: Final = re.compile(rf"({_TITLES})[ ]*:[ ]*", re.IGNORECASE)
_UNDERLINE: Final = re.compile(r"[-=~]{3,}[ ]*")
_FIELD: Final = re.compile(r":(\w+)(?:[ ]+([^:\n]+|[^\n]+?(?=:(?:\s|\Z))))?:(?:[ ]+(.*)|[ ]*)")
_FENCE: Final = re.compile(r"[ ]*(?:```|~~~)")


class _Reader:
    """Reads a docstring line by line; sections begin where nothing is indented.

    Args:
        text: Of the docstring.
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
        self._end_of_text()
        return Docs(tuple(self._parts), self._found)

    def _section(self, place: int) -> int:
        """Read the section that begins in a line; return the place behind it, or the same."""
        lines = self._lines
        line = lines[place]
        if line[0] == ":":
            field = _FIELD.fullmatch(line)
            if field is None:
                return place
            end = self._end_of_block(place + 1)
            return end if self._field(field, lines[place + 1 : end]) else place
        title = _TITLE.fullmatch(line if ":" in line else f"{line}:")
        if title is None:
            return place
        name = title[1]
        if ":" in line:
            end = self._end_of_block(place + 1)
            body = _without_blanks(lines[place + 1 : end])
            if not body:
                return place
            self._titled(name, body)
            return end
        if place + 1 == len(lines) or _UNDERLINE.fullmatch(lines[place + 1]) is None:
            return place
        end = self._end_of_underlined(place + 2)
        self._titled(name, _without_blanks(lines[place + 2 : end]), underlined=True)
        return end

    def _end_of_block(self, place: int) -> int:
        """Return the place of the first line that is not indented."""
        lines = self._lines
        while place < len(lines) and lines[place][:1] in ("", " "):
            place += 1
        return place

    def _end_of_underlined(self, place: int) -> int:
        """Return the place of the next heading that is underlined."""
        lines = self._lines
        while place < len(lines):
            heading = lines[place][:1] not in ("", " ") and place + 1 < len(lines)
            if heading and _UNDERLINE.fullmatch(lines[place + 1]) is not None:
                return place
            place += 1
        return place

    def _end_of_text(self) -> None:
        text = "\n".join(_without_blanks(self._plain)).rstrip()
        self._plain = []
        if text:
            self._parts.append(Part("text", text))

    def _add(self, kind: PartKind, title: str, text: str, *, block: bool = False) -> None:
        self._end_of_text()
        gap = "\n" if block or "\n" in text else " "
        self._parts.append(Part(kind, f"{title}:{gap}{text}" if text else f"{title}:"))

    # --- sections with a title --------------------------------------------------------------------

    def _titled(self, title: str, body: list[str], *, underlined: bool = False) -> None:
        kind = title.lower()
        if kind not in _DESCRIBING:
            text = "\n".join(_dedented(body)).rstrip()
            if not kind.startswith("example") and ">>>" not in text:
                text = _named_items(body) if underlined and kind in _NAMING else ""
                text = text or _folded(_dedented(body))
            self._add("returns" if kind in _RETURNING else "section", title, text)
            return
        self._end_of_text()
        others: list[str] = []
        prose: list[str] = []
        for item in _items(body):
            if self._is_taken(item, underlined=underlined):
                continue
            # What follows the parameters in the style of NumPy is not indented, whatever it is.
            if underlined and _ITEM.match(item[0]) is None:
                prose += item
            else:
                others += item
        if others:
            text = "\n".join(_dedented(_without_blanks(others)))
            self._add("text", title, text, block=True)
        self._plain += [*prose, ""] if prose else prose

    def _is_taken(self, item: Sequence[str], *, underlined: bool) -> bool:
        """Take the description of parameters out of an item; False if it describes none."""
        head = item[0].strip()
        match = _ITEM.match(head)
        if match is None:
            return False
        names = [each.strip("*` ") for each in match[1].split(",")]
        if self._names is not None and not self._names_are_known(names):
            return False
        rest = head[match.end() :]
        if underlined:
            if rest[:1] not in ("", ":") or (not rest and len(item) == 1):
                return False
            kind, text = rest[1:].strip(), ""
        else:
            kind, rest = _bracketed(rest)
            dashed = _DASH.match(rest) if self._names is not None else None
            if dashed is None and rest[:1] != ":":
                return False
            text = rest[1 if dashed is None else dashed.end() :].strip()
        told = self._with_choices(kind, _folded([text, *item[1:]]))
        for name in names:
            self._describe(name, told)
        return True

    def _describe(self, name: str, told: str) -> None:
        before = self._found.get(name)
        if before:  # of a parameter that is described twice
            told = before if told in before else f"{before}\n{told}"
        if told:
            self._found[name] = told

    def _names_are_known(self, names: Sequence[str]) -> bool:
        return self._names is not None and all(each in self._names for each in names)

    @staticmethod
    def _with_choices(kind: str, text: str) -> str:
        """Keep what a type in a docstring says and no annotation does: ``{'asc', 'desc'}``."""
        if "{" not in kind and '"' not in kind and "'" not in kind:
            return text
        return f"{text} ({kind})" if text else kind

    # --- fields -----------------------------------------------------------------------------------

    def _field(self, field: re.Match[str], more: list[str]) -> bool:
        """Read a field of reST; False if it is none that is known."""
        kind, about = field[1].lower(), (field[2] or "").strip()
        text = _folded([field[3] or "", *more])
        if kind in _PARAMETERS and about:
            name = about.split()[-1].lstrip("*")
            if self._names is not None and name not in self._names:
                return False
            told = self._with_choices(about[: -len(name)].strip(" *"), text)
            self._describe(name, told)
            self._end_of_text()
        elif kind == "type" and about:
            if self._names is not None and about not in self._names:
                return False
            if self._with_choices(text, ""):
                self._found[about] = self._with_choices(text, self._found.get(about, ""))
            self._end_of_text()
        elif kind in _RETURNING:
            self._add("returns", "Returns", text)
        elif kind == "rtype":
            self._add("returns", "Return type", text)
        elif kind in _RAISING:
            self._add("section", f"Raises {about}".strip(), text)
        elif kind in ("yield", "yields"):
            self._add("section", "Yields", text)
        else:
            return False
        return True


_PARAMETERS: Final = frozenset(
    {"arg", "argument", "key", "keyword", "kwarg", "kwparam", "param", "parameter"}
)
_RAISING: Final = frozenset({"except", "exception", "raise", "raises"})
_ITEM: Final = re.compile(
    r"(?:[-+*•][ ]+)?([`*]{0,2}[^\W\d]\w*[`*]{0,2}(?:[ ]*,[ ]*[`*]{0,2}[^\W\d]\w*[`*]{0,2})*)[ ]*"
    r"(?=[:(]|[-–—][ ]|\Z)"
)
"""``name``, ``*names``, ``name, another``, also as items of a list, before a colon or a type."""

_NAMING: Final = frozenset({*_RETURNING, *_RAISING, "exceptions", "warns", "yield", "yields"})
"""Sections whose items have a name or a type, and below it what it means."""

_DASH: Final = re.compile(r"[-–—][ ]+")


def _named_items(body: Sequence[str]) -> str:
    """Return items in the style of NumPy as ``name: text``; empty if they are none."""
    made: list[str] = []
    for item in _items(body):
        text = _folded(["", *_without_blanks(item[1:])])
        made.append(f"{item[0].strip()}: {text}" if text else item[0].strip())
    return "\n".join(made)


def _bracketed(text: str) -> tuple[str, str]:
    """Split a type in brackets from what follows it."""
    if text[:1] != "(":
        return "", text
    depth = 0
    for place, character in enumerate(text):
        depth += (character in "([{") - (character in ")]}")
        if depth == 0:
            return text[1:place].strip(), text[place + 1 :].lstrip()
    return "", text


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
