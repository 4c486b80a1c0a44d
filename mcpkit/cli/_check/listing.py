"""The lists that a server has sent to a client, as rules look at them.

Entries are kept as they were sent: a rule must not trip over what it is there to find. So every
accessor gives something usable for a member that is missing or of another type.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from mcpkit._protocol.revisions import Revision
from mcpkit._utils.json import is_array, is_object

__all__ = [
    "IGNORE",
    "Entry",
    "Kind",
    "Location",
    "Raw",
    "Served",
    "text_of",
    "vocabulary",
    "words_of",
]

Kind: TypeAlias = Literal["server", "tool", "resource", "template", "prompt"]
Raw: TypeAlias = Mapping[str, Any]

IGNORE: Final = "mcpkit/ignore"
"""The member of ``_meta`` in which an entry names the rules that shall not look at it."""


class Location(NamedTuple):
    """The place of a function: its file, relative to the working directory if below it."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


def text_of(raw: Raw, member: str) -> str:
    """Return a member that should be text, stripped of white space; empty if there is none."""
    found = raw.get(member)
    return found.strip() if isinstance(found, str) else ""


_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


def words_of(name: str) -> list[str]:
    """Return the words of a name in any style, in small letters.

    ``getUser_by-id`` → ``get``, ``user``, ``by``, ``id``.
    """
    return [word.lower() for word in _WORD.findall(name)]


def vocabulary(text: str) -> frozenset[str]:
    """Return the words of a text that white space separates."""
    return frozenset(text.split())


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """An entry of a server's list, or the server itself.

    Args:
        kind: Of the entry.
        name: The name or the URI that it is known by.
        raw: As it was sent.
        location: Of its function, if it is known.
        untyped_data: True if its function returns a dict or a list without an annotation; None
            if that is not known.
        hidden_errors: The names of the exceptions that its function raises and whose text nobody
            sees, as far as its code tells.
        unknown_parameters: What its docstring describes as a parameter, and its function has not.
        foreign_names: What its function uses of its context that only another library has, each
            with what to write instead.
        task_times: Of a tool that runs as a task, the seconds for which its tasks are kept, and
            those between two looks at them; None if that is not known.
        slow: What shows that its function takes long, such as ``reports progress``, if it is a tool
            that never runs as a task.
    """

    kind: Kind
    name: str
    raw: Raw
    location: Location | None = None
    untyped_data: bool | None = None
    hidden_errors: tuple[str, ...] = ()
    unknown_parameters: tuple[str, ...] = ()
    foreign_names: tuple[tuple[str, str], ...] = ()
    task_times: tuple[float, float] | None = None
    slow: str = ""

    @property
    def description(self) -> str:
        """The description of the entry; empty if it has none."""
        return text_of(self.raw, "description")

    @property
    def hints(self) -> Raw:
        """The annotations of a tool; empty if it has none."""
        found = self.raw.get("annotations")
        return found if is_object(found) else {}

    @property
    def title(self) -> str:
        """The title that people see instead of the name; empty if there is none."""
        return text_of(self.raw, "title") or text_of(self.hints, "title")

    @property
    def schema(self) -> Raw:
        """The input schema of a tool; empty if it has none that is an object."""
        found = self.raw.get("inputSchema")
        return found if is_object(found) else {}

    @property
    def properties(self) -> dict[str, Raw]:
        """The parameters of a tool and their schemas."""
        found = self.schema.get("properties")
        if not is_object(found):
            return {}
        return {name: each if is_object(each) else {} for name, each in found.items()}

    @property
    def arguments(self) -> list[Raw]:
        """The arguments of a prompt."""
        found = self.raw.get("arguments")
        return [each for each in found if is_object(each)] if is_array(found) else []

    @property
    def ignored(self) -> tuple[str, ...]:
        """The rules, or their beginnings, that the author has silenced here."""
        meta = self.raw.get("_meta")
        found: Any = meta.get(IGNORE) if is_object(meta) else None
        if isinstance(found, str):
            return (found,)
        return tuple(each for each in found if isinstance(each, str)) if is_array(found) else ()


@dataclass(frozen=True, slots=True)
class Served:
    """A server's description of itself, and its lists.

    Args:
        revision: The one that was spoken.
        itself: The ``serverInfo``, as an entry.
        instructions: For the model; empty if there are none.
        capabilities: As declared.
        tools, resources, templates, prompts: As listed.
        troubles: A sentence for each list that could not be read.
        open_at: The URL at which anybody may use it, from other machines too; empty if there is
            none, or nobody can tell.
        closed: The names of entries that need scopes, of an app that nobody can have any with;
            empty if it may know its callers.
    """

    revision: Revision
    itself: Entry
    instructions: str = ""
    capabilities: Raw = field(default_factory=dict[str, Any])
    tools: Sequence[Entry] = ()
    resources: Sequence[Entry] = ()
    templates: Sequence[Entry] = ()
    prompts: Sequence[Entry] = ()
    troubles: Sequence[str] = ()
    open_at: str = ""
    closed: Sequence[str] = ()

    @property
    def entries(self) -> Iterator[Entry]:
        """The server, and everything it lists."""
        yield self.itself
        for each in (self.tools, self.resources, self.templates, self.prompts):
            yield from each

    def capability(self, name: str) -> Raw | None:
        """Return the capability of a name, as declared; None if it is not."""
        found = self.capabilities.get(name)
        return found if is_object(found) else None
