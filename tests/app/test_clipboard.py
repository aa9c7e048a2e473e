"""What was copied outlives the app, or goes with it, but never crashes it."""

import os
import subprocess
import sys

from app import clipboard

COPY = """
from PySide6.QtCore import QMimeData
from PySide6.QtWidgets import QApplication
from app import clipboard

application = QApplication([])
copied = QMimeData()
copied.setText("a formula's source")
application.clipboard().setMimeData(copied)
del copied
clipboard.let_go()
print(application.clipboard().text())
"""


def test_text_that_python_has_put_together_does_not_crash_the_end():
    environment = os.environ | {"QT_QPA_PLATFORM": "offscreen"}
    ended = subprocess.run([sys.executable, "-c", COPY], env=environment, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "a formula's source\n", "")


def test_what_qt_has_copied_stays_as_it_is(qapp):
    qapp.clipboard().setText("words")
    before = qapp.clipboard().mimeData()
    clipboard.let_go()
    assert qapp.clipboard().mimeData() is before
    assert qapp.clipboard().text() == "words"
    qapp.clipboard().clear()
