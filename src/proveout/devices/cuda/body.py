"""A Program's body while it is rewritten for a GPU: Steps in order, and who makes and who reads each value."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from proveout.kernels.table import kernels
from proveout.program import Arg, Program, Ref, Step
from proveout.types import TensorSpec

HALF = ("bfloat16", "float16")


@dataclass
class Body:
    """Steps may vanish and others stand where one of them was; values keep their names."""

    program: Program
    specs: dict[str, TensorSpec] = field(init=False)
    setup: list[Step] = field(init=False)
    slots: list[list[Step]] = field(init=False)

    def __post_init__(self) -> None:
        self.specs = dict(self.program.specs)
        self.setup = list(self.program.setup)
        self.slots = [[step] for step in _shared(self.program)]
        self.results = self.program.results
        own = {n for slot in self.slots for s in slot for n in s.outputs}
        stored = {*self.program.weights, *(c.name for c in self.program.constants)}
        self.prepared = (stored | {n for s in self.setup for n in s.outputs}) - own
        self.index()

    def index(self) -> None:
        self.made = {n: s for slot in self.slots for s in slot for n in s.outputs}
        self.place = {n: i for i, slot in enumerate(self.slots) for s in slot for n in s.outputs}
        self.read: dict[str, list[Step]] = {}
        for slot in self.slots:
            for step in slot:
                for name in step.uses:
                    self.read.setdefault(name, []).append(step)

    @property
    def steps(self) -> list[Step]:
        return [s for slot in self.slots for s in slot]

    def maker(self, arg: Arg, *names: str) -> Step | None:
        step = self.made.get(arg.name) if isinstance(arg, Ref) else None
        return step if step is not None and (not names or step.kernel in names) else None

    def readers(self, name: str) -> list[Step]:
        return self.read.get(name, [])

    def only_reader(self, name: str) -> Step | None:
        """The one Step that reads a value which the caller does not get."""
        readers = self.readers(name)
        return readers[0] if len(readers) == 1 and name not in self.results else None

    def is_prepared(self, arg: Arg) -> bool:
        return isinstance(arg, Ref) and arg.name in self.prepared

    def spec(self, arg: Arg) -> TensorSpec:
        assert isinstance(arg, Ref)
        return self.specs[arg.name]

    def fresh(self, hint: str, shape: tuple[int, ...], dtype: str) -> str:
        while hint in self.specs:
            hint += "'"
        self.specs[hint] = TensorSpec(shape, dtype)
        return hint

    def prepare(self, step: Step) -> None:
        """One more Step that depends on weights alone."""
        self.setup.append(step)
        self.prepared |= set(step.outputs)

    def substitute(self, gone: Iterable[Step], steps: Iterable[Step], where: str) -> None:
        """Put Steps where a value was made, and take others away."""
        slot, removed = self.slots[self.place[where]], {id(s) for s in gone}
        spot = slot.index(self.made[where])
        slot[spot + 1 : spot + 1] = steps
        for index in {self.place[s.outputs[0]] for s in gone}:
            self.slots[index] = [s for s in self.slots[index] if id(s) not in removed]
        self.index()

    def rows(self, arg: Ref, columns: int) -> tuple[Ref, list[Step]]:
        """A value as a matrix with this many columns, and the view that makes it one."""
        spec = self.spec(arg)
        if len(spec.shape) == 2 and spec.shape[1] == columns:
            return arg, []
        name = self.fresh(f"{arg.name}.rows", (spec.numel // columns, columns), spec.dtype)
        return Ref(name), [reshape(arg, self.specs[name].shape, name)]

    def through_views(self, arg: Arg) -> Arg:
        """The value whose rows these are: reshapes that keep the last dimension are looked through."""
        step = self.maker(arg, "ttnn.reshape")
        while step is not None:
            source = step.attr("input_tensor")
            if self.spec(source).shape[-1:] != self.spec(arg).shape[-1:]:
                break
            arg = source
            step = self.maker(arg, "ttnn.reshape")
        return arg

    def drop_unread(self) -> None:
        """Without the Steps that nobody reads any more."""
        needed = set(self.results)
        for index in reversed(range(len(self.slots))):
            kept = []
            for step in reversed(self.slots[index]):
                if step.outputs and needed.isdisjoint(step.outputs):
                    continue
                needed.update(step.uses)
                kept.append(step)
            self.slots[index] = kept[::-1]
        self.index()

    def done(self) -> Program:
        """The rewritten Program."""
        self.drop_unread()
        body = self.steps
        needed = {*self.results, *(name for step in body for name in step.uses)}
        setup: list[Step] = []
        for step in reversed(self.setup):
            if not needed.isdisjoint(step.outputs):
                needed.update(step.uses)
                setup.append(step)
        return replace(self.program, setup=tuple(reversed(setup)), body=tuple(body), specs=self.specs)


def reshape(arg: Arg, shape: tuple[int, ...], name: str) -> Step:
    return Step("ttnn.reshape", (("input_tensor", arg), ("shape", shape)), (name,))


def is_view(step: Step) -> bool:
    """Whether a Step only looks at its operand in another way."""
    return step.kernel in ("ttnn.reshape", "ttnn.slice", "ttnn.permute")


def permute(arg: Arg, dims: tuple[int, ...], name: str) -> Step:
    return Step("ttnn.permute", (("input_tensor", arg), ("dims", dims)), (name,))


def _shared(program: Program) -> list[Step]:
    """The body with each call made once: the same kernel on the same values gives the same."""
    first: dict[object, Step] = {}
    names: dict[str, str] = {}
    kept = []
    for step in program.body:
        step = replace(step, attrs=tuple((k, renamed(v, names)) for k, v in step.attrs))
        if step.on_host or step.is_transfer or not program.results.isdisjoint(step.outputs):
            kept.append(step)
            continue
        key = step.kernel, tuple((k, repr(v)) for k, v in step.attrs)
        if key in first and step.kernel in kernels():
            names.update(zip(step.outputs, first[key].outputs))
        else:
            first[key] = step
            kept.append(step)
    return kept


def renamed(arg: Arg, names: dict[str, str]) -> Arg:
    if isinstance(arg, Ref):
        return Ref(names.get(arg.name, arg.name))
    return tuple(renamed(a, names) for a in arg) if isinstance(arg, tuple) else arg
