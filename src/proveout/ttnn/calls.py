"""Runs one call of the kernel table: bound to ttnn's signature, refused as ttnn refuses, computed, timed, recorded."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch

from proveout.kernels.activations import ACTIVATIONS, named
from proveout.kernels.cost import step_time
from proveout.kernels.faithful import faithful
from proveout.kernels.memory_config import memory_arg
from proveout.kernels.pieces import Pieces
from proveout.kernels.row import Kernel, flat_specs
from proveout.kernels.signatures import SignatureParameter, parameters, signatures
from proveout.kernels.table import call_meaning, infer, kernels, meaning_on, refusal, sees, storing
from proveout.program import FROM_DEVICE, FROM_TORCH, TO_DEVICE, Arg, Construct, Name, Ref, Step
from proveout.ttnn import graph, recording
from proveout.ttnn.buffers import Buffer
from proveout.ttnn.configs import Config, UnaryWithParam
from proveout.ttnn.device import Device, current_queue
from proveout.ttnn.enums import Member, arg_of, enum
from proveout.ttnn.memory import MemoryConfig
from proveout.ttnn.mesh import MeshDevice, OnMesh
from proveout.ttnn.tensor import Tensor
from proveout.ttnn.trace import CapturedCall
from proveout.types import HOST, Settings, TensorSpec

SERVED: dict[str, Callable[..., Any]] = {}
"""Functions that are more, or less, than one kernel: ttnn name -> Python function with ttnn's argument names."""

INTO = ("output_tensor", "optional_output_tensor", "optional_tensor", "preallocated_output")
"""Arguments that say where a result goes."""
HOW = frozenset({"sub_device_id", "use_multicore", "slice_config", "numeric_stable"})
"""Arguments that say how a kernel works and change neither its meaning nor what we model."""
TAKES_ROWS = frozenset({"unary", "binary", "cast", "join"})
"""Kinds whose kernels ttnn runs on row-major tensors too; our compiler gives them tiles."""
FUSED_LISTS = ("input_tensor_a_activations", "input_tensor_b_activations", "activations")
"""Arguments of binary kernels that list what runs before and after their arithmetic."""
APPROXIMATE = frozenset({"fast_and_approximate_mode"})
"""The chip's approximations are not modelled; both modes compute the exact function."""


