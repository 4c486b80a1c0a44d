"""Works on pictures with Pillow: describe, resize, crop, find colours. ``pip install pillow``.

Shows pictures as results (``Image``) and as arguments (bytes, base64 on the wire), resources that
keep them so that a model need not repeat them, and limits against files that unpack into gigabytes.

    mcpkit run examples/image_tools.py

Pictures are named ``picture://1``, ``picture://2``, …; ``add`` takes the first one.
"""

import io
import threading
import warnings
from collections import OrderedDict
from collections.abc import Generator
from contextlib import contextmanager
from typing import Annotated

from PIL import Image as Pillow
from PIL import UnidentifiedImageError
from pydantic import Field
from typing_extensions import TypedDict

from mcpkit import Image, MCPKit, ResourceLink, ResourceNotFound, ToolError

app = MCPKit(
    "image-tools", version="1.0", instructions="Add a picture, then name it in the other tools."
)

MAX_BYTES = 5_000_000
MAX_PIXELS = 25_000_000
KEPT = 50
FORMATS = ("PNG", "JPEG", "GIF", "WEBP")
"""Decoders that may run; others, such as EPS, start programs or are rarely looked after."""

Side = Annotated[int, Field(ge=1, le=4096, description="In pixels.")]
Offset = Annotated[int, Field(ge=0, description="In pixels, from the left upper corner.")]
Number = Annotated[int, Field(ge=1, description="Of the picture.")]

_pictures: OrderedDict[int, bytes] = OrderedDict()
_lock = threading.Lock()
_count = 0


class Description(TypedDict):
    """The facts about a picture."""

    format: str
    width: int
    height: int
    mode: str
    frames: int
    bytes: int


class Colour(TypedDict):
    """A colour, as #rrggbb, and how much of the picture has it, from 0 to 1."""

    colour: str
    share: float


def keep(data: bytes) -> int:
    """Store a picture, in place of the oldest if there are too many; return its number."""
    global _count
    with _lock:
        _count += 1
        _pictures[_count] = data
        while len(_pictures) > KEPT:
            _pictures.popitem(last=False)
        return _count


@contextmanager
def opened(data: bytes) -> Generator[Pillow.Image, None, None]:
    """Open a picture of bounded size; its pixels are decoded when they are used.

    Raises:
        ToolError: The format is not supported, or the file is damaged or too large.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Pillow.DecompressionBombWarning)
            picture: Pillow.Image = Pillow.open(io.BytesIO(data), formats=FORMATS)
            with picture:
                if picture.width * picture.height > MAX_PIXELS:
                    raise ToolError(f"The picture has more than {MAX_PIXELS} pixels.")
                yield picture
    except (Pillow.DecompressionBombWarning, Pillow.DecompressionBombError):
        raise ToolError(f"The picture has more than {MAX_PIXELS} pixels.") from None
    except UnidentifiedImageError:
        raise ToolError(f"That is none of {', '.join(FORMATS)}.") from None
    except (OSError, SyntaxError, ValueError) as error:  # Pillow's own for damaged files
        raise ToolError(f"The picture is damaged: {error}.") from None


def stored(number: int) -> bytes:
    """The file of a picture.

    Raises:
        ToolError: There is none of this number.
    """
    data = _pictures.get(number)
    if data is None:
        known = ", ".join(map(str, _pictures)) or "none yet"
        raise ToolError(f"There is no picture {number}; there are: {known}.")
    return data


def result(picture: Pillow.Image) -> list[Image | ResourceLink]:
    """Return a new picture and its name for the next tool."""
    buffer = io.BytesIO()
    picture.convert("RGBA" if picture.has_transparency_data else "RGB").save(buffer, "PNG")
    number = keep(buffer.getvalue())
    name = f"picture {number}, {picture.width} x {picture.height}"
    link = ResourceLink(f"picture://{number}", name, mime_type="image/png")
    return [Image(buffer.getvalue(), "image/png"), link]


@app.resource("picture://{number}")
def picture(number: int) -> Image:
    """A picture that was added or made."""
    data = _pictures.get(number)
    if data is None:
        raise ResourceNotFound()
    return Image(data)


@app.tool
def add(data: Annotated[bytes, Field(max_length=MAX_BYTES)]) -> ResourceLink:
    """Add a picture to work on.

    Args:
        data: The file (PNG, JPEG, GIF or WebP), in base64.
    """
    with opened(data) as picture:
        picture.verify()
        mime_type = Pillow.MIME[picture.format or "PNG"]
        name = f"{picture.width} x {picture.height}"
    number = keep(data)
    return ResourceLink(f"picture://{number}", f"picture {number}, {name}", mime_type=mime_type)


@app.tool(read_only=True)
def describe(number: Number) -> Description:
    """Return the size and format of a picture."""
    data = stored(number)
    with opened(data) as picture:
        return Description(
            format=picture.format or "",
            width=picture.width,
            height=picture.height,
            mode=picture.mode,
            frames=getattr(picture, "n_frames", 1),
            bytes=len(data),
        )


@app.tool
def resize(number: Number, width: Side, height: Side) -> list[Image | ResourceLink]:
    """Make a picture of exactly this size; its proportions may change."""
    size = (width, height)
    with opened(stored(number)) as picture:
        # Its type names NumPy's, which need not be installed.
        return result(picture.convert("RGBA").resize(size))  # pyright: ignore[reportUnknownMemberType]


@app.tool
def thumbnail(number: Number, side: Side = 256) -> list[Image | ResourceLink]:
    """Make a small picture with the same proportions.

    Args:
        side: The largest length of its longer side in pixels.
    """
    with opened(stored(number)) as picture:
        picture.thumbnail((side, side))
        return result(picture)


@app.tool
def crop(
    number: Number,
    left: Offset,
    top: Offset,
    width: Side,
    height: Side,
) -> list[Image | ResourceLink]:
    """Cut a rectangle out of a picture."""
    with opened(stored(number)) as picture:
        if left + width > picture.width or top + height > picture.height:
            raise ToolError(f"That reaches out of the {picture.width} x {picture.height} pixels.")
        return result(picture.crop((left, top, left + width, top + height)))


@app.tool(read_only=True)
def palette(number: Number, colours: Annotated[int, Field(ge=1, le=16)] = 5) -> list[Colour]:
    """Find the main colours of a picture, the most frequent one first.

    Args:
        colours: The largest number of colours.
    """
    with opened(stored(number)) as picture:
        picture.thumbnail((200, 200))
        small = picture.convert("RGB").quantize(colours)
    table = small.getpalette() or []
    counted: list[tuple[int, int]] = small.getcolors() or []  # type: ignore[assignment]
    total = small.width * small.height
    return [
        Colour(colour="#" + bytes(table[i * 3 : i * 3 + 3]).hex(), share=n / total)
        for n, i in sorted(counted, reverse=True)
    ]


if __name__ == "__main__":
    app.run()
