"""examples/long_job.py: a scan can be watched, stopped and resumed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcpkit.errors import ProtocolError
from mcpkit.testing import REVISIONS, AsyncTestClient, TestClient
from tests.examples.host import ERAS, PATIENCE, Heard, data_of, example, json_of, watching

SERVER = example("long_job.py")
UPDATED = "notifications/resources/updated"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Five files, of which two and two are the same."""
    (tmp_path / "sub").mkdir()
    for name, text in (("a", "one"), ("b", "two"), ("sub/c", "one"), ("sub/d", "two"), ("e", "")):
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.fixture
def heavy(tmp_path: Path) -> Path:
    """So much to hash that a client can give up meanwhile; it takes no room on the disk."""
    for number in range(200):
        with (tmp_path / f"{number:03}").open("wb") as file:
            file.truncate(8_000_000 + number)
    return tmp_path


def relieve(heavy: Path) -> None:
    """Have what is left go fast."""
    for number, file in enumerate(sorted(heavy.iterdir())):
        os.truncate(file, number + 1)


@pytest.fixture(scope="module", params=REVISIONS)
def client(request: pytest.FixtureRequest) -> Iterator[TestClient]:
    with TestClient(SERVER, revision=request.param) as client:
        yield client


@pytest.mark.parametrize("tool", ["scan", "scan_async"])
def test_files_with_the_same_content_are_found(client: TestClient, folder: Path, tool: str) -> None:
    progress: list[tuple[float, float | None]] = []
    report = data_of(
        client.call_tool(
            tool,
            {"directory": str(folder)},
            on_progress=lambda done, total, message: progress.append((done, total)),
        )
    )
    assert report == json_of(client.read_resource(report["uri"]))
    assert report == {
        "uri": report["uri"],
        "directory": str(folder),
        "state": "done",
        "files": 5,
        "hashed": 5,
        "duplicates": [["a", "sub/c"], ["b", "sub/d"]],
    }
    # The last report may be lost together with the result.
    assert progress[:4] == [(1, 5), (2, 5), (3, 5), (4, 5)]


@pytest.mark.parametrize("revision", ERAS)
@pytest.mark.parametrize("tool", ["scan", "scan_async"])
@pytest.mark.anyio
async def test_a_scan_that_was_stopped_is_resumed(heavy: Path, tool: str, revision: str) -> None:
    logs: list[str] = []
    async with AsyncTestClient(
        SERVER, revision=revision, on_log=lambda level, data, logger: logs.append(data)
    ) as client:
        with anyio.fail_after(PATIENCE), anyio.CancelScope() as scope:

            def give_up(*seen: Any) -> None:
                scope.cancel()

            await client.call_tool(tool, {"directory": str(heavy)}, on_progress=give_up)
        assert scope.cancelled_caught

        with anyio.fail_after(PATIENCE):
            while (await job(client))["state"] == "running":
                await anyio.sleep(0.02)
        stopped = await job(client)
        assert stopped["state"] == "stopped"
        assert 0 < stopped["hashed"] < 200

        relieve(heavy)
        again = await client.call_tool(tool, {"directory": str(heavy)}, log_level="info")
        assert data_of(again)["hashed"] == 200
        assert data_of(again)["uri"] == stopped["uri"]
    assert logs[-1] == f"{stopped['uri']}: {stopped['hashed']} of 200 files were hashed before"


async def job(client: AsyncTestClient) -> dict[str, Any]:
    found: dict[str, Any] = json_of(await client.read_resource("duplicates://jobs/1"))
    return found


@pytest.mark.anyio
async def test_a_directory_is_scanned_once_at_a_time(heavy: Path) -> None:
    async with AsyncTestClient(SERVER) as client:
        started = anyio.Event()
        async with anyio.create_task_group() as group:

            async def first() -> None:
                await client.call_tool(
                    "scan", {"directory": str(heavy)}, on_progress=lambda *seen: started.set()
                )

            group.start_soon(first)
            with anyio.fail_after(PATIENCE):
                await started.wait()
            refused = await client.call_tool("scan_async", {"directory": str(heavy)})
            group.cancel_scope.cancel()
    assert refused.is_error
    assert refused.text.endswith("is being scanned; read duplicates://jobs/1 to see how far.")


@pytest.mark.parametrize("revision", ERAS)
@pytest.mark.anyio
async def test_who_watches_a_job_is_told_when_it_ends(folder: Path, revision: str) -> None:
    heard = Heard()
    async with AsyncTestClient(SERVER, revision=revision, on_notification=heard) as client:
        await client.call_tool("scan", {"directory": str(folder)})
        async with watching(client, "duplicates://jobs/2"):
            # The next scan is a new one, because the first is done.
            await client.call_tool("scan", {"directory": str(folder)})
            (told,) = await heard.until(UPDATED)
    assert told["uri"] == "duplicates://jobs/2"


def test_all_scans_are_listed(folder: Path) -> None:
    with TestClient(SERVER) as client:
        client.call_tool("scan", {"directory": str(folder)})
        client.call_tool("scan", {"directory": str(folder / "sub")})
        jobs = json_of(client.read_resource("duplicates://jobs"))
    assert [(each["uri"], each["files"]) for each in jobs] == [
        ("duplicates://jobs/1", 5),
        ("duplicates://jobs/2", 2),
    ]


def test_a_link_that_leads_nowhere_is_left_out(client: TestClient, folder: Path) -> None:
    (folder / "gone").symlink_to(folder / "nowhere")
    report = data_of(client.call_tool("scan", {"directory": str(folder)}))
    assert report["files"] == 5


def test_an_unknown_job_is_no_resource(client: TestClient) -> None:
    with pytest.raises(ProtocolError, match="not found"):
        client.read_resource("duplicates://jobs/999")


def test_what_is_no_directory_is_refused(client: TestClient, folder: Path) -> None:
    refused = client.call_tool("scan", {"directory": str(folder / "a")})
    assert refused.is_error
    assert refused.text.endswith("is no directory; pass the absolute path of one.")


def test_the_tools_only_read() -> None:
    with TestClient(SERVER) as client:
        tools = client.list_tools()
    assert all(tool.annotations and tool.annotations.read_only for tool in tools)
