"""Converts values that are not JSON to content for a model, by a table that authors extend.

Classes of large libraries are identified by module and name, so that none of them is imported here.
"""

from __future__ import annotations

import functools
import inspect
import operator
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from io import BytesIO
from math import isfinite
from typing import Annotated, Any, Final, NamedTuple, TypeGuard, Union, cast, get_args, get_origin

from pydantic_core import PydanticSerializationError, from_json, to_json
from typing_extensions import get_type_hints

from mcpkit._signature.forms import UNIONS
from mcpkit._signature.hints import unalias
from mcpkit._signature.schema import form_of, infinities
from mcpkit._utils.json import well_formed
from mcpkit.types import BLOCK_TYPES, ContentBlock, Image, Media, TextContent, content_block


class NoConverter(TypeError):
    """Values of a type cannot be sent to a client; the message names the type."""


class NotSerializable(Exception):
    """A value, or a part of it, cannot be sent; the message describes its shape only."""


class _NoData(TypeError):
    """A value cannot become JSON; the message ends a sentence that begins with its place."""


_written: Final = functools.partial(
    to_json, by_alias=True, bytes_mode="base64", inf_nan_mode="constants"
)


class Converter(NamedTuple):
    """An entry of the table: a function from a value to the value to send, and its type."""

    convert: Callable[[Any], Any]
    returns: Any


