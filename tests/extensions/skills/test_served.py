"""What clients get of a folder of skills, also while it changes (EXTENSIONS §2)."""

from __future__ import annotations

import os
import shutil
import threading
from base64 import b64decode
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from mcpkit import Context, MCPKit
from mcpkit.errors import InvalidParams, ProtocolError, RegistrationError, SkillError
from mcpkit.testing import REVISIONS, AsyncTestClient
from tests.kit import until

SKILLS = "io.modelcontextprotocol/skills"
HANDSHAKE, MODERN = REVISIONS[-2], REVISIONS[-1]
INVOICES = "skill://invoices/SKILL.md"
ON_CALL = "skill://ops/on-call/SKILL.md"


def manifest(name: str, more: str = "") -> str:
    return f"---\nname: {name}\ndescription: Use {name}.\n{more}---\nDo it well.\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    files: Mapping[str, str | bytes] = {
        "invoices/SKILL.md": manifest("invoices", "metadata:\n  version: '1'\n"),
        "invoices/references/limits.md": "Up to 10 €.\r\n",
        "invoices/assets/logo 1.png": b"\x89PNG\xff",
        "ops/on-call/SKILL.md": manifest("on-call"),
    }
    for name, content in files.items():
        path = tmp_path / "skills" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    (tmp_path / "skills/invoices/empty").mkdir()
    return tmp_path / "skills"


def app_with(folder: Path, *, page_size: int | None = None, **options: Any) -> MCPKit[Any]:
    app: MCPKit[Any] = MCPKit("skilled", page_size=page_size, cache_scope="public")
    app.skills(folder, **options)
    return app


def entry_of(uri: str, data: bytes) -> dict[str, Any]:
    """What the entry of a skill says of a file."""
    return {"uri": uri, "digest": f"sha256:{sha256(data).hexdigest()}", "size": len(data)}


async def bytes_at(client: AsyncTestClient, uri: str) -> bytes:
    [content] = (await client.request("resources/read", {"uri": uri}))["contents"]
    assert content["uri"] == uri
    return content["text"].encode() if "text" in content else b64decode(content["blob"])


async def everything(client: AsyncTestClient, method: str, member: str, **params: str) -> list[Any]:
    """All pages of a list."""
    found: list[Any] = []
    page = await client.request(method, params)
    for _ in range(20):
        found += page[member]
        if "nextCursor" not in page:
            return found
        page = await client.request(method, {**params, "cursor": page["nextCursor"]})
    raise AssertionError("it does not end")


@pytest.mark.parametrize("revision", REVISIONS)
async def test_skills_are_listed_with_the_digests_of_their_files(
    folder: Path, revision: str
) -> None:
    """SKILL-1, SKILL-2, SKILL-4, SKILL-12, SKILL-17…21, SKILL-27."""
    async with AsyncTestClient(app_with(folder), revision=revision) as client:
        assert client.extension(SKILLS) == {"directoryRead": True}
        assert "resources" in client.server_capabilities
        result = {**await client.request("skills/list")}
        skills = result.pop("skills")
        one = {**await client.request("skills/get", {"uri": INVOICES})}
        assert one.pop("skill") == skills[0]
        for each in (result, one):
            modern = {"resultType", "ttlMs", "cacheScope", "_meta"}
            assert each.keys() == (modern if revision == MODERN else set())
        assert [each["uri"] for each in skills] == [INVOICES, ON_CALL]
        assert skills[0]["frontmatter"] == {
            "name": "invoices",
            "description": "Use invoices.",
            "metadata": {"version": "1"},
        }
        files = {each["uri"].rpartition("/")[2]: each for each in skills[0]["resources"]}
        assert files.keys() == {"SKILL.md", "limits.md", "logo%201.png"}
        for each in files.values():
            assert each == entry_of(each["uri"], await bytes_at(client, each["uri"]))
        [first, second] = await client.list_resources()
        assert (first.uri, second.uri) == (INVOICES, ON_CALL)
        assert (first.name, first.description) == ("invoices", "Use invoices.")
        assert (first.mime_type, first.size) == ("text/markdown", 87)


