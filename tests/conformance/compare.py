"""Compares our kernel rules with what real ttnn 0.81.1 did on its mock chips, call by call.

The rows are in `tests/data`: those our formulas were read off, and 1,400 random calls that none was fitted to.
A row is one call: its arguments, accepted or refused, the output's spec, the device operations in order, and peak L1
per core: buffers allocated during the call plus circular buffers.
"""

from __future__ import annotations

import functools
import gzip
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from proveout.chip.specs import CHIPS
from proveout.chip.time import default_fidelity
from proveout.kernels.circular import call_peak
from proveout.kernels.device_ops import device_ops
from proveout.kernels.op_codes import op_code
from proveout.kernels.table import LAYOUT_NAMES, MEMORY_NAMES, infer, kernels, refusal, specs_of
from proveout.program import Construct, Name, Ref, Step
from proveout.types import DRAM, HOST, L1, DeviceSpec, TensorSpec

DATA = Path(__file__).parents[1] / "data"
ROWS, HELD_OUT = DATA / "ttnn_mock.jsonl.gz", DATA / "ttnn_mock_held_out.jsonl.gz"
CHIP: dict[str, DeviceSpec] = {"n150": CHIPS["n150"], "p150": replace(CHIPS["p150"], grid=(11, 10))}
"""ttnn's mock p150 has 11 columns of cores, as the boards do by default."""
DTYPES = {"bf16": "bfloat16", "bfp8": "bfloat8_b", "bfp4": "bfloat4_b", "fp32": "float32"}
MEMORY = {"dram": DRAM, "l1": L1}
WITHIN = 0.15
"""What we allow peak L1 to differ by."""


@dataclass(frozen=True)
class Verdict:
    """One row: what agrees, and both peaks."""

    op: str
    arch: str
    accepted: bool
    spec: bool
    ops: bool
    expected: int
    predicted: int
    why: str = ""
    ran: bool = False
    """Whether both took the call, so that its device operations were compared."""

    @property
    def agrees(self) -> bool:
        return self.accepted and self.spec and self.ops

    @property
    def error(self) -> float:
        return abs(self.predicted - self.expected) / self.expected if self.expected else float(self.predicted > 0)


@functools.cache
def rows(path: Path = ROWS) -> list[dict[str, Any]]:
    with gzip.open(path, "rt") as lines:
        return [json.loads(line) for line in lines]


@functools.cache
def verdicts(path: Path = ROWS) -> list[Verdict]:
    return [compare(row) for row in rows(path)]


def compare(row: dict[str, Any]) -> Verdict:
    step, specs = call_of(row)
    found = specs_of(step, specs)
    reason = refusal(kernels()[step.kernel], found)
    verdict = Verdict(row["op"], row["arch"], (reason is None) == (row["status"] == "ok"), True, True, 0, 0)
    if row["status"] == "refused" or reason is not None:
        return (
            verdict
            if verdict.accepted
            else replace(verdict, why=str(reason) if reason else f"ttnn refuses: {row['message']}")
        )
    (out,) = infer(step, specs)
    expected = (tuple(row["out_shape"]), row["out_dtype"].lower(), row["out_layout"].lower(), row["out_buffer"].lower())
    ours = (out.shape, out.dtype, out.layout, out.memory.buffer)
    kernel = kernels()[step.kernel]
    work = kernel.work(found, (out,))
    fidelity = default_fidelity([s.dtype for s in specs.values()], CHIP[row["arch"]])
    ops = device_ops(kernel, found, (out,), work, fidelity)
    names = [op_code(op) for op in ops]
    why = "" if ours == expected else f"{ours}, ttnn {expected}"
    why = why or ("" if names == row["device_ops"] else f"{names}, ttnn {row['device_ops']}")
    return replace(
        verdict,
        spec=ours == expected,
        ops=names == row["device_ops"],
        expected=row["per_core_peak"],
        predicted=call_peak(ops, (out,), CHIP[row["arch"]]),
        why=why,
        ran=True,
    )


def call_of(row: dict[str, Any]) -> tuple[Step, dict[str, TensorSpec]]:
    """The row as a Step of our kernel table, with its operands' specs."""
    build = BUILD.get(row["op"], _elementwise)
    attrs: list[tuple[str, Any]] = []
    specs: dict[str, TensorSpec] = {}
    for key, value in build(row).items():
        tensors = value if isinstance(value, list) else [value]
        if all(isinstance(t, TensorSpec) for t in tensors):
            names = [f"{key}{i}" for i in range(len(tensors))]
            specs.update(zip(names, tensors))
            refs = tuple(Ref(n) for n in names)
            attrs.append((key, refs if isinstance(value, list) else refs[0]))
        elif value is not None:
            attrs.append((key, value))
    if "mem" in row or "out_mem" in row:
        attrs.append(("memory_config", MEMORY_NAMES[MEMORY[row.get("mem") or row["out_mem"]]]))
    return Step(row["op"], tuple(attrs), ("out",)), specs


def _tensor(shape: list[int], dtype: str = "bf16", memory: str = "dram", layout: Any = "tile") -> TensorSpec:
    return TensorSpec(tuple(shape), DTYPES.get(dtype, dtype), layout, MEMORY[memory])


def _source(row: dict[str, Any]) -> TensorSpec:
    return _tensor(row["shape"], row["dtype"], row.get("mem", "dram"))


