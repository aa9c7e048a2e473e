"""What a dropped folder holds that can be attached."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from app.state.attachment import kind_of_name

_MOST_SEEN = 50_000


@dataclass(frozen=True, slots=True)
class Listing:
    """What was found.

    Attributes:
        taken: the first files, in the order of their names.
        found: how many there are in all.
        more: the folder is so large that counting was given up.
    """

    taken: tuple[Path, ...]
    found: int
    more: bool = False

    def limited(self, room: int) -> Listing:
        """The same folder with no more files taken than there is room for."""
        return replace(self, taken=self.taken[: max(room, 0)])

    def sentence(self, folder: str, limit: int) -> str:
        """What to tell a person; `limit` is how many attachments a message can hold."""
        taken, found = len(self.taken), f"{'more than ' if self.more else ''}{self.found:,}"
        if not self.found:
            return f"There is nothing in {folder} that Braid reads: no pictures, clips, sounds or PDF documents."
        if taken == self.found:
            return f"Took the only file of {folder}." if taken == 1 else f"Took all {taken} files of {folder}."
        return f"Took {taken} of {found} files of {folder}. A message can hold {limit} attachments."


def list_folder(folder: Path, room: int, should_stop: Callable[[], bool]) -> Listing:
    """Look for media in a folder and those inside it; for a pool thread. Hidden ones and texts are passed over."""
    taken: list[Path] = []
    found = seen = 0
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        seen += len(folders) + len(files)
        media = sorted(name for name in files if _is_media(name))
        found += len(media)
        taken += [Path(place, name) for name in media[: max(room - len(taken), 0)]]
        if seen > _MOST_SEEN or should_stop():
            return Listing(tuple(taken), found, more=True)
    return Listing(tuple(taken), found)


def _is_media(name: str) -> bool:
    return not name.startswith(".") and kind_of_name(name) not in (None, "text")
