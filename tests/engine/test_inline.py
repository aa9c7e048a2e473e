"""Units on the home thread itself: the same tokens, also when lending is switched while the loop runs."""

from dataclasses import replace

QUESTION = {"messages": [{"role": "user", "content": "Tell me a long story."}], "max_tokens": 24, "temperature": 0.0}


def test_tokens_come_in_order_whichever_way_units_run(run, make, pocket):
    scheduler = make(pocket)

    async def answers():
        await scheduler.start()
        told = []
        for lend in (True, False, False, True):
            scheduler.apply_config(replace(scheduler.config, lend_stream=lend))
            told.append((await scheduler.generate(**QUESTION)).output_token_ids)
        await scheduler.stop()
        return told

    told = run(answers())
    assert len(told[0]) > 8
    assert told == told[:1] * 4
