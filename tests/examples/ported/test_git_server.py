"""examples/ported/git_server.py: works with one repository, and starts no program of it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mcpkit.testing import REVISIONS
from tests.examples.host import refused
from tests.examples.ported.serving import OVER, Host, arguments_of, hosted, ported
from tests.examples.repositories import AUTHOR, begin, commit, git, needs_git, refuses_options

pytestmark = needs_git


@pytest.fixture(scope="module")
def grounds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder whose repositories are allowed."""
    return tmp_path_factory.mktemp("grounds")


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two commits on main, a branch at the first of them, and a change that is not staged."""
    folder = tmp_path_factory.mktemp("original")
    begin(folder)
    commit(folder, "Begin", poem="roses\nviolets\n")
    commit(folder, "Go on", poem="roses\nlilies\n")
    git(folder, "branch", "old", "HEAD~1")
    (folder / "poem.txt").write_text("roses\ntulips\n")
    return folder


@pytest.fixture
def repository(grounds: Path, original: Path) -> Iterator[Path]:
    """A repository for one test."""
    folder = grounds / "repository"
    shutil.copytree(original, folder)
    yield folder
    shutil.rmtree(folder)


hosting = partial(hosted, "git_server.py", env=AUTHOR)


@pytest.fixture(scope="module", params=OVER)
def shared(request: pytest.FixtureRequest, grounds: Path) -> Iterator[Host]:
    with hosting(request.param, "--repository", str(grounds)) as host:
        yield host


@pytest.fixture
def host(shared: Host, repository: Path) -> Host:
    shared.given["repo_path"] = str(repository)
    shared.asked.clear()
    return shared


def test_the_tools_have_their_old_names_and_arguments(host: Host) -> None:
    assert arguments_of(host.client) == {
        "git_status": ["repo_path"],
        "git_diff_unstaged": ["repo_path", "context_lines"],
        "git_diff_staged": ["repo_path", "context_lines"],
        "git_diff": ["repo_path", "target", "context_lines"],
        "git_commit": ["repo_path", "message"],
        "git_add": ["repo_path", "files"],
        "git_reset": ["repo_path"],
        "git_log": ["repo_path", "max_count", "start_timestamp", "end_timestamp"],
        "git_create_branch": ["repo_path", "branch_name", "base_branch"],
        "git_checkout": ["repo_path", "branch_name"],
        "git_show": ["repo_path", "revision"],
        "git_branch": ["repo_path", "branch_type", "contains", "not_contains"],
    }


def test_a_change_becomes_a_commit(host: Host) -> None:
    assert "modified:   poem.txt" in host.call("git_status")
    assert "-lilies\n+tulips" in host.call("git_diff_unstaged", context_lines=0)
    assert host.call("git_diff_staged") == "Nothing is staged."
    host.call("git_add", files=["poem.txt"])
    assert "+tulips" in host.call("git_diff_staged")
    made = host.call("git_commit", message="Plant tulips\n\nThey are red.")
    newest, *_ = host.call("git_log", max_count=1)
    assert made == f"Committed as {newest['hash']}."
    assert (newest["author"], newest["message"]) == ("Ada", "Plant tulips\n\nThey are red.")
    assert "nothing to commit" in host.refused("git_commit", message="Again")
    shown = host.call("git_show", revision="main")
    assert "Author: Ada <ada@example.com>" in shown
    assert "-lilies\n+tulips" in shown
    assert host.call("git_log", start_timestamp="1 hour ago", max_count=5)
    assert host.call("git_log", end_timestamp="2001-01-01") == []


def test_branches_are_made_and_visited(host: Host, repository: Path) -> None:
    host.call("git_reset")
    git(repository, "checkout", "--quiet", "poem.txt")
    host.call("git_create_branch", branch_name="new", base_branch="old")
    assert host.call("git_branch", branch_type="local") == ["main", "new", "old"]
    assert host.call("git_branch", branch_type="all", not_contains="main") == ["new", "old"]
    host.call("git_checkout", branch_name="new")
    assert "-lilies\n+violets" in host.call("git_diff", target="main")
    assert [each["message"] for each in host.call("git_log")] == ["Begin"]


def test_a_user_is_asked_before_everything_is_unstaged(host: Host) -> None:
    host.call("git_add", files=["."])
    host.answer = "decline"
    assert "does not want" in host.refused("git_reset")
    assert "+tulips" in host.call("git_diff_staged")
    host.answer = "accept"
    host.call("git_reset")
    assert host.call("git_diff_staged") == "Nothing is staged."
    assert len(host.asked) == 2


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("git_diff", {"target": "--output={file}"}),
        ("git_show", {"revision": "--output={file}"}),
        ("git_checkout", {"branch_name": "--force"}),
        ("git_create_branch", {"branch_name": "--force"}),
        ("git_create_branch", {"branch_name": "x", "base_branch": "--force"}),
        ("git_branch", {"contains": "--output={file}"}),
        ("git_log", {"start_timestamp": "--output={file}"}),
        ("git_add", {"files": ["--force"]}),
    ],
)
def test_options_are_no_arguments(
    host: Host, tmp_path: Path, tool: str, arguments: dict[str, Any]
) -> None:
    refuses_options(host.refused, tool, arguments, tmp_path)


def test_other_repositories_are_out_of_reach(host: Host, repository: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(repository, other)
    (repository / "link").symlink_to(other)
    for path in (other, repository / ".." / "..", repository / "link"):
        assert "all that is allowed" in host.refused("git_status", repo_path=str(path))
    for file in (str(other / "poem.txt"), "../other/poem.txt"):
        assert "outside repository" in host.refused("git_add", files=[file])


def test_a_repository_above_the_allowed_folder_is_out_of_reach(repository: Path) -> None:
    inner = repository / "inner"
    inner.mkdir()
    with ported("git_server.py", "stdio", "--repository", str(inner)) as client:
        said = refused(client, "git_log", repo_path=str(inner))
    assert "not a git repository" in said


@pytest.mark.parametrize("revision", REVISIONS[-2:])
def test_a_host_on_stdio_allows_folders_by_its_roots(repository: Path, revision: str) -> None:
    options: dict[str, Any] = {"revision": revision, "roots": [repository]}
    with hosting("stdio", **options) as host:
        host.given["repo_path"] = str(repository)
        host.call("git_add", files=["."])
        host.call("git_commit", message="Once")
        assert [each["message"] for each in host.call("git_log")] == ["Once", "Go on", "Begin"]
        assert "all that is allowed" in host.refused("git_log", repo_path=str(repository.parent))


def test_roots_of_others_allow_nothing_over_http(repository: Path) -> None:
    with ported("git_server.py", "http", roots=[repository]) as client:
        assert "all that is allowed" in refused(client, "git_log", repo_path=str(repository))


@pytest.mark.parametrize(("flags", "runs"), [((), False), (("--hooks",), True)])
def test_hooks_run_only_if_that_is_wanted(
    repository: Path, tmp_path: Path, flags: tuple[str, ...], runs: bool
) -> None:
    file = tmp_path / "written"
    hook = repository / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {file}\n")
    hook.chmod(0o755)
    whole = ("--repository", str(repository), *flags)
    with hosting("stdio", *whole) as host:
        host.given["repo_path"] = str(repository)
        host.call("git_add", files=["."])
        host.call("git_commit", message="Try it")
    assert file.exists() is runs


def test_a_bad_argument_is_refused(host: Host) -> None:
    assert "max_count: expected" in host.refused("git_log", max_count="many")
    assert "branch_type: expected" in host.refused("git_branch", branch_type="best")
