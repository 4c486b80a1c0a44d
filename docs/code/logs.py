"""A server that logs to stderr and to the client."""

# region server
import logging

from mcpkit import Context, MCPKit

app = MCPKit("kitchen")
log = logging.getLogger("kitchen")


@app.tool
async def cook(dish: str, ctx: Context) -> str:
    """Cook a dish."""
    log.info("cooking %s", dish)
    if dish == "ice":
        log.warning("%s melts", dish)
    ctx.info(f"the pan is hot for {dish}")
    return f"{dish} is ready."


# endregion server
# region hidden
@app.tool
async def burn(dish: str) -> str:
    """Burn a dish."""
    raise ValueError(f"{dish} is black")


# endregion hidden
# region levels
@app.tool
async def taste(dish: str, ctx: Context) -> str:
    """Taste a dish."""
    ctx.debug("opened the mouth")
    ctx.warning("too much salt", logger="tongue")
    ctx.error({"dish": dish, "salt": 12})
    return "Edible."


# endregion levels
if __name__ == "__main__":
    app.run()
