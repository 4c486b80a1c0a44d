"""The Skills extension: skills that clients list, read and verify (SEP-2640)."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar
from urllib.parse import quote, unquote

from mcpkit._injection import CallPlan, inspect_handler
from mcpkit._protocol.messages import Encoded, members
from mcpkit._server.changes import Changes
from mcpkit._server.registry import read_cursor, write_cursor
from mcpkit._server.server import Server
from mcpkit._signature.arguments import Arguments
from mcpkit._utils.logs import log
from mcpkit._utils.names import caller
from mcpkit._utils.text import truncate
from mcpkit._utils.uri_template import UriTemplate
from mcpkit.context import Context
from mcpkit.errors import Forbidden, InvalidParams, RegistrationError, ResourceNotFound
from mcpkit.extension import Extension
from mcpkit.extensions.skills.folder import FoundSkill, SkillFile, SkillFolder
from mcpkit.extensions.skills.frontmatter import SkillError
from mcpkit.resources import Resource, ResourceTemplate
from mcpkit.types import (
    BlobResourceContents,
    CacheScope,
    ResourceContents,
    ResourceResult,
    TextResourceContents,
)

T = TypeVar("T")

_PAGE_SIZE: Final = 100
"""Entries on a page, unless the server's settings say otherwise."""


@dataclass(slots=True)
class _Source:
    """A folder, and its skills as they were last read without a fault."""

    key: str
    scopes: tuple[str, ...]
    folder: SkillFolder
    skills: Sequence[FoundSkill]

    def refresh(self) -> None:
        """Read the skills that there are now. Blocks."""
        try:
            self.skills = self.folder.read()
        except SkillError as error:
            # It is being edited: what was valid before stays.
            log.warning("the skills were not read again: %s", error)


