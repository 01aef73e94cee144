"""Compiled graphs on disk, addressed by content: a second process that compiles the same graph loads it.

One file a graph: its digest, a line of JSON, then the constants' bytes. Written to a temporary name and renamed, so
readers and writers need no lock; a file that cannot be read is as good as none.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch.fx import GraphModule, Node

from proveout.coding import to_json
from proveout.compiler import CompiledGraph
from proveout.compiler.profile import Profile
from proveout.folders import default_folder
from proveout.program import Program
from proveout.types import Coverage, DeviceSpec, OpStatus, Settings, versions

LIMIT_BYTES = 2 << 30
"""When the folder grows beyond this, the files that were used longest ago go."""


def key_of(
    gm: GraphModule,
    weights: frozenset[int],
    state: Mapping[int, int],
    profile: Profile,
    settings: Settings,
    chip: DeviceSpec | None,
) -> str:
    """Changes with everything that compiling depends on: the graph, where its lines come from, target and settings,
    and our own code."""
    seal = hashlib.sha256()
    given = [sorted(weights), sorted(state.items())]
    what = [to_json(profile), to_json(settings), to_json(chip), given, _own_code()]
    seal.update(json.dumps(what).encode())
    for part in _graph_text(gm):
        seal.update(part.encode())
    for name, buffer in gm.named_buffers():
        seal.update(name.encode())
        seal.update(buffer.detach().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return seal.hexdigest()


def load(key: str, name: str, chip: DeviceSpec | None, settings: Settings) -> CompiledGraph | None:
    """The compiled graph of this key, under the given name, or None."""
    path = _path(key)
    try:
        digest, _, payload = path.read_bytes().partition(b"\n")
        if digest != _digest(payload):
            return None
        head, _, blob = payload.partition(b"\n")
        data = json.loads(head)
        raw, start = {}, 0
        for constant, size in data["sizes"]:
            raw[constant] = blob[start : start + size]
            start += size
        program = replace(Program.from_json(data["program"], raw), name=name)
        rows = [OpStatus(*(data["strings"][i] for i in row)) for row in data["ops"]]
        positions = tuple(data["inputs"]), tuple(data["weights"])
        parallel = tuple(data["parallel"])
        os.utime(path)
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        return None
    coverage = Coverage(tuple(rows), program.num_transfers, num_graphs=1, parallel=parallel)
    return CompiledGraph(program, coverage, chip, settings, *positions)


def save(key: str, compiled: CompiledGraph) -> None:
    """Keep a compiled graph; a full or read-only disk costs the next process a compilation and nothing else."""
    strings: dict[str, int] = {}
    fields = tuple(OpStatus.__dataclass_fields__)
    data = {
        "program": compiled.program.to_json(),
        "sizes": [[c.name, len(c.data)] for c in compiled.program.constants],
        "ops": [[strings.setdefault(getattr(op, f), len(strings)) for f in fields] for op in compiled.coverage.ops],
        "inputs": compiled.input_positions,
        "weights": compiled.weight_positions,
        "parallel": compiled.coverage.parallel,
        "strings": list(strings),
    }
    blob = b"".join(c.data for c in compiled.program.constants)
    path = _path(key)
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        payload = json.dumps(data, separators=(",", ":")).encode() + b"\n" + blob
        temporary.write_bytes(_digest(payload) + b"\n" + payload)
        temporary.replace(path)
        _trim(path.parent)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink()


def _digest(payload: bytes) -> bytes:
    return hashlib.sha256(payload).hexdigest().encode()


def _path(key: str) -> Path:
    return default_folder() / "programs" / f"{key[:40]}.program"


def _trim(folder: Path) -> None:
    files = sorted(((f.stat().st_mtime_ns, f.stat().st_size, f) for f in folder.glob("*.program")), reverse=True)
    kept = 0
    for _, size, file in files:
        kept += size
        if kept > LIMIT_BYTES:
            file.unlink(missing_ok=True)


@functools.cache
def _own_code() -> str:
    """Versions, and our files' sizes and times, tables included: an edited checkout does not read what it wrote."""
    folder = Path(__file__).parents[1]
    ours = sorted(f for f in folder.rglob("*") if f.suffix in (".py", ".json", ".csv"))
    sources = [(str(f.relative_to(folder)), f.stat()) for f in ours]
    seen = [(name, stat.st_size, stat.st_mtime_ns) for name, stat in sources]
    return hashlib.sha256(repr((sorted(versions().items()), torch.__version__, seen)).encode()).hexdigest()


def _graph_text(gm: GraphModule) -> Iterator[str]:
    for node in gm.graph.nodes:
        modules = node.meta.get("nn_module_stack") or {}
        path = next(reversed(modules.values()))[0] if modules else ""
        yield f"{node.name} {node.op} {node.target} {_text(node.args)} {_text(node.kwargs)} "
        trace = node.meta.get("stack_trace") or ""
        line = trace[trace.rfind("File ") :].partition(", in ")[0]  # the user's own, as an Origin has it
        yield f"{_text(node.meta.get('val'))} {path} {line}\n"


def _text(value: Any) -> str:
    if isinstance(value, Node):
        return f"%{value.name}"
    if isinstance(value, torch.Tensor):
        stride = value.stride() if value.layout == torch.strided else value.layout
        return f"{value.dtype}{tuple(value.shape)}{stride}{value.device}"
    if isinstance(value, (list, tuple)):
        return f"[{','.join(map(_text, value))}]"
    if isinstance(value, dict):
        return f"{{{','.join(f'{k}:{_text(v)}' for k, v in value.items())}}}"
    return f"{type(value).__name__}:{value!r}"
