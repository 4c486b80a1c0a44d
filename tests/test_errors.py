"""The exception tree, and what it becomes at the border."""

from __future__ import annotations

from typing import Any

import pytest

from mcpkit import errors
from mcpkit.errors import (
    InvalidArguments,
    MCPKitError,
    MissingClientCapability,
    ProtocolError,
    PublicError,
    RegistrationError,
    ResourceError,
    ResourceNotFound,
    UnsupportedProtocolVersion,
)


def test_everything_has_one_root_and_only_what_a_client_may_read_is_public() -> None:
    found = [
        each for each in vars(errors).values() if getattr(each, "__module__", "") == "mcpkit.errors"
    ]
    assert all(issubclass(each, MCPKitError) for each in found)
    public = (errors.ToolError, errors.PromptError, ResourceError, InvalidArguments)
    assert all(issubclass(each, PublicError) for each in (*public, ResourceNotFound))
    for private in (ProtocolError, RegistrationError, errors.ConnectionClosed):
        assert not issubclass(private, PublicError)
    assert issubclass(RegistrationError, TypeError)


@pytest.mark.parametrize(
    ("cls", "code"),
    [
        (errors.ParseError, -32700),
        (errors.InvalidRequest, -32600),
        (errors.MethodNotFound, -32601),
        (errors.InvalidParams, -32602),
        (errors.InternalError, -32603),
        (errors.HeaderMismatch, -32020),
        (ProtocolError, -32603),
    ],
)
def test_a_class_has_its_code(cls: type[ProtocolError], code: int) -> None:
    assert cls("no").to_wire() == {"code": code, "message": "no"}
    found = ProtocolError.from_wire({"code": code, "message": "no"})
    assert isinstance(found, cls)
    assert found.code == code


def test_a_code_and_data_may_be_given() -> None:
    sent = ProtocolError("no", code=-32002, data={"uri": "a:b"}).to_wire()
    assert sent == {"code": -32002, "message": "no", "data": {"uri": "a:b"}}
    received = ProtocolError.from_wire({"code": 17, "message": "odd", "data": [1]})
    assert (type(received), received.code, received.message) == (ProtocolError, 17, "odd")
    assert received.data == [1]
    malformed: list[Any] = [{}, [], "-32602", 1.5, None]
    for code in malformed:
        assert ProtocolError.from_wire({"code": code, "message": "odd"}).code == -32603
    assert ProtocolError.from_wire({}).code == -32603


def test_a_code_finds_no_class_that_users_have_derived() -> None:
    class Mine(ProtocolError):
        def __str__(self) -> str:
            raise AttributeError("only what I have raised myself has what this needs")

    received = ProtocolError.from_wire({"code": -32603, "message": "no"})
    assert (type(received), str(received)) == (errors.InternalError, "no")
    assert Mine.CODE == errors.InternalError.CODE


def test_missing_capabilities_and_unsupported_versions_are_named() -> None:
    error = MissingClientCapability({"elicitation": {"url": {}}})
    assert error.to_wire() == {
        "code": -32021,
        "message": "This request needs client capabilities that were not declared: elicitation.url",
        "data": {"requiredCapabilities": {"elicitation": {"url": {}}}},
    }
    wire = UnsupportedProtocolVersion("1999-01-01", ["2026-07-28"]).to_wire()
    assert wire["code"] == -32022
    assert wire["data"] == {"supported": ["2026-07-28"], "requested": "1999-01-01"}


def test_texts() -> None:
    assert str(ResourceNotFound()) == "Resource not found"
    assert str(ResourceNotFound("a:b")) == "Resource not found: a:b"
    assert str(ResourceNotFound("a:b", "Gone.")) == "Gone."
    error = InvalidArguments(["a: x", "b: y"])
    assert str(error) == "a: x\nb: y"
    assert error.problems == ["a: x", "b: y"]
