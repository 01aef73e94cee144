"""Makes the documentation's tables, and Records, of what `cuda.py` measured:
`python tests/bench/cuda_tables.py [ROWS.json …]`.

Rows join docs/reference/data/cuda-rows.json (the newest of a name counts); tables of all go between the markers of
docs/reference/cuda.md; `--records FOLDER` writes one Record a row, as a store does.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch

from proveout.clock.timing import judged
from proveout.store import Store
from proveout.types import Comparison, Job, Record, Settings, Timing, Workload

PAGE = Path(__file__).parents[2] / "docs/reference/cuda.md"
DATA = PAGE.parent / "data/cuda-rows.json"
FIRST, LAST = " (first run)", " (last run)"
"""Rows of two earlier runs, of medians only: what the newest rows lack is shown from them, and marked."""
EARLIER, NO_SAMPLES = "¹", "²"
BEGIN, END = "<!-- begin: made by tests/bench/cuda_tables.py -->", "<!-- end -->"
Row = dict[str, Any]


def table(heads: list[str], rows: Iterable[list[str]]) -> str:
    lines = ["| " + " | ".join(heads) + " |", "|---" + "|---:" * (len(heads) - 1) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def us(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.0f}" if value >= 1000 else f"{value:.1f}"


FULL = {
    "eager": "eager", "inductor": "Inductor", "reduce-overhead": "reduce-overhead",
    "inductor, one graph": "Inductor, one graph", "inductor channels-last, one graph": "the same, channels-last",
    "inductor + pdl, one graph": "with PDL", "proveout none": "ours, none", "proveout trace": "**ours, trace**",
}  # fmt: skip


def forward(rows: list[Row], modes: dict[str, str]) -> str:
    def time(row: Row, mode: str) -> str:
        if not row["right"].get(mode, True):
            return "wrong"
        earlier = row.get("earlier_us", {}).get(mode)
        return (
            us(earlier) + f" {EARLIER}" if earlier and mode not in row["device_us"] else us(row["device_us"].get(mode))
        )

    def line(row: Row) -> list[str]:
        times = [time(row, mode) for mode in modes]
        inductor = row["pcc"].get("inductor, one graph", row["pcc"]["eager"])
        ours = min(p for mode, p in row["pcc"].items() if mode.startswith("proveout"))
        return [title(row), *times, f"{row['ratio']:.2f}", us(row["roofline_us"]), f"{inductor:.5f}", f"{ours:.5f}"]

    heads = ["model", *modes.values(), "ours ÷ best PyTorch", "roofline", "PCC, Inductor", "PCC, ours"]
    return table(heads, map(line, rows))


def title(row: Row) -> str:
    name, numbers, batch = row["row"].split("|")
    mark = "" if row["samples_us"] else f" {NO_SAMPLES}"
    return f"{name}, {numbers}" + (f", batch {batch}" if batch != "1" else "") + mark


def short(rows: list[Row]) -> str:
    return forward(rows, {mode: head for mode, head in FULL.items() if any(mode in row["device_us"] for row in rows)})


def generation(rows: list[Row]) -> str:
    modes = ("eager", "eager, one graph", "inductor, one graph", "proveout none", "proveout trace")

    def line(row: Row) -> list[str]:
        eager = row["device_us"].get("eager, one graph")
        ours = row["device_us"]["proveout trace"]
        return [
            title(row), *(us(row["device_us"].get(mode)) for mode in modes), f"{ours / eager:.2f}" if eager else "–",
            us(row["roofline_us"]), f"{row['equal_tokens']['proveout trace']} of {row['tokens']}",
        ]  # fmt: skip

    heads = ["model", "eager", "eager, one graph", "Inductor, one graph", "ours, none", "**ours, trace**"]
    return table([*heads, "ours ÷ eager's graph", "roofline", "tokens equal to eager's"], map(line, rows))


def hosts(rows: list[Row]) -> str:
    modes = ("none", "trace", "2cq", "trace+2cq")

    def line(row: Row) -> list[str]:
        mark = f" {EARLIER}" if row.get("host_earlier") else ""
        return [title(row) + mark, *(us(row["host_us"].get(mode)) for mode in modes)]

    return table(["model", *modes], map(line, rows))


HALF_OF = ("bert-large 384", "gpt2 128", "codegen-350m 128", "resnet18 224", "mnist 28")


def targets(rows: list[Row]) -> str:
    """What was to be reached, and whether the rows do."""
    by_name = {row["row"]: row for row in rows}
    forwards = {name: by_name[f"{name}|bfloat16|1"] for name in HALF_OF if f"{name}|bfloat16|1" in by_name}
    half = [f"{name} {row['ratio']:.2f}" for name, row in forwards.items() if row["ratio"] <= 0.5]
    over = [f"{name} {row['ratio']:.2f}" for name, row in forwards.items() if row["ratio"] > 0.5]
    missing = [name for name in HALF_OF if name not in forwards]
    slower = [f"{title(row)} {row['ratio']:.2f}" for row in rows if row["ratio"] > 1.02]
    tokens = []
    for name in ("gpt2 64+64|bfloat16|1", "codegen-350m 64+64|bfloat16|1"):
        times = by_name[name]["device_us"] if name in by_name else {}
        ratio = times["proveout trace"] / times["eager, one graph"] if "eager, one graph" in times else None
        tokens.append(f"{name.split('|')[0]} " + (f"{ratio:.2f}" if ratio else "not measured"))
    images = by_name.get("resnet18 224|bfloat16|8", {}).get("host_us")
    queues = f"trace {us(images['trace'])} µs a call, trace+2cq {us(images['trace+2cq'])}" if images else "not measured"
    words = (
        ("at most half of the best PyTorch mode, on four of five (bfloat16, batch 1)",
         f"{len(half)} of {len(HALF_OF)}: {'; '.join(half) or 'none'}. Not: {'; '.join(over) or 'none'}"
         + (f". Not measured: {', '.join(missing)}" if missing else "")),
        ("no row slower than 1.02 × the best PyTorch mode", f"{len(rows)} rows; slower: {'; '.join(slower) or 'none'}"),
        ("decoding a token: at most half of eager in one graph", "; ".join(tokens)),
        ("trace+2cq ahead of trace from host memory (ResNet-18, batch 8)", queues),
    )  # fmt: skip
    lines = ["| target | measured |", "|---|---|", *(f"| {target} | {result} |" for target, result in words)]
    return "\n".join(lines)


def joined(name: str, data: dict[str, Row]) -> Row | None:
    """A row of the two earlier runs, of which the later one has fewer modes."""
    first, last = data.get(name + FIRST), data.get(name + LAST)
    if first is None or last is None:
        return None
    times, pcc = {**first["device_us"], **last["device_us"]}, {**first["pcc"], **last["pcc"]}
    for mode in last["device_us"]:
        if not last["pcc"][mode] > last["pcc"]["eager"] - 0.002:
            times[mode], pcc[mode] = first["device_us"][mode], first["pcc"][mode]
    right = {mode: pcc[mode] > pcc["eager"] - 0.002 for mode in times}
    best = min(t for mode, t in times.items() if right[mode] and not mode.startswith("proveout"))
    ratio = times["proveout trace"] / best
    return {**last, "row": name, "device_us": times, "pcc": pcc, "right": right, "ratio": round(ratio, 3)}


def with_earlier(row: Row, data: dict[str, Row]) -> Row:
    earlier = joined(row["row"], data)
    if earlier is None:
        return row
    row = {**row, "earlier_us": {mode: t for mode, t in earlier["device_us"].items() if earlier["right"][mode]}}
    if row.get("host_contended"):
        row |= {"host_us": earlier["host_us"], "host_earlier": True}
    return row


def conditions(rows: list[Row]) -> str:
    first = rows[0]
    v, ceilings = first["versions"], first["ceilings"]
    return (
        f"One {v['gpu']}; torch {v['torch']}, Triton {v['triton']}, transformers {v['transformers']}, Python "
        f"{v['python']}; seeded weights; one process per row, modes taking turns, medians of {first['rounds']} rounds. "
        f"Measured ceilings: copies {ceilings['copy_bytes_per_us'] / 1e6:.1f} TB/s, products "
        f"{ceilings['bfloat16_flop_per_us'] / 1e6:.0f} TFLOP/s in bfloat16 and "
        f"{ceilings['float32_flop_per_us'] / 1e6:.0f} in float32. Clocks and state after the last row (SM, memory, "
        f"temperature, power, reasons for throttling): {rows[-1]['state']}."
    )


def page(rows: list[Row], earlier: list[Row]) -> str:
    """The measured part of the page."""

    def which(wanted: Callable[[Row, str, str], bool]) -> list[Row]:
        return [r for r in rows if wanted(r, *r["row"].split("|")[1:])]

    is_generation = lambda row: "+" in row["row"].split("|")[0]  # noqa: E731
    main = which(lambda r, numbers, batch: (numbers, batch) == ("bfloat16", "1") and not is_generation(r))
    tokens = which(lambda r, numbers, batch: is_generation(r))
    exact = which(lambda r, numbers, batch: numbers == "float32" and not is_generation(r))
    eight = which(lambda r, numbers, batch: (numbers, batch) == ("bfloat16", "8") and not is_generation(r))
    done = {r["row"] for r in (*main, *tokens, *exact, *eight)}
    ladder = [r for r in rows if r["row"] not in done]
    parts = [f"Conditions: {conditions(rows)}"]
    sections = (
        ("bfloat16, batch 1. Microseconds per call on the device", main, lambda r: forward(r, FULL)),
        ("Decoding a token after a prompt of 64, static cache of 128. Microseconds per token", tokens, generation),
        ("float32 (no TF32 for anybody). Microseconds per call on the device", exact, short),
        ("bfloat16, batch 8. Microseconds per call on the device", eight, short),
        ("Other rungs of the precision ladder. Microseconds per call on the device", ladder, short),
        ("From host memory and back, microseconds per call (two calls in flight where there are two queues)",
         [r for r in (*main, *eight) if "host_us" in r], hosts),
    )  # fmt: skip
    for words, some, make in sections:
        if some:
            parts.append(f"{words}:\n\n{make(some)}")
    if earlier:
        parts.append(
            "Two earlier runs, with earlier versions of our kernels; these rows were not measured since (a mode's time "
            "is the later run's, unless its outputs were wrong there):\n\n" + short(earlier) + "\n\n" + hosts(earlier)
        )
    parts.append(
        f"{EARLIER} From those earlier runs: the newest row leaves the mode out, or its host times were taken while "
        "other programs had the processor."
    )
    if not all(row["samples_us"] for row in rows):
        parts.append(f"{NO_SAMPLES} Medians only: this run's samples were lost, so there is no Record of it.")
    which = "all rows but those of the two earlier runs; each by the kernels it was measured with"
    parts.append(f"Against the targets ({which}):\n\n" + targets(rows))
    reports = "\n".join(f"- {title(r)}: {r['ours']}." for r in rows if r.get("ours"))
    return "\n\n".join([*parts, "What runs, and what its rivals took when they were measured:\n\n" + reports])


def records(rows: Iterable[Row]) -> Iterable[Record]:
    """One a row: eager, the best PyTorch mode and our trace, all on the GPU, each with its samples."""
    for row in rows:
        name, numbers, batch = row["row"].split("|")
        dtype, _, setting = numbers.partition("+")
        settings = {"tf32": {"precision": "tf32"}, "": {}}.get(setting, {"weights": setting})
        label, weight_bytes = f"{name} ({dtype}, batch {batch})", row["weight_bytes"]
        parameters = weight_bytes // getattr(torch, dtype).itemsize
        script = "tests/bench/cuda_models.py"
        workload = Workload(label, script, row["row"], parameters=parameters, parameter_bytes=weight_bytes)
        job = Job(workload, "cuda", Settings.of({**settings, "trace": True}), ("check", "benchmark"), row["rounds"])
        about = (("mode", "CUDA events around calls in a row"), ("gpu state", row["state"]))
        modes = {"compiled": "proveout trace", "eager": "eager", row["best_pytorch"]: row["best_pytorch"]}
        timings = [
            judged(Timing(what, "measured", "cuda", tuple(round(x * 1e3) for x in row["samples_us"][mode]), about))
            for what, mode in modes.items()
            if mode in row["samples_us"]
        ]
        pcc = row["pcc"]["proveout trace"]
        compared = Comparison("output", "output", pcc, None, None, 0.99, pcc >= 0.99)
        yield Record(
            job, "passed" if compared.passed else "failed", comparisons=(compared,), timings=tuple(timings),
            environment=tuple(row["versions"].items()),
        )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", type=Path, nargs="*", help="files of new rows; later ones count")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--page", type=Path, default=PAGE)
    parser.add_argument("--records", type=Path, help="a folder to write Records to")
    args = parser.parse_args()
    data: dict[str, Row] = json.loads(args.data.read_text())
    for file in args.rows:
        data |= {k: r for k, r in json.loads(file.read_text()).items() if "samples_us" in r}
    args.data.write_text(json.dumps(data, separators=(",", ":")).replace('},"', '},\n"') + "\n")
    rows = [with_earlier(row, data) for row in data.values() if "samples_us" in row]
    names = [key.removesuffix(LAST) for key in data if key.endswith(LAST)]
    earlier = [row for name in names if name not in data and (row := joined(name, data))]
    before, rest = args.page.read_text().split(BEGIN)
    args.page.write_text(before + BEGIN + "\n\n" + page(rows, earlier) + "\n\n" + END + rest.split(END)[1])
    if args.records:
        rows = [row for row in rows if row["samples_us"]]
        for row, record in zip(rows, records(rows), strict=True):  # by the GPU's name, wherever tables are made
            folder = args.records / row["versions"]["gpu"].lower().replace(" ", "-")
            folder.mkdir(parents=True, exist_ok=True)
            Store(args.records).write_at(folder / f"{record.job.key}.json", record)


if __name__ == "__main__":
    main()
