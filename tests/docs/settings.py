"""The tables of ``docs/settings.md``, which are generated from the settings.

``python -m tests.docs.settings`` writes them.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from types import NoneType
from typing import Any, Final, Literal, get_args, get_origin

from mcpkit import MCPKit
from mcpkit._settings import Setting, table
from mcpkit.cli.config import as_text

PAGE: Final = Path(__file__).parents[2] / "docs" / "settings.md"
START: Final = "## Every setting\n"

SETTINGS: Final = table(inspect.unwrap(MCPKit.__init__))

_SECTIONS: Final = {
    "": ("The app", "[tool.mcpkit]", "reference/app.md"),
    "limits": ("Limits", "[tool.mcpkit.limits]", "reference/http.md"),
    "call_limits": ("Limits of calls", "[tool.mcpkit.call-limits]", "call-limits.md"),
    "tasks": ("Tasks", "[tool.mcpkit.tasks]", "reference/tasks.md"),
    "http": ("HTTP", "[tool.mcpkit.http]", "reference/http.md"),
}
_WORDS: Final[dict[Any, str]] = {
    str: "text",
    int: "integer",
    float: "number",
    bool: "`true` or `false`",
    NoneType: "`none`",
}


def written() -> str:
    """The page, from the heading of the tables to its end."""
    parts = [START]
    for section, (title, table_name, reference) in _SECTIONS.items():
        rows = [each for each in SETTINGS.values() if each.path.rpartition(".")[0] == section]
        parts.append(f"### {title}\n\nKeys of `{table_name}`; [what they mean]({reference}).\n")
        lines = ["| key | variable | value | default |", "|---|---|---|---|"]
        parts.append("\n".join([*lines, *map(_row, rows)]) + "\n")
    return "\n".join(parts)


def _row(setting: Setting) -> str:
    key = setting.path.rpartition(".")[2].replace("_", "-")
    default, kind = as_text(setting.default), _described(setting.kind)
    if setting.path == "secret":
        key, kind = "–", "texts, separated by blanks"
    else:
        key = f"`{key}`"
    return f"| {key} | `{setting.variable}` | {kind} | `{default}` |"


def _described(kind: Any) -> str:
    if kind in _WORDS:
        return _WORDS[kind]
    origin, args = get_origin(kind), get_args(kind)
    if origin is Literal:
        return ", ".join(f"`{each}`" for each in args)
    if origin is list:
        return "list" if args[0] is str else f"list of {_described(args[0])}"
    return "table" if origin is dict else " or ".join(map(_described, args))


if __name__ == "__main__":
    before = PAGE.read_text(encoding="utf-8").partition(START)[0]
    PAGE.write_text(before + written(), encoding="utf-8")
