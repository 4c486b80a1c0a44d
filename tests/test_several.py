"""One value where several belong is refused where it is written: a text would be spelled out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final

import pytest

from mcpkit import Choices, Client, Complete, Icon, MCPKit, Sample
from mcpkit.errors import RegistrationError
from mcpkit.testing import AsyncTestClient, TestClient


def handler() -> str:
    return ""


def added(**options: Any) -> Callable[[], None]:
    return lambda: MCPKit("app").add_tool(handler, **options)


def read(**options: Any) -> Callable[[], None]:
    return lambda: MCPKit("app").add_resource(handler, "a://b", **options)


def completed() -> None:
    app: MCPKit[None] = MCPKit("app")

    @app.prompt
    def prompt(x: Annotated[str, Complete("alpha")]) -> str:
        return x


ONE: Final[dict[str, Callable[[], object]]] = {
    "tags": added(tags="beta"),
    "icons": added(icons=Icon("https://example.com/a.png")),
    "sizes": added(icons=[Icon("https://example.com/a.png", sizes="48x48")]),
    "audience": read(audience="user"),
    "annotations: audience": read(annotations={"audience": "user"}),
    "hints": lambda: Sample("hi", hints="claude"),
    "stop": lambda: Sample("hi", stop="END"),
    "roots": lambda: Client("http://127.0.0.1:1/mcp", roots="/srv"),
    "Choices": lambda: Choices("ab"),
    "Complete": completed,
    "scopes": added(scopes="read"),
    "offers": lambda: MCPKit("app", offers="tools"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", ONE)
def test_one_text_is_not_several(name: str) -> None:
    with pytest.raises((RegistrationError, ValueError, TypeError)) as found:
        ONE[name]()
    assert name in str(found.value)
    if isinstance(found.value, RegistrationError):
        assert "handler()" in str(found.value) or "test_several.py" in str(found.value)


async def test_one_uri_is_not_several() -> None:
    async with AsyncTestClient(MCPKit("app", offers=["resources"])) as client:
        with pytest.raises(ValueError, match="uris must be a list, such as"):
            async with client.listen(print, uris="a://b"):
                pass


def test_values_that_are_no_texts_are_suggested_as_texts() -> None:
    """COMP-1: values on the wire are strings."""
    app: MCPKit[None] = MCPKit("app")

    @app.prompt
    def report(year: Annotated[int, Complete([2025, 2026])]) -> str:
        return str(year)

    with TestClient(app) as client:
        assert client.complete("year", "20", prompt="report").values == ["2025", "2026"]
