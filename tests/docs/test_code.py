"""What the guides say about the code that they show."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from symtable import SymbolTable, symtable
from types import ModuleType
from typing import Any, Final

import httpx2
import pytest

from mcpkit.testing import REVISIONS, TestClient
from tests.asking.conftest import accept, speak
from tests.authoring import load
from tests.docs.pages import DOCS, PAGES, README, Block, blocks_of
from tests.examples.host import Model, uses
from tests.web import calling, hosted_in

CODE: Final = DOCS / "code"
SERVERS: Final = [
    path
    for path in sorted(CODE.glob("*.py"))
    if "app = MCPKit(" in path.read_text(encoding="utf-8")
    and path.stem not in ("careless", "refused", "broken")  # bad on purpose
    and path.stem != "auth_keys"  # is about who may come in, and not about what is there
    and path.stem != "flags"  # makes its app from flags
    and path.stem not in ("audit", "json_logs")  # configure logging, which is a process's own
    and path.stem != "serverless_lambda"  # Mangum makes an event loop for the whole process
]

ENVIRONMENT: Final = {
    "NOTES_KEY": "a-key-of-my-own-that-is-long",
    "ADA_HASH": "scrypt:32768:8:" + "A" * 24 + ":" + "A" * 44,
    "GUEST_HASH": "scrypt:32768:8:" + "A" * 24 + ":" + "A" * 44,
    "GITHUB_CLIENT_ID": "an id",
    "GITHUB_CLIENT_SECRET": "a secret",
    "MCPKIT_SECRET": "a-secret-of-these-tests",
    "NIGHTLY_SECRET": "a-secret-of-these-tests",
    "PASSWORD_OF_ADA": "a-password-of-these-tests",
}
"""What the servers want to know."""


def app_of(name: str) -> Any:
    """The app of a file, loaded again, so that no test sees what another one did to it."""
    return load(CODE / f"{name}.py", f"docs_code_{name}")


@pytest.mark.parametrize("path", SERVERS, ids=lambda path: path.stem)
@pytest.mark.parametrize("revision", [REVISIONS[0], REVISIONS[-1]])
def test_every_file_is_a_server_that_describes_itself(
    path: Path, revision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    with TestClient(app_of(path.stem).app, revision=revision) as client:
        offered: list[Any] = []
        if "tools" in client.server_capabilities:
            offered += client.list_tools()
        if "prompts" in client.server_capabilities:
            offered += client.list_prompts()
        if "resources" in client.server_capabilities:
            offered += client.list_resource_templates()
    assert offered
    assert all(each.description or each.uri_template for each in offered)


# --- the code of a page, joined -------------------------------------------------------------------


def programs_of(page: Path) -> dict[Path, list[Block]]:
    """File → its blocks on a page, in the order in which a reader copies them."""
    programs: dict[Path, list[Block]] = {}
    for block in blocks_of(page.read_text(encoding="utf-8")):
        if block.source is not None and block.language == "python":
            programs.setdefault(block.source[0], []).append(block)
    return programs


PROGRAMS: Final = {
    f"{page.stem}-{path.stem}": blocks
    for page in [README, *PAGES]
    for path, blocks in programs_of(page).items()
}

IN_PARTS: Final = {
    name: blocks
    for name, blocks in PROGRAMS.items()
    for path, section in [blocks[0].source or (CODE, None)]
    if section is not None and path.parent == CODE  # the others are tested as files
}


def undefined_in(table: SymbolTable, known: set[str]) -> Iterator[str]:
    """The names that a program uses and never defines."""
    for symbol in table.get_symbols():
        is_global = symbol.is_global() or table.get_type() == "module"
        if is_global and symbol.is_referenced() and symbol.get_name() not in known:
            yield symbol.get_name()
    for child in table.get_children():
        yield from undefined_in(child, known)


@pytest.mark.parametrize("blocks", PROGRAMS.values(), ids=PROGRAMS)
def test_joined_blocks_of_a_page_define_every_name(blocks: list[Block]) -> None:
    table = symtable("".join(each.body for each in blocks), "joined", "exec")
    defined = {
        each.get_name()
        for each in table.get_symbols()
        if each.is_assigned() or each.is_imported() or each.is_namespace()
    }
    known = {*defined, *dir(builtins), "__name__", "__file__"}
    assert not set(undefined_in(table, known))


@pytest.mark.parametrize("blocks", IN_PARTS.values(), ids=IN_PARTS)
def test_joined_blocks_of_a_page_run(blocks: list[Block], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setitem(sys.modules, "server", app_of("testing_server"))
    module = ModuleType("joined")
    module.__file__ = str(CODE / "joined.py")
    monkeypatch.setitem(sys.modules, "joined", module)  # pydantic looks names up there
    exec(compile("".join(each.body for each in blocks), "joined.py", "exec"), module.__dict__)


# --- tools ----------------------------------------------------------------------------------------


def called(file: str, tool: str, arguments: Mapping[str, Any] | None = None, **options: Any) -> Any:
    with TestClient(app_of(file).app, **options) as client:
        return client.call_tool(tool, arguments)


@pytest.mark.parametrize(
    ("tool", "arguments", "kinds", "data"),
    [
        ("weather", {"town": "Oslo"}, ["TextContent"], {"celsius": 12.5, "rain": False}),
        ("towns", {}, ["TextContent"], ...),
        ("paper", {}, ["TextContent"], {"width": 210, "height": 297}),
        ("half", {"number": 3}, ["TextContent"], {"result": 1.5}),
        ("about", {"town": "Bergen"}, ["TextContent"], {"town": "Bergen", "rivers": []}),
        ("primes", {}, ["TextContent"], [2, 3, 5, 7]),
        ("ticket", {}, ["TextContent"], {"number": 12, "seat": "4A"}),
        ("find", {"title": "Emma"}, ["TextContent", "ResourceLink"], {"floor": 1, "shelf": 7}),
        ("greet", {"name": "Ada"}, ["TextContent"], None),
        ("rivers", {}, ["TextContent"], None),
        ("price", {"title": "Emma"}, ["TextContent"], None),
        ("cover", {"title": "Emma"}, ["ImageContent"], None),
        ("chime", {}, ["AudioContent"], None),
        ("table", {}, ["EmbeddedResource"], None),
        ("page", {"title": "Emma"}, ["TextContent", "ImageContent"], None),
        ("shelf", {"title": "Emma"}, ["TextContent", "ResourceLink"], None),
    ],
)
def test_results_become_blocks_and_data(
    tool: str, arguments: Mapping[str, Any], kinds: list[str], data: Any
) -> None:
    result = called("results", tool, arguments)
    assert [type(block).__name__ for block in result.content] == kinds
    assert data in (..., result.raw.get("structuredContent"))


ADDRESS: Final = '{"street": "Rua 1", "town": "Porto"}'


@pytest.mark.parametrize(
    ("file", "tool", "arguments", "text"),
    [
        ("tools", "order", {"title": "Emma", "address": ADDRESS}, "1 of Emma go to Porto (PT)."),
        ("composition", "reviews_add", {"title": "Emma", "text": "Good."}, "1"),
        ("described", "forecast", {"city": "Oslo"}, '{"city":"Oslo","rain":[0.2]}'),
        ("tools", "pay", {"cents": 300}, "300"),
        ("tools", "count_stock", {}, "3"),
        ("lifespan", "visit", {}, "1"),
        ("context", "shout", {}, "SAY IT ONCE."),
    ],
)
def test_tools_answer_as_their_guide_says(
    file: str, tool: str, arguments: Mapping[str, Any], text: str
) -> None:
    assert called(file, tool, arguments).text == text


def test_tools_come_and_go() -> None:
    shop = app_of("tools")
    seen: list[str] = []
    with TestClient(
        shop.app, revision="2025-11-25", on_notification=lambda method, _: seen.append(method)
    ) as client:
        shop.end_of_season()
        names = {each.name for each in client.list_tools()}
    assert "sell_out" in names
    assert "order" not in names
    assert "notifications/tools/list_changed" in seen


# --- resources, prompts, context ------------------------------------------------------------------


def test_resources_are_read_and_watched() -> None:
    seen: list[Any] = []
    with TestClient(
        app_of("resources").app,
        revision="2025-11-25",
        on_notification=lambda method, params: seen.append((method, params.get("uri"))),
    ) as client:
        for uri, part in (("find?word=Re", '["Rest."]'), ("code/resources.py", "app.files(FOLDER")):
            (contents,) = client.read_resource(f"notes://{uri}")
            assert part in getattr(contents, "text", "")
        client.subscribe("notes://day/2026-07-30")
        client.call_tool("write", {"day": "2026-07-30", "text": "Read."})
        client.ping()
    assert ("notifications/resources/updated", "notes://day/2026-07-30") in seen
    with TestClient(app_of("resources").app) as client:
        assert client.request("resources/list")["ttlMs"] == 60_000


def test_prompts_and_their_completion() -> None:
    with TestClient(app_of("prompts").app) as client:
        of_core = client.complete("person", "a", prompt="hand_over", known={"team": "core"})
        of_all = client.complete("person", "", prompt="hand_over")
        language = client.complete("language", "ru", prompt="review")
        interview = client.get_prompt("interview", {"topic": "tea", "questions": "2"})
    assert of_core.values == ["ada", "alan"]
    assert len(of_all.values) == 4
    assert language.values == ["Rust"]
    assert [each.role for each in interview.messages] == ["user", "assistant"]


# --- asking ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (accept("double"), "A double room it is."),
        ({"action": "decline"}, "No room, then."),
        ({"action": "cancel"}, "Ask me again later."),
    ],
)
@pytest.mark.parametrize("revision", REVISIONS[2:])
def test_an_answer_is_one_of_three(answer: Mapping[str, Any], said: str, revision: str) -> None:
    result = called("asking", "book", revision=revision, elicitation=lambda question: answer)
    assert result.text == said


def test_two_questions_in_one_round() -> None:
    rounds: list[int] = []
    result = called(
        "asking",
        "look_around",
        elicitation=lambda question: accept("Ada"),
        roots=["/srv"],
        on_round=lambda number, asked: rounds.append(len(asked["inputRequests"])),
    )
    assert result.text == "Ada works in file:///srv."
    assert rounds == [2]


def test_a_form_and_a_choice_of_several() -> None:
    def answer(question: Mapping[str, Any]) -> Mapping[str, Any]:
        is_form = "Who" in question["message"]
        return accept({"name": "Ada", "nights": 3} if is_form else ["sauna"])

    result = called("asking", "check_in", elicitation=answer)
    assert result.text == "Ada stays 3 nights, with ['sauna']."


def test_the_model_answers_with_a_type() -> None:
    model = Model(speak('{"sender": "Ada", "cents": 1200}'))
    result = called("asking", "read_invoice", {"text": "…"}, sampling=model)
    assert result.data == {"sender": "Ada", "cents": 1200}


def test_the_model_calls_functions() -> None:
    model = Model(uses("rate", currency="USD"), speak("9 euros"))
    result = called("asking", "to_euros", {"text": "$10"}, sampling=model)
    assert result.text == "9 euros"


# --- over HTTP ------------------------------------------------------------------------------------


passes_a_socket = pytest.mark.skipif(sys.platform == "win32", reason="passes a socket on")


@passes_a_socket
@pytest.mark.parametrize("revision", REVISIONS)
def test_one_address_serves_every_revision(revision: str) -> None:
    with hosted_in(CODE, "http_server", "app") as url, calling(url, revision=revision) as client:
        assert "known as None" in client.call_tool("whoami").text
        assert client.call_tool("stock", {"item": "tea", "region": "us"}).text.endswith("in us.")


@passes_a_socket
def test_a_key_decides_on_what_its_owner_may_do() -> None:
    with hosted_in(CODE, "principals", "app") as url:
        for key, text in (
            ("k-ada", "ada has deleted plan."),
            ("k-bob", "You may not delete notes."),
            ("", "You may not delete notes."),
        ):
            with calling(url, {"X-Key": key}) as client:
                assert client.call_tool("delete_note", {"title": "plan"}).text == text


@passes_a_socket
def test_a_dependency_of_fastapi_runs_first() -> None:
    with hosted_in(CODE, "mount_depends", "api") as url:
        with calling(url, {"X-Tenant": "acme"}) as client:
            assert client.call_tool("tenant_name").text == "acme"
        assert httpx2.post(f"{url}/mcp", json={}, timeout=30).status_code == 401


@passes_a_socket
def test_an_app_beside_quart() -> None:
    with hosted_in(CODE, "mount_quart", "host") as url:
        with calling(url) as client:
            assert client.call_tool("hello").text == "Hello!"
        assert httpx2.get(url, timeout=30).text == "Quart is here."
