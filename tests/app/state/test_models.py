"""The list of models and their downloads, on real folders and a hub on the loopback interface."""

import shutil
from pathlib import Path

import pytest

from app.state.model import Model
from app.state.models import Keeping, Models
from engine.config import MLLMSchedulerConfig
from engine.models.local import repository_folder
from tests.fakes import FakeLoader, FakeScheduler
from tests.hub import open_hub, tiny_model

POCKET = Path(__file__).parents[3] / "resources" / "pocket"
REPO = "owner/Tiny-VL-4bit"
FIRST, SECOND = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"


class Kept:
    """What would be in the settings."""

    def __init__(self):
        self.folders = ()
        self.model = ""

    def keeping(self):
        return Keeping(
            lambda: self.folders,
            lambda folders: setattr(self, "folders", folders),
            lambda model: setattr(self, "model", model),
        )


@pytest.fixture
def kept():
    return Kept()


@pytest.fixture
def hub(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_TOKEN_PATH", str(tmp_path / "none"))
    with open_hub() as hub:
        hub.models[REPO] = tiny_model()
        yield hub


@pytest.fixture
def cache(tmp_path):
    (tmp_path / "cache").mkdir()
    return tmp_path / "cache"


@pytest.fixture
def on_shelf(run, loop, kept, hub, cache):
    """Run a test's body with the list of models; it is closed, and nothing of it left, when the test ends."""

    def on_shelf(body, *, embedded=POCKET):
        async def whole():
            model = Model(POCKET, MLLMSchedulerConfig(), FakeLoader(FakeScheduler()), embedded=embedded)
            models = Models(model, kept.keeping(), cache, hub.endpoint)
            models.told = []
            models.notice.connect(models.told.append)
            await model.load()
            try:
                await body(models)
            finally:
                await models._tasks.join()
                await models.close()
                await model.close()

        run(whole())

    return on_shelf


def listed(models):
    return [(entry.name, entry.usable) for entry in models.entries]


async def settled(models):
    models.refresh()
    await models._tasks.join()


def test_the_embedded_model_is_always_there_and_others_follow_by_name(on_shelf, cache, tmp_path, kept):
    for name in ("beta", "Alpha"):
        shutil.copytree(POCKET, tmp_path / "mine" / name)
    shutil.copytree(POCKET, tmp_path / "mine" / "aa broken", ignore=shutil.ignore_patterns("*.safetensors"))
    kept.folders = (str(tmp_path / "mine"), str(POCKET))

    async def body(models):
        seen = []
        models.changed.connect(lambda: seen.append(models.scanning))
        await settled(models)
        assert listed(models) == [("Pocket", True), ("Alpha", True), ("beta", True), ("aa broken", False)]
        pocket, *_, broken = models.entries
        assert pocket.embedded
        assert pocket.fit.verdict == "fits"
        assert pocket.fit.budget == 7e9  # of the 8 GB that the scheduler calls the limit
        assert broken.fit is None
        assert "model.safetensors is missing" in broken.model.problem
        assert seen == [True, False]

    on_shelf(body)


def test_the_choice_is_remembered_and_loaded(on_shelf, kept, tmp_path):
    other = shutil.copytree(POCKET, tmp_path / "other")

    async def body(models):
        models.choose(other)
        await models.model.answering()
        assert (models.model.path, kept.model) == (other, str(other))
        models.choose(POCKET)
        assert kept.model == ""
        await models.model.answering()

    on_shelf(body)


def test_a_folder_with_models_is_added_once_and_one_without_is_told(on_shelf, kept, tmp_path):
    shutil.copytree(POCKET, tmp_path / "mine" / "copy")

    async def body(models):
        for _ in range(2):
            models.add_folder(tmp_path / "mine")
            await models._tasks.join()
        assert kept.folders == (str(tmp_path / "mine"),)
        assert listed(models) == [("Pocket", True), ("copy", True)]
        models.add_folder(tmp_path / "cache")
        await models._tasks.join()
        assert "There are no models in “cache”" in models.told[0]
        assert len(kept.folders) == 1

    on_shelf(body)


def test_a_model_goes_to_the_trash_unless_it_is_in_use_or_part_of_the_app(on_shelf, kept, tmp_path, monkeypatch):
    gone = []
    monkeypatch.setattr("send2trash.send2trash", lambda path: (gone.append(path), shutil.rmtree(path)))
    one, two = (shutil.copytree(POCKET, tmp_path / "mine" / name) for name in ("one", "two"))
    kept.folders = (str(tmp_path / "mine"),)

    async def body(models):
        await settled(models)
        models.choose(one)
        await models.model.answering()
        models.trash(POCKET)
        models.trash(one)
        assert ["comes with Braid" in models.told[0], "“one” is in use" in models.told[1]] == [True, True]
        models.trash(two)
        await models._tasks.join()
        assert gone == [str(two)]
        assert listed(models) == [("Pocket", True), ("one", True)]

    on_shelf(body)


def test_a_trash_that_refuses_is_told(on_shelf, kept, tmp_path, monkeypatch, records):
    records.expect("cannot be moved to the trash")

    def refuse(path):
        raise PermissionError(path)

    monkeypatch.setattr("send2trash.send2trash", refuse)
    kept.folders = (str(shutil.copytree(POCKET, tmp_path / "one")),)

    async def body(models):
        await settled(models)
        models.trash(tmp_path / "one")
        await models._tasks.join()
        assert "could not be moved to the trash" in models.told[0]

    on_shelf(body)


# --- downloads


def test_a_download_ends_as_a_model_of_the_list(on_shelf, hub, until):
    async def body(models):
        assert models.download(f"https://huggingface.co/{REPO}") is None
        [download] = models.downloads
        assert (download.repo, download.state) == (REPO, "running")
        await until(lambda: not models.downloads)
        await models._tasks.join()
        assert listed(models) == [("Pocket", True), ("Tiny-VL-4bit", True)]
        assert models.download(REPO.lower()) == f"“{REPO.lower()}” is already on this computer."

    on_shelf(body)


def test_what_is_no_id_is_refused_at_once(on_shelf):
    async def body(models):
        assert "owner/name" in models.download("a model please")
        assert models.downloads == ()

    on_shelf(body)


def test_pause_and_resume_send_no_byte_twice(on_shelf, hub, until):
    hub.models[REPO] = tiny_model(1_000_000)
    hub.rate = 400_000

    async def body(models):
        models.download(REPO)
        [download] = models.downloads
        await until(lambda: download.done > 200_000)
        assert 0 < download.done < download.total
        assert download.rate > 0
        assert download.remaining_s > 0
        download.pause()
        assert (download.state, download.rate) == ("paused", None)
        hub.rate = 0
        assert models.download(REPO) is None  # asking for it again resumes it
        await until(lambda: not models.downloads)
        starts = [start for method, name, start in hub.asked if (method, name) == ("GET", FIRST)]
        assert starts[0] == 0
        assert starts[1] > 150_000

    on_shelf(body)


def test_a_download_goes_on_after_a_restart(on_shelf, hub, until, cache):
    hub.models[REPO] = tiny_model(1_000_000)
    hub.rate = 400_000

    async def first(models):
        models.download(REPO)
        await until(lambda: models.downloads[0].done > 600_000)

    async def second(models):
        await settled(models)
        unfinished = models.entries[-1]
        assert (unfinished.model.repo, unfinished.model.resumable) == (REPO, True)
        assert models.download(unfinished.model.repo) is None
        await until(lambda: not models.downloads)
        await models._tasks.join()
        assert listed(models)[-1] == ("Tiny-VL-4bit", True)

    on_shelf(first)
    hub.rate = 0
    sent = hub.sent[FIRST]
    on_shelf(second)
    assert hub.sent[FIRST] == sent  # the first file had come whole
    starts = [start for method, name, start in hub.asked if (method, name) == ("GET", SECOND)]
    assert starts[-1] > 0


def test_cancelling_leaves_nothing(on_shelf, hub, until, cache):
    hub.models[REPO] = tiny_model(1_000_000)
    hub.rate = 400_000

    async def body(models):
        models.download(REPO)
        await until(lambda: models.downloads[0].done > 100_000)
        models.cancel(REPO)
        assert models.downloads == ()
        await models._tasks.join()
        assert not repository_folder(cache, REPO).exists()
        assert listed(models) == [("Pocket", True)]

    on_shelf(body)


def test_a_failure_keeps_its_sentence_and_can_be_tried_again(on_shelf, hub, until):
    hub.denied[REPO] = (403, "GatedRepo")

    async def body(models):
        models.download(REPO)
        [download] = models.downloads
        await until(lambda: download.state == "failed")
        assert "accept the terms" in download.error
        hub.denied.clear()
        download.resume()
        assert (download.state, download.error) == ("running", None)
        await until(lambda: not models.downloads)

    on_shelf(body)


def test_a_worker_that_dies_is_told_and_logged(on_shelf, until, records):
    records.expect("download of .* ended")

    async def body(models):
        models.download(REPO)
        [download] = models.downloads
        await until(lambda: download._process.processId())
        download._process.kill()
        await until(lambda: download.state == "failed")
        assert "unknown reason" in download.error

    on_shelf(body)


def test_a_worker_that_cannot_start_is_told_and_logged(on_shelf, until, records, monkeypatch):
    records.expect("cannot start")
    monkeypatch.setattr("engine.models.download.command", lambda *_: ["/nowhere/python"])

    async def body(models):
        models.download(REPO)
        await until(lambda: models.downloads[0].state == "failed")

    on_shelf(body)
