from fastmcp import Context, FastMCP
from mcp.types import ToolAnnotations

mcp = FastMCP("shop", dependencies=["httpx"])
STOCK = {"tea": 3}


@mcp.tool(annotations=ToolAnnotations(readOnlyHint=True))
async def look(item: str, ctx: Context) -> int:
    """Return the stock."""
    await ctx.report_progress(1, total=1)
    await ctx.set_state("last", item)
    return STOCK[item]


if __name__ == "__main__":
    mcp.run(transport="streamable-http")
