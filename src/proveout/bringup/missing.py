"""Stage 7: ops that stay on the host: why, what they cost, the cheapest fix, and an issue ready to file for each."""

from __future__ import annotations

import contextlib
import io
import keyword
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from proveout.bringup.stage import Files, Found
from proveout.bringup.subject import Run, Subject
from proveout.bringup.testing import written_module
from proveout.errors import ProveoutError
from proveout.program import Step
from proveout.report.script import arg_text
from proveout.types import Fallback, TensorSpec, versions
from proveout.words import counted

ISSUE = """# {aten} stays on the host

**Reason:** {reason}

**Where:** {count} × in {name}{places}

**What it costs** (modelled, one call on {device}): {costs}

**Cheapest fix:** {fix}

**Repro** ({verified}):

```python
{repro}
```

Versions: {versions}.
"""

REPRO = """import torch

import proveout


class Repro(torch.nn.Module):
    def forward(self{parameters}):
        return torch.ops.{aten}({arguments})


inputs = ({inputs})
settings = {{"precision": "bfloat16"}}
compiled = proveout.compile(Repro().eval(), inputs, device="{device}", settings=settings, dry_run=True)
for op in compiled.coverage.on_host:
    print(op.aten, "stays on the host:", op.reason)
"""


def run(subject: Subject, files: Files) -> Found:
    compiled = subject.compiled()
    lines = compiled.fallbacks
    steps = _host_steps(subject.runs())
    rows, verified = [], 0
    for number, line in enumerate(lines, 1):
        repro, proof, same = _repro(line, steps, subject.asked.device)
        verified += same
        file = f"missing/{number:02d}-{line.aten.replace('.', '-').replace('_', '-').strip('-')}.md"
        files.text(file, _issue(line, subject, repro, proof))
        rows.append({**_figures(line), "file": file, "repro": proof})
    files.text("missing.md", _page(subject, lines, rows))
    total, kinds = sum(line.count for line in lines), len({line.aten for line in lines})
    if not lines:
        return Found("no op stays on the host", data={"lines": [], "verified": 0})
    worst = lines[0]
    findings = [f"{line.count} × {line.aten}: {line.reason}. Fix: {line.fix}" for line in lines[:5]]
    findings.append(f"{verified} of {len(lines)} issue texts hold a repro that was run here and gives the same reason")
    saved = f", {worst.saved_ns / 1e3:.3g} µs modelled" if worst.saved_ns else ""
    return Found(
        "1 op stays on the host" if total == 1 else f"{total} ops stay on the host, of {counted(kinds, 'kind')}",
        tuple(findings),
        f"Most worth changing: {worst.aten}{saved}. {worst.fix}",
        attention=True,
        data={"lines": rows, "verified": verified},
    )


def _host_steps(runs: Sequence[Run]) -> dict[str, tuple[Step, Mapping[str, TensorSpec]]]:
    return {
        step.origin.node: (step, run.variant.compiled.program.specs)
        for run in runs
        for step in run.variant.compiled.program.steps
        if step.on_host
    }


def _repro(
    line: Fallback, steps: Mapping[str, tuple[Step, Mapping[str, TensorSpec]]], device: str
) -> tuple[str, str, bool]:
    """A small script that keeps the same op on the host for the same reason, what was seen, and whether that was it."""
    found = next((steps[node] for node in line.nodes if node in steps and steps[node][0].kernel == line.aten), None)
    if found is None:
        return "", "none: the op has no call of its own in the Program", False
    step, specs = found
    given = {name: f"x{i}" for i, name in enumerate(step.uses)}
    attributes = ", ".join(_argument(key, arg_text(value, given)) for key, value in step.attrs)
    drawn = ", ".join(_drawn(specs[name]) for name in step.uses)
    text = REPRO.format(
        parameters="".join(f", {x}" for x in given.values()),
        aten=step.kernel,
        arguments=attributes,
        inputs=f"{drawn}," if drawn else "",
        device=device,
    )
    return text.rstrip(), *_verify(text, line)


