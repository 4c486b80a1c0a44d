"""The work of the tasks, without MCP."""

import os
import time
from dataclasses import dataclass
from pathlib import Path

GROUPS = {
    "members": [f"member{number}@example.com" for number in range(1, 6)],
    "friends": ["ann@example.com", "bob at example.com"],
}


class MailingError(Exception):
    """A mailing cannot be sent; the message says why."""


@dataclass(frozen=True)
class Draft:
    """A message without its recipient."""

    subject: str
    text: str


def recipients(group: str) -> list[str]:
    """Return the addresses of a group.

    Raises:
        MailingError: The group is unknown.
    """
    if group not in GROUPS:
        raise MailingError(f"Unknown group {group!r}; the groups are {', '.join(GROUPS)}.")
    return GROUPS[group]


def deliver(draft: Draft, address: str, key: str) -> str:
    """Write a message into the outbox under its unique key; return the name of the file."""
    outbox = Path(os.environ.get("OUTBOX", "outbox"))
    outbox.mkdir(exist_ok=True)
    file = outbox / f"{key}.txt"
    file.write_text(f"To: {address}\nSubject: {draft.subject}\n\n{draft.text}\n", encoding="utf-8")
    time.sleep(0.01)  # stands for a slow mail server
    return file.name
