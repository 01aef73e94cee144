"""Processor, memory and energy while something runs, sampled by a process of its own so that measuring costs nothing.

    with Resources(pids) as sampled: …
    sampled.series        # (("cpu_percent", (…)), ("rss_bytes", (…)), …), one value an interval

This file is also the sampling process: it runs alone (`python -P resources.py`), with the standard library and, for
GPUs, nvidia-ml-py. It ends when its input closes, so it cannot outlive whoever started it.
"""

from __future__ import annotations

import itertools
import json
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO, Any

INTERVAL_S = 0.5
PROMPT = 0.05
"""The share of an interval that a reading may take."""
RAPL = Path("/sys/class/powercap")
Series = tuple[tuple[str, tuple[float, ...]], ...]


class Resources:
    """Samples these processes and their descendants until its block ends; the process that asks is not counted."""

    def __init__(self, pids: Sequence[int], interval_s: float = INTERVAL_S, gpus: bool = False) -> None:
        self.pids, self.interval_s, self.gpus = tuple(pids), interval_s, gpus
        self.series: Series = ()
        self._file: IO[str] | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Resources:
        self._file = tempfile.TemporaryFile("w+", encoding="utf-8")
        words = [str(self.interval_s), str(int(self.gpus)), *map(str, self.pids)]
        self._process = subprocess.Popen(
            [sys.executable, "-P", __file__, *words], stdin=subprocess.PIPE, stdout=self._file, start_new_session=True
        )
        return self

    def __exit__(self, *error: object) -> None:
        assert self._process is not None
        assert self._file is not None
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(timeout=self.interval_s + 5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._file.seek(0)
        self.series = series(self._file.read().splitlines())
        self._file.close()


def series(lines: Iterable[str]) -> Series:
    """Per cent of one core from processor time; the rest as it was read. Half a last line is left out, and the per cent
    of the last interval, which the end cut short: the kernel counts in ticks, and a few ms may hold several."""
    rows = []
    for line in lines:
        try:
            rows.append(json.loads(line))
        except ValueError:
            break
    columns: dict[str, list[float]] = {}
    pairs = list(itertools.pairwise(rows))
    for before, now in pairs[:-1] or pairs:
        passed = max(now["t"] - before["t"], 1e-9)
        columns.setdefault("cpu_percent", []).append(max(0.0, 100 * (now["cpu_s"] - before["cpu_s"]) / passed))
    for row in rows:
        for name, value in row.items():
            if name not in ("t", "cpu_s"):
                columns.setdefault(name, []).append(float(value))
    return tuple((name, tuple(values)) for name, values in columns.items())


# ------------------------------------------------------------------------------------ in the sampling process


def main(words: Sequence[str]) -> None:
    interval, with_gpus, pids = float(words[0]), words[1] == "1", [int(w) for w in words[2:]]
    ticks, page = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
    total = os.sysconf("SC_PHYS_PAGES") * page
    spent: dict[int, float] = {}
    rapl, nvml = _Rapl(), _gpus() if with_gpus else None
    open_until_closed = True
    while open_until_closed:
        open_until_closed = not select.select([sys.stdin], [], [], interval if spent else 0)[0]
        for _ in range(3):  # a reading that was interrupted does not belong to its time
            rss, began = 0, time.perf_counter()
            for pid in _family(pids):
                stat = _stat(pid)
                if stat:
                    spent[pid] = (int(stat[11]) + int(stat[12])) / ticks
                    rss += int(stat[21]) * page
            if time.perf_counter() - began < PROMPT * interval:
                break
        spent.setdefault(0, 0.0)
        row: dict[str, float] = {"t": began, "cpu_s": sum(spent.values()), "rss_bytes": rss}
        row["mem_percent"] = 100 * rss / total
        joules = [value for value in (rapl.joules(), nvml.joules() if nvml else None) if value is not None]
        if joules:
            row["energy_j"] = sum(joules)
        if nvml:
            row["gpu_mhz"] = nvml.clock()
        print(json.dumps(row), flush=True)


def _family(pids: Sequence[int]) -> list[int]:
    """These processes and all below them."""
    family, waiting = [], list(pids)
    while waiting:
        pid = waiting.pop()
        family.append(pid)
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            try:
                waiting += [int(word) for word in children.read_text().split()]
            except OSError:
                continue
    return family


def _stat(pid: int) -> list[str]:
    """The fields after the command's name, which may hold anything; empty for a process that is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


class _Rapl:
    """Energy of the processor packages; their counters wrap around."""

    def __init__(self) -> None:
        self.zones = [zone for zone in RAPL.glob("intel-rapl:[0-9]") if os.access(zone / "energy_uj", os.R_OK)]
        self.last = [self._read(zone, "energy_uj") for zone in self.zones]
        self.spent = 0

    def joules(self) -> float | None:
        for index, zone in enumerate(self.zones):
            now = self._read(zone, "energy_uj")
            wrapped = self._read(zone, "max_energy_range_uj") if now < self.last[index] else 0
            self.spent += now - self.last[index] + wrapped
            self.last[index] = now
        return self.spent / 1e6 if self.zones else None

    @staticmethod
    def _read(zone: Path, name: str) -> int:
        return int((zone / name).read_text())


class _Gpus:
    def __init__(self, nvml: Any) -> None:
        nvml.nvmlInit()
        self.nvml = nvml
        self.handles = [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(nvml.nvmlDeviceGetCount())]

    def joules(self) -> float | None:
        try:
            return sum(self.nvml.nvmlDeviceGetTotalEnergyConsumption(h) for h in self.handles) / 1e3
        except self.nvml.NVMLError:
            return None

    def clock(self) -> float:
        return float(max(self.nvml.nvmlDeviceGetClockInfo(h, self.nvml.NVML_CLOCK_SM) for h in self.handles))


def _gpus() -> _Gpus | None:
    try:
        import pynvml

        return _Gpus(pynvml)
    except Exception:  # no package, no driver, no GPU: the other series are sampled all the same
        return None


if __name__ == "__main__":
    main(sys.argv[1:])
