"""``mcpkit migrate``: a server of another library or an earlier mcpkit, rewritten."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import typer

from mcpkit._utils.targets import module_at
from mcpkit._utils.text import escape_control
from mcpkit.cli._install.config import difference, read, write
from mcpkit.cli._options import argument, flag
from mcpkit.cli._run.files import files_below
from mcpkit.cli._terminal import BAD_NEWS, FAILED, console, fail, note, print_difference


def migrate(
    paths: list[Path] = argument(
        "Python files, and folders whose Python files are rewritten", "PATH..."
    ),
    write_: bool = flag("Change the files, instead of showing how", "--write"),
    no_import: bool = flag("Do not import what was written", "--no-import"),
) -> None:
    """Rewrite a server of FastMCP 2 to 4, of the official SDK 1 or 2, or of an earlier mcpkit.

    Imports, options, decorators, uses of the context, results, and run calls are rewritten;
    comments and layout are kept. Code that needs your decision gets a comment that begins with
    "# mcpkit migrate:", and is listed with the section of the migration guide. Without --write
    nothing is changed, and the difference is shown.

    With --write, a file that makes an app is imported afterwards, in a process of its own; without
    it nothing of a file is executed.

    The exit code is 0 if all is rewritten, 1 if something is left to you or does not import, and 2
    if a file cannot be read or written. Needs pip install "mcpkit[migrate]".

    \b
    Examples:
      mcpkit migrate server.py
      mcpkit migrate server.py --write
      mcpkit migrate src/ tests/ --write
    """
    try:
        from mcpkit.cli._migrate.rewrite import migrate as rewritten
    except ModuleNotFoundError as error:
        if error.name != "libcst":
            raise
        fail('mcpkit migrate needs LibCST: pip install "mcpkit[migrate]"')
    from libcst import ParserSyntaxError

    failed = False
    changed = 0
    left: list[str] = []
    written: list[Path] = []
    for path in _files(paths):
        try:
            source = read(path)
            if source is None:
                raise ValueError("there is no such file")
            made = rewritten(source)
            if made.text != source:
                changed += 1
                if write_:
                    write(path, made.text, source, private=False, backup=False)
                    written += [path] if not no_import and _MAKES_APP.search(made.text) else []
                else:
                    print_difference(difference(source, made.text, str(path)))
        except (ParserSyntaxError, RecursionError, OSError, ValueError) as error:
            failed = True
            note(f"{path} cannot be rewritten: {_reason(error)}")
            continue
        for each in made.remarks:
            place = f"{path}:{each.line}" if write_ else path
            left.append(f"{place}: {each.text}  ({each.guide})")
    _sum_up(changed, left, write_)
    broken = False
    for path in written:
        why = _failure(path)
        broken = broken or why != ""
        told = f"does not import: {why}; see the marks, or install missing packages"
        note(f"{path} {told if why else 'was imported, without errors'}")
    if failed:
        raise typer.Exit(FAILED)
    if left or broken:
        raise typer.Exit(BAD_NEWS)


def _reason(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deeply; split its longest expression"
    return " ".join((getattr(error, "strerror", None) or str(error)).split())


_MAKES_APP: Final = re.compile(r"\bMCPKit\w*\(")
_IMPORT: Final = "import sys; sys.path.insert(0, sys.argv[1]); __import__(sys.argv[2])"
_IMPORT_S: Final = 30.0
"""Seconds that the import of a file may take."""


def _failure(path: Path) -> str:
    """Import a file in a process of its own; return why that fails, or nothing."""
    root, name = module_at(path.resolve())
    command = [sys.executable, "-B", "-c", _IMPORT, str(root), name]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_IMPORT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return f"it takes more than {_IMPORT_S:g} s"
    last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
    return "".join(last) or f"exit code {done.returncode}" if done.returncode else ""


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            # A link may lead out of the folder.
            yield from (each for each in files_below(path, (".py",)) if not each.is_symlink())
        else:
            yield path


def _sum_up(changed: int, left: Sequence[str], wrote: bool) -> None:
    from rich.text import Text

    if left:
        console().print(Text("Left to you:", style="bold"))
        for each in left:
            console().print(Text(f"  {escape_control(each)}"), soft_wrap=True)
    files = "1 file" if changed == 1 else f"{changed} files"
    if not changed:
        note("there is nothing to rewrite" if not left else "nothing else is to be rewritten")
    elif wrote:
        note(f"{files} rewritten")
    else:
        note(f"nothing has been changed; --write rewrites {files}")
