"""The quickest combination of decisions within an error budget, and a proven bound, by OR-Tools' CP-SAT."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from proveout.errors import EnvironmentFault
from proveout.tune.space import Assignment, Decision, Table

STEPS = 10**4
UNITS = STEPS**2
"""An error budget in whole numbers, and its root; each noise is rounded up, so that what is found keeps the budget.
With a budget of 10¹⁰ units the presolve of CP-SAT 9.15 lost solutions, and what it proved did not hold."""
WITHOUT = 10**11
"""More than any budget: of a value whose error is not known or not finite."""
FARTHEST = 10**6
"""Drifts beyond this many steps are as bad: their squares must stay whole numbers that a solver can add."""


@dataclass(frozen=True)
class Problem:
    """Decisions with what they cost."""

    decisions: Sequence[Decision]
    tables: Sequence[Table]
    errors: Mapping[tuple[int, int], tuple[float, ...]]
    """(decision, value) to what it adds to the noise of each output; missing: the value is not to be had."""
    start: tuple[float, ...]
    """The noise of each output with nothing decided."""
    budget: float
    """The most that each output's error, its noise and the square of its drift, may be."""
    queues: int = 1
    refuted: Sequence[Assignment] = ()
    """Found to be further off than their errors say: others must be better in at least one decision."""
    excluded: Sequence[Assignment] = ()
    """Not to be given again."""
    drifts: Mapping[tuple[int, int], tuple[float, ...]] = field(default_factory=dict)
    """(decision, value) to what it adds to the logarithm of each output's scale; missing: nothing."""
    start_drift: tuple[float, ...] = ()

    def error(self, assignment: Assignment) -> tuple[float, ...]:
        """As the sum of its parts."""
        chosen = [(d, v) for d, v in assignment.items() if v]
        noises = added(self.start, [self.errors[dv] for dv in chosen])
        drifts = added(self.start_drift, [self.drifts[dv] for dv in chosen if dv in self.drifts])
        return tuple(max(0.0, n) + d * d for n, d in zip(noises, drifts or (0.0,) * len(noises)))

    def relaxed(self) -> Problem:
        """With every value to be had, so that no bound is too high: what is not known of a value's noise is nothing,
        and where a drift is not known, which could undo all others, none counts."""
        nothing = (0.0,) * len(self.start)
        every = [(d, v) for d, decision in enumerate(self.decisions) for v in range(1, len(decision.values))]
        known = all(one in self.errors for one in every)
        return replace(
            self,
            errors={one: self.errors.get(one, nothing) for one in every},
            start_drift=self.start_drift if known else (),
        )

    def alone(self, d: int, v: int) -> float:
        """A value's own error, over all outputs: what is more exact has less."""
        return sum(self.errors.get((d, v), ())) + sum(x * x for x in self.drifts.get((d, v), ()))


def added(start: tuple[float, ...], parts: Sequence[tuple[float, ...]]) -> tuple[float, ...]:
    """Output by output."""
    return tuple(s + sum(p[k] for p in parts) for k, s in enumerate(start))


@dataclass(frozen=True)
class Solved:
    """What the solver says."""

    status: Literal["optimal", "feasible", "infeasible", "unknown"]
    assignment: dict[int, int] = field(default_factory=dict)
    ns: int = 0
    bound: float = 0.0
    """Proven: no assignment within the budget costs less. Of other goals it is in their own units."""


def solve(
    problem: Problem,
    *,
    goal: Literal["time", "fewest", "error"] = "time",
    at_most: int | None = None,
    hint: Assignment | None = None,
    seconds: float = 60.0,
    seed: int = 0,
    at_most_ns: int | None = None,
) -> Solved:
    """The quickest assignment within the budget; the quickest among those that change the `fewest` decisions; or the
    one of the smallest `error`. `at_most` limits how many decisions change."""
    cp = _cp_model()
    model = cp.CpModel()
    choice = [
        [model.new_bool_var(f"d{d}v{v}") for v in range(len(decision.values))]
        for d, decision in enumerate(problem.decisions)
    ]
    index = []
    for d, literals in enumerate(choice):
        model.add_exactly_one(literals)
        index.append(model.new_int_var(0, len(literals) - 1, f"d{d}"))
        model.add(index[d] == sum(v * literal for v, literal in enumerate(literals)))
        for v, literal in enumerate(literals):
            if v and (d, v) not in problem.errors:
                model.add(literal == 0)
    spent = _limit_errors(model, problem, choice)
    kernels, transfers = _times(model, problem, choice, index)
    if problem.queues == 2:
        total = model.new_int_var(0, 2**60, "total")
        model.add_max_equality(total, [kernels, transfers])
    else:
        total = kernels + transfers
    if at_most_ns is not None:
        model.add(total <= at_most_ns)
    for refuted in problem.refuted:
        model.add_bool_or(_better(problem, choice, refuted))
    for excluded in problem.excluded:
        model.add_bool_or([~choice[d][excluded.get(d, 0)] for d in range(len(choice))])
    changed = sum(1 - literals[0] for literals in choice) if choice else 0
    largest = 1 + sum(t.count * max((ns for _, ns in t.rows), default=0) for t in problem.tables)
    if at_most is not None:
        model.add(changed <= at_most)
    goals = {"time": total, "fewest": changed * largest + total, "error": spent}
    model.minimize(goals[goal])
    for d, literals in enumerate(choice):
        for v, literal in enumerate(literals):
            model.add_hint(literal, int((hint or {}).get(d, 0) == v))
    solver = cp.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = seed
    status = solver.solve(model)
    if status in (cp.OPTIMAL, cp.FEASIBLE):
        assignment = {d: v for d in range(len(choice)) if (v := solver.value(index[d]))}
        name: Any = "optimal" if status == cp.OPTIMAL else "feasible"
        return Solved(name, assignment, int(solver.value(total)), solver.best_objective_bound)
    return Solved("infeasible" if status == cp.INFEASIBLE else "unknown", bound=solver.best_objective_bound)


