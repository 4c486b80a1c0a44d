"""The questions in which protocol revisions differ.

`mcpkit._protocol.revisions` has one file of answers for each revision. No other module names a
version: what varies is asked here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

__all__ = ["Capability", "Method", "Notice", "Revision"]

Capability: TypeAlias = Literal["tools", "resources", "prompts", "completions", "logging", "tasks"]
"""A server capability that must be advertised before its methods exist."""


class Method:
    """A request that a client may send.

    Args:
        operation: The function of `mcpkit._server.handlers`, or the act of the session, that
            answers it.
        capability: What the server must advertise, or None.
        cacheable: Whether its complete result carries cache hints.
        asks: Whether its handler may ask the client for input (a result ``input_required``).
        mirrored: The member of the params that the HTTP header ``Mcp-Name`` repeats, or None.
    """

    __slots__ = ("asks", "cacheable", "capability", "mirrored", "operation")

    def __init__(
        self,
        operation: str,
        capability: Capability | None = None,
        *,
        cacheable: bool = False,
        asks: bool = False,
        mirrored: str | None = None,
    ) -> None:
        self.operation = operation
        self.capability = capability
        self.cacheable = cacheable
        self.asks = asks
        self.mirrored = mirrored


Notice: TypeAlias = Literal["initialized", "cancelled", "progress", "roots_changed"]
"""The meaning of a notification from the client."""


class Revision(NamedTuple):
    """One dated revision of the protocol, as data.

    Args:
        version: The string on the wire.
        handshake: Whether ``initialize`` opens a session; otherwise each request announces version
            and capabilities in its ``_meta``.
        methods: The requests a client may send.
        notices: The notifications a client may send.
        batching: Whether an array of messages is a message.
        errors_without_id: Whether an error response may leave out an id that could not be read.
        resource_not_found: The error code for a URI that names nothing.
        structured_output: What ``structuredContent`` may be.
        content_types: The kinds of content block that exist.
        tool_members, resource_members, template_members, prompt_members, argument_members,
        implementation_members, annotation_members: The members a description may have.
        block_meta: Whether content blocks and resource contents may carry ``_meta``.
        server_capabilities: The members a server's capabilities object may have.
        progress_message: Whether a progress notification may carry a message.
        completion_context: Whether a completion request carries the arguments filled in so far.
        completion_flag: Whether completion is a capability (otherwise it is served when possible).
        stamped: Whether results carry ``resultType``, the server's identity and cache hints.
        elicitation_modes: How a user may be asked: by a form, by a page to open.
        elicitation_ids: Whether a page to open has an id that can be reported as completed.
        elicitation_rich: Whether forms have defaults, titled choices and choices of several.
        sampling_types: The kinds of content block that a model may be given, and may give.
        sampling_tools: Whether a model may be given tools, and messages several blocks.
        client_asks: How a handler asks the client: with a request to it, or with a result.
        polling: Whether a client comes back by itself to a stream that was closed before its end.
        tasks: How a call may go on after its answer: where its client asks for that, where its
            client knows the extension, or not at all.
    """

    version: str
    handshake: bool
    methods: Mapping[str, Method]
    notices: Mapping[str, Notice]
    batching: bool
    errors_without_id: bool
    resource_not_found: int
    structured_output: Literal["none", "object", "any"]
    content_types: frozenset[str]
    tool_members: frozenset[str]
    resource_members: frozenset[str]
    template_members: frozenset[str]
    prompt_members: frozenset[str]
    argument_members: frozenset[str]
    implementation_members: frozenset[str]
    annotation_members: frozenset[str]
    block_meta: bool
    server_capabilities: frozenset[str]
    progress_message: bool
    completion_context: bool
    completion_flag: bool
    stamped: bool
    elicitation_modes: frozenset[str]
    elicitation_ids: bool
    elicitation_rich: bool
    sampling_types: frozenset[str]
    sampling_tools: bool
    client_asks: Literal["request", "result"]
    polling: bool
    tasks: Literal["none", "wished", "extension"]

    def keep(self, members: frozenset[str], value: Mapping[str, Any]) -> dict[str, Any]:
        """The members of a description that this revision knows (CONT-2)."""
        return {name: item for name, item in value.items() if name in members}

    def __repr__(self) -> str:
        return f"<Revision {self.version}>"