@pytest.mark.parametrize("revision", [HANDSHAKE, MODERN])
@pytest.mark.parametrize(
    ("uri", "names"),
    [
        ("skill://invoices", ["SKILL.md", "assets", "empty", "references"]),
        ("skill://invoices/assets", ["logo 1.png"]),
        ("skill://invoices/empty", []),
        ("skill://ops", ["on-call"]),
    ],
)
async def test_directories_are_read(
    folder: Path, revision: str, uri: str, names: list[str]
) -> None:
    """SKILL-8, SKILL-26: direct children, and nothing of caches."""
    async with AsyncTestClient(app_with(folder), revision=revision) as client:
        result = await client.request("resources/directory/read", {"uri": uri})
    assert not {"ttlMs", "cacheScope"} & result.keys()
    assert [each["name"] for each in result["resources"]] == names
    for each in result["resources"]:
        is_file = each["name"] in ("SKILL.md", "logo 1.png")
        assert ("size" in each, each["mimeType"] == "inode/directory") == (is_file, not is_file)
        assert each["uri"].startswith(f"{uri}/")


async def test_lists_have_pages(folder: Path) -> None:
    """SKILL-24: every entry once."""
    async with AsyncTestClient(app_with(folder, page_size=1)) as client:
        skills = await everything(client, "skills/list", "skills")
        assert [each["uri"] for each in skills] == [INVOICES, ON_CALL]
        uri = "skill://invoices"
        entries = await everything(client, "resources/directory/read", "resources", uri=uri)
        assert len(entries) == 4
        for cursor in ("?", entries[0]["uri"]):
            with pytest.raises(InvalidParams, match="cursor"):
                await client.request("skills/list", {"cursor": cursor})


