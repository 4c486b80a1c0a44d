"""Entries that are described."""

# region first
import json
from typing import Any

from mcpkit import Context, MCPKit, described

app = MCPKit("weather")

# As the API describes itself.
OPERATIONS = json.loads("""[{
    "id": "forecast",
    "summary": "Return the forecast for a city.",
    "parameters": {
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "days": {"type": "integer", "maximum": 7}
        },
        "required": ["city"]
    },
    "result": {
        "type": "object",
        "properties": {"city": {"type": "string"}, "rain": {"type": "array"}},
        "required": ["rain"]
    }
}]""")


async def request(operation: str, arguments: dict[str, Any]) -> Any:
    """Stands for a request to the API."""
    return {"city": arguments["city"], "rain": [0.2] * arguments.get("days", 1)}


def tool_for(operation: dict[str, Any]) -> described.DescribedEntry:
    async def call(arguments: dict[str, Any], ctx: Context) -> Any:
        return await request(operation["id"], arguments)

    return described.tool(
        call,
        name=operation["id"],
        description=operation["summary"],
        input_schema=operation["parameters"],
        output_schema=operation["result"],
        timeout=10,
    )


for each in OPERATIONS:
    app.add(tool_for(each))
# endregion first


# region prompt
async def pack(arguments: dict[str, str], ctx: Context) -> str:
    return f"What do I pack for a week in {arguments['city']}?"


async def complete(
    name: str, typed: str, others: Any, ctx: Context
) -> list[str]:
    cities = ["Bergen", "Oslo"]
    return [each for each in cities if each.startswith(typed)]


city = described.Argument("city", "City", "Where you go.", required=True)
app.add(
    described.prompt(
        pack,
        name="pack",
        description="What to pack for a week.",
        arguments=[city],
        complete=complete,
    )
)
# endregion prompt


# region question
async def locate(arguments: dict[str, Any], ctx: Context) -> Any:
    params = {
        "message": "Where are you?",
        "requestedSchema": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
        },
    }
    question = described.Question("elicitation/create", params)
    [answer] = await ctx.gather(question)
    return answer.get("content", {}).get("city", "unknown")


app.add(
    described.tool(
        locate,
        name="locate",
        description="Ask the user for the city.",
        input_schema={"type": "object"},
    )
)
# endregion question
