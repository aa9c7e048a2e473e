"""Dialogs in which a file for an export, or one to import, is chosen."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFileDialog, QWidget

MARKDOWN = ("Markdown, with the media in a folder beside it", ".md")
ARCHIVE = ("Braid archive, with everything in it", ".braid")
_IMPORTS = "Exports of chats (*.braid *.zip *.json)"
Kind = tuple[str, str]
"""What a kind of file is called, and how its name ends."""


def save(parent: QWidget, title: str, kinds: Sequence[Kind], chosen: Callable[[Path], None]) -> None:
    """Ask for the name of a file of one of these kinds, starting from the chat's title."""
    dialog = _dialog(parent, "Export")
    dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
    dialog.setNameFilters([f"{name} (*{suffix})" for name, suffix in kinds])
    dialog.selectFile(file_name(title) + kinds[0][1])
    dialog.setDefaultSuffix(kinds[0][1])
    suffixes = {f"{name} (*{suffix})": suffix for name, suffix in kinds}
    dialog.filterSelected.connect(lambda which: _take_suffix(dialog, suffixes[which]))
    dialog.fileSelected.connect(lambda name: chosen(Path(name)))
    dialog.open()


def choose(parent: QWidget, chosen: Callable[[Path], None]) -> None:
    """Ask for an export to import."""
    dialog = _dialog(parent, "Import chats")
    dialog.setFileMode(QFileDialog.FileMode.ExistingFile)
    dialog.setNameFilters([_IMPORTS, "All files (*)"])
    dialog.fileSelected.connect(lambda name: chosen(Path(name)))
    dialog.open()


def file_name(title: str) -> str:
    """A name for a file that every system takes."""
    plain = re.sub(r'[\s\x00-\x1f<>:"/\\|?*]+', " ", title)
    return plain[:80].strip(" .") or "Chat"


def _dialog(parent: QWidget, title: str) -> QFileDialog:
    dialog = QFileDialog(parent, title)
    dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    return dialog


def _take_suffix(dialog: QFileDialog, suffix: str) -> None:
    """Follow the kind that was picked with the name that is there."""
    dialog.setDefaultSuffix(suffix)
    name = next(iter(dialog.selectedFiles()), "")
    if name:
        dialog.selectFile(Path(name).with_suffix(suffix).name)
