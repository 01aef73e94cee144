"""The narrow waist: a Program is two flat, frozen lists of Steps, and a Step is a call that real ttnn accepts.

`setup` depends on weights and constants alone and runs again when one of them changes; `body` runs at every call.
What the body writes to is `state`: it is on the device before the first call and stays there.
A value is either torch's (inputs, weights, constants, results of ATen Steps and of `ttnn.to_torch`) or ttnn's
(results of ttnn Steps); the two meet only in `ttnn.from_torch` and `ttnn.to_torch`. `ttnn.from_device` and
`ttnn.to_device` move ttnn's own tensors between the chip and the host's memory.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, Protocol, TypeVar, Union

import safetensors

from proveout.coding import from_json, plain_bytes, read_json, to_json
from proveout.errors import UsageError
from proveout.types import DeviceSpec, Origin, Settings, TensorSpec

SCHEMA = 4
READS = (3, SCHEMA)
"""3 wrote configs as text: of its Programs, those without one are read."""
T = TypeVar("T")
MAX_DEPTH = 32
"""How deep a saved argument may be nested."""
FROM_TORCH, TO_TORCH, DEALLOCATE = "ttnn.from_torch", "ttnn.to_torch", "ttnn.deallocate"
FROM_DEVICE, TO_DEVICE = "ttnn.from_device", "ttnn.to_device"


@dataclass(frozen=True)
class Ref:
    """A use of a value."""

    name: str

    def __str__(self) -> str:
        return f"%{self.name}"


@dataclass(frozen=True)
class Name:
    """A constant known by its Python name: `ttnn.bfloat16`, `ttnn.TILE_LAYOUT`, `torch.int64`, `device`."""

    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Construct:
    """An object that is made from arguments, `ttnn.Conv2dConfig(weights_dtype=ttnn.bfloat8_b)`: prints as that code.

    It says how a call is made, and holds no value of the Program."""

    name: str
    args: tuple[tuple[str, Arg], ...] = ()
    """By name; those that go by place come first and have an empty one."""

    @staticmethod
    def of(name: str, *by_place: Arg, **by_name: Arg) -> Construct:
        return Construct(name, (*(("", arg) for arg in by_place), *by_name.items()))

    def __str__(self) -> str:
        return f"{self.name}({', '.join(f'{k}={code(v)}' if k else code(v) for k, v in self.args)})"

    def __getitem__(self, place: int) -> Arg:
        return self.by_place[place]

    @property
    def by_place(self) -> tuple[Arg, ...]:
        return tuple(arg for name, arg in self.args if not name)

    @property
    def by_name(self) -> dict[str, Arg]:
        return {name: arg for name, arg in self.args if name}

    def inside(self, name: str) -> Iterator[Construct]:
        """Every Construct of this name in its arguments, however deep."""
        for _, arg in self.args:
            for one in arg if isinstance(arg, tuple) else (arg,):
                if isinstance(one, Construct):
                    yield from (one,) if one.name == name else one.inside(name)


Scalar = None | bool | int | float | complex | str
Arg = Union[Ref, Name, Construct, Scalar, tuple["Arg", ...]]  # noqa: UP007  (the forward reference forbids |)


def code(arg: Arg) -> str:
    """An argument that holds no value of a Program as Python; several are a list, as ttnn takes them."""
    if isinstance(arg, tuple):
        return f"[{', '.join(map(code, arg))}]"
    return str(arg) if isinstance(arg, (Name, Construct)) else repr(arg)


@dataclass(frozen=True)
class Step:
    """One call: the kernel's own name, its attributes by name, and the values it defines."""

    kernel: str
    attrs: tuple[tuple[str, Arg], ...]
    outputs: tuple[str, ...]
    origin: Origin = Origin()
    reason: str = ""
    """For a Step on the host: why no kernel serves it."""

    @property
    def on_host(self) -> bool:
        return not self.kernel.startswith("ttnn.")

    @property
    def is_transfer(self) -> bool:
        return self.kernel in (FROM_TORCH, TO_TORCH, FROM_DEVICE, TO_DEVICE)

    @functools.cached_property
    def uses(self) -> tuple[str, ...]:
        """The values this Step reads, in order, each once."""
        return tuple(dict.fromkeys(ref.name for _, arg in self.attrs for ref in refs(arg)))

    def attr(self, name: str, default: Arg = None) -> Arg:
        return dict(self.attrs).get(name, default)


