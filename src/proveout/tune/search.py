"""From a model to a certificate: what can be decided, what each decision costs, the best combination, verified."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from proveout.coding import digest
from proveout.errors import ProveoutError, UsageError
from proveout.tune import account, greedy
from proveout.tune.account import Found
from proveout.tune.certificate import Certificate, Goal
from proveout.tune.errors import Errors, Graph, Measurements, Numerics, multiplications
from proveout.tune.model import Model
from proveout.tune.solve import Problem, Solved, solve
from proveout.tune.space import Assignment, Decision, Times, decisions_of, settings_with
from proveout.tune.structures import Structure, ways_of, worthwhile
from proveout.types import Settings

FAITHFUL_FLOPS = 5e10
"""Above this a call is not computed by the chip's own rules: it takes too long."""
QUICK_FLOPS = 1e9
"""Above this the greedy search computes in bfloat16, and what it finds is verified by the chip's rules."""
HELD_OUT = 2
ROUNDS = 8
"""Combinations that are verified, at most."""
SMALLER = 6
"""Of a cure: how many with fewer changes are run although their errors add up to too much."""
HALF = 0.5
"""Of the error budget, after a combination kept the PCC and changed too many rows' largest elements."""
WORTH = 1.05
"""By how much the errors' sum must be off for another round with it put right."""


@dataclass(frozen=True)
class Options:
    """What a search is asked."""

    goal: Goal = "faster"
    minutes: float = 30.0
    top1: float = 0.0
    """Share of rows of scores whose largest element must stay the same, beside the PCC; 0 where that is not asked."""
    greedy: bool = True
    solver: bool = True
    """Without it the greedy search alone decides, and nothing is proven."""
    kept: Path | None = None
    """A file for measurements: what is there is not measured again."""
    note: Callable[[str], None] = lambda text: None


def tune(model: Model, options: Options, *, name: str = "", script: str = "") -> Certificate:
    """The quickest settings within the budget, or the smallest change that brings a failing model back into it."""
    return _Search(model, options).run(name, script)


