"""The context: facts about the request, progress, resources."""

# region facts
from typing import Any

from mcpkit import Context, MCPKit, SyncContext

app = MCPKit("context")


@app.tool
async def about(ctx: Context) -> dict[str, Any]:
    """Describe this request."""
    return {
        "revision": ctx.revision,
        "method": ctx.method,
        "can ask for forms": ctx.client.supports("elicitation", "form"),
        "over HTTP": ctx.http is not None,
    }


# endregion facts
# region progress
@app.tool
def crunch(rows: int, ctx: SyncContext) -> int:
    """Go through rows, in a thread."""
    done = 0
    for number in range(1, rows + 1):
        if ctx.cancelled:
            break
        done += 1
        ctx.progress(number, rows, f"row {number}")
    ctx.info(f"went through {done} rows")
    return done


# endregion progress
# region read
@app.resource("context://motto")
def motto() -> str:
    """A few words."""
    return "Say it once."


@app.tool
async def shout(ctx: Context) -> str:
    """Return the motto in capitals."""
    (contents,) = await ctx.read_resource("context://motto")
    return getattr(contents, "text", "").upper()


# endregion read
if __name__ == "__main__":
    app.run()
