"""For tests of examples: their processes have their own event loop, so one is enough here."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"
