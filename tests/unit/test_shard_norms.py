"""Normalisations in block shards: more cores, less modelled time, the same numbers."""

from __future__ import annotations

import runpy

import pytest
import torch
from torch import nn

import proveout
from proveout.chip.specs import CHIPS
from proveout.compiler.program_passes.shard_norms import block_memory
from proveout.engine.snapshot import save_calls
from proveout.report.script import write_script
from proveout.types import DRAM, TensorSpec


class Norms(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(768), nn.LayerNorm(768)

    def forward(self, x, y):
        return self.second(self.first(x) + y)


def compiled(sharding, shape=(1, 128, 768)):
    torch.manual_seed(0)
    torch._dynamo.reset()
    settings = {"precision": "bfloat16", "sharding": sharding, "trace": True}
    inputs = torch.randn(shape), torch.randn(shape)
    return proveout.compile(Norms().eval(), inputs, settings=settings), inputs


def test_a_norm_is_cut_over_the_cores_and_its_writer_makes_the_shards():
    program = compiled("norms")[0].program
    norms = [s for s in program.body if s.kernel == "ttnn.layer_norm"]
    grids = [program.specs[s.outputs[0]].memory.shard.grid for s in norms]
    assert grids == [(8, 4), (8, 4)]
    assert "ttnn.CoreCoord(8, 4)" in str(norms[0].attr("program_config"))
    moves = [s for s in program.body if s.kernel == "ttnn.to_memory_config"]
    assert len(moves) == 3, "in and out for the first, only out for the second: the addition writes shards"


@pytest.mark.slow
def test_sharded_norms_are_quicker_and_give_the_same_numbers():
    plain, inputs = compiled("interleaved")
    sharded, _ = compiled("norms")
    assert sharded.plan.total_ns < 0.75 * plain.plan.total_ns
    assert torch.equal(plain(*inputs), sharded(*inputs))


def test_a_row_of_tiles_need_not_be_full_but_columns_must():
    cut, inputs = compiled("norms", (1, 100, 768))
    assert [s for s in cut.program.body if s.kernel == "ttnn.to_memory_config"]
    assert torch.equal(cut(*inputs), compiled("interleaved", (1, 100, 768))[0](*inputs))
    uneven = TensorSpec((1, 100, 760), "bfloat16", "tile", DRAM)
    assert block_memory(uneven, CHIPS["n150"]) is None


def test_the_parts_of_a_norm_of_one_token_are_one_norm_in_shards():
    """Interleaved it would run on one core, slower than its parts."""

    class Rms(torch.nn.Module):
        def forward(self, x):
            return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5)

    x = torch.randn(1, 1, 3072)
    kernels = {}
    for sharding in ("interleaved", "norms"):
        settings = {"precision": "bfloat16", "sharding": sharding, "trace": True}
        made = proveout.compile(Rms(), x, settings=settings)
        kernels[sharding] = [s.kernel for s in made.program.body]
        assert torch.allclose(made(x), Rms()(x), atol=0.05)
    assert "ttnn.rms_norm" not in kernels["interleaved"]
    assert "ttnn.rms_norm" in kernels["norms"]
    assert "ttnn.mean" not in kernels["norms"]


def test_the_eager_face_takes_the_sharded_calls(tmp_path, capsys):
    model, inputs = compiled("norms")
    (folder,) = save_calls(model, inputs, {}, tmp_path)
    runpy.run_path(str(write_script(folder)), run_name="__main__")
    assert "as compiled" in capsys.readouterr().out
