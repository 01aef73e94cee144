"""Asks the solver and runs what it answers, round by round: what a run shows goes into the next question."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from proveout.tune.account import Verified
from proveout.tune.solve import Problem, Solved, solve
from proveout.tune.space import Assignment, start_of
from proveout.tune.structures import Structure
from proveout.tune.verify import Verifier

ROUNDS = 8
"""Combinations that are verified, at most."""
SMALLER = 6
"""Of a cure: how many with fewer changes are run although their errors add up to too much."""
HALF = 0.5
"""Of the error budget, after a combination failed in what no sum of errors says: too many rows have another largest
element, or an output is not finite."""
MISSED = 0.98
"""Of what would have been enough: else the next combination fails by as little."""
WORTH, MOST = 1.05, 4.0
"""By how much the errors' sum must be off for another round with it put right, and how far that goes at once."""


@dataclass
class SearchState:
    """The best that was verified so far, and what the solver has proven."""

    best: Verified | None
    budget: float
    """What the sum of errors was held to when the bound was proven."""
    solved: Solved = Solved("unknown")
    refuted: list[Assignment] = field(default_factory=list)
    unfit: list[Assignment] = field(default_factory=list)
    smaller: int = 0


@dataclass(frozen=True)
class Rounds:
    """One search's way to ask."""

    verifier: Verifier
    seed: int
    note: Callable[[str], None]
    better: Callable[[SearchState], None]
    """Is handed every outcome whose best is quicker than the one before."""

    def quickest(self, structures: Sequence[Structure], problem: Problem, best: Verified | None) -> SearchState:
        """The quickest combination that keeps the budget when it is run. It ends when no round is worth its time, or
        when there is none left; what was verified by then stays."""
        out = SearchState(best, problem.budget)
        scale, widest = 1.0, problem.budget
        for _ in range(ROUNDS):
            out.budget = problem.budget * scale
            posed = replace(problem, budget=out.budget, refuted=out.refuted, excluded=out.unfit)
            answers, out.solved = self._asked(structures, posed, out.best)
            solved = [a for a in answers if a[0].status in ("optimal", "feasible")]
            if not solved:
                break
            answer, structure = min(solved, key=lambda a: a[0].ns)
            if out.best is not None:
                late = self.verifier.watch.left_s < self.verifier.candidate_s
                if answer.ns >= out.best.ns or late:
                    break
            elif self.verifier.watch.left_s < 0:
                break
            self.note(f"verifying {answer.ns / 1e6:.4f} ms")
            candidate = self.verifier.candidate(structure, posed, answer)
            if candidate is None:
                out.unfit.append(answer.assignment)
            elif not self.verifier.good(candidate):
                out.refuted.append(answer.assignment)
                explained = problem.budget < candidate.error < 1
                scale *= MISSED * problem.budget / candidate.error if explained else HALF
            else:
                widest = max(widest, out.budget)
                if out.best is None or candidate.ns < out.best.ns:
                    out.best = candidate
                    self.better(out)
                off = min(problem.budget / candidate.error, MOST) if candidate.error > 0 else MOST
                if off < WORTH or out.refuted:
                    break
                scale *= off
        if out.budget < widest:  # the bound is of the whole budget, not of the part that rounds backed off to
            out.budget = widest
            posed = replace(problem, budget=widest, refuted=out.refuted, excluded=out.unfit)
            out.solved = self._asked(structures, posed, out.best)[1]
        return out

    def _asked(
        self, structures: Sequence[Structure], problem: Problem, best: Verified | None
    ) -> tuple[list[tuple[Solved, Structure]], Solved]:
        """The answer for each placement that can be quicker than the best, and what they prove together."""
        answers: list[tuple[Solved, Structure]] = []
        hint = start_of(problem.decisions, best.settings) if best is not None else None
        for structure in structures:
            if best is None or structure.times.least_ns() < best.ns or not answers:
                posed = replace(problem, tables=structure.times.tables)
                answers.append((self._solve(posed, hint), structure))
        proven = all(a.status in ("optimal", "infeasible") for a, _ in answers)
        known = [a.bound for a, _ in answers if a.status != "infeasible"]
        bound = max(0.0, min(known, default=float(best.ns) if best is not None else 0.0))
        return answers, Solved("optimal" if proven else "feasible", bound=bound)

    def bound(self, structures: Sequence[Structure], problem: Problem, outcome: SearchState) -> float:
        """What is proven when values without a measured error are taken to cost none."""
        free = replace(problem.relaxed(), budget=outcome.budget, refuted=outcome.refuted, excluded=outcome.unfit)
        return self._asked(structures, free, outcome.best)[1].bound

    def cured(self, structure: Structure, problem: Problem) -> SearchState:
        """The fewest changes that bring a failing model back into its budget."""
        problem = replace(problem, tables=structure.times.tables)
        out = SearchState(None, problem.budget)
        for _ in range(ROUNDS):
            posed = replace(problem, refuted=out.refuted)
            out.solved = self._solve(posed, goal="fewest")
            if out.solved.status not in ("optimal", "feasible"):
                # By their sum nothing is enough; what is furthest down may be all the same.
                out.solved = self._solve(replace(posed, budget=1.0), goal="error")
                if not out.solved.assignment:
                    break
            candidate = self.verifier.candidate(structure, problem, out.solved)
            if candidate is not None and self.verifier.good(candidate):
                out.best = candidate
                break
            out.refuted.append(out.solved.assignment)
        tried: list[Assignment] = list(out.refuted)
        while out.best is not None and len(out.best.assignment) > 1:
            again = self._smaller(structure, problem, len(out.best.assignment) - 1, tried, out)
            if again is None:
                break
            out.best = again
        return out

    def _smaller(
        self, structure: Structure, problem: Problem, most: int, tried: list[Assignment], out: SearchState
    ) -> Verified | None:
        """A cure of fewer changes, although their errors add up to too much."""
        for _ in range(SMALLER):
            answer = self._solve(replace(problem, budget=1.0, excluded=tried), goal="error", at_most=most)
            if answer.status not in ("optimal", "feasible") or not answer.assignment:
                return None
            tried.append(answer.assignment)
            candidate = self.verifier.candidate(structure, problem, answer)
            if candidate is not None and self.verifier.good(candidate):
                return candidate
            out.smaller += 1
        return None

    def _solve(self, problem: Problem, hint: Assignment | None = None, **how: Any) -> Solved:
        return solve(problem, hint=hint, seed=self.seed, seconds=self.verifier.watch.solver_s, **how)
