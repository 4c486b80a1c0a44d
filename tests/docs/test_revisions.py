"""The tables of "Which revision does what" say what the revisions' own files say."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import pytest

from mcpkit._protocol.revisions import REVISIONS, Revision
from tests.docs.pages import DOCS

PAGE: Final = (DOCS / "revisions.md").read_text(encoding="utf-8")
ROWS: Final = {
    cells[0].strip(): [cell.strip() for cell in cells[1:]]
    for line in PAGE.splitlines()
    if line.startswith("| ") and not line.startswith("| | ")
    for cells in [re.split(r"(?<!\\)\|", line.strip("| "))]
}

Answer = Callable[[Revision], Any]


def method(name: str) -> Answer:
    return lambda revision: name in revision.methods


def member(name: str) -> Answer:
    return lambda revision: name in revision.tool_members


def block(kind: str) -> Answer:
    return lambda revision: kind in revision.content_types


ANSWERS: Final[dict[str, Answer]] = {
    "a handshake (`initialize`) comes first": lambda revision: revision.handshake,
    "every request says version and capabilities": lambda revision: not revision.handshake,
    "`server/discover`": method("server/discover"),
    "`ping`": method("ping"),
    "several messages in one (batches)": lambda revision: revision.batching,
    "tools, resources, prompts, completion": lambda revision: (
        {"tools/call", "resources/read", "prompts/get", "completion/complete"}
        <= revision.methods.keys()
    ),
    "hints of tools (`read_only` and so on)": member("annotations"),
    "structured results and output schemas": lambda revision: {
        "none": False,
        "object": "objects",
        "any": "any value",
    }[revision.structured_output],
    "titles": member("title"),
    "icons": member("icons"),
    "the server's description and website": lambda revision: (
        {"description", "websiteUrl"} <= revision.implementation_members
    ),
    "`_meta` on what is listed and on blocks": lambda revision: revision.block_meta,
    "audio": block("audio"),
    "links to resources": block("resource_link"),
    "`last_modified`": lambda revision: "lastModified" in revision.annotation_members,
    "messages with progress": lambda revision: revision.progress_message,
    "other arguments known to completion": lambda revision: revision.completion_context,
    "how long lists and resources may be kept": lambda revision: revision.stamped,
    "the code of a resource that is not there": lambda revision: str(revision.resource_not_found),
    "a question to the client is": lambda revision: f"a {revision.client_asks}",
    "forms for the user": lambda revision: "form" in revision.elicitation_modes,
    "defaults, titles, choices of several in forms": lambda revision: revision.elicitation_rich,
    "pages for the user to open": lambda revision: "url" in revision.elicitation_modes,
    "telling that such a page is done": lambda revision: revision.elicitation_ids,
    "sampling": lambda revision: bool(revision.sampling_types),
    "sampling with tools": lambda revision: revision.sampling_tools,
    "hearing that the roots have changed": lambda revision: (
        "roots_changed" in revision.notices.values()
    ),
    "`logging/setLevel`, for all that follows": method("logging/setLevel"),
    "a log level with each request": lambda revision: "logging/setLevel" not in revision.methods,
    "`resources/subscribe`": method("resources/subscribe"),
    "`subscriptions/listen`": method("subscriptions/listen"),
    "[tasks](tasks.md)": lambda revision: {
        "none": "–",
        "wished": "where the client wishes for one",
        "extension": "where the client has the extension",
    }[revision.tasks],
    "a client comes back to a closed stream by itself": lambda revision: revision.polling,
}

OF_THE_SPECIFICATION: Final = {
    "roots",
    "addresses",
    "sessions",
    "what belongs to no call comes by",
    "a lost stream can be taken up again",
    "closing the response cancels the call",
}
"""Rows that no answer of a revision's file decides."""


def test_the_columns_are_the_revisions() -> None:
    headings = [line for line in PAGE.splitlines() if line.startswith("| | ")]
    wanted = "| | " + " | ".join(each.version for each in REVISIONS) + " |"
    assert set(headings) == {wanted}


def test_every_row_is_accounted_for() -> None:
    assert set(ROWS) - OF_THE_SPECIFICATION == set(ANSWERS)


@pytest.mark.parametrize("row", ANSWERS)
def test_a_row_says_what_the_revisions_say(row: str) -> None:
    marks = {True: "✔", False: "–"}
    said = [ANSWERS[row](revision) for revision in REVISIONS]
    assert ROWS[row] == [marks.get(each, each) for each in said]
