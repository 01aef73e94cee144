"""The stages that come with onnxflow: export, ONNX Runtime's optimisations, float16, done."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from proveout.compat.onnxflow.build import MINIMUM_ONNX_OPSET, State, Status
from proveout.compat.onnxflow.exceptions import StageError
from proveout.compat.onnxflow.stage import Sequence, Stage


class ReceiveOnnxModel(Stage):
    """An ONNX file as it is."""

    def __init__(self) -> None:
        super().__init__("receive_onnx", "Receiving ONNX Model")

    def fire(self, state: State) -> State:
        from proveout.compat.onnxflow.arrays import save_inputs

        if not (isinstance(state.model, (str, Path)) and Path(state.model).is_file()):
            raise StageError(f"receive_onnx takes the path of an ONNX file, not {type(state.model).__name__}.")
        if state.config.onnx_opset < MINIMUM_ONNX_OPSET:
            raise StageError(
                f"{state.model} is of opset {state.config.onnx_opset}, and builds take {MINIMUM_ONNX_OPSET} and later:"
                " export it again, or convert it with onnx.version_converter."
            )
        shutil.copyfile(state.model, state.base_onnx_file)
        save_inputs(state)
        state.info.base_onnx_exported = True
        state.intermediate_results = [state.base_onnx_file]
        return state


class ExportPytorchModel(Stage):
    """A PyTorch model as an ONNX file of the version asked for."""

    def __init__(self) -> None:
        super().__init__("export_pytorch", "Exporting PyTorch to ONNX")

    def fire(self, state: State) -> State:
        import torch

        from proveout.compat.onnxflow.arrays import save_inputs
        from proveout.compat.onnxflow.flat import export_arguments, exportable

        if not isinstance(state.model, torch.nn.Module):
            raise StageError(f"export_pytorch takes a torch.nn.Module, not {type(state.model).__name__}.")
        inputs = dict(state.inputs or {})
        args = tuple(inputs.pop(name) for name in sorted(n for n in inputs if n.startswith("Positional Arg ")))
        with torch.no_grad():
            torch.onnx.export(
                exportable(state.model, args, inputs),
                export_arguments(args, inputs),
                state.base_onnx_file,
                opset_version=state.config.onnx_opset,
                dynamo=False,
                verbose=False,
            )
        save_inputs(state)
        state.info.base_onnx_exported = True
        state.intermediate_results = [state.base_onnx_file]
        return state


class OptimizeOnnxModel(Stage):
    """ONNX Runtime's optimisations that do not tie a file to a machine, written down."""

    def __init__(self) -> None:
        super().__init__("optimize_onnx", "Optimizing ONNX file")

    def fire(self, state: State) -> State:
        import onnxruntime

        options: Any = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        options.optimized_model_filepath = state.opt_onnx_file
        onnxruntime.InferenceSession(_input_of(self, state), options, providers=["CPUExecutionProvider"])
        state.info.opt_onnx_exported = True
        state.intermediate_results = [state.opt_onnx_file]
        return state


class ConvertOnnxToFp16(Stage):
    """Float16, by the converter that comes with ONNX Runtime."""

    def __init__(self) -> None:
        super().__init__("fp16_conversion", "Converting to FP16")

    def fire(self, state: State) -> State:
        import onnx
        from onnxruntime.transformers.float16 import convert_float_to_float16

        from proveout.compat.onnxflow.arrays import halve_inputs

        converted = convert_float_to_float16(onnx.load(_input_of(self, state)), keep_io_types=False)
        onnx.save(converted, state.converted_onnx_file)
        halve_inputs(state)
        state.info.converted_onnx_exported = True
        state.intermediate_results = [state.converted_onnx_file]
        return state


class SuccessStage(Stage):
    """Says that the build is done."""

    def __init__(self) -> None:
        super().__init__("set_success", "Finishing up")

    def fire(self, state: State) -> State:
        state.build_status = Status.SUCCESSFUL_BUILD
        return state


def opset_of(path: str | Path) -> int:
    """The version of ONNX that a file is written in."""
    import onnx

    model = onnx.load(str(path), load_external_data=False)
    return next(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx"))


def _input_of(stage: Stage, state: State) -> str:
    if not state.onnx_file:
        raise StageError(f"{stage.unique_name} takes an ONNX file, and no stage before it made one.")
    return state.onnx_file


def default_sequence(model: Any, export_only: bool = False) -> Sequence:
    """What a model goes through where nothing else is asked for."""
    first: Stage = ReceiveOnnxModel() if isinstance(model, (str, Path)) else ExportPytorchModel()
    later = [] if export_only else [OptimizeOnnxModel(), ConvertOnnxToFp16()]
    return Sequence("default", "Building the model", [first, *later, SuccessStage()], enable_model_validation=True)


__all__ = [
    "ConvertOnnxToFp16", "ExportPytorchModel", "OptimizeOnnxModel", "ReceiveOnnxModel", "SuccessStage",
    "default_sequence", "opset_of",
]  # fmt: skip
