"""One captured graph as a callable: compiled per concrete shapes, loaded once, its weights kept fresh."""

from __future__ import annotations

import contextlib
import functools
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.traceback import preserve_node_meta

from proveout.compiler import CompiledGraph, compile_graph
from proveout.compiler.dump import DumpFolder, Observe, unobserved
from proveout.compiler.lower import Unlowerable, origin_of, variation
from proveout.compiler.pipeline import stage
from proveout.compiler.profile import Profile
from proveout.devices.registry import DeviceInfo
from proveout.engine import cache
from proveout.engine.recorder import Recorder
from proveout.engine.residence import Residence, Shared, TensorForm
from proveout.engine.views import AsTraced, OutputLayout, Resolved, layout_of, resolved
from proveout.engine.watch import WeightWatch, wrote
from proveout.engine.writes import take_writes
from proveout.errors import OutOfMemory
from proveout.program import Device, Loaded, Program, Result
from proveout.reasons import Kind, Reason
from proveout.types import Coverage, OpStatus, Settings

SIZES_FROM_DATA = Kind(
    "sizes-from-data",
    "its sizes depend on data ({error})",
    "shapes depend on data: compute them outside the model, or call it with fixed shapes",
)
VIEWED_AS_COMPLEX = Kind(
    "viewed-as-complex",
    "an output looks at real numbers as complex ones or the other way round, and sizes vary",
    "return a copy (.clone()), or call the model with fixed shapes",
)
MAX_SHAPES = 32
"""Shape buckets kept per graph; the least recently used is dropped."""


