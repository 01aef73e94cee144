"""Measures every candidate of every fused call of the CUDA benchmark's models: `python tests/bench/cuda_tune.py OUT`.

The kernels are compiled first, by one process per core; then one process measures, and checks each chosen result
against the call's meaning in float32. What it writes is what `devices/cuda/choices.json` ships.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parent))
from cuda_models import MODELS, build
from cuda_programs import loaded

from proveout import vision
from proveout.coding import to_json
from proveout.devices.cuda import OURS, choose, ops
from proveout.devices.cuda.choose import choices
from proveout.devices.cuda.launch import attentions, convolutions, products

MODELS_OF = os.environ.get("TUNE_MODELS", ",".join(MODELS)).split(",")
BATCHES = tuple(map(int, os.environ.get("TUNE_BATCHES", "1").split(",")))
SHARDS = int(os.environ.get("TUNE_SHARDS", os.cpu_count() or 1))


def each_model() -> Any:
    for name in MODELS_OF:
        for batch in BATCHES:
            yield name, build(name, batch, torch.bfloat16, layers=2)


def compile_share(shard: int) -> None:
    """Launch every SHARDS-th candidate once: Triton keeps what it compiled on disk."""
    count = 0

    def only_compile(key: str, candidates: Any, call: Any, weight_bytes: int) -> Any:
        nonlocal count
        for candidate in candidates[1:]:
            count += 1
            if count % SHARDS == shard:
                with contextlib.suppress(Exception):
                    call(candidate, 0)
        return candidates[0]

    choose.best = only_compile
    choose.copies = lambda nbytes: 1
    run_all()


def run_all() -> None:
    for name, (model, inputs) in each_model():
        for form in ("folded",) if "x" in inputs else OURS:
            on_gpu, given = loaded(model, inputs, "eager", form)
            on_gpu.run([t.cuda() for t in given])
            torch.cuda.synchronize()
        print(name, flush=True)


def measure(out: Path) -> None:
    wrong: dict[str, float] = {}
    for module, launched, meaning, index in (
        (products, "launch_product", products.product_meaning, 0),
        (attentions, "launch_attention", attentions.attention_meaning, None),
        (convolutions, "launch_conv", ops.conv_meaning, None), (products, "launch_norm", ops.norm_meaning, None),
        (products, "launch_vector", ops.vector_meaning, None),
    ):  # fmt: skip
        original = getattr(module, launched)

        def checked(
            numbers: Any, *operands: Any, original: Any = original, meaning: Any = meaning, index: Any = index
        ) -> Any:
            made = original(numbers, *operands)
            if not torch.cuda.is_current_stream_capturing():
                want = meaning(
                    *(t.float() if isinstance(t, torch.Tensor) and t.is_floating_point() else t for t in operands)
                )
                a, b = (made, want) if index is None else (made[index], want[index])
                error = ((a.float() - b).norm() / b.norm()).item()
                label = f"{original.__name__} {numbers} {tuple(a.shape)}"
                if not error < 0.02:
                    wrong[label] = error
            return made

        setattr(module, launched, checked)
    run_all()
    (out / "choices.json").write_text(
        json.dumps({choices().machine: to_json(choices().rows)}, indent=1, sort_keys=True)
    )
    (out / "wrong.json").write_text(json.dumps(wrong, indent=1))
    for key, row in choices().rows.items():
        times = row["us"]
        ranked = sorted(times.items(), key=lambda pair: pair[1])
        print(f"{key:100} library {times.get('library', 0):6.2f}  " + "  ".join(f"{n} {t}" for n, t in ranked[:3]))
    print("wrong:", wrong)


def main() -> None:
    vision.serve()
    choose.SHORTLIST, choose.PATIENCE_S = 1000, 1e9
    choices().rows.clear()  # what is shipped is measured again
    if len(sys.argv) > 2:
        compile_share(int(sys.argv[2]))
        return
    out, started = Path(sys.argv[1]), time.time()
    children = [subprocess.Popen([sys.executable, __file__, str(out), str(i)]) for i in range(SHARDS)]
    codes = [child.wait() for child in children]
    print(f"compiled in {time.time() - started:.0f} s, exit codes {set(codes)}", flush=True)
    measure(out)
    print(f"all in {time.time() - started:.0f} s")


if __name__ == "__main__":
    main()
