"""``mcpkit inspect``, as a process, and the estimate of tokens that it shows."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpkit.cli._token_estimate import estimate, tool_tokens
from tests.cli.commands import MCPKIT, OFFERING, at_terminal, mcpkit
from tests.transports.processes import started


@pytest.fixture(scope="module")
def page() -> str:
    """What it says of a server, in a pipe."""
    return mcpkit("inspect", OFFERING, env={"COLUMNS": "100"}).output


SAID = {
    "the server": "offering 1.2  All there is\n",
    "capabilities": "  capabilities: tools (listChanged), resources (subscribe, listChanged), ",
    "how many tools": "\nTools  18, together about ",
    "a tool": " tokens  read-only\n    Search for a place to stay.\n",
    "a destructive tool": " tokens  destructive\n    Book a room, after asking.\n",
    "limits and default": "    nights  integer, 1 to 30, default 2              How many nights.\n",
    "a list": "    tags    list of strings, default []              What the place must have.\n",
    "a choice": '    kind    "hotel" | "flat", default "hotel"        What sort of place.\n',
    "an object": "    guest   {name: string, age?: integer}, optional  Who travels.\n",
    "what a tool gives": "    gives {city: string, nights: integer, guest?: {name: string, age?: ",
    "a template": "  offering://{city}/weather  weather  text/plain\n    The weather in a city.\n",
    "what would steer a terminal": r"    Steer the \x1b[31mterminal.",
}


@pytest.mark.parametrize("text", SAID.values(), ids=SAID.keys())
def test_it_shows(page: str, text: str) -> None:
    assert text in page
    assert "\x1b" not in page
    assert [line for line in page.splitlines() if line != line.rstrip()] == []


def test_the_page_as_json() -> None:
    document = json.loads(mcpkit("inspect", OFFERING, "--json").output)
    assert document["server"] == {"name": "offering", "version": "1.2", "title": "All there is"}
    assert document["revision"] == "2026-07-28"
    assert document["instructions"] == "Ask before you book."
    assert "tools" in document["capabilities"]
    tools = {tool["name"]: tool for tool in document["tools"]}
    assert tools["add"]["inputSchema"]["required"] == ["a", "b"]
    uris = [each["uri"] for each in document["resources"]]
    assert uris == ["offering://text", "offering://logo.png"]
    assert document["resourceTemplates"][0]["uriTemplate"] == "offering://{city}/weather"
    assert document["prompts"][0]["arguments"][0]["name"] == "city"
    costs = document["tokens"]
    assert costs["tools"] == {name: tool_tokens(tool) for name, tool in tools.items()}
    assert costs["total"] == sum(costs["tools"].values()) + costs["instructions"]


def test_all_of_one_tool(tmp_path: Path) -> None:
    """Otherwise a long description is cut, and says so."""
    ended = mcpkit("inspect", OFFERING, "--tool", "search")
    assert ended.stdout.startswith("  search  about ")
    assert '    input schema\n    {\n      "type": "object",\n' in ended.stdout
    assert "    output schema\n" in ended.stdout
    assert '"readOnlyHint": true' in ended.stdout
    assert "book" not in ended.stdout
    lines = "\n".join(f"    line {number}" for number in range(9))
    (tmp_path / "long.py").write_text(
        f"import mcpkit\n@mcpkit.tool\ndef f() -> None:\n    '''First.\n\n{lines}\n    '''\n"
    )
    cut = mcpkit("inspect", "long.py", cwd=tmp_path).stdout
    assert "First.\n    … 10 more lines: --tool f\n" in cut
    assert "    line 8\n" in mcpkit("inspect", "long.py", "--tool", "f", cwd=tmp_path).stdout


# --- targets --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "target",
    [
        "offering.py",
        "offering.py:app",
        "offering:app",
        f"{sys.executable} -m mcpkit run offering.py",
    ],
    ids=["file", "file:app", "module:app", "command"],
)
def test_targets(target: str) -> None:
    ended = mcpkit("inspect", target, cwd=Path(OFFERING).parent, cold=target == "offering.py")
    assert ended.output.startswith("offering 1.2  All there is\n")


WRONG = {
    "missing.py": "there is no file missing.py",
    "OFFERING --tool boook": "there is no tool 'boook'; did you mean 'book'?",
    "https://example.com/mcp --as read": "--as is for apps",
    "'missing --flag'": "'missing --flag' is not a file, module, command or URL",
    "true": "true: The server ended with exit code 0",
    "\"sh -c 'kill -9 $$'\"": "sh -c 'kill -9 $$': The server ended by si",
    "http://127.0.0.1:1/mcp": "Cannot connect to http://127.0.0.1:1/mcp: ",
    "\"sh -c 'cat >/dev/null'\" --timeout 0.5": "sh -c 'cat >/dev/null' did not answer in time",
    "OFFERING --revision 2020": "--revision 2020 does not exist",
    "OFFERING --timeout 0": "--timeout must be more than 0, not 0",
    "OFFERING -H 'A: b'": "--header is for URLs",
    "http://127.0.0.1:1 -e A=b": "--env is for servers",
    "OFFERING -e AB": "--env 'AB': write it as NAME=VALUE",
    "http://127.0.0.1:1 -H AB": "--header 'AB': write it as 'Name: value'",
}


@pytest.mark.parametrize(("arguments", "message"), WRONG.items(), ids=WRONG)
def test_what_cannot_be_done_is_said_in_one_line(arguments: str, message: str) -> None:
    words = [OFFERING if word == "OFFERING" else word for word in shlex.split(arguments)]
    ended = mcpkit("inspect", *words)
    if sys.version_info < (3, 11) and "BrokenPipeError" in ended.stderr:
        # Before Python 3.11, asyncio reports the closed pipe of a process that has ended.
        ended = ended._replace(stderr=ended.stderr.partition("Future exception")[0])
    assert ended.refusal.startswith(message)


# --- terminals ------------------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform == "win32", reason="has no pseudo-terminals")
@pytest.mark.parametrize("columns", [50, 80, 140])
def test_at_a_terminal_no_line_is_wider_nothing_is_cut_and_no_color_vanishes(columns: int) -> None:
    """Neither white, yellow, black nor blue; the rest is readable on white and on black."""
    shown = at_terminal("inspect", OFFERING, columns=columns, raw=True)
    assert "\x1b[1;36m" in shown
    for color in (30, 33, 34, 37, 97, 93):
        assert f"{color}m" not in shown
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown)
    assert max(map(len, text.splitlines())) <= columns
    assert "…" not in text
    for word in ("search", "Whether", "default", "2026-07-28", "offering://{city}/weather"):
        assert word in text


def test_a_reader_that_leaves_early() -> None:
    """As ``mcpkit inspect server.py | head -1``."""
    command = [*MCPKIT, "inspect", OFFERING, "--schemas"]
    with started(command, reading=False, within=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        process.exit_code()
        assert "Traceback" not in process.stderr


SCOPED = """
from mcpkit import MCPKit
print("a line that is not an answer")
app = MCPKit("scoped", scope_hierarchy={"all": ["read"]})
@app.tool
def free() -> str:
    "Free."
    return ""
