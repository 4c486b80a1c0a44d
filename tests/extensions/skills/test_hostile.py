"""Odd requests for skills, and folders that change while they are served (EXTENSIONS §2)."""

from __future__ import annotations

import os
import shutil
import threading
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from mcpkit import Context
from mcpkit.errors import InvalidParams, ProtocolError, SkillError
from mcpkit.testing import AsyncTestClient
from tests.extensions.skills.test_served import (
    HANDSHAKE,
    INVOICES,
    MODERN,
    ON_CALL,
    app_with,
    bytes_at,
    everything,
    folder,
    manifest,
)
from tests.kit import until

__all__ = ["folder"]

LIMITS = "skill://invoices/references/limits.md"

ODD = [
    "skill://invoices/%53KILL.md",
    "skill://invoices/./SKILL.md",
    "skill://invoices//SKILL.md",
    "skill://invoices/SKILL.md/",
    "skill://invoices/SKILL.md?",
    "skill://invoices/SKILL.md#a",
    "skill://invoices/skill.md",
    "skill://invoices/references/../SKILL.md",
    "skill://invoices/references%2Flimits.md",
    "skill://invoices/assets/logo 1.png",
    "skill://invoices/assets/logo+1.png",
    "skill://invoices/../secret",
    "skill://invoices/%2e%2e/secret",
    "skill://invoices\\SKILL.md",
    "skill://invoices/SKILL.md%00",
    "skill://Invoices/SKILL.md",
    "skill://user@invoices/SKILL.md",
    "skill://invoices:80/SKILL.md",
    "SKILL://invoices/SKILL.md",
    "skill:invoices/SKILL.md",
    "skill:///invoices/SKILL.md",
    "skill:///etc/passwd",
    "skill://",
    "skill://ops/",
    "skill://op",
    "skill://ops/on-call/.",
    "skill://ops/on-call/..",
    "skill://ops/%6fn-call",
    "skill://invoices/" + "a/" * 1000,
]


UNKNOWN: list[tuple[str, list[str], type[ProtocolError], str]] = [
    (
        *("skills/get", [*ODD, "skill://nothing/SKILL.md", LIMITS]),
        *(InvalidParams, "^Unknown skill: "),
    ),
    ("resources/read", ODD, ProtocolError, "not found"),
    (
        *("resources/directory/read", [*ODD, INVOICES, "skill://nothing", "skill:/", ""]),
        *(InvalidParams, "^Unknown directory: "),
    ),
]


@pytest.mark.parametrize("revision", [HANDSHAKE, MODERN])
@pytest.mark.parametrize(("method", "uris", "kind", "said"), UNKNOWN)
async def test_what_is_unknown_is_refused(
    folder: Path, revision: str, method: str, uris: list[str], kind: type[Exception], said: str
) -> None:
    """SKILL-7, SKILL-25: URIs are not decoded, resolved or folded."""
    (folder.parent / "secret").write_text("secret")
    async with AsyncTestClient(app_with(folder), revision=revision) as client:
        for uri in uris:
            with pytest.raises(kind, match=said):
                await client.request(method, {"uri": uri})


async def test_handlers_read_files_of_skills(folder: Path) -> None:
    app = app_with(folder)

    @app.tool
    async def peek(ctx: Context) -> str:
        """Look at the limits."""
        [content] = await ctx.read_resource(LIMITS)
        return str(content.uri)

    async with AsyncTestClient(app) as client:
        assert (await client.call_tool("peek")).text == LIMITS


# --- while a client reads -------------------------------------------------------------------------


async def test_a_listed_file_that_was_replaced_is_not_found(folder: Path) -> None:
    """SKILL-16: and the others are read as before."""
    async with AsyncTestClient(app_with(folder)) as client:
        await client.skills()
        path = folder / "invoices/references/limits.md"
        path.unlink()
        os.mkfifo(path)
        with pytest.raises(ProtocolError, match="not found"):
            await client.read_resource(LIMITS)
        assert await client.read_skill(ON_CALL) == manifest("on-call").encode()


