"""URI templates (RFC 6570), matched with URIs.

RFC 6570 defines expansion only, which is for clients. Matching is defined here:

- A match covers the whole URI. Literal text must be equal, where ``%c3`` equals ``%C3`` and a raw
  non-ASCII character equals its percent-encoded UTF-8.
- A URI is first split into values at its raw characters, then each value is decoded. So an encoded
  slash separates nothing, but a decoded value *may contain* ``/``, ``..`` or NUL, and the value of
  ``{+path}`` may contain raw ones. Check a value before using it as a file name. ``+`` is a plus
  sign and never a space.
- ``{var}``, ``{.var}`` and ``{/var}`` stop at ``/``, ``?`` and ``#`` (and at ``&`` after a ``?`` in
  the template). Other characters that expansion would encode are accepted raw. ``{+var}`` and
  ``{#var}`` stop at none of these. No variable contains the first character of a later ``{;…}``, or
  of a closing ``{?…}``, ``{&…}`` or ``{#…}``, nor ``#`` before a closing query.
- Several variables in one expression are split at its separator, and so are items of ``{var*}``.
- If a text can be split in several ways, the variable further left takes as much as possible:
  ``{name}.{ext}`` matches ``a.tar.gz`` as ``a.tar`` and ``gz``.
- A required value has at least one character; items of a list and named values may be empty.
- ``{?a,b}`` and ``{&a,b}`` match parameters in any order. A missing one is absent from the result,
  an unknown one is ignored, and a repeated one matches only as a list (``{?a*}``). ``{;a,b}`` works
  alike, but all its variables are required.
- A closing ``{#var}`` may be missing; of several variables, all or none.
- ``{var:3}`` matches values of at most three characters.

Matching takes time in proportion to the length of the URI.

Templates of RFC 6570 that cannot be matched reliably or called as a function are rejected: names
that are not Python parameter names, repeated variables, expressions without a delimiter between
them (``{a}{b}``, ``{;a}{;b}``), a second ``?``, and anything but a closing ``{#…}`` after a query.
"""

from __future__ import annotations

# urllib.parse is imported where it is used, because few servers need it.
import re
from collections.abc import Collection, Sequence
from keyword import iskeyword
from typing import Final, NamedTuple, NoReturn, TypeAlias

Values: TypeAlias = "dict[str, str | list[str]]"
"""Values by the names of their variables."""


class Variable(NamedTuple):
    """One variable of a template."""

    name: str
    required: bool  # False if a URI can match without it
    multiple: bool  # True if the value is a list, as in ``{name*}``
    max_length: int | None = None  # the number of characters in ``{name:3}``


