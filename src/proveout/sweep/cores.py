"""Which cores each of several Jobs gets, so that measured ones do not disturb each other."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

_TOPOLOGY = Path("/sys/devices/system/cpu")


def share(
    jobs: int, cpus: Iterable[int] | None = None, core_of: Callable[[int], object] | None = None
) -> list[set[int]]:
    """The CPUs of this process in `jobs` equal parts, the threads of one core never apart.

    With more Jobs than cores they cannot be kept apart, and each part is all CPUs; so it is with one Job.
    """
    cores: dict[object, set[int]] = {}
    for cpu in sorted(os.sched_getaffinity(0) if cpus is None else cpus):
        cores.setdefault((core_of or _core_of)(cpu), set()).add(cpu)
    each = len(cores) // jobs
    if not each:
        return [set().union(*cores.values()) for _ in range(jobs)]
    groups = list(cores.values())
    return [set().union(*groups[i * each : (i + 1) * each]) for i in range(jobs)]


def _core_of(cpu: int) -> object:
    """(package, core) of a CPU; the CPU itself where the system does not tell."""
    folder = _TOPOLOGY / f"cpu{cpu}" / "topology"
    try:
        return tuple((folder / name).read_text().strip() for name in ("physical_package_id", "core_id"))
    except OSError:
        return cpu
