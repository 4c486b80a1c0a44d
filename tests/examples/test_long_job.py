"""examples/long_job.py: a scan is a task, and survives the server that works on it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcpkit.tasks.options import STORE
from mcpkit.testing import AsyncTestClient, TestClient
from tests.examples.host import data_of, example, refused
from tests.kit import PATIENCE

SERVER = example("long_job.py")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Five files, of which two and two are the same."""
    (tmp_path / "sub").mkdir()
    for name, text in (("a", "one"), ("b", "two"), ("sub/c", "one"), ("sub/d", "two"), ("e", "")):
        (tmp_path / name).write_text(text)
    return tmp_path


def test_files_with_the_same_content_are_found(client: TestClient, folder: Path) -> None:
    progress: list[tuple[float, float | None]] = []
    (folder / "gone").symlink_to(folder / "nowhere")
    result = client.call_tool(
        "scan",
        {"directory": str(folder)},
        on_progress=lambda now: progress.append((now.progress, now.total)),
    )
    assert data_of(result) == {
        "directory": str(folder),
        "files": 5,
        "duplicates": [["a", "sub/c"], ["b", "sub/d"]],
    }
    # The last report may be lost together with the result.
    assert progress[:4] == [(1, 5), (2, 5), (3, 5), (4, 5)]
    said = refused(client, "scan", directory=str(folder / "a"))
    assert said.endswith("is not a directory; pass an absolute path.")


async def test_a_scan_continues_in_another_process(tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    for number in range(300):  # so much to hash that it can be cut off; it takes no room
        with (folder / f"{number:03}").open("wb") as file:
            file.truncate(8_000_000 + number // 2)
    env = {STORE: str(tmp_path / "tasks.db")}
    async with AsyncTestClient(SERVER, env=env) as client:
        task = await client.start("scan", {"directory": str(folder)})
        assert task.id is not None
        with anyio.fail_after(PATIENCE):
            while not (await task.look()).message:
                await anyio.sleep(0.05)
    for number, path in enumerate(sorted(folder.iterdir())):
        os.truncate(path, number // 2)  # what is left goes fast
    async with AsyncTestClient(SERVER, env=env) as client:
        report = data_of(await client.task(task.id).result(timeout=PATIENCE))
    assert report["files"] == 300
    assert len(report["duplicates"]) == 150


@pytest.mark.parametrize(
    ("answer", "said", "left"),
    [(True, "2 copies were deleted.", 3), (False, "Nothing was deleted.", 5)],
)
def test_copies_are_deleted_when_the_user_agrees(
    folder: Path, answer: bool, said: str, left: int
) -> None:
    asked: list[str] = []

    def reply(question: Mapping[str, Any]) -> Mapping[str, Any]:
        asked.append(question["message"])
        return {"action": "accept", "content": {"value": answer}}

    with TestClient(SERVER, elicitation=reply) as client:
        duplicates = [["a", "sub/c"], ["b", "sub/d"]]
        task = client.start("tidy", {"directory": str(folder), "duplicates": duplicates})
        assert task.result(timeout=PATIENCE).text == said
    assert asked == [f"Delete 2 copies in {folder}?"]
    assert sum(each.is_file() for each in folder.rglob("*")) == left
