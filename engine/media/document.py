"""Pages of a PDF document as pictures."""

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pypdfium2 as pdfium
import pypdfium2.raw as pdfium_c

from engine.errors import MediaError
from engine.media.image import Picture
from engine.media.pixels import freeze
from engine.media.signature import Signature, sniff
from engine.media.source import Source, locate

DEFAULT_MAX_PAGES = 20
# An A4 page at 150 dots per inch is 2.2 million pixels.
DEFAULT_MAX_PIXELS = 4_000_000

_POINTS_PER_INCH = 72
_DOTS_PER_INCH = 150

# PDFium keeps global state and may be entered by one thread at a time.
_pdfium = threading.Lock()


@dataclass(frozen=True, slots=True)
class DocumentInfo:
    """What a document says about itself.

    Attributes:
        pages: How many there are.
        sizes: (width, height) of each page in points of 1/72 inch, as shown.
    """

    pages: int
    sizes: tuple[tuple[float, float], ...]


def read_pdf(
    source: Source,
    *,
    name: str | None = None,
    pages: range | None = None,
    max_pages: int = DEFAULT_MAX_PAGES,
    max_pixels: int = DEFAULT_MAX_PIXELS,
) -> list[Picture]:
    """Draw pages of a document on white, forms filled in, at 150 dots per inch.

    Args:
        source: A path, a `data:` URL or the file's bytes.
        name: What to call it; None takes the file's name.
        pages: Which pages, counted from 0; None is all of them. Those that do not exist are left out.
        max_pages: The most pages drawn; where there are more, the first are taken and each note says so.
        max_pixels: Budget of each page; larger ones are drawn smaller, and the note says so.

    Returns:
        One picture a page, named "report.pdf, page 3", pages counted from 1.

    Raises:
        MediaError: It is no PDF, damaged, locked with a password, empty, or has none of the pages.
    """
    with _open(source, name) as (document, title):
        wanted = _chosen(len(document), pages, title)
        limit = f"only {max_pages} of {len(wanted)} pages are read" if len(wanted) > max_pages else None
        return [_draw(document, number, title, max_pixels, limit) for number in wanted[:max_pages]]


def probe_pdf(source: Source, *, name: str | None = None) -> DocumentInfo:
    """Return the pages of a document without drawing them; errors are those of `read_pdf`."""
    with _open(source, name) as (document, _):
        sizes = tuple(document.get_page_size(number) for number in range(len(document)))
        return DocumentInfo(len(document), sizes)


def choose_pages(
    source: Source, pages: range | None = None, *, name: str | None = None, max_pages: int = DEFAULT_MAX_PAGES
) -> list[int]:
    """Return the numbers, from 0, of the pages that `read_pdf` would draw; errors are its own."""
    with _open(source, name) as (document, title):
        return _chosen(len(document), pages, title)[:max_pages]


def drawn_size(points: tuple[float, float], max_pixels: int = DEFAULT_MAX_PIXELS) -> tuple[int, int]:
    """Return (width, height) in pixels of a page of this size once `read_pdf` has drawn it."""
    scale = min(_DOTS_PER_INCH / _POINTS_PER_INCH, _scale_to_fit(*points, max_pixels))
    return math.ceil(points[0] * scale), math.ceil(points[1] * scale)


@contextmanager
def _open(source: Source, name: str | None) -> Iterator[tuple[pdfium.PdfDocument, str]]:
    """Hold PDFium's lock while a document is open; turn its errors into sentences."""
    located = locate(source, name=name, noun="document")
    signature = sniff(located.head())
    if signature is not Signature.PDF:
        what = f"holds {signature}, not a PDF document" if signature else "is not a PDF document"
        raise MediaError(f"{located.name} {what}. Add the document itself.")
    with _pdfium:
        try:
            document = pdfium.PdfDocument(located.path or located.data)
        except pdfium.PdfiumError as error:
            raise MediaError(_why_closed(located.name, error)) from error
        try:
            document.init_forms()  # does nothing without forms; must come before anything else is asked
            yield document, located.name
        except pdfium.PdfiumError as error:
            raise MediaError(f"{located.name} is damaged and could not be drawn. Add another copy of it.") from error
        finally:
            document.close()


def _chosen(count: int, pages: range | None, title: str) -> list[int]:
    wanted = [number for number in (pages or range(count)) if 0 <= number < count]
    if not wanted:
        raise MediaError(f"{title} has {count} pages, none of them chosen. Choose other pages.")
    return wanted


def _why_closed(name: str, error: pdfium.PdfiumError) -> str:
    if error.err_code == pdfium_c.FPDF_ERR_PASSWORD:
        return f"{name} is locked with a password. Save a copy without one and add that."
    return f"{name} is damaged or has no pages, and could not be read. Add another copy of it."


def _draw(document: pdfium.PdfDocument, number: int, title: str, max_pixels: int, limit: str | None) -> Picture:
    page = document[number]
    try:
        width, height = page.get_size()
        full = _DOTS_PER_INCH / _POINTS_PER_INCH
        # PDFium rounds sides up, so one pixel of each is kept in reserve.
        scale = min(full, _scale_to_fit(width, height, max_pixels))
        bitmap = page.render(scale=scale, rev_byteorder=True, draw_annots=True, may_draw_forms=True)
        try:
            pixels = freeze(np.array(bitmap.to_numpy()[:, :, :3]))
        finally:
            bitmap.close()
    finally:
        page.close()
    size = math.ceil(width * full), math.ceil(height * full)
    notes = [f"scaled down from {size[0]} x {size[1]} to fit the pixel budget"] if scale < full else []
    notes += [limit] if limit else []
    return Picture(pixels, f"{title}, page {number + 1}", size, "; ".join(notes) or None)


def _scale_to_fit(width: float, height: float, max_pixels: int) -> float:
    """Return the largest scale at which both sides, rounded up, stay within the pixels."""
    scale = math.sqrt(max_pixels / (width * height))
    while math.ceil(width * scale) * math.ceil(height * scale) > max_pixels and scale > 1e-4:
        scale *= 0.995
    return scale
