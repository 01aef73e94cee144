"""Stage 7: ops that stay on the host: why, what they cost, the cheapest fix, and an issue ready to file for each."""

from __future__ import annotations

import contextlib
import io
import keyword
import linecache
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from proveout.bringup.data import MissingData, MissingOp
from proveout.bringup.stage import Files, StageResult
from proveout.bringup.subject import GraphRun, Subject
from proveout.bringup.testing import written_module
from proveout.compiler.fixes import kernel_for
from proveout.engine.graph import VIEWED_AS_COMPLEX
from proveout.errors import ProveoutError
from proveout.program import Step, code, refs
from proveout.reasons import COMPLEX_NUMBER, NO_ELEMENTS, Reason
from proveout.report.script import arg_text
from proveout.types import Fallback, TensorSpec, versions
from proveout.words import counted

ISSUE = """# [Feature Request] {title}

### Is your feature request related to a problem? Please describe

{model} calls `{torch}` {count}, {places}. On {device} it runs on the host: {reason}.

{lines}

It costs, in one call (modelled): {costs}.

### Describe the solution you'd like

{solution}

### Describe alternatives you've considered

{fix}.

### Additional context

A script that shows it ({verified}). It is plain torch and ttnn; without hardware, write `from proveout import ttnn`.

```python
{repro}
```

Versions: {versions}; signatures of ttnn 0.81.1.
"""
"""The headings of tt-metal's own form for a feature request."""

REPRO = """import torch
import ttnn

device = ttnn.open_device(device_id=0)
{drawn}
wanted = torch.ops.{aten}({arguments})  # {torch}
sent = [ttnn.from_torch(x, dtype={dtype}, layout=ttnn.TILE_LAYOUT, device=device) for x in ({names})]
operation = {operation}
if operation is None:
    print("ttnn has no operation for {torch}; on the device:", [tuple(x.shape) for x in sent])
else:
    print(operation(*sent{more}), wanted)
ttnn.close_device(device)
"""

ALONE = """import torch

import proveout


class Alone(torch.nn.Module):
    def forward(self{parameters}):
        return torch.ops.{aten}({arguments})


inputs = ({inputs})
settings = {{"precision": "bfloat16"}}
compiled = proveout.compile(Alone().eval(), inputs, device="{device}", settings=settings, dry_run=True)
"""
"""What is run here to see that the op by itself stays on the host for the same reason."""

OF_ITS_NATURE = {
    "random", "dropout", "dynamic-shape", "to-python", "custom-op", "empty-memory", "strided-view", "assertion",
}  # fmt: skip
"""Reasons that no kernel of ttnn's would change: there is nothing to ask for."""
PUBLIC = {"_fft_r2c": "torch.fft.rfft", "_fft_c2r": "torch.fft.irfft", "_fft_c2c": "torch.fft.fft"}
PLACES = (("linalg_", torch.linalg, "torch.linalg"), ("special_", torch.special, "torch.special"))


def run(subject: Subject, files: Files) -> StageResult:
    compiled = subject.compiled()
    lines = compiled.fallbacks
    steps = _host_steps(subject.runs())
    rows: list[MissingOp] = []
    verified = issues = 0
    for line in lines:
        name, file, proof = torch_name(line.aten), "", needs_none(line)
        if not proof:
            issues += 1
            repro, proof, same = _repro(line, steps, subject.bringup.device)
            verified += same
            file = f"missing/{issues:02d}-{name.replace('.', '-').replace('_', '-')}.md"
            files.text(file, _issue(line, subject, repro, proof))
        rows.append(_row(line, name, file, proof))
    files.text("missing.md", _page(subject, lines, rows))
    total, kinds = sum(line.count for line in lines), len({line.aten for line in lines})
    if not lines:
        return StageResult("no op stays on the host", data=MissingData((), 0))
    worst = lines[0]
    findings = [f"{line.count} × {torch_name(line.aten)}: {line.reason}. Fix: {line.fix}" for line in lines[:5]]
    findings.append(f"{counted(issues, 'issue text')}; {verified} with a repro that was run here")
    return StageResult(
        "1 op stays on the host" if total == 1 else f"{total} ops stay on the host, of {counted(kinds, 'kind')}",
        tuple(findings),
        f"{_worth(worst)} {worst.fix[:1].upper()}{worst.fix[1:]}.",
        attention=True,
        data=MissingData(tuple(rows), verified),
    )


