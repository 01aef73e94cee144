"""The fixed parts of `ttnn_model.py` and `tests/test_modules.py`."""

HEAD = '''"""{name} in ttnn: a class for each torch module, layers that are alike sharing one. Edit it as you like.

{optimised}
{sizes}

Written by `proveout bringup`; the tensors beside it are the model's own, by the names that torch has for them.
`python ttnn_model.py` runs it and compares with what the compiled model gave; `pytest tests` checks each module.
On Tenstorrent hardware change the import to `import ttnn`.
"""

import sys
from pathlib import Path

import torch
from safetensors.torch import load_file

from proveout import ttnn

inf, nan = float("inf"), float("nan")
{compute}

class Module:
    """A part of the model. `tap`, where it is set, sees what each part gives: that is how tests look inside."""

    tap = None

    def __call__(self, *given):
        results = self.forward(*given)
        if Module.tap is not None:
            Module.tap(self, tuple(results) if isinstance(results, (tuple, list)) else (results,))
        return results


class Model(Module):
    """A whole graph: inputs are sent, the device computes, outputs are taken back."""

    def forward(self, *inputs):
        return self.receive(*self.compute(*self.send(*inputs)))


def at(path, name):
    return f"{{path}}.{{name}}" if path else name


def up(path, levels):
    return ".".join(path.split(".")[:-levels])


def part_of(model, path):
    """The part at a path such as layers.0.attention."""
    for name in path.split("."):
        model = model[int(name)] if name.isdigit() else getattr(model, name)
    return model


{sized}def load():
    return load_file(Path(__file__).with_name("ttnn_model.safetensors"))


def open_device(**options):
    return ttnn.open_device(device_id=0, l1_small_size=16384{options}, **options)

{given}
'''

READ_SIZES = """The batch is read from the inputs: `python ttnn_model.py --copies 2` runs it on twice the batch.
Other sizes (sequence, image) are those of the example's inputs."""
FIXED_SIZES = "Its sizes are those of the example's inputs: another batch needs another bring-up."
AT_SHAPE = '''def at_shape(tensor, shape, option):
    """A placement that was chosen for one shape; tensors of another get ttnn's own choice."""
    return option if list(tensor.shape) == shape else None


'''
AT_BATCH = '''def at_batch(constant, value, dim):
    """A constant that was made for the example's batch, repeated where the value's batch is larger."""
    times = value.shape[dim] // constant.shape[dim]
    return ttnn.repeat(constant, [times if i == dim else 1 for i in range(len(value.shape))]) if times > 1 else constant


'''

COMPUTE = "\nCOMPUTE = ttnn.WormholeComputeKernelConfig(math_fidelity=ttnn.MathFidelity.{fidelity})\n"

OUTPUTS = '''def outputs_of(values):
    """What the graph gives, in the form that torch's model gives it."""
    return {form}


'''

TAIL = '''


GRAPHS = [{graphs}]
"""In the order in which one call of the model runs them."""


{outputs}def inputs_of(number, tensors):
    found = {{int(k.rsplit(".", 1)[1]): t for k, t in tensors.items() if k.startswith(f"graph{{number}}.input.")}}
    return [found[i] for i in sorted(found)]


def repeated(tensor, batch, copies):
    """The tensor with its batch that many times over; others as they are."""
    return torch.cat([tensor] * copies) if copies > 1 and tensor.shape[:1] == (batch,) else tensor


def main(copies=1):
    device, tensors = open_device(), load()
    for number, graph in enumerate(GRAPHS):
        model, inputs = graph(device, tensors), inputs_of(number, tensors)
        batch = next((t.shape[0] for t in inputs if t.dim()), 0)
        for index, value in enumerate(model(*(repeated(t, batch, copies) for t in inputs))):
            wanted = tensors.get(f"graph{{number}}.output.{{index}}")
            if wanted is not None:
                wanted = repeated(wanted, batch, copies)
                torch.testing.assert_close(value, wanted, rtol=1.6e-2, atol=1e-5, equal_nan=True)
                print(f"graph {{number}}, output {{index}}: {{tuple(value.shape)}} {{value.dtype}} as compiled")
    ttnn.close_device(device)


if __name__ == "__main__":
    main(int(sys.argv[2]) if sys.argv[1:2] == ["--copies"] else 1)
'''

