"""packaging/dev parses its arguments, sets up once, and says in one sentence what is missing."""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOLS = ["bash", "cat", "cp", "dirname", "env", "grep", "mkdir", "rm", "sed", "sh"]

# Plays both the system's Python and the one in .venv; variables make a step fail.
FAKE_PYTHON = """#!/bin/sh
echo "$*" >>"$CALLS"
case "$*" in
    "- "*) echo fingerprint of $(cat pyproject.toml) ;;
    "-c import sys; sys.exit"*) exit "${WRONG_VERSION:-0}" ;;
    "-c import sys; print"*) echo python3.12 ;;
    "-c import ensurepip"*) exit "${NO_ENSUREPIP:-0}" ;;
    "-c import PySide6"*) [ -z "$QT_ERROR" ] || { echo "$QT_ERROR" >&2; exit 1; } ;;
    "-m venv"*) mkdir -p .venv/bin && cp "$0" .venv/bin/python ;;
    "-m pip install"*) exit "${PIP_STATUS:-0}" ;;
    "-m ruff check"*) exit "${RUFF_STATUS:-0}" ;;
esac
"""


@dataclass
class Clone:
    """A checkout with nothing but the script, on a machine with nothing but a fake Python."""

    root: Path

    @property
    def bin(self) -> Path:
        return self.root / "bin"

    @property
    def log(self) -> Path:
        return self.root / "calls"

    def install(self, name: str, script: str) -> None:
        (self.bin / name).write_text(script)
        (self.bin / name).chmod(0o755)

    def dev(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        self.log.write_text("")
        return subprocess.run(
            [self.root / "packaging" / "dev", *arguments],
            env={"PATH": str(self.bin), "CALLS": str(self.log), **variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=30,
        )

    def calls(self) -> list[str]:
        return self.log.read_text().splitlines()


@pytest.fixture
def clone(tmp_path):
    made = Clone(tmp_path / "a clone")
    (made.root / "packaging").mkdir(parents=True)
    made.bin.mkdir()
    shutil.copy(ROOT / "packaging" / "dev", made.root / "packaging")
    (made.root / "packaging" / "constraints.txt").write_text("")
    (made.root / "pyproject.toml").write_text("one\n")
    for tool in TOOLS:
        os.symlink(str(shutil.which(tool)), made.bin / tool)
    made.install("uname", "#!/bin/sh\necho Linux\n")
    made.install("id", "#!/bin/sh\necho 1000\n")
    made.install("python3", FAKE_PYTHON)
    return made


def last_line(result: subprocess.CompletedProcess[str]) -> str:
    return result.stderr.splitlines()[-1]


def test_an_unknown_command_is_named_in_one_sentence(clone):
    result = clone.dev("tset")
    assert result.returncode == 2
    assert result.stderr == 'packaging/dev does not know "tset": use run, test, check, shot, bench or bundle.\n'
    assert not clone.calls()


@pytest.mark.parametrize(("arguments", "status", "stream"), [((), 2, "stderr"), (("--help",), 0, "stdout")])
def test_usage_is_shown(clone, arguments, status, stream):
    result = clone.dev(*arguments)
    assert result.returncode == status
    assert getattr(result, stream).startswith("Usage: packaging/dev COMMAND")


@pytest.mark.parametrize("status", [1, 127])
def test_a_python_that_is_too_old_or_only_a_shim_does_not_count(clone, status):
    result = clone.dev("check", WRONG_VERSION=str(status))
    assert result.returncode == 1
    assert result.stderr == "Braid needs Python 3.11, 3.12 or 3.13: install one of them, then run this again.\n"


def test_no_python_at_all_is_one_sentence(clone):
    (clone.bin / "python3").unlink()
    result = clone.dev("check")
    assert result.returncode == 1
    assert result.stderr.count("\n") == 1
    assert "Braid needs Python" in result.stderr


def test_a_python_without_venv_names_the_package(clone):
    result = clone.dev("check", NO_ENSUREPIP="1")
    assert result.returncode == 1
    assert "install the package python3.12-venv" in last_line(result)


def test_a_missing_system_library_is_named(clone):
    error = "ImportError: libGL.so.1: cannot open shared object file: No such file or directory"
    result = clone.dev("check", QT_ERROR=error)
    assert result.returncode == 1
    assert last_line(result).startswith("Qt needs the system library libGL.so.1, which is missing: install it")
    assert "libegl1" in last_line(result)


def test_a_failed_installation_is_tried_again(clone):
    result = clone.dev("check", PIP_STATUS="1")
    assert result.returncode == 1
    assert last_line(result).startswith("The Python packages could not be installed")
    assert clone.dev("check").returncode == 0
    assert any(call.startswith("-m pip install") for call in clone.calls())


def test_the_second_call_starts_at_once_until_the_requirements_change(clone):
    install = "-m pip install --quiet --disable-pip-version-check --no-input -e .[dev] -c packaging/constraints.txt"
    assert clone.dev("check").returncode == 0
    assert install in clone.calls()
    assert clone.dev("check").returncode == 0
    assert install not in clone.calls()
    (clone.root / "pyproject.toml").write_text("two\n")
    assert clone.dev("check").returncode == 0
    assert install in clone.calls()


def test_the_tests_run_after_the_checks_without_the_slow_ones(clone):
    assert clone.dev("test", "-x", "tests/engine dir").returncode == 0
    calls = clone.calls()
    assert calls[-1] == "-m pytest -m not slow -x tests/engine dir"
    assert "-m mypy --strict app engine" in calls


def test_all_includes_the_slow_tests_wherever_it_stands(clone):
    assert clone.dev("test", "-x", "--all", "-q").returncode == 0
    assert clone.calls()[-1] == "-m pytest -m  -x -q"


def test_failed_checks_stop_the_tests_but_not_the_other_checks(clone):
    result = clone.dev("test", RUFF_STATUS="1")
    assert result.returncode == 1
    assert last_line(result) == "The checks failed, so the tests were not run."
    assert "-m mypy --strict app engine" in clone.calls()
    assert not any(call.startswith("-m pytest") for call in clone.calls())


def test_running_needs_a_screen(clone):
    result = clone.dev("run")
    assert result.returncode == 1
    assert last_line(result).startswith("There is no screen to open a window on")
    assert not clone.calls()  # told before anything is installed
    assert clone.dev("run", "picture.png", DISPLAY=":0").returncode == 0
    assert clone.calls()[-1] == "-m app picture.png"


def test_what_shows_no_window_needs_no_screen(clone):
    for option in ("--selftest", "--version", "--help"):
        assert clone.dev("run", option).returncode == 0
        assert clone.calls()[-1] == f"-m app {option}"


def test_the_bundle_is_built_and_tried_without_the_environment_for_work(clone):
    for name in ("build", "try_bundle"):
        script = clone.root / "packaging" / name
        script.write_text(f'#!/bin/sh\necho {name} "$*" >>"$CALLS"\nexit "${{BUILD_STATUS:-0}}"\n')
        script.chmod(0o755)
    assert clone.dev("bundle", "--dry-run").returncode == 0
    assert clone.calls() == ["build --dry-run", "try_bundle --dry-run"]
    assert clone.dev("bundle", BUILD_STATUS="3").returncode == 3
    assert clone.calls() == ["build "]
