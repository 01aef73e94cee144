"""A sweep on a Ray cluster of several nodes, one of which is lost in the middle: no Record and no Job is."""

from __future__ import annotations

import shutil
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from proveout.capture import How
from proveout.errors import EnvironmentFault, UsageError
from proveout.store import Store
from proveout.sweep import SweepPlan, sweep
from proveout.sweep.tasks import Find, Prove
from proveout.types import Job, Settings, Workload

pytest.importorskip("ray", reason="Ray is not installed: pip install 'proveout[ray]'")

from proveout.sweep.cluster import Cluster, resources

COMPILE = Job(Workload("", "", ""), do=("compile",))

pytestmark = [pytest.mark.ray, pytest.mark.e2e, pytest.mark.slow]

SCRIPT = """
import os, pathlib, time
import torch
torch.nn.Linear({width}, 4)(torch.ones(1, {width}))
folder = pathlib.Path({folder!r})
with (folder / "runs-{name}").open("a") as runs:
    print(os.getpid(), file=runs)
while {waits} and len((folder / "runs-{name}").read_text().split()) > 1 and not (folder / "gate").exists():
    time.sleep(0.05)
"""
HEALTH = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 500, "health_check_failure_threshold": 3}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    import ray
    from ray.cluster_utils import Cluster as LocalCluster

    head = {"num_cpus": 0, "include_dashboard": False, "_system_config": HEALTH}
    made = LocalCluster(initialize_head=True, head_node_args=head)
    for _ in range(2):
        made.add_node(num_cpus=1, wait=False)
    made.wait_for_nodes()
    yield made
    ray.shutdown()
    made.shutdown()


class Told:
    """Remembers what a sweep told."""

    def __init__(self) -> None:
        self.models: list[str] = []

    def start(self, what: str) -> None: ...
    def found(self, what: str, script: Path, models: int, error: str) -> None: ...
    def expect(self, jobs: int, scripts_left: int) -> None: ...
    def done(self, what: str, result: Any, seconds: float) -> None:
        self.models.append(result.row.model)


def runs(folder: Path, name: str) -> list[int]:
    path = folder / f"runs-{name}"
    return [int(word) for word in path.read_text().split()] if path.exists() else []


def ancestors(pid: int) -> Iterator[int]:
    while pid > 1:
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        yield pid


def test_a_node_lost_in_the_middle_loses_no_record_and_no_job(cluster: Any, tmp_path: Path) -> None:
    names = ["a", "b", "waits"]
    for width, name in enumerate(names, 1):
        text = SCRIPT.format(width=32 * width, name=name, folder=str(tmp_path), waits=name == "waits")
        (tmp_path / f"{name}.py").write_text(text)
    killed: list[int] = []

    def lose_a_node() -> None:
        """The one whose worker's child is proving the model that waits."""
        while len(runs(tmp_path, "waits")) < 2:
            time.sleep(0.05)
        above = set(ancestors(runs(tmp_path, "waits")[1]))
        for node in list(cluster.worker_nodes):
            if node.all_processes["raylet"][0].process.pid in above:
                cluster.remove_node(node, allow_graceful=False)
                killed.append(runs(tmp_path, "waits")[1])
        while any(Path(f"/proc/{pid}").exists() for pid in killed):
            time.sleep(0.05)  # a proof that is still alive must not be let through the gate
        (tmp_path / "gate").touch()

    threading.Thread(target=lose_a_node, daemon=True).start()
    store, told = Store(tmp_path / "cache"), Told()
    store.check_writable()
    asked = SweepPlan(store, (("sim:n150", Settings(precision="bfloat16")),), COMPILE)
    scripts = [(tmp_path / f"{name}.py", ()) for name in names]
    results = sweep(asked, scripts, Cluster(cluster.address, store), told)

    assert [(r.row.model, r.row.status, r.from_cache) for r in results] == [(n, "compiled", False) for n in names]
    assert sorted(told.models) == names
    assert sorted(r.job.workload.name for r in store.records()[0]) == names
    assert killed
    assert len(runs(tmp_path, "waits")) == 3, "found, proven half, proven again"
    assert not Path(f"/proc/{killed[0]}").exists()

    again = sweep(asked, scripts, Cluster(cluster.address, store), Told())
    assert all(r.from_cache for r in again)


@pytest.mark.parametrize("address", ["nowhere", "nowhere:", ":6379", "localhost:none", "localhost:65536"])
def test_an_address_that_is_none_is_refused(address: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--ray takes auto or HOST:PORT, not"):
        Cluster(address, Store(tmp_path))


@pytest.mark.parametrize("scheme", ["", "ray://"])
def test_an_address_that_nobody_listens_at_is_told_at_once(scheme: str, tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"{scheme}127.0.0.1:{free.getsockname()[1]}"
        began = time.monotonic()
        with pytest.raises(EnvironmentFault, match=r"no Ray cluster answers at .*Connection refused.*ray start --head"):
            Cluster(address, Store(tmp_path))
    assert time.monotonic() - began < 60
    assert not list(tmp_path.iterdir())


def test_a_node_without_the_store_sends_its_record_back(cluster: Any, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(SCRIPT.format(width=32, name="a", folder=str(tmp_path), waits=False))
    store = Store(tmp_path / "cache")
    store.check_writable()
    workers = Cluster(cluster.address, store)
    workers._mark.unlink()  # so no node sees it
    asked = SweepPlan(store, (("sim:n150", Settings()),), COMPILE)
    (result,) = sweep(asked, [(tmp_path / "a.py", ())], workers, Told())
    assert result.path == store.path(result.record.job)
    assert result.record.status == "passed"


def test_scripts_and_what_lies_beside_them_go_to_nodes_that_do_not_have_them(cluster: Any, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "sizes.py").write_text("WIDTH = 32")
    (folder / "size.txt").write_text("4")
    (folder / "net.py").write_text(
        "import pathlib, torch, sizes\n"
        "high = int(pathlib.Path(__file__).with_name('size.txt').read_text())\n"
        "torch.nn.Linear(sizes.WIDTH, high)(torch.ones(1, sizes.WIDTH))\n"
    )
    store = Store(tmp_path / "cache")
    store.check_writable()
    script = folder / "net.py"
    workers = Cluster(cluster.address, store, [script])
    shutil.rmtree(folder)  # no node has it now
    asked = SweepPlan(store, (("sim:n150", Settings()),), COMPILE)
    (result,) = sweep(asked, [(script, ())], workers, Told())
    assert (result.record.status, result.record.job.workload.parameters) == ("passed", 32 * 4 + 4), result.row.reason
    assert result.record.job.workload.script == result.row.script == str(script)
    assert result.path == store.path(result.record.job)


def test_a_cluster_without_the_device_is_refused_before_a_job_waits_for_ever(cluster: Any, tmp_path: Path) -> None:
    store = Store(tmp_path)
    workers = Cluster(cluster.address, store)
    job = Job(Workload("a", "a.py", "0"), device="cuda")
    with pytest.raises(EnvironmentFault, match="no node of the Ray cluster offers 'GPU'"):
        workers.submit(Prove(job, tmp_path, "always"))
    workers.stop()


def test_what_is_set_aside_for_a_task() -> None:
    job = Job(Workload("a", "a.py", "0", parameter_bytes=1 << 30), device="cuda:1")
    assert resources(Prove(job, Path(), "always")) == {"num_cpus": 1, "num_gpus": 1, "memory": 7 << 30}
    assert resources(Find(Path("a.py"), How(), 1.0)) == {"num_cpus": 1, "memory": 1 << 30}
