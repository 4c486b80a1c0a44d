"""The documentation as it is published; needs the dependency group ``docs``."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT

pytestmark = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("mkdocs", "material", "mkdocstrings")),
    reason="the dependency group docs is not installed",
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as it is published."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


class Fetched(HTMLParser):
    """What a browser fetches when it shows a page."""

    def __init__(self) -> None:
        super().__init__()
        self.urls: list[str] = []
        self.headings = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.headings += tag == "h1"
        if tag == "link" and (values.get("rel") or "") not in ("canonical", "next", "prev"):
            self.urls.append(values.get("href") or "")
        elif tag in ("script", "img", "iframe", "source", "object"):
            self.urls.append(values.get("src") or values.get("data") or "")


def read(page: Path) -> Fetched:
    parser = Fetched()
    parser.feed(page.read_text(encoding="utf-8"))
    return parser


@pytest.mark.timeout(180)
def test_pages_have_one_heading_and_fetch_nothing_from_other_hosts(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > len(PAGES)  # there is a page for what is not found
    for page in pages:
        found = read(page)
        assert [url for url in found.urls if "//" in url] == [], page.name
        assert found.headings == 1, page.name
    sheets = sorted(site.rglob("*.css"))
    assert sheets
    for sheet in sheets:
        text = sheet.read_text(encoding="utf-8")
        assert not [part for part in ("url(http", "url(//", "@import") if part in text]
