"""What an answer cost, in words and units: one line under it, and every figure on a sheet."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from app.state.turn import AnswerFacts

_MTP_OFF = {
    "disabled": "off in the settings",
    "no_head": "off: the model has no head for it",
    "batch": "off: other chats answered at the same time",
    "logits_processors": "off: a rule needed each token before the next",
    "json_schema": "off: a schema needed each token before the next",
    "measuring": "off: plain speed was being measured",
    "slower": "off: plain decoding was faster",
    "error": "off: a step with it failed",
}
_ENDS = {
    "stop": "the model was done",
    "length": "the limit of its length",
    "abort": "it was stopped",
    "error": "an error",
}


def facts_line(facts: AnswerFacts) -> str:
    """The figures that matter most."""
    parts = [count(facts.completion_tokens, "token")]
    if facts.tokens_per_second is not None:
        parts.append(f"{_figures(facts.tokens_per_second)} tok/s")
    if facts.ttft_s is not None:
        parts.append(f"{_figures(facts.ttft_s)} s to first token")
    if facts.cached_tokens:
        parts.append(f"{_reused(facts)} % of {facts.prompt_tokens} prompt tokens reused")
    elif facts.prompt_tokens:
        parts.append(f"{facts.prompt_tokens} prompt tokens")
    if facts.mtp_drafts:
        parts.append(f"MTP {_accepted(facts)} %")
    return " · ".join(parts)


def facts_sheet(facts: AnswerFacts) -> str:
    """Every figure that was measured, one a line."""
    lines = [f"Answer: {count(facts.completion_tokens, 'token')}"]
    if facts.tokens_per_second is not None:
        lines.append(f"Speed: {_figures(facts.tokens_per_second)} tok/s after the first token")
    if facts.ttft_s is not None:
        lines.append(f"First token: after {_figures(facts.ttft_s)} s")
    if facts.thinking_s is not None:
        lines.append(f"Thinking: {duration(facts.thinking_s)}")
    if facts.prompt_tokens:
        lines.append(f"Prompt: {count(facts.prompt_tokens, 'token')}")
        lines.append(f"Reused: {count(facts.cached_tokens, 'token')} ({_reused(facts)} % of the prompt)")
    lines.append(_mtp(facts))
    lines.append(f"Ended by: {_ENDS.get(facts.finish_reason or '', '')}" if facts.finish_reason in _ENDS else "")
    return "\n".join(line for line in lines if line)


def duration(seconds: float) -> str:
    """A stretch of time as it is spoken of: 0.4 s, 12 s, 3 min 5 s."""
    if seconds < 60:
        figures = f"{seconds:.0f}" if seconds == int(seconds) else _figures(seconds)
        return f"{figures} s" if round(seconds) < 60 else "1 min"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if rest else f"{minutes} min"


def count(number: int, noun: str) -> str:
    """Such as "1 token" or "3 tokens"."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _mtp(facts: AnswerFacts) -> str:
    if facts.mtp_drafts:
        return f"MTP: {facts.mtp_accepted} of {facts.mtp_drafts} drafted tokens accepted ({_accepted(facts)} %)"
    return f"MTP: {_MTP_OFF[facts.mtp_off]}" if facts.mtp_off in _MTP_OFF else ""


def _accepted(facts: AnswerFacts) -> int:
    return round(100 * facts.mtp_accepted / facts.mtp_drafts)


def _reused(facts: AnswerFacts) -> int:
    return round(100 * facts.cached_tokens / facts.prompt_tokens)


def _figures(value: float) -> str:
    """At most three significant digits, never an exponent."""
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}"
