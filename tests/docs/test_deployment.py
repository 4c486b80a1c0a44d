"""The configuration of the proxy, as the page has it, in front of a server."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import anyio
import pytest

from mcpkit.testing import REVISIONS, TestClient
from tests.docs.pages import DOCS, blocks_of, environment, free_port
from tests.warm import Popen

PAGE: Final = (DOCS / "deployment.md").read_text(encoding="utf-8")

needs_nginx = pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed")


def block_of(language: str) -> str:
    (found,) = [each.body for each in blocks_of(PAGE) if each.language == language]
    return found


@contextmanager
def ended(process: subprocess.Popen[Any]) -> Iterator[None]:
    try:
        yield
    finally:
        process.terminate()
        process.wait(20)


async def listens(port: int) -> None:
    with anyio.fail_after(30):
        while True:
            try:
                await (await anyio.connect_tcp("127.0.0.1", port)).aclose()
                return
            except OSError:
                await anyio.sleep(0.05)


@contextmanager
def proxied(folder: Path) -> Iterator[str]:
    """The URL of a server behind nginx."""
    front, behind = free_port(), free_port()
    location = block_of("nginx").replace("8000", str(behind))
    temporary = "\n".join(
        f"{name}_temp_path {folder}/{name};"
        for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (folder / "nginx.conf").write_text(
        f"pid {folder}/pid; daemon off; error_log stderr; events {{}}\n"
        f"http {{ access_log off; {temporary}\n"
        f"server {{ listen 127.0.0.1:{front};\n{location} }} }}"
    )
    server = str(DOCS / "code" / "context.py")
    options = ["--http", "--port", str(behind), "--allow-host", "trips.example.com"]
    served = Popen(
        [sys.executable, "-m", "mcpkit", "run", server, *options],
        env=environment(folder),
        cwd=folder,
        stderr=subprocess.DEVNULL,
    )
    with ended(served):
        anyio.run(listens, behind)
        nginx = subprocess.Popen(
            ["nginx", "-c", str(folder / "nginx.conf"), "-p", str(folder), "-e", "stderr"],
            stderr=subprocess.DEVNULL,
        )
        with ended(nginx):
            anyio.run(listens, front)
            yield f"http://127.0.0.1:{front}/mcp"


def test_the_proxy_replaces_addresses_that_clients_claim() -> None:
    """SEC-17: quotas count by an address that the server believes."""
    assert "proxy_set_header X-Forwarded-For $remote_addr;" in block_of("nginx")


@needs_nginx
@pytest.mark.parametrize("revision", [REVISIONS[-2], REVISIONS[-1]])
def test_calls_and_streams_pass_the_proxy(revision: str, tmp_path: Path) -> None:
    seen: list[float] = []
    with (
        proxied(tmp_path) as url,
        TestClient(
            url, revision=revision, timeout=30, headers={"Host": "trips.example.com"}
        ) as client,
    ):
        done = client.call_tool(
            "crunch", {"rows": 5}, on_progress=lambda now: seen.append(now.progress)
        )
    assert done.data == 5
    assert seen[:4] == [1, 2, 3, 4]
