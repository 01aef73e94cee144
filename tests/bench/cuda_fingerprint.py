"""Probes the GPU's matrix products, as `proveout devices fingerprint cuda` does, with nothing but PyTorch installed:
`python tests/bench/cuda_fingerprint.py OUT.json`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch

from proveout.check.fingerprint import fingerprints, probe
from proveout.coding import to_json


def within_a_large_product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """One row and one column among 256 of each, so that the GPU's matrix units do it and no kernel for vectors."""
    rows, columns = a.cuda().expand(256, -1).contiguous(), b.cuda().expand(-1, 256).contiguous()
    return (rows @ columns)[:1, :1].cpu()


if __name__ == "__main__":
    device = sys.argv[2] if sys.argv[2:] else "cuda"
    torch.backends.cuda.matmul.allow_tf32 = False
    prints = list(fingerprints(device))
    if device == "cuda":
        for dtype in (torch.bfloat16, torch.float16, torch.float32):
            prints.append(probe("cuda, torch.matmul, 256 x 256 outputs", dtype, within_a_large_product))
        torch.backends.cuda.matmul.allow_tf32 = True
        prints.append(probe("cuda, torch.matmul, 256 x 256 outputs, TF32", torch.float32, within_a_large_product))
    found = [to_json(each) | {"verdict": each.verdict} for each in prints]
    Path(sys.argv[1]).write_text(json.dumps(found, indent=1))
    print(json.dumps(found, indent=1))
