"""PDF pages as pictures."""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from engine.errors import MediaError
from engine.media.document import probe_pdf, read_pdf

RED, GREEN, BLUE = "1 0 0", "0 1 0", "0 0 1"


def pdf(colours: Sequence[str], size: tuple[int, int] = (200, 100), page: str = "", trailer: str = "") -> bytes:
    """A document of one page a colour, its lower half filled."""
    kids = " ".join(f"{3 + 2 * number} 0 R" for number in range(len(colours)))
    bodies = ["<</Type/Catalog/Pages 2 0 R>>", f"<</Type/Pages/Kids[{kids}]/Count {len(colours)}>>"]
    for number, colour in enumerate(colours):
        drawing = f"{colour} rg 0 0 {size[0]} {size[1] // 2} re f"
        box = f"/MediaBox[0 0 {size[0]} {size[1]}]"
        bodies.append(f"<</Type/Page/Parent 2 0 R{box}/Contents {4 + 2 * number} 0 R{page}>>")
        bodies.append(f"<</Length {len(drawing)}>>stream\n{drawing}\nendstream")
    text, offsets = "%PDF-1.7\n", []
    for number, body in enumerate(bodies, 1):
        offsets.append(len(text))
        text += f"{number} 0 obj{body}endobj\n"
    table = "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    count = len(bodies) + 1
    entries = f"trailer<</Size {count}/Root 1 0 R{trailer}>>\nstartxref\n{len(text)}\n%%EOF"
    return f"{text}xref\n0 {count}\n0000000000 65535 f \n{table}{entries}".encode()


def refusal(source: object, **options: object) -> str:
    with pytest.raises(MediaError) as caught:
        read_pdf(source, **options)
    assert str(caught.value).endswith(".")
    return str(caught.value)


class TestPages:
    def test_each_page_is_a_picture_that_knows_its_number(self, tmp_path: Path) -> None:
        (tmp_path / "report.pdf").write_bytes(pdf([RED, GREEN, BLUE]))
        pictures = read_pdf(tmp_path / "report.pdf")
        assert [picture.name for picture in pictures] == [f"report.pdf, page {number}" for number in (1, 2, 3)]
        assert [tuple(picture.pixels[-5, 5]) for picture in pictures] == [(255, 0, 0), (0, 255, 0), (0, 0, 255)]
        assert all(tuple(picture.pixels[5, 5]) == (255, 255, 255) for picture in pictures)
        assert pictures[0].pixels.shape == (209, 417, 3)
        assert pictures[0].source_size == (417, 209)
        assert pictures[0].pixels.flags.c_contiguous
        assert not pictures[0].pixels.flags.writeable
        assert pictures[0].note is None

    def test_some_pages(self) -> None:
        names = [picture.name for picture in read_pdf(pdf([RED] * 5), name="a.pdf", pages=range(3, 9))]
        assert names == ["a.pdf, page 4", "a.pdf, page 5"]

    def test_too_many_pages_are_cut_and_each_says_so(self) -> None:
        pictures = read_pdf(pdf([RED] * 5), max_pages=2)
        assert [picture.note for picture in pictures] == ["only 2 of 5 pages are read"] * 2

    @pytest.mark.parametrize("size", [(3000, 2000), (14000, 20), (17, 9000)])
    def test_large_pages_are_drawn_within_the_budget(self, size: tuple[int, int]) -> None:
        [picture] = read_pdf(pdf([RED], size), max_pixels=20_000)
        height, width, _ = picture.pixels.shape
        assert 10_000 < width * height <= 20_000
        assert picture.note is not None
        assert picture.note.startswith("scaled down from")

    def test_rotated_pages_are_upright(self) -> None:
        data = pdf([RED], page="/Rotate 90")
        [picture] = read_pdf(data)
        assert picture.pixels.shape[0] > picture.pixels.shape[1]
        assert tuple(picture.pixels[100, 5]) == (255, 0, 0)
        assert probe_pdf(data).sizes == ((100.0, 200.0),)

    def test_probe_tells_pages_and_sizes(self) -> None:
        info = probe_pdf(pdf([RED, BLUE], (595, 842)))
        assert (info.pages, info.sizes) == (2, ((595.0, 842.0), (595.0, 842.0)))


class TestRefusals:
    def test_a_locked_document(self) -> None:
        lock = f"/Encrypt<</Filter/Standard/V 1/R 2/O<{'41' * 32}>/U<{'42' * 32}>/P -4>>/ID[<00><00>]"
        assert "locked with a password" in refusal(pdf([RED], trailer=lock), name="pay.pdf")

    @pytest.mark.parametrize(
        ("content", "word"),
        [
            (b"", "empty"),
            (b"words " * 30, "plain text"),
            (b"%PDF-1.7\n nothing else", "damaged"),
            (pdf([RED])[:300], "damaged"),
            (pdf([]), "no pages"),
            (b"\x89PNG\r\n\x1a\n", "a picture"),
        ],
    )
    def test_what_cannot_be_read(self, tmp_path: Path, content: bytes, word: str) -> None:
        (tmp_path / "a.pdf").write_bytes(content)
        assert word in refusal(tmp_path / "a.pdf")

    def test_pages_that_are_not_there(self) -> None:
        assert "has 2 pages" in refusal(pdf([RED] * 2), pages=range(5, 6))

    def test_files_are_closed_whatever_happens(self, tmp_path: Path) -> None:
        (tmp_path / "a.pdf").write_bytes(pdf([RED]))
        (tmp_path / "b.pdf").write_bytes(b"%PDF-1.7\n nothing else")
        before = len(os.listdir("/dev/fd"))
        for _ in range(5):
            read_pdf(tmp_path / "a.pdf")
            refusal(tmp_path / "b.pdf")
        assert len(os.listdir("/dev/fd")) == before

    def test_several_threads_take_turns(self) -> None:
        with ThreadPoolExecutor(4) as pool:
            pages = list(pool.map(lambda colour: read_pdf(pdf([colour]))[0].pixels[-5, 5].tolist(), [RED, BLUE] * 8))
        assert pages == [[255, 0, 0], [0, 0, 255]] * 8
