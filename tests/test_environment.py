"""Parameters that are filled from the environment."""

from __future__ import annotations

import logging
from typing import Annotated, Any

import pytest

from mcpkit import Depends, Env, MCPKit, MirroredHeader, RegistrationError
from mcpkit.errors import MissingEnvironment
from mcpkit.testing import TestClient
from tests.authoring import handler
from tests.models import Opaque

SECRET = "sw0rdfish"


def make_app() -> MCPKit[None]:
    app: MCPKit[None] = MCPKit("env")

    def connect(url: Annotated[str, Env("TEST_URL")]) -> str:
        return f"connected to {url}"

    @app.tool
    async def show(
        text: str,
        key: Annotated[str, Env("TEST_KEY")],
        database: Annotated[str, Depends(connect)],
        size: Annotated[int, Env("TEST_SIZE")] = 5,
    ) -> str:
        assert key == SECRET
        return f"{text} {database} {size}"

    @app.resource("env://one")
    def one(key: Annotated[str, Env("TEST_KEY")]) -> str:
        return f"{len(key)}"

    @app.prompt
    def ask(word: str, key: Annotated[str, Env("TEST_OTHER")]) -> str:
        return word + key

    return app


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setenv("TEST_KEY", SECRET)
    monkeypatch.setenv("TEST_URL", "db://x")
    monkeypatch.setenv("TEST_OTHER", "!")
    return monkeypatch


def test_variables_are_parameters_that_no_client_sees(environment: pytest.MonkeyPatch) -> None:
    """SEC-13: they are in no schema, and no client sends them."""
    with TestClient(make_app()) as client:
        assert client.call_tool("show", {"text": "hi"}).text == "hi connected to db://x 5"
        environment.setenv("TEST_SIZE", "7")
        assert client.call_tool("show", {"text": "hi"}).text == "hi connected to db://x 7"
        assert getattr(client.read_resource("env://one")[0], "text", None) == str(len(SECRET))
        [tool] = client.list_tools()
        assert list(tool.raw["inputSchema"]["properties"]) == ["text"]
        listed = f"{tool.raw} {[each.raw for each in client.list_prompts()]}"
        assert SECRET not in listed
        assert "TEST_" not in listed
        assert client.call_tool("show", {"text": "hi", "key": "forged"}).text.find("forged") < 0


def test_all_that_are_missing_are_named_at_once(environment: pytest.MonkeyPatch) -> None:
    app = make_app()
    app.check_environment()
    environment.delenv("TEST_URL")
    environment.setenv("TEST_OTHER", "")
    for start in (app.check_environment, lambda: app.run("http", port=0)):
        with pytest.raises(MissingEnvironment) as caught:
            start()
        assert str(caught.value) == "TEST_URL, TEST_OTHER are not set in the environment"
        assert caught.value.names == ("TEST_URL", "TEST_OTHER")


def test_one_that_does_not_fit_is_not_shown(
    environment: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """SEC-13."""
    caplog.set_level(logging.DEBUG)
    environment.setenv("TEST_SIZE", SECRET)
    with TestClient(make_app()) as client:
        result = client.call_tool("show", {"text": "hi"})
    assert result.is_error
    assert SECRET not in result.text
    assert SECRET not in caplog.text
    assert "TEST_SIZE has a value of the wrong type" in caplog.text


@pytest.mark.parametrize("value", ["${TEST_KEY}", "${input:key}", "{{ key }}", "<your key>"])
def test_a_placeholder_is_not_a_value(environment: pytest.MonkeyPatch, value: str) -> None:
    """Neither at the start nor in a call, where a default would hide it."""
    app = make_app()
    environment.setenv("TEST_KEY", value)
    with pytest.raises(
        MissingEnvironment, match=r"^TEST_KEY has a placeholder, such as \$\{NAME\}"
    ):
        app.check_environment()
    environment.setenv("TEST_KEY", f"a{value}")
    app.check_environment()
    environment.setenv("TEST_KEY", SECRET)
    environment.setenv("TEST_SIZE", value)
    with (
        TestClient(app, raise_exceptions=True) as client,
        pytest.raises(MissingEnvironment, match=r"^TEST_SIZE has a placeholder"),
    ):
        client.call_tool("show", {"text": "hi"})


def test_a_test_needs_no_variables_of_what_it_replaces(environment: pytest.MonkeyPatch) -> None:
    app: MCPKit[None] = MCPKit("env")

    def connect(url: Annotated[str, Env("TEST_MISSING")]) -> str:
        return url

    @app.tool
    def show(database: Annotated[str, Depends(connect)]) -> str:
        return database

    with TestClient(app, overrides={connect: lambda: "fake"}) as client:
        assert client.call_tool("show").text == "fake"


@pytest.mark.parametrize(
    ("fn", "says"),
    [
        (handler(Annotated[Opaque, Env("TEST_KEY")]), "that Env cannot fill"),
        (
            handler(Annotated[str, Env("TEST_KEY"), MirroredHeader("Key")]),
            "no header can repeat it",
        ),
        (handler(str, Env("TEST_KEY")), r"Annotated\[<type>, Env"),
    ],
)
def test_what_no_variable_can_be_is_refused(fn: Any, says: str) -> None:
    with pytest.raises(RegistrationError, match=says):
        MCPKit("env").add_tool(fn)
