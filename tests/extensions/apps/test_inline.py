"""Local files become part of a page; other pages are refused with their file and line."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from mcpkit import Html
from mcpkit.errors import RegistrationError
from mcpkit.extensions.apps.inline import inlined

PNG = "data:image/png;base64,iVBORw=="
FILES: Mapping[str, str | bytes] = {
    "logo.png": b"\x89PNG",
    "draw.js": 'draw("</script><!--");\n',
    "module.js": 'const a = "import"; export { a };\n',
    "many.js": 'const a = 1;\nimport { b } from "./b.js";\n',
    "b.js": "export const b = 1;\n",
    "lazy.js": 'button.onclick = () => import("/assets/b.js");\n',
    "bundle.js": "const a = 1, b$ = 2;\nexport{a as App,b$};\n//# sourceMappingURL=x.map\n",
    "chart.js": 'import { App as A, b$ } from "./bundle.js";\nnew A();\n',
    "look.css": "/* url(none.png) */\np { background: url('img/logo.png'); }\n",
    "img/logo.png": b"\x89PNG",
    "nested.css": '@import "look.css";\n',
    "broken.css": "p {\n  background: url(none.png);\n}\n",
    "bad.css": b"\xff",
    "../outside.js": "",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, content in FILES.items():
        path = tmp_path / "page" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return tmp_path / "page"


def page(folder: Path, text: str, **options: Any) -> str:
    """What becomes of the body of a page."""
    start = "<!doctype html>\n"
    (folder / "page.html").write_text(start + text, encoding="utf-8")
    found = inlined(Html(folder / "page.html", **options))
    assert found.startswith(start)
    return found.removeprefix(start)


@pytest.mark.parametrize(
    ("text", "inside"),
    [
        ('<script src="draw.js"></script>', '<script>draw("\\x3C/script>\\x3C!--");\n</script>'),
        ("<SCRIPT SRC=draw.js>\n</SCRIPT >!", '<script>draw("\\x3C/script>\\x3C!--");\n</script>!'),
        (
            '<script src="./draw.js?v=1" defer></script><p>',
            '<p><script>draw("\\x3C/script>\\x3C!--");\n</script>',
        ),
        (
            '<script type="module" crossorigin src="/module.js"></script>',
            f'<script type="module">{FILES["module.js"]!s}</script>',
        ),
        (
            '<link rel="stylesheet" media="print" href="/look.css">',
            (
                '<style media="print">/* url(none.png) */\n'
                f'p {{ background: url("{PNG}"); }}\n</style>'
            ),
        ),
        (
            "<style>p { background: url(logo.png) }</style>",
            f'<style>p {{ background: url("{PNG}") }}</style>',
        ),
        ('<img alt="a &amp; b" src="logo.png">', f'<img alt="a &amp; b" src="{PNG}">'),
        ('<svg><image href="logo.png" /></svg>', f'<svg><image href="{PNG}" /></svg>'),
        ('<video poster="logo.png" muted></video>', f'<video poster="{PNG}" muted></video>'),
        (
            '<p style="background: url(logo.png)">',
            f'<p style="background: url(&quot;{PNG}&quot;)">',
        ),
        ('<link rel="modulepreload" href="/vendor.js"><link rel="icon" href="/none.ico">', ""),
    ],
)
def test_what_a_page_loads_is_put_into_it(folder: Path, text: str, inside: str) -> None:
    """APP-16: a script does not end the element that it is in."""
    assert page(folder, text) == inside


@pytest.mark.parametrize(
    "text",
    [
        "<p>1 < 2 &amp; 3</p><!-- <script src='none.js'></script> -->\n",
        '<a href="none.html">There</a><img src="data:image/gif;base64,R0lGODlhAQABAAAAACw=">',
        "<script>const page = '<img src=none.png>';</script>",
        '<script type="application/json">{"a": "import x from \'./y\'"}</script>',
        '<link rel="canonical" href="https://example.com/">',
        '<svg viewBox="0 0 1 1"><use href="#shape"/></svg>',
    ],
)
def test_everything_else_stays_as_it_is(folder: Path, text: str) -> None:
    assert page(folder, text) == text


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('\n<script src="none.js"></script>', "page.html:3: there is no file none.js"),
        (
            '<script src="../outside.js"></script>',
            "page.html:2: ../outside.js is outside the folder",
        ),
        ('<img src="%2e%2e/outside.js">', "outside the folder"),
        ('<script type="module" src="many.js"></script>', "many.js:2: the module imports './b.js'"),
        (
            '<script type="module" src="lazy.js"></script>',
            "lazy.js:1: the module imports '/assets/b.js'",
        ),
        (
            '<script type="module">\nimport "./b.js"</script>',
            "page.html:3: the module imports './b.js'",
        ),
        ('<link rel="stylesheet" href="nested.css">', "nested.css:1: @import is not inlined"),
        ('<link rel="stylesheet" href="broken.css">', "broken.css:2: there is no file none.png"),
        ('<link rel="stylesheet" href="bad.css">', "page.html:2: .*bad.css cannot be read"),
        ('<img srcset="logo.png 2x">', "page.html:2: srcset is not inlined"),
        ('<script src="draw.js">', "page.html:2: the element is not closed"),
    ],
)
def test_what_cannot_be_put_into_it_is_refused(folder: Path, text: str, fault: str) -> None:
    with pytest.raises(RegistrationError, match=fault):
        page(folder, text)


LOADS = [
    '<script src="https://cdn.example.com/chart.js"></script>',
    '<script type="module" src="https://cdn.example.com/chart.js"></script>',
    '<script type="module">import { App } from "https://cdn.example.com/app.js";</script>',
    '<link rel="stylesheet" href="//cdn.example.com/a.css">',
    '<img src="https://cdn.example.com/a.png">',
    '<style>@import "https://cdn.example.com/a.css";</style>',
]


@pytest.mark.parametrize("text", LOADS)
@pytest.mark.parametrize("origin", ["https://cdn.example.com", "https://*.example.com"])
def test_other_hosts_have_to_be_in_the_csp(folder: Path, text: str, origin: str) -> None:
    """APP-9."""
    others = ["https://example.com", "http://cdn.example.com"]
    fault = r'page\.html:2: hosts block .*"resourceDomains": \["https://cdn\.example\.com"\]'
    with pytest.raises(RegistrationError, match=fault):
        page(folder, text, csp={"resourceDomains": others})
    assert page(folder, text, csp={"resourceDomains": [origin]}) == text


def test_a_page_may_be_text(folder: Path) -> None:
    """Its files are those beside the file with the call."""
    assert inlined(Html("<p>Hello</p>")) == "<!doctype html>\n<p>Hello</p>"
    with pytest.raises(
        RegistrationError, match=r"test_inline\.py:\d+: Html\(…\):1: there is no file"
    ):
        inlined(Html("<img src=none.png>"))
    with pytest.raises(
        RegistrationError, match=r"test_inline\.py:\d+: .*none\.html.* cannot be read"
    ):
        inlined(Html("none.html"))
