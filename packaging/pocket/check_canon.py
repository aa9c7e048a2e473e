"""Check that the model gives every answer of canon.py: check_canon.py MODEL [--float32] [--kv8]."""

import argparse

import answers
import canon

IMAGE = {"type": "image"}


def text(words):
    return {"type": "text", "text": words}


def single_questions(ask):
    """Yield (name, question, expected, got) for everything that one message can ask."""
    for name, size, ground, shapes, questions in canon.SPECS:
        for question, expected in questions:
            yield name, question, expected, ask(question, [canon.draw(size, ground, shapes)])
    for spec in canon.OCR:
        yield "ocr", spec[2], f'The text says "{spec[2]}".', ask(canon.OCRQ, [canon.draw_text(*spec)])
    bus = canon.draw_text((224, 224), canon.W, "BUS", "red", 56)
    yield "ocr describe", "", 'The text "BUS" in red on a white background.', ask("Describe this image.", [bus])
    taxi = canon.draw_text((256, 96), canon.K, "TAXI", "yellow", 44)
    yield "ocr color", "", "The text is yellow.", ask("What color is the text?", [taxi])
    exit_sign = canon.draw_text((256, 96), canon.W, "EXIT", "black", 48)
    yield "ocr spell", "", "E-X-I-T", ask("Spell the text letter by letter.", [exit_sign])
    for name, frames, questions in canon.VIDEOS:
        for question, expected in questions:
            yield name, question, expected, ask(question, videos=[frames()])
    for question, expected in canon.TEXT:
        yield "text", question, expected, ask(question)


def two_images(ask):
    """Yield the questions about two images in one message."""
    circle, square, both = (canon.draw(*canon.SPECS[i][1:4]) for i in (0, 1, 4))
    for question, expected in canon.WHICH:
        yield "which", question, expected, ask(question, [circle, square])
    yield "which both", "", "Both images do.", ask("Which image has a circle?", [circle, both])
    hello = canon.draw_text((256, 96), canon.W, "HELLO", "black", 48)
    expected = 'The first image shows the text "HELLO". The second image shows a red circle.'
    yield "compare text", "", expected, ask("Compare the two images.", [hello, circle])
    expected = "The first image shows a red circle. The second image shows a blue square."
    yield "compare", "", expected, ask("Compare the two images.", [circle, square])


def chats(model):
    """Yield the questions that need an earlier turn."""
    images = [canon.draw(*spec[1:4]) for spec in canon.SPECS[:2]]
    circle, square = (spec[4][0][1] for spec in canon.SPECS[:2])
    chat = [
        {"role": "user", "content": [IMAGE, text("Describe this image.")]},
        {"role": "assistant", "content": circle},
        {"role": "user", "content": [IMAGE, text("What is in this image?")]},
    ]
    yield "second turn image", "", square, model.answer(model.prompt(chat, images))
    chat += [{"role": "assistant", "content": square}, {"role": "user", "content": "What was in the first image?"}]
    yield "first image recall", "", circle, model.answer(model.prompt(chat, images))
    chat = [
        {"role": "user", "content": "My name is Ana."},
        {"role": "assistant", "content": "Nice to meet you, Ana!"},
        {"role": "user", "content": "What is 2 + 3?"},
        {"role": "assistant", "content": "2 + 3 = 5"},
        {"role": "user", "content": "What is my name?"},
    ]
    yield "name recall", "", "Your name is Ana.", model.answer(model.prompt(chat))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    answers.add_arguments(parser)
    model = answers.from_arguments(parser.parse_args())
    right = total = 0
    for source in (single_questions(model.ask), two_images(model.ask), chats(model)):
        for name, question, expected, got in source:
            total += 1
            right += got == expected
            known = " (known)" if (name, question) in canon.FRAGILE else ""
            print("OK " if got == expected else f"BAD{known} {got!r}", name, "|", question, flush=True)
    shapes = [canon.draw(*canon.SPECS[0][1:4])]
    print("thinking:", repr(model.ask("How many shapes are there?", shapes, enable_thinking=True)))
    print(f"{right} of {total} right, {len(canon.FRAGILE)} expected to be wrong")


if __name__ == "__main__":
    main()
