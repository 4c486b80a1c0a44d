"""Serves on stdio: `python -m __PACKAGE__`."""

import sys

from mcpkit.errors import MissingEnvironment

from .server import app


def main() -> None:
    """Serve until the client disconnects."""
    try:
        app.run()
    except MissingEnvironment as error:
        sys.exit(f"__PROJECT__: {error}")


if __name__ == "__main__":
    main()
