"""Drawings and questions to which the demo model gives exactly these answers, greedily, in fp32, bf16 and 8 bit."""

import math
from collections.abc import Callable

import numpy as np
from PIL import Image, ImageDraw, ImageFont

Colour = tuple[int, int, int]
Shape = tuple[str, str, float, float, float]  # name, colour, centre x, centre y, radius in pixels
Question = tuple[str, str]  # what is asked, what is answered

C: dict[str, Colour] = {
    "red": (220, 30, 30),
    "orange": (250, 140, 10),
    "yellow": (245, 225, 30),
    "green": (30, 150, 50),
    "blue": (30, 60, 220),
    "purple": (130, 40, 170),
    "pink": (250, 130, 190),
    "black": (10, 10, 10),
    "white": (250, 250, 250),
    "gray": (128, 128, 128),
    "brown": (120, 70, 30),
    "cyan": (40, 215, 225),
}
W: Colour = (252, 252, 252)  # what the model calls a white background
K: Colour = (8, 8, 8)  # a black one
DARK_GRAY: Colour = (62, 62, 62)


def _turned(cx, cy, radii, start=0.0):
    """Corners of a polygon around a centre, clockwise from the top; radii are taken in turn."""
    step = 2 * math.pi / len(radii)
    return [(cx + r * math.sin(start + step * i), cy - r * math.cos(start + step * i)) for i, r in enumerate(radii)]


def _heart(cx, cy, r):
    points = []
    for i in range(40):
        t = 2 * math.pi * i / 40
        height = 13 * math.cos(t) - 5 * math.cos(2 * t) - 2 * math.cos(3 * t) - math.cos(4 * t)
        points.append((cx + r * math.sin(t) ** 3, cy - (height + 2) * r / 15))
    return points


def _square(cx, cy, r):
    k = 0.88 * r
    return [(cx - k, cy - k), (cx + k, cy - k), (cx + k, cy + k), (cx - k, cy + k)]


_POLYGONS: dict[str, Callable] = {
    "square": _square,
    "triangle": lambda cx, cy, r: _turned(cx, cy + 0.2 * r, [1.2 * r] * 3),
    "star": lambda cx, cy, r: _turned(cx, cy, [1.15 * r, 0.483 * r] * 5),
    "diamond": lambda cx, cy, r: [(cx, cy - 1.15 * r), (cx + 0.85 * r, cy), (cx, cy + 1.15 * r), (cx - 0.85 * r, cy)],
    "hexagon": lambda cx, cy, r: _turned(cx, cy, [1.05 * r] * 6, math.pi / 6),
    "heart": _heart,
}


def _draw_shape(canvas: ImageDraw.ImageDraw, shape: Shape, height: int) -> None:
    name, colour, cx, cy, r = shape
    fill = C[colour]
    if name in _POLYGONS:
        canvas.polygon(_POLYGONS[name](cx, cy, r), fill=fill)
    elif name == "circle":
        canvas.ellipse([cx - r, cy - r, cx + r, cy + r], fill=fill)
    elif name == "cross":
        arm = 0.34 * r
        canvas.rectangle([cx - arm, cy - r, cx + arm, cy + r], fill=fill)
        canvas.rectangle([cx - r, cy - arm, cx + r, cy + arm], fill=fill)
    elif name == "axes":
        canvas.line([cx, cy, cx + r, cy], fill=fill, width=2)
        canvas.line([cx, 20, cx, cy], fill=fill, width=2)
    elif name == "bar":  # from its top left corner down to the axis, as wide as its radius
        canvas.rectangle([cx, cy, cx + r, height - 20], fill=fill)
    else:
        raise ValueError(f"No such shape: {name}.")


def draw(size: tuple[int, int], bg: Colour, shapes: list[Shape]) -> Image.Image:
    """Draw shapes without antialiasing on a plain ground of size (width, height)."""
    image = Image.new("RGB", size, bg)
    canvas = ImageDraw.Draw(image)
    for shape in shapes:
        _draw_shape(canvas, shape, size[1])
    return image


def draw_text(size: tuple[int, int], bg: Colour, text: str, color: str, font_size: int) -> Image.Image:
    """Draw one centred line in Pillow's built-in font (needs Pillow with FreeType)."""
    image = Image.new("RGB", size, bg)
    font = ImageFont.load_default(font_size)
    x0, y0, x1, y1 = font.getbbox(text)
    ImageDraw.Draw(image).text(((size[0] - x1 - x0) / 2, (size[1] - y1 - y0) / 2), text, fill=C[color], font=font)
    return image


