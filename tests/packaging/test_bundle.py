"""The Linux bundle, built from nothing and tested as a stranger would have it."""

import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.skipif(
    (sys.platform, platform.machine()) != ("linux", "x86_64") or shutil.which("python3.11") is None,
    reason="the Linux bundle is built on Linux with an x86-64 processor and Python 3.11",
)
def test_the_bundle_is_built_and_passes_its_own_test(tmp_path):
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", ROOT, clone], check=True)
    built = subprocess.run(
        [clone / "packaging" / "dev", "bundle"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stdout[-4000:]
    assert built.stdout.count("checks passed in") == 2
