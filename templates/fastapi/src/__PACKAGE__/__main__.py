"""Serves both on http://127.0.0.1:8000: `python -m __PACKAGE__`."""

import uvicorn

from .main import create_api


def main() -> None:
    """Serve until Ctrl-C."""
    uvicorn.run(create_api(), host="127.0.0.1", port=8000)


if __name__ == "__main__":
    main()
