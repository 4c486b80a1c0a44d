"""Deprecated names: they work for two minor releases, with a warning that says what to write.

The table is `mcpkit._utils.names.RENAMED`; docs/versioning.md has the promise.
"""

from __future__ import annotations

import importlib
import inspect
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any, Final

import pytest

import mcpkit
from mcpkit import MCPKit, Principal, RegistrationError, ResourceResult, TaskSupport
from mcpkit._utils.names import RENAMED, MCPKitDeprecationWarning, Renamed
from mcpkit.context import Context, SyncContext
from mcpkit.prompts import PromptOptions
from mcpkit.resources import ResourceOptions
from mcpkit.testing import AppOptions, TestClient
from mcpkit.tools import ToolOptions
from tests.authoring import context_with
from tests.docs.pages import DOCS, ROOT

ROWS: Final = list(RENAMED.values())


@contextmanager
def warned(*texts: str) -> Iterator[None]:
    """Expect warnings that begin with these texts, each at a line of this file."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        yield
    assert [each.filename for each in found] == [__file__] * len(texts)
    assert all(each.category is MCPKitDeprecationWarning for each in found)
    for each, text in zip(found, texts, strict=True):
        assert str(each.message).startswith(text), each.message


def app(**options: Any) -> Any:
    return MCPKit("old", **options)


def greet() -> str:
    """Greet."""
    return "hello"


# --- the table ------------------------------------------------------------------------------------


def taken_by(on: str) -> set[str]:
    """The options, attributes or names that an owner has."""
    named: dict[str, Any] = {
        "MCPKit(…)": MCPKit,
        "include(…)": MCPKit.include,
        "ResourceResult(…)": ResourceResult,
    }
    options: dict[str, Any] = {
        "tool(…)": ToolOptions,
        "resource(…)": ResourceOptions,
        "prompt(…)": PromptOptions,
        "TestClient(…)": AppOptions,
    }
    if on in named:
        return {*inspect.signature(named[on]).parameters}
    if on in options:
        return {*options[on].__optional_keys__}
    return {*dir({"app": MCPKit, "ctx": Context}.get(on) or importlib.import_module(on))}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.on} {row.old}")
def test_an_old_name_is_gone_for_the_present_one_until_the_release_announced(row: Renamed) -> None:
    option, _, member = row.new.partition(".")
    assert row.old not in taken_by(row.on)
    assert option in taken_by(row.on)
    assert not member or member in inspect.signature(TaskSupport).parameters
    major, minor, *_ = map(int, version("mcpkit").split("."))
    assert (major, minor) < tuple(map(int, row.removed_in.split("."))), "remove it"


def test_two_minor_releases_have_the_old_name() -> None:
    row = Renamed("MCPKit(…)", "errors", "expose_errors", "0.9")
    assert row.removed_in == "0.11"
    assert row.advice == (
        "MCPKit(errors=…) is now MCPKit(expose_errors=…); "
        "the old name will be removed in mcpkit 0.11"
    )


def test_the_changelog_lists_every_name() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `(.+)` \| `(.+)` \|$", text, re.MULTILINE)
    assert listed == [row.spellings for row in ROWS]


def test_the_page_says_what_is_public_and_which_pythons_there_are() -> None:
    text = (DOCS / "versioning.md").read_text(encoding="utf-8")
    pages = "".join(each.read_text(encoding="utf-8") for each in DOCS.glob("reference/*.md"))
    shown = set(re.findall(r"^::: ([\w.]+)\.\w+$", pages, re.MULTILINE))
    rows = "".join(re.findall(r"^\| `mcpkit.*$", text, re.MULTILINE))
    assert set(re.findall(r"`(mcpkit[\w.]*)`", rows)) == shown
    setup = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    known = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', setup)
    assert re.findall(r"3\.\d+", text) == known
    assert f'requires-python = ">={known[0]}"' in setup


# --- packages -------------------------------------------------------------------------------------


def test_names_of_packages() -> None:
    with warned(
        "mcpkit.Header is now mcpkit.MirroredHeader; the old name will be removed in mcpkit 0.3"
    ):
        assert mcpkit.Header is mcpkit.MirroredHeader
    with pytest.warns(MCPKitDeprecationWarning, match="mcpkit.MirroredHeader") as found:
        from mcpkit import Header
    assert {each.filename for each in found} == {__file__}
    assert Header is mcpkit.MirroredHeader
    with warned("mcpkit.auth.Visit is now mcpkit.auth.LoginAttempt"):
        assert mcpkit.auth.Visit is mcpkit.auth.LoginAttempt
    assert not {"Header", "AskError"} & {*mcpkit.__all__, *dir(mcpkit)}


# --- options --------------------------------------------------------------------------------------


def test_options_of_an_app() -> None:
    with warned("MCPKit(ttl=…) is now", "MCPKit(errors=…) is now", "MCPKit(scopes=…) is now"):
        settings = app(ttl=7, errors=ValueError, scopes={"a": ["b"]}).server.settings
    present = app(cache_ttl=7, expose_errors=ValueError, scope_hierarchy={"a": ["b"]})
    kept = {"secrets": settings.secrets, "scope_hierarchy": settings.scope_hierarchy}
    assert settings == present.server.settings._replace(**kept)
    assert settings.scope_hierarchy.held(frozenset({"a"})) == {"a", "b"}


@pytest.mark.parametrize("kind", ["tool", "resource", "prompt"])
def test_options_of_functions(kind: str) -> None:
    tables = {"tool": "tools", "resource": "resources", "prompt": "prompts"}
    uri = ["a://b"] * (kind == "resource")

    class Marked:
        with warned(f"{kind}(errors=…) is now {kind}(expose_errors=…)"):
            hello = getattr(mcpkit, kind)(*uri, name="hello", errors=ValueError)(lambda: "hello")
        hello = staticmethod(hello)

    made = [app(), app(), app()]
    with warned(*[f"{kind}(errors=…) is now {kind}(expose_errors=…)"] * 2):
        getattr(made[0], kind)(*uri, errors=ValueError)(greet)
        getattr(made[1], f"add_{kind}")(greet, *uri, errors=ValueError)
    with warned():  # the mark is where it has to be changed
        made[2].include(Marked)
    for each in made:
        [entry] = getattr(each.server.registry, tables[kind]).values()
        assert entry.expose_errors == (ValueError,)


def test_options_of_included_functions() -> None:
    class Tools:
        greet = staticmethod(mcpkit.tool(lambda: "hello", name="greet"))  # type: ignore[call-overload]

    made = app()
    with warned("include(errors=…) is now include(expose_errors=…)"):
        made.include(Tools, errors=ValueError)
    assert made.server.registry.tools["greet"].expose_errors == (ValueError,)


def test_the_time_to_live_of_a_resource_and_of_a_result() -> None:
    made = app()
    with warned("resource(ttl=…) is now resource(cache_ttl=…)", "ResourceResult(ttl=…) is now"):
        made.add_resource(greet, "a://b", ttl=5)
        result = ResourceResult([], ttl=7, cache_scope="public")  # type: ignore[call-arg]
    assert made.server.registry.resources["a://b"].cache_ttl == 5
    assert result == ResourceResult([], cache_ttl=7, cache_scope="public")


def test_options_of_tasks_are_members_of_one() -> None:
    made = app()
    with warned(
        "tool(resumable=…) is now tool(task=TaskSupport(resumable=…))",
        "tool(task_ttl=…) is now tool(task=TaskSupport(ttl=…))",
    ):
        made.tool(task="required", resumable=True, task_ttl=60)(greet)
    assert made.server.registry.tools["greet"].task == TaskSupport(
        "required", resumable=True, ttl=60
    )


def test_the_principal_of_a_test_client() -> None:
    made: MCPKit[Any] = app()

    @made.tool
    def whoami(ctx: Context) -> str:
        return str(ctx.principal)

    with (
        warned("TestClient(user=…) is now TestClient(principal=…)"),
        TestClient(made, user=Principal("ada")) as client,  # type: ignore[call-arg]
    ):
        assert client.call_tool("whoami").text == "ada"


@pytest.mark.parametrize(
    ("call", "old", "new"),
    [
        (lambda: app(ttl=1, cache_ttl=2), "ttl", "cache_ttl"),
        (lambda: app(errors="all", expose_errors="all"), "errors", "expose_errors"),
        (lambda: app(scopes={}, scope_hierarchy={}), "scopes", "scope_hierarchy"),
        (
            lambda: app().tool(errors="all", expose_errors=())(greet),
            "errors",
            "expose_errors",
        ),
        (lambda: mcpkit.resource("a://b", ttl=1, cache_ttl=1)(greet), "ttl", "cache_ttl"),  # type: ignore[call-overload]
        (lambda: ResourceResult([], ttl=1, cache_ttl=1), "ttl", "cache_ttl"),  # type: ignore[call-arg]
        (lambda: TestClient(app(), user="a", principal="b"), "user", "principal"),  # type: ignore[call-arg]
    ],
)
def test_both_names_at_once_are_an_error(call: Callable[[], object], old: str, new: str) -> None:
    said = rf"^test_deprecated_names\.py:\d+: {old}= is the old name of {new}=; pass only {new}=$"
    with pytest.raises(TypeError, match=said):
        call()


def test_a_task_support_has_its_members_inside() -> None:
    said = r"greet\(\): write task=TaskSupport\(…\), with resumable inside"
    with (
        pytest.warns(MCPKitDeprecationWarning),
        pytest.raises(RegistrationError, match=said),
    ):
        app().tool(task=TaskSupport(), resumable=True)(greet)
    with (
        pytest.warns(MCPKitDeprecationWarning),
        pytest.raises(RegistrationError, match='are for tasks; write "optional" or "required"'),
    ):
        app().tool(resumable=True)(greet)


# --- attributes -----------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [context_with, lambda: SyncContext(context_with())])
def test_attributes_of_a_context(make: Callable[[], Any]) -> None:
    ctx = make()
    with warned("ctx.changed is now ctx.notify_resource_updated"):
        assert ctx.changed == ctx.notify_resource_updated
    levels = ("notice", "critical", "alert", "emergency")
    with warned(*[f'ctx.{each}(…) is now ctx.log("{each}", …)' for each in levels]):
        for each in levels:
            getattr(ctx, each)({"dish": "soup"}, logger="cook")
    sent = [params for _, params in ctx.backend.session.sent]
    assert [each["level"] for each in sent] == [*levels]
    assert sent[0] == {"level": "notice", "logger": "cook", "data": {"dish": "soup"}}


def test_attributes_of_an_app() -> None:
    made = app()
    with warned("app.changed is now app.notify_resource_updated"):
        assert made.changed == made.notify_resource_updated
