"""ATen graph in, flat list of Steps out: each node through its op's row, or to the host with the reason."""

from __future__ import annotations

import functools
import operator
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from torch.fx import GraphModule, Node

from proveout.compiler.emit import Emitter, values_in
from proveout.compiler.graph_passes.strided_views import lies_elsewhere
from proveout.compiler.memo import Memo
from proveout.compiler.profile import Profile
from proveout.compiler.ranges import keeps_low_bits, proven_ranges
from proveout.errors import CompileError
from proveout.kernels.table import dtype_name
from proveout.ops.host import why_on_host
from proveout.ops.table import Op, Refused, Value, ops
from proveout.program import FROM_TORCH, Arg, Name, Program, Ref
from proveout.reasons import Kind, Reason
from proveout.types import OpState, OpStatus, Origin, Settings, TensorSpec, short_dtype

PREPARES = Kind("prepares-weights", "prepares weights, once")
NO_OUTPUT = Kind("output-missing", "output {index} has no lowering")
INTERNAL = Kind(
    "internal-error",
    "internal error in its lowering: {error}: {text}",
    "a fault in the op's row: run again with --set verify=true to see it, and report it",
)
GRAPH_TAKES = Kind("graph-takes", "the graph takes a {what}")
GRAPH_HOLDS = Kind("graph-holds", "the graph holds a {what} (a higher-order op)")
GRAPH_CALLS = Kind("graph-calls", "the graph calls {what}, which is not an ATen op")
WRITES_IN_PLACE = Kind(
    "graph-writes-in-place",
    "the graph writes in place ({op})",
    "give the op a functional form, or move the write out of the compiled model",
)
MEMORY_ELSEWHERE = Kind(
    "memory-elsewhere",
    "{op} looks at memory that no tensor of the graph fills",
    "write the view with slices, `unfold` or `reshape` instead of strides",
)
OP_TAKES = Kind("op-takes", "an op takes a {what}")
OP_GIVES = Kind("op-gives", "{op} gives something that is not a tensor")

NO_STATE: Mapping[int, int] = MappingProxyType({})


