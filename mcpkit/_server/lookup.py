"""What requests are for: URIs and entries. Those of included apps run in their app."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from mcpkit._entries import Entry
from mcpkit._server.inclusions import Inclusion
from mcpkit._utils.text import quote_name
from mcpkit.context import Context
from mcpkit.errors import InvalidParams, ProtocolError
from mcpkit.middleware import Handler, Params, compose
from mcpkit.prompts import Prompt
from mcpkit.resources import ResourceTemplate

MAX_URIS: Final = 4 * 64 * 1024
"""Characters of the URIs of one request: to match them takes the event loop its time."""

MAX_URI: Final = 64 * 1024
"""Characters of a URI; matching one against templates takes time in proportion."""


def uri_of(params: Mapping[str, Any]) -> str:
    """Return the ``uri`` of a request; `InvalidParams` if it is missing or invalid."""
    uri = params.get("uri")
    if not isinstance(uri, str):
        raise InvalidParams('"uri" must be a string')
    check_uri(uri)
    return uri


def check_uris(uris: Iterable[str]) -> None:
    """Raise `InvalidParams` if URIs are too long to be looked up at once."""
    if sum(map(len, uris)) > MAX_URIS:
        raise InvalidParams(f"The URIs are longer than {MAX_URIS} characters together")


def check_uri(uri: str) -> None:
    """Raise `InvalidParams` if a URI is too long to be looked up."""
    if len(uri) > MAX_URI:
        raise InvalidParams(f"A URI is longer than {MAX_URI} characters")


def prompt_named(catalog: Any, name: Any) -> Prompt:
    """Return the prompt of a name; raises `InvalidParams` if there is none."""
    prompt: Prompt | None = catalog.prompts.get(name) if isinstance(name, str) else None
    if prompt is None:
        raise InvalidParams(f"Unknown prompt: {quote_name(name)}")
    return prompt


def referred(catalog: Any, ref: Mapping[str, Any]) -> Prompt | ResourceTemplate:
    """Return the entry that a request for completions names; raises `InvalidParams`."""
    kind = ref.get("type")
    if kind == "ref/prompt":
        return prompt_named(catalog, ref.get("name"))
    if kind == "ref/resource":
        uri = ref.get("uri")
        if isinstance(uri, str):
            check_uri(uri)
            template: ResourceTemplate | None = catalog.templates.get(uri)
            if template is not None:
                return template
            found = catalog.resource(uri)  # COMP-5
            if found is not None and isinstance(found[0], ResourceTemplate):
                return found[0]
        raise InvalidParams(f"Unknown resource template: {quote_name(uri)}")
    raise InvalidParams('"ref.type" must be "ref/prompt" or "ref/resource"')


def _resource(catalog: Any, params: Params) -> Entry | None:
    found = catalog.resource(uri_of(params))
    return None if found is None else found[0]


_FIND: Final[Mapping[str, Callable[[Any, Params], Entry | None]]] = {
    "call_tool": lambda catalog, params: catalog.tools.get(params["name"]),
    "get_prompt": lambda catalog, params: prompt_named(catalog, params["name"]),
    "read_resource": _resource,
    "complete": lambda catalog, params: referred(catalog, params["ref"]),
}
"""Operation → the entry that its request is for."""


def in_its_app(name: str, handler: Handler) -> Handler:
    """Return the handler of an operation, which runs in the app that the entry comes from."""
    find = _FIND.get(name)
    if find is None:
        return handler
    made: dict[tuple[Inclusion, ...], Handler] = {}

    def handle(server: Any, params: Params, context: Context[Any]) -> Any:
        try:
            entry = find(server.catalog, params)
        except (AttributeError, KeyError, ProtocolError, TypeError):
            entry = None  # the handler says what is wrong
        if entry is None or not entry.origin:
            return handler(server, params, context)
        if entry.origin not in made:
            made[entry.origin] = _within(handler, entry.origin)
        return made[entry.origin](server, params, context)

    return handle


def _within(handler: Handler, origin: tuple[Inclusion, ...]) -> Handler:
    """Return a handler with the middleware of apps around it, that of the outermost app outside."""
    for number, inclusion in enumerate(origin):
        app = inclusion.app.server
        handler = _with(origin[number:], compose(handler, app.middleware, app.converters))
    return handler


def _with(origin: tuple[Inclusion, ...], handler: Handler) -> Handler:
    def handle(server: Any, params: Params, context: Context[Any]) -> Any:
        return handler(server, params, Context(context.backend, origin))

    return handle
