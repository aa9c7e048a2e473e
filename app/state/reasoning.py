"""What a model thinks aloud, told apart from what it answers, while both arrive in pieces of any size."""

from __future__ import annotations

from typing import NamedTuple

from engine.think_tags import ThinkTags


class Parts(NamedTuple):
    """What one piece adds to the thoughts and to the answer."""

    reasoning: str = ""
    text: str = ""


class Splitter:
    """Sorts a reply into thoughts and answer; the sum of what it returns does not depend on how the reply was cut.

    A reply thinks where the prompt has opened its thinking block, or where it begins with an opening tag. The first
    closing tag ends that; from then on everything is answer, tags included, for an answer may speak of them. Space
    around the thoughts and before the answer after them belongs to neither.
    """

    def __init__(self, *, opened: bool, reasoning: str = "", text: str = "", tags: ThinkTags | None = None) -> None:
        """Start a reply, or go on with one that has these parts already.

        Args:
            opened: the prompt ends inside a thinking block.
            reasoning: thoughts so far.
            text: answer so far.
            tags: around the thoughts; None takes the usual ones.
        """
        self._tags = tags or ThinkTags()
        self._thinks = opened
        self._decided = opened or bool(text.strip())
        self._fresh = not (reasoning if opened else text).strip()
        """Nothing was let through yet to the part that is being written."""
        self._trims = opened
        self._held = ""

    @property
    def thinks(self) -> bool:
        """Whether what comes next is a thought."""
        return self._thinks

    def add(self, piece: str) -> Parts:
        """Take the next piece and return what can be told of it."""
        self._held += piece
        if not self._decided and not self._decide():
            return Parts()
        return self._think() if self._thinks else Parts(text=self._answer())

    def finish(self) -> Parts:
        """End the reply and return what was held back."""
        held, self._held = self._held, ""
        if self._thinks:
            return Parts(reasoning=self._begun(held).rstrip())
        if not self._decided and held.lstrip().startswith(self._tags.opens):
            held = ""  # it ended within the opening tag
        return Parts(text=held)

    def _decide(self) -> bool:
        """Find out from the first words whether the reply begins with thoughts; False: too few of them yet."""
        start = self._held.lstrip()
        for tag in (self._tags.opens + self._tags.title, self._tags.closes, self._tags.opens):
            if start.startswith(tag):
                self._held = start[len(tag) :]
                self._decided = self._trims = True
                self._thinks = tag != self._tags.closes
                return True
            if tag.startswith(start):
                return False
        self._decided = True
        return True

    def _think(self) -> Parts:
        thought, closed, after = self._held.partition(self._tags.closes)
        if closed:
            told = self._begun(thought).rstrip()
            self._held, self._thinks, self._fresh = after, False, True
            return Parts(told, self._answer())
        told = self._begun(thought)
        keep = _open_length(told, self._tags.closes)
        self._held = told[len(told) - keep :]
        return Parts(reasoning=self._let(told[: len(told) - keep]))

    def _answer(self) -> str:
        told, self._held = self._held, ""
        return self._let(self._begun(told) if self._trims else told)

    def _begun(self, text: str) -> str:
        return text.lstrip() if self._fresh else text

    def _let(self, text: str) -> str:
        self._fresh = self._fresh and not text
        return text


def _open_length(text: str, closes: str) -> int:
    """Length of the end that may turn out to be none of the thoughts: space, or the beginning of a closing tag."""
    for length in range(min(len(text), len(closes) - 1), 0, -1):
        if closes.startswith(text[-length:]):
            return length + _space_before(text[:-length])
    return _space_before(text)


def _space_before(text: str) -> int:
    return len(text) - len(text.rstrip())
