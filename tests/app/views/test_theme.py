from __future__ import annotations

import dataclasses
import re
from collections import Counter

import pytest
from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtGui import QColor, QFont, QFontInfo
from PySide6.QtWidgets import QApplication, QLabel, QToolTip, QWidget

from app.views.theme import DARK, LIGHT, RESOURCES, Tokens, set_font, style_sheet, theme

ON = {
    "text": ("surface", "side", "raised", "hover", "selection", "bubble", "code", "error_surface"),
    "muted": ("surface", "side", "raised", "hover", "code"),
    "accent": ("surface", "side", "raised", "code"),
    "on_accent": ("accent",),
    "error": ("surface", "side", "error_surface"),
    "warning": ("surface", "warning_surface"),
    "keyword": ("code",),
    "string": ("code",),
    "number": ("code",),
    "function": ("code",),
}


def luminance(colour: str) -> float:
    parts = [
        part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in QColor(colour).getRgbF()[:3]
    ]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def contrast(a: str, b: str) -> float:
    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("tokens", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("ink", ON)
def test_text_can_be_read_on_every_surface_it_lies_on(tokens: Tokens, ink: str) -> None:
    for surface in ON[ink]:
        assert contrast(getattr(tokens, ink), getattr(tokens, surface)) >= 4.5, (ink, surface)


@pytest.mark.parametrize("tokens", [LIGHT, DARK], ids=["light", "dark"])
def test_outlines_of_controls_can_be_seen(tokens: Tokens) -> None:
    for surface in ("surface", "raised"):
        assert contrast(tokens.control_line, getattr(tokens, surface)) >= 3


@pytest.mark.parametrize("tokens", [LIGHT, DARK], ids=["light", "dark"])
def test_the_style_sheet_uses_no_colour_of_its_own(tokens: Tokens) -> None:
    source = (RESOURCES / "styles" / "braid.qss").read_text(encoding="utf-8")
    assert not re.search(r"#[0-9a-fA-F]{3,8}\b(?=[^{}]*;)", source)
    assert set(re.findall(r"#[0-9a-f]{6}", style_sheet(tokens))) <= set(dataclasses.astuple(tokens))


def test_the_system_is_followed_at_once_until_told_otherwise(stage, qapp: QApplication, qtbot) -> None:
    field = stage("Kitchen").window.page.composer.field
    hints = qapp.styleHints()
    theme.apply("system")
    with qtbot.waitSignal(theme.changed):
        hints.colorSchemeChanged.emit(Qt.ColorScheme.Dark)
    assert theme.tokens is DARK
    assert field.palette().text().color() == QColor(DARK.text)
    hints.colorSchemeChanged.emit(Qt.ColorScheme.Light)
    assert theme.tokens is LIGHT
    theme.apply("dark")
    hints.colorSchemeChanged.emit(Qt.ColorScheme.Light)
    assert theme.tokens is DARK
    theme.apply("light")
    assert field.palette().text().color() == QColor(LIGHT.text)


def test_all_text_follows_the_size_at_once_and_comes_back_exactly(qapp: QApplication, qtbot) -> None:
    theme.apply("light")
    window = QWidget()
    qtbot.addWidget(window)
    plain, small, large = (QLabel(text, window) for text in ("plain", "small", "large"))
    plain.setObjectName("muted")
    window.show()
    set_font(small, 12)
    set_font(large, 28, strong=True)

    def sizes() -> list[int]:
        return [QFontInfo(label.font()).pixelSize() for label in (plain, small, large)]

    designed = sizes()
    assert designed == [13, 12, 28]
    with qtbot.waitSignal(theme.changed):
        theme.resize(150)
    assert sizes() == [20, 18, 42]
    theme.apply("dark")
    assert sizes() == [20, 18, 42]
    theme.resize(80)
    assert sizes() == [11, 11, 22]  # nothing becomes smaller than can be read
    theme.resize(100)
    assert sizes() == designed
    assert large.font().weight() == QFont.Weight.DemiBold


def test_a_change_of_appearance_polishes_each_widget_once(stage, qtbot) -> None:
    """Polishing them for each of their ancestors took most of the time that a change took."""
    made = stage("Kitchen")
    polished: Counter[QWidget] = Counter()

    class Watch(QObject):
        def eventFilter(self, watched: QObject, event: QEvent) -> bool:
            if event.type() == QEvent.Type.StyleChange and isinstance(watched, QWidget):
                polished[watched] += 1
            return False

    watch = Watch()
    QApplication.instance().installEventFilter(watch)
    theme.apply("dark")
    QApplication.instance().removeEventFilter(watch)
    assert polished[made.window.page.composer.field]
    assert max(polished.values()) <= 2
    assert made.window.styleSheet() == style_sheet(DARK)


@pytest.mark.qt_log_ignore("This plugin does not support")
def test_what_belongs_to_the_window_wears_its_sheet(stage, qtbot) -> None:
    made = stage("Kitchen")
    theme.apply("dark")
    made.window.open_settings()
    QToolTip.showText(made.window.mapToGlobal(made.window.rect().center()), "A tip", made.window)
    tip = next(each for each in QApplication.topLevelWidgets() if each.inherits("QTipLabel") and each.isVisible())
    for each, colour in ((made.window._dialog, DARK.surface), (tip, DARK.raised)):
        shown = each.grab().toImage()
        assert shown.pixelColor(shown.width() // 2, 3) == QColor(colour)
    QToolTip.hideText()