@app.tool(scopes=["read"])
def read() -> str:
    "Read."
    return ""
"""


@pytest.mark.parametrize(
    ("scopes", "tools"),
    [(None, ["free", "read"]), ("", ["free"]), ("other", ["free"]), ("x, all", ["free", "read"])],
)
def test_it_shows_what_a_caller_with_some_scopes_sees(
    tmp_path: Path, scopes: str | None, tools: list[str]
) -> None:
    (tmp_path / "scoped.py").write_text(SCOPED)
    more = [] if scopes is None else ["--as", scopes]
    ended = mcpkit("inspect", str(tmp_path / "scoped.py"), "--json", *more)
    assert ended.code == 0, ended.stderr
    assert [each["name"] for each in json.loads(ended.stdout)["tools"]] == tools


# --- the estimate of tokens -----------------------------------------------------------------------

SENTENCE = "The quick brown fox jumps over the lazy dog."
DESCRIPTION = (
    "Search for flights between two airports. Returns at most ten offers, cheapest first; "
    "prices include taxes and are in euros."
)
SCHEMA = (
    '{"type":"object","properties":{"query":{"type":"string","description":"What to look for"},'
    '"limit":{"type":"integer","default":10}},"required":["query"]}'
)
CODE = """\
def weather(city: str, days: int = 3) -> list[Forecast]:
    return [forecast(city, day) for day in range(days)]
"""
COUNTED = {
    "a sentence": (SENTENCE, 10, 10),
    "a description": (DESCRIPTION, 24, 25),
    "a schema": (SCHEMA, 37, 36),
    "code": (CODE, 32, 36),
}
"""Texts, and their tokens in o200k_base and in Anthropic's published tokenizer."""

BOOK: dict[str, Any] = {
    "name": "book_hotel",
    "description": "Book a hotel in a city. Asks the user before anything is paid.",
    "inputSchema": {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "Where to stay."},
            "nights": {"type": "integer", "minimum": 1, "default": 2},
            "guests": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"name": {"type": "string"}, "birthDate": {"type": "string"}},
                    "required": ["name"],
                },
            },
        },
        "required": ["city"],
    },
}
"""Has 103 and 105 tokens as compact JSON."""


@pytest.mark.parametrize(("text", "one", "other"), COUNTED.values(), ids=COUNTED.keys())
def test_english_code_and_json_are_within_a_tenth(text: str, one: int, other: int) -> None:
    assert estimate(text) == pytest.approx((one + other) / 2, rel=0.1)


def test_a_tool_is_its_name_its_description_and_its_input_schema() -> None:
    more = {"outputSchema": BOOK["inputSchema"], "annotations": {"readOnlyHint": True}, "_meta": {}}
    assert tool_tokens({**BOOK, **more}) == tool_tokens(BOOK) == pytest.approx(104, rel=0.1)


@given(st.text(), st.text())
def test_no_text_has_more_tokens_than_characters_or_than_a_longer_one(text: str, more: str) -> None:
    assert 0 <= estimate(text) <= len(text)
    assert estimate(text + "\n\n" + more) + 1 >= estimate(text)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("blank", ["\u00a0", "\u3000", " ", "\t", "\n"])
def test_blanks_without_end_take_linear_time(blank: str) -> None:
    """A server writes the description; in quadratic time this would take minutes."""
    assert estimate(blank * 300_000) <= 300_000