class GraphFunction:
    """What Dynamo calls. Static graphs compile at once; graphs with symbolic sizes once per set of concrete sizes."""

    def __init__(
        self,
        gm: GraphModule,
        weights: frozenset[int],
        device: Device,
        info: DeviceInfo,
        settings: Settings,
        name: str,
        held: frozenset[int] = frozenset(),
        counted: frozenset[int] = frozenset(),
        resident: frozenset[int] = frozenset(),
    ) -> None:
        """`weights` are positions of parameters and buffers, `held` of other tensors that outlive a call; those of both
        that the graph writes to are its state, and those `resident` live in `residence`. AOTAutograd counts a version
        before each call for those `counted`."""
        self.is_static = not _has_symbols(gm)
        self._captured = gm, weights, held
        self.residence: Residence | None = None
        self._take_writes(resident if self.is_static else frozenset())
        self.counted, self.device, self.settings, self.name = counted, device, settings, name
        self.profile = Profile(info.target, settings.precision)  # type: ignore[arg-type]
        self.lock = threading.RLock()
        self.variants: OrderedDict[Any, Variant | Reason] = OrderedDict()
        self.on_compiled: Callable[[CompiledGraph], None] = lambda compiled: None
        self.on_run: Callable[[Variant, Sequence[Any]], None] | None = None
        """Called with each run's variant and arguments, before it runs: how checks replay a call Step by Step."""
        self.on_outputs: Callable[[Sequence[Any]], None] | None = None
        """Called with what each run hands back."""
        self.instead: Callable[[GraphFunction, Sequence[Any]], list[Any]] | None = None
        """Called instead of running: how the host's part of a call is timed alone."""
        self.dry = False
        self.dump: DumpFolder | None = None
        self.after_pass: Callable[[str], None] | None = None
        self.recorder: Recorder | None = None
        self.tally = Tally()

    def _take_writes(self, resident: frozenset[int]) -> None:
        gm, weights, held = self._captured
        self.gm, self.writes = take_writes(gm, weights | held, resident)
        self.weights = weights - self.writes.positions | self.writes.state.keys()
        self.resident = resident & self.writes.state.keys()

    def prepare(self) -> None:
        """Compile now where that is possible without concrete arguments."""
        if self.is_static:
            self._variant((), None)

    def __call__(self, *arguments: Any) -> list[Any]:
        return self.run(arguments) if self.instead is None else self.instead(self, arguments)

    def variant(self, arguments: Sequence[Any]) -> Variant | Reason:
        """What these arguments run on: a Program, or eager for a reason."""
        return self._variant(() if self.is_static else tuple(_concrete(a) for a in arguments), arguments)

    def run(self, arguments: Sequence[Any]) -> list[Any]:
        with self.lock:
            variant = self.variant(arguments)
            if self.dry and any(isinstance(a, torch.Tensor) and a.is_meta for a in arguments):
                return [_shape_of(v) for v in _output_values(self.gm)[: self.writes.num_outputs]]
            if self.dry or isinstance(variant, Reason):
                if not self.dry:
                    self._give_back(arguments)
                return self._written(arguments, AsTraced(self.gm).run(*arguments))
            self._give_back(arguments)
            if self.on_run is not None:
                self.on_run(variant, arguments)
            result = variant.run(arguments)
            outputs = self._written(arguments, result.outputs)
            variant.advance(arguments, result)
            self.tally.add(variant)
            if self.recorder is not None:
                self.recorder.ran(variant.compiled, self.device.name, functools.partial(self.again, arguments))
        outputs = variant.layout.of(outputs)
        if self.on_outputs is not None:
            self.on_outputs(outputs)
        return outputs

    def _give_back(self, arguments: Sequence[Any]) -> None:
        """Of what is resident for others, let the host have what this graph does not keep."""
        residence = self.residence
        if residence is None:
            return
        for position, argument in enumerate(arguments):
            if position not in self.resident and argument in residence:
                residence.give_back(argument)

    def _written(self, arguments: Sequence[Any], outputs: Sequence[Any]) -> list[Any]:
        """The caller's outputs, once the arguments hold what the graph writes to them."""
        for position in self.writes.positions:
            wrote(arguments[position])
        return self.writes.apply(arguments, outputs)

    def _variant(self, key: Any, arguments: Sequence[Any] | None) -> Variant | Reason:
        if key in self.variants:
            self.variants.move_to_end(key)
            return self.variants[key]
        gm = self.gm if self.is_static else _specialise(self.gm, arguments or ())
        variant: Variant | Reason
        if isinstance(gm, Reason):
            variant = gm
        else:
            try:
                variant = self._compile(gm)
            except Unlowerable as refused:
                self._take_writes(frozenset())
                variant = refused.reason
        if isinstance(variant, Reason):
            self._report_eager(variant)
        self.variants[key] = variant
        if len(self.variants) > MAX_SHAPES:
            self.variants.popitem(last=False)
        return variant

    def _compile(self, gm: GraphModule) -> Variant:
        compiled = self._cached(gm)
        kept = {weight for weight, _ in compiled.program.state}
        positions = zip(compiled.program.weights, compiled.weight_positions)
        stay = self.resident & {position for name, position in positions if name in kept}
        if stay != self.resident:  # what no Program can keep comes back after every call
            self._take_writes(stay)
            return self._compile(self.gm)
        layout = layout_of(_output_values(gm)[: self.writes.num_outputs], offsets=not self.is_static)
        variant = Variant(compiled, lambda: self._load(compiled), layout, self.counted, self._shared)
        self.on_compiled(compiled)
        return variant

    @property
    def _shared(self) -> tuple[frozenset[int], Residence | None]:
        return self.resident, self.residence

    def _cached(self, gm: GraphModule) -> CompiledGraph:
        """From the cache on disk, or compiled and put there. Verifying and dumping mean doing all the work."""
        chip, stages = self.device.spec, dict[str, float]()
        whole = self.settings.verify or self.dump is not None
        if not whole:
            with stage(stages, "load"):
                key = cache.key_of(gm, self.weights, self.writes.state, self.profile, self.settings, chip)
                cached = cache.load(key, self.name, gm, self.profile.target, chip, self.settings)
            if cached is not None:
                cached.stages_s.update(stages)
                return cached
        compiled = compile_graph(
            gm,
            weights=self.weights,
            state=self.writes.state,
            profile=self.profile,
            settings=self.settings,
            chip=chip,
            name=self.name,
            replay=self._replay,
            observe=self._observer(),
        )
        if not whole and (compiled.plan is None or compiled.plan.memory.fits):
            with stage(compiled.stages_s, "save"):
                cache.save(key, compiled)
        return compiled

    def _observer(self) -> Observe:
        """Who looks at what each pass gives: the dump, and whoever follows the passes' names."""
        dump = self.dump.graph(self.name, self.weights) if self.dump else unobserved
        tell = self.after_pass
        if tell is None:
            return dump

        def observe(name: str, result: GraphModule | Program) -> None:
            tell(name)
            dump(name, result)

        return observe

    def again(self, arguments: Sequence[Any], settings: Settings) -> CompiledGraph:
        """The graph for these arguments under other settings."""
        gm = self.gm if self.is_static else _specialise(self.gm, arguments)
        assert not isinstance(gm, Reason)  # it ran
        profile = replace(self.profile, precision=settings.precision)
        return compile_graph(
            gm,
            weights=self.weights,
            state=self.writes.state,
            profile=profile,
            settings=settings,
            chip=self.device.spec,
            name=self.name,
        )

    def loaded(self, compiled: CompiledGraph, settings: Settings, arguments: Sequence[Any]) -> Loaded:
        """What `again` gave, on the device with the weights as these arguments have them."""
        loaded = self.device.load(compiled.program, settings)
        weights = zip(compiled.program.weights, compiled.weight_positions)
        loaded.set_weights({name: arguments[position] for name, position in weights})
        return loaded

    def run_as(self, compiled: CompiledGraph, settings: Settings, arguments: Sequence[Any]) -> list[Any]:
        """One call as `again` compiled it, instead of as it was captured."""
        variant = self.variant(arguments)
        assert isinstance(variant, Variant)
        result = self.loaded(compiled, settings, arguments).run([arguments[i] for i in compiled.input_positions])
        return variant.layout.of(self._written(arguments, result.outputs))

    def _replay(self, program: Program, inputs: Sequence[Any], weights: Mapping[str, Any]) -> Sequence[Any]:
        # A witness judges passes, not the chip's rounding.
        loaded = self.device.load(program, replace(self.settings, numerics="fast"))
        loaded.set_weights(weights)
        return loaded.run(inputs).outputs

    def _load(self, compiled: CompiledGraph) -> Loaded:
        if compiled.plan is not None and not compiled.plan.memory.fits:
            raise OutOfMemory(compiled.plan.memory.peak_at)  # the device would say less: it cannot plan again
        return self.device.load(compiled.program, self.settings)

    def _report_eager(self, reason: Reason) -> None:
        """A graph that runs in eager counts in full: every op on the host, for this reason."""
        nodes = [n for n in self.gm.graph.nodes if isinstance(n.target, torch._ops.OpOverload)]
        variations = [(origin_of(n), variation(n)) for n in nodes]
        statuses = tuple(
            OpStatus(o.node, o.aten, "host", str(reason), called, o.module, o.source, reason)
            for o, called in variations
        )
        empty = Program(self.name, self.profile.target, (), (), (), (), (), (), {})
        self.on_compiled(CompiledGraph(empty, Coverage(statuses, 0, 1), None, self.settings))


