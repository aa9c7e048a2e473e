import asyncio
import io
from concurrent.futures import ThreadPoolExecutor

import pytest
from PIL import Image

from app.state.composer import MAX_ATTACHMENTS, MAX_CHARACTERS, Composer, Desk
from app.state.journal import Journal
from app.state.tasks import Tasks
from app.storage.database import Database
from app.storage.media import MediaStore


@pytest.fixture
def desk(run, tmp_path):
    pool = ThreadPoolExecutor(2)
    database = Database(tmp_path / "x")
    desk = Desk(MediaStore(tmp_path / "media"), pool, Journal(database), Tasks())
    yield desk
    run(desk.tasks.join())
    run(database.close())
    pool.shutdown()


@pytest.fixture
def drafts():
    return []


@pytest.fixture
def composer(desk, drafts):
    composer = Composer(desk, drafts.append)
    composer.told, composer.sent = [], []
    composer.notice.connect(composer.told.append)
    composer.submitted.connect(lambda text, items: composer.sent.append((text, items)))
    return composer


def picture(path, size=(40, 30)):
    Image.new("RGB", size, "red").save(path)
    return path


def states(composer):
    return [chip.state for chip in composer.chips]


def test_a_dropped_picture_is_there_at_once_and_then_ready(run, desk, composer, tmp_path):
    async def go():
        composer.add_files([picture(tmp_path / "oven.png")])
        assert [(chip.name, chip.state) for chip in composer.chips] == [("oven.png", "reading")]
        assert not composer.can_send
        await desk.tasks.join()

    run(go())
    assert states(composer) == ["ready"]
    assert composer.chips[0].attachment.name == "oven.png"
    assert composer.can_send


def test_many_drops_keep_their_order(run, desk, composer, tmp_path):
    async def go():
        composer.add_files([picture(tmp_path / f"{i}.png", (900 - 100 * i, 20)) for i in range(8)])
        await desk.tasks.join()

    run(go())
    assert [chip.name for chip in composer.chips] == [f"{i}.png" for i in range(8)]


def test_text_renamed_png_is_told_and_leaves_the_rest_of_the_draft_alone(run, desk, composer, tmp_path):
    (tmp_path / "note.png").write_text("Dear diary")

    async def go():
        composer.set_text("What is this?")
        composer.add_files([picture(tmp_path / "a.png"), tmp_path / "note.png"])
        await desk.tasks.join()

    run(go())
    assert states(composer) == ["ready", "failed"]
    assert composer.told == [composer.chips[1].error]
    assert "note.png" in composer.told[0]
    assert composer.text == "What is this?"
    composer.send()
    [(text, items)] = composer.sent
    assert (text, [item.name for item in items]) == ("What is this?", ["a.png"])
    assert composer.empty


def test_a_folder_is_told_and_leaves_no_chip(run, desk, composer, tmp_path):
    (tmp_path / "Holiday").mkdir()

    async def go():
        composer.add_files([tmp_path / "Holiday"])
        await desk.tasks.join()

    run(go())
    assert composer.chips == ()
    assert "Holiday is a folder" in composer.told[0]


def test_a_failed_picture_alone_cannot_be_sent(run, desk, composer, tmp_path):
    (tmp_path / "a.png").write_bytes(b"")

    async def go():
        composer.add_files([tmp_path / "a.png"])
        await desk.tasks.join()

    run(go())
    assert not composer.can_send
    composer.send()
    assert composer.sent == []


def test_a_chip_removed_while_it_is_read_stays_away_in_silence(run, desk, composer, tmp_path):
    (tmp_path / "bad.png").write_text("no picture")

    async def go():
        composer.add_files([picture(tmp_path / "a.png"), tmp_path / "bad.png"])
        for chip in composer.chips:
            composer.remove(chip.id)
        await desk.tasks.join()

    run(go())
    assert composer.chips == ()
    assert composer.told == []


def test_more_than_fits_is_told_with_the_number(run, desk, composer, tmp_path):
    path = picture(tmp_path / "a.png")

    async def go():
        composer.add_files([path] * (MAX_ATTACHMENTS + 5))
        composer.add_image_data(b"", "one more")
        await desk.tasks.join()

    run(go())
    assert states(composer) == ["ready"] * MAX_ATTACHMENTS
    assert "5 were left out" in composer.told[0]
    assert "1 was left out" in composer.told[1]


def test_pasted_bytes_become_an_attachment(run, desk, composer):
    buffer = io.BytesIO()
    Image.new("RGB", (8, 8)).save(buffer, "PNG")

    async def go():
        composer.add_image_data(buffer.getvalue(), "Pasted picture.png")
        composer.add_data_url("data:image/png;base64,broken", "Pasted picture.png")
        await desk.tasks.join()

    run(go())
    assert [chip.name for chip in composer.chips] == ["Pasted picture.png"]
    assert len(composer.told) == 1


@pytest.mark.parametrize("text", ["", "   ", "\n\t"])
def test_nothing_cannot_be_sent(qapp, composer, text):
    composer.set_text(text)
    assert not composer.can_send
    composer.send()
    assert composer.sent == []


def test_a_text_over_the_limit_is_kept_and_told_once(qapp, composer):
    long = "x" * (MAX_CHARACTERS + 1)
    composer.set_text(long)
    composer.set_text(long + "y")
    assert not composer.can_send
    assert composer.text == long + "y"
    assert len(composer.told) == 1
    composer.set_text("short")
    assert composer.can_send


def test_every_change_of_the_draft_is_handed_to_its_keeper(run, desk, composer, drafts, tmp_path):
    async def go():
        composer.set_text("Hello")
        composer.add_files([picture(tmp_path / "a.png")])
        await desk.tasks.join()
        composer.send()

    run(go())
    assert [(draft.text, len(draft.attachments)) for draft in drafts] == [("Hello", 0), ("Hello", 1), ("", 0)]


def test_an_unsent_turn_returns_before_what_was_typed_since(run, desk, composer, tmp_path):
    async def go():
        composer.set_text("first")
        composer.add_files([picture(tmp_path / "a.png")])
        await desk.tasks.join()
        composer.send()
        [(text, items)] = composer.sent
        composer.set_text("second")
        composer.put_back(text, items)

    run(go())
    assert composer.text == "first\n\nsecond"
    assert states(composer) == ["ready"]


def test_the_loop_goes_on_while_a_large_picture_is_read(run, desk, composer, tmp_path):
    path = picture(tmp_path / "large.png", (4000, 3000))
    beats = 0

    async def go():
        nonlocal beats
        composer.add_files([path])
        while states(composer) == ["reading"]:
            beats += 1
            await asyncio.sleep(0.005)

    run(go())
    assert beats > 5  # two, if it were read on the loop's own thread
