"""Stage 5: `tests/test_ops.py`, a test for every different ttnn call of the model, with the knobs one would try.

Each knob is tried here first; what ttnn refuses is written down with its reason instead of becoming a test.
"""

from __future__ import annotations

import math
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from proveout.bringup.data import OpTestsData, Tried
from proveout.bringup.op_tests_text import HEAD, TAIL
from proveout.bringup.stage import Files, StageResult
from proveout.bringup.subject import Subject
from proveout.bringup.testing import run_tests, written_module
from proveout.check.compare import pearson
from proveout.check.thresholds import BY_DTYPE, of_these_numbers, threshold
from proveout.check.walk import walk
from proveout.kernels.pieces import Pieces
from proveout.kernels.row import MATRIX_UNIT
from proveout.kernels.table import kernels
from proveout.program import Arg, Construct, Name, Program, Ref, Step
from proveout.report.script import in_words
from proveout.types import TensorSpec

KNOBS: tuple[tuple[str, dict[str, str]], ...] = (
    ("as compiled", {}),
    ("float32", {"dtype": "float32"}),
    ("bfloat8_b", {"dtype": "bfloat8_b"}),
    ("LoFi", {"fidelity": "LoFi"}),
    ("HiFi4", {"fidelity": "HiFi4"}),
    ("L1", {"sharding": "l1"}),
    ("height sharded", {"sharding": "height"}),
    ("width sharded", {"sharding": "width"}),
    ("block sharded", {"sharding": "block"}),
)
FIDELITY_KINDS = MATRIX_UNIT | {"attention"}
FAITHFUL_FLOPS = 2e9
"""Products larger than this are not computed by the chip's own rules in a test: it would take too long."""
HUGE = 1e30
"""Beyond this a number is a mask's, not the model's."""


@dataclass(frozen=True)
class Case:
    """One different call: its function, its operands with numbers like the model's, its other arguments."""

    name: str
    kernel: str
    operands: str
    attributes: str
    where: str
    count: int
    dtype: str
    flops: float


def run(subject: Subject, files: Files) -> StageResult:
    cases = _cases(subject)
    text = HEAD.format(name=in_words(subject.bringup.workload.name), cases="\n".join(map(_case_text, cases)))
    tried = list(_try_all(text, cases))
    kept = [t for t in tried if not t.refused]
    refused = [t for t in tried if t.refused]
    rows = "\n".join(f"    ({t.case!r}, {t.knob!r}, {t.least}),  # {_seen(t)}" for t in kept)
    why = "\n".join(f"    ({t.case!r}, {t.knob!r}): {t.refused!r}," for t in refused)
    path = files.path("tests/test_ops.py")
    path.write_text(text + TAIL.format(knobs=_knobs_text(), tests=rows, refused=why))
    tests = run_tests(path, subject.bringup.tests)
    origins = dict.fromkeys(f"{t.least}: {t.origin}" for t in kept)
    low = [t for t in kept if t.pcc is not None and t.least is not None and t.pcc < t.least]
    findings = [
        f"{len(kept)} combinations of call and knob; {len(refused)} that ttnn refuses, with its reason in the file",
        str(tests),
        *(f"{t.case} with {t.knob}: PCC {t.pcc:.5f} is below {t.least}" for t in low[:5]),
    ]
    wrong = bool(low) or bool(tests.failed) or (bool(tests.why) and subject.bringup.tests)
    return StageResult(
        f"{len(cases)} different ttnn calls, {tests}",
        tuple(findings),
        "Run: pytest tests/test_ops.py -k NAME, and look at the call in graph.html." if wrong else "",
        attention=wrong,
        data=OpTestsData(len(cases), len(kept), len(refused), tests, tuple(origins), tuple(tried)),
    )


def _seen(tried: Tried) -> str:
    return "exact" if tried.pcc is None else f"PCC {tried.pcc:.6f} when written"


def _cases(subject: Subject) -> list[Case]:
    unique: dict[Any, tuple[Step, dict[str, Any]]] = {}
    counts: Counter[Any] = Counter()
    programs: dict[Any, Program] = {}
    for run in subject.runs():
        loaded = run.variant.ready(run.arguments)
        for step, values, _ in walk(loaded, run.inputs):
            if step.on_host or step.is_transfer or not step.outputs or loaded.program.chips > 1:
                continue
            key = (step.kernel, tuple((k, _key(v, loaded.program)) for k, v in step.attrs))
            counts[key] += 1
            if key not in unique:
                unique[key] = step, {name: _numbers_like(values[name]) for name in step.uses}
                programs[key] = loaded.program
    numbered: Counter[str] = Counter()
    cases = []
    for key, (step, like) in unique.items():
        short = step.kernel.rsplit(".", 1)[-1]
        numbered[short] += 1
        cases.append(_case(f"{short}-{numbered[short]}", step, like, programs[key], counts[key]))
    return cases


def _key(arg: Arg, program: Program) -> Any:
    if isinstance(arg, Ref):
        return program.specs[arg.name]
    return tuple(_key(a, program) for a in arg) if isinstance(arg, tuple) else arg


