"""Normalisations in block shards: more cores, less modelled time, the same numbers."""

from __future__ import annotations

import runpy

import pytest
import torch
from torch import nn

import proveout
from proveout.engine.snapshot import save_calls
from proveout.report.script import write_script


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


def test_what_fills_no_whole_tiles_stays_interleaved():
    program = compiled("norms", (1, 100, 768))[0].program
    assert not [s for s in program.body if s.kernel == "ttnn.to_memory_config"]


def test_the_eager_face_takes_the_sharded_calls(tmp_path, capsys):
    model, inputs = compiled("norms")
    (folder,) = save_calls(model, inputs, {}, tmp_path)
    runpy.run_path(str(write_script(folder)), run_name="__main__")
    assert "as compiled" in capsys.readouterr().out
