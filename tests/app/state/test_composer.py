import asyncio
import io
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from PIL import Image

from app.state import chips
from app.state.attachment import Attachment, Excerpt
from app.state.composer import LONG_TEXT, MAX_ATTACHMENTS, Composer, Desk
from app.state.forecast import Before
from app.state.journal import Journal
from app.state.reading import MAX_TEXT
from app.state.tasks import Tasks
from app.state.turn import Turn
from app.storage.database import Database
from app.storage.media import MediaStore
from engine.config import MLLMSchedulerConfig
from engine.errors import MediaCancelled
from tests.app import files
from tests.app.files import picture


@pytest.fixture
def desk(run, tmp_path):
    pool, downloads = ThreadPoolExecutor(2), ThreadPoolExecutor(2)
    database = Database(tmp_path / "x")
    desk = Desk(MediaStore(tmp_path / "media"), pool, Journal(database), Tasks(), downloads)
    yield desk
    run(desk.tasks.join())
    run(database.close())
    pool.shutdown()
    downloads.shutdown()


@pytest.fixture
def drafts():
    return []


@pytest.fixture
def composer(desk, model, drafts):
    composer = Composer(desk, model, drafts.append)
    composer.told, composer.sent = [], []
    composer.notice.connect(composer.told.append)
    composer.submitted.connect(lambda text, items: composer.sent.append((text, items)))
    yield composer
    composer.close()


def names(composer):
    return [chip.name for chip in composer.chips]


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


def test_text_renamed_png_is_marked_and_has_to_go_before_the_rest_is_sent(run, desk, composer, tmp_path):
    (tmp_path / "note.png").write_text("Dear diary")

    async def go():
        composer.set_text("What is this?")
        composer.add_files([picture(tmp_path / "a.png"), tmp_path / "note.png"])
        await desk.tasks.join()

    run(go())
    assert states(composer) == ["ready", "failed"]
    obstacle = composer.obstacle
    assert (obstacle.sentence, obstacle.blocks) == (composer.chips[1].error, True)
    assert "note.png" in obstacle.sentence
    assert composer.told == []
    assert composer.text == "What is this?"
    composer.send()
    assert composer.sent == []  # never without asking
    composer.remove(*obstacle.remove)
    composer.send()
    [(text, items)] = composer.sent
    assert (text, [item.name for item in items]) == ("What is this?", ["a.png"])
    assert composer.empty


def test_several_broken_files_make_one_sentence(run, desk, composer, tmp_path):
    broken = [tmp_path / f"{name}.png" for name in "abcd"]
    for path in broken:
        path.write_bytes(b"")

    async def go():
        composer.add_files(broken)
        await desk.tasks.join()

    run(go())
    assert composer.obstacle.sentence.startswith("4 files could not be read: a.png, b.png, c.png and others.")
    assert len(composer.obstacle.remove) == 4


def test_a_torn_picture_is_sent_only_when_told_so(run, desk, composer, tmp_path):
    async def go():
        composer.add_files([files.torn(tmp_path / "torn.jpg")])
        await desk.tasks.join()
        assert not composer.can_send
        assert composer.obstacle.damaged == composer.chips[0].id
        composer.take_damaged(composer.obstacle.damaged)
        assert states(composer) == ["reading"]
        await desk.tasks.join()

    run(go())
    assert composer.can_send
    assert "damaged" in composer.chips[0].attachment.note


def test_a_folder_is_replaced_by_what_is_in_it_where_it_stood(run, desk, composer, tmp_path):
    inside = tmp_path / "Holiday.png"
    (inside / "deep").mkdir(parents=True)
    picture(inside / "1.png")
    picture(inside / "deep" / "2.png", (30, 30))
    (inside / "diary.txt").write_text("words")

    async def go():
        composer.add_files([picture(tmp_path / "a.png"), inside, picture(tmp_path / "b.png")])
        await desk.tasks.join()

    run(go())
    assert names(composer) == ["a.png", "1.png", "2.png", "b.png"]
    assert states(composer) == ["ready"] * 4
    assert composer.told == ["Took all 2 files of Holiday.png."]


def test_a_folder_fills_what_room_there_is(run, desk, composer, tmp_path):
    (tmp_path / "many").mkdir()
    for number in range(MAX_ATTACHMENTS + 20):
        (tmp_path / "many" / f"{number:03}.png").write_bytes(b"")

    async def go():
        composer.add_files([picture(tmp_path / "a.png"), tmp_path / "many"])
        await desk.tasks.join()

    run(go())
    assert len(composer.chips) == MAX_ATTACHMENTS
    assert composer.told == ["Took 99 of 120 files of many. A message can hold 100 attachments."]


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


