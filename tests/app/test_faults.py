import asyncio
import logging
import sys
import threading
import warnings

import pytest

from app import faults


@pytest.fixture
def log_file(tmp_path, monkeypatch):
    """Logging as the program sets it up, undone afterwards."""
    monkeypatch.setattr(faults, "qInstallMessageHandler", lambda _: None)  # pytest-qt has its own
    root = logging.getLogger()
    handlers, level, hooks = root.handlers[:], root.level, (sys.excepthook, threading.excepthook)
    path = faults.log_to(tmp_path / "logs")
    yield path
    for handler in set(root.handlers) - set(handlers):
        root.removeHandler(handler)
        handler.close()
    root.setLevel(level)
    logging.captureWarnings(False)
    sys.excepthook, threading.excepthook = hooks


def test_what_nobody_handled_is_logged_with_its_trace_and_told_without(run, loop, until, log_file, records):
    records.expect("Unhandled")
    told = []
    faults.catch(loop, told.append, log_file)

    def broken():
        raise ZeroDivisionError("from " + threading.current_thread().name)

    async def fail():
        broken()

    async def go():
        task = asyncio.create_task(fail())
        await asyncio.wait([task])
        loop.call_exception_handler({"message": "a task", "exception": task.exception()})
        thread = threading.Thread(target=broken, name="helper")
        thread.start()
        thread.join()
        sys.excepthook(ValueError, ValueError("a slot"), None)
        await until(lambda: len(told) == 3)

    run(go())
    written = log_file.read_text()
    assert written.count("ZeroDivisionError: from ") == 2
    assert "from helper" in written
    assert "ValueError: a slot" in written
    assert all("Error" not in sentence and str(log_file) in sentence for sentence in told)


def test_ctrl_c_is_no_fault(loop, log_file):
    faults.catch(loop, print, log_file)
    sys.excepthook(KeyboardInterrupt, KeyboardInterrupt(), None)
    assert "Unhandled" not in log_file.read_text()


def test_a_message_of_the_loop_without_an_exception_is_logged(loop, log_file, records):
    records.expect("never retrieved")
    faults.catch(loop, print, log_file)
    loop.call_exception_handler({"message": "Task exception was never retrieved"})
    assert "never retrieved" in log_file.read_text()


def test_qt_s_messages_and_warnings_reach_the_log(log_file, records):
    from PySide6.QtCore import QMessageLogContext, QtMsgType

    records.expect("a Qt warning")
    records.expect("a Python warning")
    faults._log_qt(QtMsgType.QtWarningMsg, QMessageLogContext(), "a Qt warning")
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        logging.captureWarnings(True)
        warnings.warn("a Python warning", stacklevel=1)
        logging.captureWarnings(False)
    assert "a Qt warning" in log_file.read_text()
    assert "a Python warning" in log_file.read_text()


def test_the_log_does_not_grow_without_end(tmp_path, log_file, monkeypatch):
    [handler] = [h for h in logging.getLogger().handlers if getattr(h, "baseFilename", "") == str(log_file)]
    handler.maxBytes = 500
    for _ in range(100):
        logging.getLogger("test").info("x" * 100)
    files = list(log_file.parent.glob("braid.log*"))
    assert len(files) == 1 + handler.backupCount
    assert all(file.stat().st_size <= 500 for file in files)
