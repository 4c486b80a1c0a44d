"""``mcpkit check``: find what hosts and models will stumble over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final

import typer

from mcpkit._utils.targets import is_remote, split
from mcpkit.cli._check.gather import gather
from mcpkit.cli._check.listing import Served
from mcpkit.cli._check.report import as_json, print_findings, print_rules, rules_as_json
from mcpkit.cli._check.rules import SEVERITIES, Finding, Rule
from mcpkit.cli._check.settings import SettingsError, Wishes, wishes_for
from mcpkit.cli._check.source import with_facts
from mcpkit.cli._check.table import check as apply
from mcpkit.cli._check.table import chosen, unknown
from mcpkit.cli._connection import is_python, run_async
from mcpkit.cli._options import Env, Headers, Reach, Revision, Timeout, Token
from mcpkit.cli._render import put_json
from mcpkit.cli._terminal import BAD_NEWS, fail, note, on_stdout

__all__ = ["check"]

_WHICH: Final = "Which rules"
_FAIL_ON: Final = (*SEVERITIES, "never")


def check(
    target: Annotated[
        str | None,
        typer.Argument(
            help="server.py, server.py:app, a module, a command line, or a URL", metavar="TARGET"
        ),
    ] = None,
    fail_on: Annotated[
        str | None,
        typer.Option(
            help=f"The mildest finding that makes the exit code 1: {', '.join(_FAIL_ON)} "
            f"(default: warning)",
            metavar="SEVERITY",
        ),
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="Write one JSON document")] = False,
    select: Annotated[
        list[str] | None,
        typer.Option(
            help="Only these rules, by id or beginning: DESC, SCHEMA003; several by commas",
            metavar="IDS",
            rich_help_panel=_WHICH,
        ),
    ] = None,
    ignore: Annotated[
        list[str] | None,
        typer.Option(help="Not these rules", metavar="IDS", rich_help_panel=_WHICH),
    ] = None,
    rules: Annotated[
        bool,
        typer.Option("--rules", help="Explain the rules, and leave", rich_help_panel=_WHICH),
    ] = False,
    revision: Revision = None,
    header: Headers = None,
    token: Token = None,
    env: Env = None,
    timeout: Timeout = None,
) -> None:
    """Find what hosts and models will stumble over.

    The server is started and asked as a host would. What it lists is held against what hosts,
    model APIs and the specification demand. Each finding has a rule; --rules says why it is one,
    what to do, and where to read about it.

    The exit code is 0 if nothing is worse than a note, 1 otherwise (--fail-on), and 2 if the
    server cannot be asked.

    To leave a rule out for one tool, write @app.tool(meta={"mcpkit/ignore": ["DESC004"]}). For a
    project, write ignore = ["DESC004"] under [tool.mcpkit.check] in pyproject.toml.

    \b
    Examples:
      mcpkit check server.py
      mcpkit check server.py --ignore HINT,DESC004 --fail-on error
      mcpkit check "npx -y @modelcontextprotocol/server-everything" --select SCHEMA
      MCPKIT_TOKEN=… mcpkit check https://example.com/mcp --json
    """
    wishes = _wishes(target)
    wanted = _ids(select) or wishes.select
    unwanted = (*_ids(ignore), *wishes.ignore)
    wrong = unknown((*wanted, *unwanted))
    if wrong:
        fail(f"no rule's id begins with {wrong[0]!r}; mcpkit check --rules lists them")
    threshold = fail_on or wishes.fail_on or "warning"
    if threshold not in _FAIL_ON:
        fail(f"--fail-on {threshold}: use one of {', '.join(_FAIL_ON)}")
    applied = chosen(wanted, unwanted)
    if rules:
        _explain(applied, json_)
        return
    if target is None:
        fail("say what to check, as in mcpkit check server.py")
    if wishes.unread is not None:
        note(f"{wishes.unread.name} is not read for settings; that needs Python 3.11")
    reach = Reach(target, revision, header, env, timeout, token)
    served = run_async(lambda: _asked(reach))
    if is_remote(target) and reach.is_anonymous:
        served = replace(served, open_at=target)
    if is_python(target):
        served = with_facts(served, target)
    findings, silenced = apply(served, applied)
    if json_:
        put_json(as_json(target, served, findings, silenced))
    else:
        print_findings(on_stdout(), served, findings, silenced)
    if _is_bad(findings, threshold):
        raise typer.Exit(BAD_NEWS)


async def _asked(reach: Reach) -> Served:
    async with reach.connected() as client:
        return await gather(client)


def _ids(given: Sequence[str] | None) -> tuple[str, ...]:
    """Return the ids in options that may have several each, in any letter case."""
    parts = [each.strip().upper() for option in given or () for each in option.split(",")]
    return tuple(each for each in parts if each)


def _wishes(target: str | None) -> Wishes:
    """Return the settings of the project of a target's file, or else of the working directory."""
    folder = Path.cwd()
    if target is not None:
        place, _ = split(target)
        if place.endswith(".py") and Path(place).is_file():
            folder = Path(place).parent
    try:
        return wishes_for(folder)
    except SettingsError as error:
        fail(str(error))


def _is_bad(findings: Sequence[Finding], threshold: str) -> bool:
    if threshold == "never":
        return False
    bad = SEVERITIES[: _FAIL_ON.index(threshold) + 1]
    return any(each.rule.severity in bad for each in findings)


def _explain(rules: Sequence[Rule], json_: bool) -> None:
    if json_:
        put_json(rules_as_json(rules))
    else:
        print_rules(on_stdout(), rules)
