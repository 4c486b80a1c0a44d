"""Folders of skills, read and checked for publication (SEP-2640 and agentskills.io).

A server publishes the frontmatter of a skill and the digests of its files, and hosts verify both.
So a folder is rejected if two hosts might read it differently, or if it leads outside of itself.
"""

from __future__ import annotations

import os
import re
import stat
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from mimetypes import MimeTypes
from typing import Any, Final, TypeAlias
from unicodedata import normalize
from urllib.parse import quote

from mcpkit._protocol.skills import MANIFEST, MAX_BYTES, MAX_FILES, parse_frontmatter
from mcpkit.errors import SkillError
from mcpkit.providers.files import Folder

MAX_DEPTH: Final = 32
"""Directories within each other."""

Parts: TypeAlias = tuple[str, ...]
"""The names in a path."""


@dataclass(frozen=True, slots=True)
class SkillFile:
    """A file of a skill, as it was when the folder was read."""

    uri: str
    size: int
    digest: str  # "sha256:" and 64 hexadecimal digits, of the bytes as they are on disk
    mime_type: str
    frontmatter: Mapping[str, Any] | None  # of a SKILL.md
    version: tuple[int, int, int] | None  # None if it may change unnoticed


@dataclass(frozen=True, slots=True)
class FoundSkill:
    """A skill in a folder, as it was when the folder was read."""

    uri: str  # of its SKILL.md
    frontmatter: Mapping[str, Any]  # all fields, as JSON values
    files: Sequence[SkillFile]  # in the order of their paths, also those of nested skills
    directories: Sequence[str]  # the URIs of its own directory and those below, also empty ones

    @property
    def root(self) -> str:
        """The URI of its directory."""
        return self.uri.rpartition("/")[0]


IGNORED: Final = re.compile(r"\..*|.*~|#.*#|__pycache__|thumbs\.db|desktop\.ini", re.I | re.S)
_BAD_NAME: Final = re.compile(r"[\x00-\x1f\x7f\\\ud800-\udfff]|^[A-Za-z]:")
_AUTHORITY: Final = re.compile("[a-z0-9._~-]+")
_NO_AUTHORITY: Final = "is the authority of URIs: use lower-case letters, digits, '.', '-' and '_'"

_MIME_TYPES: Final = MimeTypes()
"""Python's own types; `mimetypes.guess_type` would add those of the machine."""

_SETTLED_NS: Final = 2_000_000_000
"""The age from which a time of modification is trusted: file systems round it, to 2 s at most."""


