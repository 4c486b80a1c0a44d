"""What the command line shows of skills, and checks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.commands import mcpkit
from tests.transports.processes import REPOSITORY

TEA = REPOSITORY / "docs" / "code" / "skilled.py"

BROKEN = r"""
from mcpkit import MCPKit
from mcpkit.extension import Extension

app = MCPKit("broken")


class Official(Extension):
    _is_official = True


skills = Official("io.modelcontextprotocol/skills")
TEXT = "---\nname: tea\ndescription: About tea.\n---\n"


def entry(name, size):
    uri = f"skill://{name}/SKILL.md"
    return {
        "uri": uri,
        "frontmatter": {"name": "tea", "description": "About tea."},
        "resources": [{"uri": uri, "digest": "sha256:" + 64 * "0", "size": size}],
    }


@skills.request("skills/list")
def listed():
    return {"skills": [entry("tea", 1), entry("a/tea", len(TEXT)), entry("b", 1), {"uri": "c"}, {}]}


app.extend(skills)


@app.resource("skill://{+path}")
def read(path: str):
    return TEXT
"""


@pytest.mark.parametrize("revision", ["2024-11-05", "2026-07-28"])
def test_inspect_shows_skills(revision: str) -> None:
    ended = mcpkit("inspect", str(TEA), "--revision", revision)
    assert (
        "Skills  2\n  skill://brewing/SKILL.md  2 files, 261 bytes\n    Brew tea. " in ended.output
    )
    document = json.loads(mcpkit("inspect", str(TEA), "--revision", revision, "--json").output)
    assert [len(each["resources"]) for each in document["skills"]] == [2, 1]


def test_check_verifies_skills(tmp_path: Path) -> None:
    """SKILL-12, SKILL-18, SKILL-20"""
    (tmp_path / "broken.py").write_text(BROKEN)
    ended = mcpkit("check", "broken.py", "--json", cwd=tmp_path)
    document = json.loads(ended.stdout)
    found = [
        (each["rule"], each["subject"]["name"], each["message"]) for each in document["findings"]
    ]
    when = "skill that does not say when to use it"
    assert [each for each in found if each[0] != "SKILL002"] == [
        ("SERVER004", "broken", "skills/list lists an entry without 'uri'"),
        ("SKILL001", "skill://tea/SKILL.md", "has 42 bytes, but 1 are listed"),
        ("SKILL001", "skill://a/tea/SKILL.md", "does not have the digest that is listed"),
        ("SKILL001", "skill://b/SKILL.md", "does not end in tea/SKILL.md"),
        ("SKILL001", "c", "the frontmatter is missing"),
    ]
    assert ("SKILL002", "skill://tea/SKILL.md", when) in found
    good = mcpkit("check", str(TEA), "--select", "SKILL")
    assert good.output == "tea: nothing found in 1 tool, 2 resources, 1 template and 2 skills.\n"