async def test_a_folder_that_is_gone_and_comes_back(folder: Path) -> None:
    """SKILL-29"""
    async with AsyncTestClient(app_with(folder)) as client:
        before = await client.skills()
        aside = folder.rename(folder.with_name("aside"))
        assert await client.skills() == before
        with pytest.raises(ProtocolError, match="not found"):
            await client.read_skill(ON_CALL)
        aside.rename(folder)
        assert await client.read_skill(ON_CALL) == manifest("on-call").encode()


async def test_a_change_that_a_read_finds_is_announced(folder: Path) -> None:
    """SKILL-29"""
    heard: list[Any] = []
    async with AsyncTestClient(
        app_with(folder), revision=HANDSHAKE, on_notification=lambda *each: heard.append(each)
    ) as client:
        (folder / "invoices/new.md").write_text("new")
        assert await bytes_at(client, "skill://invoices/new.md") == b"new"
        await until(lambda: heard)
        assert heard[0][0] == "notifications/resources/list_changed"


async def test_of_skills_that_come_to_have_the_same_uri_the_first_is_served(folder: Path) -> None:
    """SKILL-31: entry and bytes are of the same skill."""
    other = folder.parent / "other"
    shutil.copytree(folder / "ops/on-call", other / "on-call")
    app = app_with(folder)
    app.skills(other, prefix="acme")
    async with AsyncTestClient(app) as client:
        assert len(await client.skills()) == 3
        (folder / "acme/on-call").mkdir(parents=True)
        text = manifest("on-call", "license: MIT\n")
        (folder / "acme/on-call/SKILL.md").write_text(text)
        assert len(await client.skills()) == 3
        assert await client.read_skill("skill://acme/on-call/SKILL.md") == text.encode()


@pytest.mark.parametrize("revision", [HANDSHAKE, MODERN])
async def test_pages_survive_changes(tmp_path: Path, revision: str) -> None:
    """SKILL-24, PAGE-4: what stays is listed once, also if names begin alike."""
    names = [f"acme/a{end}/b" for end in ("", "-x", "0", "b")]
    for name in names:
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "SKILL.md").write_text(manifest("b"))
    async with AsyncTestClient(app_with(tmp_path, page_size=1), revision=revision) as client:
        uri = "skill://acme"
        found = await everything(client, "resources/directory/read", "resources", uri=uri)
        assert [each["name"] for each in found] == ["a", "a-x", "a0", "ab"]
        page = await client.request("skills/list")
        cursors = [page["nextCursor"]]
        shutil.rmtree(tmp_path / "acme/a-x")  # the one that the cursor names
        shutil.rmtree(tmp_path / "acme/a0")
        (tmp_path / "acme/c").mkdir()
        (tmp_path / "acme/c/SKILL.md").write_text(manifest("c"))
        rest: list[str] = []
        while cursors[-1] is not None:
            page = await client.request("skills/list", {"cursor": cursors[-1]})
            rest += [each["uri"].split("/")[3] for each in page["skills"]]
            cursors.append(page.get("nextCursor"))
        assert rest == ["a", "ab", "c"]
        assert len({*cursors}) == len(cursors)


async def test_concurrent_edits_are_seen_whole(folder: Path) -> None:
    """SKILL-20, SKILL-31: what is read is one of the versions, and an entry has its digest."""
    path = folder / "invoices/references/limits.md"
    versions = [f"Up to {number} €.".encode() * (number + 1) for number in range(50)]
    digests = {f"sha256:{sha256(each).hexdigest()}" for each in versions}
    path.write_bytes(versions[0])
    over = threading.Event()

    def edit() -> None:
        while not over.is_set():
            for each in versions:
                path.with_suffix(".new~").write_bytes(each)
                path.with_suffix(".new~").replace(path)

    editor = threading.Thread(target=edit)
    async with AsyncTestClient(app_with(folder)) as client:
        editor.start()
        try:
            for _ in range(100):
                [skill, _] = await client.skills()
                assert skill.files is not None
                assert skill.files["references/limits.md"].digest in digests
                with suppress(SkillError):  # it has changed again, which a host notices
                    assert await client.read_skill(skill, "references/limits.md") in versions
        finally:
            over.set()
            editor.join()
        assert await client.read_skill(INVOICES, "references/limits.md") in versions
