"""The server that the official conformance suite tests: its tools, prompts and resources.

Names, texts and keys are the suite's. Every handler is written once, and serves each revision.

    python tests/conformance/server.py --port 8000
    mcpkit run tests/conformance/server.py --http --port 8000
"""

from __future__ import annotations

import argparse
import base64
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import anyio
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from mcpkit import (
    Accepted,
    Audio,
    Choices,
    Complete,
    Context,
    Elicit,
    Elicitation,
    EmbeddedResource,
    Image,
    MCPKit,
    Message,
    MirroredHeader,
    ProtocolError,
    Root,
    Roots,
    Sample,
    TextResourceContents,
    ToolError,
    UserMessage,
)

PNG: Final = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR42mNoAAAAggCB2kUIOwAAAABJRU5ErkJggg=="
)
"""One grey pixel."""

WAV: Final = (
    b"RIFF\x28\x00\x00\x00WAVE"
    b"fmt \x10\x00\x00\x00\x01\x00\x01\x00\x40\x1f\x00\x00\x40\x1f\x00\x00\x01\x00\x08\x00"
    b"data\x04\x00\x00\x00\x80\x80\x80\x80"
)
"""Four samples of silence."""

SHORT_WORK: Final = 0.05
"""Seconds between two reports of a tool."""

app = MCPKit("conformance", version="1.0.0", cache_ttl=60, cache_scope="public")
app.skills(Path(__file__).with_name("skills"))


def embedded(uri: str, mime_type: str, text: str) -> EmbeddedResource:
    return EmbeddedResource(TextResourceContents(uri, text, mime_type=mime_type))


# --- what a tool may return -----------------------------------------------------------------------


@app.tool
def test_simple_text() -> str:
    """Return a text. The suite calls the first tool of the list without arguments."""
    return "This is a simple text response for testing."


@app.tool
def test_image_content() -> Image:
    """Return a picture."""
    return Image(PNG)


@app.tool
def test_audio_content() -> Audio:
    """Return a sound."""
    return Audio(WAV)


@app.tool
def test_embedded_resource() -> EmbeddedResource:
    """Return a resource inside the result."""
    text = "This is an embedded resource content."
    return embedded("test://embedded-resource", "text/plain", text)


@app.tool
def test_multiple_content_types() -> list[str | Image | EmbeddedResource]:
    """Return a text, a picture and a resource."""
    data = embedded(
        "test://mixed-content-resource", "application/json", '{"test":"data","value":123}'
    )
    return ["Multiple content types test:", Image(PNG), data]


@app.tool
def test_error_handling() -> str:
    """Fail, in a way that the model should read about."""
    raise ToolError("This tool intentionally returns an error for testing")


# --- what a tool may say while it works -----------------------------------------------------------


@app.tool
async def test_tool_with_progress(ctx: Context) -> str:
    """Report progress, if it was asked for."""
    for done in (0, 50, 100):
        await ctx.progress(done, 100)
        await anyio.sleep(SHORT_WORK)
    return "Tool with progress completed"


@app.tool
async def test_tool_with_logging(ctx: Context) -> str:
    """Log what happens."""
    for text in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await ctx.info(text)
        await anyio.sleep(SHORT_WORK)
    return "Tool with logging completed"


@app.tool
async def test_logging_tool(ctx: Context) -> str:
    """Log something, for those who want to read it."""
    await ctx.info("A message of level info")
    return "Logged"


@app.tool
async def test_streaming_elicitation(ctx: Context) -> str:
    """Report progress, and ask."""
    await ctx.progress(1, 2)
    return told(await ctx.elicit("Shall it go on?"))


@app.tool
async def test_reconnection(ctx: Context) -> str:
    """Let the client go, and have it come back for the answer."""
    ctx.close_stream()
    await anyio.sleep(3 * SHORT_WORK)
    return "Reconnection test completed"


@app.tool
async def test_trigger_tool_change(ctx: Context) -> str:
    """Say that the list of tools has changed."""
    ctx.list_changed("tools")
    return "Tool list change announced"


@app.tool
async def test_trigger_prompt_change(ctx: Context) -> str:
    """Say that the list of prompts has changed."""
    ctx.list_changed("prompts")
    return "Prompt list change announced"


# --- what a tool takes ----------------------------------------------------------------------------


@app.tool
def test_x_mcp_header(region: Annotated[str, MirroredHeader("Region")]) -> str:
    """Return an argument that clients repeat in a header."""
    return f"region={region}"


class Address(BaseModel):
    street: str = ""
    city: str = ""


PERSON_SCHEMA: Final[dict[str, Any]] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}
"""More than a signature can say."""


