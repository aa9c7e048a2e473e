"""What a person can choose: each setting with its name, its sentence, its unit and its range."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from app.settings import Generation, Settings
from app.state.words import WORDS, Kind, Page, Words
from engine.config import MLLMSchedulerConfig

PAGES: Final[tuple[Page, ...]] = (
    "Cache",
    "MTP",
    "General",
    "Model",
    "Generation",
    "Media",
    "Appearance",
    "Advanced",
)
_NUMBERS: Final = ("whole", "number")


@dataclass(frozen=True, slots=True)
class Option:
    """One setting.

    Attributes:
        key: where it is kept: `engine.enable_mtp`, `generation.top_p` or `appearance`.
        low, high: the range of a number; None: open.
        above: whether a number must lie above `low`.
        choices: value and name of each choice.
        empty: what a value that leaves the choice to Braid is called; "" where there is none.
        empty_value: that value.
    """

    key: str
    page: Page
    label: str
    help: str
    kind: Kind
    default: Any
    unit: str = ""
    low: float | None = None
    high: float | None = None
    above: bool = False
    choices: tuple[tuple[Any, str], ...] = ()
    empty: str = ""
    empty_value: Any = None

    @property
    def numeric(self) -> bool:
        """Whether its value is typed as a number."""
        return self.kind in _NUMBERS

    @property
    def range(self) -> str:
        """What may be typed, in words."""
        low, high = self.low, self.high
        whole = "whole number" if self.kind == "whole" else "number"
        if low is None:
            return f"a {whole}" if high is None else f"a {whole} up to {plain(high)}"
        if self.above:
            return f"a {whole} above {plain(low)}" + ("" if high is None else f", up to {plain(high)}")
        return f"a {whole}, {plain(low)} or more" if high is None else f"a {whole} from {plain(low)} to {plain(high)}"

    def parse(self, text: str) -> Any:
        """The number that was typed.

        Raises:
            ValueError: it is none, or out of the range; the message is a sentence.
        """
        typed = text.strip().replace(" ", "").replace("\u2212", "-")
        if self.kind == "number" and typed.count(",") == 1 and "." not in typed:
            typed = typed.replace(",", ".")  # how most of Europe writes a fraction
        try:
            value = int(typed) if self.kind == "whole" else float(typed)
        except ValueError:
            raise ValueError(f"{_quoted(text)}: type {self.range}.") from None
        return self.check(value)

    def check(self, value: Any) -> Any:
        """The same number, if it is in the range.

        Raises:
            ValueError: it is not; the message is a sentence.
        """
        low = -math.inf if self.low is None else self.low
        high = math.inf if self.high is None else self.high
        # Compared as they are: an endless number of digits has no float.
        if not (low <= value <= high and -math.inf < value < math.inf) or (self.above and value == low):
            raise ValueError(f"{plain(value)} does not fit here: type {self.range}.")
        return value


def plain(value: float) -> str:
    """A number as it is typed, without a needless fraction or exponent."""
    if isinstance(value, int):
        return str(value) if abs(value) < 10**15 else f"{str(value)[:6]}…"
    if not math.isfinite(value):
        return str(value)
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else f"{value:.10g}"


def _quoted(text: str) -> str:
    text = text.strip()
    return f"“{text if len(text) <= 24 else text[:23] + '…'}” does not fit here" if text else "Nothing is typed"


@lru_cache(maxsize=1)
def options() -> dict[str, Option]:
    """All settings by key, in the order in which they are shown."""
    engine = {f"engine.{spec.name}": spec for spec in dataclasses.fields(MLLMSchedulerConfig)}
    made = {
        key: _of_engine(key, words, engine.pop(key)) if key in engine else _of_app(key, words)
        for key, words in WORDS.items()
    }
    # A field that nobody has found words for yet is shown as the engine describes it.
    return made | {key: _of_engine(key, _engine_words(spec), spec) for key, spec in engine.items()}


def of_page(page: Page) -> tuple[Option, ...]:
    """The settings of one page."""
    return tuple(option for option in options().values() if option.page == page)


def _engine_words(spec: dataclasses.Field[Any]) -> Words:
    label = spec.name.replace("_", " ").capitalize()
    return Words("Advanced", label, spec.metadata["help"], empty="Automatic" if spec.default is None else "")


def _of_engine(key: str, words: Words, spec: dataclasses.Field[Any]) -> Option:
    """An option of the engine's configuration; its kind and range are those of the field."""
    meta, low = spec.metadata, spec.metadata["low"]
    option = _told(key, words, _kind(str(spec.type), "choices" in meta), spec.default)
    return dataclasses.replace(
        option,
        unit=words.unit or meta["unit"],
        low=max(1, low) if words.empty and words.empty_value == 0 else low,
        high=meta["high"],
        choices=tuple((value, words.choices.get(value, str(value))) for value in meta.get("choices", ())),
    )


def _of_app(key: str, words: Words) -> Option:
    """An option of the app's own; its range is that of the settings' field."""
    group, _, name = key.rpartition(".")
    spec = (Generation if group == "generation" else Settings).model_fields[name]
    bounds = {
        name: getattr(part, name) for part in spec.metadata for name in ("ge", "gt", "le", "lt") if hasattr(part, name)
    }
    low = bounds.get("ge", bounds.get("gt"))
    assert words.kind is not None
    return dataclasses.replace(
        _told(key, words, words.kind, spec.default),
        unit=words.unit,
        low=max(1, low) if low is not None and words.empty and words.empty_value == 0 else low,
        high=bounds.get("le"),
        above="gt" in bounds,
        choices=tuple(words.choices.items()),
    )


def _told(key: str, words: Words, kind: Kind, default: Any) -> Option:
    return Option(
        key, words.page, words.label, words.help, kind, default, empty=words.empty, empty_value=words.empty_value
    )


def _kind(type_name: str, chosen: bool) -> Kind:
    if chosen:
        return "choice"
    if "PathLike" in type_name:
        return "folder"
    return "switch" if type_name == "bool" else "number" if "float" in type_name else "whole"
