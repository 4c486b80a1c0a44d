"""The Skills extension: skills that clients list, read and verify (SEP-2640)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar
from urllib.parse import unquote

from typing_extensions import Unpack

from mcpkit._injection import CallPlan, inspect_handler
from mcpkit._protocol.connection import SKILLS_EXTENSION
from mcpkit._server.changes import Changes
from mcpkit._server.registry import read_cursor, write_cursor
from mcpkit._server.server import Server
from mcpkit._signature.arguments import Arguments
from mcpkit._utils.logs import log
from mcpkit._utils.names import caller, check_keywords
from mcpkit._utils.text import truncate
from mcpkit._utils.uri_template import UriTemplate
from mcpkit.context import Context
from mcpkit.errors import Forbidden, InvalidParams, RegistrationError, ResourceNotFound, SkillError
from mcpkit.extension import Extension
from mcpkit.extensions.skills.folder import (
    FoundSkill,
    SkillFile,
    SkillFolder,
    decoded,
    mime_type_of,
)
from mcpkit.extensions.skills.function import SkillFunction, SkillOptions
from mcpkit.permissions import needed_scopes
from mcpkit.providers import Provider, ProviderContext
from mcpkit.resources import Resource, ResourceTemplate
from mcpkit.types import (
    BlobResourceContents,
    ResourceContents,
    ResourceResult,
    TextResourceContents,
)

T = TypeVar("T")

_PAGE_SIZE: Final = 100
"""Entries on a page, unless the server's settings say otherwise."""


@dataclass(slots=True)
class _Source:
    """A folder of skills, or a function that returns one skill."""

    key: str
    scopes: tuple[str, ...]
    folder: SkillFolder  # of a function: as it was when the function was added
    function: SkillFunction | None = None
    fault: str = ""  # the reason for which the last reading failed

    async def current(self, context: Context[Any]) -> SkillFolder | None:
        """Return the folder, after reading it; None if a function has no skill for the caller."""
        # While a folder is edited, what was valid before stays.
        folder, fault = self.folder if self.function is None else None, ""
        try:
            if self.function is None:
                await context.backend.in_thread(self.folder.read)
            elif (found := await self.function.plan.run({}, context)) is not None:
                make = partial(self.function.folder, found)
                folder = await context.backend.in_thread(make)
        except Forbidden:
            pass  # the caller lacks a claim
        except SkillError as error:
            fault = str(error)
        except Exception:
            log.exception("%s failed", self.key)
        if fault not in ("", self.fault):  # not for each request
            log.warning("skills were not read: %s", fault)
        self.fault = fault
        return folder

    async def find(self, uri: str, context: Context[Any]) -> SkillFolder | None:
        """Return the folder if it may have a URI. Only that of a function is read again."""
        if self.function is None:
            return self.folder
        [skill] = self.folder.skills
        return await self.current(context) if f"{uri}/".startswith(f"{skill.root}/") else None


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class _Template(ResourceTemplate):
    """The template of all files of skills."""

    skills: Skills

    @property
    def is_guarded(self) -> bool:
        """True, because callers may not see all skills."""
        return True

    async def read(
        self, uri: str, variables: Mapping[str, Any], context: Context[Any]
    ) -> ResourceResult:
        """Return a file; raises `ResourceNotFound`. URIs are compared as they are (SKILL-7)."""
        return await self.skills.read(uri, context)

    async def admit(
        self, uri: str, variables: Mapping[str, Any], context: Context[Any]
    ) -> dict[str, Any]:
        """Raise the error of an unknown resource, unless a skill that the caller sees has it."""
        for source in self.skills.open_to(context):
            folder = await source.find(uri, context)
            for skill in () if folder is None else folder.skills:
                if uri in skill.directories or any(each.uri == uri for each in skill.files):
                    return {}
        raise ResourceNotFound(uri)


