"""How to call one function: prepared at registration, run per request.

A plan knows which parameters are injected, in which order dependencies are resolved, and whether
the function awaits, blocks, or is quick enough to run where it stands.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Mapping
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncContextDecorator,
    AsyncExitStack,
    ContextDecorator,
    asynccontextmanager,
    contextmanager,
)
from types import FunctionType, MappingProxyType
from typing import Any, Final, Literal, NamedTuple, TypeAlias, get_origin

from mcpkit._concurrency.threads import ThreadCall, is_interrupt
from mcpkit._declared import InputParameter
from mcpkit._given import Given
from mcpkit._signature.hints import function_name
from mcpkit._signature.signature import Parameter, Signature, inspect_function
from mcpkit._utils.json import UNSET
from mcpkit._utils.logs import get_logger
from mcpkit.context import Context, SyncContext
from mcpkit.dependencies import Depends
from mcpkit.errors import ConnectionClosed, RegistrationError

__all__ = ["CallPlan", "inspect_handler"]

CONTEXTS: Final = (Context, SyncContext)

Values: TypeAlias = dict[str, Any]

_log: Final = get_logger("mcpkit")


def inspect_handler(fn: Callable[..., Any], *, is_open: bool = False) -> Signature:
    """The signature of a function that mcpkit will call.

    Args:
        fn: The function.
        is_open: As for `inspect_function`.

    Raises:
        RegistrationError: It cannot be called from a request as it is written.
    """
    if isinstance(fn, str):
        raise RegistrationError(f"{fn!r} is no function; a name is an option: name={fn!r}")
    signature = inspect_function(fn, contexts=CONTEXTS, is_open=is_open)
    for each in signature.parameters if signature.is_async else ():
        if each.source == "context" and _context_kind(each.annotation) == "sync_context":
            raise RegistrationError(
                f"{signature.where}: {signature.name}() is async, and SyncContext would block the "
                f"event loop; write {each.name}: Context"
            )
    if _yields(fn) or (type(fn) is not FunctionType and _yields(type(fn).__call__)):
        raise RegistrationError(
            f"{signature.where}: {signature.name}() yields; a request has one answer: collect the "
            f"items and return them, and use ctx.progress() on the way"
        )
    return signature


def _yields(fn: Any) -> bool:
    if type(fn) is FunctionType:
        return bool(fn.__code__.co_flags & (inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR))
    return inspect.isasyncgenfunction(fn) or inspect.isgeneratorfunction(fn)


class _Source(NamedTuple):
    """Where a parameter of a handler or dependency comes from."""

    name: str
    kind: Literal["context", "sync_context", "dependency", "argument", "given"]
    step: int = -1
    default: Any = UNSET
    given: Given | None = None


class _Step(NamedTuple):
    """One dependency: resolved once per call, after those it needs."""

    provide: Callable[..., Any]
    is_async: bool
    inline: bool
    sources: tuple[_Source, ...]
    promised: bool
    """Whether it says that it returns a context manager, of whatever class."""


class CallPlan:
    """A function with everything decided that can be decided before a call.

    Args:
        fn: The handler.
        signature: As `inspect_handler` made it.
        inline: Run a plain ``def`` on the event loop instead of in a worker thread; for functions
            that only compute, and briefly.

    Raises:
        RegistrationError: A dependency cannot be satisfied.
    """

    __slots__ = (
        "_asked",
        "_injected",
        "_signature",
        "_steps",
        "environment",
        "fn",
        "inline",
        "is_async",
        "uses_context",
    )

    def __init__(
        self, fn: Callable[..., Any], signature: Signature, *, inline: bool = False
    ) -> None:
        self.fn = fn
        self.is_async = signature.is_async
        self.inline = inline and not signature.is_async
        self._injected: tuple[_Source, ...] = ()
        self._asked: tuple[InputParameter, ...] = ()
        self._steps: tuple[_Step, ...] = ()
        self.uses_context = False
        self.environment: tuple[str, ...] = ()
        """The variables of the environment that it cannot be called without."""
        if len(signature.arguments) < len(signature.parameters):
            self._inject(signature)

    def _inject(self, signature: Signature) -> None:
        resolver = _Resolver(signature)
        self._signature = signature
        self._injected = resolver.injected(signature)
        self._asked = tuple(
            InputParameter(each, f"{signature.where}: {signature.name}()")
            for each in signature.parameters
            if each.source == "ask"
        )
        self._steps = tuple(resolver.steps)
        sources = (*self._injected, *(s for step in self._steps for s in step.sources))
        self.uses_context = bool(self._asked) or any(
            source.kind in ("context", "sync_context") for source in sources
        )
        needed = [each.given.needs for each in sources if each.given is not None]
        self.environment = tuple(dict.fromkeys(filter(None, needed)))

    def run(self, values: Values, context: Context[Any]) -> Awaitable[Any]:
        """Call the function.

        Args:
            values: Keyword arguments; the plan adds what it injects.
            context: Of the request that is served.

        Returns:
            An awaitable of what the function returns. It raises what the function raises.
        """
        if self._asked:
            return self._run_with_answers(values, context)
        if self._steps:
            return self._run_with_dependencies(values, context)
        for source in self._injected:
            values[source.name] = _injected_value(source, context)
        if self.is_async:
            awaitable: Awaitable[Any] = self.fn(**values)
            return awaitable
        return self._call(self.fn, self.is_async, values, context, self.inline)

    async def ask_first(self, values: Values, context: Context[Any]) -> Values:
        """Ask what the parameters of the function declare.

        Args:
            values: The arguments.
            context: Of the request that is served.

        Returns:
            The values of those parameters.
        """
        if not self._asked:
            return {}
        answers = await context.peer.gather([each.question(values) for each in self._asked])
        return {
            each.name: each.value(answer) for each, answer in zip(self._asked, answers, strict=True)
        }

    async def _run_with_answers(self, values: Values, context: Context[Any]) -> Any:
        values.update(await self.ask_first(values, context))
        return await self._run_with_dependencies(values, context)

    async def _run_with_dependencies(self, values: Values, context: Context[Any]) -> Any:
        overrides = context.peer.overrides
        if not overrides:
            return await self._run_in_order(self._steps, self._injected, values, context)
        resolver = _Resolver(self._signature, overrides)
        injected = resolver.injected(self._signature)
        return await self._run_in_order(tuple(resolver.steps), injected, values, context)

    async def _run_in_order(
        self,
        steps: tuple[_Step, ...],
        injected_from: tuple[_Source, ...],
        values: Values,
        context: Context[Any],
    ) -> Any:
        async with AsyncExitStack() as stack:
            resolved: list[Any] = []
            belongs_here = False
            for step in steps:
                arguments = self._gather(step.sources, values, resolved, context)
                made = await self._call(
                    step.provide, step.is_async, arguments, context, step.inline
                )
                belongs_here = belongs_here or _is_async_manager(made, step.promised)
                resolved.append(await _enter(made, step.promised, stack, context))
            injected = self._gather(injected_from, values, resolved, context)
            every = {**values, **injected}
            if self.is_async or self.inline:
                return await self._call(self.fn, self.is_async, every, context, self.inline)
            call: ThreadCall[Any] = ThreadCall(functools.partial(self.fn, **every))
            try:
                result = await context.peer.in_thread(call)
                return await result if inspect.isawaitable(result) else result
            except BaseException:
                if belongs_here:
                    # What is entered by a coroutine is left by the same task: it may hold a cancel
                    # scope, a task group, or a context variable.
                    await call.ended()
                    raise
                # Nobody waits for the thread any more, but it goes on with what it depends on.
                kept = stack.pop_all()
                if not call.then(lambda: context.peer.run_later(lambda: _leave(kept))):
                    stack.push_async_exit(kept)
                raise

    @staticmethod
    def _gather(
        sources: tuple[_Source, ...],
        values: Mapping[str, Any],
        resolved: list[Any],
        context: Context[Any],
    ) -> Values:
        gathered: Values = {}
        for source in sources:
            if source.kind == "dependency":
                gathered[source.name] = resolved[source.step]
            elif source.kind == "argument":
                value = values.get(source.name, source.default)
                if value is not UNSET:
                    gathered[source.name] = value
            else:
                gathered[source.name] = _injected_value(source, context)
        return gathered

    @staticmethod
    async def _call(
        fn: Callable[..., Any], is_async: bool, values: Values, context: Context[Any], inline: bool
    ) -> Any:
        if is_async:
            return await fn(**values)
        if inline:
            result = fn(**values)
        else:
            result = await context.peer.in_thread(functools.partial(fn, **values))
        # A plain callable may still hand back a coroutine, such as a lambda around one.
        return await result if inspect.isawaitable(result) else result


def _injected_value(source: _Source, context: Context[Any]) -> Any:
    if source.given is not None:
        return source.given.value(context)
    return SyncContext(context) if source.kind == "sync_context" else context


async def _leave(kept: AsyncExitStack) -> None:
    """Leave the dependencies of a call that was given up."""
    error = ConnectionClosed("The call was given up")
    try:
        # Not with the cancellation itself, which belongs to another task.
        await kept.__aexit__(type(error), error, None)
    except (Exception, SystemExit, KeyboardInterrupt) as found:
        if is_interrupt(found):
            raise
        if found is not error:
            _log.exception("a dependency could not be left")


def _leave_at_once(manager: Any, entered: ThreadCall[Any]) -> None:
    """Leave a dependency of a call that was given up while it was entered. In the thread."""
    try:
        if entered.returned:
            manager.__exit__(None, None, None)
    except Exception:
        _log.exception("a dependency could not be left")


def _promises_a_manager(signature: Signature) -> bool:
    """Whether a provider's annotation says that what it returns is to be entered."""
    returns = get_origin(signature.returns) or signature.returns
    return returns in (AbstractContextManager, AbstractAsyncContextManager)


