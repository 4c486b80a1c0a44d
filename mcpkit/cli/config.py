"""``mcpkit config``: show the settings of a server."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator, Sequence
from inspect import unwrap
from pathlib import Path
from typing import Any, cast

from mcpkit._settings import SECRETS, Setting, Sources, table, without_password
from mcpkit._utils.sealing import SECRET
from mcpkit._utils.targets import TargetError
from mcpkit._utils.text import single_line
from mcpkit.app import MCPKit
from mcpkit.cli._options import APP, AS_JSON
from mcpkit.cli._render import put, put_json
from mcpkit.cli._target import load_app
from mcpkit.cli._terminal import fail

__all__ = ["config"]


def config(target: str = APP, as_json: bool = AS_JSON) -> None:
    """Show the settings of a server: their values, and where each is set.

    An argument in the code has priority over a variable such as MCPKIT_PAGE_SIZE, and that over
    [tool.mcpkit] in the nearest pyproject.toml. Arguments of run and options of mcpkit run have
    priority over all of them, and are not shown. A secret is only said to be set or not.

    \b
    Examples:
      mcpkit config server.py
      MCPKIT_HTTP_PORT=9000 mcpkit config server.py --json
    """
    try:
        with contextlib.redirect_stdout(sys.stderr):
            app = load_app(target)
    except TargetError as error:
        fail(str(error))
    rows = list(_rows(app))
    if as_json:
        members = [
            {"key": setting.path, "variable": setting.variable, "value": value, "source": source}
            for setting, value, source in rows
        ]
        put_json({"settings": members})
        return
    cells = [
        (each.path, single_line(as_text(value)), Path(source).name) for each, value, source in rows
    ]
    names, values = (max(len(row[column]) for row in cells) for column in (0, 1))
    put("\n".join(f"{row[0]:{names}}  {row[1]:{min(values, 40)}}  {row[2]}" for row in cells))


def _rows(app: MCPKit[Any]) -> Iterator[tuple[Setting, Any, str]]:
    """Yield each setting with its value and source."""
    sources: Sources = app._sources
    for path, setting in table(unwrap(MCPKit.__init__)).items():
        value, source = sources.outside.get(path) or (setting.default, "default")
        if path in sources.given:
            value, source = sources.given[path], "argument"
        if path == "secret":
            secrets = app.server.settings.secrets
            if source == "default" or value is None:
                source = SECRET if secrets else "default"
            value = "set" if secrets else "not set"
        elif path in SECRETS:
            value = "not set" if value is None else "set"
        yield setting, without_password(value), source


def as_text(value: Any) -> str:
    """Return a value as a variable would have it."""
    if value is None or value == ():
        return "none"
    if isinstance(value, (list, tuple)):
        return " ".join(map(str, cast("Sequence[object]", value)))
    if isinstance(value, (bool, dict)):
        return json.dumps(value, default=str)
    return str(value)
