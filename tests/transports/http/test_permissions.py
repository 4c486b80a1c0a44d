"""Permissions: scopes, those that imply others, predicates, and claims as parameters."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import anyio
import pytest

import mcpkit
from mcpkit import Claim, Context, Depends, MCPKit, Principal, RegistrationError
from mcpkit.auth.verifiers import Verifier
from mcpkit.errors import AccessDenied, Forbidden
from mcpkit.tasks.record import Task
from mcpkit.tasks.service import TaskService
from mcpkit.testing import TestClient
from tests.kit import eventually
from tests.messages import called, request
from tests.transports.http.wire import TASKS, Exchange, Host, Site

SCOPES = {"files": ["files:read", "files:write"], "everything": ["files", "users"]}


class Known(Verifier):
    """Takes a token for a name and the scopes in it: ``ann~files_read~users``."""

    authorization_servers = ("https://login.example.com",)

    async def verify(self, token: str, resource: str | None) -> Principal | None:
        name, *scopes = token.replace("_", ":").split("~")  # no token has a colon
        claims = {"tenant": "acme", "groups": ["a", "b"], "level": "7"} if name == "ann" else {}
        return Principal(name, frozenset(scopes), time.time() + 3600, claims)


def who(name: str, *scopes: str) -> dict[str, str]:
    token = "~".join([name, *scopes]).replace(":", "_")
    return {"Authorization": f"Bearer {token}"}


def may_write(principal: Principal, arguments: Any) -> bool:
    if arguments["path"] == "locked":
        raise AccessDenied("This file is locked")
    found: bool = arguments["path"].startswith(principal.id)
    return found


async def may_read(principal: Principal, arguments: Any) -> bool:
    await anyio.sleep(0)
    return bool(arguments["name"] == principal.id)


async def people(typed: str) -> list[str]:
    return ["ann", "bob"]


def make_app(**options: Any) -> MCPKit[None]:
    app: MCPKit[None] = MCPKit("files", **{"auth": Known(), "scope_hierarchy": SCOPES, **options})

    @app.tool
    async def free() -> str:
        return "free"

    @app.tool(scopes=["files:read"])
    async def read(path: str) -> str:
        return path

    @app.tool(scopes=["files:write", "users"], allow=may_write)
    async def write(path: str, size: int = 0) -> str:
        return f"{path} {size}"

    @app.resource("files://root", scopes=["files:read"])
    async def root() -> str:
        return "root"

    @app.resource("files://of/{name}", scopes=["files:read"], allow=may_read)
    async def of(name: str) -> str:
        return name

    @app.resource("files://{+path}")
    async def anything(path: str) -> str:
        return "anything"

    @app.prompt(scopes=["users"])
    async def greet(name: Annotated[str, mcpkit.Complete(people)]) -> str:
        return name

    return app


@pytest.fixture
def site(host: Host) -> Site:
    return host.serve(make_app())


def names(answer: Exchange, member: str = "tools") -> list[str]:
    return [each["name"] for each in answer.result[member]]


def task_text(site: Site, id: str, headers: dict[str, str]) -> str:
    """What a tool has returned as text, once its task is completed."""
    found = eventually(
        lambda: site.ask("tasks/get", {**headers, "Mcp-Name": id}, taskId=id, _meta=TASKS).result,
        lambda found: bool(found["status"] == "completed"),
    )
    text: str = found["result"]["content"][0]["text"]
    return text


# --- lists ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scopes", "tools", "prompts"),
    [
        ([], ["free"], []),
        (["files:read"], ["free", "read"], []),
        (["files:write"], ["free"], []),
        (["users"], ["free"], ["greet"]),
        (["files"], ["free", "read"], []),
        (["files:write", "users"], ["free", "write"], ["greet"]),
        (["everything"], ["free", "read", "write"], ["greet"]),
    ],
    ids=str,
)
def test_lists_have_only_permitted_entries(
    site: Site, scopes: list[str], tools: list[str], prompts: list[str]
) -> None:
    """AUTH-7, DISC-1."""
    for _ in range(2):
        assert names(site.ask("tools/list", who("bob", *scopes))) == tools
        assert names(site.ask("prompts/list", who("bob", *scopes)), "prompts") == prompts
    found = names(site.ask("resources/list", who("bob", *scopes)), "resources")
    assert found == (["root"] if "read" in tools else [])
    capabilities = site.ask("server/discover", who("bob", *scopes)).result["capabilities"]
    assert {"tools", "prompts", "resources"} <= capabilities.keys(), (
        "a client that lacks some may get them"
    )


def test_what_depends_on_the_caller_is_not_cached_for_others(host: Host) -> None:
    """CACHE-4."""
    site = host.serve(make_app(cache_scope="public", cache_ttl=60))
    result = site.ask("tools/list", who("bob")).result
    assert (result["cacheScope"], result["ttlMs"]) == ("private", 60_000)
    for uri, scope in (("files://root", "private"), ("files://x", "public")):
        read = site.ask("resources/read", who("bob", "files"), uri=uri)
        assert read.result["cacheScope"] == scope


# --- calls ----------------------------------------------------------------------------------------

FORBIDDEN: dict[str, tuple[str, dict[str, Any], str]] = {
    "tool": ("tools/call", called("read", {"path": "a"}), "files:read"),
    "tool that needs two": ("tools/call", called("write", {"path": "a"}), "files:write users"),
    "resource": ("resources/read", {"uri": "files://root"}, "files:read"),
    "template": ("resources/read", {"uri": "files://of/bob"}, "files:read"),
    "prompt": ("prompts/get", {"name": "greet", "arguments": {"name": "a"}}, "users"),
    "completion": (
        "completion/complete",
        {"ref": {"type": "ref/prompt", "name": "greet"}, "argument": {"name": "name", "value": ""}},
        "users",
    ),
    "subscription": (
        "subscriptions/listen",
        {"notifications": {"resourceSubscriptions": ["files://root"]}},
        "files:read",
    ),
}


@pytest.mark.parametrize("what", FORBIDDEN)
def test_a_caller_without_a_scope_learns_which_one_is_missing(site: Site, what: str) -> None:
    """AUTH-6, AUTH-12: one challenge with all that are needed."""
    method, params, scopes = FORBIDDEN[what]
    answer = site.ask(method, who("bob", "other"), **params)
    assert (answer.status, answer.code, answer.json["id"]) == (403, -32600, 1)
    said = answer.challenge
    assert said.startswith(f'Bearer error="insufficient_scope", scope="{scopes}", ')
    assert "resource_metadata=" in said


def test_the_same_goes_for_a_caller_in_a_session(site: Site) -> None:
    """AUTH-6."""
    talk = site.begin(headers=who("bob"))
    message = request(7, "tools/call", called("read", {"path": "a"}))
    answer = talk.post(message, who("bob"))
    assert (answer.status, answer.json["id"]) == (403, 7)
    assert 'scope="files:read"' in answer.challenge
    assert talk.post(message, who("bob", "files")).text == "a", "with a better token it goes on"


def test_an_anonymous_caller_has_no_scopes(host: Host) -> None:
    """AUTH-12: and has to log in."""
    site = host.serve(make_app(auth=None), principal=lambda http: None)
    assert names(site.ask("tools/list")) == ["free"]
    answer = site.ask("tools/call", **called("read", {"path": "a"}))
    assert (answer.status, answer.challenge) == (401, 'Bearer scope="files:read"')


# --- predicates -----------------------------------------------------------------------------------


def test_a_predicate_decides_by_principal_and_arguments(site: Site) -> None:
    """AUTH-12."""
    ann = who("ann", "everything")
    call = called("write", {"path": "ann/a", "size": "3"})
    assert site.ask("tools/call", ann, **call).text == "ann/a 3"
    for path, says in {
        "bob/a": "You may not use write with these arguments",
        "locked": "This file is locked",
    }.items():
        answer = site.ask("tools/call", ann, **called("write", {"path": path}))
        assert (answer.status, answer.code) == (403, -32600)
        assert answer.error == says
        assert answer.challenge == ""
    assert site.ask("resources/read", ann, uri="files://of/ann").result["contents"][0]["text"]
    assert site.ask("resources/read", ann, uri="files://of/bob").status == 403


def test_a_task_is_allowed_before_it_begins(host: Host) -> None:
    """SEC-9: also where the task is made before anything is asked (2025-11-25)."""
    app = MCPKit("files", auth=Known())

    @app.tool(task="optional", allow=lambda principal, arguments: arguments["path"] == "own")
    async def read(path: str, tenant: Annotated[str, Claim("tenant")], ctx: Context) -> str:
        assert ctx.principal is not None
        return f"{ctx.principal.id} of {tenant} reads {path}"

    site, ann = host.serve(app), who("ann")
    call = called("read", {"path": "own"})
    begun = site.ask("tools/call", ann, **call, _meta=TASKS).result
    assert task_text(site, begun["taskId"], ann) == "ann of acme reads own"
    other = called("read", {"path": "other"})
    assert site.ask("tools/call", ann, **other, _meta=TASKS).status == 403
    talk = site.begin("2025-11-25", ann)
    for params, status in ((call, 200), (other, 403)):
        message = request(status, "tools/call", {**params, "task": {}})
        assert talk.post(message, ann).status == status
    message = request("x", "tools/call", {**called("read", {}), "task": {}})
    assert talk.post(message, ann).code == -32602


def test_a_predicate_allows_no_caller_who_is_not_authenticated(host: Host) -> None:
    app: MCPKit[None] = MCPKit("open")

    @app.tool(allow=lambda principal, arguments: True)
    async def read() -> str:
        return "read"

    answer = host.serve(app).ask("tools/call", **called("read", {}))
    assert (answer.status, answer.error) == (401, "Authentication required for read")


def test_completions_are_those_a_predicate_allows(host: Host) -> None:
    """AUTH-12: as far as it can be asked without the other arguments."""
    app = MCPKit("files", auth=Known())

    @app.resource("files://of/{name}", allow=may_read)
    async def of(name: Annotated[str, mcpkit.Complete(people)]) -> str:
        return name

    @app.prompt(allow=may_read)
    async def greet(name: Annotated[str, mcpkit.Complete(people)], tone: str) -> str:
        return name + tone

    site = host.serve(app)

    def suggested(ref: dict[str, str], **context: Any) -> list[str]:
        argument = {"name": "name", "value": ""}
        answer = site.ask("completion/complete", who("bob"), ref=ref, argument=argument, **context)
        values: list[str] = answer.result["completion"]["values"]
        return values

    assert suggested({"type": "ref/resource", "uri": "files://of/{name}"}) == ["bob"]
    prompt = {"type": "ref/prompt", "name": "greet"}
    assert suggested(prompt) == []
    assert suggested(prompt, context={"arguments": {"tone": "kind"}}) == ["bob"]


@pytest.mark.parametrize("is_async", [False, True])
def test_a_caller_that_may_not_read_is_not_notified_of_changes(host: Host, is_async: bool) -> None:
    """SEC-7: a predicate is asked about each resource that a caller subscribes to."""
    app = MCPKit("files", auth=Known())

    @app.resource(
        "files://of/{name}", allow=may_read if is_async else lambda p, a: p.id == a["name"]
    )
    async def of(name: str) -> str:
        return name

    site = host.serve(app)
    for name, status in (("bob", 200), ("ann", 403)):
        wanted = {"resourceSubscriptions": ["files://of/bob"]}
        answer = site.ask("subscriptions/listen", who(name), notifications=wanted)
        assert answer.status == status
        talk = site.begin(headers=who(name))
        message = request(1, "resources/subscribe", {"uri": "files://of/bob"})
        assert talk.post(message, who(name)).status == status
    listening = site.ask("subscriptions/listen", who("bob"), notifications=wanted)
    assert listening.message()["method"] == "notifications/subscriptions/acknowledged"
    app.notify_resource_updated("files://of/bob")
    assert listening.message()["method"] == "notifications/resources/updated"


def test_a_session_is_notified_as_its_last_token_permits(site: Site) -> None:
    """SEC-7, AUTH-17: a token with fewer scopes does not get what an earlier one was for."""
    talk = site.begin(headers=who("bob", "files"))
    for uri in ("files://root", "files://x"):
        subscribed = talk.post(request(1, "resources/subscribe", {"uri": uri}), who("bob", "files"))
        assert subscribed.status == 200
    stream = talk.get(headers=who("bob", "files"))
    assert stream.status == 200

    def updated_after(*scopes: str) -> str:
        assert talk.post(request(2, "ping"), who("bob", *scopes)).status == 200
        for uri in ("files://root", "files://x"):
            site.app.notify_resource_updated(uri)
        message = stream.message()
        assert message["method"] == "notifications/resources/updated"
        return str(message["params"]["uri"])

    assert updated_after("other") == "files://x"
    assert updated_after("files:read") == "files://root"


def test_a_task_reads_only_what_its_caller_may_read(host: Host) -> None:
    """AUTH-17: scopes and predicates hold for what a handler reads, in a task as elsewhere."""
    app = make_app()

    @app.tool(task="optional")
    async def copy(uri: str, ctx: Context) -> str:
        try:
            return str((await ctx.read_resource(uri))[0].text)  # type: ignore[union-attr]
        except Forbidden as error:
            return type(error).__name__

    site = host.serve(app)

    def copied(uri: str, headers: dict[str, str], meta: Any) -> str:
        answer = site.ask("tools/call", headers, **called("copy", {"uri": uri}), _meta=meta)
        return task_text(site, answer.result["taskId"], headers) if meta else answer.text

    for each in ({}, TASKS):
        assert copied("files://root", who("bob", "files"), each) == "root"
        assert copied("files://root", who("bob"), each) == "Forbidden"
        assert copied("files://of/bob", who("bob", "files"), each) == "bob"
        assert copied("files://of/ann", who("bob", "files"), each) == "Forbidden"


@pytest.mark.parametrize("needs", ["a scope", "the consent of a predicate"])
@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_a_task_is_for_callers_of_its_tool_only(
    host: Host, needs: str, revision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AUTH-17: a token of its owner for less can neither see, nor answer, nor cancel it.

    Nor when it is over. For scopes, no stored call is opened.
    """
    opened: list[str] = []
    call_of = TaskService.call_of

    def note(self: TaskService, task: Task) -> Any:
        opened.append(task.id)
        return call_of(self, task)

    monkeypatch.setattr(TaskService, "call_of", note)

    def is_full(principal: Principal, arguments: Any) -> bool:
        return bool(arguments["path"] == "own" and "files:write" in principal.scopes)

    app = MCPKit("files", auth=Known())
    app.tool(scopes=["more"], name="other")(may_write)
    options: Any = {"scopes": ["files:write"]} if needs == "a scope" else {"allow": is_full}

    @app.tool(task="optional", **options)
    async def write(path: str) -> None:
        await anyio.sleep_forever()

    site, full, less = host.serve(app), who("ann", "files:write"), who("ann", "files:read")
    call = called("write", {"path": "own"})
    if revision == "2026-07-28":
        id = site.ask("tools/call", full, **call, _meta=TASKS).result["taskId"]
        named = {"Mcp-Name": id}

        def ask(headers: dict[str, str], method: str, **params: Any) -> Exchange:
            return site.ask(method, {**headers, **named}, taskId=id, _meta=TASKS, **params)

        assert ask(less, "tasks/update", inputResponses={}).status == 403
        wanted = {"taskIds": [id]}
        refused, heard = (
            site.ask("subscriptions/listen", each, notifications=wanted, _meta=TASKS)
            for each in (less, full)
        )
        for each in (refused, heard):
            assert each.message()["method"] == "notifications/subscriptions/acknowledged"
        assert heard.message()["method"] == "notifications/tasks"
        assert ask(full, "tasks/cancel").status == 200
        assert heard.message()["params"]["status"] == "cancelled"
    else:
        talk = site.begin(revision, full)
        begun = talk.post(request(1, "tools/call", {**call, "task": {}}), full)
        id = begun.result["task"]["taskId"]

        def ask(headers: dict[str, str], method: str, **params: Any) -> Exchange:
            return talk.post(request(2, method, {"taskId": id, **params}), headers)

        assert ask(less, "tasks/result").status == 403
        for headers, count in ((less, 0), (full, 1)):
            assert len(ask(headers, "tasks/list").result["tasks"]) == count
    for method in ("tasks/get", "tasks/cancel"):
        assert ask(less, method).status == 403
    assert ask(full, "tasks/get").status == 200
    ran = 1  # which needs the call
    assert (len(opened) > ran) == (needs != "a scope")


