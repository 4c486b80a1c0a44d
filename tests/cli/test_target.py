"""From what is written on the command line to the app object."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from mcpkit.cli._target import TargetError, load_app
from mcpkit.testing import TestClient

APP = "from mcpkit import MCPKit\n{name} = MCPKit({title!r})\n"


def an_app(name: str = "app", title: str | None = None) -> str:
    return APP.format(name=name, title=title or name)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty working directory; what is imported from it is forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    before = dict(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - set(before):
        found = sys.modules[name]
        places = [getattr(found, "__file__", None), *getattr(found, "__path__", ())]
        # No library, of which there would be two then.
        if any(str(each).startswith(str(tmp_path)) for each in places):
            del sys.modules[name]
    sys.modules.update(before)


class TestFound:
    @pytest.mark.parametrize("name", ["app", "server", "mcp", "anything"])
    def test_an_app_by_its_usual_name_or_as_the_only_one(self, folder: Path, name: str) -> None:
        (folder / "main.py").write_text(an_app(name))
        assert load_app("main.py").name == name

    @pytest.mark.parametrize("usual", ["app", "server", "mcp"])
    def test_a_usual_name_goes_first(self, folder: Path, usual: str) -> None:
        (folder / "main.py").write_text(an_app("another") + an_app(usual))
        assert load_app("main.py").name == usual

    def test_one_app_under_two_names_is_one(self, folder: Path) -> None:
        (folder / "main.py").write_text(an_app("first", "it") + "second = first\n")
        assert load_app("main.py").name == "it"

    def test_by_name(self, folder: Path) -> None:
        (folder / "main.py").write_text(an_app("app") + an_app("other"))
        assert load_app("main.py:other").name == "other"

    def test_by_an_absolute_path(self, folder: Path) -> None:
        (folder / "main.py").write_text(an_app())
        assert load_app(str(folder / "main.py")).name == "app"

    def test_in_another_folder_beside_its_own_modules(self, folder: Path) -> None:
        (folder / "sub").mkdir()
        (folder / "sub" / "main.py").write_text("import beside\n" + an_app())
        (folder / "sub" / "beside.py").write_text("")
        assert load_app("sub/main.py").name == "app"

    @pytest.mark.parametrize("target", ["main", "main:app", "package.inner", "package.inner:app"])
    def test_in_a_module(self, folder: Path, target: str) -> None:
        (folder / "main.py").write_text(an_app())
        (folder / "package").mkdir()
        (folder / "package" / "inner.py").write_text(an_app())
        assert load_app(target).name == "app"

    @pytest.mark.parametrize("target", ["package/inner.py", "package.inner", "package/deep/er.py"])
    def test_with_relative_imports(self, folder: Path, target: str) -> None:
        deep = folder / "package" / "deep"
        deep.mkdir(parents=True)
        for place in (deep, deep.parent):
            (place / "__init__.py").write_text("")
        (folder / "package" / "beside.py").write_text("title = 'found'\n")
        app = "from mcpkit import MCPKit\napp = MCPKit(title)\n"
        (folder / "package" / "inner.py").write_text("from .beside import title\n" + app)
        (deep / "er.py").write_text("from ..beside import title\n" + app)
        assert load_app(target).name == "found"

    def test_in_a_package_itself(self, folder: Path) -> None:
        (folder / "package").mkdir()
        (folder / "package" / "__init__.py").write_text(an_app())
        assert load_app("package").name == "app"

    @pytest.mark.parametrize("stem", ["json", "typing", "mcpkit", "asyncio"])
    def test_a_file_named_like_a_module_that_is_in_use(self, folder: Path, stem: str) -> None:
        taken = __import__(stem)
        (folder / f"{stem}.py").write_text(an_app())
        assert load_app(f"{stem}.py").name == "app"
        assert sys.modules[stem] is taken

    def test_a_dataclass_in_a_file_finds_its_module(self, folder: Path) -> None:
        """Annotations that are strings are looked up in `sys.modules`."""
        (folder / "main.py").write_text(
            "from __future__ import annotations\n"
            "from dataclasses import dataclass\n"
            + an_app()
            + "@dataclass\nclass City:\n    name: str\n"
            "@app.tool\ndef show(city: City) -> City: return city\n"
        )
        assert "show" in load_app("main.py").server.registry.tools


class TestMarkedFunctions:
    MARKED = (
        '"""How to use it."""\n'
        "import mcpkit\n"
        "@mcpkit.tool\n"
        "def add(a: int, b: int) -> int: return a + b\n"
    )

    def test_make_an_app(self, folder: Path) -> None:
        (folder / "sums.py").write_text(self.MARKED)
        app = load_app("sums.py")
        assert list(app.server.registry.tools) == ["add"]

    def test_it_has_the_name_and_the_docstring_of_the_module(self, folder: Path) -> None:
        (folder / "sums.py").write_text(self.MARKED)
        app = load_app("sums.py")
        assert (app.name, app.server.instructions) == ("sums", "How to use it.")

    def test_an_app_beside_them_goes_first(self, folder: Path) -> None:
        (folder / "sums.py").write_text(self.MARKED + an_app())
        assert load_app("sums.py").name == "app"


REFUSED = {
    "no file": ("missing.py", "", "there is no file missing.py"),
    "no file in a folder": ("no/such.py", "", "there is no file no/such.py"),
    "no file, with a name": ("missing.py:app", "", "there is no file missing.py"),
    "no module": ("missing", "", "there is no module or file missing"),
    "no module in a package": ("os.missing", "", "there is no module or file os.missing"),
    "a folder": (".", "", "there is no file ."),
    "nothing": ("", "", "there is no file"),
    "no app": ("main.py", "x = 1", "main.py has no app: make one, app = MCPKit('main')"),
    "the class alone": ("main.py", "from mcpkit import MCPKit", "main.py has no app"),
    "two apps": (
        "main.py",
        an_app("one") + an_app("two"),
        "main.py has 2 apps: one, two; say which, as in main.py:one",
    ),
    "no such name": ("main.py:nope", an_app(), "main.py has nothing named 'nope'"),
    "no app of this name": ("main.py:x", "x = 1", "'x' in main.py is a int, not an MCPKit app"),
    "a factory": (
        "main.py:make",
        "def make(): ...",
        "main.py:make returned a NoneType, not an MCPKit app",
    ),
    "an import that fails": (
        "main.py",
        "\nimport not_there",
        "main.py cannot be imported: ModuleNotFoundError: No module named 'not_there' (main.py:2)",
    ),
    "an import of its own name that fails": (
        "main.py",
        "import main.inner",
        "main.py cannot be imported: ModuleNotFoundError",
    ),
    "a syntax error": (
        "main.py",
        "\n\ndef f(:\n",
        "main.py cannot be imported: SyntaxError: invalid syntax (main.py:3)",
    ),
    "an exception": (
        "main.py",
        "raise ValueError('first\\nsecond')",
        "main.py cannot be imported: ValueError: first (main.py:1)",
    ),
    "an exception without text": (
        "main.py",
        "raise KeyError",
        "main.py cannot be imported: KeyError (main.py:1)",
    ),
    "an exit": ("main.py", "raise SystemExit(3)", "main.py cannot be imported: SystemExit: 3"),
    "bytes that are no text": ("main.py", "\udcff", "main.py cannot be imported: SyntaxError"),
    "a wrong setting": (
        "main.py",
        "from mcpkit import MCPKit\napp = MCPKit('x', page_size=0)",
        "page_size must be at least 1, or None for a single page (main.py:2)",
    ),
    "a bad signature": (
        "main.py",
        an_app() + "@app.tool\ndef bad(*args: int) -> None: ...",
        "bad",
    ),
    "a bad signature of a marked function": (
        "main.py",
        "import mcpkit\n@mcpkit.tool\ndef bad(*args: int) -> None: ...",
        "bad",
    ),
}


@pytest.mark.parametrize(("target", "source", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_a_refusal_is_one_line(folder: Path, target: str, source: str, message: str) -> None:
    if source:
        (folder / "main.py").write_text(source + "\n", errors="surrogateescape")
    with pytest.raises(TargetError) as refused:
        load_app(target)
    assert message in str(refused.value)
    assert len(str(refused.value).splitlines()) == 1


def test_a_file_that_is_no_python(folder: Path) -> None:
    (folder / "server.txt").write_text("hello")
    with pytest.raises(TargetError, match=r"server\.txt is not a Python file"):
        load_app("server.txt")


@pytest.mark.parametrize(
    ("module", "library"),
    [("fastmcp", "FastMCP"), ("mcp.server.fastmcp", "the official SDK")],
)
def test_a_server_of_another_library(folder: Path, module: str, library: str) -> None:
    (folder / "server.py").write_text(
        f"class FastMCP: ...\n\nFastMCP.__module__ = {module!r}\nmcp = FastMCP()\n"
    )
    with pytest.raises(TargetError) as caught:
        load_app("server.py")
    assert str(caught.value) == (
        f"'mcp' in server.py is a server of {library}; mcpkit migrate server.py rewrites it"
    )


WRONG = {
    "@app.tool(readonly=True)\ndef a() -> None: ...": (
        "main.py:3: a(): there is no option 'readonly'; did you mean 'read_only'?"
    ),
    "@app.resource('a://b', mimetype='x')\ndef a() -> str: ...": (
        "main.py:3: a(): there is no option 'mimetype'; did you mean 'mime_type'?"
    ),
    "@app.prompt(nmae='b')\ndef a() -> str: ...": (
        "main.py:3: a(): there is no option 'nmae'; did you mean 'name'?"
    ),
    "@app.tool('a name')\ndef a() -> None: ...": (
        "'a name' is not a function; a name is an option: name='a name' (main.py:3)"
    ),
    "@app.tool\ndef a(ctx) -> None: ...": (
        "main.py:3: a(): ctx has no annotation, so a client would have to send it; "
        "write ctx: Context, or ctx: SyncContext in a plain def"
    ),
    "def a() -> None: ...\napp.tool(a)\napp.tool(a)": (
        "a tool 'a' is registered already; remove it first, or choose another (main.py:5)"
    ),
    "import json\njson.loads('{nope')": (
        "main.py cannot be imported: JSONDecodeError: Expecting property name enclosed in double "
        "quotes: line 1 column 2 (char 1) (main.py:4)"
    ),
    "MCPKit('b', nmae='c')": (
        "main.py cannot be imported: TypeError: main.py:3: MCPKit() has no option 'nmae'; "
        "did you mean 'name'?"
    ),
}


@pytest.mark.parametrize(("text", "said"), WRONG.items(), ids=map(str, range(len(WRONG))))
def test_what_is_wrong_in_a_file_is_said_with_its_line(folder: Path, text: str, said: str) -> None:
    (folder / "main.py").write_text(an_app() + text + "\n")
    with pytest.raises(TargetError) as caught:
        load_app("main.py")
    assert str(caught.value) == said


FACTORY = """
from pathlib import Path
from typing import Annotated, Literal
from annotated_types import Gt
from mcpkit import MCPKit
from pydantic import AfterValidator, Field
import typer

