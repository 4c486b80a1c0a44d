"""An extension of the protocol: clients look up the terms of a server."""

from typing import Any

from pydantic import BaseModel

from mcpkit import CallNext, Context, Extension, MCPKit, ProtocolError, ToolResult

glossary = Extension("com.example/glossary", settings={"languages": ["en"]})
terms = {"jitter": "how much a delay varies", "quota": "how much one user may have"}


class Definition(BaseModel):
    term: str
    text: str


@glossary.request("glossary/define")
async def define(term: str) -> Definition:
    if term not in terms:
        raise ProtocolError(f"Unknown term: {term}", code=-32602)
    return Definition(term=term, text=terms[term])


@glossary.around("tools/call")
async def name_terms(ctx: Context, call_next: CallNext) -> Any:
    """Tell clients that know the extension which terms they may look up."""
    result = await call_next()
    if isinstance(result, ToolResult) and glossary.declared_by(ctx) is not None:
        result.meta = {**(result.meta or {}), "com.example/terms": sorted(terms)}
    return result


app = MCPKit("network")
app.extend(glossary)


@app.tool
def measure(host: str) -> str:
    """Measure the connection to a host."""
    return f"The jitter of {host} is 3 ms."