@pytest.mark.parametrize("waits", [True, False], ids=["while it is awaited", "later"])
def test_who_may_not_call_a_tool_may_not_answer_its_task(host: Host, waits: bool) -> None:
    """AUTH-17: the answer is a POST of its own (2025-11-25), whose token may be for less."""
    app: MCPKit[None] = MCPKit("files", auth=Known())

    @app.tool(task="optional", scopes=["files:write"])
    async def ask(ctx: Context) -> str:
        return type(await ctx.elicit("Sure?", bool)).__name__

    site, full, less = host.serve(app), who("ann", "files:write"), who("ann", "files:read")
    talk = site.begin(headers=full, capabilities={"elicitation": {}})
    begun = talk.post(request(1, "tools/call", {**called("ask", {}), "task": {}}), full)
    task = {"taskId": begun.result["task"]["taskId"]}
    awaited = talk.post(request(2, "tasks/result", task), full)
    question = awaited.question()
    if not waits:
        awaited.drop()
    answer = {"jsonrpc": "2.0", "id": question["id"], "result": {"action": "decline"}}
    refused = talk.post(answer, less)
    assert refused.status == 403
    assert "files:write" in refused.error
    assert 'scope="files:write"' in refused.challenge
    assert talk.post(request(3, "tasks/get", task), full).result["status"] == "input_required"
    assert talk.post(answer, full).status == 202
    assert talk.post(request(4, "tasks/result", task), full).text == "Declined"


