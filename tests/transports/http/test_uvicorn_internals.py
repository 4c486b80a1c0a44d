"""A server starts and serves with any uvicorn, whatever that has made of its internals."""

from __future__ import annotations

import json
import logging
import re
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
import uvicorn
from uvicorn.protocols.http import h11_impl, httptools_impl

from mcpkit import MCPKit
from mcpkit.transports.http.uvicorn import bounded
from mcpkit.transports.http.uvicorn_internals import Internals, Needs
from tests.messages import LEGACY, MODERN, announced, called
from tests.transports.http.attack import connect, post_head
from tests.transports.http.wire import Host, Site, hosting

SHORTCUT: Final = "the shortcut for requests that need not wait"
STRICT: Final = "bounds on headers and on requests that are sent at once"
PATIENT: Final = "bounds on the time that clients may take"

RENAMED: Final = {
    "expect_100_continue": [SHORTCUT],
    "pipeline": [STRICT],
    "message_event": [STRICT],
    "timeout_keep_alive_task": [PATIENT],
    "response_complete": [PATIENT, STRICT, SHORTCUT],
}
"""Names of uvicorn's own, and what a server is without where they have others."""

takes_shortcuts = sys.version_info >= (3, 11)


@contextmanager
def uvicorn_without(name: str) -> Iterator[None]:
    """A uvicorn that calls something otherwise, wherever it uses that, and works as ever."""
    source = Path(httptools_impl.__file__).read_text(encoding="utf-8")
    changed = re.sub(rf"\b{name}\b", f"{name}_of_tomorrow", source)
    assert changed != source
    made = types.ModuleType(httptools_impl.__name__)
    exec(compile(changed, httptools_impl.__file__, "exec"), made.__dict__)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, httptools_impl.__name__, made)
        yield


def serve(host: Host) -> Site:
    app = MCPKit("internal")

    @app.tool
    async def add(a: int, b: int) -> int:
        return a + b

    return host.serve(app)


def warnings_in(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.name == "mcpkit"]


def call_at_once(site: Site) -> None:
    """Call a tool in a request that arrives whole."""
    message = announced(1, "tools/call", **called("add", {"a": 1, "b": 2}))
    body = json.dumps(message).encode()
    headers = {
        "MCP-Protocol-Version": MODERN,
        "Mcp-Method": "tools/call",
        "Mcp-Name": "add",
        "Content-Length": str(len(body)),
    }
    with connect(site.host.port) as raw:
        raw.send(post_head(site.path, headers) + body)
        assert raw.status() == 200
        assert b'"3"' in raw.until(b"}}}")


@pytest.mark.parametrize("name", RENAMED)
def test_what_uvicorn_lacks_is_done_without_and_told_once(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    with uvicorn_without(name), hosting() as host:
        site = serve(host)
        assert site.call("add", a=1, b=2).text == "3"
        assert site.begin(LEGACY[-1]).call("add", a=1, b=2).text == "3"
        before = host.applied
        for _ in range(3):
            call_at_once(site)
        applied = host.applied - before
        host.close_all()
    without = [each for each in RENAMED[name] if each != SHORTCUT or takes_shortcuts]
    told = warnings_in(caplog)
    assert len(told) == bool(without), "nothing is lost where there is no shortcut anyway"
    for line in told:
        assert f"uvicorn {uvicorn.__version__} lacks HttpToolsProtocol." in line
        assert name in line
        assert line.endswith("serving without " + " and without ".join(without))
    assert applied == (3 if SHORTCUT in RENAMED[name] or not takes_shortcuts else 0)


def test_nothing_is_told_of_a_uvicorn_that_has_all(caplog: pytest.LogCaptureFixture) -> None:
    with hosting() as host:
        assert serve(host).call("add", a=1, b=2).text == "3"
        host.close_all()
    assert warnings_in(caplog) == []


def test_where_no_protocol_is_found_uvicorn_chooses_one(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, httptools_impl.__name__, None)
        patch.setitem(sys.modules, h11_impl.__name__, None)
        assert bounded(read_timeout=1, write_timeout=1, grace=1, shortcuts={}) == "auto"
    [line] = warnings_in(caplog)
    assert "lacks its protocols: serving without " in line


def test_a_protocol_that_is_made_in_another_way_is_used_as_it_is(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Another(httptools_impl.HttpToolsProtocol):
        def __init__(self, *, everything: object) -> None:
            raise NotImplementedError

    monkeypatch.setattr(httptools_impl, "HttpToolsProtocol", Another)
    made: Any = bounded(read_timeout=1, write_timeout=1, grace=1, shortcuts={})
    assert made.__bases__ == (Another,)
    [line] = warnings_in(caplog)
    assert "a Another that can be tried (TypeError: " in line


# --- what is looked for ---------------------------------------------------------------------------


def lacking(protocol: type, **needs: Any) -> list[str]:
    return Internals(protocol).missing(
        Needs("something", needs.get("methods", {}), needs.get("attributes", ()))
    )


class Other(httptools_impl.HttpToolsProtocol):
    """A protocol with a method of another signature."""

    def shutdown(self, when: float) -> None:  # type: ignore[override]
        raise NotImplementedError

    pause_writing = None  # type: ignore[assignment]


def test_a_method_with_another_signature_is_missing() -> None:
    methods = {"shutdown": 0, "pause_writing": 0, "resume_writing": 0, "invented": 0}
    assert lacking(Other, methods=methods) == [
        "Other.shutdown",
        "Other.pause_writing",
        "Other.invented",
    ]
    assert lacking(Other, methods={"shutdown": 1}) == []


def test_attributes_are_looked_for_where_a_request_was_taken() -> None:
    attributes = ("cycle.response_complete", "flow.write_paused", "cycle.invented", "invented.x")
    assert lacking(Other, attributes=attributes) == ["Other.cycle.invented", "Other.invented.x"]


def test_looking_configures_no_logging_and_leaves_nothing_open() -> None:
    loggers = [logging.getLogger(name) for name in ("uvicorn", "uvicorn.error", "uvicorn.access")]
    before = [(each.level, list(each.handlers), each.propagate) for each in loggers]
    assert lacking(httptools_impl.HttpToolsProtocol, attributes=("scope",)) == []
    assert [(each.level, list(each.handlers), each.propagate) for each in loggers] == before
