"""What `proveout tune` finds against the greedy search, at the same budget: `python tests/bench/tune.py [NAME…]`.

BERT-Base (sequence 128), ResNet-50 and ViT-Base (224 × 224) and GPT-2 (sequence 64), true size, seeded weights; with
`--small` each has few narrow layers. Of each it leaves in `-o DIR` the certificate, the measurements (a run that was
stopped goes on where it was) and a row of figures; then the independent checker replays the certificate, and is given
ones that were changed. `--page FILE` puts the rows that lie there into a page, between its two marks.

Times of the search are processor time, which does not depend on what else the machine does; `--minutes` is to be larger
where it does much. A run that was stopped adds its own to the next one's.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from proveout.coding import from_json, read_json, to_json
from proveout.report.tune.text import text
from proveout.tune.certificate import Certificate, read
from proveout.tune.check import faults
from proveout.tune.model import Call, Model
from proveout.tune.search import Options, tune
from proveout.tune.solve import Problem
from proveout.tune.space import Times
from proveout.tune.structures import ways_of
from proveout.types import Settings


def bert_base(small: bool) -> tuple[torch.nn.Module, dict[str, torch.Tensor]]:
    from transformers import BertConfig, BertModel

    narrow = {"hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 256}
    config = BertConfig(**(narrow if small else {}))
    return BertModel(config, add_pooling_layer=False), {"input_ids": torch.randint(3, 30000, (1, 128))}


def gpt2(small: bool) -> tuple[torch.nn.Module, dict[str, torch.Tensor]]:
    from transformers import GPT2Config, GPT2Model

    narrow = {"n_embd": 128, "n_layer": 2, "n_head": 2}
    config = GPT2Config(use_cache=False, **(narrow if small else {}))
    return GPT2Model(config), {"input_ids": torch.randint(0, 50257, (1, 64))}


def vit_base(small: bool) -> tuple[torch.nn.Module, dict[str, torch.Tensor]]:
    from transformers import ViTConfig, ViTForImageClassification

    narrow = {"hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 256}
    size = 64 if small else 224
    config = ViTConfig(num_labels=1000, image_size=size, **(narrow if small else {}))
    return ViTForImageClassification(config), {"pixel_values": torch.randn(1, 3, size, size)}


def resnet50(small: bool) -> tuple[torch.nn.Module, dict[str, torch.Tensor]]:
    from transformers import ResNetConfig, ResNetForImageClassification

    narrow = {"embedding_size": 32, "hidden_sizes": [64, 128], "depths": [2, 2]}
    size = 64 if small else 224
    config = ResNetConfig(num_labels=1000, **(narrow if small else {}))
    return ResNetForImageClassification(config), {"pixel_values": torch.randn(1, 3, size, size)}


MODELS: dict[str, Callable[[bool], tuple[torch.nn.Module, dict[str, torch.Tensor]]]] = {
    "bert_base": bert_base,
    "resnet50": resnet50,
    "vit_base": vit_base,
    "gpt2": gpt2,
}


@dataclass(frozen=True)
class Figures:
    """What one model's run gave, and under which conditions."""

    name: str
    size: str
    parameters: int
    pcc_asked: float
    start_ns: int
    greedy_ns: int
    tuned_ns: int
    bound_ns: int
    gap: float
    start_pcc: float
    greedy_pcc: float
    own_pcc: float
    held_out_pcc: float
    decisions: int
    values: int
    found_by: str
    solver: str
    numerics: str
    notes: tuple[str, ...]
    minutes: float
    processor_minutes: float
    """Of this search and of those before it that were stopped."""
    threads: int
    torch_version: str
    processor: str
    steps_ns: int | None = None
    """What single changes lead to over the solver's own decisions, by the same tables and the same sum of errors."""
    check_minutes: float | None = None
    holds: bool | None = None
    """Whether the checker finds nothing wrong with it."""
    wrong: tuple[str, ...] = ()
    tampered: tuple[tuple[str, str], ...] = ()
    """What was changed in the certificate, and what the checker says first; nothing where it was not noticed."""

    @property
    def against_greedy(self) -> str:
        """How much quicker, where the greedy search finds anything that keeps the budget."""
        kept = self.greedy_pcc >= self.pcc_asked
        return f"{self.greedy_ns / self.tuned_ns:.3f} ×" if kept else "greedy finds nothing within the budget"


def model_of(name: str, small: bool, pcc: float) -> Model:
    torch.manual_seed(0)
    module, inputs = MODELS[name](small)
    call: Call = ((), dict(inputs))
    start = Settings(precision="bfloat16", memory="dram", trace=True, pcc=pcc)
    return Model(module.eval(), call, "sim:n150", start)


