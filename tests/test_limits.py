"""Limits: one table of them, checked, for an app and for an endpoint."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Any

import pytest

from mcpkit import Limits, MCPKit
from mcpkit.transports.http.options import HttpSettings

NAMES = [each.name for each in fields(Limits)]


def test_every_limit_and_setting_is_documented_and_has_a_default() -> None:
    for name in NAMES:
        assert re.search(rf"^ +{name}: ", Limits.__doc__ or "", re.MULTILINE)
    for name in HttpSettings._fields:
        assert re.search(rf"^ +{name}: ", HttpSettings.__doc__ or "", re.MULTILINE)
        assert name in HttpSettings._field_defaults


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("max_body", [0, -1, None, "16MB", True, float("inf")]),
        ("max_unread", [-1]),
        ("body_timeout", [0, None, float("nan")]),
        ("request_timeout", [0, -1]),
        ("rate_limit", [0]),
        ("max_each", [0]),
        ("max_threads", [0]),
        ("session_idle", [-1]),
        *((each, ["many"]) for each in NAMES),
    ],
)
def test_a_limit_that_no_server_can_keep_to_is_refused_by_name(
    name: str, values: list[Any]
) -> None:
    for value in values:
        with pytest.raises(ValueError, match=f"^{name} must be"):
            Limits(**{name: value})
    none = Limits(request_timeout=None, rate_limit=None, max_each=None)
    assert (none.request_timeout, none.rate_limit, none.max_each) == (None, None, None)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"path": "mcp"}, "path must be"),
        ({"keep_alive": 0}, "keep_alive must be more than 0"),
        ({"stream_after": -1}, "stream_after must be at least 0"),
        ({"retry": "soon"}, "retry must be a number"),
        ({"allowed_hosts": "a.example"}, "allowed_hosts must be a list"),
    ],
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_an_option_that_makes_no_sense_is_refused_by_name(options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        MCPKit("wrong").asgi(**options)
    options = {"keep_alife": 1}
    with pytest.raises(TypeError, match=r"no option 'keep_alife'; did you mean 'keep_alive'\?"):
        MCPKit("wrong").asgi(**options)


# --- where they are set ---------------------------------------------------------------------------


def test_an_endpoint_has_the_limits_of_its_app_unless_it_has_its_own() -> None:
    app: MCPKit[None] = MCPKit("limited", limits=Limits(max_body=1000, max_threads=2))
    assert app.asgi().settings.limits.max_body == 1000
    assert app.asgi(limits=Limits(max_body=2000)).settings.limits.max_body == 2000
    assert app.server.settings.limits.max_threads == 2
    app = MCPKit("limited", limits=Limits(max_in_flight=5), max_in_flight=3)
    assert app.server.settings.limits.max_in_flight == 3
    assert MCPKit("less", http={"limits": Limits(grace=1)}).asgi().settings.limits.grace == 1


def test_each_client_may_have_a_part_of_each_total() -> None:
    from mcpkit.transports.http.quotas import EndpointQuotas

    limits = Limits(max_requests=10, max_streams=3, max_each=4, max_unread=100)
    quotas = EndpointQuotas(HttpSettings(limits=limits))
    assert (quotas.requests.each, quotas.streams.each, quotas.unread.each) == (4, 3, 50)
