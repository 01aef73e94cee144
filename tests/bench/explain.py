"""What `explain` costs: `python tests/bench/explain.py [--layers N] [--numerics fast|faithful]`.

BERT-Base (sequence 128, random weights): seconds of one forward pass on the simulated chip, of one in float32, of the
explanation beyond compile, all of processor time, and that in
forward passes of the model in float32, which is what most of it is, for each 100 ops that differ. The aim: at most 20.
"""

from __future__ import annotations

import argparse
import json
import time

import torch

import proveout
from proveout.cause.explain import explain


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--numerics", default="fast")
    asked = parser.parse_args()
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    model = BertModel(BertConfig(num_hidden_layers=asked.layers)).eval()
    inputs = {"input_ids": torch.randint(0, 30000, (1, 128))}
    compiled = proveout.compile(
        model, inputs, device="sim:n150", settings={"precision": "bfloat16", "numerics": asked.numerics}
    )
    call = ((), inputs)
    compiled(**inputs)
    seconds = {}
    for name, function in (
        ("device_forward_s", lambda: compiled(**inputs)),
        ("float32_forward_s", lambda: model(**inputs)),
    ):
        began = time.process_time()
        with torch.no_grad():
            function()
        seconds[name] = time.process_time() - began
    began = time.process_time()
    (graph,) = explain(compiled, call).graphs
    seconds["explain_s"] = time.process_time() - began
    ops = sum(part.ops for part in graph.contributions)
    passes = seconds["explain_s"] / seconds["float32_forward_s"]
    print(
        json.dumps(
            {
                **{name: round(value, 2) for name, value in seconds.items()},
                "ops_that_differ": ops,
                "ops": ops + graph.exact_ops,
                "passes_by_steps": round(graph.passes, 1),
                "passes_by_time": round(passes, 1),
                "passes_by_time_per_100_ops": round(100 * passes / ops, 1),
                "aim": 20,
                "sum_minus_whole": sum(part.share for part in graph.contributions) - graph.whole,
            },
            indent=1,
        )
    )


if __name__ == "__main__":
    main()