def figures(name: str, model: Model, small: bool, found: Certificate, wall: float, processor: float) -> Figures:
    values = sum(e is not None for w in found.decisions for e in w.errors[1:])
    parameters = sum(p.numel() for p in model.module.parameters())
    greedy, greedy_pcc = found.greedy_ns or found.start_ns, found.greedy_pcc or found.start_pcc
    return Figures(
        name, "small" if small else "true", parameters, found.pcc,
        found.start_ns, greedy, found.verified_ns, found.bound_ns, found.gap,
        found.start_pcc, greedy_pcc, found.verified_pcc[0], min(found.verified_pcc[1:]),
        len(found.decisions), values, found.found_by, found.solver, found.numerics, found.notes,
        wall / 60, processor / 60, torch.get_num_threads(), torch.__version__, platform.machine(),
    )  # fmt: skip


def tamperings(c: Certificate) -> dict[str, Certificate]:
    """Certificates that claim too much. All but the first are sealed anew, as someone who knows how would."""
    other = next((d for d, w in enumerate(c.decisions) if w.chosen), None)
    changed = {
        "one digit, the seal left": replace(c, verified_ns=c.verified_ns - 1),
        "a time 1 % shorter": replace(c, verified_ns=round(0.99 * c.verified_ns)).sealed(),
        "a start 1 % slower": replace(c, start_ns=round(1.01 * c.start_ns)).sealed(),
        "a PCC that is higher": replace(c, verified_pcc=(*c.verified_pcc[:-1], 0.5 + c.verified_pcc[-1] / 2)).sealed(),
    }
    if other is not None:
        rows = tuple(replace(w, chosen=0) if d == other else w for d, w in enumerate(c.decisions))
        changed["one decision taken back"] = replace(c, decisions=rows).sealed()
    return changed


def say(row: Figures) -> str:
    ms = {"start": row.start_ns, "greedy": row.greedy_ns, "step by step": row.steps_ns, "tuned": row.tuned_ns,
          "bound": row.bound_ns}  # fmt: skip
    said = ", ".join(f"{what} {ns / 1e6:.4f} ms" for what, ns in ms.items() if ns is not None)
    lines = [
        f"{row.name} ({row.size} size): {said}",
        f"  against greedy: {row.against_greedy}; gap to the proven bound {row.gap:.2%}",
        f"  PCC {row.own_pcc:.5f} on its own inputs, {row.held_out_pcc:.5f} on held-out ones, {row.pcc_asked} asked",
        f"  {row.decisions} decisions, {row.values} values measured ({row.numerics}), found by {row.found_by}",
        f"  {row.minutes:.1f} min wall, {row.processor_minutes:.1f} min of processor, {row.threads} threads",
    ]
    if row.holds is not None:
        lines.append(f"  checker: {'holds' if row.holds else '; '.join(row.wrong)} ({row.check_minutes:.1f} min)")
        lines += [f"  changed ({what}): {heard or 'NOT NOTICED'}" for what, heard in row.tampered]
    return "\n".join(lines)


def step_by_step(c: Certificate, model: Model) -> int:
    """Greedy in the solver's own space; of the placements the best."""
    ways = ways_of(model, c.start, cure=False)
    tables = (Times.of(graphs, c.problem.decisions, model.chip, settings).tables for settings, graphs in ways)
    return min(_walked(replace(c.problem, tables=t)) for t in tables)


def _walked(problem: Problem) -> int:
    """Of all changes of one decision that the errors' sum allows, the one that saves the most, until none saves."""
    rows = [(t.scope, dict(t.rows), t.count) for t in problem.tables]
    now = dict.fromkeys(range(len(problem.decisions)), 0)

    def saves(change: tuple[int, int]) -> int:
        then, saved = {**now, change[0]: change[1]}, 0
        for scope, known, count in (row for row in rows if change[0] in row[0]):
            after = known.get(tuple(then[i] for i in scope))
            if after is None:
                return 0
            saved += count * (known[tuple(now[i] for i in scope)] - after)
        return saved if all(e <= problem.budget for e in problem.error(then)) else 0

    while problem.errors and saves(best := max(problem.errors, key=saves)) > 0:
        now[best[0]] = best[1]
    return sum(count * known[tuple(now[i] for i in scope)] for scope, known, count in rows)


@dataclass
class Spent:
    """Processor and wall time of a search, over all the runs that it took."""

    path: Path
    wall_s: float = 0.0
    processor_s: float = 0.0

    def __post_init__(self) -> None:
        if self.path.is_file():
            self.wall_s, self.processor_s = read_json(self.path)
        self.began = time.perf_counter() - self.wall_s, time.process_time() - self.processor_s

    def now(self) -> tuple[float, float]:
        both = time.perf_counter() - self.began[0], time.process_time() - self.began[1]
        self.path.write_text(json.dumps(both))
        return both


