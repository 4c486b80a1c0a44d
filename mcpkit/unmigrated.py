"""What `mcpkit migrate` imports for names of other libraries that have no equivalent here.

    from mcpkit.unmigrated import get_context

Every name can be imported. It may be part of an annotation, or a base class, so that the rest of a
server loads; any other use raises `NotImplementedError`, with what to write instead. A name that
ends in ``Error`` is an exception, which is never raised. Middleware can be registered, and refuses
the requests that it was to handle.
"""

from __future__ import annotations

from typing import Any, Final, NoReturn

from mcpkit._utils.names import caller, peer_import, peer_name

HOOKS: Final = {
    "on_call_tool": "tools/call",
    "on_read_resource": "resources/read",
    "on_get_prompt": "prompts/get",
    "on_list_tools": "tools/list",
    "on_list_resources": "resources/list",
    "on_list_resource_templates": "resources/templates/list",
    "on_list_prompts": "prompts/list",
}
"""Method of a middleware of FastMCP → what it is called for."""


class Middleware:
    """The base class of middleware that is not migrated."""

    async def __call__(self, ctx: Any, call_next: Any) -> Any:
        """Refuse a request that a method of the class is for; pass on any other."""
        for name in dir(self):
            if (
                name.startswith("on_")
                and name != "on_notification"
                and HOOKS.get(name, ctx.method) == ctx.method
            ):
                _Name(f"Middleware.{name}")("")
        return await call_next()


class _Name:
    """A name, and whatever is below it."""

    def __init__(self, name: str) -> None:
        self.__dict__["_name"] = name

    def _refuse(self, *args: object, **options: object) -> NoReturn:
        rows = (peer_name("import", part) for part in self._name.split(".")[::-1])
        advice = (next(filter(None, rows), None) or peer_import(self._name)).advice
        raise NotImplementedError(f"{caller()}{self._name} is not migrated: {advice}")

    __call__ = __bool__ = __iter__ = __contains__ = __instancecheck__ = __subclasscheck__ = _refuse
    __setattr__ = __delattr__ = __str__ = __format__ = __enter__ = __aenter__ = _refuse

    def __repr__(self) -> str:
        return f"<{self._name} is not migrated>"

    def __getattr__(self, name: str) -> Any:
        return __getattr__(name, f"{self._name}.")

    def __getitem__(self, parameters: object) -> _Name:
        return self

    def __or__(self, other: object) -> _Name:
        return self

    __ror__ = __or__

    def __mro_entries__(self, bases: tuple[object, ...]) -> tuple[type, ...]:
        return ()


def __getattr__(name: str, front: str = "") -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return type(name, (Exception,), {}) if name.endswith("Error") else _Name(front + name)
