"""Pictures of every kind, whole and broken, as the model will see them."""

import base64
import io
import os
import struct
import unicodedata
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pillow_heif
import pytest
from PIL import Image, ImageFile

from engine.errors import MediaError
from engine.media.image import Picture, read_image

RED, GREEN, BLUE, WHITE = (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255)


def encode(image: Image.Image, image_format: str, **options: object) -> bytes:
    stream = io.BytesIO()
    image.save(stream, image_format, **options)
    return stream.getvalue()


def noise(side: int = 256) -> Image.Image:
    return Image.fromarray(np.random.default_rng(0).integers(0, 256, (side, side, 3)).astype(np.uint8))


def scene() -> Image.Image:
    """60 x 40, top edge red, right edge green, the rest white: every turn of it is different."""
    image = Image.new("RGB", (60, 40), WHITE)
    image.paste(RED, (0, 0, 60, 8))
    image.paste(GREEN, (52, 8, 60, 40))
    return image


def lying(orientation: int) -> tuple[Image.Image, Image.Exif]:
    """The scene as a camera held another way would store it, and the tag that turns it upright."""
    undo = {
        2: Image.Transpose.FLIP_LEFT_RIGHT,
        3: Image.Transpose.ROTATE_180,
        4: Image.Transpose.FLIP_TOP_BOTTOM,
        5: Image.Transpose.TRANSPOSE,
        6: Image.Transpose.ROTATE_90,
        7: Image.Transpose.TRANSVERSE,
        8: Image.Transpose.ROTATE_270,
    }
    exif = Image.Exif()
    exif[0x0112] = orientation
    return scene() if orientation == 1 else scene().transpose(undo[orientation]), exif


def header_only_png(width: int, height: int) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", b"") + chunk(b"IEND", b"")


def refusal(source: object, **options: object) -> MediaError:
    with pytest.raises(MediaError) as caught:
        read_image(source, **options)
    sentence = str(caught.value)
    assert sentence.endswith(".")
    assert "Error" not in sentence
    return caught.value


class TestUpright:
    @pytest.mark.parametrize("orientation", range(1, 9))
    @pytest.mark.parametrize("image_format", ["PNG", "TIFF", "WEBP"])
    def test_every_exif_turn_gives_the_same_pixels(self, orientation: int, image_format: str) -> None:
        stored, exif = lying(orientation)
        options = {"lossless": True} if image_format == "WEBP" else {}
        picture = read_image(encode(stored, image_format, exif=exif, **options))
        assert np.array_equal(picture.pixels, np.asarray(scene()))
        assert picture.source_size == (60, 40)

    @pytest.mark.parametrize("orientation", range(1, 9))
    def test_heic_is_turned_once_though_it_says_so_twice(self, orientation: int) -> None:
        stored, exif = lying(orientation)
        stream = io.BytesIO()
        pillow_heif.from_pillow(stored).save(stream, quality=-1, exif=exif.tobytes())
        assert orientation == 1 or b"irot" in stream.getvalue() or b"imir" in stream.getvalue()
        picture = read_image(stream.getvalue())
        assert picture.source_size == (60, 40)
        assert np.abs(picture.pixels.astype(int) - np.asarray(scene())).mean() < 8

    def test_phone_jpeg_is_turned_and_reports_its_upright_size(self) -> None:
        stored, exif = lying(6)
        picture = read_image(encode(stored, "JPEG", exif=exif, quality=95, subsampling=0))
        assert picture.source_size == (60, 40)
        assert np.abs(picture.pixels.astype(int) - np.asarray(scene())).max() < 60

    def test_scaled_jpeg_keeps_its_turn(self) -> None:
        exif = Image.Exif()
        exif[0x0112] = 6
        picture = read_image(encode(noise().resize((400, 800)), "JPEG", exif=exif), max_pixels=5000)
        assert picture.pixels.shape == (50, 100, 3)
        assert picture.source_size == (800, 400)

    def test_a_broken_exif_block_does_not_lose_the_picture(self) -> None:
        assert read_image(encode(scene(), "PNG", exif=b"Exif\0\0garbage!")).pixels.shape == (40, 60, 3)


