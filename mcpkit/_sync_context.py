"""`SyncContext`: the context of a request, for plain ``def`` handlers."""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, overload

from typing_extensions import ParamSpec, TypeVar, Unpack

from mcpkit._input_requests.steps import Step, typed
from mcpkit._protocol.input_request import InputRequest
from mcpkit._utils.names import with_suggestions
from mcpkit.context import AskOptions, ChoiceValues, Context, Facts, StateT
from mcpkit.elicitation import Elicit, Elicitation, ElicitUrl
from mcpkit.roots import Root, Roots
from mcpkit.sampling import SampleMessage, SampleOptions, SampleResult
from mcpkit.types import ResourceContents

P = ParamSpec("P")
T = TypeVar("T")


class SyncContext(Facts[StateT]):
    """The context of a request, for a plain ``def`` handler, which runs in a worker thread.

    Like `Context`, with blocking methods instead of async ones.
    """

    __slots__ = ("_context",)

    def __init__(self, context: Context[Any]) -> None:
        super().__init__(context.backend)
        self._context = context

    def read_resource(self, uri: str) -> Sequence[ResourceContents]:
        """Read one of the server's own resources; blocks. As `Context.read_resource`."""
        return self.backend.from_thread(self._context.read_resource, uri)

    def step(self, key: str, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a side effect once per call; blocks. As `Context.step`, for sync functions."""
        step: Step | None = self._wait(self.backend.begin_step, key)
        if step is None:
            return function(*args, **kwargs)
        if not step.done:
            try:
                with step.running():
                    result = function(*args, **kwargs)
            except BaseException:
                self._wait(step.fail)
                raise
            self._wait(step.finish, result)
        value: T = typed(function, step.value)
        return value

    def _wait(self, function: Callable[..., Coroutine[Any, Any, T]], *args: Any) -> T:
        return self.backend.from_thread(function, *args)

    @overload
    def elicit(
        self, message: str, schema: type[T], **options: Unpack[AskOptions]
    ) -> Elicitation[T]: ...

    @overload
    def elicit(
        self, message: str, schema: None = None, **options: Unpack[AskOptions]
    ) -> Elicitation[None]: ...

    @overload
    def elicit(
        self, message: str, schema: ChoiceValues, **options: Unpack[AskOptions]
    ) -> Elicitation[str]: ...

    @overload
    def elicit(
        self, message: str, schema: Any, **options: Unpack[AskOptions]
    ) -> Elicitation[Any]: ...

    @with_suggestions("elicit(…)")
    def elicit(
        self,
        message: str,
        schema: Any = None,
        *,
        key: str | None = None,
        timeout: float | None = None,
    ) -> Elicitation[Any]:
        """Ask the user to fill in a form; blocks. As `Context.elicit`."""
        ask = Elicit[Any](message, schema, key=key, timeout=timeout)
        answer: Elicitation[Any] = self._wait(self.backend.ask, ask)
        return answer

    def elicit_url(
        self,
        message: str,
        url: str,
        *,
        elicitation_id: str | None = None,
        key: str | None = None,
        timeout: float | None = None,
    ) -> Elicitation[None]:
        """Ask the user to open a URL; blocks. As `Context.elicit_url`."""
        ask = ElicitUrl(
            message, url, elicitation_id or os.urandom(16).hex(), key=key, timeout=timeout
        )
        answer: Elicitation[None] = self._wait(self.backend.ask, ask)
        return answer

    def elicitation_complete(self, elicitation_id: str) -> None:
        """Notify the client that the user has finished. As `Context.elicitation_complete`."""
        self._context.elicitation_complete(elicitation_id)

    @overload
    def sample(
        self,
        messages: str | SampleMessage | Sequence[str | SampleMessage],
        *,
        result_type: type[T],
        tools: Sequence[Callable[..., Any]] | None = None,
        tool_rounds: int = 8,
        **options: Unpack[SampleOptions],
    ) -> T: ...

    @overload
    def sample(
        self,
        messages: str | SampleMessage | Sequence[str | SampleMessage],
        *,
        result_type: None = None,
        tools: Sequence[Callable[..., Any]] | None = None,
        tool_rounds: int = 8,
        **options: Unpack[SampleOptions],
    ) -> SampleResult: ...

    def sample(
        self,
        messages: str | SampleMessage | Sequence[str | SampleMessage],
        *,
        result_type: Any = None,
        tools: Sequence[Callable[..., Any]] | None = None,
        tool_rounds: int = 8,
        **options: Unpack[SampleOptions],
    ) -> Any:
        """Ask the client's model; blocks. As `Context.sample`."""

        async def ask() -> Any:
            return await self._context.sample(
                messages, result_type=result_type, tools=tools, tool_rounds=tool_rounds, **options
            )

        return self._wait(ask)

    def roots(self, *, key: str | None = None, timeout: float | None = None) -> list[Root]:
        """Ask for the folders that the client shows to servers; blocks. As `Context.roots`."""
        ask = Roots(key=key, timeout=timeout)
        found: list[Root] = self._wait(self.backend.ask, ask)
        return found

    def roots_changed(self, handler: Callable[[list[Root]], object]) -> None:
        """Call a function with the new roots after each change. As `Context.roots_changed`."""
        self._context.roots_changed(handler)

    def gather(self, *asks: InputRequest[Any]) -> list[Any]:
        """Send several input requests at once; blocks. As `Context.gather`."""
        return self._wait(self.backend.gather, asks)
