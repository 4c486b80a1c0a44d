"""From a target on the command line to the app object."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from mcpkit._utils.targets import TargetError
from mcpkit.cli._target import load_app
from mcpkit.testing import TestClient


def an_app(name: str = "app", title: str | None = None) -> str:
    return f"from mcpkit import MCPKit\n{name} = MCPKit({title or name!r})\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty working directory; modules imported from it are forgotten afterwards."""
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


RELATIVE = "from mcpkit import MCPKit\napp = MCPKit(title)\n"
PACKAGE = {
    "package/__init__.py": an_app(),
    "package/beside.py": "title = 'found'\n",
    "package/inner.py": "from .beside import title\n" + RELATIVE,
    "package/deep/__init__.py": "",
    "package/deep/er.py": "from ..beside import title\n" + RELATIVE,
}
BESIDE = {"sub/main.py": "import beside\n" + an_app(), "sub/beside.py": ""}
MARKED = (
    '"""How to use it."""\nimport mcpkit\n'
    "@mcpkit.tool\ndef add(a: int, b: int) -> int: return a + b\n"
)
FOUND: list[tuple[str, dict[str, str], str]] = [
    *(("main.py", {"main.py": an_app(name)}, name) for name in ("app", "server", "anything")),
    *(("main.py", {"main.py": an_app("z") + an_app(name)}, name) for name in ("app", "mcp")),
    ("main.py", {"main.py": an_app("first", "it") + "second = first\n"}, "it"),
    ("main.py:other", {"main.py": an_app("app") + an_app("other")}, "other"),
    ("main", {"main.py": an_app()}, "app"),
    ("main:app", {"main.py": an_app()}, "app"),
    ("sub/main.py", BESIDE, "app"),
    ("bare.inner:app", {"bare/inner.py": an_app()}, "app"),
    ("package", PACKAGE, "app"),
    *((each, PACKAGE, "found") for each in ("package/inner.py", "package.inner:app")),
    ("package/deep/er.py", PACKAGE, "found"),
    ("sums.py", {"sums.py": MARKED + an_app()}, "app"),
]


@pytest.mark.parametrize(("target", "files", "name"), FOUND, ids=[each[0] for each in FOUND])
def test_an_app_is_found(folder: Path, target: str, files: dict[str, str], name: str) -> None:
    for place, text in files.items():
        (folder / place).parent.mkdir(exist_ok=True, parents=True)
        (folder / place).write_text(text)
    assert load_app(target).name == name


@pytest.mark.parametrize("stem", ["json", "typing", "mcpkit", "asyncio"])
def test_a_file_may_be_named_like_a_module_that_is_in_use(folder: Path, stem: str) -> None:
    taken = __import__(stem)
    (folder / f"{stem}.py").write_text(an_app())
    assert load_app(str(folder / f"{stem}.py")).name == "app"
    assert sys.modules[stem] is taken


def test_a_dataclass_in_a_file_finds_its_module(folder: Path) -> None:
    """Annotations that are strings are looked up in `sys.modules`."""
    (folder / "main.py").write_text(
        "from __future__ import annotations\nfrom dataclasses import dataclass\n"
        + an_app()
        + "@dataclass\nclass City:\n    name: str\n"
        "@app.tool\ndef show(city: City) -> City: return city\n"
    )
    assert "show" in load_app("main.py").server.registry.tools


def test_marked_functions_make_an_app(folder: Path) -> None:
    (folder / "sums.py").write_text(MARKED)
    app = load_app("sums.py")
    assert list(app.server.registry.tools) == ["add"]
    assert (app.name, app.server.instructions) == ("sums", "How to use it.")


