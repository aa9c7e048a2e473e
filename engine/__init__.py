"""Braid's engine: many vision-language chats in one batch on MLX.

This is the front door. Importing it loads neither MLX nor Qt; the heavy parts come with their first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from engine.config import MLLMSchedulerConfig
from engine.errors import EngineError, MediaError, ModelLoadError, OutOfMemory, PromptTooLong, RequestRejected
from engine.request import (
    MLLMRequest,
    MLLMSchedulerOutput,
    Phase,
    RequestOutput,
    RequestStatus,
    SamplingParams,
)

if TYPE_CHECKING:
    from engine.forecast import Estimate, estimate
    from engine.messages import format_chat
    from engine.models.loader import load_model, load_model_sync, unload_model
    from engine.scheduler import MLLMScheduler

_LAZY = {
    "MLLMScheduler": "engine.scheduler",
    "Estimate": "engine.forecast",
    "estimate": "engine.forecast",
    "format_chat": "engine.messages",
    "load_model": "engine.models.loader",
    "load_model_sync": "engine.models.loader",
    "unload_model": "engine.models.loader",
}

__all__ = [
    "EngineError",
    "Estimate",
    "MLLMRequest",
    "MLLMScheduler",
    "MLLMSchedulerConfig",
    "MLLMSchedulerOutput",
    "MediaError",
    "ModelLoadError",
    "OutOfMemory",
    "Phase",
    "PromptTooLong",
    "RequestOutput",
    "RequestRejected",
    "RequestStatus",
    "SamplingParams",
    "close",
    "estimate",
    "format_chat",
    "load_model",
    "load_model_sync",
    "unload_model",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'engine' has no attribute {name!r}")
    return getattr(importlib.import_module(_LAZY[name]), name)


async def close() -> None:
    """Give the device back, in the one order that ends the process cleanly; does nothing when there is none.

    Drop models and schedulers first: what they hold is freed here. A forgotten call is made at interpreter exit.
    """
    import sys

    if "engine.device" in sys.modules:
        sys.modules["engine.device"].close()
