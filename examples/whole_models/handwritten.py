"""Models as tt-metal's developers write them by hand, through `from proveout import ttnn`: where tensors lie, how
products are cut, which formats they have. Shapes alone: no number is computed, so a whole model is recorded in seconds.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from decoders import DECODERS, ported_layer
from encoders import bert, vit
from resnet import resnet50

from proveout.ttnn import Recording

__all__ = ["DECODERS", "MODELS"]

MODELS: dict[str, Callable[[Any], Recording]] = {
    "sentence_bert": bert,
    "vit-base": vit,
    "resnet50": resnet50,
    "llama-3.1-8b decode layer": ported_layer,
    "llama-3.1-8b decode layer, first version": functools.partial(ported_layer, final=False),
}
