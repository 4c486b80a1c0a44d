"""A page with everything in it: local scripts, styles, images and fonts become part of its text.

Hosts show the text of a page in a frame that has no other files. Vite builds such pages from
modules; what it writes is a page with one script and one style sheet.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from html import escape
from html.parser import HTMLParser
from mimetypes import MimeTypes
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import unquote, urlsplit

from mcpkit.errors import RegistrationError
from mcpkit.views import Html

_LOADS: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(("audio", "img", "source"), ("src",)),
    "image": ("href",),
    "video": ("src", "poster"),
}
"""Element → the attributes whose URLs it loads."""

_NEEDLESS: Final = frozenset({"icon", "manifest", "modulepreload", "prefetch", "preload"})
"""The kinds of links that a page does without, once everything is in it."""

_NOT_INLINE: Final = ("src", "async", "crossorigin", "defer", "integrity", "href", "rel")
"""The attributes of scripts and links that their inlined form does not have."""

_CSS: Final = re.compile(
    r"/\*.*?\*/|@import\s+(?:url\(\s*)?[\"']?(?P<sheet>[^\"')\s;]+)"
    r"|url\(\s*(?P<quote>[\"']?)(?P<url>[^\"')]+?)(?P=quote)\s*\)",
    re.DOTALL | re.IGNORECASE,
)
_IMPORT: Final = re.compile(
    r"\b(?:import|export)\b[^;\"'`()=]*?\bfrom\s*[\"'](?P<a>[^\"'\n]+)[\"']"
    r"|\bimport\s*\(?\s*[\"'`](?P<b>[^\"'`\n]+)[\"'`]"
)
_NAMED_IMPORT: Final = re.compile(
    r"\bimport\s*\{(?P<names>[\w$,\s]*)\}\s*from\s*[\"'](?P<url>\.{0,2}/[^/\"'\n][^\"'\n]*)[\"'];?"
)
_EXPORTS: Final = re.compile(r"\bexport\s*\{(?P<names>[\w$,\s]*)\};?\s*(?://[^\n]*\s*)?\Z")
_ENDS_SCRIPT: Final = re.compile(r"<(?=/script|!--)", re.IGNORECASE)
_ENDS_STYLE: Final = re.compile(r"</(?=style)", re.IGNORECASE)


class _Place(NamedTuple):
    """A text that loads other files."""

    name: str
    folder: Path
    line: int  # of its first line

    def of(self, match: re.Match[str]) -> _Place:
        """Return the place of a match in the text."""
        return self._replace(line=self.line + match.string.count("\n", 0, match.start()))

    def fault(self, why: str) -> RegistrationError:
        return RegistrationError(f"{self.name}:{self.line}: {why}")


def inlined(html: Html) -> str:
    """Return the text of a page, with everything in it that it loads from its folder.

    Raises:
        RegistrationError: The page or a file is missing or outside the folder, or it loads
            something that its ``csp`` does not allow. The message has the file and line.
    """
    name, text = f"{html.at}Html(…)", html.text
    if html.path is not None:
        text, name = _read(html.path, _Place(name, html.folder, 1)), html.path.name
    page = _Page(html, name, text)
    page.feed(text)
    page.close()
    return page.result()


class _Page(HTMLParser):
    """A page while its text is read; its edits are of the text as it was written."""

    def __init__(self, html: Html, name: str, text: str) -> None:
        super().__init__()
        self._html, self._name, self._text = html, name, text
        self._root = html.folder.resolve()
        self._starts = [0, *(each.end() for each in re.finditer("\n", text))]
        self._edits: list[tuple[int, int, str]] = []
        self._deferred: list[str] = []
        self._open: tuple[dict[str, str], int, int, _Place] | None = None
        """The script or style that is read: its attributes, its start, that of its text."""

    def result(self) -> str:
        if self._open is not None:
            raise self._open[3].fault("the element is not closed")
        parts, end = list[str](), 0
        for start, stop, replacement in self._edits:
            parts += [self._text[end:start], replacement]
            end = stop
        found = "".join([*parts, self._text[end:], *self._deferred])
        is_whole = found.lstrip()[:9].lower() == "<!doctype"
        return found if is_whole else f"<!doctype html>\n{found}"

    # --- elements ---------------------------------------------------------------------------------

    @property
    def _here(self) -> int:
        line, column = self.getpos()
        return self._starts[line - 1] + column

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        start, raw = self._here, self.get_starttag_text() or ""
        at = _Place(self._name, self._root, self.getpos()[0])
        if tag in ("script", "style"):
            self._open = values, start, start + len(raw), at
            return
        changed = dict(values)
        if tag == "link":
            rel = {*values.get("rel", "").lower().split()}
            url = values.get("href", "")
            path = self._local(url, at) if "stylesheet" in rel else None
            if path is not None:
                sheet = self._styles(_read(path, at), _Place(path.name, path.parent, 1))
                style = f"{_tag('style', values, _NOT_INLINE)}{sheet}</style>"
                self._edits.append((start, start + len(raw), style))
            elif rel & _NEEDLESS and not urlsplit(url).netloc:
                self._edits.append((start, start + len(raw), ""))
            return
        if "srcset" in values:
            raise at.fault("srcset is not inlined; use src")
        for name in _LOADS.get(tag, ()):
            if name in values:
                changed[name] = self._url(values[name], at)
        if "style" in values:
            changed["style"] = self._styles(values["style"], at)
        if changed != values:
            end = " />" if raw.endswith("/>") else ">"
            self._edits.append((start, start + len(raw), _tag(tag, changed)[:-1] + end))

    def handle_endtag(self, tag: str) -> None:
        if tag not in ("script", "style") or self._open is None:
            return
        values, start, inner, at = self._open
        self._open = None
        text = self._text[inner : self._here]
        stop = self._text.index(">", self._here) + 1
        if tag == "style":
            self._edits.append((inner, self._here, self._styles(text, at)))
            return
        is_module = values.get("type", "").lower() == "module"
        path = self._local(values.get("src", ""), at)
        if path is not None:
            text, at = _read(path, at), _Place(path.name, path.parent, 1)
        elif "src" in values or not is_module:
            return
        if is_module:
            text = self._module(text, at)
        text = _ENDS_SCRIPT.sub(r"\\x3C", text)  # APP-16
        script = f"{_tag('script', values, _NOT_INLINE)}{text}</script>"
        if not is_module and ("defer" in values or "async" in values):
            # Without a file it would run at once, before the elements that it looks for.
            self._deferred.append(script)
            script = ""
        self._edits.append((start, stop, script))

    # --- what they load ---------------------------------------------------------------------------

    def _styles(self, text: str, at: _Place) -> str:
        """Return CSS with all that it loads."""

        def inline(match: re.Match[str]) -> str:
            here = at.of(match)
            if match["sheet"] is not None and self._local(match["sheet"], here) is not None:
                raise here.fault("@import is not inlined; write a <link> for each style sheet")
            if match["url"] is None:
                return match[0]
            return f'url("{self._url(match["url"], here)}")'

        return _ENDS_STYLE.sub(r"<\\/", _CSS.sub(inline, text))

    def _module(self, text: str, at: _Place) -> str:
        """Return a module with the bundles that it imports, such as that of ext-apps.

        Other imports of files are refused: their URLs would be relative to the host's.
        """

        def inline(match: re.Match[str]) -> str:
            path = self._local(match["url"], at)
            bundle = "" if path is None else _read(path, at)
            exports = _EXPORTS.search(bundle)
            if exports is None:
                return match[0]
            wanted = re.sub(r"\s+as\s+", ": ", match["names"])
            names = re.sub(r"([\w$]+)\s+as\s+([\w$]+)", r"\2: \1", exports["names"])
            body = f"{bundle[: exports.start()]}\nreturn {{{names}}};"
            return f"const {{{wanted}}} = await (async () => {{\n{body}\n}})();"

        text = _NAMED_IMPORT.sub(inline, text)
        for match in _IMPORT.finditer(text):
            url = match["a"] or match["b"]
            if url.startswith((".", "/")) and not url.startswith("//"):
                raise at.of(match).fault(
                    f"the module imports {url!r}, and hosts load one page; bundle it into one "
                    f"file (Vite: build.rolldownOptions.output.codeSplitting)"
                )
            self._check_origin(url, at.of(match))
        return text

    def _url(self, url: str, at: _Place) -> str:
        """Return a URL as it is, or a ``data:`` URL for a local file."""
        path = self._local(url, at)
        if path is None:
            return url
        data = b64encode(path.read_bytes()).decode()
        # Python's own types: those of the machine would give the page another hash.
        kind = MimeTypes().guess_type(path.name)[0] or "application/octet-stream"
        return f"data:{kind};base64,{data}"

    def _local(self, url: str, at: _Place) -> Path | None:
        """Return the file at a URL; None if the URL is not that of a file."""
        url = url.strip()
        parts = urlsplit(url)
        if parts.scheme or parts.netloc:
            self._check_origin(url, at)
            return None
        if not parts.path:  # empty, or a fragment
            return None
        folder = self._root if parts.path.startswith("/") else at.folder
        path = (folder / unquote(parts.path).lstrip("/")).resolve()
        if not path.is_relative_to(self._root):
            raise at.fault(f"{url} is outside the folder of the page")
        if not path.is_file():
            raise at.fault(f"there is no file {url}")
        return path

    def _check_origin(self, url: str, at: _Place) -> None:
        """Refuse a URL of another host that ``csp`` does not allow."""
        parts = urlsplit(url)
        if not parts.netloc:
            return
        origin = f"{parts.scheme or 'https'}://{parts.netloc}".lower()
        for each in self._html.meta.get("csp", {}).get("resourceDomains", ()):
            start, _, end = each.lower().partition("*")  # without one, the end is empty
            if origin == start or (end and origin.startswith(start) and origin.endswith(end)):
                return
        allowed = f'{{"resourceDomains": ["{origin}"]}}'
        raise at.fault(f"hosts block {url}; write csp={allowed}, or use a file")


def _tag(name: str, values: Mapping[str, str], without: Sequence[str] = ()) -> str:
    """Return a start tag."""
    kept = [(each, value) for each, value in values.items() if each not in without]
    attributes = [f' {each}="{escape(value)}"' if value else f" {each}" for each, value in kept]
    return f"<{name}{''.join(attributes)}>"


def _read(path: Path, at: _Place) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeError) as error:
        raise at.fault(f"{path} cannot be read: {error}") from None
