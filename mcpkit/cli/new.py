"""``mcpkit new``: write a project to start from.

A project has the files of its template and those of the folder ``shared``. Placeholders such as
``__PACKAGE__`` are filled in, in texts and paths, so that a Python file of a template is valid
Python; ``dot_`` at the start of a path's part means a dot. Folders named ``skills``, and the lines
behind ``# skill:``, are for projects with a skill.
"""

from __future__ import annotations

import json
import keyword
import re
import shlex
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib.metadata import distribution, version
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import typer

from mcpkit.cli._options import argument, flag, option
from mcpkit.cli._terminal import INTERRUPTED, fail, is_interactive, prompt, say

_WINDOWS: Final = sys.platform == "win32"
_DEFAULT: Final = "minimal"
_NO_DESCRIPTION: Final = "An MCP server."


class Template(NamedTuple):
    """A kind of project."""

    about: str  # in one line
    install: str = '-e ".[dev]"'  # the arguments of pip install
    steps: tuple[tuple[str, str], ...] = ()  # a remark, and a command of the environment


_TESTED: Final = ("test it", "python -m pytest")


def _served(target: str, test: tuple[str, str] = _TESTED) -> tuple[tuple[str, str], ...]:
    install = f"mcpkit install {target} --client cursor"
    return (
        test,
        ("serve it on stdio, as hosts do", f"mcpkit run {target}"),
        ("let Cursor use it (mcpkit install --list names other hosts)", install),
    )


_PACKAGED: Final = _served("__PACKAGE__.server:app")

TEMPLATES: Final[dict[str, Template]] = {
    "minimal": Template(
        "one file, nothing else",
        '"__MCPKIT_REQUIREMENT__"',
        _served("server.py", ("test it", "mcpkit check server.py")),
    ),
    "package": Template("a package with tests, CI, Docker and client settings", steps=_PACKAGED),
    "fastapi": Template(
        "a web API and a server for models, over the same functions",
        steps=(_TESTED, ("serve it at http://127.0.0.1:8000", "python -m __PACKAGE__")),
    ),
    "agent": Template("asks the user and the model while it works", steps=_PACKAGED),
    "database": Template("SQLite: tools, resources, and safe queries", steps=_PACKAGED),
    "worker": Template("slow work, as tasks that survive a restart", steps=_PACKAGED),
    "oauth": Template(
        "a login in front: users, scopes, and data of their own",
        steps=(
            _TESTED,
            ("create a user", "python -m __PACKAGE__.users ada"),
            ("serve it at http://127.0.0.1:8000/mcp", "python -m __PACKAGE__"),
        ),
    ),
    "app": Template("a chart in the host, with buttons that call a tool", steps=_PACKAGED),
}
"""Name → template, in the order of the list."""


def new(
    name: str | None = argument("The project: letters, digits, and - _ . between", "NAME", None),
    template: str | None = option(
        f"One of {', '.join(TEMPLATES)} (default: {_DEFAULT})", "--template", "-t", metavar="NAME"
    ),
    directory: Path | None = option(
        "Its folder (default: ./NAME)", "--directory", "-d", metavar="DIR"
    ),
    description: str | None = option("The purpose of the server, in a sentence", metavar="TEXT"),
    skill: bool = flag("Add a skill that teaches agents to use the server", "--skill"),
    yes: bool = flag("Ask nothing, use the defaults", "--yes", "-y"),
) -> None:
    """Write a project to start from; existing files are not overwritten.

    In a terminal it asks for missing values, and lists the templates.

    \b
    Examples:
      mcpkit new trips
      mcpkit new trips --template package --description "Plans trips." --yes
    """
    asking = is_interactive() and not yes
    try:
        if name is None and not asking:
            fail("a project needs a name: mcpkit new NAME")
        name = _value(name, asking, "Name of the project", None, problem_of_name)
        folder = directory or Path(name)
        if folder.is_dir() and any(folder.iterdir()):
            fail(f"{folder} exists and is not empty; choose another folder with --directory")
        if template is None and asking:
            say("Templates:", err=True)
            for each, found in TEMPLATES.items():
                say(f"  {each:{max(map(len, TEMPLATES))}}  {found.about}", err=True)
        template = _value(template, asking, "Template", _DEFAULT, _problem_of_template)
        question = "What is the server for, in a sentence"
        description = _value(
            description, asking, question, _NO_DESCRIPTION, _problem_of_description
        )
        files = project(name, template, description, skill=skill)
        write(folder, files)
        say(_report(name, template, folder, list(files), skill=skill))
    except OSError as error:
        fail(f"cannot write {error.filename or name}: {error.strerror or error}")
    except (KeyboardInterrupt, typer.Abort):
        say("\nmcpkit: stopped, nothing was written", err=True)
        raise typer.Exit(INTERRUPTED) from None


