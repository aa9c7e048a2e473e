"""Formulas set in type: off the GUI thread, kept by content, drawn sharp in the colour and size of their text."""

from __future__ import annotations

import logging
import re
from collections import OrderedDict, deque
from dataclasses import dataclass
from functools import lru_cache

from PySide6.QtCore import QByteArray, QObject, QRectF, Qt, QThreadPool, Signal
from PySide6.QtGui import QFont, QFontMetrics, QImage, QPainter
from PySide6.QtSvg import QSvgRenderer

_log = logging.getLogger(__name__)
MAX_CHARS = 2000
_KEPT = 512
_EM = 20.0
_INK = "#010203"
_SCALE = 1.12
"""The formulas' font looks smaller than the system's at the same size."""


@dataclass(frozen=True, slots=True)
class Formula:
    """LaTeX between its delimiters; ``display``: on a line of its own."""

    source: str
    display: bool


@dataclass(frozen=True, slots=True)
class Setting:
    """A formula as a drawing; its measures are in em, from the baseline."""

    svg: str
    width: float
    ascent: float
    descent: float


@dataclass(frozen=True, slots=True)
class Picture:
    """A setting in one colour and size, ``top`` px below the upper edge of its box of ``width`` x ``height`` px."""

    setting: Setting
    colour: str
    em: float
    width: int
    height: int
    top: float

    def image(self, ratio: float) -> QImage:
        """Pixels for a screen with so many of them per px."""
        return _drawn(self, ratio)


class Typesetter(QObject):
    """Sets formulas one after the other in the thread pool, because each takes some 10 to 70 ms.

    Signals:
        ready: a formula that was shown as its source has its setting now.
    """

    ready = Signal(Formula)
    _set = Signal(Formula, object)

    def __init__(self) -> None:
        super().__init__()
        self._settings: OrderedDict[Formula, Setting | None] = OrderedDict()
        self._queue: deque[Formula] = deque()
        self._busy = False
        self._set.connect(self._keep)

    def setting(self, formula: Formula) -> Setting | None:
        """The formula's setting, or None while it is being made or cannot be."""
        if formula in self._settings:
            self._settings.move_to_end(formula)
            return self._settings[formula]
        if len(formula.source) <= MAX_CHARS and formula not in self._queue:
            self._queue.append(formula)
            self._start()
        return None

    def _start(self) -> None:
        if self._queue and not self._busy:
            self._busy = True
            formula = self._queue[0]
            QThreadPool.globalInstance().start(lambda: self._set.emit(formula, _typeset(formula)))

    def _keep(self, formula: Formula, setting: Setting | None) -> None:
        self._queue.popleft()
        self._busy = False
        self._settings[formula] = setting
        while len(self._settings) > _KEPT:
            self._settings.popitem(last=False)
        self._start()
        if setting is not None:
            self.ready.emit(formula)


typesetter = Typesetter()


def picture(setting: Setting, font: QFont, colour: str, room: int, *, inline: bool) -> Picture:
    """The setting beside text in this font, at most ``room`` px wide.

    Qt puts the middle of an inline picture half the height of an x above the baseline: the box gets empty space above
    or below, so that the baselines meet.
    """
    em = font.pixelSize() * _SCALE
    em = min(em, room / setting.width) if setting.width else em
    ascent, descent = setting.ascent * em, setting.descent * em
    if not inline:
        return Picture(setting, colour, em, _whole(setting.width * em), _whole(ascent + descent), 0.0)
    lift = QFontMetrics(font).xHeight() / 2
    height = _whole(2 * max(ascent - lift / 2, descent + lift / 2))
    return Picture(setting, colour, em, _whole(setting.width * em), height, (height + lift) / 2 - ascent)


def _whole(length: float) -> int:
    return int(length + 0.999)


@lru_cache(maxsize=256)
def _drawn(made: Picture, ratio: float) -> QImage:
    image = QImage(_whole(made.width * ratio), _whole(made.height * ratio), QImage.Format.Format_ARGB32_Premultiplied)
    image.fill(Qt.GlobalColor.transparent)
    setting = made.setting
    painter = QPainter(image)
    painter.scale(ratio, ratio)
    size = QRectF(0, made.top, setting.width * made.em, (setting.ascent + setting.descent) * made.em)
    QSvgRenderer(QByteArray(setting.svg.replace(_INK, made.colour).encode())).render(painter, size)
    painter.end()
    image.setDevicePixelRatio(ratio)
    return image


def _typeset(formula: Formula) -> Setting | None:
    """On a pool thread; None for what cannot be set."""
    from ziamath.config import config
    from ziamath.tex import tex2mml
    from ziamath.zmath import Latex

    config.svg2 = False  # else glyphs are references, which Qt does not draw
    try:
        if re.search(r">\s*\\[A-Za-z]", tex2mml(formula.source)):
            return None  # an unknown command would be set as its name
        svg = Latex(formula.source, size=_EM, color=_INK, inline=not formula.display).svg()
    except Exception:  # noqa: BLE001 - what a model writes makes the library raise anything; its source is shown then
        _log.debug("A formula cannot be set: %s", formula.source, exc_info=True)
        return None
    box = re.search(r'viewBox="(\S+) (\S+) (\S+) (\S+)"', svg)
    if box is None:
        return None
    _, top, width, height = (float(value) / _EM for value in box.groups())
    return Setting(svg, width, -top, height + top)
