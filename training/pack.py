"""Packs the weights of tasks into 8 bits: `python training/pack.py text code pictures`."""

import sys

from recipe import PACKED, WEIGHTS, packed
from safetensors.torch import load_file, save_file
from torch import nn


class Tensors(nn.Module):
    """What a file holds, as a model has it."""

    def __init__(self, tensors: dict) -> None:
        super().__init__()
        self.tensors = tensors

    def state_dict(self) -> dict:
        return self.tensors


for task in sys.argv[1:]:
    old = WEIGHTS / task / "model.safetensors"
    save_file(packed(Tensors(load_file(old))), WEIGHTS / task / PACKED)
    old.unlink()
    print(task, (WEIGHTS / task / PACKED).stat().st_size)
