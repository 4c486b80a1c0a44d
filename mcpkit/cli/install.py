"""``mcpkit install``: put a server into a host's configuration."""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import typer

from mcpkit._utils.json import is_object
from mcpkit.cli._connection import headers_from, variables_from
from mcpkit.cli._install import HOSTS
from mcpkit.cli._install.config import ByHand, Change, Config, InFile, ThroughProgram
from mcpkit.cli._install.hosts import Entry, Host, Machine, Unfit, merged
from mcpkit.cli._install.launch import named_by, server_at
from mcpkit.cli._terminal import FAILED, confirm, fail, is_interactive, note, say

__all__ = ["install"]

_SERVER: Final = "The server"
_PLACE: Final = "Where it goes"
_FILLED_IN: Final = re.compile(r"(?:[A-Za-z]+ +)?\$(?:\{[^{}]+\}|[A-Za-z_]\w*)")
"""Credentials whose secret part is the name of a variable."""


def install(
    target: Annotated[
        str | None,
        typer.Argument(
            help="A file, a module, a command line, or a URL", metavar="TARGET", show_default=False
        ),
    ] = None,
    client: Annotated[
        str | None,
        typer.Option(
            "--client", "-c", help=f"The host: {', '.join(HOSTS)}", rich_help_panel=_PLACE
        ),
    ] = None,
    project: Annotated[
        bool,
        typer.Option(
            "--project", help="For the project in this folder only", rich_help_panel=_PLACE
        ),
    ] = False,
    config: Annotated[
        Path | None,
        typer.Option(help="Another file than the host's usual one", rich_help_panel=_PLACE),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(
            help="What the host shall call it (default: as it calls itself)",
            rich_help_panel=_SERVER,
        ),
    ] = None,
    env: Annotated[
        list[str] | None,
        typer.Option(
            help="A variable for it, KEY=VALUE; several times for several",
            metavar="KEY=VALUE",
            rich_help_panel=_SERVER,
        ),
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option(
            help="A header for a URL, 'Name: value'; several times for several",
            metavar="HEADER",
            rich_help_panel=_SERVER,
        ),
    ] = None,
    uv: Annotated[
        bool,
        typer.Option(
            "--uv", help="Let uv run it, with what its project needs", rich_help_panel=_SERVER
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", "-n", help="Show what would change, and change nothing")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", "-f", help="Replace another server of this name, unasked")
    ] = False,
    remove: Annotated[
        bool, typer.Option("--remove", help="Take the server out; TARGET may be its name")
    ] = False,
    list_: Annotated[
        bool, typer.Option("--list", help="List the hosts, with their files on this machine")
    ] = False,
) -> None:
    """Put a server into a host's configuration.

    What is there stays there, with its comments and its indentation, and a copy of the file is
    kept beside it. The server is written so that it starts from any folder: with this Python and
    absolute paths, or with --uv.

    \b
    Examples:
      mcpkit install server.py --client claude-desktop
      mcpkit install server.py --client vscode --project --env API_KEY=secret
      mcpkit install server.py --client cursor --uv --dry-run
      mcpkit install https://example.com/mcp --client codex --name example
      mcpkit install "npx -y some-server" --client zed --name some
      mcpkit install weather --client cursor --remove
      mcpkit install --list
    """
    if list_:
        _list_hosts()
        return
    if target is None:
        fail("which server? Give a file, a module, a command line or a URL (see --help)")
    try:
        host = _host(client)
        place = _place(host, project=project, config=config)
        if remove:
            _remove(place, target, name, dry_run=dry_run)
            return
        variables, headers = variables_from(env, "KEY=VALUE"), headers_from(header)
        _check_no_token(headers)
        server = server_at(target, env=variables, headers=headers, uv=uv)
        entry = host.entry(server)
        called = _checked(host, name) if name else ""
        called = called or host.accepted(named_by(target, server, uv=uv, anyway=force)) or "server"
        if place.file is None:
            say(host.format.snippet([host.key, called], entry))
            return
        if _add(place, called, entry, dry_run=dry_run, force=force):
            _warn_of_secrets({**variables, **headers}, place)
    except ByHand as error:
        note(str(error))
        say(error.what)
        raise typer.Exit(FAILED) from None
    except (Unfit, ModuleNotFoundError) as error:
        fail(str(error))


# --- where ----------------------------------------------------------------------------------------


class _Place(NamedTuple):
    """The place of an entry.

    Args:
        host: The host.
        file: The host's file; None where the entry is printed instead.
        own: True if the host's own program writes the file.
        shared: True if the file is part of a project.
    """

    host: Host
    file: Path | None
    own: bool = False
    shared: bool = False


def _host(name: str | None) -> Host:
    known = ", ".join(HOSTS)
    if name is None:
        raise Unfit(f"for which host? Add --client NAME, one of {known}")
    if name not in HOSTS:
        near = difflib.get_close_matches(name, HOSTS, n=1)
        raise Unfit(
            f"unknown host {name!r}; "
            + (f"did you mean {near[0]}?" if near else f"known: {known}, which fits most others")
        )
    return HOSTS[name]


def _place(host: Host, *, project: bool, config: Path | None) -> _Place:
    if config is not None:
        if project:
            raise Unfit("--project and --config: choose one of them")
        return _Place(host, config.absolute())
    if project:
        if host.project is None:
            raise Unfit(f"{host.title} has no configuration for a project; leave --project away")
        return _Place(host, Path.cwd() / host.project, shared=True)
    file = host.user(Machine.here())
    if file is None and host.name != "json":
        raise Unfit(
            f"it is not known where {host.title} has its file on {sys.platform}; "
            "say it with --config FILE"
        )
    return _Place(host, file, own=host.command is not None)


