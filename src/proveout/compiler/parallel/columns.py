"""Tensor parallel: each chip holds a share of a linear's columns, computes that share of the result, and all gather.

A share is whole tiles: weights are filled up with zeros in `setup`, and the columns of those are dropped again.

It runs before memory is looked at; from here on the specs of cut values are those of one chip's piece.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from proveout.compiler.program_passes.prune import prune
from proveout.kernels.blockfloat import FORMATS
from proveout.kernels.pieces import shard_along
from proveout.kernels.row import Kind
from proveout.kernels.table import all_cuts, kernels, kind_of
from proveout.program import FROM_TORCH, Arg, Program, Ref, Step, refs, with_refs
from proveout.types import TILE, TensorSpec

KNOWN: tuple[Kind, ...] = ("order", "layout", "cast", "memory")
"""Kinds of Steps after which it is known where each dimension of a weight went."""


@dataclass(frozen=True)
class Shares:
    """A Program with its linears cut, how many they are, and why the others are not."""

    program: Program
    num_linears: int
    reasons: tuple[str, ...]


def split_columns(program: Program, chips: int) -> Shares:
    cutter = _Cutter(program, chips)
    body: list[Step] = []
    reasons: list[str] = []
    for step in program.body:
        if kind_of(step) != "product" or not cutter.is_linear(step):
            body.append(step)
            continue
        cut = cutter.cut(step)
        if isinstance(cut, str):
            reasons.append(f"{step.kernel} of {step.origin.module or step.origin.node}: {cut}")
        body += [step] if isinstance(cut, str) else cut
    if not cutter.num_linears:
        return Shares(program, 0, tuple(dict.fromkeys(reasons)))
    divided = replace(program, setup=tuple(cutter.setup), body=tuple(body), specs=cutter.specs, chips=chips)
    return Shares(prune(divided), cutter.num_linears, tuple(dict.fromkeys(reasons)))


class _Cannot(Exception):
    """Why a weight is not cut."""


class _Cutter:
    def __init__(self, program: Program, chips: int) -> None:
        self.chips = chips
        self.setup = list(program.setup)
        self.specs: dict[str, TensorSpec] = dict(program.specs)
        self.made = {n: s for s in program.setup for n in s.outputs}
        self.num_linears = 0

    def is_linear(self, step: Step) -> bool:
        """A product with something that setup made, not of two results of the body."""
        return any(ref.name in self.made for ref in refs(step.attr("input_tensor_b")))

    def cut(self, step: Step) -> list[Step] | str:
        """The linear on one chip's columns and the gathering after it, or why it stays whole."""
        weight, bias = step.attr("input_tensor_b"), step.attr("bias")
        (out,) = step.outputs
        columns = self.specs[out].shape[-1]
        if columns < self.chips * TILE:
            return f"{columns} columns are less than a tile on each of {self.chips} chips"
        share = -(-columns // (self.chips * TILE)) * TILE
        operands = (("input_tensor_b", weight, -2 if step.attr("transpose_b") else -1), ("bias", bias, -1))
        refs = [(key, operand.name, dim) for key, operand, dim in operands if isinstance(operand, Ref)]
        try:
            for _, name, dim in refs:
                self._check(name, dim)
        except _Cannot as reason:
            return str(reason)
        pieces = {key: Ref(self._share(name, dim % len(self.specs[name].shape), share)) for key, name, dim in refs}
        self.num_linears += 1
        return self._steps(step, {k: pieces.get(k, v) for k, v in step.attrs}, share)

    def _steps(self, step: Step, attrs: dict[str, Arg], share: int) -> list[Step]:
        """The linear on a share, the gathering, and the dropping of columns that filled it up."""
        (out,) = step.outputs
        shape, last = self.specs[out].shape, len(self.specs[out].shape) - 1
        piece, gathered = f"{out}.columns", f"{out}.gathered"
        self.specs[piece] = replace(self.specs[out], shape=(*shape[:-1], share))
        steps = [replace(step, attrs=tuple(attrs.items()), outputs=(piece,))]
        gather: dict[str, Arg] = {"input_tensor": Ref(piece), "dim": last}
        steps.append(Step("ttnn.all_gather", tuple(gather.items()), (out,), step.origin))
        if share * self.chips != shape[-1]:
            self.specs[gathered] = replace(self.specs[piece], shape=(*shape[:-1], share * self.chips))
            steps[-1] = replace(steps[-1], outputs=(gathered,))
            cut: dict[str, Arg] = {
                "input_tensor": Ref(gathered),
                "slice_start": (0,) * len(shape),
                "slice_end": shape,
                "slice_step": (1,) * len(shape),
            }
            steps.append(Step("ttnn.slice", tuple(cut.items()), (out,), step.origin))
        return steps

    def _check(self, name: str, dim: int) -> None:
        """Whether setup makes this value of one transfer by moves alone, or joins several such along `dim`."""
        step, dim = self._maker(name), dim % len(self.specs[name].shape)
        if kind_of(step) == "join":
            for source in step.uses:
                self._check_source(source, self.specs[name].dtype)
        elif step.kernel != FROM_TORCH:
            self._check(step.uses[0], self._before(step, dim))

    def _check_source(self, name: str, dtype: str) -> None:
        """Whether the host can make what is joined: of one transfer in the same dtype, by moves that it knows."""
        step = self._maker(name)
        if step.kernel == FROM_TORCH:
            if self.specs[name].dtype != dtype:
                raise _Cannot("the weights joined in it have several dtypes")
        elif kind_of(step) not in ("order", "join", "layout") or dtype in FORMATS:
            raise _Cannot(f"its weight is prepared by {step.kernel}")
        else:
            self._check_source(step.uses[0], dtype)

    def _maker(self, name: str) -> Step:
        if name not in self.made:
            raise _Cannot("its weight is computed at every call")
        return self.made[name]

    def _before(self, step: Step, dim: int) -> int:
        """The dimension of a Step's operand that is this one of its result."""
        if kind_of(step) not in KNOWN:
            raise _Cannot(f"its weight is prepared by {step.kernel}")
        (before,) = (d for cut in all_cuts(step, self.specs) if cut.output == dim for d in cut.operands.values())
        return before

    def _share(self, name: str, dim: int, share: int) -> str:
        """The same setup Steps on one chip's share; made once for each way of cutting a value."""
        step, spec, share_name = self.made[name], self.specs[name], f"{name}.share{dim}"
        if share_name in self.specs:
            return share_name
        if kind_of(step) == "join":
            joined = self._on_host(name)
            first = self._transfer_of(step.uses[0])
            copy = with_refs(first, lambda _: Ref(self._filled(joined, dim, share * self.chips)))
        elif step.kernel == FROM_TORCH:
            copy = with_refs(step, lambda ref: Ref(self._filled(ref.name, dim, share * self.chips)))
        else:
            source = self._share(step.uses[0], self._before(step, dim), share)
            copy = with_refs(step, lambda _: Ref(source))
        if copy.kernel == FROM_TORCH:
            copy = replace(copy, attrs=(*copy.attrs, ("mesh_mapper", shard_along(dim))))
        self.specs[share_name] = replace(spec, shape=_with(spec.shape, dim, share))
        self.setup.append(replace(copy, outputs=(share_name,)))
        return share_name

    def _transfer_of(self, name: str) -> Step:
        step = self.made[name]
        return step if step.kernel == FROM_TORCH else self._transfer_of(step.uses[0])

    def _on_host(self, name: str) -> str:
        """The host's tensor with the numbers of what setup makes on the device."""
        step, host = self.made[name], f"{name}.host"
        if step.kernel == FROM_TORCH:
            return step.uses[0]
        sources = tuple(map(self._on_host, step.uses))
        form = kernels()[step.kernel].host
        if form is None:
            return sources[0]
        if host not in self.specs:
            there = dict(zip(step.uses, sources))
            attrs = form.attrs(dict(with_refs(step, lambda ref: Ref(there[ref.name])).attrs))
            self.specs[host] = TensorSpec(self.specs[name].shape, self.specs[sources[0]].dtype)
            self.setup.append(Step(form.aten, tuple(attrs.items()), (host,), step.origin, REASON))
        return host

    def _filled(self, name: str, dim: int, size: int) -> str:
        """A weight on the host with zeros after its columns, where there are any to fill."""
        spec, filled = self.specs[name], f"{name}.filled{dim}"
        if spec.shape[dim] == size:
            return name
        if filled not in self.specs:
            pad = tuple(
                n for d in reversed(range(len(spec.shape))) for n in (0, size - spec.shape[d] if d == dim else 0)
            )
            attrs: tuple[tuple[str, Arg], ...] = (("self", Ref(name)), ("pad", pad), ("value", 0.0))
            self.specs[filled] = replace(spec, shape=_with(spec.shape, dim, size))
            self.setup.append(Step("aten.constant_pad_nd.default", attrs, (filled,), reason="whole tiles on each chip"))
        return filled


REASON = "joined before it is cut over the chips"


def _with(shape: tuple[int, ...], dim: int, size: int) -> tuple[int, ...]:
    return (*shape[:dim], size, *shape[dim + 1 :])
