"""Keys of several programs, and functions that verify tokens."""

# region keys
from mcpkit import MCPKit, Principal
from mcpkit.auth import Introspection, Keys

KEYS = Keys(
    {
        "sha256:9f86d081884c7d659a2feaa0c55ad015"
        "a3bf4f1b2b0b822cd15d6c15b0f00a08": Principal(
            "reports", scopes=frozenset({"notes:read"})
        ),
    }
)
# endregion keys

# region introspection
ASKED = Introspection(
    "https://login.example.com/introspect",
    "notes",
    "the secret of this server",
    issuer="https://login.example.com",
    audience="notes",
)
# endregion introspection


# region function
async def look_up(token: str) -> Principal | None:
    """Look a token up in your own table."""
    return {"token-of-ada": Principal("ada")}.get(token)


app = MCPKit("notes", auth=[KEYS, ASKED, look_up])
# endregion function
