"""Users with passwords; the file contains only hashes.

`python -m __PACKAGE__.users ada` adds a user or changes the password, and prints the password.
"""

import json
import re
import secrets
import sys
from pathlib import Path

from mcpkit.auth import hash_password
from pydantic import TypeAdapter, ValidationError

from .settings import data_folder

FILE = "users.json"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def read_users(data: Path) -> dict[str, str]:
    """Return the password hashes of the users by name; empty without a file.

    Args:
        data: The data folder.

    Raises:
        ValueError: The file is malformed.
    """
    path = data / FILE
    if not path.exists():
        return {}
    try:
        return TypeAdapter(dict[str, str]).validate_json(path.read_bytes())
    except ValidationError:
        raise ValueError(f"{path} is not a JSON object of names and hashes") from None


def add_user(data: Path, name: str) -> str:
    """Add a user, or change the password of one.

    Args:
        data: The data folder.
        name: The name of the user.

    Returns:
        The password, which is not stored.

    Raises:
        ValueError: The name is invalid, or the file is malformed.
    """
    if not NAME.fullmatch(name):
        raise ValueError(f"{name!r} is not a valid name: use letters, digits and . _ - inside")
    password = secrets.token_urlsafe(12)
    users = {**read_users(data), name: hash_password(password)}
    path = data / FILE
    path.touch(mode=0o600)
    path.write_text(json.dumps(users, indent=2) + "\n", encoding="utf-8")
    return password


def main() -> None:
    """Add the user named on the command line."""
    if len(sys.argv) != 2:
        sys.exit("usage: python -m __PACKAGE__.users NAME")
    try:
        password = add_user(data_folder(), sys.argv[1])
    except (OSError, ValueError) as error:
        sys.exit(f"__PROJECT__: {error}")
    print(f"The password of {sys.argv[1]} is {password}")


if __name__ == "__main__":
    main()
