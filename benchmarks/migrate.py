"""How many published servers list the same tools once ``mcpkit migrate`` has rewritten them.

    python -m benchmarks.migrate CHECKOUT [--python PYTHON] [--only NAME]

CHECKOUT is a folder with a server in each ``src/*/pyproject.toml``, such as a clone of awslabs/mcp;
nothing in it is changed. PYTHON is one where what the servers need is installed, FastMCP and the
official SDK too; what is not there is replaced by something that does nothing. Servers are started
up to the point where they would serve, without a network.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from mcpkit.cli._migrate.rewrite import migrate

ROOT = Path(__file__).resolve().parents[1]
TIMEOUT = 150.0

LOADED = """
import asyncio, gc, importlib, importlib.abc, importlib.machinery, json, os, socket, sys
from unittest.mock import MagicMock

entry = sys.argv[1]
sys.argv = [entry]
stubbed = []
out = os.dup(1)
os.dup2(2, 1)  # servers may print

class Missing(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        root = name.partition(".")[0]
        if root == "awslabs" and name.count(".") == 1 and name not in stubbed:
            # One server that uses another.
            stubbed.append(name)
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        if any(name.startswith(each + ".") for each in stubbed):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        if root in ("awslabs", "mcp", "fastmcp", "mcp_types", "mcpkit", "__main__"):
            return None
        if root in sys.stdlib_module_names or (path is not None and root not in stubbed):
            return None
        if not any("/src/" in str(f.f_code.co_filename) for f in frames()):
            return None
        if root not in stubbed:
            stubbed.append(root)
        return importlib.machinery.ModuleSpec(name, self, is_package=True)
    def create_module(self, spec):
        made = MagicMock(name=spec.name)
        made.__path__ = []
        made.__spec__ = spec
        return made
    def exec_module(self, module):
        pass

def frames():
    frame = sys._getframe(1)
    while frame.f_back is not None:
        frame = frame.f_back
        # Only what a server imports itself: libraries try imports that may fail.
        if not frame.f_code.co_filename.startswith("<") and frame.f_code.co_name != "find_spec":
            return [frame]
    return []

sys.meta_path.append(Missing())

def refused(*args, **options):
    raise OSError("there is no network here")

connect = socket.socket.connect
socket.getaddrinfo = refused
socket.socket.connect = refused

class Serving(BaseException):
    pass

made = []

def serving(self, *args, **options):
    made.append(self)
    raise Serving

async def serving_async(self, *args, **options):
    serving(self)

def watch(module, name):
    try:
        kind = getattr(importlib.import_module(module), name)
    except ImportError:
        return None
    for method in dir(kind):
        if method == "run":
            setattr(kind, method, serving)
        elif method.startswith("run_") and method.endswith("_async"):
            setattr(kind, method, serving_async)
    return kind

kinds = [k for k in (watch("mcpkit.app", "MCPKit"), watch("mcp.server.fastmcp", "FastMCP"),
                     watch("fastmcp", "FastMCP")) if k]
failure = ""
try:
    module, _, function = entry.partition(":")
    found = importlib.import_module(module)
    main = getattr(found, function or "main")
    result = main()
    if asyncio.iscoroutine(result):
        asyncio.run(result)
except Serving:
    pass
except BaseException as error:
    failure = f"{type(error).__name__}: {error}".strip().splitlines()[0]

def is_ours(app):
    return any(each.__module__.startswith("mcpkit") for each in type(app).__mro__)

def names(app):
    if is_ours(app):
        from mcpkit.testing import TestClient
        app._lifespan = None  # it may want what is not here
        socket.socket.connect = connect
        if not app.server.registry.tools:
            return []
        with TestClient(app) as client:
            return sorted(each.name for each in client.list_tools())
    return sorted(each.name for each in asyncio.run(app.list_tools()))

apps = made or [each for each in gc.get_objects() if type(each) in kinds]
answer = {"failure": failure, "kind": "", "tools": [], "stubbed": stubbed}
best = None
for app in apps:
    try:
        tools = names(app)
    except Exception as error:
        answer["failure"] = failure or f"{type(error).__name__}: {error}".splitlines()[0]
        continue
    if best is None or len(tools) > len(best):
        best = tools
        answer.update(kind="mcpkit" if is_ours(app) else "theirs", tools=tools)
os.write(out, json.dumps(answer).encode())
os._exit(0)
"""


class Server(NamedTuple):
    """A published server: its folder, and the entry point that starts it."""

    folder: Path
    entry: str


class Row(NamedTuple):
    """What came of a server."""

    name: str
    before: dict[str, Any]
    after: dict[str, Any]
    changed: int
    left: int

    @property
    def is_same(self) -> bool:
        return (
            self.after["kind"] == "mcpkit"
            and self.after["tools"] == self.before["tools"]
            and (bool(self.after["tools"]) or not self.after["failure"])
        )

    @property
    def verdict(self) -> str:
        if self.is_same:
            return "same"
        if not self.before["tools"]:
            same = self.after["kind"] == "mcpkit" and self.after["tools"]
            return (
                f"{len(self.after['tools'])} after, but before: {self.why(self.before)}"
                if same
                else f"not before either: {self.why(self.before)}; after: {self.why(self.after)}"
            )
        missing = set(self.before["tools"]) - set(self.after["tools"])
        if self.after["tools"] and missing:
            return f"{len(missing)} are missing, such as {min(missing)}; {self.why(self.after)}"
        return self.why(self.after)

    @staticmethod
    def why(answer: dict[str, Any]) -> str:
        return str(
            answer["failure"]
            or (
                "no app"
                if not answer["kind"]
                else f"{answer['kind']}, {len(answer['tools'])} tools"
            )
        )


def servers(checkout: Path) -> Iterator[Server]:
    for project in sorted(checkout.glob("src/*/pyproject.toml")):
        text = project.read_text(encoding="utf-8")
        scripts = text.partition("[project.scripts]")[2].partition("\n[")[0]
        entry = re.search(r'=\s*["\']([\w.]+:\w+)["\']', scripts)
        if entry is not None:
            yield Server(project.parent, entry[1])


def loaded(python: str, folder: Path, entry: str) -> dict[str, Any]:
    """Start a server in a process of its own, and ask it for its tools."""
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}",
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "none",
        "AWS_SECRET_ACCESS_KEY": "none",
        "AWS_EC2_METADATA_DISABLED": "true",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    try:
        done = subprocess.run(
            [python, "-c", LOADED, entry],
            cwd=folder,
            env=env,
            capture_output=True,
            timeout=TIMEOUT,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        answer: dict[str, Any] = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        return {"failure": "takes too long", "kind": "", "tools": [], "stubbed": []}
    except ValueError:
        last = (done.stderr.decode(errors="replace").strip().splitlines() or ["nothing"])[-1]
        return {"failure": last, "kind": "", "tools": [], "stubbed": []}
    return answer


def measured(server: Server, python: str) -> Row:
    with tempfile.TemporaryDirectory() as place:
        copy = Path(place, "src", server.folder.name)
        profile = Path(copy, ".aws", "config")
        shutil.copytree(server.folder, copy, symlinks=True)
        profile.parent.mkdir()
        profile.write_text("[default]\nregion = us-east-1\n", encoding="utf-8")
        before = loaded(python, copy, server.entry)
        changed = left = 0
        for path in copy.rglob("*.py"):
            if "tests" in path.parts:
                continue
            source = path.read_text(encoding="utf-8")
            made = migrate(source)
            changed += made.text != source
            left += len(made.remarks)
            path.write_text(made.text, encoding="utf-8")
        after = loaded(python, copy, server.entry)
    return Row(server.folder.name, before, after, changed, left)


def main() -> None:
    parser = argparse.ArgumentParser(description="Migrate published servers, and load them.")
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    found = [each for each in servers(options.checkout) if options.only in each.folder.name]
    with ThreadPoolExecutor(2) as pool:
        print("| server | tools | files rewritten | left to people | after |")
        print("|---|---|---|---|---|")
        rows: list[Row] = []
        for row in pool.map(lambda each: measured(each, options.python), found):
            rows.append(row)
            tools = len(row.before["tools"])
            print(
                f"| {row.name} | {tools} | {row.changed} | {row.left} | {row.verdict} |", flush=True
            )
    same = sum(row.is_same for row in rows)
    print(f"\n{same} of {len(rows)} list the same tools.")


if __name__ == "__main__":
    main()
