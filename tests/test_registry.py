"""The entries offered, their order, and how they are listed page by page."""

from __future__ import annotations

import itertools
import json
from base64 import urlsafe_b64encode
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from mcpkit._entries import Entry, Listing
from mcpkit._protocol.revisions import Revision
from mcpkit._server import registry as registry_module
from mcpkit._server.registry import Page, Registry
from mcpkit._server.views import Verdict, View
from mcpkit._utils.uri_template import UriTemplate
from mcpkit.context import Context
from mcpkit.errors import Forbidden, InvalidParams, RegistrationError
from mcpkit.prompts import make_prompt
from mcpkit.resources import make_resource
from mcpkit.tools import make_tool
from tests.authoring import LATEST, page_of


def nothing() -> str:
    return ""


def echo(part: str) -> str:
    return part


def add_tools(registry: Registry, *names: str) -> None:
    for name in names:
        registry.add(make_tool(nothing, name=name))


def page(
    registry: Registry,
    cursor: str | None = None,
    size: int | None = None,
    *,
    listing: Listing = "tools",
    revision: Revision = LATEST,
) -> dict[str, Any]:
    text = b"{" + page_of(registry, listing, cursor, size).members(revision) + b"}"
    found: dict[str, Any] = json.loads(text)
    return found


def names(found: dict[str, Any], listing: Listing = "tools") -> list[str]:
    return [each["name"] for each in found[listing]]


def walk(registry: Registry, size: int, listing: Listing = "tools") -> list[list[str]]:
    """The names on every page, as a client reads them."""
    pages: list[list[str]] = []
    cursor: str | None = None
    while True:
        found = page(registry, cursor, size, listing=listing)
        pages.append(names(found, listing))
        if "nextCursor" not in found:
            return pages
        cursor = found["nextCursor"]


class TestAdding:
    @pytest.mark.parametrize("uri", ["a://b", "a://{part}"])
    def test_a_uri_is_taken_once(self, uri: str) -> None:
        handler = echo if "{" in uri else nothing
        registry = Registry()
        registry.add(make_resource(handler, uri))
        with pytest.raises(RegistrationError, match=r"resource( template)? 'a://.*' is registered"):
            registry.add(make_resource(handler, uri))

    def test_a_name_is_free_again_after_removal(self) -> None:
        """TOOL-4: names differ by case."""
        registry = Registry()
        add_tools(registry, "a", "A")
        registry.remove("tools", "a")
        add_tools(registry, "a")
        assert names(page(registry)) == ["A", "a"]


class TestChanges:
    def test_are_announced_unless_they_are_refused(self) -> None:
        registry = Registry()
        kinds: list[str] = []
        registry.on_change = kinds.append
        registry.add(make_tool(nothing))
        registry.add(make_prompt(nothing))  # with the same name
        assert (list(registry.tools), list(registry.prompts)) == (["nothing"], ["nothing"])
        registry.add(make_resource(nothing, "a://b"))
        registry.add(make_resource(echo, "a://{part}"))
        registry.remove("tools", "nothing")
        registry.remove("resources", "a://{part}")
        assert registry.templates == {}
        with pytest.raises(RegistrationError):
            registry.add(make_prompt(nothing))
        assert kinds == ["tools", "prompts", "resources", "resources", "tools", "resources"]


class TestToolNames:
    """TOOL-4"""

    @pytest.mark.parametrize("name", ["a", "A-b_c.9", "x" * 64])
    def test_that_hosts_accept(self, name: str) -> None:
        assert make_tool(nothing, name=name).name == name

    @pytest.mark.parametrize("name", ["a b", "a/b", "é", "x" * 65, "a\n", "a:b"])
    def test_that_hosts_refuse(self, name: str) -> None:
        with pytest.raises(RegistrationError, match=r"use 1 to 64 letters, digits, '_', '-'"):
            make_tool(nothing, name=name)


@pytest.mark.parametrize(
    ("uri", "name", "variables"),
    [
        ("a://exact", "exact", {}),
        ("a://other", "first", {"part": "other"}),
        ("a://b/c", "second", {"part": "b/c"}),
    ],
)
def test_the_first_that_fits_is_found(uri: str, name: str, variables: dict[str, str]) -> None:
    registry = Registry()
    registry.add(make_resource(echo, "a://{part}", name="first"))
    registry.add(make_resource(echo, "a://{+part}", name="second"))
    registry.add(make_resource(nothing, "a://exact", name="exact"))
    found = registry.resource(uri)
    assert found is not None
    assert (found[0].name, found[1]) == (name, variables)


