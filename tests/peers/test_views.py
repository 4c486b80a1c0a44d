"""The official bridge shows views in Chromium: they get results, and their buttons call tools.

With ``--basetemp`` the screenshots stay, to be looked at.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mcpkit.cli.new import project, write
from tests.peers.installed import NODE, copy_scripts, node, output_of, require
from tests.transports.http.plain import serving

PEERS = Path(__file__).parent
BUNDLE = NODE / "node_modules" / "@modelcontextprotocol" / "ext-apps" / "dist" / "src"
TIMEOUT = 60

pytestmark = [pytest.mark.peers, pytest.mark.timeout(180)]  # two builds, and a browser


def build(page: Path, into: Path, base: str) -> None:
    """Build the page in a folder with Vite."""
    vite = [*node(NODE / "node_modules" / "vite" / "bin" / "vite.js"), "build", str(page)]
    options = ["--outDir", str(into), "--base", base, "--logLevel", "error"]
    output_of([*vite, *options], TIMEOUT)


@pytest.fixture(scope="module")
def browser() -> str:
    require(NODE)
    found = shutil.which("chromium")
    if found is None:
        pytest.skip("Chromium is not installed; run .ci/browser")
    return found


@pytest.fixture(scope="module")
def url(browser: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The page of the host, beside the server whose views it shows."""
    del browser
    folder = tmp_path_factory.mktemp("views")
    copy_scripts()
    shutil.copytree(PEERS / "views", NODE / "views", dirs_exist_ok=True)
    shutil.copytree(PEERS / "views" / "plain", folder / "plain")
    shutil.copy(BUNDLE / "app-with-deps.js", folder / "plain")
    build(NODE / "views" / "host", folder / "host", "/host/")
    build(NODE / "views" / "counter", folder / "built", "/")
    write(folder / "project", project("my-views", "app"))
    server = f"{PEERS}/viewed.py"
    with serving(server, "--http", cwd=folder, env={"VIEWS": str(folder)}) as served:
        yield served.url.replace("/mcp", "/host/")


def shown(browser: str, url: str, shots: Path, tool: str, args: Any, *steps: Any) -> Any:
    """What the view of a tool shows after each step: a button to click, and a text to wait for."""
    plan = {"browser": browser, "url": url, "tool": tool, "args": args, "steps": steps}
    plan["shots"] = str(shots)
    found = json.loads(output_of([*node(NODE / "drive_view.mjs"), json.dumps(plan)], TIMEOUT))
    assert found["faults"] == []  # nothing that the policy of the extension blocks
    assert found["extensions"] == {"io.modelcontextprotocol/ui": {}}
    assert found["hidden"] == ["load_year", "add_one"]  # from the model (APP-6)
    assert len([*shots.glob("*.png")]) == len(steps)
    return found


def test_the_template_shows_a_chart_with_buttons(browser: str, url: str, tmp_path: Path) -> None:
    """APP-3, APP-9, APP-13, APP-20…23."""
    steps = [(None, "2025: 6282"), ("Next year", "2026: 7688"), ("Previous year", "2025: 6282")]
    found = shown(browser, url, tmp_path, "show_sales", {"year": 2025}, *steps)
    first, second, third = found["texts"]
    assert first.split()[:2] == ["Sales", "2025:"]
    assert "745\nDec" in first
    assert "902\nDec" in second
    assert third == first


def test_the_example_shows_dice(browser: str, url: str, tmp_path: Path) -> None:
    steps = [(None, "Roll again"), ("Roll again", "Roll again")]
    found = shown(browser, url, tmp_path, "roll_dice", {"count": 4}, *steps)
    for text in found["texts"]:
        *dice, _, _ = text.split()
        assert len(dice) == 4
        assert {*dice} <= {*"⚀⚁⚂⚃⚄⚅"}


@pytest.mark.parametrize(
    ("tool", "allow"), [("count", "clipboard-write"), ("count_built", "")], ids=["plain", "Vite"]
)
def test_pages_with_the_official_library_are_shown(
    browser: str, url: str, tmp_path: Path, tool: str, allow: str
) -> None:
    """APP-10: its bundle in plain HTML, or a build by Vite."""
    steps = [(None, "count 1"), ("Add one", "count 2"), ("Add one", "count 3")]
    found = shown(browser, url, tmp_path, tool, {"start": 1}, *steps)
    assert [each.split() for each in found["texts"]] == [
        ["count", str(number), "Add", "one"] for number in (1, 2, 3)
    ]
    assert found["allow"] == allow
