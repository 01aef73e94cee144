"""Keeps a decoder's keys and values on the device in the format that the settings ask for.

ttnn's cache kernels read and write block floats as they are; a prompt is packed before it goes into the cache. Whatever
else reads a cache gets a copy in the dtype that it computes in, and what it leaves there is packed again.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from proveout.kernels.blockfloat import FORMATS
from proveout.kernels.table import LAYOUT_NAMES, infer, kernels
from proveout.program import FROM_TORCH, Arg, Name, Program, Ref, Step, map_refs
from proveout.types import Origin, TensorSpec

PLAIN = ("float32", "bfloat16")


def pack_cache(program: Program, dtype: str) -> Program:
    packing = _Packing(program, dtype)
    if not packing.weights:
        return program
    for step in program.body:
        packing.take(step)
    state = tuple((weight, packing.left(weight, value)) for weight, value in program.state)
    return replace(program, setup=packing.setup, body=tuple(packing.body), specs=packing.specs, state=state)


def is_read_unpacked(program: Program) -> bool:
    """Whether something else than ttnn's cache kernels reads a cache that `pack_cache` packed."""
    return any(s.kernel == "ttnn.typecast" and program.specs[s.uses[0]].dtype in FORMATS for s in program.body)


class _Packing:
    """A Program's body as it grows while caches are packed, and which values are packed."""

    def __init__(self, program: Program, dtype: str) -> None:
        self.dtype, self.specs = dtype, dict(program.specs)
        self.body: list[Step] = []
        self.plain: dict[str, TensorSpec] = {}
        """Packed values, and what they were."""
        self._cast: dict[tuple[str, str], Ref] = {}
        copies = Counter(s.uses for s in program.setup if s.kernel == FROM_TORCH)
        caches = {(weight,) for weight, _ in program.state if copies[weight,] == 1}
        self.weights: set[str] = set()
        self.setup = tuple(self._sent(s) if s.kernel == FROM_TORCH and s.uses in caches else s for s in program.setup)

    def _sent(self, step: Step) -> Step:
        """The Step that puts a cache on the device, so that it is packed there."""
        (name,), (weight,) = step.outputs, step.uses
        spec = self.specs[name]
        if len(spec.shape) != 4 or spec.dtype not in PLAIN or spec.dtype == self.dtype:
            return step
        self.weights.add(weight)
        step = step.with_attrs(dtype=Name(f"ttnn.{self.dtype}"), layout=LAYOUT_NAMES["tile"])
        self._pack(step)
        return step

    def take(self, step: Step) -> None:
        """Add a Step of the body, and before it what it needs where it reads a packed cache."""
        if not self.plain.keys().isdisjoint(step.uses):
            kernel = None if step.on_host else kernels()[step.kernel]
            own = frozenset() if kernel is None else kernel.caches
            attrs = {k: v if k in own else map_refs(v, lambda ref: self._unpacked(ref, step)) for k, v in step.attrs}
            step = replace(step, attrs=tuple(attrs.items()))
            if kernel is not None and kernel.in_place and step.uses[0] in self.plain:
                if kernel.put_as_is:
                    new = self._as(step.attr(kernel.put_as_is), self.dtype, step.origin)
                    step = step.with_attrs(**{kernel.put_as_is: new})
                self._pack(step)
        self.body.append(step)

    def left(self, weight: str, value: str) -> str:
        """What holds a cache after the call, packed."""
        if weight not in self.weights or value in self.plain:
            return value
        return self._as(Ref(value), self.dtype, Origin()).name

    def _unpacked(self, ref: Ref, step: Step) -> Ref:
        if ref.name not in self.plain:
            return ref
        was = self.plain[ref.name]
        return self._as(ref, was.dtype, step.origin, was.layout)

    def _as(self, source: Arg, dtype: str, origin: Origin, layout: str = "tile") -> Ref:
        """A value in another dtype, which ttnn casts in tiles."""
        assert isinstance(source, Ref)
        if (source.name, dtype) not in self._cast:
            ref = source
            if self.specs[ref.name].layout != "tile":
                ref = self._call(
                    "ttnn.to_layout", f"{source.name}.tiles", origin, tensor=ref, layout=LAYOUT_NAMES["tile"]
                )
            ref = self._call(
                "ttnn.typecast", f"{source.name}.{dtype}", origin, input_tensor=ref, dtype=Name(f"ttnn.{dtype}")
            )
            if layout != "tile":
                ref = self._call("ttnn.to_layout", f"{ref.name}.rows", origin, tensor=ref, layout=LAYOUT_NAMES[layout])
            self._cast[source.name, dtype] = ref
        return self._cast[source.name, dtype]

    def _call(self, kernel: str, name: str, origin: Origin, **attrs: Arg) -> Ref:
        self.body.append(Step(kernel, tuple(attrs.items()), (name,), origin))
        self.specs.update(zip((name,), infer(self.body[-1], self.specs)))
        return Ref(name)

    def _pack(self, step: Step) -> None:
        """Note that a Step's result is packed."""
        self.plain |= {name: self.specs[name] for name in step.outputs}
        self.specs.update(zip(step.outputs, infer(step, self.specs)))
