"""Writes reports, which takes a while."""

from anyio import sleep
from mcpkit import Context, MCPKit, TaskSupport

app = MCPKit("reports", tasks="reports.db")


@app.tool(task=TaskSupport(resumable=True))
async def report(pages: int, ctx: Context) -> str:
    """Write a report, and ask for its title."""
    for page in range(1, pages + 1):
        ctx.progress(page, pages, "writing")
        await sleep(0.05)
    title = await ctx.elicit("What is its title?", str)
    return f"{title.data}, {pages} pages"
