"""Layers that PyTorch runs as one op in inference, and recurrent ones: all of them on the device."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._pytree import tree_leaves

import proveout


class Encoder(nn.Module):
    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, **options) for _ in range(2)
        )

    def forward(self, x: torch.Tensor, mask: Any = None, padding: Any = None) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x, src_mask=mask, src_key_padding_mask=padding)
        return x


CAUSAL = torch.triu(torch.ones(10, 10, dtype=torch.bool), 1)
PADDED = torch.arange(10).expand(2, 10) >= torch.tensor([[10], [7]])


@pytest.mark.parametrize(
    ("options", "masks"),
    [
        ({"activation": "gelu"}, ()),
        ({"norm_first": True}, ()),
        ({}, (CAUSAL,)),
        ({}, (CAUSAL.float().masked_fill(CAUSAL, -torch.inf),)),
        ({}, (None, PADDED)),
        ({}, (CAUSAL, PADDED)),
    ],
)
def test_encoder_layers_of_torch_run_on_the_device(options: dict[str, Any], masks: tuple[Any, ...]) -> None:
    _same_and_on_the_device(Encoder(**options), torch.randn(2, 10, 64), *masks)


def test_attention_over_itself_of_torch_runs_on_the_device() -> None:
    class Itself(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = nn.MultiheadAttention(64, 4, batch_first=True)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.attention(x, x, x, need_weights=False)[0]

    _same_and_on_the_device(Itself(), torch.randn(2, 10, 64))


@pytest.mark.parametrize(
    "model",
    [
        nn.LSTM(16, 32, num_layers=2, bidirectional=True),
        nn.LSTM(16, 32, bias=False, batch_first=True),
        nn.LSTM(16, 32, proj_size=8),
        nn.GRU(16, 32, batch_first=True),
        nn.RNN(16, 32, nonlinearity="relu"),
    ],
    ids=repr,
)
def test_recurrent_layers_run_on_the_device(model: nn.Module) -> None:
    _same_and_on_the_device(model, torch.randn(3, 4, 16))


def _same_and_on_the_device(model: nn.Module, *inputs: Any) -> None:
    model.eval()
    compiled = proveout.compile(model, inputs, device="sim")
    assert not compiled.coverage.graph_breaks
    assert not compiled.coverage.on_host
    with torch.no_grad():
        for ours, eager in zip(tree_leaves(compiled(*inputs)), tree_leaves(model(*inputs)), strict=True):
            torch.testing.assert_close(ours, eager, rtol=1e-5, atol=1e-5)
