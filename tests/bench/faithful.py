"""How fast `faithful` numerics are: `python tests/bench/faithful.py [--quick | --corpora]`.

ns of CPU time a product by fidelity and destination, that time is linear in the number of products, and one forward of
BERT-Base (sequence 128) and ResNet-18 (224 x 224) with random weights, in seconds of wall and CPU time; one of ten
models of the corpora at their reduced size.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import proveout
from proveout.capture import watch
from proveout.kernels.arithmetic.matrix import Unit
from proveout.kernels.arithmetic.products import matmul
from proveout.vision import serve

TARGETS_S = {"bert_base_128": 60.0, "resnet18_224": 60.0}
SMALL_TARGET_S = 5.0
CORPORA = Path(__file__).parents[2] / "corpora"
SMALL = (
    "transformers/bert.py", "transformers/gpt2.py", "transformers/llama.py", "transformers/deit.py",
    "transformers/distilbert.py", "torch_hub/resnet18.py", "timm/ghostnet_100.py", "timm/convnextv2_nano.py",
    "llm_layer/llama2_7b.py", "graph_convolutions/gcn.py",
)  # fmt: skip


def timed(function: Callable[[], Any]) -> tuple[float, float]:
    """Wall and CPU seconds of one call."""
    wall, cpu = time.perf_counter(), time.process_time()
    function()
    return time.perf_counter() - wall, time.process_time() - cpu


def ns_a_product(rows: int, depth: int, columns: int, unit: Unit) -> float:
    a, b = torch.randn(1, rows, depth).bfloat16(), torch.randn(1, depth, columns).bfloat16()
    return min(timed(lambda: matmul(a, b, unit))[1] for _ in range(2)) / (rows * depth * columns) * 1e9


def bert_base() -> tuple[torch.nn.Module, dict[str, Any]]:
    from transformers import BertConfig, BertModel

    return BertModel(BertConfig()).eval(), {"input_ids": torch.randint(0, 30000, (1, 128))}


def resnet18() -> tuple[torch.nn.Module, dict[str, Any]]:
    from torchvision.models import resnet18

    return resnet18().eval(), {"x": torch.randn(1, 3, 224, 224)}


MODELS = {"bert_base_128": bert_base, "resnet18_224": resnet18}


def forward(name: str) -> dict[str, float]:
    torch.manual_seed(0)
    model, inputs = MODELS[name]()
    compiled = proveout.compile(model, inputs, settings={"precision": "bfloat16", "numerics": "faithful"})
    wall, cpu = timed(lambda: compiled(**inputs))
    return {"wall_s": round(wall, 2), "cpu_s": round(cpu, 2), "target_s": TARGETS_S[name]}


def small(script: str) -> dict[str, float | str]:
    """One forward of the first model that a script calls with --small."""
    found, raised = watch(CORPORA / script, "--small")
    if not found:
        return {"error": str(raised)}
    model, args, kwargs = found[0].module, found[0].args, found[0].kwargs
    chosen = {"precision": "bfloat16", "numerics": "faithful"}
    compiled = proveout.compile(model, call=(args, kwargs), settings=chosen)
    wall, cpu = timed(lambda: compiled(*args, **kwargs))
    return {"wall_s": round(wall, 2), "cpu_s": round(cpu, 2), "target_s": SMALL_TARGET_S}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="no whole models")
    parser.add_argument("--corpora", action="store_true", help="ten small models of the corpora, nothing else")
    asked = parser.parse_args()
    quick = asked.quick
    if asked.corpora:
        serve()
        for script in SMALL:
            print(json.dumps({script: small(script)}), flush=True)
        return
    fidelities = ("LoFi", "HiFi2", "HiFi3", "HiFi4")
    speeds = {
        f"{fidelity} {'float32' if wide else 'bfloat16'}": round(
            ns_a_product(128, 768, 768, Unit("wormhole", phases, wide)), 3
        )
        for wide in (False, True)
        for phases, fidelity in enumerate(fidelities, 1)
    }
    linear = {n: round(ns_a_product(128, 256, n, Unit("wormhole", 2)), 3) for n in (128, 512, 2048)}
    told: dict[str, Any] = {
        "ns_a_product": speeds,
        "ns_a_product_by_columns": linear,
        "threads": torch.get_num_threads(),
    }
    serve()
    if not quick:
        told["forward"] = {name: forward(name) for name in MODELS}
    print(json.dumps(told, indent=2))


if __name__ == "__main__":
    main()
