"""Folders of skills: the skills found, and the folders that are rejected."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpkit._protocol.skills import MAX_BYTES
from mcpkit.errors import SkillError
from mcpkit.extensions.skills.folder import FoundSkill, SkillFolder, _uri
from mcpkit.providers import files

LONG_AGO = 1_700_000_000


def manifest(name: str) -> bytes:
    return f"---\nname: {name}\ndescription: About {name}.\n---\n".encode()


def write(root: Path, contents: dict[str, bytes]) -> Path:
    for path, data in contents.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)
    return root


def skill(root: Path, path: str = "pdf") -> Path:
    """The directory of a new skill."""
    return write(root / path, {"SKILL.md": manifest(path.rpartition("/")[2])})


def paths(found: FoundSkill) -> list[str]:
    return [unquote(each.uri.removeprefix(f"{found.root}/")) for each in found.files]


def rejection(root: Path, prefix: str = "") -> str:
    with pytest.raises(SkillError) as caught:
        SkillFolder(root, prefix).read()
    return str(caught.value).replace(os.sep, "/").removeprefix(f"{root.as_posix()}/")


def test_a_folder_of_skills(tmp_path: Path) -> None:
    """SKILL-5, SKILL-6, SKILL-12, SKILL-19, SKILL-20"""
    invoice_check = (
        b"---\nname: invoice-check\ndescription: Check an invoice against the purchase order. "
        b"Use when a bill arrives before it is paid.\nlicense: Apache-2.0\nmetadata:\n"
        b'  version: "1.0.0"\n---\n\n# Invoice check\n\n1. Read `references/limits.md`.\n'
        b"2. Choose a template from `templates/`.\n"
    )
    contents = {
        "README.md": b"Not part of a skill.",
        "invoice-check/SKILL.md": invoice_check,
        "invoice-check/references/limits.md": (
            b"# Limits\n\nBills above 500 need a second pair of eyes.\n"
        ),
        "invoice-check/templates/accept.md": b"Accepted: {number}\n",
        "invoice-check/templates/query.md": b"Question about {number}: {text}\n",
        "ops/on-call/SKILL.md": manifest("on-call"),
    }
    (tmp_path / "ops" / "empty").mkdir(parents=True)
    first, second = SkillFolder(write(tmp_path, contents)).read()
    assert first.uri == "skill://invoice-check/SKILL.md"
    assert first.frontmatter["description"].startswith("Check an invoice")
    assert list(first.frontmatter) == ["name", "description", "license", "metadata"]
    assert first.frontmatter["metadata"] == {"version": "1.0.0"}
    assert [(each.uri, each.digest[:15], each.size) for each in first.files] == [
        ("skill://invoice-check/SKILL.md", "sha256:0226d085", 268),
        ("skill://invoice-check/references/limits.md", "sha256:c3560183", 54),
        ("skill://invoice-check/templates/accept.md", "sha256:c7245e52", 19),
        ("skill://invoice-check/templates/query.md", "sha256:52632122", 32),
    ]
    assert {each.mime_type for each in first.files} == {"text/markdown"}
    root = "skill://invoice-check"
    assert first.directories == [root, f"{root}/references", f"{root}/templates"]
    assert (second.uri, paths(second)) == ("skill://ops/on-call/SKILL.md", ["SKILL.md"])
    assert second.frontmatter == {"name": "on-call", "description": "About on-call."}


def test_a_folder_that_is_a_skill_has_the_name_of_its_link(tmp_path: Path) -> None:
    """SKILL-6, SKILL-9"""
    skill(tmp_path, "pdf").rename(tmp_path / "pdf-v2")
    (tmp_path / "pdf").symlink_to(tmp_path / "pdf-v2")
    for prefix, uri in (
        ("", "skill://pdf/SKILL.md"),
        ("acme/a b", "skill://acme/a%20b/pdf/SKILL.md"),
    ):
        source = SkillFolder(tmp_path / "pdf", prefix)
        assert [each.uri for each in source.read()] == [uri]
        assert source.open(uri) == manifest("pdf")


def test_skills_nest(tmp_path: Path) -> None:
    """SKILL-15"""
    write(skill(tmp_path, "outer"), {"a/empty/x.md": b"x"})
    write(skill(tmp_path, "outer/a/inner"), {"y.md": b"y"})
    outer, inner = SkillFolder(tmp_path).read()
    nested = ["a/inner/SKILL.md", "a/inner/y.md"]
    assert paths(outer) == ["SKILL.md", "a/empty/x.md", *nested]
    root = "skill://outer"
    assert outer.directories == [root, *(f"{root}/{each}" for each in ("a", "a/empty", "a/inner"))]
    assert paths(inner) == ["SKILL.md", "y.md"]
    assert [each.uri for each in inner.files] == [each.uri for each in outer.files[2:]]


@pytest.mark.parametrize(
    ("name", "data", "mime_type"),
    [
        ("crlf.md", b"a\r\n", "text/markdown"),
        ("bom.txt", b"\xef\xbb\xbfa", "text/plain"),
        ("latin.txt", b"\xe9", "text/plain"),
        ("surrogate.txt", b"\xed\xa0\x80", "text/plain"),
        ("script.py", b"a = 1", "text/x-python"),
        ("data.tar.gz", b"\x1f\x8b", "application/octet-stream"),
        ("LICENSE", b"", "text/plain"),
        ("pixel.png", b"\x89PNG", "image/png"),
    ],
)
def test_files_have_the_digests_of_their_bytes(
    tmp_path: Path, name: str, data: bytes, mime_type: str
) -> None:
    """SKILL-20, SKILL-21"""
    write(skill(tmp_path), {name: data})
    source = SkillFolder(tmp_path)
    (found,) = (each for each in source.read()[0].files if each.uri.endswith(name))
    assert (found.mime_type, found.size) == (mime_type, len(data))
    assert found.digest == f"sha256:{sha256(source.open(found.uri)).hexdigest()}"
    assert source.open(found.uri) == data


@pytest.mark.parametrize(
    "name", ["a b", "ü.md", "u\u0308", "50%", "%41", "a#b", "a?b", "a+b@c", "{x}", "a:b", "~x"]
)
def test_names_are_encoded_in_uris_which_are_compared_byte_for_byte(
    tmp_path: Path, name: str
) -> None:
    """SKILL-7, SKILL-8"""
    write(skill(tmp_path), {f"d/x{name}": b"?"})
    source = SkillFolder(tmp_path)
    uri = source.read()[0].files[1].uri
    assert source.open(uri) == b"?"
    for other in (uri.replace("/x", "/%78"), uri.upper(), uri + "/", uri.replace("/d/", "//d/")):
        with pytest.raises(SkillError, match="no skill has this file"):
            source.open(other)


@given(st.lists(st.text(min_size=1), min_size=1))
def test_different_paths_have_different_uris(parts: list[str]) -> None:
    """SKILL-8"""
    encoded = _uri(tuple(parts)).removeprefix("skill://")
    assert [unquote(part) for part in encoded.split("/")] == parts


def test_hidden_files_and_those_that_tools_leave_are_not_published(tmp_path: Path) -> None:
    left = [".env", ".git/config", "SKILL.md~", "#SKILL.md#", "__pycache__/x.pyc", "Thumbs.db"]
    write(skill(tmp_path), dict.fromkeys([*left, "scripts/.x.swp", "desktop.ini"], b"?"))
    (tmp_path / "pdf" / ".#SKILL.md").symlink_to("user@host.1")  # a lock of Emacs
    source = SkillFolder(tmp_path)
    assert paths(source.read()[0]) == ["SKILL.md"]
    with pytest.raises(SkillError, match="no skill has this file"):
        source.open("skill://pdf/.env")


@pytest.fixture(params=["by descriptor", "by path"])
def platform(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A platform that opens files relative to a descriptor, and one that cannot."""
    if request.param == "by path":
        monkeypatch.setattr(files, "_BY_DESCRIPTOR", False)


