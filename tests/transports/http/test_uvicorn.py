"""A server starts and serves with any uvicorn, whatever that has made of its internals."""

from __future__ import annotations

import re
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from uvicorn.protocols import http as protocols
from uvicorn.protocols.http import httptools_impl

from tests.messages import LEGACY, announced, called
from tests.transports.http.attack import connect, post
from tests.transports.http.server import make_app
from tests.transports.http.wire import Host, Site, Stage, headers_of, hosting

RENAMED = ("expect_100_continue", "pipeline", "message_event", "timeout_keep_alive_task")
"""Names of uvicorn's own, of its connections and of their cycles."""

takes_shortcuts = sys.version_info >= (3, 11)


@contextmanager
def uvicorn_without(name: str) -> Iterator[None]:
    """A uvicorn that has another name for an attribute, wherever it uses it, and works as ever."""
    source = Path(httptools_impl.__file__).read_text(encoding="utf-8")
    changed = re.sub(rf"\b{name}\b", f"{name}_of_tomorrow", source)
    assert changed != source
    made: Any = types.ModuleType(httptools_impl.__name__)
    exec(compile(changed, httptools_impl.__file__, "exec"), made.__dict__)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, httptools_impl.__name__, made)
        patch.setattr(protocols, "httptools_impl", made)
        yield


def warnings_in(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.name == "mcpkit"]


def call_at_once(site: Site) -> None:
    """Call a tool in a request that arrives whole."""
    message = announced(1, "tools/call", **called("add", {"a": 1, "b": 2}))
    with connect(site.host.port) as raw:
        raw.send(post(site.path, message, headers_of(message)))
        assert raw.status() == 200
        assert b'"3"' in raw.until(b"}}}")


def serves(host: Host, *, shortcut: bool) -> None:
    """Make calls, which come to the application unless they take the shortcut."""
    site = host.serve(make_app(Stage()))
    assert site.call("add", a=1, b=2).text == "3"
    assert site.begin(LEGACY[-1]).call("add", a=1, b=2).text == "3"
    before = host.applied
    for _ in range(3):
        call_at_once(site)
    assert host.applied - before == (0 if shortcut and takes_shortcuts else 3)
    host.close_all()


@pytest.mark.parametrize("name", RENAMED)
def test_a_uvicorn_that_lacks_an_attribute_serves_by_itself_and_the_log_says_so_once(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    with uvicorn_without(name), hosting() as host:
        serves(host, shortcut=False)
    [line] = warnings_in(caplog)
    assert f"uvicorn {uvicorn.__version__} is not supported (no {name}): serving without" in line


def test_nothing_is_logged_of_a_uvicorn_that_has_them(caplog: pytest.LogCaptureFixture) -> None:
    with hosting() as host:
        serves(host, shortcut=True)
    assert warnings_in(caplog) == []
