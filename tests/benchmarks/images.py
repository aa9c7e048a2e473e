"""Preparing pictures: how fast large photos become patches, and what memory that takes."""

from __future__ import annotations

import io
import resource
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter

import numpy as np
from PIL import Image

from engine.media.image import read_image
from engine.models.families import open_port
from tests.benchmarks import models
from tests.benchmarks.table import Row

_SIZE = (4000, 3000)


def measure(model: str, counts: Sequence[int] = (1, 10, 100)) -> list[Row]:
    """One row per number of 12-megapixel JPEGs, prepared on two threads as the scheduler does."""
    port = open_port(*models.load(model))
    photos = [_photo(number) for number in range(4)]
    rows = []
    for count in counts:
        before, began = _peak(), perf_counter()
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda number: port.cut("image", read_image(photos[number % 4]).pixels), range(count)))
        seconds = perf_counter() - began
        rows.append({"pictures": count, "pictures_s": count / seconds, "more_peak_mb": (_peak() - before) / 1e6})
    return rows


def _photo(number: int) -> bytes:
    rng = np.random.default_rng(number)
    small = Image.fromarray(rng.integers(0, 255, (300, 400, 3), dtype=np.uint8))
    out = io.BytesIO()
    small.resize(_SIZE, Image.Resampling.BICUBIC).save(out, "JPEG", quality=88)
    return out.getvalue()


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
