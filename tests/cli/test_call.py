"""``mcpkit call``, as a process."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import anyio
import pytest

from mcpkit.cli._answers import _output_of
from tests.cli.commands import (
    ELICITING,
    OFFERING,
    Ended,
    Step,
    at_terminal,
    interrupt,
    mcpkit,
    single_line,
)
from tests.kit import eventually
from tests.transports.http.plain import serving

PNG = b"\x89PNG\r\n\x1a\npixels"


def call(*arguments: str, input: bytes = b"", cwd: Path | None = None, cold: bool = False) -> Ended:
    return mcpkit("call", OFFERING, *arguments, input=input, cwd=cwd, cold=cold)


# --- arguments and results ------------------------------------------------------------------------


def test_arguments_of_every_kind() -> None:
    ended = call(
        "search",
        *["city=Oslo", "nights=3", "tags=sea", "tags=sun", "kind=flat", "pool=yes", "budget=9.5"],
        "guest.name=Ann",
        cold=True,
    )
    assert json.loads(ended.output) == {
        "city": "Oslo flat ['sea', 'sun'] True 9.5",
        "nights": 3,
        "guest": {"name": "Ann", "age": 30},
    }


@pytest.mark.parametrize(
    ("words", "input", "stdout"),
    [
        (["add", "--args", "-"], '{"a": 1, "b": 2}', "3\n"),
        (["echo", "text=@-"], "Grüße", "Grüße\n"),
        (["echo", "text= a\n[bold]b "], "", " a\n[bold]b \n"),
        (["add", "a=1", "b=2", "--revision", "2024-11-05"], "", "3\n"),
        (["variable", "name=KEY", "--env", "KEY=secret"], "", "secret\n"),
        (["summary"], "", "It is warm.\n"),
        (["steps", "--quiet"], "", "done\n"),
    ],
)
def test_a_result_is_printed(words: list[str], input: str, stdout: str) -> None:
    assert call(*words, input=input.encode()) == (0, stdout, "")


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ("serach", 2, "there is no tool 'serach'; did you mean 'search'?"),
        ("", 2, "name a tool; there is search, "),
        ("add a=1 b=two", 2, 'b: expected integer, got "two"'),
        ("fail how=protocol", 1, r"the server answered with error -32050: No such \x1b[31mluck"),
        ("nothing", 0, "nothing succeeded and returned no content"),
        ("book -a yes", 2, "--answer 'yes': write key=value, accept, decline or cancel"),
        ("haiku --sampling-command missing", 2, "--sampling-command 'missing': there is no such"),
        ("where --roots missing", 2, "--roots missing: there is no such file or folder"),
        ("haiku", 1, "the server answered with error "),
        ("where", 1, "the server answered with error "),
    ],
)
def test_a_failure_is_one_line(words: str, code: int, message: str) -> None:
    line = single_line(call(*words.split()), code)
    assert line.startswith(message)
    if message.endswith("error "):
        assert "; add --" in line


def test_the_whole_result_as_json_and_a_tool_that_fails() -> None:
    result = json.loads(call("add", "a=1", "b=2", "--json").output)
    assert result["content"] == [{"type": "text", "text": "3"}]
    assert result["structuredContent"] == {"result": 3}
    assert call("fail") == (1, "", "The oven is off.\n")
    ended = call("fail", "--json")
    assert (ended.code, ended.stderr) == (1, "")
    assert json.loads(ended.stdout)["isError"] is True
    ended = call("add", "a=1", "c=3")
    assert (ended.code, ended.stdout) == (1, "")
    assert "c: unknown argument" in ended.stderr


def test_bytes_go_into_a_pipe_or_into_new_files(tmp_path: Path) -> None:
    assert call("plot").output.encode("utf-8", "surrogateescape") == PNG
    folder = tmp_path / "new"
    ended = call("album", "--save", str(folder))
    assert (ended.code, ended.stdout) == (0, "Here:\nwords\n")
    assert ended.stderr.splitlines() == [
        f"mcpkit: image/png, 14 bytes: saved as {folder / 'album.png'}",
        f"mcpkit: audio/wav, 12 bytes: saved as {folder / 'album.wav'}",
        f"mcpkit: application/pdf, 8 bytes: saved as {folder / 'report.pdf'}",
    ]
    assert (folder / "album.png").read_bytes() == PNG
    (tmp_path / "plot.png").write_text("mine")
    assert "/plot.png: " in call("plot", "--save", str(tmp_path / "plot.png")).stderr
    call("plot", "--save", str(tmp_path))
    assert (tmp_path / "plot.png").read_text() == "mine"
    assert (tmp_path / "plot-2.png").read_bytes() == PNG


# --- what is shown meanwhile ----------------------------------------------------------------------


@pytest.mark.parametrize("revision", ["2025-06-18", "2026-07-28"])
def test_progress_and_logs_are_lines_on_stderr(revision: str) -> None:
    ended = call("steps", "--revision", revision)
    assert (ended.code, ended.stdout) == (0, "done\n")
    assert ended.stderr.splitlines() == [
        "info    starting",
        "1/2  step [1]",
        "2/2  step [2]",
        'warning {"left": 0}',
    ]


# --- requests of the server -----------------------------------------------------------------------


@pytest.mark.parametrize("revision", ELICITING)
def test_answers_on_the_command_line(revision: str) -> None:
    answers = ["--answer", "name=Ann", "-a", "room=double", "-a", "nights:=3"]
    ended = call("book", *answers, "--revision", revision)
    assert ended.code == 0
    assert ended.stdout == "booked: Details(name='Ann', room='double', nights=3, quiet=False)\n"
    assert ended.stderr.startswith("The server asks: Who travels?  → {")


UNASKED = (
    'mcpkit: the server asks "Who travels?", but there is no terminal to ask at; cancelled. To '
)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("book -a decline", "not booked: Declined\n"),
        ("book -a name=Ann", f"{UNASKED}answer: --answer room=…\nnot booked: Dismissed\n"),
        (
            "book -a name=A -a room=double",
            "mcpkit: --answer name=A: expected string, at least 2 characters\n",
        ),
        ("confirm", "Dismissed None\n"),
        ("confirm", "To answer: --answer accept\n"),
        ("confirm -a accept -a value=blue", "Accepted blue\n"),
        ("sign_in", "(https://example.com/login)"),
        ("sign_in --answer accept", "Accepted\n"),
    ],
)
def test_a_form_or_page_is_answered_or_dismissed(words: str, text: str) -> None:
    ended = call(*words.split())
    assert ended.code == (1 if "book" in words else 0)
    assert text in ended.stdout + ended.stderr


@pytest.mark.parametrize("revision", ["2024-11-05", "2026-07-28"])
def test_a_command_answers_for_the_model(revision: str) -> None:
    command = f'"{sys.executable}" -c "import sys; print(sys.stdin.read().upper())"'
    ended = call("haiku", "--sampling-command", command, "--revision", revision)
    assert ended.code == 0
    assert ended.stdout == "the model said: SYSTEM: BE BRIEF.\n\nUSER: A HAIKU ABOUT TEA\n"


def test_a_command_cannot_call_tools(tmp_path: Path) -> None:
    """SAMP-1: the option that is given already is not recommended."""
    (tmp_path / "asking.py").write_text(
        "from mcpkit import Context, MCPKit\napp = MCPKit('asking')\ndef look() -> str: ...\n"
        "@app.tool\nasync def ask(ctx: Context) -> str:\n"
        "    return (await ctx.sample('Where?', tools=[look])).text\n"
    )
    command = ["ask", "--sampling-command", f'"{sys.executable}"']
    said = single_line(mcpkit("call", str(tmp_path / "asking.py"), *command), 1)
    assert said.endswith("declared: sampling.tools; a --sampling-command answers with text only")


def test_a_command_may_fail_or_end_without_reading_the_messages() -> None:
    ended = call("haiku", "--sampling-command", f'"{sys.executable}" -c "exit(3)"')
    assert single_line(ended, 1).endswith("asked for the model, failed (exit code 3)")
    command = [sys.executable, "-c", "print('A haiku.')"]
    assert anyio.run(_output_of, command, "more than a pipe holds" * 50_000) == "A haiku."


def test_roots(tmp_path: Path) -> None:
    ended = call("where", "--roots", str(tmp_path), "--roots", "file:///other")
    assert ended.stdout == f"{tmp_path.as_uri()} file:///other\n"


# --- the end --------------------------------------------------------------------------------------


@pytest.fixture
def cancelled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file in which a tool writes that it may stop."""
    monkeypatch.setenv("CANCELLED", str(tmp_path / "cancelled"))
    return tmp_path / "cancelled"


