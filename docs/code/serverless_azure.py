"""A custom handler of Azure Functions, which the host of the app starts."""

import os

from mcpkit import Limits, MCPKit

app = MCPKit("trips", limits=Limits(request_timeout=200))


@app.tool(read_only=True)
def distance(start: str, end: str) -> float:
    """Return the distance of two towns in kilometres."""
    return 12.5 if start != end else 0.0


if __name__ == "__main__":
    app.run(
        "http",
        port=int(os.environ["FUNCTIONS_CUSTOMHANDLER_PORT"]),
        allowed_hosts=[os.environ["WEBSITE_HOSTNAME"].partition(":")[0]],
        streaming=False,
    )
