"""Skills that a client lists and reads: it verifies what hosts have to verify (EXTENSIONS §2.4)."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from mcpkit import MCPKit
from mcpkit.client import ListedSkill
from mcpkit.errors import InvalidParams, MethodNotFound, SkillError
from mcpkit.extension import Extension
from mcpkit.testing import REVISIONS, AsyncTestClient, TestClient
from tests.extensions.skills.test_served import (
    HANDSHAKE,
    INVOICES,
    MODERN,
    ON_CALL,
    app_with,
    entry_of,
    folder,
    manifest,
)

__all__ = ["folder"]

TEA = "skill://tea/SKILL.md"
TEXT = manifest("tea")


def entry(files: dict[str, bytes] | None = None, **changes: Any) -> dict[str, Any]:
    """An entry as a server sends it."""
    files = {"SKILL.md": TEXT.encode()} if files is None else files
    resources = [entry_of(f"skill://tea/{path}", data) for path, data in files.items()]
    frontmatter = {"name": "tea", "description": "Use tea."}
    return {"uri": TEA, "frontmatter": frontmatter, "resources": resources, **changes}


class Official(Extension):
    _is_official = True


def serving(*entries: Any, contents: Any = None) -> tuple[MCPKit[Any], list[str]]:
    """A server of skills as they are, and the URIs that are read."""
    app: MCPKit[Any] = MCPKit("other", offers=["resources"])
    skills = Official("io.modelcontextprotocol/skills")
    skills.request("skills/list")(lambda: {"skills": list(entries)})
    skills.request("skills/get")(lambda: {"skill": entries[0]})
    app.extend(skills)
    read: list[str] = []

    @app.middleware
    async def serve(ctx: Any, call_next: Any) -> Any:
        if ctx.request.method != "resources/read":
            return await call_next()
        uri = ctx.request.params["uri"]
        read.append(uri)
        return {"contents": contents or [{"uri": uri, "text": TEXT}]}

    return app, read


@pytest.mark.parametrize("revision", REVISIONS)
async def test_skills_are_read_and_verified(folder: Path, revision: str) -> None:
    """SKILL-20, SKILL-21, SKILL-24; SKILL-H2: by entry, URI or name, and file by file."""
    app = app_with(folder, page_size=1)
    async with AsyncTestClient(app, revision=revision) as client:
        first, second = await client.skills()
        assert (first.uri, first.name, second.uri) == (INVOICES, "invoices", ON_CALL)
        assert first.description == "Use invoices."
        assert first.files is not None
        assert sorted(first.files) == ["SKILL.md", "assets/logo 1.png", "references/limits.md"]
        text = manifest("invoices", "metadata:\n  version: '1'\n").encode()
        for skill in (first, INVOICES, "invoices"):
            assert await client.read_skill(skill) == text
        assert await client.read_skill(first, "references/limits.md") == "Up to 10 €.\r\n".encode()
        assert await client.read_skill(first, "assets/logo 1.png") == b"\x89PNG\xff"


def test_skills_are_read_by_a_blocking_client(folder: Path) -> None:
    with TestClient(app_with(folder)) as client:
        assert client.read_skill(client.skills()[1]) == manifest("on-call").encode()


@pytest.mark.parametrize("revision", [HANDSHAKE, MODERN])
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (manifest("invoices", "metadata:\n  version: '2'\n"), "the digest that is listed"),
        (manifest("invoices", "metadata:\n  version: '10'\n"), "has 88 bytes, but 87 are listed"),
    ],
)
async def test_a_file_that_has_changed_is_refused_until_the_entry_is_fetched_again(
    folder: Path, revision: str, text: str, reason: str
) -> None:
    """SKILL-29; SKILL-H2, SKILL-H5"""
    async with AsyncTestClient(app_with(folder), revision=revision) as client:
        approved = (await client.skills())[0]
        (folder / "invoices/SKILL.md").write_text(text)
        with pytest.raises(SkillError, match=reason):
            await client.read_skill(approved)
        assert await client.read_skill(approved.uri) == text.encode()


@pytest.mark.parametrize("revision", [HANDSHAKE, MODERN])
async def test_nothing_is_read_before_it_is_needed(revision: str) -> None:
    """SKILL-H3"""
    app, read = serving(entry({"SKILL.md": TEXT.encode(), "a.md": b""}))
    async with AsyncTestClient(app, revision=revision) as client:
        [skill] = await client.skills()
        assert read == []
        assert await client.read_skill(skill) == TEXT.encode()
        assert read == [TEA]


CONTENTS: dict[str, tuple[Any, str]] = {
    "other frontmatter": (
        [{"uri": TEA, "text": TEXT.replace("Use tea", "Obey me")}],
        "does not have the frontmatter",
    ),
    "no frontmatter": ([{"uri": TEA, "text": "# Tea"}], "must begin with a line"),
    "not text": (
        [{"uri": TEA, "blob": b64encode(b"---\n\xff").decode()}],
        "three hyphens must end",
    ),
    "another URI": ([{"uri": "skill://tea/a", "text": TEXT}], "as a single content of this URI"),
    "two contents": ([{"uri": TEA, "text": TEXT}] * 2, "as a single content of this URI"),
    "nothing": ([], "as a single content of this URI"),
}


@pytest.mark.parametrize(("contents", "reason"), CONTENTS.values(), ids=CONTENTS)
async def test_contents_that_are_not_those_of_the_entry_are_refused(
    contents: Any, reason: str
) -> None:
    """SKILL-12, SKILL-21; SKILL-H2"""
    first = contents[0] if contents else {}
    data = first["text"].encode() if "text" in first else b"---\n\xff"
    app, _ = serving(entry({"SKILL.md": data}), contents=contents or [{"uri": "a:b", "text": ""}])
    async with AsyncTestClient(app) as client:
        with pytest.raises(SkillError, match=reason):
            await client.read_skill("tea")


FRONTMATTER: dict[str, tuple[str, dict[str, Any]]] = {
    "a last newline": ("description: |\n  Use tea.\n", {"description": "Use tea.\n"}),
    "no last newline": ("description: |\n  Use tea.\n", {"description": "Use tea."}),
    "fields that later versions may define": (
        "description: x\nlicense: [MIT]\nmetadata: {io.modelcontextprotocol/a: 1}\n",
        {"description": "x", "license": ["MIT"], "metadata": {"io.modelcontextprotocol/a": 1}},
    ),
}


@pytest.mark.parametrize(("yaml", "fields"), FRONTMATTER.values(), ids=FRONTMATTER)
async def test_a_frontmatter_that_may_be_read_so_is_accepted(
    yaml: str, fields: dict[str, Any]
) -> None:
    """SKILL-10, SKILL-13, SKILL-14"""
    raw = f"---\nname: tea\n{yaml}---\n"
    found = entry({"SKILL.md": raw.encode()}, frontmatter={"name": "tea", **fields})
    app, _ = serving(found, contents=[{"uri": TEA, "text": raw}])
    async with AsyncTestClient(app) as client:
        assert await client.read_skill("tea") == raw.encode()


def with_file(**changes: Any) -> dict[str, Any]:
    found = entry({"SKILL.md": TEXT.encode(), "a.md": b""})
    found["resources"][1].update(changes)
    return found


MALFORMED: dict[str, tuple[dict[str, Any], str]] = {
    "no URI": (entry(uri=None), "None: does not end in tea/SKILL.md"),
    "another manifest": (entry(uri="skill://tea/skill.md"), "does not end in tea/SKILL.md"),
    "another name": (entry(uri="skill://coffee/SKILL.md"), "does not end in tea/SKILL.md"),
    "no directory": (entry(uri="SKILL.md"), "does not end in tea/SKILL.md"),
    "no frontmatter": (entry(frontmatter=None), "the frontmatter is missing"),
    "no description": (entry(frontmatter={"name": "tea"}), "'description' is missing"),
    "a wrong name": (entry(frontmatter={"name": 1, "description": "x"}), "'name' must be"),
    "no files": (entry(resources=None), "the list of its files is missing"),
    "another word": (entry(resources="static"), "the list of its files is missing"),
    "no manifest": (entry({"a.md": b""}), r"or has no SKILL\.md"),
    "a file that is none": (entry(resources=[1]), "a file without URI, digest or size"),
    "no size": (entry(resources=[{"uri": TEA, "digest": "x"}]), "a file without URI"),
    "outside": (with_file(uri="skill://other/a.md"), "is not below its directory"),
    "a way out": (with_file(uri="skill://tea/a/%2e%2E/b"), "is not below its directory"),
    "an empty name": (with_file(uri="skill://tea/a//b"), "is not below its directory"),
    "the directory": (with_file(uri="skill://tea/"), "is not below its directory"),
    "twice": (with_file(uri="skill://tea/%53KILL.md"), "lists skill://tea/%53KILL.md twice"),
    "upper case": (with_file(digest="sha256:" + "A" * 64), "a malformed digest or size"),
    "a fraction": (with_file(size=1.5), "a malformed digest or size"),
    "a boolean": (with_file(size=True), "a malformed digest or size"),
    "less than nothing": (with_file(size=-1), "a malformed digest or size"),
    "too large": (with_file(size=16 * 1024 * 1024), "has more than 512 files or 16777216 bytes"),
    "too many": (
        entry({"SKILL.md": TEXT.encode(), **{str(n): b"" for n in range(512)}}),
        "has more than 512 files",
    ),
}


@pytest.mark.parametrize(("raw", "reason"), MALFORMED.values(), ids=MALFORMED)
def test_malformed_entries_are_refused(raw: dict[str, Any], reason: str) -> None:
    """SKILL-6, SKILL-9, SKILL-10, SKILL-16, SKILL-18, SKILL-19, SKILL-20, SKILL-22"""
    with pytest.raises(SkillError, match=reason):
        ListedSkill.from_wire(raw)


async def test_malformed_entries_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    """SKILL-18"""
    app, _ = serving(entry(resources=None), entry())
    async with AsyncTestClient(app) as client:
        assert len(await client.skills()) == 1
    assert "a skill is left out of the list: skill://tea/SKILL.md: the list" in caplog.text


async def test_files_that_are_not_listed_are_not_read() -> None:
    """SKILL-18; SKILL-H2, SKILL-H5"""
    app, read = serving(entry(resources="dynamic"), entry())
    async with AsyncTestClient(app) as client:
        dynamic, listed = await client.skills()
        assert dynamic.files is None
        with pytest.raises(SkillError, match="its files are not listed"):
            await client.read_skill(dynamic)
        with pytest.raises(SkillError, match=r"has no file 'a\.md'"):
            await client.read_skill(listed, "a.md")
        with pytest.raises(SkillError, match="is the name of 2 skills"):
            await client.read_skill("tea")
        with pytest.raises(SkillError, match="is the name of 0 skills"):
            await client.read_skill("coffee")
        with pytest.raises(SkillError, match="the server returned another entry"):
            await client.read_skill("skill://acme/tea/SKILL.md")
    assert read == []


@pytest.mark.parametrize("revision", [HANDSHAKE, MODERN])
async def test_unknown_skills_and_servers_without_skills(folder: Path, revision: str) -> None:
    """SKILL-1, SKILL-25"""
    async with AsyncTestClient(app_with(folder), revision=revision) as client:
        with pytest.raises(InvalidParams, match="Unknown skill"):
            await client.read_skill("skill://nothing/SKILL.md")
    async with AsyncTestClient(MCPKit("none"), revision=revision) as client:
        for call in (client.skills, lambda: client.read_skill("tea")):
            with pytest.raises(MethodNotFound, match="The server has no skills"):
                await call()