def _value(
    given: str | None,
    asking: bool,
    question: str,
    default: str | None,
    problem_of: Callable[[str], str | None],
) -> str:
    """Return a value that is given, or typed by the user, or else its default."""
    while True:
        value = prompt(question, default) if given is None and asking else given or default or ""
        problem = problem_of(value)
        if problem is None:
            return value
        if given is not None or not asking:
            fail(problem)
        say(f"  {problem}", err=True)


# --- values ---------------------------------------------------------------------------------------


def package_of(name: str) -> str:
    """Return the name of the package of a project: ``My-Server`` → ``my_server``."""
    return re.sub(r"[-_.]+", "_", name).lower()


def problem_of_name(name: str) -> str | None:
    """Return the reason why a name of a project is not allowed; None if it is."""
    package = package_of(name)
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9]*(?:[-_.]+[A-Za-z0-9]+)*", name):
        return (
            f"{name!r} is not a name: use letters and digits, and - _ . between them, after a "
            "letter; --directory chooses the folder"
        )
    if keyword.iskeyword(package):
        why = "is a Python keyword"
    elif package in sys.stdlib_module_names or package == "mcpkit":
        why = f"would hide the module {package}"
    else:
        return None
    return f"{name!r} {why}; choose another name, such as {name}-server"


def _problem_of_template(template: str) -> str | None:
    if template in TEMPLATES:
        return None
    return f"there is no template {template!r}; there are {', '.join(TEMPLATES)}"


def _problem_of_description(description: str) -> str | None:
    is_printable = " ".join(description.split()).isprintable()
    return None if is_printable else "the description has characters that cannot be printed"


# --- rendering ------------------------------------------------------------------------------------

_PLACEHOLDER: Final = re.compile(r"(\"?)__([A-Z]+(?:_[A-Z]+)*)__(\"?)")
_SKILL_LINE: Final = re.compile(r"^# skill: ?(.*\n)", re.MULTILINE)


def project(
    name: str, template: str, description: str = _NO_DESCRIPTION, *, skill: bool = False
) -> dict[str, str]:
    """Return the texts of the files of a new project, by their paths with slashes."""
    values = {
        "PROJECT": name,
        "PACKAGE": package_of(name),
        "DESCRIPTION": " ".join(description.split()) or _NO_DESCRIPTION,
        "SLUG": re.sub(r"[-_.]+", "-", name).lower()[:58].rstrip("-"),
        "MCPKIT_REQUIREMENT": _requirement("[skills]" if skill else ""),
        "MCPKIT_AUTH_REQUIREMENT": _requirement("[auth,skills]" if skill else "[auth]"),
        "VENV_PYTHON": ".venv/Scripts/python.exe" if _WINDOWS else ".venv/bin/python",
    }
    folder = Path(__file__).parents[1] / "templates"
    if not folder.is_dir():  # in a checkout
        folder = Path(__file__).parents[2] / "templates"
    files: dict[str, str] = {}
    shared = [] if template == _DEFAULT else [folder / "shared"]
    for root in (*shared, folder / template):
        for path in sorted(root.rglob("*")):
            # Installers compile Python files.
            parts = [re.sub(r"^dot_", ".", each) for each in path.relative_to(root).parts]
            if path.is_file() and "__pycache__" not in parts and (skill or "skills" not in parts):
                text = path.read_text(encoding="utf-8")
                text = _SKILL_LINE.sub(r"\1" if skill else "", text)
                files[_filled("/".join(parts), values)] = _filled(text, values, path.suffix)
    if _origin() is not None and "pyproject.toml" in files:
        # Hatchling rejects a requirement with a URL otherwise.
        section = "[tool.hatch.metadata]\nallow-direct-references = true\n\n[tool.hatch.version]"
        text = files["pyproject.toml"].replace("[tool.hatch.version]", section)
        files["pyproject.toml"] = text
    return files


