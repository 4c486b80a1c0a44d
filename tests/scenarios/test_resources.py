"""Resources: lists, reading, and what is not there (PROTOCOL §4.4)."""

from __future__ import annotations

import json

import pytest

from mcpkit.errors import ProtocolError
from mcpkit.types import BlobResourceContents, TextResourceContents
from tests.scenarios.server import SECRET
from tests.scenarios.tapped import HANDSHAKE, MODERN, TappedClient
from tests.schemas import check_value

pytestmark = pytest.mark.anyio


async def test_resources_with_a_uri_are_listed(client: TappedClient, revision: str) -> None:
    """RES-2."""
    resources = await client.list_resources()
    for each in resources:
        check_value(each.raw, revision, "Resource")
    found = {each.uri for each in resources}
    assert {"note://hello", "note://bytes", "lib://files/hello.txt"} <= found
    assert not any("{" in uri for uri in found)


async def test_templates_are_listed_by_themselves(client: TappedClient, revision: str) -> None:
    """RES-2."""
    templates = await client.list_resource_templates()
    for each in templates:
        check_value(each.raw, revision, "ResourceTemplate")
    found = [each.uri_template for each in templates]
    assert found == ["diary://{year}/{month}", "lib://files/{+path}", "note://{path*}/raw"]


async def test_a_listed_resource_tells_its_type_and_size(client: TappedClient) -> None:
    hello = next(each for each in await client.list_resources() if each.uri == "note://hello")
    assert (hello.mime_type, hello.size, hello.description) == ("text/plain", 5, "A greeting.")
    assert hello.annotations is not None
    assert hello.annotations.priority == 0.9


async def test_every_listed_uri_has_a_scheme(client: TappedClient) -> None:
    """RES-8."""
    for each in await client.list_resources():
        scheme = each.uri.partition("://")[0]
        assert scheme.isalnum()
        assert scheme[0].isalpha()


async def test_text(client: TappedClient) -> None:
    assert await client.read_resource("note://hello") == [
        TextResourceContents("note://hello", "hello", mime_type="text/plain")
    ]


async def test_bytes(client: TappedClient) -> None:
    """CONT-4."""
    assert await client.read_resource("note://bytes") == [
        BlobResourceContents("note://bytes", b"\x00\xff", mime_type="application/zip")
    ]


async def test_data_is_json_text(client: TappedClient) -> None:
    [contents] = await client.read_resource("note://json")
    assert isinstance(contents, TextResourceContents)
    assert (json.loads(contents.text), contents.mime_type) == ({"n": 1}, "application/json")


async def test_several_contents(client: TappedClient) -> None:
    """RES-6."""
    contents = await client.read_resource("note://all")
    assert [each.uri for each in contents] == ["note://hello", "note://bytes"]


async def test_a_list_of_a_template_is_the_rest_of_a_path(client: TappedClient) -> None:
    contents = (await client.read_resource("note://a/b%2Fc/d.txt/raw"))[0]
    assert isinstance(contents, TextResourceContents)
    assert contents.text == "a/b/c/d.txt"


async def test_a_template_describes_its_variables(client: TappedClient) -> None:
    found = {each.uri_template: each for each in await client.list_resource_templates()}
    assert (
        found["note://{path*}/raw"].description
        == "Return the path.\n\nArgs:\n- path: Slashes included."
    )


async def test_a_template_fills_the_arguments(client: TappedClient) -> None:
    [contents] = await client.read_resource("diary://2024/May")
    assert contents == TextResourceContents("diary://2024/May", "May 2024", mime_type="text/plain")


UNKNOWN = {
    "no such resource": "note://nowhere",
    "no such scheme": "other://hello",
    "the handler says so": "diary://1999/May",
    "a variable of the wrong type": "diary://soon/May",
    "no such file": "lib://files/missing.txt",
    "no URI at all": "hello",
}


@pytest.mark.revisions(*HANDSHAKE)
@pytest.mark.parametrize("uri", UNKNOWN.values(), ids=list(UNKNOWN))
async def test_not_found_has_a_code_of_its_own(client: TappedClient, uri: str) -> None:
    """RES-4."""
    with pytest.raises(ProtocolError) as caught:
        await client.read_resource(uri)
    assert (caught.value.code, caught.value.data) == (-32002, {"uri": uri})


@pytest.mark.revisions(MODERN)
@pytest.mark.parametrize("uri", UNKNOWN.values(), ids=list(UNKNOWN))
async def test_not_found_is_an_invalid_parameter(client: TappedClient, uri: str) -> None:
    """RES-3, RES-5."""
    with pytest.raises(ProtocolError) as caught:
        await client.read_resource(uri)
    assert (caught.value.code, caught.value.data) == (-32602, {"uri": uri})


OUTSIDE = [
    "lib://files/../server.py",
    "lib://files/%2e%2e/server.py",
    "lib://files/sub/../../server.py",
    "lib://files//etc/passwd",
    "lib://files/..%2fserver.py",
    "lib://files/.secret",
    "lib://files/sub",
    "lib://files/",
    "lib://files/hello.txt%00",
]


@pytest.mark.parametrize("uri", OUTSIDE)
async def test_nothing_outside_a_directory_can_be_read(client: TappedClient, uri: str) -> None:
    """RES-9."""
    with pytest.raises(ProtocolError) as caught:
        await client.read_resource(uri)
    assert caught.value.data == {"uri": uri}


@pytest.mark.parametrize(
    ("name", "text"), [("hello.txt", "hello from a file\n"), ("sub/inner.md", "# Inner\n")]
)
async def test_text_files(client: TappedClient, name: str, text: str) -> None:
    [contents] = await client.read_resource(f"lib://files/{name}")
    assert isinstance(contents, TextResourceContents)
    assert contents.text == text


async def test_binary_files(client: TappedClient) -> None:
    [contents] = await client.read_resource("lib://files/dot.png")
    assert isinstance(contents, BlobResourceContents)
    assert contents.mime_type == "image/png"


async def test_hidden_files_are_not_listed(client: TappedClient) -> None:
    assert "lib://files/.secret" not in [each.uri for each in await client.list_resources()]


async def test_the_uri_must_be_a_string(client: TappedClient) -> None:
    with pytest.raises(ProtocolError) as caught:
        await client.request("resources/read", {"uri": 7})
    assert caught.value.code == -32602


async def test_an_exception_is_hidden(client: TappedClient) -> None:
    """ERR-6."""
    with pytest.raises(ProtocolError, match="reference") as caught:
        await client.read_resource("note://broken")
    assert caught.value.code == -32603
    assert SECRET not in json.dumps(client.received)


async def test_a_resource_error_is_shown(client: TappedClient) -> None:
    with pytest.raises(ProtocolError, match="The library is closed"):
        await client.read_resource("note://sorry")
