"""One copy of a model and the threads that call it, in whatever process: load, warm up, measure, look at outputs."""

from __future__ import annotations

import copy
import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proveout.clock import loops, rehearsal
from proveout.clock.loops import Arguments, Caller, LoopResult, as_arguments
from proveout.clock.pacing import MultiStream, arrivals, clock
from proveout.clock.stamps import NoRoom
from proveout.errors import ProveoutError
from proveout.measure.inputs import InputStream, WorkerPlace, check_batch, example
from proveout.measure.models import Model, load
from proveout.measure.outcome import OutputCheck
from proveout.measure.task import OPEN, Task, stamps_path, writer_of

WARMUP_SHARE, WARMUP_MOST_S = 0.2, 10.0
"""Warm-up that does not settle ends after this share of the duration."""


DRAIN_S, DRAIN_SHARE = 0.5, 0.2
"""How long after the end of an open loop requests that came before it are still served: a queue is no overload."""


class LoadFailed(Exception):
    """The model could not be loaded or called once; the text is a traceback, or one sentence for a user's error."""


@dataclass(frozen=True)
class PreparedModel:
    """What is known of a model before it is measured."""

    load_ns: int
    warmup_calls: tuple[int, ...]
    overhead_ns: float
    device_kind: str
    notes: dict[str, str]


@dataclass(frozen=True)
class Finished:
    """What a model's workers have to say besides their stamps."""

    runs: tuple[LoopResult, ...]
    missing_items: tuple[int, ...]
    check: OutputCheck | None


