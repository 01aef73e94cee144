"""A run for ttnn-visualizer: its `memory/` report as the tool's own database, schema 3.3.

An operation of the report is a call of the Program's body; the device operations that it becomes are in its captured
graph, named as in the perf sheet, which is how the tool links the two. Buffers come from the allocator's simulation:
weights, prepared when the model was loaded, are there from the first operation on.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from proveout.chip.memory import Arena, bytes_per_bank
from proveout.errors import OutOfMemory
from proveout.kernels.cost import arenas, circular_bytes, prepared
from proveout.kernels.table import kind_of
from proveout.program import DEALLOCATE, Step
from proveout.recording import Recorded
from proveout.report.perf.sheet import Sheet, SheetRow, plain
from proveout.report.perf.tt_csv import MODELLED
from proveout.report.visualizer.captured_graph import PlacedBuffer, captured_graph
from proveout.report.visualizer.schema import (
    BUFFER_LAYOUTS,
    BUFFER_TYPES,
    DEVICE,
    PLAIN_TABLES,
    SCHEMA_VERSION,
    TABLES,
    memory_config,
)
from proveout.types import HOST, Comparison, DeviceSpec, TensorSpec, versions


def write_memory(sheet: Sheet, folder: Path, captured_ns: int, comparisons: Sequence[Comparison] = ()) -> Path:
    """Write `db.sqlite`, `config.json` and `cluster_descriptor.yaml` into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    database = folder / "db.sqlite"
    database.unlink(missing_ok=True)
    report = _Report(sheet, comparisons)
    with _told_as_the_systems(database), sqlite3.connect(database) as connection:
        for name, columns in TABLES.items():
            unique = ", UNIQUE (operation_id, rank)" if name == "operations" else ""
            connection.execute(f"CREATE TABLE {name} ({columns}, rank int NOT NULL DEFAULT 0{unique})")
        for name, columns in PLAIN_TABLES.items():
            connection.execute(f"CREATE TABLE {name} ({columns})")
        report.metadata(captured_ns)
        for name, rows in report.tables.items():
            width = len((TABLES | PLAIN_TABLES)[name].split(","))
            marks = ", ".join("?" * width)
            named = ", ".join(column.split()[0] for column in (TABLES | PLAIN_TABLES)[name].split(", "))
            connection.executemany(f"INSERT INTO {name} ({named}) VALUES ({marks})", rows)
    connection.close()
    (folder / "config.json").write_text(json.dumps(_config(sheet), indent=1) + "\n")
    (folder / "cluster_descriptor.yaml").write_text(_cluster(sheet.chip))
    return database


@contextlib.contextmanager
def _told_as_the_systems(database: Path) -> Iterator[None]:
    """What SQLite says of a disk, as the system says it."""
    try:
        yield
    except sqlite3.OperationalError as error:
        code = {"SQLITE_FULL": errno.ENOSPC, "SQLITE_READONLY": errno.EROFS}.get(error.sqlite_errorname, errno.EIO)
        raise OSError(code, os.strerror(code), str(database)) from error


def _config(sheet: Sheet) -> dict[str, Any]:
    """The switches of ttnn's own config that such a report was taken with, and where its figures come from."""
    return {
        "report_name": sheet.name,
        "enable_logging": True,
        "enable_graph_report": False,
        "enable_detailed_buffer_report": True,
        "enable_detailed_tensor_report": False,
        "enable_comparison_mode": False,
        "times": MODELLED,
        "proveout": versions()["proveout"],
    }


def _cluster(chip: DeviceSpec) -> str:
    """One board of the modelled chip."""
    board = chip.name
    lines = [f"# {MODELLED}", "arch: {", f"   0: {chip.arch},", "}", "", "chips: {", "   0: [0,0,0,0],", "}"]
    lines += ["", "ethernet_connections: []", "", "chips_with_mmio: [", "   0: 0,", "]"]
    lines += ["", "boardtype: {", f"   0: {board},", "}", ""]
    return "\n".join(lines)


