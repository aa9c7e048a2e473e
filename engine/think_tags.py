"""How families of models write a thinking block."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ThinkTags:
    """The marks around thoughts.

    Attributes:
        opens: before them.
        closes: after them.
        title: what a model writes right behind the opening tag; no part of its thoughts.
        gap: what it writes between the closing tag and its answer.
    """

    opens: str = "<think>"
    closes: str = "</think>"
    title: str = ""
    gap: str = "\n\n"

    @classmethod
    def of(cls, tokenizer: Any) -> ThinkTags:
        """Those of a tokenizer; the usual ones where it has no tokens for any."""
        added = tokenizer.get_added_vocab()
        return next((tags for tags in _KNOWN if tags.opens in added and tags.closes in added), cls())

    @property
    def opening(self) -> str:
        """All that stands before thoughts."""
        return f"{self.opens}{self.title}\n"

    @property
    def closing(self) -> str:
        """All that stands between thoughts and answer."""
        return f"\n{self.closes}{self.gap}"


_KNOWN = (ThinkTags(), ThinkTags("<|channel>", "<channel|>", "thought", ""))
"""Qwen's and most others', Gemma 4's."""
