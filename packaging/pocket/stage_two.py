"""Second-stage training data: more and harder texts, look-alike shapes, questions about which image.

Importing it replaces the first stage's functions in place, so import it before the workers start.
"""

import io
import math
import os
import random

import numpy as np
import stage_one
from PIL import Image, ImageDraw, ImageFont
from stage_one import (
    BGS,
    CH,
    CN,
    COLORS,
    HELD_PAIRS,
    HELD_WORDS,
    SHAPES,
    WORDS,
    Img,
    dist,
    jit,
    patches,
    pick_bg,
    rand_size,
    smart_resize,
)

HERE = os.path.dirname(os.path.abspath(__file__))
NB = len(SHAPES) + len(CN)
NC = len(CH)
stage_one.KAUX = NB + 2 * NC  # characters by left / right half of a 32-px cell
WORDS2 = [w for w in open(os.path.join(HERE, "words.txt")).read().split() if w not in HELD_WORDS]
HELD_FONT = "P052-Roman.pfb"
FD = os.path.join(HERE, "more_fonts")
PATHS = [
    os.path.join(HERE, "fonts", f)
    for f in ("DejaVuSans.ttf", "DejaVuSans-Bold.ttf", "DejaVuSerif.ttf", "DejaVuSansMono.ttf")
]
PATHS = PATHS * 2 + [os.path.join(FD, f) for f in sorted(os.listdir(FD)) if f != HELD_FONT]
_ok = []
for p in PATHS:
    try:
        ImageFont.truetype(p, 20)
        _ok.append(p)
    except OSError as e:
        print("font dropped", p, e)
PATHS = _ok + [None] * 5
_fc = {}


def font(p, size):
    k = (p, size)
    if k not in _fc:
        if len(_fc) > 5000:
            _fc.clear()
        _fc[k] = ImageFont.load_default(size) if p is None else ImageFont.truetype(p, size)
    return _fc[k]


