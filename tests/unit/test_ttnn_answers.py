"""What real ttnn 0.81.1 answered on its mock n150, call by call (`ttnn_answers.json`), is what we answer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from proveout import ttnn

ANSWERS = json.loads(Path(__file__).with_name("ttnn_answers.json").read_text())


@pytest.fixture(scope="module")
def scope():
    """The names that the calls use."""
    device = ttnn.open_device(device_id=0, l1_small_size=16384, trace_region_size=1 << 20, num_command_queues=2)

    def host(*shape, **more):
        return ttnn.from_torch(torch.ones(shape), **{"dtype": ttnn.bfloat16, "layout": ttnn.TILE_LAYOUT, **more})

    def send(*shape, **more):
        return host(*shape, device=device, **more)

    def l1(*shape):
        return send(*shape, memory_config=ttnn.L1_MEMORY_CONFIG)

    def sharded(shape, x, y, strategy, *more):
        grid = ttnn.CoreGrid(x=x, y=y)
        return ttnn.create_sharded_memory_config(shape, grid, getattr(ttnn.ShardStrategy, strategy), *more)

    return {"ttnn": ttnn, "device": device, "host": host, "send": send, "l1": l1, "sharded": sharded}


@pytest.mark.parametrize(("call", "answer"), ANSWERS, ids=[call for call, _ in ANSWERS])
def test_we_answer_as_ttnn_does(call, answer, scope):
    """A refusal is answered by the same kind of exception."""
    try:
        found = str(eval(call, scope))
    except Exception as error:
        found = type(error).__name__
    assert found == answer
