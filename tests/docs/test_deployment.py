"""The configuration of the proxy, as the page has it, in front of a server."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from mcpkit.testing import REVISIONS, TestClient
from tests.docs.pages import DOCS, free_port, is_open, titled
from tests.kit import eventually
from tests.transports.http.plain import serving
from tests.web import program

block_of = partial(titled, "deployment.md")


def nginx(executable: str, folder: Path, server: str) -> list[str]:
    """The command of nginx with one block ``server``."""
    places = "".join(
        f"{name}_temp_path {folder}/{name};"
        for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (folder / "nginx.conf").write_text(
        f"pid {folder}/pid; daemon off; error_log stderr; events {{}}\n"
        f"http {{ access_log off; {places}\n{server} }}"
    )
    return [executable, "-c", str(folder / "nginx.conf"), "-p", str(folder), "-e", "stderr"]


@contextmanager
def proxied(folder: Path) -> Iterator[str]:
    """The URL of a server behind nginx."""
    executable, front = program("nginx"), free_port()
    options = ["--http", "--allow-host", "trips.example.com"]
    with serving(str(DOCS / "code" / "context.py"), *options, cwd=folder) as server:
        location = block_of("trips.conf").replace("8000", str(urlsplit(server.url).port))
        server_block = f"server {{ listen 127.0.0.1:{front};\n{location} }}"
        command = nginx(executable, folder, server_block)
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        try:
            eventually(lambda: is_open(front))
            yield f"http://127.0.0.1:{front}/mcp"
        finally:
            process.terminate()
            process.wait(20)


def test_the_proxy_replaces_addresses_that_clients_claim() -> None:
    """SEC-17: quotas count by an address that the server believes."""
    assert "proxy_set_header X-Forwarded-For $remote_addr;" in block_of("trips.conf")


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
