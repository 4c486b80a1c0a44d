"""The ``mcpkit`` command with other limits than its own: `limits` in its environment says which.

A limit that a test is about should be reached soon, and one that it is not about should not be
reached on the slowest machine.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Final

__all__ = ["HURRIED", "limits"]

HURRIED: Final = [sys.executable, str(Path(__file__))]
"""Is ``mcpkit`` but for its limits."""

_LIMITS: Final = "LIMITS"


def limits(seconds: Mapping[str, float]) -> dict[str, str]:
    """Variables that give values to constants, such as ``mcpkit.cli.reloading.reload._HOLD_S``."""
    return {_LIMITS: json.dumps(dict(seconds))}


def _hurry() -> None:
    # What is started from here has the limits that everybody has.
    for name, seconds in json.loads(os.environ.pop(_LIMITS)).items():
        module_name, _, constant = name.rpartition(".")
        module = import_module(module_name)
        assert isinstance(getattr(module, constant), float), f"{name} is no limit"
        setattr(module, constant, seconds)


if __name__ == "__main__":
    from mcpkit.cli import main

    sys.path[0] = ""  # as with ``python -m mcpkit``
    _hurry()
    main()
