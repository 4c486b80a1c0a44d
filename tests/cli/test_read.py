"""``mcpkit read`` and ``mcpkit prompt``, as processes."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.cli.commands import OFFERING, Ended, at_terminal, mcpkit, single_line
from tests.transports.http.plain import serving

PNG = b"\x89PNG\r\n\x1a\npixels"


def read(*arguments: str, cold: bool = False) -> Ended:
    return mcpkit("read", OFFERING, *arguments, cold=cold)


def test_a_resource_goes_to_stdout() -> None:
    assert read("offering://text") == (0, "words\n", "")
    assert read("offering://Oslo/weather", cold=True) == (0, "Sunny in Oslo\n", "")
    assert read("offering://logo.png").output.encode("utf-8", "surrogateescape") == PNG


@pytest.mark.skipif(sys.platform == "win32", reason="has no pseudo-terminals")
def test_bytes_are_saved_at_a_terminal() -> None:
    shown = at_terminal("read", OFFERING, "offering://logo.png")
    place = Path(shown.strip().split(" saved as ")[1])
    assert place.name == "logo.png"
    assert place.read_bytes() == PNG


@pytest.mark.parametrize(("name", "data"), [("logo.png", PNG), ("text", b"words")])
def test_it_is_saved(name: str, data: bytes, tmp_path: Path) -> None:
    ended = read(f"offering://{name}", "--save", str(tmp_path))
    assert (ended.code, ended.stdout) == (0, "")
    [file] = tmp_path.iterdir()
    assert file.name == (name if "." in name else f"{name}.txt")
    assert file.read_bytes() == data


@pytest.mark.parametrize(
    ("revision", "code"),
    [("2024-11-05", -32002), ("2025-11-25", -32002), ("2026-07-28", -32602)],
)
def test_the_result_as_json_and_errors(revision: str, code: int) -> None:
    ended = read("offering://text", "--json", "--revision", revision)
    (contents,) = json.loads(ended.stdout)["contents"]
    assert contents == {"uri": "offering://text", "mimeType": "text/plain", "text": "words"}
    ended = read("offering://no/such/thing", "--revision", revision)
    assert single_line(ended, 1).startswith(
        f"the server answered with error {code}: Resource not found"
    )


def test_several_contents(tmp_path: Path) -> None:
    (tmp_path / "several.py").write_text(
        "from mcpkit import MCPKit, ResourceResult, TextResourceContents, BlobResourceContents\n"
        "app = MCPKit('several')\n"
        "@app.resource('s://all')\n"
        "def all_of_them() -> ResourceResult:\n"
        "    return ResourceResult([TextResourceContents('s://a', 'A', mime_type='text/plain'),\n"
        "                           TextResourceContents('s://b', 'B'),\n"
        "                           BlobResourceContents('s://c', b'C')])\n"
    )
    ended = mcpkit("read", "several.py", "s://all", cwd=tmp_path)
    assert (ended.code, ended.stdout) == (0, "A\nB\n")
    lines = ended.stderr.splitlines()
    assert lines[:2] == ["mcpkit: s://a (text/plain), 1 byte:", "mcpkit: s://b, 1 byte:"]
    assert Path(lines[2].split(" saved as ")[1]).read_bytes() == b"C"


def test_a_url() -> None:
    with serving(OFFERING, "--http", "--port", "0", cwd=Path(OFFERING).parent) as server:
        assert mcpkit("read", server.url, "offering://text", "-H", "X-Any: 1") == (0, "words\n", "")


# --- prompts --------------------------------------------------------------------------------------


def prompt(*arguments: str, cold: bool = False) -> Ended:
    return mcpkit("prompt", OFFERING, *arguments, cold=cold)


def test_messages_stand_under_their_roles_and_in_json(tmp_path: Path) -> None:
    assert prompt("plan", "city=Oslo", "days=2", "--save", str(tmp_path), cold=True) == (
        0,
        "user:\n2 days in Oslo.\n\nassistant:\nHere is a map:\n\nuser:\n[image/png]\n",
        f"mcpkit: image/png, 14 bytes: saved as {tmp_path / 'plan.png'}\n",
    )
    result = json.loads(prompt("plan", "city=Oslo", "--json").output)
    assert result["messages"][0]["content"] == {"type": "text", "text": "3 days in Oslo."}
    ended = prompt("plan", "city=Oslo", "days=two")
    assert single_line(ended, 1).startswith("the server answered with error -32602: ")


WRONG_PROMPTS = {
    "plam": "there is no prompt 'plam'; did you mean 'plan'?",
    "plan days=2": "plan needs city=…",
    "plan citty=Oslo": "plan: there is no argument 'citty'; did you mean 'city'?",
    "plan city:=1": "city:=1: the arguments of a prompt are texts: write city=…",
    "plan city=a city=b": "city=b: city has been given already",
}


@pytest.mark.parametrize(("arguments", "message"), WRONG_PROMPTS.items(), ids=WRONG_PROMPTS)
def test_one_line_says_what_is_wrong(arguments: str, message: str) -> None:
    assert prompt(*arguments.split()).refusal == message