class Unlowerable(Exception):
    """The graph as a whole cannot become a Program (a higher-order op, an opaque argument): it runs in eager."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True)
class Lowered:
    """A Program before its passes, what became of each node, and which argument is which input or weight."""

    program: Program
    statuses: tuple[OpStatus, ...]
    input_positions: tuple[int, ...]
    weight_positions: tuple[int, ...]
    holds: Mapping[str, tuple[tuple[str, int], ...]]
    """For each of the Program's values that is a node's result, that node and which result; several where equal."""


def lower(
    gm: GraphModule,
    weights: frozenset[int],
    profile: Profile,
    settings: Settings,
    name: str,
    on_host: Mapping[str, Reason] = MappingProxyType({}),
    state: Mapping[int, int] = NO_STATE,
) -> Lowered:
    """Lower a functional ATen graph. `weights` are the positions of placeholders that are parameters or buffers;
    `on_host` names nodes that stay on the host, each with the reason; `state` says which of the weights calls write
    to, and which of the last outputs is the new value: it stays on the device, and is not among the Program's."""
    emitter, wide = Emitter(profile), replace(profile, precision="model")
    emitter.proven = proven_ranges(gm.graph) if profile.target == "ttnn" else {}
    memo = Memo(emitter)
    env: dict[Node, Any] = {}
    statuses: list[OpStatus] = []
    inputs: list[tuple[int, str]] = []
    resident: list[tuple[int, str]] = []
    outputs: tuple[Arg, ...] = ()
    updated: dict[str, Value] = {}
    position = -1
    for node in gm.graph.nodes:
        if node.op == "placeholder":
            position += 1
            value = node.meta.get("val")
            if isinstance(value, torch.Tensor):
                env[node] = emitter.torch_value(emitter.fresh(node.name), value, emitter.proven.get(node))
                (resident if position in weights else inputs).append((position, env[node].name))
            elif isinstance(value, (int, float, bool)) or value is None:
                env[node] = value
            else:
                raise Unlowerable(GRAPH_TAKES(what=type(value).__name__))
        elif node.op == "get_attr":
            tensor = attribute(gm, node.target)
            if not isinstance(tensor, torch.Tensor):
                raise Unlowerable(GRAPH_HOLDS(what=type(tensor).__name__))
            env[node] = emitter.constant(tensor)
        elif node.op == "output":
            results = [_read(a, env) for a in node.args[0]]
            updated = {name: results[state[i]] for i, name in resident if i in state}
            returned = results[: len(results) - len(state)]
            outputs = tuple(Ref(emitter.on_host(v)) if isinstance(v, Value) else v for v in returned)
        elif node.target is operator.getitem:
            env[node] = _read(node.args[0], env)[node.args[1]]
        elif isinstance(node.target, torch._ops.OpOverload):
            if node.target._schema.is_mutable:
                raise Unlowerable(WRITES_IN_PLACE(op=str(node.target)))
            if lies_elsewhere(node):
                raise Unlowerable(MEMORY_ELSEWHERE(op=str(node.target)))
            emitter.profile = wide if node.meta.get("wide") else profile
            env[node], status = _lower_node(emitter, memo, node, env, settings, on_host.get(node.name))
            emitter.profile = profile
            statuses.append(status)
        else:
            raise Unlowerable(GRAPH_CALLS(what=str(node.target)))
    kept = {
        w: kept_name for w, value in updated.items() if (kept_name := _kept_on_device(emitter, w, value)) is not None
    }
    inputs = sorted((*inputs, *(pair for pair in resident if pair[1] in updated and pair[1] not in kept)))
    resident = [pair for pair in resident if pair[1] in kept or pair[1] not in updated]
    program = Program(
        name=name,
        target=profile.target,
        inputs=tuple(n for _, n in inputs),
        weights=tuple(n for _, n in resident),
        constants=tuple(emitter.constants.values()),
        outputs=outputs,
        setup=(),
        body=tuple(emitter.steps),
        specs=emitter.specs,
        state=tuple(kept.items()),
    )
    positions = tuple(i for i, _ in inputs), tuple(i for i, _ in resident)
    return Lowered(program, tuple(statuses), *positions, _holders(env, emitter))


def _holders(env: dict[Node, Any], emitter: Emitter) -> dict[str, tuple[tuple[str, int], ...]]:
    holds: dict[str, tuple[tuple[str, int], ...]] = {}
    for node, held in env.items():
        for index, value in enumerate(held if isinstance(held, (tuple, list)) else (held,)):
            if isinstance(value, Value):
                for name in emitter.forms[value.name].values():
                    holds[name] = (*holds.get(name, ()), (node.name, index))
    return holds


def _kept_on_device(emitter: Emitter, weight: str, value: Any) -> str | None:
    """What holds a state's new value on the device; None where the device does not read it or does not make it."""
    copies = [s for s in emitter.steps if s.kernel == FROM_TORCH and s.uses == (weight,)]
    if len(copies) != 1 or not isinstance(value, Value) or emitter.profile.target == "torch":
        return None
    dtype = emitter.specs[copies[0].outputs[0]].dtype
    forms = emitter.forms[value.name].items()
    return next((name for form, name in forms if form[:2] == ("device", dtype) and name != weight), None)


