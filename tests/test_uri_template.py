"""URI templates of RFC 6570, and the matching that mcpkit defines."""

from __future__ import annotations

import re
import subprocess
import sys
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpkit._utils.uri_template import UriTemplate, Variable

Values = dict[str, str | list[str]]


def match(template: str, uri: str) -> Values | None:
    return UriTemplate(template).match(uri)


@pytest.mark.parametrize(
    ("template", "variables"),
    [
        *((f"t:x{each}", [Variable("v", True, False)]) for each in ("{v}", "{+v}", "{.v}", "{/v}")),
        *((f"t:x{each}", [Variable("v", True, False)]) for each in ("{;v}", "{#v}/x")),
        *((f"t:x{each}", [Variable("v", False, False)]) for each in ("{?v}", "?x=1{&v}", "{#v}")),
        ("t:x{/v*}", [Variable("v", True, True)]),
        ("t:{v:3}", [Variable("v", True, False, 3)]),
        ("t://{b}/{a}", [Variable("b", True, False), Variable("a", True, False)]),
        ("t://x", []),
    ],
)
def test_variables(template: str, variables: list[Variable]) -> None:
    found = UriTemplate(template)
    assert (list(found.variables), found.is_literal) == (variables, not variables)


class TestMatching:
    @pytest.mark.parametrize(
        ("template", "uri", "values"),
        [
            pytest.param("t://x", "t://x", {}, id="literal"),
            pytest.param("t://{a}", "t://x:y,z@h&k", {"a": "x:y,z@h&k"}, id="reserved-but-raw"),
            pytest.param("t://{a}", "t://a b\n", {"a": "a b\n"}, id="raw-space"),
            pytest.param("t://{a}", "t://a+b", {"a": "a+b"}, id="plus-is-plus"),
            pytest.param("t://{name}.{ext}", "t://a.tar.gz", {"name": "a.tar", "ext": "gz"}),
            pytest.param("t://{+p}{?q}", "t://a/b?q=1", {"p": "a/b", "q": "1"}, id="plus-query"),
            pytest.param("t://{+p}{#f}", "t://a?b#c", {"p": "a?b", "f": "c"}, id="plus-fragment"),
            pytest.param("t:{+p,x}/here", "t:/a/b,9/here", {"p": "/a/b", "x": "9"}),
            pytest.param("t:{x,y}", "t:1,2", {"x": "1", "y": "2"}, id="several"),
            pytest.param("t:{x*}", "t:1,,2", {"x": ["1", "", "2"]}, id="list"),
            pytest.param("t:{x*,y}", "t:1,2,3", {"x": ["1", "2"], "y": "3"}, id="list-then-one"),
            pytest.param("t:{+x*}", "t:a/b,c", {"x": ["a/b", "c"]}, id="list-reserved"),
            pytest.param("t:a{.x}", "t:a.b.c", {"x": "b.c"}, id="label"),
            pytest.param("t:a{.x,y}", "t:a.b.c", {"x": "b", "y": "c"}, id="labels"),
            pytest.param("t:a{.x*}", "t:a.b.c", {"x": ["b", "c"]}, id="labels-exploded"),
            pytest.param("t:{/x,y}/z", "t:/a/b/z", {"x": "a", "y": "b"}, id="path"),
            pytest.param("t:{/x*}", "t:/a//b", {"x": ["a", "", "b"]}, id="path-exploded"),
            pytest.param("t:{/x*}", "t:/", {"x": [""]}, id="path-one-empty-segment"),
            pytest.param("t:{/x*}/edit", "t:/a/b/edit", {"x": ["a", "b"]}, id="path-then-literal"),
            pytest.param("t:{/x*,y}", "t:/a/b/c", {"x": ["a", "b"], "y": "c"}, id="path-then-one"),
            pytest.param("t:{/x,y*}", "t:/a/b/c", {"x": "a", "y": ["b", "c"]}, id="path-one-list"),
            pytest.param("t:a{;x}/b", "t:a;x/b", {"x": ""}, id="parameter-without-value"),
            pytest.param("t:a{;x*}", "t:a;x=1;x=2", {"x": ["1", "2"]}, id="parameters-exploded"),
            pytest.param("t:{+a}{;x,y}", "t:b/c;x=1;y=2", {"a": "b/c", "x": "1", "y": "2"}),
            pytest.param("t:{a}{;x*}", "t:b;x=1;x=2", {"a": "b", "x": ["1", "2"]}),
            pytest.param("t:{;x,y}/{;z}", "t:;x=1;y=2/;z=3", {"x": "1", "y": "2", "z": "3"}),
            pytest.param("t:a{?x,y}", "t:a?y=2&x=1", {"x": "1", "y": "2"}, id="query-any-order"),
            pytest.param("t:a{?x,y}", "t:a", {}, id="query-none"),
            pytest.param("t:a{?x}", "t:a?", {}, id="query-empty"),
            pytest.param("t:a{?x}", "t:a?x=", {"x": ""}, id="query-empty-value"),
            pytest.param("t:a{?x}", "t:a?x=1&z=%FF", {"x": "1"}, id="query-unknown-ignored"),
            pytest.param("t:a{?x}", "t:a?x=a=b/c?d", {"x": "a=b/c?d"}, id="query-raw-reserved"),
            pytest.param("t:a{?x*}", "t:a?x=1&x=2", {"x": ["1", "2"]}, id="query-exploded"),
            pytest.param("t:{a}.md{?x}", "t:b.md?x=1", {"a": "b", "x": "1"}),
            pytest.param("t:a?z={z}{&x}", "t:a?z=1&x=2", {"z": "1", "x": "2"}),
            pytest.param("t:a?x={x}&y={y}", "t:a?x=1&y=2", {"x": "1", "y": "2"}),
            pytest.param("t:a{#f}", "t:a#", {"f": ""}, id="fragment-empty"),
            pytest.param("t:a{#f}", "t:a", {}, id="fragment-missing"),
            pytest.param("t:a{#f*}", "t:a#b,c", {"f": ["b", "c"]}, id="fragment-exploded"),
            pytest.param("t:a{#f,g}", "t:a#b,c", {"f": "b", "g": "c"}, id="fragment-several"),
            pytest.param("t:{#f*,g}", "t:#a,b,c", {"f": ["a", "b"], "g": "c"}),
            pytest.param("t:{#f,g}/h", "t:#a,b/h", {"f": "a", "g": "b"}, id="fragment-then-text"),
            pytest.param("t:a{?x}{#f}", "t:a?x=1#b", {"x": "1", "f": "b"}, id="query-fragment"),
            pytest.param("t:a{?x}{#f}", "t:a#b?x=1", {"f": "b?x=1"}, id="fragment-holds-query"),
            pytest.param("t:{a:3}", "t:åäö", {"a": "åäö"}, id="prefix-counts-characters"),
        ],
    )
    def test_yields_the_values(self, template: str, uri: str, values: Values) -> None:
        assert match(template, uri) == values

    @pytest.mark.parametrize(
        ("template", "uri"),
        [
            pytest.param("t://x", "t://x/", id="literal-longer"),
            pytest.param("t://{a}", "t://", id="required-is-not-empty"),
            pytest.param("t://{a}", "t://x/y", id="slash"),
            pytest.param("t://{a}", "t://x?y", id="query-not-declared"),
            pytest.param("t://{a}", "t://x#y", id="fragment-not-declared"),
            pytest.param("t://{+p}{?q}", "t://a#b", id="fragment-not-declared-after-query"),
            pytest.param("t:{x,y}", "t:1", id="one-of-two"),
            pytest.param("t:{x,y}", "t:1,2,3", id="three-of-two"),
            pytest.param("t:{x*}", "t:", id="list-of-none"),
            pytest.param("t:a{/x*}", "t:a", id="path-of-none"),
            pytest.param("t:{/x,y}", "t:/a/b/c", id="path-too-long"),
            pytest.param("t:a{;x,y}", "t:a;x=1", id="parameter-missing"),
            pytest.param("t:a{?x}", "t:ab", id="text-for-query"),
            pytest.param("t:a{?x}", "t:a?x=1&x=2", id="query-given-twice"),
            pytest.param("t:a{?x}", "t:a?x=1#f", id="fragment-after-query"),
            pytest.param("t:a?x={x}&y={y}", "t:a?x=1&z=3&y=2", id="no-ampersand-in-a-query-value"),
            pytest.param("t:a{#f,g}", "t:a#b", id="fragment-one-of-two"),
            pytest.param("t:a{#f,g}", "t:a#b,c,d", id="fragment-three-of-two"),
            pytest.param("t:{a:3}", "t:four", id="longer-than-the-prefix"),
        ],
    )
    def test_refuses_what_does_not_fit(self, template: str, uri: str) -> None:
        assert match(template, uri) is None


