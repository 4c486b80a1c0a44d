"""Every rule that binds a server is cited by a test.

The rules are those of the protocol digest, sections 2 to 4, 6, 8, 10 and 11, whose strength is MUST
or MUST NOT; those of era selection, HTTP, authorization and security are here whatever their
strength. A test cites a rule in its docstring or in the id of a parameter.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Set
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

Function: TypeAlias = "ast.FunctionDef | ast.AsyncFunctionDef"

ALWAYS_CHECKING: Final = {"TappedClient", "client", "connect"}
"""What holds everything that arrives against the official schema."""

TESTS: Final = Path(__file__).parent
RULE: Final = re.compile(r"\b([A-Z]+)-(\d+)(?:…(\d+))?\b")

BINDING: Final[dict[str, str]] = {
    "MSG-1": "messages are JSON-RPC 2.0 in UTF-8",
    "MSG-2": "an id is a string or an integer, and comes back with its type",
    "MSG-3": "an id is not used twice at a time",
    "MSG-4": "an id may be used again once it is answered",
    "MSG-5": "a notification is never answered",
    "MSG-6": "a response has either a result or an error",
    "MSG-7": "an error has the id, an integer code and a short message",
    "MSG-8": "an error without a readable id has none",
    "MSG-9": "batches are accepted in 2025-03-26",
    "MSG-10": "initialize is never in a batch",
    "MSG-13": "a server sends no requests in 2026-07-28",
    "MSG-14": "every result has a resultType in 2026-07-28",
    "MSG-15": "a result without a resultType is complete, and one of an unknown type an error",
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
    "ERA-1": "methods of handshakes do not exist in requests that announce themselves",
    "ERA-2": "a version that needs a handshake is told to begin with one",
    "ERA-3": "cancellations have no mark of their era",
    "ERA-4": "requests beside a handshake see their own capabilities only",
    "ERA-5": "session ids and event ids are ignored in 2026-07-28, and never given",
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
    "PAGE-1": "a cursor is opaque, and a list ends only without one",
    "CACHE-1": "cacheable results say how long they may be kept",
    "CACHE-2": "what asks for input is never kept",
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
    "CANC-5": "who leaves a request of 2026-07-28 cancels it",
    "CANC-6": "who leaves an earlier one does not",
    "HTTPL-1": "a POST has one message, and accepts JSON and event streams",
    "HTTPL-2": "what wants no answer is 202 without a body, or a 4xx",
    "HTTPL-3": "a request is answered with one object or a stream",
    "HTTPL-4": "a stream has what belongs to its request, and ends with the answer",
    "HTTPL-5": "only 2025-11-25 has streams that are closed before their end",
    "HTTPL-6": "and events without data",
    "HTTPL-7": "and tells when to come back",
    "HTTPL-8": "a GET opens a stream",
    "HTTPL-9": "no answer comes on it",
    "HTTPL-10": "what comes on it belongs to no request",
    "HTTPL-11": "each message goes to one stream",
    "HTTPL-12": "event ids are unique in a session",
    "HTTPL-13": "what is fetched again is of the same stream",
    "HTTPL-14": "a session id is visible ASCII",
    "HTTPL-15": "without one, only initialize is served",
    "HTTPL-16": "one that is unknown is 404",
    "HTTPL-17": "a session that was deleted is unknown",
    "HTTPL-18": "a version that no handshake has is 400",
    "HTTPL-19": "a client sends the version that was negotiated",
    "HTTPL-20": "who leaves does not cancel",
    "HTTPL-21": "foreign pages are refused",
    "HTTPL-22": "a session has one stream of a GET",
    "HTTPL-23": "nothing is left out for want of a stream",
    "HTTPL-24": "sessions expire, and what is kept of them is bounded",
    "HTTPM-1": "one request or notification in a body",
    "HTTPM-2": "headers repeat version, method and name",
    "HTTPM-3": "their names have no case, their values have",
    "HTTPM-4": "values may be wrapped in base64",
    "HTTPM-5": "an unknown method is 404",
    "HTTPM-6": "a version that differs or is unsupported is 400",
    "HTTPM-7": "and so is missing _meta",
    "HTTPM-8": "a notification is 202 or a 4xx",
    "HTTPM-9": "no requests on any stream",
    "HTTPM-10": "a stream has what belongs to its request, and ends with the answer",
    "HTTPM-11": "proxies are told to pass events on",
    "HTTPM-12": "comments keep a stream",
    "HTTPM-13": "who leaves cancels, and cannot come back",
    "HTTPM-14": "no GET, no DELETE",
    "HTTPM-15": "the status is chosen as late as possible",
    "HTTPM-16": "no version and no session is 400",
    "HTTPM-17": "requests run beside each other",
    "HDR-1": "the name of a header is a token, and unique",
    "HDR-2": "it is declared on scalars that properties lead to",
    "HDR-3": "a tool that breaks this is not registered",
    "HDR-4": "header and argument are equal, or neither is there",
    "HDR-5": "numbers are compared as numbers",
    "HDR-6": "what a header cannot carry is wrapped",
    "HDR-7": "other headers are ignored",
    "SSE-1": "two endpoints",
    "SSE-2": "the first event names the second of them",
    "SSE-3": "all messages come on the stream",
    "SSE-4": "a POST is 202, 400 or 404",
    "SSE-5": "foreign pages are refused",
    "SSE-6": "a session lives as long as its stream",
    "SSE-7": "comments keep it, and proxies are told to pass it on",
    "SSE-8": "any handshake revision may be negotiated",
    "SSE-9": "both are there beside the endpoint of today",
    "SEC-1": "the origin of every request is checked",
    "SEC-2": "a server listens on loopback, unless told otherwise",
    "SEC-3": "and then answers to loopback names only",
    "CACHE-4": "what one may see is kept for nobody else",
    "AUTH-1": "no request without a valid token",
    "AUTH-2": "there is metadata, which names an authorization server",
    "AUTH-3": "and a challenge says where",
    "AUTH-4": "or its address follows from that of the endpoint",
    "AUTH-5": "a challenge names the scopes that are needed",
    "AUTH-6": "and so does one for a token that has too few",
    "AUTH-7": "scopes may imply others",
    "AUTH-8": "tokens for others are refused",
    "AUTH-9": "a token is passed on to nobody",
    "AUTH-10": "tokens in queries as well",
    "AUTH-11": "nobody is asked to stay offline",
    "AUTH-12": "malformed credentials are 400",
    "AUTH-13": "the URL of a server is written in one way",
    "AUTH-14": "metadata is for everybody",
    "AUTH-15": "each client is consented to, also where all of them are one to a provider",
    "AUTH-16": "all that makes a token valid is checked",
    "AUTH-17": "what is kept belongs to issuer and subject",
    "SEC-4": "clients are authenticated",
    "SEC-5": "a session id is no authentication",
    "SEC-6": "it is unguessable, and of no use to others",
    "SEC-7": "nothing of a session reaches another",
    "SEC-8": "state that a client carries is sealed",
    "SEC-9": "ids of tasks cannot be guessed, and belong to somebody",
    "SEC-10": "inputs are validated, and rates are limited",
    "SEC-11": "paths cannot escape",
    "SEC-13": "no values in what is said of headers",
    "SEC-14": "headers and body agree",
    "SEC-15": "nothing is decided by what a client says of itself",
    "SEC-16": "what is secret travels over HTTPS",
    "SEC-17": "everything has a limit",
    "SEC-18": "no line breaks in headers",
    "SEC-19": "a client opens nothing by itself but web addresses for logins, and without a shell",
    "PROG-6": "a task of 2026-07-28 reports no progress and logs nothing",
    "CANC-8": "a task is cancelled by tasks/cancel, and by nothing else",
    "SUB-10": "only clients with the extension listen to tasks",
    "TASKL-1": "what is supported is declared",
    "TASKL-2": "without the capability a wish for a task is ignored",
    "TASKL-3": "a tool says whether it runs as a task, and keeps to it",
    "TASKL-4": "who wishes for a task gets it at once",
    "TASKL-5": "what is over stays so",
    "TASKL-6": "tasks/result waits, and has what the call would have had",
    "TASKL-7": "a failed tool is a failed task",
    "TASKL-8": "messages that belong to a task say so",
    "TASKL-9": "questions go along with tasks/result",
    "TASKL-10": "times are in every answer",
    "TASKL-11": "cancelled before the answer, and once",
    "TASKL-12": "unknown ids and bad cursors are refused",
    "TASKL-13": "tasks belong to whoever has made them",
    "TASKL-15": "everything has a limit",
    "TASKX-1": "the extension is declared as one",
    "TASKX-2": "only requests that know the extension become tasks",
    "TASKX-3": "a tool that needs it says so",
    "TASKX-4": "so do the methods of tasks, before all else",
    "TASKX-5": "only calls become tasks, and only their answer says so",
    "TASKX-6": "a task is there when it is told of",
    "TASKX-7": "all open questions, under keys that are used once",
    "TASKX-8": "failed is what failed as JSON-RPC has it",
    "TASKX-9": "answers to nothing are passed over",
    "TASKX-10": "unknown ids are refused",
    "TASKX-11": "cancelling is cooperative, and may be repeated",
    "TASKX-12": "methods of the other shape are unknown",
    "TASKX-13": "members are those of this shape",
    "TASKX-14": "the header names the task",
    "TASKX-15": "rounds come before the task",
    "TASKX-16": "ids cannot be guessed, and are checked each time",
    "TASKX-17": "nothing is forgotten early, and polling has a limit",
    "TASKX-18": "one era declares nothing for the other",
}

OF_CLIENTS: Final = {
    "AUTH-3": "the metadata are found by the challenge",
    "AUTH-4": "or at well-known addresses",
    "AUTH-5": "the scopes of the challenge are asked for",
    "AUTH-6": "and those that are missing later, with those that were there",
    "AUTH-8": "the server is named in requests for tokens",
    "AUTH-9": "a token goes to its server, and to nobody else",
    "AUTH-10": "in a header, and never in an address",
    "AUTH-11": "staying offline is between client and issuer",
    "AUTH-12": "what is forbidden is not asked for again",
    "AUTH-13": "servers are known by their canonical address",
    "AUTH-16": "what is kept is for its user alone, and in no log",
    "AUTH-17": "and belongs to its issuer",
    "SEC-2": "the browser comes back to loopback",
    "SEC-11": "addresses lead to no other files",
    "SEC-13": "nothing secret is told",
    "SEC-16": "nor sent in the open",
    "SEC-17": "nothing grows, and nobody waits, without end",
    "SEC-18": "no line breaks in headers",
    "SEC-19": "nothing but web addresses is opened, and without a shell",
}
"""What rules about authorization mean to a client: tests in ``auth/client`` cite them."""

ELSEWHERE: Final[dict[str, str]] = {
    "VER-4": "binds what keeps state across requests: questions to the client and tasks",
    "TOOL-17": "arguments are validated by the types of the signature; no JSON Schema is followed",
    "TOOL-19": "as above: no schema, and so no dialect, is ever evaluated",
    "CACHE-6": "binds the client",
    "LOG-7": "binds the author of a server; mcpkit logs nothing to clients by itself",
    "SEC-12": "no schema that comes from outside is ever evaluated",
    "SEC-20": "binds whoever chooses a transport",
}
"""Rules of these sections that no test here needs to cite, and why."""


def rules_in(text: str) -> set[str]:
    """Every rule that a text names, ranges such as RES-3…5 included."""
    return {
        f"{family}-{number}"
        for family, first, last in RULE.findall(text)
        for number in range(int(first), int(last or first) + 1)
    }


def functions_in(tree: ast.AST) -> Iterator[tuple[ast.AST, Function]]:
    """The functions of a module, nested ones too, each with what it stands in."""
    waiting = [tree]
    while waiting:
        parent = waiting.pop()
        for child in ast.iter_child_nodes(parent):
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
                yield parent, child
            if isinstance(child, (ast.stmt, ast.excepthandler, ast.match_case)):
                waiting.append(child)  # no function stands inside an expression


class Seen(NamedTuple):
    """What is kept of a function; the trees of all tests would be looked through for garbage.

    Attributes:
        path: The file that it is in.
        name: Its name.
        fails: Whether it has a check of its own: an ``assert``, or an exception that must come.
        uses: The functions that it may call, and the fixtures that it asks for.
        rules: The rules that it cites, if it is a test.
    """

    path: Path
    name: str
    fails: bool
    uses: frozenset[str]
    rules: frozenset[str]


def seen(path: Path, function: Function, rules: Set[str]) -> Seen:
    """Read a function."""
    arguments = function.args
    uses = {each.arg for each in (*arguments.args, *arguments.kwonlyargs)}
    fails = False
    for node in ast.walk(function):
        if isinstance(node, ast.Name):
            uses.add(node.id)
            fails |= node.id == "AssertionError"
        elif isinstance(node, ast.Attribute):
            uses.add(node.attr)
            fails |= node.attr in ("raises", "warns", "fail")
        elif isinstance(node, ast.Assert):
            fails = True
    return Seen(path, function.name, fails, frozenset(uses), frozenset(rules))


def rules_of(parent: ast.AST, test: Function, constants: Mapping[str, ast.expr]) -> set[str]:
    """The rules in a test's docstring, in its decorators, and in the values these refer to."""
    said = [ast.get_docstring(test) or ""]
    if isinstance(parent, ast.ClassDef):
        said.append(ast.get_docstring(parent) or "")
    for decorator in test.decorator_list:
        said.append(ast.unparse(decorator))
        said += [
            ast.unparse(constants[node.id])
            for node in ast.walk(decorator)
            if isinstance(node, ast.Name) and node.id in constants
        ]
    return rules_in("\n".join(said))


