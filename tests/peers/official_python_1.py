"""Drives a server with the last official Python client of the handshake era; prints JSON.

Each line of stdin is a list in JSON: REVISION, and a URL or a COMMAND with its ARGUMENTs.

A URL that ends in /sse is spoken to over the transport of 2024-11-05.
"""

from __future__ import annotations

from typing import Any

from drive import Driver, for_all
from mcp import ClientSession, McpError, StdioServerParameters, stdio_client, types
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from pydantic import AnyUrl


def connected(command: str, *arguments: str) -> Any:
    if command.endswith("/sse"):
        return sse_client(command)
    if command.startswith("http:"):
        return streamable_http_client(command)
    return stdio_client(StdioServerParameters(command=command, args=list(arguments)))


async def report(revision: str, command: str, *arguments: str) -> dict[str, Any]:
    # The client offers its newest in every handshake; there is no setting for it.
    types.LATEST_PROTOCOL_VERSION = revision
    driver = Driver(types, McpError, AnyUrl)

    async def on_message(message: Any) -> None:
        if isinstance(message, types.ServerNotification):
            await driver.on_message(message.root)

    async with (
        connected(command, *arguments) as streams,
        ClientSession(
            *streams[:2],
            logging_callback=driver.on_log,
            message_handler=on_message,
            elicitation_callback=driver.on_elicit,
            sampling_callback=driver.on_sample,
            list_roots_callback=driver.on_roots,
        ) as client,
    ):
        hello = await client.initialize()
        return await driver.drive(
            client,
            revision=hello.protocolVersion,
            server=hello.serverInfo,
            instructions=hello.instructions,
            capabilities=hello.capabilities,
        )


for_all(report)