def _requirement(extras: str = "") -> str:
    """Return the requirement of a project for this mcpkit: its release series, or its URL."""
    origin = _origin()
    if origin is not None:
        return f"mcpkit{extras} @ {origin}"
    installed = version("mcpkit")
    released = re.fullmatch(r"(\d+\.\d+)(?:\.\d+)*", installed)
    return f"mcpkit{extras}>={released[1] if released else installed}"


def _origin() -> str | None:
    """Return the URL that mcpkit was installed from; None if it came from an index.

    https://packaging.python.org/en/latest/specifications/direct-url/
    """
    found = json.loads(distribution("mcpkit").read_text("direct_url.json") or "{}")
    url: str = found.get("url", "")
    if not url or "@" in urlsplit(url).netloc:  # or with a password
        return None
    if "vcs_info" in found:
        url = f"{found['vcs_info']['vcs']}+{url}@{found['vcs_info']['commit_id']}"
    return f"{url}#subdirectory={found['subdirectory']}" if "subdirectory" in found else url


def _filled(text: str, values: Mapping[str, str], suffix: str = "") -> str:
    """Fill in the placeholders of a text; one that is a whole string is quoted as a string."""

    def fill(match: re.Match[str]) -> str:
        before, name, after = match.groups()
        value = values[name]
        if not (before and after and suffix):
            return before + value + after
        # Formatters of Python prefer the quotes that need fewer backslashes.
        if suffix == ".py" and value.count('"') > value.count("'"):
            escaped = value.replace("\\", "\\\\").replace("'", "\\'")
            return f"'{escaped}'"
        return json.dumps(value, ensure_ascii=False)

    return _PLACEHOLDER.sub(fill, text)


def write(folder: Path, files: Mapping[str, str]) -> None:
    """Write files to a folder, which is created if needed: all of them or none.

    Raises:
        OSError: A file cannot be written or exists; the others have been deleted again.
    """
    made: list[Path] = []
    try:
        for relative, text in files.items():
            path = folder / relative
            for each in reversed([each for each in path.parents if not each.exists()]):
                each.mkdir()
                made.append(each)
            with path.open("x", encoding="utf-8", newline="\n") as file:
                made.append(path)
                file.write(text)
    except BaseException:
        for each in reversed(made):
            with suppress(OSError):
                if each.is_dir():
                    each.rmdir()
                else:
                    each.unlink()
        raise


# --- the next steps -------------------------------------------------------------------------------


def _report(name: str, template: str, folder: Path, files: list[str], *, skill: bool) -> str:
    number = "1 file" if len(files) == 1 else f"{len(files)} files"
    here = folder.resolve() == Path.cwd()
    where = "this folder" if here else str(folder) if _WINDOWS else shlex.quote(str(folder))
    lines = [f"Wrote {name} from the template {template}: {number} in {where}.", "", "Next:"]
    if not here:
        lines.append(f"  cd {where}")
    lines.append(f"  {'py' if _WINDOWS else 'python3'} -m venv .venv")
    programs = ".venv\\Scripts\\" if _WINDOWS else ".venv/bin/"
    install = TEMPLATES[template].install.replace(
        "__MCPKIT_REQUIREMENT__", _requirement("[skills]" if skill else "")
    )
    lines += [f"  {programs}pip install {install}", "", "Then, to"]
    # A remark has its own line, because not every shell accepts one after a command.
    for remark, command in TEMPLATES[template].steps:
        command = command.replace("__PACKAGE__", package_of(name))
        lines += [f"  {remark}:", f"    {programs}{command}"]
    origin = _origin()
    if origin is not None:
        lines += ["", f"It requires mcpkit from the origin of this installation, {origin}."]
        lines += [f"Once mcpkit is on your index, write mcpkit>={version('mcpkit')} instead."]
    if "README.md" in files:
        lines += ["", "See README.md for more."]
    return "\n".join(lines)
