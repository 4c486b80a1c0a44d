"""The Grafana dashboard and the alert rules that docs/telemetry.md offers.

A real Prometheus, from `.ci/databases` or the system, scrapes a real server and evaluates them.
"""

from __future__ import annotations

import json
import math
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import httpx2
import yaml
from prometheus_client.parser import text_string_to_metric_families

from mcpkit import Limits, MCPKit
from mcpkit._protocol.connection import CAPABILITIES_KEY
from mcpkit.metrics import INSTRUMENTS, metrics_of
from tests.docs.pages import DOCS, free_port, titled
from tests.kit import PATIENCE, eventually
from tests.messages import LAST_HANDSHAKE, announced
from tests.transports.http.plain import Client, Server, serving
from tests.transports.http.wire import TASKS
from tests.transports.processes import started
from tests.web import program

DASHBOARD: Final = json.loads((DOCS / "assets/mcpkit-dashboard.json").read_text(encoding="utf-8"))
ALERTS_FILE: Final = DOCS / "assets/mcpkit-alerts.yml"
ALERTS: Final[Mapping[str, Any]] = {
    rule["alert"]: rule
    for group in yaml.safe_load(ALERTS_FILE.read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]
}
QUERIES: Final[Mapping[str, str]] = {
    f"{panel['title']}: {target['legendFormat']}": target["expr"]
    for panel in DASHBOARD["panels"]
    for target in panel["targets"]
}
SOURCE: Final = """
import anyio
from mcpkit import CallLimits, Context, MCPKit

app = MCPKit("measured", http={"metrics": True})


@app.tool
def add(a: int, b: int) -> int:
    return a + b


@app.tool
def fail() -> None:
    raise ValueError


@app.tool(rate="1/h")
async def rated() -> str:
    return "done"


@app.tool(call_limits=CallLimits(concurrency=1, max_wait=600))
async def wait() -> None:
    await anyio.sleep_forever()


@app.tool(task="required")
async def long() -> None:
    await anyio.sleep_forever()


@app.tool
async def ask(ctx: Context) -> str:
    return str(await ctx.elicit("Sure?", bool))


@app.tool
async def flood(ctx: Context) -> None:
    for _ in range(5000):
        ctx.info("x" * 10_000)
        await anyio.sleep(0)
    await anyio.sleep_forever()
"""


# --- without Prometheus ---------------------------------------------------------------------------


def names_in(query: str) -> set[str]:
    """The metrics of a query."""
    return set(re.findall(r"\b(?:mcp_server|mcpkit)_\w+", query))


def test_every_metric_is_shown_and_every_name_is_one_of_a_server() -> None:
    app: MCPKit[Any] = MCPKit("measured")
    families = list(text_string_to_metric_families(metrics_of(app.server.observers).text()))
    counters = {f"{each.name}_total" for each in families if each.type == "counter"}
    gauges = {each.name for each in families if each.type == "gauge"}
    (histogram,) = [each.name for each in families if each.type == "histogram"]
    parts = {f"{histogram}_{part}" for part in ("bucket", "sum", "count")}
    assert len(families) == len(INSTRUMENTS)
    assert set[str]().union(*map(names_in, QUERIES.values())) == counters | gauges | parts
    alerted = set[str]().union(*(names_in(each["expr"]) for each in ALERTS.values()))
    assert alerted <= counters | gauges | parts


