"""The cheapest fix for an op that stays on the host: its reason's own, or the first of a table's rows that holds."""

from __future__ import annotations

import difflib
import functools
import json
from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources
from typing import Any

import torch

from proveout.ops.table import ops
from proveout.reasons import PYTHON_FIX, RANDOM_FIX, SHAPE_FIX, Reason

GUIDE = "docs/guides/add-an-op.md"
PREFIXES = ("native_", "cudnn_", "fake_")
BACKWARD = ("_backward", "_backward_data", "_backward_input")
"""How ATen's names begin and end where ttnn's do not."""


@dataclass(frozen=True)
class KnownFix:
    """What is known about one line of the ledger."""

    aten: str
    reason: Reason | None = None
    once: bool = False
    """It depends on weights alone and runs when they change, not at every call."""
    eager_graph: bool = False
    """Its whole graph runs in eager."""

    def is_kind(self, tag: torch.Tag) -> bool:
        """Whether the op is of a kind that no row serves; with a row, the reason says more than the kind."""
        op = _overload(self.aten)
        return not self.has_row and op is not None and tag in op.tags

    @property
    def has_row(self) -> bool:
        return self.aten in ops()

    @property
    def name(self) -> str:
        """`aten._softmax_backward_data.default` as `_softmax_backward_data`."""
        return self.aten.split(".")[1] if self.aten.count(".") else self.aten


def cheapest_fix(case: KnownFix) -> str:
    """A sentence that says what to change, in the model or in the op table."""
    return next(fix(case) for holds, fix in FIXES if holds(case))


def kernel_for(name: str) -> str | None:
    """A ttnn function whose name says that it does what an ATen op does, or None."""
    plain = name.strip("_")
    plain = next((plain.removeprefix(p) for p in PREFIXES if plain.startswith(p)), plain)
    backward = next((plain.removesuffix(s) + "_bw" for s in BACKWARD if plain.endswith(s)), plain)
    wanted = [f"ttnn.{space}{n}" for n in dict.fromkeys((plain, backward)) for space in ("", "transformer.")]
    known = ttnn_names()
    return next((n for n in wanted if n in known), None) or next(
        iter(difflib.get_close_matches(wanted[-2], [n for n in known if n.count(".") == 1], n=1, cutoff=0.9)), None
    )


@functools.cache
def ttnn_names() -> frozenset[str]:
    """Every operation of ttnn 0.81.1 by name, those without a kernel row too."""
    text = resources.files("proveout.kernels").joinpath("ttnn_names.json").read_text()
    return frozenset(json.loads(text)["names"])


def family_for(name: str) -> str | None:
    """The family of the op table where such a row belongs: that of the op with the nearest name, or of its kind."""
    rows = {aten.split(".")[1]: row.lower.__module__.rpartition(".")[2] for aten, row in ops().items()}
    if "backward" in name:
        return "backward"
    near = difflib.get_close_matches(name, rows, n=1, cutoff=0.75)
    overload = _overload(f"aten.{name}.default")
    tags: tuple[Any, ...] = tuple(overload.tags) if overload is not None else ()
    if near:
        return rows[near[0]]
    if overload is not None and torch.Tag.pointwise in tags:
        return "unary" if sum(str(a.type) == "Tensor" for a in overload._schema.arguments) == 1 else "pointwise"
    return "reduce" if torch.Tag.reduction in tags else None


def _overload(aten: str) -> torch._ops.OpOverload | None:
    overload: Any = torch.ops
    try:
        for part in aten.split("."):
            overload = getattr(overload, part)
    except AttributeError:
        return None
    return overload if isinstance(overload, torch._ops.OpOverload) else None


def _decomposes(case: KnownFix) -> bool:
    from torch._decomp import core_aten_decompositions

    return _overload(case.aten) in core_aten_decompositions()


def _say(text: str) -> Callable[[KnownFix], str]:
    """A sentence with {name}, {aten}, {kernel}, {family} and {guide} filled in."""

    def fix(case: KnownFix) -> str:
        kernel = kernel_for(case.name) if "{kernel}" in text else ""
        family = f"ops/{family_for(case.name)}.py" if family_for(case.name) else "the op table"
        return text.format(name=case.name, aten=case.aten, kernel=kernel, family=family, guide=GUIDE)

    return fix


def _always(case: KnownFix) -> bool:
    return True


def _missing_kernel(case: KnownFix) -> bool:
    return not case.has_row and kernel_for(case.name) is not None


FIXES: tuple[tuple[Callable[[KnownFix], bool], Callable[[KnownFix], str]], ...] = (
    (lambda c: c.once, _say("none needed: it depends on weights alone and runs once, not at every call")),
    (lambda c: bool(c.reason and c.reason.fix), lambda c: c.reason.fix if c.reason else ""),
    (
        lambda c: c.eager_graph,
        _say("its whole graph runs in eager: move what the reason names out of the model"),
    ),
    (lambda c: c.is_kind(torch.Tag.dynamic_output_shape), _say(SHAPE_FIX)),
    (lambda c: c.is_kind(torch.Tag.data_dependent_output), _say(PYTHON_FIX)),
    (lambda c: c.is_kind(torch.Tag.nondeterministic_seeded), _say(RANDOM_FIX)),
    (
        lambda c: (op := _overload(c.aten)) is not None and not op._schema.returns,
        _say("it gives nothing and only checks: leave it out of the compiled model"),
    ),
    (
        _missing_kernel,
        _say("write a row for {aten} in {family} ({guide}); ttnn has {kernel}"),
    ),
    (
        lambda c: not c.has_row and not c.aten.startswith("aten."),
        _say("a custom op: register a decomposition of it into ATen ops, or write a row for {aten} ({guide})"),
    ),
    (
        lambda c: not c.has_row and _decomposes(c),
        _say("add {aten} to compiler/decompositions.py: PyTorch decomposes it into ops that may have rows"),
    ),
    (
        lambda c: not c.has_row,
        _say("build {aten} from other kernels, as a row of {family} ({guide}): ttnn has none of that name"),
    ),
    (
        _always,
        _say("its row refuses this call: change the call as the reason says, or extend the row in {family}"),
    ),
)
"""(predicate, sentence), most specific first."""
