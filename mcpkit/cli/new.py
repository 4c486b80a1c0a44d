"""``mcpkit new``: write a project to start from.

A template is a folder of `TEMPLATES`; its files, over those that all projects share, become the
project. In their text and in their paths ``__PACKAGE__`` and the like are filled in, so that a
template of Python is Python; a path's ``dot_`` stands for a dot.
"""

from __future__ import annotations

import json
import keyword
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import distribution, version
from pathlib import Path, PurePosixPath
from typing import Annotated, Final, NamedTuple
from unicodedata import normalize
from urllib.parse import urlsplit

import typer

from mcpkit.cli._terminal import INTERRUPTED, fail, is_interactive, prompt, say

__all__ = ["TEMPLATES", "new", "package_of", "problem_of_name", "project", "write"]

_WINDOWS: Final = sys.platform == "win32"
_DEFAULT: Final = "minimal"
_MAX_NAME_CHARS: Final = 50
_MAX_DESCRIPTION_CHARS: Final = 200
_NO_DESCRIPTION: Final = "An MCP server."


class Template(NamedTuple):
    """A kind of project.

    Args:
        about: The kind of project, in one line.
        install: The arguments of ``pip install``.
        steps: The next steps once it is installed: a remark, and a command of the environment.
    """

    about: str
    install: str
    steps: tuple[tuple[str, str], ...]


_DEVELOPED: Final = '-e ".[dev]"'
_TESTED: Final = ("test it", "python -m pytest")


def _server(target: str) -> tuple[tuple[str, str], ...]:
    return (
        ("serve it on stdio, as hosts do", f"mcpkit run {target}"),
        (
            "let Cursor use it (mcpkit install --list names other hosts)",
            f"mcpkit install {target} --client cursor",
        ),
    )


_PACKAGED: Final = (_TESTED, *_server("__PACKAGE__.server:app"))

TEMPLATES: Final[dict[str, Template]] = {
    "minimal": Template(
        "one file, nothing else",
        '"__MCPKIT_REQUIREMENT__"',
        (("test it", "mcpkit check server.py"), *_server("server.py")),
    ),
    "package": Template(
        "a package with tests, CI, Docker and client settings", _DEVELOPED, _PACKAGED
    ),
    "fastapi": Template(
        "a web API and a server for models, over the same functions",
        _DEVELOPED,
        (_TESTED, ("serve it at http://127.0.0.1:8000", "python -m __PACKAGE__")),
    ),
    "agent": Template("asks the user and the model while it works", _DEVELOPED, _PACKAGED),
    "database": Template("SQLite: tools, resources, and safe queries", _DEVELOPED, _PACKAGED),
    "worker": Template("work that takes long, as tasks that survive", _DEVELOPED, _PACKAGED),
    "oauth": Template(
        "a login in front: users, scopes, and data of their own",
        _DEVELOPED,
        (
            _TESTED,
            ("make a user", "python -m __PACKAGE__.users ada"),
            ("serve it at http://127.0.0.1:8000/mcp", "python -m __PACKAGE__"),
        ),
    ),
}
"""Name → template, in the order in which they are offered."""

_NAME_COLUMNS: Final = max(map(len, TEMPLATES))

_SHARED: Final = "shared"
"""The folder of what every template but minimal has."""


def new(
    name: Annotated[
        str | None,
        typer.Argument(help="Of the project: letters, digits, and - _ . between", metavar="NAME"),
    ] = None,
    template: Annotated[
        str | None,
        typer.Option(
            "--template",
            "-t",
            help=f"One of {', '.join(TEMPLATES)} (default: {_DEFAULT})",
            metavar="NAME",
        ),
    ] = None,
    directory: Annotated[
        Path | None,
        typer.Option(
            "--directory", "-d", help="Where to write it (default: ./NAME)", metavar="DIR"
        ),
    ] = None,
    description: Annotated[
        str | None,
        typer.Option("--description", help="What the server is for, in a sentence", metavar="TEXT"),
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Ask nothing, take the defaults")
    ] = False,
) -> None:
    """Write a project to start from; nothing that exists is overwritten.

    In a terminal it asks for what is not given. The templates:

    \b
      minimal   one file, nothing else
      package   a package with tests, CI, Docker and client settings
      fastapi   a web API and a server for models, over the same functions
      agent     asks the user and the model while it works
      database  SQLite: tools, resources, and safe queries
      worker    work that takes long, as tasks that survive
      oauth     a login in front: users, scopes, and data of their own

    \b
    Examples:
      mcpkit new trips
      mcpkit new trips --template package --description "Plans trips." --yes
    """
    try:
        _new(name, template, directory, description, asking=is_interactive() and not yes)
    except (KeyboardInterrupt, typer.Abort):
        say("\nmcpkit: stopped, nothing was written", err=True)
        raise typer.Exit(INTERRUPTED) from None