class Converters:
    """The converters of an app: its own, and the built-in ones."""

    def __init__(self) -> None:
        self.own: dict[type, Converter] = {}
        """Those that the author has added, by class."""
        self._rows: dict[type, Converter | None] = {}

    def add(self, kind: type, convert: Callable[[Any], Any]) -> None:
        """Add a converter for a class and its subclasses; it replaces an earlier one."""
        returns: Any = convert
        if not isinstance(convert, type):
            try:
                returns = get_type_hints(convert, include_extras=True).get("return", Any)
            except Exception:
                returns = Any  # a builtin, or unresolvable names
        self.own[kind] = Converter(convert, returns)
        self._rows.clear()

    def row(self, kind: type) -> Converter | None:
        """Return the converter of a class or of its nearest base that has one; None if none has."""
        if kind not in self._rows:
            self._rows[kind] = next(filter(None, map(self._of_class, kind.__mro__)), None)
        return self._rows[kind]

    def _of_class(self, kind: type) -> Converter | None:
        key = (kind.__module__.partition(".")[0], kind.__name__)
        return self.own.get(kind) or BUILT_IN_CONVERTERS.get(key)

    # --- values -----------------------------------------------------------------------------------

    def converted(self, value: Any) -> Any:
        """Return the value to send; a value without a converter is returned unchanged."""
        seen: list[Converter] = []
        while (row := self.row(value.__class__)) is not None and row not in seen:
            seen.append(row)
            value = row.convert(value)
        return value

    def json(self, value: Any) -> bytes:
        """Return the JSON text of a value of any type."""
        if not self.own:
            try:
                text = _written(value)
                self._refuse_infinities(value, text)
                return text
            except PydanticSerializationError:
                pass  # the slow path handles it, or has a better message
        return self.json_if_converted(value)[0]

    def json_if_converted(self, value: Any) -> tuple[bytes, bool]:
        """Return the JSON text of a value of any type, and True if a converter was used."""
        met: list[Any] = []  # keeps values alive, so that ids stay unique
        failed: list[tuple[Any, Exception]] = []

        def fallback(each: Any) -> Any:
            met.append(each)
            try:
                return self._as_json(each)
            except Exception as error:
                failed.append((each, error))
                raise

        try:
            try:
                inside = self._converted_inside(value, met) if self.own else value
                text = _written(inside, fallback=fallback)
            except PydanticSerializationError:
                if failed:
                    raise
                # Pydantic mistakes some values for others, such as pandas.NaT for a date.
                text = _written(self._converted_inside(value, met), fallback=fallback)
        except PydanticSerializationError as error:
            if not failed:
                raise NotSerializable(self._why_not(value)) from error
            each, reason = failed[0]
            if not isinstance(reason, _NoData):
                raise reason from None
            raise NotSerializable(f"{self._place_of(value, each)} is {reason}") from None
        self._refuse_infinities(value, text)
        return text, bool(met)

    def _why_not(self, value: Any) -> str:
        for place, each in self._walk(value, "", 0):
            if any(isinstance(text, str) and well_formed(text) != text for text in (place, each)):
                where = well_formed(_named_place(place))
                return f"{where} is not valid Unicode: it has half of a surrogate pair"
        return "something in the result cannot become JSON"

    def _refuse_infinities(self, value: Any, text: bytes) -> None:
        # They and null share a letter that most results do not contain.
        if b"n" not in text and b"N" not in text:
            return
        if b"NaN" in text or b"Infinity" in text:
            for loc, each in infinities(from_json(text)):
                steps = [f"[{step}]" if isinstance(step, int) else f".{step}" for step in loc]
                _refuse_infinite(each, "".join(steps))
        # Models always write NaN as null.
        if b"null" in text and _has_objects(value):
            for place, each in self._walk(value, "", 0):
                if isinstance(each, float):
                    _refuse_infinite(each, place)

    def _converted_inside(self, value: Any, met: list[Any]) -> Any:
        """Convert a value and those in its containers, even if pydantic knows their types."""
        if value.__class__ is dict:
            return {key: self._converted_inside(each, met) for key, each in value.items()}
        if type(value) in _SEQUENCES:
            return [self._converted_inside(each, met) for each in value]
        made = self.converted(value)
        if made is value:
            return value
        met.append(value)
        inside = made.__class__ is dict or made.__class__ in _SEQUENCES
        return self._converted_inside(made, met) if inside else made

    def _as_json(self, value: Any) -> Any:
        """Return the replacement of a value of a type that JSON does not have."""
        made = self.converted(value)
        if isinstance(made, Media):
            raise _NoData(
                f"{_named(value)}, which cannot be a part of JSON: return it by itself or in a list"
            )
        if made is not value:
            return made
        if _is_mapping(value):
            return dict(value)
        if isinstance(value, (Sequence, Set)):
            return list(cast("Iterable[Any]", value))
        return _attributes_of(value)

    def _place_of(self, value: Any, wanted: Any) -> str:
        """Return the place of a value inside another, in words."""
        for place, each in self._walk(value, "", 0):
            if each is wanted:
                return _named_place(place)
        return "something in the result"

    def _walk(self, value: Any, place: str, depth: int) -> Iterator[tuple[str, Any]]:
        """Yield a value and all values inside of it with their places, except converted ones."""
        yield place, value
        if depth > _DEEPEST or isinstance(value, _ATOMS):
            return
        inner: Any = value
        if hasattr(value, "__pydantic_extra__"):
            inner = _members_of(value)
        elif not isinstance(value, (Mapping, Sequence, Set)):
            try:
                inner = {} if self.row(value.__class__) else _attributes_of(value)
            except _NoData:
                return
        if _is_mapping(inner):
            for key, each in inner.items():
                yield from self._walk(each, f"{place}.{key}", depth + 1)
        else:
            for number, each in enumerate(inner):
                yield from self._walk(each, f"{place}[{number}]", depth + 1)

    # --- types ------------------------------------------------------------------------------------

    def returned(self, annotation: Any, *, own: bool = False) -> Any:
        """Return the type of the values that are sent for values of a type.

        It is the annotation itself if no converter applies; with `own` only those of the author do.

        Raises:
            NoConverter: Nothing can convert the values of a class.
        """
        plain = unalias(annotation)
        origin, parts = get_origin(plain), get_args(plain)
        kind = plain if isinstance(plain, type) and origin is None else origin
        if isinstance(kind, type) and origin is not Annotated:
            row = self.row(kind)
            if row is not None and (not own or any(base in self.own for base in kind.__mro__)):
                return row.returns
        generic: Any = Union if type(plain) in UNIONS else _GENERICS.get(origin)
        if generic is not None:
            inner = parts[:1] if origin is Annotated else parts
            made = [part if part is ... else self.returned(part, own=own) for part in inner]
            if all(map(operator.is_, made, inner)):
                return annotation
            return generic[tuple(made) + parts[len(inner) :]]
        if own or not isinstance(plain, type) or origin is not None:
            return annotation
        if plain.__module__ == Media.__module__ or _is_expressible(plain):
            return annotation  # content, or a type that pydantic knows
        if not _has_attributes(plain):
            raise NoConverter(plain.__name__)
        return dict[str, Any]


