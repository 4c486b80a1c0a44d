"""The way from a target to a server that any host can start, from any folder."""

from __future__ import annotations

import importlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, urlsplit

import mcpkit
from mcpkit._utils.targets import is_url, run_command, split
from mcpkit.cli._connection import command_for, is_python
from mcpkit.cli._install.hosts import Launch, Remote, Unfit

__all__ = ["named_by", "server_at"]

_IMPORT_S: Final = 30.0
"""Seconds that a server's file may take to be imported for its name."""

_PASSING: Final = re.compile(r"(archive|builds|environments)-v\d+")
"""A folder of uv's cache, in which it makes environments for one run."""

_RUNNERS: Final = {
    *("python", "python3", "py", "uv", "uvx", "pipx"),
    *("node", "npx", "npm", "pnpm", "bun", "bunx", "deno", "docker", "podman", "go", "sh", "bash"),
}
"""Programs that say nothing about the server that they run."""


def server_at(
    target: str, *, env: dict[str, str], headers: dict[str, str], uv: bool
) -> Launch | Remote:
    """Return what a host needs to start a server, or to reach it.

    Args:
        target: A file, a module, a command line, or a URL.
        env: Variables for a server that is started.
        headers: Sent to a URL.
        uv: True if uv shall provide the interpreter and the packages that the server imports.

    Raises:
        Unfit: The arguments do not go together, or the server would not start elsewhere.
        typer.Exit: There is no such target; a message has said so.
    """
    if is_url(target):
        if env or uv:
            raise Unfit(f"{'--env' if env else '--uv'} is for servers that the host starts")
        _check_url(target)
        return Remote(url=target, headers=headers)
    if headers:
        raise Unfit("--header is for a URL")
    if not is_python(target):
        if uv:
            raise Unfit("--uv is for Python files and modules")
        program, *args = command_for(target)
        return Launch(command=_program(program), args=[*map(_wherever, args)], env=env)
    command_for(target)
    place, name = split(target)
    if place.endswith(".py"):
        place = os.path.abspath(place)
    served = f"{place}:{name}" if name else place
    if uv:
        return Launch(command=_uv(), args=[*_uv_args(place), "mcpkit", "run", served], env=env)
    if any(map(_PASSING.fullmatch, Path(sys.executable).parts)):
        raise Unfit(
            "this Python is in uv's cache and will not last: add --uv, "
            "or run mcpkit from an environment that stays"
        )
    folders = _folders_needed(["mcpkit"] if place.endswith(".py") else ["mcpkit", place])
    if folders:
        given = [env["PYTHONPATH"]] if "PYTHONPATH" in env else []
        env = {**env, "PYTHONPATH": os.pathsep.join([*given, *folders])}
    program, *args = run_command(served)
    return Launch(command=program, args=args, env=env)


def _check_url(url: str) -> None:
    """Refuse a URL that hosts would misread, or in which they would show a password."""
    if not url.isprintable() or " " in url:
        raise Unfit("the URL has a character that belongs in none")
    try:
        parts = urlsplit(url)
        named = bool(parts.hostname) and parts.port != 0
    except ValueError as error:
        raise Unfit(f"{url} is no URL: {error}") from None
    if not named:
        raise Unfit(f"{url} names no host")
    if "@" in parts.netloc:
        raise Unfit(
            "the URL has a name or password in it, which hosts show; they fill in a variable, as "
            "in --header 'Authorization: Basic ${LOGIN}'"
        )
    if any(name == "access_token" for name, _ in parse_qsl(parts.query, keep_blank_values=True)):
        # Where it stands in logs, too (AUTH-10).
        raise Unfit("the URL has a token in it, which hosts show; they log in by themselves")


def _program(name: str) -> str:
    """Return the absolute path of a program, because hosts have another PATH."""
    return os.path.abspath(shutil.which(name) or name)


def _wherever(argument: str) -> str:
    """Return an argument that means the same in any folder, if it is the path of a file."""
    # A plain word is more likely one of the program's own than a file that is called so.
    is_path = Path(argument).suffix or os.path.basename(argument) != argument
    return os.path.abspath(argument) if is_path and Path(argument).is_file() else argument


# --- uv -------------------------------------------------------------------------------------------


