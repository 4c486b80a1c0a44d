"""Skills over HTTP, for callers with different scopes (EXTENSIONS §2)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mcpkit import Client
from mcpkit.errors import InvalidParams, MCPKitError
from mcpkit.testing import REVISIONS
from tests.transports.http.plain import serving
from tests.transports.processes import REPOSITORY

SERVER = f"""
import sys

sys.path.append({str(REPOSITORY)!r})

from mcpkit import Context, MCPKit
from tests.transports.http.test_permissions import Known

app = MCPKit("tea", auth=Known(), cache_scope="public")
app.skills({str(REPOSITORY / "docs" / "code" / "skills")!r}, scopes=["tea"])


@app.skill
def greeting(ctx: Context) -> str:
    '''Greet a guest. Use it when one arrives.'''
    return f"Say hello to {{ctx.principal.id}}."
"""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    file = tmp_path_factory.mktemp("tea") / "server.py"
    file.write_text(SERVER)
    with serving(str(file), "--http", cwd=REPOSITORY) as server:
        yield server.url


@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_token_decides_which_skills_there_are(url: str, revision: str) -> None:
    """SKILL-4, SKILL-17, SKILL-32"""
    for token, names in (("ann~tea", ["brewing", "greeting"]), ("bob", ["greeting"])):
        async with Client(url, auth=token, revision=revision, timeout=20) as client:
            skills = await client.skills()
            assert [each.name for each in skills] == names
            assert [each.name for each in await client.list_resources()] == names
            for each in skills:
                for path in each.files or ():
                    await client.read_skill(each, path)
            name = token.partition("~")[0]
            assert (await client.read_skill("greeting")).endswith(f"hello to {name}.".encode())
            if name == "bob":
                with pytest.raises(InvalidParams, match="Unknown skill"):
                    await client.read_skill("skill://brewing/SKILL.md")
                for uri in ("skill://brewing/SKILL.md", "skill://brewing/references/times.md"):
                    with pytest.raises(MCPKitError, match="not found"):
                        await client.read_resource(uri)
                    with pytest.raises(MCPKitError, match="not found"):
                        await client.subscribe(uri)
