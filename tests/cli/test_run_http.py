"""``mcpkit run`` over HTTP, and a server that runs itself so, as processes."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests import warm
from tests.cli.commands import SERVER, Ended, change, mcpkit
from tests.cli.hurried import HURRIED, SOON, WORKERS, hurried, limits
from tests.kit import eventually
from tests.transports.http.plain import RUN, Client, serving
from tests.transports.processes import TIMEOUT, call, started


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    (folder / "server.py").write_text(SERVER)
    main = "if __name__ == '__main__':\n    app.run('http', port=0, path='/own')\n"
    (folder / "itself.py").write_text(SERVER + main)
    return folder


# --- serving --------------------------------------------------------------------------------------


COMMANDS = {
    "--http": ("http://127.0.0.1:PORT/mcp", ""),
    "--transport sse": ("http://127.0.0.1:PORT/mcp", ""),
    "--http --host localhost --path /": ("http://localhost:PORT/", ""),
    "--http --host 0.0.0.0": ("http://127.0.0.1:PORT/mcp", " and every other address"),
    "--http --host ::1 --path /x/y": ("http://[::1]:PORT/x/y", ""),
    "--http --host 0.0.0.0 --workers 2": ("http://127.0.0.1:PORT/mcp", " and every other address"),
    "--http --workers 2": ("http://127.0.0.1:PORT/mcp", ", with 2 workers"),
    "--http --reload": ("http://127.0.0.1:PORT/mcp", ", and reloads when a file changes"),
    "itself.py": ("http://127.0.0.1:PORT/own", ""),
}


@pytest.mark.parametrize("arguments", COMMANDS)
def test_it_is_served_at_the_url_that_is_printed_until_ctrl_c(folder: Path, arguments: str) -> None:
    if "::1" in arguments:
        try:
            socket.create_server(("::1", 0), family=socket.AF_INET6).close()
        except OSError:
            pytest.skip("this machine has no IPv6")
    command = [sys.executable, "itself.py"] if arguments == "itself.py" else None
    cold = "--host" not in arguments  # then something else is imported
    words = arguments.split()
    with serving("server.py", *words, cwd=folder, command=command, cold=cold) as server:
        assert server.client().post(call(1, "greet", name="you")).text == "Hello, you"
        server.process.signal(signal.SIGINT)
        assert server.process.exit_code() == 130
        # All is read when the streams have ended, which processes that inherit them may delay.
        assert list(iter(server.process.line, None)) == []
    url, more = COMMANDS[arguments]
    url = url.replace("PORT", str(urlsplit(server.url).port))
    *warnings, line = server.process.stderr.splitlines()
    is_open = "0.0.0.0" in arguments
    assert ["calls from anyone who can reach it" in each for each in warnings] == [True] * is_open
    assert line.startswith(f"hello listens on {url}{more}")


@pytest.mark.parametrize("arguments", [["--http", "--sse"], ["--transport", "sse"]])
def test_the_old_endpoints_are_served_on_request(folder: Path, arguments: list[str]) -> None:
    """SSE-9."""
    with serving("server.py", *arguments, cwd=folder) as server:
        connection = HTTPConnection("127.0.0.1", urlsplit(server.url).port, timeout=TIMEOUT)
        connection.request("GET", "/sse")
        assert connection.getresponse().readline() == b"event: endpoint\n"
        connection.close()


# --- what is said instead -------------------------------------------------------------------------

WRONG = {
    "--http --port 65536": "there is no port 65536; ports go from 0 (any that is free) to 65535",
    "--http --port -1": "there is no port -1",
    "--http --host 192.0.2.1": "192.0.2.1 is not an address of this machine; choose 127.0.0.1",
    "--http --host no.such.host.invalid": "the host 'no.such.host.invalid' is not known here",
    "--http --path mcp": "path must be like /mcp, without query or escapes, not 'mcp'",
    "--http --allow-origin app": "'app' is not an origin, which looks like https://app.example.com",
    "--http --workers 0": "--workers must be at least 1, not 0",
    "--http --workers 2 --reload": "--reload serves in one process; leave out --workers",
    "--http --workers 2 --host 192.0.2.1": "192.0.2.1 is not an address of this machine",
    "--transport sse --workers 2": "HTTP+SSE keeps a session in one process; leave out --workers",
    "--http --transport stdio": "--http and --transport stdio: choose one of them",
    "--transport pigeon": "unknown transport 'pigeon'; known: stdio, http, sse",
    "--http --port TAKEN": "port TAKEN is in use; choose another, or 0 for any that is free",
    "--http --port TAKEN --workers 2": "port TAKEN is in use; choose another, or 0 for any that",
    "--port 1 --allow-host x --workers 2": "--port, --allow-host, --workers: over HTTP only",
}


def run(folder: Path, *arguments: str) -> Ended:
    return mcpkit("run", *arguments, cwd=folder, env={"COLUMNS": "100"})


@pytest.mark.parametrize(("arguments", "message"), WRONG.items(), ids=WRONG)
def test_one_line_says_what_is_wrong(folder: Path, arguments: str, message: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ended = run(folder, "server.py", *arguments.replace("TAKEN", port).split())
    assert message.replace("TAKEN", port) in ended.refusal


@pytest.mark.parametrize("more", [[], ["--workers", "4"]], ids=["alone", "workers"])
def test_a_lifespan_that_fails_ends_it(folder: Path, more: list[str]) -> None:
    (folder / "lifespan.py").write_text(FAILING)
    ended = run(folder, "lifespan.py", "--http", "--port", "0", *more)
    assert (ended.code, ended.stdout) == (3, "")
    assert ended.stderr.count("RuntimeError: no database") == 1
    assert "listens" not in ended.stderr


def test_help_names_the_defaults_of_options(folder: Path) -> None:
    help = run(folder, "--help")
    assert "One of stdio, http, sse (default: stdio)" in help.output
    assert "The address to listen on (default: 127.0.0.1)" in help.stdout
    assert "0 takes any that is free (default: 8000)" in help.stdout
    assert "Where the endpoint is (default: /mcp)" in help.stdout


# --- --reload -------------------------------------------------------------------------------------


def test_a_change_is_shown_and_served(tmp_path: Path) -> None:
    """Sessions of before continue; files of others do not count, and those below do."""
    (tmp_path / "server.py").write_text(SERVER.replace("Hello", "First"))
    with hurried("--reload", cwd=tmp_path) as server:
        process, client = server.process, server.client("2025-06-18")
        (tmp_path / "venv").mkdir()
        (tmp_path / "venv" / "pyvenv.cfg").write_text("")
        (tmp_path / ".hidden").mkdir()
        for name in ("notes.txt", "venv/installed.py", ".hidden/file.py"):
            (tmp_path / name).write_text("")
        change(tmp_path, SERVER.replace("Hello", "Second"))
        process.wait_for_stderr("mcpkit: server.py changed: reloading\n")
        assert client.call("greet", name="you") == "Second, you"
        assert len(process.stderr.splitlines()) == 2
        (tmp_path / "parts").mkdir()
        (tmp_path / "parts" / "one.py").write_text("")
        process.wait_for_stderr(f"mcpkit: {Path('parts', 'one.py')} changed")
        assert client.call("greet", name="you") == "Second, you"
        change(tmp_path, "def f(:")
        process.wait_for_stderr("ended with exit code 2; it reloads when a file changes\n")
        [*_, changed, wrong, _] = process.stderr.splitlines()
        assert changed == "mcpkit: server.py changed: reloading"
        assert wrong == (
            "mcpkit: server.py cannot be imported: SyntaxError: invalid syntax (server.py:1)"
        )
        change(tmp_path, SERVER.replace("Hello", "Third"))
        assert server.client().post(call(1, "greet", name="you")).text == "Third, you"


# --- --workers ------------------------------------------------------------------------------------

PID = "import os\n" + SERVER + "@app.tool\ndef pid() -> int:\n    return os.getpid()\n"

FAILING = """
from contextlib import asynccontextmanager
from mcpkit import MCPKit

