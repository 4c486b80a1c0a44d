"""Settings: the options of an app that its environment and ``[tool.mcpkit]`` may set.

The table of settings is derived from the options: the parameters of `MCPKit`, the fields of
`Limits`, and the keys of `TaskOptions` and `HttpOptions`. An option is a setting if text or TOML
can express its value. An argument has priority over the environment, and that over the file.
"""

from __future__ import annotations

import inspect
import os
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import fields, replace
from functools import cache, partial, wraps
from importlib import import_module
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Final, Literal, NamedTuple, TypeVar, Union, cast, get_args, get_origin
from typing import get_type_hints as hints_of

from mcpkit._protocol.wire import some
from mcpkit._utils.json import value_at
from mcpkit._utils.logs import log
from mcpkit._utils.names import advice_on, caller_folder
from mcpkit._utils.sealing import SECRET
from mcpkit._utils.text import PLACEHOLDER, is_placeholder
from mcpkit.limits import Limits
from mcpkit.transports import Address

PREFIX: Final = "MCPKIT_"

OTHERS: Final = frozenset(
    {
        *(SECRET, "MCPKIT_LOGINS", "MCPKIT_LOG_LEVEL", "MCPKIT_WORKERS"),
        *("MCPKIT_CREDENTIALS", "MCPKIT_CLIENT_KEY", "MCPKIT_CLIENT_SECRET", "MCPKIT_TOKEN"),
    }
)
"""Variables that are read elsewhere."""

_VARIABLES: Final = {
    "tasks.store": "MCPKIT_TASKS",
    "log_level": "MCPKIT_CLIENT_LOG_LEVEL",  # MCPKIT_LOG_LEVEL is about the server's log
}
"""Variables that are not named after their option."""

SECRETS: Final = frozenset({"secret", "http.metrics_token"})
"""Options whose values are not in files, and not shown."""

_SECTIONS: Final = ("limits", "call_limits", "tasks", "http")
"""Options whose members are settings."""

FOLDER: Final[ContextVar[str | None]] = ContextVar("FOLDER", default=None)
"""The folder of a server whose file does not make the app; see ``mcpkit.cli._target``."""


class SettingError(ValueError):
    """A variable or a key of the file is invalid; the message names it."""


class Setting(NamedTuple):
    """An option that may be set from outside."""

    path: str
    """``page_size``, or ``limits.max_body``: a member of the option ``limits``."""
    kind: Any
    """The annotation of the option, without the types of objects and functions."""
    default: Any

    @property
    def variable(self) -> str:
        """The name of its environment variable."""
        return _VARIABLES.get(self.path) or PREFIX + self.path.upper().replace(".", "_")


class Found(NamedTuple):
    """The value of a setting, and the variable or the file that has it."""

    value: Any
    source: str


class Sources(NamedTuple):
    """The settings of an app by their paths, for ``mcpkit config``."""

    given: Mapping[str, Any]
    outside: Mapping[str, Found]

    @property
    def address(self) -> Address:
        """The default address of a server over HTTP."""
        names = [each for each in Address._fields if f"http.{each}" in self.outside]
        return Address(**{each: self.outside[f"http.{each}"].value for each in names})


_F = TypeVar("_F", bound=Callable[..., Any])


def with_settings(init: _F) -> _F:
    """Decorate ``MCPKit.__init__``: options that a call does not give are set from outside.

    The app gets its `Sources` as ``_sources``. Raises `SettingError`.
    """

    @wraps(init)
    def call(self: Any, *args: Any, **options: Any) -> None:
        outside = dict[str, Found]()
        variables = {k: v for k, v in os.environ.items() if k.startswith(PREFIX) and v}
        file = find_file(FOLDER.get() or caller_folder())
        given = _given(options)
        if file is not None or variables.keys() - OTHERS:
            for path, each in _read(init, variables, file):
                _check(partial(init, object.__new__(self.__class__), ""), path, each)
                outside[path] = each
            _fill(options, {k: v.value for k, v in outside.items() if k not in given})
        self._sources = Sources(given, outside)
        init(self, *args, **options)

    return cast("_F", call)


# --- the table ------------------------------------------------------------------------------------