class Skills(Extension, Provider):
    """The skills of an app; `MCPKit.skills` and `MCPKit.skill` add them."""

    _is_official = True

    def __init__(self) -> None:
        super().__init__(SKILLS_EXTENSION, settings={"directoryRead": True})
        self.sources: list[_Source] = []
        self.request("skills/list", cache_ttl=0)(self._list)
        self.request("skills/get", cache_ttl=0)(self._get)
        self.request("resources/directory/read")(self._read_directory)
        signature = inspect_handler(self.read)
        self.template = _Template(
            name="skills",
            description="The files of skills",
            template=UriTemplate("skill://{+path}"),
            plan=CallPlan(self.read, signature),
            accepts=Arguments(signature),
            skills=self,
        )
        """The template that reads the files."""

    # --- methods ----------------------------------------------------------------------------------

    async def _list(self, ctx: Context, cursor: str | None = None) -> dict[str, Any]:
        """``skills/list``: the skills that the caller may read, with the digests of their files."""
        page, more = _page("skills", await self._visible(ctx), cursor, ctx)
        return {"skills": [_described(each) for _, (each, _) in page], **more}

    async def _get(self, ctx: Context, uri: str) -> dict[str, Any]:
        """``skills/get``: one skill (SKILL-25)."""
        found = (await self._visible(ctx)).get(uri)
        if found is None:
            raise InvalidParams(f"Unknown skill: {truncate(uri)}")
        return {"skill": _described(found[0])}

    async def _read_directory(
        self, ctx: Context, uri: str, cursor: str | None = None
    ) -> dict[str, Any]:
        """``resources/directory/read``: the files and directories in a directory (SKILL-26)."""
        entries: dict[str, SkillFile | None] = {}
        for skill, _ in (await self._visible(ctx)).values():
            entries |= dict.fromkeys(skill.directories)
            entries |= {each.uri: each for each in skill.files}
        inside: dict[str, SkillFile | None] = {}
        for each, file in entries.items():
            if each.startswith(f"{uri}/"):
                child, _, below = each[len(uri) + 1 :].partition("/")
                inside[f"{uri}/{child}"] = None if below else file
        is_directory = bool(inside) or (uri in entries and entries[uri] is None)
        if not is_directory or not uri.startswith("skill://"):
            raise InvalidParams(f"Unknown directory: {truncate(uri)}")
        page, more = _page("directory", inside, cursor, ctx)
        resources = [
            {
                "uri": each,
                "name": unquote(each.rpartition("/")[2]),
                "mimeType": file.mime_type if file else "inode/directory",
                **({"size": file.size} if file else {}),
            }
            for each, file in page
        ]
        return {"resources": resources, **more}

    async def read(self, uri: str, context: Context[Any]) -> ResourceResult:
        """Return a file; raises `ResourceNotFound`."""
        for source in self.open_to(context):
            folder = await source.find(uri, context)
            if folder is None:
                continue
            try:
                data = await context.backend.in_thread(partial(folder.open, uri))
            except SkillError:
                continue
            text = decoded(data)
            mime_type = mime_type_of(unquote(uri.rpartition("/")[2]), text is not None)
            contents: ResourceContents = BlobResourceContents(uri, data, mime_type=mime_type)
            if text is not None:  # SKILL-21: as it is on disk, or its digest would differ
                contents = TextResourceContents(uri, text, mime_type=mime_type)
            is_private = source.scopes or source.function  # which may know the caller
            return ResourceResult([contents], cache_scope="private" if is_private else None)
        raise ResourceNotFound(uri)

    # --- as a provider ----------------------------------------------------------------------------

    def attach(self, context: ProviderContext) -> None:
        """Add the template."""
        context.replace([self.template])

    async def resources(
        self, after: str, limit: int | None, context: Context[Any]
    ) -> Sequence[Resource]:
        """Return a resource for the manifest of each skill (SKILL-27)."""
        found = [
            Resource(
                name=skill.frontmatter["name"],
                uri=skill.uri,
                description=skill.frontmatter["description"],
                mime_type="text/markdown",
                size=next(each.size for each in skill.files if each.uri == skill.uri),
                plan=self.template.plan,
                scopes=source.scopes,
            )
            for skill, source in (await self._visible(context)).values()
            if skill.uri > after
        ]
        return sorted(found, key=lambda each: each.uri)[:limit]

    def open_to(self, context: Context[Any]) -> Iterator[_Source]:
        """Yield the sources whose skills the caller may read."""
        for source in self.sources:
            try:
                context.backend.server.check_scopes(source, context.request.origin)
            except Forbidden:
                continue
            yield source

    async def _visible(self, context: Context[Any]) -> dict[str, tuple[FoundSkill, _Source]]:
        """Return the skills that the caller may read by their URIs, each with its source."""
        found: dict[str, tuple[FoundSkill, _Source]] = {}
        for source in self.open_to(context):
            folder = await source.current(context)
            for skill in () if folder is None else folder.skills:
                found.setdefault(skill.uri, (skill, source))  # files are read in this order, too
        return found


