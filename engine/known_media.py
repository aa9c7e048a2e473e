"""What earlier turns told about the media of a conversation, so that they are not decoded again."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

Found = TypeVar("Found")

_MOST = 4_096


class KnownMedia(Generic[Found]):
    """What was found in media, by what names their content; any thread may ask.

    Most media of a prompt are those of earlier turns, whose features or whole prefix are still cached: their pixels
    are not needed again.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: OrderedDict[Hashable, Found] = OrderedDict()

    def get(self, name: Hashable) -> Found | None:
        """What was put under this name."""
        with self._lock:
            if name in self._found:
                self._found.move_to_end(name)
            return self._found.get(name)

    def put(self, name: Hashable, found: Found) -> None:
        """Remember it; what was not asked for longest is forgotten."""
        with self._lock:
            self._found[name] = found
            while len(self._found) > _MOST:
                self._found.popitem(last=False)
