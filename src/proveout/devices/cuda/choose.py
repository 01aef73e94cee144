"""Which candidate serves a call: measured once for its shape on this GPU, kept on disk, and for some GPUs shipped."""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import math
import os
import secrets
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from proveout.coding import from_json, read_json, to_json
from proveout.folders import default_folder

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

Candidate = tuple[str, dict[str, int]]
"""`library`, or a Triton kernel's name, and the numbers it is launched with."""
SHIPPED = Path(__file__).with_name("choices.json")
ENOUGH_BYTES = 160 << 20
"""Weights that are measured with: more than an L2 cache holds, since a model's are not there either."""
LIBRARY: Candidate = ("library", {})
HALF = (torch.bfloat16, torch.float16)
SHORTLIST, HURRIED = 16, 3
"""Candidates of a call that are measured when it is first made; `tests/bench/cuda_tune.py` measures all. A process that
has spent `PATIENCE_S` on measuring goes on with fewer."""
PATIENCE_S = 90.0
_spent_s = 0.0
_chosen: dict[str, Candidate] = {}


def fastest(
    key: str,
    candidates: Callable[[], list[Candidate]],
    library: Callable[..., Any],
    kernel: Callable[..., Any],
    operands: tuple[Any, ...],
    weight: int | None = None,
) -> Any:
    """Make a call by the library or by our kernel with the numbers that were fastest: remembered, else measured, each
    time with another copy of the operand `weight`."""

    def call(candidate: Candidate, *operands: Any) -> Any:
        return library(*operands) if candidate[0] == "library" else kernel(candidate[1], *operands)

    chosen = _chosen.get(key)
    if chosen is None:
        rows = [LIBRARY, *candidates()]
        chosen = choices().get(key, rows)
        if chosen is None and torch.cuda.is_current_stream_capturing():
            return call(LIBRARY, *operands)  # nothing can be measured now
        _chosen[key] = chosen = chosen or _measured(key, rows, call, operands, weight)
    return call(chosen, *operands)


def _measured(
    key: str, rows: list[Candidate], call: Callable[..., Any], operands: tuple[Any, ...], weight: int | None
) -> Candidate:
    global _spent_s
    own = None if weight is None else operands[weight]
    spare = [] if own is None else [own, *(own.clone() for _ in range(copies(own.nbytes) - 1))]

    def with_copy(candidate: Candidate, i: int) -> Any:
        if weight is None:
            return call(candidate, *operands)
        return call(candidate, *operands[:weight], spare[i], *operands[weight + 1 :])

    began = time.monotonic()
    few = rows[: SHORTLIST if _spent_s < PATIENCE_S else HURRIED]
    chosen = best(key, few, with_copy, 1 << 30 if own is None else own.nbytes)
    _spent_s += time.monotonic() - began
    return chosen


def all_of(name: str, **values: tuple[int, ...]) -> list[Candidate]:
    """A kernel with every combination of numbers."""
    return [(name, dict(zip(values, row))) for row in itertools.product(*values.values())]


def by_promise(rows: list[tuple[int, Candidate]]) -> list[Candidate]:
    """Candidates with their numbers of blocks, those first that come nearest to one block for each multiprocessor of
    the larger GPUs."""
    return [candidate for _, candidate in sorted(rows, key=lambda row: abs(math.log(row[0] / 140)))]


def is_half(*tensors: torch.Tensor | None) -> bool:
    return all(t is None or t.dtype in HALF for t in tensors)


@dataclass(frozen=True)
class Choice:
    """One row: the candidate that was fastest, the time of each, and why some did not run."""

    kernel: str
    numbers: dict[str, int]
    us: dict[str, float] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)


def _of_machines(path: Path) -> dict[str, dict[str, Any]]:
    """What a file holds for each machine; nothing of what is no such file: that costs a measurement."""
    with contextlib.suppress(OSError, ValueError):
        document = read_json(path)
        if isinstance(document, dict):
            return {machine: rows for machine, rows in document.items() if isinstance(rows, dict)}
    return {}


