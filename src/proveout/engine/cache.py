"""Compiled graphs on disk, addressed by content: a second process that compiles the same graph loads it.

One file a graph: its seal, a line of JSON, then the constants' bytes. Written to a temporary name and renamed, so
readers and writers need no lock. A file is trusted for nothing but speed: one that this user did not seal for this key,
that breaks the Programs' schema or does not fit the graph costs a compilation.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch.fx import GraphModule, Node

from proveout.coding import from_json, plain_bytes, to_json
from proveout.compiler import CompiledGraph
from proveout.compiler.profile import Profile
from proveout.folders import default_folder
from proveout.kernels.accept import NAMESPACES, accept
from proveout.kernels.table import dtype_name
from proveout.program import Program, Ref
from proveout.reasons import Reason
from proveout.types import Coverage, DeviceSpec, OpStatus, Settings, TensorSpec, versions

_FIELDS = tuple(f for f in OpStatus.__dataclass_fields__ if f != "cause")
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
    names = [sorted(weights), sorted(state.items())]
    what = [to_json(profile), to_json(settings), to_json(chip), names, _own_code()]
    seal.update(json.dumps(what).encode())
    for part in _graph_text(gm):
        seal.update(part.encode())
    for name, buffer in gm.named_buffers():
        seal.update(name.encode())
        seal.update(buffer.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return seal.hexdigest()


def program_of(fingerprint: str, folder: Path | None = None) -> Program | None:
    """The Program of a fingerprint, where a graph that compiled to it is still kept: for those who look at it.

    `folder` is a cache other than this process's own."""
    try:
        key = plain_bytes(_named_by(fingerprint, folder)).decode("ascii").strip()
        program = _read(key, folder)[1]
        accept(program, NAMESPACES)
    except (OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return None
    return program if program.fingerprint == fingerprint else None


def load(
    key: str, name: str, gm: GraphModule, target: str, chip: DeviceSpec | None, settings: Settings
) -> CompiledGraph | None:
    """The compiled graph of this key, under the given name, or None."""
    path = _path(key)
    try:
        entry, program = _read(key)
        program = replace(program, name=name)
        if program.target != target or not _fits(program, entry, gm):
            return None
        accept(program, NAMESPACES | _namespaces(gm))
        rows = [entry.op(row) for row in entry.ops]
        for cause in entry.causes:
            str(cause)  # a sentence can be made of it
        os.utime(path)
    except (OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return None
    coverage = Coverage(tuple(rows), program.num_transfers, num_graphs=1, parallel=entry.parallel)
    return CompiledGraph(program, coverage, chip, settings, entry.inputs, entry.weights)


def _read(key: str, folder: Path | None = None) -> tuple[_Entry, Program]:
    """A file's own content, sealed by this user; ValueError, OSError and others where it is not that."""
    seal, _, payload = plain_bytes(_path(key, folder)).partition(b"\n")
    if not hmac.compare_digest(seal, _seal(key, payload, folder)):
        raise ValueError("another hand wrote this file")
    head, _, blob = payload.partition(b"\n")
    entry = from_json(_Entry, json.loads(head))
    raw, start = {}, 0
    for constant, size in entry.sizes:
        raw[constant] = blob[start : start + size]
        start += size
    return entry, Program.from_json(entry.program, raw)


@dataclass(frozen=True)
class _Entry:
    """The line of JSON."""

    program: object
    sizes: tuple[tuple[str, int], ...]
    ops: tuple[tuple[int | None, ...], ...]
    """For each op which of `strings` its fields are, and which of `causes`."""
    causes: tuple[Reason, ...]
    inputs: tuple[int, ...]
    weights: tuple[int, ...]
    parallel: tuple[str, ...]
    strings: tuple[str, ...]

    def op(self, row: tuple[int | None, ...]) -> OpStatus:
        *texts, cause = row
        named = dict(zip(_FIELDS, (self.strings[i] for i in texts if i is not None), strict=True))
        return replace(from_json(OpStatus, named), cause=None if cause is None else self.causes[cause])


def _fits(program: Program, entry: _Entry, gm: GraphModule) -> bool:
    """Whether a Program takes what this graph takes and gives what it gives."""
    values = [n.meta.get("val") for n in gm.graph.nodes if n.op == "placeholder"]
    gives = next(n for n in gm.graph.nodes if n.op == "output").args[0]
    names, places = (*program.inputs, *program.weights), (*entry.inputs, *entry.weights)
    if len(names) != len(places) or len(gives) < len(program.outputs):
        return False
    if any(not 0 <= place < len(values) for place in places):
        return False
    pairs = [(program.specs[name], values[place]) for name, place in zip(names, places)]
    for output, node in zip(program.outputs, gives):
        if isinstance(output, Ref) and isinstance(node, Node):
            pairs.append((program.specs[output.name], node.meta.get("val")))
    return all(_is_like(spec, value) for spec, value in pairs)


def _is_like(spec: TensorSpec, value: Any) -> bool:
    if not isinstance(value, torch.Tensor):
        return True
    return spec.shape == tuple(value.shape) and spec.dtype == dtype_name(value.dtype)


def _namespaces(gm: GraphModule) -> frozenset[str]:
    """The libraries whose ops the graph itself calls."""
    targets = (n.target for n in gm.graph.nodes)
    return frozenset(t.namespace for t in targets if isinstance(t, torch._ops.OpOverload))


def save(key: str, compiled: CompiledGraph) -> None:
    """Keep a compiled graph; a full or read-only disk costs the next process a compilation and nothing else."""
    strings: dict[str, int] = {}
    causes: dict[Reason, int] = {}

    def encode(op: OpStatus) -> list[int | None]:
        row: list[int | None] = [strings.setdefault(getattr(op, f), len(strings)) for f in _FIELDS]
        return [*row, None if op.cause is None else causes.setdefault(op.cause, len(causes))]

    data = {
        "program": compiled.program.to_json(),
        "sizes": [[c.name, len(c.data)] for c in compiled.program.constants],
        "ops": [encode(op) for op in compiled.coverage.ops],
        "inputs": compiled.input_positions,
        "weights": compiled.weight_positions,
        "parallel": compiled.coverage.parallel,
        "strings": list(strings),
        "causes": to_json(list(causes)),
    }
    blob = b"".join(c.data for c in compiled.program.constants)
    path = _path(key)
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        payload = json.dumps(data, separators=(",", ":")).encode() + b"\n" + blob
        temporary.write_bytes(_seal(key, payload) + b"\n" + payload)
        temporary.replace(path)
        _note_name(compiled.program.fingerprint, key)
        _trim(path.parent)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink()


def _seal(key: str, payload: bytes, folder: Path | None = None) -> bytes:
    """What only this user can write over these bytes, for this graph and no other."""
    return hmac.new(_secret(folder), key.encode() + b"\n" + payload, hashlib.sha256).hexdigest().encode()


def _secret(folder: Path | None = None) -> bytes:
    """This user's own random bytes, made at the first use; OSError where they are not this user's alone."""
    path = _programs(folder) / f".seal-{os.getuid()}"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_name(f"{path.name}.{os.getpid()}-{secrets.token_hex(4)}")
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(secrets.token_bytes(32))
        with contextlib.suppress(FileExistsError):  # another process was quicker: its bytes count
            os.link(fresh, path)
        fresh.unlink()
    with path.open("rb") as file:
        about = os.fstat(file.fileno())
        if about.st_uid != os.getuid() or about.st_mode & 0o077:
            raise PermissionError(f"{path} can be written or read by others")
        secret = file.read(64)
    if len(secret) != 32:
        raise PermissionError(f"{path} is damaged")
    return secret


def _note_name(fingerprint: str, key: str) -> None:
    """Remember which file holds a Program."""
    place = _named_by(fingerprint)
    with contextlib.suppress(OSError):
        if not place.exists():
            place.write_text(key)


def _named_by(fingerprint: str, folder: Path | None = None) -> Path:
    return _programs(folder) / f"{fingerprint[:40]}.key"


def _path(key: str, folder: Path | None = None) -> Path:
    return _programs(folder) / f"{key[:40]}.program"


def _programs(folder: Path | None) -> Path:
    return (folder or default_folder()) / "programs"


def _trim(folder: Path) -> None:
    files = sorted(((f.stat().st_mtime_ns, f.stat().st_size, f) for f in folder.glob("*.program")), reverse=True)
    kept = 0
    for _, size, file in files:
        kept += size
        if kept > LIMIT_BYTES:
            file.unlink(missing_ok=True)
    for name in folder.glob("*.key"):
        with contextlib.suppress(OSError):
            if not _path(name.read_text().strip()).exists():
                name.unlink(missing_ok=True)


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
