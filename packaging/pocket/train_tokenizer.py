"""Train the byte-level BPE tokenizer on generated chats: train_tokenizer.py MODEL."""

import json
import os
import random
import sys
from pathlib import Path

import stage_one
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

OUT = sys.argv[1]
R = random.Random(7)
V = 2048
SPECIAL = [
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
]
PLAIN = ["<think>", "</think>", "<tool_call>", "</tool_call>"]


def corpus():
    for i in range(12000):
        c = stage_one.conv(R, kind=R.choice(["text", "text", "text", "image", "two", "video"]))
        for parts, a, th, t in c["turns"]:
            for k, x in parts:
                if k == "text":
                    yield x
            yield a
            yield th
    for w in stage_one.WORDS * 6:
        yield " " + w
        yield w
        yield w.title()
    S = ["the", "a", "this", "that", "your", "my", "our", "some", "every", "each"]
    A = "good new small large quick slow bright quiet simple open long short early late warm cold strong soft clean rich".split()
    N = "user file model picture word number answer question message button window page list table line color shape time place world people child friend house street city water light sound story idea problem system".split()
    Vb = "shows writes reads makes finds keeps sends opens closes starts stops needs gives takes moves changes asks answers helps likes sees uses wants knows says looks calls turns holds brings".split()
    E = [
        "in the morning",
        "at night",
        "with a friend",
        "because it is needed",
        "before the meeting",
        "after lunch",
        "without any help",
        "when the sun rises",
        "if you want",
        "and then it waits",
        "but not today",
        "from here to there",
    ]
    for i in range(8000):
        yield f"{R.choice(S).capitalize()} {R.choice(A)} {R.choice(N)} {R.choice(Vb)} {R.choice(S)} {R.choice(N)} {R.choice(E)}."
        if i % 4 == 0:
            yield f"Could you please {R.choice(Vb)[:-1]} {R.choice(S)} {R.choice(N)}? I would like to know what the {R.choice(N)} is, thank you."


tok = Tokenizer(models.BPE())
pat = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
tok.pre_tokenizer = pre_tokenizers.Sequence(
    [pre_tokenizers.Split(Regex(pat), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
)
tok.decoder = decoders.ByteLevel()
n_added = len(SPECIAL) + len(PLAIN)
tr = trainers.BpeTrainer(
    vocab_size=V - n_added, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), min_frequency=2, show_progress=False
)
tok.train_from_iterator(corpus(), tr)
print("bpe", tok.get_vocab_size())
tok.add_special_tokens([AddedToken(s, special=True, normalized=False) for s in SPECIAL])
tok.add_tokens([AddedToken(s, special=False, normalized=False) for s in PLAIN])
print("total", tok.get_vocab_size(), {s: tok.token_to_id(s) for s in SPECIAL + PLAIN})
os.makedirs(OUT, exist_ok=True)
tok.save(f"{OUT}/tokenizer.json")
tc = {
    "add_bos_token": False,
    "add_prefix_space": False,
    "bos_token": None,
    "clean_up_tokenization_spaces": False,
    "eos_token": "<|im_end|>",
    "pad_token": "<|endoftext|>",
    "unk_token": None,
    "errors": "replace",
    "model_max_length": 8192,
    "split_special_tokens": False,
    "tokenizer_class": "PreTrainedTokenizerFast",
    "processor_class": "Qwen3VLProcessor",
    "added_tokens_decoder": {
        str(tok.token_to_id(s)): {
            "content": s,
            "lstrip": False,
            "normalized": False,
            "rstrip": False,
            "single_word": False,
            "special": s in SPECIAL,
        }
        for s in SPECIAL + PLAIN
    },
}
Path(OUT, "tokenizer_config.json").write_text(json.dumps(tc, indent=1))
for s in ["Héllo wörld 🙂 你好 e\u0301 \x00\x7f\n\t  x", "a  b\n\n c"]:
    ids = tok.encode(s).ids
    print(repr(tok.decode(ids)), len(ids))
