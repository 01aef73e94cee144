"""What fusions share: who makes and who reads a value, and the one way to put fewer Steps in place of some.

A fusion is a function `find(body, step) -> Fusion | None`: does a pattern end in this Step, and what says the same in
fewer calls? `fuse` asks it for every Step and does what it says only where that is safe, accepted by ttnn and cheaper.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

from proveout.compiler.program_passes.shard_norms import sharded_ns
from proveout.kernels.cost import program_ns, step_time
from proveout.kernels.row import FLOAT, Kind
from proveout.kernels.table import infer, kernels, kind_of, refusal, specs_of
from proveout.program import Arg, Program, Ref, Step
from proveout.types import DeviceSpec, Settings, TensorSpec


@dataclass(frozen=True)
class Policy:
    """What a fusion may change, and the chip whose modelled time decides whether it pays."""

    chip: DeviceSpec | None = None
    settings: Settings = field(default_factory=Settings)
    one_chip: bool = True
    """Whether nothing will be cut over several chips."""

    @property
    def keeps_rounding(self) -> bool:
        """Under `model` every value that eager rounds to bfloat16 is rounded: a kernel that keeps more digits inside
        is nearer to the truth and yet not what eager computes. Under `bfloat16` ttnn's own rounding is the policy."""
        return self.settings.precision == "model"


@dataclass(frozen=True)
class Fusion:
    """Steps to remove, and Steps that define the same results (by the same names) in their place."""

    removed: tuple[Step, ...]
    steps: tuple[Step, ...]
    setup: tuple[Step, ...] = ()
    rounds_alike: bool = False
    """Whether the new kernels round wherever the removed Steps did, so that the numbers stay the same."""

    @property
    def results(self) -> frozenset[str]:
        computed = {n for s in self.steps for n in s.outputs}
        return frozenset(n for s in self.removed for n in s.outputs if n in computed)


Find = Callable[["Body", Step], Fusion | None]


class Fuse(Protocol):
    """A fusion as a pass."""

    def __call__(self, program: Program, policy: Policy) -> Program: ...


@dataclass(frozen=True)
class Listed:
    """A fusion as a file's `FUSIONS` lists it: when it runs, and its place among those that run then."""

    stage: Literal["formulas", "products"]
    """`formulas`: what is written out as element-wise Steps, reductions and products becomes one kernel. `products`
    come after them: they are joined before each has an activation of its own."""
    order: float
    run: Fuse


def fuse(program: Program, find: Find, policy: Policy) -> Program:
    """The Program with every pattern replaced that `find` names and that may be replaced."""
    body = Body(program)
    for step in program.body:
        if not body.holds(step):
            continue  # an earlier fusion took it
        fusion = find(body, step)
        while fusion is not None:
            specs = _accepted(fusion, body, policy)
            if specs is None:
                break
            body.apply(fusion, specs)
            fusion = find(body, fusion.steps[-1])
    return replace(program, setup=tuple(body.setup), body=tuple(body.steps()), specs=body.specs)


def _accepted(fusion: Fusion, body: Body, policy: Policy) -> dict[str, TensorSpec] | None:
    """The specs of the new values; None where somebody else reads a value that would vanish, where ttnn refuses a
    call, where the result would be another tensor or rounded otherwise, or where it would not be faster."""
    inner = {n for s in fusion.removed for n in s.outputs} - fusion.results
    if body.read_elsewhere(inner, fusion.removed):
        return None
    if policy.keeps_rounding and not fusion.rounds_alike and any(body.specs[n].dtype != "float32" for n in inner):
        return None
    new: dict[str, TensorSpec] = {}
    specs = ChainMap(new, body.specs)
    for step in (*fusion.setup, *fusion.steps):
        if refusal(kernels()[step.kernel], specs_of(step, specs)) is not None:
            return None
        for name, spec in zip(step.outputs, infer(step, specs), strict=True):
            if name in fusion.results and spec != body.specs[name]:
                return None
            new[name] = spec
    if policy.chip is not None:
        before, after = (
            program_ns([step_time(s, specs, policy.chip, policy.settings) for s in steps], policy.settings)
            for steps in (fusion.removed, fusion.steps)
        )
        if after > before and not _pays_in_shards(fusion, specs, policy.chip, policy.settings, before):
            return None
    return new