def make_app(root: Path, depth: int = 1, mode: Literal["r", "w"] = "r", quiet: bool = False):
    return MCPKit(f"{root.as_posix()} {depth} {mode} {quiet}")

async def make_later(root: Path = Path("here")) -> MCPKit:
    import anyio
    await anyio.sleep(0)
    return MCPKit(root.name)

def make_told(name: Annotated[str, typer.Argument(help="Of the server")]) -> MCPKit:
    return MCPKit(name)

def make_bounded(
    port: Annotated[int, Field(ge=1, description="Where")] = 0,
    name: Annotated[str, AfterValidator(str.upper)] = "app",
    depth: Annotated[int, "How deep", Gt(1), typer.Option("-d")] = 2,
) -> MCPKit:
    return MCPKit(f"{name} {port} {depth}")

class Place:
    def __init__(self, text: str) -> None: ...
def make_odd(at: Annotated[Place, Gt("a"), typer.Option(parser=Place)]) -> MCPKit: ...

def make_none() -> None: ...
def make_broken() -> MCPKit:
    raise ValueError("no database")
def make_many(*names: str) -> MCPKit:
    return MCPKit("many")
def make_refused() -> MCPKit:
    app = MCPKit("refused")
    @app.tool(name="not a name")
    def fn() -> None: ...
    return app
