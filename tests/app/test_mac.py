"""The hold that keeps the system awake, and what a person wishes of a Mac."""

import pytest

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


@pytest.mark.parametrize(("answer", "wish"), [(0x1234_0000, False), (0x1234_0001, True), (0, False)])
def test_the_wish_for_less_movement_is_one_byte_of_what_comes_back(answer, wish):
    class Answers(Recorder):
        def send(self, receiver, message, *arguments):
            super().send(receiver, message, *arguments)
            return answer

    runtime = Answers()
    assert mac.reduces_motion(runtime) is wish
    assert [message for _, message in runtime.sent] == ["sharedWorkspace", "accessibilityDisplayShouldReduceMotion"]