def bind(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.path.relpath(path))  # the length of such an address is limited


def deep(path: Path) -> None:
    path.joinpath(*["d"] * 33).mkdir(parents=True)


HOSTILE: list[tuple[Callable[[Path], object], str]] = [
    (lambda pdf: (pdf / "a").symlink_to(pdf / "SKILL.md"), "pdf/a: is a symbolic link"),
    (lambda pdf: (pdf / "a").symlink_to("/"), "pdf/a: is a symbolic link"),
    (lambda pdf: (pdf / "a").symlink_to("nowhere"), "pdf/a: is a symbolic link"),
    (lambda pdf: pdf.with_name("b").symlink_to(pdf), "b: is a symbolic link"),
    (lambda pdf: os.mkfifo(pdf / "a"), "pdf/a: is neither a file nor a directory"),
    (lambda pdf: bind(pdf / "a"), "pdf/a: is neither a file nor a directory"),
    (lambda pdf: write(pdf, {"d/a\\b": b""}), "pdf/d/a\\b: its name has a backslash"),
    (lambda pdf: write(pdf, {"a\nb": b""}), "pdf/a\\nb: its name has a backslash"),
    (lambda pdf: write(pdf, {"c:x": b""}), "pdf/c:x: its name has a backslash"),
    (
        lambda pdf: write(pdf, {os.fsdecode(b"a\xff"): b""}),
        "pdf/a\\udcff: its name has a backslash",
    ),
    (lambda pdf: write(pdf, {"a": b"", "A": b""}), "pdf/a: its name differs from 'A'"),
    (lambda pdf: write(pdf, {"ss": b"", "ß/a": b""}), "pdf/ß: its name differs from 'ss'"),
    (lambda pdf: write(pdf, {"u\u0308": b"", "ü": b""}), "pdf/ü: its name differs from"),
    (lambda pdf: write(pdf, {"d/skill.md": b""}), "pdf/d/skill.md: must be a file named SKILL.md"),
    (lambda pdf: (pdf / "d/SKILL.md").mkdir(parents=True), "pdf/d/SKILL.md: must be a file"),
    (deep, "pdf/d/d"),
    (lambda pdf: pdf.rename(pdf.with_name("doc")), "doc/SKILL.md: the name is 'pdf'"),
    (lambda pdf: write(pdf, {"SKILL.md": b"---\nname: \xe9\n---\n"}), "pdf/SKILL.md: is not UTF-8"),
    (lambda pdf: write(pdf, {"SKILL.md": b"---\nx: &a\n---\n"}), "pdf/SKILL.md:2: has an anchor"),
    (lambda pdf: write(pdf, {"../b/c/a.md": b""}), "b/c: has files, but no SKILL.md"),
    (lambda pdf: skill(pdf.parent, "Ops/b"), "Ops: its name is the authority"),
    (lambda pdf: skill(pdf.parent, "a b/c"), "a b: its name is the authority"),
]


