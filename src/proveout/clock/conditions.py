"""The conditions a measurement was made under: versions, processor, limits, pressure, clocks. Needs no torch.

What a machine does not tell is left out; what it tells is said in its own words.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

PACKAGES = ("proveout", "torch", "transformers", "numpy", "onnxruntime")
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
CGROUP = Path("/sys/fs/cgroup")
CPU = Path("/sys/devices/system/cpu")

Pairs = tuple[tuple[str, str], ...]


def conditions(gpu: bool = False) -> Pairs:
    """All that can be told, in a fixed order; GPUs only where one is used."""
    facts = [
        ("python", platform.python_version()),
        *versions(),
        ("system", f"{platform.system()} {platform.release()} {platform.machine()}"),
        ("cpu", cpu_name()),
    ]
    facts += [(name, text) for name, read in _SOURCES.items() if (text := read()) is not None]
    facts += [(name, os.environ[name]) for name in THREADS if name in os.environ]
    if gpu:
        facts += gpus()
    return tuple(facts)


def environment() -> Pairs:
    """What a Record keeps of the conditions that it was made under."""
    torch = sys.modules.get("torch")
    return (
        ("python", platform.python_version()),
        ("system", f"{platform.system()} {platform.machine()}"),
        ("cpu", cpu_name()),
        ("cores", str(len(os.sched_getaffinity(0)))),
        *((("threads", str(torch.get_num_threads())),) if torch is not None else ()),
        *versions(),
    )


def versions() -> list[tuple[str, str]]:
    """Of the packages that are here."""
    packages = []
    for name in PACKAGES:
        try:
            packages.append((name, metadata.version(name)))
        except metadata.PackageNotFoundError:
            continue
    return packages


def cpu_name() -> str:
    for line in (_read(Path("/proc/cpuinfo")) or "").splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor() or "unknown"


def cpu_pressure() -> float | None:
    """Per cent of the last 10 s in which some task waited for a processor; None where the kernel does not count."""
    text = _read(Path("/proc/pressure/cpu")) or ""
    line = next((line for line in text.splitlines() if line.startswith("some")), "")
    return next((float(word.partition("=")[2]) for word in line.split() if word.startswith("avg10=")), None)


def memory_bytes() -> int | None:
    """What this process may use: the machine's memory or the cgroup's limit, whichever is less."""
    line = next((x for x in (_read(Path("/proc/meminfo")) or "").splitlines() if x.startswith("MemTotal:")), "")
    total = int(line.split()[1]) * 1024 if line else None
    limit = _limit("memory.max")
    known = [total] if total else []
    return min([*known, int(limit)]) if limit and limit.isdigit() else total


def gpus() -> list[tuple[str, str]]:
    """Name, driver and clocks of each GPU, where the package nvidia-ml-py is installed."""
    try:
        import pynvml
    except ImportError:
        return [("gpu", "unknown: the package nvidia-ml-py is not installed")]
    try:
        pynvml.nvmlInit()
        facts = [("gpu_driver", str(pynvml.nvmlSystemGetDriverVersion()))]
        for index in range(pynvml.nvmlDeviceGetCount()):
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            now, most = (
                f(handle, pynvml.NVML_CLOCK_SM)
                for f in (pynvml.nvmlDeviceGetClockInfo, pynvml.nvmlDeviceGetMaxClockInfo)
            )
            facts.append((f"gpu{index}", f"{pynvml.nvmlDeviceGetName(handle)}, SM clock {now} of {most} MHz"))
        return facts
    except pynvml.NVMLError as error:
        return [("gpu", f"unknown: {error}")]


def _read(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return None


def _limit(name: str) -> str | None:
    """Of this process's own cgroup, or of the one that a container shows as the root."""
    own = (_read(Path("/proc/self/cgroup")) or "").rpartition("::")[2].lstrip("/")
    return _read(CGROUP / own / name) or _read(CGROUP / name)


def _affinity() -> str:
    """As ranges: `0-3,8`."""
    cores = sorted(os.sched_getaffinity(0))
    starts = [c for c in cores if c - 1 not in cores]
    ends = [c for c in cores if c + 1 not in cores]
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in zip(starts, ends))


def _governors() -> str | None:
    governors = {text for path in CPU.glob("cpu[0-9]*/cpufreq/scaling_governor") if (text := _read(path))}
    return ", ".join(sorted(governors)) or None


def _turbo() -> str | None:
    for path, on in ((CPU / "intel_pstate/no_turbo", "0"), (CPU / "cpufreq/boost", "1")):
        text = _read(path)
        if text is not None:
            return "on" if text == on else "off"
    return None


def _quota() -> str | None:
    quota, _, period = (_limit("cpu.max") or "").partition(" ")
    return f"{int(quota) / int(period):g} cores" if quota.isdigit() and period.isdigit() else None


def _memory() -> str | None:
    total = memory_bytes()
    return f"{total / 2**30:.1f} GiB" if total else None


def _pressure() -> str | None:
    share = cpu_pressure()
    return None if share is None else f"{share:g} % of the last 10 s"


_SOURCES: dict[str, Callable[[], str | None]] = {
    "cores": lambda: str(len(os.sched_getaffinity(0))),
    "affinity": _affinity,
    "governor": _governors,
    "turbo": _turbo,
    "cgroup_cpu": _quota,
    "memory": _memory,
    "cpu_pressure": _pressure,
    "load_average": lambda: f"{os.getloadavg()[0]:.2f}",
}