def _announce(changes: Changes, before: Sequence[FoundSkill], now: Sequence[FoundSkill]) -> None:
    """Notify clients of files that have come, gone or changed (SKILL-29)."""
    old, new = (
        {file.uri: file.digest for skill in skills for file in skill.files}
        for skills in (before, now)
    )
    if old.keys() != new.keys():
        changes.list_changed("resources")
    for uri in old.keys() & new.keys():
        if old[uri] != new[uri]:
            changes.resource_changed(uri)


def _described(skill: FoundSkill) -> dict[str, Any]:
    return {
        "uri": skill.uri,
        "frontmatter": skill.frontmatter,
        "resources": [
            {"uri": each.uri, "digest": each.digest, "size": each.size} for each in skill.files
        ],
    }


def _page(
    kind: str, items: Mapping[str, T], cursor: str | None, context: Context[Any]
) -> tuple[Sequence[tuple[str, T]], Mapping[str, str]]:
    """Return a page of items in the order of their keys, and the member for the next one."""
    size = context.backend.server.settings.page_size or _PAGE_SIZE
    after = "" if cursor is None else read_cursor(kind, cursor, int)[1]
    rest = sorted(key for key in items if key > after)
    more = {"nextCursor": write_cursor(kind, 0, rest[size - 1])} if len(rest) > size else {}
    return [(key, items[key]) for key in rest[:size]], more


def add_folder(
    server: Server, path: str | os.PathLike[str], prefix: str, scopes: tuple[str, ...]
) -> None:
    """Add the skills of a folder to a server; see `MCPKit.skills`."""
    at = caller()
    try:
        folder = SkillFolder(path, prefix)
        folder.read()
        _add(server, _Source(os.fspath(path), scopes, folder))
        folder.on_change = partial(_announce, server.changes)
    except SkillError as error:
        raise RegistrationError(f"{at}{error}") from None


def add_function(server: Server, fn: Callable[..., Any], **options: Unpack[SkillOptions]) -> None:
    """Add the skill that a function returns to a server; see `MCPKit.skill`."""
    check_keywords("skill(…)", options, SkillOptions.__optional_keys__)
    function = SkillFunction(fn, options)
    scopes = needed_scopes(options.get("scopes"), function.place)
    try:
        _add(server, _Source(function.place, scopes, function.folder(""), function))
    except SkillError as error:
        raise RegistrationError(f"{function.place}: {error}") from None


def _add(server: Server, source: _Source) -> None:
    """Add a source; raises `SkillError` if a skill of it is inside another one, or around it."""
    found = next((each for each in server.extensions if isinstance(each, Skills)), None)
    skills = found or Skills()
    roots = [f"{skill.root}/" for each in skills.sources for skill in each.folder.skills]
    for skill in source.folder.skills:
        own = f"{skill.root}/"
        if any(own.startswith(each) or each.startswith(own) for each in roots):
            raise SkillError(source.key, f"{skill.uri} overlaps with a skill that is there")
    skills.sources.append(source)
    skills.environment += source.function.plan.environment if source.function else ()
    if found is None:
        server.extend(skills)
        server.provide(skills)
    # What callers see depends on them, so that only private caches may keep lists.
    server.registry.restricted |= bool(source.scopes or source.function)
    server.changes.list_changed("resources")
