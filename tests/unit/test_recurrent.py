"""LSTM, GRU and RNN run on the device, time by time, though Dynamo leaves them to eager by itself."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import proveout

RECURRENT = {
    "LSTM": nn.LSTM(8, 12, 2, bidirectional=True, batch_first=True),
    "LSTM with a projection": nn.LSTM(8, 12, proj_size=5),
    "GRU": nn.GRU(8, 12, bidirectional=True),
    "RNN": nn.RNN(8, 12, nonlinearity="relu"),
}


@pytest.mark.parametrize("name", RECURRENT)
def test_all_of_it_runs_on_the_device(name):
    torch.manual_seed(0)
    model, x = RECURRENT[name].eval(), torch.randn(3, 4, 8)
    compiled = proveout.compile(model, (x,))
    leaves = torch.utils._pytree.tree_leaves
    with torch.no_grad():
        for ours, eagers in zip(leaves(compiled(x)), leaves(model(x)), strict=True):
            torch.testing.assert_close(ours, eagers, rtol=1e-3, atol=1e-3)
    assert compiled.coverage.graph_breaks == ()
    assert len(compiled.coverage.ops) > 20
    assert [op.aten for op in compiled.coverage.on_host] == []
    assert torch._dynamo.config.allow_rnn is False, "other compilers' setting is as it was"


class Packed(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(8, 12, batch_first=True)

    def forward(self, x):
        packed = pack_padded_sequence(x, torch.tensor([4, 2]), batch_first=True)
        return pad_packed_sequence(self.rnn(packed)[0], batch_first=True)[0]


def test_a_packed_sequence_is_still_right():
    model, x = Packed().eval(), torch.randn(2, 4, 8)
    with torch.no_grad():
        torch.testing.assert_close(proveout.compile(model, (x,))(x), model(x), rtol=1e-3, atol=1e-3)
