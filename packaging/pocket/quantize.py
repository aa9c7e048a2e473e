"""Add the 8-bit MTP head to a converted 8-bit folder, so that one folder serves both: quantize.py MODEL MODEL-8BIT."""

import json
import os
import sys
from pathlib import Path

import mlx.core as mx
from mlx_vlm.speculative.drafters.qwen3_5_mtp.split import Qwen3_5MTPSplitter


def main(source, target):
    _, head = Qwen3_5MTPSplitter().prepare(source, q_bits=8, q_group_size=64)
    weights = {k: v for k, v in mx.load(str(target / "model.safetensors")).items() if not k.startswith("mtp.")}
    weights |= {f"mtp.{name}": value for name, value in head.items()}
    mx.eval(list(weights.values()))
    mx.save_safetensors(str(target / "model.tmp.safetensors"), weights, metadata={"format": "mlx"})
    os.replace(target / "model.tmp.safetensors", target / "model.safetensors")
    index = {
        "metadata": {"total_size": sum(value.nbytes for value in weights.values())},
        "weight_map": dict.fromkeys(weights, "model.safetensors"),
    }
    (target / "model.safetensors.index.json").write_text(json.dumps(index, indent=1))
    print(len(weights), "tensors,", (target / "model.safetensors").stat().st_size, "bytes")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
