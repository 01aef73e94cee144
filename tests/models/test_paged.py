"""A cache in pages gives the tokens of a cache without, whichever pages a user has."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

pytest.importorskip("transformers")

from small_decoders import CONFIGS, small
from test_generator import prompts, tokens_of

from proveout.batching.engines import GeneratorEngine
from proveout.batching.scheduler import Request, Scheduler
from proveout.batching.serving import MeasuredClock, serve
from proveout.errors import UsageError
from proveout.generation import Generator
from proveout.generation.agreement import agreement, eager_tokens

pytestmark = pytest.mark.slow

FILL, UPDATE = "ttnn.experimental.paged_fill_cache", "ttnn.experimental.paged_update_cache"
ATTEND = "ttnn.transformer.paged_scaled_dot_product_attention_decode"


@pytest.mark.whole_decoders
@pytest.mark.parametrize("name", CONFIGS)
def test_64_tokens_are_eagers_for_prompts_of_different_lengths(name):
    model = small(name)
    ids, mask = prompts(21, 9)
    wanted = eager_tokens(model, ids, mask, 64)
    generator = Generator.compile(
        model, settings={"precision": "model"}, max_length=96, batch=2, page_size=32, prompt_lengths=(21,)
    )
    assert torch.equal(tokens_of(generator, ids, 64, mask=mask), wanted)
    generator.release(1)
    assert torch.equal(tokens_of(generator, ids, 40, mask=mask), wanted[:, :40]), "pages of others are used again"
    assert set(generator.programs) == {"prefill 32", "decode"}, "another page table compiles nothing"
    assert all(len(phase.program.state) == 4 for phase in generator.phases)


@pytest.mark.whole_decoders
@pytest.mark.parametrize("name", CONFIGS)
def test_bfloat16_runs_on_ttnns_kernels_for_pages(name):
    model = small(name)
    generator = Generator.compile(
        model, settings={"precision": "bfloat16"}, max_length=64, batch=2, page_size=32, prompt_lengths=(21,)
    )
    fill, decode = ([s.kernel for s in phase.program.body] for phase in generator.phases)
    assert fill.count(FILL) == 8
    general = name == "falcon"  # its one key head is broadcast by PyTorch
    assert (decode.count(UPDATE), decode.count(ATTEND)) == ((0, 0) if general else (4, 2))
    ids, mask = prompts(21, 9)
    close = agreement(generator, ids, mask, eager_tokens(model, ids, mask, 24))
    assert close.top5 >= 0.97
    assert close.pcc > 0.998


@pytest.fixture(scope="module")
def paged():
    """On the host: three users of at most 64 tokens, who share 9 pages of 16."""
    return Generator.compile(small("llama"), device="cpu", max_length=64, batch=3, page_size=16, pages=9)


def eager(model, prompt, count):
    ids = torch.tensor([prompt])
    return eager_tokens(model, ids, torch.ones_like(ids), count)[0].tolist()


def test_tokens_are_eagers_and_pages_grow_with_them(paged):
    ids, mask = prompts(21, 9, 15)
    wanted = eager_tokens(paged.model, ids, mask, 20)
    assert torch.equal(tokens_of(paged, ids, 20, mask=mask), wanted)
    assert [len(paged.pages.table(slot)) for slot in range(3)] == [3, 2, 3]
    assert torch.equal(tokens_of(paged, ids, 20, mask=mask), wanted)


def test_a_user_that_ends_leaves_its_pages_to_the_next(paged):
    first, newcomer = [5, 9, 17, 33, 2] * 4, [40, 41, 42] * 8
    alone = {slot: eager(paged.model, prompt, 8) for slot, prompt in ((0, first), (1, newcomer))}
    for slot in range(3):
        paged.release(slot)
    paged.prefill(torch.tensor([[7] * 60]), slots=[2])
    logits = paged.prefill(torch.tensor([first]), slots=[0])
    said, position, token = [int(logits.argmax())], torch.tensor([len(first), 0, 60]), torch.zeros(3, dtype=torch.long)
    held = set(paged.pages.table(2))
    for step in range(7):
        token[0] = said[-1]
        if step == 2:
            paged.release(2)
            logits = paged.prefill(torch.tensor([newcomer]), slots=[1])
            assert held & set(paged.pages.table(1)), "pages of the one that left"
            theirs, position[1] = [int(logits.argmax())], len(newcomer)
        if step >= 2:
            token[1] = theirs[-1]
        chosen = paged.decode(token, position).argmax(-1)
        said.append(int(chosen[0]))
        if step >= 2:
            theirs.append(int(chosen[1]))
            position[1] += 1
        position[0] += 1
    assert said == alone[0]
    assert theirs == alone[1][:6]


def test_a_caller_may_say_which_pages(paged):
    prompt = [3, 1, 4, 1, 5, 9, 2, 6] * 3
    one = paged.prefill(torch.tensor([prompt]), slots=[0], tables=[[7, 2]])
    other = paged.prefill(torch.tensor([prompt]), slots=[1], tables=[[0, 8]])
    assert torch.equal(one, other)
    token = one.argmax(-1).repeat(3)
    logits = paged.decode(token, torch.full((3,), len(prompt)), [[7, 2], [0, 8], []])
    assert torch.equal(logits[0], logits[1])
    with pytest.raises(UsageError, match=r"pages \[9\]: a user has at most 4, of those from 0 to 8"):
        paged.prefill(torch.tensor([prompt]), slots=[0], tables=[[9]])


def test_a_full_cache_is_said_in_a_sentence(paged):
    with pytest.raises(UsageError, match=r"has 9 pages of 16 tokens; .* 20 new tokens each need 12.*pages=12"):
        paged.generate(torch.ones(3, 40, dtype=torch.long), 20)
    for slot in range(3):
        paged.release(slot)
    paged.prefill(torch.ones(3, 48, dtype=torch.long))
    with pytest.raises(UsageError, match=r"slot 0 needs 4 pages of 16 tokens, and 0 of 9 are free. Release a slot"):
        paged.decode(torch.ones(3, dtype=torch.long), torch.full((3,), 48))
    paged.release(2)
    paged.decode(torch.ones(3, dtype=torch.long), torch.full((3,), 48))
    assert len(paged.pages.table(0)) == 4


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"page_size": 24}, "power of two"),
        ({"pages": 4}, "without a page_size"),
        ({"page_size": 32, "pages": -1}, "-1 pages"),
    ],
)
def test_wrong_pages_are_refused(paged, options, said):
    with pytest.raises(UsageError, match=said):
        Generator.compile(paged.model, device="cpu", max_length=64, **options)


def test_a_scheduler_needs_pages():
    with pytest.raises(UsageError, match="page_size"):
        GeneratorEngine(SimpleNamespace(paging=None))


def test_requests_on_sim_share_few_pages_and_get_the_tokens_that_they_get_alone():
    """Three pages for three slots: a request gives way, and is computed anew in other pages."""
    model = small("llama")
    generator = Generator.compile(
        model, settings={"precision": "model"}, max_length=64, batch=3, page_size=32, pages=3, prompt_lengths=()
    )
    requests = [Request(n, tuple(range(3 + n, 30 + n)), 8) for n in range(4)]
    scheduler = Scheduler(pages=3, page_size=32, slots=3, max_length=64)
    _, tokens = serve(requests, scheduler, GeneratorEngine(generator), MeasuredClock())
    assert scheduler.num_preemptions > 0
    assert tokens == [eager(model, list(r.prompt), 8) for r in requests]
