"""Arguments that headers repeat (HDR-1…7), and values that no header can carry as they are."""

from __future__ import annotations

from base64 import b64encode
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel

from mcpkit import MCPKit, MirroredHeader, RegistrationError
from tests.messages import called
from tests.transports.http.wire import Exchange, Host, Site


def wrapped(text: str) -> str:
    return f"=?base64?{b64encode(text.encode()).decode()}?="


def route(site: Site, headers: dict[str, Any], **arguments: Any) -> Exchange:
    """Call the tool whose arguments are repeated."""
    return site.ask("tools/call", headers, **called("routed", arguments))


# --- declarations ---------------------------------------------------------------------------------


def test_a_schema_tells_which_arguments_are_repeated(site: Site) -> None:
    tools = site.ask("tools/list").result["tools"]
    [schema] = [each["inputSchema"] for each in tools if each["name"] == "routed"]
    found = {name: each["x-mcp-header"] for name, each in schema["properties"].items()}
    assert found == {"region": "Region", "count": "Count", "really": "Really", "method": "Method"}
    assert {name: each["type"] for name, each in schema["properties"].items()} == {
        "region": "string",
        "count": "integer",
        "really": "boolean",
        "method": "string",
    }


class Place(BaseModel):
    city: Annotated[str, MirroredHeader("City")]


def bad_name(a: Annotated[str, MirroredHeader("two words")]) -> None: ...
def taken(
    a: Annotated[str, MirroredHeader("Same")], b: Annotated[str, MirroredHeader("same")]
) -> None: ...
def a_float(a: Annotated[float, MirroredHeader("A")]) -> None: ...
def in_a_list_of_objects(a: list[Place]) -> None: ...
def perhaps_null(a: Annotated[str | None, MirroredHeader("A")]) -> None: ...
def in_a_union(a: Place | Literal["nowhere"]) -> None: ...


@pytest.mark.parametrize(
    "function", [bad_name, taken, a_float, in_a_list_of_objects, perhaps_null, in_a_union]
)
def test_a_name_is_unique_and_an_argument_a_scalar_that_properties_alone_lead_to(
    function: Any,
) -> None:
    """HDR-1, HDR-2, HDR-3, SEC-18."""
    with pytest.raises(RegistrationError):
        MCPKit("t").add_tool(function)


def test_nested_objects_are_reached(host: Host) -> None:
    """HDR-2, HDR-4."""
    app: MCPKit[Any] = MCPKit("nested")

    @app.tool
    async def go(place: Place) -> str:
        return place.city

    site = host.serve(app)
    call = called("go", {"place": {"city": "Oslo"}})
    assert site.ask("tools/call", {"Mcp-Param-City": "Oslo"}, **call).text == "Oslo"
    assert site.ask("tools/call", {"Mcp-Param-City": "Bergen"}, **call).refusal == (400, -32020)
    assert site.ask("tools/call", **call).refusal == (400, -32020)


# --- comparisons ----------------------------------------------------------------------------------


def test_values_that_agree_pass(site: Site) -> None:
    """HDR-4, HDR-5, HDR-7: ``Mcp-Param-Method`` has nothing to do with ``Mcp-Method``."""
    headers = {"Region": "eu", "Count": "1e2", "Really": "false", "Method": "mine"}
    sent = {f"Mcp-Param-{name}": value for name, value in headers.items()}
    answer = route(site, sent, region="eu", count=100, really=False, method="mine")
    assert answer.text == "eu 100 False mine"


@pytest.mark.parametrize(
    ("name", "written", "value"),
    [
        *(("Region", each, "eu") for each in (None, "", "us", ["eu", "eu"])),
        ("Count", str(2**53), 2**53),
        ("Really", "True", True),
        ("Method", None, "tools/call"),
        *(("Region", each, None) for each in ("eu", "")),
        *(("Region", each, "eu") for each in (b"=?base64?ZXU?=", "=?base64?€?=".encode())),
    ],
    ids=repr,
)
def test_a_header_that_is_missing_or_different_is_refused(
    site: Site, name: str, written: Any, value: Any
) -> None:
    """HDR-4, HDR-5, HTTPM-4, SEC-14, ERR-5: also where there is no value to repeat."""
    answer = route(site, {f"Mcp-Param-{name}": written}, **{name.lower(): value})
    assert answer.refusal == (400, -32020)
    assert answer.json["id"] == 1


@pytest.mark.parametrize("value", ["Zürich", "a\nb", "=?base64?YQ==?="])
def test_a_wrapped_value_is_unwrapped(site: Site, value: str) -> None:
    """HDR-6, HTTPM-4: also a name."""
    assert route(site, {"Mcp-Param-Region": wrapped(value)}, region=value).text.startswith(value)
    assert (
        site.ask("resources/read", {"Mcp-Name": wrapped("wire://x")}, uri="wire://x").status == 200
    )
