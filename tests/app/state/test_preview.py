import numpy as np
import pytest

from app.state.attachment import Excerpt
from app.state.facts import facts
from app.state.preview import clock
from engine.messages import MediaSource
from engine.reader import sample_clip
from tests.app import files


@pytest.fixture
def chat(library):
    return library.current


@pytest.fixture
def attach(run, until, chat):
    def attach(path):
        async def go():
            chat.composer.add_files([path])
            await until(lambda: all(chip.state == "ready" for chip in chat.composer.chips))

        run(go())
        return chat.composer.chips[-1]

    return attach


def look(run, until, chat, chip):
    """Open a preview and wait until it is read."""

    async def go():
        chat.composer.preview.open(chip.id)
        await until(lambda: chat.composer.preview.look is not None)
        return chat.composer.preview.look

    return run(go())


def test_the_strip_shows_exactly_the_frames_that_the_engine_takes(run, until, chat, attach, scheduler, tmp_path):
    chip = attach(files.clip(tmp_path / "a.mp4", frames=40, rate=10))
    excerpt = Excerpt(fps=2.0, start=1.0, end=3.5)
    chat.composer.choose(chip.id, excerpt)
    stills = look(run, until, chat, chip).stills
    source = MediaSource("video", str(chip.attachment.path), excerpt.fps, excerpt.start, excerpt.end)
    taken = sample_clip(source, *scheduler.sampling)
    assert [still.label for still in stills] == [clock(time) for time in taken.times]
    for still, frame in zip(stills, taken.frames, strict=True):
        assert np.frombuffer(still.rgb, np.uint8).mean() == pytest.approx(frame.mean(), abs=1.5)
    assert facts(chat.composer.chips[0].attachment, scheduler.sampling) == f"4.0 s · {len(stills)} frames"


def test_another_part_is_read_anew(run, until, chat, attach, tmp_path):
    chip = attach(files.clip(tmp_path / "a.mp4", frames=40, rate=10))
    assert len(look(run, until, chat, chip).stills) == 8

    async def go():
        chat.composer.choose(chip.id, Excerpt(fps=1.0))
        await until(lambda: len(chat.composer.preview.look.stills) == 4)

    run(go())


def test_pages_are_those_that_are_sent(run, until, chat, attach, tmp_path):
    chip = attach(files.document(tmp_path / "a.pdf", 5))
    chat.composer.choose(chip.id, Excerpt(first=2, last=4))
    stills = look(run, until, chat, chip).stills
    assert [still.label for still in stills] == ["page 2", "page 3", "page 4"]
    colours = [np.frombuffer(still.rgb, np.uint8)[:3].tolist() for still in stills]
    assert [colour[0] for colour in colours] == pytest.approx([40, 80, 120], abs=4)


def test_a_text_shows_its_beginning(run, until, chat, attach, tmp_path):
    (tmp_path / "a.txt").write_text("Once upon a time. " * 1000)
    assert len(look(run, until, chat, attach(tmp_path / "a.txt")).text) == 2000


def test_removing_the_attachment_closes_its_preview(run, until, chat, attach, tmp_path):
    chip = attach(files.picture(tmp_path / "a.png"))
    look(run, until, chat, chip)
    chat.composer.remove(chip.id)
    assert (chat.composer.preview.chip_id, chat.composer.preview.look) == ("", None)


def test_a_lost_copy_is_told(run, until, chat, attach, tmp_path):
    chip = attach(files.clip(tmp_path / "a.mp4"))
    chip.attachment.path.unlink()
    assert "could not be found" in look(run, until, chat, chip).error


@pytest.mark.parametrize(
    ("seconds", "digits", "said"),
    [(7.5, 1, "0:07.5"), (0, 1, "0:00.0"), (59.96, 1, "1:00.0"), (75, 0, "1:15"), (3600, 0, "60:00")],
)
def test_times_are_told_as_on_a_player(seconds, digits, said):
    assert clock(seconds, digits) == said