class TestEncodedUris:
    @pytest.mark.parametrize(
        ("template", "uri", "values"),
        [
            pytest.param("t://{a}", "t://S%C3%a3o%20Paulo", {"a": "São Paulo"}, id="decoded"),
            # SEC-11: the value may contain a slash, so it is not a safe file name.
            pytest.param("t://{a}/x", "t://..%2F..%2fetc/x", {"a": "../../etc"}, id="slash"),
            pytest.param("t://{a}/{b}", "t://x%2Fy", None, id="not-a-literal-slash"),
            pytest.param("t:{a*}", "t:x%2Cy,z", {"a": ["x,y", "z"]}, id="comma"),
            pytest.param("t:{?a,b}", "t:?a=1%26b%3D2", {"a": "1&b=2"}, id="query-delimiters"),
            pytest.param("t:{a}", "t:%252F", {"a": "%2F"}, id="decoded-once"),
            pytest.param("t:{a}", "t:å", {"a": "å"}, id="raw"),
            pytest.param("t:{a}", "t:%C3%A5", {"a": "å"}, id="encoded"),
            pytest.param("t:{a}2", "t:2%22", None, id="text-inside-a-triplet"),
            pytest.param("t:{a}2", "t:%222", {"a": '"'}, id="text-after-a-triplet"),
        ],
    )
    def test_values_are_cut_and_then_decoded(
        self, template: str, uri: str, values: Values | None
    ) -> None:
        assert match(template, uri) == values

    @pytest.mark.parametrize("template", ["t:å/{a}", "t:%c3%a5/{a}", "t:%C3%A5/{a}"])
    @pytest.mark.parametrize("uri", ["t:å/x", "t:%c3%a5/x", "t:%C3%A5/x"])
    def test_raw_characters_equal_encoded_ones_in_text(self, template: str, uri: str) -> None:
        assert match(template, uri) == {"a": "x"}

    @pytest.mark.parametrize(
        "raw", ["%FF", "%C3", "%C0%AF", "%ED%A0%80", "%", "%4", "%zz", "a%", "\ud800"]
    )
    @pytest.mark.parametrize(
        ("template", "start"),
        [
            *(("{a}", ""), ("{+a}", ""), ("{/a*}", "/")),
            *(("{?a}", "?a="), ("{;a}", ";a="), ("{#a}", "#")),
        ],
    )
    def test_what_is_not_utf8_is_no_match(self, template: str, start: str, raw: str) -> None:
        assert match(f"t:{template}", f"t:{start}{raw}") is None


