"""What can go wrong in the engine, each with a sentence fit for a person."""


class EngineError(Exception):
    """Base of every expected failure: `str(error)` says what happened and what to do, without technical names."""


class MediaError(EngineError):
    """A picture, clip, sound or document cannot be used.

    Attributes:
        sound_only: The file was opened as a clip and holds sound but no picture, so it can be attached as sound.
        partial: A part of the picture is readable, and `read_image(..., allow_truncated=True)` would return it.
    """

    def __init__(self, message: str, *, sound_only: bool = False, partial: bool = False) -> None:
        super().__init__(message)
        self.sound_only = sound_only
        self.partial = partial


class MediaCancelled(EngineError):
    """The caller asked to stop while a file was being read; nothing is wrong with the file."""


class PromptTooLong(EngineError):
    """The prompt, media included, does not fit the context; the sentence names both numbers."""


class ModelLoadError(EngineError):
    """A model folder or download cannot be turned into a running model."""


class OutOfMemory(EngineError):
    """The work does not fit the memory budget; the sentence names what was needed and what there is."""


class RequestRejected(EngineError):
    """A request was refused before it was queued, such as for a duplicate id or an impossible parameter."""


def sentence(error: Exception) -> str:
    """What to tell a person about a failure, ours or not."""
    if isinstance(error, EngineError):
        return str(error)
    if isinstance(error, MemoryError) or "memory" in str(error).lower():
        return (
            "There was not enough memory for this answer. Close other chats or use a smaller picture, then try again."
        )
    return f"The model failed on this message ({error}). Try again; the log has the details."
