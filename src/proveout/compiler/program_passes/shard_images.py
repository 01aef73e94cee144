"""Leaves what convolutions make in shards, and what is computed from it element by element, where that is quicker.

Every convolution is computed in shards. Interleaved, its input is cut and its result joined around it, and a 1 x 1
window becomes a product that ttnn cuts itself. Values that meet element by element lie in the same shards or in none:
they are a family, and what a family's choice costs depends on those before and after it, across their convolutions.
"""

from __future__ import annotations

import functools
import math
from collections import ChainMap
from collections.abc import Collection, Mapping
from dataclasses import replace

from proveout.chip.memory import shard_refusal
from proveout.compiler.program_passes.deallocate import deallocate
from proveout.compiler.program_passes.decide import ELEMENTWISE, SHARDS, in_shards, pins_place
from proveout.compiler.program_passes.gain import pays, steps_ns
from proveout.kernels.cost import memory_over_time
from proveout.kernels.memory_config import memory_arg
from proveout.kernels.table import kind_of, specs_of
from proveout.kernels.windows import shards_of
from proveout.program import Program, Ref, Step, with_refs
from proveout.types import DRAM, L1, DeviceSpec, Memory, Settings, Sharding, TensorSpec

Labels = dict[str, Sharding]
"""The shards of each family; one that is missing stays interleaved."""
CONVOLUTION = "ttnn.conv2d"
ANYWHERE: Sharding = "interleaved"
SWEEPS = 4


def shard_images(program: Program, chip: DeviceSpec, settings: Settings) -> Program:
    if program.chips > 1 or not any(step.kernel == CONVOLUTION for step in program.body):
        return program
    images = _Images(program, chip, settings)
    while labels := images.quickest():
        cut = images.cut(labels)
        short = [at.step for at in memory_over_time(deallocate(cut), chip, settings) if at.refused]
        if not short:
            return cut
        tight = {images.family[n] for s in short for n in images.named(s) if n in images.family} & labels.keys()
        images.make_room(tight or labels.keys())
    return program


