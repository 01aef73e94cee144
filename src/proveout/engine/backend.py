"""The torch.compile backend: `torch.compile(model, backend="proveout")`, with no import and no options."""

from __future__ import annotations

import contextlib
import functools
import itertools
import re
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any

import torch
from functorch.compile import default_partition, make_boxed_func
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.source import AttrSource, GlobalSource
from torch._functorch._aot_autograd.descriptors import PlainAOTInput
from torch._guards import ChainedSource, Source
from torch.fx import GraphModule
from torch.utils._python_dispatch import _disable_current_modes

from proveout.compiler import CompiledGraph
from proveout.compiler.decompositions import decompositions, kept_whole
from proveout.compiler.dump import DumpFolder
from proveout.devices.registry import DeviceInfo, find, info_of, kept_device, settings_for
from proveout.engine.generating import compile_generate
from proveout.engine.graph import GraphFunction, Tally
from proveout.engine.recorder import Recorder
from proveout.engine.repeat import Repeat, repeated
from proveout.engine.residence import Residence
from proveout.errors import UsageError, unknown
from proveout.program import Device
from proveout.types import Settings

OPTIONS = ("device", "settings")
_LIBRARIES = re.compile(r"^.*/(?:site|dist)-packages/")
"""The part of an installed file's path that differs between machines."""


def backend(gm: GraphModule, example_inputs: list[torch.Tensor], *, options: Any = None, **rest: Any) -> Any:
    """The entry point that Dynamo finds by the name `proveout`."""
    if rest:
        raise unknown("argument of torch.compile for this backend", next(iter(rest)), ["options"])
    return Capture.from_options(options)(gm, example_inputs)


@dataclass(eq=False, repr=False)
class Capture:
    """A configured backend. It keeps the graphs it made, for those who want to look at them afterwards."""

    device: Device
    info: DeviceInfo
    settings: Settings
    dry: bool = False
    graphs: list[GraphFunction] = field(default_factory=list)
    compiled: list[CompiledGraph] = field(default_factory=list)
    breaks: list[str] = field(default_factory=list)
    """Where Dynamo cut the model into several graphs: the user's line and the reason."""
    keep: bool = False
    dump: DumpFolder | None = None
    recorder: Recorder | None = field(default_factory=Recorder.of_environment)
    tally: Tally = field(default_factory=Tally)
    after_pass: Callable[[str], None] | None = None
    residence: Residence | None = None
    """Tensors that live on the device, of which nothing comes back."""
    repeat: Repeat | None = None
    """Layers that the model has more of than are captured; for plans."""
    on_compiled: Callable[[GraphFunction, CompiledGraph], None] | None = None
    """With `keep`: told each graph when it is compiled, for each set of sizes."""

    @staticmethod
    def of(device: str | Device = "sim", settings: Settings | dict[str, Any] | None = None, **rest: Any) -> Capture:
        """Check what a user gave, before any work."""
        if not isinstance(device, str) and not hasattr(device, "load"):
            raise UsageError(f"device must be a name or an open device, not {type(device).__name__}.")
        info = find(device) if isinstance(device, str) else info_of(device)
        chosen = settings_for(info.name, settings, live=True)
        _check_numbers(info, chosen)
        return Capture(kept_device(device) if isinstance(device, str) else device, info, chosen, **rest)

    @staticmethod
    def from_options(options: Any) -> Capture:
        if options is None:
            options = {}
        if not isinstance(options, dict):
            options = getattr(options, "proveout_options", None)
            if not isinstance(options, dict):
                raise UsageError("options must be a dict with 'device' and 'settings'.")
        settings = {setting.name for setting in fields(Settings)}
        for name, value in options.items():
            if name in settings:
                raise UsageError(f"{name!r} is a setting. Use: options={{'settings': {{{name!r}: {value!r}}}}}")
            if name not in OPTIONS:
                raise unknown("option", name, OPTIONS)
        return Capture.of(options.get("device", "sim"), options.get("settings"))

    def run_from_now_on(self, dry: bool) -> None:
        """Let graphs that were captured without the device run on it, unless all is `dry`."""
        self.dry = dry
        for graph in self.graphs:
            graph.dry = dry

    def stop_recording(self) -> None:
        self.recorder = None
        for graph in self.graphs:
            graph.recorder = None

    def __repr__(self) -> str:
        return f"proveout on {self.device.name}"

    def __call__(self, gm: GraphModule, example_inputs: list[torch.Tensor]) -> Any:
        if self.keep:
            self.breaks += _graph_break(gm)
        held = _held(gm)
        residence = self.residence or ()
        resident = frozenset(i for i, tensor in enumerate(example_inputs) if tensor in residence)
        compiler = aot_autograd(
            fw_compiler=self._compiler("forward"),
            bw_compiler=self._compiler("backward"),
            inference_compiler=self._compiler("inference", held, resident),
            decompositions=decompositions(),
            partition_fn=default_partition,
            keep_inference_input_mutations=True,
        )
        with kept_whole(), _attention_as_one_op(example_inputs):
            return compiler(gm, example_inputs)

    def _note(self, function: GraphFunction, compiled: CompiledGraph) -> None:
        self.compiled.append(compiled)
        if self.on_compiled is not None:
            self.on_compiled(function, compiled)

    def _compiler(
        self, phase: str, held: frozenset[int] = frozenset(), resident: frozenset[int] = frozenset()
    ) -> Callable[[GraphModule, list[Any]], Any]:
        def compile_one(gm: GraphModule, example_inputs: list[Any]) -> Any:
            name = f"graph{next(_numbers)}_{phase}"
            positions = _positions(phase, gm, held, resident)
            if self.repeat is not None:
                gm, positions = repeated(gm, positions, self.repeat)
            function = GraphFunction(gm, positions[0], self.device, self.info, self.settings, name, *positions[1:])
            function.residence = self.residence
            function.dry, function.dump, function.recorder = self.dry, self.dump, self.recorder
            function.after_pass = self.after_pass
            if self.keep:
                function.tally = self.tally
                self.graphs.append(function)
                function.on_compiled = functools.partial(self._note, function)
            with _disable_current_modes():  # AOTAutograd calls us under fake tensors; constants are real
                function.prepare()
            return make_boxed_func(function)

        return compile_one


