"""The perf sheet for tt-metal's own tools: `ops_perf_results_….csv` with its headers in order, and the device log."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

from proveout.coding import digest
from proveout.program import Arg
from proveout.report.perf.sheet import Sheet, SheetRow, plain
from proveout.types import DeviceSpec, TensorSpec, versions

MODELLED = "modelled by proveout"
DEVICE, HOST_OP = 0, 1 << 31
CALL_SHIFT = 10
"""GLOBAL CALL COUNT is the operation's number shifted past the device's."""

BEFORE_TENSORS = (
    "OP CODE", "OP TYPE", "GLOBAL CALL COUNT", "DEVICE ID", "DEVICE ARCH", "ATTRIBUTES", "MATH FIDELITY", "CORE COUNT",
    "AVAILABLE WORKER CORE COUNT", "PARALLELIZATION STRATEGY", "HOST START TS", "HOST END TS", "HOST DURATION [ns]",
    "DEVICE FW START CYCLE", "DEVICE FW END CYCLE", "OP TO OP LATENCY [ns]", "OP TO OP LATENCY BR/NRISC START [ns]",
    "DEVICE FW DURATION [ns]", "DEVICE KERNEL DURATION [ns]", "DEVICE KERNEL DURATION DM START [ns]",
    "DEVICE KERNEL DURATION PER CORE MIN [ns]", "DEVICE KERNEL DURATION PER CORE MAX [ns]",
    "DEVICE KERNEL DURATION PER CORE AVG [ns]", "DEVICE KERNEL FIRST TO LAST START [ns]",
    "DEVICE BRISC KERNEL DURATION [ns]", "DEVICE NCRISC KERNEL DURATION [ns]", "DEVICE TRISC0 KERNEL DURATION [ns]",
    "DEVICE TRISC1 KERNEL DURATION [ns]", "DEVICE TRISC2 KERNEL DURATION [ns]", "DEVICE ERISC KERNEL DURATION [ns]",
    "DEVICE COMPUTE CB WAIT FRONT [ns]", "DEVICE COMPUTE CB RESERVE BACK [ns]", "DISPATCH TOTAL CQ CMD OP TIME [ns]",
    "DISPATCH GO SEND WAIT TIME [ns]",
)  # fmt: skip
OF_A_TENSOR = (
    "W_PAD[LOGICAL]", "Z_PAD[LOGICAL]", "Y_PAD[LOGICAL]", "X_PAD[LOGICAL]", "LAYOUT", "DATATYPE", "MEMORY",
)  # fmt: skip
AFTER_TENSORS = (
    "METAL TRACE ID", "METAL TRACE REPLAY SESSION ID", "COMPUTE KERNEL SOURCE", "COMPUTE KERNEL HASH",
    "DATA MOVEMENT KERNEL SOURCE", "DATA MOVEMENT KERNEL HASH", "PROGRAM HASH", "PROGRAM CACHE HIT",
    "TENSIX DM 0 MAX KERNEL SIZE [B]", "TENSIX DM 1 MAX KERNEL SIZE [B]", "TENSIX COMPUTE 0 MAX KERNEL SIZE [B]",
    "TENSIX COMPUTE 1 MAX KERNEL SIZE [B]", "TENSIX COMPUTE 2 MAX KERNEL SIZE [B]",
    "ACTIVE ETH DM 0 MAX KERNEL SIZE [B]", "ACTIVE ETH DM 1 MAX KERNEL SIZE [B]", "IDLE ETH DM 0 MAX KERNEL SIZE [B]",
    "IDLE ETH DM 1 MAX KERNEL SIZE [B]", "PM IDEAL [ns]", "PM COMPUTE [ns]", "PM BANDWIDTH [ns]", "PM REQ I BW",
    "PM REQ O BW", "PM FPU UTIL (%)", "NOC UTIL (%)", "MULTICAST NOC UTIL (%)", "DRAM BW UTIL (%)",
    "DRAM BW UTIL PER CTRL (%)", "ETH BW UTIL (%)", "NPE CONG IMPACT (%)",
)  # fmt: skip
"""What only a profiler on the chip could know stays blank."""

LAYOUTS = {"tile": "TILE", "row_major": "ROW_MAJOR"}
SHARDINGS = {
    "interleaved": "INTERLEAVED",
    "height": "HEIGHT_SHARDED",
    "width": "WIDTH_SHARDED",
    "block": "BLOCK_SHARDED",
}


def headers(sheet: Sheet) -> list[str]:
    """tt-metal's headers, with as many inputs and outputs as the widest operation has."""
    names = list(BEFORE_TENSORS)
    for side, tensors in (("INPUT", [r.inputs for r in sheet.rows]), ("OUTPUT", [r.outputs for r in sheet.rows])):
        widest = max(map(len, tensors), default=0)
        names += [f"{side}_{i}_{what}" for i in range(max(widest, 1)) for what in OF_A_TENSOR]
    return [*names, *AFTER_TENSORS]


