"""Notes behind a login with GitHub."""

# region login
import os
from typing import Annotated

from mcpkit import Claim, Context, MCPKit
from mcpkit.auth import (
    AuthorizationServer,
    LoginRefused,
    UpstreamLogin,
    User,
    Users,
)

app = MCPKit(
    "notes",
    auth=AuthorizationServer(
        login=UpstreamLogin(
            "github",
            client_id=os.environ["GITHUB_CLIENT_ID"],
            client_secret=os.environ["GITHUB_CLIENT_SECRET"],
            allow=["ada", "grace"],
        ),
        store="logins.db",
    ),
    http={"public_url": "https://notes.example.com/mcp"},
)
# endregion login


# region claim
@app.tool
async def greet(login: Annotated[str, Claim("login")]) -> str:
    """Greet the user by their GitHub name."""
    return f"Hello, {login}!"
    # endregion claim


# region upstream
@app.tool
async def repositories(ctx: Context) -> list[str]:
    """List the repositories of the user."""
    assert ctx.principal is not None
    assert ctx.principal.upstream is not None
    try:
        token = await ctx.principal.upstream.token()
    except LoginRefused:
        return []  # GitHub has ended the login: the next call is refused
    return await ask_github("/user/repos", token)


async def ask_github(path: str, token: str) -> list[str]:
    """Stand for a request to GitHub."""
    return [f"{path} with a token of {len(token)} characters"]
    # endregion upstream


# region allow
ROLES = {
    "ada": None,  # whatever she allows
    "grace": ["notes:read"],
}


async def employees(user: User) -> bool:
    """Allow the users of your directory."""
    return user.claims.get("department") == "research"


CHOICES = [
    UpstreamLogin(
        "https://login.example.com",
        client_id="notes",
        client_secret=os.environ["GITHUB_CLIENT_SECRET"],
        allow=employees,
    ),
    UpstreamLogin("github", client_id="notes", client_secret="…", allow=ROLES),
]
# endregion allow

# region page
GUESTS = Users(
    {
        "guest": (
            os.environ["GUEST_HASH"],
            User("guest", "A guest", scopes=frozenset({"notes:read"})),
        )
    }
)
# endregion page