def _uv() -> str:
    found = shutil.which("uv")
    if found is None:
        raise Unfit("--uv: there is no uv on PATH; see https://docs.astral.sh/uv")
    return os.path.abspath(found)


def _uv_args(place: str) -> list[str]:
    """Return the arguments up to the command that uv runs.

    https://docs.astral.sh/uv/reference/cli/#uv-run
    """
    if not place.endswith(".py"):
        return ["run", "--directory", os.getcwd(), "--with", "mcpkit"]
    file = Path(place)
    text = file.read_text(encoding="utf-8", errors="replace")
    if re.search(r"^# /// script\s*$", text, re.MULTILINE):
        return ["run", "--no-project", "--with-requirements", place, "--with", "mcpkit"]
    for folder in file.parents:
        if (folder / "pyproject.toml").is_file():
            return ["run", "--project", str(folder), "--with", "mcpkit"]
    return ["run", "--no-project", "--with", "mcpkit"]


# --- what the interpreter finds -------------------------------------------------------------------

_FIND: Final = (
    "import sys\nfrom importlib.util import find_spec\n"
    "print(*[name for name in sys.argv[1:] if find_spec(name) is None])"
)


def _folders_needed(modules: Sequence[str]) -> list[str]:
    """Return folders of modules that this interpreter finds here, and would not elsewhere."""
    names = [each.partition(".")[0] for each in modules]
    with tempfile.TemporaryDirectory() as elsewhere:
        found = subprocess.run(
            [sys.executable, "-c", _FIND, *names],
            cwd=elsewhere,
            env={key: value for key, value in os.environ.items() if not key.startswith("PYTHON")},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=_IMPORT_S,
        )
    if found.returncode:
        return []
    return list(dict.fromkeys(map(_folder_of, found.stdout.split())))


def _folder_of(name: str) -> str:
    if name == "mcpkit":
        return str(Path(mcpkit.__file__).resolve().parents[1])
    importlib.invalidate_caches()
    spec = find_spec(name)
    inside = list(spec.submodule_search_locations or []) if spec else []
    file = inside[0] if inside else (spec.origin if spec else None)
    return str(Path(file or ".").resolve().parent)


# --- names ----------------------------------------------------------------------------------------

_ASK: Final = """
import json, os, sys
told = os.dup(1)
os.dup2(2, 1)
from mcpkit.cli._target import TargetError, load_app
try:
    answer = {"name": load_app(sys.argv[1]).name}
except TargetError as error:
    answer = {"error": str(error)}
os.write(told, json.dumps(answer).encode())
os._exit(0)
"""


def named_by(target: str, server: Launch | Remote, *, uv: bool, anyway: bool) -> str:
    """Return a server's name, as far as it can be found without speaking to the server.

    Args:
        target: As on the command line.
        server: The server at this target.
        uv: True if it runs with packages that uv provides, so that it cannot be imported here.
        anyway: True if a file that cannot be imported is named after itself.

    Raises:
        Unfit: The server cannot be imported, or nothing says its name.
    """
    if isinstance(server, Remote):
        parts = urlsplit(server.url)
        return "-".join(filter(None, [parts.hostname, str(parts.port or "")]))
    place = split(target)[0]
    if not is_python(target):
        stem = Path(server.command).stem
        if stem.lower() in _RUNNERS or re.fullmatch(r"python[\d.]+", stem):
            raise Unfit(f"what is the server called? {stem} does not say so; add --name NAME")
        return stem
    stem = Path(place).stem if place.endswith(".py") else place.rpartition(".")[2]
    answer: dict[str, str] = {} if uv else _asked(target, server.env)
    if "error" in answer and not anyway:
        raise Unfit(f"{answer['error']} (--force installs it all the same)")
    return answer.get("name") or stem


def _asked(target: str, env: dict[str, str]) -> dict[str, str]:
    """Import a target; return its ``name`` or the ``error``, or nothing if that takes too long.

    In a process of its own, because an import may do anything.
    """
    try:
        found = subprocess.run(
            [sys.executable, "-c", _ASK, target],
            env={**os.environ, **env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_IMPORT_S,
        )
        answer: dict[str, str] = json.loads(found.stdout)
    except (subprocess.TimeoutExpired, ValueError):
        return {}
    return answer