def render_csv(sheet: Sheet) -> str:
    """The sheet as tt-metal's `process_ops_logs` writes it. Transfers have no row there."""
    out = io.StringIO()
    writer = csv.DictWriter(out, headers(sheet), lineterminator="\n")
    writer.writeheader()
    number = 0
    for row in sheet.rows:
        if row.kind == "transfer":
            continue
        number += 1
        writer.writerow(_device(row, number, sheet) if row.kind == "device" else _host(row, number))
    return out.getvalue()


def _device(row: SheetRow, number: int, sheet: Sheet) -> dict[str, object]:
    chip, time = sheet.chip, row.time
    start, end = (round(ns * chip.clock_ghz) for ns in (row.start_ns, row.start_ns + time.ns))
    utilisation = row.utilisation(chip) if row.fidelity else None
    cells: dict[str, object] = {
        "OP CODE": row.code,
        "OP TYPE": "tt_dnn_device",
        "GLOBAL CALL COUNT": number << CALL_SHIFT | DEVICE,
        "DEVICE ID": DEVICE,
        "DEVICE ARCH": chip.arch,
        "ATTRIBUTES": attributes(row),
        "MATH FIDELITY": row.fidelity,
        "CORE COUNT": time.cores,
        "AVAILABLE WORKER CORE COUNT": chip.cores,
        "HOST START TS": row.start_ns,
        "DEVICE FW START CYCLE": start,
        "DEVICE FW END CYCLE": end,
        "OP TO OP LATENCY [ns]": row.wait_ns,
        "DEVICE FW DURATION [ns]": time.ns,
        "DEVICE KERNEL DURATION [ns]": time.ns,
        "PROGRAM HASH": program_hash(row),
        "PROGRAM CACHE HIT": True,
        "PM IDEAL [ns]": row.ideal_ns,
        "PM COMPUTE [ns]": row.compute_ns,
        "PM BANDWIDTH [ns]": row.bandwidth_ns,
        "PM FPU UTIL (%)": "" if utilisation is None else f"{100 * row.compute_ns / max(time.ns, 1):.3f}",
    }
    if sheet.recorded[row.program].settings.trace:
        cells |= {"METAL TRACE ID": row.program, "METAL TRACE REPLAY SESSION ID": 1}
    for side, tensors in (("INPUT", row.inputs), ("OUTPUT", row.outputs)):
        for index, spec in enumerate(tensors):
            cells |= {f"{side}_{index}_{k}": v for k, v in tensor_cells(spec).items()}
    return cells


def _host(row: SheetRow, number: int) -> dict[str, object]:
    return {
        "OP CODE": f"(torch) {row.code}",
        "OP TYPE": "python_fallback",
        "GLOBAL CALL COUNT": HOST_OP | number << CALL_SHIFT | DEVICE,
        "DEVICE ID": DEVICE,
        "HOST START TS": row.start_ns,
    }


