"""The fused calls on a GPU by their names in `ops`: for each, the fastest of what the library and our kernels offer."""

from proveout.devices.cuda.launch.attentions import append, attention, branches
from proveout.devices.cuda.launch.convolutions import conv, pool
from proveout.devices.cuda.launch.products import norm, product, scaled, vector

__all__ = ["append", "attention", "branches", "conv", "norm", "pool", "product", "scaled", "vector"]
