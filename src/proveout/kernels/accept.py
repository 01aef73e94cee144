"""The schema of a Program that comes from a file: what it may call, with which attributes, on which kinds of values.

A file is a stranger's word. `load_program`, saved models and the compile cache all ask `accept` before anything of a
Program is planned, printed as code or run. A new kind of value is one row of `KINDS`.
"""

from __future__ import annotations

import contextlib
import functools
import keyword
import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
    UnsupportedOperatorException,
)

from proveout.chip.specs import CHIPS
from proveout.errors import UsageError
from proveout.kernels.cost import circular_bytes, step_times
from proveout.kernels.memory_config import PLAIN
from proveout.kernels.signatures import constructors, enums, parameters
from proveout.kernels.table import constant_bytes, dtype_name, infer, kernels, kind_of, resolve, specs_of, torch_dtype
from proveout.program import DEALLOCATE, Arg, Construct, InvalidProgram, Name, Program, Ref, Step, verify
from proveout.types import DTYPE_BYTES, Settings, TensorSpec

NAMESPACES = frozenset({"aten", "prims", "torchvision"})
"""Where host ops come from unless a caller trusts more: libraries of pure tensor functions."""
MAX_ELEMENTS = 1 << 40
MAX_DEPTH = 8
"""How deep tuples may lie in each other."""
MAX_WORDS = 400
"""Of a sentence about a file, which may quote what a stranger wrote there."""
DEVICE = Name("device")
DEVICE_PARAMETERS = frozenset({"device", "mesh_device"})
PLAIN_CONSTRUCTORS = frozenset(
    {
        *("MemoryConfig", "ShardSpec", "CoreRangeSet", "CoreRange", "CoreCoord", "CoreGrid", "UnaryWithParam"),
        *("ShardTensorToMesh", "ReplicateTensorToMesh", "ConcatMeshToTensor"),
    }
)
"""ttnn's value classes that `constructors` does not list; like those, they hold their arguments and do nothing."""
PAIRS: dict[str, type] = {"CoreCoord": int, "CoreGrid": int, "CoreRange": Construct}
MAX_CORES = 1 << 10
"""In a row or a column; no chip has nearly as many."""
TTNN_NAMES = frozenset(
    {
        *("bfloat16", "float32", "uint32", "int32", "uint16", "uint8", "bfloat8_b", "bfloat4_b"),
        *("float16", "float64", "int64", "int16", "int8", "bool"),
        *("TILE_LAYOUT", "ROW_MAJOR_LAYOUT", "TILE_SIZE", *(name.removeprefix("ttnn.") for name in PLAIN)),
    }
)
"""Constants of ttnn that are no member of an enumeration."""


def load_program(folder: str | Path, namespaces: Collection[str] = NAMESPACES) -> Program:
    """A saved Program that keeps the schema; UsageError says why another does not."""
    program = Program.load(folder)
    try:
        return accept(program, namespaces)
    except UsageError as error:
        why = shortened(error)
        raise UsageError(f"{folder} holds no Program that can be used: {why} Compile the model again.") from None


def shortened(error: object) -> str:
    """A sentence that may quote a stranger, on one line of a length that can be read."""
    text = " ".join(str(error).split())
    return text if len(text) <= MAX_WORDS else f"{text[:MAX_WORDS]}…"


def accept(program: Program, namespaces: Collection[str] = NAMESPACES) -> Program:
    """The same Program, or a UsageError: every Step calls a kernel of the table or a pure op, with attributes of that
    function's own names, on values of known kinds and specs that follow from each other."""
    try:
        for name, spec in program.specs.items():
            _check_spec(name, spec)
        for constant in program.constants:
            _check(constant.name in program.specs, f"constant {constant.name!r} has no spec")
            wanted = constant_bytes(program.specs[constant.name])
            num_bytes = len(constant.data)
            _check(
                num_bytes == wanted, f"constant {constant.name!r} has {num_bytes} bytes where its spec needs {wanted}"
            )
        _check(1 <= program.chips <= 64, f"it is for {program.chips} chips")
        _check(len(set(program.inputs)) == len(program.inputs), "an input is there twice")
        for step in program.steps:
            _check_step(step, namespaces)
        for output in program.outputs:
            _check_value("an output", output, 0)
        verify(program, functools.partial(infer, target=program.target, chips=program.chips))
        for step in program.steps:
            if step.on_host:
                _check_host_specs(step, program.specs)
        if program.target == "ttnn":  # whoever plans it meets the same attributes, and says nothing in a sentence
            step_times(program, CHIPS["n150"], Settings())
            for step in program.steps:
                circular_bytes(step, program.specs, CHIPS["n150"])
    except InvalidProgram as error:
        raise UsageError(f"{error}.") from None
    except UsageError:
        raise
    except Exception as error:  # a kernel's own rule met attributes that it cannot have: any kind, one meaning
        raise UsageError(f"its Steps do not fit each other ({_first_line(error)}).") from error
    return program


