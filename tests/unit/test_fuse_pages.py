"""A cache in pages becomes ttnn's own calls where it is one, and stays as it was where it is not."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import proveout
from proveout.generation.cache import PagedPromptLayer, PagedTokenLayer, rows_of, sees
from proveout.program import TO_TORCH

ATTEND = "ttnn.transformer.paged_scaled_dot_product_attention_decode"
UPDATE, FILL = "ttnn.experimental.paged_update_cache", "ttnn.experimental.paged_fill_cache"
PAGES, PAGE, SIZE = 24, 64, 64
TABLES = (
    torch.tensor([[3, 17, 8, 23], [22, 5, 7, 23]], dtype=torch.int32),
    torch.tensor([[9, 1, 2, 4], [6, 0, 11, 10]], dtype=torch.int32),
)


def repeated(heads, times):
    """Each head for its group of queries, as transformers does it."""
    users, shared, length, size = heads.shape
    return heads[:, :, None].expand(users, shared, times, length, size).reshape(users, shared * times, length, size)


class Pages(nn.Module):
    def __init__(self, shared=2):
        super().__init__()
        for name in ("keys", "values"):
            self.register_buffer(name, torch.randn(PAGES, shared, PAGE, SIZE))


class Token(Pages):
    """One token of each user into the page of its position, then attention over its pages up to there."""

    def __init__(self, heads=4, shared=2, window=None, **odd):
        super().__init__(shared)
        self.groups, self.window, self.odd = heads // shared, window, odd

    def forward(self, q, k, v, position, table):
        pages = table.long().clamp(0, PAGES - 1)
        rows = rows_of(pages, position, k.shape[1], self.odd.get("page", PAGE))
        rows = rows + 1 if "shift" in self.odd else rows
        layer = PagedTokenLayer(self.keys, self.values, table, rows)
        if "table" in self.odd:
            layer.table = table.flip(1)
        keys, values = layer.update(k, v)
        last = position + 1 if "later" in self.odd else position
        seen = sees(last[:, None, None, None], layer.max_length, self.window)
        keys, values = (repeated(t, self.groups) for t in (keys, values))
        if self.odd.get("order") == "round robin":
            keys, values = (t[:, [0, 2, 1, 3]] for t in (keys, values))
        out = nn.functional.scaled_dot_product_attention(q, keys, values, attn_mask=seen, scale=0.2)
        return (out, self.keys.sum()) if self.odd.get("reads") == "twice" else out


class Prompt(Pages):
    """Prompts into the first pages of their rows of the table."""

    def forward(self, k, v, table):
        pages = table[:, : k.shape[2] // PAGE].long().clamp(0, PAGES - 1)
        PagedPromptLayer(self.keys, self.values, pages, k.shape[2]).update(k, v)
        return k + 1


def compiled(model, arguments, **settings):
    torch._dynamo.reset()
    return proveout.compile(model.eval(), arguments, settings={"precision": "bfloat16", **settings})


def twins(kind, *sizes, **odd):
    torch.manual_seed(0)
    model, eager = kind(*sizes, **odd), kind(*sizes, **odd)
    eager.load_state_dict(model.state_dict())
    return model, eager


def token(heads=4, shared=2):
    torch.manual_seed(1)
    return [torch.randn(2, n, 1, SIZE) for n in (heads, shared, shared)]


def kernels(program):
    return [step.kernel for step in program.body]


@pytest.mark.parametrize("sizes", [{}, {"heads": 4, "shared": 4}, {"window": 70}, {"heads": 2, "shared": 1}], ids=str)
def test_a_token_of_each_user_is_two_updates_and_one_attention_for_any_table(sizes):
    model, eager = twins(Token, **sizes)
    call = token(sizes.get("heads", 4), sizes.get("shared", 2))
    at = torch.tensor([70, 133])
    step = compiled(model, (*call, at, TABLES[0]), verify="window" in sizes)
    counts = [kernels(step.program).count(name) for name in (UPDATE, ATTEND, "ttnn.scatter", "ttnn.where")]
    assert counts == [2, 1, 0, 0]
    for position, table in ((at, TABLES[0]), (at + 1, TABLES[0]), (torch.tensor([200, 63]), TABLES[1])):
        torch.testing.assert_close(step(*call, position, table), eager(*call, position, table), atol=0.03, rtol=0.03)
        torch.testing.assert_close(model.keys, eager.keys, atol=0.03, rtol=0.01)
    assert len(step.programs) == 1, "another table is another input, not another Program"


def test_the_table_lies_in_rows_and_only_new_rows_cross():
    model, _ = twins(Token)
    program = compiled(model, (*token(), torch.tensor([70, 133]), TABLES[0])).program
    [attention] = [s for s in program.body if s.kernel == ATTEND]
    table = program.specs[attention.attr("page_table_tensor").name]
    assert (table.dtype, table.layout, table.memory.buffer, table.shape) == ("int32", "row_major", "dram", (2, 4))
    crossing = [program.specs[s.outputs[0]].nbytes for s in program.body if s.kernel == TO_TORCH]
    assert max(crossing) < program.specs[program.weights[0]].nbytes / 50


@pytest.mark.parametrize(
    "odd",
    [{"shift": 1}, {"page": 32}, {"later": 1}, {"order": "round robin"}, {"reads": "twice"}, {"table": "flipped"}],
    ids=str,
)
def test_near_misses_keep_their_lowering_and_their_numbers(odd):
    model, eager = twins(Token, **odd)
    call = (*token(), torch.tensor([70, 100]), TABLES[0])
    step = compiled(model, call)
    assert ATTEND not in kernels(step.program)
    ours, theirs = step(*call), eager(*call)
    if "reads" in odd:
        ours, theirs = ours[0], theirs[0]
    torch.testing.assert_close(ours, theirs, atol=0.05, rtol=0.05)


@pytest.mark.parametrize(("length", "prompts"), [(128, 2), (64, 2), (256, 1)])
def test_prompts_fill_the_pages_of_their_rows(length, prompts):
    model, eager = twins(Prompt)
    torch.manual_seed(1)
    k, v = (torch.randn(prompts, 2, length, SIZE) for _ in range(2))
    step = compiled(model, (k, v, TABLES[0][:prompts]))
    counts = [kernels(step.program).count(name) for name in (FILL, "ttnn.scatter")]
    assert counts == [2 * prompts, 0]
    results = [name for s in (*step.program.setup, *step.program.body) for name in s.outputs]
    assert len(results) == len(set(results)), "each value has a name of its own"
    for table in (TABLES[0][:prompts], TABLES[1][:prompts]):
        step(k, v, table), eager(k, v, table)
        torch.testing.assert_close(model.keys, eager.keys, atol=0.03, rtol=0.01)
        torch.testing.assert_close(model.values, eager.values, atol=0.03, rtol=0.01)


def test_float32_keeps_its_lowering():
    """The attention takes bfloat16 and block floats alone."""
    model, eager = twins(Token)
    call = (*token(), torch.tensor([70, 133]), TABLES[0])
    step = compiled(model, call, precision="model")
    assert ATTEND not in kernels(step.program)
    torch.testing.assert_close(step(*call), eager(*call))
