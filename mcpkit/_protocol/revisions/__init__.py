"""All revisions, oldest first. A new one is a file beside this one and a place in the tuple."""

from __future__ import annotations

from typing import Final

from mcpkit._protocol.revision import Revision
from mcpkit._protocol.revisions import (
    v2024_11_05,
    v2025_03_26,
    v2025_06_18,
    v2025_11_25,
    v2026_07_28,
)

__all__ = ["BY_VERSION", "HANDSHAKE", "PER_REQUEST", "REVISIONS"]

REVISIONS: Final[tuple[Revision, ...]] = (
    v2024_11_05.REVISION,
    v2025_03_26.REVISION,
    v2025_06_18.REVISION,
    v2025_11_25.REVISION,
    v2026_07_28.REVISION,
)

BY_VERSION: Final[dict[str, Revision]] = {each.version: each for each in REVISIONS}
HANDSHAKE: Final[tuple[Revision, ...]] = tuple(each for each in REVISIONS if each.handshake)
PER_REQUEST: Final[tuple[Revision, ...]] = tuple(each for each in REVISIONS if not each.handshake)
