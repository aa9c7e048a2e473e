"""Text appears piece by piece, is never taken back, and is the same however it was cut into tokens."""

from collections.abc import Iterable, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from engine.detokenizer import Detokenizer

POCKET = Path(__file__).parents[2] / "resources" / "pocket"
FAMILY = "👩‍👩‍👧 ďábel 日本 שלום e\u0301x 🇨🇭 ✌️ a"


class Bytes:
    """One token a byte, as byte-level BPE decodes them; 256 is special, 257 is "<think>"."""

    def decode(self, token_ids: list[int], *, skip_special_tokens: bool, clean_up_tokenization_spaces: bool) -> str:
        names = {256: b"" if skip_special_tokens else b"<|end|>", 257: b"<think>"}
        return b"".join(names.get(token, bytes([token % 256])) for token in token_ids).decode(errors="replace")


class Chunks:
    """Tokens that stand for given byte strings, which may cut through characters."""

    def __init__(self, chunks: Sequence[bytes]) -> None:
        self.chunks = chunks

    def decode(self, token_ids: list[int], *, skip_special_tokens: bool, clean_up_tokenization_spaces: bool) -> str:
        return b"".join(self.chunks[token] for token in token_ids).decode(errors="replace")


@cache
def pocket() -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(tokenizer_file=str(POCKET / "tokenizer.json"))


@cache
def sentencepiece_like() -> PreTrainedTokenizerFast:
    """Leading-space markers and byte tokens, decoded as Llama's and Gemma's tokenizers do."""
    words = ["<unk>", "▁", "▁Hello", "▁world", "ing", "!", "a", "▁▁", "é"]
    vocab = {word: number for number, word in enumerate(words + [f"<0x{byte:02X}>" for byte in range(256)])}
    backend = Tokenizer(models.BPE(vocab=vocab, merges=[], unk_token="<unk>", byte_fallback=True))
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    backend.add_special_tokens([AddedToken("<end>", special=True)])
    return PreTrainedTokenizerFast(tokenizer_object=backend)


def metaspace() -> PreTrainedTokenizerFast:
    backend = Tokenizer(models.BPE(vocab={"▁": 0, "▁Hello": 1, "▁world": 2, "ing": 3}, merges=[]))
    backend.decoder = decoders.Metaspace()
    return PreTrainedTokenizerFast(tokenizer_object=backend)


def decode(tokenizer: object, tokens: Iterable[int]) -> str:
    return tokenizer.decode(list(tokens), skip_special_tokens=True, clean_up_tokenization_spaces=False)


def stream(tokenizer: object, tokens: Iterable[int], stop: Sequence[str] = ()) -> tuple[list[str], Detokenizer]:
    """Return the pieces, having checked at each step that what is shown only grows."""
    detokenizer = Detokenizer(tokenizer, stop)
    pieces = []
    for token in tokens:
        pieces.append(detokenizer.add(token))
        assert detokenizer.text == "".join(pieces)
    pieces.append(detokenizer.finish())
    assert detokenizer.text == "".join(pieces)
    assert detokenizer.finish() == ""
    return pieces, detokenizer


def text_of(tokenizer: object, tokens: Iterable[int], stop: Sequence[str] = ()) -> str:
    return "".join(stream(tokenizer, tokens, stop)[0])


class TestCharacters:
    def test_characters_of_many_bytes_appear_whole(self) -> None:
        pieces, _ = stream(Bytes(), FAMILY.encode())
        assert [piece for piece in pieces if piece] == list(FAMILY)

    def test_a_combining_mark_is_a_piece_of_its_own(self) -> None:
        assert stream(Chunks([b"e", b"\xcc\x81", b"x"]), range(3))[0] == ["e", "\u0301", "x", ""]

    def test_a_byte_that_is_surely_invalid_shows_as_replacement(self) -> None:
        pieces, _ = stream(Bytes(), b"a\xffb")
        assert pieces == ["a", "", "\ufffdb", ""]

    def test_a_character_given_up_for_another_shows_as_one_replacement(self) -> None:
        assert text_of(Bytes(), b"\xe6\x97" + "本".encode()) == "\ufffd本"

    def test_an_end_inside_a_character_shows_what_the_tokenizer_shows(self) -> None:
        pieces, _ = stream(Bytes(), "ab日".encode()[:-1])
        assert pieces == ["a", "b", "", "", "\ufffd"]

    def test_an_endless_run_of_invalid_bytes_is_shown_as_it_comes(self) -> None:
        detokenizer = Detokenizer(Bytes())
        shown = sum(len(detokenizer.add(0xFF)) for _ in range(1000))
        assert shown > 980
        assert shown + len(detokenizer.finish()) == 1000

    def test_a_new_reply_starts_clean(self) -> None:
        left = Detokenizer(Bytes())
        left.add("😀".encode()[0])
        assert text_of(Bytes(), b"ok") == "ok"

    def test_real_replacement_characters_survive(self) -> None:
        assert text_of(Bytes(), ("\ufffd" * 20 + "x").encode()) == "\ufffd" * 20 + "x"


