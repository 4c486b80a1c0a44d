"""The values of `mcpkit.types` ⇄ the members of messages.

Python names are snake_case, the wire is camelCase: nothing else translates between the two. Members
and block types that a revision lacks are omitted or replaced (CONT-1, CONT-2).
"""

from __future__ import annotations

import sys
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeGuard

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


def annotations_to_wire(value: Annotations | None, revision: Revision) -> Wire | None:
    """Return the ``annotations`` of a block or resource; None if there are none."""
    if value is None:
        return None
    members = some(
        audience=None if value.audience is None else list(value.audience),
        priority=value.priority,
        lastModified=value.last_modified,
    )
    return revision.keep(revision.annotation_members, members) or None


def annotations_from_wire(value: Mapping[str, Any] | None) -> Annotations | None:
    """Read the ``annotations`` of a block or resource."""
    if value is None:
        return None
    return Annotations(
        audience=value.get("audience"),
        priority=value.get("priority"),
        last_modified=value.get("lastModified"),
    )


def hints_to_wire(value: ToolAnnotations) -> Wire:
    """Return the ``annotations`` of a tool."""
    return some(
        title=value.title,
        readOnlyHint=value.read_only,
        destructiveHint=value.destructive,
        idempotentHint=value.idempotent,
        openWorldHint=value.open_world,
    )


def hints_from_wire(value: Mapping[str, Any]) -> ToolAnnotations:
    """Read the ``annotations`` of a tool."""
    return ToolAnnotations(
        title=value.get("title"),
        read_only=value.get("readOnlyHint"),
        destructive=value.get("destructiveHint"),
        idempotent=value.get("idempotentHint"),
        open_world=value.get("openWorldHint"),
    )


def icons_to_wire(icons: Sequence[Icon] | None) -> list[Wire] | None:
    """Return the ``icons`` of a description; None if there are none."""
    if not icons:
        return None
    return [
        some(
            src=icon.src,
            mimeType=icon.mime_type,
            sizes=None if icon.sizes is None else list(icon.sizes),
            theme=icon.theme,
        )
        for icon in icons
    ]


def icons_from_wire(value: object) -> list[Icon] | None:
    """Read the ``icons`` of a description, ignoring values that are not icons."""
    if not is_array(value):
        return None
    return [
        Icon(
            str(icon.get("src", "")),
            mime_type=icon.get("mimeType"),
            sizes=icon.get("sizes"),
            theme=icon.get("theme"),
        )
        for icon in filter(is_object, value)
    ]


def implementation_to_wire(value: Implementation, revision: Revision) -> Wire:
    """Return ``serverInfo`` or ``clientInfo``."""
    members = some(
        name=value.name,
        version=value.version,
        title=value.title,
        description=value.description,
        websiteUrl=value.website_url,
        icons=icons_to_wire(value.icons),
    )
    return revision.keep(revision.implementation_members, members)


def implementation_from_wire(value: Mapping[str, Any]) -> Implementation:
    """Read ``serverInfo`` or ``clientInfo``, tolerantly: nothing depends on it (META-4)."""
    return Implementation(
        str(value.get("name", "")),
        str(value.get("version", "")),
        title=value.get("title"),
        description=value.get("description"),
        website_url=value.get("websiteUrl"),
        icons=icons_from_wire(value.get("icons")),
    )


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
    progress, total = params.get("progress", 0), params.get("total")
    message = params.get("message")
    if not _is_amount(progress):
        raise ValueError('"progress" must be a number')
    if total is not None and not _is_amount(total):
        raise ValueError('"total" must be a number')
    if message is not None and not isinstance(message, str):
        raise ValueError('"message" must be a string')
    return progress, total, message


def _is_amount(value: object) -> TypeGuard[float]:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return False
    return abs(value) <= sys.float_info.max  # larger ones cannot be divided


def log_from_wire(params: Mapping[str, Any]) -> tuple[str, Any, str | None]:
    """Read the level, data and logger of ``notifications/message``.

    Raises:
        ValueError: One of them is malformed; the message says which.
    """
    level, logger = params.get("level", "info"), params.get("logger")
    if not isinstance(level, str):
        raise ValueError('"level" must be a string')
    if logger is not None and not isinstance(logger, str):
        raise ValueError('"logger" must be a string')
    return level, params.get("data"), logger


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
    if type(block) is TextContent and block.annotations is None and block.meta is None:
        return {"type": "text", "text": block.text}
    return _BLOCKS[type(block)](block, revision)


def _finish(members: Wire, block: ContentBlock, revision: Revision) -> Wire:
    annotations = annotations_to_wire(block.annotations, revision)
    if annotations is not None:
        members["annotations"] = annotations
    if block.meta is not None and revision.block_meta:
        members["_meta"] = block.meta
    return members


def _text(block: TextContent, revision: Revision) -> Wire:
    return _finish({"type": "text", "text": block.text}, block, revision)


def _media(block: ImageContent | AudioContent, revision: Revision) -> Wire:
    kind = "image" if isinstance(block, ImageContent) else "audio"
    data = b64encode(block.data).decode("ascii")
    members: Wire = {"type": kind, "data": data, "mimeType": block.mime_type}
    if kind not in revision.content_types:
        blob = {"uri": "data:,", "mimeType": block.mime_type, "blob": data}
        members = {"type": "resource", "resource": blob}
    return _finish(members, block, revision)


def _embedded(block: EmbeddedResource, revision: Revision) -> Wire:
    resource = contents_to_wire(block.resource, revision)
    return _finish({"type": "resource", "resource": resource}, block, revision)


def _link(block: ResourceLink, revision: Revision) -> Wire:
    if "resource_link" not in revision.content_types:
        label = block.title or block.name
        lines = [f"{label}: {block.uri}"] + ([block.description] if block.description else [])
        return _finish({"type": "text", "text": "\n".join(lines)}, block, revision)
    members = some(
        uri=block.uri,
        name=block.name,
        title=block.title,
        description=block.description,
        mimeType=block.mime_type,
        size=block.size,
        icons=icons_to_wire(block.icons),
    )
    kept = revision.keep(revision.resource_members, members)
    return _finish({"type": "resource_link", **kept}, block, revision)


_BLOCKS: Final[dict[type, Callable[[Any, Revision], Wire]]] = {
    TextContent: _text,
    ImageContent: _media,
    AudioContent: _media,
    EmbeddedResource: _embedded,
    ResourceLink: _link,
}


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
