"""Workers on a Ray cluster: every Task is a Ray task with its resources, made again when its node is lost.

Each node's worker processes keep a warm process of their own. Scripts go with the Tasks, so that no folder need be
shared. Records go straight to the store where the node sees it,
and otherwise come back with the answer.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import functools
import os
import secrets
import socket
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from proveout.capture import Discovery, read_labels
from proveout.devices.registry import describe
from proveout.errors import EnvironmentFault, UsageError
from proveout.store import Store, replacing
from proveout.sweep.cores import claim
from proveout.sweep.parcels import Parcel, as_asked, at_hand, parcels, root_of
from proveout.sweep.results import Result, keep
from proveout.sweep.tasks import Find, Prove, Task, libraries, wants_fresh
from proveout.sweep.warm import WarmServer
from proveout.types import Job, Record

if TYPE_CHECKING:
    from proveout.capture import Discovery

RETRIES = 4
"""How often a Task is made again when its worker or node is lost."""
BASE_BYTES, COPIES = 1 << 30, 6
"""Memory that a Job is scheduled with: torch and the compiler, and so many copies of the parameters."""
SLOTS_FOR_CPU = 2
"""Tasks under way for each CPU: one runs, one waits, so that no CPU waits for the controller."""
LOOK_S = 2.0
"""How old an answer about the cluster's size may be."""
KNOCK_S = 10.0
"""How long an address may take to accept a connection."""


@dataclass(frozen=True)
class Answer:
    """What a node sends back: the Task's own answer, and the files of its Record where the store is not shared."""

    value: Any
    files: tuple[tuple[str, bytes], ...] = ()


class Cluster:
    """Workers on the nodes of a running Ray cluster: `auto`, or its address."""

    anywhere = True

    def __init__(self, address: str, store: Store, scripts: Sequence[Path] = ()) -> None:
        self._ray = _ray()
        if not self._ray.is_initialized():
            _knock(address)
        self._store = store
        self._modules = libraries(scripts)
        self._mark = store.folder.absolute() / f".shared-{secrets.token_hex(8)}"
        self._mark.touch()
        self._ours = not self._ray.is_initialized()
        if self._ours:
            try:
                self._ray.init(address=address, log_to_driver=False, logging_level="ERROR")
            except (ConnectionError, ValueError, RuntimeError) as error:
                self._mark.unlink()
                raise _nobody(address, str(error).splitlines()[0]) from error
        self._remote = self._ray.remote(work)
        self._sent = {folder: self._ray.put(sent) for folder, sent in parcels(scripts).items()}
        self._open: dict[Future[Any], Any] = {}
        self._looked, self._cluster = 0.0, dict[str, float]()

    @property
    def slots(self) -> int:
        return max(1, SLOTS_FOR_CPU * int(self._resources().get("CPU", 0)))

    def submit(self, task: Task) -> Future[Any]:
        wanted = resources(task)
        self._refuse_missing(wanted)
        options = {"max_retries": RETRIES, "scheduling_strategy": "SPREAD", "name": task.name, **wanted}
        reference = self._remote.options(**options).remote(
            task, str(self._mark), self._modules, self._sent.get(root_of(task.script))
        )
        kept: Future[Any] = Future()
        self._open[kept] = reference
        reference.future().add_done_callback(functools.partial(self._received, task, kept))
        return kept

    def stop(self) -> None:
        for reference in self._open.values():
            with contextlib.suppress(Exception):
                self._ray.cancel(reference, force=True)
        self._open.clear()
        self._mark.unlink(missing_ok=True)
        if self._ours:
            self._ray.shutdown()

    def _received(self, task: Task, kept: Future[Any], sent: Future[Answer]) -> None:
        """On Ray's thread: hand an answer on once its Record is in the store."""
        try:
            kept.set_result(self._unpacked(sent.result()))
        except self._ray.exceptions.RayTaskError as error:
            kept.set_exception(error.cause)
        except self._ray.exceptions.RayError as error:
            kept.set_result(_lost(task, self._store, error))
        except BaseException as error:
            kept.set_exception(error)
        finally:
            self._open.pop(kept, None)

    def _unpacked(self, answer: Answer) -> Any:
        for name, content in answer.files:
            with replacing(self._store.folder / name) as temporary:
                temporary.write_bytes(content)
        if isinstance(answer.value, Result) and answer.files:
            return dataclasses.replace(answer.value, path=self._store.folder / answer.files[-1][0])
        return answer.value

    def _resources(self) -> dict[str, float]:
        if time.monotonic() - self._looked > LOOK_S:
            self._looked, self._cluster = time.monotonic(), self._ray.cluster_resources()
        return self._cluster

    def _refuse_missing(self, wanted: dict[str, Any]) -> None:
        there = self._resources()
        for name in (*(["GPU"] if wanted.get("num_gpus") else []), *wanted.get("resources", ())):
            if not there.get(name):
                raise EnvironmentFault(
                    f"no node of the Ray cluster offers {name!r}. Add one: ray start --address=… "
                    + ("--num-gpus N" if name == "GPU" else f"--resources '{{\"{name}\": 1}}'")
                )


