"""`proveout.compile`: a model, its inputs and a device in; a callable that can be looked into out."""

from __future__ import annotations

import contextlib
import difflib
import functools
import itertools
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

import torch
from torch._dynamo.exc import BackendCompilerFailed
from torch._dynamo.utils import counters

from proveout.compiler import CompiledGraph
from proveout.compiler.dump import DumpFolder
from proveout.compiler.ledger import ledger
from proveout.compiler.plan import Plan
from proveout.compiler.program_passes.decide import op_names
from proveout.engine.backend import Capture
from proveout.engine.graph import GraphFunction, Tally, Variant
from proveout.engine.layers import repeated_layers
from proveout.engine.recorder import Recorder
from proveout.engine.repeat import NotAlike, Repeat
from proveout.engine.residence import Residence
from proveout.engine.shapes import as_on_host
from proveout.errors import CaptureError, CompileError, ProveoutError, UsageError
from proveout.program import Device, Program
from proveout.types import Coverage, Fallback, MemoryUse, Settings

log = logging.getLogger(__name__)


def compile(
    model: torch.nn.Module,
    inputs: Any = (),
    *,
    device: str | Device = "sim",
    settings: Settings | Mapping[str, Any] | None = None,
    dry_run: bool = False,
    dump: str | Path | None = None,
    record: str | Path | None = None,
    call: tuple[Sequence[Any], Mapping[str, Any]] | None = None,
    after_pass: Callable[[str], None] | None = None,
    repeat: Repeat | None = None,
    residence: Residence | None = None,
) -> Compiled:
    """Compile a model for the given inputs (a tensor, a tuple of positional or a dict of keyword arguments; `call`
    takes both kinds at once).

    All graphs of the model are captured by one call on these inputs; buffers, inputs and random state are put back
    afterwards. With `dry_run` nothing runs on the device, not even then. `dump` names a folder to leave each graph in
    as it is after every pass; `after_pass` is told each one's name. `record` names a folder for the Programs that this
    call runs and what is needed to plan them again. `repeat` says of which layers a model that is only planned has more
    than it shows. What is in `residence` lives on the device; then nothing runs there while graphs are captured.
    """
    if not isinstance(model, torch.nn.Module):
        raise UsageError(f"model must be a torch.nn.Module, not {type(model).__name__}.")
    chosen = dict(settings) if isinstance(settings, Mapping) else settings
    capture = Capture.of(device, chosen, dry=dry_run, keep=True, dump=DumpFolder(dump) if dump else None)
    capture.after_pass, capture.repeat, capture.residence = after_pass, repeat, residence
    capture.dry = dry_run or residence is not None
    assert repeat is None or dry_run, "what is not there cannot run"
    if record is not None:
        capture.recorder = Recorder(Path(record))
    args, kwargs = call if call is not None else as_call(inputs)
    compiled = Compiled(model, capture, (args, kwargs))
    met = Counter(counters["graph_break"])
    with undisturbed(model, (args, kwargs)):
        if not (dry_run and repeat is None and _planned_by_few(compiled, args, kwargs)):
            compiled(*args, **kwargs)
    capture.run_from_now_on(dry_run)
    if not capture.breaks:
        capture.breaks += _skipped_frames(Counter(counters["graph_break"]) - met)
    if record is not None:  # later calls may be on other shapes, which nobody asked about
        capture.stop_recording()
    _tell_unknown_ops(compiled)
    return compiled


def _tell_unknown_ops(compiled: Compiled) -> None:
    """Decisions about ops that the model does not have change nothing, which nobody expects of a mistyped name."""
    wanted = dict.fromkeys(op for op, _, _ in compiled.settings.per_op)
    names = {name for program in compiled.programs for name in op_names(program).values()} if wanted else set()
    for op in wanted:
        if not any(fnmatchcase(name, op) for name in names):
            near = difflib.get_close_matches(op, names, 1, 0.0)
            log.warning("per_op: no op is called %r%s.", op, f"; the nearest is {near[0]!r}" if near else "")