@app.tool(input_schema=PERSON_SCHEMA)
def json_schema_2020_12_tool(
    name: str = "",
    address: Address | None = None,
    contact_method: Annotated[
        Literal["phone", "email"] | None, Field(alias="contactMethod")
    ] = None,
    phone: str | None = None,
    email: str | None = None,
) -> str:
    """Take what a schema of one's own describes."""
    lives = f", {address.city}" if address else ""
    return f"{name}{lives}: {phone if contact_method == 'phone' else email}"


# --- asking: the user -----------------------------------------------------------------------------


class Contact(BaseModel):
    username: str
    email: str


class Profile(BaseModel):
    name: str = "John Doe"
    age: int = 30
    score: float = 95.5
    status: Literal["active", "inactive", "pending"] = "active"
    verified: bool = True


Option = Literal["option1", "option2", "option3"]
TITLES: Final = {"value1": "First Option", "value2": "Second Option", "value3": "Third Option"}


class Picks(TypedDict):
    untitledSingle: Option
    titledSingle: Annotated[str, Choices(TITLES)]
    legacyEnum: Annotated[
        Literal["opt1", "opt2", "opt3"],
        Field(json_schema_extra={"enumNames": ["Option One", "Option Two", "Option Three"]}),
    ]
    untitledMulti: list[Option]
    titledMulti: Annotated[list[str], Choices(TITLES, multiple=True)]


class Name(BaseModel):
    name: str


class Color(BaseModel):
    color: str


class Confirmation(BaseModel):
    ok: bool


class Background(BaseModel):
    context: str


def told(answer: Elicitation[Any]) -> str:
    """An answer in words."""
    if not isinstance(answer, Accepted):
        return f"action={type(answer).__name__.lower()}"
    data = answer.data
    return f"action=accept, content={data.model_dump() if isinstance(data, BaseModel) else data}"


@app.tool
async def test_elicitation(message: str, ctx: Context) -> str:
    """Ask the user who they are."""
    return f"User response: {told(await ctx.elicit(message, Contact))}"


@app.tool
async def test_elicitation_sep1034_defaults(ctx: Context) -> str:
    """Ask the user to check a form with defaults."""
    answer = await ctx.elicit("Please check your profile", Profile)
    return f"Elicitation completed: {told(answer)}"


@app.tool
async def test_elicitation_sep1330_enums(ctx: Context) -> str:
    """Ask the user to choose."""
    answer = await ctx.elicit("Please choose", Picks)
    return f"Elicitation completed: {told(answer)}"


@app.tool
def test_input_required_result_elicitation(
    user: Annotated[Name, Elicit("What is your name?", key="user_name")],
) -> str:
    """Ask the user for a name, before anything runs."""
    return f"Hello, {user.name}!"


@app.tool
async def test_input_required_result_request_state(ctx: Context) -> str:
    """Ask the user to confirm, and know afterwards what was done before."""
    await ctx.elicit("Please confirm", Confirmation, key="confirm")
    return "state-ok"


@app.tool
async def test_input_required_result_tampered_state(ctx: Context) -> str:
    """Ask the user to confirm, and trust no state but one's own."""
    return told(await ctx.elicit("Please confirm", Confirmation, key="confirm"))


@app.tool
async def test_input_required_result_multi_round(ctx: Context) -> str:
    """Ask the user twice."""
    name = await ctx.elicit("Step 1: What is your name?", Name, key="step1")
    color = await ctx.elicit("Step 2: What is your favorite color?", Color, key="step2")
    return f"{told(name)}; {told(color)}"


# --- asking: the model, the roots, several at once ------------------------------------------------


@app.tool
async def test_sampling(prompt: str, ctx: Context) -> str:
    """Ask the client's model."""
    return f"LLM response: {(await ctx.sample(prompt, max_tokens=100)).text}"


@app.tool
async def test_missing_capability(ctx: Context) -> str:
    """Ask the client's model, which not every client has."""
    return (await ctx.sample("Are you there?")).text


@app.tool
async def test_input_required_result_sampling(ctx: Context) -> str:
    """Ask the client's model about geography."""
    question = "What is the capital of France?"
    return (await ctx.sample(question, max_tokens=100, key="capital_question")).text


@app.tool
def test_input_required_result_list_roots(
    roots: Annotated[list[Root], Roots(key="client_roots")],
) -> str:
    """Ask the client for its roots, before anything runs."""
    return " ".join(root.uri for root in roots)


