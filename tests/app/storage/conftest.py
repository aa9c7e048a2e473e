import sqlite3

import pytest

from app.storage.schema import MIGRATIONS


@pytest.fixture
def connection():
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.execute("PRAGMA foreign_keys = ON")
    for _, script in MIGRATIONS:
        connection.executescript(script)
    yield connection
    # Raise where an index and its text disagree; live turns are left out of theirs, so it is compared with itself only.
    connection.execute("INSERT INTO title_index (title_index, rank) VALUES ('integrity-check', 1)")
    connection.execute("INSERT INTO turn_index (turn_index) VALUES ('integrity-check')")
    connection.close()