def host_op(name: str, namespaces: Collection[str] | None = None) -> Callable[..., Any]:
    """The op behind a host Step's name, `aten.nonzero.default` or `mylib.op.default`; nothing else has such a name."""
    parts = name.split(".")
    if len(parts) != 3 or not all(part.isidentifier() for part in parts):
        raise UsageError(f"{name!r} is not the name of an op.")
    if namespaces is not None and parts[0] not in namespaces:
        raise UsageError(
            f"{name!r} is an op of {parts[0]!r}, which is not trusted here ({', '.join(sorted(namespaces))})."
        )
    op: Any = torch.ops
    for part in parts:
        op = getattr(op, part, None)
    if not isinstance(op, torch._ops.OpOverload):
        raise UsageError(f"there is no op {name!r} in this process.")
    return op


@functools.lru_cache(maxsize=4096)
def _op_parameters(name: str, namespaces: frozenset[str]) -> frozenset[str]:
    schema = host_op(name, namespaces)._schema  # type: ignore[attr-defined]
    arguments = frozenset(argument.name for argument in schema.arguments)
    gives = [str(returned.type) for returned in schema.returns]
    pure = not schema.is_mutable and "filename" not in arguments
    computes = bool(gives) and all("Tensor" in kind for kind in gives)
    if not pure or not (computes or "_assert" in name):
        raise UsageError(f"{name!r} does more than compute tensors from tensors.")
    return arguments


def _check_step(step: Step, namespaces: Collection[str]) -> None:
    if step.on_host:
        known = _op_parameters(step.kernel, frozenset(namespaces))
    else:
        _check(step.kernel in kernels(), f"there is no kernel {step.kernel!r}")
        known = parameters(step.kernel)
        if step.kernel == DEALLOCATE or kind_of(step) in ("layout", "memory"):
            _check(bool(step.uses), f"{step.kernel} is given no value")
    seen = set()
    for name, value in step.attrs:
        _check(name in known, f"{step.kernel} takes no {name!r}")
        _check(value != DEVICE or name in DEVICE_PARAMETERS, f"{name} of {step.kernel} is the device")
        _check(name not in seen, f"{step.kernel} is given {name!r} twice")
        seen.add(name)
        _check_value(f"{name} of {step.kernel}", value, 0)


def _check_host_specs(step: Step, specs: Mapping[str, TensorSpec]) -> None:
    """PyTorch's own rule for an op's result, where its shape does not depend on the data."""
    attrs = tuple(specs_of(step, specs).items())
    inferred = _infer_host(step.kernel, attrs)
    wanted = tuple((specs[name].shape, specs[name].dtype) for name in step.outputs)
    _check(inferred is None or inferred == wanted, f"{step.kernel} gives {inferred}, not {wanted}")


@functools.lru_cache(maxsize=4096)
def _infer_host(name: str, attrs: tuple[tuple[str, Any], ...]) -> tuple[tuple[tuple[int, ...], str], ...] | None:
    with FakeTensorMode(allow_non_fake_inputs=True), _quiet():
        try:
            out = host_op(name)(**{key: _fake(value) for key, value in attrs})
        except (DataDependentOutputException, DynamicOutputShapeException, UnsupportedOperatorException):
            return None
    tensors = out if isinstance(out, (tuple, list)) else (out,)
    operands = [t for t in tensors if isinstance(t, torch.Tensor)]
    elsewhere = [t for t in operands if t.device.type != "cpu" or t.layout != torch.strided]
    _check(not elsewhere, f"{name} gives what is no plain tensor of the host")
    if any(not isinstance(n, int) for t in operands for n in t.shape):
        return None
    return tuple((tuple(t.shape), dtype_name(t.dtype)) for t in operands)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """PyTorch logs a traceback of its own where an op's rule raises, which is an answer here."""
    log = logging.getLogger("torch._subclasses.fake_tensor")
    was, log.disabled = log.disabled, True
    try:
        yield
    finally:
        log.disabled = was


