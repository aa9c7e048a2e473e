import base64
import io
import os

import pytest
from PIL import Image

from app.state.attachment import MAX_FILE_BYTES, Attachment, Refused, read_data_url, read_file
from app.storage.media import MediaStore


@pytest.fixture
def media(tmp_path):
    return MediaStore(tmp_path / "media")


def png(size=(40, 30), color="red"):
    buffer = io.BytesIO()
    Image.new("RGB", size, color).save(buffer, "PNG")
    return buffer.getvalue()


def test_a_picture_is_checked_copied_and_described(tmp_path, media):
    source = tmp_path / "a b#c%20 図.PNG"
    source.write_bytes(png((1000, 500)))
    item = read_file(source, media)
    assert (item.kind, item.name, item.width, item.height, item.tokens) == ("image", source.name, 1000, 500, None)
    assert item.path.read_bytes() == source.read_bytes()
    assert item.path.name == item.digest + ".png"
    with Image.open(io.BytesIO(item.thumbnail)) as thumbnail:
        assert (thumbnail.format, thumbnail.size) == ("PNG", (512, 256))


def test_our_copy_outlives_the_original_and_comes_back_from_its_record(tmp_path, media):
    source = tmp_path / "oven.png"
    source.write_bytes(png())
    item = read_file(source, media)
    source.unlink()
    assert Attachment.restore(item.record(), media) == item
    assert item.path.exists()


def test_the_same_pixels_are_stored_once_whatever_the_name(tmp_path, media):
    for name in ("a.png", "b.png"):
        (tmp_path / name).write_bytes(png())
    first, second = (read_file(tmp_path / name, media) for name in ("a.png", "b.png"))
    assert first.path == second.path
    assert first.id != second.id


def test_a_picture_turned_by_its_camera_is_described_upright(tmp_path, media):
    image = Image.new("RGB", (40, 30))
    exif = image.getexif()
    exif[0x0112] = 6
    image.save(tmp_path / "turned.jpg", exif=exif)
    item = read_file(tmp_path / "turned.jpg", media)
    assert (item.width, item.height) == (30, 40)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("note.png", b"Dear diary"),
        ("empty.png", b""),
        ("page.jpg", b"<!DOCTYPE html><html></html>"),
        ("cut.png", png((300, 300))[:-40]),
    ],
)
def test_what_is_called_a_picture_but_is_none_is_refused_with_its_name(tmp_path, media, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(Refused, match=name) as refusal:
        read_file(tmp_path / name, media)
    assert refusal.value.picture
    assert not media.folder.exists()


@pytest.mark.parametrize(
    ("name", "word"),
    [("clip.MOV", "a video"), ("song.mp3", "a sound"), ("report.pdf", "a PDF document"), ("all.zip", "an archive")],
)
def test_other_kinds_are_named(tmp_path, media, name, word):
    (tmp_path / name).write_bytes(b"anything")
    with pytest.raises(Refused, match=word):
        read_file(tmp_path / name, media)


def test_a_folder_a_lost_file_and_a_huge_one_say_what_to_do(tmp_path, media):
    (tmp_path / "Holiday.png").mkdir()
    with pytest.raises(Refused, match=r"Holiday.png is a folder\. Drop the pictures inside it"):
        read_file(tmp_path / "Holiday.png", media)
    (tmp_path / "link.png").symlink_to(tmp_path / "nowhere.png")
    with pytest.raises(Refused, match="no longer there"):
        read_file(tmp_path / "link.png", media)
    with (tmp_path / "huge.png").open("wb") as file:
        os.truncate(file.fileno(), MAX_FILE_BYTES + 1)
    with pytest.raises(Refused, match=r"0\.5 GB"):
        read_file(tmp_path / "huge.png", media)


def test_a_library_that_cannot_be_written_is_told(tmp_path):
    (tmp_path / "media").write_text("in the way")
    (tmp_path / "a.png").write_bytes(png())
    with pytest.raises(Refused, match="could not be copied"):
        read_file(tmp_path / "a.png", MediaStore(tmp_path / "media"))


def test_a_data_url_holds_a_picture(media):
    url = "data:image/png;base64," + base64.b64encode(png()).decode()
    assert read_data_url(url, "Pasted picture.png", media).width == 40


@pytest.mark.parametrize(
    "url",
    [
        "data:image/png;base64,%%%",
        "data:text/plain,hello",
        "https://example.org/a.png",
        "data:image/png;base64,aGVsbG8=",
    ],
)
def test_other_addresses_are_refused(media, url):
    with pytest.raises(Refused):
        read_data_url(url, "Pasted picture.png", media)