OF_FASTMCP = "class FastMCP: ...\n\nFastMCP.__module__ = {!r}\nmcp = FastMCP()\n"
FAILS = "main.py cannot be imported: "
SOURCES = [
    ("x = 1", "main.py has no app: make one, app = MCPKit('main')"),
    ("from mcpkit import MCPKit", "main.py has no app"),
    (an_app("one") + an_app("two"), "main.py has 2 apps: one, two; say which, as in main.py:one"),
    ("\nimport not_there", FAILS + "ModuleNotFoundError: No module named 'not_there' (main.py:2)"),
    ("import main.inner", FAILS + "ModuleNotFoundError"),
    ("\n\ndef f(:\n", FAILS + "SyntaxError: invalid syntax (main.py:3)"),
    ("raise ValueError('first\\nsecond')", FAILS + "ValueError: first (main.py:1)"),
    ("raise KeyError", FAILS + "KeyError (main.py:1)"),
    ("raise SystemExit(3)", FAILS + "SystemExit: 3"),
    ("\udcff", FAILS + "SyntaxError"),
    (
        "from mcpkit import MCPKit\napp = MCPKit('x', page_size=0)",
        "page_size must be at least 1, or None for a single page (main.py:2)",
    ),
    ("import mcpkit\n@mcpkit.tool\ndef bad(*args: int) -> None: ...", "bad"),
    (
        OF_FASTMCP.format("fastmcp"),
        "'mcp' in main.py is a server of FastMCP; mcpkit migrate main.py rewrites it",
    ),
    (OF_FASTMCP.format("mcp.server.fastmcp"), " is a server of the official SDK; "),
    (
        an_app() + "@app.tool(readonly=True)\ndef a() -> None: ...",
        "main.py:3: a(): there is no option 'readonly'; did you mean 'read_only'?",
    ),
    (
        an_app() + "@app.tool('a name')\ndef a() -> None: ...",
        "'a name' is not a function; a name is an option: name='a name' (main.py:3)",
    ),
    (
        an_app() + "@app.tool(name='a name')\ndef a() -> None: ...",
        "(pass name=...) (main.py:",
    ),
    (
        an_app() + "@app.tool\ndef a(ctx) -> None: ...",
        "main.py:3: a(): ctx has no annotation, so a client would have to send it; write ctx: Co",
    ),
    (
        an_app() + "def a() -> None: ...\napp.tool(a)\napp.tool(a)",
        "a tool 'a' is registered already; remove it first, or choose another (main.py:5)",
    ),
    (
        an_app() + "import json\njson.loads('{nope')",
        "enclosed in double quotes: line 1 column 2 (char 1) (main.py:4)",
    ),
    (
        an_app() + "MCPKit('b', nmae='c')",
        FAILS + "TypeError: main.py:3: MCPKit() has no option 'nmae'; did you mean 'name'?",
    ),
]
"""Of main.py, and what is said of it."""

REFUSED = [
    ("server.txt", "", "server.txt is not a Python file"),
    ("missing.py", "", "there is no file missing.py"),
    ("no/such.py", "", "there is no file no/such.py"),
    ("missing.py:app", "", "there is no file missing.py"),
    ("missing", "", "there is no module or file missing"),
    ("os.missing", "", "there is no module or file os.missing"),
    (".", "", "there is no file ."),
    ("", "", "there is no file"),
    ("main.py:nope", an_app(), "main.py has nothing named 'nope'"),
    ("main.py:x", "x = 1", "'x' in main.py is a int, not an MCPKit app"),
    *(
        (
            "main.py:a",
            source + "def a(city: str) -> None: ...",
            "'a' in main.py is served by an app, a",
        )
        for source in (
            an_app() + "@app.tool\n",
            an_app() + "@app.resource('a://{city}')\n",
            "import mcpkit\n@mcpkit.prompt\n",
        )
    ),
    (
        "main.py:a",
        "def a(city: str) -> None: ...",
        "main.py:a is called to make an app, and its parameters are flags: Missing option '--city'",
    ),
    *(("main.py", *each) for each in SOURCES),
]


@pytest.mark.parametrize(("target", "source", "message"), REFUSED)
def test_a_refusal_is_one_line(folder: Path, target: str, source: str, message: str) -> None:
    (folder / "server.txt").write_text("hello")
    if source:
        (folder / "main.py").write_text(source + "\n", errors="surrogateescape")
    with pytest.raises(TargetError) as refused:
        load_app(target)
    assert message in str(refused.value)
    assert len(str(refused.value).splitlines()) == 1


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

def make_named(name: Annotated[str, typer.Argument(help="Of the server")]) -> MCPKit:
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

    def test_may_be_async_and_annotated(self) -> None:
        assert load_app("main.py:make_later").name == "here"
        assert load_app("main.py:make_later", ["--root", "there"]).name == "there"
        assert load_app("main.py:make_named", ["books"]).name == "books"
        assert load_app("main.py:make_bounded").name == "app 0 2"
        flags = ["--port", "8", "--name", "shop", "-d", "3"]
        assert load_app("main.py:make_bounded", flags).name == "SHOP 8 3"

    @pytest.mark.parametrize(
        ("target", "flags", "said"),
        [
            ("main.py:make_bounded", ["--port", "-1"], "Invalid value for '--port': Input should"),
            ("main.py:make_bounded", ["-d", "1"], "Invalid value for '--depth': Input should be"),
            ("main.py:make_odd", ["--at", "a"], "make_odd failed: TypeError: Unable to apply"),
            ("main.py:make_app", [], "Missing option '--root'"),
            ("main.py:make_app", ["--root", "x", "--depth", "deep"], "Invalid value for '--depth'"),
            ("main.py:make_app", ["--rot", "x"], "No such option: --rot"),
            ("main.py:make_app", ["--root", "x", "more"], "unexpected extra argument"),
            ("main.py:make_many", [], "the parameter *names: str cannot be a flag"),
            ("main.py:make_none", [], "main.py:make_none returned a NoneType, not an MCPKit app"),
            ("main.py:make_broken", [], "make_broken failed: ValueError: no database (main"),
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