async def test_edits_show_up(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """SKILL-29, SKILL-31: and a skill that is broken stays as it was."""
    heard: list[Any] = []
    async with AsyncTestClient(
        app_with(folder), revision=HANDSHAKE, on_notification=lambda *each: heard.append(each)
    ) as client:
        await client.request("resources/subscribe", {"uri": INVOICES})
        before = (await client.request("skills/get", {"uri": INVOICES}))["skill"]
        (folder / "invoices/SKILL.md").write_text(manifest("invoices", "license: MIT\n"))
        after = (await client.request("skills/get", {"uri": INVOICES}))["skill"]
        assert after["frontmatter"]["license"] == "MIT"
        assert after["resources"] != before["resources"]
        await until(lambda: heard)
        assert heard == [("notifications/resources/updated", {"uri": INVOICES})]

        (folder / "tea").mkdir()
        (folder / "tea/SKILL.md").write_text(manifest("tea"))
        assert len((await client.request("skills/list"))["skills"]) == 3
        await until(lambda: len(heard) > 1)
        assert heard[1][0] == "notifications/resources/list_changed"

        (folder / "tea/SKILL.md").write_text("---\nname: coffee\n")
        for _ in range(3):
            assert len((await client.request("skills/list"))["skills"]) == 3
        assert caplog.text.count("skills were not read") == 1  # although it was three times
        (folder / "invoices/assets/logo 1.png").unlink()
        with pytest.raises(ProtocolError, match="Resource not found"):
            await client.request("resources/read", {"uri": "skill://invoices/assets/logo%201.png"})


@pytest.mark.parametrize("revision", [HANDSHAKE, MODERN])
@pytest.mark.parametrize("scopes", [["bills"], []])
async def test_skills_may_need_scopes(folder: Path, scopes: list[str], revision: str) -> None:
    """SKILL-32: those of others do not exist for a caller."""
    app = app_with(folder / "ops", prefix="ops", scopes=["bills"])

    @app.skill(scopes=["bills"])
    def invoices() -> str:
        """Use it."""
        return ""

    @app.tool
    def unrelated() -> None: ...

    app.remove_tool("unrelated")  # whatever is left, lists depend on the caller
    client = AsyncTestClient(app, principal="ann", scopes=scopes, revision=revision)
    async with client:
        for method, member in (("skills/list", "skills"), ("resources/list", "resources")):
            result = await client.request(method)
            assert len(result[member]) == (2 if scopes else 0)
            assert revision == HANDSHAKE or result["cacheScope"] == "private"
        for uri in (INVOICES, ON_CALL):
            for method, params in (
                ("skills/get", {"uri": uri}),
                ("resources/read", {"uri": uri}),
                ("resources/directory/read", {"uri": uri.removesuffix("/SKILL.md")}),
            ):
                if scopes:
                    await client.request(method, params)
                else:
                    with pytest.raises(ProtocolError, match=r"Unknown|not found"):
                        await client.request(method, params)


@pytest.mark.parametrize("revision", [HANDSHAKE, MODERN])
@pytest.mark.parametrize("scopes", [["bills"], []])
async def test_changes_of_skills_need_their_scopes(
    folder: Path, scopes: list[str], revision: str
) -> None:
    """SKILL-29, SKILL-32: nor is there anything to subscribe to."""
    app = app_with(folder, scopes=["bills"])
    heard: list[Any] = []
    uris = [INVOICES, "skill://invoices/references", "skill://invoices"]
    hidden = ["skill://ops", "skill://nothing/SKILL.md", "skill://invoices/"]
    client = AsyncTestClient(app, principal="ann", scopes=scopes, revision=revision)
    async with (
        client,
        client.listen(lambda *each: heard.append(each), uris=uris + hidden) as agreed,
    ):
        assert agreed.get("resourceSubscriptions", []) == (uris if scopes else [])
        with pytest.raises(ProtocolError, match="not found") as caught:
            await client.subscribe("skill://nothing/SKILL.md")
        assert caught.value.code == (-32002 if revision == HANDSHAKE else -32602)
        if scopes:
            (folder / "invoices/references/limits.md").write_text("Up to 20 €.")
            await client.request("skills/list")
            await until(lambda: heard)
            assert {params["uri"] for _, params in heard} == {
                "skill://invoices/references/limits.md"
            }


def test_a_skill_that_cannot_be_published_is_refused_where_it_is_added(folder: Path) -> None:
    app = app_with(folder, prefix="acme")
    app.skills(folder)
    for same in ({}, {"prefix": "invoices"}):
        with pytest.raises(RegistrationError, match=r"test_served\.py:\d+: .*overlaps"):
            app.skills(folder, **same)

    def inner() -> str:
        """Use it."""
        return ""

    for prefix, name in (("acme/ops", "on-call"), ("", "acme"), ("ops/on-call/a", "inner")):
        with pytest.raises(RegistrationError, match=r"test_served\.py:\d+: .*overlaps"):
            app.skill(prefix=prefix, name=name)(inner)
    app.skill(prefix="ops", name="on-call-2")(inner)
    (folder / "invoices/SKILL.md").write_text("---\nname: invoices\ndescription: yes\n---\n")
    with pytest.raises(RegistrationError, match=r"test_served\.py:\d+: .*SKILL\.md:3: "):
        app.skills(folder, prefix="other")
    with pytest.raises(RegistrationError, match=r"test_served\.py:\d+: .*does not exist"):
        app.skills(folder / "nothing")


# --- odd requests ---------------------------------------------------------------------------------

LIMITS = "skill://invoices/references/limits.md"

ODD = [
    *(
        f"skill://invoices/{each}"
        for each in (
            *("%53KILL.md", "./SKILL.md", "/SKILL.md", "SKILL.md/", "SKILL.md?", "SKILL.md#a"),
            *("skill.md", "references/../SKILL.md", "references%2Flimits.md", "../secret"),
            *("assets/logo 1.png", "assets/logo+1.png", "%2e%2e/secret", "SKILL.md%00"),
            "a/" * 1000,
        )
    ),
    *(
        f"skill://{each}"
        for each in (
            *("Invoices/SKILL.md", "user@invoices/SKILL.md", "invoices:80/SKILL.md"),
            *("/invoices/SKILL.md", "invoices\\SKILL.md", "/etc/passwd", "ops/", "op", ""),
            *("ops/on-call/.", "ops/on-call/..", "ops/%6fn-call"),
        )
    ),
    *("SKILL://invoices/SKILL.md", "skill:invoices/SKILL.md"),
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
