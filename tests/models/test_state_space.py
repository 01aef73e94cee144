"""A state space generates what eager mode generates: its state stays on the chip, and padding leaves it alone."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("transformers")

from small_decoders import small, without_weights

from proveout.batching.simulated import step_times
from proveout.cli.verbs.generate import _row
from proveout.cli.verbs.tokens import record_of, text
from proveout.errors import UsageError
from proveout.generation import GREEDY, Generator
from proveout.generation.agreement import agreement, eager_tokens
from proveout.generation.child import _phase
from proveout.generation.messages import GenerationRequest
from proveout.generation.modelled import modelled_row
from proveout.generation.speed import SpeedAsk, SpeedTold
from proveout.types import Settings

pytestmark = pytest.mark.slow


def prompts(side):
    """21 and 9 tokens."""
    ids = torch.randint(3, 128, (2, 21), generator=torch.Generator().manual_seed(1))
    mask = torch.ones_like(ids)
    mask[1, slice(0, 12) if side == "left" else slice(9, 21)] = 0
    if side == "right":
        ids[1] = ids[1].roll(-12)
    return ids * mask, mask


@pytest.fixture(scope="module")
def mamba():
    return small("mamba")


def tokens_of(generator, ids, mask, count):
    return torch.stack(list(generator.generate(ids, count, mask=mask)), 1)


def test_64_tokens_are_eagers_and_the_state_stays_on_the_chip(mamba):
    generator = Generator.compile(mamba, settings={"precision": "model"}, max_length=96, batch=2)
    wanted = eager_tokens(mamba, *prompts("left"), 64)
    assert len(set(wanted.flatten().tolist())) > 4
    for side in ("left", "right"):
        assert torch.equal(tokens_of(generator, *prompts(side), 64), wanted)
    decode = generator.decode_phase.program
    assert len(decode.state) == 4, "window and state of both layers"
    assert not any(step.on_host for step in decode.body)
    assert generator.cache_bytes == 2 * 2 * 128 * (3 + 16) * 4  # layers, users, channels, taps and state, float32
    assert "a state space" in generator.notes[0]


def test_a_newcomer_takes_a_slot_and_disturbs_nobody(mamba):
    generator = Generator.compile(mamba, device="cpu", max_length=64, batch=2)
    ids, mask = prompts("right")
    alone = eager_tokens(mamba, ids[:1], mask[:1], 6)[0].tolist()
    newcomer = torch.tensor([[7, 8, 9, 10]])
    token, position = generator.prefill(ids, mask).argmax(-1), mask.sum(1)
    said = [int(token[0])]
    for step in range(5):
        if step == 2:
            token[1] = generator.prefill(newcomer, slots=[1]).argmax()
            others = [int(token[1])]
        token, position = generator.decode(token, position).argmax(-1), position + 1
        said.append(int(token[0]))
        if step >= 2:
            others.append(int(token[1]))
    assert said == alone
    assert others == eager_tokens(mamba, newcomer, torch.ones_like(newcomer), 4)[0].tolist()


@pytest.mark.whole_decoders
def test_bfloat16_agrees_with_eager_under_teacher_forcing(mamba):
    generator = Generator.compile(mamba, settings={"precision": "bfloat16"}, max_length=64, batch=2)
    ids, mask = prompts("left")
    close = agreement(generator, ids, mask, eager_tokens(mamba, ids, mask, 24))
    assert close.top5 == 1.0
    assert close.top1 >= 0.9
    assert close.pcc > 0.999


def test_it_is_planned_without_its_weights():
    generator = Generator.compile(
        without_weights("mamba", num_hidden_layers=4), max_length=64, prompt_lengths=(32,), dry_run=True
    )
    assert generator._few.repeat.times == 1
    assert all(phase.chip_alone.ns > 0 and phase.memory.fits for phase in generator.phases)
    assert generator.decode_phase.predicted == generator.decode_phase.chip_alone
    assert len(generator.decode_phase.program.state) == 8


def test_no_time_to_first_token_is_told_where_the_host_has_a_part_in_the_prefill():
    """Its scan is a cumulative sum that no kernel serves; the decode step is the chip's alone."""
    generator = Generator.compile(without_weights("mamba", num_hidden_layers=2), max_length=64, dry_run=True)
    prefill = generator.prefill_phase(32)
    assert any(step.on_host for step in prefill.program.body)
    assert prefill.predicted is None
    row = modelled_row(generator, prefill, 32, "sim:n150", Settings(precision="bfloat16"))
    assert row.first_token is None
    assert row.per_token.median_ns == generator.decode_phase.predicted.ns
    ask, speeds = SpeedAsk("mamba.py", device="sim:n150"), SpeedTold("mamba", rows=(row,))
    assert [t.what for t in record_of(ask, speeds, row).timings] == ["time per token"]
    assert "no time to first token can be predicted" in text([(ask, speeds)])
    with pytest.raises(UsageError, match="whose time no plan knows"):
        step_times(speeds)
    assert "? (chip alone: " in _row(_phase(prefill, []), GenerationRequest("mamba.py", device="sim:n150"))[5]


def test_the_device_chooses_the_same_tokens_and_pages_are_refused(mamba):
    ids, mask = prompts("right")
    chosen, scored = (
        Generator.compile(mamba, device="cpu", max_length=64, batch=2, sampling=s) for s in (GREEDY, None)
    )
    assert torch.equal(tokens_of(chosen, ids, mask, 8), tokens_of(scored, ids, mask, 8))
    with pytest.raises(UsageError, match="keeps states and no positions: leave page_size out"):
        Generator.compile(mamba, max_length=64, page_size=32)
