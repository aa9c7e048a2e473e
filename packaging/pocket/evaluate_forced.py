"""Exact match by teacher forcing in torch, on the CPU: evaluate_forced.py MODEL OUT.json [SCALE].

An answer is right when every one of its tokens is the most likely one.
"""

import collections
import json
import os
import random
import sys
import time

import torch

torch.set_num_threads(2)
import batches
import network
import stage_one
from safetensors.torch import load_file

D, OUT = sys.argv[1], sys.argv[2]
SC = float(sys.argv[3]) if len(sys.argv) > 3 else 1
sets = collections.OrderedDict()
n = lambda k: max(4, int(k * SC))


def one(im, q, a, t):
    return dict(system=None, turns=[([("image", im), ("text", q)], a, "", t)], think=False, kind=t)


Q = "What does the text say?"
sets["unseen"] = [stage_one.conv(random.Random(880000 + i)) for i in range(n(250))]
sets["held out"] = [stage_one.conv(random.Random(990000 + i), held=True) for i in range(n(150))]
R = random.Random(777)
L = []
for i in range(n(200)):
    im = stage_one.text_scene(R)
    L.append(one(im, Q, f'The text says "{im.text}".', "roomy text"))
for i in range(n(80)):
    im = stage_one.text_scene(R, held=True)
    L.append(one(im, Q, f'The text says "{im.text}".', "roomy text, held words"))
sets["roomy text"] = L
L = []
for s in stage_one.SHAPES:
    for i in range(n(24)):
        while True:
            im = stage_one.shape_scene(R, n=1)
            o = im.objs[0]
            if o["shape"] == s:
                break
        L.append(one(im, f"Which shape is {o['color']}?", f"The {o['color']} shape is a {s}.", "shape:" + s))
sets["shape names"] = L
import stage_two

R = random.Random(778)
L = []
for i in range(n(160)):
    a, b = stage_two.image_any(R, False, True, (6, 1, 1)), stage_two.image_any(R, False, True, (6, 1, 1))
    if a.kind != "shapes" and b.kind != "shapes":
        continue
    q, ans = stage_two.which(R, a, b)
    L.append(
        dict(
            system=None,
            turns=[([("image", a), ("image", b), ("text", q)], ans, "", "which")],
            think=False,
            kind="which",
        )
    )
sets["which image"] = L
L = []
for i in range(n(240)):
    im = stage_two.text_scene(R)
    k = "digits" if im.text.replace(":", "").replace(".", "").isdigit() else ("phrase" if " " in im.text else "word")
    L.append(one(im, Q, f'The text says "{im.text}".', f"tight text {k}"))
    L[-1]["kind"] = "fs<24" if im.fs < 24 else "fs24-47" if im.fs < 48 else "fs48+"
for i in range(n(80)):
    im = stage_two.text_scene(R, held=True)
    L.append(one(im, Q, f'The text says "{im.text}".', "tight text held words"))
    L[-1]["kind"] = "held"
for i in range(n(60)):
    im = stage_two.text_scene(
        R, fontp=os.path.join(stage_two.FD, stage_two.HELD_FONT), size=(256, 96), fs=R.choice([24, 32, 40, 48])
    )
    L.append(one(im, Q, f'The text says "{im.text}".', "tight text held font"))
    L[-1]["kind"] = "heldfont"
sets["tight text"] = L
cfg = json.load(open(f"{D}/config.json"))
m = network.Pocket(cfg)
m.load_state_dict({k: v.float() for k, v in load_file(f"{D}/model.safetensors").items()})
m.eval()
E = batches.Enc(f"{D}/tokenizer.json")
tk = __import__("numpy").array([E.ip, E.vp])
res = {}
t0 = time.time()
for name, cs in sets.items():
    st = collections.defaultdict(list)
    kinds = collections.defaultdict(list)
    bad = []
    for c in cs:
        c["think"] = False
    es = [(E.conv(c) + (E.pad, tk), c) for c in cs]
    es = [x for x in es if len(x[0][0]) < 900]
    es.sort(key=lambda x: len(x[0][0]))
    for i in range(0, len(es), 12):
        g = es[i : i + 12]
        mb = batches.collate([x[0] for x in g], need_aux=False)
        with torch.no_grad():
            vis = m.vision(mb["pix"], mb["buckets"], torch.float32)[mb["vsel"]] if mb["pix"] is not None else None
            h, e = m(mb["ids"].long(), mb["pos"].long(), vis, mb["vpos"])
            b, t = mb["tb"], mb["tt"]
            pr = m.logits(h[b, t]).argmax(-1)
        ok = torch.ones(mb["ids"].shape, dtype=torch.bool)
        P = torch.zeros(mb["ids"].shape, dtype=torch.long)
        ok[b, t + 1] = pr == mb["ids"][b, t + 1]
        P[b, t + 1] = pr
        for r, (x, c) in enumerate(g):
            mk = x[1]
            j = 0
            for parts, a, th, task in c["turns"]:
                while not mk[j]:
                    j += 1
                k = j
                while k < len(mk) and mk[k]:
                    k += 1
                good = bool(ok[r, j:k].all())
                st["text" if task.startswith("text_") else task].append(good)
                kinds[c["kind"]].append(good)
                if not good:
                    bad.append((task, a, E.t.decode(P[r, j:k].tolist())))
                j = k
    al = [v for x in st.values() for v in x]
    oc = [v for k, x in st.items() if k in ("ocr", "spell", "describe_text", "compare", "first_image") for v in x]
    res[name] = dict(
        total=[sum(al), len(al)],
        ocr_type=[sum(oc), len(oc)],
        tasks={k: [sum(v), len(v)] for k, v in sorted(st.items())},
        kinds={k: [sum(v), len(v)] for k, v in sorted(kinds.items())},
        bad=bad[:60],
    )
    print(
        f"{name:28s} {sum(al)}/{len(al)} = {sum(al) / max(1, len(al)):.3f}",
        ""
        if not oc or len(oc) == len(al)
        else f"without OCR-type {(sum(al) - sum(oc)) / max(1, len(al) - len(oc)):.3f} ({len(al) - len(oc)}), OCR-type {sum(oc)}/{len(oc)}",
        round(time.time() - t0),
        "s",
    )
    print("   ", {k: f"{sum(v)}/{len(v)}" for k, v in sorted(st.items())})
    if name == "tight text":
        print("   ", {k: f"{sum(v)}/{len(v)}" for k, v in sorted(kinds.items())})
    sys.stdout.flush()
json.dump(res, open(OUT, "w"), indent=1)
