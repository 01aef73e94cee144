"""Stage 8: the whole model on the chip against eager, every output on all inputs; accuracy where there are labels."""

from __future__ import annotations

import copy
from typing import Any, Literal

import torch
from torch.utils._pytree import tree_map_only

from proveout.bringup.data import CardData, EndToEndData, GraphCause, OutputRow
from proveout.bringup.reference import HELD_OUT
from proveout.bringup.stage import Files, StageResult
from proveout.bringup.subject import Subject
from proveout.cause.explain import explain
from proveout.check import compare_outputs, compare_steps, first_nonfinite, trust
from proveout.check.outputs import NOTHING_COMPARED, holds_numbers, leaves
from proveout.devices.registry import find
from proveout.engine.compiled import undisturbed
from proveout.errors import ProveoutError
from proveout.report.cause.picture import picture
from proveout.report.tables.trust import sentences
from proveout.subject import Call
from proveout.types import Comparison, Trust
from proveout.words import counted

ULP = torch.bfloat16
"""Differences are told in units of the format that the chip computes in."""
EXPLAINED_FLOPS = 1e11
"""Above this no op is swapped: that takes some twenty calls in float32."""
FEW_NUMBERS = 16
"""An output of fewer is too few for a PCC to mean much."""
MODES: tuple[Literal["fast", "faithful"], ...] = ("fast", "faithful")


def run(subject: Subject, files: Files) -> StageResult:
    least = subject.bringup.settings.pcc
    rows: list[OutputRow] = []
    for number, call in enumerate([subject.call, *subject.held_out(HELD_OUT)]):
        label = "the script's" if number == 0 else f"held out {number}"
        outputs, wanted = subject.on_device(call), subject.eager(call)
        rows += [_row(label, c) for c in compare_outputs(outputs, wanted, least, ULP)]
        if subject.bringup.float64:
            rows += _float64(subject, call, label, outputs, wanted, least)
    wrong = [r for r in rows if not r.passed]
    empty = not holds_numbers(subject.eager(subject.call))
    strange = _strange(subject)
    accuracy = _accuracy(subject)
    modes = _trust(subject)
    lowest = min((r.pcc for r in rows if r.pcc is not None), default=None)
    findings = [NOTHING_COMPARED] if empty else []
    findings += [f"{r.output} on {r.inputs} inputs: {r.reason}" for r in wrong[:5]]
    if strange:
        findings.append(strange)
    findings += sentences(modes)
    findings += _few_numbers(subject)
    why = _why(subject, files)
    findings += [sentence for graph in why for sentence in graph.said]
    if accuracy:
        findings.append(f"accuracy {accuracy[0]:.2f} % on the chip, {accuracy[1]:.2f} % in eager mode")
    else:
        findings.append("the script has no `evaluate_on(model)`: no labels, so no accuracy")
    shown = f"lowest PCC {lowest:.6f}" if lowest is not None else "no PCC: outputs are compared exactly"
    step = (
        "Give the script an input for which the model's outputs hold numbers."
        if empty
        else "Look at explain.svg: which op the error comes from, and what magnifies it."
        if wrong and why
        else "Look at graph.html coloured by PCC, then at tests/test_modules.py: the first module that is off."
        if wrong
        else "Judge by the chip's own rules from here on: --set numerics=faithful."
        if modes is not None and modes.trusted is False
        else ""
    )
    files.json("end_to_end.json", {"outputs": rows, "accuracy": accuracy, "nonfinite": strange, "trust": modes})
    return StageResult(
        NOTHING_COMPARED
        if empty
        else f"{len(rows) - len(wrong)} of {len(rows)} outputs pass at PCC ≥ {least}; {shown}",
        tuple(findings),
        step,
        attention=empty or bool(wrong) or (modes is not None and modes.trusted is False),
        data=EndToEndData(tuple(rows), lowest, accuracy, strange, modes, tuple(why)),
    )


def _few_numbers(subject: Subject) -> list[str]:
    """Outputs so small that a PCC says little of them: that of two numbers is 1 or -1, whatever they are."""
    sizes = [(name, v.numel()) for name, v in leaves(subject.eager(subject.call)) if isinstance(v, torch.Tensor)]
    return [
        f"{name} has {counted(size, 'number')}: a PCC of so few says little. Bring up what comes before it as well"
        for name, size in sizes
        if 0 < size < FEW_NUMBERS
    ]


def _why(subject: Subject, files: Files) -> list[GraphCause]:
    """Which ops the error comes from, as the report shows it for each graph; nothing where it would take too long."""
    if _flops(subject) > EXPLAINED_FLOPS:
        return []
    try:
        explanation = explain(subject.compiled(), subject.call)
    except ProveoutError:  # outputs that are not finite have their own sentence
        return []
    files.json("explain.json", explanation)
    shown = []
    for number, graph in enumerate(explanation.graphs):
        svg = picture(subject.bringup.workload.name, graph)
        files.text(f"explain{number or ''}.svg", svg)
        shown.append(GraphCause(svg, graph.said))
    return shown


def _trust(subject: Subject) -> Trust | None:
    """Whether fast's PCC can be trusted, on the script's inputs; None on a device that has one way to compute."""
    if not find(subject.bringup.device).numerics:
        return None
    settings = subject.bringup.settings
    skipped = trust.too_long(_flops(subject))
    if skipped is not None and settings.numerics == "fast":
        return skipped
    compiled, gaps, pccs = subject.compiled(), trust.Gaps(), {}
    for numerics in MODES:
        with compiled.in_numerics(numerics):
            outputs = subject.on_device(subject.call)
            pccs[numerics] = compare_outputs(outputs, subject.eager(subject.call), settings.pcc)
            if numerics == "faithful":
                with undisturbed(subject.model, subject.call):
                    compare_steps(compiled, *subject.call, gaps)
    return trust.judged(pccs["fast"], pccs["faithful"], gaps.steps)


def _flops(subject: Subject) -> int:
    card = subject.folder.data(CardData)
    return card.flops if card is not None else 0


def _row(inputs: str, c: Comparison, against: str = "eager") -> OutputRow:
    return OutputRow(
        inputs, against, c.name, c.passed, c.reason, c.pcc, c.rel_l2, c.max_abs, c.max_ulp, c.within, c.threshold
    )


def _float64(subject: Subject, call: Call, label: str, outputs: Any, eager: Any, least: float) -> list[OutputRow]:
    """Both against the model in float64: how far eager itself is off."""
    model = copy.deepcopy(subject.model).double()
    args, kwargs = tree_map_only(torch.Tensor, lambda t: t.double() if t.is_floating_point() else t, call)
    with torch.no_grad():
        exact = model(*args, **kwargs)
    pairs = (("float64", outputs), ("float64 (eager itself)", eager))
    return [_row(label, c, against) for against, got in pairs for c in compare_outputs(got, exact, least, ULP)]


def _strange(subject: Subject) -> str:
    """Where the first NaN or infinity is made, if an output has one."""
    tensors = [v for _, v in leaves(subject.on_device(subject.call)) if isinstance(v, torch.Tensor)]
    if all(bool(torch.isfinite(v).all()) for v in tensors if v.is_floating_point()):
        return ""
    for run in subject.runs():
        blamed = first_nonfinite(run.variant.ready(run.arguments), run.inputs)
        if blamed is not None:
            return str(blamed)
    return "an output is not finite, and no Step on the chip made it so"


def _accuracy(subject: Subject) -> tuple[float, float] | None:
    evaluate = subject.captured.evaluate
    return (evaluate(subject.compiled()), evaluate(subject.model)) if evaluate is not None else None
