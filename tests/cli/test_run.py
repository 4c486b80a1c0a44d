"""``mcpkit run``, and a server that runs itself, as processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.commands import SERVER, Ended, Step, at_terminal, interrupt, mcpkit
from tests.transports.processes import TIMEOUT, call, environment, modern, started

RUN = [sys.executable, "-m", "mcpkit", "run"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "server.py").write_text(SERVER)
    (tmp_path / "itself.py").write_text(SERVER + "if __name__ == '__main__':\n    app.run()\n")
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("")
    (tmp_path / "package" / "beside.py").write_text(SERVER)
    (tmp_path / "package" / "main.py").write_text("from .beside import app\n")
    return tmp_path


def run(folder: Path, *arguments: str) -> Ended:
    return mcpkit("run", *arguments, cwd=folder)


@pytest.mark.parametrize(
    "words",
    [
        "-m mcpkit run server.py",
        "-m mcpkit run package.main:app",
        "-m mcpkit run itself.py",
        "-m mcpkit run server.py --transport stdio",
        "itself.py",
        "-m itself",
    ],
)
def test_a_server_is_served(folder: Path, words: str) -> None:
    # With these, something else is imported, or by another module.
    cold = words.split()[-1] in ("server.py", "package.main:app", "itself.py")
    with started([sys.executable, *words.split()], cwd=folder, cold=cold) as server:
        assert server.text(call(1, "greet", name="you")) == "Hello, you"
        server.close_stdin()
        assert server.exit_code() == 0
        assert server.rest() == []
        assert server.stderr == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("wrong.py", "ZeroDivisionError: division by zero (wrong.py:1)"),
        ("server.py --log-level loud", "unknown log level 'loud'; known: debug, info, "),
        ("keys.py", "TEST_ONE, TEST_TWO are not set in the environment"),
        ("keys.py --http --port 0", "TEST_ONE, TEST_TWO are not set in the environment"),
    ],
)
def test_one_line_says_why_nothing_is_served(folder: Path, arguments: str, message: str) -> None:
    (folder / "wrong.py").write_text("1 / 0")
    (folder / "keys.py").write_text(
        "from typing import Annotated as A\nfrom mcpkit import Env, MCPKit\napp = MCPKit('keys')\n"
        "@app.tool\ndef fn(one: A[str, Env('TEST_ONE')], two: A[str, Env('TEST_TWO')]): ...\n"
    )
    assert message in run(folder, *arguments.split()).refusal


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
        ("server.py --root /data", "No such option: --root; flags of the server itself"),
        ("server.py more", "Unexpected extra argument: more; flags of the server itself"),
        ("", "Missing argument 'TARGET'"),
    ],
)
def test_a_wrong_command_line(folder: Path, arguments: str, message: str) -> None:
    ended = run(folder, *arguments.split())
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


def test_the_authors_own_configuration_of_logging_counts(folder: Path) -> None:
    """A fault is logged with its reference."""
    (folder / "logs.py").write_text(
        "import logging\nlogging.basicConfig(level='INFO', format='MINE %(message)s')\n"
        f"{SERVER}@app.tool\ndef fail() -> None: raise ValueError('secret')\n"
        "logging.info('imported')\n"
    )
    with started([*RUN, "logs.py"], cwd=folder) as server:
        server.wait_for_stderr("MINE imported")
        text = server.text(call(1, "fail"))
        server.wait_for_stderr("ValueError: secret")
        assert "secret" not in text
        assert text.split("(")[1].split(")")[0] in server.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="has no pseudo-terminals")
def test_a_user_at_a_terminal_sees_what_happens(folder: Path) -> None:
    waits = "hello waits for a client on standard input; Ctrl-C ends it."
    steps = [Step(waits, done=interrupt)]
    shown = at_terminal("run", str(folder / "server.py"), steps=steps, code=130)
    assert shown.splitlines()[0] == waits


def test_ctrl_c_while_the_server_is_imported_is_not_an_error(folder: Path) -> None:
    (folder / "slow.py").write_text(
        "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n" + SERVER
    )
    assert run(folder, "slow.py") == (130, "", "")


@pytest.mark.parametrize("reload", [[], ["--reload"]], ids=["", "reload"])
def test_flags_behind_two_dashes_are_for_the_server(folder: Path, reload: list[str]) -> None:
    flags = "'hello', instructions=' '.join(sys.argv[1:])"
    (folder / "flags.py").write_text("import sys\n" + SERVER.replace("'hello'", flags))
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
        ("", "", ["WARNING", "ERROR"]),
        ("--debug", "", ["INFO", "WARNING", "ERROR"]),
        ("--log-level debug", "", ["DEBUG", "INFO", "WARNING", "ERROR"]),
        ("--log-level ERROR", "", ["ERROR"]),
        ("--log-level error --debug", "", ["ERROR"]),
        ("--reload --log-level info", "", ["INFO", "WARNING", "ERROR"]),
        ("", "info", ["INFO", "WARNING", "ERROR"]),
        ("--log-level error", "info", ["ERROR"]),
    ],
    ids=str,
)
def test_what_a_server_logs_is_shown_from_a_level_on(
    folder: Path, options: str, variable: str, shown: list[str]
) -> None:
    (folder / "logging_server.py").write_text(LOGGING)
    env = {"MCPKIT_LOG_LEVEL": variable} if variable else {}
    command = [*RUN, "logging_server.py", *options.split()]
    with started(command, cwd=folder, env=env) as server:
        assert server.text(call(1, "speak")) == "spoken"
        server.close_stdin()
        server.exit_code(within=TIMEOUT)
    said = [line for line in server.stderr.splitlines() if " bookshop: said as " in line]
    assert said == [f"{level} bookshop: said as {level.lower()}" for level in shown]