def _lower_node(
    emitter: Emitter, memo: Memo, node: Node, env: dict[Node, Any], settings: Settings, kept: Reason | None
) -> tuple[Any, OpStatus]:
    aten = str(node.target)
    emitter.origin = origin = origin_of(node)
    arguments = bind(node, env)
    tensors = _output_tensors(node)
    emitter.outs = [None if t is None else Value("", tuple(t.shape), dtype_name(t.dtype)) for t in tensors]
    emitter.used_outputs = _used_outputs(node)
    emitter.wraps_to = emitter.proven.get(node) if keeps_low_bits(node) else None
    before = len(emitter.steps)
    reason: Reason | None = None
    try:
        with emitter.attempt():
            if node.meta.get("prepares"):
                raise Refused(PREPARES())
            if kept:
                raise Refused(kept)
            row = ops().get(aten)
            if row is None:
                raise Refused(why_on_host(node.target, _dtypes(arguments, emitter)))  # type: ignore[arg-type]
            result = memo.lowered(aten, arguments, partial(_lower_by, row, node, emitter, arguments))
    except Refused as refusal:
        reason = refusal.reason
    except Exception as error:  # a bug of ours costs this op its kernel, not the user the model
        if settings.verify:
            raise
        reason = INTERNAL(error=type(error).__name__, text=str(error))
    if reason:
        if settings.fallback == "error" and not node.meta.get("prepares"):
            place = f" at {origin.source}" if origin.source else ""
            raise CompileError(
                f"{aten} stays on the host: {reason}{place}. Change the model there, or set fallback='host'."
            ) from None
        result = _fall_back(emitter, node, arguments, tensors, str(reason))
    state: OpState = "host" if reason else "converted" if len(emitter.steps) > before else "removed"
    note = str(reason) if reason else "" if state == "converted" else "nothing to do on this device"
    status = OpStatus(node.name, aten, state, note, variation(node), origin.module, origin.source, reason)
    return result, status


def _lower_by(row: Op, node: Node, emitter: Emitter, arguments: dict[str, Any]) -> Any:
    reason = row.guard(**arguments) if row.guard else None
    if reason:
        raise Refused(reason)
    result = row.lower(emitter, **arguments)
    _check_shapes(node, result, emitter)
    return result


def _dtypes(arguments: dict[str, Any], emitter: Emitter) -> Iterator[str]:
    """Of the tensors that a call takes and gives."""
    yield from (value.dtype for argument in arguments.values() for value in values_in(argument))
    yield from (value.dtype for value in emitter.outs if value is not None)


def _check_shapes(node: Node, result: Any, emitter: Emitter) -> None:
    results = result if isinstance(result, tuple) else (result,)
    for index, (value, expected) in enumerate(zip(results, emitter.outs, strict=True)):
        if value is None and emitter.used(index) and expected is not None:
            raise Refused(NO_OUTPUT(index=index))
        if value is not None and expected is not None:
            actual, wanted = (value.shape, value.dtype), (expected.shape, expected.dtype)
            assert actual == wanted, f"lowering of {node.target} gives {actual}, eager gives {wanted}"


def _fall_back(
    emitter: Emitter, node: Node, arguments: dict[str, Any], tensors: Sequence[torch.Tensor | None], reason: str
) -> Any:
    nodes = bind(node, None)
    attrs = {name: _host_arg(emitter, value, nodes[name]) for name, value in arguments.items()}
    specs = [TensorSpec(tuple(t.shape), dtype_name(t.dtype)) for t in tensors if t is not None]
    names = iter(emitter.step(str(node.target), attrs, specs, reason))
    known = emitter.proven.get(node)
    values = [None if t is None else emitter.torch_value(next(names), t, known) for t in tensors]
    return values[0] if isinstance(node.meta.get("val"), torch.Tensor) else tuple(values)


def _host_arg(emitter: Emitter, value: Any, node: Any) -> Arg:
    if isinstance(value, Value):
        return Ref(emitter.on_host_as(value, node.meta["val"]))
    if isinstance(value, (list, tuple)):
        return tuple(_host_arg(emitter, v, n) for v, n in zip(value, node))
    if isinstance(value, (torch.memory_format, torch.layout)):
        return Name(str(value))
    if isinstance(value, torch.device):
        return str(value)
    if isinstance(value, _Dtype):
        return Name(f"torch.{value}")
    if value is None or isinstance(value, (bool, int, float, complex, str)):
        return value
    raise Unlowerable(OP_TAKES(what=type(value).__name__))


