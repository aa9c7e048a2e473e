"""The packaging scripts are no package: they import each other by their plain names, and so do their tests."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "packaging"))


@pytest.fixture
def root() -> Path:
    return ROOT
