import base64
import io
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from PIL import Image

from app.state.attachment import Attachment, Excerpt
from app.state.reading import (
    MAX_BYTES,
    Reading,
    Refused,
    name_of_address,
    read_address,
    read_data,
    read_data_url,
    read_file,
)
from app.storage.media import MediaStore
from engine.errors import MediaCancelled
from engine.media.remote import Downloader
from tests.app import files


@pytest.fixture
def media(tmp_path):
    return MediaStore(tmp_path / "media")


@pytest.fixture
def how(media):
    return Reading(media)


def png(size=(40, 30), color="red"):
    buffer = io.BytesIO()
    Image.new("RGB", size, color).save(buffer, "PNG")
    return buffer.getvalue()


def thumbnail(item):
    return Image.open(io.BytesIO(item.thumbnail))


def test_a_picture_is_checked_copied_and_described(tmp_path, how):
    source = tmp_path / "a b#c%20 図.PNG"
    source.write_bytes(png((1000, 500)))
    item = read_file(source, how)
    assert (item.kind, item.name, item.width, item.height, item.tokens) == ("image", source.name, 1000, 500, None)
    assert item.path.read_bytes() == source.read_bytes()
    assert item.path.name == item.digest + ".png"
    assert (thumbnail(item).format, thumbnail(item).size) == ("PNG", (512, 256))


@pytest.mark.parametrize(
    ("make", "name", "kind"),
    [
        (files.picture, "a.png", "image"),
        (files.clip, "a.mp4", "video"),
        (files.clip, "a.mkv", "video"),
        (files.animation, "a.gif", "video"),
        (files.animation, "a.webp", "video"),
        (files.sound, "a.wav", "audio"),
        (files.document, "a.pdf", "pdf"),
    ],
)
def test_our_copy_outlives_the_original_and_comes_back_from_its_record(tmp_path, media, how, make, name, kind):
    source = make(tmp_path / name)
    data = source.read_bytes()
    item = read_file(source, how)
    source.unlink()
    assert item.kind == kind
    assert item.path.read_bytes() == data
    assert Attachment.restore(item.record(), media) == item
    assert {path.suffix for path in media.folder.iterdir()} == {source.suffix, ".png"}


@pytest.mark.parametrize(
    ("make", "name", "kind"), [(files.clip, "clip.mp4", "video"), (files.document, "a.pdf", "pdf")]
)
def test_content_tells_the_kind_whatever_the_name(tmp_path, how, make, name, kind):
    source = make(tmp_path / name).rename(tmp_path / "holiday.png")
    assert read_file(source, how).kind == kind


def test_the_same_pixels_are_stored_once_whatever_the_name(tmp_path, how):
    first, second = (read_file(files.picture(tmp_path / name), how) for name in ("a.png", "b.png"))
    assert first.path == second.path
    assert first.id != second.id


def test_a_picture_turned_by_its_camera_is_described_upright(tmp_path, how):
    image = Image.new("RGB", (40, 30))
    exif = image.getexif()
    exif[0x0112] = 6
    image.save(tmp_path / "turned.jpg", exif=exif)
    item = read_file(tmp_path / "turned.jpg", how)
    assert (item.width, item.height) == (30, 40)
    assert thumbnail(item).size == (30, 40)


def test_a_clip_shows_its_first_frame_and_its_length(tmp_path, how):
    item = read_file(files.clip(tmp_path / "a.mp4", frames=30, rate=10), how)
    assert (item.width, item.height, item.seconds) == (64, 48, pytest.approx(3.0, abs=0.11))
    assert np.asarray(thumbnail(item)).mean() == pytest.approx(10, abs=6)


def test_a_sound_shows_its_waveform_and_its_length(tmp_path, how):
    item = read_file(files.sound(tmp_path / "a.wav", 2.0), how)
    assert item.seconds == pytest.approx(2.0)
    columns = (np.asarray(thumbnail(item))[:, :, 3] > 0).sum(0)
    thirds = [columns[i : i + 128].mean() for i in (0, 128, 256)]
    assert thirds == sorted(thirds)  # it swells
    assert thirds[2] > 2 * thirds[0]


