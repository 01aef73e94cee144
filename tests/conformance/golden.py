"""Compares what our kernel rows mean with the golden function that ttnn attaches to the same operation, on random
numbers: `golden.py PROGRAMS -o golden.jsonl`. Needs ttnn; nothing runs on a chip.

Calls come from saved Programs, defaults included: an argument that a call leaves out is left out on both sides.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any

import torch
import ttnn

from proveout.devices.ttnn import made
from proveout.kernels.table import PLACEMENT, call_meaning, kernels, torch_dtype
from proveout.program import Program, Ref, Step
from proveout.types import TensorSpec

CALLS_PER_KERNEL = 40


def random_tensor(spec: TensorSpec, name: str, largest: int) -> torch.Tensor:
    dtype = torch_dtype(spec.dtype)
    if not dtype.is_floating_point:
        return torch.randint(0, max(1, largest), spec.shape, dtype=torch.int64).to(dtype)
    values = torch.randn(spec.shape)
    return (values.abs() + 0.1 if "var" in name else values).to(dtype)


def on_our_side(arg: Any, tensors: dict[str, torch.Tensor]) -> Any:
    if isinstance(arg, Ref):
        return tensors[arg.name]
    return tuple(on_our_side(a, tensors) for a in arg) if isinstance(arg, tuple) else arg


def on_their_side(arg: Any, tensors: dict[str, torch.Tensor]) -> Any:
    if isinstance(arg, Ref):
        return tensors[arg.name].clone()
    if isinstance(arg, tuple):
        return [on_their_side(a, tensors) for a in arg]
    return made(arg, {"ttnn": ttnn, "torch": torch, "device": None})


def compare(step: Step, program: Program) -> dict[str, Any]:
    kernel = kernels()[step.kernel]
    sizes = [n for use in step.uses for n in program.specs[use].shape]
    tensors = {n: random_tensor(program.specs[n], n, min(sizes, default=1)) for n in step.uses}
    attrs = {k: v for k, v in step.attrs if k not in PLACEMENT}
    answer: dict[str, Any] = {"kernel": step.kernel, "call": call_text(step, program)}
    operation: Any = ttnn
    for part in step.kernel.split(".")[1:]:
        operation = getattr(operation, part)
    try:
        golden = ttnn.get_golden_function(operation)
    except (RuntimeError, AttributeError) as error:
        return {**answer, "status": "no golden function", "why": str(error).splitlines()[0][:200]}
    ours = call_meaning(kernel, {k: on_our_side(v, tensors) for k, v in attrs.items()})
    given = {k: on_their_side(v, tensors) for k, v in attrs.items()}
    try:
        theirs = call_golden(golden, given)
    except Exception as error:  # goldens are test helpers: whatever they raise means that they do not take this call
        return {**answer, "status": "golden raises", "why": f"{type(error).__name__}: {error}"[:200]}
    return {**answer, **verdict(ours, theirs)}


def call_golden(golden: Any, given: dict[str, Any]) -> Any:
    """By name; with operands by position, since many goldens call them otherwise; or all by position."""
    tensors = [k for k, v in given.items() if isinstance(v, torch.Tensor)]
    rest = {k: v for k, v in given.items() if k not in tensors}
    ways = (
        lambda: golden(**given),
        lambda: golden(*[given[k] for k in tensors], **rest),
        lambda: golden(*[v for k, v in given.items() if k != "dtype"]),
    )
    for way in ways[:-1]:
        try:
            return way()
        except TypeError:
            continue
    return ways[-1]()


def verdict(ours: Any, theirs: Any) -> dict[str, Any]:
    pairs = list(zip(*[x if isinstance(x, (list, tuple)) else (x,) for x in (ours, theirs)]))
    worst = 0.0
    for a, b in pairs:
        if not isinstance(b, torch.Tensor):
            continue
        if a.numel() != b.numel():
            return {"status": "differs", "why": f"shape {tuple(a.shape)} against {tuple(b.shape)}"}
        x, y = (t.detach().double().flatten().nan_to_num(posinf=1e30, neginf=-1e30) for t in (a, b.reshape(a.shape)))
        worst = max(worst, float((x - y).norm() / y.norm().clamp_min(1e-9)))
    narrow = any(isinstance(a, torch.Tensor) and a.dtype == torch.bfloat16 for a, _ in pairs)
    return {"status": "agrees" if worst <= (2e-2 if narrow else 1e-4) else "differs", "distance": worst}


def call_text(step: Step, program: Program) -> str:
    text = program.format(step).split("  # ")[0].partition(f"{step.kernel}(")[2]
    return re.sub(r"%([\w.]+)", lambda m: str(program.specs[m.group(1)]), text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    seen: dict[str, set[str]] = {}
    with arguments.output.open("w") as file:
        for path in sorted(arguments.folder.rglob("program.json")):
            program = Program.load(path.parent)
            for step in program.steps:
                if step.on_host or not step.outputs or step.is_transfer:
                    continue
                calls = seen.setdefault(step.kernel, set())
                text = call_text(step, program)
                if text not in calls and len(calls) < CALLS_PER_KERNEL:
                    calls.add(text)
                    print(json.dumps(compare(step, program)), file=file)


if __name__ == "__main__":
    main()
