"""From a model to a certificate: what can be decided, what each decision costs, the best combination, verified."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from proveout.coding import digest
from proveout.compiler.program_passes.decide import computing_choices
from proveout.errors import ProveoutError, UsageError
from proveout.settings import Decided
from proveout.tune import account, greedy
from proveout.tune.account import Verified
from proveout.tune.certificate import Certificate, Goal, Rejected
from proveout.tune.errors import Errors, Graph, Measurements, Numerics, Off, multiplications
from proveout.tune.model import Model
from proveout.tune.rounds import Rounds, SearchState
from proveout.tune.solve import Problem
from proveout.tune.space import EXACT_EITHER_WAY, Assignment, Times, decisions_of, settings_with
from proveout.tune.structures import LEAST_GAIN, Structure, ways_of, worthwhile
from proveout.tune.verify import Costs, Verifier, Watch
from proveout.types import Settings

FAITHFUL_FLOPS = 5e10
"""Above this a call is not computed by the chip's own rules: it takes too long."""
QUICK_FLOPS = 1e9
"""Above this the greedy search computes in bfloat16, and what it finds is verified by the chip's rules."""
HELD_OUT = 2
GREEDY_SHARE = 1 / 3
"""Of the time, at most: the rest is for the errors of single decisions and for the solver."""
LAST = 3
"""Combinations that there is to be time to verify when measuring ends, if that is at most half of what is left."""
WIDE_SUMS: tuple[str, Decided, str] = ("*:*", "accumulate", "float32")
"""Of every op: where a search begins whose own start does not keep the budget."""
Known = Mapping[tuple[int, int], Errors]
"""What each value of each decision adds to each output, as far as it was measured."""


@dataclass(frozen=True)
class Options:
    """What a search is asked."""

    goal: Goal = "faster"
    minutes: float = 30.0
    top1: float = 0.0
    """Share of rows of scores whose largest element must stay the same, beside the PCC; 0 where that is not asked."""
    greedy: bool = True
    least_gain: float = LEAST_GAIN
    """Share of the time below which a change is not worth its error, nor ops that differ from others like them."""
    solver: bool = True
    """Without it the greedy search alone decides, and nothing is proven."""
    kept: Path | None = None
    """A file for measurements: what is there is not measured again."""
    note: Callable[[str], None] = lambda text: None
    better: Callable[[Certificate], None] = lambda certificate: None
    """Is handed the certificate of whatever was verified, each quicker than the one before: a search that is ended from
    outside leaves the last of them."""


def tune(model: Model, options: Options, *, name: str = "", script: str = "") -> Certificate:
    """The quickest settings within the budget, or the smallest change that brings a failing model back into it."""
    return _Search(model, options, name, script).run()