def _limit_errors(model: Any, problem: Problem, choice: list[list[Any]]) -> Any:
    """Every output's error is within the budget; their sum, in units of it."""
    whole: list[Any] = [0]
    for output, start in enumerate(problem.start):
        square = _squared_drift(model, problem, choice, output)
        left = math.floor((problem.budget - start) / problem.budget * UNITS) if problem.budget > 0 else 0
        terms = []
        for (d, v), errors in problem.errors.items():
            units = math.ceil(errors[output] / problem.budget * UNITS) if problem.budget > 0 else 0
            if units:
                terms.append(max(-WITHOUT, min(WITHOUT, units)) * choice[d][v])
        terms.append(square)
        model.add(sum(terms) <= left)
        whole += terms
    return sum(whole)


def _squared_drift(model: Any, problem: Problem, choice: list[list[Any]], output: int) -> Any:
    """In units of the budget."""
    if not problem.start_drift or problem.budget <= 0:
        return 0

    def steps(drift: float) -> int:
        return max(-FARTHEST, min(FARTHEST, round(drift / math.sqrt(problem.budget) * STEPS)))

    start = steps(problem.start_drift[output])
    terms = {dv: steps(drifts[output]) for dv, drifts in problem.drifts.items() if dv in problem.errors}
    terms = {dv: n for dv, n in terms.items() if n}
    if not terms:
        return start * start
    drift = model.new_int_var(-10 * FARTHEST, 10 * FARTHEST, f"drift{output}")
    model.add(drift == start + sum(n * choice[d][v] for (d, v), n in terms.items()))
    square = model.new_int_var(0, (10 * FARTHEST) ** 2, f"square{output}")
    model.add_multiplication_equality(square, [drift, drift])
    return square


def _times(model: Any, problem: Problem, choice: list[list[Any]], index: list[Any]) -> tuple[Any, Any]:
    """Time of kernels and of transfers, as sums over the tables."""
    total: dict[bool, list[Any]] = {False: [0], True: [0]}
    for number, table in enumerate(problem.tables):
        if not table.rows:
            model.add_bool_or([])  # a Step that cannot be had at all
        elif not table.scope:
            total[table.transfer].append(table.count * table.rows[0][1])
        elif len(table.scope) == 1:
            (d,) = table.scope
            known = {values[0]: ns for values, ns in table.rows}
            total[table.transfer] += [table.count * ns * choice[d][v] for v, ns in known.items()]
            for v in set(range(len(choice[d]))) - known.keys():
                model.add(choice[d][v] == 0)
        else:
            ns = model.new_int_var(min(ns for _, ns in table.rows), max(ns for _, ns in table.rows), f"t{number}")
            model.add_allowed_assignments(
                [*(index[d] for d in table.scope), ns], [(*values, cost) for values, cost in table.rows]
            )
            total[table.transfer].append(table.count * ns)
    return sum(total[False]), sum(total[True])


def _better(problem: Problem, choice: list[list[Any]], refuted: Assignment) -> list[Any]:
    """Literals of values with a smaller error than a refuted assignment's."""
    return [
        literal
        for d, literals in enumerate(choice)
        for v, literal in enumerate(literals)
        if problem.alone(d, v) < problem.alone(d, refuted.get(d, 0))
    ]


def _cp_model() -> Any:
    try:
        from ortools.sat.python import cp_model
    except ImportError as error:
        raise EnvironmentFault("the search needs OR-Tools. Install it with: pip install 'proveout[tune]'") from error
    return cp_model
