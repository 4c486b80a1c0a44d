"""Resources: lists, reading, and what is not there (PROTOCOL §4.4)."""

from __future__ import annotations

import re

import pytest

from mcpkit.errors import ProtocolError
from mcpkit.types import BlobResourceContents, ResourceContents, TextResourceContents
from tests.scenarios.tapped import MODERN, TappedClient
from tests.schemas import check_value


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
READABLE: list[ResourceContents] = [
    TextResourceContents("note://hello", "hello", mime_type=PLAIN),
    BlobResourceContents("note://bytes", b"\x00\xff", mime_type="application/zip"),
    TextResourceContents("note://json", '{"n":1}', mime_type="application/json"),
    TextResourceContents("diary://2024/May", "May 2024", mime_type=PLAIN),
    TextResourceContents("note://a/b%2Fc/d.txt/raw", "a/b/c/d.txt", mime_type=PLAIN),
    TextResourceContents("lib://files/hello.txt", "hello from a file\n", mime_type=PLAIN),
    TextResourceContents("lib://files/sub/inner.md", "# Inner\n", mime_type="text/markdown"),
]


async def test_text_bytes_data_templates_and_files(client: TappedClient) -> None:
    """CONT-4, RES-6."""
    for contents in READABLE:
        assert await client.read_resource(contents.uri) == [contents]
    several = await client.read_resource("note://all")
    assert [each.uri for each in several] == ["note://hello", "note://bytes"]
    [picture] = await client.read_resource("lib://files/dot.png")
    assert isinstance(picture, BlobResourceContents)
    assert picture.mime_type == "image/png"


NOT_FOUND = [
    "note://nowhere",
    "other://hello",
    "diary://1999/May",  # the handler says so
    "diary://soon/May",  # a variable of the wrong type
    "lib://files/missing.txt",
    "hello",  # not a URI
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


async def test_unknown_uris_and_paths_outside_a_directory(client: TappedClient) -> None:
    """RES-3, RES-4, RES-5, RES-9: in the handshake revisions with a code of its own."""
    for uri in NOT_FOUND:
        with pytest.raises(ProtocolError) as caught:
            await client.read_resource(uri)
        code = -32602 if client.revision == MODERN else -32002
        assert (caught.value.code, caught.value.data) == (code, {"uri": uri})
