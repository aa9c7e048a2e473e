"""What is wrong with a bundle is found without starting it."""

import struct
from pathlib import Path

import cask
import contents
import macho
import pytest
import verify_bundle

ARM64, X86_64 = 0x0100000C, 0x01000007
LOCK = "".join(f"{name}==1.0 \\\n    --hash=sha256:{'0' * 64}\n" for name in contents.METADATA)


def code(processor=ARM64, minimum=(14, 0), command=0x32):
    version = minimum[0] << 16 | minimum[1] << 8
    body = struct.pack("<4I", 1, version, 0, 0) if command == 0x32 else struct.pack("<2I", version, 0)
    uuid = struct.pack("<2I16x", 0x1B, 24)
    load = struct.pack("<2I", command, 8 + len(body)) + body
    return struct.pack("<8I", 0xFEEDFACF, processor, 0, 6, 2, len(uuid + load), 0, 0) + uuid + load


def universal(*parts):
    head, bodies, offset = struct.pack(">2I", 0xCAFEBABE, len(parts)), b"", 4096
    for processor, body in parts:
        head += struct.pack(">5I", processor, 0, offset + len(bodies), len(body), 12)
        bodies += body
    return head.ljust(4096, b"\0") + bodies


def slices(path, data):
    path.write_bytes(data)
    with path.open("rb") as file:
        return list(macho.slices(file))


def add(folder, name, data=b""):
    target = folder / "_internal" / name
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(data)


@pytest.fixture
def bundle(tmp_path):
    """The smallest bundle with nothing wrong."""
    folder = tmp_path / "braid"
    add(folder, "mlx/lib/libmlx.so")
    for source in contents.resources():
        add(folder, str(source.relative_to(contents.ROOT)), source.read_bytes())
    for name in contents.METADATA:
        add(folder, f"{name}-1.0.dist-info/METADATA", f"Name: {name}\nVersion: 1.0\n".encode())
    for name in ("NOTICE", "Apache-2.0", "LGPL-3.0", "GPL-2.0", "Python"):
        add(folder, f"licences/{name}.txt")
    return folder


def wrong(folder):
    return list(verify_bundle.problems(folder, LOCK))


def test_a_sound_bundle_has_no_problems(bundle):
    assert wrong(bundle) == []


@pytest.mark.parametrize(
    ("name", "data", "sentence"),
    [
        ("libmlx.so", b"", "There are 2 copies of libmlx."),
        ("cv2/cv2.so", b"", "cv2 is in the bundle and should not be."),
        ("numpy-1.0.dist-info/METADATA", b"Name: numpy\nVersion: 0.9\n", "numpy is 0.9, the lock file says 1.0."),
        ("resources/styles/braid.qss", b"other", "resources/styles/braid.qss is not the one of this tree."),
        ("a.so", code(X86_64), "a.so has no code for Apple silicon."),
        ("a.so", code(minimum=(15, 1)), "a.so needs macOS 15.1."),
        ("PySide6/QtCore.so", code(minimum=(15, 1)), "QtCore.so needs macOS 15.1."),
    ],
)
def test_what_does_not_belong_is_named(bundle, name, data, sentence):
    add(bundle, name, data)
    found = wrong(bundle)
    assert len(found) == 1 + (name == "libmlx.so")
    assert found[0].startswith(sentence)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("mlx/lib/libmlx.so", "There are 0 copies of libmlx."),
        ("resources/pocket/config.json", "resources/pocket/config.json is missing."),
        ("licences/LGPL-3.0.txt", "The licence LGPL-3.0.txt is missing."),
        ("av-1.0.dist-info/METADATA", "The version of av cannot be read in the bundle."),
    ],
)
def test_what_is_missing_is_named(bundle, name, sentence):
    (bundle / "_internal" / name).unlink()
    (found,) = wrong(bundle)
    assert found.startswith(sentence)


def test_the_metal_library_must_be_beside_mlx_s(bundle):
    (bundle / "_internal" / "mlx/lib/libmlx.so").unlink()
    add(bundle, "mlx/lib/libmlx.dylib", code())
    assert wrong(bundle) == ["The Metal library is not beside libmlx.dylib."]
    add(bundle, "mlx/lib/mlx.metallib")
    assert wrong(bundle) == []


def test_too_large_a_bundle_is_refused_and_told_apart(bundle, monkeypatch):
    add(bundle, "numpy/core.so", b"x" * 3_000_000)
    assert verify_bundle.made_of(bundle, verify_bundle.files(bundle))[1] == ("numpy", 3.0)
    monkeypatch.setattr(verify_bundle, "MAX_MB", 2)
    assert wrong(bundle)[-1].endswith("MB; 2 MB are the most.")


def test_code_says_for_which_processors_and_systems_it_is(tmp_path):
    both = universal((X86_64, code(X86_64, (10, 13), 0x24)), (ARM64, code(minimum=(11, 0))))
    assert slices(tmp_path / "a", both) == [macho.Slice(X86_64, (10, 13)), macho.Slice(ARM64, (11, 0))]
    assert slices(tmp_path / "b", code(command=0x2)) == [macho.Slice(ARM64, None)]
    assert slices(tmp_path / "c", universal((ARM64, b"!<arch>\n".ljust(64)))) == []


@pytest.mark.parametrize("data", [b"", b"\xca\xfe\xba\xbe\x00\x00\x00\x41", b"\x7fELF....", b"\xcf\xfa"])
def test_other_files_are_no_code_for_a_mac(tmp_path, data):
    (tmp_path / "file").write_bytes(data)
    assert not macho.is_code(tmp_path / "file")


def test_the_cask_names_the_image_by_its_hash(tmp_path):
    image = tmp_path / "Braid-1.dmg"
    image.write_bytes(b"image")
    written = cask.cask(image, "https://braid.example")
    assert 'sha256 "6105d6cc76af400325e94d588ce511be5bfdbb73b437dc51eca43917d7a43e3d"' in written
    assert "depends_on arch: :arm64" in written
    assert "$" not in written
    assert "library" not in written  # chats are kept


def test_files_of_the_tree_are_found():
    assert Path("resources/pocket/model.safetensors") in [p.relative_to(contents.ROOT) for p in contents.resources()]