@dataclass(frozen=True)
class Constant:
    """A tensor that is part of the Program itself, as raw little-endian bytes."""

    name: str
    data: bytes


@dataclass(frozen=True, eq=False)
class Program:
    """What the compiler gives and a device takes; see the module's docstring."""

    name: str
    target: Literal["ttnn", "torch"]
    inputs: tuple[str, ...]
    weights: tuple[str, ...]
    constants: tuple[Constant, ...]
    outputs: tuple[Arg, ...]
    setup: tuple[Step, ...]
    body: tuple[Step, ...]
    specs: Mapping[str, TensorSpec]
    chips: int = 1
    """How many chips run it, each the same Steps on its own piece; ttnn values' specs are those of one piece."""
    state: tuple[tuple[str, str], ...] = ()
    """(weight, value): what the body writes to. Its copy on the device is made once; after each call the value takes
    the copy's place, and the caller writes the same to the weight."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "specs", MappingProxyType(dict(self.specs)))

    @property
    def steps(self) -> tuple[Step, ...]:
        return self.setup + self.body

    @property
    def results(self) -> frozenset[str]:
        """The values that must be there when the body is done."""
        return frozenset((*(ref.name for ref in refs(self.outputs)), *(value for _, value in self.state)))

    @property
    def fixed(self) -> frozenset[str]:
        """Weights that no call changes, and constants: what depends on them alone may be made once."""
        given = {*self.weights, *(c.name for c in self.constants)}
        return frozenset(given.difference(weight for weight, _ in self.state))

    @property
    def num_transfers(self) -> int:
        """Transfers at every call."""
        return sum(step.is_transfer for step in self.body)

    @functools.cached_property
    def fingerprint(self) -> str:
        """The same on every machine for the same calls: source lines do not count, constants do."""
        payload = {**self.to_json(), "schema": READS[0]}  # how Programs are saved does not change what they are
        del payload["name"], payload["origins"]
        order = {name: f"{i}" for i, name in enumerate(self.specs)}
        for step in payload["setup"] + payload["body"]:
            step.pop("origin")
            step["outputs"] = [order[n] for n in step["outputs"]]
        for names in ("inputs", "weights", "constants"):
            payload[names] = [order[n] for n in payload[names]]
        payload["state"] = [[order[n] for n in pair] for pair in payload["state"]]
        payload["values"] = [[order[n], spec] for n, spec in payload["values"]]
        text = json.dumps(_rename(payload, order), sort_keys=True, separators=(",", ":"))
        seal = hashlib.sha256(text.encode())
        for constant in self.constants:
            seal.update(constant.data)
        return seal.hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Program) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return int(self.fingerprint[:15], 16)

    def __str__(self) -> str:
        where = f"{self.target} on {self.chips} chips" if self.chips > 1 else self.target
        lines = [f"program {self.name}  target {where}  {self.fingerprint[:12]}"]
        for title, names in (
            ("input", self.inputs),
            ("weight", self.weights),
            ("constant", tuple(c.name for c in self.constants)),
        ):
            lines += [f"  {title:8} %{n}: {self.specs[n]}" for n in names]
        for title, steps in (("setup", self.setup), ("body", self.body)):
            lines.append(f"{title}:")
            lines += [f"  {line}" for line in map(self.format, steps)]
        lines += [f"state %{weight} <- %{value}" for weight, value in self.state]
        lines.append(f"return {_format_arg(self.outputs)}")
        return "\n".join(lines)

    def format(self, step: Step) -> str:
        """One Step as a line of text."""
        attrs = ", ".join(f"{k}={_format_arg(v)}" for k, v in step.attrs)
        head = ", ".join(f"%{n}: {self.specs[n]}" for n in step.outputs)
        note = f"  # host: {step.reason}" if step.reason else f"  # {step.origin.module}" if step.origin.module else ""
        return f"{head + ' = ' if head else ''}{step.kernel}({attrs}){note}"

    def to_json(self) -> dict[str, Any]:
        """Specs and origins, which repeat a lot, are said once and referred to by position."""
        specs: dict[TensorSpec, int] = {}
        origins: dict[Origin, int] = {}

        def encode(step: Step) -> dict[str, Any]:
            return {
                "kernel": step.kernel,
                "attrs": [[k, _encode(v)] for k, v in step.attrs],
                "outputs": list(step.outputs),
                "origin": origins.setdefault(step.origin, len(origins)),
                "reason": step.reason,
            }

        return {
            "schema": SCHEMA,
            "name": self.name,
            "target": self.target,
            "chips": self.chips,
            "inputs": list(self.inputs),
            "weights": list(self.weights),
            "constants": [c.name for c in self.constants],
            "outputs": [_encode(o) for o in self.outputs],
            "setup": [encode(s) for s in self.setup],
            "body": [encode(s) for s in self.body],
            "state": [list(pair) for pair in self.state],
            "values": [[name, specs.setdefault(spec, len(specs))] for name, spec in self.specs.items()],
            "specs": [to_json(spec) for spec in specs],
            "origins": [to_json(origin) for origin in origins],
        }

    def save(self, folder: str | Path) -> Path:
        """Write `program.json` and `constants.safetensors` into a folder."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "program.json").write_text(json.dumps(self.to_json(), indent=1, allow_nan=False))
        from numpy import frombuffer, uint8
        from safetensors.numpy import save

        # Raw bytes: program.json holds dtypes and shapes, and safetensors knows fewer dtypes than torch.
        raw = {c.name: frombuffer(c.data, uint8) for c in self.constants}
        (folder / "constants.safetensors").write_bytes(save(raw))
        return folder

    @staticmethod
    def load(folder: str | Path) -> Program:
        """Read what `save` wrote. That its Steps make sense is `kernels.accept`'s to say."""
        path = Path(folder) / "program.json"
        try:
            data = read_json(path)
            read: Any = safetensors.deserialize
            raw = {name: bytes(value["data"]) for name, value in read(plain_bytes(_constants_of(path)))}
        except (OSError, ValueError, safetensors.SafetensorError) as error:
            raise UsageError(f"{folder} does not hold a saved Program: {error}.") from error
        found = data.get("schema") if isinstance(data, dict) else None
        if found not in READS or type(found) is not int:
            reads = " and ".join(map(str, READS))
            raise UsageError(f"{path} has schema {found!r}; this version reads {reads}. Compile the model again.")
        try:
            return Program.from_json(data, raw)
        except ValueError as error:
            raise UsageError(f"{folder} does not hold a saved Program: {error}.") from error

    @staticmethod
    def from_json(data: Any, raw: Mapping[str, bytes]) -> Program:
        """The inverse of `to_json`, given the constants' bytes; ValueError says what does not fit."""
        wire = from_json(_ProgramJson, data)
        specs, origins = wire.specs, wire.origins

        def decode(step: _StepJson) -> Step:
            attrs = tuple((k, _decode(v)) for k, v in step.attrs)
            return Step(step.kernel, attrs, step.outputs, _at(origins, step.origin, "origin"), step.reason)

        missing = [name for name in wire.constants if name not in raw]
        if missing:
            raise ValueError(f"constant {missing[0]!r} has no bytes")
        program = Program(
            name=wire.name,
            target=wire.target,
            inputs=wire.inputs,
            weights=wire.weights,
            constants=tuple(Constant(n, raw[n]) for n in wire.constants),
            outputs=tuple(_decode(o) for o in wire.outputs),
            setup=tuple(decode(s) for s in wire.setup),
            body=tuple(decode(s) for s in wire.body),
            specs={n: _at(specs, i, "spec") for n, i in wire.values},
            chips=wire.chips,
            state=wire.state,
        )
        for name in program.names():
            if name not in program.specs:
                raise ValueError(f"value {name!r} has no spec")
        return program

    def names(self) -> Iterator[str]:
        """Every value that is given, made, used or returned, as often as that happens."""
        yield from (*self.inputs, *self.weights, *(c.name for c in self.constants))
        for step in self.steps:
            yield from (*step.uses, *step.outputs)
        yield from (name for pair in self.state for name in pair)
        yield from (ref.name for ref in refs(self.outputs))


