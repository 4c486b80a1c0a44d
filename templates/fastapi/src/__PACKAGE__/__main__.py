"""Serves both on http://127.0.0.1:8000: `python -m __PACKAGE__`."""

import sys

import uvicorn
from mcpkit.errors import MissingEnvironment

from .main import create_api
from .server import app


def main() -> None:
    """Serve until Ctrl-C, with settings from the environment."""
    try:
        app.check_environment()
        api = create_api()
    except (ValueError, MissingEnvironment) as error:
        sys.exit(f"__PROJECT__: {error}")
    uvicorn.run(api, host="127.0.0.1", port=8000)


if __name__ == "__main__":
    main()
