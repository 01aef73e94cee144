"""The failing ops as one file of Python that needs nothing but this package."""

from __future__ import annotations

import base64
import io
import zlib
from collections.abc import Mapping
from typing import Any

import torch

from proveout.reduce.graph import CallGraph, CallSite, Use
from proveout.reduce.judge import Conditions, Failure

FAILS = 3
"""What a file exits with; Python's own 1 would say as much of an error in the file."""
FEW = 32
"""Elements that are written as numbers; more are packed."""


def source(calls: CallGraph, codes: Mapping[str, str], failed: Failure, under: Conditions, preamble: str = "") -> str:
    """A file that exits with FAILS while it fails in this way and with 0 once it does not."""
    ops = ", ".join(str(op.target).removesuffix(".default") for op in calls.ops)
    settings = {
        name: value for name, value in vars(under.settings).items() if value != getattr(type(under.settings)(), name)
    }
    packed = any(name not in codes and tensor.numel() > FEW for name, tensor in calls.inputs.items())
    lines = [
        f'"""{_plain_text(ops)}: {_plain_text(str(failed))}',
        "",
        f'Made by `proveout minimize`. Exits with {FAILS} while it fails in this way, with 0 once it does not."""',
        "",
        *(["import base64", "import io", "import zlib", ""] if packed else []),
        "import torch",
        "",
        "from proveout.reduce.judge import Conditions, failure",
        "from proveout.types import Settings",
        *(["", preamble] if preamble else []),
        *(["", "", *_UNPACK] if packed else []),
        "",
        "",
        "class Model(torch.nn.Module):",
        *(_weights(calls, codes)),
        f"    def forward({', '.join(['self', *(n for n in calls.inputs if n not in calls.weights)])}):",
        *(f"        {_call(op, calls.weights)}" for op in calls.ops),
        f"        return {', '.join(calls.outputs)}",
        "",
        "",
        "inputs = [",
        *(f"    {codes.get(n) or _literal(t)}," for n, t in calls.inputs.items() if n not in calls.weights),
        "]",
        f"settings = Settings.of({settings!r})",
        f"found = failure(Model(), inputs, Conditions({under.device!r}, settings, {under.slower_than_ns!r}))",
        'print(found or "it does not fail")',
        f"fails = found is not None and (found.kind, found.sign) == {(failed.kind, failed.sign)!r}",
        f"raise SystemExit({FAILS} if fails else 0)",
    ]
    return "\n".join(lines) + "\n"


_UNPACK = [
    "def unpacked(text):",
    "    return torch.load(io.BytesIO(zlib.decompress(base64.b85decode(text))), weights_only=True)",
]


def _weights(calls: CallGraph, codes: Mapping[str, str]) -> list[str]:
    own = {n: t for n, t in calls.inputs.items() if n in calls.weights}
    if not own:
        return []
    lines = [f"        self.register_buffer({n!r}, {codes.get(n) or _literal(t)})" for n, t in own.items()]
    return ["    def __init__(self):", "        super().__init__()", *lines, ""]


def _call(op: CallSite, weights: frozenset[str]) -> str:
    def code(arg: Any) -> str:
        return _code(arg, weights)

    args = [code(a) for a in op.args] + [f"{k}={code(v)}" for k, v in op.kwargs.items()]
    target = ", ".join(n or "_" for n in op.outputs)
    left = f"{target}, *_" if op.several else target
    namespace, _, rest = str(op.target).partition(".")
    return f"{left} = torch.ops.{namespace}.{rest}({', '.join(args)})"


def _code(arg: Any, weights: frozenset[str]) -> str:
    if isinstance(arg, Use):
        return f"self.{arg.name}" if arg.name in weights else arg.name
    if isinstance(arg, (list, tuple)):
        return f"[{', '.join(_code(a, weights) for a in arg)}]"
    if isinstance(arg, float) and arg in (float("inf"), float("-inf")):
        return f"float('{arg}')"
    if isinstance(arg, torch.device):
        return f"torch.device({str(arg)!r})"
    return str(arg) if isinstance(arg, (torch.dtype, torch.layout, torch.memory_format)) else repr(arg)


def _literal(tensor: torch.Tensor) -> str:
    if tensor.numel() <= FEW and bool(torch.isfinite(tensor).all()):
        return f"torch.tensor({tensor.tolist()!r}, dtype={tensor.dtype})"
    file = io.BytesIO()
    torch.save(tensor.contiguous().clone(), file)
    return f"unpacked({base64.b85encode(zlib.compress(file.getvalue(), 9)).decode()!r})"


def _plain_text(text: str) -> str:
    return text.replace("\\", "/").replace('"', "'")