class Host:
    """One model and its workers."""

    def __init__(self, task: Task, index: int, folder: Path) -> None:
        self.task, self.index = task, index
        self.stopped = False
        self.num_workers = task.callers[index]
        paths = [stamps_path(folder, index, worker) for worker in range(self.num_workers)]
        try:
            self.writers = [writer_of(path, task.columns) for path in paths]
        except NoRoom as error:
            raise LoadFailed(str(error)) from error

    def prepare(self, unpickling_ns: int = 0) -> PreparedModel:
        """Everything that comes before the measured phase; an instance's load is that it was unpickled."""
        task, functions = self.task, self.task.functions
        try:
            began = clock()
            arguments = example(task.inputs, task.dataset)
            ready = self._preprocessed(arguments)
            self.loaded = load(
                task.model, task.configuration.device, self.index, task.configuration.pipeline_size, ready
            )
            load_ns = unpickling_ns + clock() - began
            if functions.setup_fn is not None:
                functions.setup_fn(self.index, task.config, self.loaded.model)
            if functions.preprocess_fn is not None and task.inputs.kind == "fixed" and task.inputs.batch_first:
                check_batch(ready[0] if ready[0] else ready[1], task.inputs.batch_size)
            self.callers = [self._caller(worker) for worker in range(self.num_workers)]
            arguments = self.loaded.to_device(arguments)
            warm = self._in_threads(lambda worker: self._warm_up(worker, arguments))
            overhead = rehearsal.overhead_ns(self.callers[0])
        except ProveoutError as error:
            raise LoadFailed(str(error)) from error
        except Exception as error:
            raise LoadFailed(traceback.format_exc()) from error
        return PreparedModel(load_ns, tuple(warm), overhead, self.loaded.device_kind, self.loaded.notes)

    def measure(
        self, start_ns: int, deadline_ns: int, schedule: int | None, measured: Callable[[], None] = lambda: None
    ) -> Finished:
        """The measured phase; `measured` is called after it, before the look at the outputs that were kept."""
        mode = self.task.configuration.load.mode
        rounds = MultiStream(self.num_workers) if mode == "multistream" else None
        if mode in OPEN:
            deadline_ns += int(DRAIN_S * 1e9 + DRAIN_SHARE * (deadline_ns - start_ns))
        if rounds is not None:
            rounds.deadline_ns = deadline_ns
        for caller in self.callers:
            if mode in OPEN:
                assert schedule is not None
                caller.next_start = arrivals(schedule, start_ns, deadline_ns)
            elif mode == "offline":
                caller.next_start = lambda: start_ns
            elif rounds is not None:
                caller.next_start = rounds.next_start
        reference = self._reference()
        limits = self.task.limits(self.index)

        def run(worker: int) -> LoopResult:
            try:
                return loops.measure(
                    self.callers[worker],
                    self.writers[worker],
                    start_ns=start_ns,
                    deadline_ns=deadline_ns if rounds is None else 1 << 62,
                    limit=limits[worker],
                    stopped=lambda: self.stopped,
                    on_error=self.task.on_error,
                    keep=_copied if reference is not None else None,
                )
            finally:
                if rounds is not None:
                    rounds.abort()

        runs = tuple(self._in_threads(run))
        measured()
        missing = tuple(c.source.missing if isinstance(c.source, InputStream) else 0 for c in self.callers)
        check = None if reference is None else self._check(reference, [o for r in runs for o in r.outputs])
        return Finished(runs, missing, check)

    def _in_threads(self, function: Any) -> list[Any]:
        """Once for each worker, each in its own thread: a thread's state in torch and OpenMP is its own."""
        results: list[Any] = [None] * self.num_workers
        errors: list[BaseException] = []

        def one(worker: int) -> None:
            try:
                with self.loaded.context():
                    results[worker] = function(worker)
            except BaseException as error:
                errors.append(error)

        if self.num_workers == 1:
            one(0)
        else:
            threads = [threading.Thread(target=one, args=(w,), daemon=True) for w in range(self.num_workers)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        if errors:
            raise errors[0]
        return results

    def _caller(self, worker: int) -> Caller:
        task, functions = self.task, self.task.functions
        call, device_ns = self.loaded.per_thread()
        place = WorkerPlace(worker, self.num_workers, sum(task.callers[: self.index]) + worker, sum(task.callers))
        fixed = task.inputs.kind == "fixed"
        to_device = self.loaded.to_device
        return Caller(
            call,
            to_device(as_arguments(task.inputs.value)) if fixed else None,
            None if fixed else _OnDevice(task, place, to_device),
            functions.preprocess_fn,
            functions.postprocess_fn,
            device_ns if task.has_device_time else None,
            (lambda: clock()) if task.has_arrivals else None,
        )

    def _warm_up(self, worker: int, arguments: Arguments) -> int:
        configuration = self.task.configuration
        budget = min(WARMUP_SHARE * configuration.duration_s, WARMUP_MOST_S)
        return rehearsal.warm_up(self.callers[worker], arguments, configuration.warmup, budget)

    def _preprocessed(self, arguments: Arguments) -> Arguments:
        preprocess = self.task.functions.preprocess_fn
        return arguments if preprocess is None else as_arguments(preprocess(*arguments[0], **arguments[1]))

    def _reference(self) -> Any:
        chosen = self.task.reference
        return self.loaded.reference if chosen is None else _on_host(chosen)

    def _check(self, reference: Any, outputs: list[tuple[Arguments, Any]]) -> OutputCheck:
        """Outputs taken while timing, against the reference on the same inputs, on the CPU."""
        from proveout.check import compare_outputs

        worst: float | None = None
        wrong, reason = 0, ""
        for (args, kwargs), output in outputs:
            args, kwargs = _on_cpu((args, kwargs))
            with self.loaded.context():
                expected = _on_cpu(reference(*args, **kwargs))
            comparison = compare_outputs(_on_cpu(output), expected, self.task.pcc)
            for one in comparison:
                if one.pcc is not None:
                    worst = one.pcc if worst is None else min(worst, one.pcc)
            bad = next((one for one in comparison if not one.passed), None)
            if bad is not None:
                wrong += 1
                reason = reason or f"output {bad.name}: {bad.reason}"
        return OutputCheck(len(outputs), wrong, worst, reason)


class _OnDevice(InputStream):
    """Inputs that come one by one, moved to the device before their call is stamped."""

    def __init__(self, task: Task, place: WorkerPlace, to_device: Any) -> None:
        super().__init__(task.inputs, task.dataset, place)
        self._to_device = to_device

    def __next__(self) -> Arguments:
        moved: Arguments = self._to_device(super().__next__())
        return moved


def _on_host(model: Model) -> Any:
    """A reference runs on the CPU; it may be the very module that was moved to its device to be measured."""
    module = model.made()
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(module, torch.nn.Module):
        module = copy.deepcopy(module).cpu().eval()
    return module


def _copied(output: Any) -> Any:
    """A model may reuse the memory of its outputs."""
    torch = sys.modules.get("torch")
    if torch is None:
        return output
    from torch.utils._pytree import tree_map_only

    return tree_map_only(torch.Tensor, torch.clone, output)


def _on_cpu(value: Any) -> Any:
    torch = sys.modules.get("torch")
    if torch is None:
        return value
    from torch.utils._pytree import tree_map_only

    return tree_map_only(torch.Tensor, lambda t: t.cpu(), value)
