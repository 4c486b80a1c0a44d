"""Tries frameworks, bridges and hosts, and compares what works with what is expected.

    python .ci/frameworks [--write | --check] [KEY ...]

Each is installed into .cache/frameworks from its own requirements; what is there already is kept.
None of them reaches a model, or anything else outside this machine. The official clients in front
of bridges are those of .ci/peers.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from clients import (
    CHECKS,
    CLIENTS,
    EXPECTED,
    GENERATIONS,
    HERE,
    TO_URL,
    Client,
    Expected,
    marks,
    on_page,
    table,
    write,
)

ROOT: Final = Path(__file__).resolve().parents[2]
INSTALLED: Final = ROOT / ".cache" / "peers"
NODE: Final = INSTALLED / "node"
HOME: Final = ROOT / ".cache" / "frameworks"
SERVER: Final = HERE / "server.py"
DRIVERS: Final = HERE / "drivers"
PATH: Final = f"{NODE / 'node_modules' / '.bin'}{os.pathsep}{os.environ['PATH']}"

WAIT_INSTALL: Final = 900
WAIT_START: Final = 30
WAIT_DRIVER: Final = 240

QUIET: Final = {
    "ANONYMIZED_TELEMETRY": "false",
    "CREWAI_DISABLE_TELEMETRY": "true",
    "CREWAI_TRACING_ENABLED": "false",
    "DO_NOT_TRACK": "1",
    "LANGSMITH_TRACING": "false",
    "MCP_USE_ANONYMIZED_TELEMETRY": "false",
    "OTEL_SDK_DISABLED": "true",
    # Whatever would still be sent to anybody ends here.
    "HTTP_PROXY": "http://127.0.0.1:9",
    "HTTPS_PROXY": "http://127.0.0.1:9",
    "http_proxy": "http://127.0.0.1:9",
    "https_proxy": "http://127.0.0.1:9",
    "NO_PROXY": "127.0.0.1,localhost",
    "no_proxy": "127.0.0.1,localhost",
}


class NotInstalledError(Exception):
    """A client cannot be installed here."""


class FailedError(Exception):
    """A client could not be driven to its end."""


# --- installing -----------------------------------------------------------------------------------


def install(client: Client) -> Path:
    """Install a client unless it is there, and return its folder.

    Raises:
        NotInstalledError: It cannot be.
    """
    folder = HOME / client.key
    wanted = client.requirements
    stamp = folder / "installed-from"
    if stamp.exists() and stamp.read_bytes() == wanted.read_bytes():
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    if wanted.suffix == ".json":
        shutil.copy(wanted, folder / "package.json")
        command = ["npm", "install", "--loglevel=error", "--no-package-lock", "--no-audit"]
    else:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True, timeout=WAIT_INSTALL)
        pip = [str(folder / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]
        command = [*pip, "install", "--quiet", "--no-cache-dir", "-r", str(wanted)]
    for attempt in (1, 2):
        done = subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, "PATH": PATH},
            capture_output=True,
            text=True,
            timeout=WAIT_INSTALL,
        )
        if done.returncode == 0:
            break
        if attempt == 2:
            errors = [line for line in done.stderr.splitlines() if "error" in line.lower()]
            raise NotInstalledError("; ".join(errors[:2]) or f"exit code {done.returncode}")
        time.sleep(5)
    shutil.copy(wanted, stamp)
    return folder


# --- running --------------------------------------------------------------------------------------


@contextmanager
def reachable(over: str, seen: Path) -> Iterator[list[str]]:
    """What a driver is told of a new server, which writes down what it is asked."""
    # Clients start a server with few of their own variables.
    variables = [f"SEEN={seen}", f"PYTHONPATH={ROOT}"]
    command = ["env", *variables, sys.executable, "-m", "mcpkit", "run", str(SERVER)]
    if over != "HTTP" and not over.startswith(TO_URL):
        yield command
        return
    log = seen.with_suffix(".log")
    with log.open("w") as file:
        server = subprocess.Popen([*command, "--http", "--port", "0"], cwd=ROOT, stderr=file)
    try:
        deadline = time.monotonic() + WAIT_START
        while not (found := re.search(r"listens on (\S+?),? ", log.read_text())):
            if server.poll() is not None or time.monotonic() > deadline:
                raise FailedError(f"the server did not start: {log.read_text()}")
            time.sleep(0.05)
        yield [found[1]]
    finally:
        server.terminate()
        server.wait(WAIT_START)


def driver(client: Client, folder: Path, over: str) -> list[str]:
    """The command that drives a client."""
    if client.bridge:
        (official,) = [key for key, each in GENERATIONS.items() if over.endswith(each)]
        python = INSTALLED / official / "bin" / "python"
        return [str(python), str(DRIVERS / "drive_bridge.py"), client.bridge]
    script = DRIVERS / f"drive_{client.key}.mjs"
    if script.exists():
        for each in DRIVERS.glob("*.mjs"):  # node looks for packages beside a script
            shutil.copy(each, folder)
        return ["node", str(folder / script.name)]
    own = folder / "bin" / "python"
    return [str(own if own.exists() else sys.executable), str(script.with_suffix(".py"))]


def drive(client: Client, folder: Path, over: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Connect a client once.

    Returns:
        What the client showed, and what the server was asked.

    Raises:
        FailedError: The driver did not come to its end.
    """
    with tempfile.TemporaryDirectory() as home:
        seen = Path(home) / "seen"
        kept = {key: os.environ[key] for key in ("LANG", "LC_ALL", "TMPDIR") if key in os.environ}
        variables = {**kept, **QUIET, "PATH": PATH, "HOME": home, "FOLDER": str(folder)}
        with reachable(over, seen) as server:
            popen = subprocess.Popen(
                [*driver(client, folder, over), *server],
                cwd=home,
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
            try:
                out, errors = popen.communicate(timeout=WAIT_DRIVER)
            except subprocess.TimeoutExpired:
                os.killpg(popen.pid, signal.SIGKILL)
                popen.communicate()
                raise FailedError(f"not done after {WAIT_DRIVER} s") from None
        asked = (
            [json.loads(line) for line in seen.read_text().splitlines()] if seen.exists() else []
        )
    last = out.strip().rpartition("\n")[2]
    if popen.returncode != 0 or not last.startswith("{"):
        raise FailedError(f"exit code {popen.returncode}: {errors.strip()[-2000:]}")
    return json.loads(last), asked


def tried(client: Client, folder: Path, over: str) -> dict[str, Any]:
    """What a client does over a transport, as it is expected; tells what is wrong."""
    report, asked = drive(client, folder, over)
    if report["version"] != client.version:
        raise FailedError(f"this is version {report['version']}, not {client.version}")
    methods = {each["method"] for each in asked}
    # A handshake may begin on one revision, and end on another.
    opening = {"initialize", "server/discover"}
    revisions = sorted({each["revision"] for each in asked if each["method"] not in opening})
    found = marks(report, methods)
    for check, each in found.items():
        if each == "✘":
            print(f"    {CHECKS[check]}: {report.get(check, report.get('connected'))!r}")
    return {"revision": ", ".join(revisions) or "none", "marks": found}


def differences(expected: dict[str, Any], found: dict[str, Any]) -> list[str]:
    """Each check whose mark is not the expected one."""
    pairs = [("revision", expected["revision"], found["revision"])]
    pairs += [
        (CHECKS[key], expected["marks"].get(key), value) for key, value in found["marks"].items()
    ]
    return [f"{name} is {now}, expected {before}" for name, before, now in pairs if before != now]


def main() -> int:
    """Try all, or those that are named."""
    parser = argparse.ArgumentParser(
        prog="python .ci/frameworks", description=__doc__.splitlines()[0]
    )
    keys = [each.key for each in CLIENTS]
    parser.add_argument("key", nargs="*", help=f"one of {', '.join(keys)}; all without")
    parser.add_argument(
        "--write", action="store_true", help="expect what is found, and show it on the page"
    )
    parser.add_argument(
        "--check", action="store_true", help="only compare docs/clients.md with the expectations"
    )
    options = parser.parse_args()
    if options.check:
        current = on_page() == table(json.loads(EXPECTED.read_text(encoding="utf-8")))
        print("docs/clients.md is " + ("current" if current else "out of date: use --write"))
        return not current
    if unknown := set(options.key) - set(keys):
        parser.error(f"there is no {', '.join(sorted(unknown))}")
    if not all((INSTALLED / each / "installed-from").is_file() for each in (*GENERATIONS, "node")):
        parser.error("the official clients are not installed; run .ci/peers")
    expected: Expected = json.loads(EXPECTED.read_text(encoding="utf-8"))
    found: Expected = {}
    wrong: list[str] = []
    for client in CLIENTS:
        if options.key and client.key not in options.key:
            continue
        print(f"{client.title} {client.version}", flush=True)
        wanted = expected.get(client.key, {})
        try:
            folder = install(client)
        except (NotInstalledError, subprocess.SubprocessError) as error:
            print(f"  cannot be installed here: {error}")
            if wanted:
                wrong.append(f"{client.title}: cannot be installed")
            continue
        found[client.key] = {}
        for over in client.over:
            try:
                result = tried(client, folder, over)
            except FailedError as error:
                print(f"  over {over}: {error}")
                wrong.append(f"{client.title} over {over}: failed")
                continue
            print(
                f"  over {over}: {result['revision']} {''.join(result['marks'].values())}",
                flush=True,
            )
            found[client.key][over] = result
            if over not in wanted:
                wrong.append(f"{client.title} over {over}: is not expected yet")
                continue
            wrong += [
                f"{client.title} over {over}: {each}" for each in differences(wanted[over], result)
            ]
    print()
    print(table(found))
    for each in wrong:
        print(each)
    if options.write:
        # What failed is not forgotten: it stays expected.
        known = {each.key: expected.get(each.key, {}) | found.get(each.key, {}) for each in CLIENTS}
        write(
            {
                each.key: {way: known[each.key][way] for way in each.over if way in known[each.key]}
                for each in CLIENTS
                if known[each.key]
            }
        )
        return 0
    print(f"differences: {len(wrong)}" if wrong else "all as expected")
    return bool(wrong)


sys.exit(main())
