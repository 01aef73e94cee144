"""What a model is, apart from its weights: a selector, the same on every machine, and a name for people."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from proveout.capture.inputs import Inputs, dtype_name, named_tensors, specs_of
from proveout.coding import digest
from proveout.types import TensorSpec, Workload

if TYPE_CHECKING:
    from torch import nn

_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]+")


def architecture_of(module: nn.Module) -> str:
    """A hash of all submodules (name, class, settings), parameters and buffers (name, shape, dtype)."""
    parts = [[name, class_name_of(part), _settings(part)] for name, part in module.named_modules()]
    tensors = [
        [[name, list(tensor.shape), dtype_name(tensor)] for name, tensor in named]
        for named in (module.named_parameters(), module.named_buffers())
    ]
    return digest([parts, tensors])


def class_name_of(module: nn.Module) -> str:
    """The class as its author named it, also once torch.jit has put its own in its place."""
    import torch

    scripted = isinstance(module, torch.jit.ScriptModule)
    return str(module.original_name) if scripted else type(module).__name__


def obstacle_of(module: nn.Module) -> str:
    """Why a model can be timed but not compiled; empty where it can."""
    import torch

    if isinstance(module, torch.jit.ScriptModule):
        how = "traced" if "Traced" in type(module).__name__ else "scripted"
        return f"torch.jit has {how} this module; only Python modules can be compiled. Call the original one."
    return ""


def selector_of(architecture: str, inputs: Inputs) -> str:
    """12 hex digits for an architecture with its input names, shapes and dtypes."""
    return digest([architecture, [[name, spec.shape, spec.dtype] for name, spec in inputs]])[:12]


def parameter_count(module: nn.Module, recurse: bool = True) -> tuple[int, int]:
    """Number of parameters and their bytes; shared ones count once. Without `recurse`, the module's own only."""
    parameters = list(module.parameters(recurse=recurse))
    return sum(p.numel() for p in parameters), sum(p.numel() * p.element_size() for p in parameters)


def workload_of(model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], name: str = "") -> Workload:
    """A live model and one call of it, described; no script can give them again."""
    specs = specs_of(named_tensors(args, kwargs))
    parameters, size = parameter_count(model)
    return Workload(
        name or class_name_of(model),
        "",
        selector_of(architecture_of(model), specs),
        class_name_of(model),
        specs,
        parameters,
        size,
        obstacle=obstacle_of(model),
    )


def names_of(stem: str, models: Sequence[tuple[str, str, Inputs]]) -> list[str]:
    """Names for (architecture, class name, inputs) in the order found.

    A script's only model has the script's name; several add their class (`#2`: another model of that class);
    several input shapes of one model add the shapes that tell them apart: `two::Decoder#2@8x16`.
    """
    bases: dict[str, str] = {}
    classes: Counter[str] = Counter()
    for architecture, class_name, _ in models:
        if architecture not in bases:
            classes[class_name] += 1
            repeated = f"#{classes[class_name]}" if classes[class_name] > 1 else ""
            bases[architecture] = f"{stem}::{class_name}{repeated}"
    if len(bases) == 1:
        bases = dict.fromkeys(bases, stem)
    suffixes = {
        architecture: iter(_suffixes([inputs for other, _, inputs in models if other == architecture]))
        for architecture in bases
    }
    return [bases[architecture] + next(suffixes[architecture]) for architecture, _, _ in models]


def _suffixes(variants: list[Inputs]) -> list[str]:
    """For each variant the fewest input shapes that tell it from the others; nothing for a single one."""
    tables = [dict(inputs) for inputs in variants]
    columns = [(name, text) for text in (_shape, _dtype) for name in dict.fromkeys(n for t in tables for n in t)]
    suffixes = [""] * len(variants)
    for name, text in columns:
        longer = [f"{s}{'+' if s else '@'}{text(table.get(name))}" for s, table in zip(suffixes, tables)]
        if len(set(longer)) > len(set(suffixes)):
            suffixes = longer
    return suffixes


def _shape(spec: TensorSpec | None) -> str:
    if spec is None:
        return "none"
    return "x".join(map(str, spec.shape)) or "scalar"


def _dtype(spec: TensorSpec | None) -> str:
    return spec.dtype if spec else "none"


def _settings(module: nn.Module) -> str:
    """`extra_repr` without addresses; a module that cannot say it has none."""
    try:
        return _ADDRESS.sub("0x", module.extra_repr())
    except Exception:  # the user's own method
        return ""
