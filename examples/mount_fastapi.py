"""An app beside an API that uses the same functions: ``uvicorn mount_fastapi:api``."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from fastapi import FastAPI, HTTPException
from pydantic import BaseModel

from mcpkit import MCPKit, ToolError


class Item(BaseModel):
    """Something in the shop."""

    name: str
    cents: int


stock: dict[str, Item] = {}


@asynccontextmanager
async def open_shop(_: object) -> AsyncGenerator[None, None]:
    """Load the stock at startup, and clear it at shutdown."""
    stock.update(tea=Item(name="tea", cents=450), mug=Item(name="mug", cents=1200))
    yield
    stock.clear()


app = MCPKit("shop", lifespan=open_shop)
api = FastAPI(title="Shop")
app.attach(api, "/mcp")


@app.tool(read_only=True)
async def price(name: str) -> Item:
    """Return the price of an item."""
    if name not in stock:
        raise ToolError(f"There is no {name}; there is {', '.join(stock)}.")
    return stock[name]


@api.get("/items/{name}")
async def item(name: str) -> Item:
    """The same for programs that speak HTTP and JSON."""
    try:
        return await price(name)
    except ToolError as error:
        raise HTTPException(404, str(error)) from None
