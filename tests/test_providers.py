"""Providers and included apps: their entries in other apps, their lifespans, their middleware."""

from __future__ import annotations

import asyncio
import gc
import random
import threading
import warnings
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

import anyio
import pytest

from mcpkit import (
    Client,
    Complete,
    Context,
    Html,
    MCPKit,
    ProtocolError,
    ResourceResult,
    SyncContext,
    TextResourceContents,
    described,
)
from mcpkit import tool as marked_tool
from mcpkit.context import CallNext
from mcpkit.errors import InvalidParams, RegistrationError
from mcpkit.providers import Provider, ProviderContext
from mcpkit.testing import REVISIONS, AsyncTestClient, TestClient
from tests.kit import PATIENCE, Recorder, turns, until

every_revision = pytest.mark.parametrize("revision", REVISIONS)


async def say(arguments: dict[str, Any], ctx: Context[Any]) -> str:
    return str(arguments.get("word", "nothing"))


async def read(uri: str, ctx: Context[Any]) -> Any:
    return ResourceResult([TextResourceContents(uri, f"at {uri}")])


def tool(name: str, call: Any = say, **options: Any) -> Any:
    return described.tool(call, name=name, input_schema={"type": "object"}, **options)


def resource(uri: str, **options: Any) -> Any:
    return described.resource(read, uri, **{"name": uri, **options})


class Notes(Provider):
    """A provider whose entries the test replaces."""

    base = "notes://"

    def __init__(self, *entries: Any) -> None:
        self.entries = entries
        self.context: ProviderContext
        self.interests = Recorder()

    def attach(self, context: ProviderContext) -> None:
        self.context = context
        context.replace(self.entries)

    def interest(self, context: ProviderContext, uri: str, is_wanted: bool) -> None:
        assert context is self.context
        self.interests(uri, is_wanted)


class Pulled(Provider):
    """A provider with resources that it does not hold."""

    base = "many://"

    def __init__(self, *names: str, **options: Any) -> None:
        self.names, self.options = sorted(names), options

    def attach(self, context: ProviderContext) -> None:
        context.replace([described.template(read, "many://{name}", name="many")])

    async def resources(
        self, after: str, limit: int | None, context: Context[Any]
    ) -> Sequence[Any]:
        uris = [f"many://{each}" for each in self.names]
        made = [resource(each, **self.options) for each in uris if each > after]
        return made[:limit]


def nested(source: object, **options: Any) -> MCPKit:
    """An app that includes an app, which includes the source, with a prefix each."""
    outer, inner = MCPKit("outer"), MCPKit("inner")
    inner.include(source, prefix="in", **options)
    outer.include(inner, prefix="out")
    return outer


async def names(client: Client) -> list[str]:
    return [each.name for each in await client.list_tools()]


async def text_at(client: Client, uri: str) -> str:
    [found] = await client.read_resource(uri)
    assert isinstance(found, TextResourceContents)
    return found.text


async def uris(client: Client) -> list[str]:
    return [each.uri for each in await client.list_resources()]