def constants_in(tree: ast.AST) -> dict[str, ast.expr]:
    """The values that are given names, wherever in a module."""
    found: dict[str, ast.expr] = {}
    waiting = [tree]
    while waiting:
        for node in ast.iter_child_nodes(waiting.pop()):
            if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
                for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                    if isinstance(target, ast.Name):
                        found[target.id] = node.value
            elif isinstance(node, (ast.stmt, ast.excepthandler, ast.match_case)):
                waiting.append(node)  # nothing is assigned so inside an expression
    return found


@cache
def functions() -> tuple[Seen, ...]:
    """The functions of all tests."""
    found: list[Seen] = []
    for path in TESTS.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        cites = path.name.startswith("test_") and path != Path(__file__)
        constants = constants_in(tree) if cites else {}
        for parent, function in functions_in(tree):
            is_test = cites and function.name.startswith("test_")
            rules = rules_of(parent, function, constants) if is_test else set[str]()
            found.append(seen(path, function, rules))
    return tuple(found)


@cache
def checking_functions() -> frozenset[str]:
    """The names of functions that check something, or use something that does."""
    checking = ALWAYS_CHECKING | {each.name for each in functions() if each.fails}
    using: dict[str, set[str]] = defaultdict(set)
    for each in functions():
        using[each.name] |= each.uses
    while more := {name for name, used in using.items() if used & checking} - checking:
        checking |= more
    return frozenset(checking)


def cited(folder: Path = TESTS) -> set[str]:
    """Every rule that a test in a folder names which can fail.

    It can fail if it checks something, or something that it uses does.
    """
    checking = checking_functions()
    return {
        rule
        for each in functions()
        if each.name in checking and each.path.is_relative_to(folder)
        for rule in each.rules
    }


def test_every_rule_is_cited_by_a_test_that_can_fail() -> None:
    missing = BINDING.keys() - cited()
    assert {rule: BINDING[rule] for rule in sorted(missing)} == {}


def test_every_rule_about_authorization_is_tried_on_clients_too() -> None:
    missing = OF_CLIENTS.keys() - cited(TESTS / "auth" / "client")
    assert {rule: OF_CLIENTS[rule] for rule in sorted(missing)} == {}


def test_no_excuse_is_obsolete() -> None:
    assert ELSEWHERE.keys() & cited() == set()