def _constants_of(path: Path) -> Path:
    return path.parent / "constants.safetensors"


@dataclass(frozen=True)
class _StepJson:
    """A Step as `program.json` has it."""

    kernel: str
    attrs: tuple[tuple[str, object], ...]
    outputs: tuple[str, ...]
    origin: int
    reason: str


@dataclass(frozen=True)
class _ProgramJson:
    """`program.json`; attributes' values are decoded by `_DECODE`."""

    schema: int
    name: str
    target: Literal["ttnn", "torch"]
    chips: int
    inputs: tuple[str, ...]
    weights: tuple[str, ...]
    constants: tuple[str, ...]
    outputs: tuple[object, ...]
    setup: tuple[_StepJson, ...]
    body: tuple[_StepJson, ...]
    state: tuple[tuple[str, str], ...]
    values: tuple[tuple[str, int], ...]
    specs: tuple[TensorSpec, ...]
    origins: tuple[Origin, ...]


def _at(values: Sequence[T], index: int, what: str) -> T:
    if not 0 <= index < len(values):
        raise ValueError(f"there is no {what} {index}")
    return values[index]


class Device(Protocol):
    """What runs Programs."""

    name: str
    spec: DeviceSpec | None

    def load(self, program: Program, settings: Settings) -> Loaded: ...
    def close(self) -> None: ...