class TestEntries:
    @every_revision
    async def test_are_listed_and_used_at_any_depth(self, revision: str) -> None:
        notes = Notes(
            tool("add"),
            resource("notes://first"),
            described.template(read, "notes://all/{name}", name="all"),
            described.prompt(greet, name="greet"),
        )
        async with AsyncTestClient(nested(notes), revision=revision) as client:
            assert await names(client) == ["out_in_add"]
            assert (await client.call_tool("out_in_add", {"word": "hi"})).text == "hi"
            assert await uris(client) == ["notes://out/in/first"]
            [found] = await client.read_resource("notes://out/in/first")
            assert found.uri == "notes://out/in/first"
            assert await text_at(client, found.uri) == "at notes://first"
            assert await text_at(client, "notes://out/in/all/x") == "at notes://all/x"
            assert [each.name for each in await client.list_prompts()] == ["out_in_greet"]

    async def test_scopes_tags_and_transforms_are_of_all_entries(self) -> None:
        app = MCPKit("a")

        def upper(entry: Any) -> Any:
            if entry.name == "hidden":
                return None
            entry.name, entry.description = entry.name.upper(), f"{entry.name}!"
            return entry

        notes = Notes(tool("a"), tool("hidden"), tool("b", tags=["own"], scopes=["x"]))
        app.include(notes, prefix="n", scopes=["s"], tags=["notes"], transform=upper)
        tools = app.server.registry.tools
        assert [*tools] == ["n_A", "n_B"]
        assert tools["n_A"].description == "a!"
        assert (tools["n_A"].scopes, tools["n_B"].scopes) == (("s",), ("s", "x"))
        assert tools["n_B"].tags == {"own", "notes"}
        notes.context.replace([tool("hidden"), tool("c")])
        assert [*app.server.registry.tools] == ["n_C"]
        app.disable(tags=["notes"])
        assert not app.server.registry.tools

    def test_a_transform_returns_an_entry(self) -> None:
        with pytest.raises(RegistrationError, match="return the entry, or None"):
            MCPKit("a").include(Notes(tool("a")), transform=lambda entry: entry.name)

    def test_a_transform_changes_copies(self) -> None:
        inner, outer = MCPKit("inner"), MCPKit("outer")
        inner.add_tool(lambda: 1, name="one", meta={"a": 1}, annotations={"title": "One"})

        def change(entry: Any) -> Any:
            entry.meta["b"], entry.annotations.title = 2, "Two"
            return entry

        outer.include(inner, transform=change)
        [kept], [made] = (app.server.registry.tools.values() for app in (inner, outer))
        assert (kept.meta, made.meta) == ({"a": 1}, {"a": 1, "b": 2})
        assert kept.annotations is not None
        assert kept.annotations.title == "One"

    def test_the_options_are_for_marked_functions_and_apps_too(self) -> None:
        app, inner = MCPKit("a"), MCPKit("b")
        inner.add_tool(lambda: 1, name="one")
        app.include(inner, tags=["inner"], transform=lambda entry: entry)
        assert app.server.registry.tools["one"].tags == {"inner"}
        app.include(Marked(), prefix="m", tags=["marked"], scopes=["s"])
        found = app.server.registry.tools["m_two"]
        assert found.tags == {"marked"}
        assert found.scopes == ("s",)
        with pytest.raises(ValueError, match="tags="):
            app.include(Marked(), tags="marked")
        for source in (inner, Notes()):
            with pytest.raises(RegistrationError, match="an app has its own"):
                app.include(source, expose_errors=ValueError)

    def test_something_else_is_refused_by_name(self) -> None:
        with pytest.raises(
            RegistrationError,
            match=r"Notes: its entries are made .* 3 is not one",
        ):
            MCPKit("a").include(Notes(3))

    async def test_pages_of_tools_come_with_them(self) -> None:
        notes = Notes(tool("a", ui=Html("<p>hello</p>")))
        app = MCPKit("a")
        app.include(notes, prefix="n")
        with TestClient(app) as client:
            [page] = [each.uri for each in client.list_resources()]
            assert page.startswith("ui://n/")
            [found] = client.request("tools/list")["tools"]
            assert found["_meta"]["ui"]["resourceUri"] == page
            assert "hello" in client.read_resource(page)[0].text  # type: ignore[union-attr]


class Marked:
    @marked_tool
    def two(self) -> int:
        return 2


async def greet(arguments: dict[str, str], ctx: Context[Any]) -> str:
    return "hello"


