"""The values of `mcpkit.types` ⇄ the members of messages.

Translates content, descriptions and notifications: Python names are snake_case, the wire is
camelCase. Members and block types that a revision lacks are omitted or replaced (CONT-1, CONT-2).
"""

from __future__ import annotations

import re
import sys
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from typing import Any, Final

from typing_extensions import assert_never

from mcpkit._protocol.revisions import Revision
from mcpkit._utils.json import is_array, is_object
from mcpkit._utils.text import quote, quote_name
from mcpkit.types import (
    Annotations,
    AudioContent,
    BlobResourceContents,
    ContentBlock,
    EmbeddedResource,
    Icon,
    ImageContent,
    Implementation,
    ResourceContents,
    ResourceLink,
    TextContent,
    TextResourceContents,
    ToolAnnotations,
)

Wire = dict[str, Any]


def some(**members: Any) -> Wire:
    """Return the members that are not None."""
    return {name: value for name, value in members.items() if value is not None}


# --- parts of descriptions ------------------------------------------------------------------------


def _members(attributes: str) -> dict[str, str]:
    """Return member → attribute: the wire has ``mimeType`` where Python has ``mime_type``."""
    return {re.sub("_(.)", lambda it: it[1].upper(), each): each for each in attributes.split()}


# Member of a message → attribute.
ANNOTATIONS: Final = _members("audience priority last_modified")
HINTS: Final = {
    "title": "title",
    "readOnlyHint": "read_only",
    "destructiveHint": "destructive",
    "idempotentHint": "idempotent",
    "openWorldHint": "open_world",
}
_ICON: Final = _members("src mime_type sizes theme")
_IMPLEMENTATION: Final = _members("name version title description website_url")
_LINK: Final = _members("uri name title description mime_type size")


def _to_wire(value: object, names: Mapping[str, str]) -> Wire:
    members: Wire = {}
    for name, attribute in names.items():
        found: Any = getattr(value, attribute)
        if found is not None:
            members[name] = [*found] if type(found) is tuple else found
    return members


