"""The cheapest fix for an op that stays on the host: a table of predicates, the first that holds gives the sentence."""

from __future__ import annotations

import difflib
import functools
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources
from typing import Any

import torch

from proveout.ops.table import ops

GUIDE = "docs/guides/add-an-op.md"


@dataclass(frozen=True)
class Case:
    """What is known about one line of the ledger."""

    aten: str
    reason: str
    once: bool = False
    """It depends on weights alone and runs when they change, not at every call."""
    eager_graph: bool = False
    """Its whole graph runs in eager."""

    def match(self, pattern: str) -> re.Match[str] | None:
        return re.search(pattern, self.reason)

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


def cheapest_fix(case: Case) -> str:
    """A sentence that says what to change, in the model or in the op table."""
    return next(fix(case) for holds, fix in FIXES if holds(case))


def kernel_for(name: str) -> str | None:
    """A ttnn function whose name says that it does what an ATen op does, or None."""
    plain = re.sub(r"^_+|_+$", "", name)
    plain = re.sub(r"^(native|cudnn|fake)_", "", plain)
    backward = re.sub(r"_backward(_data|_input)?$", "_bw", plain)
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
    return "pointwise" if torch.Tag.pointwise in tags else "reduce" if torch.Tag.reduction in tags else None


def _overload(aten: str) -> torch._ops.OpOverload | None:
    found: Any = torch.ops
    try:
        for part in aten.split("."):
            found = getattr(found, part)
    except AttributeError:
        return None
    return found if isinstance(found, torch._ops.OpOverload) else None


def _decomposes(case: Case) -> bool:
    from torch._decomp import core_aten_decompositions

    return _overload(case.aten) in core_aten_decompositions()


def _reason(pattern: str) -> Callable[[Case], bool]:
    return lambda case: case.match(pattern) is not None


def _say(text: str) -> Callable[[Case], str]:
    """A sentence with {name}, {aten}, {kernel}, {family} and {guide} filled in."""

    def fix(case: Case) -> str:
        kernel = kernel_for(case.name) if "{kernel}" in text else ""
        family = f"ops/{family_for(case.name)}.py" if family_for(case.name) else "the op table"
        return text.format(name=case.name, aten=case.aten, kernel=kernel, family=family, guide=GUIDE)

    return fix


def _with_match(pattern: str, text: str) -> tuple[Callable[[Case], bool], Callable[[Case], str]]:
    """A rule on the reason whose sentence uses the pattern's named parts."""

    def fix(case: Case) -> str:
        found = case.match(pattern)
        assert found is not None
        return text.format(**found.groupdict())

    return _reason(pattern), fix


def _pad_head(case: Case) -> str:
    found = case.match(r"multiple of (\d+), not (\d+)")
    assert found is not None
    tile, size = int(found.group(1)), int(found.group(2))
    return f"pad the head size {size} to {-(-size // tile) * tile} with zeros and keep the scale of {size}"


def _always(case: Case) -> bool:
    return True


def _missing_kernel(case: Case) -> bool:
    return not case.has_row and kernel_for(case.name) is not None


FIXES: tuple[tuple[Callable[[Case], bool], Callable[[Case], str]], ...] = (
    (lambda c: c.once, _say("none needed: it depends on weights alone and runs once, not at every call")),
    (
        _reason(r"^internal error in its lowering"),
        _say("a fault in the op's row: run again with --set verify=true to see it, and report it"),
    ),
    (
        lambda c: c.eager_graph and c.match(r"depend on data") is not None,
        _say("shapes depend on data: compute them outside the model, or call it with fixed shapes"),
    ),
    (
        lambda c: c.eager_graph and c.match(r"writes in place") is not None,
        _say("give the op a functional form, or move the write out of the compiled model"),
    ),
    (
        lambda c: c.eager_graph,
        _say("its whole graph runs in eager: move what the reason names out of the model"),
    ),
    (_reason(r"multiple of \d+, not \d+"), _pad_head),
    _with_match(
        r"takes (a )?bfloat16\b.*not float32",
        "compile with precision bfloat16 (--precision bfloat16), or cast that operand to bfloat16 in the model",
    ),
    _with_match(
        r"(?P<dtype>u?int\d+) values that are not proven",
        "give it to the model as int32 where the {dtype} values fit, or cast with `.to(torch.int32)`: more converts",
    ),
    _with_match(
        r"(?P<dtype>u?int\d+) values from .* do not fit",
        "keep the {dtype} values within 32 bits, or compute this part outside the model",
    ),
    _with_match(
        r"(?P<dtype>float64|float16) is not a dtype of this device", "cast to float32 or bfloat16 instead of {dtype}"
    ),
    _with_match(
        r"complex\d* is not a dtype of this device|complex numbers have no kernel",
        "carry real and imaginary parts as two real tensors",
    ),
    _with_match(
        r"(?P<kernel>ttnn\.[\w.]+) takes (?P<wanted>[\w ]+), not (?P<dtype>[\w]*(int|float|bool)\w*)",
        "cast the operand from {dtype} to {wanted} before it",
    ),
    _with_match(
        r"takes (?P<rank>\d+) dimensions, not (?P<found>\d+)",
        "reshape the operands from {found} to {rank} dimensions around it",
    ),
    _with_match(r"is causal or takes a mask, not both", "put the causal part into the mask, and pass is_causal=False"),
    _with_match(r"as many queries as keys", "pass an explicit mask instead of is_causal=True"),
    _with_match(r"without elements|of no element|over no element", "none needed: there is nothing to compute"),
    _with_match(
        r"in (?P<groups>\d+) groups",
        "write the {groups} groups as one convolution each, joined by torch.cat",
    ),
    (
        lambda c: c.is_kind(torch.Tag.dynamic_output_shape) or c.match(r"known only when it runs") is not None,
        _say("its result's shape depends on data: compute it outside, or mask with torch.where and keep the shape"),
    ),
    (
        lambda c: c.is_kind(torch.Tag.data_dependent_output),
        _say("it reads a value back into Python: move it out of the model"),
    ),
    (
        lambda c: c.is_kind(torch.Tag.nondeterministic_seeded) or c.match(r"draws random numbers") is not None,
        _say("it draws random numbers: pass the noise as an input, or call model.eval() where it is dropout"),
    ),
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
        _say("write a row for {aten} in {family} from other kernels ({guide}): ttnn has none of that name"),
    ),
    (
        _always,
        _say("its row refuses this call: change the call as the reason says, or extend the row in {family}"),
    ),
)
"""(predicate, sentence), most specific first."""
