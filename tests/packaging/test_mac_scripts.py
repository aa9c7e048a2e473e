"""The scripts for a Mac: they refuse the wrong host, tell their steps, and take them in the right order."""

import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGING = ROOT / "packaging"
SCRIPTS = ["build", "sign_notarize", "make_dmg"]
TOOLS = ["bash", "basename", "cat", "dirname", "grep", "mkdir", "rm", "sed", "touch"]
THIN = struct.pack("<8I", 0xFEEDFACF, 0x0100000C, 0, 6, 0, 0, 0, 0)
NAMES = {
    "BRAID_SIGNING_IDENTITY": "Someone",
    "BRAID_NOTARY_PROFILE": "profile",
    "BRAID_HOMEPAGE": "https://braid.example",
}

# Plays every tool of a Mac: keeps what it was called with, and answers for the notary.
FAKE_TOOL = """#!/bin/sh
echo "$(basename "$0") $*" >>"$CALLS"
case "$(basename "$0") $*" in
    "uname -s") echo "$SYSTEM" ;;
    "uname -m") echo "$PROCESSOR" ;;
    "sw_vers "*) echo "${VERSION:-14.5}" ;;
    "plutil -extract status"*) echo "${NOTARY:-Accepted}" ;;
    "plutil -extract id"*) echo 17 ;;
    "xcrun stapler validate"*) exit "${STAPLED:-0}" ;;
    "hdiutil "*) eval "touch \\"\\${$#}\\"" ;;
esac
"""


class Mac:
    """A copy of the scripts with a machine of the test's choice around them."""

    def __init__(self, root):
        self.root = root
        self.calls = root / "calls"
        shutil.copytree(PACKAGING, root / "packaging", ignore=shutil.ignore_patterns("pocket", "__pycache__", "*.lock"))
        shutil.copy(ROOT / "pyproject.toml", root)
        (root / "bin").mkdir()
        for tool in TOOLS:
            os.symlink(str(shutil.which(tool)), root / "bin" / tool)
        # The interpreter itself: a version manager's stand-in needs more than these tools.
        os.symlink(os.path.realpath(sys.executable), root / "bin" / "python3")
        for tool in (
            "uname",
            "sw_vers",
            "codesign",
            "xcrun",
            "ditto",
            "spctl",
            "plutil",
            "hdiutil",
            "ln",
            "python3.12",
        ):
            (root / "bin" / tool).write_text(FAKE_TOOL)
            (root / "bin" / tool).chmod(0o755)

    def run(self, script, *arguments, system="Darwin", processor="arm64", **variables):
        self.calls.write_text("")
        return subprocess.run(
            [self.root / "packaging" / script, *arguments],
            env={
                "PATH": str(self.root / "bin"),
                "CALLS": str(self.calls),
                "SYSTEM": system,
                "PROCESSOR": processor,
                **variables,
            },
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    def called(self, *tools):
        return [line for line in self.calls.read_text().splitlines() if line.split()[0] in tools]

    def make_app(self):
        app = self.root / "dist" / "Braid.app" / "Contents"
        for name in (
            "Frameworks/mlx/lib/libmlx.dylib",
            "Frameworks/QtCore.framework/Versions/A/QtCore",
            "Frameworks/a.so",
        ):
            (app / name).parent.mkdir(parents=True, exist_ok=True)
            (app / name).write_bytes(THIN)
        (app / "Resources").mkdir()
        (app / "Resources" / "picture.png").write_bytes(b"\x89PNG")
        (app / "Resources" / "libmlx.dylib").symlink_to("../Frameworks/mlx/lib/libmlx.dylib")
        (app / "MacOS").mkdir()
        (app / "MacOS" / "braid").write_text('#!/bin/sh\necho "braid $*" >>"$CALLS"\n')
        (app / "MacOS" / "braid").chmod(0o755)


@pytest.fixture
def mac(tmp_path):
    return Mac(tmp_path)


@pytest.mark.parametrize("script", [*SCRIPTS, "lock", "try_bundle", "dev", "steps.sh", "mac_steps.sh"])
def test_every_script_parses(script):
    subprocess.run(["bash", "-n", PACKAGING / script], check=True)


@pytest.mark.parametrize("script", ["build mac", "sign_notarize", "make_dmg"])
def test_another_system_is_refused_in_a_sentence(mac, script):
    result = mac.run(*script.split(), system="Linux", processor="x86_64")
    assert result.returncode == 1
    assert result.stderr.count("\n") == 1
    assert "on a Mac" in result.stderr
    assert "--dry-run" in result.stderr
    assert not mac.called("codesign", "xcrun", "hdiutil")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"processor": "x86_64"}, "MLX runs on Apple silicon only"),
        ({"VERSION": "13.6"}, "Braid needs macOS 14"),
        ({}, "The lock file is for Python 3.12"),
    ],
)
def test_a_mac_that_cannot_build_is_told_why(mac, changes, sentence):
    result = mac.run("build", **changes)
    assert (result.returncode, result.stderr.count("\n")) == (1, 1)
    assert result.stderr.startswith(sentence)


