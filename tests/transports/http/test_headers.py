"""Arguments that headers repeat, on the wire; `tests.protocol.test_headers` has every value."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

from tests.messages import called
from tests.transports.http.wire import Exchange, Site


def route(site: Site, headers: dict[str, Any], **arguments: Any) -> Exchange:
    """Call the tool whose arguments are repeated."""
    return site.ask("tools/call", headers, **called("routed", arguments))


def test_values_that_agree_pass(site: Site) -> None:
    """HDR-4, HDR-5, HDR-7: ``Mcp-Param-Method`` has nothing to do with ``Mcp-Method``."""
    headers = {"Region": "eu", "Count": "1e2", "Really": "false", "Method": "mine"}
    sent = {f"Mcp-Param-{name}": value for name, value in headers.items()}
    answer = route(site, sent, region="eu", count=100, really=False, method="mine")
    assert answer.text == "eu 100 False mine"
    assert route(site, {}, region="eu").refusal == (400, -32020)


def test_a_wrapped_value_is_unwrapped(site: Site) -> None:
    """HDR-6, HTTPM-4: also a name."""

    def wrapped(text: str) -> str:
        return f"=?base64?{b64encode(text.encode()).decode()}?="

    headers = {"Mcp-Param-Region": wrapped("Zürich"), "Mcp-Name": wrapped("routed")}
    assert route(site, headers, region="Zürich").text.startswith("Zürich")
