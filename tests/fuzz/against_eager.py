"""Compiled functions against eager ones: the same values, dtypes, shapes, writes and gradients, or one and the same
error. It needs no pytest, so that any machine with torch can take a share of the seeds:

    PYTHONPATH=src python tests/fuzz/against_eager.py --seeds 10000:20000 --jobs 16 [--way backward] > found.jsonl

A line of JSON for each finding and each difference that is PyTorch's own, the count last; the exit status is 1 if
anything of ours was found."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
from small_programs import arguments, function, source
from torch.utils._pytree import tree_flatten, tree_map

from proveout.engine.backend import backend

TOLERANCE = {"cpu": (1e-4, 1e-4), "sim": (0.05, 0.1)}
REFUSED = "modified by an inplace operation"
"""Eager counts the writes to a tensor and refuses its gradient; a functional graph still has the value before."""
SEED_LIMIT_S = 120
CHUNK = 40
"""Seeds of one process: what a process that dies takes with it, and what its compiler may keep in memory."""


def differences(seed: int, device: str = "cpu", way: str = "forward") -> str:
    """Why the compiled function is not the eager one; empty where it is."""
    return unlike_eager(seed, TOLERANCE[device], way, backend=backend, options={"device": device})


def pytorchs_own(seed: int, device: str = "cpu", way: str = "forward") -> bool:
    """Whether PyTorch's functional graph alone, with nothing of ours, is not the eager function either: it knows no
    memory, makes writes that eager refuses, and refuses some that eager makes."""
    return unlike_eager(seed, TOLERANCE[device], way, backend="aot_eager") != ""


def forward(call: Any, given: list[Any]) -> tuple[list[Any], Any]:
    """What a call gives and leaves in its arguments."""
    with torch.no_grad():
        leaves, structure = tree_flatten(call(*given))
    return [*leaves, *tree_flatten(given)[0]], structure


def backward(call: Any, given: list[Any]) -> tuple[list[Any], Any]:
    """What a call gives, and the gradients of its arguments. It is given copies: a leaf cannot be written to."""
    for leaf in tree_flatten(given)[0]:
        if isinstance(leaf, torch.Tensor) and (leaf.is_floating_point() or leaf.is_complex()):
            leaf.requires_grad_()
    leaves, structure = tree_flatten(call(*tree_map(lambda v: v.clone() if isinstance(v, torch.Tensor) else v, given)))
    parts = [v for v in leaves if isinstance(v, torch.Tensor) and v.requires_grad]
    if parts:
        generator = torch.Generator().manual_seed(7)
        torch.autograd.backward(parts, [torch.randn(v.shape, generator=generator, dtype=v.dtype) for v in parts])
    tensors = [v for v in tree_flatten(given)[0] if isinstance(v, torch.Tensor)]
    return [*leaves, *(torch.zeros_like(v) if v.grad is None else v.grad for v in tensors)], structure


WAYS = {"forward": forward, "backward": backward}


def outcome(way: str, call: Any, given: list[Any]) -> tuple[list[Any], Any] | Exception:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            values, structure = WAYS[way](call, given)
    except Exception as error:
        return error
    return [v.detach().clone() if isinstance(v, torch.Tensor) else v for v in values], structure


def unlike_eager(seed: int, tolerance: tuple[float, float], way: str, **how: Any) -> str:
    torch._dynamo.reset()
    eager = function(seed)
    compiled = torch.compile(function(seed), **how)
    for size in (None, 5, 3) if seed % 4 == 0 else (None,):
        wanted = outcome(way, eager, arguments(seed, size))
        result = outcome(way, compiled, arguments(seed, size))
        if isinstance(wanted, Exception):  # another size may not fit the function
            if not isinstance(result, Exception) and REFUSED not in str(wanted):
                return f"eager raises {wanted!r}, compiled does not"
            continue
        if isinstance(result, Exception):
            return f"compiled raises {type(result).__name__}: {str(result)[:300]}"
        if wanted[1] != result[1]:
            return f"the outputs are {result[1]}, not {wanted[1]}"
        for index, (ours, theirs) in enumerate(zip(result[0], wanted[0], strict=True)):
            why = unlike(ours, theirs, *tolerance)
            if why:
                return f"value {index} at size {size}: {why}"
    return ""


def unlike(ours: Any, theirs: Any, rtol: float, atol: float) -> str:
    if not isinstance(theirs, torch.Tensor) or not isinstance(ours, torch.Tensor):
        return "" if type(ours) is type(theirs) and ours == theirs else f"{ours!r}, not {theirs!r}"
    if (ours.dtype, ours.shape) != (theirs.dtype, theirs.shape):
        return f"{ours.dtype}{tuple(ours.shape)}, not {theirs.dtype}{tuple(theirs.shape)}"
    exact = not (theirs.is_floating_point() or theirs.is_complex())
    close = torch.equal(ours, theirs) if exact else torch.allclose(ours, theirs, rtol, atol, equal_nan=True)
    return "" if close else f"other numbers: {ours.flatten()[:4].tolist()}, not {theirs.flatten()[:4].tolist()}"


# ---- a share of the seeds, on any machine ---------------------------------------------------------------------------


def _try(seeds: range, device: str, way: str) -> None:
    """Seeds of this process, a line of JSON each."""

    def too_long(*_: Any) -> None:
        raise TimeoutError(f"over {SEED_LIMIT_S} s")

    torch.set_num_threads(1)
    signal.signal(signal.SIGALRM, too_long)
    for seed in seeds:
        signal.alarm(SEED_LIMIT_S)
        try:
            why = differences(seed, device, way)
            own = bool(why) and pytorchs_own(seed, device, way)
        except Exception as error:
            why, own = f"{type(error).__name__}: {error}", False
        signal.alarm(0)
        print(json.dumps({"seed": seed, "why": why, "pytorchs_own": own}), flush=True)


def _in_a_process(seeds: range, arguments: list[str]) -> list[dict[str, Any]]:
    """What a process of its own says of the seeds; the seed at which it dies is a finding, and the rest is tried."""
    command = [sys.executable, __file__, *arguments, "--seeds", f"{seeds.start}:{seeds.stop}", "--here"]
    run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    lines = [json.loads(line) for line in run.stdout.splitlines() if line.startswith('{"seed"')]
    done = seeds.start + len(lines)
    if done >= seeds.stop:
        return lines
    died = {"seed": done, "why": f"the process ended with {run.returncode}", "pytorchs_own": False}
    return [*lines, died, *(_in_a_process(range(done + 1, seeds.stop), arguments) if done + 1 < seeds.stop else [])]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", required=True, help="FIRST:END")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--device", choices=TOLERANCE, default="cpu")
    parser.add_argument("--way", choices=WAYS, default="forward")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    seeds = range(*map(int, options.seeds.split(":")))
    if options.here:
        _try(seeds, options.device, options.way)
        return 0
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ["PYTHONPATH"] = os.pathsep.join(
        [str(Path(__file__).parents[2] / "src"), os.environ.get("PYTHONPATH", "")]
    )
    began, lock, counts = time.monotonic(), threading.Lock(), {"seeds": 0, "findings": 0, "pytorchs_own": 0}

    def chunk(start: int) -> None:
        part = range(start, min(start + CHUNK, seeds.stop))
        for line in _in_a_process(part, ["--device", options.device, "--way", options.way]):
            with lock:
                counts["seeds"] += 1
                if line["why"]:
                    counts["pytorchs_own" if line["pytorchs_own"] else "findings"] += 1
                    print(json.dumps({**line, "way": options.way, "source": source(line["seed"])}), flush=True)

    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(chunk, range(seeds.start, seeds.stop, CHUNK)))
    print(json.dumps({**counts, "torch": torch.__version__, "seconds": round(time.monotonic() - began)}))
    return 1 if counts["findings"] else 0


if __name__ == "__main__":
    sys.exit(main())
