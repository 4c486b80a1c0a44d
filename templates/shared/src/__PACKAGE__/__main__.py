"""Serves on stdio: `python -m __PACKAGE__`."""

from .server import app


def main() -> None:
    """Serve until the client leaves."""
    app.run()


if __name__ == "__main__":
    main()
