"""Frameworks, bridges and hosts that are tried, and what they are expected to do."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).resolve().parent
PAGE: Final = HERE.parents[1] / "docs" / "clients.md"
EXPECTED: Final = HERE / "expected.json"

DIRECT: Final = ("stdio", "HTTP")
TO_URL: Final = "stdio to HTTP"
TO_COMMAND: Final = "HTTP to stdio"
GENERATIONS: Final = {"python-1": "an older host", "python-2": "a newer host"}
"""What the official clients are that .ci/peers installs, one of which is in front of a bridge."""

Expected = dict[str, dict[str, dict[str, Any]]]
"""For each client, for each way to connect: the revision, and a mark for each check."""


@dataclass(frozen=True)
class Client:
    """One that is tried.

    Args:
        key: Names its requirements, its folder and, unless it is a bridge, its driver.
        title: What people call it.
        package: Whose version is shown.
        ways: How it is connected. A bridge speaks the first to its host, the second to the server.
        bridge: The name that the driver of bridges knows it by.
    """

    key: str
    title: str
    package: str
    ways: tuple[str, ...] = DIRECT
    bridge: str | None = None

    @property
    def over(self) -> tuple[str, ...]:
        """All that is tried: each way, and a bridge's with each official client in front of it."""
        if self.bridge is None:
            return self.ways
        return tuple(f"{way}, {each}" for way in self.ways for each in GENERATIONS.values())

    @property
    def requirements(self) -> Path:
        """What is installed: a list for pip, or a manifest for npm."""
        file = HERE / "requirements" / f"{self.key}.json"
        return file if file.exists() else file.with_suffix(".txt")

    @property
    def version(self) -> str:
        """The version that is installed."""
        text = self.requirements.read_text(encoding="utf-8")
        if self.requirements.suffix == ".json":
            found: str = json.loads(text)["dependencies"][self.package]
            return found
        (version,) = re.findall(
            rf"^{re.escape(self.package)}(?:\[.*\])?==(.*)$", text, re.MULTILINE
        )
        return str(version)


CLIENTS: Final = (
    Client("pydantic_ai", "Pydantic AI", "pydantic-ai-slim"),
    Client("langchain", "LangChain", "langchain-mcp-adapters"),
    Client("openai_agents", "OpenAI Agents SDK", "openai-agents"),
    Client("google_adk", "Google ADK", "google-adk"),
    Client("llama_index", "LlamaIndex", "llama-index-tools-mcp"),
    Client("smolagents", "smolagents", "smolagents"),
    Client("crewai", "CrewAI", "crewai-tools"),
    Client("mcp_use", "mcp-use (Python)", "mcp-use"),
    Client("ai_sdk", "AI SDK", "@ai-sdk/mcp"),
    Client("claude_code", "Claude Code", "@anthropic-ai/claude-code"),
    Client("gemini_cli", "Gemini CLI", "@google/gemini-cli"),
    Client("codex", "Codex", "@openai/codex"),
    Client("mcp_remote", "mcp-remote", "mcp-remote", (TO_URL,), "mcp-remote"),
    Client("mcp_proxy", "mcp-proxy (Python)", "mcp-proxy", (TO_URL, TO_COMMAND), "mcp-proxy"),
    Client("mcp_proxy_node", "mcp-proxy (npm)", "mcp-proxy", (TO_COMMAND,), "mcp-proxy"),
    Client("supergateway", "supergateway", "supergateway", (TO_URL, TO_COMMAND), "supergateway"),
)

# --- judging --------------------------------------------------------------------------------------

CHECKS: Final = {
    "tools": "lists",
    "add": "calls",
    "ready": "no arguments",
    "book": "nested",
    "locate": "data",
    "picture": "image",
    "refuse": "error",
    "count": "progress",
    "agent": "agent",
}
"""What a driver reports, and the heading of its column."""

PARAMETERS: Final = {
    "add": ["a", "b"],
    "ready": [],
    "book": ["guests", "nights"],
    "locate": ["city"],
    "picture": [],
    "refuse": ["reason"],
    "count": ["to"],
}
PICTURE: Final = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR42mNoAAAAggCB2kUIOwAAAABJRU5ErkJggg=="
)
RIGHT: Final[dict[str, list[Any]]] = {
    "tools": [PARAMETERS],
    "add": ["42", 42, {"result": 42}],  # some show a model the data, not the text
    "ready": ["ready"],
    "book": ["Ann, Bob: 2"],
    "locate": [{"city": "Lisbon", "latitude": 38.7}],
    "picture": [PICTURE],
    "refuse": ["not today"],
    "count": [[[1, 2], [2, 2]]],
}


def mark(check: str, report: dict[str, Any], methods: set[str]) -> str:
    """✔ if a check is right, ✘ if it is wrong, – if the client has no way to show it."""
    if check == "tools" and check not in report:
        # It shows no list, or does without a login; the server knows whether it has asked for one.
        return "✔" if report.get("connected", True) is True and "tools/list" in methods else "✘"
    if check not in report:
        return "–"
    value = report[check]
    if check == "agent":
        return "✔" if isinstance(value, str) and "42" in value else "✘"
    return "✔" if value in RIGHT[check] else "✘"


def marks(report: dict[str, Any], methods: set[str]) -> dict[str, str]:
    """Judge all that a driver reports.

    Args:
        report: What the client showed.
        methods: What the server was asked.
    """
    return {check: mark(check, report, methods) for check in CHECKS}


# --- showing --------------------------------------------------------------------------------------

TABLE: Final = re.compile(r"^\| client \|.*?\n(?=\n|\Z)", re.MULTILINE | re.DOTALL)


def in_words(over: list[str]) -> str:
    """What is alike with every host is one way."""
    ways: dict[str, list[str]] = {}
    for each in over:
        way, _, host = each.partition(", ")
        ways.setdefault(way, []).append(host)
    every = [*GENERATIONS.values()]
    parts = (way if hosts in (every, [""]) else f"{way}, {hosts[0]}" for way, hosts in ways.items())
    return ", ".join(parts)


def table(expected: Expected) -> str:
    """The table of the page: one row for all ways to connect that are alike."""
    headings = ["client", "version", "over", "revision", *CHECKS.values()]
    lines = [headings, ["---"] * 4 + [":-:"] * len(CHECKS)]
    for client in CLIENTS:
        rows: dict[tuple[str, ...], list[str]] = {}
        for over, found in expected.get(client.key, {}).items():
            rows.setdefault((found["revision"], *found["marks"].values()), []).append(over)
        for (revision, *each), together in rows.items():
            lines.append([client.title, client.version, in_words(together), revision, *each])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def on_page() -> str:
    """The table as it stands on the page."""
    (found,) = TABLE.findall(PAGE.read_text(encoding="utf-8"))
    return str(found)


def write(expected: Expected) -> None:
    """Expect what was found, and show it."""
    text = json.dumps(expected, indent=2, ensure_ascii=False)
    EXPECTED.write_text(f"{text}\n", encoding="utf-8")
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(TABLE.sub(lambda _: table(expected), page), encoding="utf-8")