def test_a_call_that_takes_too_long_is_cancelled(cancelled: Path) -> None:
    """The limit is also one for the start of the server, so it is not short."""
    ended = call("hang", "--timeout", "2", "--quiet")
    assert ended.refusal == "hang did not answer within 2 s, and has been cancelled"
    assert cancelled.read_text() == "stopped"


@pytest.mark.skipif(sys.platform == "win32", reason="has no pseudo-terminals")
@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_ctrl_c_cancels_the_call_at_the_server(revision: str, cancelled: Path) -> None:
    """CANC-5 to CANC-7, over HTTP, where the server itself hears no Ctrl-C."""
    with serving(OFFERING, "--http", "--port", "0", cwd=Path(OFFERING).parent) as server:
        shown = at_terminal(
            *["call", server.url, "hang", "--revision", revision],
            steps=[Step("hanging", done=interrupt)],
            code=130,
        )
        assert "Traceback" not in shown
        eventually(cancelled.exists)


# --- terminals ------------------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform == "win32", reason="has no pseudo-terminals")
class TestAtATerminal:
    def test_a_form_is_filled_in_field_by_field(self) -> None:
        shown = at_terminal(
            *["call", OFFERING, "book"],
            steps=[
                Step("> ", "\n"),
                Step("needed", "A\n"),
                Step("expected string, at least 2 characters", "Ann\n"),
                Step("> ", "2\n"),
                Step("> [2] ", "99\n"),
                Step("expected integer, 1 to 14", "\n"),
                Step("> [no] ", "yes\n"),
                Step("Send it? ", "edit\n"),
                Step("> [Ann] ", "Bob\n"),
                Step("> [double] ", "\n"),
                Step("> [2] ", "\n"),
                Step("> [yes] ", "\n"),
                Step("Send it? ", "\n"),
            ],
        )
        assert "The server asks: Who travels?" in shown
        assert "As in the passport" in shown
        assert "     1  single\n     2  double\n" in shown
        assert "booked: Details(name='Bob', room='double', nights=2, quiet=True)\n" in shown

    @pytest.mark.parametrize(
        ("step", "expected", "end"),
        [
            (Step("> ", "/decline\n"), 1, "not booked: Declined\n"),
            (Step("> ", "\x04"), 1, "not booked: Dismissed\n"),
            (Step("> ", done=interrupt), 130, ""),
        ],
        ids=["decline", "Ctrl-D", "Ctrl-C"],
    )
    def test_a_form_is_left(self, step: Step, expected: int, end: str) -> None:
        shown = at_terminal("call", OFFERING, "book", steps=[step], code=expected)
        assert shown.endswith(end)
        assert "Traceback" not in shown

    def test_several_choices_a_field_left_empty_and_confirmations(self) -> None:
        shown = at_terminal(
            *["call", OFFERING, "extend"],
            steps=[Step("> [b] ", "2, breakfast\n"), Step("> ", "\n"), Step("Send it? ", "y\n")],
        )
        assert "     2  Parking  (p)\n" in shown
        assert "More(extras=['p', 'b'], note=None)\n" in shown
        shown = at_terminal(
            *["call", OFFERING, "confirm", "-a", "value=red"],
            steps=[Step("yes, no or cancel? ", "\n"), Step("yes, no or cancel? ", "y\n")],
        )
        assert shown.splitlines()[-1] == "Accepted red"

    @pytest.mark.parametrize(
        ("typed", "outcome"),
        [("m\n", "Accepted"), ("no\n", "Declined"), ("x\nc\n", "Dismissed")],
        ids=["myself", "no", "cancel"],
    )
    def test_a_page_is_shown_first(self, typed: str, outcome: str) -> None:
        shown = at_terminal("call", OFFERING, "sign_in", steps=[Step("cancel? ", typed)])
        assert "  https://example.com/login\n" in shown
        assert shown.endswith(f"{outcome}\n")

    def test_progress_is_a_bar_that_goes_away(self) -> None:
        shown = at_terminal("call", OFFERING, "steps", raw=True)
        assert all(each in shown for each in ("━", "1/2", "step [1]"))
        assert shown.rstrip().endswith("\x1b[2Kdone")

    def test_what_the_server_writes_to_stderr_is_shown_above_the_bar(self, tmp_path: Path) -> None:
        (tmp_path / "loud.py").write_text(
            "import sys\nfrom mcpkit import Context, MCPKit\napp = MCPKit('loud')\n"
            "@app.tool\nasync def work(ctx: Context) -> str:\n"
            "    ctx.progress(1, 2)\n    print('look', file=sys.stderr)\n    return 'done'\n"
        )
        shown = at_terminal("call", str(tmp_path / "loud.py"), "work")
        assert "look" in shown.replace("\r", "\n").splitlines()

    def test_data_is_laid_out_and_what_would_steer_it_is_written_out(self) -> None:
        shown = at_terminal("call", OFFERING, "search", "city=Oslo")
        assert shown.startswith('{\n  "city": "Oslo hotel [] False None",\n  "nights": 2')
        shown = at_terminal("call", OFFERING, "evil", raw=True)
        assert shown == r"a\x1b]0;title\x07b\x1b[2Jc\x9b[bold]d" + "\n"
        (line,) = at_terminal("call", OFFERING, "plot").splitlines()
        what, place = line.split(" saved as ")
        assert what == "mcpkit: image/png, 14 bytes:"
        assert Path(place).read_bytes() == PNG
