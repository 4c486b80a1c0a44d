"""What processes do with credentials that they share, until a test kills them.

python -m tests.auth.client.killed write FOLDER
python -m tests.auth.client.killed hold FOLDER URL
python -m tests.auth.client.killed renew FOLDER URL COUNT
"""

from __future__ import annotations

import sys
from itertools import count
from typing import Any

import anyio

from mcpkit import Client
from mcpkit.client.auth import Credentials, FileTokenStore, OAuth

SERVER = "https://notes.example.com/mcp"


def credentials(number: int) -> Credentials:
    """Some whose parts fit together: all have one number, and one of two sizes."""
    token = f"{number}-" + "x" * (10, 100_000)[number % 2]
    return Credentials(
        f"https://{number}.example.com",
        client_id=str(number),
        access_token=token,
        refresh_token=token,
        scopes=(str(number),),
    )


async def write(folder: str) -> None:
    store = FileTokenStore(folder)
    for number in count():
        await store.set(SERVER, credentials(number))
        if number == 1:
            print("ready", flush=True)


async def hold(folder: str, url: str) -> None:
    async with FileTokenStore(folder).lock(url):
        print("ready", flush=True)
        await anyio.sleep_forever()


async def renew(folder: str, url: str, calls: str) -> None:
    """After a line of input, call a tool several times; print what it says."""
    auth = OAuth(store=FileTokenStore(folder), interactive=False)
    print("ready", flush=True)
    await anyio.to_thread.run_sync(sys.stdin.readline)
    for _ in range(int(calls)):
        async with Client(url, auth=auth, revision="2026-07-28") as client:
            print((await client.call_tool("read")).text, flush=True)


if __name__ == "__main__":
    functions: dict[str, Any] = {"write": write, "hold": hold, "renew": renew}
    anyio.run(functions[sys.argv[1]], *sys.argv[2:])