class Tally:
    """What the graphs of one call add up to."""

    def __init__(self) -> None:
        self.modelled_ns: int | None = None
        self.num_transfers = 0

    def add(self, variant: Variant) -> None:
        self.num_transfers += variant.num_transfers
        if variant.modelled_ns is not None:
            self.modelled_ns = (self.modelled_ns or 0) + variant.modelled_ns


class Variant:
    """One Program with the weights it was last given."""

    def __init__(
        self,
        compiled: CompiledGraph,
        load: Callable[[], Loaded],
        layout: OutputLayout,
        counted: frozenset[int] = frozenset(),
        resident: tuple[frozenset[int], Residence | None] = (frozenset(), None),
    ) -> None:
        self.compiled, self.layout = compiled, layout
        self._load = load
        self._loaded: tuple[Loaded, WeightWatch] | None = None
        self.modelled_ns: int | None = None
        self.num_transfers = 0
        positions, self._residence = resident
        weights = tuple(zip(compiled.program.weights, compiled.weight_positions))
        self._weights = tuple((name, i) for name, i in weights if i not in positions)
        self._shared = tuple((name, i, TensorForm.of(compiled.program, name)) for name, i in weights if i in positions)
        state = {weight for weight, _ in compiled.program.state}
        self._state = tuple((name, i, int(i in counted)) for name, i in self._weights if name in state)

    def run(self, arguments: Sequence[Any]) -> Result:
        loaded = self.ready(arguments)
        result = loaded.run([resolved(arguments[i]) for i in self.compiled.input_positions])
        self.modelled_ns, self.num_transfers = result.modelled_ns, result.num_transfers
        return result

    def advance(self, arguments: Sequence[Any], result: Result) -> None:
        """The arguments were written to, as the run did to its state: the two are the same again."""
        if not result.state or self._loaded is None:
            return
        loaded, watch = self._loaded
        left = dict(zip((weight for weight, _ in self.compiled.program.state), result.state, strict=True))
        known = self._known(arguments)
        # One that is live changes as the caller writes to the weight; nobody writes to a resident one.
        live = {name for name in left if loaded.holds_live(name)} - {shared.weight for shared in known}
        loaded.keep({name: value for name, value in left.items() if name not in live})
        for shared in known:
            assert self._residence is not None
            self._residence.leave(loaded, shared, left[shared.weight])
        for name, position, coming in self._state:
            watch.note(name, arguments[position], loaded.holds_live(name), coming)

    def ready(self, arguments: Sequence[Any]) -> Loaded:
        """The Program on its device, with the weights as these arguments have them."""
        if self._loaded is None:
            self._loaded = self._load(), WeightWatch(functools.partial(_gone, weakref.ref(self)))
        loaded, watch = self._loaded
        weights = {name: arguments[position] for name, position in self._weights}
        changed = watch.changed(weights)
        if changed:
            watch.forget(changed)
            loaded.set_weights({name: weights[name] for name in changed})
            for name in changed:
                watch.note(name, weights[name], loaded.holds_live(name))
        if self._residence is not None:
            self._residence.bring(loaded, self._known(arguments))
        return loaded

    def _known(self, arguments: Sequence[Any]) -> list[Shared]:
        """The resident tensors among these arguments."""
        return [Shared(name, form, arguments[i]) for name, i, form in self._shared]

    @contextlib.contextmanager
    def reloaded(self) -> Iterator[None]:
        """While open, what is held is another loading of the Program; then the first one again."""
        kept, self._loaded = self._loaded, None
        try:
            yield
        finally:
            self._loaded = kept

    def gone(self, weight: str) -> None:
        """Forget what is held for a cache that is gone, or everything for a model; a later call loads again."""
        if self._loaded is None or weight not in (name for name, *_ in self._state):
            self._loaded = None
            return
        loaded, watch = self._loaded
        watch.forget([weight])
        loaded.drop_weights([weight])


