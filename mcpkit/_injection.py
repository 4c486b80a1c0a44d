"""How to call one function: prepared at registration, run per request.

A plan knows which parameters are injected (the context, dependencies, claims, environment variables
and declared input requests), in which order dependencies are resolved, and whether the function
awaits, blocks, or may run on the event loop.
"""

from __future__ import annotations

import ast
import copy
import functools
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
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
from typing import Any, Final, NamedTuple, TypeAlias, cast, get_args, get_origin

import pydantic
from pydantic_core import ValidationError

from mcpkit import _wings
from mcpkit._concurrency.threads import ThreadCall, is_interrupt
from mcpkit._environment import variable
from mcpkit._protocol.input_request import InputRequest
from mcpkit._signature.forms import UNIONS
from mcpkit._signature.hints import function_name, location, syntax_of, underlying
from mcpkit._signature.signature import (
    Parameter,
    Signature,
    can_take,
    inspect_function,
    is_async,
    is_context_type,
)
from mcpkit._utils.json import UNSET
from mcpkit._utils.logs import log
from mcpkit._utils.names import caller
from mcpkit.context import Context, SyncContext
from mcpkit.dependencies import Claim, Depends
from mcpkit.elicitation import Accepted, Declined, Dismissed, Elicit, Form
from mcpkit.errors import (
    ConnectionClosed,
    ElicitationError,
    Forbidden,
    MissingEnvironment,
    RegistrationError,
)
from mcpkit.roots import Roots
from mcpkit.sampling import Sample, SampleResult

Values: TypeAlias = dict[str, Any]

Around: TypeAlias = Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]]
"""Does something around the run of a handler."""

CONTEXTS: Final = (Context, SyncContext)


def inspect_handler(fn: Callable[..., Any], *, allows_open: bool = False) -> Signature:
    """Return the signature of a handler; `allows_open` as for `inspect_function`."""
    if isinstance(fn, str):
        raise RegistrationError(f"{fn!r} is not a function; a name is an option: name={fn!r}")
    signature = inspect_function(fn, contexts=CONTEXTS, allows_open=allows_open)
    for each in signature.parameters if signature.is_async else ():
        if each.source == "context" and is_context_type(each.annotation, (SyncContext,)):
            raise RegistrationError(
                f"{signature.place} is async, and SyncContext would block the event loop; "
                f"write {each.name}: Context"
            )
    _check_awaited(fn, signature)
    if _yields(fn) or (type(fn) is not FunctionType and _yields(type(fn).__call__)):
        raise RegistrationError(
            f"{signature.place} yields; a request has one answer: collect the items and return "
            f"them, and use ctx.progress() on the way"
        )
    return signature


_AWAITED: Final = frozenset(
    name
    for name, each in vars(Context).items()
    if inspect.iscoroutinefunction(inspect.unwrap(each))
)
"""The methods of a context that do nothing until they are awaited."""


def _check_awaited(fn: Callable[..., Any], signature: Signature) -> None:
    """Refuse a plain function that discards what such a method returns, or reads its members."""
    target = underlying(fn)
    names: Sequence[str] = getattr(getattr(target, "__code__", None), "co_names", ())
    if signature.is_async or _AWAITED.isdisjoint(names):
        return
    contexts = [each for each in signature.parameters if each.source == "context"]
    waiting = {each.name for each in contexts if is_context_type(each.annotation, (Context,))}
    nodes = [*ast.walk(syntax_of(target))]
    read = {id(each.value) for each in nodes if isinstance(each, ast.Attribute)}
    # A coroutine that goes elsewhere may be awaited there.
    passed_on = {
        each.id
        for each in nodes
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load) and id(each) not in read
    }
    for node in nodes:
        used = node.value if isinstance(node, (ast.Expr, ast.Attribute)) else None
        if isinstance(node, ast.Assign) and passed_on.isdisjoint(map(ast.unparse, node.targets)):
            used = node.value
        called = ast.unparse(used.func) if isinstance(used, ast.Call) else ""
        name, _, method = called.partition(".")
        if name in waiting and method in _AWAITED:
            raise RegistrationError(
                f"{signature.place} is not async, so {name}.{method}() is never awaited; write "
                f"async def and await, or {name}: SyncContext"
            )


