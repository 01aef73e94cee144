"""Writes the table of plans in docs/guides/generate.md: `python examples/generation/plans.py [SCRIPT …]`.

Each decoder of the corpus `llm` is planned in a process of its own; with names, those alone, and other rows stay.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from proveout.words import byte_count, rounded

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "guides" / "generate.md"
NAMES = {
    "llama_3_1_8b": "Llama 3.1 8B", "llama_3_2_1b": "Llama 3.2 1B", "llama_3_2_3b": "Llama 3.2 3B",
    "qwen_2_5_7b": "Qwen 2.5 7B", "qwen_3_8b": "Qwen 3 8B", "mistral_7b": "Mistral 7B", "phi_3_mini": "Phi-3 mini",
    "phi_4": "Phi-4", "gemma_2_9b": "Gemma 2 9B", "gemma_3_1b": "Gemma 3 1B", "falcon_7b": "Falcon 7B",
    "gpt2": "GPT-2", "codegen_350m": "CodeGen 350M", "mixtral_8x7b": "Mixtral 8x7B", "mamba_2_8b": "Mamba 2.8B",
}  # fmt: skip
HOW = ("--dry-run", "--prompt-length", "32", "--new-tokens", "32", "--max-length", "64", "--recipe", "performance",
       "--set", "trace=true", "--json")  # fmt: skip


def main(scripts: list[str]) -> int:
    for script in scripts or NAMES:
        before = os.times()
        called = [sys.executable, "-m", "proveout", "generate", f"llm/{script}", *HOW]
        done = subprocess.run(called, capture_output=True, text=True)
        after = os.times()
        if done.returncode:
            print(f"{script} was not planned: {(done.stderr.strip() or done.stdout.strip()).splitlines()[-1]}")
            continue
        seconds = after.children_user + after.children_system - before.children_user - before.children_system
        new = row(NAMES[script], json.loads(done.stdout)["models"][0], seconds)
        lines = GUIDE.read_text().splitlines(keepends=True)
        GUIDE.write_text("".join(f"{new}\n" if line.startswith(f"| {NAMES[script]} |") else line for line in lines))
        print(new, flush=True)
    return 0


def row(name: str, report: dict[str, Any], seconds: float) -> str:
    prefill, decode = report["phases"]
    times = (" ".join(_ms(phase)) for phase in (prefill, decode))
    memory = f"{report['peak_rss_bytes'] / 1e9:.2f} GB | {decode['steps']:,}"
    dram = max(phase["peak_dram_bytes"] for phase in (prefill, decode))
    return f"| {name} | {seconds:.1f} s | {memory} | {' | '.join(times)} | {byte_count(dram)} |"


def _ms(phase: dict[str, Any]) -> tuple[str, str]:
    if phase["modelled_ns"] is None:
        return "–", "(does not fit, or is partly on the host)"
    low, ms, high = (rounded(phase[key] / 1e6) for key in ("low_ns", "modelled_ns", "high_ns"))
    return ms, f"({low} to {high}) ms"


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