def _new(
    name: str | None,
    template: str | None,
    directory: Path | None,
    description: str | None,
    *,
    asking: bool,
) -> None:
    problem = None
    if name is not None:
        problem = problem_of_name(name)
    elif not asking:
        problem = "a project needs a name: mcpkit new NAME"
    if template is not None and template not in TEMPLATES:
        problem = problem or f"there is no template {template!r}; there are {', '.join(TEMPLATES)}"
    if description is not None:
        problem = problem or _problem_of_description(description)
    if problem is not None:
        fail(problem)
    chosen = name if name is not None else _ask_name(directory)
    folder = Path(chosen) if directory is None else directory
    _refuse_taken(folder)
    if template is None:
        template = _ask_template() if asking else _DEFAULT
    if description is None:
        description = _ask_description() if asking else _NO_DESCRIPTION
    files = project(chosen, template, description)
    report = _report(chosen, template, folder, list(files))
    try:
        write(folder, files)
    except OSError as error:
        fail(f"cannot write {error.filename or folder}: {error.strerror or error}")
    say(report)


# --- names ----------------------------------------------------------------------------------------

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:[-_.]+[A-Za-z0-9]+)*")
_NEEDED: Final = frozenset(
    [
        "anyio",
        "click",
        "cryptography",
        "fastapi",
        "hatchling",
        "httptools",
        "httpx2",
        "jwt",
        "mcpkit",
        "mypy",
        "pip",
        "pydantic",
        "pydantic_core",
        "pytest",
        "rich",
        "ruff",
        "setuptools",
        "starlette",
        "trio",
        "typer",
        "typing_extensions",
        "uvicorn",
        "uvloop",
    ]
)
_TAKEN: Final = frozenset(["docs", "src", "test", "tests", "venv"])
_DEVICES: Final = frozenset(
    ["con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(1, 10))]
)


def package_of(name: str) -> str:
    """Return the name of the package of a project: ``My-Server`` → ``my_server``."""
    return re.sub(r"[-_.]+", "_", name).lower()


def problem_of_name(name: str) -> str | None:
    """Return the reason why a project cannot have a name; None if it can."""
    if "/" in name or "\\" in name or name in (".", ".."):
        last = re.split(r"[/\\]", name.rstrip("/\\"))[-1]
        example = last if _problem(last) is None else "trips"
        place = _shown(name)
        return f"{name!r} is a path; write: mcpkit new {example} --directory {place}"
    problem = _problem(name)
    if problem is None:
        return None
    plain = normalize("NFKD", name.casefold()).encode("ascii", "ignore").decode()
    like_it = re.sub(r"^[^a-z]+|-$", "", re.sub(r"[^a-z0-9]+", "-", plain))
    longer = f"{like_it[: _MAX_NAME_CHARS - 10].rstrip('-')}-server"
    example = next(each for each in (like_it, longer, "my-server") if _problem(each) is None)
    return f"{problem}; for example {example}"


def _problem(name: str) -> str | None:
    package = package_of(name)
    if not _NAME.fullmatch(name):
        rule = "begin with a letter, then letters and digits, with - _ . between them"
        return f"{name!r} cannot be the name of a project: {rule}"
    if len(name) > _MAX_NAME_CHARS:
        return f"{name!r} is too long: at most {_MAX_NAME_CHARS} characters"
    if keyword.iskeyword(package):
        return f"{name!r} is a word of Python, and nothing of that name can be imported"
    if package in sys.stdlib_module_names:
        return f"{name!r} would hide the module {package} of Python's standard library"
    if package in _NEEDED:
        return f"{name!r} would hide {package}, which projects need"
    if package in _TAKEN or package in _DEVICES:
        return f"{name!r} has a meaning of its own as the name of a folder"
    return None


def _problem_of_description(description: str) -> str | None:
    tidy = _tidy(description)
    if not tidy.isprintable():
        return "the description has characters that cannot be printed"
    if len(tidy) > _MAX_DESCRIPTION_CHARS:
        return f"the description is too long: {len(tidy)} characters of {_MAX_DESCRIPTION_CHARS}"
    return None


def _tidy(description: str) -> str:
    return " ".join(description.split())


# --- questions ------------------------------------------------------------------------------------


def _ask_name(directory: Path | None) -> str:
    suggested = None if directory is None else directory.resolve().name
    if suggested is not None and problem_of_name(suggested) is not None:
        suggested = None
    while True:
        answer = prompt("Name of the project", suggested)
        problem = problem_of_name(answer)
        if problem is None:
            return answer
        say(f"  {problem}", err=True)


def _ask_template() -> str:
    names = list(TEMPLATES)
    say("Templates:", err=True)
    for number, (name, each) in enumerate(TEMPLATES.items(), 1):
        say(f"  {number}  {name:{_NAME_COLUMNS}}  {each.about}", err=True)
    while True:
        answer = prompt("Which one, by number or name", _DEFAULT).lower()
        if answer in TEMPLATES:
            return answer
        if answer.isdecimal() and 1 <= int(answer) <= len(names):
            return names[int(answer) - 1]
        say(f"  a number from 1 to {len(names)}, or {', '.join(names)}", err=True)


def _ask_description() -> str:
    while True:
        answer = prompt("What is the server for, in a sentence", _NO_DESCRIPTION)
        problem = _problem_of_description(answer)
        if problem is None:
            return answer
        say(f"  {problem}", err=True)


# --- rendering ------------------------------------------------------------------------------------

_PLACEHOLDER: Final = re.compile(r"(\"?)__([A-Z]+(?:_[A-Z]+)*)__(\"?)")


def project(name: str, template: str, description: str = _NO_DESCRIPTION) -> dict[str, str]:
    """Return the texts of the files of a new project, by their paths with slashes.

    Args:
        name: One that is allowed; see `new`.
        template: One of `TEMPLATES`.
        description: A sentence; blank is as good as none.

    Raises:
        ValueError: A template has an unknown placeholder.
    """
    values = {
        "PROJECT": name,
        "PACKAGE": package_of(name),
        "DESCRIPTION": _tidy(description) or _NO_DESCRIPTION,
        "MCPKIT_REQUIREMENT": _requirement(),
        "MCPKIT_AUTH_REQUIREMENT": _requirement("[auth]"),
        "VENV_PYTHON": ".venv/Scripts/python.exe" if _WINDOWS else ".venv/bin/python",
    }
    folders = [template] if template == _DEFAULT else [_SHARED, template]
    sources = {path: text for each in folders for path, text in _sources(each).items()}
    files = {
        _renamed(path, values): _filled(text, values, str(path), path.suffix)
        for path, text in sorted(sources.items())
    }
    if _origin() is not None and _PROJECT_FILE in files:
        # Hatchling wants this to be said, because an index would not take the project.
        section = "[tool.hatch.metadata]\nallow-direct-references = true\n\n[tool.hatch.version]"
        files[_PROJECT_FILE] = files[_PROJECT_FILE].replace("[tool.hatch.version]", section)
    return files


_PROJECT_FILE: Final = "pyproject.toml"


def _requirement(extras: str = "") -> str:
    """Return what a project requires, so that it gets the mcpkit that has written it.

    That is a release of an index, or else what this one was installed from.

    Args:
        extras: That it needs, in brackets.
    """
    origin = _origin()
    wanted = f">={_least(version('mcpkit'))}" if origin is None else f" @ {origin}"
    return f"mcpkit{extras}{wanted}"


def _origin() -> str | None:
    """Return the URL that mcpkit was installed from; None if that was an index.

    https://packaging.python.org/en/latest/specifications/direct-url/
    """
    told = json.loads(distribution("mcpkit").read_text("direct_url.json") or "{}")
    url: str = told.get("url", "")
    if not url or "@" in urlsplit(url).netloc:  # or with a password, which is nobody else's
        return None
    if "vcs_info" in told:
        found = told["vcs_info"]
        url = f"{found['vcs']}+{url}@{found['commit_id']}"
    return f"{url}#subdirectory={told['subdirectory']}" if "subdirectory" in told else url


def _least(installed: str) -> str:
    """Return the version a project depends on: the release series that wrote it."""
    released = re.fullmatch(r"(\d+\.\d+)(?:\.\d+)*", installed)
    return released[1] if released else installed


def _sources(name: str) -> dict[PurePosixPath, str]:
    """Return the texts of the files of a template as they are stored, by their paths."""
    package = Path(__file__).parent.parent
    # An installed mcpkit has them inside, a checkout beside.
    folder = next(
        each / name
        for each in (package / "templates", package.parent / "templates")
        if (each / name).is_dir()
    )
    return {
        PurePosixPath(path.relative_to(folder).as_posix()): path.read_text(encoding="utf-8")
        for path in folder.rglob("*")
        # Installers compile what is Python.
        if path.is_file() and "__pycache__" not in path.parts
    }


def _renamed(path: PurePosixPath, values: Mapping[str, str]) -> str:
    parts = [re.sub(r"^dot_", ".", part) for part in path.parts]
    return _filled("/".join(parts), values, str(path))


def _filled(text: str, values: Mapping[str, str], where: str, suffix: str = "") -> str:
    """Fill in the placeholders of a text; one that is a whole string is quoted as a string.

    Raises:
        ValueError: There is no such placeholder.
    """

    def fill(match: re.Match[str]) -> str:
        before, name, after = match.groups()
        if name not in values:
            raise ValueError(f"{where}: there is no placeholder __{name}__")
        if before and after and suffix:
            return _quoted(values[name], suffix)
        return before + values[name] + after

    return _PLACEHOLDER.sub(fill, text)


def _quoted(value: str, suffix: str) -> str:
    """Quote printable characters as Python, TOML and JSON do."""
    # Of Python's quotes formatters want those that need fewer backslashes.
    if suffix == ".py" and value.count('"') > value.count("'"):
        escaped = value.replace("\\", "\\\\").replace("'", "\\'")
        return f"'{escaped}'"
    return json.dumps(value, ensure_ascii=False)


# --- writing --------------------------------------------------------------------------------------


def _refuse_taken(folder: Path) -> None:
    if folder.is_dir():
        try:
            taken = any(folder.iterdir())
        except OSError as error:
            fail(f"cannot look into {folder}: {error.strerror}")
        if taken:
            fail(f"{folder} exists and is not empty; choose another folder with --directory")
    elif os.path.lexists(folder):
        fail(f"{folder} exists and is no folder; choose another one with --directory")


def write(folder: Path, files: Mapping[str, str]) -> None:
    """Write files into a folder, all of them or none.

    Args:
        folder: Empty, or made here, with its parents.
        files: Text by path, with slashes.

    Raises:
        OSError: A file cannot be written; those that were written are gone again.
    """
    made: list[Path] = []
    try:
        for relative, text in files.items():
            path = folder / relative
            for each in reversed(path.parents):
                if not each.exists():
                    made.append(each)
                    each.mkdir(exist_ok=True)
            made.append(path)
            try:
                file = path.open("x", encoding="utf-8", newline="\n")
            except FileExistsError:
                made.remove(path)  # it is somebody else's
                raise
            with file:
                file.write(text)
    except BaseException:
        for each in reversed(made):
            with suppress(OSError):
                if each.is_dir():
                    each.rmdir()
                else:
                    each.unlink()
        raise


# --- what to do next ------------------------------------------------------------------------------


def _report(name: str, template: str, folder: Path, files: list[str]) -> str:
    many = "1 file" if len(files) == 1 else f"{len(files)} files"
    where = "this folder" if _is_here(folder) else _shown(folder)
    lines = [f"Wrote {name} from the template {template}: {many} in {where}.", "", "Next:"]
    lines += [f"  {command}" for command in _setup(template, folder)]
    lines += ["", "Then, to"]
    # A remark has a line of its own: not every shell takes one behind a command.
    for remark, command in TEMPLATES[template].steps:
        filled = _filled(command, {"PACKAGE": package_of(name)}, template)
        lines += [f"  {remark}:", f"    {_in_environment(filled)}"]
    origin = _origin()
    if origin is not None:
        lines += ["", f"It requires mcpkit from where this one came from, {origin}."]
        lines += [f"Once it is on your index, write mcpkit>={_least(version('mcpkit'))} instead."]
    if "README.md" in files:
        lines += ["", "README.md has the rest."]
    return "\n".join(lines)


def _setup(template: str, folder: Path) -> list[str]:
    # Here the quotes are the shell's.
    install = TEMPLATES[template].install.replace("__MCPKIT_REQUIREMENT__", _requirement())
    commands = [f"{_python()} -m venv .venv", _in_environment(f"pip install {install}")]
    return commands if _is_here(folder) else [f"cd {_shown(folder)}", *commands]


def _is_here(folder: Path) -> bool:
    return folder.resolve() == Path.cwd()


def _shown(path: Path | str) -> str:
    """Quote a path for a shell."""
    text = str(path)
    if _WINDOWS:
        return f'"{text}"' if " " in text else text
    return shlex.quote(f"./{text}" if text.startswith("-") else text)


def _in_environment(command: str) -> str:
    return f".venv\\Scripts\\{command}" if _WINDOWS else f".venv/bin/{command}"


def _python() -> str:
    """Return the command of a Python that is new enough: the usual one, or else this one."""
    usual = "py" if _WINDOWS else "python3"
    if shutil.which(usual) is not None:
        question = "import sys; sys.exit(sys.version_info < (3, 10))"
        with suppress(OSError, subprocess.TimeoutExpired):
            asked = subprocess.run([usual, "-c", question], capture_output=True, timeout=10)
            if asked.returncode == 0:
                return usual
    return _shown(sys.executable)
