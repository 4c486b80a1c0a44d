"""A server with its own command-line flags."""

# region factory
from pathlib import Path

from mcpkit import MCPKit


def make_app(root: Path, read_only: bool = False) -> MCPKit:
    """Make an app that serves a folder."""
    app = MCPKit(f"notes in {root.name}")

    @app.tool(read_only=True)
    def titles() -> list[str]:
        """List the titles of all notes."""
        return sorted(path.stem for path in root.glob("*.md"))

    if not read_only:

        @app.tool
        def write(title: str, text: str) -> None:
            """Write a note."""
            (root / f"{title}.md").write_text(text, encoding="utf-8")

    return app
    # endregion factory
