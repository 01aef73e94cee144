"""Convolutions leave their results in shards, activations run inside, means are taken channels last: where it pays."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

import proveout
from proveout.chip.specs import CHIPS
from proveout.engine.compiled import Compiled
from proveout.kernels.accept import load_program
from proveout.kernels.cost import memory_use, step_device_ops
from proveout.types import Memory, Settings, ShardSpec


class Residual(nn.Module):
    """Two convolutions beside one of 1 x 1, and a head."""

    def __init__(self, channels: int = 64) -> None:
        super().__init__()
        self.inner = nn.Sequential(
            nn.Conv2d(channels, channels, 3, padding=1), nn.ReLU(), nn.Conv2d(channels, 2 * channels, 1)
        )
        self.beside = nn.Conv2d(channels, 2 * channels, 1)
        self.after = nn.Conv2d(2 * channels, channels, 1)

    def forward(self, x):
        return self.after(torch.relu(self.inner(x) + self.beside(x))).mean((2, 3))


def compiled(batch: int = 4, side: int = 28, **settings: object) -> tuple[Compiled, torch.Tensor]:
    torch.manual_seed(0)
    torch._dynamo.reset()
    model, x = Residual().eval(), torch.randn(batch, 64, side, side)
    chosen = {"precision": "bfloat16", "trace": True, **settings}
    return proveout.compile(model, x, device="sim:n150", settings=chosen), x


def in_shards(model: Compiled) -> list[str]:
    program = model.program
    return [s.kernel for s in program.body for n in s.outputs if program.specs[n].memory.sharding != "interleaved"]


def test_a_chain_of_convolutions_stays_in_shards_and_gives_the_same_numbers():
    cut, x = compiled()
    apart, _ = compiled(sharding="interleaved")
    assert not in_shards(apart)
    assert {"ttnn.conv2d", "ttnn.add"} <= set(in_shards(cut))
    assert cut.plan.total_ns < 0.8 * apart.plan.total_ns
    assert torch.equal(cut(x), apart(x))


def test_the_calls_survive_saving_and_are_accepted_when_they_are_loaded(tmp_path):
    program = compiled()[0].program
    assert str(load_program(program.save(tmp_path))) == str(program)


def test_what_dispatch_hides_is_left_alone():
    """Without a trace each of these calls takes the host's time, so that nothing would be gained."""
    small, _ = compiled(batch=1, side=7, trace=False)
    assert not in_shards(small)


@pytest.mark.parametrize("batch", [4, 64])
def test_everything_still_fits(batch):
    with torch.device("meta"):
        model, x = Residual().eval(), torch.empty(batch, 64, 56, 56)
    torch._dynamo.reset()
    settings = {"precision": "bfloat16", "trace": True}
    planned = proveout.compile(model, x, device="sim:n150", settings=settings, dry_run=True)
    use = memory_use(planned.program, CHIPS["n150"], Settings(precision="bfloat16", trace=True))
    assert use.fits, use.peak_at
    assert [s.kernel for s in planned.program.body].count("ttnn.to_torch") == 1, "nothing waits in the host's memory"


def test_activations_run_inside_convolutions_and_sums():
    model, x = compiled()
    kernels = [s.kernel for s in model.program.body]
    assert "ttnn.relu" not in kernels
    assert "UnaryOpType.RELU" in str([s.attr("conv_config") for s in model.program.body if s.kernel == "ttnn.conv2d"])
    assert "UnaryOpType.RELU" in str([s.attr("activations") for s in model.program.body if s.kernel == "ttnn.add"])
    torch.manual_seed(0)
    exact = Residual().eval()
    assert (model(x) - exact(x)).abs().max() < 0.02


def test_a_mean_over_pixels_is_taken_channels_last():
    model, _ = compiled()
    (mean,) = [s for s in model.program.body if s.kernel == "ttnn.mean"]
    assert model.program.specs[mean.uses[0]].shape == (4, 1, 28 * 28, 64)
    turned = [s.attr("dims") for s in model.program.body if s.kernel == "ttnn.permute"]
    assert (0, 3, 1, 2) not in turned


def test_a_window_of_one_pixel_between_two_kinds_of_shards_is_charged_for_the_way():
    model, _ = compiled()
    program, chip = model.program, CHIPS["n150"]
    (step, *_) = [
        s
        for s in program.body
        if s.kernel == "ttnn.conv2d"
        and s.attr("kernel_size") == (1, 1)
        and all(program.specs[n].memory.sharding == "height" for n in (s.uses[0], *s.outputs))
    ]
    block = replace(program.specs[step.uses[0]], memory=Memory("l1", "block", ShardSpec((416, 32), (2, 8))))
    families = [
        [op.family for op in step_device_ops(step, specs, chip, Settings())]
        for specs in (program.specs, {**program.specs, step.uses[0]: block})
    ]
    assert "reshard" not in families[0]
    assert "reshard" in families[1]
