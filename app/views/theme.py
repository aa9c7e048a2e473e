"""The window's colours, type and style sheet, in light and dark, switched at once."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Literal

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QColor, QFont, QFontDatabase, QFontMetricsF, QPalette
from PySide6.QtWidgets import QApplication, QWidget

RESOURCES = Path(__file__).parents[2] / "resources"
UI_PX = 13
SMALL_PX = 11
TEXT_PX = 15
COLUMN_PX = 760
LEAST_PX = 11
Appearance = Literal["system", "light", "dark"]
_BASE_FONT = "braid-font"
"""The property in which a widget keeps the unscaled size and weight of its font."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """Every colour of one appearance, as #rrggbb; text colours reach 4.5:1 on every surface they lie on."""

    surface: str
    side: str
    raised: str
    hover: str
    line: str
    control_line: str
    text: str
    muted: str
    accent: str
    on_accent: str
    selection: str
    bubble: str
    code: str
    error: str
    error_surface: str
    warning: str
    warning_surface: str
    keyword: str
    string: str
    number: str
    function: str


LIGHT = Tokens(
    surface="#ffffff",
    side="#f6f6f8",
    raised="#ffffff",
    hover="#ebebef",
    line="#e3e3e8",
    control_line="#8a8a94",
    text="#1b1b1f",
    muted="#5f5f68",
    accent="#6e56cf",
    on_accent="#ffffff",
    selection="#e4dffa",
    bubble="#f0eefb",
    code="#f6f6f8",
    error="#b91c26",
    error_surface="#fdf0f0",
    warning="#8a5200",
    warning_surface="#fdf5e6",
    keyword="#6e3fc4",
    string="#1f6f3f",
    number="#9a4a00",
    function="#1d5fb4",
)
DARK = Tokens(
    surface="#1a1a1d",
    side="#141416",
    raised="#222226",
    hover="#2a2a2f",
    line="#2f2f35",
    control_line="#74747e",
    text="#ececef",
    muted="#a2a2ac",
    accent="#9e8cfc",
    on_accent="#16121f",
    selection="#3a3260",
    bubble="#292638",
    code="#222226",
    error="#ff8a8f",
    error_surface="#341d20",
    warning="#f0b656",
    warning_surface="#33290f",
    keyword="#bda8ff",
    string="#8fd3a4",
    number="#f2b277",
    function="#8fbcff",
)


class Theme(QObject):
    """The appearance in force; there is one per application, as with its palette.

    Signals:
        changed: colours or the size of text are new ones; whoever keeps coloured text, icons or sizes makes them again.

    Attributes:
        scale: the size of text, 1.0 as designed.
    """

    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.tokens = LIGHT
        self.scale = 1.0
        self._appearance: Appearance = "system"
        self._styled: Tokens | None = None
        self._hinted = False

    @property
    def appearance(self) -> Appearance:
        """What the person chose."""
        return self._appearance

    def apply(self, appearance: Appearance) -> None:
        """Dress the application; "system" keeps following the system from now on."""
        hints = QApplication.styleHints()
        if not self._hinted:
            hints.colorSchemeChanged.connect(self._follow)
            self._hinted = True
        self._appearance = appearance
        if appearance == "system":
            hints.unsetColorScheme()
        else:
            hints.setColorScheme(Qt.ColorScheme.Dark if appearance == "dark" else Qt.ColorScheme.Light)
        self._follow(hints.colorScheme())

    def wear(self, window: QWidget) -> None:
        """Give a window without a parent the style sheet in force; what belongs to it inherits it.

        When the whole application's sheet changes, Qt polishes every widget anew for each of its ancestors.
        """
        if self._styled is not None:
            window.setStyleSheet(style_sheet(self._styled))

    def resize(self, percent: int) -> None:
        """Draw all text at this size, in percent of the designed one."""
        if percent == round(100 * self.scale):
            return
        self.scale = percent / 100
        app = QApplication.instance()
        if not isinstance(app, QApplication) or self._styled is None:
            return
        app.setFont(ui_font())
        _hand_out_fonts(app)
        self.changed.emit()

    def _follow(self, scheme: Qt.ColorScheme) -> None:
        dark = scheme == Qt.ColorScheme.Dark if self._appearance == "system" else self._appearance == "dark"
        self._dress(DARK if dark else LIGHT)

    def _dress(self, tokens: Tokens) -> None:
        app = QApplication.instance()
        if not isinstance(app, QApplication) or tokens is self._styled:
            return
        if self._styled is None:
            app.setStyle("Fusion")
            app.setFont(ui_font())
        self.tokens = self._styled = tokens
        app.setPalette(palette(tokens))
        for window in app.topLevelWidgets():
            if window.parentWidget() is None and window.styleSheet():
                self.wear(window)
        _hand_out_fonts(app)
        self.changed.emit()


