"""The files of a folder, without a server."""

from pathlib import Path

import pytest

from __PACKAGE__.workspace import Workspace, WorkspaceError


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """A folder with two files, and one beside it."""
    folder = tmp_path / "notes"
    (folder / "old").mkdir(parents=True)
    (folder / ".secret").write_text("hidden", encoding="utf-8")
    (folder / "a.txt").write_text("abc", encoding="utf-8")
    (folder / "old" / "b.txt").write_text("xyz", encoding="utf-8")
    (tmp_path / "outside.txt").write_text("not yours", encoding="utf-8")
    return Workspace(folder)


def test_files_are_listed_without_hidden_ones(workspace: Workspace) -> None:
    assert workspace.list_files() == ["a.txt", "old/b.txt"]


def test_the_beginning_of_a_file_is_read(workspace: Workspace) -> None:
    assert workspace.read("old/b.txt", 2) == "xy"


@pytest.mark.parametrize("name", ["../outside.txt", "old", "none.txt", "/etc/hosts"])
def test_nothing_else_is_read(workspace: Workspace, name: str) -> None:
    with pytest.raises(WorkspaceError, match="There is no file"):
        workspace.read(name)


def test_a_link_to_the_outside_is_not_followed(workspace: Workspace) -> None:
    try:
        (workspace.folder / "link.txt").symlink_to(workspace.folder.parent / "outside.txt")
    except OSError:
        pytest.skip("links cannot be made here")
    assert "link.txt" not in workspace.list_files()
    with pytest.raises(WorkspaceError):
        workspace.read("link.txt")
