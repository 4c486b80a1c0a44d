"""Everything that a server lists: fetched from a client, and as rules see it.

Entries are kept as they were sent, malformed ones too, because rules exist to find their faults.
Every accessor returns a usable value for a member that is missing or has the wrong type.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from mcpkit._protocol.connection import SKILLS_EXTENSION
from mcpkit._protocol.revisions import BY_VERSION, Revision
from mcpkit._protocol.wire import implementation_to_wire
from mcpkit._utils.json import is_object, value_at
from mcpkit.cli._schema_text import array_or_empty, object_or_empty
from mcpkit.cli._terminal import note
from mcpkit.client.client import Client
from mcpkit.client.skills import ListedSkill
from mcpkit.errors import MethodNotFound, ProtocolError, SkillError

Kind: TypeAlias = Literal["server", "tool", "resource", "template", "prompt", "skill"]
Raw: TypeAlias = Mapping[str, Any]

IGNORE: Final = "mcpkit/ignore"
"""The member of an entry's ``_meta`` that names the rules to silence for it."""


class Location(NamedTuple):
    """The file and line of a function; the file is relative if below the working directory."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


def text_of(raw: Raw, member: str) -> str:
    """Return a text member, stripped; empty if it is missing or not text."""
    found = raw.get(member)
    return found.strip() if isinstance(found, str) else ""


_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


def words_of(name: str) -> list[str]:
    """Return the words of a name in any style, lowercase.

    ``getUser_by-id`` → ``get``, ``user``, ``by``, ``id``.
    """
    return [word.lower() for word in _WORD.findall(name)]


READING: Final = {
    *("count", "describe", "fetch", "find", "get", "list", "lookup", "read", "search", "show"),
    "view",
}
"""The verbs in the names of what only reads."""


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """An entry of a server's list, or the server itself."""

    kind: Kind
    name: str  # or the URI
    raw: Raw  # as it was sent
    location: Location | None = None  # of its function, if known
    unknown_parameters: tuple[str, ...] = ()  # in its docstring, but not of its function
    # Names that its function uses on its context and only other libraries have, with advice.
    foreign_names: tuple[tuple[str, str], ...] = ()
    blocking_calls: tuple[str, ...] = ()  # of its function, on the event loop
    repeated_calls: tuple[str, ...] = ()  # of its function, when it is replayed, with lines
    lacks_text: bool = False  # of a tool with a view, if its result is only data
    page: str | None = None  # of a view, if it is known
    fault: str = ""  # of a skill: the reason for which hosts refuse it

    @property
    def description(self) -> str:
        """The description; empty if there is none."""
        return text_of(self.raw, "description")

    @property
    def hints(self) -> Raw:
        """The annotations of a tool; empty if there are none."""
        return object_or_empty(self.raw.get("annotations"))

    @property
    def schema(self) -> Raw:
        """The input schema of a tool; empty if it is missing or not an object."""
        return object_or_empty(self.raw.get("inputSchema"))

    @property
    def properties(self) -> dict[str, Raw]:
        """The parameters of a tool and their schemas."""
        found = object_or_empty(self.schema.get("properties"))
        return {name: object_or_empty(each) for name, each in found.items()}

    @property
    def arguments(self) -> list[Raw]:
        """The arguments of a prompt."""
        return [each for each in array_or_empty(self.raw.get("arguments")) if is_object(each)]

    @property
    def ignored(self) -> tuple[str, ...]:
        """The ids of rules, or their prefixes, that the author has silenced for this entry."""
        found = value_at(self.raw, "_meta", IGNORE)
        ids = [found] if isinstance(found, str) else array_or_empty(found)
        return tuple(each for each in ids if isinstance(each, str))


@dataclass(frozen=True, slots=True)
class Listing:
    """A server's description of itself, and what it lists."""

    revision: Revision
    itself: Entry  # the serverInfo
    instructions: str = ""
    listed: Sequence[Entry] = ()
    troubles: Sequence[str] = ()  # a sentence for each fault of a list as a whole
    open_at: str = ""  # the URL at which other machines need no credential, if known

    def of(self, *kinds: Kind) -> list[Entry]:
        """Return the entries of some kinds."""
        return [each for each in self.listed if each.kind in kinds]

    @property
    def tools(self) -> list[Entry]:
        """The tools."""
        return self.of("tool")

    @property
    def entries(self) -> list[Entry]:
        """The server, and everything it lists."""
        return [self.itself, *self.listed]


_LISTS: Final[tuple[tuple[Kind, str, str, str, str], ...]] = (
    ("tool", "tools", "tools/list", "tools", "name"),
    ("resource", "resources", "resources/list", "resources", "uri"),
    ("template", "resources", "resources/templates/list", "resourceTemplates", "uriTemplate"),
    ("prompt", "prompts", "prompts/list", "prompts", "name"),
)
"""Kind, capability, method, member of the result, member that identifies an entry."""


async def fetch_listing(client: Client) -> Listing:
    """Fetch every list whose capability the server declares, in the client's revision."""
    troubles: list[str] = []
    listed: list[Entry] = []
    for kind, capability, method, member, key in _LISTS:
        if is_object(client.server_capabilities.get(capability)):
            listed += await _fetch(client, kind, method, member, key, troubles)
    if client.extension(SKILLS_EXTENSION) is not None:
        for each in await _fetch(client, "skill", "skills/list", "skills", "uri", troubles):
            listed.append(await _verified(client, each))
    info, revision = client.server_info, BY_VERSION[client.revision]
    raw = implementation_to_wire(info, revision) if info else {}
    return Listing(
        revision,
        Entry("server", text_of(raw, "name"), raw),
        client.instructions if isinstance(client.instructions, str) else "",
        listed,
        troubles,
    )


async def _fetch(
    client: Client, kind: Kind, method: str, member: str, key: str, troubles: list[str]
) -> list[Entry]:
    def entry(raw: object) -> Entry | None:
        if is_object(raw) and isinstance(raw.get(key), str):
            return Entry(kind, raw[key], raw)
        troubles.append(f"{method} lists an entry without {key!r}")
        return None

    try:
        # Unlike `Client.list_tools`, this keeps entries that are malformed.
        found = await client._all(method, member, entry)
    except MethodNotFound as error:
        if kind != "template":  # many servers with resources do not implement that method
            troubles.append(f"{method} fails: {error}")
        return []
    except (ProtocolError, TimeoutError, ValueError) as error:
        troubles.append(f"{method} fails: {error or 'no response in time'}")
        return []
    return [each for each in found if each is not None]


async def _verified(client: Client, entry: Entry) -> Entry:
    """Return a skill with the fields of its frontmatter, and its fault if there is one."""
    fault = ""
    try:
        skill = ListedSkill.from_wire(entry.raw)
        for path in skill.files or ():
            await client.read_skill(skill, path)
    except SkillError as error:
        fault = error.reason if error.path == entry.name else str(error)
    except (ProtocolError, TimeoutError, ValueError) as error:
        fault = f"cannot be read: {error or 'no response in time'}"
    except ImportError as error:
        note(str(error))
    fields = object_or_empty(entry.raw.get("frontmatter"))
    return replace(entry, raw={**entry.raw, **fields}, fault=fault)
