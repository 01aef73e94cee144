"""Chooses kernels by the time of the whole model: `python tests/bench/cuda_refine.py OUT [ROW…]`.

A kernel that is fastest one after another with itself need not be so among others: its code and its operands come from
further away there. So candidates take their turn inside the CUDA graph of a whole call, for all convolutions of one
size at once, and what makes the call fastest stays. A row is MODEL|BATCH or MODEL|BATCH|FORM. `OUT/choices.json` has
what `devices/cuda` ships, with the rows of these models replaced; `REFINE_S` ends it in time.
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parent))
from cuda_models import build
from cuda_programs import loaded

from proveout import vision
from proveout.devices.cuda import choose
from proveout.devices.cuda.choose import LIBRARY, Candidate, choices, label
from proveout.devices.cuda.launch import attentions, convolutions, products

ROWS = ("resnet18 224|1", "resnet18 32|1", "resnet18 224|8")
SHARDS = int(os.environ.get("REFINE_SHARDS", max(1, (os.cpu_count() or 2) - 2)))
SECONDS = float(os.environ.get("REFINE_S", 95))
ENDS = float(os.environ.get("REFINE_ENDS", time.time() + SECONDS))
COMPILE_ENDS = ENDS - 0.45 * SECONDS
CALLS = 3
PROMISING = 12
"""Candidates of a call that are tried again after the others have changed."""
Call = tuple[Callable[..., Any], Callable[..., Any], tuple[Any, ...], int | None]


class Model:
    """A model's fused calls: what each may be served by, and what serves it now."""

    def __init__(self, row: str) -> None:
        name, batch, form = [*row.split("|"), "apart"][:3]
        self.row = row
        on_gpu, given = loaded(*build(name, int(batch), torch.bfloat16), "eager", form)
        self.inputs = [t.cuda() for t in given]
        self.kernels = on_gpu.kernels(self.inputs)
        self.calls: dict[str, Call] = {}
        self.candidates: dict[str, list[Candidate]] = {}
        self.now: dict[str, Candidate] = {}
        self.watched(LIBRARY)
        self.expected = self.outputs().float().clone()

    def watched(self, instead: Candidate | None = None) -> Any:
        """A call, with what was chosen or with one candidate everywhere."""

        def fastest(
            key: str, candidates: Any, library: Any, kernel: Any, operands: tuple[Any, ...], weight: int | None = None
        ) -> Any:
            if key not in self.calls:
                self.calls[key] = library, kernel, tuple(operands), weight
                self.candidates[key] = candidates()
            chosen = instead or self.now.get(key) or self.first(key)
            return library(*operands) if chosen[0] == "library" else kernel(chosen[1], *operands)

        attentions.fastest = convolutions.fastest = products.fastest = fastest
        return self.kernels.call(self.inputs)[0]

    def outputs(self) -> torch.Tensor:
        return self.watched(None if self.now else LIBRARY)

    def only(self, compiled: set[str]) -> None:
        """Leave out candidates that were not compiled in time."""
        for key, rows in self.candidates.items():
            operands = self.calls[key][2]
            self.candidates[key] = [c for c in rows if binary(key, c, operands) in compiled]

    def begin(self) -> None:
        self.now = {key: self.first(key) for key in self.candidates}

    def first(self, key: str) -> Candidate:
        rows = self.candidates[key]
        return choices().get(key, [LIBRARY, *rows]) or (rows or [LIBRARY])[0]

    def groups(self) -> list[list[str]]:
        """Calls that take the same numbers: convolutions of one size, whatever is added to them."""
        made: dict[str, list[str]] = {}
        for key in self.candidates:
            words = key.split()
            made.setdefault(" ".join(words[:8]) if words[0] == "conv" else key, []).append(key)
        return list(made.values())

    def us(self, rounds: int = 11) -> float:
        """Microseconds of a call, some after another in one CUDA graph; endless if its outputs are wrong."""
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            given = self.outputs().float()
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        if not ((given - self.expected).norm() / self.expected.norm()).item() < 0.03:
            return float("inf")
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(CALLS):
                self.outputs()
        samples = []
        for _ in range(rounds):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            graph.replay()
            end.record()
            end.synchronize()
            samples.append(begin.elapsed_time(end) * 1e3 / CALLS)
        return statistics.median(samples[2:])

    def attempt(self, keys: list[str], candidate: Candidate, rounds: int = 11) -> float:
        before = dict(self.now)
        self.now.update({key: candidate for key in keys if candidate in self.candidates[key]})
        try:
            return self.us(rounds)
        except Exception as error:
            print(f"  {label(candidate)} did not run: {str(error).splitlines()[0][:120]}")
            return float("inf")
        finally:
            self.now = before

    def refine(self, ends: float) -> None:
        self.begin()
        promising: dict[str, list[Candidate]] = {}
        took = self.us()
        print(f"{self.row}: as chosen one by one {took:.2f} us", flush=True)
        for sweep in range(3):
            before = took
            for keys in self.groups():
                rows = promising.get(keys[0], [])
                if not rows:
                    for key in keys:
                        rows += [c for c in self.candidates[key] if c not in rows]
                tried = []
                for candidate in rows:
                    if time.time() > ends:
                        break
                    tried.append((self.attempt(keys, candidate), label(candidate), candidate))
                tried.sort(key=lambda row: row[:2])
                promising[keys[0]] = [candidate for _, _, candidate in tried[:PROMISING]]
                if tried and tried[0][0] < took - 0.1:
                    again = self.attempt(keys, tried[0][2], 25)
                    if again < took - 0.05:
                        took = again
                        self.now.update({key: tried[0][2] for key in keys if tried[0][2] in self.candidates[key]})
                best = "  ".join(f"{us:.2f} {name}" for us, name, _ in tried[:4])
                print(f"  {sweep} {took:.2f} {keys[0]} ({len(tried)}): {best}", flush=True)
            if before - took < 0.3 or time.time() > ends:
                break
        print(f"{self.row}: {self.us(40):.2f} us", flush=True)

    def keep(self) -> None:
        """Into the choices, with the times of each call by itself."""
        for key, chosen in self.now.items():
            us = {label(one): self.alone(key, one) for one in (LIBRARY, chosen)}
            choices().rows[key] = {"kernel": chosen[0], "numbers": chosen[1], "us": us, "within": self.row}

    def alone(self, key: str, candidate: Candidate) -> float:
        library, kernel, operands, weight = self.calls[key]
        own = None if weight is None else operands[weight]
        spare = [own] if own is None else [own.clone() for _ in range(choose.copies(own.nbytes))]

        def call(i: int) -> Any:
            given = operands if weight is None else (*operands[:weight], spare[i], *operands[weight + 1 :])
            return library(*given) if candidate == LIBRARY else kernel(candidate[1], *given)

        return round(choose.measure(call, len(spare), rounds=5), 2)