def _yields(fn: Any) -> bool:
    if type(fn) is FunctionType:
        return bool(fn.__code__.co_flags & (inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR))
    return inspect.isasyncgenfunction(fn) or inspect.isgeneratorfunction(fn)


def check_lifespan(lifespan: Any) -> None:
    """Check that calling a lifespan with the app gives an async context manager."""
    if not callable(lifespan) or hasattr(lifespan, "__aenter__"):
        kind = type(lifespan).__name__
        raise RegistrationError(
            f"{caller()}lifespan= is a {kind}; pass the function under @asynccontextmanager, "
            f"not called"
        )
    made = underlying(lifespan)
    is_raw = made is lifespan and inspect.isasyncgenfunction(made)
    if is_raw or inspect.isgeneratorfunction(made) or is_async(lifespan):
        raise RegistrationError(not_a_manager(lifespan))
    if not can_take(lifespan, None):
        raise RegistrationError(
            f"{location(lifespan)} is called with the app when serving starts; give it one "
            f"parameter, app: MCPKit"
        )


def not_a_manager(lifespan: Any) -> str:
    """Return the message for a lifespan that is not an async context manager."""
    return (
        f"{location(lifespan)} does not return an async context manager; make it an async def that "
        f"yields once, under @contextlib.asynccontextmanager"
    )


# --- claims and the environment -------------------------------------------------------------------


def _given_source(parameter: Parameter, at: str) -> _Source:
    """Return the source of a parameter with a `Claim` or `Env` mark."""
    mark, default = parameter.mark, parameter.default
    is_claim = isinstance(mark, Claim)
    try:
        convert = pydantic.TypeAdapter(parameter.annotation).validate_python
    except pydantic.PydanticUserError:
        raise RegistrationError(
            f"{at}: {parameter.name} has a type that {type(mark).__name__} cannot "
            f"fill; write str, or another type of JSON"
        ) from None
    get = functools.partial(_claim if is_claim else _variable, mark.name, default, convert)
    variable = mark.name if not is_claim and default is UNSET else None
    return _Source(parameter.name, get, variable=variable)


# The text of a ValidationError contains the value, which must not leak (SEC-13).


def _claim(name: str, default: Any, convert: Any, context: Context[Any]) -> Any:
    principal = context.request.principal
    found: Any = None if principal is None else principal.claims.get(name)
    if found is None:
        if default is not UNSET:
            return default
        if principal is None:
            raise Forbidden(f"Authentication required: a token with the claim {name!r}", status=401)
        raise Forbidden(f"Your token does not have the claim {name!r}")
    try:
        return convert(found)
    except ValidationError:
        raise Forbidden(f"The claim {name!r} of your token has an unsupported value") from None


def _variable(name: str, default: Any, convert: Any, context: Context[Any]) -> Any:
    found = variable(name)
    if not found:
        if default is not UNSET:
            return default
        raise MissingEnvironment([name])
    try:
        return convert(found)
    except ValidationError:
        raise MissingEnvironment([name], "has a value of the wrong type") from None


# --- declared input requests ----------------------------------------------------------------------


