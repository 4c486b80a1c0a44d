"""Arguments of calls, and values of the protocol and media, rewritten."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import takewhile
from typing import Any, Final

import libcst as cst

from mcpkit._utils.names import peer_names
from mcpkit.cli._migrate.source import code_of, text_of

EQUAL: Final = cst.AssignEqual(
    whitespace_before=cst.SimpleWhitespace(""), whitespace_after=cst.SimpleWhitespace("")
)
"""The equals sign of a keyword."""


def expression(code: str) -> cst.BaseExpression:
    """Return the tree of an expression."""
    return cst.parse_expression(code)


def string_of(node: cst.BaseExpression | None) -> str | None:
    """Return the value of a string that is written out; None for anything else."""
    if isinstance(node, (cst.SimpleString, cst.ConcatenatedString)):
        found = node.evaluated_value
        return found if isinstance(found, str) else None
    return None


class Args:
    """The arguments of a call while it is rewritten."""

    def __init__(self, call: cst.Call) -> None:
        self._call = call
        self.all: list[cst.Arg] = list(call.args)
        self._without_last = False

    @property
    def positional(self) -> list[cst.Arg]:
        return [*takewhile(lambda each: each.keyword is None and not each.star, self.all)]

    @property
    def keywords(self) -> list[str]:
        return [each.keyword.value for each in self.all if each.keyword is not None]

    def get(self, name: str) -> cst.BaseExpression | None:
        """Return the value of a keyword; None if it is not there."""
        found = self._find(name)
        return None if found is None else found.value

    def take(self, name: str) -> cst.BaseExpression | None:
        """Take a keyword out, and return its value; None if it is not there."""
        found = self._find(name)
        if found is not None:
            self.all.remove(found)
            self._without_last = self._without_last or found is self._call.args[-1]
        return None if found is None else found.value

    def change(self, name: str, **changes: cst.CSTNode) -> None:
        """Change the ``keyword`` or the ``value`` of a keyword, if it is there."""
        found = self._find(name)
        if found is not None:
            self.all[self.all.index(found)] = found.with_changes(**changes)

    def add(self, name: str, value: cst.BaseExpression) -> None:
        """Add a keyword at the end, unless it is there."""
        if self._find(name) is None:
            self.all.append(_keyword(name, value))

    def first(self, value: cst.BaseExpression) -> None:
        self.all.insert(0, cst.Arg(value))

    def lead(self, name: str) -> None:
        """Move the value of a keyword to the front, without its name, if it is there."""
        value = self.take(name)
        if value is not None:
            self.first(value)

    def positional_as(self, names: Iterable[str], first: int = 1) -> None:
        """Give the values without a keyword their names, but for those before the `first`."""
        count = len(self.positional)
        for index, name in enumerate(names, first):
            if index < count:
                self.all[index] = _keyword(name, self.all[index].value).with_changes(
                    comma=self.all[index].comma
                )

    def call(self, function: cst.BaseExpression | None = None) -> cst.Call:
        """Return the call with what has become of its arguments."""
        args = [*self.all]
        before = self._call.args
        comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
        if isinstance(self._call.whitespace_before_args, cst.ParenthesizedWhitespace):
            space = _uncommented(self._call.whitespace_before_args)
            comma = cst.Comma(whitespace_after=space.with_changes(empty_lines=()))
        end = before[-1].comma if before else None
        for index, each in enumerate(args[:-1]):
            if not isinstance(each.comma, cst.Comma) or each.comma is end:
                args[index] = each.with_changes(comma=comma)
        if args and before:
            last = before[-1]
            behind = last.comma
            if self._without_last and isinstance(behind, cst.Comma):
                behind = behind.with_changes(whitespace_after=_uncommented(behind.whitespace_after))
            args[-1] = args[-1].with_changes(
                comma=behind, whitespace_after_arg=last.whitespace_after_arg
            )
        changes: dict[str, object] = {"args": args}
        if not args:
            changes["whitespace_before_args"] = cst.SimpleWhitespace("")
        if function is not None:
            changes["func"] = function
        return self._call.with_changes(**changes)

    def _find(self, name: str) -> cst.Arg | None:
        named = (each for each in self.all if each.keyword and each.keyword.value == name)
        return next(named, None)


def _uncommented(space: Any) -> Any:
    if not isinstance(space, cst.ParenthesizedWhitespace):
        return space
    line = space.first_line.with_changes(comment=None, whitespace=cst.SimpleWhitespace(""))
    return space.with_changes(first_line=line)


def _keyword(name: str, value: cst.BaseExpression) -> cst.Arg:
    return cst.Arg(value, keyword=cst.Name(name), equal=EQUAL)


# --- values ---------------------------------------------------------------------------------------

CONTENT: Final = {
    *("TextContent", "ImageContent", "AudioContent", "EmbeddedResource", "ResourceLink"),
    *("TextResourceContents", "BlobResourceContents", "CallToolResult", "ToolResult"),
    *("ToolAnnotations", "Annotations", "Icon", "SamplingMessage", "GetPromptResult"),
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
            args.change(name, keyword=cst.Name(names[name]))
    if theirs == "ToolAnnotations":
        own = [name for name in args.keywords if name not in {"title", *_HINTS.values()}]
        named = ", ".join(
            f'"{name}": {code_of(value)}' for name in own if (value := args.take(name))
        )
        args.all += [_keyword("extra", expression(f"{{{named}}}"))] if named else []
    if text_of(args.get("structured_content")) == "None":
        args.take("structured_content")  # none there, and the JSON null here
    for name in ("data", "blob"):
        value = args.get(name)
        if theirs in ("ImageContent", "AudioContent", "BlobResourceContents") and value:
            args.change(name, value=_bytes(value, needed))
    uri = args.get("uri")
    if isinstance(uri, cst.Call) and text_of(uri.func) == "AnyUrl" and len(uri.args) == 1:
        args.change("uri", value=uri.args[0].value)
    return args.call()


def _bytes(value: cst.BaseExpression, needed: set[tuple[str, str]]) -> cst.BaseExpression:
    code = code_of(value)
    match = re.fullmatch(r"base64\.b64encode\((.*)\)\.decode\([^()]*\)", code, re.DOTALL)
    if match is not None and match[1].count("(") == match[1].count(")"):
        return expression(match[1])
    needed.add(("", "base64"))
    return expression(f"base64.b64decode({code})")


def media(theirs: str, args: Args) -> cst.BaseExpression:
    """Return a picture, a sound or a file: the data or the path first, and a MIME type."""
    form = args.take("format")
    mime = args.take("mime_type")
    if form is not None:
        known = string_of(form)
        short = _FORMATS.get(known, known) if known else None
        kind = MEDIA[theirs]
        mime = expression(f'"{kind}{short}"' if short else f'f"{kind}{{{code_of(form)}}}"')
    if mime is not None:
        args.all.insert(len(args.positional), cst.Arg(mime))
    args.lead("data" if "data" in args.keywords else "path")
    return args.call()