def _verify(text: str, line: Fallback) -> tuple[str, bool]:
    random = torch.get_rng_state()
    try:
        with tempfile.TemporaryDirectory(prefix="proveout-") as folder:
            path = Path(folder, "repro.py")
            path.write_text(text)
            with contextlib.redirect_stdout(io.StringIO()), written_module(path) as module:
                alone = [op for op in module.compiled.coverage.on_host if op.aten == line.aten]
    except (ProveoutError, RuntimeError, TypeError, ValueError, IndexError, NotImplementedError) as error:
        return f"not run to its end here: {(str(error).splitlines() or [''])[0][:120]}", False
    finally:
        torch.set_rng_state(random)
    if any(op.cause == line.cause for op in alone):
        return "run here: the same op stays on the host for the same reason", True
    other = f"stays for another reason: {alone[0].reason}" if alone else "converts"
    return f"run here, but alone the op {other}", False


def _argument(key: str, text: str) -> str:
    """By name; `self` is every schema's first and goes by place."""
    return text if key == "self" else f"**{{{key!r}: {text}}}" if keyword.iskeyword(key) else f"{key}={text}"


def _drawn(spec: TensorSpec) -> str:
    shape = ", ".join(map(str, spec.shape))
    if spec.dtype == "bool":
        return f"torch.rand({_sized(shape)}) < 0.5"
    if not spec.dtype.startswith(("float", "bfloat", "complex")):
        return f"torch.randint(0, 8, ({shape}{',' * (len(spec.shape) == 1)}), dtype=torch.{spec.dtype})"
    return f"torch.randn({_sized(shape)}, dtype=torch.{spec.dtype})"


def _sized(shape: str) -> str:
    return shape or "()"


def _figures(line: Fallback) -> dict[str, Any]:
    return {
        "aten": line.aten, "count": line.count, "reason": line.reason, "fix": line.fix, "modules": line.modules[:4],
        "transfers": line.num_transfers, "transfer_share": line.transfer_share, "time_share": line.time_share,
        "transfer_ns": line.transfer_ns, "saved_ns": line.saved_ns, "sources": line.sources[:3],
    }  # fmt: skip


def _costs(line: Fallback) -> str:
    if not line.num_transfers:
        return "no transfer of its own; the host's own time is not modelled"
    share = f", {line.time_share:.1%} of the call" if line.time_share is not None else ""
    ns = f"{line.transfer_ns / 1e3:.3g} µs" if line.transfer_ns is not None else "unknown time"
    change = f"{abs(line.saved_ns or 0) / 1e3:.3g} µs {'faster' if (line.saved_ns or 0) > 0 else 'slower'}"
    saved = f"; {change} if it converted" if line.saved_ns else ""
    return f"{counted(line.num_transfers, 'transfer')} ({line.transfer_share:.0%} of all), {ns}{share}{saved}"


def _issue(line: Fallback, subject: Subject, repro: str, proof: str) -> str:
    places = f" ({', '.join(line.modules[:4])})" if line.modules else ""
    return ISSUE.format(
        aten=line.aten, reason=line.reason, count=line.count, name=subject.asked.workload.name, places=places,
        device=subject.asked.device, costs=_costs(line), fix=line.fix, verified=proof, repro=repro or "# see above",
        versions=", ".join(f"{k} {v}" for k, v in versions().items()),
    )  # fmt: skip


def _page(subject: Subject, lines: Sequence[Fallback], rows: Sequence[Mapping[str, Any]]) -> str:
    head = [f"# Ops of {subject.asked.workload.name} on the host", ""]
    if not lines:
        return "\n".join([*head, "None: every op runs on the chip or folds away."])
    head += ["Most worth changing first. Times are modelled and are those of transfers; the host is not modelled.", ""]
    head += ["| op | count | reason | costs | cheapest fix | issue |", "|---|---:|---|---|---|---|"]
    return "\n".join(
        [*head]
        + [
            f"| `{line.aten}` | {line.count} | {line.reason} | {_costs(line)} | {line.fix} | [text]({row['file']}) |"
            for line, row in zip(lines, rows)
        ]
    )
