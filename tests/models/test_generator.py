"""A decoder generates what eager mode generates: two kinds of Program, one cache, each user at its own position."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("transformers")

import transformers
from small_decoders import CONFIGS, MORE, small, without_weights

from proveout.engine.compiled import compile as compile_model
from proveout.errors import UsageError
from proveout.generation import GREEDY, Generator, Sampling
from proveout.generation.agreement import agreement, eager_tokens, equal_before_difference, forced_logits
from proveout.generation.messages import Agreement
from proveout.generation.recipes import RECIPES, parts_of, smallest_within, with_recipe
from proveout.types import Settings

pytestmark = pytest.mark.slow

DECODE, UPDATE = "ttnn.transformer.scaled_dot_product_attention_decode", "ttnn.experimental.paged_update_cache"


def prompts(*lengths, side="left", seed=1):
    """Random tokens padded to the longest on one side, and their mask."""
    random, width = torch.Generator().manual_seed(seed), max(lengths)
    ids, mask = torch.zeros(len(lengths), width, dtype=torch.long), torch.zeros(len(lengths), width, dtype=torch.long)
    for row, length in enumerate(lengths):
        at = slice(width - length, width) if side == "left" else slice(0, length)
        ids[row, at] = torch.randint(3, 128, (length,), generator=random)
        mask[row, at] = 1
    return ids, mask


def tokens_of(generator, ids, count, **options):
    return torch.stack(list(generator.generate(ids, count, **options)), 1)


def assert_eagers_tokens(name, device, count=64):
    model = small(name)
    ids, mask = prompts(21, 9)
    wanted = eager_tokens(model, ids, mask, count)
    generator = Generator.compile(model, device=device, settings={"precision": "model"}, max_length=96, batch=2)
    assert torch.equal(tokens_of(generator, ids, count, mask=mask), wanted)
    assert len(set(wanted.flatten().tolist())) > 1
    right, its_mask = prompts(21, 9, side="right")
    assert torch.equal(tokens_of(generator, right, count, mask=its_mask), wanted), "padding may be on either side"
    assert set(generator.programs) == {"prefill 32", "decode"}, "no call compiled anything twice"
    assert all(len(phase.programs) == 1 for phase in generator.phases)
    return generator


@pytest.mark.parametrize("name", CONFIGS)
def test_64_tokens_are_eagers_for_prompts_of_different_lengths(name):
    generator = assert_eagers_tokens(name, "sim")
    for phase in generator.phases:
        assert len(phase.program.state) == 4, "keys and values of both layers stay on the chip"
        predicted = phase.chip_alone
        assert 0 < predicted.low_ns < predicted.ns < predicted.high_ns
        assert phase.predicted == (None if name == "mixtral" else predicted), "experts are counted on the host"


@pytest.mark.whole_decoders
@pytest.mark.parametrize("name", MORE)
def test_tokens_are_eagers_with_soft_caps_alibi_and_other_experts(name):
    assert_eagers_tokens(name, "cpu", count=24)


def test_tokens_are_eagers_on_the_host():
    generator = assert_eagers_tokens("llama", "cpu", count=16)
    assert generator.decode_phase.predicted is None
    assert generator.cache_bytes == 2 * 2 * 2 * 2 * 96 * 32 * 4  # keys and values, layers, users, heads, …


@pytest.fixture(scope="module")
def llama():
    """On the host, with three users."""
    return Generator.compile(small("llama"), device="cpu", max_length=64, batch=3)


def test_a_user_that_comes_later_disturbs_nobody(llama):
    """Slot 1 is given a prompt while 0 and 2 are in the middle of theirs; then its page of the cache is used again."""
    first, newcomer, third = ([5, 9, 17, 33, 2], [40, 41, 42], [100, 90, 80, 70, 60, 50, 40])
    alone = [eager_tokens(llama.model, torch.tensor([p]), torch.ones(1, len(p), dtype=torch.long), 6)[0].tolist()
             for p in (first, newcomer, third)]  # fmt: skip
    for again in range(2):
        ids, mask = torch.zeros(3, 7, dtype=torch.long), torch.zeros(3, 7, dtype=torch.long)
        for row, prompt in enumerate((first, [1 + again], third)):
            ids[row, : len(prompt)], mask[row, : len(prompt)] = torch.tensor(prompt), 1
        token, position = llama.prefill(ids, mask).argmax(-1), mask.sum(1)
        said = [[int(t)] for t in token]
        for step in range(5):
            if step == 2:
                logits = llama.prefill(torch.tensor([newcomer]), slots=[1])
                token[1], position[1], said[1] = logits.argmax(), len(newcomer), [int(logits.argmax())]
            token, position = llama.decode(token, position).argmax(-1), position + 1
            for row, t in enumerate(token.tolist()):
                said[row].append(t)
        assert said[0] == alone[0]
        assert said[2] == alone[2]
        assert said[1] == alone[1][:4]


def test_greedy_decoding_brings_tokens_back_and_no_logits():
    """On a modelled chip of a vocabulary that no cache's row is as large as."""
    model = small("llama", vocab_size=2048)
    ids, mask = prompts(21, 9)
    generator = Generator.compile(model, max_length=64, batch=2, sampling=GREEDY, settings={"precision": "model"})
    program = generator.decode_phase.program
    assert "ttnn.argmax" in [step.kernel for step in program.body]
    crossing = [program.specs[step.outputs[0]] for step in program.body if step.kernel == "ttnn.to_torch"]
    assert not [spec for spec in crossing if spec.shape[-1] == 2048]
    wanted = eager_tokens(model, ids, mask, 6)
    assert torch.equal(tokens_of(generator, ids, 6, mask=mask), wanted)
    assert [phase.name for phase in generator.phases] == ["prefill 32", "decode"], "no logits were asked for"
    logits = generator.decode(wanted[:, -1], mask.sum(1) + 5)
    assert [phase.name for phase in generator.phases] == ["prefill 32", "decode", "decode logits"]
    assert torch.equal(generator.next_token(wanted[:, -1], mask.sum(1) + 5), logits.argmax(-1))


