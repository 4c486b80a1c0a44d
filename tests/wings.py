"""The wings of the package: which files each has, and what stands on it.

Everything else in mcpkit is the core. `.ci/lines` and `.ci/ties` read this, too.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

PACKAGE: Final = Path(__file__).resolve().parents[1] / "mcpkit"


class Wing(NamedTuple):
    """A part that can be deleted."""

    paths: tuple[str, ...]
    """How its paths begin, from mcpkit/."""
    carries: tuple[str, ...] = ()
    """The wings that go with it."""


WINGS: Final[dict[str, Wing]] = {
    "cli": Wing(("cli/", "templates/", "__main__.py", "unmigrated.py")),
    "client": Wing(("client/", "_utils/targets.py"), ("cli", "testing")),
    "fetching": Wing(("_utils/fetch.py", "_utils/turns.py"), ("auth", "client")),
    "stores": Wing(("_stores/",), ("tasks", "authorization server")),
    "tasks": Wing(
        ("tasks/", "_input_requests/task_replay.py", "_signature/truncation.py"),
        ("keyed calls", "cli", "testing"),
    ),
    "keyed calls": Wing(("idempotency.py", "tasks/calls.py")),
    "auth": Wing(("auth/", "transports/http/authorization.py"), ("authorization server", "cli")),
    "authorization server": Wing(("auth/server/",)),
    "apps": Wing(("extensions/apps/", "views.py"), ("cli",)),
    "skills": Wing(("extensions/skills/", "_protocol/skills.py"), ("client",)),
    "observation": Wing(
        (
            *("audit.py", "metrics.py", "telemetry.py", "tracing.py"),
            *("_utils/semconv.py", "transports/http/metrics.py"),
        )
    ),
    "health": Wing(("transports/http/readiness.py", "transports/http/blocked.py")),
    "server card": Wing(("transports/http/card.py",)),
    "call limits": Wing(("call_limits.py",)),
    "files": Wing(("providers/files.py",), ("skills",)),
    "host hints": Wing(("host_hints.py",), ("cli",)),
    "settings": Wing(("_settings.py",), ("cli",)),
    "testing": Wing(("testing.py", "pytest_plugin.py")),
}


def carried_by(name: str) -> set[str]:
    """Return a wing and all that go with it."""
    found = {name}
    for each in WINGS[name].carries:
        found |= carried_by(each)
    return found


def files_of(*names: str) -> list[Path]:
    """Return the modules of wings, from mcpkit/."""
    begin = tuple(path for name in names for path in WINGS[name].paths)
    modules = (path.relative_to(PACKAGE) for path in sorted(PACKAGE.rglob("*.py")))
    return [path for path in modules if path.as_posix().startswith(begin)]


def core_files() -> list[Path]:
    """Return the modules of the core, from mcpkit/; ``extensions/`` only holds wings."""
    wings = {*files_of(*WINGS), Path("extensions/__init__.py")}
    modules = (path.relative_to(PACKAGE) for path in sorted(PACKAGE.rglob("*.py")))
    return [path for path in modules if path not in wings]
