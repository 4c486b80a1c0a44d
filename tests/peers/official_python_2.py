"""Drives a server with the official Python client of today; prints what it saw as JSON.

Each line of stdin is a list in JSON: MODE, and a URL or a COMMAND with its ARGUMENTs.

MODE is "auto" or a protocol revision.
"""

from __future__ import annotations

from typing import Any

import mcp.client.session
import mcp_types as types
from drive import WAIT, Driver, for_all
from mcp import Client, MCPError, StdioServerParameters
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS


class Listener(Driver):
    """Listens to what it wants to hear, as revisions without a handshake have it."""

    async def want_logs(self) -> None:
        """Nothing to do: each request says which log messages it wants."""

    async def update(self) -> str:
        async with self.client.listen(resource_subscriptions=["notes://today"]) as changes:
            await self.call("write", text="drink milk")
            return (await anext(aiter(changes))).uri

    async def growth(self) -> Any:
        async with self.client.listen(tools_list_changed=True) as changes:
            await self.call("learn", name="new")
            await anext(aiter(changes))
        return await self.call("new")


async def report(mode: str, command: str, *arguments: str) -> dict[str, Any]:
    handshake = mode in HANDSHAKE_PROTOCOL_VERSIONS
    if handshake:
        # The client offers its newest in every handshake; there is no setting for it.
        mcp.client.session.LATEST_HANDSHAKE_VERSION = mode
    driver = (Driver if handshake else Listener)(types, MCPError)
    is_url = command.startswith("http:")
    async with Client(
        command if is_url else StdioServerParameters(command=command, args=list(arguments)),
        mode="legacy" if handshake else mode,
        client_info=types.Implementation(name="official", version="2"),
        logging_callback=driver.on_log,
        log_level="info",
        message_handler=driver.on_message,
        elicitation_callback=driver.on_elicit,
        sampling_callback=driver.on_sample,
        list_roots_callback=driver.on_roots,
        read_timeout_seconds=WAIT,
    ) as client:
        return await driver.drive(
            client,
            revision=client.protocol_version,
            server=client.server_info,
            instructions=client.instructions,
            capabilities=client.server_capabilities,
        )


for_all(report)
