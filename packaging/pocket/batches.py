"""Conversations -> token ids, positions and patches -> padded batches, made in worker processes (NumPy, torch)."""

import random

import numpy as np
import stage_one
import torch
from tokenizers import Tokenizer

W2 = set()  # tasks whose answer tokens count twice (set by train.py)

BUCK = [64, 144, 256, 484, 784]


class Enc:
    def __init__(s, tokfile):
        s.t = Tokenizer.from_file(tokfile)
        g = s.t.token_to_id
        s.im_start, s.im_end, s.vs, s.ve, s.ip, s.vp, s.pad = (
            g("<|im_start|>"),
            g("<|im_end|>"),
            g("<|vision_start|>"),
            g("<|vision_end|>"),
            g("<|image_pad|>"),
            g("<|video_pad|>"),
            g("<|endoftext|>"),
        )
        s.cache = {}

    def e(s, x):
        r = s.cache.get(x)
        if r is None:
            r = s.t.encode(x).ids
            if len(s.cache) < 50000:
                s.cache[x] = r
        return r

    def conv(s, c):
        """-> ids, loss mask, pos (3,T), groups [(frameA, frameB, gh, gw)], aux."""
        ids, mask, pos, groups, auxs = [], [], [], [], []
        nxt = 0

        def text(t, m=0):
            nonlocal nxt
            ids.extend(t)
            mask.extend([m] * len(t))
            a = np.arange(nxt, nxt + len(t))
            pos.append(np.stack([a, a, a]))
            nxt += len(t)

        def block(gh, gw, tok):
            nonlocal nxt
            h, w = gh // 2, gw // 2
            n = h * w
            ids.extend([tok] * n)
            mask.extend([0] * n)
            p = np.empty((3, n), np.int64)
            p[0] = nxt
            p[1] = nxt + np.repeat(np.arange(h), w)
            p[2] = nxt + np.tile(np.arange(w), h)
            pos.append(p)
            nxt = int(p.max()) + 1

        if c["system"]:
            text(s.e("<|im_start|>system\n" + c["system"] + "<|im_end|>\n"))
        for parts, a, th, task in c["turns"]:
            buf = "<|im_start|>user\n"
            for k, x in parts:
                if k == "text":
                    buf += x
                    continue
                if not hasattr(x, "_enc"):
                    x._enc = x.encode()
                fr, (t, gh, gw), aux = x._enc
                auxs.append(aux)
                if k == "image":
                    text(s.e(buf) + [s.vs])
                    buf = ""
                    block(gh, gw, s.ip)
                    text([s.ve])
                    groups.append((fr[0], fr[0], gh, gw))
                else:
                    for g in range(t):
                        sec = (2 * g + 0.5) / x.fps
                        text(s.e(buf + f"<{sec:.1f} seconds>") + [s.vs])
                        buf = ""
                        block(gh, gw, s.vp)
                        text([s.ve])
                        groups.append((fr[2 * g], fr[2 * g + 1], gh, gw))
            buf += "<|im_end|>\n<|im_start|>assistant\n<think>\n"
            if c["think"]:
                text(s.e(buf))
                text(s.e(th + "\n</think>\n\n"), 1)
            else:
                text(s.e(buf + "\n</think>\n\n"))
            text(s.e(a) + [s.im_end], 2 if task in W2 else 1)
            text(s.e("\n"))
        return np.array(ids, np.int32), np.array(mask, np.uint8), np.concatenate(pos, 1), groups, auxs


