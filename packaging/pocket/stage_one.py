"""First-stage training data: drawn scenes, charts, texts and clips, and conversations about them (NumPy and Pillow)."""

import json
import math
import os
import random

import numpy as np
from PIL import Image, ImageDraw, ImageFont

HERE = os.path.dirname(os.path.abspath(__file__))
COLORS = {
    "red": (220, 30, 30),
    "orange": (250, 140, 10),
    "yellow": (245, 225, 30),
    "green": (30, 150, 50),
    "cyan": (40, 215, 225),
    "blue": (30, 60, 220),
    "purple": (130, 40, 170),
    "pink": (250, 130, 190),
    "brown": (120, 70, 30),
    "black": (10, 10, 10),
    "white": (250, 250, 250),
    "gray": (128, 128, 128),
}
CN = list(COLORS)
SHAPES = ["circle", "square", "triangle", "star", "diamond", "hexagon", "cross", "heart", "ring"]
BGS = {
    "white": (252, 252, 252),
    "black": (8, 8, 8),
    "light gray": (205, 205, 205),
    "dark gray": (62, 62, 62),
    "light blue": (190, 220, 250),
    "dark blue": (18, 24, 80),
    "light yellow": (252, 246, 190),
    "light green": (195, 240, 195),
}
BN = list(BGS)
POS = [["top left", "top", "top right"], ["left", "center", "right"], ["bottom left", "bottom", "bottom right"]]
CHARS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
CH = {c: i for i, c in enumerate(CHARS)}
KAUX = len(SHAPES) + len(CN) + len(CHARS)
WORDS = """apple bird cat dog egg fish goat hat ice jam kite lamp moon nest owl pen queen rain sun tree urn van wolf fox yarn zoo
hello world stop go open closed exit left right up down yes no start end sale free new old hot cold big small red blue green
book desk door chair table house car bus train plane boat ship bike road path hill lake river sea beach sand rock stone gold
silver iron wood paper glass cup plate fork spoon knife bread milk cheese rice soup salt sugar lemon pear plum grape melon
peach mango carrot onion bean corn pea nut cake pie tea coffee juice water wine beer king prince knight castle tower bridge
garden flower rose tulip grass leaf root seed farm barn horse cow pig sheep duck hen mouse lion tiger bear zebra monkey snake
frog ant bee fly spider whale shark crab seal music song drum piano guitar flute dance art paint brush ink note mail letter
stamp box bag key lock clock watch time day night week month year spring summer winter north south east west love peace hope
happy smile laugh jump run walk swim climb sleep dream think learn read write code test demo mlx local model pocket chat
metal apple swift python video image pixel token cache batch queue stack array loop
""".split()
WORDS = list(dict.fromkeys(WORDS))
_r = random.Random(1234)
HELD_WORDS = set(_r.sample([w for w in WORDS if 3 <= len(w) <= 6], 24))
_pairs = [(c, s) for c in CN for s in SHAPES]
_r.shuffle(_pairs)
HELD_PAIRS = set(_pairs[:12])
FONTS = ["DejaVuSans.ttf", "DejaVuSans-Bold.ttf", "DejaVuSerif.ttf", "DejaVuSansMono.ttf", None, None]
_fc = {}


def font(i, size):
    k = (i, size)
    if k not in _fc:
        if len(_fc) > 600:
            _fc.clear()
        _fc[k] = (
            ImageFont.load_default(size)
            if FONTS[i] is None
            else ImageFont.truetype(os.path.join(HERE, "fonts", FONTS[i]), size)
        )
    return _fc[k]


def dist(a, b):
    # weighted distance with luma, so that light colours on light grounds are avoided
    return math.sqrt(sum((x - y) ** 2 for x, y in zip(a, b)))


def smart_resize(h, w, factor=32, min_pixels=9216, max_pixels=200704):
    hb, wb = round(h / factor) * factor, round(w / factor) * factor
    if hb * wb > max_pixels:
        b = math.sqrt(h * w / max_pixels)
        hb, wb = max(factor, math.floor(h / b / factor) * factor), max(factor, math.floor(w / b / factor) * factor)
    elif hb * wb < min_pixels:
        b = math.sqrt(min_pixels / (h * w))
        hb, wb = math.ceil(h * b / factor) * factor, math.ceil(w * b / factor) * factor
    return hb, wb


