"""Runs models of the corpora on a GPU beside eager mode: `python tests/bench/cuda_corpus.py OUT.json [--jobs N]`. What
passed before, by that file, is not run again.

Each script runs in a process of its own; its first model call is made again through our backend on `cuda`, in float32
and in bfloat16, and compared with eager in float32 on the CPU. Kernels are chosen in a hurry: this is not about times.
"""

from __future__ import annotations

import argparse
import json
import os
import runpy
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_flatten, tree_map_only

from proveout import vision
from proveout.engine.backend import Capture

CORPORA = Path(__file__).parents[2] / "corpora"
SCRIPTS = (
    "selftest/conv.py", "selftest/attention.py", "torch_hub/resnet18.py", "torch_hub/resnet50.py",
    "torch_hub/mobilenet_v2.py", "torch_hub/efficientnet_b0.py", "torch_hub/densenet121.py",
    "torch_hub/squeezenet1_1.py", "torch_hub/shufflenet_v2_x1_0.py", "torch_hub/swin_t.py", "torch_hub/vit_b_16.py",
    "torch_hub/convnext_tiny.py", "torch_hub/vgg11.py", "torchvision/r3d_18.py", "torchvision/fcn_resnet50.py",
    "transformers/bert.py", "transformers/albert_base_v2.py", "transformers/distilbert.py", "transformers/gpt2.py",
    "transformers/t5.py", "transformers/bart.py", "transformers/roberta.py", "transformers/beit.py",
    "transformers/opt.py", "transformers/electra.py", "transformers/audio_spectrogram_transformer.py",
)  # fmt: skip
LIMITS = {"float32": 0.9999, "bfloat16": 0.97}
"""The lowest PCC that passes; bfloat16 is judged beside eager in bfloat16 too."""


class Called(Exception):
    """Stops a script at its first model call."""


def first_call(script: Path) -> tuple[nn.Module, tuple[Any, ...], dict[str, Any]]:
    seen: list[Any] = []
    original = nn.Module.__call__

    def note(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        nn.Module.__call__ = original  # type: ignore[method-assign]
        seen.append((self, args, kwargs))
        raise Called

    nn.Module.__call__ = note  # type: ignore[method-assign]
    sys.argv = [str(script)]
    try:
        runpy.run_path(str(script), run_name="__main__")
    except Called:
        pass
    finally:
        nn.Module.__call__ = original  # type: ignore[method-assign]
    return seen[0]


def floats(output: Any) -> list[torch.Tensor]:
    leaves = tree_flatten(dict(output) if hasattr(output, "keys") else output)[0]
    return [
        t.detach().double().cpu().flatten() for t in leaves if isinstance(t, torch.Tensor) and t.is_floating_point()
    ]


def pcc(outputs: list[torch.Tensor], reference: list[torch.Tensor]) -> float:
    a, b = (torch.cat([t - t.mean() for t in ts if t.numel() > 1]) for ts in (outputs, reference))
    return float(a @ b / (a.norm() * b.norm()))


def check(script: str, device: str) -> dict[str, Any]:
    os.chdir((CORPORA / script).parent)
    model, args, kwargs = first_call(CORPORA / script)
    model = model.eval()
    with torch.no_grad():
        reference = floats(model(*args, **kwargs))
        row: dict[str, Any] = {"script": script, "model": type(model).__name__}
        for precision in LIMITS:
            torch._dynamo.reset()
            began = time.time()
            capture = Capture.of(
                device, {"precision": "model" if precision == "float32" else precision, "trace": True}, keep=True
            )
            compiled = torch.compile(model, backend=capture)
            outputs = floats(compiled(*args, **kwargs))
            again = floats(compiled(*args, **kwargs))
            row[precision] = {
                "pcc": round(pcc(outputs, reference), 6), "graphs": len(capture.graphs),
                "s": round(time.time() - began, 1),
                "repeats": all(torch.equal(a, b) for a, b in zip(outputs, again)),
            }  # fmt: skip
        lower = tree_map_only(torch.Tensor, lambda t: t.bfloat16() if t.is_floating_point() else t, (args, kwargs))
        try:
            row["eager bfloat16"] = round(pcc(floats(model.bfloat16()(*lower[0], **lower[1])), reference), 6)
        except Exception as error:
            row["eager bfloat16"] = type(error).__name__
    row["passed"] = all(row[p]["pcc"] > limit and row[p]["repeats"] for p, limit in LIMITS.items())
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--script")
    parser.add_argument("--device", default="cuda:eager")
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--limit", type=float, default=120)
    args = parser.parse_args()
    if args.script:
        vision.serve()
        if torch.cuda.is_available():
            from proveout.devices.cuda import choose

            choose.PATIENCE_S = 5.0
        args.out.write_text(json.dumps(check(args.script, args.device)))
        return

    def run(script: str) -> dict[str, Any]:
        made = args.out.with_name(f"{args.out.stem}-{script.replace('/', '-')}.json").absolute()
        command = [sys.executable, __file__, str(made), "--script", script, "--device", args.device]
        try:
            child = subprocess.run(command, capture_output=True, text=True, timeout=args.limit)
            row = json.loads(made.read_text()) if made.exists() else {"script": script, "error": child.stderr[-1500:]}
        except subprocess.TimeoutExpired:
            row = {"script": script, "error": f"not done after {args.limit:.0f} s"}
        made.unlink(missing_ok=True)
        rows.append(row)
        args.out.write_text(json.dumps(rows, indent=1))
        print(json.dumps(row)[:400], flush=True)
        return row

    before = json.loads(args.out.read_text()) if args.out.exists() else []
    rows: list[dict[str, Any]] = [row for row in before if row.get("passed")]
    here = [s for s in SCRIPTS if (CORPORA / s).exists() and s not in {row["script"] for row in rows}]
    with ThreadPoolExecutor(args.jobs) as pool:
        list(pool.map(run, here))
    print(f"{sum(bool(r.get('passed')) for r in rows)} of {len(rows)} passed")


if __name__ == "__main__":
    main()
