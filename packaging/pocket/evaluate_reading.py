"""How well the model reads text in pictures, greedily: evaluate_reading.py MODEL COUNT [--float32] [--kv8]."""

import argparse
import random

import answers
import canon
import stage_one
from PIL import Image


def pictures(count):
    """Text pictures by set; the first two must be drawn before stage_two replaces the first stage's fonts."""
    first, first_held = random.Random(31), random.Random(33)
    sets = {
        "roomy": [stage_one.text_scene(first) for _ in range(count)],
        "roomy, held-out words": [stage_one.text_scene(first_held, held=True) for _ in range(count // 2)],
    }
    import stage_two

    second, second_held = random.Random(32), random.Random(34)
    sets["tight"] = [stage_two.text_scene(second) for _ in range(count)]
    sets["tight, held-out words"] = [stage_two.text_scene(second_held, held=True) for _ in range(count // 2)]
    return sets


def edit_distance(a, b):
    row = list(range(len(b) + 1))
    for i, x in enumerate(a):
        above, row = row, [i + 1]
        for j, y in enumerate(b):
            row.append(min(above[j + 1] + 1, row[j] + 1, above[j] + (x != y)))
    return row[-1]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    answers.add_arguments(parser)
    parser.add_argument("count", type=int, help="pictures per set")
    arguments = parser.parse_args()
    model = answers.from_arguments(arguments)
    for name, scenes in pictures(arguments.count).items():
        exact = errors = characters = 0
        for scene in scenes:
            got = model.ask(canon.OCRQ, [Image.fromarray(scene.arr)])
            got = got.removeprefix('The text says "').removesuffix('".')
            exact += got == scene.text
            errors += min(edit_distance(got, scene.text), len(scene.text))
            characters += len(scene.text)
        rate = errors / max(characters, 1)
        print(f"{name}: exact {exact} of {len(scenes)}, character error rate {rate:.2f}", flush=True)


if __name__ == "__main__":
    main()