class _InputParameter:
    """A parameter that the client answers before the handler runs, so that nothing is replayed.

    ``async def delete(path: str, sure: Annotated[Confirm, Elicit("Really?")]) -> str: ...``
    """

    def __init__(self, parameter: Parameter, at: str) -> None:
        self.name = parameter.name
        at = f"{at}: {self.name}"
        annotation = parameter.annotation.__origin__
        ask: InputRequest[Any] = copy.copy(parameter.mark)
        ask.key = ask.key or self.name
        self._ask = ask
        self._message: Callable[..., str] | None = None
        self._is_whole = True
        if isinstance(ask, Elicit):
            self._is_whole, wanted = _answer_type(annotation)
            if ask.schema is UNSET:
                try:
                    ask.form = Form(wanted)
                except ElicitationError as error:
                    raise RegistrationError(f"{at}: {error}") from error
            if callable(ask.message):
                self._message = ask.message
                self._arguments = tuple(inspect.signature(self._message).parameters)
        elif isinstance(ask, Sample):
            if annotation not in (str, SampleResult):
                raise RegistrationError(f"{at}: the answer of a model is a str or a SampleResult")
            self._is_whole = annotation is SampleResult
        elif not isinstance(ask, Roots):
            raise RegistrationError(f"{at}: use Elicit, Sample or Roots")

    def request(self, values: Mapping[str, Any]) -> InputRequest[Any]:
        if self._message is None:
            return self._ask
        request: Any = copy.copy(self._ask)
        request.message = self._message(**{name: values.get(name) for name in self._arguments})
        return cast("InputRequest[Any]", request)

    def value(self, answer: Any) -> Any:
        if self._is_whole:
            return answer
        return answer.text if isinstance(answer, SampleResult) else answer.data


def _answer_type(annotation: Any) -> tuple[bool, Any]:
    """Return whether a parameter takes the whole answer, and the type of the data in it."""
    parts = get_args(annotation) if type(annotation) in UNIONS else (annotation,)
    for part in parts:
        if get_origin(part) is Accepted:
            return True, get_args(part)[0]
    is_whole = any(each in parts for each in (Accepted, Declined, Dismissed))
    return is_whole, None if is_whole else annotation


# --- calls ----------------------------------------------------------------------------------------


class _Source(NamedTuple):
    """The source of the value of a parameter."""

    name: str
    get: Callable[[Context[Any]], Any] | None = None  # None if an argument or a step has the value
    step: int = -1  # the dependency, by its place among the steps
    default: Any = UNSET  # the value of an argument that the client has left out
    variable: str | None = None  # the environment variable that must be set


def _itself(context: Context[Any]) -> Context[Any]:
    return context


class _Step(NamedTuple):
    """One dependency: resolved once per call, after those that it needs."""

    provide: Callable[..., Any]
    is_async: bool
    inline: bool
    sources: tuple[_Source, ...]
    promised: bool
    """True if its annotation says that it returns a context manager."""


