"""Exceptions whose text is shown, because their author says so; all others are hidden."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Annotated, Any, Literal

import anyio
import pytest

import mcpkit
from mcpkit import (
    Context,
    Depends,
    MCPKit,
    PromptError,
    ProtocolError,
    ResourceError,
    ToolError,
)
from mcpkit.errors import RegistrationError
from mcpkit.testing import TestClient

TEXT = "no such branch"


class GitError(Exception):
    """Of an author."""


class Detached(GitError):
    pass


class Silent(Exception):
    def __str__(self) -> str:
        return ""


Errors = type[Exception] | tuple[type[Exception], ...] | list[type[Exception]] | Literal["all"]


def text_of(error: BaseException, errors: Errors | None = None, app: Errors = ()) -> str:
    """What the model reads of an exception."""
    made = MCPKit("a", expose_errors=app)

    @made.tool(expose_errors=errors)
    def fail() -> str:
        raise error

    with TestClient(made) as client:
        result = client.call_tool("fail")
    assert result.is_error
    return result.text


def is_hidden(text: str) -> bool:
    return text.startswith("The tool failed (reference ")


class TestTools:
    @pytest.mark.parametrize(
        ("errors", "app"),
        [
            *[(each, ()) for each in ("all", GitError, (GitError,), [ValueError, GitError])],
            *[((Exception,), ()), (None, "all"), (None, (GitError,)), (GitError, ValueError)],
        ],
        ids=str,
    )
    def test_what_is_named_is_shown(self, errors: Errors | None, app: Errors) -> None:
        assert text_of(GitError(TEXT), errors, app) == TEXT
        assert text_of(Detached(TEXT), errors, app) == TEXT

    @pytest.mark.parametrize(
        ("errors", "app"),
        [
            *[(each, ()) for each in (None, (), ValueError, (ValueError, Detached))],
            *[((), "all"), (ValueError, GitError)],
        ],
        ids=str,
    )
    def test_anything_else_is_hidden(self, errors: Errors | None, app: Errors) -> None:
        text = text_of(GitError(TEXT), errors, app)
        assert is_hidden(text)
        assert TEXT not in text

    @pytest.mark.parametrize("text", ["two\nlines", "ünï", "x" * 5000, "\x1b[2J", "{}", " blank "])
    def test_the_text_is_shown_as_that_of_a_tool_error(self, text: str) -> None:
        assert text_of(GitError(text), "all") == text_of(ToolError(text))

    @pytest.mark.parametrize(
        ("error", "text"),
        [
            (Silent(), "Silent"),
            (ValueError(), "ValueError"),
            (KeyError("oslo"), "KeyError: 'oslo'"),
            (OSError(2, "No such file"), "[Errno 2] No such file"),
        ],
        ids=["without a text", "without arguments", "a key alone", "of the system"],
    )
    def test_a_text_that_says_nothing_has_the_name_of_its_class(
        self, error: Exception, text: str
    ) -> None:
        assert text_of(error, "all") == text

    @pytest.mark.parametrize(
        ("error", "said"),
        [(ProtocolError("closed", code=4001), "closed"), (SystemExit(TEXT), "failed to answer")],
        ids=str,
    )
    def test_other_exceptions_are_unchanged(self, error: BaseException, said: str) -> None:
        with pytest.raises(ProtocolError, match=said):
            text_of(error, "all")

    def test_a_result_that_does_not_fit_is_hidden_and_a_dependency_belongs_to_its_tool(
        self,
    ) -> None:
        app = MCPKit("a", expose_errors="all")

        @app.tool
        def mismatch() -> int:
            value: Any = "secret"
            return value  # type: ignore[no-any-return]

        def connect() -> str:
            raise GitError(TEXT)

        @app.tool(expose_errors=GitError)
        def fail(db: Annotated[str, Depends(connect)]) -> str:
            return db

        with TestClient(app) as client:
            assert "output schema" in client.call_tool("mismatch").text
            assert client.call_tool("fail").text == TEXT

    @pytest.mark.parametrize(
        ("errors", "text"),
        [("all", "one\ntwo"), (GitError, None), ((GitError, OSError), "one\ntwo")],
    )
    def test_a_group_is_shown_if_all_in_it_are(self, errors: Errors, text: str | None) -> None:
        app = MCPKit("a")

        @app.tool(expose_errors=errors)
        async def fail() -> str:
            async def one() -> None:
                raise GitError("one")

            async def two() -> None:
                raise OSError("two")

            async with anyio.create_task_group() as group:
                group.start_soon(one)
                group.start_soon(two)
            return ""

        with TestClient(app) as client:
            found = client.call_tool("fail").text
        assert is_hidden(found) if text is None else sorted(found.split("\n")) == ["one", "two"]


def test_of_other_entries() -> None:
    """TOOL-8, ERR-3: errors that are meant for the client are shown anyway."""
    app = MCPKit("a", expose_errors="all")

    @app.prompt(name="shown")
    @app.prompt(name="hidden", expose_errors=())
    @app.resource("a://b")
    def fail() -> str:
        raise GitError(TEXT)

    app.add_resource(lambda name: fail(), "a://c/{name}", name="c")

    @app.resource("a://closed", expose_errors=())
    def closed() -> str:
        raise ResourceError("The library is closed")

    @app.prompt(expose_errors=())
    def silent() -> str:
        raise PromptError("No words today")

    @app.tool
    async def read(ctx: Context) -> str:
        await ctx.read_resource("a://c/x")
        return ""

    with TestClient(app) as client:
        for uri in ("a://c/x", "a://b"):
            with pytest.raises(ProtocolError, match=TEXT) as caught:
                client.read_resource(uri)
            assert caught.value.code == -32603
        with pytest.raises(ProtocolError, match=TEXT):
            client.get_prompt("shown")
        with pytest.raises(ProtocolError, match="reference"):
            client.get_prompt("hidden")
        with pytest.raises(ProtocolError, match="The library is closed"):
            client.read_resource("a://closed")
        with pytest.raises(ProtocolError, match="No words today"):
            client.get_prompt("silent")
        assert client.call_tool("read").text == TEXT


class Tools:
    @mcpkit.tool
    def plain(self) -> str:
        """Say nothing about errors."""
        raise GitError(TEXT)

    @mcpkit.tool(expose_errors=())
    def own(self) -> str:
        """Hide them."""
        raise GitError(TEXT)


@pytest.mark.parametrize(
    ("app", "include", "shown"),
    [((), None, False), ("all", None, True), ((), GitError, True), ("all", (), False)],
    ids=["nowhere", "app", "include", "hidden by include"],
)
def test_include_sets_errors_for_included_entries(app: Any, include: Any, shown: bool) -> None:
    made = MCPKit("a", expose_errors=app)
    made.include(Tools(), expose_errors=include)
    with TestClient(made) as client:
        assert is_hidden(client.call_tool("plain").text) is not shown
        assert is_hidden(client.call_tool("own").text)


@pytest.mark.parametrize(
    "errors",
    ["any", 7, (SystemExit,), (ValueError, "OSError"), BaseException, ValueError("x")],
    ids=str,
)
@pytest.mark.parametrize("place", ["tool", "app", "include"])
def test_other_values_are_refused(errors: Any, place: str) -> None:
    def make() -> Any:
        if place == "app":
            return MCPKit("a", expose_errors=errors)
        if place == "include":
            MCPKit("a").include(Tools(), expose_errors=errors)
        return MCPKit("a").tool(expose_errors=errors)(Tools().plain)

    with pytest.raises(
        RegistrationError, match='errors is "all" or classes of exceptions'
    ) as caught:
        make()
    if place == "tool":
        assert "test_shown_errors.py:" in str(caught.value)


def logged(caplog: pytest.LogCaptureFixture, *errors: Exception, times: int = 1) -> str:
    """The log after calls of tools that raise."""
    app = MCPKit("a")

    def make(error: Exception) -> Callable[[], str]:
        def fail() -> str:
            raise error

        return fail

    for number, each in enumerate(errors):
        app.add_tool(make(each), name=f"tool{number}")
    with TestClient(app) as client:
        for number in [*range(len(errors))] * times:
            client.call_tool(f"tool{number}")
    return "\n".join(map(logging.Formatter().format, caplog.records))


class TestLog:
    def test_says_once_for_each_tool_how_to_show_it(self, caplog: pytest.LogCaptureFixture) -> None:
        logged(caplog, GitError(TEXT), KeyError(TEXT), times=2)
        said = [each for each in caplog.messages if "expose_errors=" in each]
        assert len(caplog.messages) == 4
        assert [each.rpartition("; ")[2] for each in said] == [
            "the model does not see why: expose_errors=(GitError,) or ToolError would show it",
            "the model does not see why: expose_errors=(KeyError,) or ToolError would show it",
        ]

    def test_says_once_for_each_resource_and_prompt_too(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        app = MCPKit("a")

        @app.resource("git://branch")
        @app.prompt
        def branch() -> str:
            raise GitError(TEXT)

        with TestClient(app) as client:
            asks: list[Callable[[], object]] = [
                lambda: client.read_resource("git://branch"),
                lambda: client.get_prompt("branch"),
            ]
            for ask in asks:
                for _ in range(2):
                    with pytest.raises(ProtocolError):
                        ask()
        how = "expose_errors=(GitError,)"
        assert [each for each in caplog.messages if "expose_errors=" in each] == [
            f"clients do not see why branch fails: {how} or {kind} would show it"
            for kind in ("ResourceError", "PromptError")
        ]

    def test_has_the_frames_of_the_author_or_all_when_debugging(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        assert text_of(GitError(TEXT), "all") == TEXT
        assert caplog.messages == []
        text = logged(caplog, GitError(TEXT))
        assert "frames of mcpkit" in text
        assert "in fail\n" in text
        assert "call_tool" not in text
        caplog.clear()
        caplog.set_level(logging.DEBUG, "mcpkit")
        text = logged(caplog, GitError(TEXT))
        assert "frames of mcpkit" not in text
        assert "call_tool" in text