class _Images:
    """A Program's families of images, and what their Steps take wherever they lie."""

    def __init__(self, program: Program, chip: DeviceSpec, settings: Settings) -> None:
        self.program, self.chip, self.settings = program, chip, settings
        self.specs = dict(program.specs)
        self.readers: dict[str, list[Step]] = {}
        for step in program.body:
            for name in step.uses:
                self.readers.setdefault(name, []).append(step)
        self.apart: set[str] = set()
        """Values computed element by element that L1 has no room for in shards."""
        self.barred: set[str] = set()
        """Families that it has no room for."""
        self._begin()

    def _begin(self) -> None:
        self.family = self._families()
        self.steps: dict[str, list[Step]] = {}
        """Those whose time depends on a family's choice."""
        self._ends: dict[tuple[str, ...], tuple[str | None, str | None]] = {}
        for step in self.program.body:
            self._ends[step.outputs] = ends = self._around(step)
            for family in dict.fromkeys(filter(None, ends)):
                self.steps.setdefault(family, []).append(step)
        told: dict[object, int] = {}
        steps = (step for some in self.steps.values() for step in some)
        self._keys = {step.outputs: told.setdefault(self._key(step), len(told)) for step in steps}
        self._times: dict[tuple[int, Sharding, Sharding], float] = {}
        self._moved = {(f, kind): self._moves_ns(f, kind) for f in self.steps for kind in SHARDS}

    def make_room(self, tight: Collection[str]) -> None:
        """Take these families apart; bar what is one convolution's alone."""
        sums = {
            s.outputs[0] for f in tight for s in self.steps[f] if s.kernel != CONVOLUTION and self._around(s)[1] == f
        }
        if sums:
            self.apart |= sums
            self._begin()
        else:
            self.barred |= set(tight)

    # ---- families ---------------------------------------------------------------------------------------------

    def _families(self) -> dict[str, str]:
        """The family of every value that may lie in shards, by its first one; only those that a convolution makes
        one of."""
        first: dict[str, str] = {}

        def root(name: str) -> str:
            while first[name] != name:
                name = first[name]
            return name

        convolved = set()
        for step in self.program.body:
            if not self._may_be_cut(step):
                continue
            name = step.outputs[0]
            first[name] = name
            if step.kernel == CONVOLUTION:
                convolved.add(name)
            else:
                for other in step.uses:
                    if other in first:
                        first[root(name)] = root(other)
        real = {root(name) for name in convolved}
        return {name: root(name) for name in first if root(name) in real}

    def _may_be_cut(self, step: Step) -> bool:
        fixed = self.program.results | self.apart
        if step.on_host or len(step.outputs) != 1 or not pins_place(step) or step.outputs[0] in fixed:
            return False
        spec = self.specs[step.outputs[0]]
        flat = spec.layout == "tile" and len(spec.shape) == 4 and spec.shape[:2] == (1, 1)
        alike = all((self.specs[n].shape, self.specs[n].layout) == (spec.shape, "tile") for n in step.uses)
        flat = flat and spec.memory in (L1, DRAM)
        return flat and (step.kernel == CONVOLUTION or (kind_of(step) in ELEMENTWISE and alike))

    def _around(self, step: Step) -> tuple[str | None, str | None]:
        """The families that a Step takes shards of and leaves its result in."""
        own = self.family.get(step.outputs[0]) if step.outputs else None
        source = step.attr("input_tensor") if step.kernel == CONVOLUTION else None
        return self.family.get(source.name) if isinstance(source, Ref) else own, own

    def _takes(self, step: Step, name: str) -> bool:
        """Whether a Step reads a value in the shards that its family lies in."""
        return name in self.family and self._around(step)[0] == self.family[name]

    def memory(self, name: str, kind: Sharding) -> Memory | None:
        """Where a value lies in shards of a kind: the same for all of one shape; None where it cannot."""
        return _shards(self.specs[name], kind, self.chip)

    # ---- times ------------------------------------------------------------------------------------------------

    def quickest(self) -> Labels:
        """What no change of one family makes quicker, the best from three beginnings; only what pays."""
        families = [f for f in self.steps if f not in self.barred]
        begun: list[Labels] = [{}, *({f: kind for f in families if self.memory(f, kind)} for kind in SHARDS)]
        ends = [self._settled(labels, families) for labels in begun]
        best = min(ends, key=self._total)
        for family in families:
            without = {f: kind for f, kind in best.items() if f != family}
            if family in best and not pays(self._near(family, without), self._near(family, best)):
                best = without
        return best if self._total(best) < self._total({}) else {}

    def _settled(self, labels: Labels, families: list[str]) -> Labels:
        for _ in range(SWEEPS):
            before = dict(labels)
            for family in families:
                others = {f: kind for f, kind in labels.items() if f != family}
                ways = [others, *({**others, family: k} for k in SHARDS if self.memory(family, k))]
                labels = min(ways, key=lambda way: self._near(family, way))
            if labels == before:
                break
        return labels

    def _total(self, labels: Labels) -> float:
        steps = {step.outputs: step for steps in self.steps.values() for step in steps}
        return sum(self._time(s, labels) for s in steps.values()) + sum(self._moved[one] for one in labels.items())

    def _near(self, family: str, labels: Labels) -> float:
        moved = self._moved[family, labels[family]] if family in labels else 0.0
        return sum(self._time(step, labels) for step in self.steps[family]) + moved

    def _time(self, step: Step, labels: Labels) -> float:
        source, own = (labels.get(f, ANYWHERE) if f else ANYWHERE for f in self._ends[step.outputs])
        key = self._keys[step.outputs], source, own
        if key not in self._times:
            self._times[key] = self._ns(step, source, own)
        return self._times[key]

    def _key(self, step: Step) -> object:
        return step.kernel, tuple(specs_of(step, self.specs).items()), self.specs[step.outputs[0]]

    def _ns(self, step: Step, source: Sharding, own: Sharding) -> float:
        if step.kernel == CONVOLUTION and own == ANYWHERE != source and not any(k > 1 for k in _window(step)):
            return math.inf  # a product whose left factor alone lies in shards is cut otherwise than ttnn cuts this one
        moved: dict[str, TensorSpec] = {}
        if source != ANYWHERE:
            read = step.uses if step.kernel != CONVOLUTION else step.uses[:1]
            for name in read:
                memory = self.memory(name, source)
                if memory is None:
                    return math.inf
                moved[name] = replace(self.specs[name], memory=memory)
        one, out = self._cut(step, own, ChainMap(moved, self.specs))
        moved[step.outputs[0]] = out
        return steps_ns([one], ChainMap(moved, self.specs), self.chip, self.settings)

    def _cut(self, step: Step, own: Sharding, specs: Mapping[str, TensorSpec]) -> tuple[Step, TensorSpec]:
        """A Step that leaves its result in such shards, and that result: wherever it lies, it is the same tensor."""
        out = self.specs[step.outputs[0]]
        if own == ANYWHERE:
            return step, out
        memory = self.memory(step.outputs[0], own)
        assert memory is not None
        if step.kernel == CONVOLUTION:
            step = in_shards(step, own, specs)
        return step.with_attrs(memory_config=memory_arg(memory)), replace(out, memory=memory)

    def _moves_ns(self, family: str, kind: Sharding) -> float:
        """What it takes to bring other values into a family's shards, and its own out of them."""
        total = 0
        for source, memory in self._moves(family, kind):
            spec = self.specs[source]
            ends = (
                (spec, replace(spec, memory=memory))
                if source not in self.family
                else (replace(spec, memory=memory), spec)
            )
            to = ends[1].memory
            move = Step("ttnn.to_memory_config", (("tensor", Ref("from")), ("memory_config", memory_arg(to))), ("to",))
            total += steps_ns([move], dict(zip(("from", "to"), ends)), self.chip, self.settings)
        return total

    def _moves(self, family: str, kind: Sharding) -> list[tuple[str, Memory]]:
        """Values that are brought into a family's shards, or out of them."""
        moved = dict[str, None]()
        for step in self.steps[family]:
            if self._around(step)[1] != family:
                continue
            if step.kernel != CONVOLUTION:
                moved.update(dict.fromkeys(n for n in step.uses if n not in self.family))
            name = step.outputs[0]
            if any(not self._takes(s, name) for s in self.readers.get(name, ())):
                moved[name] = None
        return [(name, memory) for name in moved if (memory := self.memory(name, kind)) is not None]

    # ---- the Program ------------------------------------------------------------------------------------------

    def named(self, step: Step) -> list[str]:
        """The values that a Step of the cut Program is about, by their names here."""
        return [n.removesuffix(".shards").removesuffix(".spread") for n in (*step.uses, *step.outputs)]

    def cut(self, labels: Labels) -> Program:
        specs, body = dict(self.specs), list[Step]()

        def moved(name: str, memory: Memory, new: str, at: Step) -> str:
            if new not in specs:
                attrs = (("tensor", Ref(name)), ("memory_config", memory_arg(memory)))
                body.append(Step("ttnn.to_memory_config", attrs, (new,), at.origin))
                specs[new] = replace(specs[name], memory=memory)
            return new

        for original in self.program.body:
            source, own = (labels.get(f or "", ANYWHERE) for f in self._around(original))
            renamed: dict[str, str] = {}
            for name in original.uses:
                if self.family.get(name) in labels and not self._takes(original, name):
                    renamed[name] = moved(name, self.specs[name].memory, f"{name}.spread", original)
                elif original.kernel != CONVOLUTION and own != ANYWHERE and name not in self.family:
                    memory = self.memory(name, own)
                    assert memory is not None
                    renamed[name] = moved(name, memory, f"{name}.shards", original)
            step = with_refs(original, lambda r: Ref(renamed.get(r.name, r.name)))  # noqa: B023
            if own != ANYWHERE or source != ANYWHERE:
                step, specs[step.outputs[0]] = self._cut(step, own, specs)
            body.append(step)
        return replace(self.program, body=tuple(body), specs=specs)


@functools.lru_cache(maxsize=4096)
def _shards(spec: TensorSpec, kind: Sharding, chip: DeviceSpec) -> Memory | None:
    memory = Memory("l1", kind, shards_of(math.prod(spec.shape[:-1]), spec.shape[-1], kind, chip))
    return None if shard_refusal(replace(spec, memory=memory), chip) else memory


def _window(step: Step) -> tuple[int, ...]:
    kernel = step.attr("kernel_size")
    assert isinstance(kernel, tuple)
    return tuple(int(str(k)) for k in kernel)