def test_the_dashboard_is_one_that_grafana_imports() -> None:
    datasource = {"type": "prometheus", "uid": "${datasource}"}
    panels = DASHBOARD["panels"]
    assert [each["id"] for each in panels] == list(range(1, len(panels) + 1))
    assert {each["type"] for each in panels} == {"timeseries"}
    assert all(each["datasource"] == datasource for each in panels)
    places = [(each["gridPos"]["x"], each["gridPos"]["y"]) for each in panels]
    assert places == [(8 * (i % 3), 8 * (i // 3)) for i in range(len(panels))]
    assert {(each["gridPos"]["w"], each["gridPos"]["h"]) for each in panels} == {(8, 8)}
    variables = {each["name"]: each for each in DASHBOARD["templating"]["list"]}
    assert variables["datasource"]["query"] == "prometheus"
    assert variables["job"]["datasource"] == datasource
    for panel in panels:
        refs = [each["refId"] for each in panel["targets"]]
        assert refs == list("ABCD"[: len(refs)])
    for query in QUERIES.values():
        assert query.count("{job=~") == len(re.findall(r"\b(?:mcp|mcpkit)_\w+\{", query)) > 0
        assert set(re.findall(r"\$\w+", query)) <= {"$job", "$__rate_interval"}


def test_an_alert_says_how_bad_it_is_and_where_to_look() -> None:
    for rule in ALERTS.values():
        assert set(rule) == {"alert", "expr", "for", "labels", "annotations"}
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        assert set(rule["annotations"]) == {"summary", "description"}
    panels = {each["title"] for each in DASHBOARD["panels"]}
    for rule in ALERTS.values():
        named = set(re.findall(r'"([A-Z][^"]*)"', rule["annotations"]["description"]))
        assert named <= panels
    limit = Limits().max_unread // 1024**2
    assert f"0.75 * {limit} * 1024 * 1024" in ALERTS["MCPUnreadBytesHigh"]["expr"]


# --- with Prometheus ------------------------------------------------------------------------------


class Prometheus:
    """A server that scrapes and evaluates, and what it answers."""

    def __init__(self, http: httpx2.Client) -> None:
        self._http = http

    def get(self, path: str, **params: str) -> Any:
        """Return the data of a response; the assertion has the error of an invalid query."""
        found = self._http.get(f"/api/v1/{path}", params=params).json()
        assert found["status"] == "success", found
        return found["data"]

    def series(self, query: str) -> dict[str, float]:
        """Return the values of a query by the values of its labels."""
        query = query.replace("$__rate_interval", "1m").replace("$job", "mcpkit")
        found = self.get("query", query=query)["result"]
        return {" ".join(each["metric"].values()): float(each["value"][1]) for each in found}

    def rules(self) -> list[Any]:
        return [rule for group in self.get("rules")["groups"] for rule in group["rules"]]

    def active(self) -> set[str]:
        """Return the alerts that are pending or firing."""
        return {each["name"] for each in self.rules() if each["state"] != "inactive"}


@contextmanager
def scraping(folder: Path, target: str) -> Iterator[Prometheus]:
    """Run Prometheus with the configuration of the page, but a shorter interval."""
    executable, port = program("prometheus"), free_port()
    config = titled("telemetry.md", "prometheus.yml")
    config = config.replace("scrape_interval: 15s", "scrape_interval: 200ms")
    config = config.replace("global:", "global:\n  evaluation_interval: 200ms")
    (folder / "prometheus.yml").write_text(config.replace("127.0.0.1:8000", target))
    shutil.copy(ALERTS_FILE, folder)
    options = {"storage.tsdb.path": folder / "data", "web.listen-address": f"127.0.0.1:{port}"}
    options["config.file"] = folder / "prometheus.yml"
    command = [executable, *(f"--{name}={value}" for name, value in options.items())]
    base = f"http://127.0.0.1:{port}"
    with (
        started(command) as process,
        httpx2.Client(base_url=base, timeout=PATIENCE, trust_env=False) as http,
    ):
        process.wait_for_stderr("Server is ready")
        yield Prometheus(http)


def keep_busy(server: Server) -> Client:
    """Let clients hold, wait for and leave unread something of every kind; return one of them."""
    client = server.client(LAST_HANDSHAKE, elicitation={})
    client.stream()
    client.stream(client.calling("ask")).response.peek(1)
    for _ in range(2):
        client.send(client.calling("wait"), client.connect())
    other = server.client()
    asks: dict[str, Any] = {CAPABILITIES_KEY: {"elicitation": {"form": {}}}}
    other.post(announced(1, "tools/call", name="ask", _meta=asks))
    other.post(announced(2, "tools/call", name="long", _meta=TASKS))
    logs = {"io.modelcontextprotocol/logLevel": "info"}
    other.send(announced(3, "tools/call", name="flood", _meta=logs), other.connect())
    return client


HELD: Final = {
    "Requests that run and wait: in flight": {"": 4},
    "Requests that run and wait: parked": {"": 1},
    "Requests that run and wait: suspended": {"": 1},
    "Waiting calls: {{queue}}": {"call limits": 1, "threads": 0},
    "Tasks: {{state}}": {"working": 1, "input_required": 0},
    "Sessions and streams: sessions": {"": 1},
    "Sessions and streams: streams": {"": 1},
}
"""What `keep_busy` leaves."""


def test_prometheus_evaluates_what_a_server_does(tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(SOURCE)
    (tmp_path / "metrics-token").write_text("s3cret")
    token = {"MCPKIT_HTTP_METRICS_TOKEN": "s3cret"}
    program("prometheus")  # or the server would be started for nothing
    with (
        serving("server.py", "--http", cwd=tmp_path, env=token) as server,
        scraping(tmp_path, urlsplit(server.url).netloc) as prometheus,
    ):
        # Prometheus begins to scrape after 5 seconds.
        eventually(lambda: prometheus.series("changes(mcpkit_requests_in_flight[10s])"))
        healthy = ["ok"] * len(ALERTS)
        eventually(lambda: [each["health"] for each in prometheus.rules()], healthy.__eq__)
        assert {each["name"] for each in prometheus.rules()} == ALERTS.keys()
        assert prometheus.active() == set()

        client = keep_busy(server)
        eventually(lambda: {name: prometheus.series(QUERIES[name]) for name in HELD}, HELD.__eq__)
        seen = dict[str, dict[str, float]]()

        def unseen() -> set[str]:
            client.call("add", a=1, b=2)
            client.call("fail")
            client.call("rated")
            for name in QUERIES.keys() - seen:
                values = prometheus.series(QUERIES[name])
                if any(0 < each < math.inf for each in values.values()):
                    seen[name] = values
            return QUERIES.keys() - seen

        assert eventually(unseen, lambda found: not found) == set()
        assert 0.2 < seen["Errors: all requests"][""] < 0.7
        assert seen["Errors: {{gen_ai_tool_name}}"]["fail"] == 1
        quantiles = [seen[f"Duration: {each}"][""] for each in ("p50", "p95", "p99")]
        assert quantiles == sorted(quantiles)
        assert quantiles[-1] < 60
        caused = {"MCPErrorRatioHigh", "MCPLimitReached", "MCPNotificationsDropped"}
        eventually(prometheus.active, caused.__eq__)

        server.process.signal(signal.SIGKILL)
        eventually(prometheus.active, lambda active: "MCPServerDown" in active)


_JOB: Final = 'job="mcpkit"'
_DURATION: Final = "mcp_server_operation_duration_seconds"
CAUSES: Final[Mapping[str, Mapping[str, tuple[str, str]]]] = {
    "MCPServerDown": {f"up{{{_JOB}}}": ("1 0 1x28", "0x30")},
    "MCPErrorRatioHigh": {
        f"{_DURATION}_count{{{_JOB}}}": ("0+100x30", "0+100x30"),
        f'{_DURATION}_count{{{_JOB}, error_type="tool_error"}}': ("0+10x30", "0+20x30"),
    },
    "MCPCallsSlow": {
        f'{_DURATION}_bucket{{{_JOB}, mcp_method_name="tools/call", le="{le}"}}': values
        for le, values in (
            ("10", ("0+96x30", "0+90x30")),
            ("30", ("0+100x30", "0+100x30")),
            ("+Inf", ("0+100x30", "0+100x30")),
        )
    },
    "MCPLimitReached": {
        f'mcpkit_rejections_total{{{_JOB}, reason="server limit"}}': ("0x10 500x20", "0+1x30"),
        f'mcpkit_rejections_total{{{_JOB}, reason="client limit"}}': ("0+9x30", "0+9x30"),
    },
    "MCPQueueNotDraining": {f"mcpkit_queue_length{{{_JOB}}}": ("9 9 9 0 " * 8, "1x30")},
    "MCPUnreadBytesHigh": {f"mcpkit_unread_bytes{{{_JOB}}}": ("200000000x30", "202000000x30")},
    "MCPNotificationsDropped": {
        f"mcpkit_notifications_dropped_total{{{_JOB}}}": ("0+50x30", "0+70x30")
    },
}
"""Alert → series with their values of each minute: for long not enough for it, and enough."""


def test_alerts_fire_beyond_their_thresholds(tmp_path: Path) -> None:
    assert CAUSES.keys() == ALERTS.keys()
    fired = "count by (alertname) (count_over_time(ALERTS{alertstate='firing'}[30m]))"
    tests = [
        {
            "name": f"{alert} {fires}",
            "interval": "1m",
            "input_series": [
                {"series": series, "values": values[fires]} for series, values in causes.items()
            ],
            "promql_expr_test": [
                {
                    "expr": fired,
                    "eval_time": "30m",
                    "exp_samples": [{"labels": f'{{alertname="{alert}"}}', "value": 1}] * fires,
                }
            ],
        }
        for alert, causes in CAUSES.items()
        for fires in (False, True)
    ]
    file = tmp_path / "tests.yml"
    file.write_text(json.dumps({"rule_files": [str(ALERTS_FILE)], "tests": tests}))
    for command in (("check", "rules", ALERTS_FILE), ("test", "rules", file)):
        found = subprocess.run(
            [program("promtool"), *command], capture_output=True, text=True, timeout=PATIENCE
        )
        assert found.returncode == 0, found.stdout + found.stderr
