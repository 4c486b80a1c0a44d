"""A shop with an API for programs and tools for models, which share services and users.

Shows an app attached to FastAPI: both sides use the same functions, the host's middleware finds
out who asks, and a dependency of mcpkit hands that user to tools. Needs ``pip install fastapi``.

    uvicorn --app-dir examples shop_api:api

The API is at /products and /orders, its documentation at /docs, the tools are at /mcp. All of them
want the header ``Authorization: Bearer ada-secret``.
"""

import itertools
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any

import fastapi
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.authentication import (
    AuthCredentials,
    AuthenticationBackend,
    AuthenticationError,
    SimpleUser,
)
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.requests import HTTPConnection

from mcpkit import Context, Depends, MCPKit, ToolError

TOKENS = {"ada-secret": "ada", "bob-secret": "bob"}
"""A real shop hashes them in a database, or verifies signed ones."""

# --- the services: they know neither HTTP nor MCP -------------------------------------------------


class ShopError(Exception):
    """An order cannot be taken; the message is for the customer."""


class Product(BaseModel):
    """Something to buy."""

    name: str
    cents: int
    stock: int


class Order(BaseModel):
    """Something that was bought."""

    number: int
    product: str
    quantity: Annotated[int, Field(ge=1, le=100)]
    cents: int


@dataclass
class Shop:
    """The shop; a database would stand behind it."""

    products: dict[str, Product] = field(default_factory=dict[str, Product])
    orders: dict[str, list[Order]] = field(default_factory=dict[str, list[Order]])
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def find(self, text: str) -> list[Product]:
        """Products whose name contains a text."""
        return [each for each in self.products.values() if text.lower() in each.name]

    def order(self, user: str, name: str, quantity: int) -> Order:
        """Buy something.

        Raises:
            ShopError: There is no such product, or not enough of it.
        """
        product = self.products.get(name)
        if product is None:
            raise ShopError(f"There is no {name}; there is {', '.join(self.products)}.")
        if product.stock < quantity:
            raise ShopError(f"There are only {product.stock} of {name} left.")
        product.stock -= quantity
        cents = quantity * product.cents
        made = Order(number=next(self.numbers), product=name, quantity=quantity, cents=cents)
        self.orders.setdefault(user, []).append(made)
        return made

    def orders_of(self, user: str) -> list[Order]:
        """Return the orders of a user."""
        return self.orders.get(user, [])


shop = Shop()
for each in (("tea", 450, 10), ("kettle", 2400, 2), ("mug", 1200, 5)):
    shop.products[each[0]] = Product(name=each[0], cents=each[1], stock=each[2])

# --- for models -----------------------------------------------------------------------------------

app = MCPKit(
    "shop", version="1.0", instructions="Search for products before you order. Prices are in cents."
)


def customer(ctx: Context) -> str:
    """Return the user that the middleware below has found, or on stdio the local user."""
    return ctx.http.user.display_name if ctx.http else "local"


async def service() -> AsyncGenerator[Shop, None]:
    """The shop. What it refuses becomes an error that the model can read."""
    try:
        yield shop
    except ShopError as error:
        raise ToolError(str(error)) from None


User = Annotated[str, Depends(customer)]
Service = Annotated[Shop, Depends(service)]
Limit = Annotated[int, Field(ge=1, le=100)]
Quantity = Annotated[int, Field(ge=1, le=100)]


@app.tool(read_only=True)
async def search_products(services: Service, text: str = "", limit: Limit = 20) -> list[Product]:
    """Find products by a part of their name.

    Args:
        text: In lower case; everything if empty.
        limit: The largest number of results.
    """
    return services.find(text)[:limit]


@app.tool(destructive=False)
async def order(product: str, user: User, services: Service, quantity: Quantity = 1) -> Order:
    """Buy something for the user.

    Args:
        product: Its name, as search_products gives it.
        quantity: How many.
    """
    return services.order(user, product, quantity)


@app.tool(read_only=True)
async def my_orders(user: User, services: Service) -> list[Order]:
    """List what the user has bought."""
    return services.orders_of(user)


# --- for programs ---------------------------------------------------------------------------------


class Tokens(AuthenticationBackend):
    """Finds out who asks; in front of the API and the tools alike."""

    async def authenticate(self, conn: HTTPConnection) -> tuple[AuthCredentials, SimpleUser]:
        """The user behind a bearer token."""
        scheme, _, token = conn.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or token not in TOKENS:
            raise AuthenticationError("a bearer token is needed")
        return AuthCredentials(["customer"]), SimpleUser(TOKENS[token])


def refuse(_: HTTPConnection, error: Exception) -> JSONResponse:
    """Answer requests without a token."""
    challenge = {"WWW-Authenticate": "Bearer"}
    return JSONResponse({"detail": str(error)}, status_code=401, headers=challenge)


api = fastapi.FastAPI(title="Shop")
api.add_middleware(AuthenticationMiddleware, backend=Tokens(), on_error=refuse)
app.attach(api, "/mcp")


class Wish(BaseModel):
    """The body of an order."""

    product: str
    quantity: Quantity = 1


@api.get("/products")
async def get_products(text: str = "") -> list[Product]:
    """Find products."""
    return shop.find(text)


@api.post("/orders", status_code=201)
async def post_order(wish: Wish, request: fastapi.Request) -> Order:
    """Buy something."""
    return shop.order(request.user.display_name, wish.product, wish.quantity)


@api.get("/orders")
async def get_orders(request: fastapi.Request) -> list[Order]:
    """List one's orders."""
    return shop.orders_of(request.user.display_name)


@api.exception_handler(ShopError)
async def conflict(_: fastapi.Request, error: Exception) -> Any:
    """What the shop refuses, in the words of HTTP."""
    return JSONResponse({"detail": str(error)}, status_code=409)


if __name__ == "__main__":
    app.run()
