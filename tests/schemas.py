"""What a server sends, held against the official JSON Schema of a revision.

`check` is for every test that looks at the wire. The schemas are stored as published, with one
correction (`_corrected`); they leave objects open, so a member too many is not noticed here. The
tasks extension has definitions beside them, written after its text.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, NoReturn

import jsonschema  # type: ignore[import-untyped]

DATA: Final = Path(__file__).parent / "data"

_SHOWN: Final = 600
_BATCHES: Final = "2025-03-26"
"""The revision in which an array of messages is a message (MSG-9)."""

_EXTENDED: Final = "2026-07-28"
"""The revision that the tasks extension is one of; its definitions follow the extension's text."""

_RESULTS_OF_EXTENSION: Final = {
    "tasks/get": "TasksExtensionState",
    "tasks/update": "TasksExtensionDone",
    "tasks/cancel": "TasksExtensionDone",
}

_RESERVED: Final = range(-32099, -32019)
"""The codes that only the specification may give a meaning (ERR-1)."""


def check(message: bytes | dict[str, Any], version: str, method: str | None = None) -> None:
    """Hold one message from a server against the schema of a revision.

    Responses, errors, notifications and requests to the client are told apart by their members. A
    result may be any that its request can have: also a ``CreateTaskResult`` for a task, or an
    ``InputRequiredResult``. Errors with a code that the revision defines must have its shape.

    Args:
        message: The text as it was sent, or the object in it.
        version: The revision that the message belongs to.
        method: Of the request that a response answers; without it only the envelope is checked.

    Raises:
        AssertionError: With the path to what is wrong, and the message.
    """
    value = message if isinstance(message, dict) else _parse(message)
    if isinstance(value, list):
        if version != _BATCHES:
            _fail(f"{version} has no batches", value)
        if not value:
            _fail("an empty batch", value)
        for part in value:
            _check_message(part, version, method)
    else:
        _check_message(value, version, method)


def check_value(value: object, version: str, definition: str) -> None:
    """Hold any JSON value against one named definition, such as ``Tool``.

    Raises:
        AssertionError: As `check`, also if the revision has no such definition.
    """
    assert definition in definitions(version), f"{version} defines no {definition}"
    try:
        known = (version, definition, json.dumps(value))
    except (TypeError, ValueError):
        known = None
    if known in _SOUND:
        return
    error = jsonschema.exceptions.best_match(_validator(version, definition).iter_errors(value))
    if error is not None:
        reasons = [error.message, *(each.message for each in error.context[:4])]
        where = f"{definition} of {version}, at {error.json_path}"
        _fail(f"not a {where}: " + "\n  ".join(reasons), value)
    if known is not None:
        _SOUND.add(known)


_SOUND: Final[set[tuple[str, str, str]]] = set()
"""What has been found to be as it should; servers say the same again and again."""


@cache
def definitions(version: str) -> Mapping[str, Any]:
    """The definitions of a revision's schema, by name."""
    schema = _schema(version)
    found: Mapping[str, Any] = schema.get("$defs") or schema["definitions"]
    return found


# --- the three kinds of message -------------------------------------------------------------------


def _check_message(value: object, version: str, method: str | None) -> None:
    if not isinstance(value, dict):
        _fail("not an object", value)
    if "method" in value:
        _check_call(value, version)
    elif "error" in value:
        _check_error(value, version)
    else:
        _check_result(value, version, method)


def _check_call(value: dict[str, Any], version: str) -> None:
    kind = "Request" if "id" in value else "Notification"
    _alone(value, "method", ("result", "error"))
    check_value(value, version, f"JSONRPC{kind}")
    definition = _by_method(version, f"Server{kind}").get(value["method"])
    if (value["method"], version) == ("notifications/tasks", _EXTENDED):
        definition = "TasksExtensionNotification"
    if definition is None:
        _fail(f"{version} has no {kind.lower()} {value['method']!r} from a server", value)
    check_value(value, version, definition)


def _check_error(value: dict[str, Any], version: str) -> None:
    _alone(value, "error", ("result",))
    known = definitions(version)
    envelope = "JSONRPCErrorResponse" if "JSONRPCErrorResponse" in known else "JSONRPCError"
    check_value(value, version, envelope)
    code = value["error"]["code"]
    shape = _errors(version).get(code)
    if shape is not None:
        check_value(
            value if "error" in known[shape]["properties"] else value["error"], version, shape
        )
    elif _stamped(version) and (code in _RESERVED or code == -32002):
        _fail(f"{version} reserves or forbids the error code {code}", value)


def _check_result(value: dict[str, Any], version: str, method: str | None) -> None:
    known = definitions(version)
    envelope = "JSONRPCResultResponse" if "JSONRPCResultResponse" in known else "JSONRPCResponse"
    check_value(value, version, envelope)
    if method is not None:
        check_value(value["result"], version, _result_of(value["result"], version, method))


