"""PDF files made in tests."""

from __future__ import annotations

import io

import pypdfium2 as pdfium


def pdf(pages: int, width: float = 120, height: float = 160) -> bytes:
    """A document of blank pages, each a little wider than the one before, in points."""
    document, buffer = pdfium.PdfDocument.new(), io.BytesIO()
    for number in range(pages):
        document.new_page(width + 20 * number, height)
    document.save(buffer)
    document.close()
    return buffer.getvalue()
