"""Repeated calls of a tool: keys with which a call runs once, and runs that equal calls share.

How both are declared is checked here. The records of calls with a key are in `mcpkit.tasks.calls`.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, get_args

from mcpkit._concurrency.threads import is_interrupt
from mcpkit._entries import EntryOption
from mcpkit._input_requests.requester import Requester
from mcpkit._protocol.connection import TASKS_EXTENSION
from mcpkit._protocol.input_request import InputRequest
from mcpkit._signature.arguments import Field, Takes
from mcpkit._signature.forms import ANNOTATED, UNIONS
from mcpkit._signature.output import Rendered
from mcpkit._utils.json import UNSET, is_object
from mcpkit.context import Context
from mcpkit.dependencies import Idempotent
from mcpkit.errors import InputRequestError, InvalidArguments, RegistrationError
from mcpkit.limits import check_number
from mcpkit.types import ToolAnnotations

if TYPE_CHECKING:
    from mcpkit.tools import Tool

MAX_KEY: Final = 256
"""Characters of a key."""

DEFAULT: Final = Idempotent().lifetime
"""Seconds for which results are kept."""

_FOR_MODELS: Final = (
    "Use a new value for each new intent, and the same value when you repeat a call."
)

_SCALARS: Final = frozenset({bool, float, int, str, type(None)})


def prepare(tool: Tool, options: Mapping[str, Any], at: str) -> None:
    """Give a tool what serves its repeated calls; raises `RegistrationError`."""
    arguments = tool.accepts
    marked = [each for each in arguments.fields if isinstance(each.mark, Idempotent)]
    once, shares = options.get("once"), bool(options.get("single_flight"))
    found = [f"{each.name} with Idempotent(...)" for each in marked]
    found += ["once="] * (once is not None) + ["single_flight="] * shares
    if not found:
        return
    if len(found) > 1:
        raise RegistrationError(f"{at}: it has {' and '.join(found)}; omit all but one")
    if shares:
        if asked := tool.plan.asks:
            raise RegistrationError(
                f"{at}: with single_flight=True calls of several clients share a run, which "
                f"cannot ask one of them for {asked[0]}; omit one of the two"
            )
        tool.options["once"] = tool.around = SingleFlight(arguments)
        return
    if once is not None:
        repeats = Once(arguments, _key_function(once, arguments, at))
    else:
        [field], lifetime = marked, marked[0].mark.lifetime
        try:
            check_number("the lifetime of Idempotent(...)", lifetime, "more than 0")
        except ValueError as error:
            raise RegistrationError(f"{at}: {error}") from None
        is_required = field.required or (field.default is None and field.factory is None)
        if not is_required or not _is_text(field.parameter.annotation):
            raise RegistrationError(
                f"{at}: {field.name} is the key of a call; write {field.name}: "
                f"Annotated[str, Idempotent()], or str | None with the default None"
            )
        repeats = Once(arguments, lambda each: each.get(field.name), field, lifetime)
        tool.input_schema = dict(_described(tool.input_schema, field.wire_name))
    tool.options["once"] = tool.around = repeats
    hints = tool.annotations or ToolAnnotations()
    if hints.idempotent is None:
        tool.annotations = replace(hints, idempotent=True)


def _is_text(annotation: Any) -> bool:
    parts = get_args(annotation) if type(annotation) in UNIONS else (annotation,)
    return all(
        _is_text(each.__origin__) if type(each) is ANNOTATED else each in (str, type(None))
        for each in parts
    )


def _described(schema: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return an input schema that tells the model how to use the key."""
    properties: dict[str, Any] = schema.get("properties", {})
    shown: Any = properties.get(name)
    if not is_object(shown):
        return schema
    before = str(shown.get("description", "The key of the call.")).rstrip()
    before += "" if before.endswith((".", "!", "?")) else "."
    shown = {**shown, "description": f"{before} {_FOR_MODELS}"}
    return {**schema, "properties": {**properties, name: shown}}


def _key_function(
    once: Any, arguments: Takes, at: str
) -> Callable[[Mapping[str, Any]], str | None]:
    """Return a function from the values of the arguments to the key of a call."""
    fields = {each.name: each for each in arguments.fields}
    try:
        parameters: Sequence[inspect.Parameter] = [*inspect.signature(once).parameters.values()]
        is_named = all(
            each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY) for each in parameters
        )
    except (TypeError, ValueError):
        parameters, is_named = (), False
    names = [each.name for each in parameters]
    if not is_named or inspect.iscoroutinefunction(once) or not fields.keys() >= {*names}:
        raise RegistrationError(
            f"{at}: once= is a function of arguments of the tool, by their names, that returns the "
            f"key: once=lambda order, amount: ..., not {once!r:.80}"
        )
    defaults = {n: fields[n].default for n in names if fields[n].default is not UNSET}

    def key_of(values: Mapping[str, Any]) -> str | None:
        key = once(**{name: values.get(name, defaults.get(name)) for name in names})
        if key is not None and not isinstance(key, str):
            raise TypeError(f"once= returned a {type(key).__name__}, not a str")
        return key

    return key_of