class _Dtype(str):
    """A dtype by name, told apart from an ordinary string argument."""


def bind(node: Node, env: dict[Node, Any] | None) -> dict[str, Any]:
    """A call's arguments by the names of its schema: tensors as Values and dtypes by name, or as the graph has them."""
    schema = node.target._schema.arguments  # type: ignore[union-attr]
    bound = {**{argument.name: a for argument, a in zip(schema, node.args)}, **node.kwargs}
    return bound if env is None else {k: _read(v, env) for k, v in bound.items()}


def _read(arg: Any, env: dict[Node, Any]) -> Any:
    if isinstance(arg, Node):
        return env[arg]
    if isinstance(arg, (list, tuple)):
        return [_read(a, env) for a in arg] if isinstance(arg, list) else tuple(_read(a, env) for a in arg)
    return _Dtype(dtype_name(arg)) if isinstance(arg, torch.dtype) else arg


def attribute(gm: GraphModule, target: Any) -> Any:
    value: Any = gm
    for part in str(target).split("."):
        value = getattr(value, part)
    return value


def _output_tensors(node: Node) -> list[torch.Tensor | None]:
    value = node.meta.get("val")
    if value is None:
        return []  # an op for its effect alone, such as an assertion
    items = value if isinstance(value, (list, tuple)) else [value]
    if not all(v is None or isinstance(v, torch.Tensor) for v in items):
        raise Unlowerable(OP_GIVES(op=str(node.target)))
    return list(items)


def _used_outputs(node: Node) -> frozenset[int]:
    if isinstance(node.meta.get("val"), torch.Tensor):
        return frozenset({0})
    used = {u.args[1] for u in node.users if u.target is operator.getitem and u.users}
    return frozenset(int(i) for i in used)  # type: ignore[arg-type]


def variation(node: Node) -> str:
    """How an op was called: shapes and dtypes of tensors, other arguments by value."""
    return ", ".join(f"{name}={_shown(value)}" for name, value in bind(node, None).items())


def _shown(value: Any) -> str:
    if isinstance(value, Node):
        return _shown(value.meta.get("val"))
    if isinstance(value, torch.Tensor):
        return f"{short_dtype(dtype_name(value.dtype))}[{','.join(map(str, value.shape))}]"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_shown, value)) + "]"
    return dtype_name(value) if isinstance(value, torch.dtype) else str(value)


def origin_of(node: Node) -> Origin:
    """The node's ATen op, module path and the user's source line, from what Dynamo kept."""
    return Origin(node.name, str(node.target), module_of(node), _source(node.meta.get("stack_trace") or ""))


def module_of(node: Node | str) -> str:
    """The path of the module that a node comes from; or that Dynamo's own way of writing a path stands for."""
    if isinstance(node, Node):
        stack = node.meta.get("nn_module_stack") or {}
        node = next(reversed([v[0] for v in stack.values()]), "") if stack else ""
    return _module_path(node)


@functools.cache
def _module_path(path: str) -> str:
    module = re.sub(r"^(L\['\w+'\]|L__\w+?___)\.?", "", path).replace("._modules", "")
    return re.sub(r"\['([^']+)'\]", r".\1", module).strip(".")


@functools.lru_cache(4096)
def _source(trace: str) -> str:
    """The innermost line of a stack trace; none where only our own call of the model is in it (`nn.Sequential`)."""
    source = ""
    for file, line in _frames(trace):
        if not file.startswith(_ENGINE):
            source = f"{file}:{line}"
    return source


_ENGINE = f"{Path(__file__).parents[1] / 'engine'}{os.sep}"


def _frames(trace: str) -> Iterator[tuple[str, str]]:
    for match in re.finditer(r'File "([^"]+)", line (\d+)', trace):
        yield match.group(1), match.group(2)