class TestPages:
    @pytest.mark.parametrize(
        ("size", "pages"),
        [
            *((1, [["a"], ["b"], ["c"]]), (2, [["a", "b"], ["c"]])),
            *((3, [["a", "b", "c"]]), (9, [["a", "b", "c"]])),
        ],
    )
    def test_have_a_size(self, size: int, pages: list[list[str]]) -> None:
        """PAGE-2: the last one has no cursor."""
        registry = Registry()
        add_tools(registry, "a", "b", "c")
        assert walk(registry, size) == pages

    @pytest.mark.parametrize("listing", ["tools", "resources", "resourceTemplates", "prompts"])
    def test_every_list_has_them(self, listing: Listing) -> None:
        def fn(x: str = "") -> str:
            return x

        registry = Registry()
        for name in ("a", "b", "c"):
            registry.add(make_tool(fn, name=name))
            registry.add(make_prompt(fn, name=name))
            registry.add(make_resource(nothing, f"r://{name}", name=name))
            registry.add(make_resource(fn, f"t://{name}/{{x}}", name=name))
        assert walk(registry, 2, listing) == [["a", "b"], ["c"]]

    def test_are_encoded_once_until_a_change(self) -> None:
        registry = Registry()
        add_tools(registry, "a", "b", "c")
        cursor = page(registry, size=1)["nextCursor"]
        first, again = (page_of(registry, "tools", cursor, 1).members(LATEST) for _ in range(2))
        assert first is again
        registry.remove("tools", "b")
        assert page_of(registry, "tools", cursor, 1).members(LATEST) != first


class TestChangesWhilePaging:
    """PAGE-4: a cursor is a place, whatever happens around it."""

    def paged(self) -> tuple[Registry, str]:
        registry = Registry()
        add_tools(registry, "a", "b", "c", "d")
        return registry, page(registry, size=2)["nextCursor"]

    @pytest.mark.parametrize(
        ("removed", "rest"),
        [("a", ["c", "d"]), ("b", ["c", "d"]), ("c", ["d"]), ("abcd", [])],
    )
    def test_removal(self, removed: str, rest: list[str]) -> None:
        registry, cursor = self.paged()
        for name in removed:
            registry.remove("tools", name)
        found = page(registry, cursor, 2)
        assert (names(found), "nextCursor" in found) == (rest, False)

    def test_addition_in_another_process(self) -> None:
        _, cursor = self.paged()
        other, _ = self.paged()
        add_tools(other, "e")
        assert names(page(other, cursor, 9)) == ["c", "d", "e"]


def forged(text: str) -> str:
    return urlsafe_b64encode(text.encode()).decode()


class TestCursors:
    """PAGE-3"""

    @pytest.mark.parametrize(
        "cursor",
        [
            *("", "nonsense", "é", "=", "a" * 5000),
            *map(forged, ("tools", "tools:1", "tools:one:", "tools: 1:", "tools:1_0:")),
            *map(forged, ("tools:" + "9" * 5000 + ":", "prompts:1:")),
            forged("tools:1:").rstrip("="),
            forged("tools:1:") + "\n",
        ],
        ids=lambda each: repr(each[:20]),
    )
    def test_that_are_not_ours_are_invalid(self, cursor: str) -> None:
        registry = Registry()
        add_tools(registry, "a", "b")
        said = "belongs to another list" if cursor == forged("prompts:1:") else "cursor"
        with pytest.raises(InvalidParams, match=said):
            page(registry, cursor, 1)

    def test_sent_by_strangers_do_not_fill_the_memory(self) -> None:
        registry = Registry()
        add_tools(registry, "a")
        for number in range(1200):
            page(registry, forged(f"tools:{number}:"), 1)
        assert len(registry._pages) <= 1024


