"""A compiled model as a folder: its Program, its weights, how a call's arguments and outputs map to them, and one call
with its outputs, which loading makes again.

What comes back needs neither the model's code nor a compiler: JSON and safetensors, never pickle. All of it is checked
before anything runs: a folder is a stranger's word.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch.utils._pytree import tree_flatten, tree_unflatten

from proveout.arguments import Ref
from proveout.coding import check_plain, from_json, json_value, read_json, to_json
from proveout.devices.registry import find, kept_device
from proveout.engine import structure
from proveout.engine.artifact_head import Head, OutputSource, source_of
from proveout.engine.compiled import Compiled, undisturbed
from proveout.engine.graph import Variant
from proveout.engine.views import seen_as, with_strides
from proveout.errors import DeviceError, ProveoutError, UsageError
from proveout.kernels.accept import NAMESPACES, load_program, shortened
from proveout.kernels.table import torch_dtype
from proveout.types import Settings

SCHEMA = 4
HEAD, WEIGHTS, PROGRAM, REFERENCE = "compiled.json", "weights.safetensors", "program", "reference.safetensors"
FILES = frozenset({HEAD, WEIGHTS, PROGRAM, REFERENCE})
TOLERANCE = 0.01
"""How far outputs may lie from the reference, as a part of its size: another machine's torch rounds differently."""
PLAIN = (bool, int, float, str)


def save(compiled: Compiled, path: str | Path) -> Path:
    """Leave the compiled model in a folder of this name; one that is there already is replaced."""
    path = Path(path)
    if path.exists() and not ({HEAD, PROGRAM} <= {p.name for p in path.iterdir()} if path.is_dir() else False):
        raise UsageError(f"{path} exists and is no saved model: choose another name.")
    args, kwargs = compiled.example
    with undisturbed(compiled.model, (args, kwargs)):
        head, weights, reference = _described(compiled, args, kwargs)
    program = head[1].compiled.program
    path.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=".saving-", dir=path.parent))
    try:
        program.save(folder / PROGRAM)
        save_file(weights, folder / WEIGHTS)
        _write_reference(reference, folder / REFERENCE)
        (folder / HEAD).write_text(json.dumps(to_json(head[0]), indent=1))
        shutil.rmtree(path, ignore_errors=True)
        folder.chmod(0o755)
        folder.rename(path)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return path


Tensors = dict[str, torch.Tensor]
Reference = dict[str, Any]
"""A call's arguments and outputs by their places, tensors and plain values, and how both are nested."""


def _write_reference(reference: Reference, path: Path) -> None:
    plain = {name: value for name, value in reference.items() if not isinstance(value, torch.Tensor)}
    save_file({n: v for n, v in reference.items() if n not in plain}, path, {"plain": json.dumps(to_json(plain))})


def _read_reference(path: Path) -> Reference:
    with safe_open(check_plain(path), "pt") as file:
        plain = json_value((file.metadata() or {}).get("plain", "").encode())
        if not isinstance(plain, dict):
            raise ValueError(f"{REFERENCE} has no plain values")
        return {**plain, **{name: file.get_tensor(name) for name in sorted(file.keys())}}


