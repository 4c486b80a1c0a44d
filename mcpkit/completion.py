"""Suggestions while an argument is typed: from `Literal`, `Enum`, ``bool`` and `Complete`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Final, TypeAlias

from mcpkit._signature.arguments import Arguments, Takes
from mcpkit._signature.schema import settle_references
from mcpkit._signature.signature import Signature, inspect_function
from mcpkit._utils.json import JsonSchema, copy_schema
from mcpkit.context import Context, SyncContext
from mcpkit.errors import Forbidden, InvalidArguments, RegistrationError
from mcpkit.limits import check_several

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

    accepts: Takes
    completers: Mapping[str, Completer]

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
                await entry.check_allowed(values, context.request.origin)
            except (InvalidArguments, Forbidden):
                continue  # not allowed, or not decidable without the other arguments
            allowed.append(str(each))
        return allowed


def completers_of(arguments: Arguments, handler: Signature, plan: Planner) -> dict[str, Completer]:
    """Return a completer for each argument of a handler that has suggestions."""
    found: dict[str, Completer] = {}
    for each in arguments.fields:
        complete = each.mark
        schema = settle_references(copy_schema(each.form.schema("validation")))
        values = choices_of(schema) if complete is None else complete.values
        if callable(values):
            found[each.wire_name] = _from_function(values, handler, plan)
        elif complete is not None or values:
            try:
                check_several("the values of Complete(...)", values)
            except ValueError as error:
                raise RegistrationError(f"{handler.place}: {each.name}: {error}") from None
            found[each.wire_name] = _from_values([*map(str, values)])
    return found


def choices_of(schema: JsonSchema) -> list[str]:
    """Return the values that a schema lists, as a client writes them."""
    values = schema.get("enum", [schema["const"]] if "const" in schema else [])
    if not values and schema.get("type") == "boolean":
        values = [True, False]
    texts = [str(each).lower() if isinstance(each, bool) else str(each) for each in values]
    return texts + [choice for part in schema.get("anyOf", ()) for choice in choices_of(part)]


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
