"""The lock files: complete, hashed, pinned to what is tested, and without addresses."""

import hashlib
import re
import tomllib

import contents
import licences
import pin
import pytest

ENTRY = re.compile(r"^([\w.\[\]-]+)==(\S+) \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", re.MULTILINE)


@pytest.fixture(params=["mac", "linux"])
def lock(request, root):
    return (root / "packaging" / f"requirements-{request.param}.lock").read_text()


def entries(text):
    return {licences.normal(name): (version, hashes.count("sha256")) for name, version, hashes in ENTRY.findall(text)}


def test_every_line_is_a_name_a_version_or_a_hash(lock):
    first, rest = lock.split("\n", 1)
    assert first.startswith("# What the bundle for ")
    assert ENTRY.sub("", rest) == ""
    assert "://" not in lock


def test_it_holds_the_versions_that_are_tested(lock, root):
    tested = dict(re.findall(r"^(\S+)==(\S+)$", (root / "packaging" / "constraints.txt").read_text(), re.MULTILINE))
    different = {
        name: (version, tested[name])
        for name, (version, _) in entries(lock).items()
        if tested.get(name, version) != version
    }
    assert not different


def test_it_holds_what_the_program_needs_and_nothing_that_only_others_ask_for(lock, root):
    needs = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    wanted = [*needs["dependencies"], *needs["optional-dependencies"]["bundle"]]
    names = {licences.normal(re.match(r"[\w.-]+", line)[0]) for line in wanted}
    assert names <= set(entries(lock))
    assert not set(contents.NOT_INSTALLED) & set(entries(lock))


def test_the_mac_takes_the_wheels_of_mlx_that_run_on_the_oldest_system(root):
    mac = entries((root / "packaging" / "requirements-mac.lock").read_text())
    assert mac["mlx-metal"][0] == mac["mlx"][0]
    assert (mac["mlx"][1], mac["mlx-metal"][1]) == (1, 1)
    assert "mlx-cpu" not in mac


def test_a_pinned_entry_keeps_one_hash_and_leaves_the_others_alone():
    good, other = (hashlib.sha256(text).hexdigest() for text in (b"good", b"other"))
    line = "    --hash=sha256:{}".format
    lock = f"# head\na==1 \\\n{line(good)}\nmlx==2 \\\n{line(other)} \\\n{line(good)}\nz==3 \\\n{line(other)}\n"
    kept = pin.narrowed(lock, "mlx", good)
    assert kept == f"# head\na==1 \\\n{line(good)}\nmlx==2 \\\n{line(good)}\nz==3 \\\n{line(other)}\n"
    with pytest.raises(ValueError, match="does not allow this wheel of z"):
        pin.narrowed(lock, "z", good)
