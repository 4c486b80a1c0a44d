"""Every rule that binds a server is cited by a test.

The rules are those of the protocol digest, sections 2 to 4 and 7.1, whose strength is MUST or MUST
NOT. A test cites a rule in its docstring or in the id of a parameter.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Final

import pytest

TESTS: Final = Path(__file__).parent
RULE: Final = re.compile(r"\b([A-Z]+)-(\d+)(?:…(\d+))?\b")

BINDING: Final[dict[str, str]] = {
    "MSG-1": "messages are JSON-RPC 2.0 in UTF-8",
    "MSG-2": "an id is a string or an integer, and comes back with its type",
    "MSG-4": "an id may be used again once it is answered",
    "MSG-5": "a notification is never answered",
    "MSG-6": "a response has either a result or an error",
    "MSG-7": "an error has the id, an integer code and a short message",
    "MSG-8": "an error without a readable id has none",
    "MSG-9": "batches are accepted in 2025-03-26",
    "MSG-10": "initialize is never in a batch",
    "MSG-13": "a server sends no requests in 2026-07-28",
    "MSG-14": "every result has a resultType in 2026-07-28",
    "META-1": "version and capabilities are required in _meta",
    "META-2": "clientInfo is not",
    "META-3": "nothing is inferred from an earlier request",
    "ERR-1": "no reserved error code with another meaning",
    "ERR-4": "the supported versions agree",
    "ERR-5": "every error has the id, if it was readable",
    "LIFE-1": "initialize comes first",
    "LIFE-2": "a supported version is answered with itself",
    "LIFE-3": "an unsupported one with another, and no error",
    "LIFE-8": "only what was negotiated is used",
    "LIFE-9": "initialize cannot be cancelled",
    "VER-1": "a request is served by its own version",
    "VER-2": "server/discover exists",
    "VER-3": "lists do not depend on the connection or on other requests",
    "DISC-1": "capabilities match what the methods do",
    "DISC-4": "discovery says how long it may be kept",
    "ERA-4": "requests beside a handshake see their own capabilities only",
    "TOOL-1": "tools are declared, or do not exist",
    "TOOL-2": "tools/list is answered",
    "TOOL-5": "an input schema is an object",
    "TOOL-9": "structured content fits the output schema",
    "TOOL-11": "before 2026-07-28 it is an object",
    "TOOL-13": "content is always there",
    "TOOL-16": "inputs are validated",
    "CONT-4": "binary data is base64 with a MIME type",
    "RES-1": "resources are declared, or do not exist",
    "RES-3": "an unknown URI is -32602 in 2026-07-28",
    "RES-5": "and never an empty result",
    "RES-8": "schemes obey RFC 3986",
    "RES-9": "URIs are validated, and paths cannot escape",
    "PROMPT-1": "prompts are declared, or do not exist",
    "PROMPT-3": "arguments are strings",
    "PROMPT-4": "a message has one block",
    "PROMPT-5": "embedded resources are whole",
    "PROMPT-6": "inputs are validated",
    "COMP-1": "completions are declared, or do not exist",
    "COMP-2": "at most a hundred values",
    "COMP-4": "inputs are validated",
    "CACHE-1": "cacheable results say how long they may be kept",
    "CACHE-3": "all pages have the same scope",
    "LOG-1": "logging is declared",
    "LOG-4": "nothing is logged to a request that did not ask",
    "LOG-5": "and only to it, before its response",
    "PROG-1": "progress has a token that was supplied",
    "PROG-2": "it increases",
    "PROG-3": "it ends with the request",
    "PROG-4": "it goes to its request",
    "CANC-3": "answer and cancellation may cross",
    "CANC-4": "nothing more is sent for a cancelled request",
    "CANC-7": "a server cancels nothing but streams of changes",
    "PING-1": "ping is answered at any time",
    "SUB-1": "the acknowledgement comes first",
    "SUB-2": "it has what will be honoured",
    "SUB-3": "nothing is sent that was not asked for",
    "SUB-4": "every message has the id of its subscription",
    "SUB-5": "neither progress nor logs are carried",
    "SUB-7": "the server ends a stream with a cancellation on stdio",
    "SUB-9": "nothing is kept after the end",
    "STDIO-1": "one message is one line in UTF-8",
    "STDIO-2": "nothing else reaches stdout",
    "STDIO-7": "no requests on stdout in 2026-07-28",
}

ELSEWHERE: Final[dict[str, str]] = {
    "MSG-3": "binds who sends requests: of a server, its questions to the client",
    "MSG-15": "binds the client",
    "VER-4": "binds what keeps state across requests: questions to the client and tasks",
    "TOOL-17": "arguments are validated by the types of the signature; no JSON Schema is followed",
    "TOOL-19": "as above: no schema, and so no dialect, is ever evaluated",
    "PAGE-1": "binds the client",
    "CACHE-2": "binds results that ask the client for input",
    "CACHE-4": "a rule about what authorization relies on",
    "CACHE-6": "binds the client",
    "LOG-7": "binds the author of a server; mcpkit logs nothing to clients by itself",
    "PROG-6": "binds tasks",
    "CANC-5": "binds HTTP",
    "CANC-8": "binds tasks",
    "SUB-10": "binds tasks",
}
"""Rules of these sections that no test here needs to cite, and why."""


@cache
def cited() -> frozenset[str]:
    """Every rule that the text of a test names, ranges such as RES-3…5 included."""
    found: set[str] = set()
    for path in TESTS.rglob("test_*.py"):
        if path == Path(__file__):
            continue
        for family, first, last in RULE.findall(path.read_text(encoding="utf-8")):
            found.update(
                f"{family}-{number}" for number in range(int(first), int(last or first) + 1)
            )
    return frozenset(found)


@pytest.mark.parametrize("rule", BINDING)
def test_a_test_cites_it(rule: str) -> None:
    assert rule in cited(), f"no test cites {rule}: {BINDING[rule]}"


def test_a_rule_is_either_binding_or_excused() -> None:
    assert not set(BINDING) & set(ELSEWHERE)
