"""Other clients notice entries of a kind that a server did not have when they connected."""

from __future__ import annotations

import json

import pytest

from tests.peers.installed import INSTALLED, NODE, ROOT, copy_scripts, node, output_of, require
from tests.peers.test_peers import HERE
from tests.transports.http.plain import RUN
from tests.warm import python

pytestmark = pytest.mark.peers

PYTHON = [str(INSTALLED / "python-2" / "bin" / "python"), str(HERE / "grow.py")]
CLIENTS = [
    ("typescript", "auto"),
    ("typescript", "2025-11-25"),
    ("python", "auto"),
    ("python", "legacy"),
]


@pytest.mark.parametrize(("client", "mode"), CLIENTS, ids="-".join)
def test_a_client_follows_a_list_that_begins_and_ends_empty(client: str, mode: str) -> None:
    """TOOL-1, LIFE-8: it asks for advertised kinds only, and is notified of these alone."""
    require(INSTALLED / "python-2", NODE)
    copy_scripts()
    command = node(NODE / "grow.mjs") if client == "typescript" else PYTHON
    printed = output_of([*command, mode, python(), *RUN[1:], str(HERE / "growing.py")], cwd=ROOT)
    assert json.loads(printed) == [[], [], ["grown"], [], []]