_DEEPEST: Final = 50
"""Levels of a result that are searched for the place of an error."""

_ATOMS: Final = (str, bytes, bytearray, memoryview, int, float, type(None))
_PLAIN: Final = frozenset({str, bytes, int, float, bool, type(None)})
_SEQUENCES: Final = frozenset({list, tuple, set, frozenset})
_GENERICS: Final[Mapping[Any, Any]] = {
    Annotated: Annotated,
    list: list,
    dict: dict,
    tuple: tuple,
    set: list,  # a converted value may be a dict, which cannot be in a set
    frozenset: list,
    Sequence: list,
    Mapping: dict,
}


def _has_objects(value: Any) -> bool:
    """Return True if a value contains anything but values of Python's own types."""
    kind = value.__class__
    if kind is dict:
        value = value.values()
    elif kind not in _SEQUENCES:
        return kind not in _PLAIN
    if _PLAIN.issuperset(map(type, value)):
        return False
    return any(_has_objects(each) for each in value if each.__class__ not in _PLAIN)


def _is_mapping(value: object) -> TypeGuard[Mapping[Any, Any]]:
    return isinstance(value, Mapping)


def _is_expressible(kind: type) -> bool:
    """Return True if pydantic can serialize the values of a class."""
    try:
        form_of(kind).schema("serialization")
    except Exception:
        return False
    return True


_ANNOTATIONS: Final = ("__annotations__", "__annotate_func__", "__annotate__")


def _has_attributes(kind: type) -> bool:
    """Return True if the class suggests that its values have public attributes."""
    for base in kind.__mro__[:-1]:
        own = vars(base)
        if base.__module__ in ("collections.abc", "typing", "abc", "builtins"):
            return False
        if isinstance(own.get("__init__"), types.FunctionType) or own.get("__slots__"):
            return True
        # An earlier look at the annotations leaves an empty dict in the class.
        if any(own.get(each) for each in _ANNOTATIONS):
            return True
    return False


def _attributes_of(value: Any) -> dict[str, Any]:
    """Return the public attributes of an object; raise `_NoData` if it has none."""
    found: dict[str, Any] = {}
    if not isinstance(value, (type, types.ModuleType)) and not inspect.isroutine(value):
        found.update(getattr(value, "__dict__", {}))
        for base in type(value).__mro__:
            slots: Any = vars(base).get("__slots__", ())
            for name in (slots,) if isinstance(slots, str) else slots:
                if hasattr(value, name):
                    found.setdefault(name, getattr(value, name))
    public = {name: each for name, each in found.items() if name[:1] != "_"}
    if not public:
        raise _NoData(f"{_named(value)}, which has no public attributes and no converter")
    return public


def _members_of(model: Any) -> dict[str, Any]:
    """Return the members that a model writes, or none if it writes infinities as text."""
    if model.model_config.get("ser_json_inf_nan") == "strings":
        return {}
    known: Mapping[str, Any] = model.__class__.model_fields
    values: dict[str, Any] = {**model.__dict__, **(model.__pydantic_extra__ or {})}
    return {
        name: each for name, each in values.items() if not getattr(known.get(name), "exclude", 0)
    }


def _named_place(place: str) -> str:
    return f"result{place}" if place else "the result"


def _named(value: object) -> str:
    kind = type(value).__name__
    return f"{'an' if kind[:1] in 'aeiouAEIOU' else 'a'} {kind}"


# --- NaN and infinities ---------------------------------------------------------------------------


