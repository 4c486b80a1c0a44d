"""examples/image_tools.py: pictures as arguments, as results and as resources."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator

import pytest
from PIL import Image

from mcpkit import BlobResourceContents, ImageContent, ResourceLink
from mcpkit.client.results import CallResult
from mcpkit.errors import ProtocolError
from mcpkit.testing import REVISIONS, TestClient
from tests.examples.host import data_of, example

SERVER = example("image_tools.py")


def encoded(picture: Image.Image, form: str = "PNG") -> str:
    buffer = io.BytesIO()
    picture.save(buffer, form)
    return base64.b64encode(buffer.getvalue()).decode()


@pytest.fixture(scope="module")
def flag() -> str:
    """40 x 20 pixels, a quarter of them blue, the others red."""
    picture = Image.new("RGB", (40, 20), "red")
    picture.paste("blue", (0, 0, 10, 20))
    return encoded(picture)


@pytest.fixture(scope="module", params=REVISIONS)
def client(request: pytest.FixtureRequest, flag: str) -> Iterator[TestClient]:
    """Its server has the flag as the picture 1."""
    with TestClient(SERVER, revision=request.param) as client:
        added = client.call_tool("add", {"data": flag})
        assert "picture 1, 40 x 20" in str(added.content)
        yield client


def seen(result: CallResult) -> Image.Image:
    """The picture in a result, as a model would see it."""
    assert not result.is_error, result.text
    (content,) = [each for each in result.content if isinstance(each, ImageContent)]
    return Image.open(io.BytesIO(content.data))


def test_a_picture_is_described(client: TestClient) -> None:
    found = data_of(client.call_tool("describe", {"number": 1}))
    assert (found["format"], found["width"], found["height"]) == ("PNG", 40, 20)


def test_a_picture_is_resized(client: TestClient) -> None:
    made = seen(client.call_tool("resize", {"number": 1, "width": 7, "height": 9}))
    assert made.size == (7, 9)


def test_a_thumbnail_keeps_the_proportions(client: TestClient) -> None:
    assert seen(client.call_tool("thumbnail", {"number": 1, "side": 10})).size == (10, 5)


def test_a_part_is_cut_out(client: TestClient) -> None:
    area = {"left": 8, "top": 0, "width": 4, "height": 20}
    made = seen(client.call_tool("crop", {"number": 1, **area}))
    assert made.size == (4, 20)
    assert [made.getpixel((x, 0)) for x in (1, 2)] == [(0, 0, 255), (255, 0, 0)]


def test_colours_are_counted(client: TestClient) -> None:
    found = data_of(client.call_tool("palette", {"number": 1, "colours": 2}))
    assert found == [{"colour": "#ff0000", "share": 0.75}, {"colour": "#0000ff", "share": 0.25}]


def test_a_picture_can_be_read_as_a_resource(client: TestClient, flag: str) -> None:
    (contents,) = client.read_resource("picture://1")
    assert isinstance(contents, BlobResourceContents)
    assert contents.mime_type == "image/png"
    assert contents.blob == base64.b64decode(flag)


def test_an_unknown_picture_is_no_resource(client: TestClient) -> None:
    with pytest.raises(ProtocolError, match="not found"):
        client.read_resource("picture://999")


def test_an_unknown_picture_is_refused_with_what_there_is(client: TestClient) -> None:
    refused = client.call_tool("describe", {"number": 999})
    assert refused.is_error
    assert refused.text.startswith("There is no picture 999; there are: 1")


def test_a_part_outside_is_refused(client: TestClient) -> None:
    area = {"left": 30, "top": 0, "width": 11, "height": 1}
    refused = client.call_tool("crop", {"number": 1, **area})
    assert refused.is_error
    assert refused.text == "That reaches out of the 40 x 20 pixels."


def test_a_size_has_limits(client: TestClient) -> None:
    refused = client.call_tool("resize", {"number": 1, "width": 0, "height": 5000})
    assert refused.is_error
    assert [line.partition(":")[0] for line in refused.text.splitlines()] == ["width", "height"]


def test_a_result_names_the_new_picture() -> None:
    with TestClient(SERVER) as client:
        client.call_tool("add", {"data": encoded(Image.new("RGB", (4, 4)))})
        made = client.call_tool("thumbnail", {"number": 1})
        (link,) = [each for each in made.content if isinstance(each, ResourceLink)]
        assert link.uri == "picture://2"
        assert not client.call_tool("describe", {"number": 2}).is_error


def test_transparency_is_kept() -> None:
    with TestClient(SERVER) as client:
        client.call_tool("add", {"data": encoded(Image.new("RGBA", (4, 4), (0, 0, 0, 0)))})
        made = seen(client.call_tool("thumbnail", {"number": 1, "side": 2}))
    assert made.getpixel((0, 0)) == (0, 0, 0, 0)


@pytest.fixture(scope="module")
def fresh() -> Iterator[TestClient]:
    with TestClient(SERVER, timeout=30) as client:
        yield client


def test_a_picture_that_unpacks_into_too_much_is_refused(fresh: TestClient) -> None:
    bomb = encoded(Image.new("1", (20_000, 20_000)))
    assert len(bomb) < 1_000_000
    refused = fresh.call_tool("add", {"data": bomb})
    assert refused.is_error
    assert refused.text == "The picture has more than 25000000 pixels."


def test_a_file_that_is_too_long_is_refused(fresh: TestClient) -> None:
    refused = fresh.call_tool("add", {"data": base64.b64encode(bytes(5_000_001)).decode()})
    assert refused.is_error
    assert refused.text.startswith("data: ")


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ("%%%", "expected base64"),
        (base64.b64encode(b"%!PS-Adobe-3.0 EPSF-3.0").decode(), "That is none of"),
        (encoded(Image.new("RGB", (4, 4)), "BMP"), "That is none of"),
        (encoded(Image.new("RGB", (400, 400)))[:60], "damaged"),
    ],
    ids=["no-base64", "eps", "bmp", "cut"],
)
def test_what_is_no_picture_is_refused(fresh: TestClient, data: str, problem: str) -> None:
    refused = fresh.call_tool("add", {"data": data})
    assert refused.is_error
    assert problem in refused.text
