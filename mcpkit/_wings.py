"""The wings: what a server of tools, resources and prompts can do without.

The core imports no wing, and names one only here. ``_wings.audit`` is the module `mcpkit.audit`,
imported when it is first used; a wing that was deleted raises `ModuleNotFoundError` with its name.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from importlib import import_module
from typing import Any, Final

_MODULES: Final = {
    "apps": "mcpkit.extensions.apps.extension",
    "audit": "mcpkit.audit",
    "auth": "mcpkit.auth.verifiers",
    "authorization": "mcpkit.transports.http.authorization",
    "blocked": "mcpkit.transports.http.blocked",
    "call_limits": "mcpkit.call_limits",
    "card": "mcpkit.transports.http.card",
    "files": "mcpkit.providers.files",
    "metrics": "mcpkit.metrics",
    "metrics_page": "mcpkit.transports.http.metrics",
    "readiness": "mcpkit.transports.http.readiness",
    "settings": "mcpkit._settings",
    "skills": "mcpkit.extensions.skills.extension",
    "task_options": "mcpkit.tasks.options",
    "task_runs": "mcpkit.tasks.task_runs",
    "tasks": "mcpkit.tasks.extension",
    "telemetry": "mcpkit.telemetry",
}
"""Name → the module through which the core uses a wing."""

_OPTIONS: Final = {
    "max_result": "mcpkit.tasks.budgets",
    "task": "mcpkit.tasks.support",
    "ui": "mcpkit.extensions.apps.options",
    "visibility": "mcpkit.extensions.apps.options",
    "always_load": "mcpkit.host_hints",
    "always_ask": "mcpkit.host_hints",
    "host_max_result": "mcpkit.host_hints",
    "search_hint": "mcpkit.host_hints",
    "once": "mcpkit.idempotency",
    "single_flight": "mcpkit.idempotency",
}
"""Option of a tool → the module that serves it; its ``prepare`` makes an `EntryOption` of it."""

PUBLIC: Final = {
    "mcpkit.call_limits": "CallLimits",
    "mcpkit.client.client": "Client",
    "mcpkit.client.results": "InputRequest TaskStatus",
    "mcpkit.client.tasks": "TaskHandle",
    "mcpkit.extensions.apps.extension": "Apps",
    "mcpkit.tasks.options": "TaskOptions",
    "mcpkit.tasks.current": "CurrentTask",
    "mcpkit.tasks.support": "TaskSupport",
    "mcpkit.views": "Html",
}
"""Module → its names that `mcpkit` offers, separated by blanks."""


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(_MODULES[name])
    globals()[name] = module
    return module


def prepare(names: Collection[str], entry: Any, options: Mapping[str, Any], at: str) -> None:
    """Let the wings that serve some options add to an entry; raises `RegistrationError`."""
    for module in dict.fromkeys(_OPTIONS[each] for each in _OPTIONS if each in names):
        import_module(module).prepare(entry, options, at)


def if_present(name: str) -> Any:
    """Return the module of a wing that is used wherever it is; None if it was deleted."""
    try:
        return __getattr__(name)
    except ModuleNotFoundError as error:
        if error.name != _MODULES[name]:
            raise
        return None
