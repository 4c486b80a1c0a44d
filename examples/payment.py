"""Asks the user before it moves money, and moves it once, on every revision."""

from typing import Annotated

from pydantic import BaseModel, Field

from mcpkit import Accepted, Context, Elicit, MCPKit, ToolError

app = MCPKit("payments", version="1.0", instructions="Pays and closes accounts, with consent.")

LEDGER: list[tuple[str, int]] = []


class Approval(BaseModel):
    """The form for the user."""

    approve: bool
    note: Annotated[str, Field(max_length=80)] = ""


def transfer(account: str, cents: int) -> int:
    """Move the money; return the number of the booking."""
    LEDGER.append((account, cents))
    return len(LEDGER)


@app.tool(destructive=True)
async def pay(account: str, cents: int, ctx: Context) -> str:
    """Pay an amount into an account, after the user has agreed.

    Args:
        account: The number of the account.
        cents: The amount in cents.
    """
    answer = await ctx.elicit(f"Pay {cents / 100:.2f} into {account}?", Approval)
    if not isinstance(answer, Accepted) or not answer.data.approve:
        raise ToolError("The user did not approve the payment.")
    number = await ctx.step("transfer", transfer, account, cents)
    receipt = await ctx.elicit("Where should the receipt go?", ["mail", "screen"])
    where = receipt.data or "nowhere"
    return f"Booking {number}: {cents} cents into {account}, receipt to {where}."


def closing(account: str) -> str:
    """Ask before `close` runs."""
    return f"Close {account} for good?"


@app.tool(destructive=True)
async def close(account: str, sure: Annotated[Approval, Elicit(closing)]) -> str:
    """Close an account, after the user has agreed.

    Args:
        account: The number of the account.
    """
    return f"{account} is closed." if sure.approve else f"{account} stays open."


if __name__ == "__main__":
    app.run()
