"""Variables of the environment, which a host may have filled with a placeholder."""

from __future__ import annotations

import os

from mcpkit._utils.text import PLACEHOLDER, is_placeholder
from mcpkit.errors import MissingEnvironment


def variable(name: str) -> str:
    """Return the value of an environment variable; empty if it is not set.

    Raises:
        MissingEnvironment: The value is a placeholder, such as ``${NAME}``.
    """
    value = os.environ.get(name, "")
    if is_placeholder(value):
        raise MissingEnvironment([name], PLACEHOLDER)
    return value