def run(name: str, folder: Path, small: bool, pcc: float, minutes: float) -> Figures:
    """Search and replay; each is left out where its result lies in the folder already."""
    row_file, certificate = folder / f"{name}-figures.json", folder / f"{name}.json"
    row = from_json(Figures, read_json(row_file)) if row_file.is_file() else None
    spent = Spent(folder / f"{name}-spent.json")
    model = model_of(name, small, pcc)
    if row is None:

        def note(said: str) -> None:
            print(f"  {name} {spent.now()[1]:6.0f} s of processor  {said}", flush=True)

        def keep(certificate_now: Certificate) -> None:
            note(f"verified: {certificate_now.verified_ns / 1e6:.4f} ms, by {certificate_now.found_by}")
            certificate.write_text(json.dumps(to_json(certificate_now), indent=1) + "\n")

        kept = folder / f"{name}-measured.json"
        found = tune(model, Options(minutes=minutes, kept=kept, note=note, better=keep), name=name)
        keep(found)
        (folder / f"{name}.txt").write_text(text(name, found) + "\n")
        row = figures(name, model, small, found, *spent.now())
        row_file.write_text(json.dumps(to_json(row), indent=1) + "\n")
        print(say(row), flush=True)
        model = model_of(name, small, pcc)  # the checker starts from the model and the file alone
    if row.steps_ns is None:
        row = replace(row, steps_ns=step_by_step(read(certificate), model))
        row_file.write_text(json.dumps(to_json(row), indent=1) + "\n")
    if row.holds is None:
        began, told = time.process_time(), read(certificate)
        wrong = tuple(faults(told, model, seed=1))
        heard = tuple((what, next(iter(faults(c, model)), "")) for what, c in tamperings(told).items())
        minutes = (time.process_time() - began) / 60
        row = replace(row, check_minutes=minutes, holds=not wrong, wrong=wrong, tampered=heard)
        row_file.write_text(json.dumps(to_json(row), indent=1) + "\n")
    return row


NAMES = {"bert_base": "BERT-Base, sequence 128", "resnet50": "ResNet-50, 224 × 224",
         "vit_base": "ViT-Base, 224 × 224", "gpt2": "GPT-2, sequence 64"}  # fmt: skip
MARKS = "<!-- tests/bench/tune.py -->\n", "<!-- end -->"


def table(folder: Path) -> str:
    """The rows of a folder as Markdown, with what the searches noted."""
    paths = [folder / f"{name}-figures.json" for name in MODELS]
    rows = [from_json(Figures, read_json(path)) for path in paths if path.is_file()]
    lines = [
        "| model | start | greedy | step by step | tune | against greedy | proven bound | gap | PCC, own inputs "
        "| PCC, held out | relative L2 | decisions, values | found by | processor minutes | certificate |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|---:|---|",
    ]
    for r in rows:
        times = r.start_ns, r.greedy_ns, r.steps_ns, r.tuned_ns, r.bound_ns
        start, greedy, steps, tuned, bound = (f"{ns / 1e6:.3f} ms" if ns is not None else "" for ns in times)
        noticed = sum(bool(heard) for _, heard in r.tampered)
        holds = {None: "not replayed", True: "holds", False: "does not hold: " + "; ".join(r.wrong)}[r.holds]
        replayed = f"{holds}; {noticed} of {len(r.tampered)} changed ones rejected" if r.tampered else holds
        furthest = max(call.l2 for call in read(folder / f"{r.name}.json").calls)
        lines.append(
            f"| {NAMES[r.name]} | {start} | {greedy} | {steps} | {tuned} | {r.against_greedy} | {bound} | {r.gap:.2%} "
            f"| {r.own_pcc:.5f} | {r.held_out_pcc:.5f} | {furthest:.4f} | {r.decisions}, {r.values} | {r.found_by} "
            f"| {r.processor_minutes:.1f} | {replayed} |"
        )
    notes = [f"- {NAMES[r.name]}: {note}." for r in rows for note in r.notes]
    return "\n".join([*lines, "", *notes] if notes else lines)


def put(page: Path, text: str) -> None:
    """A table into a page, in place of the one between the marks."""
    before, mark, rest = page.read_text().partition(MARKS[0])
    _, end, after = rest.partition(MARKS[1])
    if not mark or not end:
        raise SystemExit(f"{page} has no {MARKS[0].strip()} … {MARKS[1].strip()}.")
    page.write_text(f"{before}{mark}{text}\n{end}{after}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(MODELS), help=f"of {', '.join(MODELS)}")
    parser.add_argument("-o", dest="folder", type=Path, default=Path("tuned-bench"))
    parser.add_argument("--pcc", type=float, default=0.99)
    parser.add_argument("--minutes", type=float, default=30.0, help="after which no more errors are measured")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--page", type=Path, metavar="FILE", help="puts the table of -o DIR there; runs nothing")
    options = parser.parse_args()
    if options.page:
        put(options.page, table(options.folder))
        return
    torch.set_num_threads(options.threads)
    options.folder.mkdir(parents=True, exist_ok=True)
    for name in options.names:
        print(say(run(name, options.folder, options.small, options.pcc, options.minutes)), flush=True)


if __name__ == "__main__":
    main()