class Loaded(Protocol):
    """A Program resident on a device. Tensors are torch's; this file does not need to know them."""

    program: Program

    def set_weights(self, weights: Mapping[str, Any]) -> None:
        """Give new tensors for some weights; the setup Steps that depend on them run again."""

    def drop_weights(self, names: Iterable[str]) -> None:
        """Forget some weights and what was made of them; they must be given again before the next run."""

    def holds_live(self, weight: str) -> bool:
        """Whether every use of a weight reads the live storage, so that a write in place is seen at once."""

    def value(self, name: str) -> Any:
        """A weight, a constant or a setup result as the device holds it."""

    def run_step(self, step: Step, values: Mapping[str, Any]) -> tuple[Any, ...]:
        """One Step of the Program on the values given by name, as the device computes it."""

    def run(self, inputs: Sequence[Any]) -> Result:
        """The body on these inputs. The state stays as it is until `advance`."""

    def advance(self, result: Result) -> None:
        """Let what a run left in the Program's state be what the next run finds."""


@dataclass(frozen=True)
class Result:
    """What one run gives: outputs as torch values, the transfers counted while it ran, modelled time where known."""

    outputs: list[Any]
    num_transfers: int
    modelled_ns: int | None = None
    state: tuple[Any, ...] = ()
    """The values of the Program's state, as the device holds them."""


Infer = Callable[[Step, Mapping[str, TensorSpec]], Sequence[TensorSpec]]


class InvalidProgram(AssertionError):
    """The verifier found a Program that breaks its own rules: a bug of ours."""


def verify(program: Program, infer: Infer | None = None) -> None:
    """Check that every value is defined once and before its use, that torch and ttnn meet only in transfers,
    that nothing is used after it was deallocated and, given `infer`, that specs are what the kernels' rules say."""
    torch_values = {*program.inputs, *program.weights, *(c.name for c in program.constants)}
    ttnn_values: set[str] = set()
    freed: set[str] = set()
    stable = set(program.fixed)
    written = {weight for weight, _ in program.state}

    def fail(step: Step, why: str) -> None:
        raise InvalidProgram(f"{why}: {step.kernel}({', '.join(step.uses)}) -> {', '.join(step.outputs)}")

    for name in torch_values:
        if name not in program.specs:
            raise InvalidProgram(f"{name} has no spec")
    for index, step in enumerate(program.steps):
        in_setup = index < len(program.setup)
        for name in step.uses:
            if name in freed:
                fail(step, f"%{name} is used after it was deallocated")
            if name not in torch_values | ttnn_values:
                fail(step, f"%{name} is used before it is defined")
            if in_setup and name not in stable and not (name in written and step.kernel == FROM_TORCH):
                fail(step, f"a setup Step depends on %{name}, which changes at every call")
            if program.target == "ttnn":
                wants_torch = step.on_host or step.kernel == FROM_TORCH
                if wants_torch and name not in torch_values:
                    fail(step, f"%{name} is ttnn's where torch's is needed; a ttnn.to_torch is missing")
                if not wants_torch and name not in ttnn_values:
                    fail(step, f"%{name} is torch's where ttnn's is needed; a ttnn.from_torch is missing")
        if step.kernel == DEALLOCATE:
            freed.update(step.uses)
        for name in step.outputs:
            if name in torch_values | ttnn_values:
                fail(step, f"%{name} is defined twice")
            if name not in program.specs:
                fail(step, f"%{name} has no spec")
            gives_torch = step.on_host or step.kernel == TO_TORCH or program.target == "torch"
            (torch_values if gives_torch else ttnn_values).add(name)
            if in_setup and written.isdisjoint(step.uses):
                stable.add(name)
        if infer is not None and not step.on_host and step.outputs:
            expected = tuple(infer(step, program.specs))
            found = tuple(program.specs[n] for n in step.outputs)
            if expected != found:
                fail(
                    step,
                    f"specs are {list(map(str, found))} where the kernel gives {list(map(str, expected))}",
                )
    for ref in refs(program.outputs):
        if ref.name not in torch_values:
            raise InvalidProgram(f"output %{ref.name} is not a torch value; a ttnn.to_torch is missing")
    for weight, value in program.state:
        if weight not in program.weights:
            raise InvalidProgram(f"state %{weight} is not a weight")
        if value not in ttnn_values or value in freed:
            raise InvalidProgram(f"state %{weight} needs %{value} on the device when the body is done")


