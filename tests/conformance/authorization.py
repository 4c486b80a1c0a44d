"""Has the official conformance suite walk through our authorization server, with a browser of ours.

    python -m tests.conformance.authorization FOLDER

The suite's command ``conformance`` has to be on the path. Its results come into the folder; the
exit code is that of the suite.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import Final

from mcpkit import MCPKit
from mcpkit.auth import AuthorizationServer, RegisteredClient, Users, hash_password
from tests.auth.browser import Browser
from tests.docs.pages import free_port
from tests.uvicorns import listen, running

PASSWORD: Final = "the password of Ada"
LONGEST_S: Final = 60


def main(folder: str) -> int:
    port = free_port()
    back = f"http://127.0.0.1:{port}/callback"
    login = Users({"ada": hash_password(PASSWORD)})
    client = RegisteredClient("suite", (back,), name="The suite")
    listener = listen()
    origin = f"http://127.0.0.1:{listener.getsockname()[1]}"
    server = AuthorizationServer(login, clients=[client])
    app = MCPKit("conformance", auth=server).asgi(public_url=f"{origin}/mcp")
    command = ["conformance", "authorization", "--url", origin, "--client-id", "suite"]
    command += ["--resource", f"{origin}/mcp", "--port", str(port), "--output-dir", folder]
    with (
        running(app, listener),
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as suite,
    ):
        assert suite.stdout is not None
        too_long = threading.Timer(LONGEST_S, suite.kill)
        too_long.start()
        try:
            for line in suite.stdout:
                print(line, end="", flush=True)
                if line.startswith(f"{origin}/authorize?"):
                    browser = Browser({"name": "ada", "password": PASSWORD}, "allow")
                    browser.open(browser.walk(line.strip(), back))
            return suite.wait(LONGEST_S)
        finally:
            too_long.cancel()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