"""


class TestFactories:
    """A function that makes an app, in the place of its name."""

    @pytest.fixture(autouse=True)
    def written(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "argv", ["mcpkit"])
        (folder / "main.py").write_text(FACTORY)

    def test_gets_flags_as_arguments(self) -> None:
        flags = ["--root", "/data", "--depth", "3", "--mode", "w", "--quiet"]
        assert load_app("main.py:make_app", flags).name == "/data 3 w True"
        assert load_app("main.py:make_app", ["--root=x"]).name == "x 1 r False"

    def test_may_be_async(self) -> None:
        assert load_app("main.py:make_later").name == "here"
        assert load_app("main.py:make_later", ["--root", "there"]).name == "there"

    def test_may_say_more_of_its_parameters(self) -> None:
        assert load_app("main.py:make_told", ["books"]).name == "books"

    def test_values_are_what_pydantic_makes_of_them(self) -> None:
        assert load_app("main.py:make_bounded").name == "app 0 2"
        flags = ["--port", "8", "--name", "shop", "-d", "3"]
        assert load_app("main.py:make_bounded", flags).name == "SHOP 8 3"

    @pytest.mark.parametrize(
        ("target", "flags", "said"),
        [
            (
                "main.py:make_bounded",
                ["--port", "-1"],
                "Invalid value for '--port': Input should be greater than or equal to 1",
            ),
            ("main.py:make_bounded", ["-d", "1"], "Invalid value for '--depth': Input should be"),
            ("main.py:make_odd", ["--at", "a"], "--at cannot be checked: "),
            ("main.py:make_app", [], "Missing option '--root'"),
            ("main.py:make_app", ["--root", "x", "--depth", "deep"], "Invalid value for '--depth'"),
            ("main.py:make_app", ["--rot", "x"], "No such option: --rot"),
            ("main.py:make_app", ["--root", "x", "more"], "unexpected extra argument"),
            ("main.py:make_many", [], "the parameter *names: str cannot be a flag"),
            ("main.py:make_none", [], "main.py:make_none returned a NoneType, not an MCPKit app"),
            (
                "main.py:make_broken",
                [],
                "main.py:make_broken failed: ValueError: no database (main",
            ),
            ("main.py:make_refused", [], "'not a name' is not a tool name"),
            ("main.py", [], "main.py has no app, but makes one: say main.py:make_app"),
        ],
    )
    def test_refuses_in_one_line(self, target: str, flags: list[str], said: str) -> None:
        with pytest.raises(TargetError) as caught:
            load_app(target, flags)
        assert said in str(caught.value)
        assert "\n" not in str(caught.value)

    def test_shows_its_flags(self, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(typer.Exit):
            load_app("main.py:make_app", ["--help"])
        shown = capsys.readouterr().out
        assert "mcpkit run main.py:make_app --" in shown
        assert "--root <path>" in shown

    def test_as_the_documentation_does(self, folder: Path) -> None:
        (folder / "b.md").write_text("")
        (folder / "a.md").write_text("")
        target = f"{Path(__file__).parents[2] / 'docs' / 'code' / 'flags.py'}:make_app"
        app = load_app(target, ["--root", str(folder), "--read-only"])
        with TestClient(app) as client:
            assert [each.name for each in client.list_tools()] == ["titles"]
            assert client.call_tool("titles").data == ["a", "b"]
        with TestClient(load_app(target, ["--root", str(folder)])) as client:
            client.call_tool("write", {"title": "c", "text": "C"})
        assert (folder / "c.md").read_text() == "C"

    def test_a_module_finds_flags_as_a_script_does(self, folder: Path) -> None:
        (folder / "plain.py").write_text(
            "import sys\nfrom mcpkit import MCPKit\napp = MCPKit(' '.join(sys.argv))\n"
        )
        assert load_app("plain.py", ["--root", "x"]).name == "plain.py --root x"
