"""For all tests: both event loops, the plugin as users have it, and which cases are run."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from collections.abc import Generator, Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from _pytest.runner import runtestprotocol
from hypothesis import HealthCheck, settings

from mcpkit import pytest_plugin
from tests import selection
from tests.selection import (
    pytest_addoption,
    pytest_collection_modifyitems,
    pytest_generate_tests,
)

__all__ = ["pytest_addoption", "pytest_collection_modifyitems", "pytest_generate_tests"]

# A busy machine must not fail tests.
calm = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("quick", calm, max_examples=40)
settings.register_profile("deep", calm, max_examples=400)

_SHOWN: Final = 0.005
"""How many seconds setting up must have taken for ``--durations`` to show it."""


def pytest_configure(config: pytest.Config) -> None:
    # An installed mcpkit brings its plugin along; a checkout does not.
    if not config.pluginmanager.is_registered(pytest_plugin):
        config.pluginmanager.register(pytest_plugin, "mcpkit")
    settings.load_profile("deep" if config.getoption("--deep") else "quick")
    selection.configure(config)
    # Nothing here is trusted by certificate, and to read those of the system takes each HTTP client
    # 20 to 75 ms, in this process and in those that tests start.
    os.environ.pop("SSL_CERT_FILE", None)
    os.environ["SSL_CERT_DIR"] = str(Path(__file__).with_name("data"))  # has none
    # What a shell starts in the background ignores these, and so would all that tests start.
    if threading.current_thread() is threading.main_thread() and sys.platform != "win32":
        for number, usual in (
            (signal.SIGINT, signal.default_int_handler),
            (signal.SIGQUIT, signal.SIG_DFL),
        ):
            if signal.getsignal(number) is signal.SIG_IGN:
                signal.signal(number, usual)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Make the tests, which are a million objects that stay, without looking for garbage."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()  # or all of them are looked through each time


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Run a case in one of several processes, and tell the first what it shows of it.

    It would be told five times of each, which costs more than most cases do. Where a file of
    results is written, it is.
    """
    config = item.config
    if not hasattr(config, "workerinput") or config.getoption("xmlpath", None) is not None:
        return None
    for report in runtestprotocol(item, log=False, nextitem=nextitem):
        if report.when == "call" or not report.passed or report.duration >= _SHOWN:
            item.ihook.pytest_runtest_logreport(report=report)
    return True


class _Places(list[str]):
    """The ids of cases; to find one takes no longer if they are many."""

    def __init__(self, ids: Iterable[str]) -> None:
        super().__init__(ids)
        self._places = {each: place for place, each in enumerate(self)}

    def index(self, id: str, *_: Any) -> int:
        return self._places[id]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give what shares a server to one process, the dear ones first."""
    from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

    class Scheduling(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return selection.unit_of(nodeid)

        def add_node_collection(self, node: Any, collection: Sequence[str]) -> None:
            super().add_node_collection(node, collection)
            if node in self.registered_collections:
                self.registered_collections[node] = _Places(collection)

        def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
            super().mark_test_complete(node, item_index, duration)
            # Or all that have ever been run are counted again after each case.
            units = self.assigned_work[node]
            unit = self._split_scope(self.registered_collections[node][item_index])
            if all(units[unit].values()):
                del units[unit]

    config.option.loadscopereorder = False
    return Scheduling(config, log)


@pytest.fixture(params=["asyncio", "trio"], scope="module")
def anyio_backend(request: pytest.FixtureRequest) -> str:
    backend: str = request.param
    return backend