class TestRefusedTemplates:
    @pytest.mark.parametrize(
        ("template", "message"),
        [
            ("t:{a", "column 3: this '{' is never closed; write '{name}', or %7B for a brace"),
            ("t:{a{b}", "column 3: this '{' is never closed; write '{name}', or %7B for a brace"),
            ("t:a}", "column 4: this '}' closes nothing; write '{name}', or %7D for a brace"),
            ("t:{?}", "column 5: '' cannot be the name of a Python parameter"),
            ("t:{a,}", "column 6: '' cannot be the name of a Python parameter"),
            ("t:{=a}", "column 4: '=a' cannot be the name of a Python parameter"),
            ("t:{a.b}", "column 4: 'a.b' cannot be the name of a Python parameter"),
            ("t:{a\nb}", "column 4: 'a\\nb' cannot be the name of a Python parameter"),
            ("t:{0}", "column 4: '0' cannot be the name of a Python parameter"),
            ("t:{å}", "column 4: 'å' cannot be the name of a Python parameter"),
            ("t:{in}", "column 4: 'in' cannot be the name of a Python parameter"),
            ("t:{a}/{a}", "column 8: variable 'a' is used twice; write another name"),
            ("t:{a:0}", "column 5: unknown modifier; write '*' for a list, or ':' and a length,"),
            ("t:{a:10000}", "column 5: unknown modifier; write '*' for a list, or ':' and "),
            ("t:{a*:3}", "column 5: unknown modifier; write '*' for a list, or ':' and a length"),
            ("t: x", "column 3: ' ' is not allowed in a URI; percent-encode it"),
            ("t:x\n", "column 4: '\\n' is not allowed in a URI; percent-encode it"),
            ("t:5%", "column 4: '%' without two hex digits; write %25 for a percent sign"),
            ("t:\ud800", "column 3: '\\ud800' is not allowed in a URI"),
            ("t:{a}{b}", "column 6: nothing tells where the value before '{b}' ends; write a del"),
            ("t:{+a}{+b}", "column 7: nothing tells where the value before '{+b}' ends; write a d"),
            ("t:{;a}{;b}", "column 7: nothing tells where the value before '{;b}' ends; write a d"),
            ("t:{?a}{?b,c}", "column 7: only a closing '{#...}' can follow '{?...}', which reads"),
            ("t:{?a*}{&b}", "column 8: only a closing '{#...}' can follow '{?...}', which reads"),
            ("t:{?a}/x", "column 7: only a closing '{#...}' can follow '{?...}', which reads to"),
            ("t:{?a}{/b}", "column 7: only a closing '{#...}' can follow '{?...}', which reads"),
            ("t:{?a}{#b}x", "column 7: only a closing '{#...}' can follow '{?...}', which reads"),
            ("t:?a=1{?b}", "column 7: the query has begun before; write '{&b}'"),
        ],
    )
    def test_say_what_is_wrong_and_what_to_write(self, template: str, message: str) -> None:
        with pytest.raises(ValueError, match=re.escape(message)) as caught:
            UriTemplate(template)
        text = str(caught.value)
        assert text.startswith(f"URI template {template!r}, column ")
        assert len(text.splitlines()) == 1


