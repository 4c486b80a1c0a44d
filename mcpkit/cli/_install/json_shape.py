"""Any other host: the shape that most of them share."""

from __future__ import annotations

from functools import partial

from mcpkit.cli._install.hosts import Host, reached, started

__all__ = ["HOST"]

HOST = Host(
    name="json",
    title="JSON",
    key="mcpServers",
    user=lambda machine: None,
    launch=started,
    remote=partial(reached, type="http"),
    after="Put it where your host wants it.",
)
