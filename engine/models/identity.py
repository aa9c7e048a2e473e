"""What tells one loaded model's states from another's: weights, processor, precision and the layout of its caches."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from importlib.metadata import version
from pathlib import Path
from typing import Any

from mlx.utils import tree_flatten

from engine.errors import ModelLoadError
from engine.models.layers import Codec
from engine.tensor_file import specs

_FORMAT = 1
"""Of stored files; counts up when older ones can no longer be read."""
_CONFIGS = ("config.json", "preprocessor_config.json", "video_preprocessor_config.json", "processor_config.json")


def identity(model: Any, cache: list[Any], codec: Codec) -> Callable[[], str]:
    """A function that names everything a stored state depends on; it reads files, so any thread may run it.

    Args:
        model: loaded.
        cache: fresh layers of it.
        codec: how states are packed.

    Raises:
        ModelLoadError: by the function, where the model has no folder to tell it from others.
    """
    folder = Path(getattr(model, "model_path", None) or "-")
    dtypes = sorted({str(array.dtype) for _, array in dict(tree_flatten(model.parameters())).items()})
    layout = [type(layer).__name__ for layer in cache]
    parts = [_FORMAT, version("mlx-vlm"), dtypes, layout, codec]
    return lambda: _identity(folder, parts)


def _identity(folder: Path, parts: list[Any]) -> str:
    digest = blake2b(repr(parts).encode(), digest_size=16)
    weights = sorted(folder.glob("*.safetensors"))
    if not weights:
        raise ModelLoadError("Only a model that was loaded from a folder can use the cache folder.")
    # A hub snapshot's folder is named after its revision, which changes with any file in it.
    digest.update(folder.resolve().name.encode() if folder.parent.name == "snapshots" else b"")
    for path in weights:
        for piece in specs(path):
            digest.update(piece)
    for name in _CONFIGS:
        path = folder / name
        digest.update(path.read_bytes() if path.is_file() else b"-")
    return digest.hexdigest()
