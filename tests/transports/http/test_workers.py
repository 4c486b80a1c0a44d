"""Several processes serve one app, and share nothing but a secret (DESIGN: sealed session ids)."""

from __future__ import annotations

from collections.abc import Iterator
from http.client import HTTPConnection

import pytest

from tests.kit import eventually
from tests.messages import LEGACY
from tests.transports.http.plain import Client, Server, serving
from tests.transports.processes import call

CALLS = 1000
SOURCE = """
import os
from mcpkit import Context, MCPKit

app = MCPKit("workers")


@app.tool(inline=True)
def pid() -> int:
    return os.getpid()


@app.tool
async def ask(*, ctx: Context) -> str:
    return str((await ctx.elicit("Which?", ["this", "that"])).data)


@app.resource("work://shared")
def shared() -> str:
    return "shared"
"""


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Four workers. The first one is announced; the others take as long as the machine needs."""
    folder = tmp_path_factory.mktemp("workers")
    (folder / "server.py").write_text(SOURCE)
    with serving("server.py", "--http", "--workers", "4", cwd=folder, within=True) as server:
        client, found = server.client(LEGACY[-1]), set[str]()

        def several_serve() -> bool:
            found.add(client.call("pid"))
            return len(found) > 1

        eventually(several_serve)
        yield server


# --- sessions that need no store ------------------------------------------------------------------


def test_a_thousand_calls_over_fresh_connections(four: Server) -> None:
    clients = {version: four.client(version) for version in LEGACY}
    served_by: dict[str, set[str]] = {version: set() for version in clients}
    for _ in range(CALLS // len(clients)):
        for version, client in clients.items():
            served_by[version].add(client.call("pid"))
    assert [version for version, found in served_by.items() if len(found) == 1] == []


def test_a_request_without_session_is_served_by_any(four: Server) -> None:
    """VER-5."""
    client, found = four.client(), set[str]()

    def another_has_served() -> bool:
        answer = client.post(call(1, "pid"))
        assert answer.status == 200
        found.add(answer.text)
        return len(found) > 1

    eventually(another_has_served)  # the others begin when the first one serves


# --- what needs the worker that holds a stream ----------------------------------------------------


def connections(client: Client) -> tuple[HTTPConnection, HTTPConnection]:
    """Two connections, to two workers: one stays with the worker that has accepted it."""
    found: dict[str, HTTPConnection] = {}
    for _ in range(200):
        connection = client.connect()
        process = client.post(client.calling("pid"), connection).text
        if process in found:
            connection.close()
        else:
            found[process] = connection
        if len(found) == 2:
            one, other = found.values()
            return one, other
    raise AssertionError("one worker serves everything")


def test_what_needs_the_worker_that_holds_a_stream_is_refused_elsewhere(four: Server) -> None:
    client = four.client("2025-11-25", elicitation={})
    here, there = connections(client)
    events = client.stream(client.calling("ask"), here)
    question = events.question()
    result = {"action": "accept", "content": {"value": "this"}}
    response = {"jsonrpc": "2.0", "id": question["id"], "result": result}
    assert client.post(response, there).status == 409
    # A busy machine may leave the connections to the other workers for a while.
    assert eventually(lambda: client.post(response).status == 202)
    assert events.text == "this"

    client = four.client("2025-11-25")
    here, there = connections(client)
    assert client.stream(None, here).status == 200
    answer = client.post(client.request("resources/subscribe", uri="work://shared"), there)
    assert answer.status == 409
    assert answer.error == (
        "This is one of 4 workers, and not the one that holds the session's stream: "
        "route sessions to workers by Mcp-Session-Id, or run one worker"
    )
    assert "id" in answer.last
