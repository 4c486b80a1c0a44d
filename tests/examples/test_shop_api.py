"""examples/shop_api.py: one shop behind an API and behind tools, and it knows who asks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from mcpkit.errors import ConnectionClosed
from mcpkit.testing import REVISIONS, TestClient
from tests.examples.host import EXAMPLES, call, example, refused
from tests.web import calling, hosted_in


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Of the shop."""
    with hosted_in(EXAMPLES, "shop_api", "api") as url:
        yield url


def bearer(user: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {user}-secret"}


def get(url: str, user: str) -> Any:
    return httpx2.get(url, headers=bearer(user), timeout=30).json()


def stock_of(url: str, product: str) -> int:
    (found,) = get(f"{url}/products?text={product}", "ada")
    stock: int = found["stock"]
    return stock


@pytest.mark.parametrize("revision", REVISIONS[1:])
def test_what_a_model_buys_is_in_the_api(url: str, revision: str) -> None:
    before = stock_of(url, "tea")
    with calling(url, bearer("ada"), revision=revision) as ada:
        bought = call(ada, "order", product="tea", quantity=2)
    assert {**bought, "number": 0} == {"number": 0, "product": "tea", "quantity": 2, "cents": 900}
    assert get(f"{url}/orders", "ada")[-1] == bought
    assert stock_of(url, "tea") == before - 2


def test_customers_see_their_own_orders_whatever_they_were_made_with(url: str) -> None:
    made = httpx2.post(f"{url}/orders", json={"product": "mug"}, headers=bearer("bob"), timeout=30)
    assert made.status_code == 201
    with calling(url, bearer("ada")) as ada, calling(url, bearer("bob")) as bob:
        bought = call(ada, "order", product="mug")
        assert bought in call(ada, "my_orders")
        assert call(bob, "my_orders")[-1] == made.json()
        said = refused(ada, "order", product="tea", user="bob")
    assert said == "user: unknown argument; known: product, quantity"


@pytest.mark.parametrize(
    ("wish", "said", "status"),
    [
        ({"product": "kettle", "quantity": 3}, "There are only 2 of kettle left.", 409),
        ({"product": "tea", "quantity": 0}, "quantity: ", 422),
    ],
)
def test_both_refuse_the_same_orders(
    url: str, wish: dict[str, Any], said: str, status: int
) -> None:
    with calling(url, bearer("ada")) as ada:
        assert refused(ada, "order", **wish).startswith(said)
    answered = httpx2.post(f"{url}/orders", json=wish, headers=bearer("ada"), timeout=30)
    assert answered.status_code == status


@pytest.mark.parametrize("headers", [{}, bearer("eve"), {"Authorization": "Basic ada-secret"}])
def test_there_is_no_access_without_a_token(url: str, headers: dict[str, str]) -> None:
    for method, path in (("GET", "/products"), ("POST", "/mcp")):
        answered = httpx2.request(method, url + path, headers=headers, timeout=30)
        assert answered.status_code == 401
        assert answered.headers["www-authenticate"] == "Bearer"
    with (
        pytest.raises(ConnectionClosed, match="401"),
        calling(url, headers),
    ):
        pass


def test_on_stdio_the_user_is_local() -> None:
    with TestClient(example("shop_api.py")) as client:
        client.call_tool("order", {"product": "tea"})
        assert [each["product"] for each in call(client, "my_orders")] == ["tea"]
