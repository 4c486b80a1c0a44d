"""URI templates (RFC 6570) in both directions: values to a URI, and a URI to values.

RFC 6570 defines expansion only. Matching is defined here:

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
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from keyword import iskeyword
from typing import Final, NamedTuple, NoReturn, TypeAlias, cast

Values: TypeAlias = "dict[str, str | list[str]]"
"""Values by the names of their variables."""


class Variable(NamedTuple):
    """One variable of a template.

    Args:
        name: The name.
        required: False if a URI can match without it.
        multiple: True if the value is a list, as in ``{name*}``.
        max_length: The number of characters in ``{name:3}``.
    """

    name: str
    required: bool
    multiple: bool
    max_length: int | None = None


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
        parts = _Parser(template).parse()
        if whole:
            parts = tuple(_with_whole(parts, whole))
        self._parts = parts
        expressions = [part for part in parts if isinstance(part, _Expression)]
        self.variables = tuple(variable for part in expressions for variable in part.variables)
        """In order of appearance."""

        head = list(parts)
        self._fragment = _pop_optional(head, "#")
        self._query = _pop_optional(head, "?&")
        leads = "#" if self._query or self._fragment else ""
        if self._query is not None:
            leads += self._query.operator.first
        self._prefix, self._runs = _plan(head, leads)

    def __repr__(self) -> str:
        return f"UriTemplate({self.template!r})"

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
            ends = self._find_ends(normal)
            return None if ends is None else self._read(normal, ends)
        except (_NoMatch, UnicodeError):
            return None

    def expand(self, values: Mapping[str, str | Sequence[str]]) -> str:
        """Return the URI for these values (RFC 6570, section 3).

        A variable without a value, or with an empty list, expands to nothing; unknown names are
        ignored. A list for a variable without ``*`` is joined with commas.

        Raises:
            TypeError: A value is neither a string nor a sequence of strings.
            ValueError: A variable with a prefix (``{name:3}``) has a list.
        """
        return "".join(
            part if isinstance(part, str) else _expand(part, values) for part in self._parts
        )

    def _find_ends(self, uri: str) -> list[int] | None:
        """Return the end of each run, or None.

        A greedy search with backtracking. It takes linear time because no end is tried twice for a
        run: the start of a run only moves left, so an end that has failed, or was out of reach,
        stays so. ``ceiling`` is the last end of each run that has not failed.
        """
        runs = self._runs
        prefix = self._prefix
        if not uri.startswith(prefix):
            return None
        if not runs:
            return [] if self._split_tail(uri, len(prefix))[2] == len(uri) else None

        starts = [len(prefix)] * len(runs)
        ends = [0] * len(runs)
        ceiling = [len(uri)] * len(runs)
        index = 0
        entering = True
        while index >= 0:
            run = runs[index]
            start = starts[index]
            lowest = start + run.minimum
            if entering:
                reach = run.pattern.match(uri, start, max(start, ceiling[index]))
                ceiling[index] = min(ceiling[index], reach.end() if reach else start)
                entering = False
            if lowest > ceiling[index]:
                index -= 1
                continue
            end = uri.rfind(run.after, lowest, ceiling[index] + len(run.after))
            if end < 0:
                ceiling[index] = lowest - 1
                index -= 1
                continue
            ceiling[index] = end - 1
            if uri.find("%", max(end - 2, 0), end) >= 0:  # inside a percent-encoded byte
                continue
            ends[index] = end
            following = end + len(run.after)
            if index + 1 < len(runs):
                index += 1
                starts[index] = following
                entering = True
            elif self._split_tail(uri, following)[2] == len(uri):
                return ends
        return None

    def _split_tail(self, uri: str, start: int) -> tuple[str | None, str | None, int]:
        """Return the raw query and fragment that begin at ``start``, and their end."""
        query: str | None = None
        fragment: str | None = None
        if self._query is not None and uri.startswith(self._query.operator.first, start):
            hash_at = uri.find("#", start)
            end = len(uri) if hash_at < 0 else hash_at
            query = uri[start + 1 : end]
            start = end
        if self._fragment is not None and uri.startswith("#", start):
            fragment = uri[start + 1 :]
            start = len(uri)
        return query, fragment, start

    def _read(self, uri: str, ends: list[int]) -> Values:
        values: Values = {}
        start = len(self._prefix)
        for run, end in zip(self._runs, ends, strict=True):
            raw = uri[start:end]
            start = end + len(run.after)
            if run.operator.named:
                _read_named(run.variables, raw, run.operator.separator, values)
            else:
                _read_positional(run.variables, raw, run.operator.separator, values)
        query, fragment, _ = self._split_tail(uri, start)
        if self._query is not None and query is not None:
            _read_named(self._query.variables, query, "&", values)
        if self._fragment is not None and fragment is not None:
            _read_positional(self._fragment.variables, fragment, ",", values)
        return values


class _Operator(NamedTuple):
    """A row of the table in RFC 6570, appendix A."""

    first: str
    separator: str
    named: bool
    if_empty: str
    reserved: bool


_OPERATORS: Final[dict[str, _Operator]] = {
    "": _Operator("", ",", False, "", False),
    "+": _Operator("", ",", False, "", True),
    "#": _Operator("#", ",", False, "", True),
    ".": _Operator(".", ".", False, "", False),
    "/": _Operator("/", "/", False, "", False),
    ";": _Operator(";", ";", True, "", False),
    "?": _Operator("?", "&", True, "=", False),
    "&": _Operator("&", "&", True, "=", False),
}


class _Expression(NamedTuple):
    symbol: str
    operator: _Operator
    variables: tuple[Variable, ...]


def _with_whole(
    parts: Iterable[str | _Expression], whole: Collection[str]
) -> Iterator[str | _Expression]:
    """Yield the parts, with lists named in `whole` as one text if alone in their expression."""
    for part in parts:
        if (
            isinstance(part, str)
            or part.symbol not in ("", "+", "/")
            or len(part.variables) > 1
            or not any(each.multiple and each.name in whole for each in part.variables)
        ):
            yield part
            continue
        if part.operator.first:
            yield part.operator.first
        texts = tuple(each._replace(multiple=False) for each in part.variables)
        yield _Expression("+", _OPERATORS["+"], texts)


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
_VARIABLE: Final = re.compile(r"(?P<name>[^:*]*)(?P<modifier>.*)", re.DOTALL)
_PREFIX: Final = re.compile(r":([1-9][0-9]{0,3})")
_TRIPLET: Final = re.compile(r"%[0-9A-Fa-f]{2}")
_NOT_LITERAL: Final = re.compile('[\x00-\x20\x7f"<>\\\\^`|\ud800-\udfff]|%(?![0-9A-Fa-f]{2})')


class _Parser:
    def __init__(self, template: str) -> None:
        self.template = template
        self.names: set[str] = set()
        self.parts: list[str | _Expression] = []

    def parse(self) -> tuple[str | _Expression, ...]:
        template = self.template
        position = 0
        while position < len(template):
            if template[position] == "{":
                end = self.end_of_expression(position)
                self.add_expression(position, template[position + 1 : end])
                position = end + 1
            else:
                opening = template.find("{", position)
                end = len(template) if opening < 0 else opening
                self.add_literal(position, template[position:end])
                position = end
        return tuple(self.parts)

    def refuse(self, position: int, problem: str) -> NoReturn:
        raise ValueError(f"URI template {self.template!r}, column {position + 1}: {problem}")

    def end_of_expression(self, start: int) -> int:
        closing = self.template.find("}", start)
        nested = self.template.find("{", start + 1)
        if closing < 0 or 0 <= nested < closing:
            self.refuse(start, "this '{' is never closed; write '{name}', or %7B for a brace")
        return closing

    def add_literal(self, start: int, text: str) -> None:
        if "}" in text:
            at = start + text.index("}")
            self.refuse(at, "this '}' closes nothing; write '{name}', or %7D for a brace")
        bad = _NOT_LITERAL.search(text)
        if bad is not None:
            at = start + bad.start()
            char = bad.group()
            if char == "%":
                self.refuse(at, "'%' without two hex digits; write %25 for a percent sign")
            if "\ud800" <= char <= "\udfff":
                self.refuse(at, f"{char!r} is half a surrogate pair; write the whole character")
            from urllib.parse import quote

            self.refuse(at, f"{char!r} is not allowed in a URI; write {quote(char, safe='')}")
        previous = self.previous()
        if previous is not None and previous.symbol in ("?", "&"):
            self.refuse(
                start,
                f"text after '{{{previous.symbol}...}}', which reads to the end of the query; "
                f"write the text before it",
            )
        self.parts.append(_normalise(text))

    def add_expression(self, start: int, body: str) -> None:
        symbol = body[:1]
        if symbol and symbol in "=,!@|$()~":
            self.refuse(
                start + 1,
                f"no operator {symbol!r}; write one of + # . / ; ? &, or none for {{var}}",
            )
        if symbol not in _OPERATORS:
            symbol = ""
        closes = start + len(body) + 2 == len(self.template)
        required = not (symbol in ("?", "&") or (symbol == "#" and closes))
        variables: list[Variable] = []
        position = start + 1 + len(symbol)
        for text in body[len(symbol) :].split(","):
            variables.append(self.variable(position, text, required))
            position += len(text) + 1
        self.check_neighbours(start, symbol, body)
        self.parts.append(_Expression(symbol, _OPERATORS[symbol], tuple(variables)))

    def check_neighbours(self, start: int, symbol: str, body: str) -> None:
        previous = self.previous()
        joined = {"?": "?&", "&": "?&", ";": ";"}.get(previous.symbol, "") if previous else ""
        if symbol and symbol in joined:
            before = self.template[self.template.rindex("{", 0, start) : start - 1]
            self.refuse(
                start, f"a second expression of the same kind; write '{before},{body[1:]}}}'"
            )
        if previous is not None and previous.symbol in ("?", "&"):
            closes = start + len(body) + 2 == len(self.template)
            if symbol != "#" or not closes:
                self.refuse(
                    start,
                    f"only a closing '{{#...}}' can follow '{{{previous.symbol}...}}', which reads "
                    f"to the end of the query; write this expression before it",
                )
        if previous is not None and symbol in ("", "+"):
            self.refuse(
                start,
                f"nothing tells where the value before '{{{body}}}' ends; "
                f"write a delimiter between them, such as '/{{{body}}}'",
            )
        if symbol == "?" and any(isinstance(part, str) and "?" in part for part in self.parts):
            self.refuse(start, f"the query has begun before; write '{{&{body[1:]}}}'")

    def previous(self) -> _Expression | None:
        """Return the expression directly before this position, if there is one."""
        last = self.parts[-1] if self.parts else None
        return last if isinstance(last, _Expression) else None

    def variable(self, position: int, text: str, required: bool) -> Variable:
        match = _VARIABLE.fullmatch(text)
        name, modifier = match.group("name", "modifier") if match else ("", "")
        if not name:
            self.refuse(position, "a variable name is missing; write '{name}'")
        if not _NAME.fullmatch(name) or iskeyword(name):
            self.refuse(
                position,
                f"{name!r} cannot be the name of a Python parameter; write {_suggest(name)!r}",
            )
        if name in self.names:
            self.refuse(position, f"variable {name!r} is used twice; write another name")
        self.names.add(name)
        prefix = _PREFIX.fullmatch(modifier)
        if prefix is not None:
            return Variable(name, required, False, int(prefix.group(1)))
        if modifier not in ("", "*"):
            self.refuse(
                position + len(name),
                f"no modifier {modifier!r}; write '*' for a list, or ':' and a length, 1 to 9999",
            )
        return Variable(name, required, modifier == "*")


def _suggest(name: str) -> str:
    plain = re.sub(r"[^A-Za-z0-9]+", "_", re.sub(r"%[0-9A-Fa-f]{2}", "_", name)).strip("_")
    if not plain:
        return "name"
    if plain[0].isdigit():
        return f"arg{plain}"
    return f"{plain}_" if iskeyword(plain) else plain


# --- parts → what to look for in a URI -------------------------------------------------------


def _pop_optional(parts: list[str | _Expression], symbols: str) -> _Expression | None:
    """Remove and return the closing expression, if it has one of some operators."""
    last = parts[-1] if parts else None
    if isinstance(last, _Expression) and last.symbol and last.symbol in symbols:
        parts.pop()
        return last
    return None


def _plan(parts: list[str | _Expression], leads: str) -> tuple[str, tuple[_Run, ...]]:
    """Return the literal text up to the first run, and the runs.

    ``leads`` are the first characters of the optional expressions at the end. No run contains them,
    so that one character tells if these are present.
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
        stops = leads
        if not operator.reserved:
            stops += "/?#&" if in_query else "/?#"
        if not operator.named and any(
            isinstance(later, _Expression) and later.symbol == ";" for later in parts[index:]
        ):
            stops += ";"
        literals[-1] += operator.first
        groups = [part.variables] if operator.named else [(each,) for each in part.variables]
        for number, group in enumerate(groups):
            if number:
                literals[-1] += operator.separator
            exploded = group[0].multiple and not operator.named
            stop = set(stops)
            if exploded:
                stop.discard(operator.separator)
            elif len(groups) > 1:
                stop.add(operator.separator)
            # An empty item needs a first character before it: '/' is [''], '' is not a list.
            minimum = 0 if exploded and operator.first else 1
            runs.append((operator, group, _run_of_others(stop), minimum))
            literals.append("")
    return literals[0], tuple(
        _Run(*run, after) for run, after in zip(runs, literals[1:], strict=True)
    )


