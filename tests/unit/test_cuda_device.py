"""The device `cuda` on a GPU: four modes with the same numbers, weights that change, models that live on the GPU."""

from __future__ import annotations

import pytest
import torch
from test_cuda_rewrite import Images, Layer
from torch import nn

import proveout
from proveout.devices.cuda.choose import Choices

pytestmark = pytest.mark.cuda
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no NVIDIA GPU in this machine")
MODES = {"none": {}, "trace": {"trace": True}, "2cq": {"queues": 2}, "trace+2cq": {"trace": True, "queues": 2}}


def close(given: torch.Tensor, expected: torch.Tensor) -> bool:
    return float((given.float() - expected.float()).norm() / expected.float().norm()) < 0.02


@needs_gpu
@pytest.mark.parametrize("device", ["cuda", "cuda:eager"])
def test_the_four_modes_give_the_same_bits(device: str) -> None:
    for model, x in ((Layer(), torch.randn(1, 40, 128)), (Images(), torch.randn(1, 3, 16, 16))):
        model, inputs = model.eval().bfloat16(), [x.bfloat16(), (x * 0.5).bfloat16(), x.bfloat16()]
        expected = [model(t) for t in inputs]
        made = {}
        for name, settings in MODES.items():
            compiled = proveout.compile(model, inputs[0], device=device, settings=settings)
            made[name] = [compiled(t) for t in inputs]
        for name, outputs in made.items():
            assert all(torch.equal(a, b) for a, b in zip(outputs, made["none"])), name
            assert all(close(a, b) for a, b in zip(outputs, expected)), name


@needs_gpu
def test_a_weight_that_changes_is_seen_by_a_captured_graph() -> None:
    model, x = nn.Linear(64, 64).eval().bfloat16(), torch.randn(8, 64).bfloat16()
    compiled = proveout.compile(model, x, device="cuda:eager", settings={"trace": True})
    compiled(x)
    with torch.no_grad():
        model.weight.mul_(2)
    assert close(compiled(x), model(x))


@needs_gpu
def test_torch_compile_of_a_model_on_the_gpu() -> None:
    model, x = Layer().eval().bfloat16().cuda(), torch.randn(1, 40, 128).bfloat16().cuda()
    compiled = torch.compile(model, backend="proveout", options={"device": "cuda"})
    with torch.no_grad():
        made = compiled(x)
        assert made.is_cuda
        assert close(made, model(x))


@needs_gpu
def test_float32_is_not_rounded_to_anything_else() -> None:
    model, x = Layer().eval(), torch.randn(1, 40, 128)
    made = proveout.compile(model, x, device="cuda")(x)
    assert float((made - model(x)).norm() / made.norm()) < 1e-5


def test_choices_are_kept_and_another_gpu_does_not_see_them(tmp_path: object) -> None:
    path = tmp_path / "choices.json"
    candidates = [("library", {}), ("product", {"BM": 64})]
    Choices("one", path, shipped=path).put("call", candidates[1], {"library": 2.0, "product BM64": 1.0})
    assert Choices("one", path, shipped=path).get("call", candidates) == candidates[1]
    assert Choices("one", path, shipped=path).get("call", candidates[:1]) is None
    assert Choices("another", path, shipped=path).get("call", candidates) is None
