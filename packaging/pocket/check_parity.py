"""Compare torch and mlx-vlm on random weights: token ids, positions, vision, logits and MTP: check_parity.py MODEL."""

import json
import os
import random
import shutil
import sys

import numpy as np
import torch

D = sys.argv[1]
import batches
import export
import network
import stage_one

torch.manual_seed(0)
cfg = json.load(open(f"{D}/config.json"))
m = network.Pocket(cfg).eval()
with torch.no_grad():
    for n, p in m.named_parameters():
        if p.ndim == 1:
            p.add_(torch.randn_like(p) * 0.1)
print(
    "params",
    sum(p.numel() for p in m.parameters()) / 1e6,
    {
        k: round(sum(p.numel() for n, p in m.named_parameters() if n.startswith(k)) / 1e6, 2)
        for k in ("model.visual", "model.language_model", "mtp")
    },
)
T = "rand"
shutil.rmtree(T, ignore_errors=True)
shutil.copytree(D, T)
for f in os.listdir(T):
    if f.endswith(".safetensors"):
        os.remove(f"{T}/{f}")
export.export(m.state_dict(), f"{T}/model.safetensors", torch.float32)
import mlx.core as mx
from mlx_vlm.utils import load

model, proc = load(T)
E = batches.Enc(f"{T}/tokenizer.json")
from PIL import Image

for kind in ("image", "two", "video", "text"):
    R = random.Random(3)
    c = stage_one.conv(R, kind=kind)
    c["think"] = False
    c["turns"] = c["turns"][:1]
    c["system"] = None
    for p in c["turns"][0][0]:
        if p[0] == "video":
            p[1].fps = 2.0
    e = E.conv(c)
    mb = batches.collate([e + (E.pad, np.array([E.ip, E.vp]))])
    with torch.no_grad():
        vis = None
        if mb["pix"] is not None:
            vis = m.vision(mb["pix"], mb["buckets"], torch.float32)[mb["vsel"]]
        h, em = m(mb["ids"].long(), mb["pos"].long(), vis, mb["vpos"])
        lt = m.logits(h)[0, : len(e[0])].numpy()
        mt = m.logits(m.mtp_hidden(h[:, : len(e[0])], em[:, : len(e[0])]))[0].numpy()
    parts, a, th, t = c["turns"][0]
    content = [{"type": k} if k != "text" else {"type": "text", "text": x} for k, x in parts]
    text = proc.apply_chat_template(
        [{"role": "user", "content": content}, {"role": "assistant", "content": a}], tokenize=False
    )
    ims = [Image.fromarray(x.arr) for k, x in parts if k == "image"]
    vids = [np.stack(x.frames) for k, x in parts if k == "video"]
    inp = proc(text=[text], images=ims or None, videos=vids or None)
    ids = np.array(inp["input_ids"])[0]
    assert ids.tolist() == e[0].tolist(), (
        kind,
        proc.tokenizer.decode(ids.tolist()),
        E.t.decode(e[0].tolist(), skip_special_tokens=False),
    )
    kw = {k: mx.array(np.array(v)) for k, v in inp.items() if k not in ("input_ids", "attention_mask")}
    pv = kw.pop("pixel_values", kw.pop("pixel_values_videos", None))
    emb = model.get_input_embeddings(mx.array(ids)[None], pv, **kw)
    o = model.language_model(
        mx.array(ids)[None],
        inputs_embeds=emb.inputs_embeds,
        position_ids=emb.position_ids,
        cache=model.language_model.make_cache(),
        return_hidden=True,
    )
    lm = np.array(o.logits)[0]
    pi = np.array(emb.position_ids)
    pi = pi if pi.ndim == 3 else np.stack([pi] * 3)
    assert (pi[:, 0] == e[2]).all(), kind
    if vis is not None:
        vt, _ = model.vision_tower(pv, kw.get("image_grid_thw", kw.get("video_grid_thw")))
        vt = np.array(vt)
        order = np.argsort(mb["vpos"].numpy())
        print("  vision diff", np.abs(vt - vis.numpy()[order]).max(), np.abs(vt).max())
    # MTP
    from pathlib import Path

    from mlx_vlm.speculative.drafters.qwen3_5_mtp.split import Qwen3_5MTPSplitter

    d = Qwen3_5MTPSplitter().load(Path(T))
    d.reset(model)
    hid = o.hidden_states[-1]
    sh = mx.array(np.concatenate([ids[1:], ids[-1:]]))[None]
    d._next_position = 0
    hm = d._forward_tokens(sh, hid, mx.int32)
    lmt = np.array(d._lm_head_fn(hm))[0]
    print(
        kind,
        len(ids),
        "logit diff",
        np.abs(lm - lt).max(),
        "scale",
        np.abs(lt).max(),
        "mtp diff",
        np.abs(lmt - mt).max(),
    )
