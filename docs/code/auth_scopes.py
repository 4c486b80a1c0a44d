"""Who may what: scopes, predicates, and what needs none."""

from collections.abc import Mapping
from typing import Any

from mcpkit import MCPKit, Principal

# region scopes
app = MCPKit("files", scopes={"files": ["files:read", "files:write"]})


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
    """Tell whether a file is in the folder of whoever asks."""
    return str(arguments["path"]).startswith(f"{principal.id}/")


@app.tool(scopes=["files:write"], allow=is_own)
def write(path: str, text: str) -> str:
    """Write a file."""
    return f"{len(text)} characters are in {path}."
    # endregion allow
