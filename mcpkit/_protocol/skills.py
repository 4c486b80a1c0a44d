"""Skills as hosts read them: their limits, and their frontmatter (agentskills.io, SEP-2640).

A server publishes the fields of the frontmatter as JSON, and hosts compare them with the file.
Some hosts read YAML 1.1, others 1.2, and libraries deviate from both. So a frontmatter is rejected
if PyYAML (1.1) and a strict reader of YAML 1.2 would disagree about it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from mcpkit._utils.json import is_array, is_object
from mcpkit._utils.text import truncate
from mcpkit.errors import SkillError

MANIFEST: Final = "SKILL.md"

MAX_FILES: Final = 512
MAX_BYTES: Final = 16 * 1024 * 1024
"""The limits of one skill, nested skills included (SKILL-22)."""

MAX_DEPTH: Final = 32
"""The maximum nesting of mappings and lists."""

MAX_LENGTH: Final = 64 * 1024
"""The maximum length of a frontmatter in characters."""


# The values without quotes that are not strings; YAML has others, about which its readers disagree.
_PLAIN: Final = {"": None, "~": None, "null": None, "true": True, "false": False}
_INTEGER: Final = re.compile("0|-?[1-9][0-9]{0,14}")  # others are not exact in JavaScript
_DECIMAL: Final = re.compile(r"-?(0|[1-9][0-9]{0,14})\.[0-9]{1,15}")
_AMBIGUOUS: Final = re.compile(
    r"[yYnN]|[-+]?(0o[0-7]+|(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?)"
)
"""Strings to PyYAML, but booleans in YAML 1.1 or numbers in YAML 1.2."""

_UNREADABLE: Final = re.compile(
    "[^\t\n\r -~\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]|\r(?!\n)"
)
"""Characters that YAML does not allow, or that only some readers take for line breaks."""

_NAME: Final = re.compile("(?=.{1,64}$)[a-z0-9]+(-[a-z0-9]+)*")


def _is_text(value: object, limit: int) -> bool:
    return isinstance(value, str) and bool(value.strip()) and len(value) <= limit


_RESERVED: Final = "io.modelcontextprotocol/"

_FIELDS: Final[Mapping[str, tuple[Callable[[Any], object], str]]] = {
    "name": (
        lambda value: isinstance(value, str) and _NAME.fullmatch(value),
        "1 to 64 lower-case letters and digits, with single hyphens between them",
    ),
    "description": (lambda value: _is_text(value, 1024), "a string of 1 to 1024 characters"),
    "license": (lambda value: isinstance(value, str), "a string"),
    "compatibility": (lambda value: _is_text(value, 500), "a string of 1 to 500 characters"),
    "metadata": (
        lambda value: is_object(value) and not any(key.startswith(_RESERVED) for key in value),
        f"a mapping without keys below {_RESERVED}",
    ),
    "allowed-tools": (
        lambda value: all(isinstance(e, str) for e in (value if is_array(value) else [value])),
        "a string, or a list of strings",
    ),
}
"""Field → its check, and the values that pass (SKILL-9, SKILL-10, SKILL-14)."""


REQUIRED: Final = ("name", "description")


def check_fields(
    fields: Mapping[str, Any],
    path: str,
    names: Iterable[str] = REQUIRED,
    lines: Mapping[str, int] = MappingProxyType({}),
) -> None:
    """Raise `SkillError` unless those of the fields are valid, and the required ones are there."""
    for name in REQUIRED:
        if name not in fields:
            raise SkillError(path, f"the field {name!r} is missing")
    for name in names:
        fits, expected = _FIELDS[name]
        if name in fields and not fits(fields[name]):
            raise SkillError(path, f"{name!r} must be {expected}", lines.get(name))


def parse_frontmatter(
    text: str, path: str = MANIFEST, *, last_newline: bool | None = None
) -> Mapping[str, Any]:
    """Return the fields in the frontmatter of a SKILL.md, as JSON values (SKILL-9 to SKILL-14).

    Values that YAML 1.1 and 1.2 read differently, such as dates, ``yes`` and ``010``, must be in
    quotes. Anchors, aliases, tags and keys after ``?`` are not supported. Needs
    ``pip install "mcpkit[skills]"``.

    Args:
        text: The whole file.
        path: The path of the file, for errors.
        last_newline: None for a skill to publish. A host, which compares the fields with those that
            are listed, reads a last newline both ways, True and False, because others disagree.

    Raises:
        SkillError: The frontmatter is not valid, or hosts might read it differently.
        ImportError: PyYAML is not installed.
    """
    if not re.match("---\r?\n", text):
        raise SkillError(path, "must begin with a line of three hyphens, without a BOM", 1)
    body = text[text.index("\n") + 1 :][:MAX_LENGTH]
    # Some readers end the frontmatter at any line that begins so.
    closing = re.search(r"^---.*$", body, re.MULTILINE)
    if closing is None:
        why = f"within {MAX_LENGTH} characters a line of three hyphens must end the frontmatter"
        raise SkillError(path, why)
    reader = _FrontmatterReader(body[: closing.start()], path, last_newline)
    if closing[0].rstrip("\r") != "---":
        raise reader.error(closing.start(), "this line must be three hyphens and nothing else")
    fields = reader.read()
    if last_newline is None:
        check_fields(fields, path, _FIELDS, reader.lines)
    return fields


class _FrontmatterReader:
    """Builds JSON values from the events of PyYAML's parser, which are what both versions share."""

    def __init__(self, body: str, path: str, last_newline: bool | None) -> None:
        try:
            import yaml  # loaded only if there are skills
        except ModuleNotFoundError as error:
            if error.name != "yaml":
                raise
            raise ImportError(
                'Skills need the skills extra: pip install "mcpkit[skills]"'
            ) from None
        self._yaml: Any = yaml
        self._resolver: Any = yaml.SafeLoader("")
        self._body = body
        self._path = path
        self._last_newline = last_newline
        self._end = 0  # the position behind the last event
        self._events = self._parse()
        self.lines: dict[str, int] = {}
        """The lines of the outermost keys."""

    def error(self, index: int, reason: str) -> SkillError:
        return SkillError(self._path, reason, self._body.count("\n", 0, index) + 2)

    def read(self) -> dict[str, Any]:
        if unreadable := _UNREADABLE.search(self._body):
            raise self.error(unreadable.start(), f"has the character {unreadable[0]!r}; remove it")
        if tab := re.search("^ *\t", self._body, re.MULTILINE):
            raise self.error(tab.start(), "is indented by a tab; use spaces")
        next(self._events)  # the start of the stream, then of the document or the end of the stream
        is_empty = isinstance(next(self._events), self._yaml.StreamEndEvent)
        first = None if is_empty else next(self._events)
        if not isinstance(first, self._yaml.MappingStartEvent):
            raise SkillError(self._path, "the frontmatter must have fields such as name: pdf", 2)
        fields: dict[str, Any] = self._value(first, 1, -1)
        end = next(self._events)
        if end.explicit or not isinstance(next(self._events), self._yaml.StreamEndEvent):
            raise self.error(end.start_mark.index, "the frontmatter must be a single document")
        return fields

    def _parse(self) -> Iterator[Any]:
        try:
            for event in self._yaml.parse(self._body, Loader=self._yaml.SafeLoader):
                self._check_between(self._end, event.start_mark.index)
                self._end = max(self._end, event.end_mark.index)
                yield event
        except self._yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            hint = "; quote a value that contains ': '" if "mapping val" in error.problem else ""
            raise self.error(mark.index, f"is not valid YAML: {error.problem}{hint}") from None
        except SkillError:
            raise
        except (ValueError, OverflowError):
            raise SkillError(self._path, "has an escape that is not a Unicode character") from None

    def _check_between(self, start: int, end: int) -> None:
        """Reject punctuation and comments between two events that only some readers accept."""
        for line in self._body[start:end].splitlines(keepends=True):
            code, comment, _ = line.partition("#")
            before = start + len(code)
            if comment and before and not self._body[before - 1].isspace():
                raise self.error(start, "a space is missing before the comment")
            if "?" in code:
                raise self.error(start, "has a key after a question mark; write 'key: value'")
            start += len(line)

    def _check_indent(self, start: Any, indent: int, exempt: str = "") -> None:
        """Reject a value that ends here if a line is not indented more than the block around it.

        `exempt` has the characters that may begin such a line, as in a set of a regular expression.
        """
        lines = self._body[start.index : self._end]
        outdented = rf"\n {{0,{indent}}}[^ \r\n{exempt}]"
        if start.column <= indent or (indent >= 0 and re.search(outdented, lines)):
            raise self.error(start.index, "all lines of this value must be indented by more spaces")

    def _value(self, event: Any, depth: int, indent: int) -> Any:
        """Return the value that begins with an event, in a block with this indentation."""
        start = event.start_mark
        if isinstance(event, self._yaml.AliasEvent) or event.anchor is not None:
            raise self.error(start.index, "has an anchor or alias; repeat the value instead")
        if event.tag is not None:
            raise self.error(start.index, f"has the tag {event.tag!r}; remove it")
        if isinstance(event, self._yaml.ScalarEvent):
            self._check_indent(start, indent)
            return self._scalar(event)
        if depth > MAX_DEPTH:
            raise self.error(start.index, f"is nested deeper than {MAX_DEPTH} levels")
        inner = indent if event.flow_style else start.column
        is_list = isinstance(event, self._yaml.SequenceStartEvent)
        value: Any = self._list(depth, inner) if is_list else self._mapping(depth, inner)
        if event.flow_style:
            self._check_indent(start, indent, "#}\\]")
        return value

    def _list(self, depth: int, indent: int) -> list[Any]:
        return [self._value(each, depth + 1, indent) for each in self._until_end()]

    def _mapping(self, depth: int, indent: int) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for each in self._until_end():
            key = self._value(each, depth + 1, indent - 1)
            if not isinstance(key, str):
                raise self.error(each.start_mark.index, "has a key that is not a string; quote it")
            if key in values:
                raise self.error(each.start_mark.index, f"repeats the key {key!r}")
            values[key] = self._value(next(self._events), depth + 1, indent)
            if depth == 1:
                self.lines[key] = each.start_mark.line + 2
        return values

    def _until_end(self) -> Iterator[Any]:
        """Yield the events that begin the items of a collection."""
        while not isinstance(event := next(self._events), self._yaml.CollectionEndEvent):
            yield event

    def _scalar(self, event: Any) -> Any:
        value: str = event.value
        start: int = event.start_mark.index
        if event.style is None:
            if value in _PLAIN:
                return _PLAIN[value]
            if _INTEGER.fullmatch(value):
                return int(value)
            if _DECIMAL.fullmatch(value):
                return float(value)
            tag = self._resolver.resolve(self._yaml.ScalarNode, value, (True, False))
            if tag != "tag:yaml.org,2002:str" or _AMBIGUOUS.fullmatch(value):
                why = f"YAML readers may disagree about {truncate(value)}; put it in quotes"
                raise self.error(start, why)
        elif event.style in "|>":
            if re.match(r"[|>][-+]?[0-9#]", self._body[start : start + 3]):
                raise self.error(start, f"only '-' or '+' may follow {event.style}")
            if value.endswith("\n") and not self._body[self._end :].strip():
                # Most remove the newline before the closing line, and some then add one again.
                if self._last_newline is not None:
                    return value if self._last_newline else value.rstrip("\n")
                why = f"YAML readers disagree about its last newline; write {event.style}- instead"
                raise self.error(start, why)
        if re.search("[\ud800-\udfff]", value):
            raise self.error(start, "has an escaped surrogate; write \\U and 8 digits")
        return value
