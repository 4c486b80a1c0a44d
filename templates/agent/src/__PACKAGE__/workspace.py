"""The files of one folder, without MCP. Nothing outside the folder can be read or written."""

from pathlib import Path

MAX_FILES = 200
MAX_BYTES = 50_000


class WorkspaceError(Exception):
    """A file cannot be read or created; the message is safe to show to a client."""


class Workspace:
    """The visible files of a folder: those whose names do not begin with a dot.

    Args:
        folder: A folder that the user shares.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()

    def list_files(self) -> list[str]:
        """Return the paths of the files relative to the folder, at most `MAX_FILES`."""
        found: list[str] = []
        for path in sorted(self.folder.rglob("*")):
            inner = path.relative_to(self.folder)
            hidden = any(part.startswith(".") for part in inner.parts)
            if not hidden and path.is_file() and self._is_inside(path):
                found.append(inner.as_posix())
            if len(found) == MAX_FILES:
                break
        return found

    def read(self, name: str, limit: int = MAX_BYTES) -> str:
        """Return the beginning of a file.

        Args:
            name: A name from `list_files`.
            limit: The largest number of bytes to read.

        Raises:
            WorkspaceError: The folder has no such file.
        """
        path = self.folder / name
        if not self._is_inside(path) or not path.is_file():
            raise WorkspaceError(f"There is no file {name}.")
        with path.open("rb") as file:
            return file.read(limit).decode("utf-8", "replace")

    def save(self, name: str, text: str) -> str:
        """Create a file; an existing one is not changed.

        Returns:
            Its name.

        Raises:
            WorkspaceError: The name contains a path, or the file exists.
        """
        if Path(name).name != name or name.startswith("."):
            raise WorkspaceError(f"{name} is not the plain name of a file.")
        try:
            with (self.folder / name).open("x", encoding="utf-8") as file:
                file.write(text)
        except FileExistsError:
            raise WorkspaceError(f"There is a file {name} already.") from None
        return name

    def _is_inside(self, path: Path) -> bool:
        # Links may lead out of the folder.
        return path.resolve().is_relative_to(self.folder)