@asynccontextmanager
async def lifespan(app):
    raise RuntimeError("no database")
    yield

app = MCPKit("failing", lifespan=lifespan)
"""


class TestWorkers:
    @pytest.mark.skipif(sys.platform != "linux", reason="limits of another process")
    def test_one_that_dies_is_replaced_at_once_or_as_soon_as_possible(self, tmp_path: Path) -> None:
        import resource

        (tmp_path / "server.py").write_text(PID)
        with hurried("--workers", "2", cwd=tmp_path) as server:
            client, found = server.client(), set[int]()

            def both_serve() -> bool:
                found.add(int(client.post(call(1, "pid")).text))
                return len(found) == 2

            eventually(both_serve)
            first, second = found
            os.kill(first, signal.SIGKILL)
            server.process.wait_for_stderr("a worker has ended by signal 9; another takes its")
            assert int(client.post(call(2, "pid")).text) != first
            found -= {first}
            eventually(both_serve)
            first, second = found
            parent, kind = server.process.pid, resource.RLIMIT_NOFILE
            limit = resource.prlimit(parent, kind)
            resource.prlimit(parent, kind, (3, limit[1]))
            os.kill(first, signal.SIGKILL)
            server.process.wait_for_stderr("a worker could not be started: Too many open files;")
            assert int(client.post(call(2, "pid")).text) == second
            resource.prlimit(parent, kind, limit)
            found.clear()
            eventually(both_serve)

    @pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
    def test_all_that_die_at_once_and_again_are_replaced(self, tmp_path: Path) -> None:
        """Those that have served before will do so again, whatever has killed them."""
        (tmp_path / "server.py").write_text(PID)
        with hurried("--workers", "2", cwd=tmp_path) as server:
            client = server.client()
            assert client.post(call(1, "pid")).text
            parent = server.process.pid
            killed: set[str] = set()

            def children() -> set[str]:
                return {*Path(f"/proc/{parent}/task/{parent}/children").read_text().split()}

            def killed_while_starting() -> bool:
                for each in children():
                    with suppress(FileNotFoundError, ProcessLookupError):
                        # Beside them, multiprocessing has a process of its own.
                        if b"spawn_main" in Path(f"/proc/{each}/cmdline").read_bytes():
                            killed.add(each)
                            os.kill(int(each), signal.SIGKILL)
                return "a worker could not be started" in server.process.stderr

            eventually(killed_while_starting)
            # One that is killed may still take a request.
            eventually(lambda: not killed & children())
            assert int(server.client().post(call(2, "pid")).text)

    def test_an_app_that_cannot_be_imported_in_them_ends_with_an_error(
        self, tmp_path: Path
    ) -> None:
        only_there = "import multiprocessing as m\nif m.parent_process(): 1 / 0\n"
        (tmp_path / "server.py").write_text(only_there + SERVER)
        ended = run(tmp_path, "server.py", "--http", "--port", "0", "--workers", "4")
        assert "ZeroDivisionError: division by zero (server.py:2)" in ended.refusal

    def test_they_do_not_outlive_their_parent(self, tmp_path: Path) -> None:
        (tmp_path / "server.py").write_text(PID)
        command = [*RUN, "server.py", "--http", "--port", "0", "--workers", "2"]
        with started(command, cwd=tmp_path, stdin=subprocess.DEVNULL) as process:
            process.wait_for_stderr("listens")
            process.signal(signal.SIGKILL)
            # Their ends of its stdout are closed as well.
            assert process.line() is None


@pytest.mark.skipif(not hasattr(os, "sysconf"), reason="no limit of descriptors there")
def test_as_many_connections_are_possible_as_the_limits_allow(tmp_path: Path) -> None:
    """A shell's usual 1,024 descriptors are fewer than requests and streams may be."""
    (tmp_path / "server.py").write_text(
        "import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (256, 4096))\n"
        f"{SERVER}@app.tool\ndef descriptors() -> int:\n"
        "    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]\n"
    )
    with serving("server.py", "--http", cwd=tmp_path) as server:
        assert server.client("2025-06-18").call("descriptors") == "4096"


