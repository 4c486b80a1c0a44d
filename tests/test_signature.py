"""What registration reads off a function: parameters, types, and what its docstring says."""

from __future__ import annotations

import functools
import inspect
import re
import sys
import types
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Final

import pydantic
import pytest
import typing_extensions
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import TypeAliasType

from mcpkit._injection import CONTEXTS
from mcpkit._signature.hints import resolve_hints
from mcpkit._signature.signature import Signature, inspect_function
from mcpkit._utils.json import UNSET
from mcpkit.context import Context, SyncContext
from mcpkit.dependencies import Complete, Depends, MirroredHeader
from mcpkit.errors import RegistrationError
from tests.authoring import context_with, handler, module_from, run, schema_for, wait

HERE = Path(__file__).name


def inspected(fn: Callable[..., Any]) -> Signature:
    return inspect_function(fn, contexts=CONTEXTS)


def refusal(fn: Callable[..., Any]) -> str:
    with pytest.raises(RegistrationError) as caught:
        inspected(fn)
    return str(caught.value)


def book(city: str, nights: int = 2) -> bool:
    """Book a hotel.

    Args:
        city: Where to stay.
    """
    return bool(city and nights)


class TestFunction:
    def test_has_a_name_parameters_and_a_result(self) -> None:
        found = inspected(book)
        city, nights = found.parameters
        line = inspect.getsourcelines(book)[1]
        assert (found.name, found.returns, found.place) == ("book", bool, f"{HERE}:{line}: book()")
        assert (city.name, city.annotation, city.required) == ("city", str, True)
        assert (nights.name, nights.annotation, nights.required) == ("nights", int, False)
        assert nights.default == 2
        assert (city.description, nights.description) == ("Where to stay.", None)

    def test_may_be_a_lambda_a_partial_or_a_class(self) -> None:
        found = inspected(lambda x: x)
        assert (found.parameters[0].annotation, found.returns) == (Any, UNSET)
        fn = functools.partial(book, "oslo", nights=5)
        assert [(each.name, each.default) for each in inspected(fn).parameters] == [("nights", 5)]
        functools.update_wrapper(fn, book)
        assert [(each.name, each.default) for each in inspected(fn).parameters] == [("nights", 5)]
        found = inspected(Counter)
        assert [(each.name, each.annotation) for each in found.parameters] == [("start", int)]
        assert found.returns is Counter


class Counter:
    """Counts."""

    def __init__(self, start: int) -> None:
        self.start = start

    def method(self, by: int) -> int:
        """Go on."""
        return self.start + by

    @classmethod
    def of_class(cls, by: int) -> int:
        return by

    @staticmethod
    async def static(by: int) -> int:
        return by

    def __call__(self, by: int) -> int:
        return self.start + by


class AsyncCall:
    async def __call__(self, by: int) -> int:
        """Call it."""
        return by


async def go(by: int) -> int:
    return by


