"""Permissions: scopes, predicates, and a tool without either."""

# region scopes
from collections.abc import Mapping
from typing import Any

from mcpkit import MCPKit, Principal

app = MCPKit("files", scope_hierarchy={"files": ["files:read", "files:write"]})


@app.tool
def formats() -> list[str]:
    """List the formats that files may have."""
    return ["text", "table"]


@app.tool(scopes=["files:read"])
def read(path: str) -> str:
    """Read a file."""
    return f"The contents of {path}."
    # endregion scopes


# region allow
def is_own(principal: Principal, arguments: Mapping[str, Any]) -> bool:
    """Allow files in the folder of the user."""
    return str(arguments["path"]).startswith(f"{principal.id}/")


@app.tool(scopes=["files:write"], allow=is_own)
def write(path: str, text: str) -> str:
    """Write a file."""
    return f"{len(text)} characters are in {path}."
    # endregion allow
