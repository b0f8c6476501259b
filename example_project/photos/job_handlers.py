"""The jobs of the photos app; ``django_jobs`` finds this module by its name."""

from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image
from rest_framework import serializers

from django_jobs.execution import JobContext
from django_jobs.handlers import AUTHENTICATED, job_handler

FOLDERS = {"samples": Path(__file__).resolve().parent / "samples"}
MAX_PIXELS = 50_000_000


class ThumbnailParameters(serializers.Serializer):
    """What a ``thumbnails`` job is asked for; ``size`` is the longer edge in pixels."""

    folder = serializers.ChoiceField(choices=sorted(FOLDERS), default="samples")
    size = serializers.IntegerField(min_value=16, max_value=1024, default=320)


@job_handler(
    "thumbnails",
    parameters=ThumbnailParameters,
    timeout=300,
    max_attempts=3,
    permission=AUTHENTICATED,
    title="Thumbnails",
    description="Make a JPEG thumbnail of each photograph in a folder.",
)
def make_thumbnails(job: JobContext) -> dict[str, Any]:
    size = job.parameters["size"]
    paths = sorted(FOLDERS[job.parameters["folder"]].glob("*.jpg"))
    for path in job.track(paths, "Resizing"):
        with job.item(path.name):
            job.save_asset(
                f"{path.stem}-{size}.jpg",
                _thumbnail(path, size),
                asset_type="thumbnail",
                content_type="image/jpeg",
            )
    return {"size": size}


def _thumbnail(path: Path, size: int) -> bytes:
    """Return the picture in ``path`` as a JPEG that fits into a square of ``size`` pixels."""
    with Image.open(path) as image:
        if image.width * image.height > MAX_PIXELS:
            raise ValueError(f"more than {MAX_PIXELS} pixels")
        image.load()  # the whole file: a truncated one fails here
        picture = image.convert("RGB")
    picture.thumbnail((size, size))
    content = BytesIO()
    picture.save(content, "JPEG", quality=85)
    return content.getvalue()
