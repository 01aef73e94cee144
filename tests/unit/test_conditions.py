"""Claims about conditions and resources: read where they stand, sampled from outside, never left running."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from proveout.clock import conditions
from proveout.measure import resources
from proveout.measure.resources import Resources, series

BUSY = "import time; end = time.time() + 3\nx = bytearray(50_000_000)\nwhile time.time() < end: pass"


def test_conditions_are_unique_text_and_name_the_essentials():
    told = conditions.conditions()
    assert len(dict(told)) == len(told)
    assert all(isinstance(text, str) and text for _, text in told)
    assert {"python", "torch", "cpu", "cores", "affinity"} <= set(dict(told))
    assert dict(told)["cores"] == str(len(os.sched_getaffinity(0)))


def test_affinity_is_told_as_ranges(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2, 5, 8, 9})
    assert dict(conditions.conditions())["affinity"] == "0-2,5,8-9"


def test_limits_and_clocks_are_read_where_the_kernel_puts_them(tmp_path, monkeypatch):
    files = {
        "cpu.max": "150000 100000", "memory.max": "1073741824",
        "cpu0/cpufreq/scaling_governor": "powersave", "cpu1/cpufreq/scaling_governor": "performance",
        "intel_pstate/no_turbo": "1",
    }  # fmt: skip
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text + "\n")
    monkeypatch.setattr(conditions, "CGROUP", tmp_path)
    monkeypatch.setattr(conditions, "CPU", tmp_path)
    told = dict(conditions.conditions())
    assert told["cgroup_cpu"] == "1.5 cores"
    assert told["memory"] == "1.0 GiB"
    assert told["governor"] == "performance, powersave"
    assert told["turbo"] == "off"


def test_what_the_machine_does_not_tell_is_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(conditions, "CGROUP", tmp_path)
    monkeypatch.setattr(conditions, "CPU", tmp_path)
    assert not {"cgroup_cpu", "governor", "turbo"} & set(dict(conditions.conditions()))


def test_gpus_are_asked_for_only_on_a_gpu_device(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert "gpu" not in dict(conditions.conditions())
    assert "nvidia-ml-py is not installed" in dict(conditions.conditions(gpu=True))["gpu"]


@pytest.mark.slow
def test_a_process_and_its_descendants_are_sampled_from_outside():
    # the shell itself does nothing: what is counted is its child
    shell = subprocess.Popen(["sh", "-c", f"'{sys.executable}' -c '{BUSY}'; true"], start_new_session=True)
    try:
        with Resources([shell.pid], interval_s=0.1) as sampled:
            time.sleep(1.5)
        told = dict(sampled.series)
        assert max(told["rss_bytes"]) > 50_000_000
        assert max(told["cpu_percent"]) > 5, "busy, however many others are"
        assert max(told["cpu_percent"]) < 130, "one thread cannot use more than a core"
        assert all(0 <= value <= 100 for value in told["mem_percent"])
    finally:
        os.killpg(shell.pid, 9)
        shell.wait()


def test_the_sampler_ends_with_whoever_started_it():
    code = (
        "import os, sys; from proveout.measure.resources import Resources\n"
        "r = Resources([os.getpid()], 0.1).__enter__(); print(r._process.pid, flush=True); os._exit(9)"
    )
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    pid = int(child.stdout)
    for _ in range(100):
        stat = Path(f"/proc/{pid}/stat")
        if not stat.exists() or ") Z" in stat.read_text():
            return
        time.sleep(0.05)
    pytest.fail("the sampler outlived its starter")


def test_processor_time_becomes_per_cent_of_one_core():
    lines = ['{"t": 0.0, "cpu_s": 1.0, "rss_bytes": 5}', '{"t": 0.5, "cpu_s": 2.0, "rss_bytes": 7}', '{"t": 1.0, "cp']
    assert series(lines) == (("cpu_percent", (200.0,)), ("rss_bytes", (5.0, 7.0)))
    assert series([]) == ()


def test_an_interval_that_the_end_cut_short_has_no_per_cent():
    rows = [(0.0, 1.0), (0.5, 1.25), (1.0, 1.5), (1.006, 1.51)]
    lines = [f'{{"t": {t}, "cpu_s": {spent}, "rss_bytes": 5}}' for t, spent in rows]
    assert dict(series(lines))["cpu_percent"] == (50.0, 50.0)


def test_energy_counters_that_wrap_go_on(tmp_path, monkeypatch):
    zone = tmp_path / "intel-rapl:0"
    zone.mkdir()
    (zone / "energy_uj").write_text("900000")
    (zone / "max_energy_range_uj").write_text("1000000")
    monkeypatch.setattr(resources, "RAPL", tmp_path)
    counter = resources._Rapl()
    (zone / "energy_uj").write_text("100000")
    assert counter.joules() == pytest.approx(0.2)
    (zone / "energy_uj").write_text("600000")
    assert counter.joules() == pytest.approx(0.7)
    monkeypatch.setattr(resources, "RAPL", tmp_path / "none")
    assert resources._Rapl().joules() is None
