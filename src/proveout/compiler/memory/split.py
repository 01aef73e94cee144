"""Divides Steps that do not fit the chip: pieces go through it one after another; `cuts` has the exact divisions.

Where operands and results together exceed DRAM, the whole stays on the host, sliced before and joined after. Where a
kernel's own buffers exceed a core's L1 (a convolution with many channels), pieces are sliced and joined on the chip.
"""

from __future__ import annotations

import bisect
import functools
from collections import ChainMap
from collections.abc import Mapping
from dataclasses import dataclass, replace

from proveout.chip.memory import bytes_per_bank
from proveout.compiler.program_passes.hoist import hoist
from proveout.compiler.program_passes.prune import prune
from proveout.compiler.program_passes.settle_state import settle_state
from proveout.kernels.cost import circular_bytes
from proveout.kernels.row import Cut, HostForm
from proveout.kernels.table import LAYOUT_NAMES, cuts, infer, kernels, kind_of
from proveout.program import (
    DEALLOCATE,
    FROM_TORCH,
    TO_TORCH,
    Arg,
    Name,
    Program,
    Ref,
    Step,
    map_refs,
    refs,
    with_refs,
)
from proveout.types import DRAM, HOST, TILE, DeviceSpec, Origin, TensorSpec

REASON = "too large for the device as a whole"
MOST_PIECES = 32
"""Of a Step that fits no core: beyond that, slices and joins cost more than the host."""


def split(program: Program, chip: DeviceSpec) -> Program:
    """A Program whose every Step fits by itself, where we know how; the plan names the Steps that still do not."""
    if program.chips > 1:
        return program  # host slices are of whole tensors, and the chips hold pieces of them
    work = _Split(program, chip)
    if all(work.fits_alone(step) and work.fits_a_core(step) for step in program.steps):
        return program
    return settle_state(hoist(prune(work.run())))


@dataclass(frozen=True)
class _Division:
    """A cut with the length of its pieces; `near` if whole operands that are on the device are sliced there.

    One that is not `enough` leaves pieces that must be divided again, along another dimension.
    """

    cut: Cut
    length: int
    near: bool
    enough: bool = True

    @property
    def whole(self) -> _Division:
        return replace(self, length=self.cut.extent)

    @property
    def bounds(self) -> list[tuple[int, int]]:
        return [(a, min(a + self.length, self.cut.extent)) for a in range(0, self.cut.extent, self.length)]