# --- where scopes mean nothing --------------------------------------------------------------------


def test_without_http_scopes_and_predicates_mean_nothing_and_there_are_no_claims() -> None:
    with TestClient(make_app()) as client:
        assert [each.name for each in client.list_tools()] == ["free", "read", "write"]
        assert client.call_tool("write", {"path": "any"}).text == "any 0"
    with TestClient(with_claims()) as client:
        assert client.call_tool("optional").text == "None"
        with pytest.raises(mcpkit.ProtocolError, match="Authentication required"):
            client.call_tool("in_thread")


# --- included scopes ------------------------------------------------------------------------------


class Marked:
    @mcpkit.tool
    def plain(self) -> str:
        return "plain"

    @mcpkit.tool(scopes=["more"])
    def special(self) -> str:
        return "special"


def scopes_in(app: MCPKit[Any]) -> dict[str, tuple[str, ...]]:
    return {name: tool.scopes for name, tool in app.server.registry.tools.items()}


def test_all_that_is_included_needs_the_scopes() -> None:
    app: MCPKit[None] = MCPKit("all")
    app.include(Marked(), scopes=["some"])
    assert scopes_in(app) == {"plain": ("some",), "special": ("some", "more")}
    outer: MCPKit[None] = MCPKit("outer")
    outer.include(app, prefix="x", scopes=["outer"])
    assert scopes_in(outer) == {
        "x_plain": ("outer", "some"),
        "x_special": ("outer", "some", "more"),
    }

    @app.tool
    def later() -> str:
        return "later"

    assert scopes_in(outer)["x_later"] == ("outer",)
    assert scopes_in(app)["later"] == ()