def binary(key: str, candidate: Candidate, operands: tuple[Any, ...]) -> str:
    """What is compiled for a candidate: one kernel serves all convolutions that take their channels in slices."""
    name, numbers = candidate
    if name == "conv" and operands[5][3] % numbers["BK"] == 0:
        return json.dumps((name, *operands[6], operands[4], {k: v for k, v in numbers.items() if k != "SPLIT"}))
    return json.dumps((name, key, numbers))


def compile_share(out: Path, shard: int, rows: list[str]) -> None:
    done: set[str] = set()
    for row in rows:
        model = Model(row)
        for key, candidates in model.candidates.items():
            _, kernel, operands, _ = model.calls[key]
            for candidate in candidates:
                code = binary(key, candidate, operands)
                if code in done or sum(code.encode()) % SHARDS != shard or time.time() > COMPILE_ENDS:
                    continue
                done.add(code)
                with contextlib.suppress(Exception):
                    kernel(candidate[1], *operands)
                    torch.cuda.synchronize()
                    with (out / f"compiled.{shard}").open("a") as file:
                        file.write(code + "\n")


def main() -> None:
    vision.serve()
    out, rest = Path(sys.argv[1]), sys.argv[2:]
    if rest and rest[0].isdigit():
        compile_share(out, int(rest[0]), rest[1:])
        return
    rows = rest or list(ROWS)
    environment = {**os.environ, "REFINE_ENDS": str(ENDS)}
    children = [
        subprocess.Popen(
            [sys.executable, __file__, str(out), str(i), *rows], env=environment, stderr=subprocess.DEVNULL
        )
        for i in range(SHARDS)
    ]
    models = [Model(row) for row in rows]
    for child in children:
        try:
            child.wait(max(1.0, COMPILE_ENDS + 6 - time.time()))
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
    compiled = {line for file in out.glob("compiled.*") for line in file.read_text().splitlines()}
    print(f"compiled {len(compiled)}, {ENDS - time.time():.0f} s before the end", flush=True)
    for model in models:
        model.only(compiled)
        model.refine(time.time() + (ENDS - time.time()) * (1.0 if model is models[-1] else 0.6))
        model.keep()
        text = json.dumps({choices().machine: choices().rows}, indent=1, sort_keys=True)
        (out / "choices.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
