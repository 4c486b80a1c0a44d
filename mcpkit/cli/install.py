"""``mcpkit install``: add a server to a host's configuration."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import typer

from mcpkit.cli._connection import headers_from, variables_from
from mcpkit.cli._install.config import Change, Config, EditByHand, InFile, ThroughProgram
from mcpkit.cli._install.hosts import HOSTS, Entry, Host, Platform, Unsupported, merge_entry
from mcpkit.cli._install.launch import name_of, server_at
from mcpkit.cli._options import SERVER, argument, flag, option
from mcpkit.cli._schema_text import object_or_empty
from mcpkit.cli._terminal import FAILED, confirm, fail, is_interactive, note, print_difference, say

_PLACE: Final = "Where it goes"
_ENV: Final = "An environment variable for the server, KEY=VALUE; can be repeated"
_HEADER: Final = "A header for a URL, 'Name: value'; can be repeated"
_PLACEHOLDER: Final = re.compile(r"(?:[A-Za-z]+ +)?\$(?:\{[^{}]+\}|[A-Za-z_]\w*)")
"""Credentials whose secret part is the name of a variable."""


def install(
    target: str | None = argument("A file, a module, a command line, or a URL", "TARGET", None),
    client: str | None = option(f"The host: {', '.join(HOSTS)}", "--client", "-c", panel=_PLACE),
    project: bool = flag("For the project in this folder only", "--project", panel=_PLACE),
    config: Path | None = option("Another file than the host's usual one", panel=_PLACE),
    name: str | None = option("Its name in the host (default: the server's own)", panel=SERVER),
    env: list[str] | None = option(_ENV, metavar="KEY=VALUE", panel=SERVER),
    header: list[str] | None = option(_HEADER, metavar="HEADER", panel=SERVER),
    uv: bool = flag("Run it with uv, in the environment of its project", "--uv", panel=SERVER),
    dry_run: bool = flag("Show what would change, and change nothing", "--dry-run", "-n"),
    force: bool = flag("Replace a server of this name without asking", "--force", "-f"),
    remove: bool = flag("Remove the server; TARGET may be its name", "--remove"),
    list_: bool = flag("List the hosts, with their files on this machine", "--list"),
) -> None:
    """Add a server to a host's configuration.

    Everything else in the file is unchanged, including comments and indentation, and one backup
    is kept beside it. The server is written so that it starts from any folder: with this Python
    and absolute paths, or with --uv.

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
        return _list_hosts()
    if target is None:
        fail("name the server: a file, a module, a command line or a URL (see --help)")
    try:
        host = _host(client)
        file = _file(host, project=project, config=config)
        is_usual = not project and config is None
        if remove:
            if file is None:
                raise Unsupported("json is printed, not stored; --config FILE names a file")
            opened = _open(host, file, is_usual, project)
            return _remove(opened, target, name, dry_run=dry_run)
        variables, headers = variables_from(env), headers_from(header)
        for header_name, value in headers.items():
            # Credentials are rejected, unless the host fills them in from a variable.
            if header_name.lower() == "authorization" and _PLACEHOLDER.fullmatch(value) is None:
                raise Unsupported(
                    "the header Authorization is not written to files: hosts log in to a URL "
                    "themselves, or fill in a variable, as in 'Authorization: Bearer ${TOKEN}'"
                )
        server = server_at(target, env=variables, headers=headers, uv=uv)
        entry = host.entry(server)
        if name and host.accepted(name) != name:
            raise Unsupported(
                f"{host.title} does not accept the name {name!r}; "
                f"{host.accepted(name) or 'server'!r} would do"
            )
        name = name or host.accepted(name_of(target, server, uv=uv, force=force)) or "server"
        snippet = host.format.snippet([host.key, name], entry)
        if file is None:
            return say(snippet)
        try:
            opened = _open(host, file, is_usual, project)
        except ModuleNotFoundError as error:
            raise EditByHand(f"{error}; or add this to {file} yourself:", snippet) from None
        if _add(opened, name, entry, dry_run=dry_run, force=force):
            _warn_of_secrets({**variables, **headers}, file, shared=project)
    except EditByHand as error:
        note(str(error))
        say(error.what)
        raise typer.Exit(FAILED) from None
    except (Unsupported, ModuleNotFoundError) as error:
        fail(str(error))


