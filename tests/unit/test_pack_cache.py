"""Keys and values in 8 bits: ttnn's cache kernels read and write them so, and other kernels get what they take."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import proveout
from proveout.errors import UsageError

USERS, HEADS, LENGTH, SIZE = 2, 2, 2048, 64
UPDATE, FILL = "ttnn.experimental.paged_update_cache", "ttnn.fill_cache"
DECODE = "ttnn.transformer.scaled_dot_product_attention_decode"


class Cached(nn.Module):
    """Queries, keys and values of one token of each user, or of a prompt, against a cache."""

    def __init__(self):
        super().__init__()
        for name in ("keys", "values"):
            self.register_buffer(name, torch.randn(USERS, HEADS, LENGTH, SIZE))

    def put(self, k, v, position):
        at = position[:, None, None, None]
        self.keys.scatter_(2, at.expand_as(k), k)
        self.values.scatter_(2, at.expand_as(v), v)
        return torch.arange(LENGTH) <= at


class Token(Cached):
    def forward(self, q, k, v, position):
        mask = torch.where(self.put(k, v, position), 0.0, -torch.inf)
        return nn.functional.scaled_dot_product_attention(q, self.keys, self.values, attn_mask=mask, scale=0.2)


class Capped(Cached):
    """Scores with a soft cap, which ttnn's attention over a cache has not."""

    def forward(self, q, k, v, position):
        seen = self.put(k, v, position)
        scores = torch.tanh(q @ self.keys.transpose(2, 3) * 0.2 / 5) * 5
        return scores.masked_fill(~seen, -1e9).softmax(-1) @ self.values


class Prompt(Cached):
    def forward(self, q, k, v):
        self.keys[:, :, : k.shape[2]] = k
        self.values[:, :, : v.shape[2]] = v
        return nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)


def tokens():
    torch.manual_seed(1)
    return (*(torch.randn(USERS, HEADS, 1, SIZE) for _ in range(3)), torch.tensor([5, 300]))


def compiled(kind, arguments, **settings):
    torch._dynamo.reset()
    torch.manual_seed(0)
    chosen = {"precision": "bfloat16", "trace": True, "verify": True, **settings}
    return proveout.compile(kind().eval(), arguments, settings=chosen)


def eager(kind, arguments):
    torch.manual_seed(0)
    return kind()(*arguments)


def states(program):
    """What holds each state before a call, and after it."""
    copies = {s.uses: s.outputs[0] for s in program.setup if s.kernel == "ttnn.from_torch"}
    return [(program.specs[copies[weight,]], program.specs[value]) for weight, value in program.state]


def kernels(program):
    return [step.kernel for step in program.body if step.kernel != "ttnn.deallocate"]


def relative(a, b):
    return float((a - b).norm() / b.norm())


def test_a_decode_step_reads_and_writes_8_bits_by_the_same_kernels():
    plain, packed = compiled(Token, tokens()), compiled(Token, tokens(), cache="bfloat8_b")
    assert kernels(packed.program) == kernels(plain.program)
    assert kernels(packed.program).count(UPDATE) == 2
    assert DECODE in kernels(packed.program)
    assert [tuple(spec.dtype for spec in pair) for pair in states(packed.program)] == [("bfloat8_b", "bfloat8_b")] * 2
    assert [before.dtype for before, _ in states(plain.program)] == ["bfloat16"] * 2
    wanted = eager(Token, tokens())
    assert 0 < relative(packed(*tokens()), plain(*tokens())) < 0.02
    assert relative(packed(*tokens()), wanted) < 0.03
    assert packed.memory.dram_peak_bytes < 0.6 * plain.memory.dram_peak_bytes


def test_what_an_earlier_call_put_there_stays_to_the_bit():
    """A cache that is packed again at every call must not drift."""
    model, (q, k, v, _) = compiled(Token, tokens(), cache="bfloat8_b"), tokens()
    first = model(q, k, v, torch.tensor([5, 5]))
    for place in (6, 7, 8, 40):
        model(q, -k, -v, torch.tensor([place, place]))
    assert torch.equal(model(q, k, v, torch.tensor([5, 5])), first)


def test_other_kernels_get_the_cache_unpacked():
    plain, packed = compiled(Capped, tokens()), compiled(Capped, tokens(), cache="bfloat8_b")
    assert [tuple(spec.dtype for spec in pair) for pair in states(packed.program)] == [("bfloat8_b", "bfloat8_b")] * 2
    assert kernels(packed.program).count("ttnn.typecast") == kernels(plain.program).count("ttnn.typecast") + 4
    assert relative(packed(*tokens()), eager(Capped, tokens())) < 0.03


def test_a_prompt_is_packed_before_it_goes_into_the_cache():
    torch.manual_seed(1)
    arguments = tuple(torch.randn(USERS, HEADS, 64, SIZE) for _ in range(3))
    packed = compiled(Prompt, arguments, cache="bfloat8_b")
    fills = [step for step in packed.program.body if step.kernel == FILL]
    assert len(fills) == 2 * USERS
    assert {packed.program.specs[step.attr("input_tensor").name].dtype for step in fills} == {"bfloat8_b"}
    assert relative(packed(*arguments), eager(Prompt, arguments)) < 0.02


@pytest.mark.parametrize(("kind", "writes"), [(Token, UPDATE), (Prompt, FILL)])
def test_a_cache_is_written_to_where_it_lies(kind, writes):
    """Its new value was counted beside the old one, so that a cache could fill no more than half of what was free."""
    arguments = tokens() if kind is Token else tuple(torch.randn(USERS, HEADS, 64, SIZE) for _ in range(3))
    model = compiled(kind, arguments)
    assert writes in kernels(model.program)
    cache = 2 * USERS * HEADS * LENGTH * SIZE * 2
    assert cache <= model.memory.dram_peak_bytes < 1.5 * cache


def test_a_device_that_packs_nothing_refuses_it():
    with pytest.raises(UsageError, match=r"'cpu'.*cache=same"):
        proveout.compile(Token().eval(), tokens(), device="cpu", settings={"cache": "bfloat8_b"})
    with pytest.raises(UsageError, match=r"'cache'.*bfloat4_b"):
        proveout.compile(Token().eval(), tokens(), settings={"cache": "bfloat4_b"})