def _host_steps(runs: Sequence[GraphRun]) -> dict[str, tuple[Step, Mapping[str, TensorSpec]]]:
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
    match = next((steps[node] for node in line.nodes if node in steps and steps[node][0].kernel == line.aten), None)
    if match is None:
        return "", "none: the op has no call of its own in the Program", False
    step, specs = match
    names = {name: f"x{i}" for i, name in enumerate(step.uses)}
    arguments = ", ".join(_argument(key, arg_text(value, names)) for key, value in step.attrs)
    drawn = [_drawn(specs[name]) for name in step.uses]
    alone = ALONE.format(
        parameters="".join(f", {x}" for x in names.values()), aten=step.kernel, arguments=arguments,
        inputs="".join(f"{d}, " for d in drawn), device=device,
    )  # fmt: skip
    floats = all(specs[name].dtype.startswith(("float", "bfloat")) for name in step.uses)
    kernel = kernel_for(line.aten.split(".")[1])
    text = REPRO.format(
        drawn="\n".join(f"{x} = {d}" for x, d in zip(names.values(), drawn)), aten=step.kernel, arguments=arguments,
        torch=torch_name(line.aten), dtype="ttnn.bfloat16" if floats else "ttnn.int32",
        names="".join(f"{x}, " for x in names.values()).strip(),
        more="".join(f", {key}={code(v)}" for key, v in step.attrs if not list(refs(v)) and key.isidentifier()),
        operation=kernel or f'getattr(ttnn, "{torch_name(line.aten).rpartition(".")[2]}", None)',
    )  # fmt: skip
    proof, same = _verify(alone, line)
    return text.rstrip(), f"{proof}{_run_here(text)}", same


def _run_here(text: str) -> str:
    """What became of the script itself on the embedded ttnn, where that is not what it says."""
    random = torch.get_rng_state()
    try:
        with tempfile.TemporaryDirectory(prefix="proveout-") as folder:
            path = Path(folder, "repro.py")
            path.write_text(text.replace("import ttnn\n", "from proveout import ttnn\n", 1))
            with contextlib.redirect_stdout(io.StringIO()), written_module(path):
                return ""
    except Exception as error:  # whatever a call that is not served raises: the text is for another ttnn
        return f"; the script stops here with: {(str(error).splitlines() or [''])[0][:120]}"
    finally:
        torch.set_rng_state(random)


def torch_name(aten: str) -> str:
    """The function that a person writes for an ATen op."""
    name = aten.split(".")[1] if aten.count(".") else aten
    if name in PUBLIC:
        return PUBLIC[name]
    plain = name.strip("_").removesuffix("_ex")
    for prefix, module, written in PLACES:
        if plain.startswith(prefix) and hasattr(module, plain.removeprefix(prefix)):
            return f"{written}.{plain.removeprefix(prefix)}"
    homes: tuple[tuple[Any, str], ...] = (
        (torch, "torch"), (torch.nn.functional, "torch.nn.functional"), (torch.Tensor, "Tensor"),
    )  # fmt: skip
    for home, written in homes:
        if hasattr(home, plain):
            return f"{written}.{plain}"
    return aten


def needs_none(line: Fallback) -> str:
    """Why there is nothing to ask of tt-metal, or nothing."""
    kind = line.cause.kind if line.cause is not None else ""
    if kind in OF_ITS_NATURE:
        return "no issue to file: no kernel of ttnn's would change that"
    if line.once or kind == NO_ELEMENTS.name:
        return f"no issue to file: {line.fix}"
    if _of_complex_numbers(line.cause) and kernel_for(line.aten.split(".")[1]) is not None:
        return "no issue to file: ttnn has this operation for real numbers, and what makes complex ones is listed"
    return ""


def _of_complex_numbers(cause: Reason | None) -> bool:
    kinds = (COMPLEX_NUMBER.name, VIEWED_AS_COMPLEX.name)
    return cause is not None and (cause.kind in kinds or any(str(f).startswith("complex") for _, f in cause.facts))


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


def _row(line: Fallback, name: str, file: str, proof: str) -> MissingOp:
    return MissingOp(
        aten=line.aten, count=line.count, reason=line.reason, fix=line.fix, modules=line.modules[:4],
        transfers=line.num_transfers, transfer_share=line.transfer_share, time_share=line.time_share,
        transfer_ns=line.transfer_ns, saved_ns=line.saved_ns, sources=line.sources[:3], torch=name, file=file,
        repro=proof,
    )  # fmt: skip


