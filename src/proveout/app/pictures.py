"""Images on their way to a model: whatever a user draws, chooses or uploads becomes 32 × 32 pixels in base64."""

from __future__ import annotations

import base64
import io
from pathlib import Path

from PIL import Image, ImageFilter, ImageOps, ImageStat, UnidentifiedImageError

from proveout.app.weights import SHIPPED
from proveout.errors import UsageError

SIDE, DIGIT_SIDE = 32, 24
"""A digit of the training data fills 24 of the 32 pixels."""
INK = 40
"""Grey value from which a pixel belongs to a stroke."""


def samples(task: str) -> dict[str, Path]:
    """The pictures that are shipped with a task, by what they show."""
    return {path.stem: path for path in sorted((SHIPPED / task / "samples").glob("*.png"))}


def opened(content: bytes) -> Image.Image:
    """An image that a user gave, in full; UsageError where it is none."""
    try:
        with Image.open(io.BytesIO(content)) as image:
            return ImageOps.exif_transpose(image).convert("RGB")
    except (UnidentifiedImageError, Image.DecompressionBombError, OSError, SyntaxError, ValueError) as error:
        raise UsageError("that file is not a readable image. Use PNG or JPEG.") from error


def fitted(image: Image.Image) -> Image.Image:
    """The middle square at the models' size."""
    return ImageOps.fit(image.convert("RGB"), (SIDE, SIDE), Image.Resampling.BOX)


def digit(image: Image.Image) -> Image.Image:
    """A drawing or photograph of a digit as the training data has it: white on black, in the middle, of one size."""
    grey = ImageOps.autocontrast(image.convert("L"))
    edges = ImageStat.Stat(grey.resize((3, 3), Image.Resampling.BOX)).median[0]
    if edges > 127:  # dark on light ground
        grey = ImageOps.invert(grey)
    box = grey.point(lambda value: 255 if value > INK else 0).getbbox()
    if box is None:
        raise UsageError("there is nothing drawn yet.")
    ink = grey.crop(box)
    scale = DIGIT_SIDE / max(ink.size)
    ink = ink.resize((max(1, round(ink.width * scale)), max(1, round(ink.height * scale))), Image.Resampling.BOX)
    canvas = Image.new("L", (SIDE, SIDE))
    canvas.paste(ink, ((SIDE - ink.width) // 2, (SIDE - ink.height) // 2))
    return canvas.filter(ImageFilter.GaussianBlur(0.8)).convert("RGB")


def encoded(image: Image.Image) -> str:
    """A PNG in base64: how an image travels in a TaskRequest."""
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return base64.b64encode(buffer.getvalue()).decode()


def from_data_url(url: object) -> Image.Image:
    """What a canvas gives; a browser may say anything in its place."""
    try:
        content = base64.b64decode(str(url).partition(",")[2], validate=True)
    except ValueError:
        content = b""  # no image, and told as any other that is none
    return opened(content)
