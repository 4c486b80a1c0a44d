"""``mcpkit run``, and a server that runs itself, as processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.commands import SERVER, Ended, Step, at_terminal, interrupt, mcpkit
from tests.transports.processes import TIMEOUT, call, environment, modern, started

RUN = [sys.executable, "-m", "mcpkit", "run"]
MARKED = "import mcpkit\n@mcpkit.tool\ndef greet(name: str) -> str:\n    return f'Hello, {name}'\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "server.py").write_text(SERVER)
    (tmp_path / "marked.py").write_text(MARKED)
    (tmp_path / "itself.py").write_text(SERVER + "if __name__ == '__main__':\n    app.run()\n")
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("")
    (tmp_path / "package" / "beside.py").write_text(SERVER)
    (tmp_path / "package" / "main.py").write_text("from .beside import app\n")
    return tmp_path


def run(folder: Path, *arguments: str) -> Ended:
    return mcpkit("run", *arguments, cwd=folder)


EXECUTED = [*RUN[1:], "server.py"], [*RUN[1:], "package.main:app"], ["itself.py"]
"""With which something else is imported, or by somebody else."""


@pytest.mark.parametrize(
    "command",
    [
        [*RUN, "server.py"],
        [*RUN, "server.py:app"],
        [*RUN, "server"],
        [*RUN, "server:app"],
        [*RUN, "marked.py"],
        [*RUN, "package/main.py"],
        [*RUN, "package.main:app"],
        [*RUN, "itself.py"],
        [*RUN, "server.py", "--transport", "stdio"],
        [sys.executable, "itself.py"],
        [sys.executable, "-m", "itself"],
    ],
    ids=lambda command: " ".join(command[1:]),
)
def test_a_server_is_served(folder: Path, command: list[str]) -> None:
    cold = command[1:] in EXECUTED
    with started(command, cwd=folder, cold=cold) as server:
        assert server.text(call(1, "greet", name="you")) == "Hello, you"
        server.close_stdin()
        assert server.exit_code() == 0
        assert server.rest() == []
        assert server.stderr == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.py"], "there is no file missing.py"),
        (["wrong.py"], "ZeroDivisionError: division by zero (wrong.py:1)"),
        (["server.py", "--transport", "pigeon"], "unknown transport 'pigeon'; known: stdio, http"),
        (["server.py", "--log-level", "loud"], "unknown log level 'loud'; known: debug, info, "),
    ],
    ids=str,
)
def test_one_line_says_why_nothing_is_served(
    folder: Path, arguments: list[str], message: str
) -> None:
    (folder / "wrong.py").write_text("1 / 0")
    ended = run(folder, *arguments)
    assert (ended.code, ended.stdout) == (2, "")
    assert ended.stderr.startswith("mcpkit: ")
    assert message in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


@pytest.mark.parametrize("source", ["1 / 0", "def f(:"])
def test_a_traceback_is_shown_when_debugging(folder: Path, source: str) -> None:
    (folder / "wrong.py").write_text(source)
    ended = run(folder, "wrong.py", "--debug")
    assert (ended.code, ended.stdout) == (2, "")
    assert "Traceback (most recent call last)" in ended.stderr
    assert "wrong.py" in ended.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["server.py", "--root", "/data"], "No such option: --root; flags of the server itself"),
        (["server.py", "more"], "Unexpected extra argument: more; flags of the server itself"),
        ([], "Missing argument 'TARGET'"),
    ],
)
def test_a_wrong_command_line(folder: Path, arguments: list[str], message: str) -> None:
    ended = run(folder, *arguments)
    assert (ended.code, ended.stdout) == (2, "")
    assert message in ended.stderr


def test_stdout_closed(folder: Path) -> None:
    ended = subprocess.run(
        ["sh", "-c", 'exec "$0" "$@" >&-', *RUN, "server.py"],
        cwd=folder,
        env=environment(),
        stderr=subprocess.PIPE,
        encoding="utf-8",
        timeout=TIMEOUT,
    )
    assert ended.returncode == 2
    assert ended.stderr.startswith("mcpkit: stdout is closed")
    assert len(ended.stderr.splitlines()) == 1


class TestLogging:
    def test_the_authors_own_configuration_counts(self, folder: Path) -> None:
        """The command configures logging only if the server's module does not."""
        (folder / "logs.py").write_text(
            "import logging\nlogging.basicConfig(level='INFO', format='MINE %(message)s')\n"
            + SERVER
            + "    \nlogging.info('imported')\n"
        )
        with started([*RUN, "logs.py"], cwd=folder) as server:
            server.wait_for_stderr("MINE imported")

    def test_a_fault_stands_on_stderr_with_its_reference(self, folder: Path) -> None:
        (folder / "faulty.py").write_text(
            SERVER + "@app.tool\ndef fail() -> None: raise ValueError('secret')\n"
        )
        with started([*RUN, "faulty.py"], cwd=folder) as server:
            text = server.text(call(1, "fail"))
            server.wait_for_stderr("ValueError: secret")
            assert "secret" not in text
            assert text.split("(")[1].split(")")[0] in server.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="has no pseudo-terminals")