def logged(fn: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    return wrapper


CALLABLES: dict[str, tuple[Callable[..., Any], str, bool]] = {
    "coroutine function": (go, "go", True),
    "bound method": (Counter(1).method, "method", False),
    "class method": (Counter.of_class, "of_class", False),
    "static method": (Counter.static, "static", True),
    "static method in its class body": (Counter.__dict__["static"], "static", True),
    "callable object": (Counter(1), "Counter", False),
    "async callable object": (AsyncCall(), "AsyncCall", True),
    "partial": (functools.partial(Counter.method, Counter(1)), "method", False),
    "partial of a partial": (functools.partial(functools.partial(go)), "go", True),
    "decorated": (logged(Counter(1).method), "method", False),
}


@pytest.mark.parametrize(("fn", "name", "is_async"), CALLABLES.values(), ids=CALLABLES)
def test_every_callable_has_a_signature(fn: Any, name: str, is_async: bool) -> None:
    found = inspected(fn)
    assert (found.name, found.is_async, found.returns) == (name, is_async, int)
    assert [(each.name, each.annotation) for each in found.parameters] == [("by", int)]


class Plain:
    def __init__(self, by: int) -> None:
        self.by = by


def test_every_callable_has_a_description() -> None:
    """Also by the call of an object, and a class without a docstring has none."""
    callables = (Counter(1), AsyncCall(), Plain, functools.partial(book, "oslo"))
    descriptions = [inspected(each).docs.description for each in callables]
    assert descriptions == ["Counts.", "Call it.", None, "Book a hotel."]


def injecting(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator that fills one parameter and adds another."""

    @functools.wraps(fn)
    def wrapper(*args: Any, dry: bool = False, **kwargs: Any) -> Any:
        return None if dry else fn(*args, client="client", **kwargs)

    known = inspect.signature(fn)
    kept = [each for each in known.parameters.values() if each.name != "client"]
    dry = inspect.Parameter("dry", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=bool)
    wrapper.__signature__ = known.replace(parameters=[*kept, dry])  # type: ignore[attr-defined]
    return wrapper


def annotated(fn: Callable[..., Any], **annotations: Any) -> Callable[..., Any]:
    """A wrapper with other types."""
    wrapper = logged(fn)
    wrapper.__annotations__ = {**fn.__annotations__, **annotations}
    return wrapper


@injecting
def fetch(client: object, url: Annotated[str, "Where."], retries: int = 3) -> list[str]:
    """Fetch a page.

    Args:
        client: Filled by the decorator.
        retries: How often.
    """
    return [url, str(client), str(retries)]


class TestWrappers:
    def test_a_signature_of_its_own_has_types_descriptions_and_a_result(self) -> None:
        found = inspected(fetch)
        assert [each[:4] for each in found.parameters] == [
            ("url", Annotated[str, "Where."], UNSET, "Where."),
            ("retries", int, 3, "How often."),
            ("dry", bool, False, None),
        ]
        assert (found.docs.description, found.returns) == ("Fetch a page.", list[str])

    def test_a_function_may_have_a_signature_of_its_own(self) -> None:
        def made(**kwargs: Any) -> Any: ...

        by = inspect.Parameter("by", inspect.Parameter.KEYWORD_ONLY, annotation="int")
        made.__signature__ = inspect.Signature([by], return_annotation=str)  # type: ignore[attr-defined]
        found = inspected(made)
        assert [(each.name, each.annotation) for each in found.parameters] == [("by", int)]
        assert found.returns is str

    @pytest.mark.parametrize("by", [float, "float", Annotated[float, "A number."]])
    def test_annotations_of_its_own_win(self, by: Any) -> None:
        found = inspected(annotated(go, by=by)).parameters[0]
        assert found.annotation == (float if by == "float" else by)
        assert inspected(annotated(go, **{"return": str})).returns is str

    def test_annotations_of_a_wrapper_that_takes_anything_are_ignored(self) -> None:
        def wrapper(*args: Any, **kwargs: Any) -> Any: ...

        wrapper.__wrapped__ = go  # type: ignore[attr-defined]
        found = inspected(wrapper)
        assert (found.parameters[0].annotation, found.returns) == (int, int)
        assert "'Nowhere'" in refusal(annotated(go, by="Nowhere"))

    def test_the_outermost_docstring_counts(self) -> None:
        wrapped = logged(fetch)
        wrapped.__doc__ = "Fetch, and log."
        assert inspected(wrapped).docs.description == "Fetch, and log."


def test_validate_call_of_pydantic_leaves_parameters_to_the_server() -> None:
    """Contexts and dependencies are not a client's."""

    class Database: ...

    @pydantic.validate_call
    async def fn(by: int, ctx: Context, *, other: Context[str] | None = None) -> int:
        return by

    @pydantic.validate_call
    def blocking(ctx: SyncContext, db: Annotated[Database, Depends(Database)]) -> bool:
        return isinstance(ctx, SyncContext) and isinstance(db, Database)

    found = {each.name: each.source for each in inspected(fn).parameters}
    assert found == {"by": "argument", "ctx": "context", "other": "context"}
    context = context_with()
    assert wait(lambda: fn(by="2", ctx=context)) == 2  # type: ignore[arg-type]
    assert run(blocking) is True


class TestDescriptionsInAnnotations:
    @pytest.mark.parametrize(
        "annotation",
        [
            *(Annotated[str, "Where."], Annotated[str, "Where.", Complete(["a"])]),
            *(Annotated[str | None, "Where."], Annotated[str, "Where."] | None),
            Annotated[str, typing_extensions.Doc("Where.")],
            Annotated[Annotated[str, "Where."], 0],
        ],
        ids=str,
    )
    def test_a_text_is_a_description(self, annotation: Any) -> None:
        found = inspected(handler(annotation)).parameters[0]
        assert found.description == schema_for(annotation)["description"] == "Where."

    def test_it_wins_over_the_docstring_and_a_field_over_it(self) -> None:
        def fn(x: Annotated[int, "An x."]) -> None:
            """Do.

            Args:
                x: Another.
            """

        assert inspected(fn).parameters[0].description == "An x."
        annotation = Annotated[int, "An x.", pydantic.Field(description="The x.")]
        assert schema_for(annotation)["description"] == "The x."

    def test_that_of_the_result_is_its_section(self) -> None:
        def fn() -> Annotated[str, "A name."]:
            """Do."""
            return ""

        assert inspected(fn).docs.description == "Do.\n\nReturns: A name."


class TestRefusals:
    def test_other_kinds_of_parameters(self) -> None:
        def args(*words: str) -> None: ...
        def kwargs(**more: str) -> None: ...
        def positional(a: int, /) -> None: ...
        def underscore(_a: int) -> None: ...
        def header(a: Annotated[int, Depends(go), MirroredHeader("A")]) -> None: ...

        assert refusal(args) == (
            f"{HERE}:{args.__code__.co_firstlineno}: args(): *words has no names a client could "
            f"use; write a parameter of type list instead"
        )
        assert re.search(r"[*]{2}more .*write a parameter of type dict instead", refusal(kwargs))
        assert re.search("a is positional-only.*remove the /", refusal(positional))
        assert re.search("name _a begins with an underscore.*rename it", refusal(underscore))
        assert "a is not sent by the client, so no header can repeat it" in refusal(header)

    @pytest.mark.parametrize("marker", [Depends(go), Complete(["a"]), MirroredHeader("A")])
    def test_a_marker_as_a_default(self, marker: Any) -> None:
        assert f"write x: Annotated[<type>, {type(marker).__name__}(...)]" in refusal(
            handler(int, marker)
        )

    def test_other_callables(self) -> None:
        assert re.search(r"nothing fills self.*app.include\(...\)", refusal(Counter.method))
        assert "app.include(...)" in refusal(Counter.__dict__["of_class"])
        assert "wrap it" in refusal(max)

    def test_annotations(self) -> None:
        def fn(a: Nowhere) -> None: ...  # type: ignore[name-defined] # noqa: F821

        said = refusal(fn)
        assert said.startswith(f"{HERE}:{fn.__code__.co_firstlineno}: fn(): the annotation names")
        assert "'Nowhere', which cannot be found at run time; import it outside" in said
        assert "an annotation cannot be evaluated" in refusal(handler("1 +"))


def test_a_context_is_found_by_its_annotation_and_not_by_its_name() -> None:
    def fn(ctx: int, c: Context) -> None: ...

    assert [each.name for each in inspected(fn).arguments] == ["ctx"]
    alias = TypeAliasType("alias", Context[int])
    others = (SyncContext, Context[int], Context | None, Annotated[Context, "x"], alias)
    for annotation in others:
        assert inspected(handler(annotation)).parameters[0].source == "context", annotation


def provide() -> int:
    return 1


Provided = TypeAliasType("Provided", Annotated[int, Depends(provide)])


def test_marks_may_be_behind_an_alias_and_have_an_underscore() -> None:
    def fn(a: Annotated[int, Depends(provide)], b: Provided, _c: Provided) -> None: ...

    found = inspected(fn).parameters
    assert {(each.source, each.mark) for each in found} == {("depends", Depends(provide))}
    completion = Complete(["oslo"])
    (a,) = inspected(handler(Annotated[str, completion])).parameters
    assert (a.source, a.mark) == ("argument", completion)


class TestNames:
    """Annotations are text here, since this module postpones their evaluation."""

    def test_local_ones(self) -> None:
        class Local: ...

        def fn(a: Local) -> None: ...

        class Holder:
            def fn(self, a: Local) -> None: ...

        def make(kind: type) -> Callable[..., Any]:
            def fn(a: kind) -> Any:  # type: ignore[valid-type]
                return kind(a)

            return fn

        assert inspected(fn).parameters[0].annotation is Local
        assert inspected(Holder().fn).parameters[0].annotation is Local
        assert inspected(make(int)).parameters[0].annotation is int

    @pytest.mark.parametrize(
        ("statement", "annotation", "expected"),
        [
            ("from decimal import Decimal", "Decimal", "Decimal"),
            ("from decimal import Decimal as Money", "Money", "Decimal"),
            ("import decimal", "decimal.Decimal", "Decimal"),
            ("import decimal as d", "d.Decimal", "Decimal"),
            ("import xml.dom.minidom", "xml.dom.minidom.Document", "Document"),
            ("from decimal import Decimal", "list[Decimal]", "list"),
            ("from no_such_package import Thing", "Thing", None),
        ],
    )
    def test_imported_for_type_checkers_only(
        self, tmp_path: Path, statement: str, annotation: str, expected: str | None
    ) -> None:
        module = module_from(
            tmp_path / "lazy_names.py",
            f"""
            from __future__ import annotations
            import typing
            from typing import TYPE_CHECKING
            if {"TYPE_CHECKING" if "list" in annotation else "typing.TYPE_CHECKING"}:
                {statement}
            def fn(a: {annotation}) -> None: ...
            """,
        )
        if expected is None:
            assert "lazy_names.py:7: fn(): the annotation names 'Thing'" in refusal(module.fn)
        else:
            assert inspected(module.fn).parameters[0].annotation.__name__ == expected

    @pytest.mark.skipif(sys.version_info < (3, 12), reason="PEP 695 syntax")
    def test_type_statements(self) -> None:
        scope: dict[str, Any] = {"Annotated": Annotated, "Depends": Depends, "provide": provide}
        exec(
            "type One = Annotated[int, Depends(provide)]\ndef fn[T](a: One, b: T) -> T: ...", scope
        )
        a, b = inspected(scope["fn"]).parameters
        assert (a.source, b.source) == ("depends", "argument")


# --- plain functions, which are read at once ------------------------------------------------------


class Given:
    """A class that annotations name."""


PARTS: Final = st.sampled_from(
    [
        *("int", "str", "None", "Any", "Given", "Literal['a']", "list", "Path", "ClassVar[int]"),
        *("TypeVar('T')", "Generic", "Protocol", "NewType('N', int)", "'int'", "Missing", "5"),
        *("Context", "SyncContext | None", "Annotated[int, Depends(len)]", "..."),
    ]
)
ANNOTATIONS: Final = st.recursive(
    PARTS,
    lambda inner: st.one_of(
        inner.map("list[{}]".format),
        inner.map("List[{}]".format),
        inner.map("Optional[{}]".format),
        inner.map("Annotated[{}, 'x']".format),
        st.builds("{} | {}".format, inner, inner),
        st.builds("Union[{}, {}]".format, inner, inner),
        st.builds("dict[{}, {}]".format, inner, inner),
        st.builds("Callable[[{}], {}]".format, inner, inner),
    ),
    max_leaves=3,
)


@given(st.lists(ANNOTATIONS, min_size=1, max_size=3), st.booleans())
def test_annotations_are_what_typing_says_they_are(texts: list[str], postponed: bool) -> None:
    names = {**vars(typing), **globals(), "Path": Path}
    parameters = ", ".join(f"p{place}: {text}" for place, text in enumerate(texts))
    future = "from __future__ import annotations\n" if postponed else ""
    try:
        exec(f"{future}def fn({parameters}) -> None: ...", names)
    except (NameError, TypeError):
        return  # so Python refuses it
    fn = names["fn"]
    try:
        expected = typing_extensions.get_type_hints(fn, include_extras=True)
    except Exception:
        with pytest.raises(RegistrationError):
            resolve_hints(fn, "here")
    else:
        assert repr(resolve_hints(fn, "here")) == repr(expected)


@pytest.mark.parametrize(
    "source",
    [
        "def fn(): ...",
        "def fn(a, b=1): ...",
        "def fn(a, b=1, *, c, d=2, e): ...",
        "def fn(*, a=None): ...",
        "async def fn(a=1, b=2): ...",
        "fn = lambda a, b=1: a",
    ],
)
@pytest.mark.parametrize("bound", [False, True])
def test_parameters_are_what_inspect_says_they_are(source: str, bound: bool) -> None:
    scope: dict[str, Any] = {}
    exec(source.replace("fn(", "fn(self, ") if bound else source, scope)
    fn = types.MethodType(scope["fn"], object()) if bound and "def" in source else scope["fn"]
    assert [(each.name, each.default) for each in inspected(fn).parameters] == [
        (each.name, UNSET if each.default is each.empty else each.default)
        for each in inspect.signature(fn).parameters.values()
    ]