def _result_of(result: dict[str, Any], version: str, method: str) -> str:
    if version == _EXTENDED:
        if method in _RESULTS_OF_EXTENSION:
            return _RESULTS_OF_EXTENSION[method]
        if method == "tools/call" and result["resultType"] == "task":
            return "TasksExtensionCreated"
    request = _by_method(version, "ClientRequest").get(method)
    if request is None:
        _fail(f"{version} has no request {method!r}, so it has no result", result)
    known = definitions(version)
    name = request.removesuffix("Request") + "Result"
    if _stamped(version):
        kind = result["resultType"]
        if kind == "input_required":
            if "InputRequiredResult" not in json.dumps(known.get(name + "Response")):
                _fail(f"{method} cannot ask for input", result)
            if not {"inputRequests", "requestState"} & set(result):
                _fail("input_required with neither inputRequests nor requestState", result)
            return "InputRequiredResult"
        if kind != "complete":
            _fail(f"{version} has no resultType {kind!r}", result)
    elif method == "tools/call" and "content" not in result and "CreateTaskResult" in known:
        return "CreateTaskResult"
    return name if name in known else "EmptyResult"


def _alone(value: dict[str, Any], member: str, others: tuple[str, ...]) -> None:
    for other in others:
        if other in value:
            _fail(f'both "{member}" and "{other}"', value)


# --- what a schema says ---------------------------------------------------------------------------


@cache
def _schema(version: str) -> Mapping[str, Any]:
    path = DATA / "schemas" / f"{version}.json"
    schema: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    if version == _EXTENDED:
        extension = path.with_name("tasks-extension.json")
        schema["$defs"].update(json.loads(extension.read_text(encoding="utf-8")))
    return _corrected(schema)


def _corrected(schema: dict[str, Any]) -> dict[str, Any]:
    """A form may be answered with any number; the schemas were generated with integers only."""
    known = schema.get("$defs") or schema["definitions"]
    if "ElicitResult" in known:
        values = known["ElicitResult"]["properties"]["content"]["additionalProperties"]
        for option in values.get("anyOf", [values]):
            if isinstance(option.get("type"), list):
                option["type"] = [{"integer": "number"}.get(each, each) for each in option["type"]]
    return schema


@cache
def _stamped(version: str) -> bool:
    """Whether every result has a ``resultType`` (MSG-14)."""
    return "resultType" in definitions(version)["Result"].get("required", ())


@cache
def _by_method(version: str, union: str) -> Mapping[str, str]:
    """The definitions in a union of requests or notifications, by their method."""
    known = definitions(version)
    names = (each["$ref"].rpartition("/")[2] for each in known.get(union, {}).get("anyOf", ()))
    return {known[name]["properties"]["method"]["const"]: name for name in names}


@cache
def _errors(version: str) -> Mapping[int, str]:
    """The definitions of errors, by the code that they are for."""
    found = {}
    for name, definition in definitions(version).items():
        if name.endswith("Error"):
            code = re.search(r'"const": (-\d+)', json.dumps(definition))
            if code is not None:
                found[int(code[1])] = name
    return found


# --- the validator --------------------------------------------------------------------------------


def _is_uri(value: object) -> bool:
    return not isinstance(value, str) or re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", value) is not None


def _is_base64(value: object) -> bool:
    return not isinstance(value, str) or base64.b64decode(value, validate=True) is not None


def _is_integer(_checker: object, value: object) -> bool:
    """JSON Schema lets 1.0 pass as an integer; clients in typed languages do not."""
    return isinstance(value, int) and not isinstance(value, bool)


def _strict(draft: Any) -> Any:
    checker = draft.TYPE_CHECKER.redefine("integer", _is_integer)
    return jsonschema.validators.extend(draft, type_checker=checker)


_FORMATS: Final = jsonschema.FormatChecker(formats=())
_FORMATS.checks("uri")(_is_uri)
_FORMATS.checks("byte", raises=binascii.Error)(_is_base64)

_DRAFTS: Final[Mapping[str, Any]] = {
    "definitions": _strict(jsonschema.Draft7Validator),
    "$defs": _strict(jsonschema.Draft202012Validator),
}


@cache
def _validator(version: str, definition: str) -> Any:
    place = "$defs" if "$defs" in _schema(version) else "definitions"
    schema = {"$ref": f"#/{place}/{definition}", place: definitions(version)}
    return _DRAFTS[place](schema, format_checker=_FORMATS)


def _parse(text: bytes) -> Any:
    """The value in a text that is JSON in the narrow sense: UTF-8, no NaN, no name twice."""
    try:
        return json.loads(
            text.decode("utf-8"), parse_constant=_no_constant, object_pairs_hook=_no_name_twice
        )
    except ValueError as error:
        raise AssertionError(f"not JSON: {error}\n{text[:_SHOWN]!r}") from None


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _no_name_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"a name occurs twice among {names}")
    return value


def _fail(what: str, value: object) -> NoReturn:
    text = json.dumps(value, ensure_ascii=False, default=repr)
    shown = text if len(text) <= _SHOWN else text[:_SHOWN] + " …"
    raise AssertionError(f"{what}\n{shown}")
