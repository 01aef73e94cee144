"""One token's queries, keys and values stay on their user's core, and are the numbers that they were."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from proveout.compiler.program_passes import fuse_decode_heads
from proveout.engine.compiled import compile as compile_model
from proveout.engine.residence import Residence

CREATE = "ttnn.experimental.nlp_create_qkv_heads_decode"
ROTATE = "ttnn.experimental.rotary_embedding_hf"
UPDATE = "ttnn.experimental.paged_update_cache"
DECODE = "ttnn.transformer.scaled_dot_product_attention_decode"
LENGTH, SIZE, HEADS, SHARED = 512, 64, 4, 2


class Attention(nn.Module):
    """A decoder's attention to one token of each user."""

    def __init__(self, users, bias=False, joined=False, rotated=True, normed=False, order=(0, 1, 2), size=SIZE):
        super().__init__()
        self.widths = widths = [n * size for n in (HEADS, SHARED, SHARED)]
        self.size = size
        self.rotated, self.order = rotated, order
        self.joined = nn.Linear(128, sum(widths), bias=bias) if joined else None
        self.apart = nn.ModuleList([] if joined else [nn.Linear(128, width, bias=bias) for width in widths])
        self.norms = nn.ModuleList([nn.RMSNorm(size), nn.RMSNorm(size)] if normed else [])
        self.out = nn.Linear(HEADS * size, 128, bias=False)
        for name in ("keys", "values"):
            self.register_buffer(name, torch.randn(users, SHARED, LENGTH, size))
        for name, table in (("cos", torch.cos), ("sin", torch.sin)):
            angles = torch.arange(LENGTH)[:, None] * 10.0 ** -(torch.arange(size) % (size // 2) / 8)
            self.register_buffer(name, table(angles))

    def forward(self, x, position):
        if self.joined is not None:
            wide = self.joined(x)
            parts = list(wide.split(self.widths, -1))
            parts = [parts[i] for i in self.order]
        else:
            parts = [linear(x) for linear in self.apart]
        q, k, v = (part.unflatten(-1, (-1, self.size)) for part in parts)
        if self.norms:
            q, k = (norm(part) for norm, part in zip(self.norms, (q, k)))
        q, k, v = (part.transpose(1, 2) for part in (q, k, v))
        if self.rotated:
            cos, sin = (nn.functional.embedding(position, table)[:, None, None] for table in (self.cos, self.sin))
            low, high = slice(0, self.size // 2), slice(self.size // 2, None)
            q, k = (part * cos + torch.cat((-part[..., high], part[..., low]), -1) * sin for part in (q, k))
        at = position[:, None, None, None]
        self.keys.scatter_(2, at.expand_as(k), k)
        self.values.scatter_(2, at.expand_as(v), v)
        mask = torch.where(torch.arange(LENGTH) <= at, 0.0, -torch.inf)
        out = nn.functional.scaled_dot_product_attention(q, self.keys, self.values, attn_mask=mask, enable_gqa=True)
        return self.out(out.transpose(1, 2).flatten(2))


def compiled(users, **how):
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = Attention(users, **how).eval()
    arguments = torch.randn(users, 1, 128), torch.arange(users) * 7 + 300
    kept = Residence([model.keys, model.values])  # where a decoder's cache lies: on the chip
    result = compile_model(model, arguments, device="sim:n150", settings={"precision": "bfloat16"}, residence=kept)
    return result.program, result(*arguments)


FORMS = {
    "one user": {"users": 1},
    "several users, a bias": {"users": 4, "bias": True},
    "one product, no rotation": {"users": 2, "joined": True, "rotated": False},
    "norms of heads": {"users": 2, "normed": True},
    "a size that no kernel rotates": {"users": 1, "size": 96, "joined": True},
    "and with norms, of several": {"users": 4, "size": 96, "normed": True},
}


@pytest.mark.parametrize("form", FORMS)
def test_heads_are_cut_once_and_stay_in_shards(form, monkeypatch, tmp_path):
    program, output = compiled(**FORMS[form])
    steps = {kernel: [s for s in program.body if s.kernel == kernel] for kernel in (CREATE, ROTATE, UPDATE, DECODE)}
    rotated = FORMS[form].get("rotated", True) and FORMS[form].get("size") != 96
    assert [len(found) for found in steps.values()] == [1, 2 if rotated else 0, 2, 1]
    taken = [s.attr("input_tensor").name for s in steps[UPDATE]] + [steps[DECODE][0].attr("input_tensor_q").name]
    assert {program.specs[name].memory.sharding for name in taken} == {"height"}
    assert all(s.attr("is_decode_mode") for s in steps[ROTATE])
    monkeypatch.setattr(fuse_decode_heads, "MOST_HEADS", 0)
    monkeypatch.setenv("PROVEOUT_CACHE", str(tmp_path))
    before, expected = compiled(**FORMS[form])
    assert not any(s.kernel == CREATE for s in before.body)
    torch.testing.assert_close(output, expected, rtol=0, atol=0)


@pytest.mark.parametrize("odd", [{"users": 9}, {"users": 2, "joined": True, "order": (0, 2, 1)}])
def test_other_orders_and_users_that_fill_no_rows_of_cores_keep_their_lowering(odd):
    program, _ = compiled(**odd)
    assert any(s.kernel == DECODE for s in program.body)
    assert not any(s.kernel == CREATE for s in program.body)
