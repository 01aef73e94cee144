"""The names of the original PyTorch TTNN compiler, so that its quickstart and its users' scripts run as written.

from proveout import ttnn, torch_ttnn

device = ttnn.open_device(device_id=0)
option = torch_ttnn.TorchTtnnOption(device=device)
ttnn_module = torch.compile(module, backend=torch_ttnn.backend, options=option)
"""

from __future__ import annotations

from importlib import metadata
from typing import Any, NoReturn

import torch

from proveout import ttnn
from proveout.compat.torch_ttnn import mem_utils, metrics, target_wrappers
from proveout.compat.torch_ttnn.backend import TorchTtnnOption
from proveout.compat.torch_ttnn.backend import ttnn_backend as backend
from proveout.errors import UsageError

__version__ = metadata.version("proveout")

if "ttnn" not in torch._dynamo.list_backends(exclude_tags=()):
    torch._dynamo.register_backend(name="ttnn", compiler_fn=backend)


def ttnn_device_as_torch_device(device: Any) -> NoReturn:
    """The original's C++ extension makes a torch device of an open chip; a Program is compiled before it runs here."""
    raise UsageError(
        "eager mode on a torch device needs the original's C++ extension. "
        "Use torch.compile(model, backend=torch_ttnn.backend, options=torch_ttnn.TorchTtnnOption(device=device))."
    )


__all__ = [
    "TorchTtnnOption",
    "__version__",
    "backend",
    "mem_utils",
    "metrics",
    "target_wrappers",
    "ttnn",
    "ttnn_device_as_torch_device",
]