def test_files_may_need_scopes(host: Host, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    app = MCPKit("files", auth=Known())
    app.files(tmp_path, "files://all", scopes=["read"])
    site = host.serve(app)
    assert names(site.ask("resources/list", who("bob")), "resources") == []
    assert names(site.ask("resources/list", who("bob", "read")), "resources") == ["a.txt"]
    read = {"uri": "files://all/a.txt"}
    assert site.ask("resources/read", who("bob"), **read).status == 403
    assert site.ask("resources/read", who("bob", "read"), **read).status == 200


def test_what_an_included_app_says_of_access_is_not_lost() -> None:
    outer: MCPKit[None] = MCPKit("outer")
    with pytest.raises(RegistrationError, match="it has auth="):
        outer.include(MCPKit("inner", auth=Known()))
    with pytest.raises(RegistrationError, match="scope_hierarchy="):
        outer.include(MCPKit("inner", scope_hierarchy=SCOPES))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"scopes": "files"}, "must be a list"),
        ({"scopes": ["a b"]}, "not a scope"),
        ({"scopes": ["offline_access"]}, "offline_access"),
        ({"scopes": 7}, "not iterable"),
        ({"allow": True}, "a function of a principal"),
        ({"allow": lambda principal: True}, "a function of a principal"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: Any, says: str) -> None:
    """SEC-18."""

    def fn() -> str:
        return ""

    with pytest.raises(RegistrationError, match=says):
        MCPKit("files").add_tool(fn, **options)


