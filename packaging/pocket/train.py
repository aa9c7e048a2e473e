"""Train the demo model on one GPU: worker processes draw and batch conversations while the GPU learns."""

import argparse
import json
import math
import os
import sys
import time

T00 = time.time()
os.environ.setdefault("OMP_NUM_THREADS", "1")
ap = argparse.ArgumentParser()
ap.add_argument("--seconds", type=float, default=60)
ap.add_argument("--steps", type=int, default=0)
ap.add_argument("--pool", type=int, default=512)
ap.add_argument("--micro", type=int, default=3)
ap.add_argument("--workers", type=int, default=14)
ap.add_argument("--lr", type=float, default=2e-3)
ap.add_argument("--muon", type=float, default=0.02)
ap.add_argument("--seed", type=int, default=1)
ap.add_argument("--out", default="out")
ap.add_argument("--init", default="")
ap.add_argument("--compile", type=int, default=0)
ap.add_argument("--device", default="cuda")
ap.add_argument("--warm", type=int, default=100)
ap.add_argument("--auxw", type=float, default=1.0)
ap.add_argument("--reuse", type=int, default=2)
ap.add_argument("--decay", type=float, default=0.6)
ap.add_argument("--slots", type=int, default=24)
ap.add_argument("--slotmb", type=int, default=160)
ap.add_argument("--budget", type=int, default=65536)
ap.add_argument("--deadline", type=float, default=1e9)
ap.add_argument("--initaux", default="")
ap.add_argument("--auxend", type=float, default=0.7)
ap.add_argument("--stage-two", type=int, default=0)
ap.add_argument("--maxms", type=float, default=700)
a = ap.parse_args()
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(2 if a.device == "cpu" else 4)
import batches
import export
import network
import stage_one

if a.stage_two:
    import stage_two

    batches.W2 = stage_two.WEIGHT2
HERE = os.path.dirname(os.path.abspath(__file__))
import collections

import torch.multiprocessing as mp

ctx = mp.get_context("fork")
ring = torch.empty(a.slots, a.slotmb << 20, dtype=torch.uint8).share_memory_()
free, full = ctx.Queue(), ctx.Queue()
for i in range(a.slots):
    free.put(i)
procs = [
    ctx.Process(
        target=batches.worker,
        args=(i, (f"{HERE}/model/tokenizer.json", a.pool, a.seed, a.reuse, a.budget), ring, free, full),
        daemon=True,
    )
    for i in range(a.workers)
]
for p_ in procs:
    p_.start()


def finish(code=0):
    for p_ in procs:
        p_.kill()
    for p_ in procs:
        p_.join(5)
    sys.stdout.flush()
    os._exit(code)


dev = a.device
torch.manual_seed(a.seed)
if dev == "cuda":
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.set_float32_matmul_precision("high")
cfg = json.load(open(f"{HERE}/model/config.json"))
m = network.Pocket(cfg)
m.aux = nn.Linear(cfg["vision_config"]["out_hidden_size"], stage_one.KAUX)
nn.init.zeros_(m.aux.weight)
nn.init.constant_(m.aux.bias, -3.5)
if a.init:
    from safetensors.torch import load_file

    sd = load_file(a.init)
    miss = m.load_state_dict({k: v.float() for k, v in sd.items()}, strict=False)
    print("init", a.init, len(sd), "missing", miss.missing_keys, "unexpected", miss.unexpected_keys)
    assert not miss.unexpected_keys and all(k.startswith("aux") for k in miss.missing_keys)
if a.initaux:
    ax = load_file(a.initaux)
    w_, b_ = ax["aux.weight"].float(), ax["aux.bias"].float()
    if w_.shape[0] < stage_one.KAUX:  # old head: one class a character; new: left and right half
        n_ = len(stage_one.CHARS)
        w_, b_ = torch.cat((w_, w_[-n_:])), torch.cat((b_, b_[-n_:]))
    with torch.no_grad():
        m.aux.weight.copy_(w_)
        m.aux.bias.copy_(b_)
m.to(dev)
if dev == "cuda":
    r_ = torch.cuda.cudart().cudaHostRegister(ring.data_ptr(), ring.numel(), 0)
    print("pin", r_, flush=True)
    x_ = torch.empty(60 << 30, dtype=torch.uint8, device=dev)
    del x_  # one large cached block: no cudaMalloc later
