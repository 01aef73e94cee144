"""One model of torchvision by its name, with random weights, called once on the inputs that `stat_models` gives it."""

from __future__ import annotations

import torch

TWO_IMAGES = ("raft_small", "raft_large")
VIDEOS = ("mc3_18", "r2plus1d_18", "r3d_18", "s3d", "swin3d_b", "swin3d_s", "swin3d_t")
CLIPS = ("mvit_v1_b", "mvit_v2_s")


def shapes(name: str) -> list[tuple[int, ...]]:
    if name in TWO_IMAGES:
        return [(1, 3, 224, 224)] * 2
    if name in CLIPS or name in VIDEOS:
        return [(1, 3, 16 if name in CLIPS else 224, 224, 224)]
    return [(1, 3, 224, 224)]


def call(name: str) -> None:
    import torchvision

    torch.manual_seed(0)
    extra = (
        {"weights_backbone": None} if "rcnn" in name or "retinanet" in name or name.startswith(("ssd", "fcos")) else {}
    )
    model = torchvision.models.get_model(name, weights=None, **extra).eval()
    with torch.no_grad():
        model(*(torch.rand(shape) for shape in shapes(name)))