def test_scopes_that_imply_others_are_scopes_and_may_form_circles() -> None:
    """AUTH-7."""
    for wrong, says in (({"a b": ["c"]}, "not a scope"), ({"a": "b c"}, "must be a list")):
        with pytest.raises(ValueError, match=says):
            MCPKit("files", scope_hierarchy=wrong)
    app = MCPKit("files", scope_hierarchy={"a": ["b"], "b": ["a", "c"]})
    assert app.server.settings.scope_hierarchy.held(frozenset({"a"})) == {"a", "b", "c"}


def test_a_handler_may_refuse_and_a_predicate_that_fails_allows_nothing(host: Host) -> None:
    """SEC-18: what it says stands in no header unless it is a scope."""
    app = MCPKit("files", auth=Known())

    @app.tool
    async def write() -> str:
        raise Forbidden("Too late", scopes=["later", 'x"\r\nSet-Cookie: a=b'])

    def broken(principal: Principal, arguments: Any) -> bool:
        raise RuntimeError("the password is swordfish")

    app.add_tool(write, name="guarded", allow=broken)
    site = host.serve(app)
    answer = site.ask("tools/call", who("ann"), **called("write", {}))
    assert (answer.status, answer.error) == (403, "Too late")
    assert 'scope="later"' in answer.challenge
    assert answer.header("set-cookie") is None
    answer = site.ask("tools/call", who("ann"), **called("guarded", {}))
    assert answer.result["isError"], "which does not come from the handler"
    assert b"swordfish" not in answer.body


