"""What an ONNX file holds: one model, described as a Workload of its own kind."""

from __future__ import annotations

import hashlib
from pathlib import Path

from proveout.types import TensorSpec, Workload

CLASS_NAME = "ONNX"

DTYPES = {"float": "float32", "double": "float64"}
"""ONNX Runtime's names where they differ from ours."""


def describe(path: Path) -> tuple[list[Workload], Exception | None]:
    """The Workload of a file, or what ONNX Runtime has against it. A dimension without a size is 1."""
    import onnxruntime

    try:
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    except Exception as error:  # its exceptions are made in C++ and have no common class
        return [], error
    inputs = []
    for value in session.get_inputs():
        kind = value.type.removeprefix("tensor(").removesuffix(")")
        shape = tuple(size if isinstance(size, int) else 1 for size in value.shape)
        inputs.append((value.name, TensorSpec(shape, DTYPES.get(kind, kind))))
    seal = hashlib.sha256(path.read_bytes()).hexdigest()
    workload = Workload(
        path.stem, str(path), seal[:12], CLASS_NAME, tuple(inputs), location=path.name, source=seal[:20]
    )
    return [workload], None
