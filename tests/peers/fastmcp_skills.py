"""Skills with FastMCP: a client that reads those of a server, and a server of a folder.

Usage: fastmcp_skills.py read URL, which prints each file of each skill as JSON, or
fastmcp_skills.py serve FOLDER, on stdio.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from fastmcp import Client, FastMCP
from fastmcp.skills import SkillsClientExtension
from fastmcp.skills.provider import SkillsDirectoryProvider


async def read(url: str) -> None:
    found: dict[str, dict[str, Any]] = {}
    async with Client(url, extensions=[SkillsClientExtension()]) as client:
        for entry in await client.list_skills():
            skill = await client.read_skill(entry.uri)
            files = {path: data.decode("latin-1") for path, data in skill.files.items()}
            found[str(entry.uri)] = {"description": skill.description, "files": files}
    print(json.dumps(found))


if __name__ == "__main__":
    task, target = sys.argv[1:]
    if task == "read":
        asyncio.run(read(target))
    else:
        FastMCP("skilled", providers=[SkillsDirectoryProvider(target)]).run()
