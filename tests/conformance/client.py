"""The client that the official conformance suite tests.

    conformance client --command "python tests/conformance/client.py" --scenario tools_call

The suite appends the URL of its server, and names the scenario in the environment.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Final
from urllib.parse import urlsplit

import anyio
import httpx2

from mcpkit import Client
from mcpkit.client.auth import ClientCredentials, HttpAuth, IdentityAssertion, JwtBearer, OAuth
from mcpkit.errors import SkillError

Params = Mapping[str, Any]
Scenario = Callable[[Client], Awaitable[None]]

SCENARIOS: Final[dict[str, Scenario]] = {}


def scenario(*names: str) -> Callable[[Scenario], Scenario]:
    """Register what is done in scenarios."""

    def register(function: Scenario) -> Scenario:
        SCENARIOS.update(dict.fromkeys(names, function))
        return function

    return register


@scenario("initialize", "json-schema-ref-no-deref")
async def look(client: Client) -> None:
    await client.list_tools()


@scenario("tools_call")
async def add(client: Client) -> None:
    await client.list_tools()
    await client.call_tool("add_numbers", {"a": 5, "b": 3})


@scenario("elicitation-sep1034-client-defaults", "sse-retry", "http-invalid-tool-headers")
async def call_what_is_listed(client: Client) -> None:
    for tool in await client.list_tools():
        arguments = dict.fromkeys(tool.input_schema.get("required", ()), "x")
        await client.call_tool(tool.name, arguments)


@scenario("request-metadata")
async def ask_twice(client: Client) -> None:
    await client.list_tools()
    await client.list_tools()


@scenario("sep-2322-client-request-state")
async def answer_rounds(client: Client) -> None:
    """What has nothing to do with the rounds is called while they are under way."""
    await client.list_tools()
    async with anyio.create_task_group() as group:
        for tool in ("echo_state", "no_state", "unrelated", "no_result_type"):
            group.start_soon(client.call_tool, f"test_mrtr_{tool}")
    await client.call_tool("test_mrtr_unrelated")


@scenario("http-standard-headers")
async def name_things(client: Client) -> None:
    for tool in await client.list_tools():
        await client.call_tool(tool.name)
    for resource in await client.list_resources():
        await client.read_resource(resource.uri)
    for prompt in await client.list_prompts():
        await client.get_prompt(prompt.name)


@scenario("http-custom-headers")
async def call_as_told(client: Client) -> None:
    await client.list_tools()
    context = json.loads(os.environ["MCP_CONFORMANCE_CONTEXT"])
    for call in context["toolCalls"]:
        await client.call_tool(call["name"], call["arguments"])


@scenario("json-schema-2020-12-preservation")
async def echo_the_schema(client: Client) -> None:
    tools = {tool.name: tool for tool in await client.list_tools()}
    schema = tools["json_schema_2020_12_tool"].input_schema
    await client.call_tool("json_schema_echo", {"schema": schema})


@scenario("sep-2640-client-no-prefetch")
async def look_at_skills(client: Client) -> None:
    assert await client.skills()


@scenario(*(f"sep-2640-client-verify-{each}" for each in ("digest", "size", "frontmatter")))
async def use_skills(client: Client) -> None:
    for skill in await client.skills():
        with suppress(SkillError):
            for path in skill.files or ():
                await client.read_skill(skill, path)


def accept_defaults(params: Params) -> Params:
    """A user who takes what the form suggests."""
    properties: Params = params["requestedSchema"]["properties"]
    content = {name: each.get("default", True) for name, each in properties.items()}
    return {"action": "accept", "content": content}


def speak(params: Params) -> Params:
    content = {"type": "text", "text": "Hello"}
    return {"role": "assistant", "content": content, "model": "none", "stopReason": "endTurn"}


# --- authorization --------------------------------------------------------------------------------


async def follow(url: str) -> None:
    """The browser of a user who has logged in before, and always says yes."""
    async with httpx2.AsyncClient(follow_redirects=True) as browser:
        await browser.get(url)


def issuer_of(url: str) -> str | None:
    """The issuer that knows the client: the suite has it on a port of its own."""
    server = urlsplit(url)
    for path in (server.path, ""):
        place = f"{server.scheme}://{server.netloc}/.well-known/oauth-protected-resource{path}"
        found = httpx2.get(place)
        if found.is_success:
            issuers: list[str] = found.json()["authorization_servers"]
            return issuers[0]
    return None


def auth_for(name: str, url: str) -> HttpAuth | None:
    """How a scenario gets its tokens."""
    if not name.startswith("auth/"):
        return None
    context: dict[str, Any] = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    id, secret = context.get("client_id"), context.get("client_secret")
    issuer = issuer_of(url) if secret or "valid_jwt" in context else None
    if "private_key_pem" in context:
        algorithm = context["signing_algorithm"]
        key = context["private_key_pem"]
        return ClientCredentials(str(id), private_key=key, algorithm=algorithm)
    if name == "auth/client-credentials-basic":
        return ClientCredentials(str(id), secret, issuer=issuer)
    if "valid_jwt" in context:
        return JwtBearer(str(id), context["valid_jwt"], issuer=issuer)
    if "idp_id_token" in context:
        return IdentityAssertion(
            str(id),
            secret,
            id_token=context["idp_id_token"],
            provider_token_endpoint=context["idp_token_endpoint"],
            provider_client_id=context["idp_client_id"],
            issuer=issuer,
        )
    document = "https://conformance-test.local/client-metadata.json"
    return OAuth(
        client_id=id,
        client_secret=secret,
        client_document=document,
        issuer=issuer,
        show=follow,
        timeout=20,
    )


async def main(url: str) -> None:
    name = os.environ["MCP_CONFORMANCE_SCENARIO"]
    async with Client(
        url,
        name="mcpkit-conformance",
        version="1",
        elicitation=accept_defaults,
        sampling=speak,
        roots=["file:///test/root"],
        auth=auth_for(name, url),
    ) as client:
        await SCENARIOS.get(name, call_what_is_listed)(client)


if __name__ == "__main__":
    anyio.run(main, sys.argv[-1])
