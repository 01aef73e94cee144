"""Workers on this machine: so many Jobs at once, each in its own process on its own cores."""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from proveout.sweep.cores import share
from proveout.sweep.tasks import Task, libraries, wants_fresh
from proveout.sweep.warm import WarmServer


class Local:
    """`jobs` threads that wait for children of one warm process. Only the main thread may make one."""

    anywhere = False

    def __init__(self, jobs: int, scripts: Sequence[Path] = ()) -> None:
        self.slots = jobs
        self._server = WarmServer(libraries(scripts))
        self._threads = ThreadPoolExecutor(jobs, thread_name_prefix="slot")
        self._cores: SimpleQueue[set[int]] = SimpleQueue()
        for cpus in share(jobs):
            self._cores.put(cpus)

    def submit(self, task: Task) -> Future[Any]:
        return self._threads.submit(self._do, task)

    def _do(self, task: Task) -> Any:
        cpus = self._cores.get()
        try:
            os.sched_setaffinity(0, cpus)  # this thread's own work on a Record does not disturb the other slots either
            run = functools.partial(self._server.run, cpus=cpus, fresh=wants_fresh(task.script))
            return task(run)
        finally:
            self._cores.put(cpus)

    def stop(self) -> None:
        """End whatever still runs; nothing of it is kept."""
        self._server.stop()
        self._threads.shutdown(cancel_futures=True)
