"""How exact each written module is: alone on exact inputs and in a run of the whole, and the threshold of its test."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from proveout import ttnn
from proveout.bringup.code import GraphSource
from proveout.bringup.data import Exactness, OptimiseData
from proveout.bringup.subject import Subject
from proveout.bringup.testing import written_module
from proveout.check.compare import compare
from proveout.types import Settings, TensorSpec
from proveout.words import counted


@dataclass(frozen=True)
class Tested:
    """One visit of a module: where it is in the written model, and the values that it takes and gives."""

    graph: int
    path: str
    attribute: str
    takes: tuple[str, ...]
    gives: tuple[str, ...]
    against: str


def measure(
    path: Path, tested: list[Tested], values: Mapping[str, torch.Tensor], graphs: list[GraphSource]
) -> list[Exactness]:
    """Each part's PCC alone, and in a run of the whole, by the code that was written."""
    with written_module(path) as model:
        device, tensors = model.open_device(), model.load()
        try:
            built = [graph(device, tensors) for graph in model.GRAPHS]
            seen: dict[int, list[torch.Tensor]] = {}
            model.Module.tap = lambda part, results: seen.__setitem__(id(part), [_host(r).clone() for r in results])
            for number, graph in enumerate(built):
                graph(*model.inputs_of(number, tensors))
            model.Module.tap = None
            return [_exactness(one, built, model.part_of, seen, values, graphs, device) for one in tested]
        finally:
            ttnn.close_device(device)


def _exactness(
    one: Tested,
    built: Sequence[Any],
    part_of: Callable[[Any, str], Any],
    seen: Mapping[int, list[torch.Tensor]],
    values: Mapping[str, torch.Tensor],
    graphs: Sequence[GraphSource],
    device: Any,
) -> Exactness:
    part = part_of(built[one.graph], one.attribute)
    specs = graphs[one.graph].program.specs
    results = part(*(_send(values[f"{one.graph}:{n}"], specs[n], device) for n in one.takes))
    alone = [_host(r) for r in (results if isinstance(results, tuple) else (results,))]
    wanted = [values[f"{one.graph}:{n}"] for n in one.gives]
    return Exactness(one.attribute, _lowest(alone, wanted), _lowest(seen[id(part)], wanted), one.against)


def _send(tensor: torch.Tensor, spec: TensorSpec, device: Any) -> Any:
    if spec.memory.buffer == "host" and spec.layout == "row_major":
        return tensor
    layout = ttnn.TILE_LAYOUT if spec.layout == "tile" else ttnn.ROW_MAJOR_LAYOUT
    place = {"l1": ttnn.L1_MEMORY_CONFIG}.get(spec.memory.buffer, ttnn.DRAM_MEMORY_CONFIG)
    return ttnn.from_torch(tensor, dtype=getattr(ttnn, spec.dtype), layout=layout, device=device, memory_config=place)


def _host(result: Any) -> torch.Tensor:
    return result if isinstance(result, torch.Tensor) else ttnn.to_torch(result)


def _lowest(outputs: Sequence[torch.Tensor], wanted: Sequence[torch.Tensor]) -> float | None:
    """The lowest PCC over a part's results; of integers and constants, 1 where they agree and 0 where not."""
    least: list[float] = []
    for f, w in zip(outputs, wanted):
        judged = compare(f.reshape(w.shape), w, name="", threshold=-1.0)
        least.append(judged.pcc if judged.pcc is not None else float(judged.passed))
    return min(least, default=None)


def held_out_pcc(subject: Subject) -> float | None:
    """The optimised model's lowest, on inputs that the search has not seen."""
    tuned = subject.folder.data(OptimiseData)
    return tuned.held_out_pcc if tuned is not None else None


def own_thresholds(
    subject: Subject, settings: Settings, exactness: Sequence[Exactness], least: float
) -> dict[str, float]:
    """The threshold of each part that the chosen formats bring below the model's, where the model itself keeps it.

    The budget is the whole model's, and the formats spend it part by part; the written code is not to blame, since it
    gives the compiled model's outputs. Such a part's test holds it to what its formats gave, two decimals of it."""
    start = subject.bringup.settings
    formats = ("weights", "overrides", "math_fidelity", "per_op")
    reduced = any(getattr(settings, name) != getattr(start, name) for name in formats)
    kept = held_out_pcc(subject)
    if not reduced or kept is None or kept < least:
        return {}
    return {
        e.attribute: math.floor(100 * e.lowest) / 100 for e in exactness if e.lowest is not None and e.lowest < least
    }


def sentence(subject: Subject, exactness: Sequence[Exactness], own_least: Mapping[str, float], least: float) -> str:
    lowest = min((e for e in exactness if e.attribute in own_least), key=lambda e: e.lowest or 0.0)
    kept = held_out_pcc(subject)
    return (
        f"{counted(len(own_least), 'module')} below {least} in the formats that the stage 'optimise' chose, the lowest "
        f"{lowest.attribute} with {lowest.lowest:.5f}; the whole model keeps {kept:.5f}. Their tests hold them to what "
        "their formats gave"
    )
