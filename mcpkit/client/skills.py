"""Skills that a server lists, and the checks that a host owes them (SEP-2640)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final
from urllib.parse import unquote

from mcpkit._protocol import wire
from mcpkit._protocol.skills import MANIFEST, MAX_BYTES, MAX_FILES, check_fields, parse_frontmatter
from mcpkit._utils.json import is_array, is_object
from mcpkit._utils.uri_template import misleads
from mcpkit.client.results import Params
from mcpkit.errors import SkillError
from mcpkit.types import ResourceContents, TextResourceContents

_DIGEST: Final = re.compile("sha256:[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A file of a skill, as it was listed."""

    uri: str
    digest: str  # "sha256:" and 64 hexadecimal digits; from the server, as the file (SKILL-H7)
    size: int


@dataclass(frozen=True, slots=True)
class ListedSkill:
    """An entry of ``skills/list``. Everything in it comes from the server, and may mislead a model.

    Args:
        uri: Of its ``SKILL.md``. With your own name of the server it identifies the skill
            (SKILL-H1).
        frontmatter: The fields of ``SKILL.md``.
        files: By their paths below the directory of the skill; None if the server does not list
            them, so that none can be verified.
        raw: The entry as it was sent.
    """

    uri: str
    frontmatter: Params
    files: Mapping[str, ListedFile] | None
    raw: Params

    @property
    def name(self) -> str:
        """The name, which several skills may have."""
        return str(self.frontmatter["name"])

    @property
    def description(self) -> str:
        """What it is for, and when to use it."""
        return str(self.frontmatter["description"])

    @classmethod
    def from_wire(cls, raw: Params) -> ListedSkill:
        """Read the wire form; raises `SkillError` if a host must not use the skill (SKILL-18)."""
        uri = str(raw.get("uri"))
        fields, listed = raw.get("frontmatter"), raw.get("resources")
        if not is_object(fields):
            raise SkillError(uri, "the frontmatter is missing")
        check_fields(fields, uri)
        *_, name, manifest = ["", *uri.split("/")]
        if manifest != MANIFEST or name != fields["name"]:
            raise SkillError(uri, f"does not end in {fields['name']}/{MANIFEST}")
        if listed == "dynamic":
            return cls(uri, fields, None, raw)
        files = _files(uri, listed) if is_array(listed) else {}
        if MANIFEST not in files:
            raise SkillError(uri, f"the list of its files is missing, or has no {MANIFEST}")
        sizes = [each.size for each in files.values()]
        if len(sizes) > MAX_FILES or sum(sizes) > MAX_BYTES:
            raise SkillError(uri, f"has more than {MAX_FILES} files or {MAX_BYTES} bytes")
        return cls(uri, fields, files, raw)

    def file(self, path: str) -> ListedFile:
        """Return a listed file; raises `SkillError` if there is none."""
        if self.files is None:
            raise SkillError(self.uri, "its files are not listed, so they cannot be verified")
        if path not in self.files:
            raise SkillError(self.uri, f"has no file {path!r}")
        return self.files[path]

    def verified(self, file: ListedFile, contents: Sequence[ResourceContents]) -> bytes:
        """Return the bytes of a file that was read, if they are those listed (SKILL-H2).

        Raises:
            SkillError: They are not.
            ImportError: PyYAML is not installed, and the file is ``SKILL.md``.
        """
        [content] = contents if len(contents) == 1 else [None]
        if content is None or content.uri != file.uri:
            raise SkillError(file.uri, "was not read as a single content of this URI")
        if isinstance(content, TextResourceContents):
            data = content.text.encode("utf-8", "replace")
        else:
            data = content.blob
        if len(data) != file.size:
            raise SkillError(file.uri, f"has {len(data)} bytes, but {file.size} are listed")
        if f"sha256:{sha256(data).hexdigest()}" != file.digest:
            raise SkillError(file.uri, "does not have the digest that is listed")
        if file.uri == self.uri:
            text = data.decode("utf-8", "replace")
            readings = [
                parse_frontmatter(text, file.uri, last_newline=is_) for is_ in (True, False)
            ]
            if self.frontmatter not in readings:
                raise SkillError(file.uri, "does not have the frontmatter that is listed")
        return data


def _files(uri: str, listed: Sequence[object]) -> dict[str, ListedFile]:
    root = uri.removesuffix(MANIFEST)
    files: dict[str, ListedFile] = {}
    for each in listed:
        raw: Mapping[str, Any] = each if is_object(each) else {}
        try:
            file = ListedFile(wire.text_in(raw, "uri"), wire.text_in(raw, "digest"), raw["size"])
        except (KeyError, TypeError, ValueError):
            raise SkillError(uri, "lists a file without URI, digest or size") from None
        path = unquote(file.uri.removeprefix(root))
        empty = {"", "."}.intersection(path.split("/"))
        if not file.uri.startswith(root) or empty or misleads(path):
            raise SkillError(uri, f"lists {file.uri}, which is not below its directory")
        if path in files:
            raise SkillError(uri, f"lists {file.uri} twice")
        if not _DIGEST.fullmatch(file.digest) or type(file.size) is not int or file.size < 0:
            raise SkillError(uri, f"lists {file.uri} with a malformed digest or size")
        files[path] = file
    return files