def test_prompts_of_all_users_in_any_order(llama):
    ids, mask = prompts(5, 9, 7)
    straight = llama.prefill(ids, mask)
    order = [2, 0, 1]
    torch.testing.assert_close(llama.prefill(ids[order], mask[order], slots=order), straight[order])


def test_a_full_cache_is_an_error_that_says_what_to_do(llama):
    ids = torch.ones(3, 60, dtype=torch.long)
    with pytest.raises(UsageError, match=r"holds 64 tokens; a prompt of 60 and 6 new ones need 65.*max_length=65"):
        llama.generate(ids, 6)
    assert len(tokens_of(llama, ids, 5)[0]) == 5, "the last token needs no place of its own"
    with pytest.raises(UsageError, match="position 64: the cache holds 64"):
        llama.decode(torch.ones(3, dtype=torch.long), torch.tensor([3, 64, 5]))
    with pytest.raises(UsageError, match="prompt of 65 tokens"):
        llama.prefill(torch.ones(3, 65, dtype=torch.long))


def bert():
    sizes = {"vocab_size": 64, "hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 32}
    return transformers.BertForMaskedLM(transformers.BertConfig(**sizes, num_hidden_layers=1))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda g: g.prefill(torch.ones(2, 4, dtype=torch.long)), "where \\[3, length\\]"),
        (lambda g: g.prefill(torch.ones(3, 4, dtype=torch.long), torch.tensor([[1, 0, 1, 1]] * 3)), "padding inside"),
        (lambda g: g.prefill(torch.ones(3, 4, dtype=torch.long), torch.tensor([[0, 0, 0, 0]] * 3)), "no token"),
        (lambda g: g.prefill(torch.ones(3, 4, dtype=torch.long), torch.ones(3, 5)), "a mask of"),
        (lambda g: g.prefill(torch.ones(1, 4, dtype=torch.long), slots=[3]), "slots=\\[3\\]"),
        (lambda g: g.decode(torch.ones(2, dtype=torch.long), torch.ones(3, dtype=torch.long)), "each of 3 users"),
        (lambda g: g.generate(torch.ones(3, 4, dtype=torch.long), 0), "at least 1"),
        (lambda g: Generator.compile(torch.nn.Linear(2, 2), max_length=8), "not a language model"),
        (lambda g: Generator.compile(bert(), max_length=8), "BertForMaskedLM is not a causal language model"),
        (lambda g: Generator.compile(g.model, max_length=999), "the model's 128 positions"),
        (lambda g: Generator.compile(g.model, max_length=0), "at least 1"),
        (lambda g: Generator.compile(g.model, max_length=8, device="abacus"), "abacus"),
        (lambda g: Sampling(top_p=0), "top_p"),
        (lambda g: Sampling(temperature=-1), "temperature"),
    ],
)
def test_wrong_calls_are_refused_in_a_sentence(llama, call, said):
    with pytest.raises(UsageError, match=said):
        call(llama)


