"""The command line as a whole: its help, its table, and what it does not load."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import import_module

import pytest

from mcpkit.cli import COMMANDS
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


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_can_complete_commands(shell: str) -> None:
    words = {"COMP_WORDS": "mcpkit in", "COMP_CWORD": "1"}
    if shell != "bash":
        words = {"_TYPER_COMPLETE_ARGS": "mcpkit in", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    code = "import sys; from mcpkit.cli import main; sys.argv = ['mcpkit']; main()"
    done = warm.run(
        [sys.executable, "-c", code],
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
