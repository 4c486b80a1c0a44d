"""One handler of every kind on mcpkit, over stdio or for `mcpkit run --http`.

Each app offers all of them. `threads` is for `def` handlers, and `principal` and `rate_limit` have
that option of their endpoint set.
"""

from __future__ import annotations

from mcpkit import Context, HttpOptions, HttpRequest, Limits, MCPKit


async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def add_ctx(a: int, b: int, ctx: Context) -> int:
    """Add two numbers, with a context at hand."""
    return a + b


def add_inline(a: int, b: int) -> int:
    """Add two numbers on the event loop."""
    return a + b


def add_def(a: int, b: int) -> int:
    """Add two numbers in a thread."""
    return a + b


async def total() -> str:
    """What 17 and 25 are."""
    return "42"


async def question(a: int, b: int) -> str:
    """Ask for the sum of two numbers."""
    return f"What is {a} + {b}?"


def _sender(request: HttpRequest) -> str:
    # A header that every request has, as a token would be: so all servers get the same bytes.
    return request.headers["host"]


def make(http: HttpOptions | None = None) -> MCPKit:
    """An app with all of them, and options of its endpoint."""
    made: MCPKit = MCPKit("bench", http=http)
    made.add_tool(add)
    made.add_tool(add_ctx)
    made.add_tool(add_inline, inline=True)
    made.add_tool(add_def)
    made.add_resource(total, "sums://total")
    made.add_prompt(question)
    return made


app = make()
threads = make()
principal = make({"principal": _sender})
rate_limit = make({"limits": Limits(rate_limit=1_000_000_000)})

if __name__ == "__main__":
    app.run()