@app.tool
async def test_input_required_result_multiple_inputs(ctx: Context) -> str:
    """Ask the user, the model and the client at once."""
    name, greeting, roots = await ctx.gather(
        Elicit("What is your name?", Name, key="user_name"),
        Sample("Generate a greeting", max_tokens=50, key="greeting"),
        Roots(key="client_roots"),
    )
    return f"{told(name)}; {greeting.text}; {[root.uri for root in roots]}"


@app.tool
async def test_input_required_result_capabilities(ctx: Context) -> str:
    """Ask whom the client has: the model, the user, or both."""
    asks: list[Any] = []
    if ctx.client.supports("sampling"):
        asks.append(Sample("Say something", max_tokens=50, key="sample"))
    if ctx.client.supports("elicitation", "form"):
        asks.append(Elicit("Say something", str, key="ask"))
    return f"{len(await ctx.gather(*asks))} answers"


# --- resources ------------------------------------------------------------------------------------


@app.resource("test://static-text", mime_type="text/plain")
def static_text() -> str:
    """A text."""
    return "This is the content of the static text resource."


@app.resource("test://static-binary", mime_type="image/png")
def static_binary() -> bytes:
    """A picture."""
    return PNG


# --- tasks ----------------------------------------------------------------------------------------


@app.tool
def greet(name: str) -> str:
    """Say hello; never a task."""
    return f"Hello, {name}!"


@app.tool(task="optional")
async def slow_compute(seconds: float, label: str) -> str:
    """Take some time."""
    await anyio.sleep(seconds)
    return f"{label}: done after {seconds:g} s"


@app.tool(task="required")
async def failing_job() -> str:
    """Fail in a way that a model reads about."""
    await anyio.sleep(SHORT_WORK)
    raise ToolError("This job always fails")


@app.tool(task="optional")
async def protocol_error_job() -> str:
    """Fail with an error of the protocol."""
    raise ProtocolError("This job breaks the protocol", code=-32603)


class Consent(BaseModel):
    confirm: bool


class NamedConsent(Consent):
    name: str


@app.tool(task="optional")
async def confirm_delete(filename: str, ctx: Context) -> str:
    """Ask in the middle."""
    answer = await ctx.elicit(f"Delete {filename}?", Consent)
    if answer.action == "accept" and answer.data.confirm:
        return f"Deleted {filename}"
    return f"Kept {filename}"


@app.tool(task="optional")
async def multi_input(ctx: Context) -> str:
    """Ask two things at once in the middle."""
    answers = await ctx.gather(
        Elicit("The first?", NamedConsent, key="first"),
        Elicit("The second?", NamedConsent, key="second"),
    )
    return " and ".join(each.data.name if each.data else "no name" for each in answers)


@app.tool(task="required")
def test_tool_with_task(
    user_name: Annotated[Name, Elicit("What is your name?", key="user_name")],
) -> str:
    """Ask first, then become a task."""
    return f"Hello, {user_name.name}!"


@app.resource("test://watched-resource", mime_type="text/plain")
def watched_resource() -> str:
    """Something to watch."""
    return "Watched resource content"


@app.resource("test://template/{id}/data")
def template_data(id: str) -> dict[str, Any]:
    """What there is about an id."""
    return {"id": id, "templateTest": True, "data": f"Data for ID: {id}"}


# --- prompts --------------------------------------------------------------------------------------


@app.prompt
def test_simple_prompt() -> str:
    """A prompt without arguments."""
    return "This is a simple prompt for testing."


@app.prompt
def test_prompt_with_arguments(
    arg1: Annotated[str, Complete(["test value 1", "test value 2"])], arg2: str
) -> str:
    """A prompt with two arguments."""
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


@app.prompt
def test_prompt_with_embedded_resource(
    resource_uri: Annotated[str, Field(alias="resourceUri")],
) -> list[Message]:
    """A prompt with a resource inside."""
    text = "Embedded resource content for testing."
    return [
        UserMessage(embedded(resource_uri, "text/plain", text)),
        UserMessage("Please process the embedded resource above."),
    ]


@app.prompt
def test_prompt_with_image() -> list[Message]:
    """A prompt with a picture inside."""
    return [UserMessage(Image(PNG)), UserMessage("Please analyze the image above.")]


@app.prompt
async def test_input_required_result_prompt(ctx: Context) -> str:
    """A prompt that asks the user something first."""
    question = "What context should the prompt use?"
    answer = await ctx.elicit(question, Background, key="user_context")
    return f"Use this context: {answer.data.context if answer.data else 'none'}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Serve what the conformance suite tests.")
    parser.add_argument("--port", type=int, default=8000)
    app.run("http", port=parser.parse_args().port)
