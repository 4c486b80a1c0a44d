"""Conversion of values that are not JSON: nothing is lost, and nothing is made up."""

from __future__ import annotations

import dataclasses
import io
import math
import re
import sqlite3
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType, ModuleType, SimpleNamespace
from typing import Annotated, Any, Final, TypeVar, cast

import pytest
from pydantic import BaseModel, ConfigDict, Field

from mcpkit import Image, MCPKit, Message, PromptResult, ToolResult
from mcpkit._injection import inspect_handler
from mcpkit._signature.converters import Converters, NotSerializable
from mcpkit._signature.output import Output
from mcpkit.errors import RegistrationError
from mcpkit.testing import TestClient
from mcpkit.types import BlobResourceContents, ImageContent, TextContent, TextResourceContents
from tests.authoring import handler, output_of

T = TypeVar("T")
UNANNOTATED: Final = output_of(Any)


def text_of(value: Any) -> str:
    """The text that a tool without a return annotation sends."""
    (block,) = UNANNOTATED.render(value).blocks()
    assert isinstance(block, TextContent)
    return block.text


def refusal_of(value: Any, annotation: Any = Any) -> str:
    with pytest.raises(NotSerializable) as caught:
        output_of(annotation).render(value)
    return str(caught.value)


def named(each: Any) -> str:
    """The id of a case, the same in every process."""
    return each if isinstance(each, str) else getattr(each, "__name__", type(each).__name__)


# --- plain objects --------------------------------------------------------------------------------


class Room:
    """A plain class, as many authors write them."""

    def __init__(self, name: str, inner: Any = None) -> None:
        self.name = name
        self.inner = inner
        self._key = "secret"


