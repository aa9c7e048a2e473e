"""A model folder → a running model: imports, configuration and weights, in slices that leave the window free."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from engine import device
from engine.errors import ModelLoadError
from engine.models.local import examine
from engine.models.weights import read_weights

log = logging.getLogger(__name__)

Progress = Callable[[float, str], None]
"""``(fraction 0..1, stage)``; the stage is fit for a person."""

_HEADED = ("qwen3_5", "qwen3_5_moe")
"""Families whose prediction head ``engine.mtp`` can run."""
_SLICE_BYTES = 64 << 20
"""Weights evaluated per unit: small enough that the loop never waits long for the GIL between slices."""


async def load_model(source: str | Path, *, on_progress: Progress | None = None) -> tuple[Any, Any]:
    """Load a model and its processor while the loop goes on.

    Args:
        source: a model folder, or a hub id that is already in the Hugging Face cache.
        on_progress: called on the loop's thread.

    Raises:
        ModelLoadError: the folder is missing, incomplete, damaged or of an unknown family.
    """
    loading = Loading(source)
    home = device.home()
    try:
        for stage, unit in loading.units():
            _tell(on_progress, loading.fraction, stage)
            await home.run(unit)
    except BaseException:  # also when cancelled, which takes effect between two units
        await home.run(loading.drop)
        raise
    _tell(on_progress, 1.0, "Ready")
    return loading.model, loading.processor


async def unload_model(model: Any) -> None:
    """Give a model's memory back, whoever still holds it; it cannot be used any more. Stop its scheduler first."""
    await device.home().run(partial(_empty, model))


def load_model_sync(source: str | Path, *, on_progress: Progress | None = None) -> tuple[Any, Any]:
    """The blocking twin of ``load_model``."""
    loading = Loading(source)
    home = device.home()
    for stage, unit in loading.units():
        _tell(on_progress, loading.fraction, stage)
        home.run_here(unit)
    _tell(on_progress, 1.0, "Ready")
    return loading.model, loading.processor


def _tell(on_progress: Progress | None, fraction: float, stage: str) -> None:
    if on_progress is not None:
        on_progress(fraction, stage)


class Loading:
    """One model on its way from disk; ``units`` yields the pieces of work in order."""

    def __init__(self, source: str | Path) -> None:
        self.folder = model_folder(source)
        self.fraction = 0.0
        self.model: Any = None
        self.processor: Any = None
        self._weights: list[Any] = []

    def units(self) -> Iterator[tuple[str, Callable[[], None]]]:
        """(stage, unit) pairs; each unit must have run before the next pair is asked for."""
        yield "Starting the engine", self._import
        self.fraction = 0.1
        yield "Reading the model", self._build
        self.fraction = 0.3
        slices = list(_slices(self._weights))
        for number, part in enumerate(slices):
            yield "Loading weights", partial(self._evaluate, part)
            self.fraction = 0.3 + 0.65 * (number + 1) / len(slices)
        self._weights.clear()
        yield "Measuring the model", self._measure

    def drop(self) -> None:
        """Unit: give back what was loaded so far, whoever still holds it."""
        self._weights.clear()
        if self.model is not None:
            _empty(self.model)

    def _import(self) -> None:
        # Inside a unit: module constants made at import belong to the stream they are made on.
        import mlx_vlm.utils

        del mlx_vlm

    def _build(self) -> None:
        import mlx.core as mx
        from mlx.utils import tree_flatten
        from mlx_vlm.speculative.drafters import load_drafter
        from mlx_vlm.utils import load

        try:
            self.model, self.processor = load(str(self.folder), lazy=True)
            if self.model.config.model_type in _HEADED and has_prediction_head(self.folder):
                # A child of the model, so that its type and weights go with the model's.
                self.model.mtp = load_drafter(str(self.folder), lazy=True)[0]
                gc.collect(1)  # loading leaves the head's unconverted weights in a young cycle
        except Exception as error:
            # Whatever is wrong inside (JSON, shapes, names, tensors), the person can do one thing: replace it.
            log.exception("Loading %s failed", self.folder)
            raise ModelLoadError(
                f"The model in “{self.folder.name}” cannot be loaded: {_reason(error)}. "
                "Download it again, or choose another."
            ) from error
        if mx.default_device().type == mx.DeviceType.cpu:
            # MLX's CPU backend is many times slower with bfloat16 than with float32.
            self.model.set_dtype(mx.float32)
        self._weights = [array for _, array in list(tree_flatten(self.model.parameters()))]

    def _evaluate(self, part: slice) -> None:
        import mlx.core as mx

        try:
            mx.eval(self._weights[part])
        except RuntimeError as error:
            raise ModelLoadError(
                f"The model's weights cannot be read: {_reason(error)}. Download it again, or choose another."
            ) from error

    def _measure(self) -> None:
        from engine.models.families import open_port

        open_port(self.model, self.processor).measure()


def _empty(model: Any) -> None:
    """Take the weights out of every module: who else holds the model, or a cycle, then keeps no memory."""
    for module in model.modules():
        module.clear()
    _clear_cache()


def _clear_cache() -> None:
    import mlx.core as mx

    mx.clear_cache()


def _slices(weights: list[Any]) -> Iterator[slice]:
    """Runs of arrays of about the size that one unit evaluates."""
    start, size = 0, 0
    for stop, array in enumerate(weights, 1):
        size += array.nbytes
        if size >= _SLICE_BYTES or stop == len(weights):
            yield slice(start, stop)
            start, size = stop, 0


def _reason(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else "it is damaged"


def model_folder(source: str | Path) -> Path:
    """The folder that holds a model.

    Raises:
        ModelLoadError: there is none, it lacks files, or its family is not supported.
    """
    folder = Path(source).expanduser()
    if not folder.is_dir():
        folder = _cached_snapshot(str(source))
    if problem := examine(folder).problem:
        raise ModelLoadError(problem)
    return folder


def has_prediction_head(folder: Path) -> bool:
    """Whether a model folder carries the weights of a multi-token prediction head (``mtp.*``)."""
    return read_weights(folder).prediction_head


def _cached_snapshot(repo: str) -> Path:
    """The newest complete snapshot of a hub id in the Hugging Face cache."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(repo, local_files_only=True))
    except HFValidationError as error:
        raise ModelLoadError(f"There is no model folder at “{repo}”. Check the path.") from error
    except LocalEntryNotFoundError as error:
        raise ModelLoadError(f"The model “{repo}” is not on this computer. Download it first.") from error