class CallPlan:
    """A function with everything decided that can be decided before a call.

    `inline` runs a plain ``def`` on the event loop instead of in a worker thread.
    """

    def __init__(
        self, fn: Callable[..., Any], signature: Signature, *, inline: bool = False
    ) -> None:
        self.fn = fn
        self._called = fn
        self.is_async = signature.is_async
        self.inline = inline and not signature.is_async
        self._injected: tuple[_Source, ...] = ()
        self._asked: tuple[_InputParameter, ...] = ()
        self._steps: tuple[_Step, ...] = ()
        self.uses_context = False
        """True if it may log, report progress, or ask the client."""
        self.environment: list[str] = []
        """The environment variables that must be set."""
        if len(signature.arguments) == len(signature.parameters):
            return
        self._signature = signature
        resolver = _Resolver(signature)
        self._injected = resolver.injected(signature)
        self._asked = tuple(
            _InputParameter(each, signature.place)
            for each in signature.parameters
            if each.source == "ask"
        )
        self._steps = tuple(resolver.steps)
        sources = (*self._injected, *(s for step in self._steps for s in step.sources))
        self.uses_context = bool(self._asked) or any(
            source.get in (_itself, SyncContext) for source in sources
        )
        self.environment = [each.variable for each in sources if each.variable is not None]

    def run(self, values: Values, context: Context[Any]) -> Awaitable[Any]:
        """Call the function with keyword arguments, to which the plan adds the injected ones."""
        if self._asked or self._steps:
            return self._run_in_order(values, context)
        for source in self._injected:
            assert source.get is not None
            values[source.name] = source.get(context)
        if self.is_async:
            awaitable: Awaitable[Any] = self._called(**values)
            return awaitable
        return _call(self._called, self.is_async, values, context, self.inline)

    def run_within(self, around: Around, values: Values, context: Context[Any]) -> Awaitable[Any]:
        """As `run`; `around` is called with a function that runs the handler, and awaits it."""
        return around(functools.partial(self.run, values, context))

    @property
    def asks(self) -> list[str]:
        """The parameters that the client answers before the function runs."""
        return [each.name for each in self._asked]

    async def ask_first(self, values: Values, context: Context[Any]) -> Values:
        """Ask the client for the input that parameters declare; return the values of these."""
        if not self._asked:
            return {}
        answers = await context.backend.gather([each.request(values) for each in self._asked])
        return {
            each.name: each.value(answer) for each, answer in zip(self._asked, answers, strict=True)
        }

    async def _run_in_order(self, values: Values, context: Context[Any]) -> Any:
        values.update(await self.ask_first(values, context))
        steps, sources = self._steps, self._injected
        if overrides := context.backend.server.overrides:
            resolver = _Resolver(self._signature, overrides)
            sources = resolver.injected(self._signature)
            steps = tuple(resolver.steps)
        async with AsyncExitStack() as stack:
            resolved: list[Any] = []
            belongs_here = False
            for step in steps:
                arguments = _gather(step.sources, values, resolved, context)
                made = await _call(step.provide, step.is_async, arguments, context, step.inline)
                belongs_here = belongs_here or _is_async_manager(made, step.promised)
                resolved.append(await _enter(made, step.promised, stack, context))
            every = {**values, **_gather(sources, values, resolved, context)}
            if self.is_async or self.inline:
                return await _call(self._called, self.is_async, every, context, self.inline)
            call: ThreadCall[Any] = ThreadCall(functools.partial(self._called, **every))
            try:
                result = await context.backend.in_thread(call)
                return await result if inspect.isawaitable(result) else result
            except BaseException:
                if belongs_here:
                    # A coroutine must exit in the task that entered it: it may hold a cancel
                    # scope, a task group, or a context variable.
                    await call.ended()
                    raise
                # The caller stopped waiting, but the thread still uses the dependencies.
                kept = stack.pop_all()
                loop = context.backend.session.threads.loop
                if not call.then(lambda: loop.soon(lambda: loop.start(_exit(kept)))):
                    stack.push_async_exit(kept)
                raise


Described: TypeAlias = Callable[[Any, Context[Any]], Awaitable[Any]]
"""What a described entry calls: with all that the client has sent, and the context."""


class DescribedPlan(CallPlan):
    """The plan of a described entry: its function gets what the entry takes as one value."""

    def __init__(self, call: Described, at: str) -> None:
        if not is_async(call) or not can_take(call, None, None):
            raise RegistrationError(
                f"{at}: {call!r:.80} is not an async function of what the client sends, and of the "
                f"context"
            )
        super().__init__(call, inspect_function(_nothing))
        self.uses_context = True

    def run(self, values: Any, context: Context[Any]) -> Awaitable[Any]:
        """Call the function."""
        awaitable: Awaitable[Any] = self.fn(values, context)
        return awaitable


async def _nothing() -> None: ...


