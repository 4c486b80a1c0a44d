"""A provider: tools and resources from a table that changes."""

# region first
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from mcpkit import (
    Context,
    MCPKit,
    ResourceResult,
    TextResourceContents,
    described,
)
from mcpkit.providers import Provider, ProviderContext

REPORTS = {"sales": "12 books sold", "stock": "3 books left"}


class Reports(Provider):
    """The saved reports: for each a tool and a resource."""

    @asynccontextmanager
    async def lifespan(
        self, context: ProviderContext
    ) -> AsyncGenerator[None, None]:
        context.replace(
            [entry for name in REPORTS for entry in self.entries(name)]
        )
        yield

    def entries(self, name: str) -> list[Any]:
        async def run(arguments: dict[str, Any], ctx: Context[Any]) -> str:
            return REPORTS[name]

        async def read(uri: str, ctx: Context[Any]) -> ResourceResult:
            return ResourceResult([TextResourceContents(uri, REPORTS[name])])

        tool = described.tool(
            run,
            name=name,
            description=f"Run the report {name}.",
            input_schema={"type": "object", "additionalProperties": False},
            read_only=True,
        )
        uri = f"reports://{name}"
        return [
            tool,
            described.resource(
                read, uri, name=name, description=f"The {name}."
            ),
        ]


app = MCPKit("shop")
app.include(Reports(), prefix="report")
# endregion first


# region transform
def for_readers(entry: Any) -> Any:
    """Leave out the stock, and rename the sales."""
    if entry.name == "stock":
        return None
    entry.title = f"{entry.name.title()} of the week"
    return entry


readers = MCPKit("readers")
readers.include(
    Reports(), prefix="report", tags=["reports"], transform=for_readers
)
# endregion transform

# region many
ARCHIVE = [f"archive://{year}" for year in range(1900, 2026)]


class Archive(Provider):
    """A resource for each year, which are listed page by page."""

    base = "archive://"

    def attach(self, context: ProviderContext) -> None:
        context.replace(
            [
                described.template(
                    self.read,
                    "archive://{year}",
                    name="year",
                    description="The books of a year.",
                )
            ]
        )

    async def resources(
        self, after: str, limit: int | None, context: Context[Any]
    ) -> list[described.DescribedEntry]:
        found = [uri for uri in ARCHIVE if uri > after][:limit]
        return [
            described.resource(self.read, uri, name=uri[10:]) for uri in found
        ]

    async def read(self, uri: str, ctx: Context[Any]) -> ResourceResult:
        return ResourceResult(
            [TextResourceContents(uri, f"The books of {uri[10:]}")]
        )


app.include(Archive())
# endregion many
