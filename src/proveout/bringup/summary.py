"""Stage 4: every module with its parameters and shapes, every ATen op with its count and the ways it is called."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from proveout.bringup.data import SummaryData
from proveout.bringup.stage import Files, StageResult
from proveout.bringup.subject import Subject
from proveout.capture.identity import parameter_count
from proveout.coding import to_json
from proveout.engine.compiled import undisturbed
from proveout.words import counted

OPS = ("converted", "host", "removed")


@dataclass
class ModuleRow:
    """One module, filled while the model runs."""

    path: str
    class_name: str
    takes: str = ""
    gives: str = ""
    calls: int = 0
    parameters: int = 0
    own_parameters: int = 0


def run(subject: Subject, files: Files) -> StageResult:
    modules = _modules(subject)
    ops = [op for op in json.loads((subject.folder.path / "graph.json").read_text())["ops"] if op["state"] in OPS]
    counts = Counter(op["aten"] for op in ops)
    ways = Counter((op["aten"], op["inputs"]) for op in ops)
    states = {aten: Counter(op["state"] for op in ops if op["aten"] == aten) for aten in counts}
    total, _ = parameter_count(subject.model)
    lines = [f"# Summary of {subject.bringup.workload.name}", "", "## Modules", ""]
    lines += ["| module | class | takes | gives | parameters (own) | calls |", "|---|---|---|---|---:|---:|"]
    for m in modules:
        indent = "&emsp;" * (m.path.count(".") + bool(m.path))
        own = f"{m.parameters:,} ({m.own_parameters:,})"
        cells = (f"{indent}`{m.path or '(model)'}`", m.class_name, m.takes, m.gives, own, m.calls)
        lines.append(f"| {' | '.join(map(str, cells))} |")
    lines += [
        "",
        f"{total:,} parameters; those that modules share count once.",
        "",
        "## ATen ops",
        "",
        "| op | count | on the chip | folded | host |",
    ]
    lines += ["|---|---:|---:|---:|---:|"]
    for aten, count in counts.most_common():
        s = states[aten]
        lines.append(f"| `{aten}` | {count} | {s['converted']} | {s['removed']} | {s['host']} |")
    lines += ["", "## Unique op and argument variations", "", "| op | arguments | count |", "|---|---|---:|"]
    lines += [f"| `{aten}` | `{shapes}` | {count} |" for (aten, shapes), count in sorted(ways.items())]
    files.text("summary.md", "\n".join(lines))
    variations = [{"aten": aten, "inputs": shapes, "count": count} for (aten, shapes), count in sorted(ways.items())]
    listed = [{"class" if key == "class_name" else key: value for key, value in to_json(m).items()} for m in modules]
    files.json("summary.json", {"modules": listed, "ops": counts, "variations": variations})
    classes = len({m.class_name for m in modules})
    return StageResult(
        f"{counted(len(modules), 'module')} of {counted(classes, 'class', 'classes')}; "
        f"{counted(len(counts), 'ATen op')} called in {counted(len(ways), 'way')}",
        (f"the most frequent: {', '.join(f'{aten} ×{n}' for aten, n in counts.most_common(4))}",),
        data=SummaryData(len(modules), classes, len(counts), len(ways), tuple(counts.most_common())),
    )


def _modules(subject: Subject) -> list[ModuleRow]:
    """Every module in the order of definition, with the shapes that hooks saw in one eager call."""
    seen: list[ModuleRow] = []
    hooks = []

    def watch(path: str, module: torch.nn.Module) -> None:
        def note(_: Any, args: Any, kwargs: Any, result: Any) -> None:
            row.calls += 1
            row.takes, row.gives = row.takes or _shapes((args, kwargs)), row.gives or _shapes(result)

        (inside, _), (own, _) = parameter_count(module), parameter_count(module, recurse=False)
        row = ModuleRow(path, type(module).__name__, parameters=inside, own_parameters=own)
        seen.append(row)
        hooks.append(module.register_forward_hook(note, with_kwargs=True))

    args, kwargs = subject.call
    try:
        for path, module in subject.model.named_modules():
            watch(path, module)
        with undisturbed(subject.model, subject.call), torch.no_grad():
            subject.model(*args, **kwargs)
    finally:
        for hook in hooks:
            hook.remove()
    return seen


def _shapes(values: Any) -> str:
    tensors = [t for t in tree_leaves(values) if isinstance(t, torch.Tensor)]
    shown = ", ".join("×".join(map(str, t.shape)) or "scalar" for t in tensors[:4])
    return shown + (f" and {len(tensors) - 4} more" if len(tensors) > 4 else "")
