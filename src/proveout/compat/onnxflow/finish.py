"""An exported ONNX file as a build: optimised, converted, counted, with the state that `load_state` reads."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from proveout.compat.onnxflow.build import Config, State, Status
from proveout.compat.onnxflow.exceptions import StageError
from proveout.compat.onnxflow.export import ConvertOnnxToFp16, OptimizeOnnxModel, opset_of

EXPORT, SUCCESS = "export_pytorch", "set_success"


def finish(path: Path, folder: Path, convert: bool) -> State:
    """The build in `folder` of a file that was exported into it. A stage that fails is told by the state: the exported
    model stands without it."""
    facts = onnx_facts(path)
    later = [OptimizeOnnxModel(), ConvertOnnxToFp16()] if convert else []
    stages = (EXPORT, *(stage.unique_name for stage in later), SUCCESS)
    config = Config(folder.name, True, stages, facts["onnx_model_information"]["opset"])
    state = State(config, str(folder.parent), intermediate_results=[str(path)])
    state.info.all_build_stages = list(stages)
    state.info.completed_build_stages = [EXPORT]
    state.info.base_onnx_exported = True
    state.info.onnx = facts
    (folder / f"log_{EXPORT}.txt").write_text(f"{path}\n")
    for stage in later:
        try:
            state = stage.launch(state)
        except StageError as error:
            (folder / f"log_{stage.unique_name}.txt").write_text(f"{error}\n")
            break
    state.info.completed_build_stages.append(SUCCESS)
    state.build_status = Status.SUCCESSFUL_BUILD
    state.save()
    return state


def onnx_facts(path: Path) -> dict[str, Any]:
    """What MLAgility's statistics say of an ONNX file."""
    import onnx

    model = onnx.load(str(path), load_external_data=False)
    known = {initial.name for initial in model.graph.initializer}
    return {
        "onnx_model_information": {
            "ir_version": model.ir_version,
            "opset": opset_of(path),
            "size on disk (KiB)": round(path.stat().st_size / 1024, 3),
        },
        "onnx_input_dimensions": {
            value.name: [size.dim_value or size.dim_param for size in value.type.tensor_type.shape.dim]
            for value in model.graph.input
            if value.name not in known
        },
        "onnx_ops_counter": dict(sorted(Counter(node.op_type for node in model.graph.node).items())),
    }


__all__ = ["finish", "onnx_facts"]