# --- without a stderr that can be written ---------------------------------------------------------


def served_pid(port: int, besides: int | None = None) -> int:
    """The process that serves on a port, once another one than `besides` does."""
    found: list[int] = []

    def is_served() -> bool:
        try:
            answer = Client(f"http://127.0.0.1:{port}/mcp", []).post(call(1, "pid"))
            found[:] = [int(answer.text)] if answer.status == 200 else []
        except (OSError, HTTPException):
            return False
        return found not in ([], [besides])

    eventually(is_served)
    return found[0]


WAYS = {"alone": [], "workers": ["--workers", "2"], "reload": ["--reload"]}


@pytest.mark.skipif(sys.platform == "win32", reason="descriptors of POSIX")
class TestStderr:
    """A server does not end because it cannot say something."""

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        (tmp_path / "server.py").write_text(PID + "@app.tool\ndef fail() -> None:\n    1 / 0\n")
        return tmp_path

    @staticmethod
    @contextmanager
    def served(folder: Path, more: list[str], stderr: Any, shell: str = "") -> Iterator[Any]:
        """The port and the process of a server, which ends in good order."""
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        command = [*HURRIED, "run", "server.py", "--http", "--port", str(port), *more]
        variables = limits(SOON)
        if shell:
            variables[WORKERS] = warm.python(within=True)
            command = ["sh", "-c", f'exec "$@" {shell}', "sh", *command]
        options: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
        options |= {"stderr": stderr, "hearing": False, "within": True}
        with started(command, cwd=folder, env=variables, **options) as process:
            yield port, process.pid
            process.signal(signal.SIGTERM)
            assert process.exit_code() == 0

    @pytest.mark.parametrize("more", WAYS.values(), ids=WAYS)
    @pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no full device there")
    def test_it_is_full(self, folder: Path, more: list[str]) -> None:
        with open("/dev/full", "wb") as full, self.served(folder, more, full) as (port, _):
            first = served_pid(port)
            client = Client(f"http://127.0.0.1:{port}/mcp", [])
            assert client.post(call(1, "fail")).result["isError"] is True
            if "--workers" in more:
                os.kill(first, signal.SIGKILL)
                served_pid(port, besides=first)

    @pytest.mark.parametrize("more", [[], ["--workers", "2"]], ids=["alone", "workers"])
    @pytest.mark.parametrize("closed", ["2>&-", "0<&- 2>&-", "0<&- 1>&- 2>&-"])
    def test_it_is_closed(self, folder: Path, closed: str, more: list[str]) -> None:
        with self.served(folder, more, subprocess.DEVNULL, closed) as (port, pid):
            served_pid(port)
            for number in (0, 1, 2):
                place = Path(f"/proc/{pid}/fd/{number}")
                assert not place.parent.exists() or os.readlink(place) == os.devnull

    @pytest.mark.parametrize("more", WAYS.values(), ids=WAYS)
    def test_its_reader_has_left(self, folder: Path, more: list[str]) -> None:
        ours, theirs = os.pipe()
        with self.served(folder, more, theirs) as (port, _):
            os.close(theirs)
            first = served_pid(port)
            os.close(ours)
            if "--workers" in more:
                os.kill(first, signal.SIGKILL)
            elif more:
                change(folder, PID + "\n")
            assert served_pid(port, besides=first if more else None)

    def test_it_is_not_read_yet(self, folder: Path) -> None:
        flood = "@app.tool\nasync def flood() -> None:\n    print('x' * 500_000, file=sys.stderr)\n"
        (folder / "server.py").write_text("import sys\n" + PID + flood)
        ours, theirs = os.pipe()
        with self.served(folder, [], theirs) as (port, _):
            os.close(theirs)
            served_pid(port)
            client = Client(f"http://127.0.0.1:{port}/mcp", [])
            assert client.post(call(1, "flood")).status == 200
        os.close(ours)
