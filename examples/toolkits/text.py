"""Tools that count and change text exactly, which models are bad at."""

import difflib
import re
import unicodedata

from typing_extensions import TypedDict

from mcpkit import ToolError, tool


class Counts(TypedDict):
    """How long a text is."""

    characters: int
    words: int
    lines: int


class Text:
    """Text tools.

    Args:
        max_length: Longer texts are refused.
    """

    def __init__(self, max_length: int) -> None:
        self.max_length = max_length

    @tool(read_only=True)
    def count(self, text: str) -> Counts:
        """Count characters, words and lines.

        Args:
            text: What to count.
        """
        self._check(text)
        return Counts(characters=len(text), words=len(text.split()), lines=len(text.splitlines()))

    @tool(read_only=True)
    def slug(self, text: str) -> str:
        """Make a name for URLs out of a title: ``Être à l'heure`` becomes ``etre-a-l-heure``.

        Args:
            text: The title.
        """
        self._check(text)
        plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
        made = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")
        if not made:
            raise ToolError("The text has no letters or digits that fit into a URL.")
        return made

    @tool(read_only=True)
    def diff(self, old: str, new: str) -> str:
        """Show how two texts differ, line by line, in the unified format.

        Args:
            old: The text before.
            new: The text after.
        """
        self._check(old)
        self._check(new)
        lines = difflib.unified_diff(old.splitlines(), new.splitlines(), "old", "new", lineterm="")
        return "\n".join(lines) or "There is no difference."

    def _check(self, text: str) -> None:
        if len(text) > self.max_length:
            raise ToolError(f"The text has {len(text)} characters; {self.max_length} are allowed.")