def _case(name: str, step: Step, like: Mapping[str, str], program: Program, count: int) -> Case:
    operands: list[str] = []
    attributes: list[str] = []
    for key, value in step.attrs:
        text = f"{key!r}: {_text(value, program.specs, like)}"
        (operands if _has_ref(value) else attributes).append(text)
    where = step.origin.module or "the model"
    work = kernels()[step.kernel].work(
        {k: _key(v, program) for k, v in step.attrs}, [program.specs[n] for n in step.outputs]
    )
    return Case(
        name, step.kernel, ", ".join(operands), ", ".join(attributes), f"{step.origin.aten} in {where}", count,
        program.specs[step.outputs[0]].dtype, work.ops,
    )  # fmt: skip


def _has_ref(arg: Arg) -> bool:
    return isinstance(arg, Ref) or (isinstance(arg, tuple) and any(map(_has_ref, arg)))


def _text(arg: Arg, specs: Mapping[str, TensorSpec], like: Mapping[str, str]) -> str:
    if isinstance(arg, Ref):
        return _operand(specs[arg.name], like[arg.name])
    if isinstance(arg, (Name, Construct)):
        return str(arg)
    if isinstance(arg, tuple):
        return "[" + ", ".join(_text(a, specs, like) for a in arg) + "]"
    return f"float({str(arg)!r})" if isinstance(arg, float) and not math.isfinite(arg) else repr(arg)


def _operand(spec: TensorSpec, like: str) -> str:
    layout = "ttnn.TILE_LAYOUT" if spec.layout == "tile" else "ttnn.ROW_MAJOR_LAYOUT"
    dtype = (
        f"torch.{spec.dtype}"
        if spec.memory.buffer == "host" and spec.dtype in ("bool", "int64")
        else f"ttnn.{spec.dtype}"
    )
    place = spec.memory.buffer
    return f"T({tuple(spec.shape)}, {dtype}, {layout}, {place!r}, {like})"


def _numbers_like(value: Any) -> str:
    """How to draw numbers like these, as text."""
    tensor = value[0] if isinstance(value, Pieces) else value
    if not isinstance(tensor, torch.Tensor) or not tensor.numel():
        return "Normal()"
    if not tensor.is_floating_point():
        return f"Integers({int(tensor.long().min())}, {int(tensor.long().max())})"
    wide = tensor.float()
    low, high = float(wide.min()), float(wide.max())
    if max(abs(low), abs(high)) > HUGE or len(wide.unique()) <= 2:
        return f"OneOf({_float(low)}, {_float(high)})"
    spread = float(wide.std()) if wide.numel() > 1 else 0.0
    return f"Normal({float(wide.mean()):.4g}, {spread:.4g}, {low:.4g}, {high:.4g})"


def _float(value: float) -> str:
    return repr(value) if math.isfinite(value) else f"float({str(value)!r})"


def _case_text(case: Case) -> str:
    return (
        f"    {case.name!r}: Case(  # {case.count} × {in_words(case.where)}\n"
        f"        lambda: {case.kernel},\n"
        f"        {{{case.operands}}},\n"
        f"        lambda device: {{{case.attributes}}},\n"
        f"    ),"
    )


def _knobs_text() -> str:
    return "\n".join(f"    {name!r}: {settings!r}," for name, settings in KNOBS)


def _try_all(text: str, cases: list[Case]) -> Iterator[Tried]:
    """Run each case with each knob, by the very code that the tests run."""
    with tempfile.TemporaryDirectory(prefix="proveout-") as folder:
        path = Path(folder, "ops.py")
        path.write_text(text.replace("import pytest\n", ""))  # the tests need it, the calls do not
        with written_module(path) as scope:
            devices = {faithful: scope.open_device(faithful) for faithful in (False, True)}
            try:
                for case in cases:
                    for knob, settings in KNOBS:
                        tried = _try(case, knob, settings, scope, devices)
                        if tried is not None:
                            yield tried
            finally:
                for device in devices.values():
                    scope.ttnn.close_device(device)


def _try(case: Case, knob: str, settings: dict[str, str], scope: Any, devices: Mapping[bool, Any]) -> Tried | None:
    fidelity, dtype = settings.get("fidelity"), settings.get("dtype", case.dtype)
    if fidelity and (kernels()[case.kernel].kind not in FIDELITY_KINDS or case.flops > FAITHFUL_FLOPS):
        return None
    if "dtype" in settings and not case.dtype.startswith(("float", "bfloat")):
        return None
    try:
        pairs = scope.run(devices[fidelity is not None], scope.CASES[case.name], **settings)
    except Exception as error:  # whatever stops a call is what there is to tell
        if not settings:
            raise
        return Tried(case.name, knob, refused=(str(error).strip().splitlines() or [type(error).__name__])[0][:160])
    least = threshold(case.kernel, dtype, fidelity)
    for _, wanted in pairs:
        if wanted.is_floating_point() and wanted.numel() and dtype in BY_DTYPE:
            least = of_these_numbers(least, wanted, dtype)
    pcc = min((p for p in (_pcc(*pair) for pair in pairs) if p is not None), default=None)
    return Tried(case.name, knob, pcc, least.pcc, least.origin)


def _pcc(output: torch.Tensor, wanted: torch.Tensor) -> float | None:
    if not wanted.is_floating_point():
        return None
    finite = torch.isfinite(wanted) & torch.isfinite(output)
    return pearson(output[finite].double(), wanted[finite].double())
