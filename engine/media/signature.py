"""What a file is, told by its first bytes and never by its name."""

import re
from enum import StrEnum


class Signature(StrEnum):
    """A family of files; the value completes the sentence "cat.jpg holds ..."."""

    PICTURE = "a picture"
    CLIP = "a clip"
    CONTAINER = "a clip or sound"  # only its streams tell which
    SOUND = "sound"
    PDF = "a PDF document"
    DRAWING = "an SVG drawing"
    WEB_PAGE = "a web page"
    ARCHIVE = "an archive"
    TEXT = "plain text"


_PREFIXES: tuple[tuple[bytes, Signature], ...] = (
    (b"\xff\xd8\xff", Signature.PICTURE),  # JPEG
    (b"\x89PNG\r\n\x1a\n", Signature.PICTURE),
    (b"GIF8", Signature.PICTURE),
    (b"BM", Signature.PICTURE),
    (b"II*\0", Signature.PICTURE),  # TIFF
    (b"MM\0*", Signature.PICTURE),
    (b"II+\0", Signature.PICTURE),  # BigTIFF
    (b"MM\0+", Signature.PICTURE),
    (b"\0\0\1\0", Signature.PICTURE),  # ICO
    (b"icns", Signature.PICTURE),
    (b"\xffO\xffQ\0", Signature.PICTURE),  # JPEG 2000
    (b"\0\0\0\x0cjP  \r\n\x87\n", Signature.PICTURE),
    (b"8BPS", Signature.PICTURE),
    (b"qoif", Signature.PICTURE),
    (b"\x1aE\xdf\xa3", Signature.CONTAINER),  # Matroska, WebM
    (b"OggS", Signature.CONTAINER),
    (b"0&\xb2u\x8ef\xcf\x11", Signature.CONTAINER),  # ASF
    (b"FLV\1", Signature.CLIP),
    (b"\0\0\1\xba", Signature.CLIP),  # MPEG program stream
    (b"\0\0\1\xb3", Signature.CLIP),
    (b"\0\0\0\1", Signature.CLIP),  # bare H.264 and H.265
    (b"ID3", Signature.SOUND),
    (b"fLaC", Signature.SOUND),
    (b"caff", Signature.SOUND),
    (b".snd", Signature.SOUND),
    (b"#!AMR", Signature.SOUND),
    (b"PK\3\4", Signature.ARCHIVE),
    (b"PK\5\6", Signature.ARCHIVE),
    (b"\x1f\x8b", Signature.ARCHIVE),
    (b"7z\xbc\xaf\x27\x1c", Signature.ARCHIVE),
    (b"Rar!", Signature.ARCHIVE),
)
_RIFF = {b"WEBP": Signature.PICTURE, b"WAVE": Signature.SOUND, b"AVI ": Signature.CLIP}
_STILL_BRANDS = {b"avif", b"mif1", b"heic", b"heix", b"heim", b"heis"}
_SEQUENCE_BRANDS = {b"avis", b"msf1", b"hevc", b"hevx", b"hevm", b"hevs"}
_BOXES = (b"ftyp", b"moov", b"mdat", b"wide", b"free", b"skip")
_TS_PACKET = 188


def sniff(head: bytes) -> Signature | None:
    """Return what a file with these first bytes holds (a few kilobytes are enough); None if nothing is known."""
    if head[:4] == b"RIFF":
        return _RIFF.get(head[8:12])
    if head[4:8] in _BOXES:
        return Signature.PICTURE if brands(head) & (_STILL_BRANDS | _SEQUENCE_BRANDS) else Signature.CONTAINER
    if head[:4] == b"FORM" and head[8:11] == b"AIF":
        return Signature.SOUND
    for prefix, signature in _PREFIXES:
        if head.startswith(prefix):
            return signature
    if head[:1] == b"P" and re.match(rb"P[1-7]\s", head):  # portable bitmaps
        return Signature.PICTURE
    if b"%PDF-" in head[:1024]:
        return Signature.PDF
    return _stream(head) or _text(head)


def brands(head: bytes) -> set[bytes]:
    """Return the brands of an ISO media file (MP4, MOV, HEIC, AVIF); empty for other files."""
    if head[4:8] != b"ftyp":
        return set()
    end = min(int.from_bytes(head[:4], "big"), len(head))
    return {head[8:12]} | {head[at : at + 4] for at in range(16, end - 3, 4)}


def _stream(head: bytes) -> Signature | None:
    """Tell formats that are a row of packets, each with its own small header."""
    if len(head) > _TS_PACKET and head[0] == head[_TS_PACKET] == 0x47:
        return Signature.CLIP
    if len(head) > 2 and head[0] == 0xFF and head[1] & 0xE0 == 0xE0 and head[1] & 0x06 != 0x06:
        return Signature.SOUND  # MPEG layers II and III, ADTS; layer I would also match a UTF-16 mark
    return None


def _text(head: bytes) -> Signature | None:
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n")[:512].lower()
    if start.startswith((b"<!doctype html", b"<html", b"<head", b"<body")):
        return Signature.WEB_PAGE
    if start.startswith((b"<svg", b"<?xml", b"<!--")) and b"<svg" in head.lower():
        return Signature.DRAWING
    if head and not re.search(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]", head) and _is_utf8(head):
        return Signature.TEXT
    return None


def _is_utf8(head: bytes) -> bool:
    for cut in range(4):  # the last character may be cut off
        try:
            head[: len(head) - cut].decode()
        except UnicodeDecodeError:
            continue
        return True
    return False
