"""PDF documents in requests are page pictures, each after its label."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.errors import MediaError, RequestRejected
from engine.models.families import open_port
from engine.prompt import PreparedPrompt, prepare_messages, prepare_prompt
from tests.engine import tiny
from tests.engine.documents import pdf


def _ask(**part: Any) -> list[dict[str, Any]]:
    return [{"role": "user", "content": [part, {"type": "text", "text": "Sum it up."}]}]


def _words(prompt: PreparedPrompt) -> str:
    return str(tiny.processor().tokenizer.decode(prompt.ids))


def test_chosen_pages_become_labelled_pictures() -> None:
    port = open_port(*tiny.dense())
    prompt = prepare_messages(port, _ask(type="pdf", pdf=pdf(4), pages=[2, 3]))
    assert [item.kind for item in prompt.media] == ["image", "image"]
    assert prompt.media[0].grid != prompt.media[1].grid
    words = _words(prompt)
    assert "page 1" not in words
    assert words.index("page 2\n<|vision_start|>") < words.index("page 3\n<|vision_start|>") < words.index("Sum it up.")


def test_all_pages_and_one_page() -> None:
    port = open_port(*tiny.dense())
    assert len(prepare_messages(port, _ask(type="pdf", pdf=pdf(3))).media) == 3
    assert len(prepare_messages(port, _ask(type="pdf", pdf=pdf(3), pages=2)).media) == 1


def test_a_document_given_as_picture_is_spread_out(tmp_path: Path) -> None:
    port = open_port(*tiny.dense())
    file = tmp_path / "report.pdf"
    file.write_bytes(pdf(2))
    assert "page 2" in _words(prepare_messages(port, _ask(type="image", image=file)))
    assert len(prepare_prompt(port, tiny.chat("?", pictures=2), [file]).media) == 2
    with pytest.raises(RequestRejected, match="has 1 picture slot, but 2 pictures were given"):
        prepare_prompt(port, tiny.chat("?", pictures=1), [file])


def test_what_cannot_be_read_is_refused_with_a_sentence() -> None:
    port = open_port(*tiny.dense())
    with pytest.raises(RequestRejected, match="Pages 3 to 2 are no range"):
        prepare_messages(port, _ask(type="pdf", pdf=pdf(3), pages=[3, 2]))
    with pytest.raises(MediaError, match="none of them chosen"):
        prepare_messages(port, _ask(type="pdf", pdf=pdf(1), pages=[5, 6]))
    with pytest.raises(MediaError, match="not a PDF document"):
        prepare_messages(port, _ask(type="pdf", pdf=b"hello there"))
    with pytest.raises(RequestRejected, match="holds no document"):
        prepare_messages(port, _ask(type="pdf"))
