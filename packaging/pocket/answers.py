"""Ask the model through mlx-vlm, greedily and one chat at a time."""

import mlx.core as mx
import numpy as np
from mlx_vlm.utils import load


class Answerer:
    """A loaded model folder; `float32` widens the weights, `kv8` quantises the KV cache to 8 bit."""

    def __init__(self, folder, float32=False, kv8=False):
        self.model, self.processor = load(folder)
        self.kv8 = kv8
        if float32:
            self.model.set_dtype(mx.float32)
        self.stops = set(self.model.config.eos_token_id)

    def prompt(self, messages, images=(), videos=(), fps=None, **template):
        text = self.processor.apply_chat_template(messages, tokenize=False, add_generation_prompt=True, **template)
        return self.processor(text=[text], images=list(images) or None, videos=list(videos) or None, fps=fps)

    def cache(self):
        cache = self.model.language_model.make_cache()
        if self.kv8:
            cache = [c.to_quantized(group_size=64, bits=8) if hasattr(c, "to_quantized") else c for c in cache]
        return cache

    def answer(self, inputs, max_tokens=80):
        ids = mx.array(np.array(inputs["input_ids"]))
        kw = {k: mx.array(np.array(v)) for k, v in inputs.items() if k not in ("input_ids", "attention_mask")}
        pixels = kw.pop("pixel_values", None)
        if pixels is None:
            pixels = kw.pop("pixel_values_videos", None)
        emb = self.model.get_input_embeddings(ids, pixels, **kw)
        lm, cache = self.model.language_model, self.cache()
        out = lm(ids, inputs_embeds=emb.inputs_embeds, position_ids=emb.position_ids, cache=cache)
        tokens = []
        token = mx.argmax(out.logits[:, -1], -1)
        while len(tokens) < max_tokens and token.item() not in self.stops:
            tokens.append(token.item())
            out = lm(token[None], cache=cache, rope_deltas=emb.rope_deltas)
            token = mx.argmax(out.logits[:, -1], -1)
        return self.processor.tokenizer.decode(tokens)

    def ask(self, question, images=(), videos=(), **template):
        """One question about some media; -> the answer."""
        media = [{"type": "image"}] * len(images) + [{"type": "video"}] * len(videos)
        content = [*media, {"type": "text", "text": question}] if media else question
        return self.answer(self.prompt([{"role": "user", "content": content}], images, videos, **template))


def add_arguments(parser):
    """Add what every script that asks the model takes."""
    parser.add_argument("model", help="the model folder")
    parser.add_argument("--float32", action="store_true", help="widen the weights (much faster on MLX's CPU backend)")
    parser.add_argument("--kv8", action="store_true", help="quantise the KV cache to 8 bit")


def from_arguments(arguments):
    return Answerer(arguments.model, arguments.float32, arguments.kv8)
