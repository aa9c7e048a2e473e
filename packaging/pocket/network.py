"""The Qwen3.5 architecture in plain PyTorch: vision tower, gated-delta and full attention, MTP head; HF weight names."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class RMSNorm(nn.Module):  # zero-centred
    def __init__(s, d, eps=1e-6):
        super().__init__()
        s.weight = nn.Parameter(torch.zeros(d))
        s.eps = eps

    def forward(s, x):
        return F.rms_norm(x.float(), (x.shape[-1],), 1.0 + s.weight.float(), s.eps).to(x.dtype)


def unit_lower_inv(A):
    """(I + A)^-1 for strictly lower A [..., 64, 64]: forward substitution on 16x16 diagonal blocks, then block merges.
    (cuBLAS' batched trsm is slow, and repeated squaring overflows when keys are alike.).
    """
    n = A.shape[-1]
    D = torch.stack([A[..., i : i + 16, i : i + 16] for i in range(0, n, 16)], -3)
    I = torch.eye(16, device=A.device, dtype=A.dtype)
    X = I.expand_as(D).clone()
    for i in range(1, 16):
        X[..., i : i + 1, :i] = -(D[..., i, :i, None] * X[..., :i, :i]).sum(-2, keepdim=True)
    X = list(X.unbind(-3))
    w = 16
    while w < n:
        Y = []
        for j in range(0, len(X), 2):
            r = j * w
            C = A[..., r + w : r + 2 * w, r : r + w]
            low = -(X[j + 1] @ C @ X[j])
            Y.append(torch.cat((torch.cat((X[j], torch.zeros_like(low)), -1), torch.cat((low, X[j + 1]), -1)), -2))
        X = Y
        w *= 2
    return X[0]


class UnitLowerInv(torch.autograd.Function):
    @staticmethod
    def forward(ctx, A):
        X = unit_lower_inv(A)
        ctx.save_for_backward(X)
        return X

    @staticmethod
    def backward(ctx, G):
        (X,) = ctx.saved_tensors
        Xt = X.transpose(-1, -2)
        return -(Xt @ G @ Xt)


def gated_delta(q, k, v, g, beta, C=64):
    """q,k,v [B,T,H,D] (q,k already normalised and scaled), g [B,T,H] log decay, beta [B,T,H]; T % C == 0."""
    B, T, H, D = q.shape
    N = T // C
    f = lambda x: x.float().reshape(B, N, C, H, -1).permute(0, 3, 1, 2, 4)
    q, k, v = f(q), f(k), f(v)
    g = g.float().reshape(B, N, C, H).permute(0, 3, 1, 2).cumsum(-1)
    beta = beta.float().reshape(B, N, C, H).permute(0, 3, 1, 2)
    low = torch.ones(C, C, device=q.device, dtype=torch.bool).tril()
    dr = (g[..., :, None] - g[..., None, :]).masked_fill(~low, -1e30).exp()
    kb = k * beta[..., None]
    A = (kb @ k.transpose(-1, -2) * dr).tril(-1)
    X = UnitLowerInv.apply(A)
    U = X @ (v * beta[..., None])
    W = X @ (kb * g.exp()[..., None])
    M = q @ k.transpose(-1, -2) * dr
    qe = q * g.exp()[..., None]
    ke = k * (g[..., -1:] - g).exp()[..., None]
    dl = g[..., -1].exp()[..., None, None]
    S = torch.zeros(B, H, D, v.shape[-1], device=q.device)
    out = []
    for i in range(N):
        vn = U[:, :, i] - W[:, :, i] @ S
        out.append(qe[:, :, i] @ S + M[:, :, i] @ vn)
        if i + 1 < N:
            S = S * dl[:, :, i] + ke[:, :, i].transpose(-1, -2) @ vn
    o = torch.stack(out, 2)  # B H N C D
    return o.permute(0, 2, 3, 1, 4).reshape(B, T, H, -1)


class GDN(nn.Module):
    def __init__(s, c):
        super().__init__()
        h = c["hidden_size"]
        s.nk, s.nv, s.dk, s.dv = (
            c["linear_num_key_heads"],
            c["linear_num_value_heads"],
            c["linear_key_head_dim"],
            c["linear_value_head_dim"],
        )
        s.kd, s.vd = s.nk * s.dk, s.nv * s.dv
        cd = 2 * s.kd + s.vd
        s.conv1d = nn.Conv1d(cd, cd, c["linear_conv_kernel_dim"], groups=cd, bias=False)
        s.in_proj_qkv = nn.Linear(h, cd, bias=False)
        s.in_proj_z = nn.Linear(h, s.vd, bias=False)
        s.in_proj_b = nn.Linear(h, s.nv, bias=False)
        s.in_proj_a = nn.Linear(h, s.nv, bias=False)
        # dt in [1e-3, 0.1], A in [1, 8]
        dt = torch.exp(torch.rand(s.nv) * (math.log(0.1) - math.log(1e-3)) + math.log(1e-3))
        s.dt_bias = nn.Parameter(dt + torch.log(-torch.expm1(-dt)))
        s.A_log = nn.Parameter(torch.log(torch.empty(s.nv).uniform_(1, 8)))
        s.norm = nn.Module()
        s.norm.weight = nn.Parameter(torch.ones(s.dv))
        s.eps = c["rms_norm_eps"]
        s.out_proj = nn.Linear(s.vd, h, bias=False)

    def forward(s, x):
        B, T, _ = x.shape
        qkv, z, b, a = s.in_proj_qkv(x), s.in_proj_z(x), s.in_proj_b(x), s.in_proj_a(x)
        w = s.conv1d.weight[:, 0].to(qkv.dtype)  # cd,4
        p = F.pad(qkv, (0, 0, 3, 0))
        qkv = F.silu(
            p[:, 0:T] * w[:, 0] + p[:, 1 : T + 1] * w[:, 1] + p[:, 2 : T + 2] * w[:, 2] + p[:, 3 : T + 3] * w[:, 3]
        )
        q, k, v = qkv.split([s.kd, s.kd, s.vd], -1)
        q, k, v = q.reshape(B, T, s.nk, s.dk).float(), k.reshape(B, T, s.nk, s.dk).float(), v.reshape(B, T, s.nv, s.dv)
        q = q * torch.rsqrt(q.pow(2).sum(-1, keepdim=True) + 1e-6) * s.dk**-0.5
        k = k * torch.rsqrt(k.pow(2).sum(-1, keepdim=True) + 1e-6)
        g = -s.A_log.float().exp() * F.softplus(a.float() + s.dt_bias.float())
        with torch.autocast(x.device.type, enabled=False):
            o = gated_delta(q, k, v, g, b.float().sigmoid())
        o = F.rms_norm(o, (s.dv,), s.norm.weight.float(), s.eps)
        o = o * F.silu(z.reshape(B, T, s.nv, s.dv).float())
        return s.out_proj(o.reshape(B, T, -1).to(x.dtype))


def rot_half(x):
    a, b = x.chunk(2, -1)
    return torch.cat((-b, a), -1)


class Attn(nn.Module):
    def __init__(s, c):
        super().__init__()
        h, s.nh, s.nkv, s.hd = c["hidden_size"], c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"]
        s.q_proj = nn.Linear(h, s.nh * s.hd * 2, bias=False)
        s.k_proj = nn.Linear(h, s.nkv * s.hd, bias=False)
        s.v_proj = nn.Linear(h, s.nkv * s.hd, bias=False)
        s.o_proj = nn.Linear(s.nh * s.hd, h, bias=False)
        s.q_norm, s.k_norm = RMSNorm(s.hd), RMSNorm(s.hd)

    def forward(s, x, cs):
        B, T, _ = x.shape
        q, gate = s.q_proj(x).reshape(B, T, s.nh, 2 * s.hd).chunk(2, -1)
        gate = gate.reshape(B, T, -1)
        q = s.q_norm(q).transpose(1, 2)
        k = s.k_norm(s.k_proj(x).reshape(B, T, s.nkv, s.hd)).transpose(1, 2)
        v = s.v_proj(x).reshape(B, T, s.nkv, s.hd).transpose(1, 2)
        cos, sin = cs
        r = cos.shape[-1]
        cos, sin = cos[:, None].to(q.dtype), sin[:, None].to(q.dtype)
        q = torch.cat((q[..., :r] * cos + rot_half(q[..., :r]) * sin, q[..., r:]), -1)
        k = torch.cat((k[..., :r] * cos + rot_half(k[..., :r]) * sin, k[..., r:]), -1)
        n = s.nh // s.nkv
        k, v = k.repeat_interleave(n, 1), v.repeat_interleave(n, 1)
        o = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        o = o.transpose(1, 2).reshape(B, T, -1)
        return s.o_proj(o * gate.sigmoid())


class MLP(nn.Module):
    def __init__(s, h, i):
        super().__init__()
        s.gate_proj, s.up_proj, s.down_proj = (
            nn.Linear(h, i, bias=False),
            nn.Linear(h, i, bias=False),
            nn.Linear(i, h, bias=False),
        )

    def forward(s, x):
        return s.down_proj(F.silu(s.gate_proj(x)) * s.up_proj(x))


class Layer(nn.Module):
    def __init__(s, c, linear):
        super().__init__()
        s.linear = linear
        if linear:
            s.linear_attn = GDN(c)
        else:
            s.self_attn = Attn(c)
        s.input_layernorm, s.post_attention_layernorm = RMSNorm(c["hidden_size"]), RMSNorm(c["hidden_size"])
        s.mlp = MLP(c["hidden_size"], c["intermediate_size"])

    def forward(s, x, cs):
        y = s.input_layernorm(x)
        x = x + (s.linear_attn(y) if s.linear else s.self_attn(y, cs))
        return x + s.mlp(s.post_attention_layernorm(x))


class VBlock(nn.Module):
    def __init__(s, c):
        super().__init__()
        h = c["hidden_size"]
        s.norm1, s.norm2 = nn.LayerNorm(h, eps=1e-6), nn.LayerNorm(h, eps=1e-6)
        s.attn = nn.Module()
        s.attn.qkv = nn.Linear(h, 3 * h)
        s.attn.proj = nn.Linear(h, h)
        s.mlp = nn.Module()
        s.mlp.linear_fc1 = nn.Linear(h, c["intermediate_size"])
        s.mlp.linear_fc2 = nn.Linear(c["intermediate_size"], h)
        s.nh = c["num_heads"]

    def forward(s, x, cos, sin, mask):
        n, L, h = x.shape
        q, k, v = s.attn.qkv(s.norm1(x)).reshape(n, L, 3, s.nh, -1).permute(2, 0, 3, 1, 4)
        c_, s_ = cos.to(q.dtype), sin.to(q.dtype)
        q, k = q * c_ + rot_half(q) * s_, k * c_ + rot_half(k) * s_
        o = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = x + s.attn.proj(o.transpose(1, 2).reshape(n, L, h))
        return x + s.mlp.linear_fc2(F.gelu(s.mlp.linear_fc1(s.norm2(x)), approximate="tanh"))


class Vision(nn.Module):
    def __init__(s, c):
        super().__init__()
        s.c = c
        h = c["hidden_size"]
        s.patch_embed = nn.Module()
        s.patch_embed.proj = nn.Conv3d(3, h, (2, 16, 16), stride=(2, 16, 16))
        s.pos_embed = nn.Embedding(c["num_position_embeddings"], h)
        s.blocks = nn.ModuleList(VBlock(c) for _ in range(c["depth"]))
        m = h * 4
        s.merger = nn.Module()
        s.merger.norm = nn.LayerNorm(h, eps=1e-6)
        s.merger.linear_fc1 = nn.Linear(m, m)
        s.merger.linear_fc2 = nn.Linear(m, c["out_hidden_size"])
        s.G = int(c["num_position_embeddings"] ** 0.5)
        s.hd = h // c["num_heads"]

    def bucket(s, xa, xb, hw, HW, n):
        """xa, xb [n,L,768] normalised patches of the two frames; hw [n,L,2]; HW [n,2]; n lengths [n] -> merged tokens [n, L/4, out]."""
        N, L, _ = xa.shape
        w = s.patch_embed.proj.weight  # h,3,2,16,16
        h = w.shape[0]
        wa, wb = w[:, :, 0].reshape(h, 768), w[:, :, 1].reshape(h, 768)
        x = F.linear(xa, wa.to(xa.dtype), s.patch_embed.proj.bias.to(xa.dtype)) + F.linear(xb, wb.to(xa.dtype))
        G = s.G
        f = hw.float() * ((G - 1) / (HW.float() - 1))[:, None]
        # bilinear interpolation of the position table as one matmul with hat weights: advanced indexing has a
        # pathologically slow backward here (hundreds of thousands of duplicates of 196 rows)
        ar = torch.arange(G, device=x.device).float()
        wy, wx = (1 - (f[..., :1] - ar).abs()).clamp(min=0), (1 - (f[..., 1:] - ar).abs()).clamp(min=0)
        pe = (wy[..., :, None] * wx[..., None, :]).reshape(N, L, G * G) @ s.pos_embed.weight
        x = x + pe.to(x.dtype)
        inv = 1.0 / (10000 ** (torch.arange(0, s.hd // 2, 2, device=x.device).float() / (s.hd // 2)))
        fr = torch.cat((hw[..., :1].float() * inv, hw[..., 1:].float() * inv), -1)
        fr = torch.cat((fr, fr), -1)[:, None]
        cos, sin = fr.cos(), fr.sin()
        mask = (torch.arange(L, device=x.device)[None] < n[:, None])[:, None, None]
        for b in s.blocks:
            x = b(x, cos, sin, mask)
        y = s.merger.norm(x).reshape(N, L // 4, -1)
        return s.merger.linear_fc2(F.gelu(s.merger.linear_fc1(y)))


class MTP(nn.Module):
    def __init__(s, c):
        super().__init__()
        h = c["hidden_size"]
        s.fc = nn.Linear(2 * h, h, bias=False)
        s.pre_fc_norm_embedding, s.pre_fc_norm_hidden, s.norm = RMSNorm(h), RMSNorm(h), RMSNorm(h)
        s.layers = nn.ModuleList([Layer(c, False)])


class LM(nn.Module):
    def __init__(s, c):
        super().__init__()
        s.embed_tokens = nn.Embedding(c["vocab_size"], c["hidden_size"])
        s.layers = nn.ModuleList(Layer(c, t == "linear_attention") for t in c["layer_types"])
        s.norm = RMSNorm(c["hidden_size"])


class Pocket(nn.Module):
    def __init__(s, cfg):
        super().__init__()
        s.cfg = cfg
        c = s.c = cfg["text_config"]
        s.model = nn.Module()
        s.model.visual = Vision(cfg["vision_config"])
        s.model.language_model = LM(c)
        s.mtp = MTP(c)
        for n, p in s.named_parameters():
            if p.ndim >= 2 and "conv1d" not in n:
                fan = p[0].numel()
                nn.init.normal_(p, std=0.02 if ("embed" in n and "patch" not in n) else fan**-0.5 * 0.8)
                if any(k in n for k in ("o_proj", "out_proj", "down_proj", "attn.proj", "mlp.linear_fc2")):
                    with torch.no_grad():
                        p.mul_(0.3)
            elif n.endswith("bias") and "dt_bias" not in n:
                nn.init.zeros_(p)
        nn.init.normal_(s.model.language_model.embed_tokens.weight, std=0.03)

    def rope(s, pos):  # pos [3,B,T] -> cos, sin [B,T,r]
        rp = s.c["rope_parameters"]
        r = int(s.c["head_dim"] * rp["partial_rotary_factor"])
        inv = 1.0 / (rp["rope_theta"] ** (torch.arange(0, r, 2, device=pos.device).float() / r))
        sel = torch.zeros(r // 2, dtype=torch.long)
        for dim in (1, 2):
            sel[dim : min(rp["mrope_section"][dim] * 3, r // 2) : 3] = dim
        p = pos.float()[sel.to(pos.device)].permute(1, 2, 0)
        f = p * inv
        f = torch.cat((f, f), -1)
        return f.cos(), f.sin()

    def vision(s, pix, buckets, dtype):
        outs = []
        for b in buckets:
            if b["n"].numel() == 0:
                continue
            xa = pix[b["ia"].long()].to(dtype) / 127.5 - 1
            xb = pix[b["ib"].long()].to(dtype) / 127.5 - 1
            o = s.model.visual.bucket(xa, xb, b["hw"], b["HW"], b["n"])
            outs.append(o.reshape(-1, o.shape[-1]))
        return torch.cat(outs) if outs else None

    def forward(s, ids, pos, vis=None, vpos=None):
        lm = s.model.language_model
        e = lm.embed_tokens(ids)
        x = e
        if vis is not None:
            x = x.reshape(-1, x.shape[-1]).index_copy(0, vpos, vis.to(x.dtype)).reshape(e.shape)
        cs = s.rope(pos)
        for l in lm.layers:
            x = l(x, cs)
        return lm.norm(x), e

    def mtp_hidden(s, hidden, e):
        """Hidden [B,T,h] (after the final norm), e = token embeddings (no image features). out[t] predicts token t+2."""
        m = s.mtp
        T = hidden.shape[1]
        en = torch.cat((e[:, 1:], e[:, -1:]), 1)
        h = m.fc(torch.cat((m.pre_fc_norm_embedding(en), m.pre_fc_norm_hidden(hidden)), -1))
        pos = torch.arange(T, device=h.device)[None, None].expand(3, h.shape[0], T)
        h = m.layers[0](h, s.rope(pos))
        return m.norm(h)

    def logits(s, h):
        return F.linear(h, s.model.language_model.embed_tokens.weight.to(h.dtype))