def _elementwise(row: dict[str, Any]) -> dict[str, Any]:
    if "other" not in row:
        return {"input_tensor": _source(row)}
    other = _tensor(row["other"], row["dtype"], row.get("mem", "dram"))
    return {"input_tensor_a": _source(row), "input_tensor_b": other}


def _matmul(row: dict[str, Any]) -> dict[str, Any]:
    batch, m, k, n = row.get("B", 1), row["M"], row["K"], row["N"]
    left, right = ([1, batch], [1, batch]) if row.get("batched") else ([batch, 1], [1, 1])
    return {
        "input_tensor_a": _tensor([*left, m, k], row["in0"], row.get("in0_mem", "dram")),
        "input_tensor_b": _tensor([*right, k, n], row["in1"]),
        "bias": _tensor([1, 1, 1, n]) if row["op"] == "ttnn.linear" else None,
        "activation": row.get("activation"),
    }


def _attention(row: dict[str, Any]) -> dict[str, Any]:
    spec = _tensor([row["B"], row["heads"], row["seq"], row["head_dim"]], row["dtype"])
    return {**{f"input_tensor_{x}": spec for x in "qkv"}, "is_causal": row["is_causal"]}


def _conv(row: dict[str, Any]) -> dict[str, Any]:
    pixels, window = row["batch"] * row["hw"] ** 2, row["k"]
    weight = TensorSpec((row["cout"], row["cin"] // row["groups"], window, window), "bfloat16", "row_major", HOST)
    return {
        "input_tensor": _tensor([1, 1, pixels, row["cin"]], layout="row_major"),
        "weight_tensor": weight,
        "in_channels": row["cin"],
        "out_channels": row["cout"],
        "batch_size": row["batch"],
        "input_height": row["hw"],
        "input_width": row["hw"],
        "kernel_size": (window, window),
        "stride": (row["stride"],) * 2,
        "padding": (row["pad"],) * 2,
        "groups": row["groups"],
        "conv_config": Construct.of("ttnn.Conv2dConfig", weights_dtype=Name(f"ttnn.{DTYPES[row['weights']]}")),
    }


def _pool(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "input_tensor": _tensor([1, 1, row["batch"] * row["hw"] ** 2, row["channels"]], layout="row_major"),
        "batch_size": row["batch"],
        "input_h": row["hw"],
        "input_w": row["hw"],
        "channels": row["channels"],
        "kernel_size": (row["k"],) * 2,
        "stride": (row["stride"],) * 2,
        "padding": (row["pad"],) * 2,
        "dilation": (1, 1),
    }


def _embedding(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "input_tensor": _tensor([1, row["n"]], "uint32", layout="row_major"),
        "weight": _tensor([row["vocab"], row["dim"]], layout="row_major"),
        "layout": LAYOUT_NAMES["tile"],
    }


def _to_layout(row: dict[str, Any]) -> dict[str, Any]:
    before = "row_major" if row["to"] == "tile" else "tile"
    return {"tensor": _tensor(row["shape"], row["dtype"], layout=before), "layout": LAYOUT_NAMES[row["to"]]}


def _reduce(row: dict[str, Any]) -> dict[str, Any]:
    return {"input_tensor": _source(row), "dim": row.get("dim", -1), "keepdim": True}


def _norm(row: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"input_tensor": _source(row)}
    if row.get("weight"):
        found["weight"] = _tensor([1, 1, 1, row["shape"][-1]])
        found |= {"bias": found["weight"]} if row["op"] == "ttnn.layer_norm" else {}
    return found


BUILD: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "ttnn.matmul": _matmul,
    "ttnn.linear": _matmul,
    "ttnn.transformer.scaled_dot_product_attention": _attention,
    "ttnn.conv2d": _conv,
    "ttnn.max_pool2d": _pool,
    "ttnn.embedding": _embedding,
    "ttnn.to_layout": _to_layout,
    "ttnn.sum": _reduce,
    "ttnn.mean": _reduce,
    "ttnn.max": _reduce,
    "ttnn.layer_norm": _norm,
    "ttnn.rms_norm": _norm,
    "ttnn.argmax": lambda row: {"input_tensor": _source(row), "dim": -1},
    "ttnn.pow": lambda row: {"input_tensor": _source(row), "exponent": 2.0},
    "ttnn.softmax": lambda row: {"input_tensor": _source(row), "dim": -1},
    "ttnn.typecast": lambda row: {"input_tensor": _source(row), "dtype": Name(f"ttnn.{DTYPES[row['to']]}")},
    "ttnn.reshape": lambda row: {"input_tensor": _source(row), "shape": tuple(row["to"])},
    "ttnn.slice": lambda row: {
        "input_tensor": _source(row),
        "slice_start": (0,) * len(row["shape"]),
        "slice_end": tuple(row["out_shape"]),
    },
    "ttnn.concat": lambda row: {"tensors": [_source(row), _source(row)], "dim": row["dim"]},
    "ttnn.permute": lambda row: {"input_tensor": _source(row), "dims": tuple(row["dims"])},
    "ttnn.transpose": lambda row: {"input_tensor": _source(row), "dim1": -2, "dim2": -1},
}
"""How a call's arguments are read off its row, where it is not element-wise."""
