"""The files of one folder, and nothing outside of it; knows nothing of MCP."""

from pathlib import Path

MOST_FILES = 200
MOST_BYTES = 50_000


class WorkspaceError(Exception):
    """A file that cannot be had or made; the message may be shown to anybody."""


class Workspace:
    """What may be seen of a folder: files whose names do not begin with a dot.

    Args:
        folder: One that the user has allowed.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()

    def list_files(self) -> list[str]:
        """The paths of the files, relative to the folder, at most `MOST_FILES`."""
        found: list[str] = []
        for path in sorted(self.folder.rglob("*")):
            inner = path.relative_to(self.folder)
            hidden = any(part.startswith(".") for part in inner.parts)
            if not hidden and path.is_file() and self._is_inside(path):
                found.append(inner.as_posix())
            if len(found) == MOST_FILES:
                break
        return found

    def read(self, name: str, most: int = MOST_BYTES) -> str:
        """The beginning of a file.

        Args:
            name: As `list_files` gives it.
            most: How many bytes are read.

        Raises:
            WorkspaceError: There is no such file in the folder.
        """
        path = self.folder / name
        if not self._is_inside(path) or not path.is_file():
            raise WorkspaceError(f"There is no file {name}.")
        with path.open("rb") as file:
            return file.read(most).decode("utf-8", "replace")

    def save(self, name: str, text: str) -> str:
        """Make a file; one that exists is left as it is.

        Returns:
            Its name.

        Raises:
            WorkspaceError: The name is no plain name, or taken.
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
