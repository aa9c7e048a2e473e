"""Write trained weights in the Hugging Face layout: export.py TRAINED MODEL joins the two shards of train.py."""

import sys

import torch
from safetensors.torch import load_file, save_file

KEPT_IN_FLOAT32 = ("A_log", "dt_bias")  # decay rates lose too much in bf16


def export(state, path, dtype=torch.bfloat16):
    """Save all weights but the training-only head; -> how many parameters there are."""
    out = {}
    for name, value in state.items():
        if not name.startswith("aux"):
            kept = name.endswith(KEPT_IN_FLOAT32)
            out[name] = value.detach().to("cpu", torch.float32 if kept else dtype).contiguous()
    save_file(out, path, metadata={"format": "pt"})
    return sum(value.numel() for value in out.values())


def main(source, target):
    state = {**load_file(f"{source}/lm.safetensors"), **load_file(f"{source}/vis.safetensors")}
    if any(name.startswith("aux") for name in state):
        raise SystemExit(f"{source} holds training-only weights; these are not shards written by train.py.")
    save_file(state, f"{target}/model.safetensors", metadata={"format": "pt"})
    print(len(state), "tensors,", sum(value.numel() for value in state.values()), "parameters")


if __name__ == "__main__":
    main(*sys.argv[1:])