@pytest.mark.parametrize("name", ["many", "broken.png", "good.png"])
def test_what_was_read_when_its_tab_closed_comes_to_nothing(run, desk, composer, tmp_path, monkeypatch, name):
    (tmp_path / "many").mkdir()
    picture(tmp_path / "many" / "a.png")
    picture(tmp_path / "good.png")
    (tmp_path / "broken.png").write_bytes(b"\x89PNG junk")
    real, read, go_on = chips._open, threading.Event(), threading.Event()

    def slow(path, how):
        try:
            return real(path, how)
        finally:
            read.set()
            go_on.wait(5)

    monkeypatch.setattr(chips, "_open", slow)

    async def go():
        composer.add_files([tmp_path / name])
        await asyncio.get_running_loop().run_in_executor(None, read.wait)
        composer.close()
        go_on.set()
        await desk.tasks.join()

    run(go())
    assert [(chip.name, chip.state) for chip in composer.chips] == [(name, "reading")]
    assert composer.told == []


def test_more_than_fits_is_told_with_the_number(run, desk, composer, tmp_path):
    path = picture(tmp_path / "a.png", (4, 4))

    async def go():
        composer.add_files([path] * (MAX_ATTACHMENTS + 5))
        composer.add_data(b"", "one more")
        await desk.tasks.join()

    run(go())
    assert states(composer) == ["ready"] * MAX_ATTACHMENTS
    assert "5 were left out" in composer.told[0]
    assert "1 was left out" in composer.told[1]


def test_pasted_bytes_become_an_attachment(run, desk, composer):
    buffer = io.BytesIO()
    Image.new("RGB", (8, 8)).save(buffer, "PNG")

    async def go():
        composer.add_data(buffer.getvalue(), "Pasted picture.png")
        composer.add_data_url("data:image/png;base64,broken!", "Pasted picture.png")
        await desk.tasks.join()

    run(go())
    assert names(composer) == ["Pasted picture.png"]
    assert len(composer.told) == 1


def test_links_are_fetched_only_where_the_settings_allow_it(run, desk, composer, model):
    async def go():
        composer.add_addresses(["http://127.0.0.1/cat.png"])
        assert composer.chips == ()
        model.configure(MLLMSchedulerConfig(allow_remote_media=True))
        composer.add_addresses(["http://127.0.0.1/cat.png"])
        await desk.tasks.join()

    run(go())
    assert composer.told == ["Braid does not fetch from the web: save it first, then drop the file."]
    (chip,) = composer.chips
    assert (chip.name, chip.state) == ("cat.png", "failed")
    assert "not a server of the public internet" in chip.error


def test_no_file_waits_for_a_slow_server(run, desk, composer, model, tmp_path, monkeypatch):
    over = threading.Event()

    def slow(url, how):
        over.wait(30)
        raise MediaCancelled("It was too slow.")

    async def go():
        monkeypatch.setattr(chips, "read_address", slow)
        settled = asyncio.Event()
        composer.changed.connect(lambda: settled.set() if "ready" in states(composer) else None)
        model.configure(MLLMSchedulerConfig(allow_remote_media=True))
        composer.add_addresses([f"http://example.org/{number}.png" for number in range(5)])
        composer.add_files([picture(tmp_path / "a.png")])
        await settled.wait()
        assert not over.is_set()
        assert states(composer) == [*["reading"] * 5, "ready"]
        over.set()
        await desk.tasks.join()

    run(go())


def test_a_long_pasted_text_is_an_attachment_of_its_own(run, desk, composer):
    async def go():
        composer.add_text("word " * LONG_TEXT)
        composer.add_text("x" * (MAX_TEXT + 1))
        await desk.tasks.join()

    run(go())
    [chip] = composer.chips
    assert (chip.name, chip.attachment.kind) == ("Pasted text.txt", "text")
    assert chip.attachment.part()["text"].endswith("word \n\n")
    assert "5.0 million characters" in composer.told[0]


def test_attachments_are_sent_in_the_order_they_were_given(run, desk, composer, tmp_path):
    async def go():
        composer.add_files([picture(tmp_path / f"{name}.png") for name in "abc"])
        await desk.tasks.join()
        a, _, c = (chip.id for chip in composer.chips)
        composer.move(a, 2)
        composer.move(c, -1)
        composer.move(c, 0)
        composer.send()

    run(go())
    assert [item.name for item in composer.sent[0][1]] == ["c.png", "b.png", "a.png"]


def test_a_chosen_part_of_a_clip_is_kept_and_sent(run, desk, model, composer, drafts, tmp_path):
    model.takes = frozenset({"video"})

    async def go():
        composer.add_files([files.clip(tmp_path / "a.mp4")])
        await desk.tasks.join()
        composer.choose(composer.chips[0].id, Excerpt(fps=1.0, end=1.0))
        composer.send()

    run(go())
    assert '"fps": 1.0' in drafts[-2].attachments[0].details
    assert composer.sent[0][1][0].part()["fps"] == 1.0


