"""The configurations of a benchmark: what is asked for, what this machine has, and each of them once."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path

from proveout.devices.registry import describe
from proveout.errors import UsageError, unknown
from proveout.serving import Load

WORKERS = (1, 2)
CLOSED = Load()
CGROUP = Path("/sys/fs/cgroup")


def grid(
    device: str,
    n_models: int | Sequence[int] | None,
    workers_per_model: int | Sequence[int] | None,
    pipeline_sizes: int | Sequence[int] | None,
    load: Load = CLOSED,
) -> list[tuple[int, int, int]]:
    """(models, workers of each, chips of each), in the order asked for; one and as many as fit where nothing is."""
    if load.mode in ("concurrency", "multistream") and workers_per_model is not None:
        raise UsageError(f"load {load.mode!r} says itself how many workers there are: leave workers_per_model out.")
    most = max_models(device)
    points: list[tuple[int, int, int]] = []
    for size in counts("pipeline_sizes", pipeline_sizes, (1,)):
        check_pipeline(device, size)
        default = (1,) if most is None else (1, max(1, most // size))
        # A pipeline is filled by as many calls as it has stages.
        workers = counts("workers_per_model", workers_per_model, WORKERS if size == 1 else (size,))
        points += [(m, w, size) for w in workers for m in counts("n_models", n_models, default)]
    return list(dict.fromkeys((m, _callers(load, m) or w, size) for m, w, size in points))


def _callers(load: Load, n_models: int) -> int:
    """Workers of each model where the load decides; of models that share unevenly, the most."""
    return {"multistream": load.streams, "concurrency": math.ceil(load.concurrency / n_models)}.get(load.mode, 0)


def counts(name: str, choice: int | Sequence[int] | None, default: Sequence[int]) -> list[int]:
    """A list parameter, which also takes one number."""
    if choice is None:
        return list(default)
    numbers = [choice] if isinstance(choice, int | str) else list(choice)
    for number in numbers:
        if not isinstance(number, int) or isinstance(number, bool) or number < 1:
            raise UsageError(f"{name} has {number!r}: give whole numbers from 1.")
    if not numbers:
        raise UsageError(f"{name} is an empty list: give at least one number, or leave it out.")
    return numbers


def max_models(device: str) -> int | None:
    """How many models this machine serves at once: chips, GPUs, or cores that we may use; None where unknown."""
    info = describe(device)
    if info is None:
        return None
    if info.is_gpu:
        import torch

        return torch.cuda.device_count() or None
    if info.times == "modelled":
        return info.spec.chips if info.spec else None
    if info.claims == "chip":
        cards = Path("/dev/tenstorrent")
        return len(list(cards.iterdir())) or None if cards.is_dir() else None
    return usable_cores() if info.target == "torch" else None


def usable_cores() -> int:
    """Cores that the scheduler gives us: affinity, and the quota of every control group that we are in."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quotas = [q for q in (_quota(folder) for folder in _groups()) if q is not None]
    return max(1, min([cores, *(math.ceil(q) for q in quotas)]))


def _groups() -> list[Path]:
    """Our control group and those around it, in either version's layout."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []
    paths: list[Path] = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        root = CGROUP / controllers if controllers else CGROUP
        below = root / path.lstrip("/")
        paths += [below, *(p for p in below.parents if p.is_relative_to(root))]
    return paths


def _quota(folder: Path) -> float | None:
    """In cores."""
    try:
        if (folder / "cpu.max").exists():
            quota, period = (folder / "cpu.max").read_text().split()
        else:
            quota = (folder / "cpu.cfs_quota_us").read_text().strip()
            period = (folder / "cpu.cfs_period_us").read_text().strip()
        return None if quota in ("max", "-1") else int(quota) / int(period)
    except (OSError, ValueError):
        return None


def check_pipeline(device: str, size: int) -> None:
    if size == 1:
        return
    info = describe(device)
    chips = info.spec.chips if info is not None and info.times == "modelled" and info.spec is not None else 1
    if size > chips:
        raise UsageError(
            f"a pipeline of {size} chips on device {device!r}, which has {chips}: use 'sim:n300' and at most 2."
        )


MODES = ("closed", "concurrency", "constant", "poisson", "replay", "offline", "multistream")


def load_of(choice: Load | str) -> Load:
    """How calls arrive, checked: each mode's own parameter must be there."""
    load = choice if isinstance(choice, Load) else Load(choice)  # type: ignore[arg-type]
    if load.mode not in MODES:
        raise unknown("load mode", load.mode, MODES)
    needs = {
        "constant": (load.rate > 0 and math.isfinite(load.rate), "rate, in calls per second, above 0"),
        "poisson": (load.rate > 0 and math.isfinite(load.rate), "rate, in calls per second, above 0"),
        "concurrency": (load.concurrency > 0, "concurrency of at least 1"),
        "multistream": (load.streams > 0, "streams of at least 1"),
        "replay": (bool(load.arrivals_s), "arrivals_s with at least one start in seconds"),
    }
    fulfilled, needed = needs.get(load.mode, (True, ""))
    if not fulfilled:
        raise UsageError(f"load {load.mode!r} needs a {needed}: give Load({load.mode!r}, …).")
    if load.mode == "replay" and list(load.arrivals_s) != sorted(load.arrivals_s):
        raise UsageError("the arrivals of a replayed trace are not in order: sort them by start.")
    return load
