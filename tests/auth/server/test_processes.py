"""Several processes of one app, whose authorization server does not say where it keeps things."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Final

import pytest

from tests.auth.browser import Browser
from tests.auth.server.conftest import Clock, Site
from tests.cli.commands import mcpkit
from tests.cli.hurried import hurried
from tests.kit import eventually

SERVER: Final = """
import os
from mcpkit import Context, MCPKit
from mcpkit.auth import AuthorizationServer, MemoryAuthStore, User

app = MCPKit("notes", auth=AuthorizationServer(lambda visit: User("ada"), STORE, cache_time=0))

@app.tool(scopes=["notes:read"])
async def whoami(ctx: Context) -> str:
    return f"{ctx.principal.claims['sub']} {os.getpid()}"
"""


@pytest.mark.parametrize("how", [["--workers", "2"], ["--reload"]], ids=" ".join)
def test_logins_hold_in_all_of_them(tmp_path: Path, how: list[str]) -> None:
    """Whichever process a step of a login meets, and after all of them were replaced."""
    (tmp_path / "server.py").write_text(SERVER.replace("STORE", "None"))
    with hurried(*how, cwd=tmp_path) as server:
        browser = Browser(button="allow")
        site = Site(server.url.removesuffix("/mcp"), Clock(), None, browser=browser)  # type: ignore[arg-type]
        site.client_id = site.register(client_name="An editor")["client_id"]
        tokens = site.tokens()
        first = site.said(tokens["access_token"]).split()
        assert first[0] == "ada"
        if how == ["--reload"]:
            (tmp_path / "server.py").write_text(SERVER.replace("STORE", "None") + "\n# changed\n")
        else:
            for _ in range(3):
                assert site.said(site.tokens()["access_token"])
            os.kill(int(first[1]), signal.SIGKILL)

        def another_serves() -> bool:
            page = site.call(tokens["access_token"])
            assert page.status in (200, 503), page.text
            return page.status == 200 and first[1] not in page.text

        eventually(another_serves)
        assert site.refresh(tokens["refresh_token"]).status == 200


def test_a_store_of_one_process_is_refused_for_several(tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(SERVER.replace("STORE", "MemoryAuthStore()"))
    ended = mcpkit("run", "server.py", "--http", "--workers", "2", cwd=tmp_path)
    assert ended.refusal == (
        "a MemoryAuthStore keeps logins in one process; give the server a file as store="
    )