class UriTemplate:
    """A parsed template; immutable, and safe to share between threads.

    Args:
        template: The text.
        whole: Names of variables that are one text including slashes, even if the template has a
            list: ``{path*}`` then means ``{+path}``.

    Raises:
        ValueError: The template is malformed or unsupported (see the module). The message names the
            column, counted from 1, and the fix.
    """

    def __init__(self, template: str, *, whole: Collection[str] = ()) -> None:
        self.template = template
        self.whole = frozenset(whole)
        head = _Parser(template, self.whole).parse()
        expressions = [part for part in head if isinstance(part, _Expression)]
        self.variables = tuple(variable for part in expressions for variable in part.variables)
        """In order of appearance."""

        closing: list[_Expression] = []
        for symbols in (("#",), ("?", "&")):
            if head and isinstance(head[-1], _Expression) and head[-1].symbol in symbols:
                closing.insert(0, head[-1])
                head.pop()
        self._closing = closing
        """A query and a fragment that may be missing from a URI."""
        self._tail = re.compile("".join(_TAILS[each.symbol] for each in closing), re.DOTALL)
        leads = {"#", *(each.symbol for each in closing)} if closing else set[str]()
        self.prefix, self._runs = _plan(head, leads)
        """The text before the first variable, percent-encoded."""

    @property
    def is_literal(self) -> bool:
        """True if the template has no expressions, so that it is the URI of one resource."""
        return not self.variables

    def match(self, uri: str) -> Values | None:
        """Return the decoded values by variable name, or None if the URI does not match.

        Values are ``list[str]`` for variables with ``multiple``, else ``str``. A URI with an
        invalid percent sign, or with a value that is not UTF-8, matches no template.
        """
        try:
            normal = _normalise(uri)
            texts = self._split(normal) if normal.startswith(self.prefix) else None
            if texts is None:
                return None
            values: Values = {}
            parts: list[_Run | _Expression] = [*self._runs, *self._closing]
            for part, raw in zip(parts, texts, strict=True):
                if raw is not None:
                    read = _read_named if part.operator.named else _read_positional
                    read(part.variables, raw, part.operator.separator, values)
            return values
        except (_NoMatch, UnicodeError):
            return None

    def _split(self, uri: str) -> list[str | None] | None:
        """Return the text of each run and each closing expression (None: missing), or None.

        A greedy search with backtracking. It takes linear time because no end is tried twice for a
        run: the start of a run only moves left, so an end that has failed, or was out of reach,
        stays so. ``ceiling`` is the last end of each run that has not failed.
        """
        runs = self._runs
        ceiling = [len(uri)] * len(runs)

        def split(index: int, start: int) -> list[str | None] | None:
            if index == len(runs):
                tail = self._tail.fullmatch(uri, start)
                return None if tail is None else list(tail.groups())
            run = runs[index]
            reach = run.pattern.match(uri, start, max(start, ceiling[index]))
            ceiling[index] = min(ceiling[index], reach.end() if reach else start)
            lowest = start + run.minimum
            while True:
                end = uri.rfind(run.after, lowest, ceiling[index] + len(run.after))
                ceiling[index] = min(ceiling[index], max(end, lowest) - 1)
                if end < 0:
                    return None
                if uri.find("%", max(end - 2, 0), end) >= 0:
                    continue  # inside a percent-encoded byte
                rest = split(index + 1, end + len(run.after))
                if rest is not None:
                    return [uri[start:end], *rest]

        return split(0, len(self.prefix))


class _Operator(NamedTuple):
    """A row of the table in RFC 6570, appendix A, as far as matching needs it."""

    first: str
    separator: str
    named: bool
    reserved: bool


_OPERATORS: Final[dict[str, _Operator]] = {
    "": _Operator("", ",", False, False),
    "+": _Operator("", ",", False, True),
    "#": _Operator("#", ",", False, True),
    ".": _Operator(".", ".", False, False),
    "/": _Operator("/", "/", False, False),
    ";": _Operator(";", ";", True, False),
    "?": _Operator("?", "&", True, False),
    "&": _Operator("&", "&", True, False),
}


_TAILS: Final = {"?": "(?:[?]([^#]*))?", "&": "(?:&([^#]*))?", "#": "(?:#(.*))?"}
"""What a closing expression matches, by its operator."""


class _Expression(NamedTuple):
    symbol: str
    operator: _Operator
    variables: tuple[Variable, ...]


_Part: TypeAlias = "str | _Expression"


class _Run(NamedTuple):
    """A stretch of a URI that holds one value, one list, or the pairs of one ``{;…}``."""

    operator: _Operator
    variables: tuple[Variable, ...]
    pattern: re.Pattern[str]
    minimum: int
    after: str
    """The literal text that follows; empty for the last run only."""


class _NoMatch(Exception):
    pass


# --- template text → parts -------------------------------------------------------------------

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_VARIABLE: Final = re.compile(r"([^:*]*)(\*|:([1-9][0-9]{0,3}))?(.*)", re.DOTALL)
_NOT_LITERAL: Final = re.compile('[\x00-\x20\x7f"<>\\\\^`|}\ud800-\udfff]|%(?![0-9A-Fa-f]{2})')