@cache
def table(init: Callable[..., Any]) -> Mapping[str, Setting]:
    """Return the settings by their paths, from ``MCPKit.__init__`` and what it refers to."""
    from mcpkit.call_limits import CallLimits
    from mcpkit.tasks.options import TaskOptions, TaskSettings
    from mcpkit.transports.http.options import HttpOptions, HttpSettings

    parameters = inspect.signature(init).parameters
    limits = {each.name: each.default for each in fields(Limits)}
    own = {k: v.default for k, v in parameters.items() if k not in {*limits, *_SECTIONS}}
    sections: list[tuple[str, Any, Mapping[str, Any]]] = [
        ("", init, own),
        ("limits.", Limits, limits),
        ("call_limits.", CallLimits, {each.name: each.default for each in fields(CallLimits)}),
        ("tasks.", TaskOptions, TaskSettings._field_defaults),
        ("http.", Address, Address._field_defaults),
        ("http.", HttpOptions, HttpSettings._field_defaults),
    ]
    found = [
        Setting(section + name, kind, defaults[name])
        for section, owner, defaults in sections
        for name, hint in _hints(owner).items()
        if name in defaults and defaults[name] is not inspect.Parameter.empty
        if (kind := _writable(hint)) is not None
    ]
    return {each.path: each for each in found}


def _hints(owner: Any) -> dict[str, Any]:
    """Return the annotations of an owner: `object` for what only type checkers import."""
    known: dict[str, Any] = {"Store": str}  # the value of a store is a string
    while True:
        try:
            return hints_of(owner, localns=known)
        except NameError as unknown:
            known[str(unknown.name)] = object


def _writable(hint: Any) -> Any:
    """Return the part of an annotation whose values can be written; None if there is none."""
    origin, args = get_origin(hint), get_args(hint)
    if hint in (str, int, float, bool, NoneType) or origin is Literal:
        return hint
    parts = [part for each in args if (part := _writable(each)) is not None]
    if origin in (Union, UnionType) and {*parts} - {NoneType}:
        return Union[tuple(parts)]  # noqa: UP007
    if origin in (Sequence, Collection) and parts:
        return list[parts[0]]  # type: ignore[valid-type]
    if origin is Mapping and len(parts) == len(args):
        return dict[tuple(parts)]  # type: ignore[misc]
    return None


# --- reading --------------------------------------------------------------------------------------


class File(NamedTuple):
    """A pyproject.toml, and its table ``[tool.mcpkit]``."""

    path: Path
    content: Mapping[str, Any]


def find_file(folder: str | Path) -> File | None:
    """Return the nearest pyproject.toml with a table ``[tool.mcpkit]``, from a folder upwards.

    Raises:
        SettingError: It is not valid TOML.
    """
    for each in (Path(folder), *Path(folder).parents):
        path = each / "pyproject.toml"
        if os.path.isfile(path):
            text = path.read_text(encoding="utf-8-sig", errors="replace")
            if "tool.mcpkit" in text and (content := _load(path, text)) is not None:
                return File(path, content)
    return None


def _load(path: Path, text: str) -> Mapping[str, Any] | None:
    if sys.version_info < (3, 11):
        log.warning("the settings in %s are ignored; reading them needs Python 3.11", path)
        return None
    tomllib: Any = import_module("tomllib")  # by name, for type checkers set to Python 3.10
    try:
        found = value_at(tomllib.loads(text), "tool", "mcpkit")
    except tomllib.TOMLDecodeError as error:
        raise SettingError(f"{path} is not valid TOML: {error}") from None
    return found if isinstance(found, dict) else None


def _read(
    init: Callable[..., Any], variables: Mapping[str, str], file: File | None
) -> Iterator[tuple[str, Found]]:
    """Yield the settings of the file, then those of the environment, which replace them."""
    settings = table(init)
    for path, value in _flat(file.content) if file is not None else ():
        key = f"{file and file.path}: tool.mcpkit.{path}"
        if path not in settings:
            advice = advice_on("settings", path, settings)
            raise SettingError(f"{key} is not a setting" + (f"; {advice}" if advice else ""))
        if path in SECRETS or without_password(value) != value:
            raise SettingError(f"{key}: set {settings[path].variable}; no secret is in this file")
        yield path, Found(_parse(settings[path], value, key), str(file and file.path))
    by_variable = {each.variable: each for each in settings.values()}
    for name in sorted(variables.keys() - OTHERS):
        if is_placeholder(variables[name]):
            raise SettingError(f"{name} {PLACEHOLDER}")
        if name in by_variable:
            setting = by_variable[name]
            yield setting.path, Found(_parse(setting, variables[name], name, is_text=True), name)
        else:
            _warn_unknown(name, tuple(by_variable))


@cache  # once for each name
def _warn_unknown(name: str, known: tuple[str, ...]) -> None:
    advice = advice_on("settings", name, known) or "it is ignored"
    log.warning("the variable %s is not a setting of mcpkit; %s", name, advice)


