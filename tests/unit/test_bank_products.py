"""Products of one row read weights that are cut over the DRAM banks, where that is quicker."""

from __future__ import annotations

import importlib
from dataclasses import replace

import pytest
import torch
from torch import nn

import proveout
from proveout.compiler.memory.evict import evict
from proveout.devices.registry import find
from proveout.engine.compiled import Compiled
from proveout.kernels.cost import memory_use
from proveout.program import TO_DEVICE, Construct, Program
from proveout.types import Settings

bank_products = importlib.import_module("proveout.compiler.program_passes.bank_products")
CONFIGURED = {"precision": "bfloat16", "weights": "bfloat8_b", "products": "configured", "trace": True}


def planned(rows: int = 1, **settings: object) -> Compiled:
    """A product as large as those of a decoder, without its weights."""
    with torch.device("meta"):
        model, inputs = nn.Linear(14336, 4096, bias=False).eval(), torch.empty(rows, 14336)
    return proveout.compile(model, inputs, device="sim:n150", settings={**CONFIGURED, **settings}, dry_run=True)


def products_on_banks(program: Program) -> list[Construct]:
    configs = [step.attr("program_config") for step in program.body]
    return [c for c in configs if isinstance(c, Construct) and c.name == bank_products.CONFIG]


def test_a_weight_of_one_row_is_cut_over_the_banks_once_and_the_step_is_quicker():
    banked, plain = planned(), planned(products="default")
    (config,) = products_on_banks(banked.program)
    (product,) = (s for s in banked.program.body if s.attr("program_config") == config)
    row, weight = (banked.program.specs[name].memory for name in product.uses)
    assert (row.buffer, row.sharding) == ("l1", "width")
    assert (weight.buffer, weight.sharding, weight.shard.grid) == ("dram", "width", (12, 1))
    assert any(product.uses[1] in step.outputs for step in banked.program.setup)
    assert 448 // (row.shard.grid[0] * row.shard.grid[1]) % config.by_name["in0_block_w"] == 0
    assert banked.plan.time.ns < plain.plan.time.ns
    assert not products_on_banks(plain.program)


def test_several_rows_of_tiles_and_what_the_user_decides_stay_as_they_are():
    assert not products_on_banks(planned(rows=64).program)
    assert not products_on_banks(planned(per_op=[["*:*", "config", "none"]]).program)


class Beside(nn.Module):
    """Two products of one row, and between them what takes as much room as both weights."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.up = nn.Linear(14336, 4096, bias=False), nn.Linear(4096, 14336, bias=False)

    def forward(self, x: torch.Tensor, large: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.up(self.down(x)), large * 2


def test_weights_on_the_banks_wait_on_the_host_where_others_need_the_room():
    with torch.device("meta"):
        model, inputs = Beside().eval(), (torch.empty(1, 14336), torch.empty(24576, 2048))
    program = proveout.compile(model, inputs, device="sim:n150", settings=CONFIGURED, dry_run=True).program
    spec = find("sim:n150").spec
    assert spec is not None
    assert len(products_on_banks(program)) == 2
    small, settings = replace(spec, dram_bank_bytes=22 * 2**20, trace_region=0), Settings.of(CONFIGURED)
    assert not memory_use(program, small, settings).fits
    evicted = evict(program, small, settings)
    assert memory_use(evicted, small, settings).fits
    back = [evicted.specs[s.outputs[0]].memory for s in evicted.body if s.kernel == TO_DEVICE]
    assert ("dram", "width") in {(memory.buffer, memory.sharding) for memory in back}


@pytest.mark.parametrize("activation", [nn.Identity(), nn.SiLU()], ids=["plain", "silu"])
def test_numbers_are_those_of_a_product_that_is_not_cut(monkeypatch, activation):
    monkeypatch.setattr(bank_products, "LEAST_GAIN", -1000.0)
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(256, 512, bias=False), activation).eval(), torch.randn(1, 256)
    banked = proveout.compile(model, x, settings=CONFIGURED)
    plain = proveout.compile(model, x, settings={**CONFIGURED, "products": "default"})
    assert len(products_on_banks(banked.program)) == 1
    assert torch.equal(banked(x), plain(x))
