"""What `proveout tune` finds against the greedy search, at the same budget: `python tests/bench/tune.py [NAME…]`.

BERT-Base (sequence 128), ResNet-50 and ViT-Base (224 × 224) and GPT-2 (sequence 64), true size, seeded weights.
Prints a line for each and leaves the certificates in `-o DIR`; measurements are kept there, so that a run goes on where
it was stopped.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from proveout.coding import to_json
from proveout.report.tune.text import text
from proveout.tune.certificate import Certificate
from proveout.tune.model import Model
from proveout.tune.search import Options, tune
from proveout.types import Settings


def bert_base() -> tuple[torch.nn.Module, dict[str, torch.Tensor]]:
    from transformers import BertConfig, BertModel

    return BertModel(BertConfig(), add_pooling_layer=False), {"input_ids": torch.randint(3, 30000, (1, 128))}


def gpt2() -> tuple[torch.nn.Module, dict[str, torch.Tensor]]:
    from transformers import GPT2Config, GPT2Model

    return GPT2Model(GPT2Config(use_cache=False)), {"input_ids": torch.randint(0, 50257, (1, 64))}


def vit_base() -> tuple[torch.nn.Module, dict[str, torch.Tensor]]:
    from transformers import ViTConfig, ViTForImageClassification

    return ViTForImageClassification(ViTConfig(num_labels=1000)), {"pixel_values": torch.randn(1, 3, 224, 224)}


def resnet50() -> tuple[torch.nn.Module, dict[str, torch.Tensor]]:
    from transformers import ResNetConfig, ResNetForImageClassification

    config = ResNetConfig(num_labels=1000)
    return ResNetForImageClassification(config), {"pixel_values": torch.randn(1, 3, 224, 224)}


MODELS: dict[str, Callable[[], tuple[torch.nn.Module, dict[str, torch.Tensor]]]] = {
    "bert_base": bert_base,
    "resnet50": resnet50,
    "vit_base": vit_base,
    "gpt2": gpt2,
}


def tuned(name: str, folder: Path, pcc: float, minutes: float, note: Callable[[str], None]) -> Certificate:
    torch.manual_seed(0)
    module, inputs = MODELS[name]()
    call: tuple[tuple[Any, ...], dict[str, Any]] = ((), dict(inputs))
    start = Settings(precision="bfloat16", memory="dram", trace=True, pcc=pcc)
    model = Model(module.eval(), call, "sim:n150", start)
    return tune(model, Options(minutes=minutes, kept=folder / f"{name}-measured.json", note=note), name=name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(MODELS), help=f"of {', '.join(MODELS)}")
    parser.add_argument("-o", dest="folder", type=Path, default=Path("tuned-bench"))
    parser.add_argument("--pcc", type=float, default=0.99)
    parser.add_argument("--minutes", type=float, default=30.0)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for name in options.names:
        began, cpu = time.perf_counter(), time.process_time()
        found = tuned(name, options.folder, options.pcc, options.minutes, lambda said: print(" ", said, flush=True))
        (options.folder / f"{name}.json").write_text(json.dumps(to_json(found), indent=1) + "\n")
        wall, processor = time.perf_counter() - began, time.process_time() - cpu
        greedy = found.greedy_ns or found.start_ns
        ms = {"start": found.start_ns, "greedy": greedy, "tune": found.verified_ns, "bound": found.bound_ns}
        print(f"{name}: " + ", ".join(f"{what} {ns / 1e6:.4f} ms" for what, ns in ms.items()))
        print(f"  {greedy / found.verified_ns:.3f} x greedy, gap {found.gap:.2%}, PCC {min(found.verified_pcc):.5f}")
        print(f"  {wall / 60:.1f} min wall, {processor / 60:.1f} min CPU")
        print(text(name, found))


if __name__ == "__main__":
    main()