def _described(compiled: Compiled, args: Sequence[Any], kwargs: Any) -> tuple[tuple[Head, Variant], Tensors, Reference]:
    """The call is made with tensors that share nothing, so that each input and output has one place of its own: what
    is matched is where a tensor lies, never what it holds. What they hold is the reference."""
    leaves, arguments = tree_flatten((tuple(args), dict(kwargs)))
    leaves = _told_apart(leaves)
    given_args, given_kwargs = tree_unflatten(leaves, arguments)
    compiled(*given_args, **given_kwargs)  # equal arguments were one input until now: those are compiled apart
    ran: list[tuple[Variant, Sequence[Any]]] = []
    gave: list[Sequence[Any]] = []
    with _seeded(), compiled.watching(lambda variant, call: ran.append((variant, list(call))), gave.append):
        outputs = compiled(*given_args, **given_kwargs)
    if len(ran) != 1:
        raise UsageError(
            f"the model has {len(ran)} graphs; only one that is captured whole can be saved. "
            "See its coverage for where it breaks."
        )
    ((variant, call),) = ran
    program = variant.compiled.program
    if program.state or compiled.writes(variant):
        raise UsageError("the model writes to its own buffers or arguments; only one without state can be saved.")
    constants = []
    for index, leaf in enumerate(leaves):
        if not isinstance(leaf, torch.Tensor):
            if not _is_plain(leaf):
                raise UsageError(f"an argument is {_told(leaf)}; tensors and plain values can be saved.")
            constants.append((index, leaf))
    inputs = []
    for name, position in zip(program.inputs, variant.compiled.input_positions):
        position_of = next((i for i, leaf in enumerate(leaves) if _same_place(leaf, call[position])), None)
        if position_of is None:
            raise UsageError(f"input {name} of the Program is none of the call's arguments: the model cannot be saved.")
        inputs.append(position_of)
    weights = {name: call[position] for name, position in zip(program.weights, variant.compiled.weight_positions)}
    results, result_structure = tree_flatten(outputs)
    for result in results:
        if not isinstance(result, torch.Tensor) and not _is_plain(result):
            raise UsageError(f"an output is {_told(result)}; tensors and plain values can be saved.")
    holders: dict[str, dict[Any, Any]] = {
        "argument": dict(enumerate(leaves)),
        "program": dict(enumerate(gave[0])),
        "weight": weights,
    }
    head = Head(
        schema=SCHEMA,
        program=program.fingerprint,
        device=compiled.device,
        settings=compiled.settings,
        arguments=structure.encode(arguments),
        results=structure.encode(result_structure),
        inputs=tuple(inputs),
        constants=tuple(constants),
        outputs=tuple(source_of(result, holders) for result in results),
        strides=tuple(tuple(o.stride()) if isinstance(o, torch.Tensor) else None for o in gave[0]),
    )
    reference = {f"argument {i}": _stored(leaf) for i, leaf in enumerate(leaves)}
    reference |= {f"output {i}": _stored(result) for i, result in enumerate(results)}
    reference |= {"arguments": head.arguments, "results": head.results}
    return (head, variant), {n: _stored(v) for n, v in weights.items()}, reference


def _told_apart(leaves: Sequence[Any]) -> list[Any]:
    """Copies that share nothing, by whose numbers loading sees which is which: a tensor of equal numbers moves towards
    others, and what equals an earlier one has its numbers in another order."""
    copies: list[Any] = []
    for index, leaf in enumerate(leaves):
        if not isinstance(leaf, torch.Tensor):
            copies.append(leaf)
            continue
        copy = leaf.detach().clone()
        if copy.numel() > 1 and copy.is_floating_point() and bool((copy == copy.flatten()[0]).all()):
            numbers = torch.rand(copy.shape, generator=torch.Generator().manual_seed(index))
            copy += (numbers.to(copy) - copy) / 4
        elif turns := sum(_equal(leaf, earlier) for earlier in leaves[:index]):
            copy.copy_(copy.flatten().roll(turns).view(copy.shape))
        copies.append(copy.requires_grad_(leaf.requires_grad))
    return copies


def _equal(a: torch.Tensor, b: Any) -> bool:
    return isinstance(b, torch.Tensor) and (a.dtype, a.device) == (b.dtype, b.device) and torch.equal(a, b)


def _is_plain(value: Any) -> bool:
    """Whether a value that is no tensor can be written and is the same when it is read: no infinity, no 65 bits."""
    if value is not None and type(value) not in PLAIN:
        return False
    try:
        return bool(json_value(json.dumps(to_json(value)).encode()) == value)
    except ValueError:
        return False


def _told(value: Any) -> str:
    return repr(value) if isinstance(value, int | float) else f"a {type(value).__name__}"


def _stored(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    return value.detach().resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format)


def _same_place(a: Any, b: Any) -> bool:
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
        return False
    return a is b or (
        a.numel() > 0 and a.data_ptr() == b.data_ptr() and a.shape == b.shape and a.stride() == b.stride()
    )


def _in_order_of(shape: Any, value: Any) -> Any:
    """The same value, its dictionaries' entries in another's order: names count, not places."""
    if type(shape) is not type(value):
        return value
    if isinstance(shape, dict) and shape.keys() == value.keys():
        return {key: _in_order_of(part, value[key]) for key, part in shape.items()}
    if isinstance(shape, tuple | list) and len(shape) == len(value):
        return type(value)(_in_order_of(*parts) for parts in zip(shape, value))
    return value


