"""How a model is brought up beside the window."""

import asyncio
import threading

import pytest

from app.state.scheduler import _beside


def test_who_gives_work_on_a_thread_up_goes_on_when_it_is_over_and_the_loop_meanwhile(run, until):
    async def go():
        begun, over = threading.Event(), threading.Event()

        def work(_):
            begun.set()
            over.wait()

        giving_up = asyncio.ensure_future(_beside(work, None))
        await until(begun.is_set)
        giving_up.cancel()
        await asyncio.sleep(0.02)
        assert not giving_up.done()
        over.set()
        with pytest.raises(asyncio.CancelledError):
            await giving_up

    run(go())