def _gone(this: weakref.ref[Variant], weight: str) -> None:
    variant = this()
    if variant is not None:
        variant.gone(weight)


def _specialise(gm: GraphModule, arguments: Sequence[Any]) -> GraphModule | Reason:
    """The graph for these concrete sizes, or why there is none (sizes that depend on data)."""
    names = [n for n in gm.graph.nodes if n.op == "placeholder"]
    try:
        traced = make_fx(_without_symbols(gm), tracing_mode="fake")(*arguments)
    except Exception as error:  # PyTorch raises many kinds here; every one means "not with these sizes"
        return SIZES_FROM_DATA(error=type(error).__name__)
    if _views_as_complex(traced):
        return VIEWED_AS_COMPLEX()
    for node, original in zip((n for n in traced.graph.nodes if n.op == "placeholder"), names):
        if not isinstance(node.meta.get("val"), torch.Tensor):
            value = arguments[names.index(original)]
            node.meta["val"] = value if not isinstance(value, torch.Tensor) else node.meta.get("val")
    return traced


def _views_as_complex(gm: GraphModule) -> bool:
    """Whether an output's memory is real to one node and complex to another. With symbolic sizes AOTAutograd makes such
    views again by replaying the output's own history, which a device's result does not have."""
    seen: dict[int, set[bool]] = {}
    for node in gm.graph.nodes:
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor) and value.layout == torch.strided:
            seen.setdefault(value.untyped_storage()._cdata, set()).add(value.is_complex())
    outputs = (v for v in _output_values(gm) if isinstance(v, torch.Tensor) and v.layout == torch.strided)
    return any(len(seen[v.untyped_storage()._cdata]) > 1 for v in outputs)


def _without_symbols(gm: GraphModule) -> Callable[..., Any]:
    def run(*arguments: Any) -> Any:
        with preserve_node_meta():  # each node keeps its module and source line
            return Resolved(gm).run(*arguments)

    return run


def _has_symbols(gm: GraphModule) -> bool:
    def symbolic(value: Any) -> bool:
        if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            return True
        if isinstance(value, torch.Tensor):
            return any(isinstance(s, torch.SymInt) for s in value.shape)
        return isinstance(value, (list, tuple)) and any(map(symbolic, value))

    return any(symbolic(n.meta.get("val")) for n in gm.graph.nodes)


def _concrete(argument: Any) -> Any:
    if isinstance(argument, torch.Tensor):
        return (tuple(argument.shape), argument.stride() if argument.layout == torch.strided else None, argument.dtype)
    return argument


def _shape_of(value: Any) -> Any:
    """What a model without weights gives: tensors of the right shapes."""
    return (
        torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")
        if isinstance(value, torch.Tensor)
        else value
    )


def _output_values(gm: GraphModule) -> list[Any]:
    output = next(n for n in gm.graph.nodes if n.op == "output")
    return [a.meta.get("val") if isinstance(a, torch.fx.Node) else None for a in output.args[0]]