# --- claims ---------------------------------------------------------------------------------------


def with_claims() -> MCPKit[None]:
    app: MCPKit[None] = MCPKit("claims", auth=Known())

    def tenant_of(tenant: Annotated[str, Claim("tenant")]) -> str:
        return tenant.upper()

    @app.tool
    async def show(
        text: str,
        tenant: Annotated[str, Claim("tenant")],
        groups: Annotated[list[str], Claim("groups")],
        level: Annotated[int, Claim("level")],
        loud: Annotated[str, Depends(tenant_of)],
        color: Annotated[str, Claim("color")] = "red",
    ) -> str:
        return f"{text} {tenant} {groups} {level} {loud} {color}"

    @app.tool
    def in_thread(tenant: Annotated[str, Claim("tenant")]) -> str:
        return tenant

    @app.tool
    async def wrong(tenant: Annotated[int, Claim("tenant")]) -> str:
        return str(tenant)

    @app.tool
    async def optional(tenant: Annotated[str | None, Claim("tenant")] = None) -> str:
        return str(tenant)

    return app


@pytest.fixture
def claims(host: Host) -> Site:
    return host.serve(with_claims())


def test_claims_are_parameters_that_clients_cannot_send(claims: Site) -> None:
    """SEC-15."""
    answer = claims.ask("tools/call", who("ann"), **called("show", {"text": "hi"}))
    assert answer.text == "hi acme ['a', 'b'] 7 ACME red"
    assert claims.ask("tools/call", who("ann"), **called("in_thread", {})).text == "acme"
    tools = claims.ask("tools/list", who("bob")).result["tools"]
    parameters = [list(each["inputSchema"].get("properties", {})) for each in tools]
    assert parameters == [["text"], [], [], []]
    forged = called("optional", {"tenant": "evil"})
    assert "evil" not in claims.ask("tools/call", who("bob"), **forged).text


def test_a_claim_that_is_missing_or_does_not_fit_is_a_refusal(claims: Site) -> None:
    """AUTH-12, SEC-13: which does not show it."""
    answer = claims.ask("tools/call", who("bob"), **called("in_thread", {}))
    message = "Your token does not have the claim 'tenant'"
    assert (answer.status, answer.error) == (403, message)
    assert claims.ask("tools/call", who("bob"), **called("optional", {})).text == "None"
    answer = claims.ask("tools/call", who("ann"), **called("wrong", {}))
    assert answer.status == 403
    assert b"acme" not in answer.body