def _pays_in_shards(
    fusion: Fusion, specs: Mapping[str, TensorSpec], chip: DeviceSpec, settings: Settings, before: int
) -> bool:
    """Whether it is one norm that `shard_norms` will cut, and that is then quicker."""
    if settings.sharding == "interleaved" or len(fusion.steps) != 1 or kind_of(fusion.steps[0]) != "norm":
        return False
    cut = sharded_ns(fusion.steps[0], specs, chip, settings)
    return cut is not None and cut < before


class Body:
    """A Program's body while it is rewritten: Steps in order, and each value's maker, readers and spec."""

    def __init__(self, program: Program) -> None:
        self.specs: dict[str, TensorSpec] = dict(program.specs)
        self.constants = {c.name: c for c in program.constants}
        self.setup: list[Step] = list(program.setup)
        written = {weight for weight, _ in program.state}
        self.prepared = {n: s for s in program.setup for n in s.outputs if written.isdisjoint(s.uses)}
        """What setup makes that no call changes."""
        self._slots: list[list[Step]] = [[s] for s in program.body]
        self._slot = {n: i for i, s in enumerate(program.body) for n in s.outputs}
        self._made = {n: s for s in program.body for n in s.outputs}
        self._readers: dict[str, list[Step]] = {}
        for step in program.body:
            self._note_reads(step)
        self._returned = program.results

    def steps(self) -> Iterator[Step]:
        for slot in self._slots:
            yield from slot

    def holds(self, step: Step) -> bool:
        return bool(step.outputs) and self._made.get(step.outputs[0]) is step

    def maker(self, arg: Arg, *kernels: str, kind: Kind | None = None) -> Step | None:
        """The Step of the body that makes a value, if its kernel is one of these, or of this kind."""
        step = self._made.get(arg.name) if isinstance(arg, Ref) else None
        if step is None or (kernels and step.kernel not in kernels) or (kind and kind_of(step) != kind):
            return None
        return step

    def position(self, name: str) -> int:
        return self._slot[name]

    def readers(self, name: str) -> list[Step]:
        return self._readers.get(name, [])

    def spec(self, arg: Arg) -> TensorSpec:
        assert isinstance(arg, Ref)
        return self.specs[arg.name]

    def fresh(self, hint: str) -> str:
        while hint in self.specs:
            hint += "'"
        return hint

    def read_elsewhere(self, names: set[str], by: tuple[Step, ...]) -> bool:
        """Whether the caller gets one of these values, or a Step other than these reads it."""
        allowed = {id(s) for s in by}
        return not self._returned.isdisjoint(names) or any(
            id(reader) not in allowed for name in names for reader in self.readers(name)
        )

    def apply(self, fusion: Fusion, specs: Mapping[str, TensorSpec]) -> None:
        """The new Steps stand where the first of their results was made: all operands are there by then."""
        place = min(self._slot[n] for n in fusion.results)
        self.specs.update(specs)
        self.setup += fusion.setup
        self.prepared.update((n, s) for s in fusion.setup for n in s.outputs)
        for step in fusion.removed:
            self._slots[self._slot[step.outputs[0]]].remove(step)
            for name in step.uses:
                self._readers[name] = [r for r in self._readers[name] if r is not step]
            for name in step.outputs:
                del self._made[name]
                if name not in fusion.results:
                    del self.specs[name]
        self._slots[place] += fusion.steps
        for step in fusion.steps:
            self._slot.update(dict.fromkeys(step.outputs, place))
            self._made.update(dict.fromkeys(step.outputs, step))
            self._note_reads(step)

    def _note_reads(self, step: Step) -> None:
        for name in step.uses:
            self._readers.setdefault(name, []).append(step)


def either_way(step: Step) -> list[tuple[Arg, Arg]]:
    """The operands of a commutative Step, in both orders."""
    a, b = step.attr("input_tensor_a"), step.attr("input_tensor_b")
    return [(a, b), (b, a)]


def number(step: Step) -> float | None:
    """The second operand of a binary Step where it is a number."""
    operands = [v for k, v in step.attrs if k in ("input_tensor_b", "value", "exponent")]
    value = operands[0] if operands else None
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def is_plain(step: Step, *allowed: str) -> bool:
    """Whether a Step says nothing beyond these attributes."""
    return {k for k, _ in step.attrs} <= set(allowed)


def is_row(spec: TensorSpec, size: int) -> bool:
    """Whether a tensor is one row of this size, to be added to or multiplied with every row."""
    return spec.shape[-1:] == (size,) and all(n == 1 for n in spec.shape[:-1]) and spec.dtype in FLOAT
