"""Deprecated names in code: `mcpkit check` finds them, and `mcpkit migrate` rewrites them."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path
from typing import Final

import pytest

from mcpkit._utils.names import RENAMED
from mcpkit.cli._deprecated import deprecated_in, with_present_names
from mcpkit.cli._migrate.rewrite import migrate
from tests.cli.commands import mcpkit
from tests.docs.pages import ROOT

CODE: Final = """\
from mcpkit import Context, <Header|MirroredHeader>, MCPKit, ResourceResult
from mcpkit import <Header|MirroredHeader> as Mirrored
import mcpkit
app: MCPKit[None] = MCPKit("é", <errors|expose_errors>="all",
    <scopes|scope_hierarchy>={"a": ["b"]}, <ttl|cache_ttl>=5)

é = "ü"; app.<changed|notify_resource_updated>("a://b")
@app.tool(title="é", <errors|expose_errors>=())
async def f(k: <Header|MirroredHeader>("é"), x: mcpkit.<Header|MirroredHeader>, ctx: Context[int]):
    ctx.notice("a"); logging.critical("x")
    ctx.<changed|notify_resource_updated>("a://b")
    cache.changed("a")

@app.tool(
    task="optional",
    resumable=True,
    task_ttl=60,
)
def bake(): ...
with TestClient(app, <user|principal>="ada"): create(user="ada", errors=1, ttl=5)
app.add_resource(bake, "a://b", <ttl|cache_ttl>=5), ResourceResult([], <ttl|cache_ttl>=4)
"""
OLD, NEW = (re.sub(r"<(\w+)\|(\w+)>", rf"\{number}", CODE) for number in (1, 2))


@pytest.mark.parametrize("bom", ["", "\ufeff"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_names_are_rewritten_where_they_stand(bom: str, end: str) -> None:
    made = migrate(bom + OLD.replace("\n", end))
    assert made.text == bom + NEW.replace("\n", end)
    assert [(each.line, each.text.partition(";")[0]) for each in made.remarks] == [
        (10, 'ctx.notice(…) is now ctx.log("notice", …)'),
        (16, "tool(resumable=…) is now tool(task=TaskSupport(resumable=…))"),
        (17, "tool(task_ttl=…) is now tool(task=TaskSupport(ttl=…))"),
    ]


@pytest.mark.parametrize(
    "source",
    [
        "from mcpkit import",
        "import mcpkit\n\0",
        "import mcpkit\n" + "(" * 500 + ")" * 500,
        "import mcpkitten\napp.changed('a')",
        "from starlette import Header\nimport mcpkit\nHeader",
    ],
)
def test_other_code_has_none(source: str) -> None:
    assert deprecated_in(source) == []
    assert with_present_names(source) == source


def test_long_code_takes_no_time_of_its_own() -> None:
    source = "import mcpkit\n" + "app.changed('a')\n" * 5000
    assert with_present_names(source).count("notify_resource_updated") == 5000


def test_check_finds_them_in_all_files_of_a_server(tmp_path: Path) -> None:
    (tmp_path / "kitchen.py").write_text(
        "import mcpkit\n\n@mcpkit.tool\ndef bake(ctx: mcpkit.Context) -> str:\n"
        "    'Bake.'\n    ctx.notice('hot')\n    return 'bread'\n"
    )
    (tmp_path / "server.py").write_text(
        "import kitchen\nfrom mcpkit import MCPKit\n\napp = MCPKit('bakery', errors='all')\n"
        "app.include(kitchen)\n"
    )
    done = mcpkit("check", "server.py", "--select", "MOVE", cwd=tmp_path)
    assert done.code == 1
    assert 'MOVE002 warning: kitchen.py:6: ctx.notice(…) is now ctx.log("notice", …)' in done.stdout
    assert "server.py:4: MCPKit(errors=…) is now MCPKit(expose_errors=…)" in done.stdout
    assert done.stderr.count("server.py:4: MCPKitDeprecationWarning") == 1
    done = mcpkit("migrate", ".", "--write", "--no-import", cwd=tmp_path)
    assert (done.code, "expose_errors='all'" in (tmp_path / "server.py").read_text()) == (1, True)
    assert 'kitchen.py:6: ctx.notice(…) is now ctx.log("notice", …)' in done.stdout


# --- our own code ---------------------------------------------------------------------------------


def test_no_code_of_ours_has_one() -> None:
    """Nor has a page, whose code is that of files."""
    listed = ["git", "ls-files", "mcpkit", "docs", "examples", "templates", "tests", "benchmarks"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    apart = ("tests/test_deprecated_names.py", "tests/cli/test_deprecated.py")
    found = [
        f"{name}:{use.line}: {use.row.advice}"
        for name in (*names.split("\n"), "README.md")
        if name.endswith(".py") and name not in apart
        for use in deprecated_in((ROOT / name).read_text(encoding="utf-8"))
    ]
    assert found == []


def test_every_kind_of_owner_is_found() -> None:
    assert {on for on, _ in RENAMED} == {
        *{each.row.on for each in deprecated_in(OLD)},
        *("include(…)", "prompt(…)", "mcpkit.auth"),
    }
    assert ast.parse(NEW)