class TestTokenizers:
    def test_special_tokens_give_no_text_even_inside_a_character(self) -> None:
        assert text_of(Bytes(), [0xE6, 256, 0x97, 256, 0xA5, 256]) == "日"

    def test_tags_that_are_not_special_stay(self) -> None:
        assert text_of(Bytes(), [257, ord("x")]) == "<think>x"
        tokens = pocket().encode("<think>hm</think>yes<|im_end|>")
        assert text_of(pocket(), tokens) == "<think>hm</think>yes"

    def test_a_run_of_special_tokens_does_not_lengthen_the_window(self) -> None:
        detokenizer = Detokenizer(Bytes())
        for _ in range(500):
            detokenizer.add(256)
        assert detokenizer._pending == []

    @pytest.mark.parametrize("text", [FAMILY, " leading", "two  spaces \n\n end ", "1234.5 %", ""])
    def test_the_demo_model_s_tokenizer(self, text: str) -> None:
        assert text_of(pocket(), pocket().encode(text)) == text

    @pytest.mark.parametrize("words", [[2, 3, 4, 5], [1, 2], [1, 1, 3], [7, 2, 265, 3], [2, 1, 1, 3], [0, 6, 2]])
    def test_leading_space_markers(self, words: list[int]) -> None:
        assert text_of(sentencepiece_like(), words) == decode(sentencepiece_like(), words)

    @pytest.mark.parametrize("words", [[1, 2, 3], [0, 1], [0, 0, 2], [2, 0, 0, 3]])
    def test_metaspace(self, words: list[int]) -> None:
        assert text_of(metaspace(), words) == decode(metaspace(), words)

    def test_byte_tokens_appear_as_soon_as_they_are_characters(self) -> None:
        tokens = [9 + byte for byte in "日本".encode()]
        pieces, _ = stream(sentencepiece_like(), [2, *tokens, 3])
        assert [piece for piece in pieces if piece] == ["Hello", "日", "本", " world"]

    def test_an_invalid_byte_token_does_not_take_back_what_is_shown(self) -> None:
        tokens = [9 + byte for byte in "é".encode()] + [9 + 0xFF, 3]
        assert text_of(sentencepiece_like(), tokens) == "é\ufffd world"


class TestStopStrings:
    def test_stop_across_tokens_is_cut_and_never_shown(self) -> None:
        pieces, detokenizer = stream(Chunks([b"one\nUs", b"er", b":", b" two"]), range(4), ["\nUser:"])
        assert pieces == ["one", "", "", "", ""]
        assert detokenizer.stopped

    def test_a_false_start_is_released(self) -> None:
        pieces, detokenizer = stream(Chunks([b"a<", b"/b", b">"]), range(3), ["</a>"])
        assert pieces == ["a", "</b", ">", ""]
        assert not detokenizer.stopped

    def test_what_is_held_at_the_end_comes_out(self) -> None:
        assert stream(Chunks([b"so EN"]), [0], ["END"])[0] == ["so ", "EN"]

    def test_a_repeated_start_is_found(self) -> None:
        assert text_of(Chunks([b"a", b"a", b"a", b"b", b"c"]), range(5), ["aab"]) == "a"

    def test_the_stop_that_is_complete_first_wins(self) -> None:
        assert text_of(Chunks([b"xabcdy"]), [0], ["abcd", "bc"]) == "xa"
        assert text_of(Bytes(), b"xabcdy", ["abcd", "bc"]) == "xa"

    def test_stop_inside_a_held_character_tail(self) -> None:
        assert text_of(Bytes(), "ja, 日本語".encode(), ["本"]) == "ja, 日"

    def test_nothing_comes_after_a_stop(self) -> None:
        detokenizer = Detokenizer(Bytes(), ["."])
        assert [detokenizer.add(byte) for byte in b"a.b"] == ["a", "", ""]
        assert detokenizer.finish() == ""
        assert detokenizer.text == "a"

    @pytest.mark.parametrize("stop", ["abc", ["a", ""]])
    def test_an_empty_stop_is_refused(self, stop: Sequence[str]) -> None:
        with pytest.raises(ValueError, match="not empty"):
            Detokenizer(Bytes(), stop)


