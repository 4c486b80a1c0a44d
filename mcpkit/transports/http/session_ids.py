"""Session ids that carry the session: every process that has the secret can serve it.

A handshake negotiates little: a revision, and the client's capabilities. Sealed, they fit into the
header that every later request repeats, so an idle session takes no memory, survives a restart, and
may be served by any worker.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from itertools import islice
from typing import Any, Final, NamedTuple

from pydantic_core import from_json

from mcpkit._protocol.messages import encode
from mcpkit._protocol.revisions import BY_VERSION, ClientProfile, Revision
from mcpkit._utils.json import is_array, is_object
from mcpkit._utils.sealing import SealBroken, Sealer

MAX_ID: Final = 6 * 1024
"""Characters of an id that fit into a header everywhere."""

MAX_CLIENT: Final = 3 * 1024
"""Bytes of a client's facts about itself, up to which all of them go into the id."""

_ASKABLE: Final = ("roots", "sampling", "elicitation", "tasks")
_NAMING: Final = ("name", "version", "title")


class SessionId(NamedTuple):
    """The content of a session id.

    Args:
        key: A name of the session that cannot be guessed.
        revision: The negotiated revision.
        client: The client's profile.
        principal: The id of the principal that it belongs to; None if it belongs to none.
        expires: The time at which it ends, in seconds since the epoch.
    """

    key: str
    revision: Revision
    client: ClientProfile
    principal: str | None
    expires: float


class SessionIds(NamedTuple):
    """A maker and reader of session ids, which are sealed, and valid for a lifetime in seconds."""

    sealer: Sealer
    lifetime: float

    def mint(self, revision: Revision, client: ClientProfile, principal: str | None) -> str:
        """Return the id of a session that was just negotiated: visible ASCII (HTTPL-14)."""
        capabilities, info = _shortened(client)
        expires = int(time.time() + self.lifetime)
        key = os.urandom(12).hex()
        value = [revision.version, capabilities, info, principal, expires, key]
        return self.sealer.seal(encode(value))

    def read(self, id: str) -> SessionId | None:
        """Return the content of an id; None if it was not made here, or was changed."""
        if len(id) > MAX_ID:
            return None
        try:
            # Texts that occur once only would fill the parser's memory of texts that occur again.
            value = from_json(self.sealer.open(id), cache_strings="keys")
        except SealBroken:
            return None
        if not is_array(value) or len(value) != 6:  # made by another version of mcpkit
            return None
        version, capabilities, info, principal, expires, key = value
        revision = BY_VERSION.get(version)
        if revision is None:
            return None
        return SessionId(key, revision, ClientProfile(capabilities, info), principal, expires)


def _shortened(client: ClientProfile) -> tuple[Mapping[str, Any], Mapping[str, Any] | None]:
    """Return the facts of a client without those that a header has no room for."""
    capabilities: Mapping[str, Any] = client.capabilities
    info = client.info
    if len(encode([capabilities, info])) <= MAX_CLIENT:
        return capabilities, info
    if info is not None:
        # Icons may be whole pictures.
        info = {name: str(info[name])[:200] for name in _NAMING if name in info}
    if len(encode(capabilities)) > MAX_CLIENT // 2:
        capabilities = {name: capabilities[name] for name in _ASKABLE if name in capabilities}
    if len(encode(capabilities)) > MAX_CLIENT // 2:
        # The names of their options alone.
        capabilities = {
            name: {each: {} for each in islice(value, 10) if len(each) < 40}
            for name, value in capabilities.items()
            if is_object(value)
        }
    return capabilities, info