class TestReplacing:
    async def test_clients_are_notified_once_of_each_list_that_differs(self) -> None:
        notes = Notes(tool("a"), tool("b"), resource("notes://1"))
        app = nested(notes)
        app.add_tool(lambda: 1, name="last")
        changes = Recorder()
        async with (
            AsyncTestClient(app) as client,
            client.listen(changes, tools=True, resources=True, prompts=True),
        ):
            notes.context.replace([tool("b"), tool("a", title="A"), resource("notes://1")])
            await changes.wait()
            assert await names(client) == ["out_in_a", "out_in_b", "last"]
            notes.context.replace([tool("b"), tool("a", title="A"), resource("notes://1")])
            notes.context.replace([tool("c")])
            assert await names(client) == ["last", "out_in_c"]
            await names(client)
            found = [method for method, _ in await changes.wait(3)]
        tools, resources = (
            "notifications/tools/list_changed",
            "notifications/resources/list_changed",
        )
        assert found == [tools, tools, resources]

    async def test_a_name_that_is_taken_changes_nothing(self) -> None:
        notes = Notes(tool("a"))
        inner, first, second = MCPKit("inner"), MCPKit("first"), MCPKit("second")
        inner.include(notes)
        first.include(inner)
        second.include(inner)
        second.add_tool(lambda: 1, name="mine")
        for entries in ([tool("new"), tool("mine")], [tool("new"), tool("new")]):
            with pytest.raises(RegistrationError, match="is registered already"):
                notes.context.replace(entries)
            for app, found in ((inner, ["a"]), (first, ["a"]), (second, ["a", "mine"])):
                assert [*app.server.registry.tools] == found
        notes.context.replace([tool("new")])
        assert [*second.server.registry.tools] == ["mine", "new"]

    async def test_names_may_be_swapped(self) -> None:
        app = MCPKit("a")
        notes = Notes(tool("a", title="b"), tool("b", title="a"))

        def by_title(entry: Any) -> Any:
            entry.name = entry.title
            return entry

        app.include(notes, transform=by_title)
        assert {*app.server.registry.tools} == {"a", "b"}
        notes.context.replace([tool("a", title="a"), tool("b", title="b")])
        assert {key: each.title for key, each in app.server.registry.tools.items()} == {
            "a": "a",
            "b": "b",
        }

    async def test_what_is_disabled_stays_so_and_what_is_removed_too(self) -> None:
        app = MCPKit("a")
        notes = Notes(tool("a"), tool("b"), tool("c"))
        app.include(notes)
        app.disable(["a", "b"])
        app.remove_tool("c")
        notes.context.replace([tool("a", title="new"), tool("c")])
        assert not app.server.registry.tools
        app.enable(["a"])
        assert {k: each.title for k, each in app.server.registry.tools.items()} == {"a": "new"}
        with pytest.raises(KeyError):  # the provider has removed it
            app.enable(["b"])
        notes.context.replace([])
        app.add_tool(lambda: 1, name="a")
        notes.context.replace([])
        assert [*app.server.registry.tools] == ["a"]

    async def test_a_list_that_is_being_read_goes_on(self) -> None:
        # PAGE-4
        app = MCPKit("a", page_size=2)
        notes = Notes(*(tool(f"t{number}") for number in range(6)))
        app.include(notes)
        async with AsyncTestClient(app) as client:
            first = await client.request("tools/list")
            notes.context.replace([tool(f"t{number}", title="new") for number in (0, 3, 4, 5, 9)])
            cursor, found = first["nextCursor"], [each["name"] for each in first["tools"]]
            while cursor is not None:
                page = await client.request("tools/list", {"cursor": cursor})
                found += [each["name"] for each in page["tools"]]
                cursor = page.get("nextCursor")
        assert found == ["t0", "t1", "t3", "t4", "t5", "t9"]

    async def test_calls_in_threads_find_the_old_entries_or_the_new_ones(self) -> None:
        notes = Notes(tool("old"), tool("both"))
        app = nested(notes)
        stop, failures = threading.Event(), []

        def look() -> None:
            while not stop.is_set():
                found = {*app.server.registry.tools}
                if found not in ({"out_in_old", "out_in_both"}, {"out_in_new", "out_in_both"}):
                    failures.append(found)

        threads = [threading.Thread(target=look) for _ in range(3)]
        for each in threads:
            each.start()
        for number in range(300):
            name = ("new", "old")[number % 2]
            notes.context.replace([tool(name), tool("both")])
        stop.set()
        for each in threads:
            each.join(PATIENCE)
        assert failures == []

    async def test_apps_that_include_each_other_in_two_ways_change_from_many_threads(self) -> None:
        notes = Notes()
        inner, left, right, outer = (MCPKit(each) for each in "ilro")
        inner.include(notes)
        left.include(inner, prefix="l")
        right.include(inner, prefix="r")
        outer.include(left)
        outer.include(right)

        def add(to: MCPKit, name: str) -> None:
            for number in range(30):
                to.add_tool(lambda: 1, name=f"{name}{number}")

        apps = {"i": inner, "l": left, "r": right, "o": outer}
        threads = [threading.Thread(target=add, args=(app, key)) for key, app in apps.items()]
        for each in threads:
            each.start()
        notes.context.replace([tool("x")])
        for each in threads:
            each.join(PATIENCE)
            assert not each.is_alive()
        assert len(outer.server.registry.tools) == 30 * 5 + 2
        numbers = [each.number for each in outer.server.registry.tools.values()]
        assert numbers == sorted({*numbers})

    async def test_adding_to_an_included_app_is_announced_once(self) -> None:
        inner, changes = MCPKit("inner"), Recorder()
        outer = MCPKit("outer")
        outer.include(inner)
        outer.server.changes.add(listener := Listener(changes))
        inner.add_tool(lambda: 1, name="a")
        inner.list_changed("prompts")
        assert listener is not None
        assert changes.calls == ["tools", "prompts"]


class Listener:
    """A listener of a bus of changes."""

    def __init__(self, told: Callable[[str], object]) -> None:
        self.list_changed = told
        self.resource_changed = told


