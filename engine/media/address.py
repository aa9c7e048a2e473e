"""Which addresses of the web may be fetched: http and https, of hosts in the public internet."""

import ipaddress
import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from urllib.parse import SplitResult, quote, unquote, urlsplit

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_PORTS = {"http": 80, "https": 443}
_LONGEST = 8000
_LONGEST_NAME = 60
_HOST_NAME = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*")
_NUMBER = re.compile(r"(.*\.)?([0-9]+|0x[0-9a-f]*)")
# All of today's IPv6 internet. Mapped IPv4 and NAT64 lie outside; 6to4 lies inside and stands for an IPv4 address.
_UNICAST = ipaddress.IPv6Network("2000::/3")
_6TO4 = ipaddress.IPv6Network("2002::/16")


class Refusal(Exception):
    """Why nothing is fetched from an address: one sentence.

    Attributes:
        passing: Another try may help.
    """

    def __init__(self, sentence: str, *, passing: bool = False) -> None:
        super().__init__(sentence)
        self.passing = passing


@dataclass(frozen=True, slots=True)
class WebAddress:
    """An address that may be fetched, if its host is public.

    Attributes:
        url: As it was written.
        scheme: "http" or "https".
        host: Its ASCII name in lower case, or an IP address without brackets.
        port: Its own, or the usual one of the scheme.
        target: Path and query as they are sent, ASCII.
    """

    url: str
    scheme: str
    host: str
    port: int
    target: str

    @property
    def authority(self) -> str:
        """Host and port as they are told to the server."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def name(self) -> str:
        """What to call it in sentences: the file's name, or the host's."""
        name = unquote(PurePosixPath(self.target.partition("?")[0]).name)
        return name[-_LONGEST_NAME:] if name.isprintable() and name.strip() else self.host


def parse(url: str) -> WebAddress:
    """Take an address apart.

    Raises:
        Refusal: It is not of the web, incomplete, holds a password, or writes its host in a way that hides it.
    """
    url = url.strip()
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise Refusal("The web address is not written correctly.") from None
    if parts.scheme not in _PORTS:
        raise Refusal("Braid fetches from http and https addresses only.")
    if "@" in parts.netloc:
        raise Refusal("Braid does not fetch from web addresses that hold a name or password.")
    if len(url) > _LONGEST or port == 0:
        raise Refusal("The web address is not written correctly.")
    return WebAddress(url, parts.scheme, _host(parts), port or _PORTS[parts.scheme], _target(parts))


def is_public(address: Address) -> bool:
    """Whether an address is an ordinary one of the public internet, and stands for no other."""
    if isinstance(address, ipaddress.IPv6Address) and (address not in _UNICAST or address in _6TO4):
        return False
    return address.is_global and not (address.is_multicast or address.is_reserved or address.is_private)


def _host(parts: SplitResult) -> str:
    host = (parts.hostname or "").removesuffix(".")
    if "%" in host:  # names a network card of this computer
        raise Refusal("The web address is not written correctly.")
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        pass
    try:
        host = host.encode("idna").decode("ascii").lower()
    except UnicodeError:
        host = ""
    if _NUMBER.fullmatch(host):  # 2130706433, 0x7f.1 and 0177.0.0.1 are read differently by different programs
        raise Refusal(f"“{host}” is an unusual way to write the address of a server, so Braid does not fetch from it.")
    if not _HOST_NAME.fullmatch(host):
        raise Refusal("The web address is not written correctly.")
    return host


def _target(parts: SplitResult) -> str:
    path = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~")
    return f"{path}?{quote(parts.query, safe='/%:@!$&()*+,;=~?')}" if parts.query else path
