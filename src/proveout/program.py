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
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, Protocol, TypeVar

import safetensors

from proveout.arguments import (
    Arg,
    Construct,
    Name,
    Ref,
    Scalar,
    arg_from_json,
    arg_to_json,
    code,
    format_arg,
    map_refs,
    refs,
    renamed,
)  # fmt: skip
from proveout.coding import from_json, plain_bytes, read_json, to_json
from proveout.errors import UsageError
from proveout.types import DeviceSpec, Origin, Settings, TensorSpec

SCHEMA = 4
READS = (3, SCHEMA)
"""3 wrote configs as text: of its Programs, those without one are read."""
T = TypeVar("T")
FROM_TORCH, TO_TORCH, DEALLOCATE = "ttnn.from_torch", "ttnn.to_torch", "ttnn.deallocate"
FROM_DEVICE, TO_DEVICE = "ttnn.from_device", "ttnn.to_device"


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

    def with_attrs(self, /, **changed: Arg) -> Step:
        """The same call with some attributes changed, each in its place; new ones come last."""
        return replace(self, attrs=tuple({**dict(self.attrs), **changed}.items()))

    def without(self, attr: str) -> Step:
        """The same call with this attribute left to its default."""
        return replace(self, attrs=tuple((k, v) for k, v in self.attrs if k != attr))


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
    the copy's place, and the caller writes the same to the weight, unless that lives on the device alone."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "specs", MappingProxyType(dict(self.specs)))

    @property
    def steps(self) -> tuple[Step, ...]:
        return self.setup + self.body

    @property
    def resident(self) -> tuple[str, ...]:
        """What the body reads that is neither an input nor its own: weights, constants and results of setup."""
        own = {n for s in self.body for n in s.outputs} | set(self.inputs)
        reads = [*(n for s in self.body for n in s.uses), *(r.name for r in refs(self.outputs))]
        reads += [value for _, value in self.state]
        return tuple(dict.fromkeys(n for n in reads if n not in own))

    @property
    def results(self) -> frozenset[str]:
        """The values that must be there when the body is done."""
        return frozenset((*(ref.name for ref in refs(self.outputs)), *(value for _, value in self.state)))

    @property
    def fixed(self) -> frozenset[str]:
        """Weights that no call changes, and constants: what depends on them alone may be made once."""
        names = {*self.weights, *(c.name for c in self.constants)}
        return frozenset(names.difference(weight for weight, _ in self.state))

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
        text = json.dumps(renamed(payload, order), sort_keys=True, separators=(",", ":"))
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
        lines.append(f"return {format_arg(self.outputs)}")
        return "\n".join(lines)

    def format(self, step: Step) -> str:
        """One Step as a line of text."""
        attrs = ", ".join(f"{k}={format_arg(v)}" for k, v in step.attrs)
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
                "attrs": [[k, arg_to_json(v)] for k, v in step.attrs],
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
            "outputs": [arg_to_json(o) for o in self.outputs],
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
            data = read_json(path, bits=None)
            read: Any = safetensors.deserialize
            raw = {name: bytes(value["data"]) for name, value in read(plain_bytes(_constants_of(path)))}
        except (OSError, ValueError, safetensors.SafetensorError) as error:
            raise UsageError(f"{folder} does not hold a saved Program: {error}.") from error
        schema = data.get("schema") if isinstance(data, dict) else None
        if schema not in READS or type(schema) is not int:
            reads = " and ".join(map(str, READS))
            raise UsageError(f"{path} has schema {schema!r}; this version reads {reads}. Compile the model again.")
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
            attrs = tuple((k, arg_from_json(v)) for k, v in step.attrs)
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
            outputs=tuple(arg_from_json(o) for o in wire.outputs),
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
    """`program.json`; attributes' values are read by `arguments.arg_from_json`."""

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
        """A weight, a constant or a result of setup that the body reads, as the device holds it."""

    def run_step(self, step: Step, values: Mapping[str, Any]) -> tuple[Any, ...]:
        """One Step of the Program on the values given by name, as the device computes it."""

    def run(self, inputs: Sequence[Any]) -> Result:
        """The body on these inputs. The state stays as it is until `keep`."""

    def keep(self, state: Mapping[str, Any]) -> None:
        """Let these be what the next run finds of the Program's state, by weight: as a run of this Program left
        them, or of another one on the same device."""


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
            declared = tuple(program.specs[n] for n in step.outputs)
            if expected != declared:
                fail(
                    step,
                    f"specs are {list(map(str, declared))} where the kernel gives {list(map(str, expected))}",
                )
    for ref in refs(program.outputs):
        if ref.name not in torch_values:
            raise InvalidProgram(f"output %{ref.name} is not a torch value; a ttnn.to_torch is missing")
    for weight, value in program.state:
        if weight not in program.weights:
            raise InvalidProgram(f"state %{weight} is not a weight")
        if value not in ttnn_values or value in freed:
            raise InvalidProgram(f"state %{weight} needs %{value} on the device when the body is done")


def free_name(name: str, taken: Container[str]) -> str:
    """The name of a new value, with strokes where there is one of that name."""
    while name in taken:
        name += "_"
    return name


def with_refs(step: Step, change: Callable[[Ref], Arg]) -> Step:
    return replace(step, attrs=tuple((k, map_refs(v, change)) for k, v in step.attrs))


__all__ = [
    "Arg", "Constant", "Construct", "DEALLOCATE", "Device", "FROM_DEVICE", "FROM_TORCH", "Infer", "InvalidProgram",
    "Loaded", "Name", "Program", "READS", "Ref", "Result", "SCHEMA", "Scalar", "Step", "TO_DEVICE", "TO_TORCH",
    "code", "map_refs", "refs", "verify", "with_refs",
]  # fmt: skip
