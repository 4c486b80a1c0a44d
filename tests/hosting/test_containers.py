"""The app as a process that a platform starts: on Cloud Run, and as a custom handler in Azure."""

from __future__ import annotations

import http.client
import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest

from mcpkit import MCPKit
from mcpkit.testing import REVISIONS, TestClient
from tests.docs.pages import DOCS, free_port, titled
from tests.transports.http.plain import Client
from tests.transports.processes import REPOSITORY, Process, started
from tests.warm import put_programs
from tests.web import calling

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals are others there")

WARM: Final = 100
GRACE: Final = 10.0
"""Seconds after SIGTERM until Cloud Run kills a process."""

block_of = partial(titled, "serverless.md")


@pytest.fixture(scope="module")
def cloud_run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with container(tmp_path_factory.mktemp("programs")) as (_, url):
        yield url


@contextmanager
def container(programs: Path) -> Iterator[tuple[Process, str]]:
    """A process of Cloud Run, started by the command of the guide, and its URL."""
    pytest.importorskip("mangum")
    put_programs(programs)
    port = free_port()
    [command] = [
        line.removeprefix("CMD ")
        for line in block_of("Dockerfile").splitlines()
        if line.startswith("CMD ")
    ]
    command = command.replace("server.py", "tests/hosting/function.py")
    env = {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "PORT": str(port),
        "K_SERVICE": "trips",
        "K_REVISION": "trips-00001-abc",
        "K_CONFIGURATION": "trips",
        "MCPKIT_SECRET": "the-secret-of-the-tests",
    }
    with started(["/bin/sh", "-c", command], cwd=REPOSITORY, env=env) as process:
        process.wait_for_stderr("(Ctrl-C stops it)")
        yield process, f"http://127.0.0.1:{port}/mcp"


# --- Cloud Run ------------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", REVISIONS)
def test_cloud_run_serves_a_hundred_warm_calls(cloud_run: str, revision: str) -> None:
    headers = {
        "Host": "trips-ab12cd34ef-lz.a.run.app",
        "X-Forwarded-For": "203.0.113.7",
        "X-Forwarded-Proto": "https",
        "Forwarded": 'for="203.0.113.7";proto=https',
    }
    seen: list[float] = []
    with TestClient(
        cloud_run,
        revision=revision,
        headers=headers,
        elicitation=lambda question: {"action": "accept", "content": {"confirm": True}},
    ) as client:
        for number in range(WARM):
            assert client.call_tool("add", {"a": number, "b": 1}).text == str(number + 1)
        client.call_tool("tell", {"text": "x"}, on_progress=lambda now: seen.append(now.progress))
        assert seen == [1]
        if revision >= "2025-06-18":  # the first that can ask users
            assert client.call_tool("ask").text == "accepted: True"
        assert client.call_tool("client").text == "203.0.113.7"


def test_cloud_run_stops_in_time_and_a_running_call_is_answered(tmp_path: Path) -> None:
    with container(tmp_path) as (process, url):
        connections: list[http.client.HTTPConnection] = []
        client = Client(url, connections)
        client.shake_hands(REVISIONS[-2])
        idle = client.stream(Accept="text/event-stream")
        assert idle.status == 200
        params = {"name": "a_while", "arguments": {}, "_meta": {"progressToken": "p"}}
        running = client.stream(client.request("tools/call", **params))
        assert next(each for each in iter(running.message, None) if "method" in each)
        process.signal(signal.SIGTERM)
        assert running.text == "done"
        assert process.exit_code(GRACE) == 0
        for each in connections:
            each.close()


# --- Azure Functions ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def azure() -> Iterator[str]:
    """The origin of a custom handler, started as the host.json of the guide says."""
    port = free_port()
    [file] = json.loads(block_of("host.json"))["customHandler"]["description"]["arguments"]
    assert block_of(file)
    env = {
        "FUNCTIONS_CUSTOMHANDLER_PORT": str(port),
        "WEBSITE_HOSTNAME": "trips.azurewebsites.net",
        "MCPKIT_SECRET": "the-secret-of-the-tests",
    }
    server = str(DOCS / "code" / "serverless_azure.py")
    with started([sys.executable, server], cwd=REPOSITORY, env=env) as process:
        process.wait_for_stderr("(Ctrl-C stops it)")
        yield f"http://127.0.0.1:{port}"


@pytest.mark.parametrize("host", ["trips.azurewebsites.net", "127.0.0.1"])
@pytest.mark.parametrize("revision", REVISIONS)
def test_azure_serves_a_hundred_warm_calls(azure: str, revision: str, host: str) -> None:
    headers = {"Host": host, "X-Forwarded-For": "203.0.113.7:50123", "X-ARR-SSL": "2048|256|CN=x"}
    with calling(azure, headers, revision=revision) as client:
        for _ in range(WARM):
            assert client.call_tool("distance", {"start": "a", "end": "b"}).text == "12.5"
        assert client.server_capabilities["tools"] == {}


@pytest.mark.parametrize(("path", "status"), [("/", 404), ("/mcp", 405)])
def test_azure_gets_a_response_to_every_get(azure: str, path: str, status: int) -> None:
    """The Functions host takes any response to a GET as a sign that the handler is ready."""
    answer = httpx2.get(f"{azure}{path}", headers={"Accept": "text/event-stream"}, timeout=20)
    assert answer.status_code == status


def test_the_function_of_azure_takes_the_methods_of_the_endpoint() -> None:
    trigger: Any = json.loads(block_of("mcp/function.json"))["bindings"][0]
    assert trigger["methods"] == ["get", "post", "delete"]
    assert f"/{trigger['route']}" == "/mcp"


def test_endpoints_of_sse_need_a_host_that_streams() -> None:
    with pytest.raises(ValueError, match="streaming=False"):
        MCPKit("sse").asgi(sse=True, streaming=False)
