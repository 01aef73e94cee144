"""What comparing Steps costs of proving: `python tests/bench/compare_steps.py [NAME…]`.

For each of some timm and torchvision models: processor seconds of what proving does in one process (eager, compile, one
run, the replay of every Step in the device's numbers and twice in float32), those of the comparisons alone, their
share, and that the verdicts are those of whole vectors of float64. The aim: a share of at most 10 %.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any
from unittest import mock

import torch

import proveout
from proveout import check
from proveout.check import steps

MODELS = ("resnet18", "vit_tiny_patch16_224", "swin_tiny_patch4_window7_224")
JUDGE = steps._judge


def main(names: tuple[str, ...]) -> None:
    import timm

    for name in names or MODELS:
        torch.manual_seed(0)
        model, x = timm.create_model(name, pretrained=False).eval(), torch.randn(1, 3, 224, 224)
        spent, aside, wrong = 0.0, 0.0, 0

        def timed(step: Any, value: str, actual: Any, alone: Any, overall: Any, threshold: float) -> Any:
            nonlocal spent, wrong, aside
            began = time.process_time()
            comparison = JUDGE(step, value, actual, alone, overall, threshold)
            judged = time.process_time()
            spent += judged - began
            pcc = _whole(actual, alone)
            wrong += comparison.pcc is not None and pcc is not None and comparison.passed != (pcc >= threshold)
            aside += time.process_time() - judged
            return comparison

        start = time.process_time()
        with torch.no_grad(), mock.patch.object(steps, "_judge", timed):
            model(x)
            compiled = proveout.compile(model, (x,), device="sim:n150", settings={"precision": "bfloat16"})
            compiled(x)
            num = len(check.compare_steps(compiled, (x,), {}))
        total = time.process_time() - start - aside
        figures: dict[str, Any] = {
            "model": name,
            "comparisons": num,
            "proving_s": round(total, 2),
            "comparing_s": round(spent, 2),
        }
        figures |= {"share": round(spent / total, 3), "aim": 0.1, "other_verdicts": wrong}
        print(json.dumps(figures), flush=True)


def _whole(actual: Any, wanted: Any) -> float | None:
    """PCC of whole vectors in float64, each centred on its own mean."""
    if not isinstance(wanted, torch.Tensor) or not wanted.is_floating_point():
        return None
    x, y = (t.double().flatten() for t in (actual, wanted))
    x, y = x - x.mean(), y - y.mean()
    scale = float(x.norm() * y.norm())
    return float(torch.dot(x, y)) / scale if scale and scale < float("inf") else None


if __name__ == "__main__":
    main(tuple(sys.argv[1:]))
