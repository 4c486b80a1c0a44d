"""Streamable HTTP: every revision at one endpoint, as an ASGI application or served by uvicorn."""
