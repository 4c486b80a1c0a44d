"""What `mcpkit migrate` imports for names of other libraries that have no equivalent here.

    from mcpkit.unmigrated import get_context

Every name can be imported. It may be part of an annotation, or a base class, so that the rest of a
server loads; any other use raises `NotImplementedError`, with what to write instead. A name that
ends in ``Error`` is an exception, which is never raised.
"""

from __future__ import annotations

from typing import Any, NoReturn

from mcpkit._utils.names import caller, peer_import, peer_name


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
        if name.startswith("__"):
            raise AttributeError(name)
        return _named(f"{self._name}.{name}")

    def __getitem__(self, parameters: object) -> _Name:
        return self

    def __or__(self, other: object) -> _Name:
        return self

    __ror__ = __or__

    def __mro_entries__(self, bases: tuple[object, ...]) -> tuple[type, ...]:
        return ()


def _named(name: str) -> Any:
    return type(name, (Exception,), {}) if name.endswith("Error") else _Name(name)


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return _named(name)
