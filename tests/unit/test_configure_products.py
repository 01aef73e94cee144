"""Products with a program config: the bias inside, less modelled time, the same numbers."""

from __future__ import annotations

import runpy
from dataclasses import replace

import pytest
import torch
from torch import nn

import proveout
from proveout.chip.features import product_of
from proveout.chip.matmul import Product
from proveout.chip.program_config import cuts
from proveout.chip.specs import CHIPS
from proveout.compiler.program_passes.configure_products import config_of
from proveout.engine.snapshot import save_calls
from proveout.kernels.accept import load_program
from proveout.kernels.cost import step_device_ops, step_time
from proveout.kernels.table import kernels, refusal, specs_of
from proveout.program import Construct, Ref
from proveout.report.script import write_script
from proveout.types import Settings


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
    assert "in0_block_w=12" in str(texts[0]), "fewer steps along K than ttnn's own two tiles"
    assert configured.plan.total_ns < plain.plan.total_ns
    assert torch.equal(plain(*inputs), configured(*inputs))


def test_the_config_is_the_quickest_of_all_cuts_and_beats_ttnns_own_choice():
    model, _ = compiled("configured")
    program, chip = model.program, CHIPS["n150"]
    (step, *_) = [s for s in program.body if s.attr("program_config") is not None]
    product = product_of(step_device_ops(step, program.specs, chip, Settings())[0])

    def ns(config):
        attrs = {**dict(step.attrs), "program_config": config}
        return step_time(replace(step, attrs=tuple(attrs.items())), program.specs, chip, Settings()).ns

    chosen = ns(step.attr("program_config"))
    assert chosen == min(ns(config_of(blocks, chip.grid)) for blocks in cuts(product, chip)) < 0.95 * ns(None)


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


def test_a_product_is_cut_over_the_grid_and_along_either_side_in_steps_that_fit():
    chip = CHIPS["n150"]
    product = Product(8, 24, 128, 1, "bfloat16", "bfloat16", "bfloat16", 2, True, False, True)
    found = cuts(product, chip)
    assert {blocks.kind for blocks in found} == {"2d", "1d tall", "1d wide"}
    assert {blocks.k for blocks in found if blocks.kind == "1d wide"} >= {1, 2, 3, 4, 6, 8, 12}
    texts = {blocks.kind: str(config_of(blocks, chip.grid)) for blocks in found}
    assert texts["1d wide"].endswith("fuse_batch=True, mcast_in0=True)")
    assert texts["1d tall"].endswith("fuse_batch=True, mcast_in0=False)")
    huge = Product(512, 4096, 512, 1, "float32", "float32", "float32", 4)
    assert all(blocks.k * 4096 * 2 * 2 < chip.l1_allocatable for blocks in cuts(huge, chip))


@pytest.mark.parametrize("columns", [50257, 151936, 32003])
def test_a_core_makes_whole_blocks_of_a_head(columns):
    """ttnn refuses a part that its blocks do not divide: 197 tiles in blocks of 98."""
    for name in ("n150", "p150"):
        chip, product = CHIPS[name], Product(4, 24, -(-columns // 32), in1="bfloat8_b", in0_l1=True, out_l1=True)
        found = cuts(product, chip)
        assert found
        for blocks in found:
            config = config_of(blocks, chip.grid).by_name
            for part, block in (("per_core_M", "out_block_h"), ("per_core_N", "out_block_w")):
                assert config[part] % config.get(block, config[part]) == 0
            if blocks.kind == "2d":
                assert -(-product.n // blocks.n) <= chip.grid[0]


def normed(*after, **settings):
    torch.manual_seed(0)
    torch._dynamo.reset()
    model = nn.Sequential(nn.LayerNorm(1024), nn.Linear(1024, 4096), *after).eval()
    chosen = {"precision": "bfloat16", "weights": "bfloat8_b", "trace": True, **settings}
    inputs = torch.randn(512, 1024)
    return proveout.compile(model, (inputs,), settings=chosen), inputs


def test_a_product_takes_a_norms_shards_as_they_lie_where_that_is_quicker():
    apart, inputs = normed(sharding="norms", products="default")
    joined, _ = normed(sharding="norms", products="configured")
    (product,) = [s for s in joined.program.body if s.kernel == "ttnn.linear"]
    source = joined.program.specs[product.attr("input_tensor_a").name].memory
    assert source.sharding == "block"
    assert f"CoreCoord{source.shard.grid}" in str(product.attr("program_config"))
    moves = [[s for s in p.program.body if s.kernel == "ttnn.to_memory_config"] for p in (apart, joined)]
    assert len(moves[1]) < len(moves[0])
    assert joined.plan.total_ns < apart.plan.total_ns
    assert torch.equal(apart(inputs), joined(inputs))


def test_a_product_with_an_activation_beside_it_leaves_the_shards():
    """ttnn refuses `activation` where the left factor lies in shards."""
    joined, _ = normed(nn.GELU(approximate="tanh"))
    (product,) = [s for s in joined.program.body if s.kernel == "ttnn.linear"]
    assert product.attr("activation") == "gelu_tanh"
    assert refusal(kernels()["ttnn.linear"], specs_of(product, joined.program.specs)) is None
    (norm,) = [s for s in joined.program.body if s.kernel == "ttnn.layer_norm"]
    sharded = replace(
        product, attrs=tuple((k, Ref(norm.outputs[0]) if k == "input_tensor_a" else v) for k, v in product.attrs)
    )
    assert refusal(kernels()["ttnn.linear"], specs_of(sharded, joined.program.specs)).kind == "activation-beside-shards"