class LimitedPlan(CallPlan):
    """A plan whose calls have limits."""

    def __init__(self, plan: CallPlan, gate: Any) -> None:
        vars(self).update(vars(plan))
        self.gates: tuple[Any, ...] = (gate,)
        self._plan = plan
        if isinstance(plan, LimitedPlan):
            self._plan = plan._plan
            self.gates = tuple(dict.fromkeys((*plan.gates, gate)))
        elif not self.is_async and not self.inline:
            self._plan = copy.copy(plan)
            self._plan._called = _wings.call_limits.tracked(self.fn)

    def run(self, values: Values, context: Context[Any]) -> Awaitable[Any]:
        """Call the function within its limits."""
        call = functools.partial(self._plan.run, values, context)
        name = function_name(self.fn)
        running: Awaitable[Any] = _wings.call_limits.run(call, self.gates, context, name)
        return running

    def run_within(self, around: Around, values: Values, context: Context[Any]) -> Awaitable[Any]:
        """As `run`; `around` has its place then."""
        call = functools.partial(around, functools.partial(self._plan.run, values, context))
        name = function_name(self.fn)
        running: Awaitable[Any] = _wings.call_limits.run(call, self.gates, context, name)
        return running


def plan_of(fn: Callable[..., Any], signature: Signature, options: Mapping[str, Any]) -> CallPlan:
    """Return the plan of an entry with these options; raises `RegistrationError`."""
    plan = CallPlan(fn, signature, inline=bool(options.get("inline")))
    return limited(plan, options, options.get("name") or signature.name, signature.place)


def limited(plan: CallPlan, options: Mapping[str, Any], name: str, at: str) -> CallPlan:
    """Return a plan with the limits among some options; raises `RegistrationError`."""
    if all(options.get(each) is None for each in _LIMITS):
        return plan
    return LimitedPlan(plan, _wings.call_limits.gate_of(options, name, at, inline=plan.inline))


_LIMITS: Final = ("timeout", "concurrency", "rate", "call_limits")


def _gather(
    sources: tuple[_Source, ...],
    values: Mapping[str, Any],
    resolved: list[Any],
    context: Context[Any],
) -> Values:
    gathered: Values = {}
    for source in sources:
        if source.get is not None:
            gathered[source.name] = source.get(context)
        elif source.step >= 0:
            gathered[source.name] = resolved[source.step]
        else:
            value = values.get(source.name, source.default)
            if value is not UNSET:
                gathered[source.name] = value
    return gathered


async def _call(
    fn: Callable[..., Any], is_async: bool, values: Values, context: Context[Any], inline: bool
) -> Any:
    if is_async:
        return await fn(**values)
    if inline:
        result = fn(**values)
    else:
        result = await context.backend.in_thread(functools.partial(fn, **values))
    # A plain callable may still return a coroutine, such as a lambda around an async function.
    return await result if inspect.isawaitable(result) else result


async def _exit(kept: AsyncExitStack) -> None:
    """Exit the dependencies of a call whose caller stopped waiting."""
    error = ConnectionClosed("The call was abandoned")
    try:
        # Not with the cancellation itself, which belongs to another task.
        await kept.__aexit__(type(error), error, None)
    except (Exception, SystemExit, KeyboardInterrupt) as found:
        if is_interrupt(found):
            raise
        if found is not error:
            log.exception("a dependency failed to exit")


def _exit_in_thread(manager: Any, entered: ThreadCall[Any]) -> None:
    """Exit a dependency of a call that was cancelled while the dependency was entered."""
    try:
        if entered.returned:
            manager.__exit__(None, None, None)
    except Exception:
        log.exception("a dependency failed to exit")


def _is_async_manager(made: Any, promised: bool) -> bool:
    return isinstance(made, AsyncContextDecorator) or (promised and hasattr(made, "__aenter__"))