def encode(self):
    H, W, _ = self.arr.shape
    h, w = smart_resize(H, W)
    a = self.arr
    if (h, w) != (H, W):
        a = np.asarray(Image.fromarray(a).resize((w, h), Image.BICUBIC))
    th, tw = h // 32, w // 32
    aux = np.zeros((th, tw, stage_one.KAUX), np.uint8)
    sy, sx = th / H, tw / W
    for x0, y0, x1, y1, ks in self.boxes:
        ya, yb = int(y0 * sy + 0.3), max(int(math.ceil(y1 * sy - 0.3)), int(y0 * sy + 0.3) + 1)
        ya = max(ya, 0)
        if ks[0] >= NB:
            hx = int((x0 + x1) * sx)  # half-cell index
            c = min(max(hx // 2, 0), tw - 1)
            aux[ya:yb, c, ks[0] + (hx & 1) * NC] = 1
            for k in ks[1:]:
                aux[ya:yb, c, k] = 1
            continue
        xa, xb = int(x0 * sx + 0.3), max(int(math.ceil(x1 * sx - 0.3)), int(x0 * sx + 0.3) + 1)
        for k in ks:
            aux[ya:yb, max(xa, 0) : xb, k] = 1
    return [patches(a)], (1, h // 16, w // 16), aux.reshape(-1, stage_one.KAUX)


stage_one.Img.encode = encode

# ------------------------------------------------------------------ shapes: look-alikes oftener
SW = dict(circle=3, hexagon=3, heart=2.2, star=2.2, cross=1.6, square=1.8, ring=1.2, diamond=1.2, triangle=1.2)
_sw = [SW[s] for s in SHAPES]


def pick_pair(R, bg, held):
    for _ in range(200):
        if held:
            c, s = R.choice(sorted(HELD_PAIRS))
        else:
            c, s = R.choice(CN), R.choices(SHAPES, _sw)[0]
            if (c, s) in HELD_PAIRS:
                continue
        if stage_one.ok_color(c, bg):
            return c, s
    return ("blue", "circle") if bg != "dark blue" else ("yellow", "circle")


stage_one.pick_pair = pick_pair

# ------------------------------------------------------------------ text
SAMEC = set("coswxvzu")


def word(R):
    while True:
        w = R.choice(WORDS) if R.random() < 0.5 else R.choice(WORDS2)
        if w not in HELD_WORDS:
            return w


def case(R, w):
    y = R.random()
    lo = w.lower()
    if len(w) == 1 or set(lo) <= SAMEC:
        return lo if len(w) > 1 else (w.upper() if R.random() < 0.5 and lo not in SAMEC else lo)
    if y < 0.36:
        return w.upper()
    if y < 0.74:
        return w
    if y < 0.92:
        return w.title()
    return w[0].upper() + w[1:]


def text2(R, held=False):
    if held:
        return case(R, R.choice(sorted(HELD_WORDS)))
    x = R.random()
    if x < 0.27:
        t = case(R, word(R))
    elif x < 0.42:
        y = R.random()
        n = R.randint(1, 8) if y < 0.3 else R.randint(1, 5)
        t = "".join(R.choice("0123456789") for _ in range(n))
        if y > 0.9:
            t = f"{R.randint(0, 23)}:{R.randint(0, 59):02d}"
        elif y > 0.84:
            t = f"{R.randint(0, 99)}.{R.randint(0, 99)}"
        elif y > 0.78:
            t = str(R.randint(1900, 2099))
    elif x < 0.62:
        n = R.randint(2, 8)
        if R.random() < 0.5:
            o = R.randrange(2)
            w = "".join(R.choice("bcdfghjklmnprstvwz" if (i + o) % 2 == 0 else "aeiouy") for i in range(n))
        else:
            w = "".join(R.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(n))
        t = case(R, w if w not in HELD_WORDS else "zqa")
    elif x < 0.67:
        t = "".join(R.choice("abcdefghijkmnopqrtuvwxyzABDEFGHJKLMNPQRTUVWXYZ23456789") for _ in range(R.randint(2, 6)))
    elif x < 0.85:
        t = case(R, word(R) + " " + word(R))
    elif x < 0.94:
        t = case(R, " ".join(word(R) for _ in range(R.randint(3, 4))))
    else:
        a = case(R, word(R))
        t = f"{a} {R.randint(0, 999)}" if R.random() < 0.8 else f"{R.randint(0, 99)} {a}"
    if len(t) > 24:
        t = t[:24].rsplit(" ", 1)[0]
        if t.lower() in HELD_WORDS:
            t = "go left"
    if R.random() < 0.07 and len(t) > 2:
        t += R.choice("!!?.")
    return t


def fit_layout(R, t):
    """Tight and not so tight text lines, 16 px up."""
    for _ in range(30):
        p = R.choice(PATHS)
        fs = int(round(16 * math.exp(R.random() ** 1.3 * math.log(6))))  # 16..96, small ones oftener
        ft = font(p, fs)
        x0, y0, x1, y1 = ft.getbbox(t)
        tw, th = x1 - x0, y1 - y0
        if tw > 430:
            fs = int(fs * 430 / tw)
            if fs < 16:
                return None
            ft = font(p, fs)
            x0, y0, x1, y1 = ft.getbbox(t)
            tw, th = x1 - x0, y1 - y0
        W = int(tw * R.uniform(1.04, 1.7) + R.uniform(6, 50))
        H = int(th * R.uniform(1.2, 3.2) + R.uniform(4, 40))
        if R.random() < 0.7:
            W, H = max(64, round(W / 32) * 32), max(32, round(H / 32) * 32)
        W, H = max(W, 48), max(H, 28)
        if W > 448 or H > 384 or W * H > 120000 or W / H > 10 or tw + 4 > W or th + 4 > H:
            continue
        # keep the real glyph size >= 15 px after the processor's resize
        h, w = smart_resize(H, W)
        if fs * h / H < 15 or w / W < 0.8:
            continue
        return W, H, p, fs, ft, (x0, y0, x1, y1)
    return None


def text_scene(R, held=False, text=None, size=None, bg=None, fontp=0, fs=None):
    im = Img()
    im.kind = "text"
    while True:
        t = text or text2(R, held)
        L = None
        if size:
            W, H = size
            p = R.choice(PATHS) if fontp == 0 else fontp
            f = fs or min(110, int(R.uniform(0.18, 0.6) * H))
            ft = font(p, max(f, 12))
            b = ft.getbbox(t)
            if b[2] - b[0] > W * 0.94:
                f = int(f * W * 0.94 / (b[2] - b[0]))
                ft = font(p, max(f, 10))
                b = ft.getbbox(t)
            L = (W, H, p, f, ft, b)
        elif R.random() < 0.27:
            # the old layout: roomy pictures
            W, H = rand_size(R, 128, 448)
            p = R.choice(PATHS)
            f = min(110, int(R.uniform(0.14, 0.6) * H))
            ft = font(p, max(f, 14))
            b = ft.getbbox(t)
            if b[2] - b[0] > W * 0.92:
                f = int(f * W * 0.92 / (b[2] - b[0]))
                ft = font(p, max(f, 10))
                b = ft.getbbox(t)
            if f >= 16 and b[3] - b[1] < H - 4:
                L = (W, H, p, f, ft, b)
        else:
            L = fit_layout(R, t)
        if L:
            break
    W, H, p, f, ft, (x0, y0, x1, y1) = L
    if bg is None and R.random() < 0.3:
        bg, c = R.choice([("white", "black"), ("black", "white")])
    else:
        bg = bg or pick_bg(R)
        while True:
            c = R.choice(CN)
            if dist(COLORS[c], BGS[bg]) > 140:
                break
    tw, thh = x1 - x0, y1 - y0
    x = R.uniform(1, max(2, W - tw - 1)) - x0
    y = R.uniform(1, max(2, H - thh - 1)) - y0
    if R.random() < 0.4:
        x, y = (W - tw) / 2 - x0, (H - thh) / 2 - y0
    img = Image.new("RGB", (W, H), jit(BGS[bg], R, 4))
    d = ImageDraw.Draw(img)
    if R.random() < 0.07:
        d.fontmode = "1"
    d.text((x, y), t, fill=jit(COLORS[c], R, 10), font=ft)
    if R.random() < 0.05:
        b = io.BytesIO()
        img.save(b, "JPEG", quality=R.randint(60, 92))
        img = Image.open(b).convert("RGB")
    im.arr = np.asarray(img)
    im.boxes = []
    q = 0.0
    for i, ch in enumerate(t):
        r = ft.getlength(t[: i + 1])
        if ch in CH:
            mx, my = x + (q + r) / 2, y + (y0 + y1) / 2
            hh = max(1.0, thh * 0.25)
            im.boxes.append((mx - 1, my - hh, mx + 1, my + hh, (NB + CH[ch], len(SHAPES) + CN.index(c))))
        q = r
    im.text, im.color, im.bg, im.fs = t, c, bg, f
    return im.finish(R)


stage_one.text_scene = text_scene


def image_any(R, held=False, small=False, w=(11, 6, 2)):
    k = R.choices(["shapes", "text", "chart"], w)[0]
    if k == "shapes":
        return stage_one.shape_scene(
            R, held=held, n=R.choice([1, 1, 2]) if small else (R.randint(1, 4) if held else None)
        )
    if k == "text":
        return stage_one.text_scene(R, held=held)
    return stage_one.chart_scene(R)


stage_one.image_any = image_any
OCRQ = [
    "What does the text say?",
    "Read the text.",
    "What is written here?",
    "What text is in the image?",
    "What does it say?",
    "Transcribe the text.",
]


def qa_text(R, im):
    x = R.random()
    if x < 0.72:
        return "ocr", R.choice(OCRQ), f'The text says "{im.text}".', "I read the text."
    if x < 0.9:
        return (
            "describe_text",
            R.choice(stage_one.DESCQ),
            stage_one.describe(im),
            "I look at what is shown and describe it.",
        )
    if x < 0.95 and all(ch in CH or ch == " " for ch in im.text):
        return "spell", "Spell the text letter by letter.", "-".join(im.text.replace(" ", "")), "I read the text."
    return "tcolor", "What color is the text?", f"The text is {im.color}.", "I look at the text."


def mk(R, media, q):
    p = [("image", m) for m in media]
    if media and R.random() < 0.15:
        return [("text", q)] + p
    return p + [("text", q)]


def which(R, a, b):
    sh = [{o["shape"] for o in im.objs} if im.kind == "shapes" else set() for im in (a, b)]
    pools = [sorted(sh[0] - sh[1]), sorted(sh[1] - sh[0]), sorted(sh[0] & sh[1]), sorted(set(SHAPES) - sh[0] - sh[1])]
    k = R.choices(range(4), [w if p else 0 for w, p in zip((35, 35, 20, 10), pools)])[0]
    s = R.choice(pools[k])
    return f"Which image has a {s}?", ["The first image.", "The second image.", "Both images do.", "Neither image."][k]


def conv(R, held=False, kind=None):
    kind = kind or R.choices(["ocr", "image", "multi", "two", "video", "text", "mix"], [22, 30, 9, 14, 11, 10, 4])[0]
    if kind not in ("ocr", "two"):
        return gen_conv(R, held, kind)
    turns = []
    if kind == "ocr":
        if R.random() < 0.45:
            im = stage_one.text_scene(R, held=held)
            for i in range(R.choice([1, 1, 2])):
                t, q, a, th = qa_text(R, im)
                turns.append((mk(R, [im] if i == 0 else [], q), a, th, t))
        else:
            for i in range(R.choice([2, 2, 3, 4])):
                im = stage_one.text_scene(R, held=held)
                t, q, a, th = qa_text(R, im)
                turns.append((mk(R, [im], q), a, th, t))
    else:
        a, b = image_any(R, held, True), image_any(R, held, True)
        if R.random() < 0.15 and a.kind == "shapes":
            b = stage_one.shape_scene(R, held=held, n=R.choice([1, 2, 3]))
        if R.random() < 0.2:  # a look-alike or an equal shape in both
            n = R.choice([1, 2])
            a, b = stage_one.shape_scene(R, held=held, n=n), stage_one.shape_scene(R, held=held, n=R.choice([1, 2, 3]))
        for i in range(R.choices([1, 2, 3], [3, 3, 1])[0]):
            x = R.random()
            if x < 0.36:
                q, ans, t = (
                    R.choice(
                        [
                            "Compare the two images.",
                            "What do the two images show?",
                            "Describe both images.",
                            "What is the difference between the images?",
                        ]
                    ),
                    f"The first image shows {stage_one.short(a)}. The second image shows {stage_one.short(b)}.",
                    "compare",
                )
            elif x < 0.4:
                q, ans, t = "How many images are there?", "There are 2 images.", "nimages"
            elif x < 0.58 or (a.kind != "shapes" and b.kind != "shapes"):
                j = R.randrange(2)
                q, ans, t = f"Describe the {['first', 'second'][j]} image.", stage_one.describe([a, b][j]), "nth"
            else:
                (q, ans), t = which(R, a, b), "which"
            turns.append((mk(R, [a, b] if i == 0 else [], q), ans, "I compare the images.", t))
    return dict(
        system=R.choice(stage_one.SYS) if R.random() < 0.25 else None, turns=turns, think=R.random() < 0.07, kind=kind
    )


gen_conv = stage_one.conv
stage_one.conv = conv
WEIGHT2 = {"ocr", "describe_text", "spell", "compare", "which"}

if __name__ == "__main__":
    import collections
    import time

    R = random.Random(5)
    c = collections.Counter()
    n = 0
    tot = collections.Counter()
    t0 = time.time()
    N = 600
    for i in range(N):
        x = stage_one.conv(R)
        for parts, a, th, t in x["turns"]:
            tot["text" if t.startswith("text_") else t] += 1
            for k, m in parts:
                if k != "text":
                    m.encode()
    print((time.time() - t0) / N * 1e3, "ms/conv")
    s = sum(tot.values())
    print({k: round(v / s, 3) for k, v in tot.most_common()})
    t0 = time.time()
    for i in range(300):
        text_scene(R).encode()
    print((time.time() - t0) / 300 * 1e3, "ms/text scene")
    ims = [text_scene(R) for i in range(36)]
    S = Image.new("RGB", (6 * 230, 6 * 150), (255, 0, 255))
    for i, m in enumerate(ims):
        x = Image.fromarray(m.arr)
        x.thumbnail((225, 145))
        S.paste(x, (i % 6 * 230, i // 6 * 150))
    S.save("ocr_sheet.png")
    print([m.text for m in ims])
