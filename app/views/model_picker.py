"""The model picker: what is on this computer, what is on its way, and a field to fetch more."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QHideEvent, QPainter, QPaintEvent, QShowEvent
from PySide6.QtWidgets import (
    QDialog,
    QFileDialog,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QPushButton,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

from app.views.download_row import DownloadRow
from app.views.icons import icon
from app.views.model_row import ModelRow
from app.views.theme import SMALL_PX, color, set_font, theme

if TYPE_CHECKING:
    from app.state.download import Download
    from app.state.models import Entry, Models

_SIZE, _LEAST = (720, 600), (560, 400)
_ROWS_AT_ONCE = 2


class Notice(QWidget):
    """One sentence, and sometimes a way out."""

    def __init__(self, tone: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._text = QLabel(self)
        self._text.setObjectName(tone)
        self._text.setTextFormat(Qt.TextFormat.PlainText)
        self._text.setWordWrap(True)
        self.button = QPushButton(self)
        row = QHBoxLayout(self)
        row.setContentsMargins(16, 0, 16, 8)
        row.addWidget(self._text, 1)
        row.addWidget(self.button)
        self.hide()

    def say(self, sentence: str, way_out: str = "") -> None:
        """Show a sentence, or nothing."""
        self._text.setText(sentence)
        self.button.setText(way_out)
        self.button.setAccessibleName(way_out)
        self.button.setVisible(bool(way_out))
        self.setVisible(bool(sentence))


class ModelPicker(QDialog):
    """All models; it stays open beside the window."""

    def __init__(self, models: Models, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._models = models
        self.setWindowTitle("Models")
        self.setModal(False)
        self.rows: list[ModelRow | DownloadRow] = []
        self._shown: tuple[object, ...] | None = None
        self._coming: Generator[None] | None = None
        self.failure, self.notice = Notice("error", self), Notice("warning", self)
        self.folder = QPushButton("Add folder …", self)
        self.folder.setAccessibleName("Look for models in another folder")
        self.field = QLineEdit(self)
        self.fetch = QPushButton("Download", self)
        self._lay_out()
        self._connect()
        self.setMinimumSize(*_LEAST)
        self.resize(*_SIZE)
        self._recolour()

    def _lay_out(self) -> None:
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 16, 0, 16)
        column.setSpacing(0)
        column.addLayout(self._head())
        column.addWidget(self.failure)
        self.area = QScrollArea(self)
        self.area.setWidgetResizable(True)
        self.area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.area.setAccessibleName("Models")
        self.area.viewport().setAutoFillBackground(False)
        column.addWidget(self.area, 1)
        column.addSpacing(12)
        column.addWidget(self.notice)
        column.addLayout(self._foot())

    def _head(self) -> QHBoxLayout:
        title = QLabel("Models", self)
        set_font(title, 17, strong=True)
        head = QHBoxLayout()
        head.setContentsMargins(16, 0, 16, 12)
        head.addWidget(title, 1)
        head.addWidget(self.folder)
        return head

    def _foot(self) -> QHBoxLayout:
        self.field.setPlaceholderText("owner/name on Hugging Face, or its address")
        self.field.setAccessibleName("Model to download: its id or the address of its page")
        self.field.setClearButtonEnabled(True)
        self.fetch.setAccessibleName("Download the model")
        self.fetch.setDefault(True)
        foot = QHBoxLayout()
        foot.setContentsMargins(16, 0, 16, 0)
        foot.setSpacing(8)
        foot.addWidget(self.field, 1)
        foot.addWidget(self.fetch)
        return foot

    def _connect(self) -> None:
        self.folder.clicked.connect(self._pick_folder)
        self.field.textChanged.connect(lambda: self.notice.say(""))
        self.fetch.clicked.connect(self._download)
        self.failure.button.clicked.connect(self._models.model.fall_back)
        self._models.notice.connect(self.notice.say)
        self._models.changed.connect(self._list)
        self._models.model.changed.connect(self._explain)
        theme.changed.connect(self._recolour)

    def showEvent(self, event: QShowEvent) -> None:
        """Look again at the disk whenever it is opened."""
        super().showEvent(event)
        self._models.refresh()
        self._list()
        self._explain()
        self.field.setFocus()

    def hideEvent(self, event: QHideEvent) -> None:
        """Stop making rows; the next opening starts again."""
        super().hideEvent(event)
        if self._coming is not None:
            self._give_up()
            self._shown = None

    def paintEvent(self, event: QPaintEvent) -> None:
        """A hairline below the list, which scrolls."""
        below = self.area.geometry().bottom() + 1
        QPainter(self).fillRect(0, below, self.width(), 1, color("line"))

    # --- what the person does

    def _download(self) -> None:
        refused = self._models.download(self.field.text())
        if refused is None:
            self.field.clear()
        self.notice.say(refused or "")

    def _pick_folder(self) -> None:
        dialog = QFileDialog(self, "Look for models in a folder")
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.setFileMode(QFileDialog.FileMode.Directory)
        dialog.fileSelected.connect(lambda name: self._models.add_folder(Path(name)))
        dialog.open()

    # --- what is shown

    def _list(self) -> None:
        """Make the rows again if there are other ones; what a row says it follows by itself."""
        if not self.isVisible():
            return
        entries, downloads = self._models.entries, self._models.downloads
        if (*entries, *downloads, bool(entries)) == self._shown:
            return
        self._shown = (*entries, *downloads, bool(entries))
        coming = {download.repo for download in downloads}
        listed = [entry for entry in entries if not (entry.model.resumable and entry.model.repo in coming)]
        self._give_up()
        self._coming = self._build([*downloads], listed)
        self._grow(self._coming)

    def _give_up(self) -> None:
        """Forget a list that is half made."""
        if self._coming is not None:
            self._coming.close()
            self._coming = None

    def _grow(self, coming: Generator[None]) -> None:
        """Make two rows in each turn of the loop, as one costs milliseconds; a newer list takes over."""
        if coming is not self._coming:
            return
        for _ in range(_ROWS_AT_ONCE):
            next(coming, None)
        if self._coming is not None:
            QTimer.singleShot(0, self, partial(self._grow, coming))

    def _build(self, downloads: list[Download], entries: list[Entry]) -> Generator[None]:
        """Make a list, row by row, and show it when it is whole."""
        inside = QWidget(self)
        try:
            column = QVBoxLayout(inside)
            column.setContentsMargins(0, 0, 0, 0)
            column.setSpacing(0)
            rows: list[ModelRow | DownloadRow] = []
            for row in self._make(downloads, entries, inside):
                column.addWidget(row)
                if not isinstance(row, QLabel):
                    rows.append(row)
                yield
            column.addStretch(1)
        except GeneratorExit:
            inside.deleteLater()
            raise
        self._coming = None
        self._show(inside, rows)

    def _make(
        self, downloads: list[Download], entries: list[Entry], parent: QWidget
    ) -> Iterator[ModelRow | DownloadRow | QLabel]:
        """What the list holds, from top to bottom."""
        yield from (self._download_row(download, parent) for download in downloads)
        yield from (self._model_row(entry, parent) for entry in entries if entry.usable)
        useless = [entry for entry in entries if not entry.usable]
        if useless:
            yield _heading("Not ready to use", parent)
        yield from (self._model_row(entry, parent) for entry in useless)
        if not entries:
            yield _heading("Looking for models …", parent)

    def _show(self, inside: QWidget, rows: list[ModelRow | DownloadRow]) -> None:
        self.rows = rows
        place = self.area.verticalScrollBar().value()
        self.area.setWidget(inside)
        inside.setAutoFillBackground(False)
        self.area.verticalScrollBar().setValue(place)
        self._chain()
        self._explain()

    def _model_row(self, entry: Entry, parent: QWidget) -> ModelRow:
        row = ModelRow(entry, self._models.model, parent)
        row.chosen.connect(partial(self._models.choose, entry.model.folder))
        row.stopped.connect(self._models.model.unload)
        row.resumed.connect(partial(self._models.download, entry.model.repo))
        row.unwanted.connect(partial(self._models.trash, entry.model.folder))
        return row

    def _download_row(self, download: Download, parent: QWidget) -> DownloadRow:
        row = DownloadRow(download, parent)
        row.cancelled.connect(partial(self._models.cancel, download.repo))
        return row

    def _chain(self) -> None:
        """Let Tab go from the head through the rows to the field."""
        before: QWidget = self.folder
        for row in self.rows:
            stops = (row.button, row.more) if isinstance(row, ModelRow) else (row.pause, row.cancel)
            for stop in stops:
                QWidget.setTabOrder(before, stop)
                before = stop
        QWidget.setTabOrder(before, self.field)
        QWidget.setTabOrder(self.field, self.fetch)

    def _explain(self) -> None:
        """Say why no model answers, and offer the one that is always there."""
        model = self._models.model
        failed = model.status == "failed"
        listed = any(entry.model.folder == model.path for entry in self._models.entries)
        reason = "" if listed else f" {model.error}"  # a row says it itself
        said = f"“{model.name}” could not be loaded.{reason}" if failed else ""
        self.failure.say(said, "Load Pocket instead" if model.can_fall_back else "")

    def _recolour(self) -> None:
        self.folder.setIcon(icon("folder"))


def _heading(text: str, parent: QWidget) -> QLabel:
    label = QLabel(text, parent)
    label.setObjectName("muted")
    label.setContentsMargins(16, 16, 16, 4)
    set_font(label, SMALL_PX, strong=True)
    return label