class TestModes:
    def test_result_is_contiguous_and_read_only(self) -> None:
        pixels = read_image(encode(scene(), "PNG")).pixels
        assert pixels.dtype == np.uint8
        assert pixels.flags.c_contiguous
        with pytest.raises(ValueError, match="read-only"):
            pixels[0, 0] = 0

    def test_hidden_colours_do_not_show(self) -> None:
        plain = np.zeros((64, 64, 4), np.uint8)
        plain[16:48, 16:48] = (0, 0, 255, 255)
        hiding = plain.copy()
        hiding[plain[..., 3] == 0] = (255, 0, 0, 0)
        first, second = (read_image(encode(Image.fromarray(rgba), "PNG")) for rgba in (plain, hiding))
        assert np.array_equal(first.pixels, second.pixels)
        assert tuple(first.pixels[0, 0]) == WHITE
        assert tuple(first.pixels[32, 32]) == BLUE

    @pytest.mark.parametrize("image_format", ["PNG", "WEBP"])
    def test_half_transparent_is_blended_with_white(self, image_format: str) -> None:
        data = encode(Image.new("RGBA", (8, 8), (255, 0, 0, 128)), image_format, lossless=True)
        assert tuple(read_image(data).pixels[4, 4]) == (255, 127, 127)

    def test_palette_transparency_is_white(self) -> None:
        image = Image.new("P", (4, 4), 1)
        image.putpalette([255, 0, 0, 0, 0, 255])
        image.putpixel((0, 0), 0)
        pixels = read_image(encode(image, "PNG", transparency=0)).pixels
        assert tuple(pixels[0, 0]) == WHITE
        assert tuple(pixels[1, 1]) == BLUE

    @pytest.mark.parametrize("image_format", ["PNG", "TIFF"])
    def test_sixteen_bit_grey_is_scaled(self, image_format: str) -> None:
        ramp = np.tile(np.arange(0, 65536, 256, dtype=np.uint16), (4, 1))
        pixels = read_image(encode(Image.fromarray(ramp), image_format)).pixels
        assert np.array_equal(pixels[0, :, 0], np.arange(256))

    def test_big_endian_sixteen_bit_is_scaled(self) -> None:
        ramp = np.tile(np.arange(0, 65536, 256).astype(">u2"), (4, 1))
        image = Image.frombytes("I;16B", (256, 4), ramp.tobytes())
        assert np.array_equal(read_image(image).pixels[0, :, 0], np.arange(256))

    @pytest.mark.parametrize(
        ("values", "expected"),
        [
            (np.array([[0, 32768, 65535]], np.int32), [0, 128, 255]),
            (np.array([[0, 100, 200]], np.int32), [0, 100, 200]),
            (np.array([[-50, 0, 50]], np.int32), [0, 128, 255]),
            (np.array([[0.0, 0.5, 1.0]], np.float32), [0, 128, 255]),
            (np.array([[0.0, np.nan, 1e6]], np.float32), [0, 0, 255]),
            (np.array([[0.0, 0.0, 0.0]], np.float32), [0, 0, 0]),
        ],
    )
    def test_deep_grey_takes_the_range_its_values_fit(self, values: np.ndarray, expected: list[int]) -> None:
        assert read_image(encode(Image.fromarray(values), "TIFF")).pixels[0, :, 0].tolist() == expected

    @pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "PA", "CMYK", "YCbCr", "HSV", "LAB", "RGBX", "La", "RGBa"])
    def test_other_modes_become_rgb(self, mode: str) -> None:
        assert read_image(Image.new(mode, (3, 5))).pixels.shape == (5, 3, 3)

    @pytest.mark.parametrize("size", [(1, 1), (3, 3), (1, 40), (40, 1), (3, 500), (332, 27), (27, 332)])
    def test_thin_pictures_work(self, size: tuple[int, int]) -> None:
        pixels = read_image(encode(Image.new("RGB", size, RED), "PNG")).pixels
        assert pixels.shape == (size[1], size[0], 3)
        assert (pixels == RED).all()

    def test_a_pillow_image_is_not_changed(self) -> None:
        image = Image.new("RGBA", (30, 10), (0, 0, 0, 0))
        picture = read_image(image, max_pixels=75, name="screen")
        assert (image.mode, image.size) == ("RGBA", (30, 10))
        assert (picture.name, picture.pixels.shape) == ("screen", (5, 15, 3))


