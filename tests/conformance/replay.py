"""Replays saved Programs on ttnn, Step by Step, and writes down what ttnn says: `replay.py PROGRAMS -o answers.jsonl`.

Needs ttnn (its mock chip is enough; it computes nothing, so all inputs are zeros). For every distinct call it records
whether ttnn takes it, what it gives, and how much of each core's L1 it needs at its peak. A call that is refused is
recorded with ttnn's message, and the replay goes on with a tensor of the spec that the Program promises.
"""

from __future__ import annotations

import argparse
import json
import math
import re
from pathlib import Path
from typing import Any

import torch
import ttnn

from proveout.coding import to_json
from proveout.devices.registry import open_device
from proveout.devices.ttnn import OnTtnn
from proveout.kernels.circular import call_peak
from proveout.kernels.device_ops import device_ops
from proveout.kernels.table import kernels, specs_of, torch_dtype
from proveout.program import DEALLOCATE, Program, Step
from proveout.types import DeviceSpec, TensorSpec

LARGE = 1 << 23
"""Numbers of a weight that is allocated on the chip and not converted: a mock computes nothing."""


def blank(spec: TensorSpec) -> torch.Tensor:
    zero = torch.zeros((), dtype=torch_dtype(spec.dtype))
    return zero.expand(spec.shape) if math.prod(spec.shape) > LARGE else zero.repeat(spec.shape)


def run_step(loaded: OnTtnn, step: Step, values: dict[str, Any]) -> tuple[Any, ...]:
    if step.kernel == "ttnn.from_torch":
        given = {key: loaded._concrete(arg, values) for key, arg in step.attrs}
        tensor = given.pop("tensor")
        if tensor.numel() > LARGE and "device" in given:
            return (ttnn.empty(list(tensor.shape), **given),)
    return loaded.run_step(step, values)


def answered(tensor: Any) -> dict[str, Any]:
    """A ttnn tensor as our specs say it."""
    on_device = tensor.storage_type() == ttnn.StorageType.DEVICE
    buffer = str(tensor.memory_config().buffer_type).rpartition(".")[2].lower() if on_device else "host"
    return {
        "shape": list(tensor.shape),
        "dtype": str(tensor.dtype).rpartition(".")[2].lower(),
        "layout": "tile" if tensor.layout == ttnn.TILE_LAYOUT else "row_major",
        "buffer": buffer,
    }


def promised(spec: TensorSpec) -> dict[str, Any]:
    return {"shape": list(spec.shape), "dtype": spec.dtype, "layout": spec.layout, "buffer": spec.memory.buffer}


def stand_in(spec: TensorSpec, device: Any) -> Any:
    config = ttnn.L1_MEMORY_CONFIG if spec.memory.buffer == "l1" else ttnn.DRAM_MEMORY_CONFIG
    layout = ttnn.TILE_LAYOUT if spec.layout == "tile" else ttnn.ROW_MAJOR_LAYOUT
    kept = {} if spec.memory.buffer == "host" else {"device": device, "memory_config": config}
    return ttnn.from_torch(blank(spec), dtype=getattr(ttnn, spec.dtype), layout=layout, **kept)


def call_of(step: Step, program: Program) -> dict[str, Any]:
    """A call without names: what makes two Steps the same."""
    text = program.format(step).split("  # ")[0].partition(f"{step.kernel}(")[2]
    text = re.sub(r"%([\w.]+)", lambda m: str(program.specs[m.group(1)]), text)
    return {"kernel": step.kernel, "call": text, "operands": [to_json(program.specs[n]) for n in step.uses]}


def peak_of(loaded: OnTtnn, step: Step, values: dict[str, Any], device: Any) -> int | None:
    """Per core, of the call alone: built anew, since a cached program does not tell its circular buffers again."""
    device.handle.clear_program_cache()
    ttnn.graph.begin_graph_capture(ttnn.graph.RunMode.NO_DISPATCH)
    try:
        run_step(loaded, step, values)
    except Exception:  # the real call tells why
        ttnn.graph.end_graph_capture()
        return None
    return int(ttnn.graph.extract_resource_usage_per_core(ttnn.graph.end_graph_capture()).peak_total)


def our_peak(step: Step, program: Program, chip: DeviceSpec) -> int:
    """What our rules say about the same figure."""
    specs, outputs = specs_of(step, program.specs), [program.specs[n] for n in step.outputs]
    kernel = kernels()[step.kernel]
    ops = device_ops(kernel, specs, outputs, kernel.work(specs, outputs), "HiFi2")
    return call_peak(ops, outputs, chip)


def replay(program: Program, device: Any, seen: set[str]) -> list[dict[str, Any]]:
    loaded = OnTtnn(program, device)
    names = (*program.inputs, *program.weights, *(c.name for c in program.constants))
    values: dict[str, Any] = {name: blank(program.specs[name]) for name in names}
    answers = []
    for step in program.steps:
        if step.on_host:
            results = run_step(loaded, step, values)
            values.update(zip(step.outputs, results))
            continue
        call = call_of(step, program)
        key = json.dumps(call)
        answer = {**call, "promised": [promised(program.specs[n]) for n in step.outputs]}
        peak = None
        if key not in seen and step.outputs and not step.is_transfer:
            peak = peak_of(loaded, step, values, device)
        try:
            results = run_step(loaded, step, values)
        except Exception as error:  # ttnn raises RuntimeError, TypeError and its own: all mean "refused"
            answer |= {"status": "refused", "message": first_line(error)}
            results = tuple(stand_in(program.specs[n], device.handle) for n in step.outputs)
        else:
            given = [r for r in results if not isinstance(r, torch.Tensor)]
            answer |= {"status": "ok", "given": [answered(r) for r in given]}
            if peak is not None:
                answer |= {"peak_l1": peak, "our_peak_l1": our_peak(step, program, device.spec)}
        values.update(zip(step.outputs, results))
        if key not in seen and step.kernel != DEALLOCATE:
            seen.add(key)
            answers.append(answer)
    return answers


def first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = [line for line in lines if not line.startswith(("TT_FATAL", "TT_THROW", "backtrace", "info:", "---"))]
    return (told or lines or [type(error).__name__])[0][:300]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="holds saved Programs, at any depth")
    parser.add_argument("--chip", default="n150")
    parser.add_argument("-o", "--output", type=Path, required=True)
    arguments = parser.parse_args()
    device = open_device(f"ttnn:mock-{arguments.chip}")
    seen: set[str] = set()
    with arguments.output.open("w") as file:
        for path in sorted(arguments.folder.rglob("program.json")):
            device.handle.clear_program_cache()  # cached convolutions keep their tables in the small part of L1
            answers = replay(Program.load(path.parent), device, seen)
            where = str(path.parent.relative_to(arguments.folder))
            for answer in answers:
                print(json.dumps({"chip": arguments.chip, "program": where, **answer}), file=file)
            refused = sum(a["status"] == "refused" for a in answers)
            print(
                f"{path.parent.relative_to(arguments.folder)}: {len(answers)} new calls, {refused} refused", flush=True
            )


if __name__ == "__main__":
    main()