class Skills(Extension):
    """The skills of an app; `MCPKit.skills` adds them."""

    _is_official = True

    def __init__(self) -> None:
        super().__init__("io.modelcontextprotocol/skills", settings={"directoryRead": True})
        self._sources: list[_Source] = []
        self.request("skills/list", cache_ttl=0)(self._list)
        self.request("skills/get", cache_ttl=0)(self._get)
        self.request("resources/directory/read")(self._read_directory)
        signature = inspect_handler(self._read)
        self.template = ResourceTemplate(
            name="skills",
            description="The files of skills",
            template=UriTemplate("skill://{+path}"),
            plan=CallPlan(self._read, signature),
            accepts=Arguments(signature),
            unchecked=frozenset({"path"}),  # it is looked up, and never opened
        )
        """The template that reads the files."""

    def add(self, path: str, prefix: str, scopes: tuple[str, ...]) -> None:
        """Add the skills of a folder, for callers with some scopes.

        Raises:
            SkillError: A skill cannot be published, or there is one at its URI already.
        """
        folder = SkillFolder(path, prefix)
        source = _Source(path, scopes, folder, folder.read())
        taken = {skill.uri for each in self._sources for skill in each.skills}
        for skill in source.skills:
            if skill.uri in taken:
                raise SkillError(path, f"there is a skill at {skill.uri} already")
        self._sources.append(source)

    # --- methods ----------------------------------------------------------------------------------

    async def _list(self, ctx: Context, cursor: str | None = None) -> Encoded:
        """``skills/list``: the skills that the caller may read, with the digests of their files."""
        skills = sorted((each for each, _ in await self._visible(ctx)), key=lambda each: each.uri)
        page, more = _page("skills", skills, [each.uri for each in skills], cursor, ctx)
        found = {"skills": [_described(each) for each in page], **more}
        return Encoded(members(found), scope=self._scope)

    async def _get(self, ctx: Context, uri: str) -> Encoded:
        """``skills/get``: one skill (SKILL-25)."""
        for skill, _ in await self._visible(ctx):
            if skill.uri == uri:
                return Encoded(members({"skill": _described(skill)}), scope=self._scope)
        raise InvalidParams(f"Unknown skill: {truncate(uri)}")

    async def _read_directory(
        self, ctx: Context, uri: str, cursor: str | None = None
    ) -> dict[str, Any]:
        """``resources/directory/read``: the files and directories in a directory (SKILL-26)."""
        entries: dict[str, SkillFile | None] = {}
        for skill, _ in await self._visible(ctx):
            root = skill.uri.rpartition("/")[0]
            entries[root] = None
            entries |= {f"{root}/{quote(each)}": None for each in skill.directories}
            entries |= {each.uri: each for each in skill.files}
        prefix = f"{uri}/"
        below = {each: file for each, file in entries.items() if each.startswith(prefix)}
        is_directory = bool(below) or (uri in entries and entries[uri] is None)
        if not is_directory or not uri.startswith("skill://"):
            raise InvalidParams(f"Unknown directory: {truncate(uri)}")
        listed: dict[str, dict[str, Any]] = {}
        for each, file in sorted(below.items()):
            name, _, rest = each[len(prefix) :].partition("/")
            kind: dict[str, Any] = {"mimeType": "inode/directory"}
            if file is not None and not rest:
                kind = {"mimeType": file.mime_type, "size": file.size}
            listed[prefix + name] = {"uri": prefix + name, "name": unquote(name), **kind}
        page, more = _page("directory", [*listed.values()], [*listed], cursor, ctx)
        return {"resources": page, **more}

    async def _read(self, path: str, ctx: Context) -> ResourceResult:
        uri: str = ctx.request.params["uri"]
        for refresh in (False, True):  # the file may be new
            for skill, source in await self._visible(ctx, refresh=refresh):
                for file in skill.files:
                    if file.uri == uri:
                        return await self._contents(uri, file, source, ctx)
        raise ResourceNotFound(uri)

    async def _contents(
        self, uri: str, file: SkillFile, source: _Source, ctx: Context
    ) -> ResourceResult:
        try:
            data = await ctx.backend.in_thread(lambda: source.folder.open(uri))
        except SkillError as error:
            log.warning("%s", error)
            raise ResourceNotFound(uri) from None
        contents: ResourceContents
        try:
            # SKILL-21: as it is on disk, or its digest would differ.
            contents = TextResourceContents(uri, data.decode(), mime_type=file.mime_type)
        except UnicodeDecodeError:
            contents = BlobResourceContents(uri, data, mime_type=file.mime_type)
        return ResourceResult([contents], cache_scope="private" if source.scopes else None)

    # --- as a provider ----------------------------------------------------------------------------

    async def resources(
        self, after: str, limit: int | None, context: Context[Any]
    ) -> Sequence[Resource]:
        """Return a resource for the manifest of each skill (SKILL-27)."""
        found = [
            Resource(
                name=skill.name,
                uri=skill.uri,
                description=skill.description,
                mime_type="text/markdown",
                size=next(each.size for each in skill.files if each.uri == skill.uri),
                plan=self.template.plan,
                scopes=source.scopes,
            )
            for skill, source in await self._visible(context)
            if skill.uri > after
        ]
        return sorted(found, key=lambda each: each.uri)[:limit]

    @property
    def _scope(self) -> CacheScope | None:
        """SKILL-32: what callers see depends on their scopes."""
        return "private" if any(each.scopes for each in self._sources) else None

    async def _visible(
        self, context: Context[Any], *, refresh: bool = True
    ) -> list[tuple[FoundSkill, _Source]]:
        """Return the skills that the caller may read, each with its source."""
        found: list[tuple[FoundSkill, _Source]] = []
        for source in self._sources:
            try:
                context.backend.server.check_scopes(source, context.request.origin)
            except Forbidden:
                continue
            if refresh:
                before = source.skills
                await context.backend.in_thread(source.refresh)
                _announce(context.backend.server.changes, before, source.skills)
            found += [(each, source) for each in source.skills]
        return found


def _announce(changes: Changes, before: Sequence[FoundSkill], now: Sequence[FoundSkill]) -> None:
    """Notify clients of files that have come, gone or changed (SKILL-29)."""
    if before == now:
        return
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
    kind: str, items: Sequence[T], keys: Sequence[str], cursor: str | None, context: Context[Any]
) -> tuple[Sequence[T], Mapping[str, str]]:
    """Return a page of items in the order of their keys, and the member for the next one."""
    size = context.backend.server.settings.page_size or _PAGE_SIZE
    after = "" if cursor is None else read_cursor(kind, cursor, int)[1]
    start = sum(key <= after for key in keys)
    more = {}
    if start + size < len(items):
        more = {"nextCursor": write_cursor(kind, 0, keys[start + size - 1])}
    return items[start : start + size], more


def add_folder(
    server: Server, path: str | os.PathLike[str], prefix: str, scopes: tuple[str, ...]
) -> None:
    """Add the skills of a folder to a server; see `MCPKit.skills`."""
    at = caller()
    found = next((each for each in server.extensions if isinstance(each, Skills)), None)
    skills = found or Skills()
    try:
        skills.add(os.fspath(path), prefix, scopes)
    except SkillError as error:
        raise RegistrationError(f"{at}{error}") from None
    if found is None:
        server.extend(skills)
        server.registry.add(skills.template)
        server.registry.add_provider(skills)
    server.registry.restricted = server.registry.restricted or bool(scopes)
