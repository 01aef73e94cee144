"""Writes docs/reference/decode-steps.md: `python examples/generation/decode_steps.py [--keep]`.

The decode steps of language models that others published for n150, beside what our compiler's decode Program is
predicted to take. Models are planned without their weights. `--keep` writes the page from the last run's numbers.
"""

from __future__ import annotations

import csv
import json
import sys
import time
from importlib import resources
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PAGE = HERE.parent.parent / "docs" / "reference" / "decode-steps.md"
KEPT = HERE / "decode_steps.json"
LENGTH = 256
"""Positions of the cache: a prompt of 128 and as many tokens again, as in the published runs."""
RECIPES = {
    "8-bit weights, gate and up in 4": {
        "*gate_proj": "bfloat4_b",
        "*up_proj": "bfloat4_b",
        "*gate_up_proj": "bfloat4_b",
    },
    "8-bit weights": {},
}
"""What the published runs call their formats, as settings; what is not named is bfloat8_b. Products of 4-bit weights
run in LoFi there, as tt_transformers says for them."""
TUNED: dict[str, Any] = {
    "precision": "bfloat16", "weights": "bfloat8_b", "trace": True, "sharding": "norms", "products": "configured"
}  # fmt: skip
"""The published models are tuned by hand: norms are cut over the cores, and products have program configs."""
LLAMA = {"vocab_size": 128256, "rope_theta": 500000.0, "max_position_embeddings": 8192, "rms_norm_eps": 1e-5}
SIZES: dict[str, dict[str, Any]] = {
    "llama-3.2-1b": {**LLAMA, "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16,
                     "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64},
    "llama-3.2-3b": {**LLAMA, "hidden_size": 3072, "intermediate_size": 8192, "num_hidden_layers": 28,
                     "num_attention_heads": 24, "num_key_value_heads": 8, "head_dim": 128},
    "llama-3.1-8b": {**LLAMA, "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
                     "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128},
    "mistral-7b": {"vocab_size": 32768, "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
                   "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "rope_theta": 1e6,
                   "max_position_embeddings": 32768, "sliding_window": None},
    "phi-3.5-mini": {"vocab_size": 32064, "hidden_size": 3072, "intermediate_size": 8192, "num_hidden_layers": 32,
                     "num_attention_heads": 32, "num_key_value_heads": 32, "max_position_embeddings": 4096},
}  # fmt: skip
CLASSES = {"llama": "Llama", "mistral": "Mistral", "phi": "Phi3"}
"""Of transformers, by the beginning of a model's name."""


def main(arguments: list[str]) -> int:
    rows = json.loads(KEPT.read_text()) if "--keep" in arguments else [planned(row) for row in published()]
    KEPT.write_text(json.dumps(rows, indent=1) + "\n")
    PAGE.write_text(page(rows))
    print(f"wrote {PAGE}")
    return 0


def published() -> list[dict[str, str]]:
    """The decode steps of the table, each once."""
    text = (resources.files("proveout.chip") / "data" / "models.csv").read_text()
    rows = csv.DictReader(text.splitlines())
    return [row for row in rows if row["measures"] == "decode step" and row["chip"] == "n150"]


def planned(row: dict[str, str]) -> dict[str, Any]:
    import torch
    import transformers

    from proveout.generation import Generator
    from proveout.kernels.cost import step_times
    from proveout.types import Settings

    name = row["model"].partition(",")[0]
    family = CLASSES[name.partition("-")[0]]
    config, model = getattr(transformers, f"{family}Config"), getattr(transformers, f"{family}ForCausalLM")
    formats = RECIPES[row["config"]]
    fused = ["*.act_fn"] if formats else []  # a gate with its activation
    lofi = [[f"{module}:ttnn.*", "fidelity", "LoFi"] for module in (*formats, *fused)]
    settings = Settings.of({**TUNED, "overrides": formats, "per_op": lofi})
    began = time.monotonic()
    with torch.device("meta"):
        decoder = model(config(**SIZES[name]))
    generator = Generator.compile(
        decoder, device="sim:n150", settings=settings, max_length=LENGTH, batch=int(row["batch"]), dry_run=True
    )
    phase = generator.decode_phase
    time_of = phase.predicted
    assert time_of is not None
    program, spent = phase.program, {}
    from proveout.devices.registry import find

    spec = find("sim:n150").spec
    assert spec is not None
    for step in step_times(program, spec, settings):
        spent[step.step.kernel] = spent.get(step.step.kernel, 0) + step.ns
    most = sorted(spent.items(), key=lambda pair: -pair[1])[:4]
    result = {
        "model": row["model"], "config": row["config"], "batch": row["batch"], "published_ms": float(row["ms"]),
        "source": row["source"],
        "ms": time_of.ns / 1e6, "low_ms": time_of.low_ns / 1e6, "high_ms": time_of.high_ns / 1e6,
        "steps": len(program.body), "spent_ms": [[kernel, ns / 1e6] for kernel, ns in most],
        "fits": phase.memory.fits, "dram_bytes": phase.memory.dram_peak_bytes, "cache_bytes": generator.cache_bytes,
        "seconds": time.monotonic() - began,
    }  # fmt: skip
    print(f"{row['model']}: {result['ms']:.3g} ms, planned in {result['seconds']:.0f} s", flush=True)
    return result


def page(rows: list[dict[str, Any]]) -> str:
    lines = [
        "# Decode steps: predicted beside published",
        "",
        "Written by `python examples/generation/decode_steps.py`; do not edit by hand. **Predicted** is what the",
        "model of the chip says about the decode Program that our compiler makes: one token of one user on n150,",
        f"over a full cache of {LENGTH} positions, in a trace. **Published** was measured by others on silicon, with",
        "models written by hand for it (`src/proveout/chip/data/models.csv` has each source). So the error holds two",
        "parts: the chip's model, which [whole models](whole-models.md) judges by itself on the hand-written Programs,",
        "and what our compiler still leaves. As in the published models, norms are cut over the cores and products",
        "have program configs, with weights cut over the DRAM banks where that is modelled to be quicker",
        "(`sharding=norms`, `products=configured`); products of 4-bit weights run in LoFi. Heads lie on their user's",
        "core from the product to the cache. Rows stay in shards from one product to the next there, where ours are",
        "moved for each call.",
        "The intervals are those of the chip's model; nothing was fitted to this table, but that these settings",
        "are the published models' was found out after it was first seen.",
        "",
        "| Model | Formats | Published | Predicted | 80 % interval | Tokens/s/user | Ratio | Peak DRAM |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]  # fmt: skip
    for row in rows:
        low, high = row["low_ms"], row["high_ms"]
        lines.append(
            f"| {row['model']} | {row['config']} | {row['published_ms']:.3g} ms | {row['ms']:.3g} ms |"
            f" {low:.3g} to {high:.3g} ms | {1e3 / row['ms']:.3g} ({1e3 / high:.3g} to {1e3 / low:.3g}) |"
            f" {row['ms'] / row['published_ms']:.2f} | {row['dram_bytes'] / 1e9:.3g} GB |"
        )
    inside = sum(row["low_ms"] <= row["published_ms"] <= row["high_ms"] for row in rows)
    lines += ["", f"{inside} of {len(rows)} published steps lie inside their interval.", "", "Where the time goes:", ""]
    for row in rows:
        spent = ", ".join(f"{kernel.removeprefix('ttnn.')} {ms:.3g} ms" for kernel, ms in row["spent_ms"])
        lines.append(f"- **{row['model']}** ({row['steps']} steps): {spent}.")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
