"""``mcpkit check``: find what hosts and models will stumble over."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import typer
from pydantic import BaseModel, Field, ValidationError

from mcpkit._settings import SettingError, find_file
from mcpkit._utils.targets import TargetError, is_remote, split
from mcpkit.cli import _options as options
from mcpkit.cli._check import apply, choose, unknown
from mcpkit.cli._check.listing import Listing, fetch_listing
from mcpkit.cli._check.report import as_json, print_findings, print_rules, rules_as_json
from mcpkit.cli._check.rules import FAIL_ON, SEVERITIES
from mcpkit.cli._check.source import add_source
from mcpkit.cli._connection import ConnectionOptions, is_python, run_async
from mcpkit.cli._options import OPTIONAL_TARGET, SERVER, flag, option
from mcpkit.cli._render import put_json
from mcpkit.cli._target import load_app
from mcpkit.cli._terminal import BAD_NEWS, console, fail

_FAILING: Final = (
    f"The mildest finding that makes the exit code 1: {', '.join(FAIL_ON)} (default: warning)"
)
_WHICH: Final = "Which rules"
_SELECT: Final = "Only these rules, by id or prefix: DESC, SCHEMA003; several by commas"

_WORKERS: Final = "The server runs in several processes, which replay handlers that ask"


def check(
    target: str | None = OPTIONAL_TARGET,
    fail_on: str | None = option(_FAILING, metavar="SEVERITY"),
    json_: bool = flag("Write one JSON document", "--json"),
    select: list[str] | None = option(_SELECT, metavar="IDS", panel=_WHICH),
    ignore: list[str] | None = option("Not these rules", metavar="IDS", panel=_WHICH),
    rules: bool = flag("Explain the rules, and exit", "--rules", panel=_WHICH),
    workers: bool = flag(_WORKERS, "--workers", panel=SERVER),
    revision: str | None = options.REVISION,
    header: list[str] | None = options.HEADERS,
    token: str | None = options.TOKEN,
    env: list[str] | None = options.ENV,
    timeout: float | None = options.TIMEOUT,
) -> None:
    """Find problems for hosts and models.

    The server is started and queried as by a host. Its lists are compared with the requirements of
    hosts, model APIs and the specification. Each finding has a rule; --rules gives its reason, its
    fix and its source.

    The exit code is 0 if nothing is worse than a note, 1 otherwise (--fail-on), and 2 if the
    server cannot be queried.

    To silence a rule for one tool, write @app.tool(meta={"mcpkit/ignore": ["DESC003"]}). For a
    project, write ignore = ["DESC003"] under [tool.mcpkit.check] in pyproject.toml.

    \b
    Examples:
      mcpkit check server.py
      mcpkit check server.py --ignore HINT,DESC003 --fail-on error
      mcpkit check "npx -y @modelcontextprotocol/server-everything" --select SCHEMA
      MCPKIT_TOKEN=… mcpkit check https://example.com/mcp --json
    """
    settings = _settings(target)
    selected = _ids(select) or settings.select
    ignored = (*_ids(ignore), *settings.ignore)
    wrong = unknown((*selected, *ignored))
    if wrong:
        fail(f"no rule's id begins with {wrong[0]!r}; mcpkit check --rules lists them")
    threshold = fail_on or settings.fail_on or "warning"
    if threshold not in FAIL_ON:
        fail(f"--fail-on {threshold}: use one of {', '.join(FAIL_ON)}")
    chosen = choose(selected, ignored)
    if rules:
        if json_:
            put_json(rules_as_json(chosen))
        else:
            print_rules(console(), chosen)
        return
    if target is None:
        fail("name the server to check, as in mcpkit check server.py")
    reach = ConnectionOptions(target, revision, header, env, timeout, token)

    async def query() -> Listing:
        async with reach.connected() as client:
            return await fetch_listing(client)

    listing = run_async(query)
    if is_remote(target) and reach.is_anonymous:
        listing = replace(listing, open_at=target)
    if is_python(target):
        # If the import fails, only the source is unknown: the server itself has answered.
        with (
            contextlib.suppress(TargetError),
            contextlib.redirect_stdout(sys.stderr),
        ):
            listing = add_source(listing, load_app(target), workers=workers)
    findings, silenced = apply(listing, chosen)
    if json_:
        put_json(as_json(target, listing, findings, silenced))
    else:
        print_findings(console(), listing, findings, silenced)
    failing = () if threshold == "never" else SEVERITIES[: FAIL_ON.index(threshold) + 1]
    if any(each.rule.severity in failing for each in findings):
        raise typer.Exit(BAD_NEWS)


def _ids(given: Sequence[str] | None) -> tuple[str, ...]:
    """Return the ids in options, each of which may have several by commas."""
    parts = [each.strip().upper() for option in given or () for each in option.split(",")]
    return tuple(each for each in parts if each)


class CheckSettings(BaseModel, extra="forbid"):
    """``[tool.mcpkit.check]`` in a pyproject.toml, as on the command line."""

    select: list[str] = []
    ignore: list[str] = []
    fail_on: str | None = Field(default=None, alias="fail-on")


def _settings(target: str | None) -> CheckSettings:
    """Return the settings of the target's project, or of the working directory's."""
    folder = Path.cwd()
    if target is not None:
        source, _ = split(target)
        if source.endswith(".py") and Path(source).is_file():
            folder = Path(source).parent.resolve()
    try:
        file = find_file(folder)
    except SettingError as error:
        fail(str(error))
    if file is None:
        return CheckSettings()
    try:
        return CheckSettings.model_validate(file.content.get("check") or {})
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, ("tool.mcpkit.check", *first["loc"])))
        fail(f"{file.path}: {where}: {first['msg']}")
