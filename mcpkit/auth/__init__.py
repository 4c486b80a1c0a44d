"""Verifiers of bearer tokens, for servers that are resource servers of OAuth.

    from mcpkit.auth import JWT

    app = MCPKit("notes", auth=JWT(issuer="https://login.example.com", audience="notes"))

The README of this folder says what is in which file.
"""

from __future__ import annotations

from mcpkit.auth.introspection import Introspection
from mcpkit.auth.jwt import JWT
from mcpkit.auth.keys import Keys, NewKey, hash_key, new_key
from mcpkit.auth.verifier import ResourceServer, Verifier, VerifierAway

__all__ = [
    "JWT",
    "Introspection",
    "Keys",
    "NewKey",
    "ResourceServer",
    "Verifier",
    "VerifierAway",
    "hash_key",
    "new_key",
]