if a.compile:
    torch._dynamo.config.cache_size_limit = 64
    for l in list(m.model.language_model.layers) + list(m.mtp.layers):
        l.compile(dynamic=True)
    for b in m.model.visual.blocks:
        b.compile(dynamic=True)
amp = lambda: torch.autocast(dev, dtype=torch.bfloat16, enabled=dev == "cuda")
muon_p, adam_p, adam_nd = [], [], []
for n, p in m.named_parameters():
    if p.ndim == 2 and not any(k in n for k in ("embed", "aux", "in_proj_a", "in_proj_b")):
        muon_p.append(p)
    elif p.ndim >= 2:
        adam_p.append(p)
    else:
        adam_nd.append(p)
opt = torch.optim.AdamW(
    [dict(params=adam_p, weight_decay=0.01), dict(params=adam_nd, weight_decay=0.0)],
    lr=a.lr,
    betas=(0.9, 0.98),
    eps=1e-9,
)
groups = {}
for p in muon_p:
    groups.setdefault(tuple(p.shape), []).append(p)
mom = {k: torch.zeros(len(v), *k, device=dev) for k, v in groups.items()}


@torch.no_grad()
def muon_step(lr, wd=0.02, beta=0.95):
    for k, ps in groups.items():
        g = torch.stack([p.grad if p.grad is not None else torch.zeros_like(p) for p in ps]).float()
        M = mom[k]
        M.lerp_(g, 1 - beta)
        X = g.lerp(M, beta)
        X = X.to(torch.bfloat16) if dev == "cuda" else X
        t = k[0] > k[1]
        if t:
            X = X.transpose(-1, -2)
        X = X / (X.norm(dim=(-2, -1), keepdim=True) + 1e-7)
        for _ in range(5):
            A = X @ X.transpose(-1, -2)
            B = -4.7750 * A + 2.0315 * (A @ A)
            X = 3.4445 * X + B @ X
        if t:
            X = X.transpose(-1, -2)
        s = max(1, k[0] / k[1]) ** 0.5
        for p, u in zip(ps, X.float()):
            p.mul_(1 - lr * wd).add_(u, alpha=-lr * s)


def to(x):
    if isinstance(x, dict):
        return {k: to(v) for k, v in x.items()}
    if isinstance(x, list):
        return [to(v) for v in x]
    return x.to(dev, non_blocking=True) if torch.is_tensor(x) else x


def losses(mb, den, auxden, w_aux):
    ids, mask, pos = mb["ids"].long(), mb["mask"], mb["pos"].long()
    with amp():
        vis, la = None, torch.zeros((), device=dev)
        if mb["pix"] is not None:
            vis = m.vision(mb["pix"], mb["buckets"], torch.bfloat16 if dev == "cuda" else torch.float32)[mb["vsel"]]
            if w_aux > 0:
                al = m.aux(vis)
                la = F.binary_cross_entropy_with_logits(al.float(), mb["aux"].float(), reduction="sum") / auxden / 8
        h, e = m(ids, pos, vis, mb["vpos"])
        B, T = ids.shape
        b, t = mb["tb"], mb["tt"]
        wt = mask[b, t + 1].float()
        lg = m.logits(h[b, t])
        tgt = ids[b, t + 1]
        l = (F.cross_entropy(lg.float(), tgt, reduction="none") * wt).sum() / den
        mh = m.mtp_hidden(h, e)
        b2, t2 = b, t - 1  # mtp at t-1 predicts token t+1
        lm_ = (F.cross_entropy(m.logits(mh[b2, t2]).float(), ids[b2, t2 + 2], reduction="none") * wt).sum() / den
    acc = (lg.argmax(-1) == tgt).float().mean()
    return l, lm_, la, acc


inflight = collections.deque()


def get():
    while len(inflight) > 2:
        k, ev = inflight.popleft()
        if ev is not None:
            ev.synchronize()
        free.put(k)
    k, n, stats, spec = full.get(timeout=120)
    buf = ring[k, :n].to(dev, non_blocking=True) if dev == "cuda" else ring[k, :n].clone()
    ev = None
    if dev == "cuda":
        ev = torch.cuda.Event()
        ev.record()
    inflight.append((k, ev))
    return stats, batches.unpack(spec, buf)


def hook(tp, e, tb):
    import traceback

    traceback.print_exception(tp, e, tb)
    sys.stderr.flush()
    finish(5)


