"""What the site shows otherwise than a reader of the files sees it; mkdocs calls it as a hook."""

import re
from pathlib import Path
from typing import Any

FILES = {"changes.md": "CHANGELOG.md", "contributing.md": "CONTRIBUTING.md"}
"""Pages that stand in the repository's top folder, where people look for them."""

DOCS = Path(__file__).parent
PICTURE = re.compile(r"^!\[[^\]]*\]\((assets/[\w-]+\.svg)\)$", re.MULTILINE)
STYLE = re.compile(r"<style>.*?</style>\s*", re.DOTALL)


def drawn(found: re.Match[str]) -> str:
    """A drawing as a part of the page, whose colours it takes; other pictures as they are."""
    text = (DOCS / found[1]).read_text(encoding="utf-8")
    return STYLE.sub("", text) if 'class="drawing"' in text else found[0]


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Return the text of a page."""
    file = FILES.get(page.file.src_uri)
    if file is not None:
        return (DOCS.parent / file).read_text(encoding="utf-8")
    return PICTURE.sub(drawn, markdown)
