"""What the checks found is told as it comes, and one failure is enough for the exit status."""

import asyncio
import io
import json

import pytest

from app.selftest import report
from app.selftest.report import Failed, Report


@pytest.fixture
def out():
    return io.StringIO()


async def fail():
    raise Failed("The cat sat on it.")


def run(work):
    asyncio.run(work)


def test_a_check_that_holds_is_one_line(out, records):
    told = Report(out, as_json=False)
    run(told.run("Pictures", lambda: "png"))
    assert out.getvalue() == "ok      Pictures              png (0.0 s)\n"
    assert told.end() == 0
    assert out.getvalue().splitlines()[1].startswith("All 1 checks passed in ")


def test_a_failure_keeps_its_own_words_and_the_others_go_on(out, records):
    records.expect("Self-test: Clips failed")
    told = Report(out, as_json=False)
    run(told.run("Clips", fail))
    run(told.run("Sound", lambda: "heard"))
    assert out.getvalue().splitlines()[0] == "FAILED  Clips                 The cat sat on it. (0.0 s)"
    assert told.end() == 1
    assert "1 of 2 checks failed" in out.getvalue()


def test_what_nobody_expected_tells_its_kind(out, records):
    records.expect("Self-test: Window failed")
    told = Report(out, as_json=False)
    told.check("Window", lambda: {}["x"])
    assert "KeyError: 'x'" in out.getvalue()
    assert told.end() == 1


def test_a_check_that_hangs_ends_as_a_failure(out, records, monkeypatch):
    records.expect("Self-test: Answer failed")
    monkeypatch.setattr(report, "_LIMIT_S", 0.01)
    told = Report(out, as_json=False)
    run(told.run("Answer", lambda: asyncio.Event().wait()))
    assert "did not end within" in out.getvalue()
    assert told.end() == 1


def test_no_check_at_all_is_no_success(out):
    assert Report(out, as_json=False).end() == 1


def test_json_is_one_object(out, records):
    records.expect("Self-test: Clips failed")
    told = Report(out, as_json=True)
    run(told.run("Sound", lambda: "½ s"))
    run(told.run("Clips", fail))
    assert told.end() == 1
    found = json.loads(out.getvalue())
    assert (found["ok"], [check["ok"] for check in found["checks"]]) == (False, [True, False])
    assert found["checks"][0]["told"] == "½ s"
    assert found["seconds"] >= 0
