"""A connection to a server of the web, at an address that was checked; all its waits can be ended."""

import errno
import io
import ipaddress
import selectors
import socket
import ssl
import threading
from collections.abc import Callable
from functools import cache
from http.client import HTTPConnection, HTTPResponse
from queue import Empty, SimpleQueue
from time import monotonic
from typing import TYPE_CHECKING, Any, cast

from engine.errors import MediaCancelled
from engine.media.address import Address, Refusal, WebAddress

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_MOST_TRIED = 4
"""Addresses of one host."""
_HEADERS = {"User-Agent": "Braid", "Accept": "*/*", "Accept-Encoding": "identity", "Connection": "close"}
_SLICE_S = 0.05
"""How long a wait goes on before it is asked whether to stop."""

_Place = tuple[int, tuple[Any, ...]]
"""Family and socket address."""


class Watch:
    """How long a download may go on.

    Args:
        seconds: For all of it.
        should_stop: Whether it is not wanted any more.
    """

    def __init__(self, seconds: float, should_stop: Callable[[], bool] | None) -> None:
        self._should_stop = should_stop
        self._end = self._step_end = monotonic() + seconds
        self._late = self._step_late = f"The download did not end within {seconds:g} s."

    def allow(self, seconds: float, late: str) -> None:
        """Give the next step so many seconds; `late` tells that they were not enough."""
        self._step_end, self._step_late = monotonic() + seconds, late

    def check(self) -> None:
        """Raise `MediaCancelled` or `Refusal` when it is time to end."""
        if self._should_stop is not None and self._should_stop():
            raise MediaCancelled("The download was cancelled.")
        now = monotonic()
        if now > self._end:
            raise Refusal(self._late, passing=True)
        if now > self._step_end:
            raise Refusal(self._step_late, passing=True)


def connect(address: WebAddress, allowed: Callable[[Address], bool], watch: Watch, seconds: float) -> socket.socket:
    """Connect to a host, at exactly the address that was checked; the caller closes the socket.

    Args:
        address: Whose host and port; https has the server prove its name.
        allowed: Whether an address may be connected to.
        watch: Ends all waits.
        seconds: For all of it.

    Raises:
        Refusal: There is no such host, it may not be connected to, or it does not answer in time.
        OSError: It refuses, or the connection fails.
        MediaCancelled: It is not wanted any more.
    """
    watch.allow(seconds, f"“{address.host}” did not answer within {seconds:g} s.")
    found = [(family, place) for family, place in _look_up(address, watch) if allowed(_address(place))]
    if not found:
        raise Refusal(f"“{address.host}” is not a server of the public internet, so Braid does not fetch from it.")
    line = _reach(found[:_MOST_TRIED], watch, seconds)
    return line if address.scheme == "http" else _secure(line, address.host, watch)


def ask(address: WebAddress, line: socket.socket, watch: Watch, seconds: float) -> HTTPResponse:
    """Ask for a file; the response's body is still to be read.

    Args:
        address: Where the line leads to.
        line: The connection; it stays open when the response is closed.
        watch: Ends all waits.
        seconds: Most to wait for each byte.

    Raises:
        Refusal: The server is silent for too long.
        OSError: The connection broke off.
        HTTPException: What answers does not speak HTTP.
        MediaCancelled: It is not wanted any more.
    """
    connection = HTTPConnection(address.host, address.port)
    # Connected already, so that nothing is looked up again; and no proxy is asked.
    connection.sock = cast("socket.socket", _Wire(line, watch, seconds))
    connection.request("GET", address.target, headers={"Host": address.authority, **_HEADERS})
    return connection.getresponse()


def _look_up(address: WebAddress, watch: Watch) -> list[_Place]:
    """Family and socket address of a host, the best first.

    The system's look-up can be neither ended nor limited, so it has a thread of its own, which is left to itself if it
    takes too long.
    """
    answer: SimpleQueue[list[_Place] | None] = SimpleQueue()

    def ask() -> None:
        try:
            found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
            answer.put([(family, place) for family, _, _, _, place in found])
        except (OSError, UnicodeError):
            answer.put(None)

    thread = threading.Thread(target=ask, name="braid-look-up", daemon=True)
    thread.start()
    while True:
        watch.check()
        try:
            places = answer.get(timeout=_SLICE_S)
        except Empty:
            continue
        thread.join()
        if places is None:
            raise Refusal(f"There is no server “{address.host}”, or this computer is offline.", passing=True)
        return places


def _address(place: tuple[Any, ...]) -> Address:
    return ipaddress.ip_address(str(place[0]).partition("%")[0])


def _reach(places: list[_Place], watch: Watch, seconds: float) -> socket.socket:
    """Connect to the first of these that answers, each in its share of the time."""
    for number, (family, place) in enumerate(places, 1):
        line = socket.socket(family, socket.SOCK_STREAM)
        try:
            if _open(line, place, watch, monotonic() + seconds / len(places)):
                line.settimeout(_SLICE_S)
                return line
        except BaseException:
            line.close()
            raise
        line.close()
        if number < len(places):
            watch.check()
    raise ConnectionError("no address of the host answers")


def _open(line: socket.socket, place: tuple[Any, ...], watch: Watch, end: float) -> bool:
    line.setblocking(False)
    code = line.connect_ex(place)
    if code not in (0, errno.EINPROGRESS):
        return False
    with selectors.DefaultSelector() as selector:
        selector.register(line, selectors.EVENT_WRITE)
        while not selector.select(_SLICE_S):
            watch.check()
            if monotonic() > end:
                return False
    return line.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0


def _secure(line: socket.socket, host: str, watch: Watch) -> socket.socket:
    """Have the server prove its name, and go on in secret."""
    try:
        safe = _trust().wrap_socket(line, server_hostname=host, do_handshake_on_connect=False)
    except BaseException:
        line.close()
        raise
    try:
        while True:
            watch.check()
            try:
                safe.do_handshake()
            except TimeoutError:
                continue
            return safe
    except BaseException:
        safe.close()
        raise


@cache
def _trust() -> ssl.SSLContext:
    context = ssl.create_default_context()
    paths = ssl.get_default_verify_paths()
    if not (paths.cafile or paths.capath):  # Python inside a bundle does not find the system's
        import certifi

        context.load_verify_locations(certifi.where())
    return context


class _Wire(io.RawIOBase):
    """What `http.client` needs of a socket; its waits can be ended. The socket stays its owner's to close."""

    def __init__(self, line: socket.socket, watch: Watch, seconds: float) -> None:
        self._line, self._watch, self._seconds = line, watch, seconds

    def makefile(self, mode: str) -> io.BufferedReader:
        """The bytes that come in."""
        assert mode == "rb", "http.client reads only"
        return io.BufferedReader(_Wire(self._line, self._watch, self._seconds))

    def sendall(self, data: bytes) -> None:
        """Send a request's head, which is small enough not to wait."""
        self._line.settimeout(self._seconds)
        self._line.sendall(data)
        self._line.settimeout(_SLICE_S)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int:
        self._watch.allow(self._seconds, f"The server sent nothing for {self._seconds:g} s.")
        while True:
            self._watch.check()
            try:
                return self._line.recv_into(buffer)
            except TimeoutError:
                continue