def _digest(
    arguments: Takes, given: Mapping[str, Any], values: Mapping[str, Any], key: str | None
) -> str:
    """Return the digest of the arguments of a call, except its key.

    Numbers in strings and defaults that are written out make no difference; the order of members
    makes none either. Defaults that are made for each call do not count.
    """
    import json  # loaded when needed, as is hashlib, which brings OpenSSL along
    from hashlib import sha256

    fields, shown = {each.name: each for each in arguments.fields}, dict[str, Any]()
    for name, value in values.items():
        field = fields.get(name)
        if field is None:  # one of ``**arguments``
            shown[name] = value
        elif name != key and field.wire_name in given:
            default = field.default
            if type(value) not in _SCALARS:
                shown[name] = given[field.wire_name]
            elif type(default) not in _SCALARS or (value, value is True) != (
                default,
                default is True,
            ):
                shown[name] = value
    return sha256(json.dumps(shown, sort_keys=True).encode()).hexdigest()


# --- once -----------------------------------------------------------------------------------------


class KeyedCall(NamedTuple):
    """A call that has a key."""

    tool: Any  # a `mcpkit.tools.Tool`
    rules: Once
    key: str
    digest: str  # of the other arguments


class Once(EntryOption):
    """Runs a tool once for each key, and keeps results for some seconds.

    `key_of` makes the key of the values of the arguments, or returns None if a call has none.
    `field` is the argument that is the key; None if there is none.
    """

    capabilities = ("calls",)

    def __init__(
        self,
        arguments: Takes,
        key_of: Callable[[Mapping[str, Any]], str | None],
        field: Field | None = None,
        lifetime: float = DEFAULT,
    ) -> None:
        self._arguments = arguments
        self._key_of = key_of
        self._parameter = None if field is None else field.name
        self._name = "the key" if field is None else field.wire_name
        self.lifetime = lifetime
        # In messages: the first call, and how to make another one.
        self.first, self.other = "the call that this one repeats", "change what identifies it"
        if field is not None:
            self.first, self.other = f"the call with this {self._name}", f"use a new {self._name}"

    async def call(
        self, tool: Any, given: Mapping[str, Any], values: dict[str, Any], context: Context[Any]
    ) -> Rendered:
        """Call the tool with validated values, and render its result, unless this is a repeat."""
        key = self._key_of(values)
        if key is None:
            rendered: Rendered = tool.output.render(await tool.plan.run(values, context))
            return rendered
        if not 0 < len(key) <= MAX_KEY:
            wanted = f"expected 1 to {MAX_KEY} characters, got {len(key)}"
            raise InvalidArguments([f"{self._name}: {wanted}"])
        digest = _digest(self._arguments, given, values, self._parameter)
        tasks = context.backend.server.extension(TASKS_EXTENSION)
        around = partial(tasks.call_once, KeyedCall(tool, self, key, digest), context)
        rendered = await tool.plan.run_within(around, values, context)
        return rendered  # noqa: RET504 - `tool` has no type here


# --- single flight --------------------------------------------------------------------------------


class SingleFlight(EntryOption):
    """Lets equal calls of one principal at the same moment share one run."""

    def __init__(self, arguments: Takes) -> None:
        self._arguments = arguments
        self._flights: dict[Hashable, _Flight] = {}

    async def call(
        self, tool: Any, given: Mapping[str, Any], values: dict[str, Any], context: Context[Any]
    ) -> Rendered:
        """Call the tool with validated values, or wait for the same call; render the result."""
        if context.task is not None:  # its steps and its cancellation are its own
            rendered: Rendered = tool.output.render(await tool.plan.run(values, context))
            return rendered
        loop, principal = context.backend.session.threads.loop, context.request.principal
        digest = _digest(self._arguments, given, values, None)
        caller = None if principal is None else principal.id
        key = (loop, tool.name, caller, digest)
        flight = self._flights.get(key)
        if flight is None:
            flight = self._flights[key] = _Flight(context, partial(self._flights.pop, key, None))
            flight.cancel = loop.start(flight.fly(tool, values))
        return await flight.join()


class _Flight:
    """A run that several calls share. Its messages go to the client of the first one."""

    def __init__(self, context: Context[Any], end: Callable[[], object]) -> None:
        from anyio import Event  # importing an app should not load an event loop

        # The first call may be cancelled, which does not cancel the others.
        self._run = copy.copy(context.backend)
        self._origin = context.origin
        self._run.asker = _NoQuestions(self._run.request)
        self._callers = 0
        self._end = end
        self._ended = Event()
        self._outcome: Rendered | BaseException | None = None
        self.cancel: Callable[[], object] = lambda: None

    async def fly(self, tool: Any, values: dict[str, Any]) -> None:
        """Run the tool."""
        try:
            context: Context[Any] = Context(self._run, self._origin)
            self._outcome = tool.output.render(await tool.plan.run(values, context))
        except BaseException as error:
            self._outcome = error
            if not isinstance(error, Exception) and (self._run.cancelled or is_interrupt(error)):
                raise
        finally:
            if not self._run.cancelled:
                self._end()
            self._ended.set()

    async def join(self) -> Rendered:
        """Wait for the result; the last call that is cancelled cancels the run."""
        self._callers += 1
        try:
            await self._ended.wait()
        finally:
            self._callers -= 1
            if not self._callers and not self._ended.is_set():
                self._run.cancelled = True
                self._end()
                self.cancel()
        if isinstance(self._outcome, Rendered):
            return replace(self._outcome)
        assert self._outcome is not None
        raise self._outcome


class _NoQuestions(Requester):
    """Rejects the questions of a run that several clients share."""

    async def gather(self, asks: Sequence[InputRequest[Any]]) -> list[Any]:
        """Raise `InputRequestError`."""
        raise InputRequestError("A tool with single_flight=True cannot ask its clients")

    def abandon(self) -> None:
        """Do nothing: nothing waits."""
