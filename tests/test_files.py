"""Files and directories: the resources offered, and that nothing else can be reached (RES-9)."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcpkit import MCPKit
from mcpkit._server.registry import Registry
from mcpkit.errors import RegistrationError, ResourceNotFound
from mcpkit.providers import files
from mcpkit.providers.files import Directory, Folder, file_resource
from mcpkit.testing import AsyncTestClient
from mcpkit.types import File
from tests.authoring import run

SECRET = b"not for you"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A directory beside a secret, with a bit of everything in it."""
    (tmp_path / "secret.txt").write_bytes(SECRET)
    (tmp_path / "docs-private").mkdir()
    (tmp_path / "docs-private" / "plan.txt").write_bytes(SECRET)
    root = tmp_path / "docs"
    (root / "deep" / "er").mkdir(parents=True)
    (root / ".git").mkdir()
    (root / "a.txt").write_text("a")
    (root / "deep" / "er" / "b.json").write_text("{}")
    (root / ".env").write_bytes(SECRET)
    (root / ".git" / "config").write_bytes(SECRET)
    (root / "deep" / ".hidden").write_bytes(SECRET)
    return root


def listed(directory: Directory) -> list[str]:
    return [each.uri for each in directory.files()]


def read(directory: Directory, uri: str) -> bytes:
    """What a client gets for a URI, found by the template as a server would find it."""
    registry = Registry()
    registry.add(directory.template)
    found = registry.resource(uri)
    if found is None:
        raise ResourceNotFound(uri)
    _, values = found
    file = run(directory.read, values)
    assert isinstance(file, File)
    return file.data


class TestDirectory:
    def test_lists_and_reads_its_files_as_they_are_at_the_moment(self, root: Path) -> None:
        directory = Directory(root)
        first, second = directory.files()
        assert [first.uri, second.uri] == ["files://docs/a.txt", "files://docs/deep/er/b.json"]
        assert (first.name, first.mime_type, first.size) == ("a.txt", "text/plain", 1)
        assert (second.name, second.mime_type) == ("deep/er/b.json", "application/json")
        assert [read(directory, each.uri) for each in (first, second)] == [b"a", b"{}"]
        (root / "c.txt").write_text("c")
        (root / "a.txt").unlink()
        assert listed(directory) == ["files://docs/c.txt", "files://docs/deep/er/b.json"]
        with pytest.raises(ResourceNotFound, match="Resource not found: files://docs/no%20such"):
            directory.read("no such")

    @pytest.mark.parametrize(
        "name",
        [
            *("a b.txt", "ü.txt", "50%.txt", "%41.txt", "%2e%2e", "a#b.txt", "a?b", "a+b", "{x}"),
            "a\nb.txt",
        ],
    )
    def test_reads_what_it_lists_whatever_the_name(self, root: Path, name: str) -> None:
        directory = Directory(root, pattern="new/*")
        (root / "new").mkdir()
        (root / "new" / name).write_text(name)
        (uri,) = listed(directory)
        assert read(directory, uri) == name.encode()

    def test_has_the_uri_of_its_name_or_another(self, tmp_path: Path) -> None:
        folder = tmp_path / "my {docs}"
        folder.mkdir()
        (folder / "a.txt").write_text("a")
        for uri, found in (
            (None, "files://my%20%7Bdocs%7D/a.txt"),
            ("notes://all/", "notes://all/a.txt"),
        ):
            directory = Directory(folder, uri)
            assert listed(directory) == [found]
            assert read(directory, found) == b"a"
        with pytest.raises(RegistrationError, match="never closed"):
            Directory(folder, "notes://{all")

    def test_may_have_one_type_and_hidden_files(self, root: Path) -> None:
        directory = Directory(root, mime_type="text/x-own", hidden=True)
        assert {each.mime_type for each in directory.files()} == {"text/x-own"}
        assert directory.read("a.txt").mime_type == "text/x-own"
        assert "files://docs/.env" in listed(directory)
        assert read(directory, "files://docs/.env") == SECRET
        (root / "odd.zzz").write_text("?")
        assert Directory(root).read("odd.zzz").mime_type == "application/octet-stream"


