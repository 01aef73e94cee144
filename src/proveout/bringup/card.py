"""Stage 1: the model card, filled from the model itself: what it is, what it takes and gives, what it costs."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from proveout.bringup.data import CardData
from proveout.bringup.stage import Files, StageResult
from proveout.bringup.subject import Subject
from proveout.check.outputs import leaves
from proveout.chip.fidelity import PHASES
from proveout.chip.time import MATRIX
from proveout.engine.compiled import undisturbed
from proveout.types import Workload

TASKS: tuple[tuple[str, str], ...] = (
    ("QuestionAnswering", "question answering"),
    ("CausalLM", "text generation"),
    ("LMHead", "text generation"),
    ("MaskedLM", "masked language modelling"),
    ("ConditionalGeneration", "sequence to sequence"),
    ("SequenceClassification", "text classification"),
    ("TokenClassification", "token classification"),
    ("ImageClassification", "image classification"),
    ("SemanticSegmentation", "semantic segmentation"),
    ("ObjectDetection", "object detection"),
    ("yolo", "object detection"),
    ("resnet", "image classification"),
    ("vit", "image classification"),
)
"""Parts of class names and what such models are for, where the script has no label `task`."""


def run(subject: Subject, files: Files) -> StageResult:
    workload = subject.bringup.workload
    model, labels = subject.model, {key: ", ".join(values) for key, values in workload.labels}
    flops, outputs = _flops(subject)
    weights = _unique_bytes(model)
    inputs = [(name, f"{spec.dtype}[{','.join(map(str, spec.shape))}]") for name, spec in workload.inputs]
    gives = [(name, _shape(value)) for name, value in leaves(outputs)]
    moved = weights + sum(s.nbytes for _, s in workload.inputs) + sum(_nbytes(v) for _, v in leaves(outputs))
    chip = subject.chip
    peak = chip.cores * MATRIX * chip.clock_ghz * 1e9 / PHASES["LoFi"]
    floor_ms = 1e3 * max(flops / peak, moved / 2 / (chip.dram_gb_s * 1e9))
    licence = labels.get("licence") or labels.get("license") or "none stated in the script (`# labels: licence::…`)"
    rows = [
        ("Model", f"{workload.name} (`{workload.class_name}`)"),
        ("Source", f"{_place(workload)} {workload.script_args}".strip()),
        ("Author", labels.get("author", "not stated")),
        ("Task", labels.get("task") or _task(workload.class_name, workload.name)),
        ("Licence label", licence),
        ("Parameters", f"{workload.parameters:,} ({_size(weights)} as they are)"),
        ("Mode", "training" if model.training else "evaluation"),
        ("FLOPs of one call", f"{flops:,} (products and attention, 2 per multiply-add)"),
        ("Bytes that must move", f"{_size(moved)}: weights, inputs and outputs once, in the model's own dtypes"),
        ("Arithmetic intensity", f"{flops / moved:.1f} FLOP a byte" if moved else "none"),
        ("Chip", f"{subject.bringup.device}: {chip.arch}, {chip.grid[0]}×{chip.grid[1]} cores "
                 f"at {chip.clock_ghz:g} GHz, {chip.dram_gb_s:g} GB/s DRAM"),
        ("Lower bound per call", f"{floor_ms:.3g} ms (modelled: LoFi peak, or weights in bfloat16 from DRAM)"),
        ("PCC budget", f"{subject.bringup.settings.pcc}"),
        ("Status", "Runs in eager mode; chip status: see report.md"),
    ]  # fmt: skip
    lines = [f"# {workload.name}", "", "| | |", "|---|---|"]
    lines += [f"| {name} | {value} |" for name, value in rows]
    lines += ["", "## Inputs", "", *_table(("name", "shape, dtype"), inputs)]
    lines += ["", "## Outputs", "", *_table(("name", "shape, dtype"), gives)]
    files.text("card.md", "\n".join(lines))
    return StageResult(
        f"{workload.class_name}, {workload.parameters:,} parameters, {flops / 1e9:.3g} GFLOP a call",
        (f"at least {floor_ms:.3g} ms a call on {subject.bringup.device} (modelled)",),
        "" if "licence" in labels or "license" in labels else "Add a label to the script: `# labels: licence::NAME`",
        data=CardData(tuple(rows), tuple(inputs), tuple(gives), flops, moved, floor_ms, workload.parameters),
    )


def _flops(subject: Subject) -> tuple[int, Any]:
    """Counted by PyTorch while the model runs in eager mode."""
    args, kwargs = subject.call
    with undisturbed(subject.model, subject.call), torch.no_grad(), FlopCounterMode(display=False) as counter:
        outputs = subject.model(*args, **kwargs)
    return int(counter.get_total_flops()), outputs


def _unique_bytes(model: torch.nn.Module) -> int:
    tensors = {t.data_ptr(): t for t in (*model.parameters(), *model.buffers())}
    return sum(t.numel() * t.element_size() for t in tensors.values())


def _task(class_name: str, name: str) -> str:
    words = f"{class_name} {name}".lower()
    return next((f"{task} (by its name)" for part, task in TASKS if part.lower() in words), "not stated")


def _table(titles: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    head = [f"| {' | '.join(titles)} |", f"|{'---|' * len(titles)}"]
    return head + [f"| {' | '.join(f'`{cell}`' for cell in row)} |" for row in rows]


def _shape(value: Any) -> str:
    if not isinstance(value, torch.Tensor):
        return type(value).__name__
    return f"{str(value.dtype).removeprefix('torch.')}[{','.join(map(str, value.shape))}]"


def _nbytes(value: Any) -> int:
    return value.numel() * value.element_size() if isinstance(value, torch.Tensor) else 0


def _size(nbytes: float) -> str:
    unit = min(int(math.log(max(nbytes, 1), 1000)), 3)
    return f"{nbytes / 1000**unit:.3g} {('B', 'kB', 'MB', 'GB')[unit]}"


def _place(workload: Workload) -> str:
    """Where the model is built, and in which script where that says it not."""
    script = _name(workload.script)
    line = workload.location or script
    return f"`{line}`" if line.partition(":")[0] == script else f"`{line}` in `{script}`"


def _name(script: str) -> str:
    return script.rsplit("/", 1)[-1]