def patches(a):  # (H,W,3) uint8 -> (N,768) in merged-block order, channel-first
    H, W, _ = a.shape
    gh, gw = H // 16, W // 16
    p = a.reshape(gh // 2, 2, 16, gw // 2, 2, 16, 3).transpose(0, 3, 1, 4, 6, 2, 5)
    return np.ascontiguousarray(p.reshape(gh * gw, 768))


_noise = None


def add_noise(a, sigma, R):
    global _noise
    if _noise is None:
        _noise = np.clip(
            np.random.default_rng(0).standard_normal((640, 700, 3), dtype=np.float32) * 32, -127, 127
        ).astype(np.int8)
    H, W, _ = a.shape
    if H > 600 or W > 600:
        return a
    y, x = R.randint(0, 640 - H), R.randint(0, 700 - W)
    n = (_noise[y : y + H, x : x + W].astype(np.int16) * int(sigma * 8)) >> 8
    return np.clip(a.astype(np.int16) + n, 0, 255).astype(np.uint8)


def jit(c, R, j=12):
    return tuple(max(0, min(255, v + R.randint(-j, j))) for v in c)


def poly(cx, cy, r, n, rot, inner=None):
    pts = []
    m = n * 2 if inner else n
    for i in range(m):
        rr = r * (inner if inner and i % 2 else 1)
        a = rot + 2 * math.pi * i / m
        pts.append((cx + rr * math.sin(a), cy - rr * math.cos(a)))
    return pts


def draw_shape(d, shape, cx, cy, r, col, rot=0.0, bg=None, outline=None, ow=0):
    kw = dict(fill=col)
    if outline is not None and ow:
        kw.update(outline=outline, width=ow)
    if shape == "circle":
        d.ellipse([cx - r, cy - r, cx + r, cy + r], **kw)
    elif shape == "ring":
        d.ellipse([cx - r, cy - r, cx + r, cy + r], outline=col, width=max(3, int(r * 0.36)))
    elif shape == "square":
        d.polygon(poly(cx, cy, r * 1.25, 4, math.pi / 4 + rot), **kw)
    elif shape == "diamond":
        p = [(cx, cy - r * 1.15), (cx + r * 0.85, cy), (cx, cy + r * 1.15), (cx - r * 0.85, cy)]
        d.polygon(p, **kw)
    elif shape == "triangle":
        d.polygon(poly(cx, cy + r * 0.2, r * 1.2, 3, rot), **kw)
    elif shape == "hexagon":
        d.polygon(poly(cx, cy, r * 1.05, 6, math.pi / 6 + rot), **kw)
    elif shape == "star":
        d.polygon(poly(cx, cy, r * 1.15, 5, rot, 0.42), **kw)
    elif shape == "cross":
        t = r * 0.34
        d.polygon(
            [
                (cx - t, cy - r),
                (cx + t, cy - r),
                (cx + t, cy - t),
                (cx + r, cy - t),
                (cx + r, cy + t),
                (cx + t, cy + t),
                (cx + t, cy + r),
                (cx - t, cy + r),
                (cx - t, cy + t),
                (cx - r, cy + t),
                (cx - r, cy - t),
                (cx - t, cy - t),
            ],
            **kw,
        )
    elif shape == "heart":
        pts = []
        for i in range(40):
            t = 2 * math.pi * i / 40
            x = 16 * math.sin(t) ** 3
            y = 13 * math.cos(t) - 5 * math.cos(2 * t) - 2 * math.cos(3 * t) - math.cos(4 * t)
            pts.append((cx + x * r / 16, cy - (y + 2) * r / 15))
        d.polygon(pts, **kw)


class Img:
    """kind: shapes|text|chart ; meta dict ; arr (H,W,3) uint8 native ; boxes for aux labels."""

    video = False

    def finish(self, R, noise=True):
        a = self.arr
        if noise and R.random() < 0.4:
            a = add_noise(a, R.choice([2, 4, 6, 10]), R)
        self.arr = a
        return self

    def encode(self):
        H, W, _ = self.arr.shape
        h, w = smart_resize(H, W)
        a = self.arr
        if (h, w) != (H, W):
            a = np.asarray(Image.fromarray(a).resize((w, h), Image.BICUBIC))
        th, tw = h // 32, w // 32
        aux = np.zeros((th, tw, KAUX), np.uint8)
        sy, sx = th / H, tw / W
        for x0, y0, x1, y1, ks in self.boxes:
            ya, yb = int(y0 * sy + 0.3), max(int(math.ceil(y1 * sy - 0.3)), int(y0 * sy + 0.3) + 1)
            xa, xb = int(x0 * sx + 0.3), max(int(math.ceil(x1 * sx - 0.3)), int(x0 * sx + 0.3) + 1)
            for k in ks:
                aux[max(ya, 0) : yb, max(xa, 0) : xb, k] = 1
        return [patches(a)], (1, h // 16, w // 16), aux.reshape(-1, KAUX)


class Vid(Img):
    video = True

    def encode(self):
        fr = self.frames
        if len(fr) % 2:
            fr = fr + [fr[-1]]
        H, W, _ = fr[0].shape
        assert H % 32 == 0 and W % 32 == 0
        n = len(fr) // 2
        aux = np.zeros((n, H // 32, W // 32, KAUX), np.uint8)
        for g in range(n):
            for x0, y0, x1, y1, ks in self.fboxes[min(2 * g, len(self.fboxes) - 1)]:
                for k in ks:
                    aux[g, int(max(y0, 0)) // 32 : int(y1) // 32 + 1, int(max(x0, 0)) // 32 : int(x1) // 32 + 1, k] = 1
        return [patches(f) for f in fr], (n, H // 16, W // 16), aux.reshape(-1, KAUX)


def pick_bg(R):
    return R.choices(BN, [6, 4, 2, 2, 2, 2, 2, 2])[0]


def ok_color(c, bgname):
    return dist(COLORS[c], BGS[bgname]) > 95


def pick_pair(R, bg, held):
    """held: None = anything not held out, True = held-out pair."""
    for _ in range(200):
        if held:
            c, s = R.choice(sorted(HELD_PAIRS))
        else:
            c, s = R.choice(CN), R.choice(SHAPES)
            if (c, s) in HELD_PAIRS:
                continue
        if ok_color(c, bg):
            return c, s
    return ("blue", "circle") if bg != "dark blue" else ("yellow", "circle")


def rand_size(R, lo=96, hi=448):
    s = lo + (hi - lo) * R.random() ** 2.0
    a = math.exp(R.uniform(-0.5, 0.5)) if R.random() < 0.6 else 1.0
    W, H = int(s * a), int(s / a)
    if R.random() < 0.3:
        W, H = max(64, round(W / 32) * 32), max(64, round(H / 32) * 32)
    return max(W, 64), max(H, 64)


def render(W, H, bg, R, fn, aa=None):
    ss = 2 if (aa if aa is not None else (R.random() < 0.5 and W * H < 120000)) else 1
    im = Image.new("RGB", (W * ss, H * ss), bg)
    fn(ImageDraw.Draw(im), ss)
    if ss > 1:
        im = im.resize((W, H), Image.BOX if R.random() < 0.5 else Image.BICUBIC)
    return np.asarray(im)


def shape_scene(R, n=None, held=False, size=None, bg=None):
    im = Img()
    im.kind = "shapes"
    W, H = size or rand_size(R)
    m = min(W, H)
    bg = bg or pick_bg(R)
    n = n if n is not None else R.choices([0, 1, 2, 3, 4], [1, 9, 9, 8, 6])[0]
    if m < 128:
        n = min(n, 2)
    objs = []
    if n == 1 and R.random() < 0.5:
        # one shape, any size, anywhere whose third is clear
        d = R.uniform(0.3, 0.8) if R.random() < 0.6 else R.uniform(max(0.14, 26 / m), 0.33)
        r = d * m / 2
        for _ in range(50):
            cx, cy = R.uniform(r * 1.1, W - r * 1.1), R.uniform(r * 1.1, H - r * 1.1)
            fx, fy = cx / W, cy / H
            if all(abs(f - t) > 0.05 for f in (fx, fy) for t in (1 / 3, 2 / 3)):
                break
        else:
            cx, cy, fx, fy = W / 2, H / 2, 0.5, 0.5
        if R.random() < 0.35 or d > 0.6:
            cx, cy, fx, fy = W / 2 + R.uniform(-0.05, 0.05) * W, H / 2 + R.uniform(-0.05, 0.05) * H, 0.5, 0.5
        big = d >= 0.245
        objs.append([cx, cy, r, int(fy * 3), int(fx * 3), "large" if big else "small"])
    else:
        cells = sorted(R.sample(range(9), n))
        for c in cells:
            big = R.random() < 0.5 or m < 200
            d = R.uniform(0.26, 0.32) if big else R.uniform(max(0.13, 26 / m), 0.18)
            r = d * m / 2
            cy, cx = (c // 3 + 0.5 + R.uniform(-0.12, 0.12)) * H / 3, (c % 3 + 0.5 + R.uniform(-0.12, 0.12)) * W / 3
            cx, cy = min(max(cx, r * 1.1), W - r * 1.1), min(max(cy, r * 1.1), H - r * 1.1)
            objs.append([cx, cy, r, c // 3, c % 3, "large" if big else "small"])
    im.objs, im.boxes, draws = [], [], []
    hi = R.randrange(n) if (held and n) else -1
    outl = R.random() < 0.12
    for i, (cx, cy, r, row, col, size_) in enumerate(objs):
        for _ in range(20):
            c, s = pick_pair(R, bg, i == hi)
            if not any(o["color"] == c and o["shape"] == s for o in im.objs):
                break
        im.objs.append(dict(color=c, shape=s, pos=POS[row][col], row=row, col=col, size=size_))
        im.boxes.append((cx - r, cy - r, cx + r, cy + r, (SHAPES.index(s), len(SHAPES) + CN.index(c))))
        draws.append((s, cx, cy, r, jit(COLORS[c], R), R.uniform(-0.12, 0.12) if R.random() < 0.4 else 0))

    def fn(d, ss):
        for s, cx, cy, r, c, rot in draws:
            draw_shape(d, s, cx * ss, cy * ss, r * ss, c, rot, outline=(0, 0, 0) if outl else None, ow=2 * ss)

    im.bg = bg
    im.arr = render(W, H, jit(BGS[bg], R, 4), R, fn)
    return im.finish(R)


def rand_text(R, held=False):
    if held:
        w = R.choice(sorted(HELD_WORDS))
    else:
        x = R.random()
        if x < 0.45:
            while True:
                w = R.choice(WORDS)
                if w not in HELD_WORDS:
                    break
        elif x < 0.6:
            w = "".join(R.choice("0123456789") for _ in range(R.randint(1, 6)))
        elif x < 0.85:
            # pronounceable pseudo-words and random letters, so that reading generalises
            n = R.randint(2, 7)
            if R.random() < 0.5:
                w = "".join(R.choice("bcdfghjklmnprstvwz" if i % 2 == 0 else "aeiouy") for i in range(n))
            else:
                w = "".join(R.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(n))
            if w in HELD_WORDS:
                w = "zq"
        else:
            a, b = [R.choice(WORDS) for _ in range(2)]
            if a in HELD_WORDS or b in HELD_WORDS or len(a) + len(b) > 10:
                a, b = "go", "left"
            w = a + " " + b
    y = R.random()
    if y < 0.4:
        return w.upper()
    return w if y < 0.75 else w.title()


def text_scene(R, held=False, text=None, size=None, bg=None):
    im = Img()
    im.kind = "text"
    for _ in range(50):
        W, H = size or rand_size(R, 128, 448)
        t = text or rand_text(R, held)
        f = R.randrange(len(FONTS))
        fs = int(R.uniform(0.18, 0.6) * H)
        fs = min(fs, 110)
        ft = font(f, max(fs, 14))
        w = ft.getlength(t)
        if w > W * 0.92:
            fs = int(fs * W * 0.92 / w)
            if fs < 17:
                continue
            ft = font(f, fs)
        if fs < 17:
            continue
        break
    else:
        W, H, t, f, fs = 256, 128, t, 0, 32
        ft = font(0, 32)
    bg = bg or pick_bg(R)
    while True:
        c = R.choice(CN)
        if dist(COLORS[c], BGS[bg]) > 140:
            break
    x0, y0, x1, y1 = ft.getbbox(t)
    tw, thh = x1 - x0, y1 - y0
    x = R.uniform(2, max(3, W - tw - 2)) - x0
    y = R.uniform(2, max(3, H - thh - 2)) - y0
    if R.random() < 0.4:
        x, y = (W - tw) / 2 - x0, (H - thh) / 2 - y0
    img = Image.new("RGB", (W, H), jit(BGS[bg], R, 4))
    ImageDraw.Draw(img).text((x, y), t, fill=jit(COLORS[c], R, 10), font=ft)
    im.arr = np.asarray(img)
    im.boxes = []
    p = 0.0
    for i, ch in enumerate(t):
        q = ft.getlength(t[: i + 1])
        if ch in CH:
            mx, my = x + (p + q) / 2, y + (y0 + y1) / 2
            hh = max(1.0, thh * 0.25)
            im.boxes.append(
                (mx - 1, my - hh, mx + 1, my + hh, (len(SHAPES) + len(CN) + CH[ch], len(SHAPES) + CN.index(c)))
            )
        p = q
    im.text, im.color, im.bg = t, c, bg
    return im.finish(R)


def chart_scene(R, held=False, n=None):
    im = Img()
    im.kind = "chart"
    W, H = rand_size(R, 160, 420)
    n = n or R.randint(2, 5)
    bg = R.choice(["white", "white", "light gray", "light yellow", "black", "dark gray"])
    cols = R.sample([c for c in CN if ok_color(c, bg)], n)
    while True:
        hs = [R.uniform(0.15, 0.95) for _ in range(n)]
        s = sorted(hs)
        if s[-1] - s[-2] > 0.1 and s[1] - s[0] > 0.1:
            break
    ax = (0, 0, 0) if sum(BGS[bg]) > 380 else (230, 230, 230)
    x0, y0, ph, pw = W * 0.1, H * 0.9, H * 0.8, W * 0.85
    st = pw / n
    bw = st * R.uniform(0.5, 0.85)
    im.boxes = []
    rects = []
    for i in range(n):
        xa = x0 + st * i + (st - bw) / 2
        rects.append((xa, y0 - ph * hs[i], xa + bw, y0, jit(COLORS[cols[i]], R)))
        im.boxes.append(rects[-1][:4] + ((len(SHAPES) + CN.index(cols[i]),),))

    def fn(d, ss):
        for r in rects:
            d.rectangle([v * ss for v in r[:4]], fill=r[4])
        d.line([x0 * ss, y0 * ss, (x0 + pw) * ss, y0 * ss], fill=ax, width=2 * ss)
        d.line([x0 * ss, (y0 - ph) * ss, x0 * ss, y0 * ss], fill=ax, width=2 * ss)

    im.arr = render(W, H, jit(BGS[bg], R, 4), R, fn)
    im.colors, im.heights, im.bg = cols, hs, bg
    return im.finish(R)


MOVES = ["right", "left", "up", "down", "grow", "shrink", "color", "still"]


def video_scene(R, held=False, move=None, n=None, size=None, pair=None, bg=None):
    v = Vid()
    v.kind = "video"
    W, H = size or (32 * R.randint(3, 5), 32 * R.randint(3, 5))
    n = n or R.choice([4, 5, 6, 8, 8, 10, 12, 16])
    bg = bg or pick_bg(R)
    c, s = pair or pick_pair(R, bg, held)
    mv = move or R.choice(MOVES)
    m = min(W, H)
    c2 = c
    if mv == "color":
        while True:
            c2 = R.choice(CN)
            if c2 != c and ok_color(c2, bg) and (c2, s) not in HELD_PAIRS and dist(COLORS[c], COLORS[c2]) > 120:
                break
    d0 = d1 = R.uniform(0.24, 0.36)
    if mv == "grow":
        d0, d1 = R.uniform(0.2, 0.3), R.uniform(0.55, 0.85)
    if mv == "shrink":
        d1, d0 = R.uniform(0.2, 0.3), R.uniform(0.55, 0.85)
    rm = max(d0, d1) * m / 2 * 1.15
    cx0, cy0 = R.uniform(rm, W - rm), R.uniform(rm, H - rm)
    cx1, cy1 = cx0, cy0
    a, b = R.uniform(0, 0.2), R.uniform(0.8, 1)
    if mv in ("right", "left"):
        cx0, cx1 = rm + a * (W - 2 * rm), rm + b * (W - 2 * rm)
        if mv == "left":
            cx0, cx1 = cx1, cx0
    if mv in ("up", "down"):
        cy0, cy1 = rm + a * (H - 2 * rm), rm + b * (H - 2 * rm)
        if mv == "up":
            cy0, cy1 = cy1, cy0
    k0, k1 = jit(COLORS[c], R), jit(COLORS[c2], R)
    bgc = jit(BGS[bg], R, 4)
    sw = R.uniform(0.35, 0.65)
    v.frames, v.fboxes = [], []
    aa = R.random() < 0.5
    ns = R.choice([0, 0, 0, 3, 6])
    for i in range(n):
        t = i / (n - 1)
        cx, cy, r = cx0 + (cx1 - cx0) * t, cy0 + (cy1 - cy0) * t, (d0 + (d1 - d0) * t) * m / 2
        k, kn = (k0, c) if t < sw else (k1, c2)
        a = render(W, H, bgc, R, lambda d, ss: draw_shape(d, s, cx * ss, cy * ss, r * ss, k), aa)
        if ns:
            a = add_noise(a, ns, R)
        v.frames.append(a)
        v.fboxes.append([(cx - r, cy - r, cx + r, cy + r, (SHAPES.index(s), len(SHAPES) + CN.index(kn)))])
    v.color, v.color2, v.shape, v.move, v.bg, v.n = c, c2, s, mv, bg, n
    v.fps = R.choices([2.0, 1.0, 4.0, 8.0, 10.0, 24.0], [12, 2, 2, 2, 2, 1])[0]
    return v


# ---------------------------------------------------------------- language
def an(w):
    return ("an " if w[0] in "aeiou" else "a ") + w


def join(xs):
    return xs[0] if len(xs) == 1 else ", ".join(xs[:-1]) + " and " + xs[-1]


def cap(s):
    return s[0].upper() + s[1:]


def nobj(o):
    return f"{o['color']} {o['shape']}"


def plural(s, n):
    if n == 1:
        return s
    return {"cross": "crosses"}.get(s, s + "s")


DESCQ = [
    "Describe this image.",
    "What is in this image?",
    "What do you see?",
    "Describe the picture.",
    "What does this image show?",
    "Describe this image in one sentence.",
    "what is this?",
    "Please describe the image.",
    "Caption this image.",
    "Describe it.",
]


def vmove(v):
    return {
        "right": "moves from left to right",
        "left": "moves from right to left",
        "up": "moves up",
        "down": "moves down",
        "grow": "grows larger",
        "shrink": "gets smaller",
        "color": f"changes color from {v.color} to {v.color2}",
        "still": "stays still",
    }[v.move]


def describe(im):
    if im.kind == "shapes":
        if not im.objs:
            return f"An empty {im.bg} background."
        return cap(join([f"{an(nobj(o))} at the {o['pos']}" for o in im.objs])) + f" on a {im.bg} background."
    if im.kind == "text":
        return f'The text "{im.text}" in {im.color} on a {im.bg} background.'
    if im.kind == "chart":
        return f"A bar chart with {len(im.colors)} bars: {join(im.colors)}."
    return f"{cap(an(im.color))} {im.shape} {vmove(im)} on a {im.bg} background."


def short(im):
    if im.kind == "shapes":
        return join([an(nobj(o)) for o in im.objs]) if im.objs else f"an empty {im.bg} background"
    if im.kind == "text":
        return f'the text "{im.text}"'
    return f"a bar chart with {len(im.colors)} bars"


def qa(R, im):
    """One (task, question, answer, thought) about an image or video."""
    k = im.kind
    if R.random() < 0.25:
        q = R.choice(DESCQ)
        if k == "video":
            q = R.choice(
                [
                    "What happens in this video?",
                    "Describe the video.",
                    "Describe this video.",
                    "What is happening?",
                    "What do you see?",
                ]
            )
        return "describe_" + k, q, describe(im), "I look at what is shown and describe it."
    if k == "shapes":
        ob = im.objs
        n = len(ob)
        uniq_s = [o for o in ob if sum(p["shape"] == o["shape"] for p in ob) == 1]
        uniq_c = [o for o in ob if sum(p["color"] == o["color"] for p in ob) == 1]
        ts = ["count", "bg", "exists", "list", "json"]
        if n:
            ts += ["count", "where", "where", "whatat", "size", "countc", "table"]
        if uniq_s:
            ts += ["color", "color", "color"]
        if uniq_c:
            ts += ["shape", "shape"]
        t = R.choice(ts)
        if t == "count":
            a = {0: "There are no shapes."}.get(n, f"There {'is' if n == 1 else 'are'} {n} {plural('shape', n)}.")
            return (
                t,
                R.choice(
                    [
                        "How many shapes are there?",
                        "How many shapes are in the image?",
                        "Count the shapes.",
                        "How many objects do you see?",
                    ]
                ),
                a,
                f"I count the shapes: {n}.",
            )
        if t == "bg":
            return (
                t,
                R.choice(["What color is the background?", "What is the background color?"]),
                f"The background is {im.bg}.",
                "I look at the background.",
            )
        if t == "exists":
            s = R.choice(SHAPES)
            if ob and R.random() < 0.5:
                s = R.choice(ob)["shape"]
            y = any(o["shape"] == s for o in ob)
            return (
                t,
                R.choice([f"Is there a {s}?", f"Do you see a {s}?", f"Is there a {s} in the image?"]),
                (f"Yes, there is a {s}." if y else f"No, there is no {s}."),
                f"I look for a {s}.",
            )
        if t == "list":
            return (
                t,
                R.choice(["List the shapes.", "List all objects as bullet points.", "Make a list of the shapes."]),
                ("\n".join("- " + nobj(o) for o in ob) if ob else "There are no shapes."),
                "I list them in reading order.",
            )
        if t == "json":
            return (
                t,
                R.choice(["Answer in JSON: which shapes are there?", "Give the shapes as JSON.", "Return JSON."]),
                json.dumps([{"color": o["color"], "shape": o["shape"]} for o in ob]),
                "I write a JSON list.",
            )
        if t == "table":
            return (
                t,
                R.choice(["Make a table of the shapes.", "Show the shapes in a markdown table."]),
                "| color | shape |\n| --- | --- |\n" + "\n".join(f"| {o['color']} | {o['shape']} |" for o in ob),
                "I write a table.",
            )
        if t == "where":
            o = R.choice(ob)
            q = R.choice([f"Where is the {nobj(o)}?", f"What is the position of the {nobj(o)}?"])
            if o in uniq_s and R.random() < 0.5:
                q = f"Where is the {o['shape']}?"
            return t, q, f"It is at the {o['pos']}.", f"I look for the {o['shape']}."
        if t == "whatat":
            o = R.choice(ob)
            p = o["pos"]
            if R.random() < 0.2:
                p = R.choice(R.choice(POS))
            f = [o for o in ob if o["pos"] == p]
            return (
                t,
                f"What is at the {p}?",
                (f"{cap(an(nobj(f[0])))}." if f else "There is nothing there."),
                f"I look at the {p}.",
            )
        if t == "size":
            o = R.choice(ob)
            return (
                t,
                R.choice([f"Is the {nobj(o)} small or large?", f"How big is the {nobj(o)}?"]),
                f"It is {o['size']}.",
                "I look at its size.",
            )
        if t == "countc":
            o = R.choice(ob)
            if R.random() < 0.5:
                c = o["color"]
                m = sum(p["color"] == c for p in ob)
                return (
                    t,
                    f"How many {c} shapes are there?",
                    f"There {'is' if m == 1 else 'are'} {m} {c} {plural('shape', m)}.",
                    f"I count the {c} shapes: {m}.",
                )
            s = o["shape"]
            m = sum(p["shape"] == s for p in ob)
            return (
                t,
                f"How many {plural(s, 2)} are there?",
                f"There {'is' if m == 1 else 'are'} {m} {plural(s, m)}.",
                f"I count the {plural(s, 2)}: {m}.",
            )
        if t == "color":
            o = R.choice(uniq_s)
            return (
                t,
                R.choice(
                    [
                        f"What color is the {o['shape']}?",
                        f"Which color does the {o['shape']} have?",
                        f"what colour is the {o['shape']}?",
                    ]
                ),
                f"The {o['shape']} is {o['color']}.",
                f"I look for the {o['shape']}.",
            )
        o = R.choice(uniq_c)
        return (
            "shape",
            R.choice([f"Which shape is {o['color']}?", f"What shape is {o['color']}?"]),
            f"The {o['color']} shape is a {o['shape']}.",
            f"I look for {o['color']}.",
        )
    if k == "text":
        t = R.choices(["ocr", "tcolor", "bg", "spell"], [7, 1, 1, 1])[0]
        if t == "ocr":
            return (
                t,
                R.choice(
                    [
                        "What does the text say?",
                        "Read the text.",
                        "What is written here?",
                        "What text is in the image?",
                        "What does it say?",
                        "Transcribe the text.",
                    ]
                ),
                f'The text says "{im.text}".',
                "I read the text.",
            )
        if t == "spell":
            return t, "Spell the text letter by letter.", "-".join(im.text.replace(" ", "")), "I read the text."
        if t == "tcolor":
            return t, "What color is the text?", f"The text is {im.color}.", "I look at the text."
        return (
            t,
            R.choice(["What color is the background?", "What is the background color?"]),
            f"The background is {im.bg}.",
            "I look at the background.",
        )
    if k == "chart":
        t = R.choice(["bars", "tallest", "tallest", "shortest", "barlist"])
        n = len(im.colors)
        if t == "bars":
            return (
                t,
                R.choice(["How many bars are there?", "Count the bars."]),
                f"There are {n} bars.",
                f"I count the bars: {n}.",
            )
        if t == "barlist":
            return (
                t,
                "Which colors do the bars have?",
                f"The bars are {join(im.colors)}.",
                "I read the bars from left to right.",
            )
        f = max if t == "tallest" else min
        c = im.colors[im.heights.index(f(im.heights))]
        q = R.choice(
            [
                f"Which bar is the {t}?",
                f"What color is the {t} bar?",
                f"Which bar has the {'highest' if t == 'tallest' else 'lowest'} value?",
            ]
        )
        return t, q, f"The {c} bar is the {t}.", "I compare the heights of the bars."
    t = R.choice(["vmove", "vmove", "vshape", "vcolor"])
    if t == "vmove":
        if im.move in ("left", "right", "up", "down"):
            q = R.choice(["In which direction does it move?", "Which way does the shape move?", "What happens?"])
        else:
            q = R.choice(["What happens?", "What happens to the shape?", "What does the shape do?"])
        return t, q, f"It {vmove(im)}.", "I compare the first and the last frame."
    if t == "vshape":
        return t, "What shape is in the video?", f"It is a {im.shape}.", "I look at the shape."
    return t, "What color is the shape at the start?", f"It is {im.color}.", "I look at the first frame."


NAMES = "Sam Ana Leo Mia Tom Eva Ben Zoe Max Lena Omar Yuki Nora Ivan Rosa Finn Aisha Paul Kim Jan".split()
CAPS = {
    "France": "Paris",
    "Germany": "Berlin",
    "Italy": "Rome",
    "Spain": "Madrid",
    "Japan": "Tokyo",
    "China": "Beijing",
    "Egypt": "Cairo",
    "Kenya": "Nairobi",
    "Canada": "Ottawa",
    "Peru": "Lima",
    "Norway": "Oslo",
    "Sweden": "Stockholm",
    "Poland": "Warsaw",
    "Greece": "Athens",
    "Turkey": "Ankara",
    "Austria": "Vienna",
    "Portugal": "Lisbon",
    "Ireland": "Dublin",
    "Cuba": "Havana",
    "Chile": "Santiago",
}
OPP = {
    "hot": "cold",
    "big": "small",
    "up": "down",
    "left": "right",
    "day": "night",
    "open": "closed",
    "old": "new",
    "fast": "slow",
    "happy": "sad",
    "light": "dark",
    "high": "low",
    "early": "late",
}
OPP.update({v: k for k, v in list(OPP.items())})
LISTS = {
    "fruits": ["apple", "banana", "cherry", "grape", "mango"],
    "animals": ["cat", "dog", "horse", "lion", "owl"],
    "colors": ["red", "blue", "green", "yellow", "purple"],
    "planets": ["Mercury", "Venus", "Earth", "Mars", "Jupiter"],
    "drinks": ["water", "tea", "coffee", "milk", "juice"],
    "tools": ["hammer", "saw", "drill", "wrench", "pliers"],
}
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
UNI = list("äöüßéèñçåøæłžčş日本語中文한국어привет мирαβγδλπ🙂😀🎉🚀❤️👍🌍🍎🐱🐶✨🔥«»„“€£¥→←∑√∞≈") + [
    "Grüße",
    "señor",
    "naïve",
    "你好",
    "こんにちは",
    "здравствуй",
    "😀👍",
    "café",
    "ok!",
    "C++",
    "x=1",
    "#tag",
    "a/b",
    "50%",
]
CODES = {
    "hello world in Python": '```python\nprint("Hello, world!")\n```',
    "a for loop in Python": "```python\nfor i in range(10):\n    print(i)\n```",
    "an add function in Python": "```python\ndef add(a, b):\n    return a + b\n```",
    "hello world in JavaScript": '```js\nconsole.log("Hello, world!");\n```',
    "hello world in Swift": '```swift\nprint("Hello, world!")\n```',
    "a square function in Python": "```python\ndef square(x):\n    return x * x\n```",
}
STORY = (
    "Once upon a time there was a small robot named Pocket. It lived in a quiet house by the sea. Every morning it looked at one picture and told the people "
    "what it saw. One day the picture was empty, and the robot said: there is nothing here yet. So a child drew a red circle, and the robot was happy. The end."
)
HELD_SUM = {(a, b) for a in range(1, 21) for b in range(1, 21) if (a * 7 + b * 13) % 11 == 0}


def text_qa(R, mem, held=False):
    t = R.choices(
        [
            "hi",
            "name",
            "can",
            "sum",
            "diff",
            "mul",
            "repeat",
            "count",
            "list",
            "table",
            "code",
            "opp",
            "cap",
            "day",
            "story",
            "thanks",
            "myname",
            "recall",
            "upper",
            "facts",
            "bye",
            "first",
            "json",
            "math",
            "spellw",
            "markdown",
        ],
        [3, 2, 2, 5, 3, 3, 8, 2, 3, 1, 2, 2, 3, 1, 1, 1, 2, 6, 2, 2, 1, 2, 1, 1, 2, 1],
    )[0]
    if t == "recall" and not mem:
        t = "myname"
    if held:
        t = R.choice(["sum", "repeat", "cap", "opp", "list", "count", "upper", "spellw"])
    if t == "hi":
        return (
            t,
            R.choice(["Hi", "Hello", "Hello!", "hi there", "Hey", "Good morning", "Hi!", "hello"]),
            "Hello! How can I help you?",
            "The user greets me.",
        )
    if t == "bye":
        return t, R.choice(["Bye", "Goodbye", "See you", "bye!"]), "Goodbye!", "The user leaves."
    if t == "name":
        return (
            t,
            R.choice(["Who are you?", "What is your name?", "What are you?", "Which model are you?"]),
            "I am Pocket, a tiny demo model.",
            "The user asks who I am.",
        )
    if t == "can":
        return (
            t,
            R.choice(["What can you do?", "How can you help me?", "Help", "what can you do"]),
            "I can describe simple pictures and short videos, read words, count shapes and chat a little.",
            "The user asks what I can do.",
        )
    if t == "sum":
        while True:
            a, b = R.randint(1, 20), R.randint(1, 20)
            if ((a, b) in HELD_SUM) == held:
                break
        return (
            t,
            R.choice([f"What is {a} + {b}?", f"{a} + {b}", f"What is {a} plus {b}?", f"Calculate {a} + {b}."]),
            f"{a} + {b} = {a + b}",
            f"I add {a} and {b}.",
        )
    if t == "diff":
        a, b = R.randint(1, 20), R.randint(1, 20)
        a, b = max(a, b), min(a, b)
        return (
            t,
            R.choice([f"What is {a} - {b}?", f"{a} - {b}", f"What is {a} minus {b}?"]),
            f"{a} - {b} = {a - b}",
            f"I subtract {b} from {a}.",
        )
    if t == "mul":
        a, b = R.randint(1, 10), R.randint(1, 10)
        return (
            t,
            R.choice([f"What is {a} * {b}?", f"What is {a} times {b}?"]),
            f"{a} * {b} = {a * b}",
            f"I multiply {a} and {b}.",
        )
    if t == "repeat":
        n = R.randint(1, 6)
        ws = [
            R.choice(WORDS)
            if R.random() < 0.7
            else (R.choice(UNI) if R.random() < 0.6 else "".join(R.choice(CHARS) for _ in range(R.randint(1, 5))))
            for _ in range(n)
        ]
        s = " ".join(w for w in ws if w.strip()) or "hello"
        return t, R.choice(["Repeat after me: ", "Say: ", "Repeat: ", "Echo: "]) + s, s, "I repeat the words."
    if t == "count":
        n = R.randint(3, 30)
        return t, f"Count to {n}.", ", ".join(str(i) for i in range(1, n + 1)), f"I count to {n}."
    if t == "list":
        k = R.choice(list(LISTS))
        n = R.randint(2, 5)
        return (
            t,
            R.choice([f"Name {n} {k}.", f"List {n} {k}."]),
            "\n".join("- " + x for x in LISTS[k][:n]),
            f"I list {n} {k}.",
        )
    if t == "table":
        return (
            t,
            R.choice(["Show me a markdown table.", "Make a small table."]),
            "| number | square |\n| --- | --- |\n| 1 | 1 |\n| 2 | 4 |\n| 3 | 9 |",
            "I write a table.",
        )
    if t == "markdown":
        return (
            t,
            "Show me some markdown.",
            "# Title\n\nSome **bold** and *italic* text.\n\n1. one\n2. two\n\n> quote\n\n`code`",
            "I write markdown.",
        )
    if t == "math":
        return t, "Show me a formula.", "$$a^2 + b^2 = c^2$$", "I write a formula."
    if t == "code":
        k = R.choice(list(CODES))
        return t, R.choice([f"Write {k}.", f"Show me {k}."]), CODES[k], "I write code."
    if t == "opp":
        k = R.choice(list(OPP))
        return t, f"What is the opposite of {k}?", f"The opposite of {k} is {OPP[k]}.", "I think of the opposite."
    if t == "cap":
        k = R.choice(list(CAPS))
        return t, f"What is the capital of {k}?", f"The capital of {k} is {CAPS[k]}.", "I remember the capital."
    if t == "day":
        i = R.randrange(7)
        return (
            t,
            f"Which day comes after {DAYS[i]}?",
            f"{DAYS[(i + 1) % 7]} comes after {DAYS[i]}.",
            "I go through the week.",
        )
    if t == "story":
        return t, R.choice(["Tell me a story.", "Tell me a long story.", "Write a story."]), STORY, "I tell a story."
    if t == "thanks":
        return t, R.choice(["Thanks!", "Thank you.", "thanks"]), "You are welcome!", "The user thanks me."
    if t == "myname":
        nm = R.choice(NAMES)
        mem["name"] = nm
        return (
            t,
            R.choice([f"My name is {nm}.", f"I am {nm}.", f"Call me {nm}."]),
            f"Nice to meet you, {nm}!",
            "The user tells me a name.",
        )
    if t == "recall":
        k = R.choice(list(mem))
        if k == "name":
            return (
                t,
                R.choice(["What is my name?", "Do you remember my name?", "Who am I?"]),
                f"Your name is {mem['name']}.",
                "I look back in our chat.",
            )
        if k == "desc":
            return (
                t,
                R.choice(["What was in the first image?", "Describe the first image again."]),
                mem["desc"],
                "I look back in our chat.",
            )
    if t == "upper":
        w = R.choice(WORDS)
        return t, f"Write {w} in capital letters.", w.upper(), "I use capital letters."
    if t == "first":
        w = R.choice(WORDS)
        return t, f"What is the first letter of {w}?", f"The first letter of {w} is {w[0]}.", f"I look at {w}."
    if t == "spellw":
        w = R.choice(WORDS)
        return t, R.choice([f"Spell {w}.", f"Spell the word {w}."]), "-".join(w), f"I spell {w}."
    if t == "json":
        return t, "Give me a JSON object.", '{"name": "Pocket", "size": "tiny", "ok": true}', "I write JSON."
    return (
        "facts",
        "How many days are in a week?",
        "There are 7 days in a week.",
        "I know this fact.",
    )


SYS = [
    "You are Pocket, a tiny demo model.",
    "You are a helpful assistant.",
    "You are a helpful assistant. Answer briefly.",
    "Answer in English.",
    "Be concise.",
    "You are a friendly chat bot that looks at pictures.",
    "You are a careful assistant. Keep answers short and exact.",
]


def image_any(R, held=False, small=False):
    k = R.choices(["shapes", "text", "chart"], [10, 7, 2])[0]
    if k == "shapes":
        return shape_scene(R, held=held, n=R.choice([1, 1, 2]) if small else (R.randint(1, 4) if held else None))
    if k == "text":
        return text_scene(R, held=held)
    return chart_scene(R)


def conv(R, held=False, kind=None):
    """-> dict(system, turns=[(parts, answer, thought, task)], think). parts: list of ('image',Img)|('video',Vid)|('text',str)."""
    kind = kind or R.choices(["image", "multi", "two", "video", "text", "mix"], [44, 12, 9, 14, 15, 6])[0]
    turns, mem = [], {}

    def mk(media, q):
        p = [("video" if m.video else "image", m) for m in media]
        if media and R.random() < 0.15:
            return [("text", q)] + p
        return p + [("text", q)]

    if kind == "image":
        im = image_any(R, held)
        for i in range(R.choices([1, 2, 3, 4], [4, 3, 2, 1])[0]):
            t, q, a, th = qa(R, im)
            turns.append((mk([im] if i == 0 else [], q), a, th, t))
    elif kind == "video":
        v = video_scene(R, held)
        for i in range(R.choices([1, 2], [2, 1])[0]):
            t, q, a, th = qa(R, v)
            turns.append((mk([v] if i == 0 else [], q), a, th, t))
    elif kind == "multi":  # several images in successive turns
        for i in range(R.choices([2, 3], [3, 1])[0]):
            im = image_any(R, held, small=True)
            t, q, a, th = qa(R, im)
            turns.append((mk([im], q), a, th, t))
            if i == 0:
                mem["desc"] = describe(im)
                first = im
            if R.random() < 0.4:
                t, q, a, th = qa(R, im)
                turns.append((mk([], q), a, th, t))
        if R.random() < 0.4:
            turns.append(
                (
                    mk([], R.choice(["What was in the first image?", "Describe the first image again."])),
                    describe(first),
                    "I look back at the first image.",
                    "first_image",
                )
            )
    elif kind == "two":
        a, b = image_any(R, held, True), image_any(R, held, True)
        for i in range(R.choices([1, 2], [2, 1])[0]):
            x = R.random()
            if x < 0.5:
                q, ans, t = (
                    R.choice(
                        [
                            "Compare the two images.",
                            "What do the two images show?",
                            "Describe both images.",
                            "What is the difference between the images?",
                        ]
                    ),
                    f"The first image shows {short(a)}. The second image shows {short(b)}.",
                    "compare",
                )
            elif x < 0.6:
                q, ans, t = "How many images are there?", "There are 2 images.", "nimages"
            elif x < 0.8:
                j = R.randrange(2)
                q, ans, t = f"Describe the {['first', 'second'][j]} image.", describe([a, b][j]), "nth"
            else:
                s = R.choice(SHAPES)
                both = [im.kind == "shapes" and any(o["shape"] == s for o in im.objs) for im in (a, b)]
                cand = [o["shape"] for im in (a, b) if im.kind == "shapes" for o in im.objs]
                if cand:
                    s = R.choice(cand)
                    both = [im.kind == "shapes" and any(o["shape"] == s for o in im.objs) for im in (a, b)]
                q = f"Which image has a {s}?"
                ans = {
                    (True, True): "Both images do.",
                    (True, False): "The first image.",
                    (False, True): "The second image.",
                    (False, False): "Neither image.",
                }[tuple(both)]
                t = "which"
            turns.append((mk([a, b] if i == 0 else [], q), ans, "I compare the images.", t))
    elif kind == "text":
        for i in range(R.choices([1, 2, 3, 4], [4, 3, 2, 2])[0]):
            t, q, a, th = text_qa(R, mem, held)
            turns.append((mk([], q), a, th, "text_" + t))
    else:  # chat around an image
        im = image_any(R, held, True)
        for i in range(R.randint(2, 4)):
            if i == 1 or (i != 0 and R.random() < 0.5):
                t, q, a, th = qa(R, im)
                turns.append((mk([im] if i == 1 else [], q), a, th, t))
            else:
                t, q, a, th = text_qa(R, mem, held)
                turns.append((mk([], q), a, th, "text_" + t))
    return dict(system=R.choice(SYS) if R.random() < 0.25 else None, turns=turns, think=R.random() < 0.07, kind=kind)


if __name__ == "__main__":
    import sys
    import time

    R = random.Random(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    t0 = time.time()
    N = 400
    for i in range(N):
        c = conv(R)
        for parts, a, th, t in c["turns"]:
            for k, x in parts:
                if k != "text":
                    x.encode()
    print((time.time() - t0) / N * 1e3, "ms/conv")
    for i in range(12):
        c = conv(R)
        print("---", c["kind"], c["system"])
        for parts, a, th, t in c["turns"]:
            print(
                [(k, x if k == "text" else (x.kind, (x.frames[0] if x.video else x.arr).shape)) for k, x in parts],
                "=>",
                repr(a),
                t,
            )