def _worth(line: Fallback) -> str:
    """What the op that is most worth changing would save, in a sentence."""
    alone, together = line.saved_ns or 0, line.together_ns or 0
    if max(alone, together) <= 0:
        return f"No op would save transfers by moving to the chip (modelled). First of them: {torch_name(line.aten)}."
    partners = ", ".join(map(torch_name, line.neighbours)) if together > alone else ""
    ops = f"{torch_name(line.aten)} (with {partners})" if partners else torch_name(line.aten)
    return f"Most worth changing: {ops}, {max(alone, together) / 1e3:.3g} µs faster (modelled)."


def _costs(line: Fallback) -> str:
    if not line.num_transfers:
        return "no transfer of its own; the host's own time is not modelled"
    share = f", {line.time_share:.1%} of the call" if line.time_share is not None else ""
    ns = f"{line.transfer_ns / 1e3:.3g} µs" if line.transfer_ns is not None else "unknown time"
    change = f"{abs(line.saved_ns or 0) / 1e3:.3g} µs {'faster' if (line.saved_ns or 0) > 0 else 'slower'}"
    saved = f"; {change} if it converted" if line.saved_ns else ""
    return f"{counted(line.num_transfers, 'transfer')} ({line.transfer_share:.0%} of all), {ns}{share}{saved}"


def _issue(line: Fallback, subject: Subject, repro: str, proof: str) -> str:
    name, kernel = torch_name(line.aten), kernel_for(line.aten.split(".")[1])
    places = f"in {', '.join(f'`{m}`' for m in line.modules[:4])}" if line.modules else "in its own forward"
    shapes = "".join(f"\n- `{source_line(s)}`" for s in line.sources[:3])
    title = f"{kernel}: {line.reason}" if kernel else f"ttnn has no operation for {name}"
    solution = (
        f"That `{kernel}` takes the call below. Today: {line.reason}."
        if kernel
        else f"An operation that computes what `{name}` does, for the shapes and dtypes of the call below."
    )
    return ISSUE.format(
        title=title, model=subject.bringup.workload.name, torch=name, places=places, reason=line.reason,
        count="once" if line.count == 1 else f"{line.count} times", lines=f"The lines:\n{shapes}" if shapes else "",
        device=subject.bringup.device.partition(":")[2] or "n150", costs=_costs(line), solution=solution,
        fix=_alternative(line),
        verified=proof, repro=repro or "# the op has no call of its own",
        versions=", ".join(f"{k} {v}" for k, v in versions().items()),
    )  # fmt: skip


def _alternative(line: Fallback) -> str:
    """What to do meanwhile, in words that are not about our own tables."""
    ours = line.cause is None or not line.cause.fix
    host = (
        "Running it on the host, as now: its operands are read back, and its result is sent where the device needs it"
    )
    return host if ours else f"{line.fix[:1].upper()}{line.fix[1:]}"


def source_line(source: str) -> str:
    """A place as `file.py:35: what is written there`."""
    file, _, number = source.rpartition(":")
    written = linecache.getline(file, int(number)).strip() if number.isdigit() else ""
    return f"{Path(file).name}:{number}" + (f": {written}" if written else "")


def _page(subject: Subject, lines: Sequence[Fallback], rows: Sequence[MissingOp]) -> str:
    head = [f"# Ops of {subject.bringup.workload.name} on the host", ""]
    if not lines:
        return "\n".join([*head, "None: every op runs on the chip or folds away."])
    head += ["Most worth changing first. Times are modelled and are those of transfers; the host is not modelled.", ""]
    head += ["| op | where | reason | costs | cheapest fix | issue |", "|---|---|---|---|---|---|"]
    for line, row in zip(lines, rows):
        where = "<br>".join(f"`{source_line(s).replace('|', '&#124;')}`" for s in line.sources[:3])
        issue = f"[text]({row.file})" if row.file else row.repro
        count = f" × {line.count}" if line.count > 1 else ""
        head.append(f"| `{row.torch}`{count} | {where} | {line.reason} | {_costs(line)} | {line.fix} | {issue} |")
    return "\n".join(head)
