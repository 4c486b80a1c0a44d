"""An app beside a Quart application: ``uvicorn mount_quart:host``."""

# region front
from typing import Any

from mcpkit import MCPKit
from quart import Quart
from starlette.applications import Starlette
from starlette.routing import Mount

app = MCPKit("beside")
quart_app: Any = Quart(__name__)


@app.tool
async def hello() -> str:
    """Greet."""
    return "Hello!"


async def home() -> str:
    return "Quart is here."


quart_app.add_url_rule("/", view_func=home)

host = Starlette(routes=[Mount("/", quart_app)])
app.attach(host, "/mcp")
# endregion front
