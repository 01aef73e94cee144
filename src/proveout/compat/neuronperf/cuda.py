"""`proveout.cuda.benchmark` and `.evaluate`: as `proveout.torch`'s, on a GPU; what is compiled runs elsewhere."""

from __future__ import annotations

from functools import partial
from typing import Any, NoReturn

from proveout.compat.neuronperf import running
from proveout.errors import UsageError

benchmark = partial(running.benchmark, device_type="cuda")
evaluate = partial(running.evaluate, device_type="cuda")


def compile(*args: Any, **kwargs: Any) -> NoReturn:
    """GPUs run models as they are."""
    raise UsageError("GPUs run models as they are: give the model to proveout.cuda.benchmark, or use torch.compile.")


__all__ = ["benchmark", "compile", "evaluate"]
