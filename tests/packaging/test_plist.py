"""Info.plist and the entitlements: right types, right keys, and no permission too many."""

import plistlib

import contents
import plist
import pytest

USAGES = ("Desktop", "Documents", "Downloads")


@pytest.fixture(scope="module")
def information():
    return plist.information()


def test_it_survives_a_round_trip_and_leaves_no_placeholder(information):
    written = plistlib.dumps(information)
    assert plistlib.loads(written) == information
    assert b"${" not in written


def test_versions_are_texts_from_one_place(information):
    assert information["CFBundleShortVersionString"] == information["CFBundleVersion"] == contents.version()
    assert information["LSMinimumSystemVersion"] == "14.0"


def test_switches_are_booleans(information):
    assert information["NSHighResolutionCapable"] is True
    assert information["LSRequiresNativeExecution"] is True


def test_it_is_an_app_for_apple_silicon(information):
    assert information["CFBundlePackageType"] == "APPL"
    assert information["LSArchitecturePriority"] == ["arm64"]
    assert information["NSPrincipalClass"] == "NSApplication"


def test_it_opens_media_without_ever_becoming_the_default_for_them(information):
    (kind,) = information["CFBundleDocumentTypes"]
    assert kind["LSItemContentTypes"] == ["public.image", "public.movie", "public.audio", "com.adobe.pdf"]
    assert (kind["CFBundleTypeRole"], kind["LSHandlerRank"]) == ("Viewer", "Alternate")


def test_every_folder_it_may_ask_for_says_why_in_a_sentence(information):
    asked = {key: value for key, value in information.items() if key.endswith("UsageDescription")}
    assert {f"NS{name}FolderUsageDescription" for name in USAGES} <= set(asked)
    assert all(value.startswith("Braid reads") and value.endswith(".") for value in asked.values())
    assert "NSMicrophoneUsageDescription" not in asked


def test_the_entitlements_are_the_smallest_set(root):
    granted = plistlib.loads((root / "packaging" / "entitlements.plist").read_bytes())
    assert granted == {"com.apple.security.cs.allow-unsigned-executable-memory": True}