sys.excepthook = hook
q0 = get()
print("first batch", q0[0], [tuple(x["ids"].shape) for x in q0[1]], flush=True)
t0 = time.time()
step = 0
wait = 0.0
hist = open(os.path.join(a.out, "log.txt"), "a")
tokens = 0
convs = 0
nxt = q0
stopat = min(a.seconds, a.deadline - (t0 - T00))  # the deadline counts from the program's start


def sched(f, s):
    w = min(1, (s + 1) / a.warm)
    return w * (1.0 if f < 1 - a.decay else max(0.0, (1 - f) / a.decay) ** 1.0 * 0.98 + 0.02)


def save():
    sd = {k.replace("._orig_mod", ""): v for k, v in m.state_dict().items()}
    keys = sorted(k for k in sd if not k.startswith("aux"))
    for n_, d_ in (
        ("lm", {k: sd[k] for k in keys if k.startswith("model.language_model")}),
        ("vis", {k: sd[k] for k in keys if not k.startswith("model.language_model")}),
    ):
        export.export(d_, f"{a.out}/{n_}.tmp")
        os.replace(f"{a.out}/{n_}.tmp", f"{a.out}/{n_}.safetensors")
    export.save_file(
        {k: v.cpu().to(torch.bfloat16).contiguous() for k, v in sd.items() if k.startswith("aux")},
        f"{a.out}/aux.safetensors",
    )


last_save = time.time()
noom = 0
tot = torch.zeros(4, device=dev)
while True:
    if step == 12:
        t12 = time.time()
    if dev == "cuda" and step == 32:
        torch.cuda.synchronize()
        ms = (time.time() - t12) / 20 * 1e3
        print("20 steps at", ms, "ms/step", flush=True)
        if ms > a.maxms:
            print("too slow, stop", flush=True)
            finish(3)
    if time.time() - last_save > 120 and math.isfinite(float(tot[0])):
        save()
        last_save = time.time()
    f = (time.time() - t0) / stopat if not a.steps else step / a.steps
    if f >= 1:
        break
    mbs = nxt
    (den, auxden, nc), mbs = mbs
    convs += nc
    w_aux = a.auxw * max(0.0, 1 - f / a.auxend)
    tot = torch.zeros(4, device=dev)
    oom = 0
    for mb in mbs:
        if oom:
            break
        try:
            l, l2, la, acc = losses(mb, den, auxden, w_aux)
        except torch.cuda.OutOfMemoryError:
            oom = 1
            break
        try:
            (l + 0.25 * l2 + w_aux * la).backward()
        except torch.cuda.OutOfMemoryError:
            oom = 1
            break
        tot += torch.stack([l.detach(), l2.detach(), la.detach().float(), acc])
        tokens += mb["ids"].numel()
    if oom:
        noom += 1
        print("out of memory, batch dropped", [tuple(x["ids"].shape) for x in mbs], flush=True)
        m.zero_grad(set_to_none=True)
        mbs = mb = l = l2 = la = acc = None
        torch.cuda.empty_cache()
        nxt = get()
        if noom > 20:
            save()
            finish(4)
        continue
    r = sched(f, step)
    for g in opt.param_groups:
        g["lr"] = a.lr * r
    torch.nn.utils.clip_grad_norm_(adam_p + adam_nd, 1.0)
    opt.step()
    muon_step(a.muon * r)
    m.zero_grad(set_to_none=True)
    tw = time.time()
    nxt = get()
    wait += time.time() - tw
    step += 1
    if step % 25 == 0 or step <= 3:
        x = tot.tolist()
        el = time.time() - t0
        s = f"step {step} t {el:.0f} loss {x[0]:.4f} mtp {x[1]:.4f} aux {x[2]:.4f} acc {x[3]:.4f} lr {r:.3f} ms/step {el / step * 1e3:.0f} wait {wait / el:.2f} tok/s {tokens / el:.0f}"
        hist.write(s + f" convs {convs}" + "\n")
        hist.flush()
        if step % 100 == 0 or step in (1, 2, 3, 25, 50):
            print(s, flush=True)
    if dev == "cuda" and step == 20:
        print("mem GB", torch.cuda.max_memory_allocated() / 1e9, flush=True)
el = time.time() - t0
print(f"done steps {step} convs {convs} {el:.0f}s {el / step * 1e3:.0f} ms/step wait {wait / el:.2f}", flush=True)
torch.cuda.synchronize() if dev == "cuda" else None
save()
print("saved", flush=True)
finish(0)
