"""The run of one request: what its handler may ask of the session, and how it ended.

A run is not its request. It ends with an outcome, which is a value; its host (a session, or the
run of a task) acts on it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from mcpkit._concurrency.threads import is_interrupt
from mcpkit._entries import Defaults
from mcpkit._input_requests.requester import InputRequired
from mcpkit._input_requests.steps import Suspended
from mcpkit._protocol import wire
from mcpkit._protocol.messages import Encoded
from mcpkit._server import operations
from mcpkit._server.failures import error_result, leaves, to_protocol_error
from mcpkit._signature.output import Rendered
from mcpkit.context import Context, ContextBackend
from mcpkit.errors import ProtocolError
from mcpkit.sampling import Sample, SampleMessage, SampleResult, ToolUse, ToolUseResult
from mcpkit.tools import Tool, make_tool


@dataclass(slots=True)
class Failed:
    """The outcome of a run that failed, with the error for the client."""

    error: ProtocolError


ABANDONED: Final = object()
"""The outcome of a run whose response is not needed any more."""

Outcome: TypeAlias = Any
"""The value that a handler returned, `InputRequired`, a `Failed`, or `ABANDONED`."""


def name_of(value: object) -> operations.Outcome:
    """Return the outcome of an operation with this result."""
    if isinstance(value, Rendered) and value.is_error:
        return "tool_error"
    if isinstance(value, InputRequired):
        return "input_required"
    return "task" if isinstance(value, Encoded) and value.kind == b"task" else "ok"


class Run(ContextBackend):
    """The run of one request on its host; the backend of its context."""

    __slots__ = ()

    # --- to the end -------------------------------------------------------------------------------

    async def complete(self, operation: Awaitable[Any]) -> None:
        """Wait for the handler to end, and tell the host of the outcome, once."""
        outcome: Outcome = ABANDONED
        trace = self.request.trace
        if trace is not None:
            trace.enter()
        try:
            outcome = await operation
            if self.asker is not None:
                # A handler that swallowed its suspension returned without the answer.
                outcome = self._input_required() or outcome
        except Exception as error:
            outcome = self._input_required() or self.failed(error)
        except BaseException as error:
            # The others of a group are raised again by the next round, unless they depend on the
            # answers.
            if any(isinstance(each, Suspended) for each in leaves(error)):
                if not self._is_abandoned:
                    outcome = self._input_required()
                return
            if is_interrupt(error):
                raise
            if self._is_abandoned:
                if isinstance(error, (SystemExit, KeyboardInterrupt)):
                    return  # from the clean-up of a handler, which must not end the process
                raise
            # The handler called sys.exit(), or let through the cancellation of a task of its own.
            outcome = self.failed(error)
        finally:
            if trace is not None:
                trace.leave()
            self.session.take_outcome(self, outcome)

    @property
    def _is_abandoned(self) -> bool:
        return self.cancelled or self.session.is_closing

    def _input_required(self) -> Outcome | None:
        """Return the outcome of a run that waits for answers; None if it does not wait."""
        if self.asker is None or not self.asker.is_suspended or not self.asker.pending:
            return None
        try:
            return self.asker.input_required()
        except Exception as error:
            return self.failed(error)

    def failed(self, error: BaseException) -> Failed:
        """Return the outcome of a run that an exception ended."""
        found = to_protocol_error(error, Context(self))
        # Its frames would keep the request, and the body that it came in, in a cycle.
        found.__traceback__ = found.__context__ = found.__cause__ = None
        return Failed(found)

    def cancel(self) -> None:
        """End the run: the client cancelled the request, or the session ends."""
        self.cancelled = True
        self.cancel_task()
        if self.asker is not None:
            self.asker.abandon()

    async def sample_with_tools(
        self,
        sample: Sample,
        functions: Sequence[Callable[..., Any]],
        rounds: int,
        context: Context[Any],
    ) -> SampleResult:
        """Ask the client's model, and run the tools that it calls, until it answers."""
        defaults = Defaults(self.server.converters, self.server.settings.expose_errors)
        tools = {tool.name: tool for tool in (make_tool(f, defaults) for f in functions)}
        described = [tool.to_wire(self.request.revision) for tool in tools.values()]
        messages = list(sample.messages)
        for number in range(rounds + 1):
            asked = sample.continued(messages, str(number))
            asked.tools = described
            if number == rounds:
                asked.tool_choice = "none"
            result: SampleResult = await self.ask(asked)
            uses = result.tool_uses
            if not uses or number == rounds:
                return result
            answers = [await _use(context, tools, use) for use in uses]
            messages.append(SampleMessage(result.content, "assistant"))
            # SAMP-2: a user message that holds nothing but the results, one for each use.
            messages.append(SampleMessage(answers, "user"))
        raise AssertionError("unreachable: the last round returns")


async def _use(context: Context[Any], tools: Mapping[str, Tool], use: ToolUse) -> ToolUseResult:
    """Run a tool that a model has called: once, even if the handler is replayed."""
    revision = context.request.revision

    async def run() -> dict[str, Any]:
        tool = tools.get(use.name)
        if tool is None:
            rendered = Rendered(f"There is no tool {use.name}", is_error=True)
        else:
            try:
                rendered = await tool.call(dict(use.input), context)
            except Exception as error:
                rendered = await error_result(tool, context, error)
        wired = [wire.block_to_wire(block, revision) for block in rendered.blocks()]
        return {"content": wired, "isError": rendered.is_error}

    found = await context.step(f"tool {use.name} {use.id}", run)
    blocks = [wire.block_from_wire(each) for each in found["content"]]
    return ToolUseResult(use.id, blocks, found["isError"])
