"""``mcpkit run``, and a server that runs itself, as processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests import warm
from tests.transports.processes import (
    TIMEOUT,
    call,
    environment,
    modern,
    started,
)

RUN = [sys.executable, "-m", "mcpkit", "run"]
SERVER = (
    "from mcpkit import MCPKit\n"
    "app = MCPKit('hello')\n"
    "@app.tool\n"
    "def greet(name: str) -> str:\n"
    "    return f'Hello, {name}'\n"
)
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


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return warm.run(
        [*RUN, *arguments],
        cwd=folder,
        env=environment(),
        input="",
        capture_output=True,
        encoding="utf-8",
        timeout=TIMEOUT,
    )


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


def test_one_of_two_apps(folder: Path) -> None:
    (folder / "two.py").write_text(SERVER + "other = MCPKit('other')\n")
    with started([*RUN, "two.py:other"], cwd=folder) as server:
        result = server.ask(modern(1, "server/discover"))["result"]
        assert result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "other"


WRONG = {
    "no file": ("missing.py", None, "there is no file missing.py"),
    "no module": ("missing", None, "there is no module or file missing"),
    "no app": ("wrong.py", "x = 1", "wrong.py has no app"),
    "two apps": (
        "wrong.py",
        SERVER + "b = MCPKit('b')\ndel app\na = MCPKit('a')\n",
        "wrong.py has 2 apps: b, a; say which, as in wrong.py:b",
    ),
    "not an app": ("wrong.py:x", "x = 1", "'x' in wrong.py is a int, not an MCPKit app"),
    "no such name": ("wrong.py:y", "x = 1", "wrong.py has nothing named 'y'"),
    "a bad signature": (
        "wrong.py",
        SERVER + "@app.tool\ndef bad(*many: int) -> None: ...",
        "wrong.py:6: bad(): *many has no names",
    ),
    "an import error": ("wrong.py", "import nothing_like_it", "No module named 'nothing_like_it'"),
    "a syntax error": ("wrong.py", "def f(:", "SyntaxError: invalid syntax (wrong.py:1)"),
    "an exception": ("wrong.py", "1 / 0", "ZeroDivisionError: division by zero (wrong.py:1)"),
    "an exit": ("wrong.py", "import sys; sys.exit(7)", "SystemExit: 7 (wrong.py:1)"),
}


@pytest.mark.parametrize(("target", "source", "message"), WRONG.values(), ids=WRONG.keys())
class TestWhatCannotBeServed:
    def test_one_line_says_why(
        self, folder: Path, target: str, source: str | None, message: str
    ) -> None:
        if source is not None:
            (folder / "wrong.py").write_text(source)
        ended = run(folder, target)
        assert (ended.returncode, ended.stdout) == (2, "")
        assert ended.stderr.startswith("mcpkit: ")
        assert message in ended.stderr
        assert len(ended.stderr.splitlines()) == 1


@pytest.mark.parametrize("source", ["1 / 0", "import nothing_like_it", "def f(:"])
def test_a_traceback_is_shown_when_debugging(folder: Path, source: str) -> None:
    (folder / "wrong.py").write_text(source)
    ended = run(folder, "wrong.py", "--debug")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "Traceback (most recent call last)" in ended.stderr
    assert "wrong.py" in ended.stderr


@pytest.mark.parametrize("arguments", [["server.py", "--nonsense"], ["server.py", "more"], []])
def test_a_wrong_command_line(folder: Path, arguments: list[str]) -> None:
    ended = run(folder, *arguments)
    assert (ended.returncode, ended.stdout) == (2, "")


def test_an_unknown_transport(folder: Path) -> None:
    ended = run(folder, "server.py", "--transport", "pigeon")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith("mcpkit: unknown transport 'pigeon'; known: stdio")
    assert len(ended.stderr.splitlines()) == 1


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
def test_a_person_at_a_terminal_is_told_what_happens(tmp_path: Path) -> None:
    import pty

    server = tmp_path / "server.py"
    server.write_text('from mcpkit import MCPKit\napp = MCPKit("terminal")\n')
    master, slave = pty.openpty()
    process = warm.Popen(
        [sys.executable, "-m", "mcpkit", "run", str(server)],
        stdin=slave,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        told = process.stderr.readline()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
    finally:
        process.kill()
        process.wait()
        os.close(master)
        os.close(slave)
    assert told == "terminal waits for a client on standard input; Ctrl-C ends it.\n"
    assert process.returncode == 130


def test_ctrl_c_while_the_server_is_imported_is_no_error(folder: Path) -> None:
    (folder / "slow.py").write_text(
        "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n" + SERVER
    )
    done = run(folder, "slow.py")
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


FLAGS = SERVER.replace("'hello'", "'hello', instructions=' '.join(sys.argv[1:])").replace(
    "from mcpkit", "import sys\nfrom mcpkit", 1
)


@pytest.mark.parametrize("reload", [[], ["--reload"]], ids=["", "reload"])
def test_flags_behind_two_dashes_are_for_the_server(folder: Path, reload: list[str]) -> None:
    (folder / "flags.py").write_text(FLAGS)
    with started([*RUN, "flags.py", *reload, "--", "--root", "/data", "x"], cwd=folder) as server:
        found = server.ask(modern(1, "server/discover"))
        assert found["result"]["instructions"] == "--root /data x"


def test_flags_of_the_server_have_to_stand_behind_two_dashes(folder: Path) -> None:
    done = run(folder, "server.py", "--root", "/data")
    assert done.returncode == 2
    assert "No such option: --root; flags of the server itself come behind --" in done.stderr


LOGGING = """
import logging
from mcpkit import MCPKit
{configured}
log = logging.getLogger("bookshop")
app = MCPKit("hello")
@app.tool
def speak() -> str:
    for level in ("debug", "info", "warning", "error"):
        getattr(log, level)("said as %s", level)
    return "spoken"