class _Split:
    def __init__(self, program: Program, chip: DeviceSpec) -> None:
        self.program, self.chip = program, chip
        self.specs: dict[str, TensorSpec] = dict(program.specs)
        self.steps: list[Step] = []
        self.sent: dict[str, Step] = {}
        """Values that come straight from the host: slices of their source can be sent instead."""
        self.on_host: dict[str, str] = {}
        """Host tensors with the same numbers, in the device's dtype."""
        self.lost: set[str] = set()
        """Values that are on the host alone."""
        self.alias: dict[str, str] = {}
        """Values under their new name: a whole that was sent again, a host tensor that needed no transfer."""

    def run(self) -> Program:
        for step in self.program.setup:
            self._add(step)
        setup, self.steps = tuple(self.steps), []
        for step in self.program.body:
            self._add(step)
        outputs = tuple(map_refs(o, lambda r: Ref(self.alias.get(r.name, r.name))) for o in self.program.outputs)
        state = tuple((weight, self.alias.get(v, v)) for weight, v in self.program.state)
        return replace(
            self.program, setup=setup, body=tuple(self.steps), outputs=outputs, specs=self.specs, state=state
        )

    def fits_alone(self, step: Step) -> bool:
        if step.on_host or step.kernel in (FROM_TORCH, TO_TORCH, DEALLOCATE):
            return True
        return sum(map(self._bytes, (*step.uses, *step.outputs))) <= self.chip.dram_bank_bytes

    def fits_a_core(self, step: Step) -> bool:
        return circular_bytes(step, self.specs, self.chip) <= self.chip.l1_room

    def _bytes(self, name: str) -> int:
        return _in_dram(self.specs[name], self.chip)

    # ---- one Step ---------------------------------------------------------------------------------------------

    def _add(self, step: Step) -> None:
        if step.kernel == FROM_TORCH:
            self._emit(self._renamed(step))
        elif step.kernel == TO_TORCH and self._is_far(step.uses[0]) and not self._is_small(step.uses[0]):
            self._fetch_from_host(step)
        elif self.fits_alone(step):
            division = None if self.fits_a_core(step) else self._divide_for_cores(step)
            self._whole(step) if division is None else self._pieces(step, division)
        elif (_host_form(step) or kind_of(step) == "layout") and all(map(self._is_far, step.uses)):
            self._move_on_host(step)
        else:
            division = self._divide(step)
            if division is not None:
                self._pieces(step, division)
            elif _host_form(step):
                self._move_on_host(step)
            else:
                self._whole(step)

    def _is_small(self, name: str) -> bool:
        return name not in self.lost and self._bytes(name) <= self.chip.dram_bank_bytes

    def _renamed(self, step: Step) -> Step:
        return with_refs(step, lambda r: Ref(self.alias.get(r.name, r.name)))

    def _whole(self, step: Step) -> None:
        for name in self.lost.intersection(step.uses):
            if name not in self.alias:
                self.alias[name] = self._send(self.on_host[name], name, f"{name}.whole", step.origin)
        self.steps.append(self._renamed(step))

    def _is_far(self, name: str) -> bool:
        return name in self.lost or name in self.sent

    def _fetch_from_host(self, step: Step) -> None:
        (out,), source = step.outputs, self._from_host(step.uses[0], step.origin)
        self.alias[out] = self._as_dtype(source, self.specs[out].dtype, step.origin)

    def _move_on_host(self, step: Step) -> None:
        (out,), sources = step.outputs, {n: self._from_host(n, step.origin) for n in step.uses}
        name = sources[step.uses[0]]
        form = _host_form(step)
        if form is not None:
            attrs = form.attrs(dict(with_refs(step, lambda r: Ref(sources[r.name])).attrs))
            spec = TensorSpec(self.specs[out].shape, self.specs[name].dtype)
            name = self._host_step(form.aten, attrs, spec, out, step.origin)
        self.on_host[out] = name
        self.lost.add(out)

    # ---- how to divide ----------------------------------------------------------------------------------------

    def _divide(self, step: Step) -> _Division | None:
        """The division with the fewest pieces, or else the smallest halves; None where nothing gets smaller."""
        ways = cuts(step, self.specs)
        divisions = [d for cut in ways for near in (True, False) if (d := self._longest(step, cut, near)) is not None]
        if divisions:
            return min(divisions, key=lambda d: (len(d.bounds), not d.near))
        halves = [_Division(cut, _half(cut), near=False, enough=False) for cut in ways]
        smaller = [d for d in halves if self._piece_bytes(step, d) < self._piece_bytes(step, d.whole)]
        return min(smaller, key=lambda d: self._piece_bytes(step, d), default=None)

    def _divide_for_cores(self, step: Step) -> _Division | None:
        """The fewest pieces whose own buffers fit a core; None where no cut gives such, and the host has to run it."""
        for count in range(2, MOST_PIECES + 1):
            for cut in cuts(step, self.specs):
                length = -(-cut.extent // count // cut.granule) * cut.granule
                division = _Division(cut, length, near=True)
                if (
                    length < cut.extent
                    and self._piece_fits_a_core(step, division)
                    and self._can_join_here(step, division)
                ):
                    return division
        return None

    def _piece_fits_a_core(self, step: Step, division: _Division) -> bool:
        cut, length = division.cut, division.length
        cut_along = {r.name: dim for key, dim in cut.operands.items() for r in refs(dict(step.attrs)[key])}
        outputs = {n: self.specs[n].shape[cut.output] * length // cut.extent for n in step.outputs}
        shorter = {n: _shorter(self.specs[n], dim, length) for n, dim in cut_along.items()}
        shorter |= {n: _shorter(self.specs[n], cut.output, size) for n, size in outputs.items()}
        piece = step.with_attrs(**cut.attrs(length))
        return circular_bytes(piece, ChainMap(shorter, self.specs), self.chip) <= self.chip.l1_room

    def _longest(self, step: Step, cut: Cut, near: bool) -> _Division | None:
        lengths = range(cut.granule, cut.extent, cut.granule)
        longest = bisect.bisect_right(lengths, False, key=lambda n: not self._piece_fits(step, _Division(cut, n, near)))
        if longest == 0:
            return None
        length = lengths[longest - 1]
        if cut.granule == 1 and length > TILE:
            length -= length % TILE
        return _Division(cut, length, near)

    def _piece_fits(self, step: Step, division: _Division) -> bool:
        return self._piece_bytes(step, division) <= self.chip.dram_bank_bytes

    def _piece_bytes(self, step: Step, division: _Division) -> int:
        cut, total = division.cut, 0
        for name, dim in {(r.name, cut.operands.get(key)) for key, arg in step.attrs for r in refs(arg)}:
            if dim is not None:
                total += _in_dram(_shorter(self.specs[name], dim, division.length), self.chip)
            if dim is None or (division.near and not self._is_far(name)):
                total += self._bytes(name)
        for name in step.outputs:
            spec = self.specs[name]
            length = -(-spec.shape[cut.output] * division.length // cut.extent)
            total += _in_dram(_shorter(spec, cut.output, length), self.chip)
        return total

    # ---- the pieces -------------------------------------------------------------------------------------------

    def _pieces(self, step: Step, division: _Division) -> None:
        cut, origin = division.cut, step.origin
        self._load_wholes(step, cut)
        join_here = self._can_join_here(step, division)
        pieces: dict[str, list[str]] = {name: [] for name in step.outputs}
        for number, (start, end) in enumerate(division.bounds):
            attrs = {**dict(step.attrs), **cut.attrs(end - start)}
            part = functools.cache(
                functools.partial(self._slice, start=start, end=end, near=division.near, origin=origin)
            )
            for key, dim in cut.operands.items():
                attrs[key] = map_refs(attrs[key], functools.partial(part, dim=dim))
            names = tuple(self._fresh(f"{out}.{number}") for out in step.outputs)
            piece = Step(step.kernel, tuple(attrs.items()), names, origin)
            self.specs.update(zip(names, infer(self._renamed(piece), self.specs)))
            self._add(piece)
            for out, name in zip(step.outputs, names):
                pieces[out].append(name if join_here else self._from_host(name, origin))
        for out, names_made in pieces.items():
            tensors: tuple[Arg, ...] = tuple(map(Ref, names_made))
            if join_here:
                self.steps.append(Step("ttnn.concat", (("tensors", tensors), ("dim", cut.output)), (out,), origin))
                continue
            spec = TensorSpec(self.specs[out].shape, self.specs[names_made[0]].dtype)
            attrs = {"tensors": tensors, "dim": cut.output}
            self.on_host[out] = self._host_step("aten.cat.default", attrs, spec, out, origin)
            self.lost.add(out)

    def _load_wholes(self, step: Step, cut: Cut) -> None:
        for key, arg in step.attrs:
            for ref in refs(arg) if key not in cut.operands else ():
                if ref.name in self.lost and ref.name not in self.alias:
                    self.alias[ref.name] = self._send(
                        self.on_host[ref.name], ref.name, f"{ref.name}.whole", step.origin
                    )

    def _can_join_here(self, step: Step, division: _Division) -> bool:
        specs = [self.specs[n] for n in step.outputs]
        whole = sum(map(self._bytes, step.outputs))
        room = 2 * whole + self._piece_bytes(step, division) <= self.chip.dram_bank_bytes
        return division.enough and room and all(s.layout == kernels()["ttnn.concat"].layout for s in specs)

    def _slice(self, whole: Ref, dim: int, start: int, end: int, near: bool, origin: Origin) -> Ref:
        value, spec = whole.name, self.specs[whole.name]
        if near and not self._is_far(value):
            low = tuple(start if d == dim else 0 for d in range(len(spec.shape)))
            high = tuple(end if d == dim else n for d, n in enumerate(spec.shape))
            name = self._fresh(f"{value}.{start}")
            attrs: dict[str, Arg] = {"input_tensor": Ref(value), "slice_start": low, "slice_end": high}
            return Ref(self._emit(Step("ttnn.slice", tuple(attrs.items()), (name,), origin)))
        sent = self.sent.get(value)
        source = sent.uses[0] if sent is not None else self._from_host(value, origin)
        part = _shorter(self.specs[source], dim, end - start)
        attrs = {"self": Ref(source), "dim": dim, "start": start, "end": end}
        sliced = self._host_step("aten.slice.Tensor", attrs, part, f"{value}.{start}", origin)
        if sent is None:
            return Ref(self._send(sliced, value, f"{value}.{start}", origin))
        name = self._fresh(f"{value}.{start}")
        return Ref(self._emit(with_refs(replace(sent, outputs=(name,)), lambda r: Ref(sliced))))

    def _from_host(self, value: str, origin: Origin) -> str:
        """A host tensor with a value's numbers in the device's dtype, fetched once if need be."""
        if value not in self.on_host:
            if value in self.sent:
                source = self.sent[value].uses[0]
                self.on_host[value] = self._as_dtype(source, self.specs[value].dtype, origin)
            else:
                self.on_host[value] = self._fetch(self.alias.get(value, value), origin)
        return self.on_host[value]

    # ---- Steps ------------------------------------------------------------------------------------------------

    def _as_dtype(self, name: str, dtype: str, origin: Origin) -> str:
        spec = self.specs[name]
        if spec.dtype == dtype:
            return name
        attrs: dict[str, Arg] = {"self": Ref(name), "dtype": Name(f"torch.{dtype}")}
        return self._host_step("aten._to_copy.default", attrs, replace(spec, dtype=dtype), name, origin)

    def _host_step(self, kernel: str, attrs: Mapping[str, Arg], spec: TensorSpec, like: str, origin: Origin) -> str:
        name = self._fresh(f"{like}.host")
        self.specs[name] = spec
        self.steps.append(Step(kernel, tuple(attrs.items()), (name,), origin, REASON))
        return name

    def _send(self, source: str, like: str, wanted: str, origin: Origin) -> str:
        spec = self.specs[like]
        attrs: dict[str, Arg] = {"tensor": Ref(source), "dtype": Name(f"ttnn.{spec.dtype}")}
        attrs["layout"] = LAYOUT_NAMES[spec.layout]
        if spec.memory != HOST:
            attrs["device"] = Name("device")
        return self._emit(Step(FROM_TORCH, tuple(attrs.items()), (self._fresh(wanted),), origin))

    def _fetch(self, name: str, origin: Origin) -> str:
        attrs = (("tensor", Ref(name)), ("dtype", Name(f"torch.{self.specs[name].dtype}")))
        return self._emit(Step(TO_TORCH, attrs, (self._fresh(f"{name}.host"),), origin))

    def _emit(self, step: Step) -> str:
        self.specs.update(zip(step.outputs, infer(step, self.specs)))
        self.steps.append(step)
        if step.kernel == FROM_TORCH:
            self.sent[step.outputs[0]] = step
        return step.outputs[0]

    def _fresh(self, wanted: str) -> str:
        name, number = wanted, 1
        while name in self.specs:
            number += 1
            name = f"{wanted}.{number}"
        return name


def _host_form(step: Step) -> HostForm | None:
    """The move that the host makes itself, for nothing, where it is too large for the device."""
    return None if step.on_host else kernels()[step.kernel].host


def _half(cut: Cut) -> int:
    """Half of a dimension in whole granules, and in whole tiles where there are any."""
    unit = TILE if cut.granule == 1 and cut.extent > TILE else cut.granule
    return -(-cut.extent // 2 // unit) * unit


def _shorter(spec: TensorSpec, dim: int, length: int) -> TensorSpec:
    return replace(spec, shape=(*spec.shape[:dim], length, *spec.shape[dim + 1 :]))


def _in_dram(spec: TensorSpec, chip: DeviceSpec) -> int:
    return bytes_per_bank(replace(spec, memory=DRAM), chip)