@pytest.mark.usefixtures("platform")
@pytest.mark.parametrize(("change", "reason"), HOSTILE, ids=[reason for _, reason in HOSTILE])
def test_a_folder_that_hosts_might_read_differently_is_rejected(
    tmp_path: Path, change: Callable[[Path], object], reason: str
) -> None:
    """SKILL-6, SKILL-7, SKILL-9, SKILL-16, SKILL-21"""
    change(skill(tmp_path))
    assert rejection(tmp_path).startswith(reason)


@pytest.mark.parametrize("prefix", ["/", "a/", "a//b", "a/../b", ".", "a/b\\c", "a/\0", "A", "a b"])
def test_a_prefix_is_checked(tmp_path: Path, prefix: str) -> None:
    """SKILL-6, SKILL-7"""
    with pytest.raises(SkillError, match="the prefix"):
        SkillFolder(tmp_path, prefix)


def test_a_folder_without_skills_is_rejected(tmp_path: Path) -> None:
    write(tmp_path, {"README.md": b"", ".hidden/SKILL.md": manifest("hidden")})
    for root, reason in (
        (tmp_path, "has no SKILL.md"),
        (tmp_path / "README.md", "cannot be read"),
        (tmp_path / "nowhere", "does not exist"),
    ):
        assert f"{root.as_posix()}: {reason}" in rejection(root)


@pytest.mark.parametrize("below", ["", "deep/er/"])
def test_a_skill_has_at_most_512_files_and_16_mib(tmp_path: Path, below: str) -> None:
    """SKILL-22"""
    pdf = write(skill(tmp_path), {f"{below}{number}": b"" for number in range(511)})
    source = SkillFolder(tmp_path)
    assert len(source.read()[0].files) == 512
    write(pdf, {f"{below}more": b""})
    assert "has 513 files; a skill has at most 512" in rejection(tmp_path)
    (pdf / below / "more").unlink()
    rest = MAX_BYTES - len(manifest("pdf"))
    os.truncate(pdf / below / "0", rest)
    assert sum(each.size for each in source.read()[0].files) == 16 * 1024 * 1024
    os.truncate(pdf / below / "0", rest + 1)
    assert "has 16777217 bytes; a skill has at most 16777216" in rejection(tmp_path)
    write(pdf, {f"d{number}/d/x": b"" for number in range(600)})
    assert "has more than 1024 files and directories" in rejection(tmp_path)


