"""A decoder on two chips: linears by columns, cache by heads, and the tokens are eager's."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("transformers")

from small_decoders import small, without_weights

from proveout.errors import CompileError
from proveout.generation import Generator
from proveout.generation.agreement import eager_tokens, forced_logits
from proveout.generation.modelled import modelled_row
from proveout.types import Settings


def compiled(model, parallel, **options):
    settings = Settings(precision="model", parallel=parallel)
    return Generator.compile(model, device="sim:n300", settings=settings, max_length=64, batch=2, **options)


@pytest.mark.slow
def test_tokens_on_two_chips_are_eagers_and_each_holds_half_the_cache():
    model = small("llama")
    ids, mask = torch.randint(3, 128, (2, 21), generator=torch.Generator().manual_seed(1)), torch.ones(2, 21).long()
    mask[1, :12] = 0
    ids *= mask
    generator = compiled(model, "tensor")
    assert torch.equal(torch.stack(list(generator.generate(ids, 24, mask=mask)), 1), eager_tokens(model, ids, mask, 24))
    for phase in generator.phases:
        program = phase.program
        (note,) = phase.compiled.parallel
        assert note.startswith("tensor parallel: 11 linears by columns, 4 tensors of the cache by heads over 2 chips")
        assert program.chips == 2
        assert sum(step.kernel == "ttnn.all_gather" for step in program.body) == 6
        shares = {s.outputs[0] for s in program.setup if s.uses and s.uses[0] in dict(program.state)}
        assert {program.specs[name].shape for name in shares} == {(2, 1, 64, 32)}, "one of two key heads on each chip"


@pytest.mark.slow
def test_block_float_weights_give_bit_by_bit_what_one_chip_gives():
    model, ids, tokens = small("llama"), torch.arange(3, 24)[None], torch.tensor([[7, 8, 9]])
    logits = []
    for parallel in ("tensor", "none"):
        settings = Settings(precision="bfloat16", weights="bfloat8_b", parallel=parallel)
        generator = Generator.compile(model, device="sim:n300", settings=settings, max_length=32)
        logits.append(forced_logits(generator, ids, torch.ones_like(ids), tokens))
    assert torch.equal(*logits)


def test_heads_that_do_not_divide_leave_the_cache_whole_and_say_so():
    generator = compiled(without_weights("gpt2"), "tensor", dry_run=True)
    assert "the cache whole on each over 2 chips" in generator.decode_phase.compiled.parallel[0]


@pytest.mark.slow
def test_one_chip_is_taken_where_two_would_be_slower_and_rows_are_a_chip_s_own():
    model = without_weights("llama")
    one = compiled(model, "auto", dry_run=True)
    (note,) = one.decode_phase.compiled.parallel
    assert note.startswith("one chip of 2: tensor parallel")
    assert "would take" in note
    both = compiled(model, "tensor", dry_run=True)
    rows = [modelled_row(g, g.prefill_phase(32, 1), 32, "sim:n300", Settings(precision="model")) for g in (one, both)]
    assert [row.num_chips for row in rows] == [1, 2]
    assert rows[1].cache_bytes * 2 == rows[0].cache_bytes
    assert rows[1].weight_bytes < 0.8 * rows[0].weight_bytes
    with pytest.raises(CompileError, match="parallel='data' cannot be"):
        compiled(model, "data", dry_run=True)