def refs(arg: Arg) -> Iterator[Ref]:
    """All uses of values inside an argument."""
    if isinstance(arg, Ref):
        yield arg
    elif isinstance(arg, tuple):
        for item in arg:
            yield from refs(item)


def map_refs(arg: Arg, change: Callable[[Ref], Arg]) -> Arg:
    """The argument with every use replaced."""
    if isinstance(arg, Ref):
        return change(arg)
    return tuple(map_refs(a, change) for a in arg) if isinstance(arg, tuple) else arg


def with_refs(step: Step, change: Callable[[Ref], Arg]) -> Step:
    return replace(step, attrs=tuple((k, map_refs(v, change)) for k, v in step.attrs))


def _format_arg(arg: Arg) -> str:
    if isinstance(arg, tuple):
        return "(" + ", ".join(map(_format_arg, arg)) + ("," if len(arg) == 1 else "") + ")"
    return repr(arg) if isinstance(arg, str) else str(arg)


def _encode(arg: Arg) -> Any:
    if isinstance(arg, Ref):
        return {"ref": arg.name}
    if isinstance(arg, Name):
        return {"name": arg.text}
    if isinstance(arg, Construct):
        return {"construct": [arg.name, [[k, _encode(v)] for k, v in arg.args]]}
    if isinstance(arg, tuple):
        return [_encode(a) for a in arg]
    if isinstance(arg, float) and not math.isfinite(arg):
        return {"float": str(arg)}
    if isinstance(arg, complex):
        return {"complex": [str(arg.real), str(arg.imag)]}
    return arg


def _decode(data: Any, depth: int = 0) -> Arg:
    if depth > MAX_DEPTH:
        raise ValueError("an argument is nested too deeply")
    if isinstance(data, list):
        return tuple(_decode(d, depth + 1) for d in data)
    if not isinstance(data, dict):
        return data  # type: ignore[no-any-return]
    if len(data) != 1:
        raise ValueError(f"an argument is an object with the keys {sorted(data)}")
    ((kind, value),) = data.items()
    if kind not in _DECODE:
        raise ValueError(f"an argument is of the unknown kind {kind!r}")
    return _DECODE[kind](value, depth)


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is where a text belongs")
    return value


def _complex(value: Any) -> complex:
    if not isinstance(value, list) or len(value) != 2:
        raise ValueError(f"{value!r} is not a complex number")
    return complex(*(float(_string(part)) for part in value))


def _name(value: Any, depth: int) -> Name:
    if "(" in _string(value):
        raise ValueError(f"{value!r} is a config as text, as older versions saved it. Compile the model again")
    return Name(value)


def _construct(value: Any, depth: int) -> Construct:
    if not isinstance(value, list) or len(value) != 2 or not isinstance(value[1], list):
        raise ValueError(f"{value!r} is not a config")
    pairs = [pair if isinstance(pair, list) and len(pair) == 2 else (None, None) for pair in value[1]]
    return Construct(_string(value[0]), tuple((_string(key), _decode(arg, depth + 1)) for key, arg in pairs))


_DECODE: dict[str, Callable[[Any, int], Arg]] = {
    "ref": lambda value, depth: Ref(_string(value)),
    "name": _name,
    "construct": _construct,
    "float": lambda value, depth: float(_string(value)),
    "complex": lambda value, depth: _complex(value),
}
"""The kinds of values that JSON has no notation for, as `_encode` writes them."""


def _rename(data: Any, order: Mapping[str, str]) -> Any:
    """Uses replaced by their value's position, so that a fingerprint does not depend on how values are called."""
    if isinstance(data, dict):
        if set(data) == {"ref"}:
            return {"ref": order[data["ref"]]}
        if set(data) == {"construct"}:
            return {"name": str(_decode(data))}  # as its text was once kept: what was compiled keeps its fingerprint
        return {k: _rename(v, order) for k, v in data.items()}
    if isinstance(data, list):
        return [_rename(v, order) for v in data]
    return data
