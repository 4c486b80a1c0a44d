"""The page of names, from the table that errors, ``check`` and ``migrate`` use.

``python -m tests.docs.names`` writes it.
"""

from __future__ import annotations

import re
from itertools import groupby
from typing import Final

from mcpkit._utils.names import How, PeerName, peer_names
from tests.docs.pages import DOCS

PAGE: Final = DOCS / "migration" / "names.md"

_HEADINGS: Final = {
    "ctx": "On the context",
    "app": "On the app",
    "MCPKit(…)": "Where the app is made",
    "tool(…)": "Where a tool is registered",
    "resource(…)": "Where a resource is registered",
    "prompt(…)": "Where a prompt is registered",
    "annotations": "In the annotations of a tool",
    "elicit(…)": "Where the user is asked",
    "sample(…)": "Where the model is asked",
    "log(…)": "Where a message is logged",
    "Image(…)": "Where a picture is made",
    "Audio(…)": "Where a sound is made",
    "File(…)": "Where a file is made",
    "run(…)": "Where the app is run",
    "answer": "On an answer of the user",
    "import": "What is imported",
}

_DONE: Final[dict[How, str]] = {
    "rename": "renamed",
    "rewrite": "rewritten",
    "drop": "left out",
    "hand": "marked",
    "keep": "marked, and kept until you decide",
    "guard": "marked; the server does not start if it is set",
}

_CODE: Final = re.compile(
    r"""(?:await\ )?@?[\w.]+\((?:[^()]|\([^()]*\))*\)(?:\.\w+\(…?\))?  # a call
    | @?\w+(?:\.\w+)+                                              # a path of names
    | \w+=(?:\S*[^\s,;])?                                          # an option
    | "[^"]*" """,
    re.VERBOSE,
)
"""What is code in a piece of advice."""

_BEFORE: Final = """\
# Name by name

What the names of FastMCP 2 to 4 and of the official SDK 1 and 2 are here. A name that means the
same is in the table only if it has to be imported. Errors, [`mcpkit check`](../checks.md) and
[`mcpkit migrate`](../cli.md#mcpkit-migrate) know the same table; the last column is what
`mcpkit migrate` does with a name. What it marks is left to you.

The guides [from FastMCP](fastmcp.md) and [from the official SDK](python-sdk.md) have more about
each, with code.
"""


def page() -> str:
    """The page as it has to be."""
    made = [_BEFORE]
    for on, names in groupby(peer_names().values(), lambda each: each.on):
        made.append(
            f"\n## {_HEADINGS[on]}\n\n| theirs | here | `mcpkit migrate` |\n|---|---|---|\n"
        )
        made += map(_row, names)
    return "".join(made)


def _row(name: PeerName) -> str:
    advice = _CODE.sub(r"`\g<0>`", name.advice)
    done = _DONE[name.how]
    if name.how == "rename" and name.on == "import":
        advice = f"`mcpkit.{name.ours}`"
        done = "imported" if name.ours == name.theirs else done
    return f"| `{name.theirs}` | {advice} | {done} |\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
