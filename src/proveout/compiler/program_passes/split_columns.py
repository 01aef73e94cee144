"""Tensor parallel: each chip holds a share of a linear's columns, computes that share of the result, and all gather.

A share is whole tiles: weights are filled up with zeros in `setup`, and the columns of those are dropped again.

It runs on a finished Program: results keep their names, specs and places; what is freed is told anew.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from proveout.compiler.program_passes.deallocate import deallocate
from proveout.compiler.program_passes.prune import prune
from proveout.kernels.pieces import shard_along
from proveout.program import DEALLOCATE, FROM_TORCH, Arg, Name, Program, Ref, Step, refs, with_refs
from proveout.types import DRAM, TILE, TensorSpec

LINEARS = ("ttnn.linear", "ttnn.matmul")
SAME_PLACE = ("ttnn.to_layout", "ttnn.typecast", "ttnn.to_memory_config")


@dataclass(frozen=True)
class Shares:
    """A Program with its linears cut, how many they are, and why the others are not."""

    program: Program
    num_linears: int
    reasons: tuple[str, ...]


def split_columns(program: Program, chips: int) -> Shares:
    program = replace(program, setup=_allocating(program.setup), body=_allocating(program.body))
    cutter = _Cutter(program, chips)
    body: list[Step] = []
    reasons: list[str] = []
    for step in program.body:
        if step.kernel not in LINEARS or not cutter.is_linear(step):
            body.append(step)
            continue
        cut = cutter.cut(step)
        if isinstance(cut, str):
            reasons.append(f"{step.kernel} of {step.origin.module or step.origin.node}: {cut}")
        body += [step] if isinstance(cut, str) else cut
    cut_program = replace(program, setup=tuple(cutter.setup), body=tuple(body), specs=cutter.specs)
    return Shares(deallocate(prune(cut_program)), cutter.num_linears, tuple(dict.fromkeys(reasons)))


def _allocating(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    return tuple(step for step in steps if step.kernel != DEALLOCATE)


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
        plans = {}
        for name, operand, dim in (
            ("input_tensor_b", weight, -2 if step.attr("transpose_b") else -1),
            ("bias", bias, -1),
        ):
            if isinstance(operand, Ref):
                chain = self._chain(operand.name, dim)
                if isinstance(chain, str):
                    return chain
                plans[name] = chain
        pieces = {name: self._shares(chain, share) for name, chain in plans.items()}
        self.num_linears += 1
        return self._steps(step, {k: Ref(pieces[k]) if k in pieces else v for k, v in step.attrs}, share)

    def _steps(self, step: Step, attrs: dict[str, Arg], share: int) -> list[Step]:
        """The linear on a share, the gathering, and the dropping of columns that filled it up; the last makes the
        result where it was to be, those before it are short-lived and go to DRAM."""
        (out,) = step.outputs
        shape, last = self.specs[out].shape, len(self.specs[out].shape) - 1
        piece, gathered = f"{out}.columns", f"{out}.gathered"
        self.specs[piece] = replace(self.specs[out], shape=(*shape[:-1], share), memory=DRAM)
        steps = [replace(step, attrs=tuple(attrs.items()), outputs=(piece,))]
        gather: dict[str, Arg] = {"input_tensor": Ref(piece), "dim": last}
        steps.append(Step("ttnn.all_gather", tuple(gather.items()), (out,), step.origin))
        if share * self.chips != shape[-1]:
            self.specs[gathered] = replace(self.specs[piece], shape=(*shape[:-1], share * self.chips))
            steps[-1] = replace(steps[-1], outputs=(gathered,))
            ends: dict[str, Arg] = {
                "slice_start": (0,) * len(shape),
                "slice_end": shape,
                "slice_step": (1,) * len(shape),
            }
            cut: dict[str, Arg] = {"input_tensor": Ref(gathered), **ends}
            steps.append(Step("ttnn.slice", tuple(cut.items()), (out,), step.origin))
        memory = attrs.get("memory_config")
        return steps if memory is None else [_in_memory(s, memory if s.outputs == (out,) else IN_DRAM) for s in steps]

    def _chain(self, name: str, dim: int) -> list[tuple[Step, int]] | str:
        """The setup Steps from a transfer to this value, each with the dimension of its result that is cut."""
        chain: list[tuple[Step, int]] = []
        while True:
            step = self.made.get(name)
            dim %= len(self.specs[name].shape)
            if step is None:
                return "its weight is computed at every call"
            chain.append((step, dim))
            if step.kernel == FROM_TORCH:
                return chain[::-1]
            dims = step.attr("dims")
            if step.kernel == "ttnn.permute" and isinstance(dims, tuple):
                dim = int(str(dims[dim]))
            elif step.kernel == "ttnn.transpose":
                rank = len(self.specs[name].shape)
                a, b = (int(str(step.attr(k))) % rank for k in ("dim1", "dim2"))
                dim = {a: b, b: a}.get(dim, dim)
            elif step.kernel not in SAME_PLACE:
                return f"its weight is prepared by {step.kernel}"
            name = step.uses[0]

    def _shares(self, chain: list[tuple[Step, int]], share: int) -> str:
        """The same setup Steps on one chip's share; made once for each way of cutting a value."""
        renamed: dict[str, str] = {}
        for step, dim in chain:
            (out,) = step.outputs
            name = renamed[out] = f"{out}.share{dim}"
            if name in self.specs:
                continue
            spec = self.specs[out]
            self.specs[name] = replace(spec, shape=_with(spec.shape, dim, share))
            if step.kernel == FROM_TORCH and share * self.chips != spec.shape[dim]:
                renamed[step.uses[0]] = self._filled(step.uses[0], dim, share * self.chips)
            copy = replace(with_refs(step, lambda ref: Ref(renamed.get(ref.name, ref.name))), outputs=(name,))
            if step.kernel == FROM_TORCH:
                copy = replace(copy, attrs=(*copy.attrs, ("mesh_mapper", shard_along(dim))))
            self.setup.append(copy)
        return renamed[chain[-1][0].outputs[0]]

    def _filled(self, name: str, dim: int, size: int) -> str:
        """A weight on the host with zeros after its columns."""
        filled = f"{name}.filled{dim}"
        if filled not in self.specs:
            spec = self.specs[name]
            pad = tuple(
                n for d in reversed(range(len(spec.shape))) for n in (0, size - spec.shape[d] if d == dim else 0)
            )
            attrs: tuple[tuple[str, Arg], ...] = (("self", Ref(name)), ("pad", pad), ("value", 0.0))
            self.specs[filled] = replace(spec, shape=_with(spec.shape, dim, size))
            self.setup.append(Step("aten.constant_pad_nd.default", attrs, (filled,), reason="whole tiles on each chip"))
        return filled


IN_DRAM = Name("ttnn.DRAM_MEMORY_CONFIG")


def _in_memory(step: Step, memory: Arg) -> Step:
    return replace(step, attrs=tuple({**dict(step.attrs), "memory_config": memory}.items()))


def _with(shape: tuple[int, ...], dim: int, size: int) -> tuple[int, ...]:
    return (*shape[:dim], size, *shape[dim + 1 :])
