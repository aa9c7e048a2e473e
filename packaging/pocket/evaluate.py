"""Exact match on unseen conversations through mlx-vlm, greedily: evaluate.py MODEL COUNT [--float32] [--kv8]."""

import argparse
import collections
import random
import time

import answers
import numpy as np
import stage_one
from PIL import Image

SEEDS = {"unseen": 880000, "held out": 990000}


def exact_turns(model, conversation, max_turns=2):
    """Answer turn by turn, with the right answers as history; -> (task, exact, expected, got) per turn."""
    messages, images, videos, fps, results = [], [], [], None, []
    if conversation["system"]:
        messages.append({"role": "system", "content": conversation["system"]})
    for parts, answer, _, task in conversation["turns"][:max_turns]:
        content = []
        for kind, part in parts:
            content.append({"type": "text", "text": part} if kind == "text" else {"type": kind})
            if kind == "image":
                images.append(Image.fromarray(part.arr))
            elif kind == "video":
                videos.append(np.stack(part.frames))
                fps = part.fps
        messages.append({"role": "user", "content": content})
        got = model.answer(model.prompt(messages, images, videos, fps))
        results.append((task, got.strip() == answer.strip(), answer, got))
        messages.append({"role": "assistant", "content": answer})
    return results


def evaluate(model, name, count):
    """Print the exact matches by task, then the first misses."""
    start, by_task, misses = time.time(), collections.defaultdict(list), []
    for i in range(count):
        conversation = stage_one.conv(random.Random(SEEDS[name] + i), held=name == "held out")
        conversation["think"] = False
        for task, exact, expected, got in exact_turns(model, conversation):
            by_task[task].append(exact)
            if not exact:
                misses.append((task, expected, got))
    turns = [exact for marks in by_task.values() for exact in marks]
    print(f"{name}: {sum(turns)} of {len(turns)} turns exact in {count} chats, {time.time() - start:.0f} s")
    for task, marks in sorted(by_task.items()):
        print(f"  {task:18s} {sum(marks)}/{len(marks)}")
    for task, expected, got in misses[:25]:
        print(f"  wrong: {task} | {expected!r} | {got[:100]!r}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    answers.add_arguments(parser)
    parser.add_argument("count", type=int, help="conversations per set")
    arguments = parser.parse_args()
    model = answers.from_arguments(arguments)
    for name in SEEDS:
        evaluate(model, name, arguments.count)


if __name__ == "__main__":
    main()
