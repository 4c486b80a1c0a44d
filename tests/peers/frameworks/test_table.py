"""The page about clients shows what is expected of them. They themselves are tried by .ci/deep."""

from __future__ import annotations

import base64
import json

from tests.peers.frameworks.clients import (
    CHECKS,
    CLIENTS,
    EXPECTED,
    HERE,
    PICTURE,
    RIGHT,
    Expected,
    marks,
    on_page,
    table,
)

FOUND: Expected = json.loads(EXPECTED.read_text(encoding="utf-8"))


def test_page_shows_what_is_expected() -> None:
    assert on_page() == table(FOUND)


def test_every_client_is_expected_over_every_transport() -> None:
    assert {key: tuple(each) for key, each in FOUND.items()} == {
        each.key: each.over for each in CLIENTS
    }
    assert all(tuple(e["marks"]) == tuple(CHECKS) for f in FOUND.values() for e in f.values())


def test_every_file_belongs_to_a_client() -> None:
    requirements = {each.requirements for each in CLIENTS}
    assert set((HERE / "requirements").iterdir()) == requirements
    drivers = {each.stem.removeprefix("drive_") for each in (HERE / "drivers").glob("drive_*")}
    assert drivers == {each.key for each in CLIENTS if not each.bridge} | {"bridge"}


def test_every_version_is_pinned() -> None:
    assert all(each.version[0].isdigit() for each in CLIENTS)


def test_what_is_right_is_told_from_what_is_not() -> None:
    right = {check: values[0] for check, values in RIGHT.items()} | {"agent": "It is 42."}
    assert set(marks(right, set()).values()) == {"✔"}
    wrong = {check: {"raised": "KeyError"} for check in CHECKS}
    assert set(marks(wrong, set()).values()) == {"✘"}
    assert marks({}, {"tools/list"}) == {"tools": "✔"} | dict.fromkeys([*CHECKS][1:], "–")
    assert marks({"connected": False}, {"tools/list"})["tools"] == "✘"
    assert marks({}, set())["tools"] == "✘"


def test_server_draws_the_picture_that_is_expected() -> None:
    assert PICTURE in (HERE / "server.py").read_text(encoding="utf-8")
    assert base64.b64decode(PICTURE).startswith(b"\x89PNG")