"""
CONFIGURED = "logging.basicConfig(format='mine %(levelname)s %(message)s', level='ERROR')"


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
    (folder / "logging_server.py").write_text(LOGGING.format(configured=""))
    env = {} if variable is None else {"MCPKIT_LOG_LEVEL": variable}
    with started([*RUN, "logging_server.py", *options], cwd=folder, env=env) as server:
        assert server.text(call(1, "speak")) == "spoken"
        server.close_stdin()
        server.exit_code(within=TIMEOUT)
    said = [line for line in server.stderr.splitlines() if " bookshop: said as " in line]
    assert said == [f"{level} bookshop: said as {level.lower()}" for level in shown]


@pytest.mark.parametrize("options", [[], ["--debug"], ["--log-level", "debug"]], ids=str)
def test_what_an_author_has_configured_stays(folder: Path, options: list[str]) -> None:
    (folder / "logging_server.py").write_text(LOGGING.format(configured=CONFIGURED))
    with started([*RUN, "logging_server.py", *options], cwd=folder) as server:
        assert server.text(call(1, "speak")) == "spoken"
        server.close_stdin()
        server.exit_code(within=TIMEOUT)
    said = [line for line in server.stderr.splitlines() if "said as" in line]
    assert said == ["mine ERROR said as error"]


def test_an_unknown_level_is_refused_with_those_there_are(folder: Path) -> None:
    done = run(folder, "server.py", "--log-level", "loud")
    assert done.returncode == 2
    assert "unknown log level 'loud'; known: debug, info, warning, error, critical" in done.stderr


@pytest.mark.parametrize("flags", [[], ["--http", "--port", "0"]], ids=["stdio", "http"])
def test_what_the_environment_lacks_is_named_before_anything_is_served(
    folder: Path, flags: list[str]
) -> None:
    (folder / "keys.py").write_text(
        "from typing import Annotated\n"
        "from mcpkit import Env, MCPKit\n"
        "app = MCPKit('keys')\n"
        "@app.tool\n"
        "def one(key: Annotated[str, Env('TEST_ONE')]) -> str:\n"
        "    return key\n"
        "@app.tool\n"
        "def two(key: Annotated[str, Env('TEST_TWO')]) -> str:\n"
        "    return key\n"
    )
    done = run(folder, "keys.py", *flags)
    assert done.returncode == 2
    assert "TEST_ONE, TEST_TWO are not set in the environment" in done.stderr
    assert done.stdout == ""