def test_generation_ends_when_every_user_has_stopped(llama):
    ids, mask = prompts(5, 9, 7)
    free = tokens_of(llama, ids, 12, mask=mask)
    stop = {int(row[3]) for row in free}
    stopped = tokens_of(llama, ids, 12, mask=mask, stop=stop)
    assert stopped.shape[1] <= 4
    for row, its in zip(stopped, free):
        first = next(i for i, t in enumerate(its.tolist()) if t in stop)
        assert row[: first + 1].tolist() == its[: first + 1].tolist()
        assert set(row[first:].tolist()) == {int(its[first])}


def test_sampling_draws_from_the_most_likely_tokens():
    logits = torch.tensor([[0.0, 3.0, 2.0, 1.0], [5.0, 0.0, 0.0, 0.0]])
    assert GREEDY.choose(logits, None).tolist() == [1, 0]
    evenly = (torch.arange(1000)[:, None] + 0.5) / 1000

    def shares(how, row):
        return torch.bincount(how.choose(logits[row].expand(1000, 4), evenly), minlength=4) / 1000

    weights = logits.exp()
    torch.testing.assert_close(shares(Sampling(1.0), 0), weights[0] / weights[0].sum(), atol=1e-3, rtol=0)
    two = torch.tensor([0, weights[0, 1], weights[0, 2], 0])
    torch.testing.assert_close(shares(Sampling(1.0, top_k=2), 0), two / two.sum(), atol=1e-3, rtol=0)
    torch.testing.assert_close(shares(Sampling(1.0, top_p=0.7), 0), two / two.sum(), atol=1e-3, rtol=0)
    assert shares(Sampling(1.0, top_p=0.7), 1).tolist() == [1, 0, 0, 0]
    how = Sampling(1.5, top_k=3, top_p=0.9, seed=3)
    assert torch.equal(how.uniform(5, how.generator()), how.uniform(5, how.generator()))


HOWS = [Sampling(0.7), Sampling(1.3, top_k=9), Sampling(1.0, top_p=0.8), Sampling(0.8, top_k=40, top_p=0.6)]


def shares(how, logits, tokens_of_rows, rows):
    """How often each word is drawn when a row's number is as often here as there."""
    evenly = (torch.arange(rows)[:, None] + 0.5) / rows
    return torch.bincount(tokens_of_rows(logits.expand(rows, -1), evenly).long(), minlength=len(logits)) / rows


