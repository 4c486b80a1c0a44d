"""examples/git_repository.py: reads a repository, and takes no argument for an option."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mcpkit.testing import REVISIONS, TestClient
from tests.examples.host import call, example, refused
from tests.examples.repositories import begin, commit, git, needs_git, refuses_options

pytestmark = needs_git

SERVER = example("git_repository.py")


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two commits on main, a third on topic, which is checked out."""
    folder = tmp_path_factory.mktemp("repository")
    begin(folder)
    commit(folder, "Begin", poem="roses\nviolets\n")
    commit(folder, "Add a song", song="la la\n")
    git(folder, "checkout", "--quiet", "-b", "topic")
    commit(folder, "Grüße ändern", poem="roses\nlilies\n")
    git(folder, "tag", "v1")
    return folder


@pytest.fixture(scope="module", params=REVISIONS)
def client(request: pytest.FixtureRequest, repository: Path) -> Iterator[TestClient]:
    with TestClient(SERVER, revision=request.param, roots=[repository]) as client:
        yield client


def subjects(client: TestClient, **arguments: Any) -> list[str]:
    return [each["subject"] for each in call(client, "log", **arguments)]


def test_the_log_begins_with_the_newest_commit(client: TestClient) -> None:
    assert subjects(client) == ["Grüße ändern", "Add a song", "Begin"]
    assert subjects(client, limit=1) == ["Grüße ändern"]
    assert subjects(client, revision="main..topic") == ["Grüße ändern"]
    assert subjects(client, revision="main", path="poem.txt") == ["Begin"]


def test_files_are_compared_shown_and_blamed(client: TestClient) -> None:
    assert "-violets\n+lilies" in call(client, "diff", start="main", end="topic")
    shown = client.call_tool("show_file", {"path": "poem.txt", "revision": "main"})
    assert shown.text == "roses\nviolets\n"
    line = call(client, "blame", path="poem.txt", first=2, last=2)
    assert [each in line for each in ("Ada", "lilies", "roses")] == [True, True, False]
    found = [(each["name"], each["current"]) for each in call(client, "branches")]
    assert found == [("main", False), ("topic", True)]


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("log", {"revision": "--output={file}"}),
        ("log", {"path": "--output={file}"}),
        ("diff", {"start": "--output={file}"}),
        ("diff", {"start": "main", "end": "--output={file}"}),
        ("show_file", {"path": "poem.txt", "revision": "--output={file}"}),
        ("blame", {"path": "poem.txt", "first": 1, "last": 1, "revision": "--contents={file}"}),
    ],
)
def test_options_are_no_arguments(
    client: TestClient, tmp_path: Path, tool: str, arguments: dict[str, Any]
) -> None:
    refuses_options(partial(refused, client), tool, arguments, tmp_path)


def test_no_shell_reads_the_arguments_and_paths_stay_inside(
    client: TestClient, tmp_path: Path
) -> None:
    refused(client, "log", revision=f"$(touch {tmp_path / 'written'})")
    assert not (tmp_path / "written").exists()
    assert "outside repository" in refused(client, "log", path="../elsewhere")
    assert "bad revision 'nowhere'" in refused(client, "diff", start="nowhere")


def test_long_output_is_cut_and_a_folder_without_a_repository_refused(
    tmp_path: Path, repository: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(repository, copy)
    (copy / "poem.txt").write_text("x" * 300_000)
    with TestClient(SERVER, env={"GIT_REPOSITORY": str(copy)}) as client:
        patch = call(client, "diff", start="main")
    assert len(patch) < 201_000
    assert patch.endswith("cut after 200000 bytes")
    with TestClient(SERVER, env={"GIT_REPOSITORY": str(tmp_path)}) as client:
        assert "not a git repository" in refused(client, "branches")


def test_programs_that_a_repository_names_are_not_started(tmp_path: Path, repository: Path) -> None:
    copy, file = tmp_path / "copy", tmp_path / "written"
    shutil.copytree(repository, copy)
    program = f"touch {file} ; cat"
    (copy / ".gitattributes").write_text("*.txt diff=evil\n")
    with (copy / ".git" / "config").open("a") as config:
        config.write(f'[diff]\n\texternal = "{program}"\n[core]\n\tfsmonitor = "{program}"\n')
        config.write(f'[diff "evil"]\n\ttextconv = "{program}"\n\tcommand = "{program}"\n')
    with TestClient(SERVER, env={"GIT_REPOSITORY": str(copy)}) as client:
        assert "lilies" in call(client, "diff", start="main")
        assert call(client, "blame", path="poem.txt", first=1, last=1)
    assert not file.exists()