FILLED = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
RESERVED = ":/?#[]@!$&'()*+,;="
PATHS = st.text("abz09/:;,=@!'()*+-._~&", min_size=1, max_size=12)


SHAPES = {
    "/{%s}": ("/", FILLED),
    "{/%s}": ("/", FILLED),
    "/x,{%s}": ("/x,", FILLED),
    ":{%s}": (":", FILLED),
    "/lit{;%s}/": ("/lit;%s=", FILLED),
    "/{+%s}": ("/", PATHS),
    "{?%s}": ("?%s=", FILLED),
    "?k=v{&%s}": ("?k=v&%s=", FILLED),
    "{#%s}": ("#", PATHS),
}
"""Expressions, with the text before their value in a URI, and their values."""


@st.composite
def templates_with_values(draw: st.DrawFn) -> tuple[str, str, Values]:
    """Templates whose delimiters never occur in an encoded value, URIs, and their values."""
    template = uri = "t://host"
    values: Values = {}
    middle, final = list(SHAPES)[:5], list(SHAPES)[5:]
    for shape in [
        *draw(st.lists(st.sampled_from(middle), max_size=4)),
        draw(st.sampled_from(final)),
    ]:
        name = f"v{len(values)}"
        before, kind = SHAPES[shape]
        value = values[name] = draw(kind)
        template += shape.replace("%s", name)
        uri += before.replace("%s", name) + (quote(value, "" if kind is FILLED else RESERVED))
        uri += "/" if shape.endswith("/") else ""
    return template, uri, values


