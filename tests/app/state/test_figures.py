import pytest

from app.state.figures import CacheFigures, MtpFigures, sample

STATS = {
    "num_waiting": 1,
    "num_running": 2,
    "loop_stall_ms": {"p50": 0.5, "p99": 3.0, "max": 4.0},
    "metal_active_memory_gb": 0.25,
    "metal_cache_memory_gb": 0.05,
    "metal_peak_memory_gb": 0.5,
    "memory_budget_gb": 7.0,
    "backend": "cpu",
}
DRAFTS = {
    "enabled": True,
    "effective_draft_tokens": 1,
    "attempted": 40,
    "acceptance_rate": 0.75,
    "tokens_per_round": 1.7,
}


def read(**told):
    return sample({**STATS, **told}, 0.0, ())


def entry(status="running", phase="generation", detail="", off=None):
    return {"status": status, "phase": phase, "detail": detail, "mtp": {"off": off}}


def test_what_is_not_told_is_not_there():
    figures = read(ssd_cache={})
    assert (figures.prefix, figures.vision, figures.ssd, figures.mtp) == (None,) * 4
    assert (figures.wait_reason, figures.streams) == ("", ())


def test_caches_are_read_in_bytes_with_what_they_count():
    prefix = {"hits": 3, "misses": 1, "hit_rate": 0.75, "tokens_saved": 900, "entry_count": 2}
    size = {"current_memory_mb": 1.5, "max_memory_mb": 100.0}
    assert read(memory_aware_cache=prefix | size).prefix == CacheFigures(1_500_000, 100_000_000, 2, 0.75, 900)
    cold = {"hits": 3, "entry_count": 2, "problem": "The disk is full."}
    assert read(ssd_cache=cold | size).ssd == CacheFigures(1_500_000, 100_000_000, 2, problem="The disk is full.")


def test_a_cache_that_nobody_asked_has_no_hit_rate():
    told = {"hits": 0, "misses": 0, "hit_rate": 0.0, "entry_count": 0, "current_memory_mb": 0.0, "max_memory_mb": 0.0}
    assert read(vision_embedding_cache=told).vision == CacheFigures(0, 0, 0)


def test_the_first_question_in_the_queue_says_what_it_waits_for():
    requests = [entry(), entry("waiting", "queued", "Waiting for memory."), entry("waiting", "queued", "Later.")]
    assert read(requests=requests).wait_reason == "Waiting for memory."


@pytest.mark.parametrize(
    ("told", "requests", "off"),
    [
        ({"enabled": False}, [], "Off in the settings"),
        ({"effective_draft_tokens": 0}, [], "This model cannot predict ahead"),
        ({}, [], None),
        ({}, [entry(phase="prefill", off="batch")], None),
        ({}, [entry(off="batch"), entry(off="batch")], "Resting while several answers are written"),
        ({}, [entry(off="batch"), entry(off=None)], None),
        ({}, [entry(off="moon")], "Resting (moon)"),
    ],
)
def test_drafting_says_why_it_is_off(told, requests, off):
    assert read(mtp=DRAFTS | told, requests=requests).mtp == MtpFigures(0.75, 1.7, off)


def test_drafts_not_yet_made_have_no_rate():
    assert read(mtp=DRAFTS | {"attempted": 0, "acceptance_rate": 0.0}).mtp == MtpFigures(None, None, None)


def test_every_reason_of_the_engine_has_words():
    from typing import get_args

    from app.state.figures import _OFF
    from engine.request import MtpOff

    assert set(get_args(MtpOff)) == set(_OFF)