class TestResources:
    @every_revision
    async def test_updates_and_interest_cross_prefixes(self, revision: str) -> None:
        notes = Notes(resource("notes://1"), resource("notes://2"))
        changes = Recorder()
        app = nested(notes)
        app.add_resource(lambda: "x", "notes://other", name="other")
        uri = "notes://out/in/1"
        async with AsyncTestClient(app, revision=revision) as client:
            async with client.listen(changes, uris=[uri, "notes://other"]):
                assert await notes.interests.wait() == [("notes://1", True)]
                async with (
                    AsyncTestClient(app, revision=revision) as another,
                    another.listen(changes, uris=[uri]),
                ):
                    notes.context.updated("notes://2")
                    notes.context.updated("notes://1")
                    found = await changes.wait(2)
                assert [params["uri"] for _, params in found] == [uri, uri]
            await notes.interests.wait(2)
        assert notes.interests.calls == [("notes://1", True), ("notes://1", False)]

    async def test_resources_that_are_not_held(self) -> None:
        app = MCPKit("a", page_size=3)
        app.include(Pulled(*"abcdefg"), prefix="p", scopes=[], tags=["t"], transform=without_c)
        app.include(Pulled("b", "z"))
        app.add_resource(lambda: "x", "zzz://last", name="last")
        async with AsyncTestClient(app) as client:
            found = await uris(client)
            assert found[0] == "zzz://last"
            assert found[1:] == [
                "many://b",
                *(f"many://p/{each}" for each in "abdefg"),
                "many://z",
            ]
            assert await text_at(client, "many://p/d") == "at many://d"

    async def test_who_lacks_their_scopes_does_not_see_them(self) -> None:
        whole, each = MCPKit("whole"), MCPKit("each")
        whole.include(Pulled("a"), scopes=["s"])
        each.include(Pulled("a", scopes=["s"]))
        for app in (whole, each):
            for scopes, seen in (([], []), (["s"], ["many://a"]), ([], [])):
                async with AsyncTestClient(app, scopes=scopes) as client:
                    assert await uris(client) == seen
                    page = await client.request("resources/list")
                    assert page["cacheScope"] == "private"

    async def test_what_a_client_has_watched_before_is_told(self) -> None:
        app, notes = MCPKit("a"), Notes(resource("notes://1"))
        app.add_resource(lambda x: x, "notes://{x}", name="all")
        async with AsyncTestClient(app) as client:
            async with client.listen(lambda *change: None, uris=["notes://1"]):
                app.include(notes)
                assert await notes.interests.wait() == [("notes://1", True)]
            await notes.interests.wait(2)
        assert notes.interests.calls == [("notes://1", True), ("notes://1", False)]

    async def test_interest_may_change_the_entries_while_others_do(self) -> None:
        class Following(Notes):
            def interest(self, context: ProviderContext, uri: str, is_wanted: bool) -> None:
                context.replace([resource("notes://1"), *([tool("wanted")] if is_wanted else [])])

        app, notes = MCPKit("a"), Following(resource("notes://1"))
        app.include(notes)
        changes = app.server.changes

        def watch() -> None:
            for _ in range(200):
                changes.watch(listener := Listener(lambda change: None), ["notes://1"])
                changes.unwatch(listener, ["notes://1"])

        def edit(name: str) -> None:
            for _ in range(200):
                app.add_tool(lambda: 1, name=name)
                app.remove_tool(name)

        threads = [threading.Thread(target=watch)]
        threads += [threading.Thread(target=edit, args=[f"t{number}"]) for number in range(2)]
        for each in threads:
            each.daemon = True
            each.start()
        for each in threads:
            await anyio.to_thread.run_sync(each.join, PATIENCE)
            assert not each.is_alive()
        assert [*app.server.registry.tools] == []

    async def test_a_transform_may_not_give_them_another_uri(self) -> None:
        app = MCPKit("a", page_size=1)

        def upper(entry: Any) -> Any:
            if entry.listing == "resources":
                entry.uri = entry.uri.upper()
            return entry

        app.include(Pulled("a", "b"), transform=upper)
        async with AsyncTestClient(app) as client:
            with pytest.raises(ProtocolError, match="failed to answer"):
                await uris(client)

    async def test_one_that_repeats_itself_ends(self) -> None:
        class Repeating(Pulled):
            async def resources(
                self, after: str, limit: int | None, context: Context[Any]
            ) -> Sequence[Any]:
                return await super().resources("", limit, context)

        app = MCPKit("a", page_size=1)
        app.include(Repeating("a", "b"), transform=lambda entry: None)
        async with AsyncTestClient(app) as client:
            assert await uris(client) == []

    def test_what_cannot_be_included_further_out_is_not_included_at_all(self) -> None:
        pulled = Pulled("a")
        pulled.base = ""
        inner, outer = MCPKit("inner"), MCPKit("outer")
        outer.include(inner, prefix="p")
        with pytest.raises(RegistrationError, match="the provider needs a base"):
            inner.include(pulled)
        for app in (inner, outer):
            assert not app.server.registry.templates
            assert not app.server.registry.sources

    def test_a_prefix_needs_a_base(self) -> None:
        pulled = Pulled("a")
        pulled.base = ""
        with pytest.raises(RegistrationError, match="the provider needs a base"):
            MCPKit("a").include(pulled, prefix="x")

    async def test_files_have_the_prefix_and_the_scopes_of_their_app(self, tmp_path: Path) -> None:
        (tmp_path / "a.txt").write_text("A")
        inner, outer = MCPKit("inner"), MCPKit("outer")
        inner.files(tmp_path, "files://docs")
        outer.include(inner, prefix="in", scopes=["read"])
        with TestClient(outer, scopes=["read"]) as client:
            assert [each.uri for each in client.list_resources()] == ["files://in/docs/a.txt"]
            [found] = client.read_resource("files://in/docs/a.txt")
            assert isinstance(found, TextResourceContents)
            assert found.text == "A"
        with TestClient(outer, scopes=[]) as client:
            assert client.list_resources() == []
            with pytest.raises(ProtocolError):
                client.read_resource("files://in/docs/a.txt")


