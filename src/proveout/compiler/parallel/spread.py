"""Makes the Program of one chip the Program of several: inputs are cut or copied to them, results joined again.

It runs last: what is before it sees one chip and its share of the rows. Steps on the host see whole tensors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from proveout.compiler.emit import EAGER_STRIDES
from proveout.kernels.pieces import REPLICATE, concat_along, shard_along
from proveout.program import FROM_TORCH, TO_TORCH, Arg, Constant, Program, Ref, Step, map_refs
from proveout.types import TensorSpec

OUTPUT = "output"
"""Takes values as a node does, under this name."""


class NotSpread(Exception):
    """Some value of the Program is not known to be whole or cut."""


@dataclass(frozen=True)
class Rows:
    """How the values on the host are cut along a batch; with no splits at all, every chip computes the same."""

    batch: int = 0
    share: int = 0
    splits: Mapping[str, int | None] = field(default_factory=dict)
    """By value: the dimension that is cut, None for what every chip has whole; of the Program before this pass."""
    wanted: Mapping[str, Mapping[str, int | None]] = field(default_factory=dict)
    """Values that on one chip are two results of the graph at once (an expand that changes nothing for one row): which
    of them each node takes, by value and node."""
    host_sizes: Mapping[str, Mapping[str, Arg]] = field(default_factory=dict)
    """By node: the arguments that count rows, for all of them together, as a Step on the host does."""
    cut: frozenset[str] = frozenset()
    """Weights that are whole on the host, and of which each chip gets its share."""


def spread(program: Program, chips: int, rows: Rows) -> Program:
    return _Spreader(program, chips, rows).program()


class _Spreader:
    def __init__(self, program: Program, chips: int, rows: Rows) -> None:
        self.source, self.chips, self.rows = program, chips, rows
        self.specs: dict[str, TensorSpec] = dict(program.specs)
        self.constants = list(program.constants)
        self.setup: list[Step] = []
        self.body: list[Step] = []
        self.steps = self.setup
        self.whole: dict[str, str] = {}
        """On the host: the value that holds all rows, where it is not the one of the same name."""
        self.splits: dict[str, int | None] = {}
        self.given = {*program.weights, *(c.name for c in program.constants)}

    def program(self) -> Program:
        for name in self.source.inputs:
            self.splits[name] = split = self.rows.splits.get(name)
            if split is not None:
                self._pad(name, split)
        for name in self.given:
            self.splits[name] = split = self.rows.splits.get(name)
            if name in self.rows.cut and split is not None:
                self.specs[name] = self._grown(self.specs[name], split)
        for step in self.source.setup:
            self._step(step)
        self.steps = self.body
        for step in self.source.body:
            self._step(step)
        outputs = tuple(map_refs(o, self._output) for o in self.source.outputs)
        return replace(
            self.source,
            setup=tuple(self.setup),
            body=tuple(self.body),
            specs=self.specs,
            constants=tuple(self.constants),
            outputs=outputs,
            chips=self.chips,
        )

    def _step(self, step: Step) -> None:
        if step.kernel == FROM_TORCH:
            (name,) = step.uses
            mapper = step.attr("mesh_mapper") or REPLICATE
            if self._split(name) is not None and (name not in self.given or name in self.rows.cut):
                mapper = shard_along(self._split(name) or 0)
                name = self.whole.get(name, name)
            self.steps.append(step.with_attrs(tensor=Ref(name), mesh_mapper=mapper))
        elif step.kernel == TO_TORCH:
            self._to_torch(step)
        elif step.on_host:
            self._host_step(step)
        else:
            self.steps.append(step)

    def _to_torch(self, step: Step) -> None:
        (source,), (out,) = step.uses, step.outputs
        if out in self.rows.wanted:
            raise NotSpread(f"%{out} holds the batch in several dimensions")
        if self.steps is self.body and self.rows.splits and out not in self.rows.splits:
            raise NotSpread(f"%{out} is not a result of the graph")
        self.splits[out] = split = self.rows.splits.get(out)
        if split is not None:
            self.specs[out] = self._grown(self.specs[out], split)
            self.steps.append(replace(step, attrs=(*step.attrs, ("mesh_composer", concat_along(split)))))
            return
        pieces = [f"{source}.on{chip}.{out}" for chip in range(self.chips)]
        self.specs |= dict.fromkeys(pieces, self.specs[source])
        self.steps.append(Step("ttnn.get_device_tensors", (("tensor", Ref(source)),), tuple(pieces), step.origin))
        self.steps.append(step.with_attrs(tensor=Ref(pieces[0])))

    def _host_step(self, step: Step) -> None:
        operands = {name: self._operand(name, step.origin.node) for name in step.uses}
        cut = [split for _, split in operands.values() if split is not None]
        sizes = self.rows.host_sizes.get(step.origin.node, {}) if step.reason != EAGER_STRIDES else {}
        attrs = {k: sizes.get(k, map_refs(v, lambda ref: Ref(operands[ref.name][0]))) for k, v in step.attrs}
        step = replace(step, attrs=tuple(attrs.items()))
        for name in step.outputs:
            self.splits[name] = split = self._result_split(step, name, cut)
            if split is not None:
                self.specs[name] = self._grown(self.specs[name], split)
        self.steps.append(step)

    def _result_split(self, step: Step, name: str, cut: Sequence[int]) -> int | None:
        if name in self.rows.splits:
            return self.rows.splits[name]
        if not cut:
            return None
        if step.reason == EAGER_STRIDES or step.kernel == "aten.permute.default":
            dims = step.attr("dims")
            return dims.index(cut[0]) if isinstance(dims, tuple) else cut[0]
        raise NotSpread(f"%{name} of {step.kernel} is not a result of the graph")

    def _split(self, name: str) -> int | None:
        if name not in self.splits:
            raise NotSpread(f"%{name} is not known on the host")
        return self.splits[name]

    def _operand(self, name: str, consumer: str) -> tuple[str, int | None]:
        """All rows of a host value as a node takes it: its name, and the dimension that they lie along."""
        piece = self._split(name)
        split = piece
        if name in self.rows.wanted:
            if consumer not in self.rows.wanted[name]:
                raise NotSpread(f"%{name} holds the batch in several dimensions")
            split = self.rows.wanted[name][consumer]
        if split != piece and piece is not None:
            raise NotSpread(f"%{name} holds the batch in several dimensions")
        if split is not None and (piece is None or name in self.given - self.rows.cut):
            return self._repeated(name, split), split
        return self.whole.get(name, name), split

    def _repeated(self, name: str, split: int) -> str:
        """One chip's rows as often as there are chips: of a constant, whose rows are all the same, or a single row."""
        rows = f"{name}.rows{split}"
        if rows not in self.specs:
            spec = self.specs[name]
            self.specs[rows] = self._grown(spec, split)
            repeats = tuple(self.chips if d == split else 1 for d in range(len(spec.shape)))
            attrs: tuple[tuple[str, Arg], ...] = (("self", Ref(name)), ("repeats", repeats))
            steps = self.setup if name in self.given else self.steps
            steps.append(Step("aten.repeat.default", attrs, (rows,), reason="the same rows for every chip"))
        return rows

    def _output(self, ref: Ref) -> Ref:
        """Results as long as the batch: the rows that filled it up are dropped."""
        name, split = self._operand(ref.name, OUTPUT)
        if split is None or (ref.name in self.source.inputs and split == self.splits[ref.name]):
            return ref
        if self.rows.share * self.chips == self.rows.batch:
            return Ref(name)
        spec, cut = self.specs[name], f"{name}.rows"
        if cut not in self.specs:
            length = spec.shape[split] // (self.rows.share * self.chips) * self.rows.batch
            self.specs[cut] = replace(spec, shape=_with(spec.shape, split, length))
            attrs = (("self", Ref(name)), ("dim", split), ("start", 0), ("end", length))
            step = Step("aten.slice.Tensor", attrs, (cut,), reason=f"the {self.rows.batch} rows that were asked for")
            self.body.append(step)
        return Ref(cut)

    def _pad(self, name: str, split: int) -> None:
        """An input as it is given, and with its last row repeated where the chips take more rows than there are."""
        spec = self.specs[name]
        self.specs[name] = replace(spec, shape=_with(spec.shape, split, self.rows.batch))
        total = self.rows.share * self.chips
        if total == self.rows.batch or not any(name in step.uses for step in self.source.body):
            return
        index = "rows.index"
        if index not in self.specs:
            numbers = [min(i, self.rows.batch - 1) for i in range(total)]
            data = b"".join(n.to_bytes(8, "little") for n in numbers)
            self.constants.append(Constant(index, data))
            self.specs[index] = TensorSpec((total,), "int64")
        filled = self.whole[name] = f"{name}.filled"
        self.specs[filled] = self._grown(spec, split)
        attrs = (("self", Ref(name)), ("dim", split), ("index", Ref(index)))
        reason = f"fills {self.rows.batch} rows up to {total} for {self.chips} chips"
        self.body.append(Step("aten.index_select.default", attrs, (filled,), reason=reason))

    def _grown(self, spec: TensorSpec, split: int) -> TensorSpec:
        return replace(spec, shape=_with(spec.shape, split, spec.shape[split] * self.chips))


def _with(shape: tuple[int, ...], dim: int, size: int) -> tuple[int, ...]:
    return (*shape[:dim], size, *shape[dim + 1 :])
