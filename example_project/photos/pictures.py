"""Thumbnails, made by Pillow."""

from io import BytesIO

from PIL import Image, ImageOps

FORMATS = ("JPEG", "PNG", "WEBP", "GIF")  # others have decoders that strangers should not reach
MAX_PIXELS = 50_000_000


def make_thumbnail(content: bytes, size: int) -> bytes:
    """Return the picture in ``content`` as a JPEG that fits into a square of ``size`` pixels.

    Raises what Pillow raises for a broken picture, and ``ValueError`` for too large a one.
    """
    with Image.open(BytesIO(content), formats=FORMATS) as image:
        if image.width * image.height > MAX_PIXELS:
            raise ValueError(f"more than {MAX_PIXELS} pixels")
        image.load()  # the whole file: a truncated one fails here
        picture = ImageOps.exif_transpose(image).convert("RGB")
    picture.thumbnail((size, size))
    thumbnail = BytesIO()
    picture.save(thumbnail, "JPEG", quality=85)
    return thumbnail.getvalue()
