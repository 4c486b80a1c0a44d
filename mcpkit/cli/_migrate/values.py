"""Values of the protocol, media and hints of theirs → the same of ours."""

from __future__ import annotations

import re
from typing import Any, Final, cast

import libcst as cst
from libcst import matchers as m

from mcpkit._utils.names import peer_names
from mcpkit.cli._migrate.arguments import Args, expression, string_of
from mcpkit.cli._migrate.source import text_of

__all__ = ["CONTENT", "MEDIA", "content", "media", "unfold_hints"]

CONTENT: Final = {
    "TextContent",
    "ImageContent",
    "AudioContent",
    "EmbeddedResource",
    "ResourceLink",
    "TextResourceContents",
    "BlobResourceContents",
    "CallToolResult",
    "ToolResult",
    "ToolAnnotations",
    "Annotations",
    "Icon",
    "SamplingMessage",
    "GetPromptResult",
}
"""Values of the protocol: the keywords are those of the wire there."""

_WIRE: Final = {
    "mimeType": "mime_type",
    "isError": "is_error",
    "structuredContent": "structured_content",
    "lastModified": "last_modified",
    "_meta": "meta",
}

_HINTS: Final = {
    each.theirs: each.ours for each in peer_names().values() if each.on == "annotations"
}
MEDIA: Final = {"Image": "image/", "Audio": "audio/", "File": "application/"}
_FORMATS: Final = {"jpg": "jpeg", "mp3": "mpeg", "svg": "svg+xml", "txt": "plain"}


def content(theirs: str, args: Args, needed: set[tuple[str, str]]) -> cst.BaseExpression:
    """Return a value of the protocol: its names, and bytes where there is base64."""
    if theirs != "SamplingMessage":
        args.take("type")
    names = {**_WIRE, **(_HINTS if theirs == "ToolAnnotations" else {})}
    for name in args.keywords:
        if name in names:
            args.rename(name, names[name])
    if text_of(args.get("structured_content")) == "None":
        args.take("structured_content")  # none there, and the JSON null here
    for name in ("data", "blob"):
        value = args.get(name)
        if theirs in ("ImageContent", "AudioContent", "BlobResourceContents") and value:
            args.replace(name, _bytes(value, needed))
    uri = args.get("uri")
    if isinstance(uri, cst.Call) and text_of(uri.func) == "AnyUrl" and len(uri.args) == 1:
        args.replace("uri", uri.args[0].value)
    return args.call()


def _bytes(value: cst.BaseExpression, needed: set[tuple[str, str]]) -> cst.BaseExpression:
    """Return an expression for the bytes of what is base64 there."""
    code = cst.Module([]).code_for_node(value)
    match = re.fullmatch(r"base64\.b64encode\((.*)\)\.decode\([^()]*\)", code, re.DOTALL)
    if match is not None and match[1].count("(") == match[1].count(")"):
        return expression(match[1])
    needed.add(("", "base64"))
    return expression(f"base64.b64decode({code})")


def media(theirs: str, args: Args) -> cst.BaseExpression:
    """Return a picture, a sound or a file: the data or the path first, and a MIME type."""
    form = args.take("format")
    source = args.take("data") if "data" in args.keywords else args.take("path")
    mime = args.take("mime_type")
    if form is not None:
        known = string_of(form)
        short = _FORMATS.get(known, known) if known else None
        text = cst.Module([]).code_for_node(form)
        mime = expression(f'"{MEDIA[theirs]}{short}"' if short else f'f"{MEDIA[theirs]}{{{text}}}"')
    if mime is not None:
        args.all.insert(0 if not args.positional else 1, cst.Arg(mime))
    if source is not None:
        args.first(source)
    return args.call()


def unfold_hints(args: Args) -> None:
    """Write the hints of a tool by themselves, if they are written out."""
    value = args.get("annotations")
    if value is not None and m.findall(value, m.Comment()):
        return  # they have no place among the options
    hints: list[tuple[str, cst.BaseExpression]] = []
    if isinstance(value, cst.Dict):
        for element in value.elements:
            name = string_of(element.key) if isinstance(element, cst.DictElement) else None
            if name is None:
                return
            hints.append((name, cast("Any", element).value))
    elif isinstance(value, cst.Call) and text_of(value.func) == "ToolAnnotations":
        for each in value.args:
            if each.keyword is None:
                return
            hints.append((each.keyword.value, each.value))
    else:
        return
    known = {"title", *_HINTS, *_HINTS.values()}
    if not all(name in known for name, _ in hints):
        return
    named_hints = [(_HINTS.get(name, name), each) for name, each in hints]
    taken = set(args.keywords)
    args.put("annotations", [(name, each) for name, each in named_hints if name not in taken])