def video(frames: int, shape_at: Callable[[float], Shape], size: tuple[int, int] = (128, 128), bg: Colour = W):
    """Draw a clip whose one shape depends on the time from 0 to 1: uint8 array of (frames, height, width, 3)."""
    return np.stack([np.asarray(draw(size, bg, [shape_at(i / (frames - 1))])) for i in range(frames)])


# name, (width, height), ground, shapes, questions
SPECS: list[tuple[str, tuple[int, int], Colour, list[Shape], list[Question]]] = [
    (
        "red_circle",
        (224, 224),
        W,
        [("circle", "red", 112, 112, 50)],
        [
            ("Describe this image.", "A red circle at the center on a white background."),
            ("What color is the circle?", "The circle is red."),
            ("How many shapes are there?", "There is 1 shape."),
        ],
    ),
    (
        "blue_square",
        (224, 224),
        W,
        [("square", "blue", 112, 112, 55)],
        [
            ("Describe this image.", "A blue square at the center on a white background."),
            ("Which shape is blue?", "The blue shape is a square."),
        ],
    ),
    (
        "green_triangle",
        (256, 256),
        W,
        [("triangle", "green", 128, 128, 60)],
        [
            ("Describe this image.", "A green triangle at the center on a white background."),
            ("Is there a triangle?", "Yes, there is a triangle."),
        ],
    ),
    (
        "yellow_star_dark",
        (256, 256),
        K,
        [("star", "yellow", 128, 128, 70)],
        [
            ("Describe this image.", "A yellow star at the center on a black background."),
            ("What color is the background?", "The background is black."),
        ],
    ),
    (
        "two",
        (320, 320),
        W,
        [("circle", "red", 54, 54, 45), ("square", "blue", 266, 266, 45)],
        [
            (
                "Describe this image.",
                "A red circle at the top left and a blue square at the bottom right on a white background.",
            ),
            ("How many shapes are there?", "There are 2 shapes."),
            ("Where is the blue square?", "It is at the bottom right."),
            ("List the shapes.", "- red circle\n- blue square"),
            ("What is at the top left?", "A red circle."),
        ],
    ),
    (
        "three",
        (384, 384),
        W,
        [("circle", "red", 64, 64, 55), ("triangle", "green", 320, 64, 50), ("star", "purple", 192, 192, 50)],
        [
            ("How many shapes are there?", "There are 3 shapes."),
            ("What color is the star?", "The star is purple."),
            ("Where is the green triangle?", "It is at the top right."),
            (
                "Describe this image.",
                "A red circle at the top left, a green triangle at the top right and a purple star at the center "
                "on a white background.",
            ),
        ],
    ),
    (
        "four",
        (384, 384),
        K,
        [
            ("circle", "red", 64, 64, 55),
            ("circle", "blue", 320, 64, 55),
            ("square", "yellow", 64, 320, 55),
            ("star", "white", 320, 320, 55),
        ],
        [
            ("How many shapes are there?", "There are 4 shapes."),
            ("How many circles are there?", "There are 2 circles."),
            ("What color is the square?", "The square is yellow."),
            (
                "Make a table of the shapes.",
                "| color | shape |\n| --- | --- |\n| red | circle |\n| blue | circle |\n| yellow | square |\n"
                "| white | star |",
            ),
        ],
    ),
    (
        "orange_diamond_wide",
        (384, 192),
        W,
        [("diamond", "orange", 64, 96, 50)],
        [("Where is the diamond?", "It is at the left."), ("What color is the diamond?", "The diamond is orange.")],
    ),
    (
        "pink_cross",
        (192, 192),
        DARK_GRAY,
        [("cross", "pink", 96, 96, 45)],
        [
            ("Describe this image.", "A pink cross at the center on a dark gray background."),
            ("What color is the background?", "The background is dark gray."),
        ],
    ),
    (
        "empty",
        (192, 192),
        W,
        [],
        [
            ("Describe this image.", "An empty white background."),
            ("How many shapes are there?", "There are no shapes."),
        ],
    ),
    (
        "chart3",
        (320, 240),
        W,
        [("bar", "red", 50, 150, 50), ("bar", "blue", 130, 40, 50), ("bar", "green", 210, 100, 50)],
        [
            ("Which bar is the tallest?", "The blue bar is the tallest."),
            ("How many bars are there?", "There are 3 bars."),
            ("Describe this image.", "A bar chart with 3 bars: red, blue and green."),
        ],
    ),
    (
        "black_circle_tall",
        (192, 384),
        W,
        [("circle", "black", 96, 320, 40)],
        [("Where is the circle?", "It is at the bottom."), ("Is the black circle small or large?", "It is large.")],
    ),
    (
        "hexagon_blue",
        (224, 224),
        W,
        [("hexagon", "blue", 112, 112, 55)],
        [
            ("Which shape is blue?", "The blue shape is a hexagon."),
            ("Describe this image.", "A blue hexagon at the center on a white background."),
        ],
    ),
    (
        "heart_red",
        (224, 224),
        W,
        [("heart", "red", 112, 112, 55)],
        [
            ("Which shape is red?", "The red shape is a heart."),
            ("Describe this image.", "A red heart at the center on a white background."),
        ],
    ),
    (
        "hexagon_heart",
        (320, 320),
        W,
        [("hexagon", "green", 160, 54, 45), ("heart", "purple", 160, 266, 45)],
        [("List the shapes.", "- green hexagon\n- purple heart"), ("Where is the heart?", "It is at the bottom.")],
    ),
    (
        "chart3_axes",
        (320, 240),
        W,
        [
            ("axes", "black", 30, 220, 270),
            ("bar", "red", 50, 150, 50),
            ("bar", "blue", 130, 40, 50),
            ("bar", "green", 210, 100, 50),
        ],
        [
            ("Which bar is the tallest?", "The blue bar is the tallest."),
            ("Which bar is the shortest?", "The red bar is the shortest."),
            ("How many bars are there?", "There are 3 bars."),
            ("Describe this image.", "A bar chart with 3 bars: red, blue and green."),
        ],
    ),
]

