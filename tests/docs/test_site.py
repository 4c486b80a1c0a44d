"""The documentation as it is published; needs the dependency group ``docs``."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Final

import pytest

from tests.docs.pages import DOCS, PAGES, ROOT, titled

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


NODE: Final = shutil.which("node") or shutil.which(
    "node", path=ROOT / ".cache/peers/node/node_modules/.bin"
)

GUIDES: Final = {
    "asking": ["elicitation", "sampling", "roots"],
    "context": ["progress"],
    "tools": ["cancellation", "validation"],
    "resources": ["caching", "subscriptions"],
    "pagination": ["pagination"],
    "dependencies": ["dependency injection", "database session"],
    "middleware": ["middleware"],
    "errors": ["error handling"],
    "lifespan": ["lifespan"],
    "http": ["stateless", "session", "streaming"],
    "authorization": ["scopes", "OAuth", "authentication"],
    "testing": ["testing", "mock"],
    "kubernetes": ["Kubernetes"],
    "deployment": ["Docker", "scaling"],
    "serverless": ["serverless", "Lambda"],
    "tasks": ["long running"],
}
"""Guide → what people type into the search to find it."""


@pytest.mark.skipif(NODE is None, reason="node is not installed")
@pytest.mark.timeout(180)
def test_search_finds_the_guide_first(site: Path) -> None:
    assert NODE is not None
    wanted = {query: f"{guide}.html" for guide, queries in GUIDES.items() for query in queries}
    command = [NODE, str(Path(__file__).with_name("search.js")), str(site), *wanted]
    done = subprocess.run(command, capture_output=True, timeout=60, check=True)
    first = {query: pages[0] for query, pages in json.loads(done.stdout).items()}
    assert first == wanted


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


def test_the_manifest_for_kubernetes_fits_the_server() -> None:
    yaml: Any = importlib.import_module("yaml")  # comes with mkdocs
    page = (DOCS / "kubernetes.md").read_text(encoding="utf-8")
    deployment, service = yaml.safe_load_all(titled("kubernetes.md", "trips.yaml"))
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert labels == deployment["spec"]["selector"]["matchLabels"] == service["spec"]["selector"]
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    port = container["ports"][0]["containerPort"]
    for probe, path in {"readinessProbe": "/ready", "livenessProbe": "/health"}.items():
        assert container[probe]["httpGet"] == {"path": path, "port": port}
    assert service["spec"]["ports"][0]["targetPort"] == port
    seconds = int(container["lifecycle"]["preStop"]["exec"]["command"][-1])
    assert "grace=10" in page
    assert pod["terminationGracePeriodSeconds"] > seconds + 10