def _is_async_manager(made: Any, promised: bool) -> bool:
    return isinstance(made, AsyncContextDecorator) or (promised and hasattr(made, "__aenter__"))


async def _enter(made: Any, promised: bool, stack: AsyncExitStack, context: Context[Any]) -> Any:
    """Enter what a dependency has made, if it is one of contextlib's managers, or promised to be.

    Anything else is the value, though it may have ``__enter__``: entering a connection or a client
    begins a transaction or closes what others use.
    """
    manager = made
    if _is_async_manager(made, promised):
        return await stack.enter_async_context(manager)
    if isinstance(made, ContextDecorator) or (promised and hasattr(made, "__enter__")):
        from anyio import CancelScope  # importing an app should not load an event loop

        async def leave(*error: Any) -> bool | None:
            swallows: bool | None = None
            with CancelScope(shield=True):
                swallows = await context.peer.in_thread(lambda: manager.__exit__(*error))
            return swallows  # noqa: RET504 - to mypy the scope might swallow an exception

        enter: ThreadCall[Any] = ThreadCall(manager.__enter__)
        try:
            entered = await context.peer.in_thread(enter)
        except BaseException:
            will_leave = enter.then(lambda: _leave_at_once(manager, enter))
            if enter.returned and not will_leave:
                await leave(None, None, None)
            raise
        stack.push_async_exit(leave)
        return entered
    return made


