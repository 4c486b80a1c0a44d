"""examples/file_search.py: searches what the client has opened, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mcpkit.testing import REVISIONS, TestClient
from tests.examples.host import data_of, example

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


def test_files_are_found_at_any_depth(client: TestClient, opened: Path) -> None:
    found = data_of(client.call_tool("find_files", {"pattern": "*.py"}))
    assert below(opened, found) == ["src/fox.py"]
    assert found[0]["size"] == 15


def test_links_that_lead_out_are_not_found(client: TestClient, opened: Path) -> None:
    found = data_of(client.call_tool("find_files"))
    assert below(opened, found) == ["fable.txt", "src/fox.bin", "src/fox.py"]


def test_a_search_gives_lines(client: TestClient, opened: Path) -> None:
    found = data_of(client.call_tool("search_text", {"text": "fox"}))
    assert [(Path(each["path"]).name, each["line"]) for each in found["matches"]] == [
        ("fable.txt", 1),
        ("fable.txt", 3),
        ("fox.py", 1),
    ]
    assert found["more"] is False


def test_a_search_may_match_the_case(client: TestClient) -> None:
    found = data_of(client.call_tool("search_text", {"text": "Fox", "match_case": True}))
    assert [each["text"] for each in found["matches"]] == ["The Fox"]


def test_a_search_stops_at_its_limit(client: TestClient) -> None:
    found = data_of(client.call_tool("search_text", {"text": "fox", "limit": 2}))
    assert len(found["matches"]) == 2
    assert found["more"] is True


def test_a_search_reports_progress(client: TestClient) -> None:
    seen: list[tuple[float, float | None]] = []
    client.call_tool(
        "search_text",
        {"text": "grapes"},
        on_progress=lambda now: seen.append((now.progress, now.total)),
    )
    # The last report may be lost together with the result; the first one may not.
    assert seen[0] == (1, 3)


def test_lines_of_a_file_can_be_read(client: TestClient) -> None:
    arguments = {"path": "fable.txt", "start": 2, "count": 1}
    assert client.call_tool("read_file", arguments).text == "and the grapes"


@pytest.mark.parametrize(
    "path",
    ["../{outside}/secret.txt", "link.txt", "linked/secret.txt", "{absolute}/secret.txt", "loop"],
)
def test_nothing_outside_can_be_read(client: TestClient, outside: Path, path: str) -> None:
    wanted = path.format(outside=outside.name, absolute=outside)
    refused = client.call_tool("read_file", {"path": wanted})
    assert refused.is_error
    assert refused.text.startswith("There is no file")


def test_a_pattern_does_not_lead_out(client: TestClient) -> None:
    assert data_of(client.call_tool("find_files", {"pattern": "../*"})) == []


def test_a_binary_file_is_refused_with_the_reason(client: TestClient) -> None:
    refused = client.call_tool("read_file", {"path": "src/fox.bin"})
    assert refused.is_error
    assert "binary" in refused.text


def test_all_wrong_arguments_are_named(client: TestClient) -> None:
    refused = client.call_tool("search_text", {"text": "", "limit": 0, "where": "/"})
    assert refused.is_error
    assert [line.partition(":")[0] for line in refused.text.splitlines()] == [
        "text",
        "limit",
        "where",
    ]


def test_a_search_logs_how_much_there_is(opened: Path) -> None:
    logs: list[str] = []
    options: dict[str, Any] = {"on_log": lambda level, data, logger: logs.append(data)}
    with TestClient(SERVER, roots=[opened], **options) as client:
        client.call_tool("search_text", {"text": "fox"}, log_level="info")
    assert logs == ["searching 3 files"]


def test_without_a_folder_the_model_is_told_what_to_do() -> None:
    with TestClient(SERVER, env={"FILE_SEARCH_DIR": ""}) as client:
        refused = client.call_tool("find_files")
    assert refused.is_error
    assert "Ask the user to open one" in refused.text


def test_clients_without_roots_get_the_folder_of_the_environment(opened: Path) -> None:
    with TestClient(SERVER, env={"FILE_SEARCH_DIR": str(opened)}) as client:
        found = data_of(client.call_tool("find_files", {"pattern": "src/*"}))
    assert below(opened, found) == ["src/fox.bin", "src/fox.py"]
