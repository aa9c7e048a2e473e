"""The settings' names and sentences for people; where a range or unit comes from the engine it is not repeated here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

Page = Literal["Cache", "MTP", "General", "Model", "Generation", "Media", "Appearance", "Advanced"]
Kind = Literal["switch", "whole", "number", "choice", "folder", "folders"]


@dataclass(frozen=True, slots=True)
class Words:
    """How one setting is told.

    Attributes:
        help: one sentence.
        kind: how it is chosen; None where the engine's field says so.
        choices: names of the values it can have.
        empty: what leaving the choice to Braid is called; "" where that cannot be.
        empty_value: the value that means so.
    """

    page: Page
    label: str
    help: str
    kind: Kind | None = None
    unit: str = ""
    choices: Mapping[Any, str] = field(default_factory=dict)
    empty: str = ""
    empty_value: Any = None


WORDS: Final[dict[str, Words]] = {
    "engine.cache_memory_mb": Words(
        "Cache",
        "Memory for all caches",
        "Earlier turns and pictures share it; it wins over the two limits below.",
        empty="Automatic",
    ),
    "engine.enable_prefix_cache": Words(
        "Cache", "Keep earlier turns", "A follow-up question then skips everything the model has already read."
    ),
    "engine.prefix_cache_memory_mb": Words(
        "Cache",
        "Memory for earlier turns",
        "The chats used longest ago go first when it is full.",
        empty="Automatic",
    ),
    "engine.use_memory_aware_cache": Words(
        "Cache",
        "Limit earlier turns by memory",
        "Off: only the number of chats below limits them, however much memory that takes.",
    ),
    "engine.prefix_cache_entries": Words(
        "Cache", "Chats kept", "Most chats whose earlier turns are kept in memory.", unit="chats"
    ),
    "engine.enable_vision_cache": Words(
        "Cache", "Keep pictures", "A picture that was shown before is not looked at again, in any chat."
    ),
    "engine.vision_cache_mb": Words(
        "Cache", "Memory for pictures", "The pictures used longest ago go first when it is full.", empty="Automatic"
    ),
    "engine.vision_cache_size": Words(
        "Cache", "Pictures kept", "Most pictures and clips kept in memory.", unit="pictures"
    ),
    "engine.kv_cache_quantization": Words(
        "Cache",
        "Keep earlier turns in fewer bits",
        "Holds two to four times as many chats; answers that build on them may differ a little.",
    ),
    "engine.kv_cache_quantization_bits": Words(
        "Cache", "Bits per value", "Fewer bits hold more chats and lose more detail."
    ),
    "engine.kv_cache_quantization_group_size": Words(
        "Cache", "Values that share a scale", "Smaller groups are more exact and take more memory.", unit="values"
    ),
    "engine.ssd_cache_dir": Words(
        "Cache",
        "Cache folder on disk",
        "Chats that leave memory are kept there, also over a restart.",
        empty="Off",
    ),
    "engine.ssd_cache_max_gb": Words("Cache", "Disk space for it", "For all models together."),
    "engine.enable_mtp": Words(
        "MTP",
        "Predict several tokens at once",
        "The model's own prediction head drafts, the model checks: the answer stays the same and may come faster.",
    ),
    "engine.mtp_num_draft_tokens": Words(
        "MTP", "Tokens drafted per step", "More drafts pay only where most of them are right."
    ),
    "engine.mtp_policy": Words(
        "MTP",
        "When to draft",
        "Braid measures the speed with and without drafts, and goes the faster way.",
        choices={"auto": "Where it is faster", "always": "Always"},
    ),
    "notifications": Words(
        "General",
        "Tell when an answer is ready",
        "While another program is in front.",
        kind="switch",
    ),
    "unload_after_minutes": Words(
        "General",
        "Unload the model when idle",
        "Gives its memory back after so long without a question; the next question loads it again.",
        kind="whole",
        unit="minutes",
        empty="Never",
    ),
    "model_folders": Words(
        "Model", "Model folders", "Models are looked for there and in the Hugging Face cache.", kind="folders"
    ),
    "engine.memory_limit_gb": Words(
        "Model",
        "Memory for the model and its chats",
        "A question that would need more waits until another one has ended.",
        empty="Automatic",
    ),
    "engine.max_kv_size": Words(
        "Model",
        "Longest conversation",
        "Questions, pictures and answers of one chat together; automatic is as long as the model can.",
        empty="Automatic",
        empty_value=0,
    ),
    "engine.default_max_tokens": Words(
        "Generation", "Longest answer", "An answer that reaches it ends there; 100 tokens are about 75 words."
    ),
    "generation.thinking": Words(
        "Generation",
        "Think before answering",
        "For models that can: slower, and better at hard questions.",
        kind="switch",
    ),
    "generation.temperature": Words(
        "Generation", "Temperature", "0 always takes the likeliest word; higher is more varied.", kind="number"
    ),
    "generation.top_p": Words(
        "Generation", "Top-p", "Only the likeliest words that together reach this share; 1 takes all.", kind="number"
    ),
    "generation.top_k": Words(
        "Generation",
        "Top-k",
        "Only so many of the likeliest words.",
        kind="whole",
        empty="All",
        empty_value=0,
    ),
    "generation.min_p": Words(
        "Generation",
        "Min-p",
        "Only words at least this likely, measured against the likeliest one; 0 takes all.",
        kind="number",
    ),
    "generation.presence_penalty": Words(
        "Generation", "Presence penalty", "Above 0 avoids words that have already come up.", kind="number"
    ),
    "generation.frequency_penalty": Words(
        "Generation", "Frequency penalty", "Above 0 avoids words the more often they have come up.", kind="number"
    ),
    "generation.repetition_penalty": Words(
        "Generation",
        "Repetition penalty",
        "Above 1 avoids repeating the text so far; 1 changes nothing.",
        kind="number",
    ),
    "generation.seed": Words(
        "Generation",
        "Seed",
        "The same number gives the same answer to the same question.",
        kind="whole",
        empty="Random",
    ),
    "engine.default_video_fps": Words(
        "Media", "Frames per second of video", "More frames see faster movement, and take longer to read."
    ),
    "engine.max_video_frames": Words(
        "Media", "Most frames of one video", "A longer clip is sampled more sparsely to stay within it."
    ),
    "engine.allow_remote_media": Words(
        "Media",
        "Fetch from the web",
        "Dropped links to pictures, clips, sounds and documents are fetched; their servers see it. Off: none are.",
    ),
    "appearance": Words(
        "Appearance",
        "Colours",
        "The theme of every window; changes at once.",
        kind="choice",
        choices={"system": "Like the system", "light": "Light", "dark": "Dark"},
    ),
    "font_scale": Words(
        "Appearance", "Size of text", "Of everything in the window; 100 is the usual size.", kind="whole", unit="%"
    ),
    "reduce_motion": Words(
        "Appearance", "Less movement", "On: nothing pulses. Off: as the system is set.", kind="switch"
    ),
    "engine.max_num_seqs": Words(
        "Advanced", "Answers at once", "Most questions worked on at the same time; others wait.", unit="answers"
    ),
    "engine.prefill_batch_size": Words(
        "Advanced", "Questions read at once", "Most questions whose text and pictures are being read.", unit="questions"
    ),
    "engine.completion_batch_size": Words(
        "Advanced", "Answers written at once", "Most answers that get their next word together.", unit="answers"
    ),
    "engine.prefill_step_size": Words(
        "Advanced", "Longest piece of reading", "Larger pieces read faster and need more memory for a moment."
    ),
    "engine.chunked_prefill_tokens": Words(
        "Advanced",
        "Reading while others write",
        "How much of a new question is read between two words of the answers that stream.",
        empty="Automatic",
        empty_value=0,
    ),
    "engine.unit_budget_ms": Words(
        "Advanced", "Longest pause of a streaming answer", "Larger reads new questions faster, with longer pauses."
    ),
    "engine.lend_stream": Words(
        "Advanced", "Work beside the window", "Off only for finding faults: the window then stalls with each step."
    ),
}
"""By key, in the order in which they are shown."""
