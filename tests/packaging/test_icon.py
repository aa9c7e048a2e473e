"""The icon: three strands on a tile, in every size."""

from io import BytesIO

import icon
import pytest
from PIL import Image

STRANDS = {(158, 140, 252), (228, 223, 250), (110, 86, 207)}


@pytest.mark.parametrize("side", [16, 512])
def test_the_tile_is_opaque_and_its_surroundings_are_not(side):
    drawn = Image.open(BytesIO(icon.png(side))).convert("RGBA")
    assert drawn.size == (side, side)
    assert drawn.getpixel((0, 0))[3] == drawn.getpixel((side - 1, side - 1))[3] == 0
    assert drawn.getpixel((side // 5, side // 2))[3] == 255


def test_all_three_strands_are_seen():
    drawn = Image.open(BytesIO(icon.png(256))).convert("RGB")
    assert {colour for _, colour in drawn.getcolors(1 << 16)} >= STRANDS


def test_the_mac_s_file_holds_every_size(tmp_path):
    with Image.open(icon.icns(tmp_path / "braid.icns")) as image:
        sizes = {width * scale for width, _, scale in image.info["sizes"]}
    assert {16 * 2, 128, 256, 512, 1024} <= sizes