def test_a_person_at_a_terminal_is_told_what_happens(folder: Path) -> None:
    waits = "hello waits for a client on standard input; Ctrl-C ends it."
    steps = [Step(waits, done=interrupt)]
    code, shown = at_terminal("run", str(folder / "server.py"), steps=steps)
    assert (code, shown.splitlines()[0]) == (130, waits)


def test_ctrl_c_while_the_server_is_imported_is_no_error(folder: Path) -> None:
    (folder / "slow.py").write_text(
        "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n" + SERVER
    )
    done = run(folder, "slow.py")
    assert done == (130, "", "")


FLAGS = SERVER.replace("'hello'", "'hello', instructions=' '.join(sys.argv[1:])").replace(
    "from mcpkit", "import sys\nfrom mcpkit", 1
)


@pytest.mark.parametrize("reload", [[], ["--reload"]], ids=["", "reload"])
def test_flags_behind_two_dashes_are_for_the_server(folder: Path, reload: list[str]) -> None:
    (folder / "flags.py").write_text(FLAGS)
    with started([*RUN, "flags.py", *reload, "--", "--root", "/data", "x"], cwd=folder) as server:
        found = server.ask(modern(1, "server/discover"))
        assert found["result"]["instructions"] == "--root /data x"


LOGGING = """
import logging
from mcpkit import MCPKit
log = logging.getLogger("bookshop")
app = MCPKit("hello")
@app.tool
def speak() -> str:
    for level in ("debug", "info", "warning", "error"):
        getattr(log, level)("said as %s", level)
    return "spoken"
"""


@pytest.mark.parametrize(
    ("options", "variable", "shown"),
    [
        ([], None, ["WARNING", "ERROR"]),
        (["--debug"], None, ["INFO", "WARNING", "ERROR"]),
        (["--log-level", "debug"], None, ["DEBUG", "INFO", "WARNING", "ERROR"]),
        (["--log-level", "ERROR"], None, ["ERROR"]),
        (["--log-level", "error", "--debug"], None, ["ERROR"]),
        (["--reload", "--log-level", "info"], None, ["INFO", "WARNING", "ERROR"]),
        ([], "info", ["INFO", "WARNING", "ERROR"]),
        (["--log-level", "error"], "info", ["ERROR"]),
    ],
    ids=str,
)
def test_what_a_server_logs_is_shown_from_a_level_on(
    folder: Path, options: list[str], variable: str | None, shown: list[str]
) -> None:
    (folder / "logging_server.py").write_text(LOGGING)
    env = {} if variable is None else {"MCPKIT_LOG_LEVEL": variable}
    with started([*RUN, "logging_server.py", *options], cwd=folder, env=env) as server:
        assert server.text(call(1, "speak")) == "spoken"
        server.close_stdin()
        server.exit_code(within=TIMEOUT)
    said = [line for line in server.stderr.splitlines() if " bookshop: said as " in line]
    assert said == [f"{level} bookshop: said as {level.lower()}" for level in shown]


@pytest.mark.parametrize("flags", [[], ["--http", "--port", "0"]], ids=["stdio", "http"])
def test_what_the_environment_lacks_is_named_before_anything_is_served(
    folder: Path, flags: list[str]
) -> None:
    (folder / "keys.py").write_text(
        "from typing import Annotated as A\nfrom mcpkit import Env, MCPKit\napp = MCPKit('keys')\n"
        "@app.tool\ndef fn(one: A[str, Env('TEST_ONE')], two: A[str, Env('TEST_TWO')]): ...\n"
    )
    ended = run(folder, "keys.py", *flags)
    assert (ended.code, ended.stdout) == (2, "")
    assert "TEST_ONE, TEST_TWO are not set in the environment" in ended.stderr
