"""The former place of `mcpkit.client`."""

from mcpkit._utils.lazy import moved

__getattr__ = moved(__name__, "mcpkit.client")
