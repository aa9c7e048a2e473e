from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import QEvent
from PySide6.QtWidgets import QApplication, QFileDialog

from app.views.exchange import file_name

pytestmark = pytest.mark.qt_log_ignore("This plugin does not support")


@pytest.fixture
def made(stage, monkeypatch):
    monkeypatch.setattr(QFileDialog, "open", lambda dialog: dialog.show())
    made = stage("Kitchen: a/b", "Street")
    yield made
    QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)


def dialog(made) -> QFileDialog:
    return made.window.findChild(QFileDialog)


def picks(made, name: str) -> None:
    shown = dialog(made)
    shown.fileSelected.emit(name)
    shown.close()


def test_a_chat_is_exported_under_its_title_as_the_chosen_kind(made) -> None:
    made.window.export()
    shown = dialog(made)
    assert Path(shown.selectedFiles()[0]).name == "Kitchen a b.md"
    shown.filterSelected.emit(shown.nameFilters()[1])
    assert Path(shown.selectedFiles()[0]).name == "Kitchen a b.braid"
    picks(made, "/tmp/x.braid")
    assert made.library.exchange.calls == [("export", (made.chat.id,), Path("/tmp/x.braid"))]


def test_a_chat_of_the_list_and_all_chats_are_exported_too(made) -> None:
    street = made.library.tabs[1]
    made.window.sidebar.chats.exported.emit(street.id)
    picks(made, "/tmp/s.md")
    QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)
    made.window.export_all()
    assert len(dialog(made).nameFilters()) == 1
    picks(made, "/tmp/a.braid")
    assert made.library.exchange.calls == [
        ("export", (street.id,), Path("/tmp/s.md")),
        ("export", tuple(chat.id for chat in made.library.tabs), Path("/tmp/a.braid")),
    ]


def test_an_export_is_chosen_to_import(made) -> None:
    made.window.import_chats()
    picks(made, "/tmp/conversations.json")
    assert made.library.exchange.calls == [("import", Path("/tmp/conversations.json"))]


@pytest.mark.parametrize(
    ("title", "name"), [("a/b: c?", "a b c"), ("...", "Chat"), ("x" * 200, "x" * 80), ("v1.2 Küche", "v1.2 Küche")]
)
def test_names_of_files_suit_every_system(title, name) -> None:
    assert file_name(title) == name
