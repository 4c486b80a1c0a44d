"""examples/file_search.py: searches what the client has opened, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mcpkit.testing import REVISIONS, TestClient
from tests.examples.host import call, example, refused

SERVER = example("file_search.py")


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("outside")
    (folder / "secret.txt").write_text("the secret of the fox")
    return folder


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory, outside: Path) -> Path:
    """What the client has opened."""
    folder = tmp_path_factory.mktemp("opened")
    (folder / "src").mkdir()
    (folder / ".git").mkdir()
    (folder / "fable.txt").write_text("The Fox\nand the grapes\nthe fox again\n")
    (folder / "src" / "fox.py").write_text("ANIMAL = 'fox'\n")
    (folder / "src" / "fox.bin").write_bytes(b"\0fox")
    (folder / ".git" / "config").write_text("fox")
    (folder / "link.txt").symlink_to(outside / "secret.txt")
    (folder / "linked").symlink_to(outside, target_is_directory=True)
    (folder / "loop").symlink_to(folder / "loop")
    return folder


@pytest.fixture(scope="module", params=REVISIONS)
def client(request: pytest.FixtureRequest, opened: Path) -> Iterator[TestClient]:
    with TestClient(SERVER, revision=request.param, roots=[opened]) as client:
        yield client


def below(folder: Path, found: Any) -> list[str]:
    return [Path(each["path"]).relative_to(folder.resolve()).as_posix() for each in found]


def test_files_are_found_at_any_depth_but_not_behind_links(
    client: TestClient, opened: Path
) -> None:
    found = call(client, "find_files", pattern="*.py")
    assert (below(opened, found), found[0]["size"]) == (["src/fox.py"], 15)
    found = call(client, "find_files")
    assert below(opened, found) == ["fable.txt", "src/fox.bin", "src/fox.py"]
    assert call(client, "find_files", pattern="../*") == []


@pytest.mark.parametrize(
    ("arguments", "lines", "more"),
    [
        ({"text": "fox"}, ["fable.txt:1", "fable.txt:3", "fox.py:1"], False),
        ({"text": "Fox", "match_case": True}, ["fable.txt:1"], False),
        ({"text": "fox", "limit": 2}, ["fable.txt:1", "fable.txt:3"], True),
    ],
)
def test_a_search_gives_lines(
    client: TestClient, arguments: dict[str, Any], lines: list[str], more: bool
) -> None:
    found = call(client, "search_text", **arguments)
    named = [f"{Path(each['path']).name}:{each['line']}" for each in found["matches"]]
    assert (named, found["more"]) == (lines, more)


def test_a_search_reports_progress_and_logs(opened: Path) -> None:
    seen: list[tuple[float, float | None]] = []
    logs: list[str] = []
    options: dict[str, Any] = {"on_log": lambda level, data, logger: logs.append(data)}
    with TestClient(SERVER, roots=[opened], **options) as client:
        client.call_tool(
            "search_text",
            {"text": "grapes"},
            on_progress=lambda now: seen.append((now.progress, now.total)),
            log_level="info",
        )
    # The last report may be lost together with the result; the first one may not.
    assert seen[0] == (1, 3)
    assert logs == ["searching 3 files"]


@pytest.mark.parametrize(
    "path",
    ["../{outside}/secret.txt", "link.txt", "linked/secret.txt", "{absolute}/secret.txt", "loop"],
)
def test_nothing_outside_can_be_read(client: TestClient, outside: Path, path: str) -> None:
    wanted = path.format(outside=outside.name, absolute=outside)
    assert refused(client, "read_file", path=wanted).startswith("There is no file")


def test_lines_of_a_text_file_can_be_read(client: TestClient) -> None:
    assert call(client, "read_file", path="fable.txt", start=2, count=1) == "and the grapes"
    assert "is binary" in refused(client, "read_file", path="src/fox.bin")
    problems = refused(client, "search_text", text="", limit=0, where="/").splitlines()
    assert [line.partition(":")[0] for line in problems] == ["text", "limit", "where"]


def test_without_roots_the_environment_names_the_folder(opened: Path) -> None:
    with TestClient(SERVER, env={"FILE_SEARCH_DIR": ""}) as client:
        assert "Ask the user to open one" in refused(client, "find_files")
    with TestClient(SERVER, env={"FILE_SEARCH_DIR": str(opened)}) as client:
        found = call(client, "find_files", pattern="src/*")
    assert below(opened, found) == ["src/fox.bin", "src/fox.py"]
