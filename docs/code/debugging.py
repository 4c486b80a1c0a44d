# region server
"""A server with faults, on purpose."""

from mcpkit import MCPKit

print("reading recipes")
app = MCPKit("kitchen")


@app.tool(read_only=True)
def weigh(grams: int) -> str:
    """Weigh flour.

    Args:
        grams: The weight.
    """
    if grams > 1000:
        raise RuntimeError(f"the scale at /dev/scale0 broke at {grams} g")
    return f"{grams} g of flour."


# endregion server
# region stop
@app.tool(read_only=True)
def knead(minutes: int) -> str:
    """Knead the dough.

    Args:
        minutes: The duration.
    """
    breakpoint()
    return f"Kneaded for {minutes} minutes."


# endregion stop
if __name__ == "__main__":
    app.run()
