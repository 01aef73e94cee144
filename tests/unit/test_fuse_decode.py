"""A static cache's decode step becomes ttnn's own calls where it is one, and stays as it was where it is not."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import proveout
from proveout.compiler.program_passes.shard_users import user_memory
from proveout.devices.registry import find
from proveout.program import TO_TORCH
from proveout.types import TensorSpec

DECODE = "ttnn.transformer.scaled_dot_product_attention_decode"
UPDATE = "ttnn.experimental.paged_update_cache"
ATTEND = "ttnn.transformer.scaled_dot_product_attention"
LENGTH, SIZE = 512, 64


def repeated(heads, times):
    """Each head for its group of queries, as transformers does it."""
    users, shared, length, size = heads.shape
    return heads[:, :, None].expand(users, shared, times, length, size).reshape(users, shared * times, length, size)


class Step(nn.Module):
    """One token of each user: its keys and values into the cache at its position, then attention up to there."""

    def __init__(self, users=2, heads=4, shared=2, window=None, **odd):
        super().__init__()
        for name in ("keys", "values"):
            self.register_buffer(name, torch.randn(users, shared, LENGTH, SIZE))
        self.groups, self.window, self.odd = heads // shared, window, odd

    def forward(self, q, k, v, position):
        at = position[:, None, None, None]
        where = at + 0 * k.long() if self.odd.get("index") == "computed" else at.expand_as(k)
        self.keys.scatter_(2, where, k)
        self.values.scatter_(2, (at - 1 if self.odd.get("values") == "elsewhere" else at).expand_as(v), v)
        places = torch.arange(LENGTH) + self.odd.get("shift", 0)
        seen = places < at if self.odd.get("mask") == "before" else places <= at
        if self.window:
            seen = seen & (places > at - self.window)
        mask = torch.where(seen, self.odd.get("bias", 0.0), -torch.inf)
        keys, values = (repeated(t, self.groups) for t in (self.keys, self.values))
        if self.odd.get("order") == "round robin":
            keys, values = (t.repeat(1, self.groups, 1, 1) for t in (self.keys, self.values))
        out = nn.functional.scaled_dot_product_attention(q, keys, values, attn_mask=mask, scale=0.2)
        return (out, self.keys.sum()) if self.odd.get("reads") == "twice" else out


def inputs(users=2, heads=4, shared=2):
    torch.manual_seed(1)
    q, k, v = (torch.randn(users, n, 1, SIZE) for n in (heads, shared, shared))
    return q, k, v, torch.arange(users) * 7 + 5


def compiled(model, arguments, **settings):
    torch._dynamo.reset()
    return proveout.compile(model.eval(), arguments, settings={"precision": "bfloat16", **settings})


def kernels(program):
    return [step.kernel for step in program.body]


CASES = {
    "grouped": {},
    "each its own": {"heads": 4, "shared": 4},
    "one for all": {"heads": 4, "shared": 1},
    "one user": {"users": 1},
    "window": {"window": 4},
}


@pytest.mark.parametrize("case", CASES)
def test_a_decode_step_is_two_updates_and_one_attention(case):
    sizes = CASES[case]
    torch.manual_seed(0)
    model = Step(**sizes)
    arguments = inputs(**{k: v for k, v in sizes.items() if k != "window"})
    eager = Step(**sizes)
    eager.load_state_dict(model.state_dict())
    step = compiled(model, arguments, verify=case == "window")
    calls = kernels(step.program)
    assert (calls.count(UPDATE), calls.count(DECODE), calls.count(ATTEND), calls.count("ttnn.scatter")) == (2, 1, 0, 0)
    assert not {"ttnn.where", "ttnn.le"} & set(calls), "the mask is the kernel's own"
    for shift in range(2):  # the second call finds what the first left
        q, k, v, position = arguments
        call = q, k + shift, v - shift, position + shift
        torch.testing.assert_close(step(*call), eager(*call), atol=0.03, rtol=0.03)
        torch.testing.assert_close(model.keys, eager.keys, atol=0.03, rtol=0.01)
    assert len(step.program.state) == 2
    [decode] = [s for s in step.program.body if s.kernel == DECODE]
    assert decode.attr("sliding_window_size") == sizes.get("window")


def test_new_rows_lie_one_user_to_a_core_and_positions_in_rows():
    step = compiled(Step(users=4), inputs(users=4))
    program = step.program
    for update in (s for s in program.body if s.kernel == UPDATE):
        row, position = (program.specs[update.attr(n).name] for n in ("input_tensor", "update_idxs_tensor"))
        assert row.memory.sharding == "height"
        assert (row.memory.shard.shape, row.memory.shard.grid) == ((32, SIZE), (4, 1))
        assert (position.dtype, position.layout, position.memory.buffer) == ("int32", "row_major", "dram")
    crossing = [s for s in program.body if s.kernel == TO_TORCH]
    assert max(program.specs[s.outputs[0]].nbytes for s in crossing) < program.specs[program.weights[0]].nbytes


NEAR_MISSES = [
    {"mask": "before"},
    {"shift": 1},
    {"bias": 0.5},
    {"order": "round robin"},
    {"reads": "twice"},
    {"values": "elsewhere"},
]


@pytest.mark.parametrize("odd", NEAR_MISSES, ids=str)
def test_near_misses_keep_their_lowering_and_their_numbers(odd):
    torch.manual_seed(0)
    model, eager = Step(**odd), Step(**odd)
    eager.load_state_dict(model.state_dict())
    step = compiled(model, inputs())
    assert DECODE not in kernels(step.program)
    ours, theirs = step(*inputs()), eager(*inputs())
    if "reads" in odd:
        ours, theirs = ours[0], theirs[0]
    torch.testing.assert_close(ours, theirs, atol=0.05, rtol=0.05)


def test_float32_keeps_its_lowering():
    """The kernel takes bfloat16 and block floats alone."""
    assert DECODE not in kernels(compiled(Step(), inputs(), precision="model").program)


@pytest.mark.parametrize(("users", "grid"), [(1, (1, 1)), (7, (7, 1)), (16, (8, 2)), (32, (8, 4)), (11, None)])
def test_a_box_of_cores_has_as_many_as_there_are_users(users, grid):
    chip = find("sim:n150").spec
    memory = user_memory(TensorSpec((1, users, 8, 64), "bfloat16", "tile"), chip)
    assert (memory and memory.shard.grid) == grid
