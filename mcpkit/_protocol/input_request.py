"""A question to a client, as a value.

An ask knows its request in each revision, the capabilities that the client must have declared, and
the way from the client's result to an answer. The ways to get there are in `by_request` and
`by_result`.
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

__all__ = ["Ask", "digest"]

T = TypeVar("T", default=Any)


class Ask(InputMarker, Generic[T]):
    """Something to ask a client.

    Args:
        key: Names the ask within the call; derived from its place and its content if None.
        timeout: Seconds to wait for the answer (handshake revisions); None: the server's setting.
    """

    METHOD: ClassVar[str]
    IS_ASKED_AGAIN: ClassVar[bool] = True
    """Whether the same question may have another answer later in the same call."""

    request_id: str | None = None
    """The id of the request that puts it, where that has to say more than the others."""

    key: str | None = None
    timeout: float | None = None

    def params(self, revision: Revision) -> dict[str, Any]:
        """The ``params`` of the request.

        Raises:
            ElicitationError: The revision cannot carry it.
        """
        raise NotImplementedError

    def needs(self, revision: Revision) -> dict[str, Any]:
        """The capabilities that a client must have declared, as the object it would declare."""
        raise NotImplementedError

    def read(self, result: Mapping[str, Any]) -> T:
        """The answer as a value.

        Raises:
            InvalidInputResponse: It is malformed.
        """
        raise NotImplementedError

    def check(self, revision: Revision, client: ClientProfile) -> None:
        """Refuse to ask what the client has not declared (S2C-1, MRTR-4).

        Raises:
            MissingClientCapability: With what is missing.
        """
        needed = self.needs(revision)
        if not _has(client.capabilities, needed):
            raise MissingClientCapability(needed)

    def fingerprint(self, revision: Revision) -> str:
        """Return a text that tells this ask from others; the same question has the same."""
        asked = encode([self.METHOD, self.params(revision)])
        return digest(asked)


def digest(asked: bytes) -> str:
    """Return a short text that is the same for the same bytes only."""
    from hashlib import sha256  # loaded when needed: it brings OpenSSL along

    return sha256(asked).hexdigest()[:16]


def _has(declared: Any, needed: Mapping[str, Any]) -> bool:
    return is_object(declared) and all(
        _has(declared.get(name), below) for name, below in needed.items()
    )
