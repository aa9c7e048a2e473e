"""The same pixels have one name; anything else has another."""

import numpy as np
import pytest

from engine.media.fingerprint import fingerprint

BASE = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)


def test_it_is_128_bits_of_hex_and_the_same_for_equal_arrays() -> None:
    assert len(bytes.fromhex(fingerprint(BASE))) == 16
    assert fingerprint(BASE) == fingerprint(BASE.copy())


def test_memory_layout_does_not_matter() -> None:
    assert fingerprint(np.asfortranarray(BASE)) == fingerprint(BASE)
    assert fingerprint(np.repeat(BASE, 2, axis=1)[:, ::2]) == fingerprint(BASE)


@pytest.mark.parametrize(
    "other",
    [BASE.reshape(4, 2, 3), BASE.view(np.int8), BASE[::-1], BASE.astype(np.uint16), BASE[:0]],
    ids=["shape", "dtype", "order", "width", "empty"],
)
def test_any_difference_shows(other: np.ndarray) -> None:
    assert fingerprint(other) != fingerprint(BASE)


def test_geometry_is_part_of_the_name() -> None:
    names = {fingerprint(BASE, geometry) for geometry in ("", "patch 14", "patch 16")}
    assert len(names) == 3
