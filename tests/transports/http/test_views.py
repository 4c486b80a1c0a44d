"""Views: which entries a request sees, by what the app chooses from its caller."""

from __future__ import annotations

from typing import Any

import pytest

from mcpkit import Caller, Context, MCPKit, ProtocolError, RegistrationError
from mcpkit.errors import Forbidden
from mcpkit.testing import REVISIONS, TestClient
from tests.kit import Recorder
from tests.transports.http.test_permissions import Known, names, who
from tests.transports.http.wire import Host

every_revision = pytest.mark.parametrize("revision", REVISIONS)


def toolsets_of(caller: Caller) -> frozenset[str] | None:
    text = None if caller.http is None else caller.http.headers.get("x-toolsets")
    return None if text is None else frozenset(text.split(","))


def of_toolset(entry: Any, toolsets: frozenset[str] | None) -> bool:
    return toolsets is None or not toolsets.isdisjoint(entry.tags)


def make_app(**options: Any) -> MCPKit[None]:
    app: MCPKit[None] = MCPKit("views", **options)
    for name in ("issues", "repos"):
        app.add_tool(lambda: "called", name=name, tags=[name])
        app.add_prompt(lambda: "got", name=f"{name}-prompt", tags=[name])
        app.add_resource(lambda: "read", f"x://{name}", name=f"{name}-resource", tags=[name])
        app.add_resource(at, f"{name}://{{path}}", name=f"{name}-template", tags=[name])
    return app


def at(path: str) -> str:
    return path


def only(*chosen: str) -> dict[str, str]:
    return {"X-Toolsets": ",".join(chosen)}


def test_requests_see_and_use_what_they_have_chosen(host: Host) -> None:
    app = make_app()
    app.view(toolsets_of)(of_toolset)
    site = host.serve(app)
    lists = {
        "tools": "tools/list",
        "prompts": "prompts/list",
        "resources": "resources/list",
        "resourceTemplates": "resources/templates/list",
    }
    for member, method in lists.items():
        assert len(names(site.ask(method), member)) == 2
        [found] = names(site.ask(method, only("issues")), member)
        assert found.startswith("issues")
        assert site.ask(method, only("issues")).result["cacheScope"] == "private"
        assert names(site.ask(method, only("none")), member) == []
    uses: list[tuple[str, dict[str, Any]]] = [
        ("tools/call", {"name": "repos"}),
        ("prompts/get", {"name": "repos-prompt"}),
        ("resources/read", {"uri": "x://repos"}),
        ("resources/read", {"uri": "repos://a"}),
    ]
    for method, params in uses:
        assert "result" in site.ask(method, only("issues", "repos"), **params).json
        missing = site.ask(method, only("issues"), **params).json["error"]
        assert missing["code"] == -32602, "as if there were none"


def test_what_is_added_later_is_judged_too(host: Host) -> None:
    app = make_app()
    app.view(toolsets_of)(of_toolset)
    site = host.serve(app)
    assert names(site.ask("tools/list", only("issues")), "tools") == ["issues"]
    app.add_tool(lambda: 1, name="later", tags=["issues"])
    assert names(site.ask("tools/list", only("issues")), "tools") == ["issues", "later"]


def test_views_and_scopes_apply_together(host: Host) -> None:
    app = make_app(auth=Known())
    app.add_tool(lambda: 1, name="secret", tags=["issues"], scopes=["admin"])
    app.view(toolsets_of)(of_toolset)

    @app.view(lambda caller: caller.principal and caller.principal.id)
    def of_person(entry: Any, name: str | None) -> bool:
        return name != "bob" or entry.name != "issues"

    site = host.serve(app)

    def seen(*scopes: str, name: str = "ann") -> list[str]:
        return names(site.ask("tools/list", {**who(name, *scopes), **only("issues")}), "tools")

    assert seen() == ["issues"]
    assert seen("admin") == ["issues", "secret"]
    assert seen("admin", name="bob") == ["secret"]
    assert site.ask("tools/call", who("ann"), name="secret").status == 403


@every_revision
def test_the_verdicts(revision: str) -> None:
    app = make_app()

    @app.view(lambda caller: caller.client.info is not None)
    def judge(entry: Any, choice: object) -> Any:
        return "unlisted" if entry.name == "issues" else entry.name != "repos"

    @app.view(lambda caller: None)
    def refuse(entry: Any, choice: object) -> Any:
        return Forbidden("Not on Sundays") if entry.listing == "prompts" else True

    with TestClient(app, revision=revision) as client:
        assert client.list_tools() == []
        assert client.call_tool("issues").text == "called"
        with pytest.raises(ProtocolError, match="Unknown tool: repos"):
            client.call_tool("repos")
        assert client.list_prompts() == []
        with pytest.raises(ProtocolError, match="Not on Sundays"):
            client.get_prompt("issues-prompt")


@pytest.mark.parametrize("fails", ["choose", "judge", "key"])
def test_what_fails_shows_nothing_and_the_connection_lives(fails: str) -> None:
    app, broken = make_app(), [True]

    def choose(caller: Caller) -> Any:
        if broken[0] and fails == "choose":
            raise ValueError("secret")
        return {} if broken[0] and fails == "key" else fails

    @app.view(choose)
    def judge(entry: Any, choice: str) -> bool:
        if broken[0] and fails == "judge":
            raise ValueError("secret")
        return True

    with TestClient(app) as client:
        for method, params in (("tools/list", {}), ("tools/call", {"name": "issues"})):
            with pytest.raises(ProtocolError) as caught:
                client.request(method, params)
            assert caught.value.code == -32603
            assert "secret" not in str(caught.value)
        broken[0] = False
        assert len(client.list_tools()) == 2


def test_a_choice_is_made_for_each_request_and_judged_once() -> None:
    app, choices, judged = make_app(), Recorder(), Recorder()

    def choose(caller: Caller) -> str:
        choices(caller.client.info and caller.client.info.name)
        return "same"

    @app.view(choose)
    def judge(entry: Any, choice: str) -> bool:
        judged(entry.name)
        return True

    with TestClient(app, name="me") as client:
        for _ in range(3):
            client.list_tools()
    assert choices.calls[-3:] == ["me"] * 3
    assert judged.calls == ["issues", "repos"]


def test_questions_go_on_in_the_view_of_their_caller() -> None:
    app = make_app()

    @app.tool(tags=["issues"])
    async def ask(ctx: Context[Any]) -> str:
        answer = await ctx.elicit("Sure?", bool)
        return str(answer.data)

    @app.view(lambda caller: "issues")
    def judge(entry: Any, choice: str) -> bool:
        return choice in entry.tags

    with TestClient(
        app, elicitation=lambda request: {"action": "accept", "content": {"value": True}}
    ) as client:
        assert client.call_tool("ask").text == "True"


async def choose_async(caller: Caller) -> None: ...


async def judge_async(entry: Any, choice: Any) -> bool:
    return True


def test_what_is_no_view_is_refused() -> None:
    app = make_app()
    for choose in (choose_async, lambda: None):
        with pytest.raises(RegistrationError, match="takes a plain function of the caller"):
            app.view(choose)  # type: ignore[arg-type]
    for judge in (judge_async, lambda entry: True):
        with pytest.raises(RegistrationError, match="not a plain function of an entry and of a"):
            app.view(lambda caller: None)(judge)  # type: ignore[type-var]
    inner = make_app()
    inner.view(toolsets_of)(of_toolset)
    with pytest.raises(RegistrationError, match="it has views; give that to the app"):
        MCPKit("outer").include(inner)
