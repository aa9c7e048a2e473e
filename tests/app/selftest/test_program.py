"""The self-test of the whole program, as the bundle will run it: without anything that the bundle leaves out."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PROGRAM = """
import sys
from tests.packaging import left_out
left_out.hide()
from app.__main__ import main
sys.exit(main(["--selftest", "--json"]))
"""
CHECKS = [
    "Versions",
    "Pictures",
    "PDF page",
    "Clips",
    "Sound",
    "Window",
    "Dropped picture",
    "Sound refused",
    "Lent stream",
    "Cold cache",
    "Libraries",
    "Program",
    "Settings and library",
]


@pytest.fixture(scope="module")
def told():
    # Neither a home nor a screen: what it needs it brings along.
    environment = {name: value for name, value in os.environ.items() if name in ("PATH", "TMPDIR")}
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return json.loads(ended.stdout)


def test_every_check_holds(told):
    assert [check["name"] for check in told["checks"]] == CHECKS
    assert told["ok"]
    assert all(check["ok"] for check in told["checks"])


def test_it_tells_what_it_found(told):
    found = {check["name"]: check["told"] for check in told["checks"]}
    assert "mlx 0." in found["Versions"]
    assert found["Dropped picture"] == 'What does the text say? The text says "TAXI".'
    assert found["Sound refused"] == "This model cannot hear sound. Remove it, or choose a model that takes audio."
    assert found["Lent stream"].startswith("200 units lent")
    assert re.fullmatch(r"\d\.\d MB written, [1-9]\d* tokens read back", found["Cold cache"])
    assert "libmlx." in found["Libraries"]


def test_json_belongs_to_the_self_test():
    ended = subprocess.run(
        [sys.executable, "-m", "app", "--json"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 2
    assert "--json belongs to --selftest" in ended.stderr
