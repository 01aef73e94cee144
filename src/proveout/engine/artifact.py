"""A compiled model as a folder: its Program, its weights and how a call's arguments and outputs map to them.

What comes back needs neither the model's code nor a compiler: JSON and safetensors, never pickle.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import load_file, save_file
from torch.utils._pytree import TreeSpec, tree_flatten, tree_unflatten, treespec_dumps, treespec_loads

from proveout.coding import from_json, to_json
from proveout.devices.registry import find, open_device
from proveout.engine.graph import Variant
from proveout.errors import DeviceError, UsageError
from proveout.program import Program
from proveout.types import Settings

if TYPE_CHECKING:
    from proveout.engine.compiled import Compiled

SCHEMA = 1
HEAD, WEIGHTS, PROGRAM = "compiled.json", "weights.safetensors", "program"


def save(compiled: Compiled, path: str | Path) -> Path:
    """Leave the compiled model in a folder of this name; one that is there already is replaced."""
    from proveout.engine.compiled import undisturbed

    path = Path(path)
    if path.exists() and not (path / HEAD).exists():
        raise UsageError(f"{path} exists and is no saved model: choose another name.")
    args, kwargs = compiled.example
    ran: list[tuple[Variant, Sequence[Any]]] = []
    with undisturbed(compiled.model, (args, kwargs)):
        with compiled.watching(lambda variant, arguments: ran.append((variant, list(arguments)))):
            outputs = compiled(*args, **kwargs)
        if len(ran) != 1 or len(compiled.graphs) != 1:
            raise UsageError(
                f"the model has {len(compiled.graphs)} graphs; only one that is captured whole can be saved. "
                "See its coverage for where it breaks."
            )
        ((variant, arguments),) = ran
        head, weights = _described(compiled, variant, arguments, (args, kwargs), outputs)
    path.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=".saving-", dir=path.parent))
    try:
        variant.compiled.program.save(folder / PROGRAM)
        save_file(weights, folder / WEIGHTS)
        (folder / HEAD).write_text(json.dumps(head, indent=1))
        shutil.rmtree(path, ignore_errors=True)
        folder.chmod(0o755)
        folder.rename(path)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return path


def _described(
    compiled: Compiled, variant: Variant, arguments: Sequence[Any], call: Any, outputs: Any
) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    program = variant.compiled.program
    if program.state:
        raise UsageError("the model writes to its own buffers; only one without such state can be saved.")
    leaves, structure = tree_flatten(call)
    positions = []
    for name, position in zip(program.inputs, variant.compiled.input_positions):
        found = next((i for i, leaf in enumerate(leaves) if _same_tensor(leaf, arguments[position])), None)
        if found is None:
            raise UsageError(f"input {name} of the Program is none of the call's arguments: the model cannot be saved.")
        positions.append(found)
    loaded = variant.ready(arguments)
    given = loaded.run([arguments[i] for i in variant.compiled.input_positions]).outputs
    results, result_structure = tree_flatten(outputs)
    sources = [_source(result, given, leaves) for result in results]
    head = {
        "schema": SCHEMA,
        "device": compiled.device,
        "settings": to_json(compiled.settings),
        "inputs": positions,
        "arguments": _text(structure),
        "outputs": sources,
        "results": _text(result_structure),
    }
    values = {name: loaded.value(name) for name in program.weights}
    return head, {n: v.detach().clone(memory_format=torch.contiguous_format) for n, v in values.items()}


def _source(result: Any, given: Sequence[Any], leaves: Sequence[Any]) -> tuple[str, Any]:
    """Where an output comes from: an argument that is handed back, a result of the Program, or a plain value."""
    for kind, values, same in (("argument", leaves, _same_tensor), ("program", given, _equal)):
        found = next((i for i, value in enumerate(values) if same(value, result)), None)
        if found is not None:
            return kind, found
    if result is None or isinstance(result, (bool, int, float, str)):
        return "value", result
    raise UsageError("an output of the model is made outside its Program: the model cannot be saved.")


class Saved:
    """A compiled model that was loaded from its folder."""

    def __init__(self, folder: Path, head: Mapping[str, Any]) -> None:
        self.device = str(head["device"])
        self.settings = from_json(Settings, head["settings"])
        self.program = Program.load(folder / PROGRAM)
        self.modelled_ns: int | None = None
        self.modelled = find(self.device).times == "modelled"
        self._inputs, self._outputs = list(head["inputs"]), list(head["outputs"])
        self._arguments, self._results = treespec_loads(head["arguments"]), treespec_loads(head["results"])
        self._loaded = open_device(self.device).load(self.program, self.settings)
        self._loaded.set_weights(load_file(folder / WEIGHTS))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves, structure = tree_flatten((args, kwargs))
        if structure != self._arguments:
            raise DeviceError(f"the saved model takes {self._arguments}; this call gives {structure}.")
        inputs = [leaves[i] for i in self._inputs]
        for name, value in zip(self.program.inputs, inputs):
            shape = self.program.specs[name].shape
            if tuple(value.shape) != tuple(shape):
                raise DeviceError(f"input {name} has shape {tuple(value.shape)}; the model was compiled for {shape}.")
        with torch.no_grad():
            result = self._loaded.run(inputs)
        self.modelled_ns = result.modelled_ns
        holders = {"program": result.outputs, "argument": leaves}
        values = [holders[kind][at] if kind in holders else at for kind, at in self._outputs]
        return tree_unflatten(values, self._results)


def load_compiled(path: str | Path) -> Saved:
    """The compiled model that `Compiled.save` left there."""
    folder = Path(path)
    if not (folder / HEAD).exists():
        raise UsageError(f"{folder} is no saved model: there is no {HEAD} in it.")
    head = json.loads((folder / HEAD).read_text())
    if head.get("schema") != SCHEMA:
        raise UsageError(f"{folder} has schema {head.get('schema')}; this version reads {SCHEMA}. Compile it again.")
    return Saved(folder, head)


def device_of(path: str | Path) -> str:
    """The device that a saved model was compiled for."""
    return str(json.loads((Path(path) / HEAD).read_text())["device"])


def _same_tensor(a: Any, b: Any) -> bool:
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
        return False
    return a is b or (a.data_ptr() == b.data_ptr() and a.shape == b.shape and a.stride() == b.stride())


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        return a.dtype == b.dtype and a.shape == b.shape and torch.equal(a.nan_to_num(), b.nan_to_num())
    return type(a) is type(b) and bool(a == b)


def _text(structure: TreeSpec) -> str:
    try:
        return str(treespec_dumps(structure))
    except NotImplementedError as error:
        raise UsageError(f"the call's arguments or outputs cannot be written down: {error}") from error