class Saved:
    """A compiled model that was loaded from its folder and gave there what it gave when it was saved."""

    def __init__(self, folder: Path, head: Head, namespaces: frozenset[str]) -> None:
        self.device, self.settings = head.device, head.settings
        self.program = load_program(folder / PROGRAM, namespaces)
        self.modelled_ns: int | None = None
        self.modelled = find(self.device).times == "modelled"
        self._head = head
        self._arguments, self._results = structure.decode(head.arguments), structure.decode(head.results)
        self._check_head()
        weights = load_file(check_plain(folder / WEIGHTS))
        self._check_weights(weights)
        self._weights = weights
        with _own_words("cannot be put on its device"):
            self._loaded = kept_device(self.device).load(self.program, self.settings)
            self._loaded.set_weights(weights)
        self._check_reference(_read_reference(folder / REFERENCE))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        shape = tree_unflatten(range(self._arguments.num_leaves), self._arguments)
        leaves, structure = tree_flatten(_in_order_of(shape, (args, kwargs)))
        if structure != self._arguments:
            raise DeviceError(f"the saved model takes {self._arguments}; this call gives {structure}.")
        for index, wanted in self._head.constants:
            if type(leaves[index]) is not type(wanted) or leaves[index] != wanted:
                raise DeviceError(f"argument {index} is {leaves[index]!r}; the model was compiled for {wanted!r}.")
        inputs = [leaves[i] for i in self._head.inputs]
        for name, value in zip(self.program.inputs, inputs):
            self._check_input(name, value)
        with torch.no_grad(), _own_words("cannot run"):
            result = self._loaded.run(inputs)
            outputs = [self._output(source, leaves, result.outputs) for source in self._head.outputs]
        self.modelled_ns = result.modelled_ns
        return tree_unflatten(outputs, self._results)

    @property
    def has_host_part(self) -> bool:
        """Whether a call leaves anything to the host."""
        return any(step.on_host for step in self.program.body)

    def _check_input(self, name: str, value: Any) -> None:
        spec = self.program.specs[name]
        if not isinstance(value, torch.Tensor):
            raise DeviceError(f"input {name} is a {type(value).__name__}; the model was compiled for a tensor.")
        if tuple(value.shape) != spec.shape:
            raise DeviceError(f"input {name} has shape {tuple(value.shape)}; the model was compiled for {spec.shape}.")
        if value.dtype != torch_dtype(spec.dtype):
            raise DeviceError(f"input {name} is {value.dtype}; the model was compiled for torch.{spec.dtype}.")

    def _output(self, source: OutputSource, leaves: Sequence[Any], outputs: Sequence[Any]) -> Any:
        match source.kind:
            case "value":
                return source.value
            case "argument":
                base = leaves[source.index]
            case "weight":
                base = self._weights[source.name]
            case "program":
                base = with_strides(outputs[source.index], self._head.strides[source.index])
        return base if source.view is None else seen_as(base, source.view)

    def _check_head(self) -> None:
        """Every position that the head names is there."""
        head, num_leaves = self._head, self._arguments.num_leaves
        sizes = {"argument": num_leaves, "program": len(self.program.outputs)}
        places = [*head.inputs, *(index for index, _ in head.constants)]
        fits = (
            head.program == self.program.fingerprint
            and len(head.inputs) == len(self.program.inputs)
            and len(head.outputs) == self._results.num_leaves
            and len(head.strides) == len(self.program.outputs)
            and not self.program.state
            and all(0 <= i < num_leaves for i in places)
            and all(0 <= s.index < sizes[s.kind] for s in head.outputs if s.kind in sizes)
            and all(s.name in self.program.weights for s in head.outputs if s.kind == "weight")
            and all(
                v is None or type(v) in PLAIN
                for v in (*(s.value for s in head.outputs), *dict(head.constants).values())
            )
        )
        if not fits:
            raise ValueError(f"{HEAD} does not fit the Program")

    def _check_weights(self, weights: Tensors) -> None:
        for name in self.program.weights:
            spec = self.program.specs[name]
            weight = weights.get(name)
            if weight is None or tuple(weight.shape) != spec.shape or weight.dtype != torch_dtype(spec.dtype):
                raise ValueError(f"weight {name!r} is missing or is not {spec}")
        if strange := weights.keys() - set(self.program.weights):
            raise ValueError(f"{WEIGHTS} holds {min(strange)!r}, which the Program does not know")

    def _check_reference(self, reference: Reference) -> None:
        """Make the saved call again: a model that gives something else now is not handed out."""
        for part in ("arguments", "results"):
            if reference.get(part) != getattr(self._head, part):
                raise UsageError(f"its {part} are not nested as when it was saved.")
        leaves = [reference.get(f"argument {i}") for i in range(self._arguments.num_leaves)]
        constants = dict(self._head.constants)
        for index, leaf in enumerate(leaves):
            if not isinstance(leaf, torch.Tensor) and index not in constants:
                raise UsageError(f"argument {index} is {leaf!r}, and nothing says that the model was compiled for it.")
        args, kwargs = tree_unflatten(leaves, self._arguments)
        with _seeded():
            outputs = tree_flatten(self(*args, **kwargs))[0]
        for index, output in enumerate(outputs):
            if not self._is_alike(index, output, reference.get(f"output {index}")):
                raise UsageError(f"output {index} is not what the model gave when it was saved.")

    def _is_alike(self, index: int, output: Any, wanted: Any) -> bool:
        if not isinstance(output, torch.Tensor) or not isinstance(wanted, torch.Tensor):
            return type(output) is type(wanted) and bool(output == wanted)
        if (output.dtype, output.shape) != (wanted.dtype, wanted.shape):  # before anything is made of their size
            return False
        return alike(self._as_computed(index, output), self._as_computed(index, wanted))

    def _as_computed(self, index: int, output: torch.Tensor) -> torch.Tensor:
        """Floats that are looked at as integers, as the floats they are: their last bits may differ from run to run."""
        source = self._head.outputs[index]
        name = self.program.outputs[source.index] if source.kind == "program" and source.view else None
        if not isinstance(name, Ref) or output.is_floating_point() or output.is_complex():
            return output
        dtype = torch_dtype(self.program.specs[name.name].dtype)
        try:
            return output.contiguous().view(dtype) if dtype.is_floating_point else output
        except RuntimeError:  # a part of a number
            return output


