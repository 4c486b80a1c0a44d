"""Skills that functions return (EXTENSIONS §2)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpkit import Context, MCPKit
from mcpkit.errors import InvalidParams, ProtocolError, RegistrationError
from mcpkit.extensions.skills.extension import Skills
from mcpkit.roots import Roots
from mcpkit.testing import REVISIONS, AsyncTestClient
from tests.extensions.skills.test_served import (
    HANDSHAKE,
    MODERN,
    SKILLS,
    bytes_at,
    entry_of,
    everything,
)
from tests.kit import until

BREWING = "skill://brewing-tea/SKILL.md"


def brewing_tea() -> str:
    """Brew tea. Use it when a guest wants a cup."""
    return "1. Heat the water.\n"


@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_function_returns_the_text_of_a_skill(revision: str) -> None:
    """SKILL-6, SKILL-12, SKILL-17…21"""
    app: MCPKit[Any] = MCPKit("skilled")
    assert app.skill(brewing_tea) is brewing_tea
    async with AsyncTestClient(app, revision=revision) as client:
        assert client.extension(SKILLS) == {"directoryRead": True}
        [skill] = await everything(client, "skills/list", "skills")
        assert (await client.request("skills/get", {"uri": BREWING}))["skill"] == skill
        assert skill["frontmatter"] == {
            "name": "brewing-tea",
            "description": "Brew tea. Use it when a guest wants a cup.",
        }
        data = await bytes_at(client, BREWING)
        assert skill["resources"] == [entry_of(BREWING, data)]
        assert data.decode() == (
            '---\nname: "brewing-tea"\ndescription: "Brew tea. Use it when a guest wants a cup."\n'
            "---\n\n1. Heat the water.\n"
        )
        [resource] = await client.list_resources()
        assert (resource.uri, resource.size) == (BREWING, len(data))


async def test_a_function_returns_files_and_has_options() -> None:
    """SKILL-10, SKILL-26"""
    app: MCPKit[Any] = MCPKit("skilled")

    @app.skill(
        name="tea",
        description='Say "tea".\nUse it: always.',
        license="MIT",
        compatibility="a kettle",
        metadata={"version": "1", "yes": ["no", 1]},
        allowed_tools=["heat", "pour"],
        prefix="acme",
    )
    async def anything() -> dict[str, str | bytes]:
        return {"SKILL.md": "Brew.", "references/a b.md": "é", "logo.png": b"\x89PNG"}

    async with AsyncTestClient(app) as client:
        [skill] = await everything(client, "skills/list", "skills")
        assert skill["frontmatter"] == {
            "name": "tea",
            "description": 'Say "tea".\nUse it: always.',
            "license": "MIT",
            "compatibility": "a kettle",
            "metadata": {"version": "1", "yes": ["no", 1]},
            "allowed-tools": "heat pour",
        }
        for each in skill["resources"]:
            assert each == entry_of(each["uri"], await bytes_at(client, each["uri"]))
        uri = "skill://acme/tea"
        found = await everything(client, "resources/directory/read", "resources", uri=uri)
        assert [each["name"] for each in found] == ["SKILL.md", "logo.png", "references"]


@pytest.mark.parametrize("revision", [HANDSHAKE, MODERN])
async def test_a_function_decides_for_each_caller(revision: str) -> None:
    """SKILL-32: one that returns None has no skill for them, and it may change its mind."""
    app: MCPKit[Any] = MCPKit("skilled", cache_scope="public")
    texts = {"ann": "For Ann."}

    @app.skill
    def mine(ctx: Context) -> str | None:
        """Use it."""
        return texts.get(ctx.principal.id) if ctx.principal else None

    uri = "skill://mine/SKILL.md"
    for principal in ("bob", "ann", "bob"):
        async with AsyncTestClient(app, principal=principal, revision=revision) as client:
            skills = await everything(client, "skills/list", "skills")
            assert bool(skills) == (principal == "ann")
            for method in ("skills/list", "resources/list"):
                result = await client.request(method)
                assert revision == HANDSHAKE or result["cacheScope"] == "private"
            if skills:
                assert (await bytes_at(client, uri)).endswith(b"For Ann.")
                texts["ann"] = "Something else."
                assert (await bytes_at(client, uri)).endswith(b"Something else.")
                assert skills != await everything(client, "skills/list", "skills")
            else:
                for method in ("skills/get", "resources/read"):
                    with pytest.raises(ProtocolError, match=r"Unknown skill|not found"):
                        await client.request(method, {"uri": uri})


async def test_a_skill_may_be_added_while_the_app_is_served() -> None:
    """SKILL-29"""
    app: MCPKit[Any] = MCPKit("skilled")
    app.skill(brewing_tea)
    heard: list[str] = []
    async with AsyncTestClient(
        app, revision=HANDSHAKE, on_notification=lambda method, _: heard.append(method)
    ) as client:
        app.skill(name="other")(brewing_tea)
        await until(lambda: heard)
        assert heard == ["notifications/resources/list_changed"]
        assert [each.name for each in await client.skills()] == ["brewing-tea", "other"]


async def test_objects_are_skills_too() -> None:
    app: MCPKit[Any] = MCPKit("skilled")

    class Teas:
        """Brew tea. Use it when a guest wants a cup."""

        def __call__(self) -> str:
            return "Called."

        def green_tea(self) -> str:
            """Use it for green tea."""
            return "A method."

    app.skill(name="teas", description="Use it for any tea.")(Teas())
    app.skill(Teas().green_tea)
    async with AsyncTestClient(app) as client:
        assert (await client.read_skill("teas")).endswith(b"Called.")
        assert (await client.read_skill("green-tea")).endswith(b"A method.")
    with pytest.raises(RegistrationError, match="is a class"):
        app.skill(Teas)


VALUES = st.text() | st.integers() | st.booleans() | st.none() | st.floats(0, 9)


@given(st.text(min_size=1), st.dictionaries(st.text(max_size=9), VALUES, max_size=3))
def test_the_frontmatter_has_the_options_as_they_are(
    description: str, metadata: dict[str, Any]
) -> None:
    """SKILL-12, SKILL-13"""
    app: MCPKit[Any] = MCPKit("skilled")
    try:
        app.skill(description=description, metadata=metadata)(brewing_tea)
    except RegistrationError:
        return
    [extension] = app.server.extensions
    assert isinstance(extension, Skills)
    [skill] = extension.sources[0].folder.skills
    assert skill.frontmatter["description"] == description
    assert skill.frontmatter.get("metadata", {}) == metadata


async def test_reading_a_file_calls_only_the_function_that_may_have_it() -> None:
    app: MCPKit[Any] = MCPKit("skilled")
    app.skill(brewing_tea)

    @app.skill(description="Use it.")
    def other() -> str:
        raise AssertionError("called")

    async with AsyncTestClient(app) as client:
        await bytes_at(client, BREWING)
        with pytest.raises(InvalidParams, match="not found"):
            await client.read_resource("skill://brewing-tea-2/SKILL.md")


RESULTS: dict[str, tuple[Any, str]] = {
    "a frontmatter": ("---\nname: x\n---\n", "return the text without a frontmatter"),
    "a number": (1, "return text, or a dict of files"),
    "no manifest": ({"a.md": ""}, "return text, or a dict of files"),
    "a binary manifest": ({"SKILL.md": b""}, "return text, or a dict of files"),
    "a hidden file": ({"SKILL.md": "", ".env": ""}, r"\.env: is not the path of a file"),
    "a way out": ({"SKILL.md": "", "../a": ""}, r"\.\./a: is not the path of a file"),
    "an empty name": ({"SKILL.md": "", "a//b": ""}, "a//b: is not the path of a file"),
    "a directory": ({"SKILL.md": "", "a/": ""}, "a/: is not the path of a file"),
    "both kinds": ({"SKILL.md": "", "a": "", "a/b": ""}, "is both a file and a directory"),
    "another case": ({"SKILL.md": "", "a": "", "A": ""}, "differs from 'A' only by case"),
    "a backslash": ({"SKILL.md": "", "a\\b": ""}, "its name has a backslash"),
    "a bad skill inside": ({"SKILL.md": "", "a/SKILL.md": ""}, "must begin with a line"),
    "too much": ({"SKILL.md": "", "a": bytes(16 * 1024 * 1024)}, "at most 16777216"),
    "no content": ({"SKILL.md": "", "a": 1}, "is neither text nor bytes"),
    "what can change": ({"SKILL.md": "", "a": bytearray(b"a")}, "is neither text nor bytes"),
    "not Unicode": ("\ud800", "UnicodeEncodeError"),
    "a name that is none": ({"SKILL.md": "", 1: ""}, "AttributeError"),
    "an error": (ZeroDivisionError(), "ZeroDivisionError"),
}


@pytest.mark.parametrize(("result", "reason"), RESULTS.values(), ids=RESULTS)
async def test_a_skill_that_cannot_be_published_is_left_out(
    result: Any, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    """SKILL-16, SKILL-22: the log says why, and the others are there."""
    app: MCPKit[Any] = MCPKit("skilled")
    app.skill(brewing_tea)

    @app.skill(description="Use it.")
    def broken() -> Any:
        if isinstance(result, Exception):
            raise result
        return result

    async with AsyncTestClient(app) as client:
        assert [each.uri for each in await client.skills()] == [BREWING]
    [record] = caplog.records
    message = f"{record.getMessage()} {record.exc_info}"
    assert re.search(reason, message)
    assert "broken" in message


def without_description() -> str:
    return ""


def with_argument(tea: str) -> str:
    """Brew."""
    return tea


def asking(roots: Roots) -> str:
    """Brew."""
    return str(roots)


REFUSED: list[tuple[Callable[..., Any], dict[str, Any], str]] = [
    (without_description, {}, "the field 'description' is missing"),
    (with_argument, {}, "nothing fills tea"),
    (asking, {}, "nothing fills roots"),
    (brewing_tea, {"name": "Tea"}, "'name' must be 1 to 64 lower-case letters"),
    (lambda: "", {"description": "x"}, "'name' must be"),
    (brewing_tea, {"description": "\u2028"}, "has the character"),
    (brewing_tea, {"metadata": {"io.modelcontextprotocol/x": "1"}}, "must be a mapping"),
    (brewing_tea, {"compatibility": "x" * 501}, "'compatibility' must be"),
    (brewing_tea, {"prefix": "Acme"}, "the prefix"),
    (brewing_tea, {"licence": "MIT"}, r"has no option 'licence'; .*license"),
]


@pytest.mark.parametrize(("fn", "options", "reason"), REFUSED, ids=[each[2] for each in REFUSED])
def test_a_function_that_cannot_be_a_skill_is_refused(
    fn: Callable[..., Any], options: dict[str, Any], reason: str
) -> None:
    """SKILL-9, SKILL-10, SKILL-14"""
    app: MCPKit[Any] = MCPKit("skilled")
    with pytest.raises(TypeError, match=reason) as caught:  # RegistrationError is one
        app.skill(fn, **options) if not options else app.skill(**options)(fn)
    assert "test_functions.py:" in str(caught.value)
    assert not app.server.extensions
