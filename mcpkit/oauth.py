"""The former place of `mcpkit.client.auth`."""

from mcpkit._utils.lazy import moved

__getattr__ = moved(__name__, "mcpkit.client.auth")
