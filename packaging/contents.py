"""What goes into the bundle and what stays out, for the spec, the lock files, the checks and the tests."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NAME = "Braid"
IDENTIFIER = "app.braid.Braid"
MACOS = "14.0"
"""The oldest macOS that MLX's and Qt's libraries load on."""

DRAFTERS = ("speculative.drafters.qwen3_5_mtp",)
"""Packages of mlx_vlm whose models draft tokens for the others; imported by name too."""

SHARED_PROCESSORS = ("auto", "encoder_decoder", "gemma", "siglip")
"""Packages of transformers.models that families use besides their own."""

LEFT_OUT = (
    "accelerate",
    "cryptography",
    "cv2",
    "datasets",
    "fastapi",
    "hf_xet",
    "IPython",
    "matplotlib",
    "miniaudio",
    "mlx_audio",
    "mlx_vlm.chat_ui",
    "mlx_vlm.evals",
    "mlx_vlm.server",
    "pandas",
    "pyarrow",
    "pytest",
    "scipy",
    "sounddevice",
    "starlette",
    "tensorflow",
    "tkinter",
    "torch",
    "torchvision",
    "uvicorn",
)
"""Modules that libraries ask for on ways the app never takes."""

NOT_INSTALLED = (
    "cffi",
    "cryptography",
    "datasets",
    "dill",
    "fastapi",
    "hf-xet",
    "miniaudio",
    "mlx-audio",
    "multiprocess",
    "opencv-python",
    "pandas",
    "pyarrow",
    "pycparser",
    "python-multipart",
    "scipy",
    "sounddevice",
    "starlette",
    "uvicorn",
    "websockets",
    "xxhash",
)
"""Distributions that libraries ask for and the app never imports; the lock files leave them out."""

METADATA = (
    "av",
    "filelock",
    "huggingface_hub",
    "mlx",
    "mlx-vlm",
    "numpy",
    "packaging",
    "pillow",
    "PySide6-Essentials",
    "pyyaml",
    "regex",
    "requests",
    "safetensors",
    "tokenizers",
    "tqdm",
    "transformers",
)
"""Distributions whose versions are read when the program runs."""

QT_PLUGINS_LEFT_OUT = ("egldeviceintegrations", "generic", "networkinformation", "tls", "virtualkeyboard")
QT_PLATFORMS_LEFT_OUT = ("eglfs", "linuxfb", "minimalegl", "vkkhrdisplay", "vnc", "virtualkeyboard", "qpdf")
LIBRARIES_LEFT_OUT = (
    "libcudart",  # taken from the building machine where that has one
    *[
        f"{prefix}{name}"
        for prefix in ("libQt6", "Qt")
        for name in ("EglF", "Pdf", "Qml", "Quick", "ShaderTools", "VirtualKeyboard")
    ],
)

MARKED_NEWER = {"PySide6": (15, 0), "shiboken6": (15, 0)}
"""Packages whose own code says it needs a newer macOS than their wheels do. All system functions that it calls are
called by older code in these wheels too, so it should load on the older one."""


def version() -> str:
    """The version in pyproject.toml."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        return str(tomllib.load(file)["project"]["version"])


def families() -> tuple[str, ...]:
    """Families of models that the engine runs; mlx-vlm imports their code by name when a model is loaded."""
    source = ast.parse((ROOT / "engine" / "models" / "families.py").read_text(encoding="utf-8"))
    table = next(
        node.value
        for node in source.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == "FAMILIES"
    )
    assert isinstance(table, ast.Dict)
    return tuple(sorted(key.value for key in table.keys if isinstance(key, ast.Constant)))


def processors() -> set[str]:
    """Packages of transformers.models with the configurations, tokenizers and processors of these families."""
    return {name.removesuffix("_text") for name in families()} | set(SHARED_PROCESSORS)


def modules() -> list[str]:
    """Every module of the program: some are imported by name only."""
    paths = (path for top in ("app", "engine") for path in (ROOT / top).rglob("*.py") if path.name != "__main__.py")
    return sorted(".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for path in paths)


def resources() -> list[Path]:
    """Every file of resources/, which the app finds beside its own code in a tree and in the bundle alike."""
    return sorted(path for path in (ROOT / "resources").rglob("*") if path.is_file() and not path.name.startswith("."))


def wanted(target: str) -> bool:
    """Whether a collected file belongs in the bundle; `target` is its path there."""
    parts = Path(target).parts
    if "plugins" in parts and "PySide6" in parts:
        kind, name = parts[-2], parts[-1]
        return not (kind in QT_PLUGINS_LEFT_OUT or any(word in name for word in QT_PLATFORMS_LEFT_OUT))
    if "PySide6" in parts and {"translations", "qml"} & set(parts):
        return False
    return not any(Path(target).name.startswith(library) for library in LIBRARIES_LEFT_OUT)


def excluded(transformers: Path) -> list[str]:
    """Dotted names that must not be collected; `transformers` is that package's folder.

    Its 560 families of models need torch, which the app never has. Their tokenizers stay, since one family borrows
    another's; so do the configurations and processors of the families that the engine runs.
    """
    kept = processors()
    stays = ("__init__", "tokenization_")
    others = [
        f"transformers.models.{path.parent.name}.{path.stem}"
        for path in sorted((transformers / "models").glob("*/*.py"))
        if not path.stem.startswith(stays)
        and (path.stem.startswith(("modeling_", "modular_")) or path.parent.name not in kept)
        and path.parent.name != "auto"
    ]
    qt = [f"PySide6.{path}" for path in _OTHER_QT]
    return [*LEFT_OUT, *others, *qt]


_OTHER_QT = (
    "QtConcurrent",
    "QtDesigner",
    "QtHelp",
    "QtOpenGL",
    "QtOpenGLWidgets",
    "QtPrintSupport",
    "QtQml",
    "QtQuick",
    "QtQuickControls2",
    "QtQuickTest",
    "QtQuickWidgets",
    "QtSql",
    "QtTest",
    "QtUiTools",
    "QtXml",
)


if __name__ == "__main__":
    print(version())
