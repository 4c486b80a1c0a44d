"""Prompts: messages that a user may ask for by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, cast, overload

from typing_extensions import TypeVar, Unpack

from mcpkit._entries import (
    NO_APP,
    CommonOptions,
    Defaults,
    Entry,
    decorated,
    function_fields,
    mark,
    refuse_marks_of_tools,
)
from mcpkit._injection import CallPlan, inspect_handler, plan_of
from mcpkit._protocol import wire
from mcpkit._protocol.connection import RequestSource
from mcpkit._protocol.revisions import Revision
from mcpkit._signature.arguments import Arguments, Takes
from mcpkit._signature.converters import Converters, NotSerializable, block_of
from mcpkit._utils.json import is_object
from mcpkit.completion import Completable, Completer, completers_of
from mcpkit.context import Context
from mcpkit.types import Media, Message, PromptResult

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class Prompt(Entry, Completable):
    """A function whose messages a user may ask for by name."""

    listing = "prompts"

    plan: CallPlan
    accepts: Takes
    completers: Mapping[str, Completer] = field(default_factory=dict[str, Completer])
    converters: Converters = field(default_factory=Converters)

    def to_wire(self, revision: Revision) -> dict[str, Any]:
        """Return its entry in ``prompts/list``."""
        members = self.described()
        properties = self.accepts.schema().get("properties", {})
        arguments = [
            revision.keep(
                revision.argument_members,
                wire.some(
                    name=each.wire_name,
                    title=properties[each.wire_name].get("title"),
                    description=properties[each.wire_name].get("description"),
                    required=True if each.required else None,
                ),
            )
            for each in self.accepts.fields
        ]
        if arguments:
            members["arguments"] = arguments
        return revision.keep(revision.prompt_members, members)

    async def admit(self, arguments: dict[str, Any], origin: RequestSource | None) -> None:
        """Refuse a caller whom ``allow=`` does not permit to get the prompt."""
        if self.allow is not None:
            await self.check_allowed(self.accepts.validate(arguments), origin)

    async def get(self, arguments: dict[str, str], context: Context[Any]) -> PromptResult:
        """Call the function with the arguments, which arrive as strings (PROMPT-3)."""
        values = self.accepts.validate(arguments)
        await self.check_allowed(values, context.request.origin)
        value = await self.plan.run(values, context)
        if isinstance(value, PromptResult):
            return replace(value, messages=self._messages(value.messages))
        if value is None:
            raise TypeError(f"the prompt {self.name!r} returned None; return text or messages")
        several = isinstance(value, (list, tuple))
        return PromptResult(
            self._messages(cast("Sequence[Any]", value) if several else [value]),
            description=self.description,
        )

    def _messages(self, values: Iterable[Any]) -> list[Message]:
        """Convert values to messages; a dict with a role and content is one message or several."""
        made: list[Message] = []
        for value in values:
            if type(value) is str:
                made.append(Message(value))
            elif isinstance(value, Message):
                made.append(replace(value, content=self.converters.converted(value.content)))
            elif is_object(value) and value.keys() & _MESSAGE == _MESSAGE:
                made += self._from_dict(value)
            else:
                made.append(Message(self._content(value)))
        return made

    def _from_dict(self, value: Mapping[str, Any]) -> Iterable[Message]:
        unknown = value.keys() - _MESSAGE
        if unknown:
            raise NotSerializable(
                f"a message of a prompt has a role and a content, but no "
                f"{', '.join(map(str, sorted(unknown, key=str)))}"
            )
        content = value["content"]
        several = isinstance(content, (list, tuple))
        contents = cast("Sequence[Any]", content) if several else [content]
        try:
            return [Message(self._content(each), value["role"]) for each in contents]
        except ValueError as error:
            raise NotSerializable(str(error)) from error

    def _content(self, value: Any) -> Any:
        value = self.converters.converted(value)
        if is_object(value) and isinstance(value.get("type"), str):
            try:
                return wire.block_from_wire(value)
            except ValueError:
                pass  # data that has a "type" of its own
        if isinstance(value, (str, Message, Media)):
            return value
        return block_of(value, self.converters)


_MESSAGE: Final = frozenset({"role", "content"})


class PromptOptions(CommonOptions, total=False):
    """The options of `MCPKit.prompt` and `add_prompt`: the common ones."""


def make_prompt(
    fn: Callable[..., Any], defaults: Defaults = NO_APP, /, **options: Unpack[PromptOptions]
) -> Prompt:
    """Return a prompt that calls a function; raises `RegistrationError`."""
    signature = inspect_handler(fn)
    fields = function_fields(Prompt, PromptOptions, signature, options, defaults)
    arguments = Arguments(signature)
    refuse_marks_of_tools(arguments, signature.place)
    fields.update(
        plan=plan_of(fn, signature, options),
        converters=defaults.converters,
        accepts=arguments,
        completers=completers_of(arguments, signature, CallPlan),
    )
    return Prompt(**fields)


@overload
def prompt(fn: F, /) -> F: ...


@overload
def prompt(**options: Unpack[PromptOptions]) -> Callable[[F], F]: ...


def prompt(fn: Any = None, /, **options: Unpack[PromptOptions]) -> Any:
    """Mark a function as a prompt for `MCPKit.include` or ``mcpkit run``, and return it.

    Args:
        fn: The function; also a static or class method.
        options: See `PromptOptions`.
    """
    return decorated(mark, fn, make_prompt, **options)