def _from_wire(members: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {attribute: members.get(name) for name, attribute in names.items()}


def annotations_to_wire(value: Annotations | None, revision: Revision) -> Wire | None:
    """Return the ``annotations`` of a block or resource; None if there are none."""
    if value is None:
        return None
    return revision.keep(revision.annotation_members, _to_wire(value, ANNOTATIONS)) or None


def annotations_from_wire(value: Mapping[str, Any] | None) -> Annotations | None:
    """Read the ``annotations`` of a block or resource."""
    return None if value is None else Annotations(**_from_wire(value, ANNOTATIONS))


def hints_to_wire(value: ToolAnnotations) -> Wire:
    """Return the ``annotations`` of a tool."""
    return {**(value.extra or {}), **_to_wire(value, HINTS)}


def hints_from_wire(value: Mapping[str, Any]) -> ToolAnnotations:
    """Read the ``annotations`` of a tool."""
    extra = {name: each for name, each in value.items() if name not in HINTS}
    return ToolAnnotations(**_from_wire(value, HINTS), extra=extra or None)


def icons_to_wire(icons: Sequence[Icon] | None) -> list[Wire] | None:
    """Return the ``icons`` of a description; None if there are none."""
    return [_to_wire(icon, _ICON) for icon in icons] if icons else None


def icons_from_wire(value: object) -> list[Icon] | None:
    """Read the ``icons`` of a description, ignoring values that are not icons."""
    if not is_array(value):
        return None
    icons = (_from_wire(icon, _ICON) for icon in filter(is_object, value))
    return [Icon(str(icon.pop("src") or ""), **icon) for icon in icons]


def implementation_to_wire(value: Implementation, revision: Revision) -> Wire:
    """Return ``serverInfo`` or ``clientInfo``."""
    members = _to_wire(value, _IMPLEMENTATION)
    if value.icons:
        members["icons"] = icons_to_wire(value.icons)
    return revision.keep(revision.implementation_members, members)


def implementation_from_wire(value: Mapping[str, Any]) -> Implementation:
    """Read ``serverInfo`` or ``clientInfo``, tolerantly: nothing depends on it (META-4)."""
    members = _from_wire(value, _IMPLEMENTATION)
    name, version = str(members.pop("name") or ""), str(members.pop("version") or "")
    return Implementation(name, version, icons=icons_from_wire(value.get("icons")), **members)


# --- texts ----------------------------------------------------------------------------------------


def text_in(value: Mapping[str, Any], name: str) -> str:
    """Return a member that must be a string.

    Raises:
        KeyError: It is missing.
        TypeError: It is not a string.
    """
    found = value[name]
    if not isinstance(found, str):
        raise TypeError(f'"{name}" must be a string')
    return found


def optional_text(value: Mapping[str, Any], name: str) -> str | None:
    """Return an optional member; None unless it is a string."""
    found = value.get(name)
    return found if isinstance(found, str) else None


# --- notifications --------------------------------------------------------------------------------


def progress_from_wire(params: Mapping[str, Any]) -> tuple[float, float | None, str | None]:
    """Read the progress, total and message of ``notifications/progress``.

    Raises:
        ValueError: One of them is malformed; the message says which.
    """
    total = params.get("total")
    return (
        _amount("progress", params.get("progress", 0)),
        None if total is None else _amount("total", total),
        _text(params, "message"),
    )


def _amount(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f'"{name}" must be a number')
    if abs(value) > sys.float_info.max:
        raise ValueError(f'"{name}" is too large')
    return value


def _text(params: Mapping[str, Any], name: str) -> str | None:
    found = params.get(name)
    if found is not None and not isinstance(found, str):
        raise ValueError(f'"{name}" must be a string')
    return found


def log_from_wire(params: Mapping[str, Any]) -> tuple[str, Any, str | None]:
    """Read the level, data and logger of ``notifications/message``.

    Raises:
        ValueError: One of them is malformed; the message says which.
    """
    return _text(params, "level") or "info", params.get("data"), _text(params, "logger")


# --- resource contents ----------------------------------------------------------------------------


def contents_to_wire(value: ResourceContents, revision: Revision) -> Wire:
    """Return one item of ``contents``, or the ``resource`` of an embedded resource."""
    members: Wire = {"uri": value.uri}
    if value.mime_type is not None:
        members["mimeType"] = value.mime_type
    if isinstance(value, TextResourceContents):
        members["text"] = value.text
    else:
        members["blob"] = b64encode(value.blob).decode("ascii")
    if value.meta is not None and revision.block_meta:
        members["_meta"] = value.meta
    return members


def contents_from_wire(value: Mapping[str, Any]) -> ResourceContents:
    """Read resource contents.

    Raises:
        ValueError: There is neither ``text`` nor ``blob``, or the blob is not base64.
        TypeError: One of them is not a string.
    """
    uri, mime_type = str(value.get("uri", "")), optional_text(value, "mimeType")
    meta = value.get("_meta")
    if "text" in value:
        return TextResourceContents(uri, text_in(value, "text"), mime_type=mime_type, meta=meta)
    if "blob" in value:
        blob = b64decode(value["blob"], validate=True)
        return BlobResourceContents(uri, blob, mime_type=mime_type, meta=meta)
    raise ValueError("Resource contents need a text or a blob")


# --- content blocks -------------------------------------------------------------------------------


def block_to_wire(block: ContentBlock, revision: Revision) -> Wire:
    """Return a content block, in a form that the revision has (CONT-1)."""
    if isinstance(block, TextContent):
        members: Wire = {"type": "text", "text": block.text}
    elif isinstance(block, EmbeddedResource):
        members = {"type": "resource", "resource": contents_to_wire(block.resource, revision)}
    elif isinstance(block, ResourceLink):
        members = _link(block, revision)
    elif isinstance(block, (ImageContent, AudioContent)):
        members = _media(block, revision)
    else:
        assert_never(block)
    annotations = annotations_to_wire(block.annotations, revision)
    if annotations:
        members["annotations"] = annotations
    if block.meta is not None and revision.block_meta:
        members["_meta"] = block.meta
    return members


def _media(block: ImageContent | AudioContent, revision: Revision) -> Wire:
    kind = "image" if isinstance(block, ImageContent) else "audio"
    data = b64encode(block.data).decode("ascii")
    if kind in revision.content_types:
        return {"type": kind, "data": data, "mimeType": block.mime_type}
    blob = {"uri": "data:,", "mimeType": block.mime_type, "blob": data}
    return {"type": "resource", "resource": blob}


def _link(block: ResourceLink, revision: Revision) -> Wire:
    if "resource_link" not in revision.content_types:
        label = block.title or block.name
        lines = [f"{label}: {block.uri}"] + ([block.description] if block.description else [])
        return {"type": "text", "text": "\n".join(lines)}
    members = _to_wire(block, _LINK)
    if block.icons:
        members["icons"] = icons_to_wire(block.icons)
    return {"type": "resource_link", **revision.keep(revision.resource_members, members)}


def block_from_wire(value: Mapping[str, Any]) -> ContentBlock:
    """Read a content block.

    Raises:
        ValueError: Its type is unknown or a required member is missing or malformed.
    """
    kind = value.get("type")
    meta = value.get("_meta")
    try:
        annotations = annotations_from_wire(value.get("annotations"))
        if kind == "text":
            return TextContent(text_in(value, "text"), annotations=annotations, meta=meta)
        if kind == "image" or kind == "audio":
            data = b64decode(value["data"], validate=True)
            made = ImageContent if kind == "image" else AudioContent
            return made(data, text_in(value, "mimeType"), annotations=annotations, meta=meta)
        if kind == "resource":
            contents = contents_from_wire(value["resource"])
            return EmbeddedResource(contents, annotations=annotations, meta=meta)
        if kind == "resource_link":
            return ResourceLink(
                text_in(value, "uri"),
                text_in(value, "name"),
                title=optional_text(value, "title"),
                description=optional_text(value, "description"),
                mime_type=optional_text(value, "mimeType"),
                size=value.get("size"),
                icons=icons_from_wire(value.get("icons")),
                annotations=annotations,
                meta=meta,
            )
    except KeyError as missing:
        raise ValueError(f"A {quote_name(kind)} block lacks the member {missing}") from None
    except (AttributeError, TypeError):
        raise ValueError(f"A {quote_name(kind)} block has a member of the wrong type") from None
    raise ValueError(f"Unknown content block type: {quote(kind)}")
