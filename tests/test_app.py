"""The roof: decorators, including, adding and removing."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import mcpkit
from mcpkit import Context, MCPKit
from mcpkit._server.registry import Registry
from mcpkit.errors import RegistrationError
from mcpkit.testing import TestClient
from mcpkit.types import TextResourceContents
from tests.authoring import LATEST, page_of
from tests.authoring import run as run_plan


@pytest.fixture
def app() -> MCPKit:
    return MCPKit("test")


def registry(app: MCPKit[Any]) -> Registry:
    return app.server.registry


def called(app: MCPKit[Any], tool: str) -> Any:
    """What the function behind a tool returns."""
    return run_plan(registry(app).tools[tool].plan.fn)


def plain() -> str:
    """Plain."""
    return "plain"


async def coroutine() -> str:
    return "coroutine"


def named(name: str) -> str:
    return name


KINDS = ["tool", "resource", "prompt"]


class TestDecorators:
    """Each works bare and called, and returns the function unchanged."""

    @pytest.mark.parametrize("fn", [plain, coroutine])
    @pytest.mark.parametrize("kind", KINDS)
    def test_bare_or_called(self, app: MCPKit, kind: str, fn: Callable[..., Any]) -> None:
        assert getattr(app, kind)(fn) is fn
        assert getattr(MCPKit("other"), kind)(title="T")(fn) is fn

    def test_names_and_uris(self, app: MCPKit) -> None:
        for kind in ("tool", "prompt"):
            getattr(app, kind)(plain)
            getattr(app, kind)(name="other")(plain)
        app.resource(plain)
        app.resource("a://b")(plain)
        app.resource("a://{name}")(named)
        found = registry(app)
        assert list(found.tools) == list(found.prompts) == ["plain", "other"]
        assert list(found.resources) == ["resource://plain", "a://b"]
        assert list(found.templates) == ["a://{name}"]

    def test_a_method_in_its_class_body(self, app: MCPKit) -> None:
        class Holder:
            @app.tool
            @staticmethod
            async def fn() -> str:
                return "static"

            with pytest.raises(RegistrationError, match=r"bound\(\): is a method"):

                @app.tool
                def bound(self) -> str:
                    return ""

        assert called(app, "fn") == "static"
        assert Holder is not None


def text_at(client: TestClient, uri: str) -> str:
    (found,) = client.read_resource(uri)
    assert isinstance(found, TextResourceContents)
    return found.text


def greeting(word: str) -> MCPKit:
    other = MCPKit("greeting")
    other.include(Greeter(word))
    return other


class Greeter:
    """Everything that can be marked in a class."""

    def __init__(self, word: str) -> None:
        self.word = word

    @mcpkit.tool
    def method(self) -> str:
        return self.word

    @mcpkit.tool
    async def coroutine(self) -> str:
        return self.word

    @mcpkit.tool
    @classmethod
    def of_class(cls) -> str:
        return cls.__name__

    @mcpkit.tool(title="S")
    @staticmethod
    def static() -> str:
        return "static"

    @mcpkit.prompt
    def prompted(self) -> str:
        return self.word

    @mcpkit.resource("a://b")
    def read(self) -> str:
        return self.word

    @mcpkit.resource("a://{name}")
    def read_one(self, name: str) -> str:
        return self.word + name

    def unmarked(self) -> str:
        return self.word


class Statics:
    @mcpkit.tool
    @staticmethod
    def static() -> str:
        return "static"

    @classmethod
    @mcpkit.tool
    def of_class(cls) -> str:
        return cls.__name__


class Louder(Greeter):
    def method(self) -> str:
        return super().method().upper()

    @mcpkit.tool
    def added(self) -> str:
        return self.word


def module_of(*fns: Any, **more: Any) -> ModuleType:
    module = ModuleType("some")
    vars(module).update({fn.__name__: fn for fn in fns}, **more)
    return module


class TestModuleLevelDecorators:
    @pytest.mark.parametrize("options", [None, {"title": "T"}], ids=["bare", "called"])
    @pytest.mark.parametrize("kind", KINDS)
    def test_mark_a_function_for_an_app(self, app: MCPKit, kind: str, options: Any) -> None:
        def fn() -> str:
            return ""

        decorate = getattr(mcpkit, kind)
        assert (decorate(fn) if options is None else decorate(**options)(fn)) is fn
        app.include(module_of(fn))
        assert registry(app).advertised == {f"{kind}s"}


class TestInclude:
    def test_an_object(self, app: MCPKit) -> None:
        app.include(Greeter("hi"))
        assert {name: called(app, name) for name in registry(app).tools} == {
            "method": "hi",
            "coroutine": "hi",
            "of_class": "Greeter",
            "static": "static",
        }
        assert list(registry(app).prompts) == ["prompted"]
        assert list(registry(app).resources) == ["a://b"]
        assert list(registry(app).templates) == ["a://{name}"]
        heir = MCPKit("heir")
        heir.include(Louder("hi"))
        assert (called(heir, "coroutine"), called(heir, "added")) == ("hi", "hi")

    def test_a_class(self, app: MCPKit) -> None:
        app.include(Statics)
        assert called(app, "static") == "static"
        assert called(app, "of_class") == "Statics"
        with pytest.raises(RegistrationError, match=r"include an instance: Greeter\(\.\.\.\)"):
            app.include(Greeter)

    def test_prefixes(self, app: MCPKit) -> None:
        app.include(Greeter("hi"), prefix="en")
        app.include(Greeter("hei"), prefix="no")
        assert registry(app).tools["en_static"].title == "S"
        assert list(registry(app).prompts) == ["en_prompted", "no_prompted"]
        assert list(registry(app).resources) == ["a://en/b", "a://no/b"]
        assert list(registry(app).templates) == ["a://en/{name}", "a://no/{name}"]
        assert called(app, "no_method") == "hei"

    def test_other_apps(self, app: MCPKit) -> None:
        app.include(greeting("hei"))
        with pytest.raises(RegistrationError, match="a tool 'method' is registered already"):
            app.include(greeting("hi"))
        app.include(greeting("hi"), prefix="en")
        assert called(app, "method") == "hei"
        assert called(app, "en_method") == "hi"
        with TestClient(app) as client:
            assert text_at(client, "a://ola") == "heiola"
            assert text_at(client, "a://en/b") == "hi"
            assert text_at(client, "a://en/ola") == "hiola"
            assert client.get_prompt("prompted").messages[0].text == "hei"

    @pytest.mark.parametrize("prefix", [None, "x"])
    def test_entries_added_and_removed_there_change_here(
        self, app: MCPKit, prefix: str | None
    ) -> None:
        other = greeting("hi")
        app.include(other, prefix=prefix)
        front, path = ("", "") if prefix is None else ("x_", "x/")

        @other.tool
        def later() -> str:
            return "later"

        assert called(app, f"{front}later") == "later"
        other.remove_tool("method")
        other.remove_resource("a://{name}")
        assert f"{front}method" not in registry(app).tools
        assert list(registry(app).templates) == []
        assert list(registry(app).resources) == [f"a://{path}b"]
        app.remove_tool(f"{front}static")
        other.remove_tool("static")  # is gone here already
        assert f"{front}static" not in registry(app).tools

    def test_a_name_that_is_taken_here_is_refused_there(self, app: MCPKit) -> None:
        other, first = MCPKit("other"), MCPKit("first")
        first.include(other)
        app.include(other)

        @app.tool(name="search")
        def ours() -> str:
            return "ours"

        with pytest.raises(RegistrationError, match="'search' is registered already"):
            other.add_tool(lambda: "theirs", name="search")
        assert not registry(other).tools
        assert not registry(first).tools
        assert called(app, "search") == "ours"
        app.remove_tool("search")
        other.add_tool(lambda: "theirs", name="search")
        assert called(app, "search") == called(first, "search") == "theirs"

    def test_the_files_of_another_app(self, app: MCPKit, tmp_path: Path) -> None:
        (tmp_path / "a.txt").write_text("hello")
        other = MCPKit("other")
        app.include(other)
        other.files(tmp_path, "files://docs")
        with TestClient(app) as client:
            assert [each.uri for each in client.list_resources()] == ["files://docs/a.txt"]
            assert text_at(client, "files://docs/a.txt") == "hello"

    def test_errors_and_converters_are_those_of_the_other_app(self, app: MCPKit) -> None:
        other = MCPKit("other", expose_errors=ValueError)
        other.converter(set, lambda value: "converted")

        @other.tool
        def fail() -> str:
            raise ValueError("shown")

        @other.tool
        def convert() -> set[int]:
            return {1}

        app.include(other)
        with TestClient(app) as client:
            assert client.call_tool("fail").text == "shown"
            assert client.call_tool("convert").text == "converted"

    def test_what_would_be_lost_of_an_app_is_refused(self, app: MCPKit) -> None:
        routed, checked = MCPKit("a"), MCPKit("b")
        routed.routes.append(object())
        checked.ready(plain)
        said = {routed: "routes", checked: "checks of readiness"}
        for other, what in said.items():
            with pytest.raises(RegistrationError, match=f"it has {what}; give that to the app"):
                app.include(other)
        with pytest.raises(RegistrationError, match="an app has its own"):
            app.include(greeting("hi"), expose_errors=ValueError)

    def test_itself_and_nothing(self, app: MCPKit) -> None:
        other = MCPKit("other")
        other.include(app)
        for each in (app, other):
            with pytest.raises(RegistrationError, match="cannot include itself"):
                app.include(each)
        for source in (object(), ModuleType("empty"), int):
            with pytest.raises(RegistrationError, match=r"nothing in .* is marked; decorate func"):
                app.include(source)


class TestAddingAndRemoving:
    def test_with_options_and_once(self, app: MCPKit) -> None:
        app.add_resource(plain, "a://b", mime_type="text/html")
        app.add_prompt(plain, title="T")
        assert registry(app).resources["a://b"].mime_type == "text/html"
        assert registry(app).prompts["plain"].title == "T"
        app.tool(plain)
        with pytest.raises(RegistrationError, match="a tool 'plain' is registered already"):
            app.tool(plain)

    def test_what_was_added_is_removed(self, app: MCPKit) -> None:
        app.tool(plain)
        app.prompt(plain)
        app.resource("a://b")(plain)
        app.resource("a://{name}")(named)
        for remove, key in (
            (app.remove_tool, "plain"),
            (app.remove_prompt, "plain"),
            (app.remove_resource, "a://b"),
            (app.remove_resource, "a://{name}"),
        ):
            remove(key)
            with pytest.raises(KeyError, match="nothing is registered as"):
                remove(key)
        found = registry(app)
        assert not [*found.tools, *found.prompts, *found.resources, *found.templates]


def test_files_and_directories_are_resources(app: MCPKit, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    app.files(tmp_path, "notes://all")
    app.files(tmp_path / "a.txt", mime_type="text/x-own")
    assert list(registry(app).templates) == ["notes://all/{+path}"]
    assert b"notes://all/a.txt" in page_of(registry(app), "resources").members(LATEST)
    assert registry(app).resources["files://a.txt"].mime_type == "text/x-own"


class TestIdentity:
    def test_its_repr_counts_its_entries(self) -> None:
        app = MCPKit("test", version="1.2", title="T", instructions="Do.")
        app.tool(plain)
        app.resource("a://{name}")(named)
        assert repr(app) == "<MCPKit 'test': 1 tools, 1 resources, 0 prompts>"
        assert (app.server.info.version, app.server.info.title) == ("1.2", "T")
        assert app.server.instructions == "Do."

    def test_a_page_has_an_entry_at_least(self) -> None:
        for size in (0, -1):
            with pytest.raises(ValueError, match="page_size must be at least 1"):
                MCPKit("test", page_size=size)
        MCPKit("test", page_size=1)


def test_clients_of_one_app_have_lifespans_of_their_own() -> None:
    left: list[str] = []

    @asynccontextmanager
    async def lifespan(app: MCPKit[object]) -> AsyncGenerator[object, None]:
        yield object()
        left.append(app.name)

    app = MCPKit("twice", lifespan=lifespan)

    @app.tool
    async def state(ctx: Context[object]) -> str:
        return str(id(ctx.state) if ctx.state is not None else "gone")

    with TestClient(app) as first:
        before = first.call_tool("state").text
        with TestClient(app) as second:
            assert second.call_tool("state").text != before
        assert left == ["twice"]
        assert first.call_tool("state").text == before
    assert left == ["twice", "twice"]
    assert app.server.states == {None: None}
