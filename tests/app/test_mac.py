"""Files that the system hands over, and the hold that keeps it awake."""

from pathlib import Path

from PySide6.QtCore import QUrl
from PySide6.QtGui import QFileOpenEvent

from app import mac


class Recorder:
    """An object runtime that answers with numbers and keeps what it was told."""

    def __init__(self):
        self.sent = []

    def named(self, name):
        return f"class {name}"

    def send(self, receiver, message, *arguments):
        self.sent.append((receiver, message, *arguments))
        return len(self.sent)


def opened(path):
    return QFileOpenEvent(QUrl.fromLocalFile(str(path)))


def test_files_that_come_together_are_handed_on_together_in_order(qtbot):
    inbox, taken = mac.Inbox(), []
    inbox.open_with(taken.append)
    for name in ("/b.png", "/a ü.png", "/c.mov"):
        assert inbox.put(opened(name))
    assert taken == []
    qtbot.waitUntil(lambda: bool(taken))
    assert taken == [[Path("/b.png"), Path("/a ü.png"), Path("/c.mov")]]


def test_files_that_come_before_anybody_can_take_them_wait(qtbot, qapp):
    inbox, taken = mac.Inbox(), []
    inbox.put(opened("/early.png"))
    qapp.processEvents()
    inbox.put(opened("/second.png"))
    qapp.processEvents()
    inbox.open_with(taken.append)
    assert taken == [[Path("/early.png"), Path("/second.png")]]
    inbox.put(opened("/late.png"))
    qtbot.waitUntil(lambda: len(taken) == 2)
    assert taken[1] == [Path("/late.png")]


def test_an_address_that_is_no_file_is_left_to_others(qapp):
    assert not mac.Inbox().put(QFileOpenEvent(QUrl("mailto:someone")))


def test_the_hold_begins_an_activity_keeps_its_token_and_ends_it():
    runtime = Recorder()
    release = mac.hold("Answering", runtime)
    assert runtime.sent == [
        ("class NSProcessInfo", "processInfo"),
        ("class NSString", "stringWithUTF8String:", b"Answering"),
        (1, "beginActivityWithOptions:reason:", 0x00FFFFFF, 2),
        (3, "retain"),
    ]
    runtime.sent.clear()
    release()
    assert runtime.sent == [(1, "endActivity:", 3), (3, "release")]


def test_off_a_mac_nothing_is_held(monkeypatch):
    monkeypatch.setattr(mac, "MAC", False)
    monkeypatch.setattr(mac, "ObjectiveC", None)
    mac.hold("Answering")()
