"""Suggestions while an argument is typed: from `Literal`, `Enum`, ``bool`` and `Complete`."""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from itertools import islice
from types import UnionType
from typing import Annotated, Any, Final, Literal, TypeAlias, Union, get_args, get_origin

from mcpkit._signature.arguments import Arguments
from mcpkit._signature.hints import unalias
from mcpkit._signature.signature import Signature, inspect_function
from mcpkit.context import Context, SyncContext
from mcpkit.errors import Forbidden, InvalidArguments, RegistrationError

Completer: TypeAlias = Callable[
    [str, Mapping[str, str] | None, Context[Any]], Awaitable[Iterable[str]]
]
"""From the text so far, and the other arguments if they are known, to suggestions."""

Planner: TypeAlias = Callable[[Callable[..., Any], Signature], Any]
"""`CallPlan`: from a function and its signature to the plan of its calls."""

MAX_CHECKED: Final = 200
"""Suggestions that an ``allow=`` predicate is asked about."""


class Completable:
    """The part of prompts and resource templates that suggests values for arguments."""

    __slots__ = ()

    accepts: Arguments
    completers: Mapping[str, Completer]

    @property
    def argument_names(self) -> Iterable[str]:
        """The names of the arguments, as clients send them."""
        return [each.wire_name for each in self.accepts.fields]

    async def complete(
        self, name: str, typed: str, others: Mapping[str, str] | None, context: Context[Any]
    ) -> Iterable[str]:
        """Suggest values for an argument; only those that ``allow=`` permits."""
        entry: Any = self
        completer = self.completers.get(name)
        if completer is None:
            return ()
        found = await completer(typed, others, context)
        if entry.allow is None or context.request.origin is None:
            return found
        allowed: list[str] = []
        for each in islice(found, MAX_CHECKED):
            try:
                values = self.accepts.validate({**(others or {}), name: str(each)})
                await entry.check_allowed(values, context)
            except (InvalidArguments, Forbidden):
                continue  # not allowed, or not decidable without the other arguments
            allowed.append(str(each))
        return allowed


def completers_of(arguments: Arguments, handler: Signature, plan: Planner) -> dict[str, Completer]:
    """Return a completer for each argument of a handler that has suggestions."""
    found: dict[str, Completer] = {}
    for each in arguments.fields:
        complete = each.parameter.mark
        values = choices_of(each.parameter.annotation) if complete is None else complete.values
        if callable(values):
            found[each.wire_name] = _from_function(values, handler, plan)
        elif complete is not None or values:
            found[each.wire_name] = _from_values(list(values))
    return found


def choices_of(annotation: Any) -> list[str]:
    """Return the values that a Literal, Enum or bool allows, as a client writes them."""
    annotation = unalias(annotation)
    origin: Any = get_origin(annotation)
    if origin is Annotated:
        return choices_of(get_args(annotation)[0])
    if origin is Literal:
        values = [getattr(each, "value", each) for each in get_args(annotation)]
        return [str(each).lower() if isinstance(each, bool) else str(each) for each in values]
    if annotation is bool:
        return ["true", "false"]
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return [str(member.value) for member in annotation]
    if origin in (Union, UnionType):
        return [choice for part in get_args(annotation) for choice in choices_of(part)]
    return []


def _from_values(values: Sequence[str]) -> Completer:
    """Suggest values that start with the text, then values that contain it, ignoring case."""

    async def complete(
        typed: str, others: Mapping[str, str] | None, context: Context[Any]
    ) -> Iterable[str]:
        del others, context
        wanted = typed.casefold()
        starts = [each for each in values if each.casefold().startswith(wanted)]
        contains = [each for each in values if wanted in each.casefold() and each not in starts]
        return [*starts, *contains]

    return complete


def _from_function(
    fn: Callable[..., Any],
    handler: Signature,
    plan: Planner,
) -> Completer:
    signature = inspect_function(fn, contexts=(Context, SyncContext))
    run = plan(fn, signature).run
    if not signature.arguments:
        raise RegistrationError(
            f"{signature.place}: a completion function takes the text so far as its first argument"
        )
    first, *rest = signature.arguments
    known = {each.name for each in handler.arguments}
    for each in rest:
        if each.name not in known and each.required:
            raise RegistrationError(
                f"{signature.place}: {each.name} is not an argument of {handler.name}(); a "
                f"completion function takes the text so far, and the other arguments by name"
            )

    async def complete(
        typed: str, others: Mapping[str, str] | None, context: Context[Any]
    ) -> Iterable[str]:
        values: dict[str, Any] = {first.name: typed}
        for each in rest:
            if others is not None and each.name in others:
                values[each.name] = others[each.name]
            elif each.required:
                values[each.name] = None
        suggested: Iterable[str] = await run(values, context)
        return suggested

    return complete
