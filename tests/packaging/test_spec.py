"""The spec, run with stand-ins for PyInstaller's classes: what it collects and what it makes of it."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace

import contents
import licences
import pytest

from engine.models.download import WORKER_FLAG

ROOT = Path(__file__).parents[2]
PACKAGING = ROOT / "packaging"


def fake_hooks(**functions):
    """PyInstaller's helpers, which its package brings and the tests do without."""
    hooks = ModuleType("PyInstaller.utils.hooks")
    hooks.copy_metadata = lambda name: [(f"{name}.dist-info", f"{name}.dist-info")]
    hooks.get_module_file_attribute = lambda name: find_spec(name).origin
    hooks.collect_submodules = lambda name: [name, f"{name}.part"]
    hooks.collect_data_files = lambda name: []
    return hooks


@pytest.fixture
def pyinstaller(monkeypatch):
    hooks = fake_hooks()
    for name in ("PyInstaller", "PyInstaller.utils"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, "PyInstaller.utils.hooks", hooks)


@pytest.fixture
def run_spec(pyinstaller, monkeypatch, tmp_path):
    """Run the spec as on a system; returns each class's positional and named arguments."""

    def run(platform):
        made = {}

        def stand_in(name, **attributes):
            def make(*positional, **named):
                made[name] = (positional, named)
                return SimpleNamespace(**attributes)

            return make

        monkeypatch.setattr(sys, "platform", platform)
        monkeypatch.setattr(licences, "installed", list)
        names = {name: stand_in(name) for name in ("PYZ", "EXE", "COLLECT", "BUNDLE")}
        collected = [("PySide6/Qt/translations/qt_de.qm", "", ""), ("av/frame.so", "", "")]
        names["Analysis"] = stand_in("Analysis", pure=[], scripts=[], binaries=list(collected), datas=list(collected))
        source = (PACKAGING / "app.spec").read_text()
        exec(compile(source, "app.spec", "exec"), {**names, "SPECPATH": str(PACKAGING), "workpath": str(tmp_path)})
        return made

    return run


def run_hook(name):
    scope = {}
    exec(compile((PACKAGING / "hooks" / name).read_text(), name, "exec"), scope)
    return scope


def test_linux_gets_a_folder_and_no_app(run_spec):
    made = run_spec("linux")
    assert "BUNDLE" not in made
    assert made["EXE"][1]["exclude_binaries"]
    assert made["EXE"][1]["target_arch"] is None


def test_a_mac_gets_the_folder_in_an_app_for_apple_silicon(run_spec):
    made = run_spec("darwin")
    assert made["EXE"][1]["target_arch"] == "arm64"
    app = made["BUNDLE"][1]
    assert app["name"] == "Braid.app"
    assert Path(app["icon"]).read_bytes()[:4] == b"icns"
    assert app["info_plist"]["CFBundleIdentifier"] == app["bundle_identifier"] == contents.IDENTIFIER


@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_nothing_is_packed_in_a_way_that_breaks_signatures_or_the_dock(run_spec, platform):
    made = run_spec(platform)
    assert made["EXE"][1]["upx"] is made["COLLECT"][1]["upx"] is False
    assert made["EXE"][1]["console"] is made["EXE"][1]["argv_emulation"] is False


def test_the_program_its_resources_licences_and_versions_go_in(run_spec):
    (scripts,), named = run_spec("linux")["Analysis"]
    assert [Path(script).name for script in scripts] == ["entry.py"]
    targets = {target for _, target in named["datas"]}
    assert {"resources/pocket", "resources/icons", "resources/selftest", "licences", "mlx.dist-info"} <= targets
    kept = {Path(source).name for source, target in named["datas"] if target == "resources/pocket"}
    assert {"model.safetensors", "config.json", "tokenizer.json"} <= kept


def test_every_module_of_the_program_goes_in_also_those_imported_by_name(run_spec):
    import engine

    imported = run_spec("linux")["Analysis"][1]["hiddenimports"]
    assert set(engine._LAZY.values()) <= set(imported)
    assert {"app", "app.views.window", "engine.models.download"} <= set(imported)
    assert all(find_spec(name) for name in imported if name.count(".") < 2)


@pytest.mark.parametrize("name", ["ziafont", "ziamath"])
def test_fonts_of_formulas_are_files_of_their_package(pyinstaller, name):
    hook = run_hook(f"hook-{name}.py")
    assert hook["hiddenimports"] == [f"{name}.fonts"]
    assert list((Path(find_spec(name).origin).parent / "fonts").glob("*.ttf"))


def test_collected_files_nobody_needs_are_dropped(run_spec):
    (_, binaries, datas), _ = run_spec("linux")["COLLECT"]
    assert [name for name, *_ in binaries] == [name for name, *_ in datas] == ["av/frame.so"]


