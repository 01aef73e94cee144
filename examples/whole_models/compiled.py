"""What our compiler makes of the same models: `python compiled.py NAME CHIP` prints its modelled kernels as JSON."""

from __future__ import annotations

import json
import sys

import torch

import proveout
from proveout import vision
from proveout.types import Settings

IMAGES = {
    "mobilenet_v2": (10, 224), "resnet50": (16, 224), "vit_b_16": (8, 224), "vgg11": (1, 224), "vgg16": (1, 224),
    "efficientnet_b0": (1, 224), "swin_s": (1, 512),
}  # fmt: skip
"""torchvision's models: batch and side of an image."""


def build(name: str, chip: str) -> tuple[torch.nn.Module, torch.Tensor]:
    torch.manual_seed(0)
    vision.serve()  # torchvision cannot be imported beside a CPU build of torch otherwise
    if name == "bert_base":
        from transformers import BertConfig, BertModel

        return BertModel(BertConfig()), torch.ones(8, 384, dtype=torch.long)
    from torchvision import models

    batch, side = IMAGES[name]
    if name == "vit_b_16" and chip == "p150":
        batch = 10
    return getattr(models, name)(), torch.randn(batch, 3, side, side)


def main(name: str, chip: str) -> None:
    from proveout.chip.specs import CHIPS
    from proveout.kernels.cost import step_times

    model, inputs = build(name, chip)
    settings = Settings(weights="bfloat8_b", precision="bfloat16", trace=True)
    made = proveout.compile(model.eval(), inputs, device=f"sim:{chip}", settings=settings, dry_run=True)
    chip_spec = CHIPS[chip]
    times = [t for p in made.programs for t in step_times(p, chip_spec, settings) if t.kernel is not None]
    spent: dict[str, int] = {}
    for time in times:
        for family, estimate in time.kernel.ops:
            spent[family] = spent.get(family, 0) + estimate.ns
    sums = {name: sum(getattr(t, name) for t in times) for name in ("ns", "low_ns", "high_ns")}
    print(json.dumps({**sums, "ops": sum(len(t.kernel.ops) for t in times), "spent": spent}))


if __name__ == "__main__":
    main(*sys.argv[1:])