class _Report:
    """The rows of every table, made Program by Program."""

    def __init__(self, sheet: Sheet, comparisons: Sequence[Comparison]) -> None:
        self.sheet, self.chip = sheet, sheet.chip
        self.tables: dict[str, list[tuple[Any, ...]]] = {name: [] for name in (*TABLES, *PLAIN_TABLES)}
        self.operation = 0
        self.tensor = 0
        self.files: dict[str, int] = {}
        self.tables["devices"].append(_device(self.chip))
        left = list(comparisons)
        for number, recorded in enumerate(sheet.recorded):
            self._program(number, recorded, left)

    def metadata(self, captured_ns: int) -> None:
        facts = {
            "schema_version": SCHEMA_VERSION,
            "capture_timestamp_ns": captured_ns,
            "times": MODELLED,
            "proveout": versions()["proveout"],
        }
        self.tables["report_metadata"] += [(key, str(value)) for key, value in facts.items()]

    def _program(self, number: int, recorded: Recorded, comparisons: list[Comparison]) -> None:
        program = recorded.program
        specs = {**program.specs, **prepared(program)}
        rows: dict[int, list[SheetRow]] = {}
        for row in self.sheet.rows:
            if row.program == number:
                rows.setdefault(id(row.step), []).append(row)
        live = _Live(self.chip, program.steps, specs)
        for step in program.setup:
            live.after(step)
        ids: dict[str, int] = {}
        first = self.operation + 1
        for step in program.body:
            self.operation += 1
            created = live.after(step)
            taken = rows.get(id(step), [])
            self._operation(step, taken)
            for index, name in enumerate(step.uses):
                self._use(ids, name, index, live)
                self._read(ids[name], index)
            for index, name in enumerate(step.outputs):
                self._use(ids, name, index, live)
                self.tables["output_tensors"].append((self.operation, index, ids[name]))
                self.tables["tensor_producers"].append((ids[name], self.operation, index))
            self._snapshot(live)
            circular = circular_bytes(step, program.specs, self.chip)
            graph = captured_graph(step, taken, [ids[n] for n in step.uses], created, self.chip, circular)
            self.tables["captured_graph"].append((self.operation, json.dumps(graph)))
        self._lifetimes(program.body, ids, first)
        self._comparisons(program.specs, ids, comparisons)

    def _operation(self, step: Step, taken: Sequence[SheetRow]) -> None:
        name = step.kernel if not step.on_host else f"(torch) {step.kernel}"
        seconds = sum(row.wait_ns + row.time.ns for row in taken) / 1e9
        self.tables["operations"].append((self.operation, name, seconds))
        for key, value in step.attrs:
            self.tables["operation_arguments"].append((self.operation, key, plain(value)))
        file, _, line = step.origin.source.rpartition(":")
        if not line.isdigit():
            file, line = step.origin.source, "0"
        if file and file not in self.files:
            self.files[file] = len(self.files) + 1
            self.tables["source_files"].append((self.files[file], file, _contents(file)))
        trace = f'  File "{file}", line {line}, in {step.origin.module or "model"}\n' if file else ""
        self.tables["stack_traces"].append((self.operation, trace, self.files.get(file)))

    def _use(self, ids: dict[str, int], name: str, index: int, live: _Live) -> None:
        """The tensor of a value, told when it is first met."""
        if name in ids:
            return
        self.tensor += 1
        ids[name] = self.tensor
        spec, buffer = live.specs[name], live.buffers.get(name) or live.seen.get(name)
        on_device = spec.memory != HOST
        address = buffer.address if buffer else None
        self.tables["tensors"].append(
            (
                self.tensor,
                f"Shape([{', '.join(map(str, spec.shape))}])",
                f"DataType.{spec.dtype.upper()}",
                f"Layout.{'TILE' if spec.layout == 'tile' else 'ROW_MAJOR'}",
                memory_config(spec),
                DEVICE if on_device else None,
                address,
                BUFFER_TYPES[spec.memory.buffer] if on_device else None,
            )
        )
        if on_device:
            self.tables["device_tensors"].append((self.tensor, DEVICE, address))

    def _read(self, tensor: int, index: int) -> None:
        self.tables["input_tensors"].append((self.operation, index, tensor))
        self.tables["tensor_consumers"].append((tensor, self.operation, index))

    def _snapshot(self, live: _Live) -> None:
        """All that is allocated after an operation; of L1 also core by core."""
        columns = self.chip.grid[0]
        for buffer in live.buffers.values():
            kind, layout = BUFFER_TYPES[buffer.spec.memory.buffer], BUFFER_LAYOUTS[buffer.spec.memory.sharding]
            self.tables["buffers"].append((self.operation, DEVICE, buffer.address, buffer.size, kind, layout))
            if buffer.spec.memory.buffer != "l1":
                continue
            page = buffer.spec.page_bytes
            self.tables["buffer_chunks"] += [
                (
                    *(self.operation, DEVICE, buffer.address, bank, bank % columns, bank // columns),
                    *(buffer.address, pages * page, page, pages, kind),
                )
                for bank, pages in enumerate(_pages(buffer.spec, self.chip.cores))
                if pages
            ]

    def _lifetimes(self, body: Sequence[Step], ids: Mapping[str, int], first: int) -> None:
        created: dict[str, int] = {}
        used: dict[str, int] = {}
        freed: dict[str, int] = {}
        for number, step in enumerate(body, first):
            created.update((n, number) for n in step.outputs)
            (freed if step.kernel == DEALLOCATE else used).update((n, number) for n in step.uses)
        for name, tensor in ids.items():
            places: list[Any] = []
            for operation in (created.get(name), used.get(name)):
                file, _, line = body[operation - first].origin.source.rpartition(":") if operation else ("", "", "")
                places += [file or None, int(line) if line.isdigit() else None]
            row = (tensor, created.get(name), used.get(name), freed.get(name), *places)
            self.tables["tensor_lifetime"].append(row)

    def _comparisons(
        self, specs: Mapping[str, TensorSpec], ids: Mapping[str, int], comparisons: list[Comparison]
    ) -> None:
        """PCC of each call on the device's own operands (local) and from the start (global)."""
        for comparison in comparisons:
            if comparison.scope != "step" or comparison.name not in ids:
                continue
            self.tensor += 1
            spec = specs[comparison.name]
            shape = f"Shape([{', '.join(map(str, spec.shape))}])"
            golden = (self.tensor, shape, "DataType.FLOAT32", "Layout.ROW_MAJOR", None, None, None, None)
            self.tables["tensors"].append(golden)
            for table, pcc in (("local", comparison.pcc), ("global", comparison.accumulated_pcc)):
                if pcc is not None:
                    row = (ids[comparison.name], self.tensor, pcc >= comparison.threshold, comparison.threshold, pcc)
                    self.tables[f"{table}_tensor_comparison_records"].append(row)


class _Live:
    """What is allocated while a Program runs, and where."""

    def __init__(self, chip: DeviceSpec, steps: Sequence[Step], specs: Mapping[str, TensorSpec]) -> None:
        self.chip, self.specs = chip, specs
        self.arenas: dict[str, Arena] = arenas(chip)
        self.buffers: dict[str, PlacedBuffer] = {}
        self.seen: dict[str, PlacedBuffer] = {}

    def after(self, step: Step) -> list[PlacedBuffer]:
        """Run one Step of the allocator's life; gives what it allocated."""
        if step.kernel == DEALLOCATE:
            for name in step.uses:
                self.buffers.pop(name, None)
                for arena in self.arenas.values():
                    arena.free(name)
            return []
        created = []
        for name in step.outputs if kind_of(step) != "piece" else ():
            spec = self.specs[name]
            if spec.memory == HOST:
                continue
            arena = self.arenas[spec.memory.buffer]
            try:
                arena.allocate(name, bytes_per_bank(spec, self.chip))
            except OutOfMemory:
                continue  # the plan says so; the report shows what does fit
            start, size = arena.blocks[name]
            # L1 fills from the top of each core down, DRAM from the bottom of each bank up.
            address = self.chip.l1_per_core - start - size if spec.memory.buffer == "l1" else start
            self.buffers[name] = self.seen[name] = PlacedBuffer(spec, address, size)
            created.append(self.buffers[name])
        return created


def _pages(spec: TensorSpec, banks: int) -> Iterator[int]:
    """Pages in each bank: round robin, or a shard a core."""
    if spec.memory.shard is not None:
        columns, rows = spec.memory.shard.grid
        held = replace(spec, shape=spec.memory.shard.shape).num_pages
        yield from (held for _ in range(min(banks, columns * rows)))
        return
    yield from (spec.num_pages // banks + (bank < spec.num_pages % banks) for bank in range(banks))


def _device(chip: DeviceSpec) -> tuple[int, ...]:
    columns, rows = chip.grid
    reserved = chip.l1_per_core - chip.l1_allocatable
    tensors = chip.l1_allocatable * chip.cores
    return (
        *(DEVICE, rows, columns, rows, columns),
        *(chip.l1_per_core, chip.cores, chip.l1_allocatable, reserved, reserved, 1, chip.cores, 0),
        *(chip.l1_per_core * chip.cores, tensors, tensors, tensors, chip.l1_allocatable),
    )


def _contents(file: str) -> str:
    try:
        return Path(file).read_text(errors="replace")
    except OSError:
        return ""