def alike(output: torch.Tensor, wanted: torch.Tensor) -> bool:
    """Whether two outputs are the same but for another machine's rounding."""
    if output.dtype != wanted.dtype or output.shape != wanted.shape:
        return False
    if not (output.is_floating_point() or output.is_complex()):
        return output.numel() == 0 or float((output != wanted).float().mean()) <= TOLERANCE
    wide = torch.complex128 if output.is_complex() else torch.float64
    a, b = (
        torch.nan_to_num(torch.view_as_real(v.to(wide)) if v.is_complex() else v.to(wide)) for v in (output, wanted)
    )
    return bool((a - b).norm() <= TOLERANCE * b.norm() + 1e-6)


@contextlib.contextmanager
def _seeded() -> Iterator[None]:
    """The same random numbers when a call is saved and when it is checked."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


@contextlib.contextmanager
def _own_words(what: str) -> Iterator[None]:
    """What a stranger's Program raises in torch is about the folder, not about the caller's code."""
    try:
        yield
    except ProveoutError:
        raise
    except Exception as error:
        line = (str(error).splitlines() or [""])[0][:200]
        raise DeviceError(f"the saved model {what}: {type(error).__name__}: {line}.") from error


def load_compiled(path: str | Path, namespaces: Sequence[str] = ()) -> Saved:
    """The compiled model that `Compiled.save` left there. Ops of other libraries than PyTorch's own run only where
    their namespace is named."""
    folder = Path(path)
    head = _head(folder)
    try:
        return Saved(folder, head, NAMESPACES | frozenset(namespaces))
    except (OSError, ValueError, SafetensorError, DeviceError) as error:
        raise UsageError(f"{folder} cannot be used: {shortened(error).rstrip('.')}. Save the model again.") from error


def _head(folder: Path) -> Head:
    if not (folder / HEAD).exists():
        raise UsageError(f"{folder} is no saved model: there is no {HEAD} in it.")
    try:
        data = read_json(folder / HEAD)
        schema = data.get("schema") if isinstance(data, dict) else None
        if type(schema) is not int or schema != SCHEMA:
            raise UsageError(f"{folder} has schema {schema!r}; this version reads {SCHEMA}. Compile and save it again.")
        return from_json(Head, data)
    except UsageError:
        raise
    except (OSError, ValueError) as error:
        raise UsageError(f"{folder} cannot be used: {shortened(error)}. Save the model again.") from error


def device_of(path: str | Path) -> str:
    """The device that a saved model was compiled for."""
    return _head(Path(path)).device


def settings_of(path: str | Path) -> Settings:
    """The settings that a saved model was compiled with."""
    return _head(Path(path)).settings