class _Resolver:
    """Puts the dependencies of a handler into an order in which each has what it needs."""

    def __init__(
        self,
        signature: Signature,
        overrides: Mapping[Callable[..., Any], Any] = MappingProxyType({}),
    ) -> None:
        self._overrides = overrides
        self._arguments = {each.name: each for each in signature.arguments}
        self._where = f"{signature.where}: {signature.name}()"
        self._found: dict[Callable[..., Any], int] = {}
        self._open: list[Callable[..., Any]] = []
        self.steps: list[_Step] = []

    def injected(self, signature: Signature) -> tuple[_Source, ...]:
        """Return where the parameters come from that no client sends."""
        return tuple(
            self.source(each)
            for each in signature.parameters
            if each.source in ("context", "depends", "given")
        )

    def source(self, parameter: Parameter) -> _Source:
        if parameter.source == "context":
            return _Source(parameter.name, _context_kind(parameter.annotation))
        if parameter.given is not None:
            given = Given(parameter, self._where)
            return _Source(parameter.name, "given", given=given)
        assert parameter.depends is not None
        return _Source(parameter.name, "dependency", self._step(parameter.depends))

    def _step(self, depends: Depends) -> int:
        provide = self._overrides.get(depends.provide, depends.provide)
        if provide in self._found:
            return self._found[provide]
        if provide in self._open:
            names = " → ".join(function_name(each) for each in [*self._open, provide])
            raise RegistrationError(f"{self._where}: the dependencies go in a circle: {names}")
        self._open.append(provide)
        signature = inspect_function(provide, contexts=CONTEXTS)
        sources = tuple(self._dependency_source(each, signature) for each in signature.parameters)
        self._open.pop()
        call = provide
        if inspect.isasyncgenfunction(provide):
            call = asynccontextmanager(provide)
        elif inspect.isgeneratorfunction(provide):
            call = contextmanager(provide)
        # Making a context manager runs nothing of the function yet, so it needs no thread.
        made_here = call is not provide
        promised = _promises_a_manager(signature)
        self.steps.append(_Step(call, signature.is_async, made_here, sources, promised))
        self._found[provide] = len(self.steps) - 1
        return self._found[provide]

    def _dependency_source(self, parameter: Parameter, of: Signature) -> _Source:
        if parameter.source == "ask":
            raise RegistrationError(
                f"{self._where}: the dependency {of.name}() declares a question; ask it inside, "
                f"with ctx, or declare it on the handler"
            )
        if parameter.source != "argument":
            return self.source(parameter)
        argument = self._arguments.get(parameter.name)
        if argument is not None:
            default = parameter.default if argument.default is UNSET else argument.default
            return _Source(parameter.name, "argument", default=default)
        if parameter.required:
            raise RegistrationError(
                f"{self._where}: the dependency {of.name}() wants {parameter.name!r}, which is "
                f"neither an argument of the handler nor annotated with Context or Depends"
            )
        return _Source(parameter.name, "argument", default=parameter.default)


def _context_kind(annotation: Any) -> Literal["context", "sync_context"]:
    text = [annotation, *getattr(annotation, "__args__", ())]
    bases = [getattr(each, "__origin__", each) for each in text]
    is_sync = any(isinstance(base, type) and issubclass(base, SyncContext) for base in bases)
    return "sync_context" if is_sync else "context"
