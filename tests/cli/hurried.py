"""The ``mcpkit`` command with other limits than its own: `limits` in its environment says which.

A limit that a test is about should be reached soon, and one that it is not about should not be
reached on the slowest machine.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tests.transports.http.plain import Server

HURRIED: Final = [sys.executable, str(Path(__file__))]
"""Is ``mcpkit`` but for its limits."""

SOON: Final = {
    "mcpkit.cli._run.files._LOOK_S": 0.02,
    "mcpkit.cli._run.workers._START_PAUSE_S": 0.05,
}
"""What a server over HTTP waits for again and again."""

_LIMITS: Final = "LIMITS"

WORKERS: Final = "HURRIED_WORKERS"
"""The variable with the program that workers are started with, for a command that is executed."""


def limits(seconds: Mapping[str, float]) -> dict[str, str]:
    """Variables that give values to constants, such as ``mcpkit.cli._run.reload._HOLD_S``."""
    return {_LIMITS: json.dumps(dict(seconds))}


@contextmanager
def hurried(*arguments: str, cwd: Path) -> Iterator[Server]:
    """``mcpkit run server.py`` over HTTP, which looks at files and starts processes again `SOON`.

    Args:
        arguments: Of the command line, in addition.
        cwd: Where it runs.
    """
    # Not above: this file is a program too, which imports no more than it has to.
    from tests.transports.http.plain import serving

    command = [*HURRIED, "run", "server.py", "--http", "--port", "0", *arguments]
    with serving(cwd=cwd, env=limits(SOON), command=command, within=True) as server:
        yield server


def _hurry() -> None:
    if WORKERS in os.environ:
        from multiprocessing.spawn import set_executable

        set_executable(os.environ.pop(WORKERS))
    # Child processes have the ordinary limits again.
    for name, seconds in json.loads(os.environ.pop(_LIMITS)).items():
        module_name, _, constant = name.rpartition(".")
        module = import_module(module_name)
        assert isinstance(getattr(module, constant), float), f"{name} is not a limit"
        setattr(module, constant, seconds)


if __name__ == "__main__":
    from mcpkit.cli import main

    sys.path[0] = ""  # as with ``python -m mcpkit``
    _hurry()
    main()
