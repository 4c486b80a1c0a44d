"""Completion of values in the shell.

The shell reads stdout, so nothing else may be printed there, whatever a server does.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout, suppress
from functools import partial
from typing import Any, Final

from mcpkit._protocol.revisions import BY_VERSION
from mcpkit._utils.logs import LEVELS
from mcpkit.cli._check.rules import FAIL_ON
from mcpkit.cli._connection import is_python
from mcpkit.cli._install.hosts import HOSTS
from mcpkit.cli._target import load_app
from mcpkit.cli.new import TEMPLATES
from mcpkit.transports import TRANSPORTS


def _registry(ctx: Any) -> Any:
    """Import the app of a target, which may not be another command or a URL."""
    target = ctx.params["target"]
    assert is_python(target)
    return load_app(target).server.registry


def _keys(ctx: Any) -> Iterable[str]:
    known, name = _registry(ctx), ctx.params.get("name")
    if name is None:
        names = known.tools[ctx.params["tool"]].input_schema["properties"]
    else:
        names = [each.wire_name for each in known.prompts[name].accepts.fields]
    given = {each.partition("=")[0].rstrip(":") for each in ctx.params["arguments"] or ()}
    return (f"{each}=" for each in names if each not in given)


_VALUES: Final[Mapping[str, Callable[[Any], Iterable[str]]]] = {
    "arguments": _keys,
    "client": lambda ctx: HOSTS,
    "fail_on": lambda ctx: FAIL_ON,
    "log_level": lambda ctx: LEVELS,
    "name": lambda ctx: _registry(ctx).prompts if ctx.info_name == "prompt" else (),
    "revision": lambda ctx: BY_VERSION,
    "template": lambda ctx: TEMPLATES,
    "tool": lambda ctx: _registry(ctx).tools,
    "transport": lambda ctx: TRANSPORTS,
    "uri": lambda ctx: (*_registry(ctx).resources, *_registry(ctx).templates),
}
"""Name of a parameter → a function from the context of a command to its values."""


def complete_values(command: Any) -> None:
    """Let the shell complete the values of the parameters of a command."""
    for each in command.params:
        if each.name in _VALUES:
            each._custom_shell_complete = partial(_complete, _VALUES[each.name])


def _complete(find: Callable[[Any], Iterable[str]], ctx: Any, _: Any, start: str) -> list[str]:
    with _silence(), suppress(Exception, SystemExit):
        return [each for each in find(ctx) if each.startswith(start)]
    return []


@contextmanager
def _silence() -> Generator[None]:
    """Discard what this process and those that it starts write to stdout and stderr."""
    with (
        open(os.devnull, "w") as nowhere,
        redirect_stdout(nowhere),
        redirect_stderr(nowhere),
        ExitStack() as stack,
    ):
        for number in (1, 2):
            kept = os.dup(number)
            stack.callback(os.close, kept)
            stack.callback(os.dup2, kept, number)
            os.dup2(nowhere.fileno(), number)
        yield
