"""The files of an app, watched for changes: Python, and what its pages are made of."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

_LOOK_S: Final = 0.3
"""Seconds between looks at files."""

_MIN_PAUSE_RATIO: Final = 10
"""The pause between two looks at the files is at least this many times as long as a look."""

_OF_PAGES: Final = (".css", ".gif", ".html", ".jpg", ".js", ".mjs", ".png", ".svg", ".webp")
_SKIPPED: Final = frozenset({"__pycache__", "node_modules", "site-packages"})


def files_below(folder: Path, suffixes: tuple[str, ...]) -> Iterator[Path]:
    """Yield the author's files below a folder: not those in hidden folders and environments."""
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(
            each
            for each in folders
            if not (each.startswith(".") or each in _SKIPPED)
            and not os.path.exists(os.path.join(parent, each, "pyvenv.cfg"))
        )
        yield from (Path(parent, name) for name in sorted(names) if name.endswith(suffixes))


class FileWatcher:
    """The times and sizes of the files below a folder.

    Files of pages count once the app has views: others may write such files while they run.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known = self._look()
        self.pause = _LOOK_S
        """Seconds until the next look."""

    def changes(self) -> list[Path]:
        """Return the files that were changed, added or removed since the last look."""
        before, began = self._known, time.monotonic()
        self._known = now = self._look()
        self.pause = max(_LOOK_S, _MIN_PAUSE_RATIO * (time.monotonic() - began))
        has_views = "mcpkit.views" in sys.modules
        return sorted(
            path
            for path in before.keys() | now.keys()
            if before.get(path) != now.get(path) and (has_views or path.suffix == ".py")
        )

    def covers(self, file: str | None) -> bool:
        """Return True if a file is one of these."""
        return file is not None and Path(file) in self._known

    def describe(self, paths: Sequence[Path]) -> str:
        """Return paths for a message: relative to the folder, and at most three."""
        names = [str(path.relative_to(self._folder)) for path in paths]
        if len(names) > 3:
            names[2:] = [f"{len(names) - 2} other files"]
        return ", ".join(names)

    def _look(self) -> Mapping[Path, tuple[int, int]]:
        found: dict[Path, tuple[int, int]] = {}
        for path in files_below(self._folder, (".py", *_OF_PAGES)):
            try:
                facts = path.stat()
            except OSError:  # it was removed meanwhile
                continue
            found[path] = (facts.st_mtime_ns, facts.st_size)
        return found