def test_heavy_libraries_and_foreign_models_stay_out(run_spec):
    excludes = set(run_spec("linux")["Analysis"][1]["excludes"])
    assert {"torch", "pandas", "pyarrow", "datasets", "cv2", "PySide6.QtQml"} <= excludes
    models = {name.removeprefix("transformers.models.") for name in excludes if name.startswith("transformers.models.")}
    assert {"bert.configuration_bert", "bert.modeling_bert", "qwen3_5.modeling_qwen3_5"} <= models
    assert not models & {"bert.tokenization_bert", "qwen3_5.configuration_qwen3_5", "auto.modeling_auto"}


def test_the_model_code_of_every_family_that_the_engine_runs_goes_in(pyinstaller):
    from engine.models.families import FAMILIES

    assert set(contents.families()) == set(FAMILIES)
    imported = run_hook("hook-mlx_vlm.py")["hiddenimports"]
    for family in FAMILIES:
        assert f"mlx_vlm.models.{family}" in imported
        assert (Path(find_spec("mlx_vlm").origin).parent / "models" / family / "__init__.py").is_file()


def test_every_family_s_code_loads_without_what_is_left_out():
    program = """
import importlib
from tests.packaging import left_out
left_out.hide()
import contents
from transformers.models.auto import configuration_auto, tokenization_auto
for family in contents.families():
    importlib.import_module(f"mlx_vlm.models.{family}")
    configuration_auto.CONFIG_MAPPING[family]()
    named = tokenization_auto.TOKENIZER_MAPPING_NAMES.get(family)
    for name in (named or "TokenizersBackend", "LlamaTokenizerFast", "PreTrainedTokenizerFast"):
        assert tokenization_auto.tokenizer_class_from_name(name), (family, name)
    print(family)
"""
    loaded = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert loaded.returncode == 0, loaded.stderr
    assert loaded.stdout.split() == list(contents.families())


def test_every_named_package_exists_so_that_no_name_is_stale():
    transformers = Path(find_spec("transformers").origin).parent
    for name in contents.processors():
        assert (transformers / "models" / name / "__init__.py").is_file()
    for name in contents.DRAFTERS:
        assert find_spec("mlx_vlm").submodule_search_locations
        assert (Path(find_spec("mlx_vlm").origin).parent / Path(*name.split(".")) / "__init__.py").is_file()


def test_mlx_keeps_its_library_in_its_place_and_its_hidden_imports(pyinstaller):
    hook = run_hook("hook-mlx.core.py")
    assert hook["bindepend_symlink_suppression"] == ["**/mlx/lib/*"]
    for name in hook["hiddenimports"]:
        assert find_spec(name) is not None


def test_on_a_mac_the_metal_library_goes_beside_mlx(pyinstaller, monkeypatch, tmp_path):
    library = tmp_path / "mlx" / "lib"
    library.mkdir(parents=True)
    for name in ("mlx.metallib", "libmlx.dylib", "libjaccl.dylib"):
        (library / name).touch()
    hooks = sys.modules["PyInstaller.utils.hooks"]
    monkeypatch.setattr(hooks, "get_module_file_attribute", lambda _: str(tmp_path / "mlx" / "core.so"))
    monkeypatch.setattr(sys, "platform", "darwin")
    hook = run_hook("hook-mlx.core.py")
    assert hook["datas"] == [(str(library / "mlx.metallib"), "mlx/lib")]
    assert hook["binaries"] == [(str(library / "libjaccl.dylib"), "mlx/lib")]


@pytest.mark.parametrize(
    ("target", "wanted"),
    [
        ("PySide6/Qt/plugins/platforms/libqxcb.so", True),
        ("PySide6/Qt/plugins/platforms/libqoffscreen.so", True),
        ("PySide6/Qt/plugins/platforms/libqcocoa.dylib", True),
        ("PySide6/Qt/plugins/platforms/libqeglfs.so", False),
        ("PySide6/Qt/plugins/tls/libqopensslbackend.so", False),
        ("PySide6/Qt/lib/libQt6Core.so.6", True),
        ("PySide6/Qt/lib/libQt6Quick.so.6", False),
        ("PySide6/Qt/translations/qtbase_de.qm", False),
        ("libcudart.so", False),
        ("numpy/_core/plugins.so", True),
    ],
)
def test_what_is_wanted(target, wanted):
    assert contents.wanted(target) is wanted


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["--version"], f"Braid {contents.version()}\n"),
        ([WORKER_FLAG, "--help"], "usage: entry.py [-h] --cache CACHE"),
    ],
)
def test_the_bundle_is_the_app_and_its_helper(arguments, shown):
    told = subprocess.run(
        [sys.executable, PACKAGING / "entry.py", *arguments],
        env={"PYTHONPATH": str(ROOT), "QT_QPA_PLATFORM": "offscreen"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout.startswith(shown)