def tensor_cells(spec: TensorSpec) -> dict[str, str]:
    """One tensor's columns: four dimensions as `padded[logical]`, and where and how it lies."""
    logical, padded = (_four(shape) for shape in (spec.shape, spec.padded_shape))
    where = "SYSTEM" if spec.memory.buffer == "host" else spec.memory.buffer.upper()
    sizes = dict(zip(OF_A_TENSOR[:4], (f"{p}[{n}]" for p, n in zip(padded, logical))))
    return sizes | {
        "LAYOUT": LAYOUTS[spec.layout],
        "DATATYPE": spec.dtype.upper(),
        "MEMORY": f"DEV_{DEVICE}_{where}_{SHARDINGS[spec.memory.sharding]}",
    }


def _four(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Four dimensions; more than four fold into the first."""
    if len(shape) <= 4:
        return (1,) * (4 - len(shape)) + shape
    folded = 1
    for size in shape[:-3]:
        folded *= size
    return (folded, *shape[-3:])


def attributes(row: SheetRow) -> str:
    """The call's arguments, as tools look for them, and that the row's times are modelled."""
    attrs = dict(row.step.attrs)
    texts = [f"'{name}': '{text}'" for name, text in row.attributes]
    texts.append(f"'times': '{MODELLED} {versions()['proveout']}'")
    if row.op is not None and row.op.family in ("conv", "halo", "pool"):
        texts += [f"{name}={_sides(attrs[key], name)}" for name, key in WINDOW.items() if key in attrs]
    return f"{{{'; '.join(texts)}; }}"


WINDOW = {"window_hw": "kernel_size", "stride_hw": "stride", "padding": "padding", "dilation_hw": "dilation"}
"""Of a sliding window: tt-metal's word for it, and the call's."""


def _sides(value: Arg, name: str) -> str:
    """As a pair, and padding on all four sides."""
    pair = value if isinstance(value, tuple) else (value, value)
    return plain(tuple(side for side in pair for _ in range(2)) if name == "padding" and len(pair) == 2 else pair)


def program_hash(row: SheetRow) -> int:
    """Equal for operations that would share a compiled program: the same operation on the same kind of tensors."""
    return int(digest([row.code, row.attributes, row.inputs, row.outputs, row.fidelity])[:15], 16)


# ----------------------------------------------------------------------------------------- the device log

LOG_HEADER = (
    "PCIe slot, core_x, core_y, RISC processor type, timer_id, time[cycles since reset], data, run host ID, trace id, "
    "trace id counter, zone name, type, source line, source file, meta data"
)
RISCS = ("BRISC", "NCRISC", "TRISC_0", "TRISC_1", "TRISC_2")


def render_device_log(sheet: Sheet) -> str:
    """`profile_log_device.csv`: when each operation's kernels start and end, on the first core that runs them."""
    chip = sheet.chip
    head = f"ARCH: {chip.arch}, CHIP_FREQ[MHz]: {round(chip.clock_ghz * 1000)}, Max Compute Cores: {chip.cores}"
    return "\n".join([f"{head}, times: {MODELLED}", LOG_HEADER, *_zones(sheet, chip)]) + "\n"


def _zones(sheet: Sheet, chip: DeviceSpec) -> Iterator[str]:
    number = 0
    for row in sheet.rows:
        number += row.kind != "transfer"
        if row.kind != "device":
            continue
        trace = str(row.program) if sheet.recorded[row.program].settings.trace else ""
        for when, what in ((row.start_ns, "ZONE_START"), (row.start_ns + row.time.ns, "ZONE_END")):
            cycles = round(when * chip.clock_ghz)
            for timer, risc in enumerate(RISCS):
                zone = f"{risc.split('_')[0]}-KERNEL"
                yield (
                    f"{DEVICE},0,0,{risc},{timer},{cycles},0,{number << CALL_SHIFT | DEVICE},{trace},"
                    f"{1 if trace else ''},{zone},{what},0,{MODELLED},"
                )
