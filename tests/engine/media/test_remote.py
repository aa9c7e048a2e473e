"""Media from the web: only where allowed, from public servers only, within limits; then the same as a local file."""

from __future__ import annotations

import asyncio
import io
import ipaddress
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

import engine
from engine.errors import MediaCancelled, MediaError
from engine.media import connection
from engine.media.address import Address, is_public, parse
from engine.media.remote import Downloader
from tests.engine import tiny
from tests.engine.documents import pdf

_HOLD_S = 20.0
"""How long a server that is waiting waits if nobody ends it: far longer than any test may take."""
Answer = Callable[["_Desk"], None]


class Site:
    """A web server on the loopback interface.

    Attributes:
        pages: path → what answers there.
        asked: requests, as (path, headers).
        at_work: set as soon as a page that holds is asked for.
        over: ends the pages that hold.
    """

    def __init__(self) -> None:
        self.pages: dict[str, Answer] = {}
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.at_work, self.over = threading.Event(), threading.Event()
        self.port = 0

    def url(self, path: str, host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"

    def put(self, path: str, content: bytes, status: int = 200, **headers: str) -> str:
        """Let a page give out content; returns its address."""
        told = {"Content-Length": str(len(content))} | {name.replace("_", "-"): text for name, text in headers.items()}

        def answer(desk: _Desk) -> None:
            desk.head(status, told)
            desk.wfile.write(content)

        self.pages[path] = answer
        return self.url(path)

    def lead(self, path: str, where: str, status: int = 302) -> str:
        """Let a page lead on to another; returns its address."""
        return self.put(path, b"", status, Location=where)

    def hold(self, path: str, begun: bytes = b"") -> str:
        """Let a page say nothing, or nothing more; returns its address."""

        def answer(desk: _Desk) -> None:
            if begun:
                desk.head(200, {"Content-Length": "1000000"})
                desk.wfile.write(begun)
                desk.wfile.flush()
            self.at_work.set()
            self.over.wait(_HOLD_S)
            desk.close_connection = True

        self.pages[path] = answer
        return self.url(path)


class _Desk(BaseHTTPRequestHandler):
    """Answers one connection."""

    site: Site

    def do_GET(self) -> None:
        self.site.asked.append((self.path, dict(self.headers.items())))
        try:
            self.site.pages[self.path](self)
        except OSError:
            self.close_connection = True  # the other side has had enough

    def head(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, text in headers.items():
            self.send_header(name, text)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Requests are kept in `Site.asked`, not printed."""


class _Server(ThreadingHTTPServer):
    daemon_threads = False

    def handle_error(self, *_: object) -> None:
        """Clients that hang up are what is tested."""


def _serve(site: Site, context: ssl.SSLContext | None = None) -> Iterator[Site]:
    server = _Server(("127.0.0.1", 0), type("Desk", (_Desk,), {"site": site}))
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    site.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), name="site")
    thread.start()
    yield site
    site.over.set()
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def site() -> Iterator[Site]:
    yield from _serve(Site())


def _here(address: Address) -> bool:
    return address.is_loopback or is_public(address)


def _downloader(**limits: Any) -> Downloader:
    """One that may also fetch from this computer."""
    return Downloader(allowed=_here, **limits)


def _png(width: int = 96, height: int = 64, seed: int = 1) -> bytes:
    buffer = io.BytesIO()
    tiny.picture(width, height, seed).save(buffer, "PNG")
    return buffer.getvalue()


def _refused(url: str, why: str, downloader: Downloader | None = None) -> None:
    with pytest.raises(MediaError, match=why) as told:
        (downloader or Downloader()).fetch(url, "image")
    assert str(told.value).endswith("ave the picture on this computer and add the file.")


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("file:///etc/hosts", "http and https addresses only"),
        ("ftp://example.org/cat.png", "http and https addresses only"),
        ("data:image/png;base64,AAAA", "http and https addresses only"),
        ("//example.org/cat.png", "http and https addresses only"),
        ("http:///cat.png", "not written correctly"),
        ("http://exa mple.org/cat.png", "not written correctly"),
        ("http://example.org:99999/cat.png", "not written correctly"),
        ("http://example.org:0/cat.png", "not written correctly"),
        ("http://[::1/cat.png", "not written correctly"),
        (f"http://{'a' * 70}.org/cat.png", "not written correctly"),
        (f"http://example.org/{'a' * 9000}", "not written correctly"),
        ("https://me:secret@example.org/cat.png", "name or password"),
        ("http://example.org\\@127.0.0.1/cat.png", "name or password"),
    ],
)
def test_what_is_no_plain_web_address_is_refused(url: str, why: str) -> None:
    _refused(url, why)


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "localhost",
        "localhost.",
        "LOCALHOST",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",
        "224.0.0.1",
        "255.255.255.255",
        "240.0.0.1",
        "198.18.0.1",
        "[::1]",
        "[::]",
        "[fe80::1]",
        "[fe80::1%25lo]",
        "[fc00::1]",
        "[fec0::1]",
        "[ff02::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:8.8.8.8]",
        "[::127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[64:ff9b:1::7f00:1]",
        "[2002:7f00:1::]",
        "[2001:0:7f00:1::]",
        "[2001:db8::1]",
    ],
)
def test_what_is_not_in_the_public_internet_is_refused(site: Site, host: str) -> None:
    site.put("/cat.png", _png())
    _refused(site.url("/cat.png", host), "not a server of the public internet|not written correctly")
    assert not site.asked


@pytest.mark.parametrize("host", ["2130706433", "0x7f000001", "0x7f.0.0.1", "0177.0.0.1", "127.1", "127.0.0.1.nip.01"])
def test_hosts_in_unusual_numbers_are_refused(site: Site, host: str) -> None:
    site.put("/cat.png", _png())
    _refused(site.url("/cat.png", host), "unusual way to write", _downloader())
    assert not site.asked


@pytest.mark.parametrize("address", ["8.8.8.8", "93.184.216.34", "2606:4700:4700::1111", "2a00:1450:4001:81b::200e"])
def test_ordinary_addresses_are_public(address: str) -> None:
    assert is_public(ipaddress.ip_address(address))


def test_an_address_is_sent_as_it_was_meant() -> None:
    found = parse(" HTTPS://Bücher.example:8443/a b/Kätzchen.png?größe=1&x=%20#part ")
    assert (found.scheme, found.host, found.port) == ("https", "xn--bcher-kva.example", 8443)
    assert found.target == "/a%20b/K%C3%A4tzchen.png?gr%C3%B6%C3%9Fe=1&x=%20"
    assert found.authority == "xn--bcher-kva.example:8443"
    assert (found.name, parse("http://[2606:4700::1]").authority) == ("Kätzchen.png", "[2606:4700::1]")
    assert parse("http://example.org/?a").name == "example.org"


def test_a_file_arrives_as_it_is_whatever_the_environment_says(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    content = bytes(range(256)) * 2000
    found = _downloader().fetch(site.put("/a/cat%20one.png?x=1", content), "image")
    assert (found.data, found.name, found.path) == (content, "cat one.png", None)
    (path, headers), *others = site.asked
    assert (path, others) == ("/a/cat%20one.png?x=1", [])
    assert headers["Host"] == f"127.0.0.1:{site.port}"
    assert not {"Cookie", "Authorization", "Referer"} & set(headers)


def test_a_host_is_looked_up_once_and_only_its_public_addresses_are_used(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = [["10.0.0.1", "127.0.0.1"], ["10.0.0.1"]]
    asked = []

    def look_up(host: str, port: int, **_: Any) -> list[Any]:
        asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in answers.pop(0)]

    site.put("/cat.png", b"cat")
    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    url = site.url("/cat.png", "rebinding.example")
    assert _downloader().fetch(url, "image").data == b"cat"
    assert asked == ["rebinding.example"]
    _refused(url, "not a server of the public internet", _downloader())


def test_an_unknown_server_and_a_closed_door(site: Site) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    _refused("http://nobody.invalid/cat.png", "no server “nobody.invalid”, or this computer is offline. Try again")
    _refused(f"http://127.0.0.1:{port}/cat.png", "failed or broke off. Try again", _downloader())


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_followed(site: Site, status: int) -> None:
    site.put("/b/cat.png", b"cat")
    assert _downloader().fetch(site.lead("/a", "b/cat.png", status), "image").data == b"cat"


@pytest.mark.parametrize(
    ("where", "why"),
    [
        ("http://10.0.0.1/cat.png", "“10.0.0.1” is not a server of the public internet"),
        ("//169.254.169.254/latest", "“169.254.169.254” is not a server of the public internet"),
        ("http://[::ffff:127.0.0.1]/cat.png", "not a server of the public internet"),
        ("http://2130706433/cat.png", "unusual way"),
        ("file:///etc/hosts", "http and https addresses only"),
        ("http://me:secret@127.0.0.1/", "name or password"),
    ],
)
def test_redirects_are_checked_like_first_addresses(site: Site, where: str, why: str) -> None:
    _refused(site.lead("/a", where), why, _downloader())


def test_redirects_end_after_five(site: Site) -> None:
    for number in range(5):
        site.lead(f"/{number}", f"/{number + 1}")
    site.put("/5", b"cat")
    assert _downloader().fetch(site.url("/0"), "image").data == b"cat"
    _refused(site.lead("/round", "/round"), "more than 5 times", _downloader())
    assert [path for path, _ in site.asked].count("/round") == 6


@pytest.mark.parametrize("told", ["1001", "5", ""], ids=["honest", "too-small", "untold"])
def test_what_is_too_large_is_not_read_to_its_end(site: Site, told: str) -> None:
    content = bytes(1001)

    def answer(desk: _Desk) -> None:
        desk.head(200, {"Content-Length": told} if told else {})
        desk.wfile.write(content)

    site.pages["/big"] = answer
    small = _downloader(most_bytes={"image": 1000})
    if told == "5":  # whatever follows is no part of the answer
        assert small.fetch(site.url("/big"), "image").data == content[:5]
    else:
        _refused(site.url("/big"), "larger than 1,000 bytes", small)


def test_an_endless_answer_ends_at_the_limit(site: Site) -> None:
    sent = 0

    def answer(desk: _Desk) -> None:
        nonlocal sent
        desk.protocol_version = "HTTP/1.1"
        desk.head(200, {"Transfer-Encoding": "chunked"})
        while not site.over.is_set():
            desk.wfile.write(b"10000\r\n" + bytes(1 << 16) + b"\r\n")
            sent += 1 << 16

    site.pages["/endless"] = answer
    _refused(site.url("/endless"), "larger than 1 MB", _downloader(most_bytes={"image": 1_000_000}))
    assert sent < 50_000_000


@pytest.mark.parametrize("begun", [b"", b"the first of many"], ids=["silent", "stuck"])
def test_a_server_that_says_nothing_is_given_up(site: Site, begun: bytes) -> None:
    begin = monotonic()
    _refused(site.hold("/slow", begun), "sent nothing for 0.2 s. Try again", _downloader(connect_s=0.2))
    assert monotonic() - begin < _HOLD_S / 2


def test_a_server_that_goes_on_for_ever_is_given_up(site: Site) -> None:
    def answer(desk: _Desk) -> None:
        desk.head(200, {})
        while not site.over.wait(0.02):
            desk.wfile.write(b"x")
            desk.wfile.flush()

    site.pages["/drop-by-drop"] = answer
    _refused(site.url("/drop-by-drop"), "not end within 0.5 s. Try again", _downloader(total_s=0.5))


def test_a_look_up_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: over.wait(_HOLD_S) and [])
    try:
        _refused("http://example.org/cat.png", "did not answer within 0.1 s", Downloader(connect_s=0.1))
    finally:
        over.set()
        for thread in threading.enumerate():
            if thread.name == "braid-look-up":
                thread.join()


def test_an_answer_that_breaks_off_is_told(site: Site) -> None:
    _refused(site.put("/cut", b"half", Content_Length="8"), "broke off before the whole picture", _downloader())

    def answer(desk: _Desk) -> None:
        desk.protocol_version = "HTTP/1.1"
        desk.head(200, {"Transfer-Encoding": "chunked"})
        desk.wfile.write(b"8\r\nhalf")
        desk.close_connection = True

    site.pages["/cut-chunk"] = answer
    _refused(site.url("/cut-chunk"), "broke off", _downloader())


def test_answers_that_hold_no_file_are_told(site: Site) -> None:
    _refused(
        site.put("/gone", b"no such page", 404), r"does not give the picture out \(its answer is 404\)", _downloader()
    )
    _refused(site.put("/empty", b""), "is empty", _downloader())
    _refused(site.put("/packed", b"packed", Content_Encoding="gzip"), "form that was not asked for", _downloader())
    site.pages["/babble"] = lambda desk: (desk.wfile.write(b"220 mail.example ESMTP\r\n"), None)[1]
    _refused(site.url("/babble"), "failed or broke off", _downloader())


def test_a_download_that_nobody_wants_any_more_ends(site: Site) -> None:
    begin = monotonic()
    with pytest.raises(MediaCancelled):
        _downloader().fetch(site.hold("/slow", b"some"), "image", site.at_work.is_set)
    assert monotonic() - begin < _HOLD_S / 2


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """Of a server called "localhost", signed by nobody, with its key."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    path = tmp_path / "server.pem"
    kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    command = ["openssl", "req", "-x509", *kind, *names, "-keyout", "key.pem", "-out", "cert.pem"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    path.write_bytes((tmp_path / "key.pem").read_bytes() + (tmp_path / "cert.pem").read_bytes())
    return path


@pytest.fixture
def safe_site(certificate: Path) -> Iterator[Site]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    yield from _serve(Site(), context)


def test_servers_prove_their_names(safe_site: Site, certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    safe_site.put("/cat.png", b"cat" * 100_000)
    safe_site.lead("/down", "http://localhost/cat.png")
    right, wrong = (f"https://{host}:{safe_site.port}" for host in ("localhost", "127.0.0.1"))
    _refused(f"{right}/cat.png", "could not prove that it is that server", _downloader())
    trusted = ssl.create_default_context(cafile=str(certificate))
    monkeypatch.setattr(connection, "_trust", lambda: trusted)
    _refused(f"{wrong}/cat.png", "could not prove that it is that server", _downloader())
    assert not safe_site.asked
    assert _downloader().fetch(f"{right}/cat.png", "image").data == b"cat" * 100_000
    _refused(f"{right}/down", "leads on from a protected", _downloader())


def _scheduler(make: Any, **config: Any) -> Any:
    scheduler = make(tiny.dense(), **config)
    scheduler.intake.downloader = _downloader()
    return scheduler


def _ask(*parts: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"role": "user", "content": [*parts, {"type": "text", "text": "what is this?"}]}]


def _answer(scheduler: Any, **request: Any) -> Any:
    name = scheduler.add_request(**{"max_tokens": 6, "temperature": 0.0, **request})
    while scheduler.has_requests():
        scheduler.step()
    return scheduler.get_request(name)


def test_nothing_is_fetched_unless_it_is_allowed(site: Site, make: Any) -> None:
    url, prompt = site.put("/cat.png", _png()), tiny.chat("what is this?", 1)
    scheduler = _scheduler(make)
    assert "does not fetch from the web" in _answer(scheduler, prompt=prompt, images=[url]).error
    assert "does not fetch from the web" in _answer(scheduler, messages=_ask({"type": "image", "image": url})).error
    for estimate in (scheduler.estimate, lambda messages: engine.estimate(scheduler.processor, messages)):
        with pytest.raises(MediaError, match="does not fetch from the web"):
            estimate(_ask({"type": "image", "image": url}))
    assert not site.asked
    scheduler.apply_config(engine.MLLMSchedulerConfig(allow_remote_media=True))
    assert _answer(scheduler, prompt=prompt, images=[url]).error is None
    scheduler.apply_config(engine.MLLMSchedulerConfig())
    assert "does not fetch from the web" in _answer(scheduler, prompt=prompt, images=[url]).error


@pytest.mark.parametrize("source", ["http://127.0.0.1/cat.png", "ftp://example.org/cat.png", "file:///etc/hosts"])
def test_where_it_is_allowed_private_servers_and_files_by_address_are_still_refused(make: Any, source: str) -> None:
    scheduler = make(tiny.dense(), allow_remote_media=True)
    request = _answer(scheduler, messages=_ask({"type": "image", "image": source}))
    assert request.finish_reason == "error"
    with pytest.raises(MediaError):
        engine.estimate(scheduler.processor, _ask({"type": "image", "image": source}), allow_remote_media=True)


def test_a_picture_of_the_web_answers_as_the_same_file_does(site: Site, make: Any, tmp_path: Path) -> None:
    path = tmp_path / "cat.png"
    path.write_bytes(_png())
    url, scheduler = site.put("/cat.png", path.read_bytes()), _scheduler(make, allow_remote_media=True)
    prompt = tiny.chat("what is this?", 1)
    local = _answer(scheduler, prompt=prompt, images=[str(path)])
    assert local.error is None
    for part in (
        {"type": "image", "image": url},
        {"type": "image_url", "image_url": {"url": url}},
        {"type": "input_image", "image_url": url},
    ):
        messages = _ask(part)
        request = _answer(scheduler, messages=messages)
        assert (request.error, request.output_tokens) == (None, local.output_tokens)
        assert scheduler.estimate(messages).prompt_tokens == request.num_prompt_tokens == local.num_prompt_tokens
    assert _answer(scheduler, prompt=prompt, images=[url]).output_tokens == local.output_tokens


def test_pages_of_a_document_of_the_web(site: Site, make: Any) -> None:
    url, scheduler = site.put("/paper.pdf", pdf(3)), _scheduler(make, allow_remote_media=True)
    for part in ({"type": "pdf", "pages": [2, 3]}, {"type": "image"}):
        there, here = _ask(part | {part["type"]: url}), _ask(part | {part["type"]: pdf(3)})
        assert _answer(scheduler, messages=there).num_prompt_tokens == scheduler.estimate(here).prompt_tokens


def test_what_is_no_picture_is_told_by_its_name(site: Site, make: Any) -> None:
    scheduler = _scheduler(make, allow_remote_media=True)
    url = site.put("/cat.png", b"<html>Please sign in</html>", Content_Type="image/png")
    request = _answer(scheduler, messages=_ask({"type": "image", "image": url}))
    assert request.finish_reason == "error"
    assert request.error.startswith("cat.png ")


def test_an_abort_ends_a_download_at_once_and_others_do_not_wait_for_it(site: Site, make: Any, run: Any) -> None:
    scheduler = _scheduler(make, allow_remote_media=True)
    slow = [{"type": "image", "image": site.hold("/slow", _png()[:100])}]

    async def ask_and_leave() -> tuple[Any, list[Any]]:
        await scheduler.start()
        names = [await scheduler.add_request_async(messages=_ask(*slow)) for _ in range(3)]
        quick = await scheduler.generate(tiny.chat("hello"), max_tokens=2, temperature=0.0)
        await asyncio.to_thread(site.at_work.wait, _HOLD_S)
        for name in names:
            assert scheduler.abort_request(name)
        ends = [[output async for output in scheduler.stream_outputs(name)][-1].finish_reason for name in names]
        await scheduler.stop()  # waits for the threads
        return quick, ends

    begin = monotonic()
    quick, ends = run(ask_and_leave())
    assert quick.finish_reason == "length"
    assert ends == ["abort"] * 3
    assert monotonic() - begin < _HOLD_S / 2
    assert not site.over.is_set()