class TestFormats:
    @pytest.mark.parametrize(
        "image_format", ["JPEG", "PNG", "GIF", "WEBP", "AVIF", "TIFF", "BMP", "ICO", "JPEG2000", "PPM", "QOI"]
    )
    def test_content_decides_not_the_name(self, tmp_path: Path, image_format: str) -> None:
        path = tmp_path / "cat.png"
        path.write_bytes(encode(Image.new("RGB", (32, 32), BLUE), image_format))
        picture = read_image(path)
        assert picture.name == "cat.png"
        assert np.abs(picture.pixels.astype(int) - BLUE).max() < 12

    @pytest.mark.parametrize("name", ["a.heic", "a.HEIF", "a.jpg"])
    def test_heic_is_read_under_any_name(self, tmp_path: Path, name: str) -> None:
        path = tmp_path / name
        pillow_heif.from_pillow(Image.new("RGB", (64, 64), GREEN)).save(path)
        assert np.abs(read_image(path).pixels.astype(int) - GREEN).max() < 12
        assert "HEIF" not in Image.OPEN, "Pillow stays as it was for everyone else"

    def test_heic_with_several_pictures_gives_the_main_one(self, tmp_path: Path) -> None:
        heif = pillow_heif.from_pillow(Image.new("RGB", (64, 64), GREEN))
        heif.add_from_pillow(Image.new("RGB", (64, 64), RED))
        heif.save(tmp_path / "two.heic", primary_index=1)
        picture = read_image(tmp_path / "two.heic")
        assert picture.note == "main picture of 2"
        assert np.abs(picture.pixels.astype(int) - RED).max() < 12

    @pytest.mark.parametrize("image_format", ["GIF", "WEBP", "PNG"])
    def test_animation_gives_its_first_frame_and_says_so(self, image_format: str) -> None:
        red, lime, blue = (Image.new("RGB", (16, 16), colour) for colour in (RED, GREEN, BLUE))
        data = encode(red, image_format, save_all=True, append_images=[lime, blue], duration=100)
        picture = read_image(data)
        assert picture.note == "first frame of 3"
        assert np.abs(picture.pixels.astype(int) - RED).max() < 8

    def test_one_frame_gif_has_no_note(self) -> None:
        assert read_image(encode(scene(), "GIF")).note is None

    def test_pages_of_a_tiff_are_called_pages(self) -> None:
        assert read_image(encode(scene(), "TIFF", save_all=True, append_images=[scene()])).note == "first page of 2"

    def test_unusual_names_are_shown_as_they_are(self, tmp_path: Path) -> None:
        umlauts = (unicodedata.normalize("NFC", "Ünï ☆ 図.png"), unicodedata.normalize("NFD", "Ünï ☆ 図.png"))
        for name in (*umlauts, "a b#c%20?.png", "two\nlines.png", "n" * 246 + ".png"):
            (tmp_path / name).write_bytes(encode(scene(), "PNG"))
            assert read_image(str(tmp_path / name)).name == name

    def test_tilde_is_home(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HOME", str(tmp_path))
        (tmp_path / "x.png").write_bytes(encode(scene(), "PNG"))
        assert read_image("~/x.png").name == "x.png"


class TestDataUrls:
    def test_every_way_of_writing_it_gives_the_same_pixels(self) -> None:
        data = encode(scene(), "PNG")
        text = base64.b64encode(data).decode()
        broken_lines = "\r\n".join(text[at : at + 60] for at in range(0, len(text), 60))
        urlsafe = text.replace("+", "-").replace("/", "_").rstrip("=")
        quoted = "".join(f"%{byte:02x}" for byte in data)
        for url in (
            f"data:image/png;base64,{text}",
            f"DATA:IMAGE/PNG;BASE64,{text.rstrip('=')}",
            f"data:image/jpeg;base64,{broken_lines}",
            f"data:;base64,{urlsafe}",
            f"data:image/png,{quoted}",
        ):
            assert np.array_equal(read_image(url).pixels, np.asarray(scene()))

    @pytest.mark.parametrize(
        ("url", "word"),
        [
            ("data:image/png;base64,", "empty"),
            ("data:image/png;base64,@@@@", "Copy it again"),
            ("data:image/png;base64,abcde", "Copy it again"),
            ("data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg'/>", "SVG"),
            ("https://example.com/cat.png", "web"),
            (" HTTP://example.com/cat.png", "web"),
        ],
    )
    def test_what_cannot_be_read_is_refused(self, url: str, word: str) -> None:
        assert word in str(refusal(url))


class TestRefusals:
    @pytest.mark.parametrize(
        ("content", "word"),
        [
            (b"", "empty (0 bytes)"),
            (b"just some words\n", "plain text"),
            (b"<!DOCTYPE html><html><body>404</body></html>", "a web page"),
            (b"%PDF-1.7\n1 0 obj", "a PDF document"),
            (b"PK\x03\x04\x14\x00\x00\x00", "an archive"),
            (b"\x89PNG\r\n\x1a\n then nothing", "damaged"),
            (bytes(range(128, 256)) * 4, "not a picture that Braid can read"),
        ],
    )
    def test_mislabelled_files_are_named_for_what_they_are(self, tmp_path: Path, content: bytes, word: str) -> None:
        (tmp_path / "cat.jpg").write_bytes(content)
        sentence = str(refusal(tmp_path / "cat.jpg"))
        assert sentence.startswith("cat.jpg ")
        assert word in sentence

    def test_a_folder_a_missing_file_and_a_dangling_link(self, tmp_path: Path) -> None:
        (tmp_path / "a.png").mkdir()
        (tmp_path / "link.png").symlink_to(tmp_path / "gone.png")
        assert "a.png is a folder" in str(refusal(tmp_path / "a.png"))
        assert "gone.png could not be found" in str(refusal(tmp_path / "gone.png"))
        assert "link.png is a link to a file that is no longer there" in str(refusal(tmp_path / "link.png"))

    def test_a_pipe_is_refused_instead_of_waited_for(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe.png")
        assert "not an ordinary file" in str(refusal(tmp_path / "pipe.png"))

    def test_a_file_without_permission(self, tmp_path: Path) -> None:
        path = tmp_path / "secret.png"
        path.write_bytes(encode(scene(), "PNG"))
        path.chmod(0)
        user = os.geteuid()
        if user == 0:  # root reads everything
            os.seteuid(65534)
        try:
            assert "not allowed to read secret.png" in str(refusal(path))
        finally:
            os.seteuid(user)

    @pytest.mark.parametrize("side", [20_000, 100_000])
    def test_a_huge_header_is_refused_with_numbers_before_its_pixels_exist(self, side: int) -> None:
        sentence = str(refusal(header_only_png(side, side), name="map.png"))
        assert f"{side} x {side}" in sentence
        assert "134 million" in sentence

    def test_a_huge_pillow_image_is_refused_too(self) -> None:
        lazy = Image.frombytes("1", (8, 1), b"\0")
        lazy._size = (50_000, 50_000)
        assert "2500 million pixels" in str(refusal(lazy))


class TestBudget:
    def test_large_pictures_are_scaled_down_and_say_so(self) -> None:
        picture = read_image(encode(noise(400).resize((800, 600)), "JPEG"), max_pixels=30_000)
        assert picture.pixels.shape == (150, 200, 3)
        assert picture.source_size == (800, 600)
        assert picture.note == "scaled down from 800 x 600 to fit the pixel budget"

    def test_a_scaled_jpeg_is_decoded_small(self) -> None:
        """Decoding at 1/4 reads the same picture: close to scaling the whole one down."""
        data = encode(noise(64).resize((1024, 1024), Image.Resampling.BICUBIC), "JPEG", quality=95)
        small = read_image(data, max_pixels=128 * 128).pixels.astype(int)
        whole = np.asarray(Image.open(io.BytesIO(data)).resize((128, 128), Image.Resampling.LANCZOS)).astype(int)
        assert np.abs(small - whole).mean() < 4

    @pytest.mark.parametrize("size", [(1000, 10), (10, 1000), (5000, 1), (333, 777)])
    def test_budget_holds_for_any_shape(self, size: tuple[int, int]) -> None:
        height, width, _ = read_image(Image.new("RGB", size), max_pixels=1000).pixels.shape
        assert 1 <= width * height <= 1000
        assert (width > height) == (size[0] > size[1])


class TestDamage:
    @pytest.mark.parametrize(
        ("image_format", "options", "loss"),
        [
            ("JPEG", {}, "only about 42 % of it could be read"),
            ("JPEG", {"progressive": True}, "only a coarse version could be read"),
            ("PNG", {}, "only about 49 % of it could be read"),
        ],
    )
    def test_a_half_picture_is_refused_unless_asked_for(
        self, image_format: str, options: dict[str, object], loss: str
    ) -> None:
        data = encode(noise(), image_format, **options)
        half = data[: len(data) // 2]
        error = refusal(half, name="oven.jpg")
        assert str(error) == f"oven.jpg is damaged: {loss}. Send it anyway, or remove it."
        assert error.partial
        picture = read_image(half, allow_truncated=True)
        assert picture.note == f"damaged: {loss}"
        whole = read_image(data).pixels
        rows = len(picture.pixels)
        if not options:
            assert 100 < rows < 130
            assert np.array_equal(picture.pixels[: rows - 8], whole[: rows - 8])

    @pytest.mark.parametrize("options", [{}, {"progressive": True}])
    def test_a_picture_without_its_last_rows_is_refused_unless_asked_for(self, options: dict[str, bool]) -> None:
        data = encode(noise(), "JPEG", **options)
        cut = data[: len(data) * 98 // 100]
        assert refusal(cut, name="oven.jpg").partial
        assert read_image(cut, allow_truncated=True).note

    @pytest.mark.parametrize("image_format", ["GIF", "WEBP", "AVIF", "BMP", "JPEG2000"])
    @pytest.mark.parametrize("share", [0.5, 0.98])
    def test_formats_that_do_not_decode_by_rows_are_refused(self, image_format: str, share: float) -> None:
        data = encode(noise(), image_format)
        error = refusal(data[: int(len(data) * share)])
        assert "damaged" in str(error)
        assert not error.partial

    def test_a_png_whose_checksum_fails_is_refused(self) -> None:
        data = bytearray(encode(noise(), "PNG"))
        data[len(data) // 2] ^= 0xFF
        assert refusal(bytes(data)).partial

    def test_a_cut_heic_is_refused(self) -> None:
        stream = io.BytesIO()
        pillow_heif.from_pillow(noise()).save(stream)
        assert "damaged" in str(refusal(stream.getvalue()[: stream.tell() // 2]))

    def test_reading_damage_in_one_thread_does_not_excuse_it_in_another(self) -> None:
        data = encode(noise(), "JPEG")
        half = data[: len(data) // 2]

        def read(number: int) -> Picture | MediaError:
            try:
                return read_image(half, allow_truncated=bool(number % 2))
            except MediaError as error:
                return error

        with ThreadPoolExecutor(4) as pool:
            results = list(pool.map(read, range(40)))
        assert [isinstance(result, Picture) for result in results] == [bool(number % 2) for number in range(40)]
        assert ImageFile.LOAD_TRUNCATED_IMAGES is False

    def test_files_are_closed_whatever_happens(self, tmp_path: Path) -> None:
        whole = encode(noise(64), "JPEG")
        (tmp_path / "good.jpg").write_bytes(whole)
        (tmp_path / "half.jpg").write_bytes(whole[: len(whole) // 2])
        (tmp_path / "bad.jpg").write_bytes(b"\xff\xd8\xff nothing more")
        before = len(os.listdir("/dev/fd"))
        for _ in range(5):
            read_image(tmp_path / "good.jpg")
            refusal(tmp_path / "half.jpg")
            refusal(tmp_path / "bad.jpg")
        assert len(os.listdir("/dev/fd")) == before
