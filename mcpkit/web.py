"""The former place of `mcpkit.http`."""

from mcpkit._utils.lazy import moved

__getattr__ = moved(__name__, "mcpkit.http")
