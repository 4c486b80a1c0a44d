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
from mcpkit.testing import TestClient
from tests.examples.host import call, example, refused

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


@pytest.fixture(scope="module")
def client(client: TestClient, flag: str) -> TestClient:
    """Its server has the flag as the picture 1."""
    added = client.call_tool("add", {"data": flag})
    assert "picture 1, 40 x 20" in str(added.content)
    return client


def seen(result: CallResult) -> Image.Image:
    """The picture in a result, as a model would see it."""
    assert not result.is_error, result.text
    (content,) = [each for each in result.content if isinstance(each, ImageContent)]
    return Image.open(io.BytesIO(content.data))


def test_a_picture_is_described_and_read(client: TestClient, flag: str) -> None:
    found = call(client, "describe", number=1)
    assert (found["format"], found["width"], found["height"]) == ("PNG", 40, 20)
    colours = call(client, "palette", number=1, colours=2)
    assert colours == [{"colour": "#ff0000", "share": 0.75}, {"colour": "#0000ff", "share": 0.25}]
    (contents,) = client.read_resource("picture://1")
    assert isinstance(contents, BlobResourceContents)
    assert (contents.mime_type, contents.blob) == ("image/png", base64.b64decode(flag))


@pytest.mark.parametrize(
    ("tool", "arguments", "size"),
    [
        ("resize", {"width": 7, "height": 9}, (7, 9)),
        ("thumbnail", {"side": 10}, (10, 5)),
        ("crop", {"left": 8, "top": 0, "width": 4, "height": 20}, (4, 20)),
    ],
)
def test_pictures_are_made_of_a_picture(
    client: TestClient, tool: str, arguments: dict[str, int], size: tuple[int, int]
) -> None:
    made = seen(client.call_tool(tool, {"number": 1, **arguments}))
    assert made.size == size
    if tool == "crop":
        assert [made.getpixel((x, 0)) for x in (1, 2)] == [(0, 0, 255), (255, 0, 0)]


def test_an_unknown_picture_or_part_is_refused(client: TestClient) -> None:
    with pytest.raises(ProtocolError, match="not found"):
        client.read_resource("picture://999")
    unknown = refused(client, "describe", number=999)
    assert unknown.startswith("There is no picture 999; there are: 1")
    area = {"left": 30, "top": 0, "width": 11, "height": 1}
    assert refused(client, "crop", number=1, **area) == "That reaches out of the 40 x 20 pixels."
    problems = refused(client, "resize", number=1, width=0, height=5000).splitlines()
    assert [line.partition(":")[0] for line in problems] == ["width", "height"]


def test_a_result_names_the_new_picture_and_keeps_transparency() -> None:
    with TestClient(SERVER) as client:
        client.call_tool("add", {"data": encoded(Image.new("RGBA", (4, 4), (0, 0, 0, 0)))})
        made = client.call_tool("thumbnail", {"number": 1, "side": 2})
        (link,) = [each for each in made.content if isinstance(each, ResourceLink)]
        assert link.uri == "picture://2"
        assert call(client, "describe", number=2)
    assert seen(made).getpixel((0, 0)) == (0, 0, 0, 0)


@pytest.fixture(scope="module")
def fresh() -> Iterator[TestClient]:
    with TestClient(SERVER, timeout=30) as client:
        yield client


BOMB = encoded(Image.new("1", (20_000, 20_000)))
assert len(BOMB) < 1_000_000


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (BOMB, "The picture has more than 25000000 pixels."),
        (base64.b64encode(bytes(5_000_001)).decode(), "data: "),
        ("%%%", "expected base64"),
        (base64.b64encode(b"%!PS-Adobe-3.0 EPSF-3.0").decode(), "That is none of"),
        (encoded(Image.new("RGB", (4, 4)), "BMP"), "That is none of"),
        (encoded(Image.new("RGB", (400, 400)))[:60], "damaged"),
    ],
    ids=["bomb", "long", "no-base64", "eps", "bmp", "cut"],
)
def test_unusable_pictures_are_refused(fresh: TestClient, data: str, problem: str) -> None:
    assert problem in refused(fresh, "add", data=data)
