from app.state import pulse as module
from app.state.pulse import Pulse


def test_each_follower_hears_of_its_own_request_until_it_lets_go(run, until, model, scheduler, monkeypatch):
    monkeypatch.setattr(module, "_INTERVAL_MS", 5)
    pulse = Pulse(model)
    heard = {"a": [], "b": []}

    async def go():
        for id in heard:
            await scheduler.add_request_async(messages=[], request_id=id)
            pulse.follow(id, heard[id].append)
        await until(lambda: heard["a"] and heard["b"])
        pulse.forget("a")
        count = len(heard["a"])
        await until(lambda: len(heard["b"]) > 3)
        assert len(heard["a"]) == count
        pulse.forget("b")
        pulse.forget("b")

    run(go())
    assert {info["request_id"] for info in heard["b"]} == {"b"}
    assert not pulse._timer.isActive()


def test_without_a_model_it_waits(run, model):
    model._loaded = None
    pulse = Pulse(model)
    pulse.follow("a", print)
    pulse._beat()
    pulse.forget("a")
