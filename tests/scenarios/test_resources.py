"""Resources: lists, reading, and what is not there (PROTOCOL §4.4)."""

from __future__ import annotations

import json
import re

import pytest

from mcpkit.errors import InvalidParams, ProtocolError
from mcpkit.types import BlobResourceContents, ResourceContents, TextResourceContents
from tests.scenarios.server import SECRET
from tests.scenarios.tapped import MODERN, TappedClient
from tests.schemas import check_value

pytestmark = pytest.mark.anyio


async def test_resources_and_templates_are_listed(client: TappedClient, revision: str) -> None:
    """RES-2, RES-8: apart, each resource with a URI that has a scheme; no hidden files (RES-9)."""
    resources = {each.uri: each for each in await client.list_resources()}
    for uri, each in resources.items():
        check_value(each.raw, revision, "Resource")
        assert re.match("[a-z]+://[^{]+$", uri)
    assert {"note://hello", "note://bytes", "lib://files/hello.txt"} <= resources.keys()
    assert "lib://files/.secret" not in resources
    hello = resources["note://hello"]
    assert (hello.mime_type, hello.size, hello.description) == ("text/plain", 5, "A greeting.")
    assert hello.annotations is not None
    assert hello.annotations.priority == 0.9
    templates = {each.uri_template: each for each in await client.list_resource_templates()}
    for template in templates.values():
        check_value(template.raw, revision, "ResourceTemplate")
    found = list(templates)
    assert found == ["diary://{year}/{month}", "lib://files/{+path}", "note://{path*}/raw"]
    described = templates["note://{path*}/raw"].description
    assert described == "Return the path.\n\nArgs:\n- path: Slashes included."


PLAIN = "text/plain"
READABLE = [
    TextResourceContents("note://hello", "hello", mime_type=PLAIN),
    BlobResourceContents("note://bytes", b"\x00\xff", mime_type="application/zip"),
    TextResourceContents("note://json", '{"n":1}', mime_type="application/json"),
    TextResourceContents("diary://2024/May", "May 2024", mime_type=PLAIN),
    TextResourceContents("note://a/b%2Fc/d.txt/raw", "a/b/c/d.txt", mime_type=PLAIN),
    TextResourceContents("lib://files/hello.txt", "hello from a file\n", mime_type=PLAIN),
    TextResourceContents("lib://files/sub/inner.md", "# Inner\n", mime_type="text/markdown"),
]


@pytest.mark.parametrize("contents", READABLE, ids=lambda each: each.uri)
async def test_text_bytes_data_templates_and_files(
    client: TappedClient, contents: ResourceContents
) -> None:
    """CONT-4."""
    assert await client.read_resource(contents.uri) == [contents]


async def test_several_contents_and_a_binary_file(client: TappedClient) -> None:
    """RES-6."""
    several = await client.read_resource("note://all")
    assert [each.uri for each in several] == ["note://hello", "note://bytes"]
    [picture] = await client.read_resource("lib://files/dot.png")
    assert isinstance(picture, BlobResourceContents)
    assert picture.mime_type == "image/png"


UNKNOWN = {
    "no such resource": "note://nowhere",
    "no such scheme": "other://hello",
    "the handler says so": "diary://1999/May",
    "a variable of the wrong type": "diary://soon/May",
    "no such file": "lib://files/missing.txt",
    "no URI at all": "hello",
}


@pytest.mark.parametrize("uri", UNKNOWN.values(), ids=list(UNKNOWN))
async def test_not_found_names_the_uri(client: TappedClient, uri: str) -> None:
    """RES-3, RES-4, RES-5: in the handshake revisions with a code of its own."""
    with pytest.raises(ProtocolError) as caught:
        await client.read_resource(uri)
    code = -32602 if client.revision == MODERN else -32002
    assert (caught.value.code, caught.value.data) == (code, {"uri": uri})


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


async def test_an_exception_is_hidden_and_a_resource_error_is_shown(client: TappedClient) -> None:
    """ERR-6."""
    with pytest.raises(ProtocolError, match="reference") as caught:
        await client.read_resource("note://broken")
    assert caught.value.code == -32603
    assert SECRET not in json.dumps(client.received)
    with pytest.raises(ProtocolError, match="The library is closed"):
        await client.read_resource("note://sorry")
    with pytest.raises(InvalidParams):
        await client.request("resources/read", {"uri": 7})