class _Search:
    def __init__(self, model: Model, options: Options, name: str, script: str) -> None:
        self.model, self.options, self.start = model, options, model.start
        self.name, self.script = name, script
        self.watch = Watch.of(options.minutes)
        self.notes: list[str] = []
        self.left_out_ns = 0
        """What values that were not weighed could save at most, one by one."""
        self.small: list[Rejected] = []
        flops = sum(multiplications(g.program) for g in model.compiled(self.start).graphs)
        self.numerics: Numerics = "faithful" if flops <= FAITHFUL_FLOPS else "fast"
        if self.numerics == "fast":
            self.notes.append(
                f"{flops / 1e9:.0f} GFLOP a call: too many for the chip's own rules, so errors are of bfloat16 and "
                "block floats alone, and math fidelity is not decided"
            )
        self.quick = flops <= QUICK_FLOPS
        self.measured = Measurements(options.kept, digest([model.seal(), self.numerics]))
        self.verifier = Verifier(
            model, self.numerics, HELD_OUT if self.quick else 1, self.start.pcc, options.top1, self.measured, self.watch
        )
        self.by_steps: Verified | None = None
        self.steps: tuple[greedy.Trial, ...] = ()
        self.problem = Problem((), (), {}, (), 1 - self.start.pcc**2, self.start.queues)

    def run(self) -> Certificate:
        cure = self.options.goal == "cure"
        self.first = self._begun(cure)
        self.structures = self._structures(cure)
        self.decisions = self.structures[0].times.decisions if self.options.solver else ()
        best = self.first if self.verifier.good(self.first) else None
        if self.options.greedy and not cure:
            self.by_steps, self.steps = self._greedy()
            best = min((f for f in (best, self.by_steps) if f is not None), key=lambda f: f.ns, default=None)
        self.problem = replace(self.problem, decisions=self.decisions)
        if best is not None:
            self._better(SearchState(best, self.problem.budget))
        if not self.options.solver:
            self.notes.append(
                "OR-Tools is not installed: the greedy search alone decided (pip install 'proveout[tune]')"
            )
            return self._certificate(SearchState(best, self.problem.budget))
        graphs = self._loaded(self.structures[0].settings)
        noise, drift = self._whole(graphs)
        self.problem = replace(self.problem, start=noise, start_drift=drift)
        errors, drifts = self._errors(graphs, self.structures[0].times)
        problem = self.problem = replace(self.problem, errors=errors, drifts=drifts)
        del graphs
        rounds = Rounds(self.verifier, self.start.seed, self.options.note, self._better)
        if not cure:
            outcome = rounds.quickest(self.structures, problem, best)
            if len(problem.errors) < sum(len(d.values) - 1 for d in self.decisions):
                outcome.solved = replace(outcome.solved, bound=rounds.bound(self.structures, problem, outcome))
            return self._certificate(outcome)
        outcome = rounds.cured(self.structures[0], problem)
        if outcome.best is None:
            raise ProveoutError(
                f"no combination of {len(self.decisions)} decisions brings the PCC from {self.first.pcc:.6f} to "
                f"{self.start.pcc}. Look where the error comes from: proveout explain."
            )
        return self._certificate(outcome)

    def _better(self, outcome: SearchState) -> None:
        self.options.better(self._certificate(outcome, "ended from outside before all was tried; what is here holds"))

    def _certificate(self, outcome: SearchState, *notes: str) -> Certificate:
        """What is known now. A best that does not keep the budget is the start, and says so."""
        cure, best, decisions = self.options.goal == "cure", outcome.best or self.first, self.decisions
        times = self.structures[0].times
        changed = sum(1 for v in best.assignment.values() if v)
        floor = min(s.times.least_ns() for s in self.structures)
        bound_ns = floor if cure else max(floor, math.floor(outcome.solved.bound) - self.left_out_ns)
        return Certificate(
            goal=self.options.goal,
            model=self.name,
            script=self.script,
            data=self.model.seal(),
            device=self.model.device,
            pcc=self.start.pcc,
            top1=self.options.top1,
            seed=self.start.seed,
            held_out=self.verifier.held_out,
            numerics=self.numerics,
            verified_numerics=self.numerics,
            start=self.start,
            settings=best.settings,
            programs=tuple(g.program.fingerprint for g in self.model.planned(best.settings) or ()),
            decisions=tuple(account.weighed(decisions, times, self.problem, best.assignment)),
            start_error=self.problem.start,
            start_drift=self.problem.start_drift,
            budget_error=outcome.budget,
            start_ns=self.first.ns,
            start_pcc=self.first.pcc,
            greedy=self.by_steps.settings if self.by_steps else None,
            greedy_ns=self.by_steps.ns if self.by_steps else None,
            greedy_pcc=self.by_steps.pcc if self.by_steps else None,
            found_by=best.by,
            predicted_ns=best.predicted_ns,
            predicted_error=best.predicted,
            verified_ns=best.ns,
            verified_pcc=tuple(call.pcc for call in best.calls),
            verified_l2=tuple(call.l2 if math.isfinite(call.l2) else None for call in best.calls),
            verified_top1=tuple(call.top1 for call in best.calls),
            bound_ns=min(bound_ns, best.ns),
            floor_ns=min(floor, best.ns),
            changes=changed,
            fewest_changes=changed if cure and outcome.solved.status == "optimal" else 0,
            smaller_refuted=outcome.smaller,
            rejected=(
                *account.rejected(decisions, times, self.problem, best),
                *sorted(self.small, key=lambda r: -r.saves_ns),
            ),
            notes=(*self.notes, *notes),
            path=tuple(account.path(self.structures, self.problem, best, self.first, self.steps)),
            refuted=tuple(_vector(a, len(decisions)) for a in outcome.refuted),
            unfit=tuple(_vector(a, len(decisions)) for a in outcome.unfit),
            solver=f"OR-Tools CP-SAT, {outcome.solved.status}" if self.options.solver else "",
            num_hosted=self.model.num_hosted,
        ).sealed()

    # ------------------------------------------------------------------------------------------- the start

    def _begun(self, cure: bool) -> Verified:
        """The start as it runs. Where it is too far off, sums in float32 throughout are tried first: the greedy search
        and the solver both begin there, if that is enough."""
        first = self._ran(self.start)
        if first is None:
            raise UsageError("the model does not compile or fit under the settings that the search starts from.")
        if cure and self.verifier.good(first):
            raise UsageError(
                f"there is nothing to cure: the lowest PCC is {first.pcc:.6f} and {self.start.pcc} is asked. "
                "Leave --cure out to make the model faster, or ask for more with --pcc."
            )
        if cure or self.verifier.good(first):
            return first
        exact = replace(self.start, per_op=(*self.start.per_op, WIDE_SUMS))
        again = self._ran(exact)
        if again is None or not self.verifier.good(again):
            return first
        self.notes.append(
            f"as it was asked for ({first.ns / 1e6:.3f} ms) the model is too far off; with sums in float32 throughout "
            f"({again.ns / 1e6:.3f} ms) it is not, and both searches begin there"
        )
        self.start = exact
        return again

    def _ran(self, settings: Settings) -> Verified | None:
        ns = self.model.ns(settings)
        if ns is None:
            return None
        return Verified(settings, ns, self.verifier.calls(settings), "start", predicted_ns=ns)

    def _greedy(self) -> tuple[Verified | None, tuple[greedy.Trial, ...]]:
        """One change after another: what the solver must not fall behind."""
        self.options.note("greedy search")
        stop_s = self.watch.left_s - GREEDY_SHARE * 60 * self.options.minutes
        tuned = greedy.search(
            self.start, Costs(self.verifier, self.quick, lambda: self.watch.left_s > stop_s), self.start.pcc
        )
        late = sum(t.verdict == "out of time" for t in tuned.trials)
        if late:
            self.notes.append(f"the greedy search was ended after its third of the time: {late} changes were not tried")
        while True:
            calls = self.verifier.calls(tuned.settings)
            candidate = Verified(tuned.settings, tuned.ns, calls, "greedy", predicted_ns=tuned.ns)
            if self.verifier.good(candidate):
                return candidate, tuned.kept
            if not tuned.kept or self.watch.left_s < self.verifier.candidate_s:
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
        decisions, self.left_out_ns, self.small = worthwhile(
            decisions, graphs, chip, settings, cure, self.options.least_gain
        )
        return [Structure(s, g, Times.of(g, decisions, chip, s)) for s, g in planned]

    # ------------------------------------------------------------------------------------------ the errors

    def _loaded(self, settings: Settings) -> list[Graph]:
        run = replace(settings, numerics=self.numerics)
        chip = self.model.chip
        return [Graph(loaded, inputs, chip, run, self.numerics) for loaded, inputs in self.model.loaded(run)]

    def _whole(self, graphs: Sequence[Graph]) -> tuple[Errors, Errors]:
        return self._kept(graphs, "whole", lambda graph: graph.whole())

    def _measured(
        self, graphs: Sequence[Graph], key: object, settings: Settings, ops: frozenset[str]
    ) -> tuple[Errors, Errors]:
        """With some ops alone as the settings have them."""
        return self._kept(graphs, key, lambda graph: graph.error(ops, settings))

    def _kept(
        self, graphs: Sequence[Graph], key: object, measure: Callable[[Graph], Sequence[Off]]
    ) -> tuple[Errors, Errors]:
        """Noise and drift of each output of all graphs."""
        programs = [g.program.fingerprint for g in graphs]
        both = self.measured.get(["off", programs, key], lambda: [x for g in graphs for o in measure(g) for x in o])
        return both[::2], both[1::2]

    def _errors(self, graphs: Sequence[Graph], times: Times) -> tuple[Known, Known]:
        """What each value adds to the noise and to the drift of each output, those that save the most first, as long as
        there is time to verify what comes of it. Where results lie changes no number."""
        decisions, plain = self.decisions, computing_choices(graphs[0].settings)
        noises: dict[tuple[int, int], Errors] = {}
        drifts: dict[tuple[int, int], Errors] = {}
        nothing = (0.0,) * sum(len(g.outputs) for g in graphs)
        todo = [(d, v) for d, one in enumerate(decisions) for v in range(1, len(one.values))]
        noises.update((dv, nothing) for dv in todo if decisions[dv[0]].about in EXACT_EITHER_WAY)
        drifts.update(noises)
        todo = sorted((dv for dv in todo if dv not in noises), key=lambda dv: times.ns({dv[0]: dv[1]}) or 0)
        reserved_s = min(LAST * self.verifier.candidate_s, self.watch.left_s / 2)
        for number, (d, v) in enumerate(todo):
            decision = decisions[d]
            if self.watch.left_s < max(reserved_s, 0.0):
                self.notes.append(f"out of time: {len(todo) - number} of {len(todo)} values were not measured")
                break
            self.options.note(f"error {number + 1} of {len(todo)}: {decision.said(v)}")
            ops = frozenset(decision.ops)
            before = self._measured(graphs, ["before", sorted(ops)], plain, ops)
            chosen, key = settings_with(plain, [decision], {0: v}), [sorted(ops), decision.about, decision.values[v]]
            try:
                after = self._measured(graphs, ["after", *key], chosen, ops)
            except (ProveoutError, RuntimeError, ValueError) as error:
                self.notes.append(f"{decision.said(v)}: {str(error).splitlines()[0]}")
                continue
            noises[d, v], drifts[d, v] = (tuple(a - b for a, b in zip(x, y)) for x, y in zip(after, before))
        return noises, drifts


def _vector(assignment: Assignment, size: int) -> tuple[int, ...]:
    return tuple(assignment.get(d, 0) for d in range(size))