compile_generate(lambda used: used is backend or isinstance(used, Capture))


def _attention_as_one_op(inputs: list[Any]) -> contextlib.AbstractContextManager[Any]:
    """On a GPU, PyTorch has several ops for attention: this one's results are all tensors, so that it can be a Step."""
    if not any(isinstance(t, torch.Tensor) and t.is_cuda for t in inputs):
        return contextlib.nullcontext()
    from torch.nn.attention import SDPBackend, sdpa_kernel

    return sdpa_kernel([SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH])


_numbers = itertools.count()


def _check_numbers(info: DeviceInfo, settings: Settings) -> None:
    """A setting that the device could only ignore is refused: the report would say what was not done."""
    if settings.precision not in info.precisions:
        raise UsageError(
            f"device {info.name!r} does not compute in {settings.precision!r}: use {', '.join(info.precisions)}."
        )
    if info.target == "torch" and settings.numerics != "fast":
        raise UsageError(f"numerics={settings.numerics!r} is the chip's: device {info.name!r} has its own. Use 'sim'.")
    if info.target == "torch" and settings.cache != "same":
        raise UsageError(f"device {info.name!r} keeps what is computed in one format: use 'sim', or cache=same.")
    formats = [settings.weights, *(dtype for _, dtype in settings.overrides)]
    for dtype in formats if info.target == "ttnn" else formats[:1]:
        if dtype not in info.formats:
            raise UsageError(
                f"device {info.name!r} does not keep weights in {dtype!r}: use one of {', '.join(info.formats)}."
            )
    if info.target == "torch" and settings.overrides:
        raise UsageError(f"device {info.name!r} has one format for all weights: use 'sim', or no overrides.")


def _graph_break(gm: GraphModule) -> list[str]:
    """Why this graph ends before the function does, if it does."""
    why = getattr(gm, "compile_subgraph_reason", None)
    if why is None or not why.graph_break:
        return []
    frame = why.user_stack[-1] if why.user_stack else None
    place = f"{_LIBRARIES.sub('', frame.filename)}:{frame.lineno}" if frame else "unknown line"
    return [f"{place}: {str(why.reason).strip().splitlines()[0]}"]


def _positions(
    phase: str, gm: GraphModule, held: frozenset[int], resident: frozenset[int]
) -> tuple[frozenset[int], ...]:
    """Arguments that are parameters or buffers; others that outlive a call; those whose writes AOTAutograd counts; and
    those that live on the device."""
    context = torch._guards.TracingContext.try_get()
    metadata = context.fw_metadata if context is not None else None
    if phase == "backward" or metadata is None:
        return (frozenset(),) * 4
    static = frozenset(metadata.static_input_indices)
    if phase != "inference":
        written = {i for i, info in enumerate(metadata.input_info) if info.mutates_data or info.mutates_metadata}
        return static - written, frozenset(), frozenset(), frozenset()
    moved = frozenset(i for i, info in enumerate(metadata.input_info) if info.mutates_metadata)
    described = enumerate(n.meta.get("desc") for n in gm.graph.nodes if n.op == "placeholder")
    known = {i: desc.idx for i, desc in described if isinstance(desc, PlainAOTInput)}
    outlives, lives = (frozenset(i for i, at in known.items() if at in among) for among in (held, resident))
    counted = frozenset(metadata.mutated_graph_handled_indices_seen_by_autograd)
    return static - moved, outlives - moved, counted, lives - moved


def _held(gm: GraphModule) -> frozenset[int]:
    """Which of Dynamo's inputs are attributes of something (a cache's tensors), and not arguments of the call."""
    sources = enumerate(getattr(n, "_dynamo_source", None) for n in gm.graph.nodes if n.op == "placeholder")
    return frozenset(i for i, source in sources if _is_held(source))


def _is_held(source: Source | None) -> bool:
    while source is not None:
        if isinstance(source, (AttrSource, GlobalSource)):
            return True
        source = source.base if isinstance(source, ChainedSource) else None
    return False