def _fake(value: Any) -> Any:
    if isinstance(value, TensorSpec):
        return torch.empty(value.shape, dtype=torch_dtype(value.dtype))
    return [_fake(v) for v in value] if isinstance(value, tuple) else resolve(value)


def _check_spec(name: str, spec: TensorSpec) -> None:
    _check(spec.dtype in DTYPE_BYTES, f"{name!r} has the unknown dtype {spec.dtype!r}")
    _check(all(0 <= n < MAX_ELEMENTS for n in spec.shape), f"{name!r} has the impossible shape {spec.shape}")
    _check(spec.numel < MAX_ELEMENTS, f"{name!r} has the impossible shape {spec.shape}")
    if spec.memory.shard is not None:
        sizes = (*spec.memory.shard.shape, *spec.memory.shard.grid)
        _check(all(0 < n < MAX_ELEMENTS for n in sizes), f"{name!r} has an impossible shard")


def _check_value(where: str, value: Arg, depth: int) -> None:
    kind = KINDS.get(type(value))
    _check(kind is not None, f"{where} is a {type(value).__name__}")
    assert kind is not None
    _check(depth < MAX_DEPTH, f"{where} is nested too deeply")
    why = kind(value)
    _check(not why, f"{where} {why}")
    if isinstance(value, Construct):
        _check(not any(isinstance(arg, Ref) for _, arg in value.args), f"{where} holds a value of the Program")
    inner = value if isinstance(value, tuple) else [a for _, a in value.args] if isinstance(value, Construct) else ()
    for item in inner:
        _check_value(where, item, depth + 1)


def _anything(value: Any) -> str:
    return ""


def why_not(arg: Arg) -> str:
    """Why a Name or Construct stands for none of ttnn's or torch's constants and configs; empty where it does."""
    if isinstance(arg, Name):
        known = arg.text == "device" or _known_constant(arg.text)
        return "" if known else f"names {arg.text[:80]!r}, which is no constant or config of ttnn or torch"
    if isinstance(arg, Construct):
        return _why_no_config(arg) or next(filter(None, (why_not(inner) for _, inner in arg.args)), "")
    return next(filter(None, map(why_not, arg)), "") if isinstance(arg, tuple) else ""


def _why_no_config(config: Construct) -> str:
    if config.name not in _classes():
        return f"makes {config.name[:80]!r}, which is no constant or config of ttnn or torch"
    if (takes := PAIRS.get(config.name.removeprefix("ttnn."))) and not _is_pair(config, takes):
        return f"makes {config.name} of other than two {'corners' if takes is Construct else 'numbers of cores'}"
    names = [name for name, _ in config.args]
    by_name = names[len(config.by_place) :]
    plain = all(name.isidentifier() and not keyword.iskeyword(name) for name in by_name)
    return (
        "" if plain and len(set(by_name)) == len(by_name) else f"makes {config.name} with arguments that have no names"
    )


def _is_pair(config: Construct, kind: type) -> bool:
    values = [value for _, value in config.args]
    if len(values) != 2 or any(type(value) is not kind for value in values):
        return False
    return all(v.name == "ttnn.CoreCoord" if isinstance(v, Construct) else v in range(MAX_CORES) for v in values)


def _known_constant(text: str) -> bool:
    root, _, rest = text.partition(".")
    if root == "torch":
        return isinstance(getattr(torch, rest, None), (torch.dtype, torch.memory_format, torch.layout))
    if root != "ttnn":
        return False
    kind, _, member = rest.partition(".")
    return rest in TTNN_NAMES or member in enums().get(kind, ())


@functools.cache
def _classes() -> frozenset[str]:
    return frozenset(f"ttnn.{name}" for name in (*constructors(), *PLAIN_CONSTRUCTORS))


KINDS: Mapping[type, Callable[[Any], str]] = {
    Ref: _anything,  # the verifier knows which values there are
    tuple: _anything,  # its items are checked each by its own kind
    type(None): _anything,
    bool: _anything,
    float: _anything,
    complex: _anything,
    int: lambda value: "" if -(1 << 63) <= value < 1 << 63 else "has more than 64 bits",
    str: lambda value: "" if len(value) <= 1000 else "is too long",
    Name: why_not,
    Construct: _why_no_config,  # its arguments are checked each by its own kind
}
"""Every kind of value that an attribute may have -> why one of that kind is refused, or nothing."""


def _check(holds: bool, why: str) -> None:
    if not holds:
        raise UsageError(f"{why}.")


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:200]}"