class _Search:
    def __init__(self, model: Model, options: Options) -> None:
        self.model, self.options, self.start = model, options, model.start
        self.until = time.monotonic() + 60 * options.minutes
        self.notes: list[str] = []
        self.refuted: list[Assignment] = []
        self.unfit: list[Assignment] = []
        self.left_out_ns = 0
        """What values that were not weighed could save at most, one by one."""
        flops = sum(multiplications(g.program) for g in model.compiled(self.start).graphs)
        self.numerics: Numerics = "faithful" if flops <= FAITHFUL_FLOPS else "fast"
        if self.numerics == "fast":
            self.notes.append(
                f"{flops / 1e9:.0f} GFLOP a call: too many for the chip's own rules, so errors are of bfloat16 and "
                "block floats alone, and math fidelity is not decided"
            )
        self.quick = flops <= QUICK_FLOPS
        self.held_out = HELD_OUT if self.quick else 1
        self.measured = Measurements(options.kept, digest([model.seal(), self.numerics]))

    def run(self, name: str, script: str) -> Certificate:
        start_ns = self.model.ns(self.start)
        if start_ns is None:
            raise UsageError("the model does not compile or fit under the settings that the search starts from.")
        start = Found(self.start, start_ns, *self._closeness(self.start), "start", predicted_ns=start_ns)
        cure = self.options.goal == "cure"
        if cure and self._good(start):
            raise UsageError(
                f"there is nothing to cure: the lowest PCC is {min(start.pccs):.6f} and {self.start.pcc} is asked. "
                "Leave --cure out to make the model faster, or ask for more with --pcc."
            )
        by_steps, steps = self._greedy() if self.options.greedy and not cure else (None, ())
        structures = self._structures(cure)
        if not self.options.solver:
            self.notes.append(
                "OR-Tools is not installed: the greedy search alone decided (pip install 'proveout[tune]')"
            )
        decisions = structures[0].times.decisions if self.options.solver else ()
        graphs = self._loaded(structures[0].settings)
        base = self._whole(graphs)
        errors = self._errors(graphs, decisions, structures[0].times)
        problem = Problem(decisions, (), errors, base, 1 - self.start.pcc**2, self.start.queues)
        if cure:
            best, bound, smaller = self._cured(structures[0], problem)
            if best is None:
                raise ProveoutError(
                    f"no combination of {len(decisions)} decisions brings the PCC from {min(start.pccs):.6f} to "
                    f"{self.start.pcc}. Look where the error comes from: proveout explain."
                )
            last, budget = bound, problem.budget
        else:
            best, last, budget = self._quickest(structures, problem, start, by_steps)
            smaller = 0
        slack = self.left_out_ns + account.slack(structures[0].times, errors)
        changed = sum(1 for v in best.assignment.values() if v)
        floor = min(s.times.least_ns() for s in structures)
        bound_ns = floor if cure or not self.options.solver else max(floor, math.floor(last.bound) - slack)
        graphs_found = self.model.planned(best.settings) or ()
        return Certificate(
            goal=self.options.goal,
            model=name,
            script=script,
            data=self.model.seal(),
            device=self.model.device,
            pcc=self.start.pcc,
            top1=self.options.top1,
            seed=self.start.seed,
            held_out=self.held_out,
            numerics=self.numerics,
            verified_numerics=self.numerics,
            start=self.start,
            settings=best.settings,
            programs=tuple(g.program.fingerprint for g in graphs_found),
            decisions=tuple(account.weighed(decisions, structures[0].times, errors, best.assignment)),
            start_error=base,
            budget_error=budget,
            start_ns=start_ns,
            start_pcc=min(start.pccs),
            greedy_ns=by_steps.ns if by_steps else None,
            greedy_pcc=min(by_steps.pccs) if by_steps else None,
            found_by=best.by,
            predicted_ns=best.predicted_ns,
            predicted_error=best.predicted,
            verified_ns=best.ns,
            verified_pcc=best.pccs,
            verified_top1=best.top1,
            bound_ns=min(bound_ns, best.ns),
            floor_ns=min(floor, best.ns),
            changes=changed,
            fewest_changes=changed if cure and last.status == "optimal" else 0,
            smaller_refuted=smaller,
            rejected=tuple(account.rejected(decisions, structures[0].times, errors, best, base)),
            notes=tuple(self.notes),
            path=tuple(account.path(structures, errors, best, base, start, steps)),
            refuted=tuple(_vector(a, len(decisions)) for a in self.refuted),
            unfit=tuple(_vector(a, len(decisions)) for a in self.unfit),
            solver=f"OR-Tools CP-SAT, {last.status}" if self.options.solver else "",
        ).sealed()

    # ------------------------------------------------------------------------------------------- the start

    def _good(self, candidate: Found) -> bool:
        return candidate.keeps(self.start.pcc, self.options.top1)

    def _closeness(self, settings: Settings) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """PCC and top-1 agreement of the model's own call and of those held out, up to the first that fails."""
        run = replace(settings, numerics=self.numerics)
        pccs, top1 = [], []
        for number in range(1 + self.held_out):
            pcc, agreement = self._close(run, number)
            pccs.append(pcc)
            top1.append(agreement)
            if pcc < self.start.pcc or agreement < self.options.top1:
                break
        return tuple(pccs), tuple(top1)

    def _close(self, settings: Settings, number: int = 0) -> Errors:
        """Kept, as errors are."""
        return self.measured.get(["closeness", settings, number], lambda: self.model.closeness(settings, number))

    def _pcc(self, settings: Settings) -> float:
        """As the greedy search sees it: 0 where too many rows have another largest element."""
        pcc, top1 = self._close(settings)
        return pcc if top1 >= self.options.top1 else 0.0

    def _greedy(self) -> tuple[Found | None, tuple[greedy.Trial, ...]]:
        """One change after another: what the solver must not fall behind."""
        self.options.note("greedy search")
        costs = _Costs(self.model, self.numerics if self.quick else "fast", self._pcc)
        tuned = greedy.search(self.start, costs, self.start.pcc)
        while True:
            found = Found(tuned.settings, tuned.ns, *self._closeness(tuned.settings), "greedy", predicted_ns=tuned.ns)
            if self._good(found):
                return found, tuned.kept
            if not tuned.kept:
                return None, ()
            tuned = tuned.without_last()

    def _structures(self, cure: bool) -> list[Structure]:
        """The ways to place results and to cut products, the quickest first; of a cure, the one that there is."""
        planned = ways_of(self.model, self.start, cure)
        settings, graphs = planned[0]
        decisions = decisions_of(graphs, self.model.chip, settings)
        if self.numerics == "fast":
            decisions = [d for d in decisions if d.about not in ("fidelity", "accumulate")]
        chip = self.model.chip
        decisions, self.left_out_ns = worthwhile(decisions, graphs, chip, settings, cure)
        return [Structure(s, g, Times.of(g, decisions, chip, s)) for s, g in planned]

    # ------------------------------------------------------------------------------------------ the errors

    def _loaded(self, settings: Settings) -> list[Graph]:
        run = replace(settings, numerics=self.numerics)
        chip = self.model.chip
        return [Graph(loaded, inputs, chip, run, self.numerics) for loaded, inputs in self.model.loaded(run)]

    def _whole(self, graphs: Sequence[Graph]) -> Errors:
        programs = [g.program.fingerprint for g in graphs]
        return self.measured.get(["whole", programs], lambda: tuple(e for g in graphs for e in g.whole()))

    def _error(self, graphs: Sequence[Graph], ops: frozenset[str], settings: Settings, key: object) -> Errors:
        programs = [g.program.fingerprint for g in graphs]
        return self.measured.get([programs, key], lambda: tuple(e for g in graphs for e in g.error(ops, settings)))

    def _errors(
        self, graphs: Sequence[Graph], decisions: Sequence[Decision], times: Times
    ) -> dict[tuple[int, int], Errors]:
        """What each value adds to the error of each output. Where results lie changes no number."""
        out: dict[tuple[int, int], Errors] = {}
        nothing = (0.0,) * sum(len(g.outputs) for g in graphs)
        todo = [(d, v) for d, one in enumerate(decisions) for v in range(1, len(one.values))]
        todo.sort(key=lambda dv: times.ns({dv[0]: dv[1]}) or 0)
        for number, (d, v) in enumerate(todo):
            decision = decisions[d]
            if decision.about in ("memory", "config"):
                out[d, v] = nothing
                continue
            if time.monotonic() > self.until:
                self.notes.append(f"out of time: {len(todo) - number} of {len(todo)} values were not measured")
                break
            self.options.note(f"error {number + 1} of {len(todo)}: {decision.said(v)}")
            ops = frozenset(decision.ops)
            before = self._error(graphs, ops, replace(graphs[0].settings, per_op=()), ["before", sorted(ops)])
            chosen = settings_with(replace(graphs[0].settings, per_op=()), [decision], {0: v})
            try:
                after = self._error(graphs, ops, chosen, ["after", sorted(ops), decision.about, decision.values[v]])
            except (ProveoutError, RuntimeError, ValueError) as error:
                self.notes.append(f"{decision.said(v)}: {str(error).splitlines()[0]}")
                continue
            out[d, v] = tuple(a - b for a, b in zip(after, before))
        return out

    # ------------------------------------------------------------------------------------------ the search

    def _quickest(
        self, structures: Sequence[Structure], problem: Problem, start: Found, by_steps: Found | None
    ) -> tuple[Found, Solved, float]:
        good = [f for f in (start, by_steps) if f is not None and self._good(f)]
        best = min(good, key=lambda f: f.ns, default=start)
        refuted: list[Assignment] = []
        excluded: list[Assignment] = []
        scale, solved, budget = 1.0, Solved("unknown"), problem.budget
        for round_ in range(ROUNDS if self.options.solver else 0):
            budget = problem.budget * scale
            answers: list[tuple[Solved, int, Problem]] = []
            for i, structure in enumerate(structures):
                posed = replace(
                    problem, tables=structure.times.tables, budget=budget, refuted=refuted, excluded=excluded
                )
                if structure.times.least_ns() < best.ns or not answers:
                    answers.append((solve(posed, seed=self.start.seed, seconds=self._seconds()), i, posed))
            found = [a for a in answers if a[0].status in ("optimal", "feasible")]
            bound = min((a[0].bound for a in answers if a[0].status != "infeasible"), default=float(best.ns))
            solved = Solved("optimal" if all(a[0].status in ("optimal", "infeasible") for a in answers) else "feasible",
                            bound=bound)  # fmt: skip
            if not found:
                break
            answer, i, posed = min(found, key=lambda a: a[0].ns)
            if answer.ns >= best.ns or (time.monotonic() > self.until and round_):
                break
            self.options.note(f"verifying {answer.ns / 1e6:.4f} ms")
            candidate = self._verified(structures[i], posed, answer)
            if candidate is None:
                excluded.append(answer.assignment)
            elif not self._good(candidate):
                refuted.append(answer.assignment)
                if min(candidate.pccs) >= self.start.pcc:
                    scale *= HALF  # how far rows' largest elements are from others no sum of errors says
                elif candidate.error < 1:
                    scale = min(scale, scale * problem.budget / candidate.error)
            else:
                best = min(best, candidate, key=lambda f: f.ns)
                off = problem.budget / max(candidate.error, 1e-12) if candidate.error > 0 else 4.0
                if min(off, 4.0) < WORTH or refuted:
                    break
                scale *= min(off, 4.0)
        self.refuted, self.unfit = refuted, excluded
        return best, solved, budget

    def _verified(self, structure: Structure, problem: Problem, answer: Solved) -> Found | None:
        settings = settings_with(structure.settings, problem.decisions, answer.assignment)
        ns = self.model.ns(settings)
        if ns is None:
            return None
        predicted = problem.error(answer.assignment)
        return Found(settings, ns, *self._closeness(settings), "solver", answer.assignment, answer.ns, predicted)

    def _cured(self, structure: Structure, problem: Problem) -> tuple[Found | None, Solved, int]:
        problem = replace(problem, tables=structure.times.tables)
        refuted: list[Assignment] = []
        best, solved = None, Solved("unknown")
        for _ in range(ROUNDS):
            posed = replace(problem, refuted=refuted)
            solved = solve(posed, goal="fewest", seed=self.start.seed, seconds=self._seconds())
            if solved.status not in ("optimal", "feasible"):
                # By their sum nothing is enough; what is furthest down may be all the same.
                solved = solve(replace(posed, budget=1.0), goal="error", seed=self.start.seed, seconds=self._seconds())
                if not solved.assignment:
                    break
            found = self._verified(structure, problem, solved)
            if found is not None and self._good(found):
                best = found
                break
            refuted.append(solved.assignment)
        self.refuted = refuted
        tried: list[Assignment] = list(refuted)
        smaller = 0
        while best is not None and len(best.assignment) > 1:
            fewer = len(best.assignment) - 1
            again: Found | None = None
            for _ in range(SMALLER):
                posed = replace(problem, budget=1.0, excluded=tried)
                answer = solve(posed, goal="error", at_most=fewer, seed=self.start.seed, seconds=self._seconds())
                if answer.status not in ("optimal", "feasible") or not answer.assignment:
                    break
                tried.append(answer.assignment)
                found = self._verified(structure, problem, answer)
                if found is not None and self._good(found):
                    again = found
                    break
                smaller += 1
            if again is None:
                break
            best = again
        return best, solved, smaller

    def _seconds(self) -> float:
        return max(1.0, min(60.0, self.until - time.monotonic()))


def _vector(assignment: Assignment, size: int) -> tuple[int, ...]:
    return tuple(assignment.get(d, 0) for d in range(size))


class _Costs:
    """What the greedy search asks."""

    def __init__(self, model: Model, numerics: Numerics, pcc: Callable[[Settings], float]) -> None:
        self.model, self.numerics, self._pcc = model, numerics, pcc
        self._ns: dict[Settings, int | None] = {}

    def ns(self, settings: Settings) -> int | None:
        if settings not in self._ns:
            self._ns[settings] = self.model.ns(settings)
        return self._ns[settings]

    def pcc(self, settings: Settings) -> float:
        return self._pcc(replace(settings, numerics=self.numerics))

    def weights(self) -> dict[str, int]:
        return self.model.weights()