def item(kind):
    return Attachment(kind, kind, f"a.{kind}", files.Path("x"), 1, 1, None, b"")


def test_what_the_model_does_not_take_is_in_the_way_until_it_goes_or_the_model_does(qapp, model, scheduler, composer):
    composer.put_back("", [item("image"), item("video"), item("audio"), item("text")])
    obstacle = composer.obstacle
    assert obstacle.sentence.startswith("Pocket cannot hear sound and cannot watch clips.")
    assert obstacle.remedy == "Remove what it cannot read"
    assert not composer.can_send
    assert [composer.unfit(chip) is None for chip in composer.chips] == [True, False, False, True]
    model.takes = frozenset({"image", "video", "audio"})
    model.changed.emit()
    assert (composer.obstacle, composer.can_send) == (None, True)
    model.takes = frozenset()
    model.changed.emit()
    assert composer.unfit(composer.chips[0]) == "Pocket cannot see pictures"
    model.status = "loading"
    model.changed.emit()
    assert composer.obstacle is None  # what the next model takes is not known yet


@pytest.mark.parametrize("make", [files.animation, files.clip])
def test_a_clip_can_go_as_a_picture_to_a_model_that_sees_no_more(run, desk, composer, drafts, tmp_path, make):
    async def go():
        composer.set_text("What is it?")
        composer.add_files([make(tmp_path / ("wave.gif" if make is files.animation else "wave.mp4"))])
        await desk.tasks.join()
        obstacle, [chip] = composer.obstacle, composer.chips
        assert obstacle.stills == (chip.id,)
        assert obstacle.sentence == (
            "Pocket cannot watch clips. Choose another model, or send without, or with the first frame as a picture."
        )
        assert not composer.can_send
        composer.take_stills(*obstacle.stills)
        composer.take_stills(*obstacle.stills)  # a second click changes nothing
        assert (composer.chips[0].state, composer.obstacle, composer.can_send) == ("reading", None, False)
        assert len(drafts[-1].attachments) == 1  # were the program to end here, the clip would still be there
        await desk.tasks.join()
        composer.send()

    run(go())
    [(_, [sent])] = composer.sent
    assert (sent.kind, sent.name[:5], sent.note) == ("image", "wave.", "one frame of a clip")
    with Image.open(sent.path) as seen:
        assert (seen.format, seen.size) == ("PNG", (sent.width, sent.height))
        red, green, blue = seen.convert("RGB").getpixel((3, 3))
    assert (red, green, blue) == (255, 0, 0) if make is files.animation else max(red, green, blue) < 30


def test_the_still_is_the_first_frame_of_the_chosen_part(run, desk, composer, tmp_path):
    async def go():
        composer.add_files([files.animation(tmp_path / "wave.gif")])
        await desk.tasks.join()
        composer.choose(composer.chips[0].id, Excerpt(start=1.5))
        composer.take_stills(composer.chips[0].id)
        await desk.tasks.join()

    run(go())
    with Image.open(composer.chips[0].attachment.path) as seen:
        assert seen.getpixel((3, 3)) == (0, 255, 0)


def test_a_clip_that_went_missing_gives_no_still_but_a_sentence(run, desk, composer, tmp_path):
    async def go():
        composer.add_files([files.animation(tmp_path / "wave.gif")])
        await desk.tasks.join()
        composer.chips[0].attachment.path.unlink()
        composer.take_stills(composer.chips[0].id)
        await desk.tasks.join()

    run(go())
    [chip] = composer.chips
    assert (chip.state, chip.attachment) == ("failed", None)
    assert "wave.gif" in composer.obstacle.sentence
    assert composer.obstacle.remove == (chip.id,)


def test_pictures_of_an_old_chat_are_named_but_in_nobodys_way(qapp, desk, model):
    before = Before((Turn(text="old", attachments=(item("image"), item("pdf"))),))
    composer = Composer(desk, model, lambda draft: None, lambda: before)
    composer.set_text("And now?")
    assert composer.obstacle is None
    model.takes = frozenset()
    model.changed.emit()
    assert "cannot read the pictures and documents earlier in this chat" in composer.obstacle.sentence
    assert composer.can_send
    composer.close()


@pytest.mark.parametrize("text", ["", "   ", "\n\t"])
def test_nothing_cannot_be_sent(qapp, composer, text):
    composer.set_text(text)
    assert not composer.can_send
    composer.send()
    assert composer.sent == []


def test_a_text_over_the_limit_is_kept_and_in_the_way(qapp, composer):
    long = "x" * (MAX_TEXT + 1)
    composer.set_text(long)
    assert not composer.can_send
    assert composer.text == long
    assert "5 million: shorten it" in composer.obstacle.sentence
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