@pytest.mark.parametrize("script", SCRIPTS)
def test_an_unknown_option_is_named(mac, script):
    result = mac.run(script, "--fast")
    assert result.returncode == 1
    assert result.stderr == f"packaging/{script} does not know --fast: it takes --dry-run only.\n"


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_dry_run_tells_every_step_on_any_system_and_takes_none(mac, script):
    result = mac.run(script, "--dry-run", system="Linux", processor="x86_64")
    assert result.returncode == 0, result.stderr
    assert result.stderr.count("\n+ ") >= 4
    assert not mac.called("codesign", "xcrun", "ditto", "hdiutil", "spctl", "python3.12")
    assert not (mac.root / "dist").exists()


def test_the_build_installs_hashed_wheels_then_packs_checks_and_starts(mac):
    told = mac.run("build", "--dry-run", "mac").stderr.splitlines()
    assert "--require-hashes" in told[1]
    assert "--only-binary :all:" in told[1]
    assert "requirements-mac.lock" in told[1]
    assert [line.split()[-1] for line in told[2:]] == ["packaging/app.spec", "dist/Braid.app", "--help", "--selftest"]


def test_when_the_order_of_signing_cannot_be_told_nothing_is_signed(mac):
    mac.make_app()
    (mac.root / "packaging" / "signing_order.py").write_text("raise SystemExit(3)")
    assert mac.run("sign_notarize", **NAMES).returncode == 3
    assert not mac.called("codesign")


def test_names_are_asked_for_before_anything_is_signed(mac):
    mac.make_app()
    assert "BRAID_SIGNING_IDENTITY" in mac.run("sign_notarize").stderr
    assert "BRAID_NOTARY_PROFILE" in mac.run("sign_notarize", BRAID_SIGNING_IDENTITY="Someone").stderr
    assert "packaging/build" in mac.run("sign_notarize", "dist/None.app", **NAMES).stderr
    assert not mac.called("codesign")


def test_code_is_signed_inside_out_and_only_the_app_gets_entitlements(mac):
    mac.make_app()
    result = mac.run("sign_notarize", **NAMES)
    assert result.returncode == 0, result.stderr
    signed = [line for line in mac.called("codesign") if "--sign" in line]
    inside = "dist/Braid.app/Contents/Frameworks"
    assert [line.split()[-1] for line in signed] == [
        f"{inside}/QtCore.framework/Versions/A/QtCore",
        f"{inside}/mlx/lib/libmlx.dylib",
        f"{inside}/a.so",
        f"{inside}/QtCore.framework",
        "dist/Braid.app",
    ]
    assert all("--options runtime" in line and "--timestamp" in line for line in signed)
    assert ["--entitlements" in line for line in signed] == [False, False, False, False, True]


def test_the_app_is_verified_notarized_stapled_judged_and_started_in_this_order(mac):
    mac.make_app()
    mac.run("sign_notarize", **NAMES)
    last_sign = [i for i, line in enumerate(mac.calls.read_text().splitlines()) if "--sign" in line][-1]
    after = [" ".join(line.split()[:3]) for line in mac.calls.read_text().splitlines()[last_sign + 1 :]]
    assert after == [
        "codesign --verify --strict",
        "ditto -c -k",
        "xcrun notarytool submit",
        "plutil -extract status",
        "xcrun stapler staple",
        "spctl --assess --type",
        "braid --selftest",
    ]


def test_what_the_notary_refuses_is_told_and_nothing_is_stapled(mac):
    mac.make_app()
    result = mac.run("sign_notarize", NOTARY="Invalid", **NAMES)
    assert result.returncode == 1
    assert result.stderr.splitlines()[-1].startswith("Apple's notary refuses build/notarize.zip")
    assert mac.called("xcrun")[-1].startswith("xcrun notarytool log 17")


def test_the_image_holds_the_app_and_is_signed_notarized_and_published(mac):
    mac.make_app()
    result = mac.run("make_dmg", **NAMES)
    assert result.returncode == 0, result.stderr
    steps = [" ".join(line.split()[:2]) for line in mac.called("xcrun", "ditto", "ln", "hdiutil", "codesign", "spctl")]
    assert steps == [
        "xcrun stapler",
        "ditto dist/Braid.app",
        "ln -s",
        "hdiutil create",
        "codesign --force",
        "xcrun notarytool",
        "xcrun stapler",
        "spctl --assess",
    ]
    cask = (mac.root / "dist" / "braid.rb").read_text()
    assert 'url "https://braid.example/releases/download/v' in cask


def test_an_app_without_its_ticket_is_not_put_on_an_image(mac):
    mac.make_app()
    result = mac.run("make_dmg", STAPLED="1", **NAMES)
    assert result.returncode == 1
    assert "packaging/sign_notarize" in result.stderr
    assert not mac.called("hdiutil")
