"""Everything that can go wrong, on purpose."""

# region tool
from mcpkit import MCPKit, ProtocolError, ResourceNotFound, ToolError

app = MCPKit("errors")


@app.tool
def withdraw(cents: int) -> str:
    """Take money out."""
    if cents > 10_000:
        raise ToolError("At most 100 euros at once. Try a smaller amount.")
    if cents < 0:
        raise ValueError(f"secret details about account 12 and {cents}")
    return f"Here are {cents / 100:.2f} euros."


# endregion tool
# region shown
@app.tool(expose_errors=(LookupError, TimeoutError))
def balance(number: int) -> int:
    """Return the balance of an account."""
    if number != 12:
        raise LookupError(f"there is no account {number}, only 12")
    return 100


# endregion shown
# region resource
@app.resource("accounts://{number}")
def account(number: int) -> str:
    """The state of an account."""
    if number != 12:
        raise ResourceNotFound()
    return "100.00"


# endregion resource
# region protocol
@app.tool
def vault() -> str:
    """Open the vault."""
    raise ProtocolError(
        "The vault is closed on Sundays.", code=4001, data={"opens": "Monday"}
    )


# endregion protocol
if __name__ == "__main__":
    app.run()
