"""What a client receives, as Python values."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from mcpkit._utils.json import UNSET
from mcpkit.client.results import (
    CallResult,
    Completion,
    ListedPrompt,
    ListedResource,
    ListedTemplate,
    ListedTool,
    PromptArgument,
    PromptMessages,
    parse,
)
from mcpkit.types import (
    Annotations,
    EmbeddedResource,
    Icon,
    ImageContent,
    TextContent,
    TextResourceContents,
    ToolAnnotations,
)

TEXT = {"type": "text", "text": "one"}
IMAGE = {"type": "image", "data": "AA==", "mimeType": "image/png"}
NOTE = {"type": "resource", "resource": {"uri": "a://b", "text": "two"}}


def called(**members: Any) -> CallResult:
    return CallResult.from_wire({"content": [], **members})


# --- calls ----------------------------------------------------------------------------------------


def test_content_becomes_blocks_with_their_text() -> None:
    raw = {"content": [TEXT, IMAGE, NOTE], "invented": 1}
    result = CallResult.from_wire(raw)
    assert result.content == [
        TextContent("one"),
        ImageContent(b"\0", "image/png"),
        EmbeddedResource(TextResourceContents("a://b", "two")),
    ]
    assert result.text == "one\ntwo"
    assert called(content=[IMAGE]).text == ""
    assert result.raw is raw


def test_other_members_have_defaults() -> None:
    """TOOL-12."""
    assert (called().is_error, called().meta) == (False, {})
    found = called(isError=True, _meta={"a": 1})
    assert (found.is_error, found.meta) == (True, {"a": 1})
    assert called().structured_content is UNSET
    assert called(structuredContent=None).structured_content is None


@pytest.mark.parametrize(
    ("sent", "data"),
    [
        ({}, None),
        ({"structuredContent": {"n": 1}}, {"n": 1}),
        ({"structuredContent": {"result": [1]}}, [1]),
        ({"structuredContent": {"result": None}}, None),
        ({"structuredContent": {"result": 1, "n": 2}}, {"result": 1, "n": 2}),
        ({"structuredContent": {"result": 1}, "resultType": "complete"}, 1),
        ({"structuredContent": [1], "resultType": "complete"}, [1]),
    ],
    ids=["none", "object", "wrapped", "null", "more members", "modern", "raw"],
)
def test_data_is_without_the_wrapper(sent: dict[str, Any], data: object) -> None:
    """TOOL-11, TOOL-12."""
    assert called(**sent).data == data


# --- lists ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "raw", "members"),
    [
        (ListedTool, {"name": "add", "inputSchema": {}}, ["add", None, None, {}, None, None]),
        (
            ListedTool,
            {
                "name": "add",
                "title": "Adder",
                "description": "Add.",
                "inputSchema": {"type": "object"},
                "outputSchema": {"type": "integer"},
                "annotations": {"readOnlyHint": True},
                "icons": [{"src": "https://example.com/a.png"}],
            },
            [
                *("add", "Adder", "Add.", {"type": "object"}, {"type": "integer"}),
                ToolAnnotations(read_only=True),
                [Icon("https://example.com/a.png")],
            ],
        ),
        (
            ListedResource,
            {"uri": "a://b", "name": "b", "size": 3, "annotations": {"priority": 0.5}},
            ["a://b", "b", None, None, None, 3, Annotations(priority=0.5)],
        ),
        (
            ListedTemplate,
            {"uriTemplate": "a://{b}", "name": "b", "mimeType": "text/plain"},
            ["a://{b}", "b", None, None, "text/plain"],
        ),
        (ListedPrompt, {"name": "p"}, ["p", None, None, []]),
        (
            ListedPrompt,
            {"name": "p", "arguments": [{"name": "b"}]},
            ["p", None, None, [PromptArgument("b", None, None, required=False)]],
        ),
    ],
)
def test_entries_of_lists(kind: Any, raw: Any, members: list[Any]) -> None:
    found = kind.from_wire(raw)
    names = [each.name for each in fields(kind)][: len(members)]
    assert [getattr(found, name) for name in names] == members
    assert found.raw is raw


# --- prompts and completion -----------------------------------------------------------------------


def test_messages_have_a_role_and_a_text_and_completions_defaults() -> None:
    messages = [{"role": "user", "content": TEXT}, {"role": "assistant", "content": IMAGE}]
    found = PromptMessages.from_wire({"messages": messages}).messages
    assert [(each.role, each.text) for each in found] == [("user", "one"), ("assistant", "")]
    completion = Completion.from_wire({"completion": {"values": ["a"]}})
    assert completion == Completion(["a"], None, has_more=False)


# --- malformed results ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "raw",
    [
        {},
        {"content": None},
        {"content": [7]},
        {"content": [{}]},
        {"content": [{"type": "text"}]},
        {"content": [{"type": "hologram"}]},
        {"content": [{"type": "image", "data": "?", "mimeType": "image/png"}]},
    ],
    ids=str,
)
def test_a_malformed_result_is_a_value_error(raw: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="tools/call"):
        parse(CallResult.from_wire, raw, "tools/call")
