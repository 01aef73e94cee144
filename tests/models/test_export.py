"""Exported scripts run by themselves and give what the compiled model gave."""

from __future__ import annotations

import runpy

import pytest
import torch

import proveout
from proveout.engine.backend import Capture
from proveout.engine.snapshot import save_call, save_calls
from proveout.program import Ref
from proveout.report.script import write_script


def test_a_script_that_computes_something_else_says_so(tmp_path):
    torch._dynamo.reset()
    compiled = proveout.compile(torch.nn.GELU(), (torch.randn(4, 8),))
    (folder,) = save_calls(compiled, (torch.randn(4, 8),), {}, tmp_path)
    script = write_script(folder)
    script.write_text(
        script.read_text().replace("ttnn.gelu(", "ttnn.relu(").replace(", variant=ttnn.GeluVariant.Accurate", "")
    )
    with pytest.raises(AssertionError, match="not close"):
        runpy.run_path(str(script), run_name="__main__")


def lists(x):
    first, *_ = torch.split(x.double(), 4)
    (whole,) = torch.split(x.double(), 8)
    return first.float() + whole[:4].float()


def unused_member(x):
    return torch.topk(x.double(), 2)[1], x + 1


def all_members(x):
    values, indices = torch.sort(x.double())
    return values.float(), indices


def convolution_gradients(mask):
    def gradients(x):
        image, weight = x.double().reshape(1, 1, 8, 8), torch.ones(1, 1, 3, 3, dtype=torch.float64)
        grad = torch.ones(1, 1, 6, 6, dtype=torch.float64) * image.sum()
        return torch.ops.aten.convolution_backward(
            grad, image, weight, [1], [1, 1], [0, 0], [1, 1], False, [0, 0], 1, mask
        )

    return gradients


def nothing_but_an_effect(x):
    torch._assert_async((x.double() > -100).all(), "no large negative number")
    return x + 1


@pytest.mark.parametrize(
    ("function", "given"),
    [
        (lists, False),
        (unused_member, False),
        (all_members, False),
        (convolution_gradients([True, True, True]), False),
        (convolution_gradients([True, False, True]), True),
        (convolution_gradients([False, False, True]), True),
        (nothing_but_an_effect, False),
    ],
    ids=["lists", "an unused member", "all members", "all gradients", "two of three", "one of three", "no output"],
)
def test_host_ops_that_give_several_values_or_none_are_exported(function, given, tmp_path, capsys):
    class Model(torch.nn.Module):
        def forward(self, x):
            return function(x)

    torch._dynamo.reset()
    torch.manual_seed(0)
    x = torch.rand(8, 8)
    compiled = proveout.compile(Model().eval(), (x,))
    assert any(step.on_host for step in compiled.program.body)
    (folder,) = save_calls(compiled, (x,), {}, tmp_path)
    script = write_script(folder)
    assert ("def given" in script.read_text()) == given
    runpy.run_path(str(script), run_name="__main__")
    assert "as compiled" in capsys.readouterr().out


def test_a_training_models_forward_is_exported_with_what_it_saves(tmp_path, capsys):
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.LayerNorm(16), torch.nn.GELU()).train()
    x = torch.randn(4, 16)
    compiled = proveout.compile(model, (x,))
    (folder,) = save_calls(compiled, (x,), {}, tmp_path)
    runpy.run_path(str(write_script(folder)), run_name="__main__")
    assert capsys.readouterr().out.count("as compiled") == sum(isinstance(o, Ref) for o in compiled.program.outputs) > 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["device", "host"])
def test_the_backward_of_a_training_step_is_exported(dtype, tmp_path, capsys):
    torch._dynamo.reset()
    torch.manual_seed(0)
    capture = Capture.of("sim", keep=True)
    step = torch.compile(torch.nn.Conv2d(2, 4, 3, bias=False, dtype=dtype), backend=capture)
    x = torch.randn(2, 2, 8, 8, dtype=dtype, requires_grad=True)
    step(x).square().sum().backward()
    folders = []
    for graph in capture.graphs:
        graph.on_run = lambda variant, arguments: folders.append(
            save_call(variant, arguments, tmp_path / variant.compiled.program.name)
        )
    step(x).square().sum().backward()
    assert [f.name.rpartition("_")[2] for f in folders] == ["forward", "backward"]
    for folder in folders:
        runpy.run_path(str(write_script(folder)), run_name="__main__")
    assert capsys.readouterr().out.count("as compiled") >= 3
    on_host = dtype == torch.float64
    assert ("given(" in (folders[1] / "model.py").read_text()) == on_host, "no gradient of a bias that is not there"
