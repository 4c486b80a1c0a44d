"""Clients of servers that require a token."""

# region user
import asyncio
import os
import sys

from mcpkit import Client
from mcpkit.client.auth import ClientCredentials, FileTokenStore, OAuth


async def main(url: str) -> None:
    """Log in if necessary, and list the tools."""
    async with Client(url, auth=OAuth(store=FileTokenStore())) as client:
        print([tool.name for tool in await client.list_tools()])
        # endregion user


# region machine
async def nightly(url: str) -> None:
    """Call a tool without a user."""
    machine = ClientCredentials(
        "reports",
        os.environ["REPORTS_SECRET"],
        issuer="https://login.example.com",
    )
    async with Client(url, auth=machine) as client:
        await client.call_tool("make_report")
        # endregion machine


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
