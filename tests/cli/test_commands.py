"""The command line as a whole: its help, its table, and what it does not load."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import import_module

import pytest

from mcpkit.cli._commands import COMMANDS
from tests import warm
from tests.transports.processes import (
    TIMEOUT,
    environment,
)

MCPKIT = [sys.executable, "-m", "mcpkit"]


def run(*arguments: str, cold: bool = False) -> subprocess.CompletedProcess[str]:
    """Run the command; `cold` as in `tests.warm`."""
    return warm.run(
        [*MCPKIT, *arguments],
        cold=cold,
        env=environment(),
        input="",
        capture_output=True,
        encoding="utf-8",
        timeout=TIMEOUT,
    )


def test_the_help_lists_every_command_with_what_it_does() -> None:
    done = run("--help", cold=True)
    assert done.returncode == 0
    for name, listed in COMMANDS.items():
        assert re.search(rf"^  {name} +{re.escape(listed.help)}$", done.stdout, re.MULTILINE)


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"]], ids=" ".join)
def test_without_a_command_there_is_the_help(arguments: list[str]) -> None:
    done = run(*arguments)
    assert "Look and try:" in done.stdout + done.stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_has_examples_and_no_boxes(name: str) -> None:
    done = run(name, "--help", cold=name == "tasks")  # the others are executed by tests of theirs
    assert done.returncode == 0
    assert "Example" in done.stdout
    assert f"mcpkit {name} " in done.stdout
    assert not re.search("[│╭╮─\x1b]", done.stdout)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_where_the_table_says(name: str) -> None:
    function = getattr(import_module(COMMANDS[name].module), name)
    assert function.__doc__


def test_a_mistyped_command_is_named_with_the_one_that_is_meant() -> None:
    done = run("inspec", "server.py")
    assert done.returncode == 2
    assert "there is no command 'inspec'; did you mean inspect?" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_version() -> None:
    assert re.fullmatch(r"mcpkit \d+\.\d+\.\d+\n", run("--version").stdout)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_can_complete_commands(shell: str) -> None:
    words = {"COMP_WORDS": "mcpkit in", "COMP_CWORD": "1"}
    if shell != "bash":
        words = {"_TYPER_COMPLETE_ARGS": "mcpkit in", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    done = warm.run(
        [
            sys.executable,
            "-c",
            "import sys; from mcpkit.cli import main; sys.argv = ['mcpkit']; main()",
        ],
        cold=shell == "bash",
        env={**environment(), **words, "_MCPKIT_COMPLETE": f"complete_{shell}"},
        capture_output=True,
        encoding="utf-8",
        timeout=TIMEOUT,
        check=False,
    )
    assert [name for name in COMMANDS if name in done.stdout] == ["inspect", "install"]


def test_the_help_loads_no_command_and_no_app() -> None:
    code = "import sys\nfrom mcpkit.cli import app\napp(['--help'], standalone_mode=False)\n"
    code += "print(*sys.modules, file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment(),
        capture_output=True,
        encoding="utf-8",
        timeout=TIMEOUT,
        check=True,
    )
    loaded = set(done.stderr.split())
    assert {"mcpkit.cli._commands", "typer"} <= loaded
    assert loaded & {"anyio", "asyncio", "pydantic", "rich", "mcpkit.app", "mcpkit.client"} == set()
    assert not loaded & {listed.module for listed in COMMANDS.values()}
