"""The same in a Starlette application."""

from starlette.applications import Starlette

from migrated import app

host = Starlette()
app.attach(host, "/mcp")
