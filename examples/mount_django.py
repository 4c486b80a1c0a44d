"""An app beside Django, as in a project's ``asgi.py``: ``uvicorn mount_django:application``."""

# Django has no types of its own, and what it has is not complete.
# pyright: reportMissingTypeStubs=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false

from typing import Any

from django.conf import settings
from django.core.asgi import get_asgi_application
from django.http import HttpRequest, HttpResponse
from django.urls import path, reverse

from mcpkit import MCPKit

# In a project: os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["127.0.0.1", "localhost"])
django = get_asgi_application()

app = MCPKit("articles")
endpoint = app.asgi(path="/mcp")


@app.tool(read_only=True)
def link(number: int) -> str:
    """Return the URL of an article. It runs in a thread, so it may use the ORM.

    Args:
        number: The number of the article.
    """
    return str(reverse("article", args=[number]))


def article(request: HttpRequest, number: int) -> HttpResponse:
    """An ordinary page of the project."""
    return HttpResponse(f"Article {number}".encode())


urlpatterns = [path("articles/<int:number>/", article, name="article")]


async def application(scope: Any, receive: Any, send: Any) -> None:
    """One path, and the lifespan that Django does not know, for the app; the rest for Django."""
    below = scope.get("path", "").removeprefix(scope.get("root_path", "")).rstrip("/")
    for_app = scope["type"] == "lifespan" or below == "/mcp"
    await (endpoint if for_app else django)(scope, receive, send)