def _list_hosts() -> None:
    here = Machine.here()
    rows: list[tuple[str, str, str]] = []
    for host in HOSTS.values():
        file = host.user(here)
        if file is not None:
            rows.append((host.name, "there" if file.exists() else "", str(file)))
        elif host.name == "json":
            rows.append((host.name, "", "(printed, for any other host)"))
        else:
            rows.append((host.name, "", f"(not known on {sys.platform})"))
    for name, there, where in rows:
        say(f"{name:15} {there:6} {where}")


# --- what -----------------------------------------------------------------------------------------


def _checked(host: Host, name: str) -> str:
    accepted = host.accepted(name)
    if accepted != name:
        raise Unfit(
            f"{host.title} does not take the name {name!r}; {accepted or 'server'!r} it would"
        )
    return name


def _check_no_token(headers: Mapping[str, str]) -> None:
    """Refuse what says to a server who asks, unless the host fills it in."""
    for name, value in headers.items():
        if name.lower() == "authorization" and _FILLED_IN.fullmatch(value) is None:
            raise Unfit(
                "the header Authorization is not written into files: hosts log in to a URL by "
                "themselves, or fill in a variable, as in 'Authorization: Bearer ${TOKEN}'"
            )


def _warn_of_secrets(values: dict[str, str], place: _Place) -> None:
    written = [name for name, value in values.items() if _is_secret(value)]
    if written:
        more = ", and is shared with the project" if place.shared else ""
        note(f"{_file(place)} has {' and '.join(written)} in clear text{more}")


def _warn_of_onlookers(host: Host, entry: Entry) -> None:
    """Say which values the host's program is given, for want of another way, as an argument."""
    tables = [each for each in (entry.get("env"), entry.get("headers")) if is_object(each)]
    values = {name: str(value) for table in tables for name, value in table.items()}
    shown = [name for name, value in values.items() if _is_secret(value) and name != "PYTHONPATH"]
    if shown:
        note(
            f"{host.command} takes {' and '.join(shown)} on its command line only, where other "
            "users of this machine can see it while it runs"
        )


def _is_secret(value: str) -> bool:
    """Return True if a value may be one, rather than the name of a variable to be filled in."""
    return bool(value) and "$" not in value


# --- doing it -------------------------------------------------------------------------------------


def _opened(place: _Place) -> Config:
    if place.own:
        return ThroughProgram(place.host, _file(place))
    return InFile(place.host, _file(place), private=not place.shared)


def _file(place: _Place) -> Path:
    if place.file is None:
        raise Unfit("json is printed, not kept; --config FILE says where a file is")
    return place.file


def _add(place: _Place, name: str, entry: Entry, *, dry_run: bool, force: bool) -> bool:
    """Add an entry to a configuration; return True if that has changed it."""
    host, file = place.host, _file(place)
    try:
        config = _opened(place)
    except ModuleNotFoundError as error:
        snippet = host.format.snippet([host.key, name], entry)
        raise ByHand(f"{error}; or add this to {file} yourself:", snippet) from None
    there = name in config.entries
    wanted = merged(config.entries[name], entry) if there else entry
    if there and wanted == config.entries[name]:
        say(f"{name} is in {file} already, just so. Nothing to do.")
        return False
    change = config.change(name, wanted)
    if dry_run:
        _preview(change)
        return False
    if there and not force:
        _ask(name, file, change.difference)
    if place.own:
        _warn_of_onlookers(host, wanted)
    backup = change.make()
    _report(f"{'Replaced' if there else 'Added'} {name} in {file}", backup)
    if host.name != "json":
        say(f"Next: {host.after}")
    return True


def _remove(place: _Place, target: str, name: str | None, *, dry_run: bool) -> None:
    file, config = _file(place), _opened(place)
    name = name or _name_in(config.entries, place.host, target)
    if name not in config.entries:
        others = f"; it has {', '.join(config.entries)}" if config.entries else ""
        raise Unfit(f"there is no {name} in {file}{others}")
    change = config.change(name, None)
    if dry_run:
        _preview(change)
        return
    _report(f"Removed {name} from {file}", change.make())


def _name_in(entries: Entry, host: Host, target: str) -> str:
    """Return the name of the entry that a target stands for."""
    if target in entries or (target == host.accepted(target) and not Path(target).exists()):
        return target
    server = server_at(target, env={}, headers={}, uv=False)
    return host.accepted(named_by(target, server, uv=False, anyway=True))


# --- speaking -------------------------------------------------------------------------------------


def _report(done: str, backup: Path | None) -> None:
    say(done)
    if backup is not None:
        say(f"The file as it was: {backup}")


def _preview(change: Change) -> None:
    _show(change.preview)
    note("nothing has been changed")


def _ask(name: str, file: Path, difference: list[str]) -> None:
    if not is_interactive():
        raise Unfit(
            f"{file} has another {name}; --force replaces it, --dry-run shows the difference, "
            "--name gives this one another name"
        )
    _show(difference, err=True)
    if not confirm(f"{file} has another {name}. Replace it?"):
        raise Unfit("nothing was changed")


def _show(lines: list[str], *, err: bool = False) -> None:
    colours = {"+": typer.colors.GREEN, "-": typer.colors.RED, "@": typer.colors.CYAN}
    for line in lines:
        colour = None if line.startswith(("+++ ", "--- ")) else colours.get(line[:1])
        say(line, err=err, colour=colour)
