"""One server for all tests of the wire, and an app on it that most of them can share."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mcpkit.http import HttpRequest
from tests.messages import LEGACY
from tests.transports.http.server import make_app
from tests.transports.http.wire import Host, Site, Stage, Talk, hosting

Serve = Callable[..., Site]

begins_at_once = pytest.mark.skipif(
    sys.version_info < (3, 11), reason="needs handlers that begin where they are called"
)


def by_header(http: HttpRequest) -> str | None:
    """The principal of a request that says who its user is."""
    return http.headers.get("x-user")


@pytest.fixture(scope="package")
def package_host() -> Iterator[Host]:
    with hosting() as host:
        yield host


@pytest.fixture
def host(package_host: Host) -> Iterator[Host]:
    yield package_host
    package_host.close_all()


@pytest.fixture(scope="package")
def _shared_site(package_host: Host) -> Site:
    stage = Stage()
    return package_host.serve(make_app(stage), stage)


@pytest.fixture
def site(host: Host, _shared_site: Site) -> Site:
    """An app with the default settings, which other tests use as well."""
    return _shared_site


@pytest.fixture(params=LEGACY)
def legacy(site: Site, request: pytest.FixtureRequest) -> Talk:
    """A session of each handshake revision."""
    return site.begin(request.param)


@pytest.fixture
def serve(host: Host) -> Serve:
    """Serves a new app: ``serve(stream_after=0.1)``, or ``serve(app={"page_size": 3})``."""

    def make(*, app: dict[str, Any] | None = None, **options: Any) -> Site:
        stage = Stage()
        return host.serve(make_app(stage, **(app or {})), stage, **options)

    return make