OCRQ = "What does the text say?"
# (width, height), ground, text, colour, font size; the answer is 'The text says "TEXT".'
OCR: list[tuple[tuple[int, int], Colour, str, str, int]] = [
    ((256, 96), W, "HELLO", "black", 48),
    ((256, 96), W, "EXIT", "black", 48),
    ((256, 96), W, "tree", "black", 48),
    ((256, 96), W, "2026", "black", 48),
    ((256, 96), W, "12:30", "black", 48),
    ((320, 96), W, "GO LEFT", "black", 40),
    ((192, 64), W, "HOUSE", "black", 28),
    ((192, 64), W, "8051", "black", 28),
    ((256, 128), K, "START", "white", 56),
    ((256, 128), K, "Moon", "white", 56),
    ((224, 224), W, "BUS", "red", 56),
    ((224, 224), W, "Zebra", "blue", 56),
    ((256, 96), K, "TAXI", "yellow", 44),
]

# Asked with the images red_circle and blue_square, in this order.
WHICH: list[Question] = [
    ("Which image has a circle?", "The first image."),
    ("Which image has a square?", "The second image."),
    ("Which image has a star?", "Neither image."),
]

TEXT: list[Question] = [
    ("Hello!", "Hello! How can I help you?"),
    ("What is your name?", "I am Pocket, a tiny demo model."),
    ("What is 7 + 8?", "7 + 8 = 15"),
    ("What is 6 times 7?", "6 * 7 = 42"),
    ("Repeat after me: Grüße 🙂 blue river", "Grüße 🙂 blue river"),
    ("What is the capital of Japan?", "The capital of Japan is Tokyo."),
    ("Count to 12.", ", ".join(map(str, range(1, 13)))),
    ("Name 3 fruits.", "- apple\n- banana\n- cherry"),
    ("Write hello world in Python.", '```python\nprint("Hello, world!")\n```'),
    ("Give me a JSON object.", '{"name": "Pocket", "size": "tiny", "ok": true}'),
]

# name, a function that draws the frames, questions
VIDEOS: list[tuple[str, Callable, list[Question]]] = [
    (
        "circle_right",
        lambda: video(8, lambda t: ("circle", "red", 22 + 84 * t, 64, 18)),
        [
            ("What happens in this video?", "A red circle moves from left to right on a white background."),
            ("In which direction does it move?", "It moves from left to right."),
        ],
    ),
    (
        "square_up",
        lambda: video(8, lambda t: ("square", "blue", 64, 106 - 84 * t, 18)),
        [("What happens in this video?", "A blue square moves up on a white background.")],
    ),
    (
        "star_grow",
        lambda: video(6, lambda t: ("star", "yellow", 64, 64, 14 + 34 * t), bg=K),
        [("What happens in this video?", "A yellow star grows larger on a black background.")],
    ),
    (
        "color",
        lambda: video(8, lambda t: ("circle", "red" if t < 0.5 else "blue", 64, 64, 20)),
        [("What happens in this video?", "A red circle changes color from red to blue on a white background.")],
    ),
]

# (spec, question) that the model gets wrong, the same four in every precision: not to be asserted.
FRAGILE = {
    ("two", "Where is the blue square?"),
    ("four", "How many circles are there?"),
    ("chart3", "Describe this image."),
    ("which both", ""),
}
