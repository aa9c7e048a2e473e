"""What identifies a prompt position: its token, or for media the content that stands there."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from engine.prompt import MediaItem

Key = NDArray[np.uint64]
"""``(positions, 2)``: a text token is (id, 0); a media position has 127 bits of content hash and place."""

_MEDIA_BIT = np.uint64(1 << 63)


def prefix_key(ids: Sequence[int], media: Sequence[MediaItem] = ()) -> Key:
    """The key of a prompt: same words with another picture agree exactly up to that picture."""
    key = np.zeros((len(ids), 2), np.uint64)
    key[:, 0] = ids
    for item in media:
        digest = blake2b(f"{item.kind}/{item.key}".encode(), digest_size=16).digest()
        high, low = np.frombuffer(digest, np.uint64)
        place = np.uint64(0)
        for start, length in item.slots:
            key[start : start + length, 0] = high | _MEDIA_BIT
            # Wraps around: numbering the positions must not cost bits of the hash.
            key[start : start + length, 1] = low + place + np.arange(length, dtype=np.uint64)
            place += np.uint64(length)
    return key


def extended(key: Key, ids: Sequence[int]) -> Key:
    """The key with text tokens after it."""
    return np.concatenate([key, prefix_key(ids)])


def common_length(one: Key, other: Key) -> int:
    """Positions that two keys share from their beginning."""
    length = min(len(one), len(other))
    differing = np.flatnonzero((one[:length] != other[:length]).any(axis=1))
    return int(differing[0]) if differing.size else length
