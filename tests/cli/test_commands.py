"""The command line as a whole: its help, its table, and what it does not load."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Final

import pytest
import typer

from mcpkit.cli import COMMANDS, OTHERS, app
from tests import warm
from tests.cli.commands import MCPKIT, mcpkit
from tests.transports.processes import TIMEOUT, environment


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"]], ids=" ".join)
def test_the_help_lists_every_command(arguments: list[str]) -> None:
    done = mcpkit(*arguments, cold=arguments == ["--help"])
    for name, text in COMMANDS.items():
        assert re.search(rf"^  {name} +{re.escape(text)}$", done.stdout + done.stderr, re.MULTILINE)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_has_examples_and_no_boxes(name: str) -> None:
    assert getattr(import_module(f"mcpkit.cli.{name}"), name).__doc__
    done = mcpkit(name, "--help", cold=name == "tasks")  # the others are executed by other tests
    assert done.code == 0
    assert re.search(rf"\n  Examples?:\n    mcpkit {name} ", done.stdout)
    assert not re.search("[│╭╮─\x1b]", done.stdout)


def test_the_version_and_a_mistyped_command() -> None:
    assert re.fullmatch(r"mcpkit \d+\.\d+\.\d+\n", mcpkit("--version").stdout)
    done = mcpkit("inspec", "server.py")
    assert done.code == 2
    assert "there is no command 'inspec'; did you mean inspect?" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("theirs", OTHERS)
def test_a_command_of_another_tool_names_ours(theirs: str) -> None:
    said = f"there is no command {theirs!r}; write mcpkit {OTHERS[theirs]}"
    with pytest.raises(Exception, match=re.escape(said)):
        typer.main.get_command(app).main([theirs], standalone_mode=False)
    assert re.split(r"\W", OTHERS[theirs])[0] in COMMANDS


def completed(shell: str, line: str, cwd: Path | None = None) -> str:
    """What a shell is offered for the last word of a line."""
    words = {"COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
    if shell != "bash":
        words = {"_TYPER_COMPLETE_ARGS": line, "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    code = "import sys; from mcpkit.cli import main; sys.argv = ['mcpkit']; main()"
    done = warm.run(
        [sys.executable, "-c", code],
        cold=shell == "bash",
        env={**environment(), **words, "_MCPKIT_COMPLETE": f"complete_{shell}"},
        cwd=cwd,
        capture_output=True,
        encoding="utf-8",
        timeout=TIMEOUT,
        check=False,
    )
    assert done.stderr == ""
    return str(done.stdout)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_can_complete_commands(shell: str) -> None:
    found = completed(shell, "mcpkit in")
    words = set(re.findall(r"\w+", found))
    assert [name for name in COMMANDS if name in words] == ["inspect", "install"]


LOUD: Final = (
    "import os, sys\nfrom mcpkit import MCPKit\nprint('out')\nprint('err', file=sys.stderr)\n"
    "os.write(1, b'raw')\nos.system('echo from a program')\napp = MCPKit('loud')\n"
    "@app.tool\ndef add(one: int, other: int) -> int: ...\n@app.tool\ndef ask() -> None: ...\n"
    "@app.prompt\ndef plan(city: str) -> str: ...\n"
    "@app.resource('notes://{day}')\ndef notes(day: str) -> str: ...\n"
)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("new x --template mi", ["minimal"]),
        ("install x --client claude-", ["claude-desktop", "claude-code"]),
        ("run x --transport s", ["stdio", "sse"]),
        ("run x --log-level w", ["warning"]),
        ("check x --fail-on n", ["note", "never"]),
        ("call x --revision 2026", ["2026-07-28"]),
        ("call loud.py ", ["add", "ask"]),
        ("call loud.py add ", ["one=", "other="]),
        ("call loud.py add one:=1 ", ["other="]),
        ("prompt loud.py ", ["plan"]),
        ("prompt loud.py plan c", ["city="]),
        ("read loud.py n", ["notes://{day}"]),
        # Nothing is offered, and nothing is said.
        ("call loud.py nope ", []),
        ("call missing.py ", []),
        ("call broken.py ", []),
        ("call https://example.com/mcp ", []),
        ("call 'python server.py' ", []),
    ],
)
def test_a_shell_can_complete_values(tmp_path: Path, line: str, words: list[str]) -> None:
    (tmp_path / "loud.py").write_text(LOUD)
    (tmp_path / "broken.py").write_text("print('out')\nraise SystemExit('err')\n")
    assert completed("fish", f"mcpkit {line}", tmp_path).split() == words


def test_the_help_loads_no_command_and_no_app() -> None:
    code = "import sys\nfrom mcpkit.cli import app\napp(['--help'], standalone_mode=False)\n"
    code += "print(*sys.modules, file=sys.stderr)"
    done = subprocess.run(
        [MCPKIT[0], "-c", code],
        env=environment(),
        capture_output=True,
        encoding="utf-8",
        timeout=TIMEOUT,
        check=True,
    )
    loaded = set(done.stderr.split())
    assert {"mcpkit.cli", "typer"} <= loaded
    assert loaded & {"anyio", "asyncio", "pydantic", "rich", "mcpkit.app", "mcpkit.client"} == set()
    assert not loaded & {f"mcpkit.cli.{name}" for name in COMMANDS}
