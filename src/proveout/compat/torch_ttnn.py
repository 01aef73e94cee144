"""The names of the original PyTorch TTNN compiler, so that its quickstart runs as written.

from proveout import ttnn, torch_ttnn

device = ttnn.open_device(device_id=0)
option = torch_ttnn.TorchTtnnOption(device=device)
ttnn_module = torch.compile(module, backend=torch_ttnn.backend, options=option)
"""

from __future__ import annotations

from typing import Any

from proveout.engine.backend import backend
from proveout.program import Device
from proveout.types import Settings


class TorchTtnnOption:
    """The original's option object: the device, and any of our settings."""

    def __init__(self, device: Device | str = "sim", **settings: Any) -> None:
        self.proveout_options = {"device": device, "settings": Settings.of(settings)}


__all__ = ["TorchTtnnOption", "backend"]