@pytest.mark.parametrize("how", HOWS, ids=str)
def test_words_are_drawn_as_often_as_transformers_would(how):
    from transformers.generation import logits_process as warpers

    logits = torch.randn(64, generator=torch.Generator().manual_seed(5)) * 2
    steps = [warpers.TemperatureLogitsWarper(how.temperature)]
    steps += [warpers.TopKLogitsWarper(how.top_k)] if how.top_k else []
    steps += [warpers.TopPLogitsWarper(how.top_p)] if how.top_p < 1 else []
    wanted = logits[None]
    for step in steps:
        wanted = step(None, wanted)
    found = shares(how, logits, how.choose, 20_000)
    torch.testing.assert_close(found, wanted[0].softmax(-1), atol=2e-4, rtol=0)


def test_the_chip_draws_words_as_often_as_the_host_but_for_bfloat16s_rounding():
    class Choice(torch.nn.Module):
        def forward(self, logits, uniform):
            return HOWS[3].choose(logits, uniform)

    logits = torch.randn(64, generator=torch.Generator().manual_seed(5)).bfloat16().float() * 2
    inputs = logits.expand(512, -1).contiguous(), torch.rand(512, 1)
    chip = compile_model(Choice(), inputs, settings={"precision": "bfloat16"})
    assert not any(step.on_host for step in chip.program.body)
    found, wanted = (shares(HOWS[3], logits, choose, 512) for choose in (chip, HOWS[3].choose))
    assert float((found - wanted).abs().sum() / 2) < 0.02


def test_the_chip_draws_the_tokens_that_the_host_draws():
    """Top-k and top-p are part of the decode Program: a number for each user goes in, a token comes out."""
    model, ids = small("llama"), torch.randint(0, 128, (2, 9), generator=torch.Generator().manual_seed(1))
    how = Sampling(0.9, top_k=8, top_p=0.95, seed=7)
    exact, rounded = {"precision": "model"}, {"precision": "bfloat16"}
    by_chip, by_host = (
        Generator.compile(model, max_length=32, batch=2, sampling=s, settings=exact) for s in (how, None)
    )
    tokens = tokens_of(by_chip, ids, 12, sampling=how)
    assert torch.equal(tokens, tokens_of(by_host, ids, 12, sampling=how))
    assert not torch.equal(tokens, tokens_of(by_chip, ids, 12)), "another way to sample has a Program of its own"
    generator = Generator.compile(model, max_length=32, batch=2, sampling=how, settings=rounded, dry_run=True)
    program = generator.decode_phase.program
    assert not any(step.on_host for step in program.body)
    left = [program.specs[step.outputs[0]].shape for step in program.body if step.kernel == "ttnn.to_torch"]
    assert (2,) in left
    assert (2, 128) not in left, "the logits stay on the chip"


def test_a_vocabulary_is_not_sorted_on_a_chip(llama):
    assert [Sampling(1.0, top_k=k).on_device for k in (0, 1, 64, 65)] == [False, True, True, False]
    generator = Generator.compile(llama.model, device="cpu", max_length=32, sampling=Sampling(1.0, top_p=0.9))
    assert generator.sampling is None


def test_agreement_is_one_with_itself_and_less_with_other_weights(llama):
    ids, mask = prompts(5, 9, 7)
    tokens = eager_tokens(llama.model, ids, mask, 8)
    same = agreement(llama, ids, mask, tokens)
    assert (same.steps, same.top1, same.top5) == (24, 1.0, 1.0)
    assert same.pcc > 0.999999
    assert equal_before_difference(torch.tensor([[1, 2, 3], [1, 2, 3]]), torch.tensor([[1, 9, 3], [1, 2, 3]])) == 4