def test_a_sound_longer_than_any_model_hears_is_refused_at_once(tmp_path, how, monkeypatch):
    monkeypatch.setattr("engine.media.audio.DEFAULT_MAX_SECONDS", 60.0)
    with pytest.raises(Refused, match=r"long\.wav is longer than 1 minutes") as refusal:
        read_file(files.sound(tmp_path / "long.wav", 61.5), how)
    assert refusal.value.meant


def test_a_clip_without_pictures_is_a_sound(tmp_path, how):
    import av

    with av.open(str(tmp_path / "voice.mp4"), "w") as container:
        stream = container.add_stream("aac", rate=16000, layout="mono")
        tone = av.AudioFrame.from_ndarray(np.zeros((1, 16000), np.float32), "fltp", "mono")
        tone.rate = 16000
        container.mux(stream.encode(tone))
        container.mux(stream.encode())
    assert read_file(tmp_path / "voice.mp4", how).kind == "audio"


def test_a_document_shows_its_first_page_and_at_most_twenty_are_chosen(tmp_path, how):
    short, long = (read_file(files.document(tmp_path / f"{n}.pdf", n), how) for n in (3, 25))
    assert (short.pages, short.excerpt) == (3, Excerpt())
    assert (long.pages, long.excerpt) == (25, Excerpt(first=1, last=20))
    assert short.width < short.height


