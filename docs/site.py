"""A hook of mkdocs: pages that differ on the site from their files in the repository."""

import re
from pathlib import Path
from typing import Any

FILES = {"changes.md": "CHANGELOG.md", "contributing.md": "CONTRIBUTING.md"}
"""Pages whose text is in the top folder of the repository, where people look for them."""

DOCS = Path(__file__).parent
PICTURE = re.compile(r"^!\[[^\]]*\]\((?:\.\./)?(assets/[\w-]+\.svg)\)$", re.MULTILINE)
STYLE = re.compile(r"<style>.*?</style>\s*", re.DOTALL)


def drawn(found: re.Match[str]) -> str:
    """Inline a drawing, so that it takes the colors of the page; leave other pictures alone."""
    text = (DOCS / found[1]).read_text(encoding="utf-8")
    return STYLE.sub("", text) if 'class="drawing"' in text else found[0]


def on_files(files: Any, *, config: Any) -> Any:
    """Add the examples to the site, so that pages can link to them."""
    from mkdocs.structure.files import File

    for path in sorted((DOCS.parent / "examples").rglob("*.py")):
        name = path.relative_to(DOCS.parent).as_posix()
        files.append(File.generated(config, name, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Return the text of a page."""
    file = FILES.get(page.file.src_uri)
    if file is not None:
        text = (DOCS.parent / file).read_text(encoding="utf-8")
        return text.replace("](docs/", "](").replace("](CHANGELOG.md)", "](changes.md)")
    return PICTURE.sub(drawn, markdown.replace("](../examples/", "](examples/"))
