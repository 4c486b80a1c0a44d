"""Others read our skills, and we read those of FastMCP; each verifies what it reads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mcpkit import Client
from tests.peers.installed import INSTALLED, NODE, ROOT, inspector, output_of, require
from tests.transports.http.plain import serving

FASTMCP = INSTALLED / "fastmcp"
COMMAND = [str(FASTMCP / "bin" / "python"), str(Path(__file__).with_name("fastmcp_skills.py"))]
SKILLED = ROOT / "docs" / "code" / "skilled.py"
FOLDER = ROOT / "docs" / "code" / "skills"

pytestmark = pytest.mark.peers


def test_fastmcp_reads_our_skills() -> None:
    """SKILL-12, SKILL-17, SKILL-20, SKILL-21: of a folder, and of a function."""
    require(FASTMCP)
    with serving(str(SKILLED), "--http", cwd=ROOT) as server:
        skills = json.loads(output_of([*COMMAND, "read", server.url]))
    assert list(skills) == ["skill://brewing/SKILL.md", "skill://tasting/SKILL.md"]
    brewing, tasting = skills.values()
    assert brewing["files"] == {
        path.relative_to(FOLDER / "brewing").as_posix(): path.read_bytes().decode("latin-1")
        for path in (FOLDER / "brewing").rglob("*.md")
    }
    assert tasting["description"].startswith("Judge a tea.")
    assert tasting["files"]["SKILL.md"].endswith("Today's tea is green.")


def test_the_inspector_verifies_our_skills(tmp_path: Path) -> None:
    """SKILL-6, SKILL-12, SKILL-18…21"""
    require(NODE)
    verify = ["--method", "skills/list", "--verify", "--require-digests"]
    with serving(str(SKILLED), "--http", cwd=ROOT) as server:
        printed = inspector(tmp_path, server.url, "--transport", "http", *verify)
    reports = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    assert [(each["name"], each["outcome"]) for each in reports] == [
        ("brewing", "verified"),
        ("tasting", "verified"),
    ]


async def test_we_read_the_skills_of_fastmcp() -> None:
    """SKILL-18, SKILL-19; SKILL-H2"""
    require(FASTMCP)
    async with Client([*COMMAND, "serve", str(FOLDER)], timeout=50) as client:
        [skill] = await client.skills()
        assert skill.name == "brewing"
        assert skill.files is not None
        assert sorted(skill.files) == ["SKILL.md", "references/times.md"]
        for path in skill.files:
            expected = (FOLDER / "brewing" / path).read_bytes()
            assert await client.read_skill(skill, path) == expected
        assert await client.read_skill(skill.uri) == await client.read_skill("brewing")
