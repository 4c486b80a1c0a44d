"""The headers in which an HTTP request repeats members of its body (§8.4, 2026-07-28).

Proxies route requests on their headers, so a server rejects a request whose headers and body
disagree (SEC-14). The headers of a request are a mapping from lower-case names to values, both as
the bytes that arrived: what `mcpkit.http.by_name` makes of the pairs of an ASGI scope.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from pydantic_core import to_json

from mcpkit._utils.json import UNSET, is_object, walk
from mcpkit._utils.text import quote
from mcpkit.errors import HeaderMismatch

Headers: TypeAlias = Mapping[bytes, bytes]
"""Values by lower-case name."""


# --- what every request repeats -------------------------------------------------------------------


def require_version(headers: Headers) -> str:
    """Return the protocol version in the header ``MCP-Protocol-Version`` (HTTPM-2).

    Raises:
        HeaderMismatch: It is missing, empty or unreadable.
    """
    version = _text(headers.get(b"mcp-protocol-version"), "MCP-Protocol-Version")
    if not version:
        raise HeaderMismatch("MCP-Protocol-Version: expected a protocol version, got nothing")
    return version


def check_version(headers: Headers, version: str) -> None:
    """Compare the header ``MCP-Protocol-Version`` with the version in ``_meta`` (HTTPM-6)."""
    _compare("MCP-Protocol-Version", version, require_version(headers))


def check_method(headers: Headers, method: str) -> None:
    """Compare the header ``Mcp-Method`` with the method of the body (HTTPM-2, HTTPM-3)."""
    _compare("Mcp-Method", method, _text(headers.get(b"mcp-method"), "Mcp-Method"))


def check_name(headers: Headers, name: str) -> None:
    """Compare the header ``Mcp-Name`` with a member of the params (HTTPM-2, HTTPM-4)."""
    _compare("Mcp-Name", name, _decoded(headers.get(b"mcp-name"), "Mcp-Name"))


def _text(value: bytes | None, header: str) -> str:
    if value is None:
        raise HeaderMismatch(f"{header}: expected as in the body, but the header is missing")
    try:
        return value.strip(b" \t").decode()
    except UnicodeDecodeError:
        raise HeaderMismatch(f"{header}: expected text, got bytes that are not UTF-8") from None


def _compare(header: str, expected: str, found: str) -> None:
    if found != expected:
        # Quoted: decoded text may have line breaks, which must not reach a log.
        raise HeaderMismatch(
            f"{header}: expected {quote(expected)} as in the body, got {quote(found)}"
        )


# --- values that need encoding --------------------------------------------------------------------

_PREFIX: Final = "=?base64?"
_SUFFIX: Final = "?="


def encode_value(text: str) -> str:
    """Return a text as the value of ``Mcp-Name`` or ``Mcp-Param-…``, if need be in base64 (HDR-6).

    Raises:
        UnicodeEncodeError: The text has surrogates, which UTF-8 cannot express.
    """
    looks_encoded = text.startswith(_PREFIX) and text.endswith(_SUFFIX)
    if text.isascii() and text.isprintable() and text == text.strip() and not looks_encoded:
        return text
    return f"{_PREFIX}{b64encode(text.encode()).decode('ascii')}{_SUFFIX}"


def _decoded(value: bytes | None, header: str) -> str:
    text = _text(value, header)
    # In "=?base64?=" the two markers would share a character: it has only the first of them.
    if not text.startswith(_PREFIX) or not text[len(_PREFIX) :].endswith(_SUFFIX):
        return text
    wrapped = text[len(_PREFIX) : -len(_SUFFIX)]
    try:
        raw = b64decode(wrapped, validate=True)
        # Python decodes more than an encoder may write: it ignores excess padding and unused bits.
        if b64encode(raw) == wrapped.encode():
            return raw.decode()
    except ValueError:
        pass
    raise HeaderMismatch(f"{header}: expected base64 of UTF-8 between {_PREFIX} and {_SUFFIX}")


# --- parameters of a tool -------------------------------------------------------------------------


class HeaderParameter(NamedTuple):
    """A parameter of a tool that a header repeats."""

    header: bytes  # its name in lower case, for look-ups: b"mcp-param-region"
    name: str  # its name as it is written: Mcp-Param-Region
    path: tuple[str, ...]  # the properties that lead to the value, from the arguments downwards

    def value(self, arguments: Mapping[str, Any]) -> Any:
        """Return the value that the arguments have at the path; None if there is none.

        `UNSET`, which equals no header, if there is text where the path needs an object: validation
        reads JSON in text, and a value found only there would bypass every proxy that relies on its
        header.
        """
        found: Any = arguments
        for each in self.path:
            if not is_object(found):
                return UNSET if isinstance(found, str) else None
            found = found.get(each)
        return found


_KEYWORD: Final = "x-mcp-header"
_TOKEN: Final = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
"""RFC 9110, section 5.6.2."""

_DEPTH: Final = 100
"""Levels of schemas inside each other; real schemas have far fewer."""


def declared_in(schema: Mapping[str, Any]) -> tuple[HeaderParameter, ...]:
    """Return the parameters of a tool that headers repeat, as declared by ``x-mcp-header``.

    A property that may also be null is rejected (HDR-2): its type is not one of the three. An
    optional property serves the same purpose.

    Args:
        schema: The input schema. The keyword is read on properties, and is an error elsewhere.

    Raises:
        ValueError: The keyword is used against the rules (HDR-1, HDR-2); the message says where and
            how to fix it. A client ignores such a tool (HDR-3).
    """
    try:
        # Few tools have headers, and searching a text is much faster than walking through a schema.
        if _KEYWORD.encode() not in to_json(schema):
            return ()
    except ValueError:  # it is not JSON, or circular
        pass
    found: dict[bytes, HeaderParameter] = {}
    for way, part in walk(schema, unknown=True, deepest=_DEPTH + 1):
        members = [
            each for each in way if each.keyword == "properties" and isinstance(each.key, str)
        ]
        path = tuple(str(each.key) for each in members)
        if len(way) > _DEPTH:
            top = "/".join(path[:5])
            raise ValueError(f"schemas are nested more than {_DEPTH} deep at {top}/…")
        if _KEYWORD not in part:
            continue
        name, kind = part[_KEYWORD], part.get("type")
        where = f'"{_KEYWORD}" at {"/".join(path) or "the schema itself"}'
        outside = [each.keyword for each in way if each not in members]
        if outside or not path:
            beyond = f" below {outside[0]}" if outside else ""
            raise ValueError(
                f"{where}{beyond} cannot be reached through properties alone; "
                f"declare it on a property of the arguments, or of an object inside them"
            )
        if not isinstance(name, str) or re.fullmatch(_TOKEN, name) is None:
            raise ValueError(
                f"{where} is {quote(str(name))}, which cannot be part of a header's name; "
                f"use letters, digits and hyphens"
            )
        if kind not in ("string", "integer", "boolean"):
            raise ValueError(
                f"{where} needs the type string, integer or boolean right beside it, not "
                f"{quote(kind)}; instead of null, make the property optional: = None in Python"
            )
        made = HeaderParameter(
            f"mcp-param-{name.lower()}".encode("ascii"), f"Mcp-Param-{name}", path
        )
        before = found.setdefault(made.header, made)
        if before is not made:
            raise ValueError(
                f"{where} has the name {name}, which is taken by {'/'.join(before.path)}, and case "
                f"does not count; choose another"
            )
    return tuple(found.values())


def check_parameters(
    headers: Headers, declared: Sequence[HeaderParameter], arguments: Mapping[str, Any]
) -> None:
    """Compare the headers ``Mcp-Param-…`` with the arguments as they were sent (HDR-4, HDR-5).

    Headers that are not declared are ignored (HDR-7). The error does not repeat the value.
    """
    for each in declared:
        value, found = each.value(arguments), headers.get(each.header)
        if value is None and found is None:
            continue
        if value is None:
            problem = "expected no such header, as the argument %s has no value"
        elif found is None:
            problem = "expected the value of the argument %s, but the header is missing"
        elif _equals(_decoded(found, each.name), value):
            continue
        else:
            problem = "expected the value of the argument %s, got another"
        raise HeaderMismatch(f"{each.name}: {problem % '.'.join(each.path)}")


_NUMBER: Final = r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?"
_LARGEST: Final = 2**53 - 1
"""The largest integer that every implementation of JSON can tell from its neighbours."""


def _equals(text: str, value: Any) -> bool:
    # Compared by the value, not by the type in the schema: validation explains a wrong type to a
    # model better than a header mismatch would.
    written = _written(value)
    if text == written:
        return True
    if written is None or isinstance(value, (str, bool)) or re.fullmatch(_NUMBER, text) is None:
        return False
    from decimal import Decimal  # only for numbers in different notations

    return bool(Decimal(text) == value)


def _written(value: Any) -> str | None:
    """Return a value as text; None if a header cannot carry it."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)) and -_LARGEST <= value <= _LARGEST:
        whole = int(value)
        return str(whole if value == whole else value)
    return None


def parameter_headers(
    declared: Sequence[HeaderParameter], arguments: Mapping[str, Any]
) -> dict[str, str]:
    """Return the headers ``Mcp-Param-…`` that a client sends with arguments (HDR-4 to HDR-6).

    A value that a header cannot carry (an array, an object, an integer beyond ±(2^53−1)) is
    omitted; the server will reject the call and say why.
    """
    written = ((each.name, _written(each.value(arguments))) for each in declared)
    return {name: encode_value(text) for name, text in written if text is not None}