def resources(task: Task) -> dict[str, Any]:
    """What Ray sets aside for a Task."""
    if isinstance(task, Find):
        return {"num_cpus": 1, "memory": BASE_BYTES}
    device, size = task.job.device, BASE_BYTES + COPIES * task.job.workload.parameter_bytes
    info = describe(device)
    extra: dict[str, Any] = {}
    if info is not None and info.claims:
        extra = {"num_gpus": 1} if info.is_gpu else {"resources": {info.claims: 1}}
    return {"num_cpus": 1, "memory": size, **extra}


def work(task: Task, mark: str, modules: Sequence[str], sent: Parcel | None = None) -> Answer:
    """On a node: one Task in a child of this worker's warm process. `sent` is its script where the node has none."""
    server = _server(tuple(modules))
    with claim(1) as cpus, at_hand(task, sent) as here:
        run = functools.partial(server.run, cpus=cpus, fresh=wants_fresh(here.script))
        if Path(mark).exists():
            return Answer(as_asked(here(run), task))
        if isinstance(here, Find) or isinstance(task, Find):
            assert isinstance(here, Find)
            return Answer(as_asked(dataclasses.replace(here, cache=None)(run), task))
        with tempfile.TemporaryDirectory(prefix="proveout-") as folder:
            local_task = dataclasses.replace(task, store=Path(folder))
            value = as_asked(dataclasses.replace(here, store=Path(folder))(run), local_task)
            files = sorted(Path(folder).rglob("*.parquet")) + sorted(Path(folder).rglob("*.json"))
            return Answer(value, tuple((f.relative_to(folder).as_posix(), f.read_bytes()) for f in files))


@functools.cache
def _server(modules: tuple[str, ...]) -> WarmServer:
    """One for the life of a Ray worker; it ends when the worker does."""
    return WarmServer(modules)


def _lost(task: Task, store: Store, error: Exception) -> Result | Discovery:
    """The answer for a Task whose workers were lost again and again."""
    first = (str(error).strip().splitlines() or [type(error).__name__])[0]
    reason = f"its Ray worker was lost {RETRIES + 1} times: {first}"
    if isinstance(task, Prove):
        return keep(store, _crashed(task.job, reason))
    return Discovery(str(task.script), (), read_labels(task.script), f"{task.script.name}: {reason}", "", 0.0)


def _crashed(job: Job, reason: str) -> Record:
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    return Record(job, "failed", reason=reason, failure="crash", created=now)


def _knock(address: str) -> None:
    """Refuse an address that nobody listens at: Ray itself would try for minutes."""
    if address in ("auto", "local"):
        return
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise UsageError(f"--ray takes auto or HOST:PORT, not {address!r}.")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=KNOCK_S).close()
    except OSError as error:
        raise _nobody(address, f"{error.strerror or error}.") from error


def _nobody(address: str, why: str) -> EnvironmentFault:
    return EnvironmentFault(
        f"no Ray cluster answers at {address!r}: {why} Start one (ray start --head), or use --jobs N on this machine."
    )


def _ray() -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent anywhere unasked
    try:
        import ray
    except ImportError:
        raise EnvironmentFault("Ray is not installed. Run: pip install 'proveout[ray]'") from None
    return ray
