"""Several chips with the rest of the compiler: fusions, formats, short memory, cache, dumps, witness and time."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from test_parallel import compiled_for, same_shapes_as_specs
from torch import nn
from torch._dynamo.exc import BackendCompilerFailed

import proveout
from proveout.chip.specs import CHIPS
from proveout.compiler.parallel import choose
from proveout.errors import CompileError
from proveout.kernels.cost import step_time
from proveout.kernels.pieces import concat_along
from proveout.program import FROM_DEVICE, TO_DEVICE, TO_TORCH, Ref, Step
from proveout.types import DRAM, Settings, TensorSpec


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)


class Attention(nn.Module):
    """Three products of one value that are joined, and an activation that is fused."""

    def __init__(self, width=128):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))
        self.up = nn.Linear(width, 100)

    def forward(self, a):
        q, k, v = (f(a).unflatten(-1, (-1, 32)).transpose(1, 2) for f in (self.q, self.k, self.v))
        return F.gelu(self.up(self.o(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))))


@pytest.mark.slow
@pytest.mark.parametrize("numerics", ["fast", "faithful"])
@pytest.mark.parametrize("weights", ["same", "bfloat8_b"])
@pytest.mark.parametrize("way", ["data", "tensor"])
def test_fused_and_packed_weights_give_bit_by_bit_what_one_chip_gives(way, weights, numerics):
    model, a = Attention().eval(), torch.randn(4, 16, 128)
    settings = {"weights": weights, "numerics": numerics}
    several = proveout.compile(model, a, device="sim:n300", settings={**settings, "parallel": way, "verify": True})
    one = proveout.compile(model, a, device="sim:n300", settings={**settings, "parallel": "none"})
    assert several.program.chips == 2
    assert torch.equal(several(a), one(a))


def test_joined_weights_are_cut_as_one():
    model, a = Attention().eval(), torch.randn(2, 16, 128)
    compiled = proveout.compile(model, a, device="sim:n300", settings={"parallel": "tensor"})
    assert compiled.parallel == ("tensor parallel: the columns of 3 linears over 2 chips",)
    assert "joined before it is cut over the chips" in str(compiled.program)
    assert any(s.attr("activation") == "gelu" and s.outputs[0].endswith(".columns") for s in compiled.program.body)


# ---- where memory is short -------------------------------------------------------------------------------------------

WEIGHTS = tuple(torch.randn(256, 256, generator=torch.Generator().manual_seed(n)) / 16 for n in range(3))
A = torch.randn(4, 256, generator=torch.Generator().manual_seed(3))


def three(a, u, v, w):
    return F.relu(F.relu(a @ u) @ v) @ w


def short(tiles, **chosen):
    """Compiled for chips whose DRAM banks hold this many tiles, and run."""
    made, loaded = compiled_for(three, (A,), WEIGHTS, dram=tiles * 4096, **chosen)
    torch.testing.assert_close(loaded.run([A]).outputs[0], three(A, *WEIGHTS), rtol=1e-4, atol=1e-4)
    same_shapes_as_specs(made.program, loaded, [A])
    assert made.plan.memory.fits
    return made


def waiting(made):
    return [s for s in made.program.steps if s.kernel in (FROM_DEVICE, TO_DEVICE)]


def test_weights_are_cut_before_they_are_streamed():
    assert short(20).coverage.parallel[0].startswith("data parallel")
    cut = short(12)
    assert cut.coverage.parallel == ("tensor parallel: the columns of 3 linears over 2 chips",)
    assert waiting(short(12, parallel="none"))
    assert not waiting(cut)


@pytest.mark.parametrize("way", ["data", "tensor"])
def test_pieces_wait_on_the_host_and_come_back_to_their_chips(way):
    made = short(8, parallel=way)
    assert made.program.chips == 2
    assert waiting(made)


def test_what_passes_through_the_host_in_slices_is_not_cut_and_says_so():
    with pytest.raises(CompileError, match="parallel='data' cannot be: a chip's share of the batch needs the host"):
        short(6, parallel="data")


# ---- cache, dumps, verification --------------------------------------------------------------------------------------


def test_a_cached_program_still_says_how_it_uses_its_chips():
    model, a = nn.Linear(64, 64).eval(), torch.randn(3, 64)
    first = proveout.compile(model, a, device="sim:n300")
    torch._dynamo.reset()
    again = proveout.compile(model, a, device="sim:n300")
    assert "lower" in first.graphs[0].stages_s
    assert "lower" not in again.graphs[0].stages_s
    assert again.parallel == first.parallel != ()
    assert again.program.chips == 2
    assert torch.equal(again(a), first(a))
    torch._dynamo.reset()
    assert proveout.compile(model, a, device="sim:n300", settings={"parallel": "none"}).program.chips == 1


def test_choosing_chips_is_a_stage_of_its_own():
    compiled = proveout.compile(nn.Linear(64, 64).eval(), torch.randn(4, 64), device="sim:n300")
    assert {"chips", "lower", "program passes"} <= compiled.graphs[0].stages_s.keys()
    assert all(seconds >= 0 for seconds in compiled.graphs[0].stages_s.values())
    torch._dynamo.reset()
    assert "chips" not in proveout.compile(nn.Linear(64, 64).eval(), torch.randn(4, 64)).graphs[0].stages_s


def test_a_dump_shows_the_passes_of_what_was_chosen_once(tmp_path):
    proveout.compile(nn.Linear(64, 64).eval(), torch.randn(1, 64), device="sim:n300", dump=tmp_path / "one")
    torch._dynamo.reset()
    proveout.compile(nn.Linear(64, 64).eval(), torch.randn(4, 64), device="sim:n300", dump=tmp_path / "two")
    one, two = (
        [p.stem.partition("-")[2] for p in sorted((tmp_path / name).rglob("[0-9][0-9]-*.txt"))]
        for name in ("one", "two")
    )
    assert two == [*one, "spread"]
    assert two.count("lower") == 1


def test_the_witness_sees_pieces_joined_in_the_wrong_dimension(monkeypatch):
    spread = choose.spread

    def joined_wrongly(program, chips, rows):
        def wrong(step):
            attrs = {k: concat_along(1) if k == "mesh_composer" else v for k, v in step.attrs}
            return replace(step, attrs=tuple(attrs.items())) if step.kernel == TO_TORCH else step

        made = spread(program, chips, rows)
        specs = {n: replace(s, shape=(2, 128)) if n in _fetched(made) else s for n, s in made.specs.items()}
        return replace(made, body=tuple(map(wrong, made.body)), specs=specs)

    monkeypatch.setattr(choose, "spread", joined_wrongly)
    with pytest.raises(BackendCompilerFailed, match="the pass 'spread' changed the meaning"):
        proveout.compile(nn.Linear(64, 64).eval(), torch.randn(4, 64), device="sim:n300", settings={"verify": True})


def _fetched(program):
    return {n for s in program.body if s.kernel == TO_TORCH for n in s.outputs}


# ---- time ------------------------------------------------------------------------------------------------------------


def test_a_gather_takes_the_links_time_and_is_not_calibrated():
    specs = {n: TensorSpec((1024, w), "float32", "tile", DRAM) for n, w in (("a", 512), ("b", 1024))}
    step = Step("ttnn.all_gather", (("input_tensor", Ref("a")), ("dim", 1)), ("b",))
    time = step_time(step, specs, CHIPS["n300"], Settings(), chips=2)
    family, wire = time.kernel.ops[-1]
    assert (family, wire.ns) == ("ethernet", math.ceil(1024 * 512 * 4 / 25))
    assert time.ns == sum(t.ns for _, t in time.kernel.ops)
    assert time.low_ns < time.ns < time.high_ns
    assert time.calibrated_ns == 0


def test_one_link_serves_all_chips_in_turn():
    specs = {"a": TensorSpec((64, 64), "float32"), "b": TensorSpec((64, 64), "float32", "tile", DRAM)}
    away = Step(FROM_DEVICE, (("tensor", Ref("b")),), ("a",))
    one, two = (step_time(away, specs, CHIPS["n300"], Settings(), chips=chips) for chips in (1, 2))
    assert (two.ns, two.high_ns) == (2 * one.ns, 2 * one.high_ns)
    first = Step(TO_TORCH, (("tensor", Ref("b")),), ("a",))
    assert step_time(first, specs, CHIPS["n300"], Settings(), chips=2).ns == one.ns


class Fallback(nn.Module):
    def forward(self, a):
        return torch.special.i0e(a * 2) + 1


def test_a_fallbacks_transfers_cost_all_chips_pieces():
    compiled = proveout.compile(Fallback(), torch.randn(4, 64), device="sim:n300", settings={"parallel": "data"})
    (line,) = compiled.fallbacks
    crossing = [t for t in compiled.plan.steps if t.step.is_transfer]
    assert line.num_transfers == 2
    assert line.transfer_ns == sum(t.ns for t in crossing[1:-1])
