"""What is chosen and found for BERT-Base is worth a third as much speed again as ttnn's own choices, on inputs that
were not seen.

It was half as much by the time model of before, which held for none but the products' own tables.
"""

from __future__ import annotations

import pytest
import torch
from zoo import BIG

import proveout
from proveout.check import compare_outputs
from proveout.types import Settings

BASE = Settings(precision="bfloat16", memory="dram", products="default", sharding="interleaved", trace=True)
FOUND = Settings(precision="bfloat16", trace=True, sharding="norms", math_fidelity="LoFi", weights="bfloat8_b")


@pytest.mark.slow
def test_bert_base_is_a_third_quicker_within_the_budget():
    model, inputs = BIG["bert_base"]()
    plain = proveout.compile(model, inputs, settings=BASE, dry_run=True)
    tuned = proveout.compile(model, inputs, settings=FOUND)
    assert plain.plan.total_ns >= 1.33 * tuned.plan.total_ns
    other = {"input_ids": torch.randint(3, 30522, (1, 128), generator=torch.Generator().manual_seed(7))}
    with torch.no_grad():
        wanted = model(**other)
    assert all(c.passed and c.pcc >= 0.99 for c in compare_outputs(tuned(**other), wanted, 0.99))
