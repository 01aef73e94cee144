"""The original's option object, and its backend: ours, which leaves in the option what its users look for there."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import torch
from functorch.compile import make_boxed_func
from torch._dynamo.backends.common import aot_autograd
from torch.fx import Graph, GraphModule

from proveout.compat.torch_ttnn.drawings import Drawings
from proveout.compat.torch_ttnn.graphs import fx_graph
from proveout.compat.torch_ttnn.mem_utils import MemoryManager, analysed
from proveout.compat.torch_ttnn.metrics import (
    ConvertedInput,
    InputVariation,
    collect_compiled,
    collect_input_variations_from_list_nodes,
)
from proveout.compat.torch_ttnn.tracing import TraceFiles
from proveout.compiler import CompiledGraph
from proveout.engine.backend import Capture
from proveout.engine.backend import backend as proveout_backend
from proveout.engine.graph import GraphFunction
from proveout.engine.snapshot import save_call
from proveout.errors import UsageError, unknown
from proveout.program import Device
from proveout.report.script import write_script
from proveout.types import Settings

EXPORTS = ("accuracy", "profiling")


class TorchTtnnOption:
    """The device and what else is wanted of a compilation: the original's fields, and any of our settings by name.

    Fields may be changed until the model is called; `docs/reference/torch_ttnn.md` says what each does here.
    """

    def __init__(
        self,
        device: Device | str = "sim",
        gen_graphviz: bool = False,
        run_mem_analysis: bool = False,
        run_eviction_opt: bool = False,
        verbose: bool = True,
        metrics_path: str = "",
        tracer_option: dict[str, Any] | None = None,
        bypass_compile: bool = False,
        use_less_ttnn_op_types: bool = True,
        export_code: str | None = None,
        total_num_iterations: int = 1,
        data_parallel: bool | int = False,
        load_params_once: bool = True,
        native_integration: bool = False,
        gen_op_accuracy_tests: bool = False,
        **settings: Any,
    ) -> None:
        self.device, self.settings = device, Settings.of(settings)
        self.gen_graphviz, self.metrics_path, self.verbose = gen_graphviz, metrics_path, verbose
        self.run_mem_analysis, self.run_eviction_opt = run_mem_analysis, run_eviction_opt
        self.tracer_option, self.bypass_compile = tracer_option, bypass_compile
        self.use_less_ttnn_op_types, self.load_params_once = use_less_ttnn_op_types, load_params_once
        self.export_code = "accuracy" if gen_op_accuracy_tests and export_code is None else export_code
        self.total_num_iterations, self.data_parallel = total_num_iterations, data_parallel
        self.native_integration, self.gen_op_accuracy_tests = native_integration, gen_op_accuracy_tests
        self.memory_manager: MemoryManager | None = None
        self.exported: list[Path] = []
        """Scripts that `export_code` wrote."""
        self.reset_containers()

    def reset_containers(self) -> None:
        """Forget the graphs and calls that compilations left here."""
        self._out_fx_graphs: list[Graph] = []
        self._aten_fx_graphs: list[list[Graph]] = []
        self._ttnn_fx_graphs: list[list[Graph]] = []
        self.original_schema_list: list[InputVariation] = []
        self.compiled_schema_list: list[InputVariation | ConvertedInput] = []

    @property
    def proveout_options(self) -> dict[str, Any]:
        """What `backend="proveout"` takes."""
        return {"device": self.device, "settings": self._with_parallel(self.settings)}

    def check(self) -> None:
        """Refuse what could only be ignored."""
        if self.native_integration:
            raise UsageError(
                "native_integration needs the original's C++ extension. Leave it out: Programs run as compiled."
            )
        if self.run_eviction_opt and not self.run_mem_analysis:
            raise UsageError("run_eviction_opt depends on run_mem_analysis: set both.")
        if self.export_code not in (None, False, *EXPORTS):
            raise unknown("value for export_code", self.export_code, EXPORTS)

    def _with_parallel(self, settings: Settings) -> Settings:
        if not self.data_parallel:
            return settings
        spec = None if isinstance(self.device, str) else self.device.spec
        chips = spec.chips if spec else 1
        wanted = chips if self.data_parallel is True else int(self.data_parallel)
        if chips < 2 or wanted != chips:
            raise UsageError(
                f"data_parallel={self.data_parallel!r} needs a device of as many chips; this one has {chips}. "
                "Open one: ttnn.open_mesh_device(ttnn.MeshShape(1, 2))."
            )
        return Settings.of({**settings.__dict__, "parallel": "data"})


def ttnn_backend(gm: Any, example_inputs: list[torch.Tensor] | None = None, *, options: Any = None, **rest: Any) -> Any:
    """`torch.compile(model, backend=torch_ttnn.backend, options=option)`; also `backend=torch_ttnn.backend(option)`."""
    if isinstance(gm, TorchTtnnOption):
        return partial(ttnn_backend, options=gm)
    if not isinstance(options, TorchTtnnOption):
        return proveout_backend(gm, example_inputs or [], options=options, **rest)
    options.check()
    options._aten_fx_graphs.append([])
    options._ttnn_fx_graphs.append([])
    traced = TraceFiles.of(options.tracer_option)
    if options.bypass_compile:
        return _bypassed(gm, example_inputs or [], options, traced)
    chosen = options.proveout_options
    capture = Capture.of(chosen["device"], chosen["settings"], keep=True)
    if options.gen_graphviz:
        capture.dump = Drawings(Path("metrics", options.metrics_path))
    capture.on_compiled = partial(_note, options, traced)
    return capture(gm, example_inputs or [])


def _note(option: TorchTtnnOption, traced: TraceFiles | None, function: GraphFunction, compiled: CompiledGraph) -> None:
    """Leave in the option what its fields ask for."""
    original = function.gm.graph
    graph = fx_graph(compiled.program) if compiled.program.steps or not compiled.coverage.on_host else original
    option._out_fx_graphs.append(graph)
    if traced is not None:
        traced.write(original, graph, backward=function.name.endswith("backward"))
    if option.metrics_path:
        option.original_schema_list += collect_input_variations_from_list_nodes(original.nodes)
        option.compiled_schema_list += collect_compiled(graph.nodes, original.nodes)
    if option.run_mem_analysis and compiled.chip is not None:
        placed = option.run_eviction_opt
        option.memory_manager = analysed(compiled.program, compiled.chip, placed=placed, verbose=option.verbose)
    if option.export_code:
        option._aten_fx_graphs[-1].append(original)
        option._ttnn_fx_graphs[-1].append(graph)
        function.on_run = partial(_export, option, function)


def _export(option: TorchTtnnOption, function: GraphFunction, variant: Any, arguments: Any) -> None:
    """The first call of a graph as a script of ttnn calls that compares its outputs with what the device gave."""
    function.on_run = None
    name = option.metrics_path or "model"
    folder = save_call(variant, arguments, Path("exported", name, f"program{len(option.exported)}"))
    option.exported.append(write_script(folder, name))


def _bypassed(gm: GraphModule, inputs: list[Any], option: TorchTtnnOption, traced: TraceFiles | None) -> Any:
    """The ATen graphs in eager, noted and not compiled."""

    def compiler(phase: str) -> Any:
        def compile_one(gm: GraphModule, example_inputs: list[Any]) -> Any:
            option._out_fx_graphs.append(gm.graph)
            if traced is not None:
                traced.write(gm.graph, gm.graph, backward=phase == "backward")
            if option.metrics_path:
                option.original_schema_list += collect_input_variations_from_list_nodes(gm.graph.nodes)
            return make_boxed_func(gm.forward)

        return compile_one

    return aot_autograd(fw_compiler=compiler("forward"), bw_compiler=compiler("backward"))(gm, inputs)
