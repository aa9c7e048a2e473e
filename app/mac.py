"""What a Mac wants of an app besides its window; elsewhere these do nothing or are never called."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any, Protocol

MAC = sys.platform == "darwin"
_USER_INITIATED = 0x00FFFFFF
"""NSActivityUserInitiated: no App Nap, and the machine stays awake."""


class Runtime(Protocol):
    """Apple's object runtime, as far as it is used here; objects are addresses."""

    def named(self, name: str) -> int:
        """The class of that name."""

    def send(self, receiver: int, message: str, *arguments: bytes | int) -> int:
        """Send a message with texts, numbers and objects; the answer is an object, or 0."""


class ObjectiveC:
    """The runtime itself, by ctypes."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("/usr/lib/libobjc.dylib")
        ctypes.CDLL("/System/Library/Frameworks/Foundation.framework/Foundation")
        self._find = self._function("objc_getClass", ctypes.c_char_p)
        self._register = self._function("sel_registerName", ctypes.c_char_p)

    def named(self, name: str) -> int:
        """The class of that name."""
        return int(self._find(name.encode()) or 0)

    def send(self, receiver: int, message: str, *arguments: bytes | int) -> int:
        """Send a message; on ARM every argument needs its own type, so each call has its own prototype."""
        kinds = [ctypes.c_char_p if isinstance(value, bytes) else ctypes.c_uint64 for value in arguments]
        send = self._function("objc_msgSend", ctypes.c_void_p, ctypes.c_void_p, *kinds)
        return int(send(receiver, self._register(message.encode()), *arguments) or 0)

    def _function(self, name: str, *arguments: Any) -> Any:
        address = ctypes.cast(getattr(self._library, name), ctypes.c_void_p).value
        return ctypes.CFUNCTYPE(ctypes.c_void_p, *arguments)(address or 0)


def hold(reason: str, runtime: Runtime | None = None) -> Callable[[], None]:
    """Keep the system from slowing Braid down or falling asleep, until the returned function is called.

    Args:
        reason: shown by the system's tools.
        runtime: None takes the system's own; off a Mac nothing is held.
    """
    if runtime is None:
        if not MAC:
            return lambda: None
        runtime = ObjectiveC()
    process = runtime.send(runtime.named("NSProcessInfo"), "processInfo")
    why = runtime.send(runtime.named("NSString"), "stringWithUTF8String:", reason.encode())
    token = runtime.send(process, "beginActivityWithOptions:reason:", _USER_INITIATED, why)
    runtime.send(token, "retain")  # it would go with the next turn of the loop

    def release() -> None:
        runtime.send(process, "endActivity:", token)
        runtime.send(token, "release")

    return release


def reduces_motion(runtime: Runtime | None = None) -> bool:
    """Whether the person has asked the Mac for less movement; only there."""
    runtime = runtime or ObjectiveC()
    workspace = runtime.send(runtime.named("NSWorkspace"), "sharedWorkspace")
    # A truth value fills one byte of the register; the rest of it is anything.
    return bool(runtime.send(workspace, "accessibilityDisplayShouldReduceMotion") & 0xFF)