class TestThreads:
    def test_what_serves_a_tool_is_loaded_before_the_tool_is_found(self) -> None:
        """Else another thread could find a tool whose calls nothing serves yet."""
        registry, loaded = Registry(), []
        registry.on_advertise = lambda found: loaded.append(("tasks" in found, *registry.tools))
        registry.add(make_tool(nothing, name="a", task="optional"))
        assert loaded == [(True,)]

    def test_a_list_that_changed_while_it_was_encoded_is_not_kept(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A thread sometimes adds an entry between encoding a page and caching it."""
        registry = Registry()
        add_tools(registry, "a")

        def slowly(*arguments: Any, **options: Any) -> Page:
            made = Page(*arguments, **options)
            if "b" not in registry.tools:
                add_tools(registry, "b")
            return made

        monkeypatch.setattr(registry_module, "Page", slowly)
        page(registry)
        assert names(page(registry)) == ["a", "b"]

    def test_what_is_looked_up_may_change_meanwhile(self, monkeypatch: pytest.MonkeyPatch) -> None:
        registry = Registry()
        registry.add(make_resource(echo, "x://{part}"))
        match = UriTemplate.match
        numbers = itertools.count()

        def slowly(self: UriTemplate, uri: str) -> Any:
            registry.add(make_resource(echo, f"y{next(numbers)}://{{part}}"))
            return match(self, uri)

        monkeypatch.setattr(UriTemplate, "match", slowly)
        assert registry.resource("nowhere://at-all") is None
        assert len(registry.templates) == 2


class Offering:
    """A source whose resources are what the test says."""

    base = ""

    def __init__(self, *uris: str) -> None:
        self.uris = list(uris)
        self.asked: list[tuple[str, int | None]] = []

    async def resources(
        self, after: str, limit: int | None, context: Context[Any]
    ) -> Sequence[Entry]:
        self.asked.append((after, limit))
        wanted = [uri for uri in sorted(self.uris) if uri > after]
        return [make_resource(nothing, uri, name=uri) for uri in wanted[:limit]]


class TestProviders:
    def registry(self, *uris: str) -> tuple[Registry, Offering]:
        registry, provider = Registry(), Offering(*uris)
        registry.add(make_resource(nothing, "z://registered", name="registered"))
        registry.add_source(provider)
        return registry, provider

    def test_are_asked_for_no_more_than_a_page(self) -> None:
        registry, provider = self.registry("a://", "b://", "c://")
        assert walk(registry, 2, "resources") == [["registered", "a://"], ["b://", "c://"]]
        # One more tells whether there is another page.
        assert provider.asked == [("", 2), ("a://", 3)]

    def test_may_change_while_they_are_paged(self) -> None:
        registry, provider = self.registry("a://", "b://", "c://")
        cursor = page(registry, size=2, listing="resources")["nextCursor"]
        provider.uris = ["0://", "c://"]
        found = page(registry, cursor, 2, listing="resources")
        assert names(found, "resources") == ["c://"]

    def test_make_a_server_of_resources_and_are_merged_by_key(self) -> None:
        empty = Registry()
        empty.add_source(Offering())
        assert empty.advertised == {"resources"}
        registry, _ = self.registry("b://", "d://", "z://registered")
        registry.add_source(Offering("a://", "b://", "c://"))
        found = [name for each in walk(registry, 2, "resources") for name in each]
        assert found == ["registered", "a://", "b://", "c://", "d://"]


def refuse_secrets(entry: Entry, choice: None) -> Verdict:
    return Forbidden("Not for you") if "secret" in entry.tags else True


class TestViews:
    """Entries that a caller may not use are not listed, and looking one up is refused."""

    def view(self) -> View:
        registry = Registry()
        for number, tags in enumerate([(), ("secret",), ()]):
            registry.add(make_tool(nothing, name=f"tool{number}", tags=tags))
        registry.add(make_prompt(nothing, name="prompt", tags=("secret",)))
        registry.add(make_resource(nothing, "r://one", tags=("secret",)))
        registry.add(make_resource(echo, "r://{part}", name="t", tags=("secret",)))
        registry.add(make_resource(echo, "s://{part}", name="open"))
        return View(registry, ((refuse_secrets, None),))

    def test_list_usable_entries(self) -> None:
        view = self.view()
        assert "prompts" in view.advertised, "also if all of them are refused"
        assert [each.name for each in page_of(view, "tools").entries] == ["tool0", "tool2"]
        first = page_of(view, "tools", size=1)
        second = page_of(view, "tools", first.next_cursor, 1)
        pages = [[each.name for each in found.entries] for found in (first, second)]
        assert (pages, second.next_cursor) == ([["tool0"], ["tool2"]], None)
        assert [each.key for each in page_of(view, "resourceTemplates").entries] == ["s://{part}"]
        assert page_of(view, "prompts").entries == []

    def test_refuse_a_look_up(self) -> None:
        view = self.view()
        look_ups: list[Callable[[], object]] = [
            lambda: view.tools.get("tool1"),
            lambda: view.prompts.get("prompt"),
            lambda: view.templates.get("r://{part}"),
            lambda: view.resource("r://one"),
            lambda: view.resource("r://two"),
        ]
        for look_up in look_ups:
            with pytest.raises(Forbidden):
                look_up()
        found = view.resource("s://any")
        assert found is not None
        assert found[0].name == "open"
        assert view.resource("t://any") is None

    def test_list_entries_of_providers_but_those_that_a_registered_one_hides(self) -> None:
        view = self.view()
        view._registry.add_source(Offering("r://one", "r://other"))
        assert [each.name for each in page_of(view, "resources").entries] == ["r://other"]


class TestWire:
    def test_a_prompt_describes_its_arguments(self) -> None:
        def fn(city: str, days: int = 3) -> str:
            """Plan.

            Args:
                city: Where to.
            """
            return city * days

        prompt = make_prompt(fn, tags=["unsent"])
        assert prompt.tags == {"unsent"}
        assert prompt.to_wire(LATEST) == {
            "name": "fn",
            "description": "Plan.",
            "arguments": [
                {"name": "city", "description": "Where to.", "required": True},
                {"name": "days"},
            ],
        }