class _Parser:
    def __init__(self, template: str, whole: Collection[str]) -> None:
        self.template = template
        self.whole = whole
        self.names: set[str] = set()
        self.parts: list[_Part] = []

    def parse(self) -> list[_Part]:
        for found in re.finditer(r"[^{]+|\{[^{}]*(\}?)", self.template):
            position = found.start()
            if found[0][0] != "{":
                self.add_literal(position, found[0])
            elif found[1]:
                self.add_expression(position, found[0][1:-1])
            else:
                self.refuse(
                    position, "this '{' is never closed; write '{name}', or %7B for a brace"
                )
        return self.parts

    def refuse(self, position: int, problem: str) -> NoReturn:
        raise ValueError(f"URI template {self.template!r}, column {position + 1}: {problem}")

    def add_literal(self, start: int, text: str) -> None:
        bad = _NOT_LITERAL.search(text)
        if bad is not None:
            advice = {
                "}": "this '}' closes nothing; write '{name}', or %7D for a brace",
                "%": "'%' without two hex digits; write %25 for a percent sign",
            }.get(bad[0], f"{bad[0]!r} is not allowed in a URI; percent-encode it")
            self.refuse(start + bad.start(), advice)
        self.check_query(start)
        self.parts.append(_normalise(text))

    def add_expression(self, start: int, body: str) -> None:
        symbol = body[:1] if body[:1] in _OPERATORS else ""
        closes = start + len(body) + 2 == len(self.template)
        required = not (symbol in ("?", "&") or (symbol == "#" and closes))
        variables: list[Variable] = []
        position = start + 1 + len(symbol)
        for text in body[len(symbol) :].split(","):
            variables.append(self.variable(position, text, required))
            position += len(text) + 1
        if symbol == "?" and any(isinstance(part, str) and "?" in part for part in self.parts):
            self.refuse(start, f"the query has begun before; write '{{&{body[1:]}}}'")
        if not (symbol == "#" and closes):
            self.check_query(start)
        previous = self.previous()
        if previous is not None and (symbol in ("", "+") or symbol == previous == ";"):
            self.refuse(
                start,
                f"nothing tells where the value before '{{{body}}}' ends; "
                f"write a delimiter between them, such as '/{{{body}}}'",
            )
        [first, *others] = variables
        if first.multiple and not others and first.name in self.whole and symbol in ("", "+", "/"):
            self.parts.append(_OPERATORS[symbol].first)
            symbol, variables = "+", [first._replace(multiple=False)]
        self.parts.append(_Expression(symbol, _OPERATORS[symbol], tuple(variables)))

    def check_query(self, start: int) -> None:
        previous = self.previous()
        if previous in ("?", "&"):
            self.refuse(
                start,
                f"only a closing '{{#...}}' can follow '{{{previous}...}}', which reads to the end "
                f"of the query; write this before it, or more variables in it",
            )

    def previous(self) -> str | None:
        """Return the operator of the expression directly before this position, if any."""
        last = self.parts[-1] if self.parts else None
        return last.symbol if isinstance(last, _Expression) else None

    def variable(self, position: int, text: str, required: bool) -> Variable:
        found = _VARIABLE.fullmatch(text)
        name, modifier, length, rest = found.groups() if found else ("", "", "", "")
        if not _NAME.fullmatch(name) or iskeyword(name):
            self.refuse(position, f"{name!r} cannot be the name of a Python parameter")
        if name in self.names:
            self.refuse(position, f"variable {name!r} is used twice; write another name")
        if rest:
            self.refuse(
                position + len(name),
                "unknown modifier; write '*' for a list, or ':' and a length, 1 to 9999",
            )
        self.names.add(name)
        return Variable(name, required, modifier == "*", int(length) if length else None)


# --- parts → what to look for in a URI -------------------------------------------------------


