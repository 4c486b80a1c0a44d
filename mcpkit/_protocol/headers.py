"""The headers in which an HTTP request repeats members of its body (§8.4, 2026-07-28).

Proxies route requests on their headers, so a server rejects a request whose headers and body
disagree (SEC-14). The headers of a request are a mapping from lower-case names to values, both as
the bytes that arrived: what `mcpkit.http.by_name` makes of the pairs of an ASGI scope.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from pydantic_core import to_json

from mcpkit._protocol.revisions import PER_REQUEST, REVISIONS
from mcpkit._utils.json import Step, is_array, is_object, walk
from mcpkit._utils.text import quote
from mcpkit.errors import HeaderMismatch

Headers: TypeAlias = Mapping[bytes, bytes]
"""Values by lower-case name."""

_VERSION: Final = b"mcp-protocol-version"
_METHOD: Final = b"mcp-method"
_NAME: Final = b"mcp-name"
_BLANKS: Final = b" \t"

# Values in their usual form are compared without being decoded.
_VERSIONS: Final = {each.version.encode(): each.version for each in REVISIONS}
_METHODS: Final = {name.encode(): name for each in PER_REQUEST for name in each.methods}


# --- what every request repeats -------------------------------------------------------------------


def require_version(headers: Headers) -> str:
    """Return the protocol version in the header ``MCP-Protocol-Version`` (HTTPM-2).

    Raises:
        HeaderMismatch: It is missing, empty or unreadable.
    """
    version = _text(headers.get(_VERSION), "MCP-Protocol-Version")
    if not version:
        raise HeaderMismatch("MCP-Protocol-Version: expected a protocol version, got nothing")
    return version


def check_version(headers: Headers, version: str | None) -> None:
    """Compare the header ``MCP-Protocol-Version`` with the version in ``_meta`` (HTTPM-6).

    A body without a version is rejected elsewhere.
    """
    if version is not None and _VERSIONS.get(headers.get(_VERSION, b"")) == version:
        return
    found = require_version(headers)
    if version is not None and found != version:
        raise _differs("MCP-Protocol-Version", version, found)


def check_method(headers: Headers, method: str) -> None:
    """Compare the header ``Mcp-Method`` with the method of the body (HTTPM-2, HTTPM-3)."""
    if _METHODS.get(headers.get(_METHOD, b"")) == method:
        return
    found = _text(headers.get(_METHOD), "Mcp-Method")
    if found != method:
        raise _differs("Mcp-Method", method, found)


def check_name(headers: Headers, name: str) -> None:
    """Compare the header ``Mcp-Name`` with a member of the params (HTTPM-2, HTTPM-4)."""
    if _is_plain(name) and headers.get(_NAME) == name.encode():
        return
    found = _decoded(headers.get(_NAME), "Mcp-Name")
    if found != name:
        raise _differs("Mcp-Name", name, found)


def _is_plain(text: str) -> bool:
    """Return True if the bytes of a text are the only header value that means this text."""
    return text.isascii() and text == text.strip(" \t") and not text.startswith("=?")


def _text(value: bytes | None, header: str) -> str:
    if value is None:
        raise HeaderMismatch(f"{header}: expected as in the body, but the header is missing")
    try:
        return value.strip(_BLANKS).decode()
    except UnicodeDecodeError:
        raise HeaderMismatch(f"{header}: expected text, got bytes that are not UTF-8") from None


def _differs(header: str, expected: str, found: str) -> HeaderMismatch:
    # Quoted: decoded text may have line breaks, which must not reach a log.
    return HeaderMismatch(
        f"{header}: expected {quote(expected)} as in the body, got {quote(found)}"
    )


# --- values that need encoding --------------------------------------------------------------------

_PREFIX: Final = "=?base64?"
_SUFFIX: Final = "?="
_SAFE: Final = re.compile(r"[!-~](?:[ -~]*[!-~])?|")
"""Printable ASCII without blanks at its ends, or nothing."""


def encode_value(text: str) -> str:
    """Return a text as the value of ``Mcp-Name`` or ``Mcp-Param-…``, if need be in base64 (HDR-6).

    Raises:
        UnicodeEncodeError: The text has surrogates, which UTF-8 cannot express.
    """
    looks_encoded = text.startswith(_PREFIX) and text.endswith(_SUFFIX)
    if _SAFE.fullmatch(text) and not looks_encoded:
        return text
    return f"{_PREFIX}{b64encode(text.encode()).decode('ascii')}{_SUFFIX}"


def _decoded(value: bytes | None, header: str) -> str:
    text = _text(value, header)
    if not text.startswith(_PREFIX):
        return text
    # In "=?base64?=" the two markers would share a character: it has only the first of them.
    if not text.endswith(_SUFFIX) or len(text) < len(_PREFIX) + len(_SUFFIX):
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

ScalarType: TypeAlias = Literal["string", "integer", "boolean"]


class HeaderParameter(NamedTuple):
    """A parameter of a tool that a header repeats."""

    header: bytes  # its name in lower case, for look-ups: b"mcp-param-region"
    name: str  # its name as it is written: Mcp-Param-Region
    path: tuple[str, ...]  # the properties that lead to the value, from the arguments downwards
    type: ScalarType

    def value(self, arguments: Mapping[str, Any]) -> Any:
        """Return the value that the arguments have at the path; None if there is none."""
        first, *rest = self.path
        found = arguments.get(first)
        for each in rest:
            if not is_object(found):
                return None
            found = found.get(each)
        return found


_KEYWORD: Final = "x-mcp-header"
_TYPES: Final = ("string", "integer", "boolean")
_TOKEN: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
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
    found: dict[bytes, HeaderParameter] = {}
    if not _may_have_headers(schema):
        return ()
    for way, part in walk(schema, unknown=True, deepest=_DEPTH + 1):
        if len(way) > _DEPTH:
            top = "/".join(_members(way)[:5])
            raise ValueError(f"schemas are nested more than {_DEPTH} deep at {top}/…")
        if _KEYWORD not in part:
            continue
        path = _members(way)
        outside = next((step.keyword for step in way if not _is_member(step)), None)
        place = "/".join(path) or "the schema itself"
        if outside is not None or not path:
            beyond = f" below {outside}" if outside is not None else ""
            raise ValueError(
                f'"{_KEYWORD}" at {place}{beyond} cannot be reached through properties alone; '
                f"declare it on a property of the arguments, or of an object inside them"
            )
        name = part[_KEYWORD]
        if not isinstance(name, str) or _TOKEN.fullmatch(name) is None:
            raise ValueError(
                f'"{_KEYWORD}" at {place} is {quote(str(name))}, which cannot be part of a '
                f"header's name; use letters, digits and hyphens"
            )
        kind = part.get("type")
        if kind not in _TYPES:
            raise ValueError(
                f'"{_KEYWORD}" at {place} needs the type string, integer or boolean right beside '
                f"it, {_other_type(part)}"
            )
        made = HeaderParameter(
            f"mcp-param-{name.lower()}".encode("ascii"),
            f"Mcp-Param-{name}",
            path,
            kind,
        )
        before = found.setdefault(made.header, made)
        if before is not made:
            raise ValueError(
                f'"{_KEYWORD}" at {place} has the name {name}, which is taken by '
                f"{'/'.join(before.path)}, and case does not count; choose another"
            )
    return tuple(found.values())


def _may_have_headers(schema: Mapping[str, Any]) -> bool:
    # Few tools have headers, and searching a text is much faster than walking through a schema.
    try:
        text = to_json(schema)
    except ValueError:  # it is not JSON, or circular
        return True
    return _KEYWORD.encode() in text or (text.count(b"{") > _DEPTH and _is_deep(schema))


def _is_deep(schema: Mapping[str, Any], depth: int = 0) -> bool:
    if depth > _DEPTH:
        return True
    below: Any
    for below in schema.values():
        each: Any
        for each in below if is_array(below) else (below,):
            if is_object(each) and _is_deep(each, depth + 1):
                return True
    return False


def _members(way: tuple[Step, ...]) -> tuple[str, ...]:
    """Return the names of the properties on the way to a schema."""
    return tuple(str(step.key) for step in way if _is_member(step))


def _is_member(step: Step) -> bool:
    return step.keyword == "properties" and isinstance(step.key, str)


def _other_type(schema: Mapping[str, Any]) -> str:
    """Return, for a message, the type of a property that cannot have a header, and the fix."""
    kind = schema.get("type")
    options: Any = kind if is_array(kind) else schema.get("anyOf")
    if is_array(options) and ("null" in options or {"type": "null"} in options):
        return "and not null; make it an optional property without null: = None in Python"
    if kind is None:
        combined = (each for each in ("$ref", "anyOf", "oneOf", "allOf") if each in schema)
        kind = next(combined, "nothing")
    return f"not {quote(str(kind))}; change the type, or remove the header"


def check_parameters(
    headers: Headers, declared: Sequence[HeaderParameter], arguments: Mapping[str, Any]
) -> None:
    """Compare the headers ``Mcp-Param-…`` with the arguments as they were sent (HDR-4, HDR-5).

    Headers that are not declared are ignored (HDR-7). The error does not repeat the value.
    """
    for each in declared:
        value = each.value(arguments)
        found = headers.get(each.header)
        if value is None:
            if found is not None:
                raise HeaderMismatch(
                    f"{each.name}: expected no such header, as the argument "
                    f"{'.'.join(each.path)} has no value"
                )
            if len(each.path) > 1 and _is_text_before(each.path, arguments):
                raise HeaderMismatch(
                    f"{each.name}: expected objects around the argument {'.'.join(each.path)}, "
                    f"got text"
                )
        elif found is None:
            raise HeaderMismatch(
                f"{each.name}: expected the value of the argument {'.'.join(each.path)}, but the "
                f"header is missing"
            )
        elif not _equals(_decoded(found, each.name), value):
            raise HeaderMismatch(
                f"{each.name}: expected the value of the argument {'.'.join(each.path)}, got "
                f"another"
            )


def _is_text_before(path: tuple[str, ...], arguments: Mapping[str, Any]) -> bool:
    # Validation reads JSON in a text in place of an object; a value found only there would bypass
    # every proxy that relies on its header.
    found: Any = arguments
    for each in path:
        if not is_object(found):
            return isinstance(found, str)
        found = found.get(each)
    return False


_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?")
_LARGEST: Final = 2**53 - 1
"""The largest integer that every implementation of JSON can tell from its neighbours."""


def _equals(text: str, value: Any) -> bool:
    # Compared by the value, not by the type in the schema: validation explains a wrong type to a
    # model better than a header mismatch would.
    written = _written(value)
    if text == written:
        return True
    if written is None or isinstance(value, (str, bool)) or _NUMBER.fullmatch(text) is None:
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