async def _enter(made: Any, promised: bool, stack: AsyncExitStack, context: Context[Any]) -> Any:
    """Enter the result of a dependency, if contextlib made it or the annotation promises a manager.

    Any other result is injected as is, even with an ``__enter__``: entering a connection or a
    client starts a transaction or closes what others use.
    """
    manager = made
    if _is_async_manager(made, promised):
        return await stack.enter_async_context(manager)
    if isinstance(made, ContextDecorator) or (promised and hasattr(made, "__enter__")):
        from anyio import CancelScope  # importing an app should not load an event loop

        async def leave(*error: Any) -> bool | None:
            swallows: bool | None = None
            with CancelScope(shield=True):
                swallows = await context.backend.in_thread(lambda: manager.__exit__(*error))
            return swallows  # noqa: RET504 - to mypy the scope might swallow an exception

        enter: ThreadCall[Any] = ThreadCall(manager.__enter__)
        try:
            entered = await context.backend.in_thread(enter)
        except BaseException:
            will_leave = enter.then(lambda: _exit_in_thread(manager, enter))
            if enter.returned and not will_leave:
                await leave(None, None, None)
            raise
        stack.push_async_exit(leave)
        return entered
    return made


# --- dependencies ---------------------------------------------------------------------------------


class _Resolver:
    """Orders the dependencies of a handler so that each comes after those that it needs."""

    def __init__(
        self,
        signature: Signature,
        overrides: Mapping[Callable[..., Any], Any] = MappingProxyType({}),
    ) -> None:
        self._overrides = overrides
        self._arguments = {each.name: each for each in signature.arguments}
        self._at = signature.place
        self._found: dict[Callable[..., Any], int] = {}
        self._open: list[Callable[..., Any]] = []
        self.steps: list[_Step] = []

    def injected(self, signature: Signature) -> tuple[_Source, ...]:
        """Return the sources of the parameters that the client does not send."""
        return tuple(
            self.source(each)
            for each in signature.parameters
            if each.source in ("context", "depends", "given")
        )

    def source(self, parameter: Parameter) -> _Source:
        if parameter.source == "context":
            is_sync = is_context_type(parameter.annotation, (SyncContext,))
            return _Source(parameter.name, SyncContext if is_sync else _itself)
        if parameter.source == "given":
            return _given_source(parameter, self._at)
        return _Source(parameter.name, step=self._step(parameter.mark))

    def _step(self, depends: Depends) -> int:
        provide = self._overrides.get(depends.provide, depends.provide)
        if provide in self._found:
            return self._found[provide]
        if provide in self._open:
            names = " → ".join(function_name(each) for each in [*self._open, provide])
            raise RegistrationError(f"{self._at}: the dependencies form a cycle: {names}")
        self._open.append(provide)
        signature = inspect_function(provide, contexts=CONTEXTS)
        _check_awaited(provide, signature)
        sources = tuple(self._dependency_source(each, signature) for each in signature.parameters)
        self._open.pop()
        call = provide
        if inspect.isasyncgenfunction(provide):
            call = asynccontextmanager(provide)
        elif inspect.isgeneratorfunction(provide):
            call = contextmanager(provide)
        # Making a context manager does not run the function yet, so it needs no thread.
        inline = call is not provide
        returns = get_origin(signature.returns) or signature.returns
        promised = returns in (AbstractContextManager, AbstractAsyncContextManager)
        self.steps.append(_Step(call, signature.is_async, inline, sources, promised))
        self._found[provide] = len(self.steps) - 1
        return self._found[provide]

    def _dependency_source(self, parameter: Parameter, of: Signature) -> _Source:
        if parameter.source == "ask":
            raise RegistrationError(
                f"{self._at}: the dependency {of.name}() declares an input request; ask inside it "
                f"with ctx, or declare it on the handler"
            )
        if parameter.source != "argument":
            return self.source(parameter)
        argument = self._arguments.get(parameter.name)
        if argument is not None:
            default = parameter.default if argument.default is UNSET else argument.default
            return _Source(parameter.name, default=default)
        if parameter.required:
            raise RegistrationError(
                f"{self._at}: the dependency {of.name}() wants {parameter.name!r}, which is "
                f"neither an argument of the handler nor annotated with Context or Depends"
            )
        return _Source(parameter.name, default=parameter.default)
