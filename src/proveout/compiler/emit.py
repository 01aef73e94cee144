"""The Builder that lowerings call: emits Steps, and brings every operand to the place, layout and dtype it must have.

A value exists in one or more forms: on the host in eager's dtype, or on the device in some layout and device dtype.
A form is made at its first use and kept, so neighbouring uses share one transfer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from proveout.compiler.profile import Profile
from proveout.kernels.row import Kernel
from proveout.kernels.table import LAYOUT_NAMES, dtype_name, infer, kernels, refusal, specs_of
from proveout.ops.table import INT32, WIDE, Builder, Range, Refused, Value
from proveout.program import FROM_TORCH, TO_TORCH, Arg, Constant, Name, Ref, Step
from proveout.reasons import NO_ELEMENTS, UNPROVEN, Reason
from proveout.types import DRAM, Layout, Origin, TensorSpec

CAST_ON_THE_WAY = {"float32": "float32", "bfloat16": "bfloat16", "bool": "float32"}
"""Casts of int64 that a transfer can make: as what it crosses. No int64 but 0 is 0 in floating point."""
EAGER_STRIDES = "eager's strides"
"""The reason of a host Step that only lays a tensor out in memory as eager does."""
Form = tuple[str, str, str]
"""(where, dtype, layout): `host` with eager's dtype, `device`, or `packed`: ttnn's but on the host (conv weights)."""


class Emitter(Builder):
    """Builds the Steps of one Program."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self.steps: list[Step] = []
        self.specs: dict[str, TensorSpec] = {}
        self.constants: dict[str, Constant] = {}
        self.forms: dict[str, dict[Form, str]] = {}
        self.strides: dict[str, tuple[int, ...]] = {}
        """Of host values, where known."""
        self.outs: Sequence[Value | None] = ()
        self.used_outputs: frozenset[int] = frozenset()
        self.origin = Origin()
        self.proven: Mapping[torch.fx.Node, Range] = {}
        """Bounds of integers that follow from how the graph uses them."""
        self.wraps_to: Range | None = None
        """Those of the node that is lowered now, if its low bits are all that counts."""
        self._taken: dict[str, int] = {}
        self._by_content: dict[tuple[torch.dtype, torch.Size, bytes], Value] = {}
        """Constants, one for each content."""
        self.journal: list[tuple[str, Form]] = []
        """Forms in the order in which they were made, by value."""

    # ---- what the compiler calls ------------------------------------------------------------------------------

    def torch_value(self, name: str, tensor: torch.Tensor, range: Range | None = None, constant: Any = None) -> Value:
        """A value that is torch's from the start: an input, a weight, a constant, a result of a host Step."""
        spec = TensorSpec(tuple(tensor.shape), dtype_name(tensor.dtype))
        self.specs[name] = spec
        value = Value(name, spec.shape, spec.dtype, _bounds(spec.dtype, range), constant)
        self.strides[name] = _stride(tensor)
        self.add_form(value.name, ("host", spec.dtype, "row_major"), name)
        return value

    def fresh(self, hint: str) -> str:
        count = self._taken[hint] = self._taken.get(hint, 0) + 1
        name = hint if count == 1 else f"{hint}.{count}"
        return name if name not in self.specs else self.fresh(hint)

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Undo everything that was emitted inside if a lowering gives up."""
        num_steps, num_forms, num_constants = len(self.steps), len(self.journal), len(self.constants)
        try:
            yield
        except Exception:
            for step in self.steps[num_steps:]:
                for name in step.outputs:
                    del self.specs[name]
            del self.steps[num_steps:]
            for value, form in self.journal[num_forms:]:
                self.forms[value].pop(form, None)
            del self.journal[num_forms:]
            for key, constant in list(self._by_content.items())[num_constants:]:
                del self._by_content[key], self.constants[constant.name], self.specs[constant.name]
            raise

    def on_host(self, value: Value) -> str:
        """The name of a value's host form, transferred if need be."""
        forms = self.forms[value.name]
        wanted: Form = ("host", value.dtype, "row_major")
        if wanted not in forms:
            source = next(name for form, name in forms.items() if form[0] == "device")
            self.add_form(value.name, wanted, self._to_host(source, value.dtype))
        return forms[wanted]

    def on_host_as(self, value: Value, like: torch.Tensor) -> str:
        """The host form with the strides that eager's tensor has: some ops look at them, some rely on them. Where
        eager's overlaps or has gaps, its elements lie in the same order without either."""
        name, wanted = self.on_host(value), _stride(like)
        if _same_layout(self.strides.get(name), wanted, value.shape):
            return name
        order = _order_in_memory(wanted, value.shape)
        back = [order.index(d) for d in range(like.dim())]
        dense = _stride(torch.empty(like.shape, device="meta").permute(order).contiguous().permute(back))
        if _same_layout(self.strides.get(name), dense, value.shape):
            return name
        if order != sorted(order):
            name = self._host_step("aten.permute.default", name, dims=tuple(order))
        name = self._host_step("aten.clone.default", name, memory_format=Name("torch.contiguous_format"))
        if order != sorted(order):
            name = self._host_step("aten.permute.default", name, dims=tuple(back))
        self.strides[name] = dense
        return name

    def _host_step(self, kernel: str, source: str, **attrs: Arg) -> str:
        spec, dims = self.specs[source], attrs.get("dims")
        shape = tuple(spec.shape[int(str(d))] for d in dims) if isinstance(dims, tuple) else spec.shape
        return self.step(kernel, {"self": Ref(source), **attrs}, [TensorSpec(shape, spec.dtype)], EAGER_STRIDES)[0]

    def step(
        self, kernel: str, attrs: Mapping[str, Arg], outputs: Sequence[TensorSpec], reason: str = ""
    ) -> tuple[str, ...]:
        """Append one Step and give its outputs' names."""
        names = []
        for spec in outputs:
            name = self.fresh(self.origin.node or "v")
            self.specs[name] = spec
            names.append(name)
        self.steps.append(Step(kernel, tuple(attrs.items()), tuple(names), self.origin, reason))
        return tuple(names)

    # ---- the Builder that lowerings see -----------------------------------------------------------------------

    @property
    def out(self) -> Value:
        first = self.outs[0]
        assert first is not None
        return first

    def used(self, index: int) -> bool:
        return index in self.used_outputs

    def dtype(self, dtype: str) -> Name:
        return self.profile.dtype_name(self.profile.device_dtype(dtype, (0, 0)))

    def call(self, kernel: str, *, gives: str | None = None, range: Range | None = None, **attrs: Any) -> Value:
        (value,) = self.calls(kernel, gives=(gives,), ranges=(range,), **attrs)
        return value

    def calls(
        self, kernel: str, *, gives: Sequence[str | None], ranges: Sequence[Range | None], **attrs: Any
    ) -> tuple[Value, ...]:
        row = kernels()[kernel]
        values = [v for a in attrs.values() for v in values_in(a)]
        if self.profile.target == "ttnn" and any(0 in v.shape for v in values):
            raise Refused(NO_ELEMENTS())
        bound = {k: self._operand(row, k, a) for k, a in attrs.items()}
        step = Step(kernel, tuple(bound.items()), ())
        if self.profile.target == "ttnn":
            reason = refusal(row, specs_of(step, self.specs))
            if reason:
                raise Refused(reason)
        specs = infer(step, self.specs, self.profile.target)
        dtypes = [dtype or values[0].dtype for dtype in gives]
        bounds = [self._bounds(dtype, range) for dtype, range in zip(dtypes, ranges, strict=True)]
        wanted = [self.profile.device_dtype(dtype, known) for dtype, known in zip(dtypes, bounds)]
        if self.profile.target == "ttnn" and any(0 in spec.shape for spec in specs):
            raise Refused(NO_ELEMENTS())
        names = self.step(kernel, bound, specs)
        results = []
        for index, (name, spec) in enumerate(zip(names, specs, strict=True)):
            held = name if spec.dtype == wanted[index] else self._typecast(name, wanted[index])
            results.append(Value(held, spec.shape, dtypes[index], bounds[index]))
            self._add_device_form(results[-1], held)
        return tuple(results)

    def _bounds(self, dtype: str, range: Range | None) -> Range | None:
        bounds = _bounds(dtype, range)
        if dtype == "int64" and self.wraps_to is not None and (bounds is None or not _within(bounds, self.wraps_to)):
            return self.wraps_to
        return bounds

    def refuses(self, kernel: str, **attrs: Any) -> Reason | None:
        if self.profile.target == "torch":
            return None
        row = kernels()[kernel]
        layout = row.layout or "tile"

        def spec(value: Any) -> Any:
            if isinstance(value, Value):
                return TensorSpec(value.shape, self.profile.device_dtype(value.dtype, value.range), layout, DRAM)
            return tuple(map(spec, value)) if isinstance(value, (tuple, list)) else value

        return refusal(row, {k: spec(v) for k, v in attrs.items()})

    def cast(self, x: Value, dtype: str) -> Value:
        if dtype == WIDE and self.profile.keeps_float32:
            dtype = "float32"
        if x.dtype == dtype:
            return x
        if x.constant is not None and dtype == WIDE:
            return self._relabel(self._to_device(self.on_host(x), "float32", "tile"), dtype, None)
        if x.constant is not None:
            return self.constant(x.constant.to(getattr(torch, dtype)))
        if x.dtype == "int64" and x.range is None and self.profile.target == "ttnn" and dtype in CAST_ON_THE_WAY:
            x = self._cast_on_the_way(x, CAST_ON_THE_WAY[dtype])
            return x if x.dtype == dtype else self.cast(x, dtype)
        if dtype == "bool":
            return self.call("ttnn.ne", input_tensor_a=x, input_tensor_b=0, dtype=self.dtype("bool"), gives="bool")
        bounds = _bounds(dtype, x.range)
        wanted = self.profile.device_dtype(dtype, bounds)
        source = self._on_device(x, None)
        if self.specs[source].dtype != wanted:
            source = self._typecast(self._on_device(x, "tile"), wanted)
        return self._relabel(source, dtype, bounds)

    def _cast_on_the_way(self, x: Value, dtype: str) -> Value:
        """A host's int64 as floating point: torch casts it before it is sent, whatever its size."""
        host = self.forms[x.name].get(("host", x.dtype, "row_major"))
        wanted = self.profile.device_dtype(dtype)
        if host is None:
            raise Refused(UNPROVEN(dtype=x.dtype))
        form: Form = ("device", wanted, "tile")
        if form not in self.forms[x.name]:
            self.add_form(x.name, form, self._to_device(host, wanted, "tile"))
        return self._relabel(self.forms[x.name][form], dtype, None)

    def as_indices(self, x: Value) -> Value:
        if self.profile.target == "torch":
            return x
        forms = self.forms[x.name]
        host = forms.get(("host", x.dtype, "row_major"))
        if host is not None:
            name = self._to_device(host, "uint32", "row_major")
        else:
            name = self._convert_layout(self._typecast(self._on_device(x, "tile"), "uint32"), "row_major")
        return self._relabel(name, "uint32", x.range)

    def layout(self, x: Value, layout: Layout) -> Value:
        return self._relabel(self._on_device(x, layout), x.dtype, x.range)

    def reshape(self, x: Value, shape: Sequence[int]) -> Value:
        if x.shape == tuple(shape):
            return x
        if x.constant is not None:
            return self.constant(x.constant.reshape(tuple(shape)))
        return self.call("ttnn.reshape", input_tensor=x, shape=tuple(shape), range=x.range)

    def permute(self, x: Value, dims: Sequence[int]) -> Value:
        order = tuple(dims)
        if order == tuple(range(len(order))):
            return x
        if x.constant is not None:
            return self.constant(x.constant.permute(order).contiguous())
        return self.call("ttnn.permute", input_tensor=x, dims=order, range=x.range)

    def expand(self, x: Value, shape: Sequence[int]) -> Value:
        if x.shape == tuple(shape):
            return x
        return self.call("ttnn.expand", input_tensor=x, output_shape=tuple(shape), range=x.range)

    def constant(self, tensor: torch.Tensor) -> Value:
        tensor = tensor.detach().contiguous()
        data = tensor.flatten().view(torch.uint8).numpy().tobytes()
        key = (tensor.dtype, tensor.shape, data)
        if key in self._by_content:
            return self._by_content[key]
        name = self.fresh("constant")
        self.constants[name] = Constant(name, data)
        bounds = None
        if not (tensor.is_floating_point() or tensor.is_complex()) and tensor.numel():
            bounds = (int(tensor.min()), int(tensor.max()))
        self._by_content[key] = self.torch_value(name, tensor, bounds, constant=tensor)
        return self._by_content[key]

    # ---- forms ------------------------------------------------------------------------------------------------

    def add_form(self, value: str, form: Form, name: str) -> None:
        self.forms.setdefault(value, {})[form] = name
        self.journal.append((value, form))

    def _add_device_form(self, value: Value, name: str) -> None:
        spec = self.specs[name]
        self.add_form(value.name, ("device", spec.dtype, spec.layout), name)

    def _relabel(self, source: str, dtype: str, range: Range | None) -> Value:
        """The same numbers on the device under another of eager's dtypes, or in one layout only."""
        value = Value(self.fresh(f"{source}.as"), self.specs[source].shape, dtype, range)
        self._add_device_form(value, source)
        return value

    def _operand(self, row: Kernel, attribute: str, arg: Any) -> Arg:
        if isinstance(arg, Value):
            if attribute in row.host_operands and self.profile.target == "ttnn":
                return Ref(self._packed(arg))
            return Ref(self._on_device(arg, row.layout))
        if isinstance(arg, (tuple, list)):
            return tuple(self._operand(row, attribute, a) for a in arg)
        return arg  # type: ignore[no-any-return]

    def _on_device(self, value: Value, layout: Layout | None) -> str:
        """The name of a device form in the value's own device dtype; `layout` None takes whichever there is."""
        dtype = self.profile.device_dtype(value.dtype, value.range)
        forms = self.forms[value.name]
        if self.profile.target == "torch":
            layout = "row_major"
        for form, name in forms.items():
            if form[:2] == ("device", dtype) and layout in (None, form[2]):
                return name
        wanted: Form = ("device", dtype, layout or "tile")
        source = next((n for f, n in forms.items() if f[0] == "device" and f[1] == dtype), None)
        if source is None and not any(form[0] == "host" for form in forms):  # made where all is float32, or not
            source = self._typecast(next(n for f, n in forms.items() if f[0] == "device"), dtype)
            self.add_form(value.name, ("device", dtype, self.specs[source].layout), source)
            return self._on_device(value, layout)
        if source is not None:
            name = self._convert_layout(source, wanted[2])
        elif self.profile.target == "torch":
            host = forms[("host", value.dtype, "row_major")]
            name = host if dtype == value.dtype else self._typecast(host, dtype)
        else:
            name = self._to_device(self.on_host(value), dtype, wanted[2])
        self.add_form(value.name, wanted, name)
        return name

    def _packed(self, value: Value) -> str:
        dtype = self.profile.device_dtype(value.dtype, value.range)
        form: Form = ("packed", dtype, "row_major")
        if form not in self.forms[value.name]:
            attrs: dict[str, Arg] = {"tensor": Ref(self.on_host(value)), "dtype": self.profile.dtype_name(dtype)}
            self.add_form(value.name, form, self._emit(FROM_TORCH, {**attrs, "layout": LAYOUT_NAMES["row_major"]}))
        return self.forms[value.name][form]

    def _emit(self, kernel: str, attrs: dict[str, Arg]) -> str:
        outputs = infer(Step(kernel, tuple(attrs.items()), ()), self.specs, self.profile.target)
        return self.step(kernel, attrs, outputs)[0]

    def _to_device(self, host: str, dtype: str, layout: str) -> str:
        attrs: dict[str, Arg] = {"tensor": Ref(host), "dtype": self.profile.dtype_name(dtype)}
        return self._emit(FROM_TORCH, {**attrs, "layout": LAYOUT_NAMES[layout], "device": Name("device")})

    def _to_host(self, source: str, dtype: str) -> str:
        if self.profile.target == "torch":
            return source if self.specs[source].dtype == dtype else self._typecast(source, dtype)
        name = self._emit(TO_TORCH, {"tensor": Ref(source), "dtype": Name(f"torch.{dtype}")})
        self.strides[name] = _stride(torch.empty(self.specs[name].shape, device="meta"))
        return name

    def _convert_layout(self, source: str, layout: str) -> str:
        return self._emit("ttnn.to_layout", {"tensor": Ref(source), "layout": LAYOUT_NAMES[layout]})

    def _typecast(self, source: str, dtype: str) -> str:
        spec = self.specs[source]
        if self.profile.target == "ttnn" and spec.layout != "tile":
            source = self._convert_layout(source, "tile")
        return self._emit("ttnn.typecast", {"input_tensor": Ref(source), "dtype": self.profile.dtype_name(dtype)})


