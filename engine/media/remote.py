"""A picture, clip, sound or document fetched from the web: from public servers only, within limits of size and time."""

import io
import ssl
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from http.client import HTTPException, HTTPResponse
from typing import Literal
from urllib.parse import urljoin

from engine.errors import MediaError
from engine.media.address import Address, Refusal, WebAddress, is_public, parse
from engine.media.connection import Watch, ask, connect
from engine.media.source import Located

Kind = Literal["image", "video", "audio", "pdf"]

_NOUNS: dict[Kind, str] = {"image": "picture", "video": "clip", "audio": "sound", "pdf": "document"}
_MB = 1_000_000
# Less than what a file may have: all of it is held in memory.
_MOST_BYTES: dict[Kind, int] = {"image": 100 * _MB, "video": 500 * _MB, "audio": 200 * _MB, "pdf": 100 * _MB}
_MOST_REDIRECTS = 5
_REDIRECTS = (301, 302, 303, 307, 308)
_PIECE = 1 << 16


@dataclass(frozen=True, slots=True)
class Downloader:
    """Fetches media; safe to use from several threads.

    Names are looked up once, and the connection goes to exactly the address that was checked. Redirects are checked
    like first addresses. Proxies, cookies and passwords are not used, and servers of https must prove their names.

    Attributes:
        allowed: Whether an address may be connected to.
        most_bytes: Largest file of each kind.
        connect_s: Most seconds to find and reach a server, and to wait for its next byte.
        total_s: Most seconds altogether.
    """

    allowed: Callable[[Address], bool] = is_public
    most_bytes: Mapping[Kind, int] = field(default_factory=_MOST_BYTES.copy)
    connect_s: float = 10.0
    total_s: float = 120.0

    def fetch(self, url: str, kind: Kind, should_stop: Callable[[], bool] | None = None) -> Located:
        """Fetch one file into memory.

        Args:
            url: Its http or https address.
            kind: What it ought to be; decides how large it may be.
            should_stop: Asked about 20 times per second, on the calling thread; True ends the download.

        Raises:
            MediaError: It may not be fetched, could not be, is too large or takes too long.
            MediaCancelled: `should_stop` returned True.
        """
        watch = Watch(self.total_s, should_stop)
        try:
            address = parse(url)
            return Located(address.name, None, self._follow(address, kind, watch))
        except Refusal as refusal:
            again = "Try again, or save" if refusal.passing else "Save"
            raise MediaError(f"{refusal} {again} the {_NOUNS[kind]} on this computer and add the file.") from refusal

    def _follow(self, address: WebAddress, kind: Kind, watch: Watch) -> bytes:
        for _ in range(_MOST_REDIRECTS + 1):
            found = self._get(address, kind, watch)
            if isinstance(found, bytes):
                return found
            if address.scheme == "https" and found.scheme == "http":
                raise Refusal("The web address leads on from a protected (https) page to one that is not.")
            address = found
        raise Refusal(f"The web address leads on to others more than {_MOST_REDIRECTS} times.")

    def _get(self, address: WebAddress, kind: Kind, watch: Watch) -> bytes | WebAddress:
        """The content, or where to find it."""
        try:
            with (
                connect(address, self.allowed, watch, self.connect_s) as line,
                closing(ask(address, line, watch, self.connect_s)) as response,
            ):
                return self._take(response, address, kind)
        except ssl.SSLCertVerificationError as error:
            raise Refusal(f"“{address.host}” could not prove that it is that server.") from error
        except (OSError, HTTPException) as error:
            raise Refusal(f"The connection to “{address.host}” failed or broke off.", passing=True) from error

    def _take(self, response: HTTPResponse, address: WebAddress, kind: Kind) -> bytes | WebAddress:
        if response.status in _REDIRECTS and (where := response.headers.get("Location")):
            return parse(urljoin(address.url, where))
        if response.status != 200:
            raise Refusal(f"“{address.host}” does not give the {_NOUNS[kind]} out (its answer is {response.status}).")
        if response.headers.get("Content-Encoding", "identity").lower() != "identity":
            raise Refusal(f"“{address.host}” sends the {_NOUNS[kind]} in a form that was not asked for.")
        return self._receive(response, kind)

    def _receive(self, response: HTTPResponse, kind: Kind) -> bytes:
        most, content = self.most_bytes[kind], io.BytesIO()
        if (response.length or 0) > most:
            raise _too_large(kind, most)
        while piece := response.read(_PIECE):
            if content.tell() + len(piece) > most:  # what a server says beforehand need not be so
                raise _too_large(kind, most)
            content.write(piece)
        if response.length:
            raise Refusal(f"The connection broke off before the whole {_NOUNS[kind]} had arrived.", passing=True)
        if not content.tell():
            raise Refusal(f"The {_NOUNS[kind]} at this web address is empty (0 bytes).")
        return content.getvalue()


def _too_large(kind: Kind, most: int) -> Refusal:
    size = f"{most / _MB:g} MB" if most >= _MB // 10 else f"{most:,} bytes"
    return Refusal(f"The {_NOUNS[kind]} is larger than {size}, the most that Braid fetches.")
