"""Settings: options of an app from the environment and from ``[tool.mcpkit]``."""

from __future__ import annotations

import inspect
import json
import logging
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mcpkit import CallLimits, Limits, MCPKit
from mcpkit._settings import OTHERS, SettingError, without_password
from tests.cli.commands import mcpkit
from tests.docs.settings import PAGE, SETTINGS, START, written
from tests.transports.http.plain import serving
from tests.transports.processes import REPOSITORY, TIMEOUT, environment, modern, started

needs_tomllib = pytest.mark.skipif(sys.version_info < (3, 11), reason="tomllib is newer")
SERVER = """
from mcpkit import MCPKit
app = MCPKit("shop")
app.add_tool(lambda: 1, name="one")
app.add_tool(lambda: 2, name="two")
if __name__ == "__main__":
    app.run(TRANSPORT)
"""


def made(folder: Path, code: str = "MCPKit('a')") -> MCPKit[Any]:
    """The app that a file in a folder makes."""
    names: dict[str, Any] = {"MCPKit": MCPKit, "Limits": Limits, "CallLimits": CallLimits}
    exec(compile(f"app = {code}", folder / "server.py", "exec"), names)
    app: MCPKit[Any] = names["app"]
    return app


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project with settings, and a folder in it."""
    content = (
        "[tool.mcpkit]\npage-size = 5\nask_timeout = 7\ncache-ttl = {tools = 60}\n"
        "[tool.mcpkit.check]\nignore = ['DESC']\n"
        "[tool.mcpkit.limits]\nmax-body = 500\ngrace = 2.5\nrequest-timeout = 'none'\n"
        "[tool.mcpkit.tasks]\nstore = 'file.db'\nttl = 90\n"
        "[tool.mcpkit.http]\npath = '/file'\nport = 0\nallowed-hosts = ['a.example']\n"
    )
    (tmp_path / "pyproject.toml").write_text(content)
    (tmp_path / "src").mkdir()
    return tmp_path


# --- the table ------------------------------------------------------------------------------------


def test_every_option_is_a_setting_unless_its_values_are_objects() -> None:
    options = set(inspect.signature(MCPKit).parameters)
    paths = {each.partition(".")[0] for each in SETTINGS}
    assert options - paths == {
        *("name", "icons", "lifespan", "auth"),  # required, or objects
        *("max_threads", "max_in_flight"),  # short forms of limits
    }
    assert len({each.variable for each in SETTINGS.values()}) == len(SETTINGS)
    assert not {each.variable for each in SETTINGS.values()} & (OTHERS - {"MCPKIT_SECRET"})


def test_no_variable_that_is_read_elsewhere_is_unknown() -> None:
    sources = (each.read_text("utf-8") for each in (REPOSITORY / "mcpkit").rglob("*.py"))
    read = set(re.findall(r'"(MCPKIT_\w*[A-Z])"', "\n".join(sources)))
    known = {*OTHERS, *(each.variable for each in SETTINGS.values())}
    templates = {"MCPKIT_REQUIREMENT", "MCPKIT_AUTH_REQUIREMENT"}  # in files of `mcpkit new`
    assert read - known == templates


def test_the_page_has_every_setting() -> None:
    """``python -m tests.docs.settings`` writes it."""
    assert PAGE.read_text("utf-8").partition(START)[2] == written().partition(START)[2]


# --- which value counts ---------------------------------------------------------------------------


@needs_tomllib
def test_settings_of_the_file_replace_defaults(folder: Path) -> None:
    for app in (made(folder), made(folder / "src")):
        settings = app.server.settings
        assert (settings.page_size, settings.ask_timeout) == (5, 7)
        assert settings.cache_ttls["tools"] == 60
        limits = Limits(max_body=500, grace=2.5, request_timeout=None)
        assert settings.limits == limits
        assert (settings.tasks.store, settings.tasks.ttl) == ("file.db", 90)
        endpoint = app.asgi().settings
        assert (endpoint.path, endpoint.allowed_hosts, endpoint.limits) == (
            "/file",
            ["a.example"],
            limits,
        )


@needs_tomllib
def test_a_file_may_begin_with_a_byte_order_mark(folder: Path) -> None:
    file = folder / "pyproject.toml"
    file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes())
    assert made(folder).server.settings.page_size == 5


@needs_tomllib
def test_the_nearest_file_with_settings_counts(folder: Path) -> None:
    (folder / "src" / "pyproject.toml").write_text("[project]\nname = 'tool.mcpkit'\n")
    assert made(folder / "src").server.settings.page_size == 5
    (folder / "src" / "pyproject.toml").write_text("[tool.mcpkit]\ntasks = 'near.db'\n")
    settings = made(folder / "src").server.settings
    assert (settings.page_size, settings.tasks.store) == (None, "near.db")


@needs_tomllib
def test_variables_replace_the_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "PAGE_SIZE": "none",
        "ASK_TIMEOUT": "",  # as if it were not set
        "CACHE_TTL": "30",
        "OFFERS": "tools, prompts",
        "SCOPE_HIERARCHY": '{"files": ["files:read"]}',
        "CLIENT_LOG_LEVEL": "error",
        "LIMITS_MAX_BODY": "600",
        "TASKS": "variable.db",
        "HTTP_HEALTH": "true",
        "HTTP_ALLOWED_HOSTS": "b.example c.example",
    }.items():
        monkeypatch.setenv(f"MCPKIT_{name}", value)
    app = made(folder)
    settings = app.server.settings
    assert (settings.page_size, settings.ask_timeout, settings.log_level) == (None, 7, "error")
    assert settings.cache_ttls["prompts"] == 30
    assert bool(settings.scope_hierarchy)
    assert (settings.limits.max_body, settings.limits.grace) == (600, 2.5)
    assert (settings.tasks.store, settings.tasks.ttl) == ("variable.db", 90)
    endpoint = app.asgi().settings
    assert (endpoint.health, endpoint.allowed_hosts) == (True, ["b.example", "c.example"])


def test_an_argument_counts_also_if_it_is_the_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "PAGE_SIZE": "5",
        "ASK_TIMEOUT": "7",
        "LIMITS_MAX_BODY": "500",
        "LIMITS_GRACE": "2",
        "LIMITS_MAX_THREADS": "3",
        "TASKS": "variable.db",
        "TASKS_TTL": "90",
        "HTTP_PATH": "/variable",
        "HTTP_RETRY": "9",
    }.items():
        monkeypatch.setenv(f"MCPKIT_{name}", value)
    given = (
        f"page_size=None, ask_timeout=600, limits=Limits(max_body={Limits().max_body}), "
        "max_threads=40, tasks={'store': 'own.db'}, http={'path': '/mcp'}"
    )
    app = made(tmp_path, f"MCPKit('a', {given})")
    settings = app.server.settings
    assert (settings.page_size, settings.ask_timeout) == (None, 600)
    assert settings.limits == Limits(grace=2)
    assert (settings.tasks.store, settings.tasks.ttl) == ("own.db", 90)
    assert (app.asgi().settings.path, app.asgi().settings.retry) == ("/mcp", 9)
    assert app.asgi(retry=1).settings.retry == 1
    assert made(tmp_path, "MCPKit('a', tasks='own.db')").server.settings.tasks.store == "own.db"


def test_limits_of_calls_are_settings_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MCPKIT_CALL_LIMITS_TIMEOUT", "20")
    monkeypatch.setenv("MCPKIT_CALL_LIMITS_CONCURRENCY", "9")
    for given, timeout, concurrency in (
        ("", 20, 9),
        (", call_limits=CallLimits(timeout=None)", None, 9),
        (", call_limits=CallLimits(concurrency=3)", 20, 3),
    ):
        gate: Any = made(tmp_path, f"MCPKit('a'{given})").server.registry.gate
        assert (gate.limits.timeout, gate.limits.concurrency) == (timeout, concurrency)


# --- what is wrong --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("PAGE_SIZE", "many", 'expected an integer, got "many"'),
        ("PAGE_SIZE", "0", "page_size must be at least 1"),
        ("CACHE_SCOPE", "shared", "expected 'public' or 'private', got \"shared\""),
        ("CACHE_TTL", '{"tools": 5', "this is not valid JSON"),
        ("LIMITS_GRACE", "-1", "grace must be at least 0"),
        ("CALL_LIMITS_RATE", "often", "rate is a number of calls and a time"),
        ("TASKS", "ftp://files", "tasks cannot be stored at ftp://"),
        ("TASKS_TTL", "0", "ttl must be more than 0"),
        ("HTTP_CORS", "perhaps", "expected true or false"),
        ("HTTP_PATH", "mcp", "path must be like /mcp"),
        ("HTTP_PORT", "70000", "there is no port 70000"),
        ("HTTP_METRICS_TOKEN", "${METRICS_TOKEN}", "has a placeholder, such as ${NAME}"),
        ("TASKS", "{{ tasks }}", "has a placeholder"),
        ("PAGE_SIZE", " <size> ", "has a placeholder"),
    ],
)
def test_an_error_names_the_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str, message: str
) -> None:
    monkeypatch.setenv(f"MCPKIT_{name}", value)
    with pytest.raises(SettingError, match=f"^MCPKIT_{name}.*{re.escape(message)}"):
        made(tmp_path)


@needs_tomllib
@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("page-size = '5'", 'tool.mcpkit.page_size: expected an integer, got "5"'),
        ("page-sice = 5", "tool.mcpkit.page_sice is not a setting; did you mean 'page_size'?"),
        ("limits.grace = -1", "tool.mcpkit.limits.grace: grace must be at least 0"),
        ("http.prot = 1", "http.prot is not a setting; did you mean 'http.port'?"),
        ("http = 1", "tool.mcpkit.http is not a setting"),
        ("auth = 'jwt'", "tool.mcpkit.auth is not a setting"),
        ("secret = 'a-secret-of-16-bytes'", "secret: set MCPKIT_SECRET; no secret is in this file"),
        ("tasks = 'redis://me:word@host'", "tasks.store: set MCPKIT_TASKS; no secret"),
        ("tasks = 'postgresql://host/db?x=1&password=word'", "tasks.store: set MCPKIT_TASKS; no"),
        ("tasks.store = 'redis://host?PassWord=word'", "tasks.store: set MCPKIT_TASKS; no secret"),
        ("page-size = ", "is not valid TOML"),
    ],
)
def test_an_error_names_the_file_and_the_key(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "pyproject.toml"
    path.write_text(f"[tool.mcpkit]\n{line}\n")
    with pytest.raises(SettingError) as caught:
        made(tmp_path)
    assert str(caught.value).startswith(str(path))
    assert message in str(caught.value)
    assert "word" not in str(caught.value)


def test_a_variable_that_is_not_a_setting_is_warned_of_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("MCPKIT_PAGESIZE", "5")
    monkeypatch.setenv("MCPKIT_MAX_THREADS", "5")
    with caplog.at_level(logging.WARNING, "mcpkit"):
        made(tmp_path)
        made(tmp_path)
    assert [each.getMessage() for each in caplog.records] == [
        f"the variable {wrong} is not a setting of mcpkit; did you mean '{right}'?"
        for wrong, right in (
            ("MCPKIT_MAX_THREADS", "MCPKIT_LIMITS_MAX_THREADS"),
            ("MCPKIT_PAGESIZE", "MCPKIT_PAGE_SIZE"),
        )
    ]


def test_an_app_without_settings_does_not_load_the_table(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'shop'\n")
    (tmp_path / "server.py").write_text(
        "import sys, mcpkit\napp = mcpkit.MCPKit('a')\nprint(*sys.modules)"
    )
    env = environment(MCPKIT_SECRET="a-secret-of-16-bytes", MCPKIT_LOG_LEVEL="info")
    command = [sys.executable, "server.py"]
    options: dict[str, Any] = {"cwd": tmp_path, "timeout": TIMEOUT, "check": True, "env": env}
    loaded = subprocess.run(command, stdout=subprocess.PIPE, **options).stdout.decode().split()
    assert "mcpkit._settings" in loaded
    assert {"tomllib", "mcpkit.transports.http.options"} & {*loaded} == set()


# --- processes ------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", ["-m mcpkit run server.py", "server.py"])
def test_a_process_on_stdio_has_settings(tmp_path: Path, words: str) -> None:
    (tmp_path / "server.py").write_text(SERVER.replace("TRANSPORT", "'stdio'"))
    env = {"MCPKIT_PAGE_SIZE": "1", "MCPKIT_HTTP_PORT": "1"}
    with started([sys.executable, *words.split()], cwd=tmp_path, env=env) as server:
        result = server.ask(modern(1, "tools/list"))["result"]
        assert [each["name"] for each in result["tools"]] == ["one"]
        assert "nextCursor" in result
        assert server.stderr == ""


@needs_tomllib
@pytest.mark.parametrize(
    "words",
    ["-m mcpkit run server.py --http", "-m mcpkit run server.py --http --workers 2", "server.py"],
)
def test_a_process_over_http_has_settings(folder: Path, words: str) -> None:
    (folder / "src" / "server.py").write_text(SERVER.replace("TRANSPORT", "'http'"))
    env = {"MCPKIT_PAGE_SIZE": "1", "MCPKIT_TASKS": str(folder / "tasks.db")}
    command = [sys.executable, *words.split()]
    with serving(command=command, cwd=folder / "src", env=env) as server:
        assert server.url.endswith("/file")
        assert not server.url.endswith(":8000/file")
        answer = server.client().post(modern(1, "tools/list")).json
        assert [each["name"] for each in answer["result"]["tools"]] == ["one"]


@pytest.mark.parametrize("name", ["server.py", "marked.py"])
def test_run_says_in_one_line_which_setting_is_wrong(tmp_path: Path, name: str) -> None:
    (tmp_path / "server.py").write_text(SERVER)
    (tmp_path / "marked.py").write_text("import mcpkit\n@mcpkit.tool\ndef one() -> int: ...\n")
    ended = mcpkit("run", name, cwd=tmp_path, env={"MCPKIT_PAGE_SIZE": "x"})
    assert ended.refusal == 'MCPKIT_PAGE_SIZE: expected an integer, got "x"'


@needs_tomllib
def test_marked_functions_are_served_with_the_settings_beside_their_file(folder: Path) -> None:
    (folder / "src" / "marked.py").write_text(
        "import mcpkit\n@mcpkit.tool\ndef one() -> int: ...\n@mcpkit.tool\ndef two() -> int: ...\n"
    )
    shown = mcpkit("config", str(folder / "src" / "marked.py"), "--json").output
    assert {each["key"]: each["value"] for each in json.loads(shown)["settings"]}["page_size"] == 5


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://host:6379/0?password=hush&db=1", "redis://host:6379/0?password=***&db=1"),
        ("postgresql://me@h/d?sslpassword=hush#x", "postgresql://me@h/d?sslpassword=***#x"),
        ("postgresql://me:hush@h/d?Password=hush", "postgresql://me:***@h/d?Password=***"),
        (
            "https://h/mcp?api_key=hush&access_token=hush",
            "https://h/mcp?api_key=***&access_token=***",
        ),
        ("postgresql://h/d?passfile=/x&sslkey=/y", "postgresql://h/d?passfile=/x&sslkey=/y"),
        ("tasks?password=1.db", "tasks?password=1.db"),
        (5, 5),
    ],
)
def test_no_secret_of_a_url_is_shown(url: Any, shown: Any) -> None:
    """SEC-13: `mcpkit config` shows values so, and the file has none with a difference."""
    assert without_password(url) == shown


@needs_tomllib
def test_config_shows_every_setting_and_its_source(folder: Path) -> None:
    (folder / "server.py").write_text(
        "from mcpkit import MCPKit\nprint('on stdout')\n"
        "app = MCPKit('shop', page_size=None, http={'cors': True})\n"
    )
    secret = "a-secret-of-16-bytes"
    env = {
        "MCPKIT_SECRET": secret,
        "MCPKIT_LIMITS_GRACE": "4",
        "MCPKIT_TASKS": "redis://me:pass-word@host?password=pass-word",
    }
    shown = mcpkit("config", "server.py", cwd=folder, env=env)
    assert shown.stderr == "on stdout\n"
    rows = {line.split()[0]: line.split()[1:] for line in shown.stdout.splitlines()}
    assert list(rows) == list(SETTINGS)
    assert rows["page_size"] == ["none", "argument"]
    assert rows["ask_timeout"] == ["7.0", "pyproject.toml"]
    assert rows["state_lifetime"] == ["3600", "default"]
    assert rows["limits.grace"] == ["4.0", "MCPKIT_LIMITS_GRACE"]
    assert rows["http.cors"] == ["true", "argument"]
    assert rows["secret"] == ["set", "MCPKIT_SECRET"]
    assert rows["tasks.store"] == ["redis://me:***@host?password=***", "MCPKIT_TASKS"]
    as_json = mcpkit("config", "server.py", "--json", cwd=folder, env=env).stdout
    found = {each["key"]: each for each in json.loads(as_json)["settings"]}
    assert list(found) == list(SETTINGS)
    assert found["limits.max_body"] == {
        "key": "limits.max_body",
        "variable": "MCPKIT_LIMITS_MAX_BODY",
        "value": 500,
        "source": str(folder / "pyproject.toml"),
    }
    assert secret not in shown.stdout + as_json
    assert "pass-word" not in shown.stdout + as_json