@pytest.mark.parametrize("recipe", ["same", "accuracy"])
def test_bfloat16_and_block_floats_agree_with_eager_under_teacher_forcing(recipe):
    model = small("llama")
    settings = with_recipe(Settings(precision="bfloat16"), model, recipe)
    generator = Generator.compile(model, settings=settings, max_length=64, batch=2)
    kernels = [step.kernel for step in generator.decode_phase.program.body]
    assert (kernels.count(UPDATE), kernels.count(DECODE)) == (4, 2)
    ids, mask = prompts(21, 9)
    close = agreement(generator, ids, mask, eager_tokens(model, ids, mask, 32))
    assert close.top5 == 1.0
    assert close.top1 >= (0.95 if recipe == "same" else 0.85)
    assert close.pcc > (0.999 if recipe == "same" else 0.998)


@pytest.mark.parametrize("page_size", [0, 32])
def test_a_cache_in_8_bits_agrees_with_eager_under_teacher_forcing(page_size):
    model = small("llama")
    settings = {"precision": "bfloat16", "cache": "bfloat8_b"}
    generator = Generator.compile(model, settings=settings, max_length=64, batch=2, page_size=page_size)
    kernels = [step.kernel for step in generator.decode_phase.program.body]
    assert kernels.count(UPDATE) == 4
    assert sum(kernel.endswith("scaled_dot_product_attention_decode") for kernel in kernels) == 2
    assert not generator.cache_is_unpacked
    assert generator.notes == ("the cache is kept in bfloat8_b",)
    unpacked = Generator.compile(model, settings={"precision": "bfloat16"}, max_length=64, batch=2, dry_run=True)
    program = unpacked.decode_phase.program
    assert unpacked.cache_bytes == sum(program.specs[value].nbytes for _, value in program.state)
    positions = 64 * 2 + (32 if page_size else 0)  # and those of the page that is nobody's
    assert generator.cache_bytes == 2 * 2 * 2 * positions * 32 * 1088 / 1024  # keys and values, layers, heads, …
    ids, mask = prompts(21, 9)
    close = agreement(generator, ids, mask, eager_tokens(model, ids, mask, 32))
    assert close.top5 == 1.0
    assert close.top1 >= 0.95
    assert close.pcc > 0.999


def test_a_family_with_a_quarter_of_each_head_rotated_keeps_its_tokens_and_an_8_bit_cache():
    assert_eagers_tokens("stablelm", "cpu", count=24)
    model, settings = small("stablelm"), {"precision": "bfloat16", "cache": "bfloat8_b"}
    generator = Generator.compile(model, settings=settings, max_length=64, batch=2)
    assert generator.notes == ("the cache is kept in bfloat8_b",)
    ids, mask = prompts(21, 9)
    assert agreement(generator, ids, mask, eager_tokens(model, ids, mask, 24)).top1 >= 0.8


def test_a_prompt_into_one_slot_leaves_the_8_bits_of_all_others_alone():
    model = small("llama")
    settings = {"precision": "bfloat16", "cache": "bfloat8_b"}
    generator = Generator.compile(model, settings=settings, max_length=64, batch=3)
    ids, mask = prompts(21, 9, 13)
    token, position = generator.prefill(ids, mask).argmax(-1), mask.sum(1)
    before = generator.decode(token, position)
    generator.prefill(torch.tensor([[40, 41, 42]]), slots=[1])
    after = generator.decode(token, position)
    assert torch.equal(after[[0, 2]], before[[0, 2]])
    assert not torch.equal(after[1], before[1])


@pytest.mark.whole_decoders
@pytest.mark.parametrize("name", CONFIGS)
def test_bfloat16_agrees_with_eager_for_every_decoder(name):
    model = small(name)
    generator = Generator.compile(model, settings={"precision": "bfloat16"}, max_length=64, batch=2)
    kernels = [step.kernel for step in generator.decode_phase.program.body]
    assert kernels.count(DECODE) == (0 if name == "falcon" else 2), "falcon's one key head is broadcast by PyTorch"
    ids, mask = prompts(21, 9)
    close = agreement(generator, ids, mask, eager_tokens(model, ids, mask, 24))
    assert close.top5 >= 0.97
    assert close.pcc > 0.998