theme = Theme()


def tokens() -> Tokens:
    """The colours in force now, for painting."""
    return theme.tokens


def color(name: str, alpha: float = 1.0) -> QColor:
    """A colour in force now by its token's name, optionally see-through (0 to 1)."""
    made = QColor(getattr(theme.tokens, name))
    made.setAlphaF(alpha)
    return made


def scaled(px: float) -> int:
    """A length that grows and shrinks with the text, px."""
    return round(px * theme.scale)


def _hand_out_fonts(app: QApplication) -> None:
    """Give every widget its font: a change of the style sheet takes set fonts away and ends their inheritance."""
    for window in app.topLevelWidgets():
        _give_font(window, (UI_PX, False))


def _give_font(widget: QWidget, inherited: tuple[int, bool]) -> None:
    """Set the font of a widget that has not got it from its parent, then those of what is inside."""
    base: tuple[int, bool] = widget.property(_BASE_FONT) or inherited
    wanted, has = ui_font(base[0], strong=base[1]), widget.font()
    if (has.pixelSize(), has.weight()) != (wanted.pixelSize(), wanted.weight()):
        widget.setFont(wanted)
    for child in widget.findChildren(QWidget, options=Qt.FindChildOption.FindDirectChildrenOnly):
        if not child.isWindow():
            _give_font(child, base)


def text_px(px: float) -> int:
    """A size of text in force now, px; never too small to be read."""
    return max(LEAST_PX, scaled(px))


def set_font(widget: QWidget, px: int = UI_PX, *, strong: bool = False) -> None:
    """Give a widget the system's font; it follows when the person changes the size of text."""
    widget.setProperty(_BASE_FONT, (px, strong))
    widget.setFont(ui_font(px, strong=strong))


def ui_font(px: int = UI_PX, *, strong: bool = False) -> QFont:
    """The system's font at a size in pixels before scaling, with figures of one width; for widgets see `set_font`."""
    font = QFont(QApplication.font())
    font.setPixelSize(text_px(px))
    font.setWeight(QFont.Weight.DemiBold if strong else QFont.Weight.Normal)
    font.setFeature(QFont.Tag("tnum"), 1)
    return font


def code_family() -> str:
    """The system's fixed-width font."""
    return QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont).family()


def line_height(font: QFont, ratio: float = 1.5) -> int:
    """The percentage of a font's natural height that makes lines ``ratio`` times its size, as Qt's CSS wants it."""
    return round(100 * ratio * font.pixelSize() / QFontMetricsF(font).height())


def palette(colors: Tokens) -> QPalette:
    """Qt's palette for one appearance."""
    role = QPalette.ColorRole
    made = QPalette()
    roles = {
        role.Window: colors.surface,
        role.WindowText: colors.text,
        role.Base: colors.surface,
        role.AlternateBase: colors.side,
        role.Text: colors.text,
        role.Button: colors.raised,
        role.ButtonText: colors.text,
        role.BrightText: colors.error,
        role.Highlight: colors.selection,
        role.HighlightedText: colors.text,
        role.Link: colors.accent,
        role.LinkVisited: colors.accent,
        role.PlaceholderText: colors.muted,
        role.ToolTipBase: colors.raised,
        role.ToolTipText: colors.text,
        role.Accent: colors.accent,
        role.Light: colors.hover,
        role.Mid: colors.line,
        role.Dark: colors.control_line,
    }
    for which, value in roles.items():
        made.setColor(which, QColor(value))
    for which in (role.WindowText, role.Text, role.ButtonText):
        made.setColor(QPalette.ColorGroup.Disabled, which, QColor(colors.control_line))
    return made


def style_sheet(colors: Tokens) -> str:
    """A window's style sheet with one appearance's colours filled in."""
    source = (RESOURCES / "styles" / "braid.qss").read_text(encoding="utf-8")
    return Template(source).substitute(dataclasses.asdict(colors))
