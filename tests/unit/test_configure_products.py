"""Products with a program config: the bias inside, less modelled time, the same numbers."""

from __future__ import annotations

import runpy

import torch
from torch import nn

import proveout
from proveout.chip.matmul import Product
from proveout.chip.program_config import spread
from proveout.chip.specs import CHIPS
from proveout.compiler.program_passes.configure_products import config_of
from proveout.engine.snapshot import save_calls
from proveout.kernels.accept import load_program
from proveout.program import Construct
from proveout.report.script import write_script


def compiled(products):
    torch.manual_seed(0)
    torch._dynamo.reset()
    model = nn.Sequential(nn.Linear(768, 768), nn.Tanh(), nn.Linear(768, 256, bias=False)).eval()
    inputs = (torch.randn(128, 768),)
    settings = {"precision": "bfloat16", "products": products, "trace": True}
    return proveout.compile(model, inputs, settings=settings), inputs


def test_products_get_configs_that_are_quicker():
    plain, inputs = compiled("default")
    configured, _ = compiled("configured")
    texts = [s.attr("program_config") for s in configured.program.body if s.kernel in ("ttnn.linear", "ttnn.matmul")]
    assert "per_core_M=1, per_core_N=3, transpose_mcast=False" in str(texts[0])
    assert texts[1] is None, "no bias, and ttnn's own choice is as quick"
    assert configured.plan.total_ns < plain.plan.total_ns
    assert torch.equal(plain(*inputs), configured(*inputs))


def test_the_eager_face_takes_the_configured_calls(tmp_path, capsys):
    model, inputs = compiled("configured")
    (folder,) = save_calls(model, inputs, {}, tmp_path)
    runpy.run_path(str(write_script(folder)), run_name="__main__")
    assert "as compiled" in capsys.readouterr().out


def test_every_config_survives_saving_and_is_accepted_when_it_is_loaded(tmp_path):
    """Of products, of sharded norms and their memories, and of convolutions with packed weights."""
    torch.manual_seed(0)
    torch._dynamo.reset()
    convolution = nn.Sequential(nn.Conv2d(32, 768, 1), nn.Flatten(2)).eval()
    rows = nn.Sequential(nn.LayerNorm(768), nn.Linear(768, 768)).eval()
    model = nn.Sequential(convolution, Turned(), rows)
    settings = {"precision": "bfloat16", "products": "configured", "sharding": "norms", "weights": "bfloat8_b"}
    program = proveout.compile(model, torch.randn(1, 32, 8, 16), settings={**settings, "trace": True}).program
    made = {arg.name for step in program.steps for _, arg in step.attrs if isinstance(arg, Construct)}
    assert {"ttnn.MemoryConfig", "ttnn.LayerNormShardedMultiCoreProgramConfig", "ttnn.Conv2dConfig"} < made
    assert any("Matmul" in name for name in made)
    loaded = load_program(program.save(tmp_path))
    assert (loaded, str(loaded)) == (program, str(program))


class Turned(nn.Module):
    def forward(self, x):
        return x.transpose(1, 2)


def test_narrow_products_are_cut_along_one_side():
    chip = CHIPS["n150"]
    wide = Product(1, 24, 128, 1, "bfloat16", "bfloat16", "bfloat16", 2, True, False, True)
    tall = Product(128, 24, 1, 1, "bfloat16", "bfloat16", "bfloat16", 2, True, False, True)
    assert str(config_of(spread(wide, chip), chip)).endswith("fuse_batch=True, mcast_in0=True)")
    assert str(config_of(spread(tall, chip), chip)).endswith("fuse_batch=True, mcast_in0=False)")
