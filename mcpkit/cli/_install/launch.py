"""From a target on the command line to a server that a host can start from any folder."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from mcpkit._utils.targets import is_url, run_command, split
from mcpkit.cli._connection import command_for, is_python
from mcpkit.cli._install.hosts import ServerCommand, ServerUrl, Unsupported

_IMPORT_S: Final = 30.0
"""Seconds that importing a server for its name may take."""

_TEMPORARY: Final = re.compile(r"(archive|builds|environments)-v\d+")
"""A folder of uv's cache with temporary environments."""

_RUNNERS: Final = {
    *("python", "python3", "py", "uv", "uvx", "pipx"),
    *("node", "npx", "npm", "pnpm", "bun", "bunx", "deno", "docker", "podman", "go", "sh", "bash"),
}
"""Programs whose name says nothing about the server that they run."""


def server_at(
    target: str, *, env: dict[str, str], headers: dict[str, str], uv: bool
) -> ServerCommand | ServerUrl:
    """Return the command or URL of a target, usable from any folder."""
    if is_url(target):
        if env or uv:
            raise Unsupported(f"{'--env' if env else '--uv'} is for servers that the host starts")
        _check_url(target)
        return ServerUrl(url=target, headers=headers)
    if headers:
        raise Unsupported("--header is for a URL")
    program, *args = command_for(target)
    if not is_python(target):
        if uv:
            raise Unsupported("--uv is for Python files and modules")
        # Absolute, because hosts have another PATH.
        program = os.path.abspath(shutil.which(program) or program)
        return ServerCommand(command=program, args=[*map(_absolute, args)], env=env)
    source, name = split(target)
    if source.endswith(".py"):
        source = os.path.abspath(source)
    served = f"{source}:{name}" if name else source
    if uv:
        found = shutil.which("uv")
        if found is None:
            raise Unsupported("--uv: there is no uv on PATH; see https://docs.astral.sh/uv")
        args = [*_uv_args(source), "mcpkit", "run", served]
        return ServerCommand(command=os.path.abspath(found), args=args, env=env)
    if any(map(_TEMPORARY.fullmatch, Path(sys.executable).parts)):
        raise Unsupported(
            "this Python is temporary, in uv's cache: add --uv, or run mcpkit from a permanent "
            "environment"
        )
    folders = _folders_needed("mcpkit", *(() if source.endswith(".py") else [source]))
    if folders:
        first = [env["PYTHONPATH"]] if "PYTHONPATH" in env else []
        env = {**env, "PYTHONPATH": os.pathsep.join([*first, *folders])}
    program, *args = run_command(served)
    return ServerCommand(command=program, args=args, env=env)


def _check_url(url: str) -> None:
    """Reject a URL that hosts would misread, or whose password or token they would show."""
    if not url.isprintable() or " " in url:
        raise Unsupported("the URL has a character that no URL may have")
    try:
        parts = urlsplit(url)
        has_host = bool(parts.hostname) and parts.port != 0
    except ValueError as error:
        raise Unsupported(f"{url} is not a URL: {error}") from None
    if not has_host:
        raise Unsupported(f"{url} has no host")
    if "@" in parts.netloc:
        raise Unsupported(
            "the URL has a name or password in it, which hosts show; they fill in a variable, as "
            "in --header 'Authorization: Basic ${LOGIN}'"
        )
    if "access_token" in dict(parse_qsl(parts.query, keep_blank_values=True)):
        raise Unsupported("the URL has a token in it, which hosts show; they log in themselves")


def _absolute(argument: str) -> str:
    """Return an argument with an absolute path, if it is the path of a file."""
    # A plain word is more likely a subcommand of the program than a file of that name.
    is_path = Path(argument).suffix or os.path.basename(argument) != argument
    return os.path.abspath(argument) if is_path and Path(argument).is_file() else argument


def _uv_args(source: str) -> list[str]:
    # https://docs.astral.sh/uv/reference/cli/#uv-run
    if not source.endswith(".py"):
        return ["run", "--directory", os.getcwd(), "--with", "mcpkit"]
    file = Path(source)
    text = file.read_text(encoding="utf-8-sig", errors="replace")
    if re.search(r"^# /// script\s*$", text, re.MULTILINE):
        return ["run", "--no-project", "--with-requirements", source, "--with", "mcpkit"]
    for folder in file.parents:
        if (folder / "pyproject.toml").is_file():
            return ["run", "--project", str(folder), "--with", "mcpkit"]
    return ["run", "--no-project", "--with", "mcpkit"]


_FIND: Final = (
    "import sys\nfrom importlib.util import find_spec\n"
    "print(*[name for name in sys.argv[1:] if find_spec(name) is None])"
)


def _folders_needed(*modules: str) -> list[str]:
    """Return the folders of modules that this interpreter finds only from this folder."""
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
    folders: list[str] = []
    for name in found.stdout.split() if not found.returncode else ():
        spec = find_spec(name)
        inside = list(spec.submodule_search_locations or []) if spec else []
        file = inside[0] if inside else (spec.origin if spec else None)
        folders.append(str(Path(file or ".").resolve().parent))
    return list(dict.fromkeys(folders))


_LOAD: Final = """
import json, os, sys
stdout = os.dup(1)
os.dup2(2, 1)
from mcpkit._utils.targets import TargetError
from mcpkit.cli._target import load_app
try:
    answer = {"name": load_app(sys.argv[1]).name}
except TargetError as error:
    answer = {"error": str(error)}
os.write(stdout, json.dumps(answer).encode())
os._exit(0)
"""


def name_of(target: str, server: ServerCommand | ServerUrl, *, uv: bool, force: bool) -> str:
    """Return the name of a server at a target, without connecting to it."""
    if isinstance(server, ServerUrl):
        parts = urlsplit(server.url)
        return "-".join(filter(None, [parts.hostname, str(parts.port or "")]))
    if not is_python(target):
        stem = Path(server.command).stem
        if stem.lower() in _RUNNERS or re.fullmatch(r"python[\d.]+", stem):
            raise Unsupported(f"{stem} does not say the name of the server; add --name NAME")
        return stem
    source = split(target)[0]
    answer: dict[str, str] = {}
    if not uv:
        with suppress(subprocess.TimeoutExpired, ValueError):
            found = subprocess.run(
                [sys.executable, "-c", _LOAD, target],
                env={**os.environ, **server.env},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=_IMPORT_S,
            )
            answer = json.loads(found.stdout)
    if "error" in answer and not force:
        raise Unsupported(f"{answer['error']} (--force installs it anyway)")
    stem = Path(source).stem if source.endswith(".py") else source.rpartition(".")[2]
    return answer.get("name") or stem