class Slotted:
    __slots__ = ("_key", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self._key = "secret"


class Hollow:
    """Has nothing that could be shown."""


@dataclasses.dataclass
class Holder:
    room: Any


class Arbitrary(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)

    room: Room


class TestPlainObjects:
    @pytest.mark.parametrize(
        ("value", "text"),
        [
            (Room("a"), '{"name":"a","inner":null}'),
            (Slotted("a"), '{"name":"a"}'),
            ([Room("a")], '[{"name":"a","inner":null}]'),
            ({"x": Room("a", Slotted("b"))}, '{"x":{"name":"a","inner":{"name":"b"}}}'),
            (Holder(Slotted("a")), '{"room":{"name":"a"}}'),
            (Arbitrary(room=Room("a")), '{"room":{"name":"a","inner":null}}'),
            (MappingProxyType({"a": 1}), '{"a":1}'),
            (OrderedDict(a=1).keys(), '["a"]'),
            ({"a": 1}.values(), "[1]"),
            (range(3), "[0,1,2]"),
        ],
        ids=named,
    )
    def test_their_public_attributes_are_sent(self, value: Any, text: str) -> None:
        assert text_of(value) == text

    def test_as_a_return_annotation_they_are_structured(self) -> None:
        values = (Room("a"), Slotted("a"), Holder(Room("a")), Arbitrary(room=Room("a")))
        for value in values:
            for annotation in (type(value), type(value) | None):
                output = output_of(annotation)
                assert output.schema is not None
                assert output.render(value).structured is not None
        output = output_of(list[Room])
        items = {"additionalProperties": True, "type": "object"}
        assert output.schema == {"items": items, "type": "array"}
        assert output.render([Room("a")]).structured == b'[{"name":"a","inner":null}]'

    @pytest.mark.parametrize(
        ("value", "place"),
        [
            (Hollow(), "the result"),
            ({"a": [1, Hollow()]}, "result.a[1]"),
            (Room("a", Hollow()), "result.inner"),
            (Holder([Hollow()]), "result.room[0]"),
            (Arbitrary(room=Room("b", Hollow())), "result.room.inner"),
        ],
        ids=named,
    )
    def test_one_without_is_refused_by_its_place(self, value: Any, place: str) -> None:
        said = refusal_of(value)
        assert said == f"{place} is a Hollow, which has no public attributes and no converter"

    def test_other_values_are_refused(self) -> None:
        for value in (Hollow, len, math, threading.Lock(), object()):
            assert "no public attributes" in refusal_of(value)
        room = Room("a")
        room.inner = room
        refusal_of(room)
        for value in ({"a": "\ud800"}, Room("a", {"b": ["ok", "\ud800"]}), {"\ud800": 1}):
            place = r"result\.(a|inner\.b\[1\]|\ufffd)"
            assert re.match(rf"{place} is not valid Unicode", refusal_of(value))
        assert refusal_of({"a": Image(b"\x89PNG\r\n\x1a\n")}) == (
            "result.a is an Image, which cannot be a part of JSON: return it by itself or in a list"
        )

    @pytest.mark.parametrize(
        "annotation", [Hollow, list[Hollow], dict[str, Hollow], Hollow | None, Iterator], ids=named
    )
    def test_a_class_of_which_nothing_is_known_is_refused_at_registration(
        self, annotation: Any
    ) -> None:
        with pytest.raises(RegistrationError, match="cannot become JSON") as caught:
            output_of(annotation)
        assert "give the app a converter" in str(caught.value)


# --- NaN and infinities ---------------------------------------------------------------------------


class Price(BaseModel):
    amount: float
    note: Any = None
    hidden: float = Field(default=0, exclude=True)


class Lenient(BaseModel):
    model_config = ConfigDict(ser_json_inf_nan="constants")

    amount: float


class Written(BaseModel):
    model_config = ConfigDict(ser_json_inf_nan="strings")

    amount: float


@dataclasses.dataclass
class Amount:
    amount: float


NAN: Final = math.nan
SHAPES: Final[list[tuple[Any, str]]] = [
    (NAN, "the result is NaN"),
    (math.inf, "the result is Infinity"),
    (-math.inf, "the result is -Infinity"),
    ({"a": NAN}, "result.a is NaN"),
    ({"a": {"b": [1.5, NAN]}}, "result.a.b[1] is NaN"),
    ([1, [NAN]], "result[1][0] is NaN"),
    ((NAN,), "result[0] is NaN"),
    (Price(amount=NAN), "result.amount is NaN"),
    (Price(amount=1, note={"x": NAN}), "result.note.x is NaN"),
    ([{"p": Price(amount=NAN)}], "result[0].p.amount is NaN"),
    (Lenient(amount=NAN), "result.amount is NaN"),
    (Amount(NAN), "result.amount is NaN"),
    ({"a": Amount(-math.inf)}, "result.a.amount is -Infinity"),
    (Room("a", NAN), "result.inner is NaN"),
    (Room("a", Price(amount=NAN)), "result.inner.amount is NaN"),
]
ANNOTATIONS: Final[dict[Any, Any]] = {
    float: float,
    dict: dict[str, Any],
    list: list[Any],
    tuple: tuple[float],
}
SAID: Final = ", which JSON does not have; None would be null"


@pytest.mark.parametrize(("value", "said"), SHAPES, ids=named)
def test_infinities_are_refused_by_their_place(value: Any, said: str) -> None:
    annotation = ANNOTATIONS.get(type(value), type(value))
    assert refusal_of(value) == said + SAID
    assert refusal_of(value, annotation) == said + SAID
    assert refusal_of(ToolResult("x", structured_content=value)) == said + SAID
    assert refusal_of(ToolResult([TextContent("x"), value])) == said + SAID


def test_text_is_sent_as_it_is() -> None:
    """Also what `json.dumps` makes of NaN."""
    for text in ('{"a": NaN}', '[1, {"b": -Infinity}]', "NaN", '{"a": "NaN"}', "{NaN}"):
        assert output_of(str).render(text).blocks() == [TextContent(text)]
        assert output_of(Any).render([TextContent("x"), text]).blocks()[1] == TextContent(text)


def test_infinities_that_are_not_sent_are_accepted() -> None:
    assert text_of(Written(amount=NAN)) == '{"amount":"NaN"}'
    assert text_of([None, Written(amount=NAN)]) == '[null,{"amount":"NaN"}]'
    assert text_of({"a": "NaN", "b": None}) == '{"a":"NaN","b":null}'
    assert text_of(Price(amount=1, hidden=NAN)) == '{"amount":1.0,"note":null}'


# --- libraries ------------------------------------------------------------------------------------


def of_module(module: str) -> Callable[[type[T]], type[T]]:
    """A class that says it is of another module."""

    def decorate(cls: type[T]) -> type[T]:
        cls.__module__ = module
        return cls

    return decorate


class Dtype:
    def __init__(self, kind: str, names: tuple[str, ...] | None = None) -> None:
        self.kind = kind
        self.names = names


@of_module("numpy")
class generic:  # noqa: N801 - as there
    shape: tuple[int, ...] = ()

    def __init__(self, value: Any, kind: str = "i") -> None:
        self._value = value
        self.dtype = Dtype(kind)

    def tolist(self) -> Any:
        return self._value


@of_module("numpy")
class integer(generic):  # noqa: N801 - as there
    pass


class int64(integer):  # noqa: N801 - as there
    pass


class float32(generic):  # noqa: N801 - as there
    pass


@of_module("numpy")
class ndarray(generic):  # noqa: N801 - as there
    shape = (2,)


@of_module("polars.dataframe.frame")
class DataFrame:
    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self._rows = rows

    def to_dicts(self) -> list[dict[str, Any]]:
        return self._rows


@of_module("matplotlib.figure")
class Figure:
    def savefig(self, file: io.BytesIO, *, format: str, bbox_inches: str) -> None:
        file.write(f"{format} {bbox_inches}".encode())


@of_module("matplotlib.axes._axes")
class Axes:
    figure = Figure()


FRAME: Final = DataFrame([{"a": 1, "b": None}, {"a": 2, "b": "x"}])
ROWS: Final = '[{"a":1,"b":null},{"a":2,"b":"x"}]'


class TestStandIns:
    """Classes that are known by the names of their modules, without the libraries."""

    def test_pictures(self) -> None:
        picture = ImageContent(b"png tight", "image/png")
        for value in (Figure(), Axes()):
            assert output_of(type(value)).render(value).blocks() == [picture]
            assert UNANNOTATED.render(value).blocks() == [picture]
            assert UNANNOTATED.render(["see", value]).blocks() == [TextContent("see"), picture]

    def test_a_figure_that_pyplot_keeps_is_closed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Figures are kept until they are closed, and each call of a tool makes one."""
        closed: list[object] = []
        pyplot = SimpleNamespace(close=closed.append)  # it ignores a figure that is not its own
        monkeypatch.setitem(sys.modules, "matplotlib.pyplot", cast("ModuleType", pyplot))
        UNANNOTATED.render([Figure(), Axes()])
        assert [type(each) for each in closed] == [Figure, Figure]

    @pytest.mark.parametrize(
        ("annotation", "value", "text", "schema"),
        [
            (int64, int64(3), b"3", {"type": "integer"}),
            (list[int64], [int64(3)], b"[3]", {"items": {"type": "integer"}, "type": "array"}),
            (Annotated[int64, "A number."], int64(3), b"3", {"type": "integer"}),
            (
                dict[str, int64],
                {"a": int64(3)},
                b'{"a":3}',
                {"additionalProperties": {"type": "integer"}, "type": "object"},
            ),
            (ndarray, ndarray([1, 2]), b"[1,2]", {"items": {}, "type": "array"}),
            (Any, {"n": int64(3), "l": [float32(0.5, "f")]}, b'{"n":3,"l":[0.5]}', None),
            (Any, {"rows": FRAME}, f'{{"rows":{ROWS}}}'.encode(), None),
            (int, int64(3), b"3", None),
            (dict[str, float], {"a": float32(0.5, "f")}, b'{"a":0.5}', None),
            (list[int], [int64(1)], b"[1]", None),
            (list[int], ndarray([1, 2]), b"[1,2]", None),
            (Holder, Holder(int64(3)), b'{"room":3}', None),
            (list[dict[str, Any]], FRAME, ROWS.encode(), None),
            (DataFrame, FRAME, ROWS.encode(), None),
        ],
        ids=named,
    )
    def test_annotations(
        self, annotation: Any, value: Any, text: bytes, schema: Mapping[str, Any] | None
    ) -> None:
        output = output_of(annotation, structured=True)
        assert schema is None or output.schema == schema
        assert output.render(value).structured == text
        assert text_of(value) == text.decode()


def test_rows_of_sqlite() -> None:
    base = sqlite3.connect(":memory:")
    base.row_factory = sqlite3.Row
    rows = base.execute("select 1 as a, 'x' as b").fetchall()
    base.close()
    assert text_of(rows) == '[{"a":1,"b":"x"}]'
    assert output_of(list[sqlite3.Row]).render(rows).structured == b'[{"a":1,"b":"x"}]'


def test_pictures_of_pillow() -> None:
    pil = pytest.importorskip("PIL.Image")
    for mode in ("RGB", "RGBA", "L", "1", "P", "CMYK", "F", "I;16", "YCbCr", "LA"):
        (block,) = UNANNOTATED.render(pil.new(mode, (2, 3))).blocks()
        assert isinstance(block, ImageContent)
        assert pil.open(io.BytesIO(block.data)).size == (2, 3)
    assert output_of(pil.Image).schema is None


def test_values_of_numpy() -> None:
    np = pytest.importorskip("numpy")
    for value, text in (
        (np.int64(3), "3"),
        (np.float32(0.5), "0.5"),
        (np.longdouble(0.5), "0.5"),
        (np.bool_(True), "true"),
        (np.str_("a"), "a"),
        (np.datetime64("2026-01-02T03:04:05"), "2026-01-02T03:04:05"),
        ({"a": np.int8(1), "b": [np.float64(0.5)]}, '{"a":1,"b":[0.5]}'),
        (np.array([[1, 2], [3, 4]]), "[[1,2],[3,4]]"),
        ({"a": np.array([1.5])}, '{"a":[1.5]}'),
        (
            np.array(["2026-01-02", "NaT"], "datetime64[D]"),
            '["2026-01-02T00:00:00",null]',
        ),
        (np.array([(1, 2.5)], [("a", int), ("b", float)]), '[{"a":1,"b":2.5}]'),
    ):
        assert text_of(value) == text
    assert output_of(np.int64).schema == {"type": "integer"}
    assert output_of(np.float32).render(np.float32(0.5)).structured == b"0.5"
    assert output_of(np.ndarray).render(np.array([1])).structured == b"[1]"
    assert output_of(dict[str, float]).render({"a": np.float32(0.5)}).structured == b'{"a":0.5}'
    for nan in (np.float64("nan"), np.float32("nan")):
        assert refusal_of({"a": nan}) == "result.a is NaN" + SAID
    assert refusal_of(np.array([1, np.inf])) == "result[1] is Infinity" + SAID


def test_frames_and_series_of_pandas() -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": [1, 2], "b": [0.5, None], "c": ["x", None]})
    dates = pd.DataFrame({"d": pd.to_datetime(["2026-01-02", None])})
    keyed = pd.DataFrame({"n": [1, 2]}, index=pd.Index(["x", "y"], name="key"))
    for value, text in (
        (frame, '[{"a":1,"b":0.5,"c":"x"},{"a":2,"b":null,"c":null}]'),
        (dates, '[{"d":"2026-01-02T00:00:00"},{"d":null}]'),
        ({"a": pd.NA, "b": pd.NaT}, '{"a":null,"b":null}'),
        (keyed, '[{"key":"x","n":1},{"key":"y","n":2}]'),
        (pd.DataFrame({"n": [1, 2]})[1:], '[{"n":2}]'),
        (pd.DataFrame([[1, 2]], columns=[("a", "b"), 3]), '[{"a b":1,"3":2}]'),
        (pd.Series([1, None]), "[1.0,null]"),
        (pd.Series([1, 2], index=["x", "y"]), '{"x":1,"y":2}'),
    ):
        assert text_of(value) == text
    said = refusal_of({"t": pd.DataFrame({"a": [math.inf]})})
    assert said == "result.t[0].a is Infinity" + SAID
    assert "same name: a" in refusal_of(pd.DataFrame([[1, 2]], columns=["a", "a"]))
    assert "same label" in refusal_of(pd.Series([1, 2], index=["x", "x"]))
    output = output_of(pd.DataFrame)
    assert output.schema is not None
    assert output.schema["type"] == "array"
    assert output.render(pd.DataFrame({"a": [1]})).structured == b'[{"a":1}]'


def test_frames_of_polars() -> None:
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame({"a": [1, 2], "b": ["x", None]})
    assert text_of(frame) == '[{"a":1,"b":"x"},{"a":2,"b":null}]'
    assert text_of({"s": frame["a"]}) == '{"s":[1,2]}'
    assert refusal_of(pl.DataFrame({"a": [NAN]})) == "result[0].a is NaN" + SAID
    assert output_of(pl.DataFrame).render(frame).structured is not None


def test_figures_of_matplotlib() -> None:
    figures = pytest.importorskip("matplotlib.figure")
    figure = figures.Figure()
    axes = figure.subplots()
    for value in (figure, axes):
        (block,) = UNANNOTATED.render(value).blocks()
        assert isinstance(block, ImageContent)
        assert block.data.startswith(b"\x89PNG")
    assert output_of(figures.Figure).schema is None


# --- converters of the author ---------------------------------------------------------------------


class Money:
    def __init__(self, cents: int) -> None:
        self.cents = cents


class Tip(Money):
    pass


def in_words(money: Money) -> str:
    return f"{money.cents / 100:.2f} EUR"


def with_own(annotation: Any, kind: type, convert: Callable[[Any], Any]) -> Output:
    converters = Converters()
    converters.add(kind, convert)
    return Output(inspect_handler(handler(Any, returns=annotation)), None, converters)


class TestOwn:
    @pytest.mark.parametrize(
        ("annotation", "value", "text"),
        [
            (Any, Money(150), "1.50 EUR"),
            (Money, Money(150), "1.50 EUR"),
            (Money, Tip(150), "1.50 EUR"),
            (Any, {"total": Money(150)}, '{"total":"1.50 EUR"}'),
            (list[Money], [Money(150)], '["1.50 EUR"]'),
            (dict[str, Money], {"a": Money(150)}, '{"a":"1.50 EUR"}'),
            (Money | None, None, "null"),
            (Any, Holder(Money(150)), '{"room":"1.50 EUR"}'),
            (dict[str, Any], {"a": [Money(150)]}, '{"a":["1.50 EUR"]}'),
        ],
        ids=named,
    )
    def test_values(self, annotation: Any, value: Any, text: str) -> None:
        blocks = with_own(annotation, Money, in_words).render(value).blocks()
        assert "".join(getattr(each, "text", "") for each in blocks) == text

    def test_their_types_are_in_the_schema_and_override_the_built_in_ones(self) -> None:
        def convert(money: Money) -> dict[str, int]:
            return {"cents": money.cents}

        output = with_own(list[Money], Money, convert)
        inner = {"additionalProperties": {"type": "integer"}, "type": "object"}
        assert output.schema == {"items": inner, "type": "array"}
        assert output.render([Money(1)]).structured == b'[{"cents":1}]'
        lax: Any = lambda money: {"cents": str(money.cents)}  # noqa: E731 - has no annotation yet
        lax.__annotations__["return"] = dict[str, int]
        assert with_own(Money, Money, lax).render(Money(1)).structured == b'{"cents":1}'
        output = with_own(Price, Price, lambda price: f"{price.amount} EUR")
        assert output.render(Price(amount=1)).blocks() == [TextContent("1.0 EUR")]
        output = with_own(Any, DataFrame, lambda frame: f"{len(frame.to_dicts())} rows")
        assert output.render(FRAME).blocks() == [TextContent("2 rows")]

    def test_they_may_make_pictures_be_a_class_and_raise(self) -> None:
        def draw(money: Money) -> Image:
            return Image(b"\x89PNG\r\n\x1a\n")

        for annotation in (Money, Any, list[Money]):
            value = [Money(1)] if annotation == list[Money] else Money(1)
            (block,) = with_own(annotation, Money, draw).render(value).blocks()
            assert isinstance(block, ImageContent)
        assert with_own(Money, Money, str).schema is None
        with pytest.raises(ZeroDivisionError):
            with_own(Any, Money, lambda money: 1 / 0).render({"a": Money(1)})


def test_an_app_has_converters_for_all_that_it_offers() -> None:
    app = MCPKit("a")

    @app.converter(Money)
    def words(money: Money) -> str:
        return in_words(money)

    app.converter(Hollow, lambda each: "hollow")

    @app.tool
    def pay() -> Money:
        return Money(150)

    @app.resource("a://price")
    def price() -> dict[str, Any]:
        return {"price": Money(150), "frame": FRAME}

    @app.resource("a://picture")
    def picture() -> Figure:
        return Figure()

    @app.resource("a://hollow")
    def hollow() -> Hollow:
        return Hollow()

    @app.prompt
    def ask() -> Any:
        return [Money(150), {"role": "assistant", "content": Hollow()}, Message("a")]

    @app.prompt
    def see() -> PromptResult:
        return PromptResult([Figure(), {"role": "user", "content": "hi"}])  # type: ignore[list-item]

    with TestClient(app) as client:
        assert client.call_tool("pay").text == "1.50 EUR"
        (contents,) = client.read_resource("a://price")
        assert isinstance(contents, TextResourceContents)
        assert contents.text == f'{{"price":"1.50 EUR","frame":{ROWS}}}'
        (blob,) = client.read_resource("a://picture")
        assert isinstance(blob, BlobResourceContents)
        assert (blob.blob, blob.mime_type) == (b"png tight", "image/png")
        (text,) = client.read_resource("a://hollow")
        assert isinstance(text, TextResourceContents)
        assert text.text == "hollow"
        texts = [each.content for each in client.get_prompt("ask").messages]
        assert texts == [TextContent("1.50 EUR"), TextContent("hollow"), TextContent("a")]
        first, second = [each.content for each in client.get_prompt("see").messages]
    assert isinstance(first, ImageContent)
    assert (first.data, second) == (b"png tight", TextContent("hi"))


def test_what_cannot_be_converted_or_read_is_refused() -> None:
    with pytest.raises(RegistrationError, match="is not a class"):
        MCPKit("a").converter("Money", str)  # type: ignore[call-overload]
    assert Hollow.__annotations__ == {}  # which leaves them in the class, up to 3.13
    with pytest.raises(RegistrationError, match="the return type Hollow cannot be read"):
        MCPKit("a").add_resource(handler(int, returns=Hollow), "a://{x}")