def without_c(entry: Any) -> Any:
    return None if entry.name.endswith("c") else entry


class Living(Notes):
    """A provider with a lifespan."""

    def __init__(self, *entries: Any, failure: BaseException | None = None) -> None:
        super().__init__(*entries)
        self.events: list[str] = []
        self.failure = failure
        self.crash: Callable[[], object] = lambda: None

    @asynccontextmanager
    async def lifespan(self, context: ProviderContext) -> AsyncGenerator[None, None]:
        await anyio.lowlevel.checkpoint()
        if self.failure is not None:
            raise self.failure
        self.events.append(f"entered {threading.current_thread().name}")
        context.replace([tool("alive")])
        try:
            yield
        finally:
            await anyio.lowlevel.checkpoint()
            context.replace([])
            self.events.append("left")


class TestLifespans:
    async def test_it_is_entered_once_for_several_clients(self) -> None:
        living = Living()
        app = nested(living)
        me = threading.current_thread().name
        async with AsyncTestClient(app) as last:
            async with AsyncTestClient(app) as client:
                assert await names(client) == ["out_in_alive"]
            assert await names(last) == ["out_in_alive"]
            assert living.events == [f"entered {me}"]
        assert living.events == [f"entered {me}", "left"]
        async with AsyncTestClient(app) as client:
            assert await names(client) == ["out_in_alive"]

    async def test_the_first_client_may_leave_first(self) -> None:
        living = Living()
        app = MCPKit("a")
        app.include(living)
        async with anyio.create_task_group() as group:
            leave = anyio.Event()

            async def first(*, task_status: Any) -> None:
                async with AsyncTestClient(app):
                    task_status.started()
                    await leave.wait()

            await group.start(first)
            async with AsyncTestClient(app) as client:
                leave.set()
                assert await names(client) == ["alive"]
        assert len(living.events) == 2

    async def test_another_event_loop_takes_over(self) -> None:
        living = Living()
        app = MCPKit("a")
        app.include(living)
        found: list[str] = []
        leave, is_here = threading.Event(), threading.Event()

        async def elsewhere() -> None:
            async with AsyncTestClient(app):
                is_here.set()
                await anyio.to_thread.run_sync(leave.wait, PATIENCE)

        thread = threading.Thread(target=lambda: asyncio.run(elsewhere()), name="elsewhere")
        thread.start()
        await anyio.to_thread.run_sync(is_here.wait, PATIENCE)
        async with AsyncTestClient(app) as client:
            assert living.events == ["entered elsewhere"]
            leave.set()
            await until(lambda: len(living.events) == 3)
            found += await names(client)
        thread.join(PATIENCE)
        me = threading.current_thread().name
        assert living.events == ["entered elsewhere", "left", f"entered {me}", "left"]
        assert found == ["alive"]

    async def test_one_that_comes_while_the_last_one_leaves_waits_for_the_next_term(self) -> None:
        leaving, go_on = anyio.Event(), anyio.Event()

        class Slow(Living):
            @asynccontextmanager
            async def lifespan(self, context: ProviderContext) -> AsyncGenerator[None, None]:
                self.events.append("entered")
                context.replace([tool("alive")])
                yield
                context.replace([])
                leaving.set()
                await go_on.wait()

        slow = Slow()
        app = MCPKit("a")
        app.include(slow)

        async def first(*, task_status: Any) -> None:
            async with AsyncTestClient(app):
                task_status.started()

        async def let_go() -> None:
            await turns()
            go_on.set()

        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as group:
                await group.start(first)
                await leaving.wait()
                group.start_soon(let_go)
                async with AsyncTestClient(app) as client:
                    assert await names(client) == ["alive"]
        assert slow.events == ["entered", "entered"]

    async def test_one_that_comes_while_another_gives_up_is_served_alive(self) -> None:
        gives_up, go_on = anyio.Event(), anyio.Event()

        class Slow(Living):
            @asynccontextmanager
            async def lifespan(self, context: ProviderContext) -> AsyncGenerator[None, None]:
                self.events.append("entering")
                if len(self.events) == 1:
                    try:
                        await anyio.sleep_forever()
                    finally:
                        gives_up.set()
                        with anyio.CancelScope(shield=True):
                            await go_on.wait()
                context.replace([tool("alive")])
                yield

        slow = Slow()
        app = MCPKit("a")
        app.include(slow)
        scope = anyio.CancelScope()

        async def first() -> None:
            with scope:
                async with AsyncTestClient(app):
                    pytest.fail("it was served")

        async def let_go() -> None:
            await turns()
            go_on.set()

        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as group:
                group.start_soon(first)
                await until(lambda: slow.events)
                scope.cancel()
                await gives_up.wait()
                group.start_soon(let_go)
                async with AsyncTestClient(app) as client:
                    assert await names(client) == ["alive"]

    async def test_many_clients_that_come_and_go_are_always_served_alive(self) -> None:
        living = Living()
        app = nested(living)
        chance = random.Random(7)
        found: list[list[str]] = []

        async def come_and_go(count: int) -> None:
            await turns(chance.randrange(40))
            async with AsyncTestClient(app) as client:
                found.append(await names(client))
                await turns(count)

        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as group:
                for _ in range(60):
                    group.start_soon(come_and_go, chance.randrange(30))
        assert found == [["out_in_alive"]] * 60
        entered = [each for each in living.events if each != "left"]
        assert len(living.events) == 2 * len(entered)

    async def test_an_exit_ends_the_app_as_one_of_its_own_lifespan_does(self) -> None:
        living = Living(failure=SystemExit("no database"))
        app = MCPKit("a")
        app.include(living)
        with pytest.raises(BaseException) as caught:  # noqa: PT011 - a group on trio
            async with AsyncTestClient(app):
                pytest.fail("it was served")
        assert "no database" in str(leaf_of(caught.value))

    async def test_a_loop_that_was_closed_holds_nothing(self) -> None:
        living = Living()
        app = MCPKit("a")
        app.include(living)

        def abandon() -> None:
            loop = asyncio.new_event_loop()
            manager = app.running()
            loop.run_until_complete(manager.__aenter__())
            loop.close()

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            await anyio.to_thread.run_sync(abandon)
            async with AsyncTestClient(app) as client:
                assert await names(client) == ["alive"]
            assert len([each for each in living.events if each != "left"]) == 2
            gc.collect()

    async def test_a_failure_is_raised_and_the_next_client_tries_again(self) -> None:
        living = Living(failure=ValueError("no database"))
        app = MCPKit("a")
        app.include(living)
        with pytest.raises(ValueError, match="no database"):
            async with AsyncTestClient(app):
                pytest.fail("it was served")
        living.failure = None
        async with AsyncTestClient(app) as client:
            assert await names(client) == ["alive"]

    async def test_a_client_that_gives_up_meanwhile_leaves_nothing(self) -> None:
        class Slow(Living):
            @asynccontextmanager
            async def lifespan(self, context: ProviderContext) -> AsyncGenerator[None, None]:
                try:
                    await anyio.sleep_forever()
                finally:
                    self.events.append("gave up")
                yield

        slow = Slow()
        app = MCPKit("a")
        app.include(slow)
        with anyio.move_on_after(0.01):
            async with AsyncTestClient(app):
                pytest.fail("it was served")
        assert slow.events == ["gave up"]