def test_positions_beyond_what_bfloat16_counts_stay_apart():
    """bfloat16 has no number between 512 and 516: four positions in a row would have the same angles."""
    model = small("llama", max_position_embeddings=1024)
    generator = Generator.compile(model, settings={"precision": "bfloat16"}, max_length=544)
    torch.manual_seed(2)
    ids = torch.randint(3, 128, (1, 530))
    tokens = torch.randint(3, 128, (1, 6))
    ours = forced_logits(generator, ids, torch.ones_like(ids), tokens)[0]
    with torch.no_grad():
        theirs = model(torch.cat([ids, tokens[:, :-1]], 1)).logits[0, 529:]
    assert torch.corrcoef(torch.stack([ours.flatten(), theirs.flatten()]))[0, 1] > 0.998


def test_the_recipe_takes_attention_to_bfloat8_and_feed_forward_to_bfloat4():
    for name, inside in (
        ("llama", "self_attn"),
        ("gpt2", "attn"),
        ("mixtral", "self_attn"),
        ("falcon", "self_attention"),
    ):
        parts = dict(parts_of(without_weights(name)))
        assert sorted(parts.values()) == ["attention", "attention", "feed_forward", "feed_forward", "head"]
        assert all(path.endswith(inside) for path, part in parts.items() if part == "attention")
    settings = with_recipe(Settings(overrides=(("*.0.mlp", "bfloat16"),)), without_weights("llama"), "performance")
    formats = dict(settings.overrides)
    assert formats["model.model.layers.1.mlp"] == "bfloat4_b"
    assert formats["model.model.layers.1.self_attn"] == "bfloat8_b"
    assert settings.overrides[-1] == ("*.0.mlp", "bfloat16"), "the user's own count more"
    assert settings.cache == "bfloat8_b"
    assert with_recipe(Settings(cache="bfloat16"), without_weights("llama"), "performance").cache == "bfloat16"
    assert with_recipe(Settings(), without_weights("llama"), "accuracy").cache == "same"
    with pytest.raises(UsageError, match="recipe"):
        with_recipe(Settings(), without_weights("llama"), "soup")


def test_a_budget_takes_the_smallest_recipe_that_keeps_it():
    shares = dict(zip(RECIPES, (0.8, 0.93, 1.0)))
    for budget, chosen in ((0.7, "performance"), (0.9, "accuracy"), (0.99, "same")):
        name, tried = smallest_within(budget, lambda recipe: Agreement(10, shares[recipe], 1.0, 1.0))
        assert (name, list(tried)) == (chosen, list(RECIPES)[: list(RECIPES).index(chosen) + 1])
    with pytest.raises(UsageError, match="budget"):
        smallest_within(0, lambda recipe: Agreement(1, 1.0, 1.0, 1.0))


def test_a_model_without_weights_is_planned_whole():
    generator = Generator.compile(
        without_weights("llama"),
        settings={"precision": "bfloat16"},
        max_length=64,
        prompt_lengths=(32,),
        dry_run=True,
    )
    assert [phase.name for phase in generator.phases] == ["prefill 32", "decode"]
    assert all(phase.predicted.ns > 0 and phase.memory.fits for phase in generator.phases)
    assert DECODE in [step.kernel for step in generator.decode_phase.program.body]
    with pytest.raises(UsageError, match="dry_run"):
        generator.decode(torch.zeros(1, dtype=torch.long), torch.zeros(1, dtype=torch.long))


def test_a_prompt_into_one_of_several_slots_leaves_nothing_to_the_host():
    """Slots in 64 bits were compared there, so that a time to first token was the chip's part alone."""
    generator = Generator.compile(without_weights("llama"), max_length=64, batch=4, dry_run=True)
    prefill = generator.prefill_phase(32, 1)
    assert not any(step.on_host for step in prefill.program.body)
    assert prefill.predicted.ns > 0