def _stride(tensor: torch.Tensor) -> tuple[int, ...]:
    return tuple(tensor.stride()) if tensor.layout == torch.strided else ()


def _order_in_memory(strides: Sequence[int], shape: Sequence[int]) -> list[int]:
    """Dimensions as they lie, the outermost first; one that takes no steps lies anywhere."""
    dims = list(range(len(shape)))
    steps = [d for d in dims if shape[d] > 1 and strides[d] > 0]
    turned = sorted(steps, key=lambda d: strides[d], reverse=True)
    return dims if turned == steps else [*(d for d in dims if d not in steps), *turned]


def _same_layout(strides: tuple[int, ...] | None, wanted: tuple[int, ...], shape: Sequence[int]) -> bool:
    """Whether strides agree wherever they matter."""
    if strides is None or len(strides) != len(wanted):
        return False
    return 0 in shape or all(n == 1 or a == b for n, a, b in zip(shape, strides, wanted))


def _bounds(dtype: str, range: Range | None) -> Range | None:
    """What is known about integers of a dtype: a bool is 0 or 1, an int32 fits itself."""
    if dtype == "bool":
        return (0, 1)
    return INT32 if dtype == "int32" and range is None else range


def _within(inner: Range, outer: Range) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]


def values_in(arg: Any) -> Iterator[Value]:
    if isinstance(arg, Value):
        yield arg
    elif isinstance(arg, (tuple, list)):
        for item in arg:
            yield from values_in(item)