class TestProperties:
    @given(templates_with_values())
    def test_matching_undoes_expansion(self, case: tuple[str, str, Values]) -> None:
        template, uri, values = case
        assert match(template, uri) == values

    @given(
        literals=st.lists(st.sampled_from(["-", "a", "ab", "/", "-/"]), min_size=2, max_size=5),
        reserved=st.lists(st.booleans(), min_size=5, max_size=5),
        uri=st.text("ab-/", max_size=14),
    )
    def test_text_is_divided_as_by_a_greedy_regular_expression(
        self, literals: list[str], reserved: list[bool], uri: str
    ) -> None:
        template = pattern = ""
        for index, literal in enumerate(literals):
            template += f"{{{'+' if reserved[index] else ''}v{index}}}{literal}"
            pattern += f"(?P<v{index}>{'.' if reserved[index] else '[^/]'}+){re.escape(literal)}"
        expected = re.fullmatch(pattern, uri)
        assert match(template, uri) == (expected.groupdict() if expected else None)

    @given(uri=st.text(max_size=20) | st.text("a.%2Fé?&c=d#,\ud800", max_size=20))
    def test_no_uri_raises(self, uri: str) -> None:
        result = match("{a}.{b}{?c,d*}{#e*}", uri)
        assert result is None or {"a", "b"} <= result.keys()


class TestLinearTime:
    """Quadratic or worse when an end is tried twice, and then it is the timeout that fails."""

    LENGTH = 60_000

    @pytest.mark.timeout(30)
    @pytest.mark.parametrize(
        ("template", "unit", "end"),
        [
            pytest.param("t:{a}-{b}-{c}-{d}-{e}", "-a", "/", id="delimiter-everywhere"),
            pytest.param("t:{a}a{b}a{c}a{d}z", "a", "", id="one-letter"),
            pytest.param("t:{+a}/{+b}/{+c}/{+d}/end", "/a", "", id="reserved"),
            pytest.param("t:{+a}/{b}/{+c}/{d}!", "/a", "", id="reserved-and-simple"),
            pytest.param("t:{/a*}{/b*}{/c*}{/d*}/end", "/a", "", id="paths"),
            pytest.param("t:{a*,b*,c*,d*}!", ",a", "", id="lists"),
            pytest.param("t:{.a*,b*,c*}{?d}", ".a", "/", id="labels"),
            pytest.param("t:{a}2{b}2{c}2{d}z", "%22", "", id="encoded"),
            pytest.param("t:{+a}x{+b}x{c}{?d}{#e}", "?x#", "", id="tails"),
            pytest.param("t:{;a,b}-{;c}-{d}!", ";a-", "", id="parameters"),
        ],
    )
    def test_a_hostile_uri_is_refused_soon(self, template: str, unit: str, end: str) -> None:
        assert match(template, "t:" + unit * self.LENGTH + end) is None

    @pytest.mark.timeout(30)
    def test_a_long_query_is_read_soon(self) -> None:
        uri = "t:?" + "x=%41&" * self.LENGTH
        assert match("t:{?x*}", uri) == {"x": ["A"] * self.LENGTH}


def test_loads_no_other_part_of_mcpkit() -> None:
    path = sys.modules["mcpkit._utils.uri_template"].__file__
    heavy = {"mcpkit", "pydantic", "dataclasses", "inspect", "asyncio"}
    code = f"import runpy, sys; runpy.run_path({path!r}); print(*{heavy} & sys.modules.keys())"
    loaded = subprocess.check_output([sys.executable, "-I", "-S", "-c", code], timeout=30)
    assert loaded.split() == []


class TestWhole:
    """A variable that is wanted as one text takes the rest of a path."""

    @pytest.mark.parametrize(
        ("template", "uri", "value"),
        [
            ("a://{path*}", "a://b/c/d.txt", "b/c/d.txt"),
            ("a://{path*}", "a://b", "b"),
            ("a://{path*}", "a://b%2Fc", "b/c"),
            ("a://x{/path*}", "a://x/b/c", "b/c"),
            ("a://{path*}/raw", "a://b/c/raw", "b/c"),
            ("a://{+path*}", "a://b,c/d", "b,c/d"),
        ],
    )
    def test_it_matches_slashes(self, template: str, uri: str, value: str) -> None:
        found = UriTemplate(template, whole=["path"])
        assert found.match(uri) == {"path": value}
        assert found.variables == (Variable("path", True, False),)
        assert found.template == template

    @pytest.mark.parametrize("template", ["a://{path}", "a://{x,path*}", "a://b{?path*}"])
    def test_other_variables_are_as_they_were(self, template: str) -> None:
        assert UriTemplate(template, whole=["path"]).variables == UriTemplate(template).variables