def _plan(parts: list[_Part], leads: set[str]) -> tuple[str, tuple[_Run, ...]]:
    """Return the literal text up to the first run, and the runs.

    No run contains the first characters (`leads`) of the optional expressions at the end, so that
    one character tells if these are present.
    """
    literals = [""]
    runs: list[tuple[_Operator, tuple[Variable, ...], re.Pattern[str], int]] = []
    in_query = False
    for index, part in enumerate(parts):
        if isinstance(part, str):
            literals[-1] += part
            in_query = in_query or "?" in part
            continue
        operator = part.operator
        stops = {*leads}
        if not operator.reserved:
            stops.update("/?#&" if in_query else "/?#")
        if not operator.named and any(
            isinstance(later, _Expression) and later.symbol == ";" for later in parts[index:]
        ):
            stops.add(";")
        literals[-1] += operator.first
        groups = [part.variables] if operator.named else [(each,) for each in part.variables]
        for number, group in enumerate(groups):
            if number:
                literals[-1] += operator.separator
            exploded = group[0].multiple and not operator.named
            stop = {*stops}
            if exploded:
                stop.discard(operator.separator)
            elif len(groups) > 1:
                stop.add(operator.separator)
            others = f"[^{re.escape(''.join(sorted(stop)))}]*" if stop else ".*"
            # An empty item needs a first character before it: '/' is [''], '' is not a list.
            minimum = 0 if exploded and operator.first else 1
            runs.append((operator, group, re.compile(others, re.DOTALL), minimum))
            literals.append("")
    return literals[0], tuple(
        _Run(*run, after) for run, after in zip(runs, literals[1:], strict=True)
    )


# --- raw text → values -----------------------------------------------------------------------

_ASCII: Final = "".join(map(chr, range(128)))
_BROKEN_TRIPLET: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_LOWER_TRIPLET: Final = re.compile(r"%(?:[a-f][0-9A-Fa-f]|[0-9][a-f]|[A-F][a-f])")


def _normalise(uri: str) -> str:
    """Encode non-ASCII characters, and write percent-encoded bytes in upper case."""
    if not uri.isascii():
        from urllib.parse import quote

        uri = quote(uri, safe=_ASCII)
    if "%" in uri:
        if _BROKEN_TRIPLET.search(uri):
            raise _NoMatch
        uri = _LOWER_TRIPLET.sub(lambda triplet: triplet.group().upper(), uri)
    return uri


def _decode(raw: str, variable: Variable) -> str:
    value = raw
    if "%" in raw:
        from urllib.parse import unquote_to_bytes

        value = unquote_to_bytes(raw).decode("utf-8")
    if variable.max_length is not None and len(value) > variable.max_length:
        raise _NoMatch
    return value


def _read_positional(
    variables: tuple[Variable, ...], raw: str, separator: str, into: Values
) -> None:
    is_one_text = len(variables) == 1 and not variables[0].multiple
    items = [raw] if is_one_text else raw.split(separator)
    for number, variable in enumerate(variables, start=1):
        # The first list takes what the variables after it leave.
        spare = len(items) - (len(variables) - number)
        count = max(1, spare) if variable.multiple else 1
        values = [_decode(item, variable) for item in items[:count]]
        if not values:
            raise _NoMatch
        into[variable.name] = values if variable.multiple else values[0]
        items = items[count:]
    if items:
        raise _NoMatch


def _read_named(variables: tuple[Variable, ...], raw: str, separator: str, into: Values) -> None:
    by_name = {variable.name: variable for variable in variables}
    for pair in raw.split(separator):
        name, _, text = pair.partition("=")
        variable = by_name.get(name)
        if variable is None:
            continue
        value = _decode(text, variable)
        if not variable.multiple:
            if name in into:
                raise _NoMatch
            into[name] = value
            continue
        items = into.setdefault(name, [])
        if isinstance(items, list):
            items.append(value)
    if any(variable.required and variable.name not in into for variable in variables):
        raise _NoMatch


# --- values as paths -------------------------------------------------------------------------

_ABSOLUTE: Final = re.compile(r"[/\\]|[A-Za-z]:[/\\]")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")


def misleads(value: str | Sequence[str]) -> str | None:
    """Return why a value is dangerous as a path; None if it is not.

    Args:
        value: The value, or all values of a variable with ``multiple``.
    """
    parts = [value] if isinstance(value, str) else list(value)
    if any(_CONTROL.search(each) for each in parts):
        return "it has a control character"
    if any(_ABSOLUTE.match(each) for each in parts[:1]):
        return "it is an absolute path"
    if any(each == ".." for part in parts for each in re.split(r"[/\\]", part)):
        return "it leads out of a directory"
    return None
