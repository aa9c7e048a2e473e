"""Every distribution's licence goes along, and one without is refused."""

from importlib import metadata

import licences
import pytest


@pytest.fixture
def gathered(monkeypatch, tmp_path):
    names = ("numpy", "PySide6-Essentials", "pypdfium2", "latex2mathml")
    monkeypatch.setattr(licences, "installed", lambda: [metadata.distribution(name) for name in names])
    return licences.gather(tmp_path / "licences")


def test_texts_of_wheels_and_ours_are_there(gathered):
    assert (gathered / "numpy" / "licenses" / "LICENSE.txt").is_file()
    assert list((gathered / "pypdfium2").rglob("*"))
    for name in ("Apache-2.0", "GPL-2.0", "GPL-3.0", "LGPL-3.0", "MIT", "NOTICE", "Python"):
        assert (gathered / f"{name}.txt").stat().st_size > 500


def test_the_notice_names_each_with_its_version_and_licence(gathered):
    notice = (gathered / "NOTICE.txt").read_text()
    version = metadata.version("PySide6-Essentials")
    assert f"PySide6_Essentials {version}: LGPL-3.0-only OR GPL-2.0-only OR GPL-3.0-only" in notice
    assert "latex2mathml" in notice
    assert "Ronie Martinez" in notice
    assert "libavcodec 62." in notice
    assert "--enable-libx264" in notice


def test_gathering_again_leaves_nothing_from_before(gathered):
    (gathered / "stale.txt").touch()
    licences.gather(gathered)
    assert not (gathered / "stale.txt").exists()


def test_a_distribution_without_any_licence_is_refused_by_name(monkeypatch, tmp_path):
    info = tmp_path / "secret-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: secret\nVersion: 1.0\n")
    (info / "RECORD").write_text("secret-1.0.dist-info/METADATA,,\n")
    monkeypatch.setattr(licences, "installed", lambda: [metadata.Distribution.at(info)])
    with pytest.raises(licences.Unlicensed, match="secret brings no licence text"):
        licences.gather(tmp_path / "licences")


def test_every_distribution_that_is_installed_here_but_braid_is_found():
    names = {licences.normal(item.name) for item in licences.installed()}
    assert {"mlx", "mlx-vlm", "av", "qasync"} <= names
    assert "braid" not in names