def _refuse_infinite(number: float, place: str) -> None:
    if not isfinite(number):
        name = _written(float(number)).decode()
        where = _named_place(place)
        raise NotSerializable(f"{where} is {name}, which JSON does not have; None would be null")


# --- classes of libraries -------------------------------------------------------------------------


def _array(value: Any) -> Any:
    """Convert arrays and scalars of NumPy to lists of lists and to Python's own values."""
    kind = value.dtype.kind
    if kind in "mM":
        value = value.astype(f"{'timedelta64' if kind == 'm' else 'datetime64'}[us]")
    made = value.tolist()
    names = value.dtype.names
    if names and value.shape:
        return [dict(zip(names, row, strict=True)) for row in made]
    if names:
        return dict(zip(names, made, strict=True))
    return float(made) if hasattr(made, "dtype") else made  # a longdouble stays one


def _frame(value: Any) -> list[dict[str, Any]]:
    """Convert a DataFrame of pandas to a dict for each row; an index that is named has columns."""
    if not _is_numbering(value.index):
        value = value.reset_index()
    names = [_text(each) for each in value.columns]
    twice = {each for each in names if names.count(each) > 1}
    if twice:
        raise NotSerializable(
            f"several columns of a DataFrame have the same name: {', '.join(sorted(twice))}"
        )
    known = value.set_axis(names, axis=1)
    rows: list[dict[str, Any]] = known.astype(object).where(known.notna(), None).to_dict("records")
    return rows


def _series(value: Any) -> list[Any] | dict[str, Any]:
    known = value.astype(object).where(value.notna(), None)
    if _is_numbering(value.index):
        return list(known.tolist())
    names = [_text(each) for each in value.index]
    if len(set(names)) < len(names):
        raise NotSerializable("several values of a Series have the same label; reset its index")
    return dict(zip(names, known.tolist(), strict=True))


def _is_numbering(index: Any) -> bool:
    numbers = getattr(getattr(index, "dtype", None), "kind", "") in ("i", "u")
    return numbers and index.name is None and getattr(index, "nlevels", 1) == 1


def _text(label: Any) -> str:
    return " ".join(map(str, label)) if label.__class__ is tuple else str(label)


def _picture(value: Any) -> Image:
    if value.mode not in ("1", "L", "LA", "P", "RGB", "RGBA", "I", "I;16"):
        value = value.convert("RGB")
    file = BytesIO()
    value.save(file, format="PNG")
    return Image(file.getvalue(), "image/png")


def _figure(value: Any) -> Image:
    """Convert a figure of matplotlib, or that of its axes, to PNG, and let pyplot forget it."""
    file, figure = BytesIO(), getattr(value, "figure", value)
    figure.savefig(file, format="png", bbox_inches="tight")
    if (pyplot := sys.modules.get("matplotlib.pyplot")) is not None:
        pyplot.close(figure)
    return Image(file.getvalue(), "image/png")


def _to_none(_: object) -> None: ...


_Rows = list[dict[str, Any]]

BUILT_IN_CONVERTERS: Final[Mapping[tuple[str, str], Converter]] = {
    ("builtins", "dict_items"): Converter(list, list[Any]),
    ("builtins", "dict_keys"): Converter(list, list[Any]),
    ("builtins", "dict_values"): Converter(list, list[Any]),
    ("builtins", "range"): Converter(list, list[int]),
    ("matplotlib", "Axes"): Converter(_figure, Image),
    ("matplotlib", "Figure"): Converter(_figure, Image),
    ("numpy", "bool"): Converter(_array, bool),
    ("numpy", "bool_"): Converter(_array, bool),
    ("numpy", "bytes_"): Converter(_array, bytes),
    ("numpy", "complexfloating"): Converter(_array, complex),
    ("numpy", "datetime64"): Converter(_array, datetime),
    ("numpy", "floating"): Converter(_array, float),
    ("numpy", "generic"): Converter(_array, Any),
    ("numpy", "integer"): Converter(_array, int),
    ("numpy", "ndarray"): Converter(_array, list[Any]),
    ("numpy", "str_"): Converter(str, str),
    ("numpy", "timedelta64"): Converter(_array, timedelta),
    ("pandas", "DataFrame"): Converter(_frame, _Rows),
    ("pandas", "Index"): Converter(operator.methodcaller("tolist"), list[Any]),
    ("pandas", "Interval"): Converter(str, str),
    ("pandas", "NAType"): Converter(_to_none, None),
    ("pandas", "NaTType"): Converter(_to_none, None),
    ("pandas", "Period"): Converter(str, str),
    ("pandas", "Series"): Converter(_series, list[Any] | dict[str, Any]),
    ("PIL", "Image"): Converter(_picture, Image),
    ("polars", "DataFrame"): Converter(operator.methodcaller("to_dicts"), _Rows),
    ("polars", "Series"): Converter(operator.methodcaller("to_list"), list[Any]),
    ("pyarrow", "Table"): Converter(operator.methodcaller("to_pylist"), _Rows),
    ("sqlite3", "Row"): Converter(dict, dict[str, Any]),
}
"""The built-in converters, by top-level module and class name."""


