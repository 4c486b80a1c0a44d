"""Roots: hints of where to look (ROOT-1)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mcpkit import InvalidInputResponse, Root, Roots

PATHS = {
    "file:///home/ann": "/home/ann",
    "file://localhost/home/ann": "/home/ann",
    "file://LOCALHOST/home/ann": "/home/ann",
    "FILE:///home/ann": "/home/ann",
    "file:/home/ann": "/home/ann",
    "file:///with%20blank/%C3%BC": "/with blank/ü",
    "file:///a%2Fb": "/a/b",
    "file:///": "/",
}


@pytest.mark.parametrize(("uri", "path"), PATHS.items(), ids=list(PATHS))
def test_the_path_of_a_file_uri(uri: str, path: str) -> None:
    assert Root(uri).path == Path(path)


@pytest.mark.parametrize(
    "uri",
    [
        "https://example.com/a",
        "file://elsewhere/home",
        "file://[broken",
        "file:",
        "file://",
        "file:relative",
        "/home/ann",
        "",
    ],
)
def test_what_is_no_local_file_has_no_path_and_contains_nothing(uri: str) -> None:
    assert Root(uri).path is None
    assert not Root(uri).contains("/home/ann")
    assert not Root(uri).contains(".")


@pytest.fixture
def root(tmp_path: Path) -> Root:
    (tmp_path / "root" / "inner").mkdir(parents=True)
    (tmp_path / "root2").mkdir()
    (tmp_path / "outside").mkdir()
    return Root((tmp_path / "root").as_uri())


@pytest.mark.parametrize("inside", ["", "inner", "new.txt", "inner/../new.txt", "a%b", "../root/x"])
def test_what_lies_inside(root: Root, tmp_path: Path, inside: str) -> None:
    assert root.contains(tmp_path / "root" / inside)
    assert root.contains(f"{tmp_path}/root/{inside}")


@pytest.mark.parametrize(
    "outside", ["root2", "root2/x", "root/..", "root/../outside/x", "rootx", "%72oot/file"]
)
def test_what_lies_outside(root: Root, tmp_path: Path, outside: str) -> None:
    """Also if the name of the root is the beginning of its own; a percent sign in a path is one."""
    assert not root.contains(f"{tmp_path}/{outside}")


def test_links_lie_where_they_lead(root: Root, tmp_path: Path) -> None:
    (tmp_path / "root" / "out").symlink_to(tmp_path / "outside")
    assert not root.contains(tmp_path / "root" / "out" / "file")
    assert not root.contains(tmp_path / "root" / "out" / ".." / "file")
    (tmp_path / "in").symlink_to(tmp_path / "root")
    assert root.contains(tmp_path / "in" / "file")
    assert Root((tmp_path / "in").as_uri()).contains(tmp_path / "root" / "file")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    assert not root.contains(tmp_path / "loop" / "root")


@pytest.mark.parametrize(
    ("encoded", "inside"),
    [
        ("file", True),
        ("%66ile", True),
        ("inner/%2e%2e/file", True),
        ("%2e%2e/outside", False),
        ("..%2Foutside", False),
        ("%2E./root2", False),
    ],
)
def test_a_uri_is_decoded_before_it_is_followed(root: Root, encoded: str, inside: bool) -> None:
    assert root.contains(f"{root.uri}/{encoded}") is inside


@pytest.mark.parametrize("path", ["a\0b", "file:///a%00b", "file://elsewhere/root", "file://[x"])
def test_what_is_no_path_lies_nowhere(root: Root, path: str) -> None:
    assert not root.contains(path)
    assert not Root("file:///").contains(path)


def test_roots_are_read_without_names_that_are_no_text() -> None:
    sent: list[Any] = [{"uri": "file:///a", "name": "A"}, {"uri": "file:///b", "name": 7}]
    found = Roots().parse_result({"roots": [*sent, {"uri": "file:///c"}]})
    assert found == [Root("file:///a", "A"), Root("file:///b"), Root("file:///c")]


@pytest.mark.parametrize(
    "result",
    [{}, {"roots": None}, {"roots": {}}, {"roots": [7]}, {"roots": [{}]}, {"roots": [{"uri": 7}]}],
    ids=str,
)
def test_malformed_roots_are_refused(result: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputResponse):
        Roots().parse_result(result)