class Counting(Bytes):
    """Counts the tokens it is asked to decode."""

    decoded = 0

    def decode(self, token_ids: list[int], **options: bool) -> str:
        self.decoded += len(token_ids)
        return super().decode(token_ids, **options)


@pytest.mark.parametrize("data", [b"a" * 4000, "日".encode() * 1333, b"\xff" * 4000, b"\xf0\x9f" * 2000])
def test_cost_per_token_does_not_grow(data: bytes) -> None:
    tokenizer = Counting()
    text_of(tokenizer, data)
    assert tokenizer.decoded / len(data) < 50


def split(data: bytes, cuts: Iterable[int]) -> list[bytes]:
    edges = [0, *sorted({cut % (len(data) + 1) for cut in cuts}), len(data)]
    return [data[a:b] for a, b in pairwise(edges) if a < b]


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=40), st.lists(st.integers(0, 200), max_size=60))
def test_any_text_in_any_pieces(text: str, cuts: list[int]) -> None:
    chunks = split(text.encode(errors="replace"), cuts)
    assert text_of(Chunks(chunks), range(len(chunks))) == text.encode(errors="replace").decode()


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from([b"a", b"\xff", b"\xe2", b"\x82", b"\xac", b"\xf0", b"\x9f", b"\x98", b"\xc3"])))
def test_any_bytes_in_any_pieces(chunks: list[bytes]) -> None:
    assert text_of(Chunks(chunks), range(len(chunks))) == b"".join(chunks).decode(errors="replace")


@settings(max_examples=300, deadline=None)
@given(
    st.text("aбb日", max_size=24),
    st.lists(st.integers(0, 60), max_size=30),
    st.lists(st.text("aбb日", min_size=1, max_size=4), max_size=3),
)
def test_stop_strings_do_not_depend_on_the_pieces(text: str, cuts: list[int], stops: list[str]) -> None:
    chunks = split(text.encode(), cuts)
    shown = text_of(Chunks(chunks), range(len(chunks)), stops)
    ends = [at for at in range(len(text) + 1) if any(text[:at].endswith(stop) for stop in stops)]
    if not ends:
        assert shown == text
    else:
        longest = max(len(stop) for stop in stops if text[: ends[0]].endswith(stop))
        assert shown == text[: ends[0] - longest]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 2047), max_size=40))
def test_any_tokens_of_the_demo_model(tokens: list[int]) -> None:
    assert text_of(pocket(), tokens) == decode(pocket(), tokens)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.one_of(st.integers(1, 8), st.sampled_from([list("é日😀".encode())])), max_size=20))
def test_any_tokens_with_space_markers_and_whole_characters(items: list[int | list[int]]) -> None:
    tokens = [token for item in items for token in ([item] if isinstance(item, int) else [9 + byte for byte in item])]
    assert text_of(sentencepiece_like(), tokens) == decode(sentencepiece_like(), tokens)


def test_a_special_token_that_means_something_is_written_where_it_stands() -> None:
    cut = "日".encode()
    tokens = [*b"why", cut[0], 256, *b" so"]
    for stop, whole in (((), "why\ufffd[end] so"), (("[end] s",), "why\ufffd")):
        reply = Detokenizer(Bytes(), stop, {256: "[end]"})
        assert "".join(map(reply.add, tokens)) + reply.finish() == whole
    end = sentencepiece_like().convert_tokens_to_ids("<end>")
    reply = Detokenizer(sentencepiece_like(), shown={end: "[end]"})
    assert "".join(map(reply.add, [2, end, 3])) + reply.finish() == "Hello[end] world"
