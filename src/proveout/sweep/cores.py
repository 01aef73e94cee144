"""Which cores each of several Jobs gets, so that measured ones do not disturb each other."""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

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


@contextmanager
def claim(cores: int) -> Iterator[set[int]]:
    """The CPUs of so many cores that no other claim on this machine holds; none where too few are free.

    A claim is a file lock for each core: it ends with its process, however that ends.
    """
    folder = Path(tempfile.gettempdir(), f"proveout-cores-{os.getuid()}")
    folder.mkdir(exist_ok=True)
    held: list[IO[bytes]] = []
    try:
        claimed: list[set[int]] = []
        for number, cpus in enumerate(share(max(1, num_cores()))):
            if len(claimed) == cores:
                break
            file = (folder / str(number)).open("wb")
            held.append(file)
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                claimed.append(cpus)
        yield set().union(*claimed) if len(claimed) == cores else set()
    finally:
        for lock in held:
            lock.close()


def num_cores() -> int:
    """Cores, not hardware threads, that this process may use."""
    return len({_core_of(cpu) for cpu in os.sched_getaffinity(0)})


def _core_of(cpu: int) -> object:
    """(package, core) of a CPU; the CPU itself where the system does not tell."""
    folder = _TOPOLOGY / f"cpu{cpu}" / "topology"
    try:
        return tuple((folder / name).read_text().strip() for name in ("physical_package_id", "core_id"))
    except OSError:
        return cpu