MEMORIES = '{"dram": ttnn.DRAM_MEMORY_CONFIG, "l1": ttnn.L1_MEMORY_CONFIG}'

TESTS = '''"""Module tests of {name}: every part of ttnn_model.py against float32, alone and after the parts before it.

Written by `proveout bringup`. Plain pytest; it needs the package and nothing else. The inputs are the model's own
intermediate values; references are torch's module outputs ("torch") or the same calls in float32 ("float32").
"""

import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from proveout import ttnn

sys.path.insert(0, str(Path(__file__).parents[1]))
import ttnn_model  # noqa: E402

LEAST = {least}
"""Lowest PCC that passes: the model's."""


@dataclass(frozen=True)
class V:
    """A value: its name among the saved ones, and how it lies on the device."""

    name: str
    dtype: object
    layout: object
    place: str


@dataclass(frozen=True)
class Tested:
    graph: int
    attribute: str
    takes: list
    gives: list
    against: str
    off: str = ""
    least: float = LEAST
    """Another for a module that the formats of optimise.md bring below the model's; the whole model keeps that."""


MODULES = [
{rows}
]
VALUES = load_file(Path(__file__).with_name("modules.safetensors"))
PLACES = {memories}


def pcc(found, wanted):
    """Pearson's correlation; where one side is constant it is undefined, and closeness decides."""
    finite = torch.isfinite(wanted)
    a, b = found.reshape(wanted.shape)[finite].double(), wanted[finite].double()
    scale = (a - a.mean()).norm() * (b - b.mean()).norm() if len(a) else 0
    if not scale:
        return 1.0 if torch.allclose(a, b, rtol=2e-2, atol=1e-3 * float(b.abs().max()) if len(b) else 0) else 0.0
    return float(((a - a.mean()) @ (b - b.mean())) / scale)


def send(value, device):
    tensor = VALUES[value.name]
    if value.dtype is None:
        return tensor
    if value.place == "host":
        return ttnn.from_torch(tensor, dtype=value.dtype, layout=value.layout)
    return ttnn.from_torch(
        tensor, dtype=value.dtype, layout=value.layout, device=device, memory_config=PLACES[value.place]
    )


def host(result):
    return result if isinstance(result, torch.Tensor) else ttnn.to_torch(result)


def check(results, tested):
    for found, name in zip(results, tested.gives):
        wanted = VALUES[name]
        if wanted.is_floating_point():
            assert pcc(found, wanted) >= tested.least, f"PCC {{pcc(found, wanted):.6f}}"
        else:
            assert torch.equal(found.reshape(wanted.shape).to(wanted.dtype), wanted)


@pytest.fixture(scope="module")
def models():
    device, tensors = ttnn_model.open_device(), ttnn_model.load()
    yield device, [graph(device, tensors) for graph in ttnn_model.GRAPHS], tensors
    ttnn.close_device(device)


@pytest.fixture(scope="module")
def whole(models):
    """What every part gave in one run of each whole graph."""
    _, graphs, tensors = models
    seen = {{}}
    ttnn_model.Module.tap = lambda module, results: seen.__setitem__(id(module), [host(r).clone() for r in results])
    try:
        for number, graph in enumerate(graphs):
            graph(*ttnn_model.inputs_of(number, tensors))
    finally:
        ttnn_model.Module.tap = None
    return seen


def part(graphs, tested):
    return ttnn_model.part_of(graphs[tested.graph], tested.attribute)


def cases():
    for tested in MODULES:
        marks = [pytest.mark.xfail(reason=tested.off)] if tested.off else []
        yield pytest.param(tested, id=f"{{tested.attribute}}-{{tested.against}}", marks=marks)


@pytest.mark.parametrize("tested", cases())
def test_isolated(models, tested):
    device, graphs, _ = models
    results = part(graphs, tested)(*(send(value, device) for value in tested.takes))
    check([host(r) for r in (results if isinstance(results, tuple) else (results,))], tested)


@pytest.mark.parametrize("tested", cases())
def test_accumulated(models, whole, tested):
    check(whole[id(part(models[1], tested))], tested)
'''
