"""``mcpkit prompt``, as a process."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.commands import OFFERING, Ended, mcpkit, single_line


def prompt(*arguments: str, cold: bool = False) -> Ended:
    return mcpkit("prompt", OFFERING, *arguments, cold=cold)


def test_messages_stand_under_their_roles(tmp_path: Path) -> None:
    ended = prompt("plan", "city=Oslo", "days=2", "--save", str(tmp_path), cold=True)
    assert ended.code == 0
    assert ended.stdout == (
        "user:\n2 days in Oslo.\n\nassistant:\nHere is a map:\n\nuser:\n[image/png]\n"
    )
    assert single_line(ended._replace(stdout="")).endswith(f"saved as {tmp_path / 'plan.png'}")


def test_the_result_as_json() -> None:
    ended = prompt("plan", "city=Oslo", "--json")
    assert (ended.code, ended.stderr) == (0, "")
    result = json.loads(ended.stdout)
    assert result["messages"][0]["content"] == {"type": "text", "text": "3 days in Oslo."}


WRONG = {
    "an unknown prompt": (["plam"], "there is no prompt 'plam'; did you mean 'plan'?"),
    "a missing argument": (["plan", "days=2"], "plan needs city=…"),
    "an unknown argument": (
        ["plan", "citty=Oslo"],
        "plan: there is no argument 'citty'; did you mean 'city'?",
    ),
    "JSON": (["plan", "city:=1"], "city:=1: the arguments of a prompt are texts: write city=…"),
    "an argument twice": (["plan", "city=a", "city=b"], "city=b: city has been given already"),
}


@pytest.mark.parametrize(("arguments", "message"), WRONG.values(), ids=WRONG.keys())
def test_one_line_says_what_is_wrong(arguments: list[str], message: str) -> None:
    ended = prompt(*arguments)
    assert ended.code == 2
    assert single_line(ended) == message


def test_the_server_says_what_is_wrong() -> None:
    ended = prompt("plan", "city=Oslo", "days=two")
    assert ended.code == 1
    assert single_line(ended).startswith("the server answered with error -32602: ")
