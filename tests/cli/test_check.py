"""``mcpkit check`` as people and programs run it."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import Ended, answering, at_terminal, mcpkit
from tests.transports.http.plain import serving
from tests.transports.processes import REPOSITORY

GOOD = '''
from mcpkit import MCPKit

app = MCPKit("shop", version="1.0.0", instructions="Everything about orders.")


@app.tool(destructive=True)
def cancel_order(order_id: str) -> str:
    """Cancel an order that has not been sent.

    Args:
        order_id: Such as A-17.
    """
    print("on stdout")
    return order_id
'''

SLOPPY = (
    GOOD
    + '''

@app.tool(destructive=True, meta={"mcpkit/ignore": ["DESC002"]})
def remove_order(order_id: str) -> str:
    """Remove order.

    Args:
        data: Such as A-17.
    """
    return order_id


@app.tool(read_only=True)
def get_order(order_id: str):
    """Say what is in an order and when it was sent."""
    return {"order": order_id}


@app.resource("https://example.com/orders")
def orders() -> str:
    """All orders."""
    return ""
'''
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "good.py").write_text(GOOD)
    (tmp_path / "sloppy.py").write_text(SLOPPY)
    return tmp_path


def check(folder: Path, *arguments: str, cold: bool = False) -> Ended:
    return mcpkit("check", *arguments, cwd=folder, cold=cold)


def found(folder: Path, *arguments: str) -> dict[str, Any]:
    """What ``--json`` says."""
    document: dict[str, Any] = json.loads(check(folder, *arguments, "--json").stdout)
    return document


def ids(document: dict[str, Any]) -> list[str]:
    return [each["rule"] for each in document["findings"]]


# --- for people -----------------------------------------------------------------------------------


def test_a_good_server_passes(folder: Path) -> None:
    ended = check(folder, "good.py", cold=True)
    assert ended == (0, "shop: nothing found in 1 tool.\n", "")
    (folder / "loud.py").write_text(GOOD + "print('hello')\n")
    assert found(folder, "loud.py")["findings"] == []


def test_a_finding_has_a_location_a_message_and_a_fix(folder: Path) -> None:
    ended = check(folder, "sloppy.py", cold=True)
    line = SLOPPY.splitlines().index("@app.tool(read_only=True)") + 1
    assert ended.code == 1
    assert (
        f"sloppy.py:{line}  tool get_order  DESC002 warning: "
        "parameters without a description: 'order_id'\n"
        "    fix: describe each of them (in mcpkit: `Args:` in the docstring)\n"
    ) in ended.stdout
    assert "shop: 2 warnings and 1 note in 3 tools and 1 resource (1 silenced).\n" in ended.stdout


@pytest.mark.skipif(sys.platform == "win32", reason="has no pseudo-terminals")
def test_lines_fit_a_terminal_of_80_columns_and_have_colours(folder: Path) -> None:
    said = at_terminal("check", str(folder / "sloppy.py"), raw=True, code=1)
    assert "\x1b[" in said
    plain = re.sub(r"\x1b\[[0-9;]*m", "", said).splitlines()
    assert max(map(len, plain)) <= 80
    assert "parameters without a description: 'order_id'" in " ".join(" ".join(plain).split())


# --- for programs ---------------------------------------------------------------------------------


def test_json_is_one_document_with_everything(folder: Path) -> None:
    ended = check(folder, "sloppy.py", "--json")
    document = json.loads(ended.stdout)
    assert ended.code == 1
    assert document["server"] == {"name": "shop", "version": "1.0.0"}
    assert document["counts"] == {"error": 0, "warning": 2, "note": 1}
    assert document["silenced"] == 1
    first = document["findings"][0]
    line = SLOPPY.splitlines().index("def remove_order(order_id: str) -> str:")
    assert first == {
        "rule": "DESC011",
        "severity": "warning",
        "subject": {"kind": "tool", "name": "remove_order"},
        "path": "data",
        "message": "docstring that describes an unknown parameter: 'data'",
        "fix": "rename it in the docstring, or delete it there",
        "source": "https://platform.claude.com/docs/en/agents-and-tools/tool-use/define-tools",
        "location": {"file": "sloppy.py", "line": line},
    }


def test_a_module_that_cannot_be_imported_twice_is_checked_without_lines(folder: Path) -> None:
    once = "import os, pathlib\npathlib.Path('seen').touch(exist_ok=False)\n"
    (folder / "once.py").write_text(once + SLOPPY)
    document = found(folder, "once.py")
    assert ids(document) == ["DESC002", "RES004"]
    assert {each["location"] for each in document["findings"]} == {None}


# --- exit codes -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ("good.py --fail-on note", 0),
        ("sloppy.py --fail-on error", 0),
        ("sloppy.py --fail-on never", 0),
        ("sloppy.py --select RES", 0),
        ("sloppy.py --select RES --fail-on note", 1),
        ("sloppy.py --ignore desc", 0),
    ],
)
def test_the_exit_code_depends_on_the_severity(folder: Path, arguments: str, code: int) -> None:
    assert check(folder, *arguments.split()).code == code


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "name the server to check, as in mcpkit check server.py"),
        ("good.py --ignore DESK", "no rule's id begins with 'DESK'"),
        ("good.py --fail-on warnings", "--fail-on warnings: use one of error, warning"),
    ],
)
def test_what_cannot_be_checked_is_one_line_and_2(
    folder: Path, arguments: str, message: str
) -> None:
    assert message in check(folder, *arguments.split()).refusal


# --- which rules ----------------------------------------------------------------------------------


def test_rules_are_chosen_by_prefixes_and_explain_themselves(folder: Path) -> None:
    assert ids(found(folder, "sloppy.py", "--select", "DESC002,RES")) == ["DESC002", "RES004"]
    assert ids(found(folder, "sloppy.py", "--ignore", "DESC011", "--ignore", "RES")) == ["DESC002"]
    ended = check(folder, "--rules", "--select", "SCHEMA003")
    assert ended.code == 0
    assert ended.stdout.startswith("SCHEMA003 error: array without items\n")
    assert "https://github.com/microsoft/vscode/issues/257537" in ended.stdout
    (rule,) = json.loads(check(folder, "--rules", "--select", "SCHEMA003", "--json").stdout)
    assert (rule["rule"], rule["severity"]) == ("SCHEMA003", "error")


@pytest.mark.skipif(sys.version_info < (3, 11), reason="tomllib is newer")
def test_the_nearest_pyproject_counts_unless_the_command_line_says_otherwise(folder: Path) -> None:
    (folder / "inner").mkdir()
    (folder / "inner" / "server.py").write_text(SLOPPY)
    settings = folder / "pyproject.toml"
    settings.write_text('[tool.mcpkit.check]\nignore = ["DESC"]\nfail-on = "error"\n')
    assert ids(found(folder, "inner/server.py")) == ["RES004"]
    settings.write_text('[tool.mcpkit.check]\nfail-on = "error"\n')
    assert check(folder, "sloppy.py").code == 0
    assert check(folder, "sloppy.py", "--fail-on", "warning").code == 1
    settings.write_text("[tool.other]\n")
    assert check(folder, "good.py").code == 0


@pytest.mark.skipif(sys.version_info < (3, 11), reason="tomllib is newer")
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("ignored = []", "check.ignored: Extra inputs are not permitted"),
        ('ignore = "DESC"', "check.ignore: Input should be a valid list"),
        ('ignore = ["DESK"]', "begins with 'DESK'"),
        ("ignore = [", "is not valid TOML"),
    ],
)
def test_unusable_settings_are_2(folder: Path, settings: str, message: str) -> None:
    (folder / "pyproject.toml").write_text(f"[tool.mcpkit.check]\n{settings}\n")
    ended = check(folder, "good.py")
    assert ended.code == 2
    assert message in ended.stderr


@pytest.mark.skipif(sys.version_info >= (3, 11), reason="tomllib is there")
def test_settings_that_this_python_cannot_read_are_noted(folder: Path) -> None:
    (folder / "pyproject.toml").write_text('[tool.mcpkit.check]\nignore = ["DESC"]\n')
    ended = check(folder, "sloppy.py")
    assert ended.code == 1
    assert "pyproject.toml are ignored; reading them needs Python 3.11" in ended.stderr


# --- servers in other languages -------------------------------------------------------------------


def of_foreign(*tools: Any) -> str:
    """The command of a server with these tools."""
    results = {
        "initialize": {
            "protocolVersion": "2025-06-18",
            "serverInfo": {"name": "weather", "version": "3"},
            "capabilities": {"tools": {}, "prompts": {}, "resources": {}},
        },
        "resources/list": {"resources": []},
        "tools/list": {"tools": tools},
    }
    return answering({method: {"result": result} for method, result in results.items()})


def test_any_server_on_a_command_line(folder: Path) -> None:
    description = "Say what the weather is like in a \x1b[31mcity\u200b."
    schema = {"type": "object", "anyOf": []}
    tool = {"name": "get weather", "inputSchema": schema, "description": description}
    document = found(folder, of_foreign(tool, {"description": "nameless"}))
    assert document["server"] == {"name": "weather", "version": "3"}
    assert {"NAME001", "SCHEMA002", "SAFE002"} <= set(ids(document))
    findings = document["findings"]
    assert findings[0]["location"] is None
    messages = [each["message"] for each in findings if each["rule"] == "SERVER004"]
    assert len(messages) == 2
    assert messages[0] == "tools/list lists an entry without 'name'"
    assert messages[1].startswith("prompts/list fails: ")


def test_findings_that_many_tools_share_are_one_line(folder: Path) -> None:
    tools = [{"name": f"{n * 54}", "inputSchema": {"type": "object"}} for n in "abcde"]
    ended = check(folder, of_foreign(*tools), "--select", "DESC001,NAME004")
    lines = [line for line in ended.stdout.splitlines() if line.startswith("5 tools  ")]
    names = ", ".join(str(tool["name"]) for tool in tools[:4]) + " and 1 more"
    assert lines == [
        f"5 tools  NAME004 warning: tool name too long with the prefix of a host: {names}",
        f"5 tools  DESC001 warning: tool without a description: {names}",
    ]


def test_a_server_at_a_url(folder: Path) -> None:
    with serving("sloppy.py", "--http", cwd=folder) as server:
        assert ids(found(folder, server.url)) == ["DESC002", "RES004"]


# --- our own --------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", ["quickstart.py", "payment.py --fail-on error"])
def test_our_examples_pass(arguments: str) -> None:
    ended = check(REPOSITORY / "examples", *arguments.split())
    assert ended.code == 0, ended.stdout


def test_names_of_another_library_are_found_before_they_are_called(folder: Path) -> None:
    (folder / "server.py").write_text(
        GOOD.replace("import MCPKit", "import Context, MCPKit")
        .replace("def cancel_order(order_id: str)", "def cancel_order(order_id: str, ctx: Context)")
        .replace('print("on stdout")', "ctx.report_progress(1)")
    )
    done = check(folder, "server.py")
    assert done.code == 1
    assert "MOVE001 error: uses ctx.report_progress; write ctx.progress(1, 2)" in done.stdout


@pytest.mark.parametrize(
    ("option", "arguments", "notes"),
    [("task='optional'", [], 1), ("", ["--workers"], 1), ("", [], 0)],
)
def test_it_notes_what_a_replay_repeats(
    folder: Path, option: str, arguments: list[str], notes: int
) -> None:
    (folder / "server.py").write_text(
        f"from mcpkit import Context, MCPKit\napp = MCPKit('a')\nPAID = []\n@app.tool({option})\n"
        "async def pay(ctx: Context) -> None:\n    PAID.append(1)\n    await ctx.elicit('More?')\n"
    )
    ended = check(folder, "server.py", "--fail-on", "note", "--select", "CODE", *arguments)
    assert ended.code == notes, ended.stderr
    assert ("a replay repeats 'line 6: PAID.append()'" in ended.stdout) == bool(notes)


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ("", 0),
        ("http={'public_url': 'https://example.com/mcp'}", 1),
        ("http={'public_url': 'http://localhost:8000/mcp'}", 0),
        ("http={'public_url': 'https://example.com/mcp', 'principal': lambda http: None}", 0),
        ("http={'public_url': 'https://example.com/mcp'}, auth=lambda token: None", 0),
    ],
)
def test_it_warns_of_an_app_without_authorization(folder: Path, options: str, code: int) -> None:
    """SEC-4."""
    (folder / "server.py").write_text(
        f"from mcpkit import MCPKit\napp = MCPKit('open', {options})\n"
        "@app.tool\ndef add(a: int) -> int:\n    return a\n"
    )
    ended = check(folder, "server.py", "--select", "SAFE006", "--json")
    assert ended.code == code, ended.stderr
    assert ("SAFE006" in ended.stdout) == (code == 1)
