"""Stores the weights of matrix products and convolutions in the narrower format that the settings ask for.

A weight that reaches its product through nothing but moves is moved on the host and packed there, as people do by hand
(`ttnn.from_torch(weight.T, dtype=ttnn.bfloat8_b, …)`): the host rounds better than the chip's packer. One that the
chip itself computes, such as a folded one, gets a `ttnn.typecast`. ttnn prepares convolution weights itself and packs
them as one column per output channel: they go through that form once, and the call says which format to keep.
"""

from __future__ import annotations

import math
from dataclasses import replace

from proveout.kernels.row import MATRIX_UNIT, Weight
from proveout.kernels.table import LAYOUT_NAMES, infer, kernels, kind_of
from proveout.program import FROM_TORCH, TO_TORCH, Arg, Construct, Name, Program, Ref, Step, map_refs
from proveout.types import Origin, Settings, TensorSpec

REASON = "prepares weights, once"


def pack_weights(program: Program, settings: Settings) -> Program:
    work = Setup(program)
    body = []
    for step in program.body:
        dtype = settings.weights_of(step.origin)
        held = kernels()[step.kernel].weight if kind_of(step) in MATRIX_UNIT else None
        weight = step.attr(held.operand) if held else None
        if dtype != "same" and held and isinstance(weight, Ref) and work.is_weight(weight.name):
            step = with_weight(step, held, weight.name, dtype, work)
        body.append(step)
    return replace(program, setup=tuple(work.steps), body=tuple(body), specs=work.specs)


def with_weight(step: Step, held: Weight, weight: str, dtype: str, work: Setup) -> Step:
    """A product or convolution with its weight in this format; as it is where ttnn takes it in no other."""
    if not held.order:
        return step.with_attrs(**{held.operand: Ref(work.packed(weight, dtype, step.origin))})
    if keeps_format(step):
        step = step.with_attrs(**{held.operand: Ref(work.prepared(weight, dtype, step, held.order))})
        return step.with_attrs(conv_config=conv_config(step, weights_dtype=Name(f"ttnn.{dtype}")))
    return step


def conv_config(step: Step, **more: Arg) -> Construct:
    """What a convolution's config says, and more."""
    config = step.attr("conv_config")
    return Construct.of("ttnn.Conv2dConfig", **{**(config.by_name if isinstance(config, Construct) else {}), **more})


def keeps_format(step: Step) -> bool:
    """Whether a convolution's weight lies in the format of the host's, and ttnn would pack it in another."""
    return step.attr("groups", 1) == 1 and "weights_dtype" not in conv_config(step).by_name


class Setup:
    """Setup while Steps are added to it; what was made once is used again."""

    def __init__(self, program: Program) -> None:
        self.steps = list(program.setup)
        self.specs: dict[str, TensorSpec] = dict(program.specs)
        self._made = {n: s for s in program.setup for n in s.outputs}
        self._weights = set(program.weights) & program.fixed
        for step in program.setup:
            if self._weights.intersection(step.uses):
                self._weights.update(step.outputs)
        self._done: dict[tuple[str, ...], str] = {}

    def is_weight(self, name: str) -> bool:
        """Whether setup makes it from a weight, in a floating-point dtype."""
        return name in self._made and name in self._weights and "float" in self.specs[name].dtype

    def packed(self, name: str, dtype: str, origin: Origin) -> str:
        """A product's weight in another format."""
        if self.specs[name].dtype == dtype:
            return name
        if (name, dtype) not in self._done:
            host = self._moved_on_host(name, origin)
            if host is not None:
                self._done[name, dtype] = self._to_device(host, dtype, origin)
            else:
                attrs: dict[str, Arg] = {"input_tensor": Ref(name), "dtype": Name(f"ttnn.{dtype}")}
                self._done[name, dtype] = self._add("ttnn.typecast", attrs, origin)
        return self._done[name, dtype]

    def prepared(self, name: str, dtype: str, conv: Step, order: tuple[int, ...]) -> str:
        """A convolution's weight as it reads after ttnn has packed it, in its own shape and dtype."""
        key, maker = (name, dtype, conv.kernel), self._made[name]
        if key in self._done:
            return self._done[key]
        assert maker.kernel == FROM_TORCH, f"{conv.kernel} takes its weight from {maker.kernel}"
        source = maker.uses[0]
        back = tuple(order.index(d) for d in range(4))
        shape = tuple(self.specs[source].shape[d] for d in order)
        flat = (math.prod(shape[:-1]), shape[-1])
        columns = self._host("aten.permute.default", source, conv.origin, shape, dims=order)
        columns = self._host("aten.reshape.default", columns, conv.origin, flat, shape=flat)
        packed = self._to_device(columns, dtype, conv.origin)
        dtype_there = Name(f"torch.{self.specs[source].dtype}")
        read = self._add(TO_TORCH, {"tensor": Ref(packed), "dtype": dtype_there}, conv.origin)
        read = self._host("aten.reshape.default", read, conv.origin, shape, shape=shape)
        read = self._host("aten.permute.default", read, conv.origin, self.specs[source].shape, dims=back)
        attrs = {k: Ref(read) if k == "tensor" else v for k, v in maker.attrs}
        self._done[key] = self._add(FROM_TORCH, attrs, conv.origin)
        return self._done[key]

    def _moved_on_host(self, name: str, origin: Origin) -> str | None:
        """The same moves on the host, from the torch tensor that the weight was made of; None where it is more."""
        if not self._is_moved(name):
            return None
        step = self._made[name]
        if step.kernel == FROM_TORCH:
            return step.uses[0]
        sources = {n: Ref(self._moved_on_host(n, origin) or "") for n in step.uses}
        form = kernels()[step.kernel].host
        assert form is not None
        attrs = {k: map_refs(v, lambda r: sources[r.name]) for k, v in step.attrs}
        first = next(iter(sources.values())).name
        operands = {"self": Ref(first)} if len(sources) == 1 else {}
        how = {k: v for k, v in form.attrs(attrs).items() if not isinstance(v, Ref)}
        spec = TensorSpec(self.specs[name].shape, self.specs[first].dtype)
        return self._add(form.aten, {**operands, **how}, origin, spec)

    def _is_moved(self, name: str) -> bool:
        """Whether nothing but moves, and joins of what was moved, lies between it and torch tensors."""
        step = self._made.get(name)
        if step is None or step.kernel == FROM_TORCH:
            return step is not None
        return kind_of(step) in ("view", "order", "join") and all(map(self._is_moved, step.uses))

    def _host(self, aten: str, source: str, origin: Origin, wanted: tuple[int, ...], **attrs: Arg) -> str:
        spec = TensorSpec(wanted, self.specs[source].dtype)
        return self._add(aten, {"self": Ref(source), **attrs}, origin, spec)

    def _to_device(self, host: str, dtype: str, origin: Origin) -> str:
        attrs: dict[str, Arg] = {"tensor": Ref(host), "dtype": Name(f"ttnn.{dtype}"), "layout": LAYOUT_NAMES["tile"]}
        return self._add(FROM_TORCH, {**attrs, "device": Name("device")}, origin)

    def _add(self, kernel: str, attrs: dict[str, Arg], origin: Origin, spec: TensorSpec | None = None) -> str:
        step = Step(kernel, tuple(attrs.items()), (), origin, REASON if spec else "")
        name, count = f"{origin.node or 'weight'}.packed", 1
        while name in self.specs:
            count += 1
            name = f"{origin.node or 'weight'}.packed{count}"
        step = replace(step, outputs=(name,))
        self.specs[name] = spec or infer(step, self.specs)[0]
        self.steps.append(step)
        return name