OUTSIDE = [
    *("../secret.txt", "..%2fsecret.txt", "%2e%2e%2fsecret.txt", "%2E%2E/secret.txt"),
    *("%252e%252e%252fsecret.txt", "../docs-private/plan.txt", "deep/../../secret.txt"),
    *("deep/%2e%2e/%2e%2e/secret.txt", "..\\secret.txt", "..%5csecret.txt"),
    *("deep\\..\\..\\secret.txt", "{absolute}", "/{absolute}", "%2f{absolute}"),
    *("file://{absolute}", "a.txt%00", "a.txt%00.png", "%00", "~/secret.txt", "./a.txt"),
    *("deep//er/b.json", "deep/", "deep", "", ".", "..", ".env", "%2eenv", ".git/config"),
    *("deep/.hidden", "a.txt/", "a.txt/../a.txt", "no-such-file", "x" * 5000),
]


@pytest.fixture(params=["by descriptor", "by path"])
def platform(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A platform that opens files relative to a descriptor, and one that cannot."""
    if request.param == "by path":
        monkeypatch.setattr(files, "_BY_DESCRIPTOR", False)
    elif not files._BY_DESCRIPTOR:
        pytest.skip("not here")


def swap(path: Path, target: Path) -> None:
    """Put a link in the place of a file or directory."""
    path.rename(path.with_name("moved"))
    path.symlink_to(target)


def on_scan(monkeypatch: pytest.MonkeyPatch, before: Any = None, after: Any = None) -> None:
    """Call functions with the parts of each directory that is read from now on."""
    entries = Folder.entries

    def entries_too(self: Folder, parts: Any) -> Any:
        if before is not None:
            before("/".join(parts))
        found = entries(self, parts)
        if after is not None:
            after()
        return found

    monkeypatch.setattr(Folder, "entries", entries_too)


@pytest.mark.usefixtures("platform")
class TestTraversal:
    """RES-9"""

    @pytest.mark.parametrize("tail", OUTSIDE, ids=lambda each: each[:40] or "empty")
    def test_a_uri_that_leads_elsewhere_names_nothing(self, root: Path, tail: str) -> None:
        absolute = root.parent / "secret.txt"
        uri = f"files://docs/{tail.replace('{absolute}', absolute.as_posix())}"
        with pytest.raises(ResourceNotFound):
            read(Directory(root), uri)
        with pytest.raises(ResourceNotFound):
            Directory(root).read(tail.replace("{absolute}", absolute.as_posix()))

    @pytest.mark.parametrize(
        ("links", "paths"),
        [
            ({"link.txt": "../secret.txt"}, ["link.txt"]),
            ({"out": ".."}, ["out/secret.txt"]),
            ({"one": "two", "two": "one"}, ["one"]),
            ({"link.txt": ".env", "links": "."}, ["link.txt", "links/.env"]),
            ({"link.txt": ".git/config", "links": ".git"}, ["link.txt", "links/config"]),
            ({"link.txt": "deep/.hidden", "links": "deep"}, ["link.txt", "links/.hidden"]),
        ],
    )
    def test_a_link_to_what_is_outside_or_hidden_names_nothing(
        self, root: Path, links: dict[str, str], paths: list[str]
    ) -> None:
        before = listed(Directory(root))
        for name, target in links.items():
            (root / name).symlink_to(root / target)
        assert listed(Directory(root)) == before
        for path in paths:
            with pytest.raises(ResourceNotFound):
                read(Directory(root), f"files://docs/{path}")

    def test_a_link_that_stays_inside_is_fine(self, root: Path) -> None:
        (root / "link.txt").symlink_to(root / "a.txt")
        (root / "alias").symlink_to(root / "deep")
        assert read(Directory(root), "files://docs/link.txt") == b"a"
        assert read(Directory(root), "files://docs/alias/er/b.json") == b"{}"
        (root.parent / "alias").symlink_to(root)
        assert Directory(root.parent / "alias").read("a.txt").data == b"a"

    def test_a_link_does_not_show_what_the_pattern_leaves_out(self, root: Path) -> None:
        (root / "link.txt").symlink_to(root / "deep" / "er" / "b.json")
        (root / "good.txt").symlink_to(root / "a.txt")
        assert listed(Directory(root, pattern="../*.txt")) == []
        directory = Directory(root, pattern="*.txt")
        assert listed(directory) == ["files://docs/a.txt", "files://docs/good.txt"]
        with pytest.raises(ResourceNotFound):
            directory.read("link.txt")

    @pytest.mark.parametrize("place", ["deep/er/b.json", "deep/er", "deep"])
    def test_what_becomes_a_link_after_it_was_checked_is_not_followed(
        self, root: Path, place: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        outside = root.parent / "outside"
        (outside / "er").mkdir(parents=True)
        (outside / "b.json").write_bytes(SECRET)
        (outside / "er" / "b.json").write_bytes(SECRET)
        targets = {"deep": outside, "deep/er": outside, "deep/er/b.json": outside / "b.json"}
        directory = Directory(root)
        resolve, swapped = Path.resolve, threading.Event()

        def resolve_and_swap(path: Path, strict: bool = False) -> Path:
            found = resolve(path, strict=strict)
            if not swapped.is_set():
                swapped.set()
                swap(root / place, targets[place])
            return found

        monkeypatch.setattr(Path, "resolve", resolve_and_swap)
        with pytest.raises(ResourceNotFound):
            assert directory.read("deep/er/b.json").data != SECRET
        assert swapped.is_set()

    def test_a_directory_that_becomes_a_link_is_not_listed(
        self, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def swap_it(folder: str) -> None:
            if folder == "deep":
                swap(root / "deep", root.parent)

        on_scan(monkeypatch, before=swap_it)
        assert listed(Directory(root)) == ["files://docs/a.txt"]

    def test_a_link_that_comes_and_goes_is_never_followed(self, root: Path) -> None:
        over = threading.Event()

        def come_and_go() -> None:
            while not over.is_set():
                (root / "link").symlink_to(root.parent / "secret.txt")
                (root / "link").replace(root / "b.txt")
                (root / "file").write_bytes(b"b")
                (root / "file").replace(root / "b.txt")

        directory, found = Directory(root), set[bytes]()
        thread = threading.Thread(target=come_and_go)
        thread.start()
        try:
            for _ in range(300):
                try:
                    found.add(directory.read("b.txt").data)
                except ResourceNotFound:
                    pass
        finally:
            over.set()
            thread.join(20)
        assert found <= {b"b", b""}

    def test_a_pipe_is_not_a_file(self, root: Path) -> None:
        os.mkfifo(root / "pipe.txt")
        (root / "link.txt").symlink_to(root / "pipe.txt")
        assert listed(Directory(root, pattern="*.txt")) == ["files://docs/a.txt"]
        for name in ("pipe.txt", "link.txt"):
            with pytest.raises(ResourceNotFound):
                Directory(root).read(name)

    def test_a_file_that_cannot_be_read_is_not_reported_as_missing(
        self, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(*_: Any, **__: Any) -> int:
            raise PermissionError(errno.EACCES, "not allowed")

        directory = Directory(root)
        monkeypatch.setattr("os.open", refuse)
        with pytest.raises(PermissionError):
            directory.read("a.txt")

    def test_pages_are_the_list_in_pieces(self, root: Path) -> None:
        for name in ("a/b", "a.b", "a!", "a", "ab", "b/a/c", "%41/x", "ü/ö", "B/1"):
            (root / "many" / f"{name}-dir").mkdir(parents=True)
            (root / "many" / f"{name}-dir" / "f").write_text("")
            (root / "many" / f"{name}.txt").write_text("")
        directory = Directory(root)
        everything = listed(directory)
        assert everything == sorted(everything)
        assert len(everything) == 20
        for limit in (1, 3, 7):
            pages: list[str] = []
            while page := directory.files(pages[-1] if pages else "", limit):
                pages += [each.uri for each in page]
            assert pages == everything

    def test_only_the_directories_of_a_page_or_a_pattern_are_read(
        self, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for number in range(10, 60):
            (root / f"{number}").mkdir()
            (root / f"{number}" / "f").write_text("")
        scanned: list[str] = []
        on_scan(monkeypatch, before=scanned.append)
        page = Directory(root, "d://x").files("d://x/30/f", 2)
        assert [each.name for each in page] == ["31/f", "32/f"]
        assert scanned == ["", "30", "31", "32"]
        scanned.clear()
        assert listed(Directory(root, pattern="deep/*/b.*")) == ["files://docs/deep/er/b.json"]
        assert scanned == ["", "deep", "deep/er"]

    def test_a_name_that_is_not_utf8_is_left_out(self, root: Path) -> None:
        before = listed(Directory(root))
        name = os.fsencode(root) + b"/\xff.txt"
        try:
            with open(name, "wb"):
                pass
        except OSError:
            pytest.skip("this file system has names in UTF-8 only")
        os.mkdir(os.fsencode(root) + b"/\xfe")
        assert listed(Directory(root)) == before

    def test_a_file_that_vanishes_meanwhile_is_left_out(
        self, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def vanish() -> None:
            for name in ("link.txt", "deep"):
                if (root / name).exists():
                    (root / name).rename(root.parent / name)

        (root / "link.txt").symlink_to(root / "a.txt")
        on_scan(monkeypatch, after=vanish)
        assert listed(Directory(root)) == ["files://docs/a.txt"]

    @pytest.mark.parametrize(("levels", "files"), [(15, 3), (25, 2)])
    def test_a_tree_is_listed_as_deep_as_it_can_be_read(
        self, root: Path, levels: int, files: int
    ) -> None:
        descriptor = os.open(root / "deep", os.O_RDONLY)
        for _ in range(levels):
            os.mkdir("d" * 200, dir_fd=descriptor)
            below = os.open("d" * 200, os.O_RDONLY, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = below
        os.close(os.open("f.txt", os.O_CREAT | os.O_WRONLY, dir_fd=descriptor))
        os.close(descriptor)
        found = listed(Directory(root))
        assert len(found) == files
        assert {read(Directory(root), each) for each in found} <= {b"a", b"{}", b""}

    def test_a_long_path_does_not_try_every_way_through_a_pattern(self, root: Path) -> None:
        directory = Directory(root, pattern="**/a/**/a/**/a/**/b")
        with pytest.raises(ResourceNotFound):
            directory.read("a/" * 5000 + "c")

    @pytest.mark.parametrize(
        "pattern",
        ["**/*", "*", "*.txt", "**/*.json", "deep/**/*", "deep/*/b.*", "?.txt", "[ab].*", "**"],
    )
    def test_reads_what_its_pattern_finds_and_nothing_else(self, root: Path, pattern: str) -> None:
        directory = Directory(root, "d://x", pattern=pattern, hidden=True)
        found = {each.name for each in directory.files()}
        everything = [each for each in root.rglob("*") if each.is_file()]
        assert len(everything) == 5
        for each in everything:
            relative = each.relative_to(root).as_posix()
            if relative in found:
                assert directory.read(relative).data == each.read_bytes()
            else:
                with pytest.raises(ResourceNotFound):
                    directory.read(relative)

    async def test_is_listed_off_the_event_loop(
        self, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A slow disk holds up no other request."""
        answered = threading.Event()
        list_files = Directory.files

        def slowly(self: Directory, *arguments: Any) -> Any:
            assert answered.wait(20), "no other request was served meanwhile"
            return list_files(self, *arguments)

        monkeypatch.setattr(Directory, "files", slowly)
        app = MCPKit("files")
        app.files(root)
        async with AsyncTestClient(app) as client, anyio.create_task_group() as group:
            group.start_soon(client.list_resources)
            await client.list_resource_templates()
            answered.set()


def test_one_file_is_described_and_read_each_time(root: Path) -> None:
    resource = file_resource(root / "a.txt", None, mime_type=None)
    assert (resource.uri, resource.name) == ("files://a.txt", "a.txt")
    assert (resource.mime_type, resource.size) == ("text/plain", 1)
    (root / "a.txt").write_text("new")
    assert run(resource.plan.fn).data == b"new"
    other = file_resource(root / "a.txt", "note:a", mime_type="text/x-own")
    assert (other.uri, other.mime_type) == ("note:a", "text/x-own")
    (root / "a b.txt").write_text("a")
    assert file_resource(root / "a b.txt", None, mime_type=None).uri == "files://a%20b.txt"
    with pytest.raises(RegistrationError, match="is neither a file nor a directory"):
        file_resource(root / "no-such-file", None, mime_type=None)