def _planned_by_few(compiled: Compiled, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Plan a model without weights by a few of its layers, if they are alike; false if every one must be captured."""
    capture = compiled._capture
    layers = repeated_layers(compiled.model, (args, kwargs))
    if layers is None:
        return False
    try:
        capture.repeat = layers.repeat
        with layers.shortened():
            compiled(*args, **kwargs)
        return True
    except NotAlike as difference:
        log.info("Every layer is captured: %s", difference)
        capture.graphs.clear()
        return False
    finally:
        capture.repeat = None


def _skipped_frames(reasons: Mapping[str, int]) -> list[str]:
    """Where Dynamo gives up a whole function, its callees become graphs of their own and none of them ends early: why
    is all that it tells."""
    lines = [[line.strip() for line in reason.splitlines()] for reason in reasons]
    return [f"a function that stays in eager: {' '.join(text[:2]).replace('Explanation: ', '')}" for text in lines]


def as_call(inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What users give as inputs, as a call's arguments."""
    if isinstance(inputs, Mapping):
        return (), dict(inputs)
    if isinstance(inputs, Sequence) and not isinstance(inputs, str):
        return tuple(inputs), {}
    return (inputs,), {}


class Compiled:
    """A compiled model. In eval mode it runs without autograd; to train, use torch.compile(backend="proveout")."""

    def __init__(
        self, model: torch.nn.Module, capture: Capture, example: tuple[Sequence[Any], Mapping[str, Any]] = ((), {})
    ) -> None:
        self.model = model
        self.example = example
        """The arguments it was compiled for."""
        self._capture = capture
        self._tally = capture.tally
        self._function = _own_entry(model, capture)
        self._has_rnn = any(isinstance(module, torch.nn.RNNBase) for module in model.modules())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self._tally = Tally()
        for graph in self._capture.graphs:
            graph.tally = self._tally
        self._capture.tally = self._tally
        grad = torch.enable_grad() if self.model.training else torch.no_grad()
        try:
            with grad, self._rnn_captured(), as_on_host() if self._capture.dry else contextlib.nullcontext():
                return self._function(*args, **kwargs)
        except BackendCompilerFailed as failure:
            cause = root_cause(failure)
            if isinstance(cause, ProveoutError):
                raise cause from None
            raise
        except torch._dynamo.exc.TorchDynamoException as failure:
            refused = isinstance(failure, torch._dynamo.exc.TorchRuntimeError)  # an op's own words are below Dynamo's
            error = root_cause(failure.__context__ or failure) if refused else failure
            reason = (str(error) or type(error).__name__).splitlines()[0]
            raise CaptureError(f"PyTorch could not capture the model: {reason}") from failure

    def _rnn_captured(self) -> contextlib.AbstractContextManager[Any]:
        """Dynamo leaves `nn.LSTM`, `nn.GRU` and `nn.RNN`, and all that calls them, in eager mode unless told not to."""
        return torch._dynamo.config.patch(allow_rnn=True) if self._has_rnn else contextlib.nullcontext()

    def save(self, path: str | Path) -> Path:
        """Leave it in a folder that `proveout.benchmark` takes, in this process or another."""
        from proveout.engine.artifact import save

        return save(self, path)

    @contextlib.contextmanager
    def watching(
        self,
        note: Callable[[Variant, Sequence[Any]], None],
        gave: Callable[[Sequence[Any]], None] | None = None,
    ) -> Iterator[None]:
        """While open, `note` sees every graph's variant and arguments before it runs, `gave` what it hands back."""
        for graph in self._capture.graphs:
            graph.on_run, graph.on_outputs = note, gave
        try:
            yield
        finally:
            for graph in self._capture.graphs:
                graph.on_run = graph.on_outputs = None

    @contextlib.contextmanager
    def in_numerics(self, numerics: Literal["fast", "faithful"]) -> Iterator[None]:
        """While open, the same Programs compute in these numerics; they are loaded once more for it."""
        graphs = self._capture.graphs
        before = [(graph, graph.settings) for graph in graphs]
        variants = [v for graph in graphs for v in graph.variants.values() if isinstance(v, Variant)]
        for graph in graphs:
            graph.settings = replace(graph.settings, numerics=numerics)
        try:
            with contextlib.ExitStack() as stack:
                for variant in variants:
                    stack.enter_context(variant.reloaded())
                yield
        finally:
            for graph, settings in before:
                graph.settings = settings

    def writes(self, variant: Variant) -> bool:
        """Whether the graph of this variant writes to what it is given."""
        return any(graph.writes.writes for graph in self._capture.graphs if variant in graph.variants.values())

    @contextlib.contextmanager
    def instead_of_graphs(self, run: Callable[[GraphFunction, Sequence[Any]], list[Any]]) -> Iterator[None]:
        """While open, `run` is called where a graph would run; it may have the graph do so."""
        for graph in self._capture.graphs:
            graph.instead = run
        try:
            yield
        finally:
            for graph in self._capture.graphs:
                graph.instead = None

    @property
    def device(self) -> str:
        return self._capture.device.name

    @property
    def settings(self) -> Settings:
        return self._capture.settings

    @property
    def graphs(self) -> tuple[CompiledGraph, ...]:
        return tuple(self._capture.compiled)

    def planned(self, settings: Settings) -> tuple[CompiledGraph, ...] | None:
        """The captured graphs compiled under other settings, nothing run; None where sizes vary from call to call."""
        graphs = self._capture.graphs
        return tuple(g.again((), settings) for g in graphs) if all(g.is_static for g in graphs) else None

    @property
    def is_replannable(self) -> bool:
        """Whether every graph can run as compiled under other settings: sizes are fixed and nothing is kept between
        calls."""
        graphs = self._capture.graphs
        compiled = all(isinstance(v, Variant) for g in graphs for v in g.variants.values())
        return bool(graphs) and compiled and all(g.is_static and not g.writes.state for g in graphs)

    def called_as(
        self,
        graphs: Sequence[CompiledGraph],
        settings: Settings,
        call: tuple[Any, Any],
        note: Callable[[GraphFunction, CompiledGraph, Sequence[Any]], None] | None = None,
    ) -> Any:
        """One call with every graph as `planned` gave it; nothing is captured again. `note` sees each graph before it
        runs, with its arguments."""
        by_graph = dict(zip(map(id, self._capture.graphs), graphs, strict=True))

        def run(graph: GraphFunction, arguments: Sequence[Any]) -> list[Any]:
            if note is not None:
                note(graph, by_graph[id(graph)], arguments)
            return graph.run_as(by_graph[id(graph)], settings, arguments)

        with self.instead_of_graphs(run):
            return self(*call[0], **call[1])

    @property
    def captured(self) -> tuple[torch.fx.GraphModule, ...]:
        """The ATen graphs as they were captured, before any pass."""
        return tuple(graph.gm for graph in self._capture.graphs)

    @property
    def programs(self) -> tuple[Program, ...]:
        return tuple(g.program for g in self.graphs)

    @property
    def program(self) -> Program:
        """The model's Program; where it has several graphs, the one with the most Steps."""
        if not self.programs:
            why = "; ".join(self.coverage.graph_breaks) or "the model calls no op"
            raise CompileError(f"there is no Program: {why}.")
        return max(self.programs, key=lambda p: len(p.steps))

    @property
    def coverage(self) -> Coverage:
        breaks = Coverage(graph_breaks=tuple(dict.fromkeys(self._capture.breaks)))
        return functools.reduce(lambda a, b: a + b, (g.coverage for g in self.graphs), breaks)

    @property
    def parallel(self) -> tuple[str, ...]:
        """How the model uses a device's several chips, and why not otherwise; empty on a device with one."""
        return self.coverage.parallel

    @property
    def fallbacks(self) -> tuple[Fallback, ...]:
        """The fallback ledger over all graphs: what stays on the host, most worth changing first."""
        return ledger(self.graphs, self._capture.device.spec, self.settings)

    @property
    def plans(self) -> tuple[Plan, ...]:
        return tuple(g.plan for g in self.graphs if g.plan)

    @property
    def has_host_part(self) -> bool:
        """Whether a call leaves anything to the host, as far as what was compiled says."""
        if self.coverage.graph_breaks or len(self.plans) < len(self.graphs):
            return True
        return any(step.on_host for program in self.programs for step in program.body)

    @property
    def plan(self) -> Plan | None:
        """Modelled cost of the largest Program; None on devices that are not modelled."""
        return max(self.plans, key=lambda p: p.total_ns, default=None)

    @property
    def modelled(self) -> bool:
        """Whether the device's times are a model's prediction."""
        return self._capture.info.times == "modelled"

    @property
    def modelled_ns(self) -> int | None:
        """Modelled device time of the last call, over all its graphs."""
        return self._tally.modelled_ns

    @property
    def num_transfers(self) -> int:
        """Transfers counted during the last call, over all its graphs."""
        return self._tally.num_transfers

    @property
    def memory(self) -> MemoryUse:
        """Peaks over all graphs; their weights are resident together."""
        uses = [p.memory for p in self.plans]
        if not uses:
            return MemoryUse()
        worst = max(uses, key=lambda m: m.l1_peak_bytes)
        weights = sum(m.weight_bytes for m in uses)
        dram = weights + max(m.dram_peak_bytes - m.weight_bytes for m in uses)
        return MemoryUse(
            worst.l1_peak_bytes,
            worst.l1_peak_per_core_bytes,
            worst.l1_per_core_bytes,
            dram,
            weights,
            all(m.fits for m in uses),
            worst.peak_at,
        )

    @property
    def stages_s(self) -> tuple[tuple[str, float], ...]:
        """Seconds per compile stage, over all graphs."""
        total: dict[str, float] = {}
        for graph in self.graphs:
            for stage, seconds in graph.stages_s.items():
                total[stage] = total.get(stage, 0.0) + seconds
        return tuple(total.items())


_models = itertools.count()


def _own_entry(model: torch.nn.Module, capture: Capture) -> Any:
    """A torch.compile of this model alone: other compilations of its class do not share or crowd its cache."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return model(*args, **kwargs)

    # Dynamo keeps what it compiled by code object, and gives up on one silently after its limit of recompilations; and
    # it remembers by name which sizes varied, so another model's inputs would make this one's sizes symbols.
    call.__code__ = call.__code__.replace(co_name=f"model{next(_models)}")
    return torch.compile(call, backend=capture)


def root_cause(error: BaseException) -> BaseException:
    """The first error of a chain: what Dynamo wrapped."""
    seen = error
    while True:
        inner = getattr(seen, "inner_exception", None) or seen.__cause__
        if inner is None or inner is seen:
            return seen
        seen = inner


@contextlib.contextmanager
def undisturbed(model: torch.nn.Module, inputs: Any) -> Iterator[None]:
    """Put back buffers, tensor inputs and the random state after a call made only to look."""
    from torch.utils._pytree import tree_leaves

    tensors = [*model.buffers(), *(t for t in tree_leaves(inputs) if isinstance(t, torch.Tensor))]
    saved = [(t, t.detach().clone(), t._version if not t.is_inference() else None) for t in tensors]
    random = torch.get_rng_state()
    try:
        yield
    finally:
        torch.set_rng_state(random)
        with torch.no_grad():
            for tensor, before, version in saved:
                if version is None or tensor._version != version:
                    tensor.copy_(before)
