"""For all tests: both event loops, the plugin as users have it, and which cases are run."""

from __future__ import annotations

import signal
import sys
import threading
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from mcpkit import pytest_plugin
from tests import selection
from tests.selection import pytest_addoption, pytest_collection_modifyitems

__all__ = ["pytest_addoption", "pytest_collection_modifyitems"]

# A busy machine is no reason to fail.
calm = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("quick", calm, max_examples=40)
settings.register_profile("deep", calm, max_examples=400)


def pytest_configure(config: pytest.Config) -> None:
    # An installed mcpkit brings its plugin along; a checkout does not.
    if not config.pluginmanager.is_registered(pytest_plugin):
        config.pluginmanager.register(pytest_plugin, "mcpkit")
    settings.load_profile("deep" if config.getoption("--deep") else "quick")
    selection.configure(config)
    # What a shell starts in the background ignores these, and so would all that tests start.
    if threading.current_thread() is threading.main_thread() and sys.platform != "win32":
        for number, usual in (
            (signal.SIGINT, signal.default_int_handler),
            (signal.SIGQUIT, signal.SIG_DFL),
        ):
            if signal.getsignal(number) is signal.SIG_IGN:
                signal.signal(number, usual)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give what shares a server to one process, the dear ones first."""
    from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

    class Scheduling(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return selection.unit_of(nodeid)

    config.option.loadscopereorder = False
    return Scheduling(config, log)


@pytest.fixture(params=["asyncio", "trio"], scope="module")
def anyio_backend(request: pytest.FixtureRequest) -> str:
    backend: str = request.param
    return backend