def _list_hosts() -> None:
    for host in HOSTS.values():
        file = host.user_file(Platform.current())
        unknown = (
            "printed, for any other host" if host.name == "json" else f"not known on {sys.platform}"
        )
        where = file or f"({unknown})"
        exists = "exists" if file is not None and file.exists() else ""
        say(f"{host.name:15} {exists:6} {where}")


def _host(name: str | None) -> Host:
    known = ", ".join(HOSTS)
    if name is None:
        raise Unsupported(f"name the host: --client NAME, one of {known}")
    if name not in HOSTS:
        raise Unsupported(f"unknown host {name!r}; known: {known}, which fits most others")
    return HOSTS[name]


def _file(host: Host, *, project: bool, config: Path | None) -> Path | None:
    if config is not None:
        if project:
            raise Unsupported("--project and --config: choose one of them")
        return config.absolute()
    if project:
        if host.project_file is None:
            raise Unsupported(f"{host.title} has no per-project configuration; omit --project")
        return Path.cwd() / host.project_file
    file = host.user_file(Platform.current())
    if file is None and host.name != "json":
        raise Unsupported(
            f"the file of {host.title} on {sys.platform} is not known; name it with --config FILE"
        )
    return file


def _open(host: Host, file: Path, is_usual: bool, project: bool) -> Config:
    if host.program is not None and is_usual:
        return ThroughProgram(host, file)
    return InFile(host, file, private=not project)


def _add(config: Config, name: str, entry: Entry, *, dry_run: bool, force: bool) -> bool:
    """Add an entry to a configuration; return True if the configuration has changed."""
    host, file = config.host, config.file
    exists = name in config.entries
    entry = merge_entry(config.entries[name], entry) if exists else entry
    if exists and entry == config.entries[name]:
        say(f"{name} is already in {file}. Nothing to do.")
        return False
    change = config.change(name, entry)
    if exists and not force and not dry_run:
        if not is_interactive():
            raise Unsupported(
                f"{file} has another {name}; --force replaces it, --dry-run shows the difference, "
                "--name gives this one another name"
            )
        print_difference(change.difference, err=True)
        if not confirm(f"{file} has another {name}. Replace it?"):
            raise Unsupported("nothing was changed")
    if isinstance(config, ThroughProgram) and not dry_run:
        _warn_of_arguments(host, entry)
    _make(change, f"{'Replaced' if exists else 'Added'} {name} in {file}", dry_run)
    if host.name != "json" and not dry_run:
        say(f"Next: {host.after}")
    return not dry_run


def _remove(config: Config, target: str, name: str | None, *, dry_run: bool) -> None:
    accepted = config.host.accepted
    if name is None:
        name = target
        is_name = target == accepted(target) and not Path(target).exists()
        if target not in config.entries and not is_name:
            server = server_at(target, env={}, headers={}, uv=False)
            name = accepted(name_of(target, server, uv=False, force=True))
    if name not in config.entries:
        others = f"; it has {', '.join(config.entries)}" if config.entries else ""
        raise Unsupported(f"there is no {name} in {config.file}{others}")
    _make(config.change(name, None), f"Removed {name} from {config.file}", dry_run)


def _make(change: Change, done: str, dry_run: bool) -> None:
    if dry_run:
        print_difference(change.preview)
        note("nothing has been changed")
        return
    backup = change.make()
    say(done)
    if backup is not None:
        say(f"Backup: {backup}")


# --- secrets --------------------------------------------------------------------------------------


def _secrets(values: Mapping[str, object]) -> list[str]:
    return [name for name, value in values.items() if value and "$" not in str(value)]


def _warn_of_secrets(values: Mapping[str, str], file: Path, *, shared: bool) -> None:
    names = _secrets(values)
    if names:
        more = ", and is shared with the project" if shared else ""
        note(f"{file} has {' and '.join(names)} in clear text{more}")


def _warn_of_arguments(host: Host, entry: Entry) -> None:
    """Name the values that the host's program takes as an argument, visible to other users."""
    tables = object_or_empty(entry.get("env")), object_or_empty(entry.get("headers"))
    values = {name: value for table in tables for name, value in table.items()}
    names = [name for name in _secrets(values) if name != "PYTHONPATH"]
    if names:
        note(
            f"{host.program} takes {' and '.join(names)} on its command line only, where other "
            "users of this machine can see it while it runs"
        )