class SkillFolder:
    """A folder that is a skill, or has skills below it at any depth (SKILL-6, SKILL-15).

    All files below the directory of a skill are published, except hidden ones (``.git``), backups
    of editors (``SKILL.md~``, ``#SKILL.md#``), ``__pycache__``, ``Thumbs.db`` and ``desktop.ini``.
    Files beside skills, such as a README, are not.

    A folder is rejected if it has symbolic links, special files, names that differ only by case or
    Unicode normalization, directories with files but without a skill, or skills beyond the limits.
    It may be a link itself: then a skill in it has the name of the link.

    Args:
        path: The path of the folder.
        prefix: The segments of each URI before the path of a skill, such as ``acme/billing``.
        files: What is read instead of the folder.

    Raises:
        SkillError: The folder does not exist, or the prefix cannot be part of a URI.
    """

    def __init__(
        self, path: str | os.PathLike[str], prefix: str = "", files: Folder | None = None
    ) -> None:
        self._path = os.fspath(path)
        self._name = os.path.basename(os.path.abspath(self._path))
        try:
            self._folder = files or Folder(path)
        except (OSError, ValueError, RuntimeError):  # missing, not a path, or a loop of links
            raise SkillError(self._path, "does not exist") from None
        self._prefix = tuple(prefix.split("/")) if prefix else ()
        for each in self._prefix:
            if each in ("", ".", "..") or _BAD_NAME.search(each):
                raise SkillError(prefix, "the prefix must be names with slashes between them")
        if self._prefix and not _AUTHORITY.fullmatch(self._prefix[0]):
            raise SkillError(prefix, f"the prefix {_NO_AUTHORITY}")
        self._files: dict[Parts, SkillFile] = {}
        self._listed: dict[str, Parts] = {}
        self._reading = threading.Lock()
        self._begun = 0.0  # the time at which the last reading began
        self.skills: Sequence[FoundSkill] = ()
        """The skills that `read` found last."""
        self.on_change: Callable[[Sequence[FoundSkill], Sequence[FoundSkill]], object] | None = None
        """Called with the skills before and after, when `read` finds others."""

    def read(self) -> Sequence[FoundSkill]:
        """Return the skills that are there now, in the order of their paths. Blocks.

        A file is hashed again only if its time, size or inode has changed (SKILL-31). Callers that
        wait for each other share a reading that has begun after their calls.

        Raises:
            SkillError: A skill cannot be published; the others are not returned either, because
                hosts that import a server's skills take all of them or none.
        """
        called = time.monotonic()
        with self._reading:
            if self._begun <= called:
                begun, before = time.monotonic(), self.skills
                self._read()
                self._begun = begun
                if self.on_change is not None and self.skills != before:
                    self.on_change(before, self.skills)
            return self.skills

    def _read(self) -> None:
        found = self._scan((), False)
        roots = sorted(parts[:-1] for parts in found if parts[-1] == MANIFEST)
        if not roots:
            raise SkillError(self._path, f"has no {MANIFEST}, nor has a directory below it")
        base = self._prefix if roots[0] else (*self._prefix, self._name)
        above = {root[:depth] for root in roots for depth in range(len(root) or 1)}
        members: dict[Parts, list[Parts]] = {root: [] for root in roots}
        files: dict[Parts, SkillFile] = {}
        for parts, status in found.items():
            owners = [parts[:depth] for depth in range(len(parts)) if parts[:depth] in members]
            for owner in owners:
                members[owner].append(parts)
            if status is not None and owners:
                files[parts] = self._file(base, parts, status)
            elif status is not None and parts[:-1] not in above:
                raise self._error(parts[:-1], f"has files, but no {MANIFEST}")
        self.skills = [self._skill(base, root, members[root], files) for root in roots]
        self._files = files
        self._listed = {file.uri: parts for parts, file in files.items()}

    def open(self, uri: str) -> bytes:
        """Return the bytes of a file that `read` lists, as they are now. Blocks.

        Raises:
            SkillError: No skill has such a file, or it cannot be read.
        """
        if uri not in self._listed:
            self.read()  # the file may be new
        parts = self._listed.get(uri)
        if parts is None:
            raise SkillError(uri, "no skill has this file")
        return self._bytes(parts)

    def _scan(self, parts: Parts, is_inside: bool) -> dict[Parts, os.stat_result | None]:
        """Return what is below a directory, in order: the status of files, None for directories.

        `is_inside` is True below the directory of a skill, where the limits hold.
        """
        if len(parts) > MAX_DEPTH:
            raise self._error(parts, f"is nested deeper than {MAX_DEPTH} directories")
        entries = self._entries(parts)
        is_inside = is_inside or any(name == MANIFEST for name, _ in entries)
        found: dict[Parts, os.stat_result | None] = {}
        for name, status in entries:
            inner = (*parts, name)
            if stat.S_ISDIR(status.st_mode):
                found[inner] = None
                found |= self._scan(inner, is_inside)
            else:
                found[inner] = status
            if is_inside and len(found) > 2 * MAX_FILES:  # do not scan all of a huge one
                raise self._error(parts, f"has more than {2 * MAX_FILES} files and directories")
        if is_inside:
            self._check_limits(parts, [each.st_size for each in found.values() if each is not None])
        return found

    def _entries(self, parts: Parts) -> Sequence[tuple[str, os.stat_result]]:
        """Return the names in a directory that are published, in order (SKILL-16)."""
        try:
            entries = sorted(self._folder.entries(parts), key=lambda entry: entry[0])
        except OSError as error:
            raise self._error(parts, f"cannot be read: {error.strerror}") from None
        entries = [entry for entry in entries if not IGNORED.fullmatch(entry[0])]
        names: dict[str, str] = {}
        for name, status in entries:
            is_file = stat.S_ISREG(status.st_mode)
            folded = normalize("NFC", normalize("NFC", name).casefold())
            other, names[folded] = names.get(folded), name
            why = None
            if stat.S_ISLNK(status.st_mode):
                why = "is a symbolic link; copy its target instead"
            elif not is_file and not stat.S_ISDIR(status.st_mode):
                why = "is neither a file nor a directory"
            elif _BAD_NAME.search(name):
                why = "its name has a backslash, drive letter, control character or invalid UTF-8"
            elif other is not None:
                why = f"its name differs from {other!r} only by case or Unicode normalization"
                why = "is both a file and a directory" if other == name else why
            elif name.lower() == MANIFEST.lower() and (name != MANIFEST or not is_file):
                why = f"must be a file named {MANIFEST}, or have another name"
            if why is not None:
                raise self._error((*parts, name), why)
        return entries

    def _check_limits(self, parts: Parts, sizes: Sequence[int]) -> None:
        if len(sizes) > MAX_FILES:
            raise self._error(parts, f"has {len(sizes)} files; a skill has at most {MAX_FILES}")
        if sum(sizes) > MAX_BYTES:
            raise self._error(parts, f"has {sum(sizes)} bytes; a skill has at most {MAX_BYTES}")

    def _file(self, base: Parts, parts: Parts, status: os.stat_result) -> SkillFile:
        version = (status.st_mtime_ns, status.st_size, status.st_ino)
        known = self._files.get(parts)
        if known is not None and known.version == version:
            return known
        # A file may change again within the precision of its time.
        is_settled = status.st_mtime_ns < time.time_ns() - _SETTLED_NS
        data = self._bytes(parts)
        text = decoded(data)
        fields: Mapping[str, Any] | None = None
        if parts[-1] == MANIFEST:
            if text is None:
                raise self._error(parts, "is not UTF-8")
            fields = parse_frontmatter(text, self._path_of(parts))
        return SkillFile(
            _uri((*base, *parts)),
            len(data),
            f"sha256:{sha256(data).hexdigest()}",
            mime_type_of(parts[-1], text is not None),
            fields,
            version if is_settled else None,
        )

    def _bytes(self, parts: Parts) -> bytes:
        try:
            data = self._folder.read(parts, MAX_BYTES + 1)
        except OSError as error:
            why = error.strerror or "it was removed or replaced"
            raise self._error(parts, f"cannot be read: {why}") from None
        self._check_limits(parts, [len(data)])
        return data

    def _skill(
        self, base: Parts, root: Parts, members: Sequence[Parts], files: Mapping[Parts, SkillFile]
    ) -> FoundSkill:
        path, place = (*root, MANIFEST), (*base, *root)
        fields = files[path].frontmatter or {}
        if fields["name"] != place[-1]:
            why = f"the name is {fields['name']!r}, but that of its directory is {place[-1]!r}"
            raise self._error(path, why)
        if not _AUTHORITY.fullmatch(place[0]):
            raise self._error(root[:1], f"its name {_NO_AUTHORITY}")
        own = [files[each] for each in members if each in files]
        self._check_limits(root, [each.size for each in own])  # they may have grown meanwhile
        below = [_uri((*base, *each)) for each in members if each not in files]
        return FoundSkill(files[path].uri, fields, own, [_uri(place), *below])

    def _path_of(self, parts: Parts) -> str:
        return os.path.join(self._path, *parts)

    def _error(self, parts: Parts, reason: str) -> SkillError:
        return SkillError(self._path_of(parts), reason)


def _uri(parts: Parts) -> str:
    return "skill://" + "/".join(quote(part, safe="") for part in parts)


def decoded(data: bytes) -> str | None:
    """Return bytes as text; None if they are not UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def mime_type_of(name: str, is_text: bool) -> str:
    """Return the MIME type of a file; `is_text` is True if its bytes are UTF-8."""
    if name.lower().endswith(".md"):
        return "text/markdown"  # which Python knows since 3.13 only
    kind, encoding = _MIME_TYPES.guess_type(name)
    if kind is None or encoding is not None:  # of compressed data, it is the type of the contents
        return "text/plain" if is_text else "application/octet-stream"
    return kind
