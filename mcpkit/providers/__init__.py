"""Providers: resources that come and go by themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from mcpkit._entries import Entry
from mcpkit.context import Context


class Provider(Protocol):
    """Resources that come and go by themselves, such as the files of a directory.

    They are listed after the registered resources, in the order of their URIs. A registered
    resource hides a provided one with the same URI. They are read through a registered template.
    """

    async def resources(
        self, after: str, limit: int | None, context: Context[Any]
    ) -> Sequence[Entry]:
        """Return at most `limit` resources whose URIs are greater than `after`, in their order."""
        ...