def test_a_text_is_kept_as_utf8(tmp_path, how):
    (tmp_path / "note.md").write_bytes("\ufeffÜber\n  uns".encode())
    item = read_file(tmp_path / "note.md", how)
    assert (item.kind, item.path.read_text("utf-8")) == ("text", "Über\n  uns")
    assert np.asarray(thumbnail(item))[:, :, 3].any()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("note.png", b"Dear diary"),
        ("empty.png", b""),
        ("empty.mov", b""),
        ("page.jpg", b"<!DOCTYPE html><html></html>"),
        ("diary.mp4", b"Dear diary"),
        ("diary.wav", b"Dear diary"),
        ("diary.pdf", b"Dear diary"),
        ("blank.txt", b"  \n"),
        ("latin.txt", b"caf\xe9 au lait"),
    ],
)
def test_what_is_called_something_but_is_not_is_refused_with_its_name(tmp_path, media, how, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(Refused, match=name) as refusal:
        read_file(tmp_path / name, how)
    assert refusal.value.meant
    assert not media.folder.exists()


def test_a_picture_of_impossible_size_is_refused_without_its_pixels(tmp_path, how):
    with pytest.raises(Refused, match=r"huge\.png"):
        read_file(files.png_header(tmp_path / "huge.png"), how)


def test_half_a_clip_and_a_clip_of_one_frame(tmp_path, how):
    half = files.clip(tmp_path / "half.mp4")
    half.write_bytes(half.read_bytes()[: half.stat().st_size // 2])
    with pytest.raises(Refused, match=r"half\.mp4"):
        read_file(half, how)
    assert read_file(files.clip(tmp_path / "one.mp4", frames=1), how).kind == "video"


def test_a_torn_picture_can_be_taken_as_far_as_it_goes(tmp_path, media, how):
    source = files.torn(tmp_path / "torn.jpg")
    with pytest.raises(Refused, match=r"torn\.jpg is damaged: only about .* Send it anyway, or remove it\.") as refusal:
        read_file(source, how)
    assert refusal.value.partial
    item = read_file(source, Reading(media, damaged=True))
    assert "damaged: only about" in item.note
    with Image.open(item.path) as kept:  # what is sent later is whole, and no more than what could be read
        kept.load()
        assert (kept.width, kept.height < 256) == (256, True)


@pytest.mark.parametrize("name", ["all.zip", "all.ZIP"])
def test_an_archive_is_refused_without_a_chip(tmp_path, how, name):
    (tmp_path / name).write_bytes(b"PK\3\4anything")
    with pytest.raises(Refused, match="is an archive") as refusal:
        read_file(tmp_path / name, how)
    assert not refusal.value.meant


def test_unknown_bytes_are_refused_without_a_chip(tmp_path, how):
    (tmp_path / "core.bin").write_bytes(bytes(range(256)))
    with pytest.raises(Refused, match=r"Braid cannot read core\.bin\. It reads pictures, clips") as refusal:
        read_file(tmp_path / "core.bin", how)
    assert not refusal.value.meant


def test_a_lost_file_a_forbidden_one_and_a_huge_one_say_what_to_do(tmp_path, how):
    (tmp_path / "link.png").symlink_to(tmp_path / "nowhere.png")
    with pytest.raises(Refused, match="no longer there"):
        read_file(tmp_path / "link.png", how)
    with (tmp_path / "huge.png").open("wb") as file:
        file.write(png())
        os.truncate(file.fileno(), MAX_BYTES["image"] + 1)
    with pytest.raises(Refused, match=r"0\.5 GB"):
        read_file(tmp_path / "huge.png", how)


def test_a_library_that_cannot_be_written_is_told(tmp_path):
    (tmp_path / "media").write_text("in the way")
    for make, name in ((files.picture, "a.png"), (files.clip, "a.mp4")):
        with pytest.raises(Refused, match="could not be copied"):
            read_file(make(tmp_path / name), Reading(MediaStore(tmp_path / "media")))


def test_giving_up_leaves_nothing_behind(tmp_path, media):
    source = files.clip(tmp_path / "a.mp4")
    gone = threading.Event()
    gone.set()
    with pytest.raises(MediaCancelled):
        read_file(source, Reading(media, gone.is_set))
    assert not media.folder.exists()


@pytest.mark.parametrize("answered", [1, 2])
def test_a_picture_that_nobody_waits_for_is_given_up_between_two_steps(tmp_path, media, answered):
    answers = iter([False] * answered)
    with pytest.raises(MediaCancelled):
        read_file(files.picture(tmp_path / "a.png"), Reading(media, lambda: next(answers, True)))
    assert not media.folder.exists()


def test_an_animation_that_nobody_waits_for_is_not_decoded_to_its_end(tmp_path, media):
    frames = [Image.new("RGB", (8, 8), (value, 0, 0)) for value in range(40)]
    frames[0].save(tmp_path / "a.gif", save_all=True, append_images=frames[1:], duration=50)
    asked: list[None] = []

    def should_stop() -> bool:
        asked.append(None)
        return len(asked) > 5

    with pytest.raises(MediaCancelled):
        read_file(tmp_path / "a.gif", Reading(media, should_stop))
    assert len(asked) == 6


@pytest.mark.parametrize(
    "url",
    [
        "data:image/png;base64," + base64.b64encode(png()).decode(),
        "DATA:IMAGE/PNG;BASE64," + base64.b64encode(png()).decode(),
        "data:image/png;base64," + base64.b64encode(png()).decode().rstrip("="),
        "data:image/png;base64," + base64.encodebytes(png()).decode(),
    ],
)
def test_a_data_url_is_the_same_picture_as_the_file(how, url):
    item = read_data_url(url, "Picture", how)
    assert item.digest == read_data(png(), "a.png", how).digest


def test_a_data_url_may_hold_a_clip(tmp_path, how):
    data = files.clip(tmp_path / "a.mp4").read_bytes()
    item = read_data_url("data:video/mp4;base64," + base64.b64encode(data).decode(), "Pasted file", how)
    assert (item.kind, item.path.read_bytes()) == ("video", data)


@pytest.mark.parametrize(
    "url",
    [
        "data:image/png;base64,%%%",
        "data:image/png;base64,",
        "https://example.org/a.png",
        "data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg'/>",
        "data:image/png;base64,aGVs\x00bG8=",
    ],
)
def test_other_addresses_are_refused(how, url):
    with pytest.raises(Refused):
        read_data_url(url, "Pasted picture", how)


class _Page(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(png())

    def log_message(self, *_):
        """Nothing is printed."""


def test_a_file_of_the_web_is_fetched_from_public_servers_only(how):
    here = Downloader(allowed=lambda address: address.is_loopback)
    with ThreadingHTTPServer(("127.0.0.1", 0), _Page) as server:
        url = f"http://127.0.0.1:{server.server_address[1]}/a%20cat.png?size=1"
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            item = read_address(url, how, here)
            with pytest.raises(Refused, match="not a server of the public internet") as told:
                read_address(url, how)
        finally:
            server.shutdown()
            thread.join()
    assert (item.kind, item.name, name_of_address(url)) == ("image", "a cat.png", "a cat.png")
    assert item.digest == read_data(png(), "a.png", how).digest
    assert told.value.meant
