"""Skills that functions return; see `MCPKit.skill`."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import partial
from typing import Any, Final

from typing_extensions import TypedDict

from mcpkit._injection import CallPlan, inspect_handler
from mcpkit._protocol.skills import MANIFEST
from mcpkit._utils.json import is_object
from mcpkit.errors import RegistrationError, SkillError
from mcpkit.extensions.skills.folder import IGNORED, SkillFolder
from mcpkit.providers.files import Folder

_json: Final = partial(json.dumps, ensure_ascii=False)


class SkillOptions(TypedDict, total=False):
    """The options of `MCPKit.skill`."""

    name: str | None
    """The name of the function by default, with hyphens for underscores."""
    description: str | None
    """What the skill is for, and when to use it; taken from the docstring by default."""
    license: str | None
    """The name of a license, or of a file with it."""
    compatibility: str | None
    """What the skill needs of its surroundings."""
    metadata: Mapping[str, Any] | None
    """Other facts about it."""
    allowed_tools: Sequence[str]
    """The tools that it would like to use without a question."""
    prefix: str
    """The segments of its URIs before its name."""
    scopes: Sequence[str]
    """The scopes that a caller over HTTP needs; others do not see the skill."""


class SkillFunction:
    """A function that returns the files of a skill, and the frontmatter that they get."""

    def __init__(self, fn: Callable[..., Any], options: SkillOptions) -> None:
        signature = inspect_handler(fn)
        if isinstance(fn, type):
            raise RegistrationError(f"{signature.place} is a class; add an object with __call__")
        for each in signature.parameters:
            if each.source == "ask" or (each.source == "argument" and each.required):
                raise RegistrationError(
                    f"{signature.place}: a skill is read without arguments and questions, so "
                    f"nothing fills {each.name}"
                )
        self.place = signature.place
        self.plan = CallPlan(fn, signature)
        self._name = options.get("name") or signature.name.replace("_", "-")
        self._prefix = options.get("prefix", "")
        fields = {
            "name": self._name,
            "description": options.get("description") or signature.docs.description,
            "license": options.get("license"),
            "compatibility": options.get("compatibility"),
            "metadata": options.get("metadata") or None,
            "allowed-tools": " ".join(options.get("allowed_tools", ())) or None,
        }
        lines = ["---"]
        for name, value in fields.items():
            # JSON is YAML, and some hosts read no braces.
            if isinstance(value, Mapping):
                items = (f"  {_json(key)}: {_json(each)}" for key, each in value.items())
                lines += [f"{name}:", *items]
            elif value is not None:
                lines.append(f"{name}: {_json(value)}")
        self._frontmatter = "\n".join([*lines, "---", "", ""])
        self._last: tuple[Any, SkillFolder] | None = None

    def folder(self, found: Any) -> SkillFolder:
        """Return a folder with the skill, which has been read.

        Args:
            found: What the function returned: the text of SKILL.md behind the frontmatter, or a
                dict of such files.

        Raises:
            SkillError: The skill cannot be published.
        """
        last = self._last
        if last is not None and last[0] == found:
            return last[1]
        files: Any = {MANIFEST: found} if isinstance(found, str) else found
        if not is_object(files) or not isinstance(files.get(MANIFEST), str):
            why = f'return text, or a dict of files with {{"{MANIFEST}": text}}'
            raise SkillError(self._name, why)
        if files[MANIFEST].startswith("---\n"):
            raise SkillError(self._name, "return the text without a frontmatter; options make it")
        made: dict[Sequence[str], bytes] = {}
        for path, content in files.items():
            parts = tuple(path.split("/"))
            if not all(part and not IGNORED.fullmatch(part) for part in parts):
                why = "is not the path of a file that is published"
                raise SkillError(f"{self._name}/{path}", why)
            data = content.encode() if isinstance(content, str) else content
            if not isinstance(data, bytes):
                raise SkillError(f"{self._name}/{path}", "is neither text nor bytes")
            made[parts] = data
        made[MANIFEST,] = self._frontmatter.encode() + made[MANIFEST,]
        folder = SkillFolder(self._name, self._prefix, _Memory(made))
        folder.read()
        self._last = copy(found), folder  # the function may change its dict
        return folder


class _Memory(Folder):
    """A folder in memory."""

    def __init__(self, files: Mapping[Sequence[str], bytes]) -> None:
        self._files = files

    def entries(self, parts: Sequence[str]) -> list[tuple[str, os.stat_result]]:
        """Return the names in a directory with their status; a path may be both kinds of file."""
        found: dict[tuple[str, int], int] = {}
        for path, data in self._files.items():
            name, *below = path[len(parts) :] or [""]
            if name and path[: len(parts)] == parts:
                found[name, stat.S_IFDIR if below else stat.S_IFREG] = len(data)
        none = {"st_mtime_ns": 0}
        return [
            (name, os.stat_result((mode, 0, 0, 1, 0, 0, size, 0, 0, 0), none))
            for (name, mode), size in found.items()
        ]

    def read(self, parts: Sequence[str], limit: int = -1) -> bytes:
        """Return the contents of a file; the limits of skills hold, whatever `limit` is."""
        return self._files[parts]
