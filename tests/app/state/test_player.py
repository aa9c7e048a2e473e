import stat
from pathlib import Path

import pytest

from app.state.player import _PLAYERS, Player


@pytest.fixture
def player(tmp_path, monkeypatch):
    name = next(iter(_PLAYERS))
    (tmp_path / name).write_text("#!/bin/sh\nexec sleep 30\n")
    (tmp_path / name).chmod(stat.S_IRWXU)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    player = Player(find=lambda wanted: str(tmp_path / name) if wanted == name else None)
    yield player
    player.stop()


def test_one_sound_plays_until_it_is_stopped_or_another_begins(qapp, player):
    changes = []
    player.changed.connect(lambda: changes.append(player.playing))
    assert player.play(Path("a.wav"))
    assert player.play(Path("b.flac"))
    player.stop()
    assert changes == [Path("a.wav"), None, Path("b.flac"), None]


def test_a_sound_that_ends_by_itself_is_told(qtbot, player, tmp_path):
    (tmp_path / next(iter(_PLAYERS))).write_text("#!/bin/sh\nexit 0\n")
    with qtbot.waitSignals([player.changed, player.changed]):
        player.play(Path("a.wav"))
    assert player.playing is None


def test_what_no_player_here_plays_is_left_to_the_system(qapp, player):
    assert not player.play(Path("a.xyz"))
    assert not Player(find=lambda name: None).play(Path("a.wav"))