# --- content --------------------------------------------------------------------------------------

DEFAULT: Final = Converters()
"""The converters without an app."""


def readable(json_text: bytes) -> str:
    """Return JSON text for a model to read: a string as such without its quotes."""
    if json_text[:1] == b'"':
        return str(from_json(json_text))
    return json_text.decode()


def blocks_of(value: Any, converters: Converters = DEFAULT) -> list[ContentBlock]:
    """Return the content blocks for a value of any type.

    Text stays text; `Image`, `Audio`, `File` and bytes become blocks; a list that contains one of
    these becomes a block for each item; None becomes no block; all else becomes its JSON text.
    """
    if isinstance(value, (list, tuple)):
        items = [*map(converters.converted, cast("Iterable[Any]", value))]
        if any(issubclass(kind, (*BLOCK_TYPES, Media, bytes)) for kind in set(map(type, items))):
            return [block_of(item, converters) for item in items]
    return [] if value is None else [block_of(value, converters)]


def block_of(value: Any, converters: Converters = DEFAULT) -> ContentBlock:
    """Return one content block for one value of any type."""
    if value.__class__ is str:
        return TextContent(value)
    value = converters.converted(value)
    block = content_block(value)
    if block is None:
        return TextContent(readable(converters.json(value)))
    check_content(block)
    return block


def check_content(content: Any) -> None:
    """Raise `NotSerializable` if a field of content, or one inside it, has another type."""
    for name, kinds in _fields_of(content.__class__).items():
        found = getattr(content, name)
        if isinstance(found, bool) or not isinstance(found, kinds):
            is_encoded = isinstance(found, str) and bytes in kinds
            raise NotSerializable(
                f"the {name} of {_named(content)} is {_named(found)}, not {kinds[0].__name__}"
                f"{'; pass the raw bytes, not their Base64' if is_encoded else ''}"
            )
        check_content(found)


@functools.cache
def _fields_of(kind: type) -> Mapping[str, tuple[type, ...]]:
    """Return the fields of a dataclass of `mcpkit.types`, or of its base there, by type."""
    base = next((each for each in kind.__mro__ if each.__module__ == Media.__module__), kind)
    if not is_dataclass(base):
        return {}

    def holder() -> None: ...

    # Not those of the class: Python 3.10 takes the mark for keyword-only fields for a wrong type.
    holder.__annotations__ = {each.name: each.type for each in fields(base)}
    found: dict[str, tuple[type, ...]] = {}
    for name, hint in get_type_hints(holder, vars(sys.modules[base.__module__])).items():
        parts = get_args(hint) if type(hint) in UNIONS else (hint,)
        origins = [get_origin(each) or each for each in parts]
        found[name] = tuple(each for one in origins for each in _TAKEN_FOR.get(one, (one,)))
    return found


_TAKEN_FOR: Final[Mapping[Any, tuple[type, ...]]] = {
    bytes: (bytes, bytearray, memoryview),
    float: (float, int),
    Sequence: (list, tuple),
}
"""The classes whose values are sent as those of another."""