def serves(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        SERVED[name] = function
        return function

    return add


def call(name: str, *args: Any, **kwargs: Any) -> Any:
    """One ttnn function by its name."""
    if name not in signatures():
        return SERVED[name](*args, **kwargs)  # ttnn tells no signature of it
    bound = bind(name, args, kwargs)
    return SERVED[name](**bound) if name in SERVED else run(name, bound)


def bind(name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Arguments by name, through the first of ttnn's overloads that takes them."""
    for overload in signatures()[name]:
        positional = [p.name for p in overload if not p.keyword_only]
        if len(args) > len(positional) or not all(_fits(p, v) for p, v in zip(overload, args)):
            continue
        bound = {**dict(zip(positional, args)), **kwargs}
        if len(bound) < len(args) + len(kwargs):
            continue
        known = {p.name: p for p in overload}
        required = [p.name for p in overload if p.required]
        if all(k in known and _fits(known[k], v) for k, v in bound.items()) and all(r in bound for r in required):
            return {k: v for k, v in bound.items() if v is not None and not _is_default(known[k], v)}
    raise TypeError(f"{name}(): incompatible function arguments. See its signature: help(ttnn)")


def _fits(parameter: SignatureParameter, value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return parameter.annotation.startswith("torch.Tensor")
    is_tensor = isinstance(value, Tensor) or (
        isinstance(value, (list, tuple)) and any(isinstance(v, Tensor) for v in value)
    )
    return parameter.may_take(is_tensor)


def _is_default(parameter: SignatureParameter, value: Any) -> bool:
    """Whether an argument says what ttnn would do anyway."""
    if not parameter.default or parameter.name in ("dim", "shape") or isinstance(value, Tensor):
        return False
    try:
        default = ast.literal_eval(parameter.default)
    except (ValueError, SyntaxError):
        return False
    return type(value) is type(default) and bool(value == default)


def run(name: str, bound: dict[str, Any], queue: int | None = None, blocking: bool = True) -> Any:
    """One kernel now: its result, or a list of them."""
    kernel = kernels()[name]
    bound, before, after = _activations(kernel, {k: v for k, v in bound.items() if v is not None and k not in HOW})
    into = next((bound.pop(key) for key in INTO if isinstance(bound.get(key), Tensor)), None)
    for key, activation in before:
        bound[key] = _activate(bound[key], activation)
    if after:
        result = _launch(kernel, bound, None, queue, blocking)
        for position, activation in enumerate(after):
            result = _activate(result, activation, into if position == len(after) - 1 else None)
        return result
    return _launch(kernel, bound, into, queue, blocking)


def _activate(operand: Tensor, activation: UnaryWithParam, into: Tensor | None = None) -> Any:
    name, attributes = activation.kernel
    return run(name, {"input_tensor": operand, **attributes, **({"output_tensor": into} if into else {})})


def _activations(
    kernel: Kernel, bound: dict[str, Any]
) -> tuple[dict[str, Any], list[tuple[str, UnaryWithParam]], list[UnaryWithParam]]:
    """Element-wise functions that a call fuses, taken out: they are computed as calls of their own. Those that we run
    inside a binary kernel, a convolution or a product stay."""
    bound = {
        k: v for k, v in bound.items() if k not in APPROXIMATE or k in inspect.signature(kernel.meaning).parameters
    }
    lists = {key: [_unary(a) for a in bound.pop(key)] for key in FUSED_LISTS if key in bound}
    inside = kernel.kind == "binary" and all(named(a.arg) for values in lists.values() for a in values)
    bound |= {key: tuple(values) for key, values in lists.items() if inside and values}
    before = (
        [] if inside else [(key.removesuffix("_activations"), a) for key in FUSED_LISTS[:2] for a in lists.get(key, ())]
    )
    after = [] if inside else lists.get(FUSED_LISTS[2], [])
    activation = bound.get("activation")
    if isinstance(activation, (UnaryWithParam, Member)):
        after.append(_unary(bound.pop("activation")))
    elif isinstance(activation, str) and activation not in ACTIVATIONS:
        after.append(_by_name(bound.pop("activation")))
    for key, field in (("conv_config", "activation"), ("program_config", "fused_activation")):
        config = bound.get(key)
        if not isinstance(config, Config) or not config.fields.get(field):
            continue
        if key not in kernel.parameters or named(_unary_config(config, field).by_name[field]) is None:
            after.append(_unary(config.fields[field]))
            bound[key] = config.without(field)
    return bound, before, after


def _by_name(activation: str) -> UnaryWithParam:
    member = getattr(enum("UnaryOpType"), activation.upper(), None)
    if not isinstance(member, Member):
        raise ValueError(f"activation={activation!r} is no element-wise function of ttnn, such as 'relu'")
    return UnaryWithParam(member)


def _unary_config(config: Config, field: str) -> Construct:
    """The config with its activation as Steps hold it, whichever way it was given."""
    setattr(config, field, _unary(config.fields[field]))
    return config.arg


def _unary(value: Any) -> UnaryWithParam:
    if isinstance(value, tuple):
        return UnaryWithParam(value)
    if isinstance(value, str):
        raise TypeError(f"an activation inside a config or a list is a ttnn.UnaryWithParam, not {value!r}")
    return value if isinstance(value, UnaryWithParam) else UnaryWithParam(value)


def _launch(kernel: Kernel, bound: dict[str, Any], into: Tensor | None, queue: int | None, blocking: bool) -> Any:
    name = kernel.name
    operands: list[Tensor | torch.Tensor] = []
    attrs = {key: _enter(value, operands) for key, value in bound.items()}
    if into is not None and "memory_config" in parameters(name):
        attrs["memory_config"] = memory_arg(into.spec.memory)
    specs = {str(i): _spec(o) for i, o in enumerate(operands)}
    described = {k: _replace(v, specs) for k, v in attrs.items()}
    wrong = _misplaced(kernel, described) or refusal(kernel, described)
    if wrong:
        raise RuntimeError(f"TT_FATAL: {wrong}")
    on_device = bound.get("device")
    device = on_device or next((o.device() for o in operands if isinstance(o, Tensor) and o.device()), None)
    mapper = bound.get("mesh_mapper")
    chips = chips_of(mapper.mesh_device if isinstance(mapper, OnMesh) else device)
    outputs = _infer(Step(name, tuple(attrs.items()), ()), specs, chips)
    if device is None or name == FROM_DEVICE:
        outputs = tuple(_with_memory(s) for s in outputs)
    results_specs = {f"out {i}": spec for i, spec in enumerate(outputs)}
    step = Step(name, tuple(attrs.items()), tuple(results_specs))
    compute = _computing(kernel, step, specs | results_specs, device, chips)
    if kernel.kind == "piece":  # each is one chip's piece, which a mesh's calls do not take
        return [Tensor(s, Buffer(r)) for s, r in zip(outputs, compute([_value(o) for o in operands]))]
    if device is None:
        results = compute([_value(o) for o in operands])
        if kernel.packs == "host":
            buffer = Buffer(results[0])
            _record(step, operands, [(buffer, outputs[0])])
            return Tensor(outputs[0], buffer)
        tensors = [Tensor(s, Buffer(r)) for s, r in zip(outputs, results)]
        return tensors[0] if len(tensors) == 1 else tensors
    config = bound.get("memory_config")
    targets = _targets(outputs, into, device, config if isinstance(config, MemoryConfig) else None)
    _dispatch(device, step, specs | results_specs, operands, targets, compute, current_queue(queue), blocking)
    return targets[0] if len(targets) == 1 else targets if targets else None


def _dispatch(
    device: Device, step: Step, specs: dict[str, TensorSpec], operands: list[Any], targets: list[Tensor],
    compute: Callable[[Sequence[torch.Tensor]], Sequence[torch.Tensor]], queue: int | None, blocking: bool,
) -> None:  # fmt: skip
    """Give a call to a queue, or to the trace that is being captured."""
    name = step.kernel
    if name in (FROM_TORCH, TO_DEVICE):
        device.refuse_in_capture("Writes are not supported during trace capture.")
    if name == FROM_DEVICE:
        device.refuse_in_capture("Reads are not supported during trace capture.")
    for operand in operands:
        if isinstance(operand, Tensor) and operand.buffer.freed:
            operand.buffer.value()
    ns = step_time(step, specs, device.spec, Settings(), chips_of(device)).ns
    reads = [o.buffer for o in operands if isinstance(o, Tensor) and o.buffer.slot is not None]
    writes = [t.buffer for t in targets if t.buffer.slot is not None]
    if not step.is_transfer:
        device.compile(name, (name, tuple((k, _replace(v, specs)) for k, v in step.attrs)))
    if graph.is_graph_capture_active():
        keyed = [(o.key, o.spec) for o in operands if isinstance(o, Tensor)]
        graph.called(step, specs, device.spec, keyed, [(t.key, specs[n]) for t, n in zip(targets, step.outputs)])
    if device.capture is not None:
        if len(reads) < len(operands):
            raise RuntimeError(
                f"TT_FATAL: Writes are not supported during trace capture: {name} takes a tensor on the host and would "
                "send it to the device. Prepare it before (return_weights_and_bias=True, ttnn.prepare_conv_weights)."
            )
        line = recording.source_line()
        slots = [tuple(b.slot for b in buffers if b.slot is not None) for buffers in (reads, writes)]
        device.capture.commands.append(CapturedCall(name, step.attrs, slots[0], slots[1], compute, ns, line))
        for buffer in writes:
            buffer.problem = "the call was captured and has not run yet: ttnn.execute_trace runs it"
        return
    results = compute([_value(o) for o in operands])
    if step.is_transfer:
        device.queues.transfer(queue, ns, reads, writes, blocking and name == FROM_DEVICE)
        if name == FROM_DEVICE:
            targets[0].buffer.pending = device.queues.pending(queue)
    else:
        device.queues.kernel(queue, ns, reads, writes)
    device.last_ns = ns
    recording.used(device, device.queues.number(queue))
    _record(step, operands, [(t.key, t.spec) for t in targets])
    for target, result in zip(targets, results):
        target.buffer.write(result)


def _record(step: Step, operands: Sequence[Any], writes: Sequence[tuple[Any, TensorSpec]]) -> None:
    values = []
    for operand in operands:
        key, spec = (operand.key, operand.spec) if isinstance(operand, Tensor) else (id(operand), _spec(operand))
        if isinstance(operand, Tensor) and operand.buffer.alias is not None:
            key, spec = operand.buffer.alias
        values.append((key, spec, _value(operand)))
    recording.called(step.kernel, step.attrs, values, writes)


def _infer(step: Step, specs: dict[str, TensorSpec], chips: int) -> tuple[TensorSpec, ...]:
    try:
        return infer(step, specs, chips=chips)
    except TypeError as error:
        if "unexpected keyword" not in str(error):
            raise
        raise NotImplementedError(f"{step.kernel}: {str(error).split('() ')[-1]}: that is not served yet") from None
    except RuntimeError as error:
        raise RuntimeError(f"TT_FATAL: {step.kernel}: {error}") from None


def _computing(
    kernel: Kernel, step: Step, specs: dict[str, TensorSpec], device: Device | None, chips: int
) -> Callable[[Sequence[torch.Tensor]], Sequence[torch.Tensor]]:
    """What a call computes from its operands' numbers, in order."""
    meaning = storing(kernel, tuple(specs[n].dtype for n in step.outputs))
    if device is not None and device.numerics == "faithful":
        meaning = faithful(step, specs, device.spec, None)
    meaning = meaning_on(kernel, chips, meaning)
    attrs = {k: v for k, v in step.attrs if sees(kernel, k)}

    def compute(values: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
        sent = step.kernel == FROM_TORCH  # a copy: the host may change its tensor afterwards
        table = {str(i): value.clone() if sent else value for i, value in enumerate(values)}
        with torch.no_grad():
            result = call_meaning(kernel, {k: _replace(v, table) for k, v in attrs.items()}, meaning)
        return result if isinstance(result, (tuple, list)) and not isinstance(result, Pieces) else (result,)

    return compute


def chips_of(device: Device | None) -> int:
    """A mesh runs every call on all its chips; an n300 opened alone is one chip."""
    return device.spec.chips if isinstance(device, MeshDevice) else 1


def _targets(
    outputs: Sequence[TensorSpec], into: Tensor | None, device: Device, config: MemoryConfig | None
) -> list[Tensor]:
    """Where results go: into the tensor given for that, or newly allocated."""
    if into is not None:
        (spec,) = outputs
        if into.spec != spec:
            raise RuntimeError(f"TT_FATAL: the output tensor is {into.spec} where the call gives {spec}")
        if into.buffer.freed:
            into.buffer.value()
        return [into]
    targets = []
    for spec in outputs:
        if spec.memory == HOST:
            targets.append(Tensor(spec, Buffer(None)))
        else:
            shard_config = config if spec.memory.shard is not None else None
            targets.append(Tensor(spec, device.memories.allocate(spec), device, shard_config))
    return targets


def _enter(value: Any, operands: list[Tensor | torch.Tensor]) -> Arg:
    """A Python value as a Step's argument; tensors become Refs to their place among the operands."""
    if isinstance(value, (Tensor, torch.Tensor)):
        operands.append(value)
        return Ref(str(len(operands) - 1))
    if isinstance(value, (list, tuple)):
        return tuple(_enter(v, operands) for v in value)
    if isinstance(value, Device):
        return Name("device")
    if isinstance(value, torch.dtype):
        return Name(str(value))
    return arg_of(value)


def _misplaced(kernel: Kernel, described: dict[str, Any]) -> str | None:
    """ttnn wants operands on the device, in the kernel's layout."""
    for name, value in described.items():
        for spec in flat_specs(value):
            if name in kernel.host_operands:
                continue
            if kernel.layout and spec.layout != kernel.layout and kernel.kind not in TAKES_ROWS:
                return f"{name} must be in {kernel.layout} layout, not {spec.layout}"
            if spec.memory == HOST and not kernel.takes_host:
                return f"{name} must be on the device; use ttnn.to_device"
    return None


def _spec(value: Any) -> TensorSpec:
    if isinstance(value, Tensor):
        return value.spec
    return TensorSpec(tuple(value.shape), str(value.dtype).removeprefix("torch."))


def _value(value: Any) -> torch.Tensor:
    tensor: torch.Tensor = value.data if isinstance(value, Tensor) else value.detach()
    return tensor


def _with_memory(spec: TensorSpec) -> TensorSpec:
    return TensorSpec(spec.shape, spec.dtype, spec.layout, HOST)


def _replace(value: Any, table: dict[str, Any]) -> Any:
    if isinstance(value, Ref):
        return table[value.name]
    return tuple(_replace(v, table) for v in value) if isinstance(value, tuple) else value
