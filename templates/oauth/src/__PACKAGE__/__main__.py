"""Serves over HTTP, with the login in front: `python -m __PACKAGE__`."""

import sys

from mcpkit.errors import MissingEnvironment

from .auth import http_options
from .server import app
from .settings import read_settings


def main() -> None:
    """Serve until Ctrl-C, with settings from the environment."""
    try:
        app.check_environment()
        settings = read_settings()
        app.run("http", host=settings.host, port=settings.port, **http_options(settings))
    except (OSError, ValueError, MissingEnvironment) as error:
        sys.exit(f"__PROJECT__: {error}")


if __name__ == "__main__":
    main()
