"""Much at once never holds the window up: a long text, a hundred pictures, a folder with ten thousand files."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from statistics import median

import pytest
from PIL import Image
from PySide6.QtCore import QEvent, QMimeData, QThreadPool, QUrl
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QApplication

from app.settings import Settings
from app.state.composer import MAX_ATTACHMENTS
from app.state.preferences import Preferences
from app.state.vitals import Vitals
from app.views import drop
from app.views.theme import theme
from app.views.window import Window
from tests.app.heartbeat import Heartbeat
from tests.app.views.fakes import Shelf

LONGEST_MS = 100
"""Processor time of the window's thread in one stretch, median of some rounds; other programs hardly lengthen it."""
_ROUNDS = 3


@pytest.fixture
def window(run, library, model) -> Iterator[Window]:
    preferences = Preferences(Settings(appearance="light"), model, None)  # type: ignore[arg-type]
    window = Window(library, model, Vitals(model), preferences, Shelf(model))  # type: ignore[arg-type]
    window.resize(1200, 800)
    window.show()
    window.warm_up()

    async def painted() -> None:
        await asyncio.sleep(0.3)

    run(painted())
    yield window
    QThreadPool.globalInstance().waitForDone()
    window.close()
    window.deleteLater()
    QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)
    theme.apply("light")


@pytest.fixture
def quick(run, until, window, capsys):
    """Whether the window's thread never works for long at once until a condition holds, on a fresh chat."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(0.001)  # as the app does

    async def once(act, condition, prepare) -> float:
        chat = window.library.new_chat()
        prepare(chat)
        beat = Heartbeat()
        await asyncio.sleep(0.2)
        beat.take()
        act(chat)
        await until(lambda: condition(chat))
        await asyncio.sleep(0.3)
        beat.stop()
        return max(beat.worked)

    def quick(act, condition, prepare=lambda chat: None) -> bool:
        longest = [run(once(act, condition, prepare)) for _ in range(_ROUNDS)]
        with capsys.disabled():
            print(" [", *(f"{each:.0f}" for each in longest), "] ms", end="")
        return median(longest) < LONGEST_MS

    yield quick
    sys.setswitchinterval(interval)


def settled(chat) -> bool:
    chips = chat.composer.chips
    return bool(chips) and all(chip.state != "reading" for chip in chips)


def test_five_megabytes_of_pasted_text(window, quick) -> None:
    mime = QMimeData()
    mime.setText("one line of many\n" * 290_000)
    QGuiApplication.clipboard().setMimeData(mime)
    assert quick(
        lambda chat: window.page.composer.field.paste(),
        lambda chat: settled(chat) and chat.composer.cost is not None,
    )
    draft = window.library.current.composer
    assert [chip.name for chip in draft.chips] == ["Pasted text.txt"]
    assert not draft.can_send


def test_a_hundred_pictures_dropped_and_sent(window, quick, tmp_path, scheduler) -> None:
    for number in range(MAX_ATTACHMENTS):
        Image.effect_noise((640, 480), 40 + number).convert("RGB").save(tmp_path / f"{number:03}.jpg")
    scheduler.context_limit = 1_000_000
    mime = QMimeData()
    mime.setUrls([QUrl.fromLocalFile(str(path)) for path in sorted(tmp_path.glob("*.jpg"))])
    assert quick(lambda chat: drop.put(drop.read(mime), chat.composer), settled)

    pictures = window.library.current.composer._chips.ready
    assert len(pictures) == MAX_ATTACHMENTS

    assert quick(
        lambda chat: chat.composer.send(),
        lambda chat: chat.answering and chat.turns[-1].role == "assistant",
        prepare=lambda chat: chat.composer._chips.put(pictures, first=True),
    )
    assert len(scheduler.sent[-1].messages[-1]["content"]) == MAX_ATTACHMENTS


def test_a_folder_with_ten_thousand_files(window, quick, tmp_path) -> None:
    picture = tmp_path / "0.png"
    Image.new("RGB", (8, 8)).save(picture)
    data = picture.read_bytes()
    for number in range(100):
        (tmp_path / "many" / f"{number:02}").mkdir(parents=True)
        for file in range(100):
            (tmp_path / "many" / f"{number:02}" / f"{file:02}.png").write_bytes(data)
    told: list[str] = []

    def act(chat) -> None:
        chat.composer.notice.connect(told.append)
        chat.composer.add_files([tmp_path / "many"])

    assert quick(act, lambda chat: told and settled(chat))
    assert told[-1] == "Took 100 of 10,000 files of many. A message can hold 100 attachments."