@pytest.mark.parametrize("size", [MAX_BYTES, MAX_BYTES + 9])
def test_files_that_grow_while_they_are_read_are_limited_too(
    tmp_path: Path, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SKILL-22"""
    pdf = write(skill(tmp_path), {"a": b""})
    unpatched = files.Folder.entries

    def grow_after(self: files.Folder, parts: tuple[str, ...]) -> list[tuple[str, os.stat_result]]:
        found = unpatched(self, parts)
        os.truncate(pdf / "a", size)
        return found

    monkeypatch.setattr(files.Folder, "entries", grow_after)
    assert "a skill has at most 16777216" in rejection(tmp_path)


def test_files_are_hashed_again_only_after_a_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SKILL-31"""
    pdf = write(skill(tmp_path), {"old": b"old", "new": b"new"})
    source = SkillFolder(tmp_path)
    read: list[str] = []
    unpatched = files.Folder.read

    def read_too(self: files.Folder, parts: tuple[str, ...], limit: int) -> bytes:
        read.append(parts[-1])
        return unpatched(self, parts, limit)

    monkeypatch.setattr(files.Folder, "read", read_too)
    for name in ("SKILL.md", "old"):
        os.utime(pdf / name, (LONG_AGO, LONG_AGO))
    os.utime(pdf / "new", (2 * LONG_AGO, 2 * LONG_AGO))
    first = source.read()
    assert read == ["SKILL.md", "new", "old"]
    assert source.read() == first
    assert read[3:] == ["new"]  # too new: it may change again without another time
    # Another time alone, another size alone, another inode alone.
    for data, is_copy in ((b"OLD", False), (b"older", False), (b"newer", True)):
        changed = tmp_path / "copy" if is_copy else pdf / "old"
        changed.write_bytes(data)
        os.utime(changed, (LONG_AGO + 1, LONG_AGO + 1))
        changed.replace(pdf / "old")
        read.clear()
        found = {each.uri: each.digest for each in source.read()[0].files}
        assert read == ["new", "old"]
        assert found["skill://pdf/old"] == f"sha256:{sha256(data).hexdigest()}"


def test_those_who_wait_for_each_other_share_a_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SKILL-31: one that has begun after their calls, so that they see every edit before."""
    pdf = skill(tmp_path)
    source = SkillFolder(tmp_path)
    unpatched, scans, callers = SkillFolder._read, 0, 10
    waiting = threading.Semaphore(0)

    class Lock:
        """Counts those who wait."""

        lock = threading.Lock()

        def __enter__(self) -> None:
            waiting.release()
            self.lock.acquire()

        def __exit__(self, *error: object) -> None:
            self.lock.release()

    def read(self: SkillFolder) -> None:
        nonlocal scans
        scans += 1
        unpatched(self)
        if scans == 1:  # all of them call while the first one reads
            for _ in range(callers):
                assert waiting.acquire(timeout=10)
            write(pdf, {"new": b"new"})

    monkeypatch.setattr(source, "_reading", Lock())
    monkeypatch.setattr(SkillFolder, "_read", read)
    with ThreadPoolExecutor(callers) as pool:
        counts = [len(each[0].files) for each in pool.map(lambda _: source.read(), range(callers))]
    assert sorted(counts) == [1, *[2] * (callers - 1)]
    assert scans == 2


def test_open_reads_the_files_that_are_there_now(tmp_path: Path) -> None:
    pdf = write(skill(tmp_path), {"a": b"a"})
    source = SkillFolder(tmp_path)
    assert source.open("skill://pdf/a") == b"a"
    write(pdf, {"a": b"changed", "new": b"new"})
    assert [source.open(f"skill://pdf/{name}") for name in ("a", "new")] == [b"changed", b"new"]


def link_directory(path: Path) -> None:
    path.parent.rmdir()
    path.parent.symlink_to(path.parents[3] / "secret")


def inflate(path: Path) -> None:
    path.touch()
    os.truncate(path, MAX_BYTES + 1)


REPLACEMENTS: dict[str, Callable[[Path], object]] = {
    "nothing": lambda path: path,
    "too much": inflate,
    "a link": lambda path: path.symlink_to(path.parents[3] / "secret/a"),
    "a pipe": lambda path: os.mkfifo(path),
    "a directory": os.mkdir,
    "below a link": link_directory,
}


@pytest.mark.usefixtures("platform")
@pytest.mark.parametrize("replace", REPLACEMENTS.values(), ids=REPLACEMENTS)
def test_open_does_not_read_what_has_replaced_a_file(
    tmp_path: Path, replace: Callable[[Path], object]
) -> None:
    """SKILL-16, SKILL-22"""
    write(tmp_path, {"secret/a": b"secret"})
    file = write(skill(tmp_path, "skills/pdf"), {"d/a": b"a"}) / "d/a"
    source = SkillFolder(tmp_path / "skills")
    assert source.open("skill://pdf/d/a") == b"a"
    file.unlink()
    replace(file)
    with pytest.raises(SkillError, match=r"d.a: (cannot be read|has 16777217 bytes)"):
        source.open("skill://pdf/d/a")
