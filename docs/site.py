"""A hook of mkdocs: pages that differ on the site from their files in the repository."""

import re
from pathlib import Path
from typing import Any

FILES = {"changes.md": "CHANGELOG.md", "contributing.md": "CONTRIBUTING.md"}
"""Pages whose text is in the top folder of the repository, where people look for them."""

DOCS = Path(__file__).parent
WEIGHTS = {"reference": 0.3, "migration": 0.1, "internals": 0.1}
"""Folder → how much its pages count in the search: guides come first."""

LISTS = ("rules.md", "revisions.md", "checks.md", "changes.md", "contributing.md")
"""Pages that mention everything, and explain none of it."""

EXAMPLE = """---
search:
  exclude: true
---

# {name}

One of the [examples]({up}examples.md).

```python title="{name}"
{code}```
"""

LINK = re.compile(r"\]\(\.\./(examples/[\w/]+)\.py\)")
PICTURE = re.compile(r"^!\[[^\]]*\]\((?:\.\./)?(assets/[\w-]+\.svg)\)$", re.MULTILINE)
STYLE = re.compile(r"<style>.*?</style>\s*", re.DOTALL)


def drawn(found: re.Match[str]) -> str:
    """Inline a drawing, so that it takes the colors of the page; leave other pictures alone."""
    text = (DOCS / found[1]).read_text(encoding="utf-8")
    return STYLE.sub("", text) if 'class="drawing"' in text else found[0]


def on_files(files: Any, *, config: Any) -> Any:
    """Add a page for each example."""
    from mkdocs.structure.files import File

    for path in sorted((DOCS.parent / "examples").rglob("*.py")):
        name = path.relative_to(DOCS.parent).with_suffix(".md").as_posix()
        page = EXAMPLE.format(
            name=path.relative_to(DOCS.parent / "examples").as_posix(),
            up="../" * name.count("/"),
            code=path.read_text(encoding="utf-8"),
        )
        files.append(File.generated(config, name, content=page))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Return the text of a page, and set its weight in the search."""
    path = page.file.src_uri
    weight = 0.1 if path in LISTS else WEIGHTS.get(path.partition("/")[0])
    if weight is not None:
        page.meta["search"] = {"boost": weight}
    file = FILES.get(path)
    if file is not None:
        text = (DOCS.parent / file).read_text(encoding="utf-8")
        return text.replace("](docs/", "](").replace("](CHANGELOG.md)", "](changes.md)")
    return PICTURE.sub(drawn, LINK.sub(r"](\1.md)", markdown))