def _flat(content: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the paths and values of a file."""
    for key, value in content.items():
        name = key.replace("-", "_")
        if name == "tasks" and isinstance(value, str):
            yield "tasks.store", value
        elif name in _SECTIONS and isinstance(value, dict):
            members = cast("dict[str, Any]", value)
            yield from ((f"{name}.{k.replace('-', '_')}", v) for k, v in members.items())
        elif name != "check":  # which belongs to `mcpkit check`
            yield name, value


_WORDS: Final[dict[str, bool | None]] = {"true": True, "false": False, "none": None}


def _parse(setting: Setting, raw: Any, where: str, *, is_text: bool = False) -> Any:
    from pydantic import TypeAdapter, ValidationError
    from pydantic_core import from_json

    from mcpkit._signature.validation import explain

    kinds = [setting.kind, *get_args(setting.kind)]
    containers = {get_origin(each) for each in kinds}
    value = raw
    word = raw.strip().lower() if isinstance(raw, str) else ""
    try:
        if word in _WORDS and type(_WORDS[word]) in kinds and (is_text or word == "none"):
            value = _WORDS[word]
        elif is_text and containers & {list, dict} and raw.lstrip().startswith(("[", "{")):
            value = from_json(raw)
        elif is_text and list in containers:
            value = re.findall(r"[^\s,]+", raw)
        return TypeAdapter[Any](setting.kind).validate_python(value, strict=not is_text)
    except ValidationError as error:
        raise SettingError(explain(error, value, where)[0]) from None
    except ValueError as error:
        raise SettingError(f"{where}: this is not valid JSON: {error}") from None


_USER: Final = re.compile(r"(://[^/@\s]*?:)[^/\s]*@")
_PARAMETER: Final = re.compile(
    r"([?&][^=&#]*(?:passw(?:or)?d|passphrase|pwd|secret|token|api_?key)=)[^&#]+", re.IGNORECASE
)
"""A secret in the query of a URL, such as ``?password=``, which libraries of databases take."""


def without_password(value: Any) -> Any:
    """Return a value; if it is a URL with secrets, with ``***`` instead of those."""
    if not isinstance(value, str) or "://" not in value:
        return value
    return _PARAMETER.sub(r"\1***", _USER.sub(r"\1***@", value))


def _check(make: Callable[..., object], path: str, found: Found) -> None:
    """Check the range of a value by making an app with this one only."""
    from mcpkit.transports.http.options import make_settings

    options, name = dict[str, Any](), path.rpartition(".")[2]
    try:
        _fill(options, {path: found.value})
        make(**options)
        make_settings(options.get("http", {}))
        if name in Address._fields:
            Address(**{name: found.value}).check()
    except (ValueError, TypeError, OSError) as error:
        key = "" if found.source.startswith(PREFIX) else f": tool.mcpkit.{path}"
        raise SettingError(f"{found.source}{key}: {error}") from None


# --- the options of a call ------------------------------------------------------------------------


def _given(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings among the arguments of a call, by their paths."""
    found = dict[str, Any]()
    for name, value in options.items():
        if name in ("limits", "call_limits"):
            names = getattr(value, "given", ())
            found |= {f"{name}.{each}": getattr(value, each) for each in names}
        elif name in ("http", "tasks"):
            found |= {f"{name}.{each}": member for each, member in _members(value).items()}
        elif name not in Limits.__dataclass_fields__:
            found[name] = value
        elif value is not None:
            found[f"limits.{name}"] = value
    return found


def _fill(options: dict[str, Any], outside: Mapping[str, Any]) -> None:
    """Add settings to the arguments of a call, which does not give them."""
    members: dict[str, dict[str, Any]] = {each: {} for each in _SECTIONS}
    for path, value in outside.items():
        section, _, name = path.rpartition(".")
        (members[section] if section else options)[name] = value
    if members["call_limits"]:
        from mcpkit.call_limits import CallLimits

        own = options.get("call_limits") or CallLimits()
        options["call_limits"] = replace(own, **members["call_limits"])
    if members["limits"]:
        options["limits"] = replace(options.get("limits") or Limits(), **members["limits"])
    for section in ("tasks", "http"):
        added = {k: v for k, v in members[section].items() if k not in Address._fields}
        if added:
            options[section] = {**added, **_members(options.get(section))}


def _members(value: Any) -> dict[str, Any]:
    """Return the members of ``http=`` or ``tasks=``, which may be a store alone."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else some(store=value)