def _run_of_others(stop: set[str]) -> re.Pattern[str]:
    if not stop:
        return re.compile(r".*", re.DOTALL)
    return re.compile(f"[^{re.escape(''.join(sorted(stop)))}]*")


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
    if len(variables) == 1 and not variables[0].multiple:
        into[variables[0].name] = _decode(raw, variables[0])
        return
    items = raw.split(separator)
    spare = len(items) - len(variables)
    if spare < 0:
        raise _NoMatch
    taken = 0
    for variable in variables:
        if variable.multiple:
            end = taken + 1 + spare
            spare = 0
            into[variable.name] = [_decode(item, variable) for item in items[taken:end]]
            taken = end
        else:
            into[variable.name] = _decode(items[taken], variable)
            taken += 1
    if spare:
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


# --- values → text ---------------------------------------------------------------------------

_RESERVED: Final = ":/?#[]@!$&'()*+,;="


def _expand(expression: _Expression, values: Mapping[str, str | Sequence[str]]) -> str:
    operator = expression.operator
    texts: list[str] = []
    for variable in expression.variables:
        if variable.name not in values:
            continue
        value = _checked(variable, values[variable.name])
        if isinstance(value, str):
            text = _encode(value[: variable.max_length], operator)
            texts.append(_named(operator, variable, text))
            continue
        items = [_encode(item, operator) for item in value]
        if variable.multiple:
            texts.extend(_named(operator, variable, item) for item in items)
        elif items:
            texts.append(_named(operator, variable, ",".join(items)))
    return operator.first + operator.separator.join(texts) if texts else ""


def _checked(variable: Variable, value: object) -> str | list[str]:
    if isinstance(value, str):
        return value
    kind = type(value).__name__
    items = list(cast("Sequence[object]", value)) if isinstance(value, Sequence) else [None]
    texts = [item for item in items if isinstance(item, str)]
    if len(texts) < len(items):
        raise TypeError(
            f"URI variable {variable.name!r} needs a string or a sequence of strings, got {kind}"
        )
    if variable.max_length is not None:
        raise ValueError(
            f"URI variable {variable.name!r} has a length limit and so needs a string, got a list"
        )
    return texts


def _named(operator: _Operator, variable: Variable, text: str) -> str:
    if not operator.named:
        return text
    return f"{variable.name}={text}" if text else variable.name + operator.if_empty


def _encode(value: str, operator: _Operator) -> str:
    from urllib.parse import quote

    if not operator.reserved:
        return quote(value, safe="")
    # RFC 6570, section 3.2.3: reserved expansion keeps percent-encoded triplets.
    kept = _TRIPLET.findall(value)
    others = [quote(text, safe=_RESERVED) for text in _TRIPLET.split(value)]
    return "".join(text for pair in zip(others, [*kept, ""], strict=True) for text in pair)


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
