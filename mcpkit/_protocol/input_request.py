"""A request of the server for input from its client, as a value.

It knows its params in each revision, the capabilities that the client must have declared, and how
to parse the client's result. `mcpkit._input_requests` sends it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Generic

from typing_extensions import TypeVar

from mcpkit._protocol.messages import encode
from mcpkit._protocol.revisions import ClientProfile, Revision
from mcpkit._utils.json import is_object
from mcpkit.dependencies import InputMarker
from mcpkit.errors import MissingClientCapability

T = TypeVar("T", default=Any)


class InputRequest(InputMarker, Generic[T]):
    """A request for input from the client.

    Args:
        key: The name within the call; None: derived from the order and the content.
        timeout: Seconds to wait for the answer (handshake revisions); None: the server's setting.
    """

    METHOD: str
    IS_ASKED_AGAIN: ClassVar[bool] = True
    """Whether the same request may have another answer later in the same call."""

    request_id: str | None = None
    """The id of the message, if that has to carry information."""

    def __init__(self, *, key: str | None = None, timeout: float | None = None) -> None:
        self.key = key
        self.timeout = timeout

    def params(self, revision: Revision) -> dict[str, Any]:
        """Return the ``params``; raises `ElicitationError` if the revision has no such request."""
        raise NotImplementedError

    def required_capabilities(self, revision: Revision) -> dict[str, Any]:
        """Return the capabilities that the client must have declared."""
        raise NotImplementedError

    def parse_result(self, result: Mapping[str, Any]) -> T:
        """Return the answer in a result of the client.

        Raises:
            InvalidInputResponse: It is malformed.
        """
        raise NotImplementedError

    def check(self, revision: Revision, client: ClientProfile) -> None:
        """Check that the client has declared the capabilities (S2C-1, MRTR-4).

        Raises:
            MissingClientCapability: It has not.
        """
        needed = self.required_capabilities(revision)
        if not _has(client.capabilities, needed):
            raise MissingClientCapability(needed)

    def fingerprint(self, revision: Revision) -> str:
        """Return a digest of the request: equal requests have the same."""
        return digest(encode([self.METHOD, self.params(revision)]))


def digest(asked: bytes) -> str:
    """Return a short text that identifies some bytes."""
    from hashlib import sha256  # loaded when needed: it imports OpenSSL

    return sha256(asked).hexdigest()[:16]


def _has(declared: Any, needed: Mapping[str, Any]) -> bool:
    return is_object(declared) and all(
        _has(declared.get(name), below) for name, below in needed.items()
    )
