import stat

import pytest

from app.state.screenshot import _TOOLS, Screenshot
from tests.app import files


@pytest.fixture
def chat(library):
    library.current.composer.told = []
    library.current.composer.notice.connect(library.current.composer.told.append)
    return library.current


def tool(folder, script, monkeypatch):
    """Put a stand-in for the platform's tool first on the path."""
    name = _TOOLS[0][0]
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(stat.S_IRWXU)
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    return lambda wanted: str(folder / name) if wanted == name else None


def test_what_the_tool_writes_becomes_an_attachment(run, until, chat, tmp_path, monkeypatch):
    source = files.picture(tmp_path / "screen.png")
    screenshot = Screenshot(find=tool(tmp_path, f'for last; do :; done; cp {source} "$last"', monkeypatch))

    async def go():
        screenshot.take(chat.composer)
        screenshot.take(chat.composer)  # one at a time
        await until(lambda: [chip.state for chip in chat.composer.chips] == ["ready"])

    run(go())
    assert chat.composer.chips[0].name.startswith("Screenshot ")
    assert chat.composer.told == []


def test_giving_up_leaves_nothing(run, until, chat, tmp_path, monkeypatch):
    screenshot = Screenshot(find=tool(tmp_path, "exit 1", monkeypatch))

    async def go():
        screenshot.take(chat.composer)
        await until(lambda: screenshot._process is None)

    run(go())
    assert (chat.composer.chips, chat.composer.told) == ((), [])


def test_without_a_tool_one_sentence_says_what_to_do(chat):
    Screenshot(find=lambda name: None).take(chat.composer)
    assert len(chat.composer.told) == 1
    assert chat.composer.told[0].startswith("There is no program here that takes screenshots.")


def test_a_tool_that_does_not_start_is_told(run, until, chat, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    screenshot = Screenshot(find=lambda name: name)

    async def go():
        screenshot.take(chat.composer)
        await until(lambda: chat.composer.told)

    run(go())
    assert "could not be started" in chat.composer.told[0]
