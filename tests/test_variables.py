"""Values of a template's variables that a handler had better not make a path of (SEC-11, RES-9)."""

from __future__ import annotations

from typing import Any

import pytest

from mcpkit import MCPKit
from mcpkit.errors import ProtocolError, RegistrationError
from mcpkit.testing import AsyncTestClient

MISLEADING = {
    "a parent": "..",
    "a parent of a parent": "..%2F..%2Fetc%2Fpasswd",
    "a parent in the middle": "a%2F..%2F..%2Fb",
    "a parent at the end": "a%2F..",
    "a parent on Windows": "a%5C..%5Cb",
    "an absolute path": "%2Fetc%2Fpasswd",
    "an absolute path on Windows": "%5Cserver%5Cshare",
    "a drive": "C%3A%5Cwindows",
    "a drive with a slash": "c%3A%2Fwindows",
    "NUL": "a%00.txt",
    "an escape": "%1B%5B2J",
    "a line break": "a%0Ab",
}
HARMLESS = {
    "a name": "readme.md",
    "dots in a name": "a..b",
    "three dots": "...",
    "a hidden name": ".env",
    "a blank": "a%20b",
    "another script": "%E6%BC%A2",
    "a time": "12%3A30",
    "a path": "a%2Fb",
}


def reading(names: Any = (), paths: Any = ()) -> MCPKit[None]:
    """An app with templates, and the variables of them that are not checked."""
    app = MCPKit("variables")

    @app.resource("notes://{name}", unchecked=names)
    async def note(name: str) -> str:
        return f"<{name}>"

    @app.resource("tree://{+path}", unchecked=paths)
    async def tree(path: str) -> str:
        return f"<{path}>"

    @app.resource("parts://x{/parts*}")
    async def parts(parts: list[str]) -> str:
        return "|".join(parts)

    return app


async def read(app: MCPKit[None], uri: str) -> str:
    async with AsyncTestClient(app) as client:
        [found] = await client.read_resource(uri)
        return str(getattr(found, "text", ""))


@pytest.mark.parametrize("value", MISLEADING.values(), ids=list(MISLEADING))
@pytest.mark.parametrize("uri", ["notes://", "tree://"])
async def test_they_name_nothing_unless_the_author_allows_it(uri: str, value: str) -> None:
    with pytest.raises(ProtocolError, match="Resource not found"):
        await read(reading(), uri + value)
    assert (await read(reading(["name"], ["path"]), uri + value)).startswith("<")


@pytest.mark.parametrize("value", HARMLESS.values(), ids=list(HARMLESS))
async def test_others_do(value: str) -> None:
    assert (await read(reading(), "notes://" + value)).startswith("<")


async def test_raw_slashes_and_each_of_several_parts_count() -> None:
    with pytest.raises(ProtocolError, match="absolute path"):
        await read(reading(), "tree:///etc/passwd")
    assert await read(reading(), "parts://x/a/b") == "a|b"
    with pytest.raises(ProtocolError, match="leads out of a directory"):
        await read(reading(), "parts://x/a/..")


@pytest.mark.parametrize("unchecked", ["name", ["nmae"], [""]])
def test_other_values_of_unchecked_are_refused(unchecked: object) -> None:
    with pytest.raises(RegistrationError, match="unchecked must be a list of variables"):
        reading(names=unchecked)