def collate(encs, mult=64, need_aux=True):
    B = len(encs)
    T = max(len(e[0]) for e in encs)
    T = (T + mult - 1) // mult * mult
    ids = np.full((B, T), encs[0][5], np.int32)
    mask = np.zeros((B, T), np.uint8)
    pos = np.zeros((3, B, T), np.int16)
    groups, auxs = [], []
    for b, (i, m, p, g, a, pad, tk) in enumerate(encs):
        n = len(i)
        ids[b, :n], mask[b, :n], pos[:, b, :n] = i, m, p
        if n < T:
            pos[:, b, n:] = p.max() + 1 + np.arange(T - n)
        vp = np.nonzero(np.isin(i, tk))[0] + b * T
        o = 0
        for fa, fb, gh, gw in g:
            k = gh * gw // 4
            groups.append((fa, fb, gh, gw, vp[o : o + k]))
            o += k
        auxs += a
    tb, tt = np.nonzero(mask[:, 1:])  # target positions, found here so that the GPU never has to wait for nonzero()
    assert len(tt) and tt.min() >= 1
    out = dict(
        ids=torch.from_numpy(ids),
        mask=torch.from_numpy(mask),
        pos=torch.from_numpy(pos),
        tb=torch.from_numpy(tb),
        tt=torch.from_numpy(tt),
    )
    if not groups:
        out.update(pix=None, buckets=[], vpos=None, vsel=None, aux=None)
        return out
    aux = np.concatenate(auxs) if need_aux else None
    ao = np.concatenate([[0], np.cumsum([g[2] * g[3] // 4 for g in groups])])
    pix, off, o = [], {}, 0
    for g in groups:
        for f in g[:2]:
            if id(f) not in off:
                off[id(f)] = o
                o += len(f)
                pix.append(f)
    bucks, vsel, vpos, asel, base = [], [], [], [], 0
    for bi, L in enumerate(BUCK):
        lo = BUCK[bi - 1] if bi else 0
        gi = [i for i, g in enumerate(groups) if lo < g[2] * g[3] <= L]
        if not gi:
            continue
        n = len(gi)
        L = max(groups[i][2] * groups[i][3] for i in gi)
        ia = np.zeros((n, L), np.int32)
        ib = np.zeros((n, L), np.int32)
        hw = np.zeros((n, L, 2), np.int16)
        HW = np.zeros((n, 2), np.int16)
        ln = np.zeros(n, np.int32)
        for j, i in enumerate(gi):
            fa, fb, gh, gw, vp = groups[i]
            P = gh * gw
            ia[j, :P] = off[id(fa)] + np.arange(P)
            ib[j, :P] = off[id(fb)] + np.arange(P)
            r = np.arange(P)
            blk, inn = r // 4, r % 4
            hw[j, :P, 0] = blk // (gw // 2) * 2 + inn // 2
            hw[j, :P, 1] = blk % (gw // 2) * 2 + inn % 2
            HW[j] = gh, gw
            ln[j] = P
            vsel.append(base + j * (L // 4) + np.arange(P // 4))
            vpos.append(vp)
            asel.append(ao[i] + np.arange(P // 4))
        base += n * (L // 4)
        bucks.append(
            dict(
                ia=torch.from_numpy(ia),
                ib=torch.from_numpy(ib),
                hw=torch.from_numpy(hw),
                HW=torch.from_numpy(HW),
                n=torch.from_numpy(ln),
            )
        )
    out.update(
        pix=torch.from_numpy(np.concatenate(pix)),
        buckets=bucks,
        vsel=torch.from_numpy(np.concatenate(vsel)),
        vpos=torch.from_numpy(np.concatenate(vpos)),
    )
    out["aux"] = torch.from_numpy(aux[np.concatenate(asel)]) if need_aux else None
    return out


class Stream(torch.utils.data.IterableDataset):
    """yields steps: list of micro-batches (sorted by length) of one pool of conversations."""

    def __init__(s, tokfile, pool=512, micro=3, seed=0, maxlen=640, aux=True, reuse=2, budget=0, wid=0):
        s.budget, s.wid = budget, wid
        s.a = (tokfile, pool, micro, seed, maxlen, aux, reuse)

    def __iter__(s):
        tokfile, pool, micro, seed, maxlen, need_aux, reuse = s.a
        wi = torch.utils.data.get_worker_info()
        R = random.Random(seed * 1000 + (wi.id if wi else s.wid))
        E = Enc(tokfile)
        tk = np.array([E.ip, E.vp])
        # replay of rendered scenes with new questions: rendering is the bottleneck
        orig = {n: getattr(stage_one, n) for n in ("shape_scene", "text_scene", "chart_scene", "video_scene")}
        mem = {n: [] for n in orig}

        def wrap(n):
            f = orig[n]

            def g(R, *a, **k):
                key = n + str(sorted(k.items())) + str(a)
                m = mem.setdefault(key, [])
                if n != "text_scene" and len(m) > 60 and R.random() < 1 - 1 / reuse:
                    return m[R.randrange(len(m))]
                x = f(R, *a, **k)
                if n == "text_scene":
                    return x
                m.append(x) if len(m) < 120 else m.__setitem__(R.randrange(120), x)
                return x

            return g

        for n in orig:
            setattr(stage_one, n, wrap(n))
        while True:
            es = []
            while len(es) < pool:
                c = stage_one.conv(R)
                e = E.conv(c)
                if len(e[0]) <= maxlen:
                    es.append(e + (E.pad, tk))
            es.sort(key=lambda e: len(e[0]))
            if s.budget:
                # length-grouped batches of a fixed padded-token budget, in random order
                outs, i = [], 0
                while i < len(es):
                    j = i + 1
                    while j < len(es) and (j - i + 1) * ((len(es[j][0]) + 63) // 64 * 64) <= s.budget and (j - i) < 640:
                        j += 1
                    if j - i >= 16 or i == 0:
                        outs.append((i, j))
                    i = j
                R.shuffle(outs)
                for i, j in outs:
                    mbs = [collate(es[i:j], need_aux=need_aux)]
                    stats = (
                        int(mbs[0]["mask"][:, 1:].sum()),
                        max(1, len(mbs[0]["vpos"]) if mbs[0]["pix"] is not None else 1),
                        j - i,
                    )
                    yield stats, pack(mbs)
                continue
            # split so that padded tokens are about equal
            tot = sum(len(e[0]) for e in es)
            cut = []
            acc = 0
            for i, e in enumerate(es):
                acc += len(e[0])
                if acc >= tot * (len(cut) + 1) / micro and len(cut) < micro - 1:
                    cut.append(i + 1)
            cut = [0] + cut + [len(es)]
            mbs = [collate(es[a:b], need_aux=need_aux) for a, b in zip(cut, cut[1:]) if b > a]
            stats = (
                sum(int(x["mask"][:, 1:].sum()) for x in mbs),
                max(1, sum(len(x["vpos"]) for x in mbs if x["pix"] is not None)),
            )
            yield stats, pack(mbs)


def pack(obj):
    """Nested dict/list of tensors -> (spec, one uint8 tensor): one shared-memory segment and one H2D copy a step."""
    chunks, off = [], 0

    def go(x):
        nonlocal off
        if isinstance(x, dict):
            return {k: go(v) for k, v in x.items()}
        if isinstance(x, list):
            return [go(v) for v in x]
        if torch.is_tensor(x):
            b = x.contiguous().reshape(-1).view(torch.uint8)
            r = ("T", off, b.numel(), x.dtype, tuple(x.shape))
            pad = -b.numel() % 16
            chunks.append(b)
            if pad:
                chunks.append(torch.zeros(pad, dtype=torch.uint8))
            off += b.numel() + pad
            return r
        return x

    spec = go(obj)
    return spec, torch.cat(chunks)


def unpack(spec, buf):
    def go(x):
        if isinstance(x, dict):
            return {k: go(v) for k, v in x.items()}
        if isinstance(x, list):
            return [go(v) for v in x]
        if isinstance(x, tuple) and x and x[0] == "T":
            return buf[x[1] : x[1] + x[2]].view(x[3]).reshape(x[4])
        return x

    return go(spec)


def worker(wid, args, ring, free, full):
    import os

    os.nice(10)  # the launching process goes first
    torch.set_num_threads(1)
    tokfile, pool, seed, reuse, budget = args
    st = Stream(tokfile, pool, 1, seed, reuse=reuse, budget=budget, wid=wid)
    for stats, (spec, buf) in st:
        n = buf.numel()
        if n > ring.shape[1]:
            continue
        k = free.get()
        ring[k, :n].copy_(buf)
        full.put((k, n, stats, spec))
