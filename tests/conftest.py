"""For all tests: both event loops, and the plugin as users have it."""

from __future__ import annotations

import pytest

from mcpkit import pytest_plugin


def pytest_configure(config: pytest.Config) -> None:
    # An installed mcpkit brings its plugin along; a checkout does not.
    if not config.pluginmanager.is_registered(pytest_plugin):
        config.pluginmanager.register(pytest_plugin, "mcpkit")


@pytest.fixture(params=["asyncio", "trio"], scope="module")
def anyio_backend(request: pytest.FixtureRequest) -> str:
    backend: str = request.param
    return backend