class Trace:
    """Middleware, a lifespan and a tool of an app, and what they were told."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.events: list[str] = []
        self.app: MCPKit[Any] = MCPKit(name, lifespan=self.lifespan)
        self.app.middleware(self.guard)
        self.app.add_tool(self.state, name="state")
        self.app.add_resource(self.state, "state://{which}", name="which")
        self.app.add_prompt(self.state, name="ask")

    @asynccontextmanager
    async def lifespan(self, app: MCPKit[Any]) -> AsyncGenerator[str, None]:
        assert app is self.app
        self.events.append("enter")
        yield f"state of {self.name}"
        self.events.append("exit")

    async def guard(self, ctx: Context[str], call_next: CallNext) -> Any:
        self.events.append(f"{ctx.method} with {ctx.state}")
        return await call_next()

    def state(self, ctx: Context[str], which: str = "") -> str:
        return ctx.state


class TestIncludedApps:
    @every_revision
    async def test_they_keep_their_lifespan_and_their_middleware(self, revision: str) -> None:
        outer, middle, inner = (Trace(each) for each in ("outer", "middle", "inner"))
        middle.app.include(inner.app, prefix="in")
        outer.app.include(middle.app, prefix="mid")
        async with AsyncTestClient(outer.app, revision=revision) as client:
            for each in (outer, middle, inner):
                each.events.clear()
            assert (await client.call_tool("mid_in_state")).text == "state of inner"
            call = "tools/call with state of "
            assert inner.events == [call + "inner"]
            assert middle.events == [call + "middle"]
            assert outer.events == [call + "outer"]
            assert (await client.call_tool("mid_state")).text == "state of middle"
            assert (await client.call_tool("state")).text == "state of outer"
            assert len(inner.events) == 1
            assert len(middle.events) == 2
            assert await text_at(client, "state://mid/in/x") == "state of inner"
            prompt = await client.request("prompts/get", {"name": "mid_in_ask"})
            assert prompt["messages"][0]["content"]["text"] == "state of inner"
            assert inner.events[1:] == [
                "resources/read with state of inner",
                "prompts/get with state of inner",
            ]
            await names(client)
            with pytest.raises(ProtocolError, match="Unknown tool"):
                await client.call_tool("in_state")
            assert len(inner.events) == 3
        assert inner.events[-1] == middle.events[-1] == "exit"

    async def test_the_lifespans_are_entered_from_outside_and_each_once(self) -> None:
        order: list[str] = []
        apps = {each: living_app(each, order) for each in "abc"}
        apps["b"].include(apps["c"], prefix="one")
        apps["b"].include(apps["c"], prefix="two")
        apps["a"].include(apps["b"])
        async with AsyncTestClient(apps["a"]):
            assert order == ["+a", "+b", "+c"]
        assert order == ["+a", "+b", "+c", "-c", "-b", "-a"]

    async def test_an_app_without_a_lifespan_has_the_state_of_the_app_around_it(self) -> None:
        outer, inner = Trace("outer"), MCPKit[Any]("inner")

        @inner.tool
        def state(ctx: Context[str]) -> str:
            return ctx.state

        outer.app.include(inner, prefix="in")
        async with AsyncTestClient(outer.app) as client:
            assert (await client.call_tool("in_state")).text == "state of outer"

    async def test_middleware_may_answer_and_refuse(self) -> None:
        inner, outer = MCPKit("inner"), MCPKit("outer")
        inner.add_tool(lambda: "tool", name="a")
        outer.add_tool(lambda: "tool", name="b")

        @inner.middleware
        async def guard(ctx: Context[Any], call_next: Callable[[], Awaitable[Any]]) -> Any:
            result = await call_next()
            result.content = [*result.content, "and more"]
            return result

        outer.include(inner)
        async with AsyncTestClient(outer) as client:
            called = await client.request("tools/call", {"name": "a"})
            assert [each["text"] for each in called["content"]] == ["tool", "and more"]
            assert (await client.call_tool("b")).text == "tool"

    async def test_an_app_that_is_included_while_it_is_served(self) -> None:
        outer, inner = MCPKit("outer", offers=["tools"]), Trace("inner")
        async with AsyncTestClient(outer) as client:
            assert await names(client) == []
            with pytest.raises(RegistrationError, match="has a lifespan; include it before"):
                outer.include(inner.app)
            plain, seen = MCPKit("plain"), Recorder()
            plain.add_tool(lambda: "tool", name="a")

            @plain.middleware
            async def guard(ctx: Context[Any], call_next: CallNext) -> Any:
                seen(ctx.method)
                return await call_next()

            outer.include(plain)
            assert (await client.call_tool("a")).text == "tool"
            assert seen.calls == ["tools/call"]

    async def test_no_lifespan_is_forgotten(self) -> None:
        outer, middle, inner = MCPKit("outer"), MCPKit("middle"), Trace("inner")
        outer.include(middle)
        entered: list[str] = []

        @asynccontextmanager
        async def lifespan(app: MCPKit[Any]) -> AsyncGenerator[None, None]:
            with pytest.raises(RegistrationError, match="has a lifespan; include it before"):
                app.include(inner.app)
            entered.append(app.name)
            yield

        middle.include(MCPKit[Any]("living", lifespan=lifespan))
        async with outer.running():
            for app in (outer, middle):
                for source in (inner.app, Living(tool("early"))):
                    with pytest.raises(RegistrationError, match="has a lifespan; include it"):
                        app.include(source)
                    assert not app.server.registry.tools
        assert entered == ["living"]
        middle.include(inner.app)
        async with AsyncTestClient(outer) as client:
            assert (await client.call_tool("state")).text == "state of inner"

    async def test_a_state_is_not_compared(self) -> None:
        class Table:
            def __eq__(self, other: object) -> bool:
                raise ValueError("the truth value is ambiguous")

            __hash__ = None  # type: ignore[assignment]

        @asynccontextmanager
        async def lifespan(app: MCPKit[Any]) -> AsyncGenerator[Table, None]:
            yield Table()

        async with AsyncTestClient(MCPKit("a", lifespan=lifespan, offers=["tools"])) as client:
            assert await names(client) == []

    async def test_plain_functions_are_in_their_app_too(self) -> None:
        outer, inner = Trace("outer"), Trace("inner")

        @inner.app.tool
        def state_at(ctx: SyncContext[str], uri: str) -> str:
            [found] = ctx.read_resource(uri)
            assert isinstance(found, TextResourceContents)
            return f"{ctx.state}, {found.text}"

        @inner.app.tool
        def sampled(ctx: SyncContext[str]) -> str:
            def look(ctx: SyncContext[str]) -> str:
                return ctx.state

            return ctx.sample("x", tools=[look]).text

        async def model(params: dict[str, Any]) -> dict[str, Any]:
            last = params["messages"][-1]["content"]
            last = last[-1] if isinstance(last, list) else last
            if last["type"] == "tool_result":
                return {"role": "assistant", "model": "m", "content": last["content"][0]}
            use = {"type": "tool_use", "id": "1", "name": "look", "input": {}}
            return {"role": "assistant", "model": "m", "content": use, "stopReason": "toolUse"}

        outer.app.include(inner.app, prefix="in")
        async with AsyncTestClient(outer.app, sampling=model) as client:
            found = await client.call_tool("in_state_at", {"uri": "state://x"})
            assert found.text == "state of inner, state of inner"
            assert (await client.call_tool("in_sampled")).text == "state of inner"

    @pytest.mark.parametrize("ref", ["x", [1], None, 5, {}, {"type": "ref/prompt"}])
    async def test_a_malformed_reference_is_the_fault_of_the_client(self, ref: Any) -> None:
        outer, inner = MCPKit("outer"), Trace("inner")
        inner.app.add_resource(at, "at://{place}", name="at")
        outer.include(inner.app)
        params = {"ref": ref, "argument": {"name": "a", "value": ""}}
        async with AsyncTestClient(outer) as client:
            with pytest.raises(InvalidParams):
                await client.request("completion/complete", params)

    async def test_resources_are_named_as_the_app_names_them(self) -> None:
        inner, updates = MCPKit("inner"), Recorder()

        @inner.resource("notes://one")
        def one(ctx: Context[Any]) -> str:
            return "one"

        @inner.tool
        async def change(ctx: Context[Any]) -> str:
            ctx.notify_resource_updated("notes://one")
            [found] = await ctx.read_resource("notes://one")
            [other] = await ctx.read_resource("other://x")
            return f"{found.uri} {found.text} {other.text}"  # type: ignore[union-attr]

        outer = MCPKit("outer")
        outer.add_resource(lambda: "x", "other://x", name="other")
        outer.include(inner, prefix="in")
        async with (
            AsyncTestClient(outer) as client,
            client.listen(updates, uris=["notes://in/one"]),
        ):
            found = await client.call_tool("in_change")
            assert found.text == "notes://in/one one x"
            [(_, params)] = await updates.wait()
            assert params["uri"] == "notes://in/one"

    async def test_a_resource_of_another_app_has_its_own_state(self) -> None:
        outer, inner = Trace("outer"), Trace("inner")
        outer.app.include(inner.app, prefix="in")

        @outer.app.tool
        async def both(ctx: Context[str]) -> str:
            [found] = await ctx.read_resource("state://in/x")
            return f"{found.text}, {ctx.state}"  # type: ignore[union-attr]

        async with AsyncTestClient(outer.app) as client:
            assert (await client.call_tool("both")).text == "state of inner, state of outer"


def at(place: Annotated[str, Complete(["here"])]) -> str:
    return place


def leaf_of(error: BaseException) -> BaseException:
    while hasattr(error, "exceptions"):  # a group, of trio's tasks
        [error] = error.exceptions
    return error


def living_app(name: str, order: list[str]) -> MCPKit[Any]:
    @asynccontextmanager
    async def lifespan(app: MCPKit[Any]) -> AsyncGenerator[None, None]:
        order.append(f"+{name}")
        yield
        order.append(f"-{name}")

    return MCPKit(name, lifespan=lifespan)
