"""What nobody expected: written to the log file, and told once in a sentence."""

from __future__ import annotations

import asyncio
import faulthandler
import logging
import sys
import threading
from collections.abc import Callable
from logging.handlers import RotatingFileHandler
from pathlib import Path
from types import TracebackType
from typing import Any

from PySide6.QtCore import QMessageLogContext, QtMsgType, qInstallMessageHandler

_log = logging.getLogger(__name__)
_LOG_BYTES = 1_000_000
_LOGS_KEPT = 3
_QT_LEVELS = {
    QtMsgType.QtDebugMsg: logging.DEBUG,
    QtMsgType.QtInfoMsg: logging.INFO,
    QtMsgType.QtWarningMsg: logging.WARNING,
    QtMsgType.QtCriticalMsg: logging.ERROR,
    QtMsgType.QtFatalMsg: logging.CRITICAL,
}


def log_to(folder: Path) -> Path:
    """Send all log records, warnings and Qt's messages to a rotating file in `folder`; returns the file.

    Raises:
        OSError: the folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "braid.log"
    handler = RotatingFileHandler(path, maxBytes=_LOG_BYTES, backupCount=_LOGS_KEPT, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(threadName)s %(name)s: %(message)s"))
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    logging.captureWarnings(True)
    qInstallMessageHandler(_log_qt)
    return path


def trace_crashes(path: Path) -> None:
    """Let a crash inside a library leave the stacks of all threads in `path`, which stays open until the end."""
    faulthandler.enable(path.open("w", encoding="utf-8"))


def catch(loop: asyncio.AbstractEventLoop, tell: Callable[[str], None], log_file: Path) -> None:
    """Log every exception that nobody handled, on any thread, and tell the person that it happened."""
    sentence = f"Something went wrong inside Braid. Your chats are safe; {log_file} says more."

    def caught(kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> None:
        if error is None or issubclass(kind, KeyboardInterrupt):
            return
        _log.critical("Unhandled", exc_info=(kind, error, trace))
        if not loop.is_closed():
            loop.call_soon_threadsafe(tell, sentence)

    def caught_in_loop(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if error is None:
            _log.error("%s", context["message"])
        else:
            caught(type(error), error, error.__traceback__)

    def caught_in_thread(args: threading.ExceptHookArgs) -> None:
        caught(args.exc_type, args.exc_value, args.exc_traceback)

    sys.excepthook = caught
    threading.excepthook = caught_in_thread
    loop.set_exception_handler(caught_in_loop)


def _log_qt(kind: QtMsgType, context: QMessageLogContext, message: str) -> None:
    logging.getLogger(f"qt.{context.category}").log(_QT_LEVELS[kind], "%s", message)
