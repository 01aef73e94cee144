"""The device that calls real ttnn: what can be shown without it, and the rest where it can be imported."""

from __future__ import annotations

import importlib.util
import os
import types

import pytest
import torch

import proveout
from proveout import ttnn as face
from proveout.chip.specs import CHIPS
from proveout.devices.registry import MOCK, devices, find
from proveout.devices.ttnn import OnTtnn, made
from proveout.engine.backend import Capture
from proveout.errors import DeviceError, EnvironmentFault, UsageError
from proveout.program import Construct, Name

HAS_TTNN = importlib.util.find_spec("ttnn") is not None


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.linear, self.norm = torch.nn.Linear(32, 64), torch.nn.LayerNorm(64)

    def forward(self, x):
        return torch.softmax(self.norm(torch.nn.functional.gelu(self.linear(x))), -1)


X = torch.randn(8, 32, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def program():
    torch._dynamo.reset()
    return proveout.compile(Block().eval(), X)


@pytest.fixture
def on_face(program):
    """The same calls, with the embedded chip's own face in the place of ttnn."""
    handle = face.open_device(device_id=0)
    loaded = OnTtnn(program.program, types.SimpleNamespace(ttnn=face, handle=handle))
    yield loaded
    face.close_device(handle)


NAMES = ("linear.weight", "linear.bias", "norm.weight", "norm.bias")


def test_every_step_is_the_call_it_names(program, on_face):
    parameters = dict(program.model.named_parameters())
    on_face.set_weights({w: parameters[n] for w, n in zip(program.program.weights, NAMES, strict=True)})
    result = on_face.run([X])
    torch.testing.assert_close(result.outputs[0], program(X))
    assert result.num_transfers == program.program.num_transfers


def test_new_weights_are_sent_again(program, on_face):
    parameters = dict(program.model.named_parameters())
    names = dict(
        zip(program.program.weights, ("linear.weight", "linear.bias", "norm.weight", "norm.bias"), strict=True)
    )
    on_face.set_weights({w: parameters[n] for w, n in names.items()})
    on_face.run([X])
    with torch.no_grad():
        program.model.linear.weight.mul_(2)
    (changed,) = [w for w, n in names.items() if n == "linear.weight"]
    on_face.set_weights({changed: program.model.linear.weight})
    torch.testing.assert_close(on_face.run([X]).outputs[0], program.model(X).detach(), rtol=1e-3, atol=1e-5)


class Cache(torch.nn.Module):
    """Writes a row of its buffer at every call, and reads all of it."""

    def __init__(self):
        super().__init__()
        self.register_buffer("kept", torch.zeros(4, 32))

    def forward(self, x, where):
        self.kept[where] = x
        return self.kept * 2.0


def test_buffers_that_calls_write_to_stay_there():
    torch._dynamo.reset()
    handle = face.open_device(device_id=0)
    module = types.SimpleNamespace(ttnn=face, handle=handle)
    device = types.SimpleNamespace(
        name="sim:n150", spec=CHIPS["n150"], load=lambda program, settings: OnTtnn(program, module)
    )
    ours, theirs = Cache().eval(), Cache().eval()
    capture = Capture.of(device, {"precision": "bfloat16"}, keep=True)
    function = torch.compile(ours, backend=capture)
    with torch.no_grad():
        for row in (0, 2, 1):
            x, where = torch.full((1, 32), row + 1.0), torch.tensor([row])
            assert torch.equal(function(x, where), theirs(x, where))
            assert torch.equal(ours.kept, theirs.kept)
        ours.kept.zero_(), theirs.kept.zero_()
        assert torch.equal(function(x, where), theirs(x, where)), "a user's own write is seen"
    assert any(graph.program.state for graph in capture.compiled)


def test_names_are_looked_up_and_configurations_are_made():
    scope = {"ttnn": types.SimpleNamespace(bfloat16="b", ShardSpec=lambda *a, **k: (a, k)), "device": "d"}
    assert made(Name("ttnn.bfloat16"), scope) == "b"
    assert made(Construct.of("ttnn.ShardSpec", Name("device"), dim=-1, on=True, grid=(8, 8)), scope) == (
        ("d",),
        {"dim": -1, "on": True, "grid": [8, 8]},
    )


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').getcwd()",
        "1 + 1",
        "lambda: 0",
        "torch.load",
        "ttnn.load_tensor",
        "ttnn.__class__",
        "",
    ],
)
@pytest.mark.parametrize("kind", [Name, Construct])
def test_nothing_else_is_run(kind, text):
    with pytest.raises(DeviceError, match="which is no constant or config"):
        made(kind(text), {"ttnn": None})


def test_a_mock_has_no_times():
    times = {name: info.times for name, info in devices().items() if name.startswith("ttnn")}
    assert times == {"ttnn": "measured", "ttnn:mock-n150": "none", "ttnn:mock-p150": "none"}


def test_nothing_is_measured_on_a_mock_before_any_work(monkeypatch):
    monkeypatch.setattr("proveout.measure.benchmarking.check_device", lambda name: name)
    with pytest.raises(UsageError, match="computes nothing, so it has no times"):
        proveout.benchmark(Block(), X, device_type="ttnn:mock-n150", duration=0.1, verbosity=0)


@pytest.mark.skipif(HAS_TTNN, reason="ttnn is installed here")
def test_without_the_package_it_says_so():
    with pytest.raises(EnvironmentFault, match=r"'ttnn' cannot be used here: the package ttnn is not installed"):
        find("ttnn")
    assert {"ttnn", "ttnn:mock-n150", "ttnn:mock-p150"} <= devices().keys()


@pytest.mark.skipif(not HAS_TTNN, reason="needs the package ttnn, which has no wheel for this Python")
@pytest.mark.skipif(MOCK not in os.environ, reason="needs ttnn's mock chip")
def test_a_model_runs_on_the_mock_chip():
    compiled = proveout.compile(Block().eval(), X, device="ttnn:mock-n150")
    assert compiled(X).shape == (8, 64)