class Choices:
    """What was measured on one kind of GPU with one set of versions."""

    def __init__(self, machine: str, path: Path, shipped: Path = SHIPPED) -> None:
        self.machine, self.path = machine, path
        self.rows: dict[str, Choice] = {}
        for file in (shipped, path):
            for key, row in _of_machines(file).get(machine, {}).items():
                with contextlib.suppress(ValueError):
                    self.rows[key] = from_json(Choice, row)

    def get(self, key: str, candidates: Sequence[Candidate]) -> Candidate | None:
        """What was chosen before, if it is still a candidate."""
        row = self.rows.get(key)
        return next((c for c in candidates if row and c == (row.kernel, row.numbers)), None)

    def outcomes(self, key: str) -> dict[str, str]:
        """What became of a call's candidates: their times, or why they did not run."""
        row = self.rows.get(key)
        times = {name: f"{us:.1f} us" for name, us in row.us.items() if isinstance(us, float)} if row else {}
        return times | {name: str(why) for name, why in row.failed.items()} if row else {}

    def put(
        self, key: str, candidate: Candidate, us: dict[str, float], failed: Mapping[str, str] | None = None
    ) -> None:
        """Remember, here and on disk; two processes that write at once lose a row, which is then measured again."""
        self.rows[key] = Choice(candidate[0], candidate[1], dict(us), dict(failed or {}))
        with contextlib.suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            known = _of_machines(self.path)
            known.setdefault(self.machine, {})[key] = to_json(self.rows[key])
            draft = self.path.with_name(f"{self.path.name}.{secrets.token_hex(4)}")
            draft.write_text(json.dumps(known, indent=1, sort_keys=True))
            os.replace(draft, self.path)


@functools.cache
def choices() -> Choices:
    return Choices(machine(), default_folder() / "cuda" / "choices.json")


def machine() -> str:
    """What a choice depends on besides its call: the GPU and the versions of what makes its kernels."""
    import triton

    return f"{torch.cuda.get_device_name()} / torch {torch.__version__} / triton {triton.__version__}"


def best(
    key: str, candidates: Sequence[Candidate], call: Callable[[Candidate, int], Any], weight_bytes: int, calls: int = 24
) -> Candidate:
    """The fastest candidate for a call. `call(candidate, i)` makes it once, with the i-th copy of its weights."""
    known = choices().get(key, candidates)
    if known is not None or len(candidates) == 1:
        return known or candidates[0]
    if torch.cuda.is_current_stream_capturing():
        return candidates[0]
    us: dict[str, float] = {}
    failed: dict[str, str] = {}
    for candidate in candidates:
        try:
            us[label(candidate)] = measure(functools.partial(call, candidate), copies(weight_bytes), calls)
        except Exception as error:  # a tile too large for the GPU's shared memory is no candidate
            failed[label(candidate)] = (
                f"did not run ({str(error).splitlines()[0][:120] if str(error) else type(error)})"
            )
    chosen = min((c for c in candidates if label(c) in us), key=lambda c: us[label(c)], default=candidates[0])
    choices().put(key, chosen, {name: round(took, 2) for name, took in us.items()}, failed)
    return chosen


def label(candidate: Candidate) -> str:
    return " ".join([candidate[0], *(f"{k}{v}" for k, v in candidate[1].items())])


def copies(weight_bytes: int) -> int:
    """How many copies of a weight make a round trip through them miss the cache."""
    return max(2, min(128, -(-ENOUGH_BYTES // max(weight_bytes, 1))))


def measure(call: Callable[[int], Any], num_copies: int, calls: int = 24, rounds: int = 9) -> float:
    """Microseconds per call, one after another inside a CUDA graph, while no other process measures."""
    total = max(num_copies, calls)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        call(0)  # compiles
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    samples = []
    with alone():
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for index in range(total):
                call(index % num_copies)
        for _ in range(rounds):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            graph.replay()
            end.record()
            end.synchronize()
            samples.append(begin.elapsed_time(end) * 1e3 / total)
    return statistics.median(samples[2:])


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """While no other process of this user measures."""
    try:
        path = choices().path.with_name("measuring")
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("w")
    except OSError:  # a folder that cannot be written to: then nobody waits
        yield
        return
    with file:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
