"""Replays a certificate: every claim in it is made again from the model, by itself, and compared."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from proveout.compiler.program_passes.decide import computing_choices
from proveout.errors import ProveoutError
from proveout.tune import account
from proveout.tune.account import Verified
from proveout.tune.certificate import Certificate, assignment_of
from proveout.tune.errors import Graph
from proveout.tune.model import Close, Model
from proveout.tune.solve import Problem, solve
from proveout.tune.space import EXACT_EITHER_WAY, Decision, Times, decisions_of, settings_with
from proveout.tune.structures import Structure, ways_of
from proveout.types import Settings

SAME_PCC = 1e-6
SAME_ERROR = 0.02
"""Of an error that is measured again: sums in another order change its last digits."""
TINY_ERROR = 1e-9
LEAST_LOOKED_AT = 3
"""Errors of decisions that are measured again however long it takes; others as long as there is time."""
SECONDS = 120.0
"""For those."""


def check(certificate: Certificate, model: Model, seed: int | None = None, seconds: float = SECONDS) -> tuple[str, ...]:
    """What does not hold of a certificate, each as a sentence; nothing where all of it does."""
    return tuple(faults(certificate, model, seed, seconds))


def faults(c: Certificate, model: Model, seed: int | None = None, seconds: float = SECONDS) -> Iterator[str]:
    """Likewise, one by one, what is found quickly first. Where there is no time for all errors, those that are measured
    again are drawn by the seed; without one nobody knows beforehand which."""
    if c.sealed().seal != c.seal:
        yield "the certificate was changed after it was written: its seal does not fit what it says"
    if model.device != c.device or model.seal() != c.data:
        yield "the device, or the model's weights or inputs, are not those that were tuned"
        return
    yield from _written(c)
    start_ns = model.ns(c.start)
    if start_ns != c.start_ns:
        yield f"at the start a call takes {start_ns} ns, not {c.start_ns}"
    graphs = model.planned(c.settings)
    if graphs is None:
        yield "the model does not compile or fit under the settings that were found"
        return
    ns = sum(g.plan.total_ns for g in graphs if g.plan is not None)
    if ns != c.verified_ns:
        yield f"a call takes {ns} ns, not {c.verified_ns}"
    if tuple(g.program.fingerprint for g in graphs) != c.programs:
        yield "the settings give other Programs than those that were verified"
    wrong = next(_malformed(c), "")
    if wrong:
        yield wrong
        return
    yield from _decisions(c, model)
    yield from _verified(c, model)
    yield from _others(c, model)
    yield from _errors(c, model, seed, seconds)


def _written(c: Certificate) -> Iterator[str]:
    """What a certificate's own numbers must be to each other."""
    if c.seed != c.start.seed:
        yield f"the seed is told as {c.seed}, and the search started with {c.start.seed}"
    if c.held_out < 1:
        yield "no held-out inputs were tried"
    if {len(c.verified_pcc), len(c.verified_l2), len(c.verified_top1)} != {1 + c.held_out}:
        yield f"{len(c.verified_pcc)} PCCs are told of {1 + c.held_out} calls"
    if c.budget_error < 1 - c.pcc**2:
        yield f"the bound is about errors up to {c.budget_error:.3g}; a PCC of {c.pcc} allows {1 - c.pcc**2:.3g}"
    if not c.floor_ns <= c.bound_ns <= c.verified_ns:
        yield f"the bound of {c.bound_ns} ns is not between the floor, {c.floor_ns}, and what was found"
    if c.goal == "cure" and c.fewest_changes not in (0, c.changes):
        yield f"a cure of {c.changes} changes is told to need {c.fewest_changes}"


def _malformed(c: Certificate) -> Iterator[str]:
    """What cannot be replayed at all."""
    outputs = {len(c.start_error), len(c.start_drift)}
    for w in c.decisions:
        if not 0 <= w.chosen < len(w.values) or {len(w.errors), len(w.drifts), len(w.saves_ns)} != {len(w.values)}:
            yield "a decision's choice is not among its values"
        outputs |= {len(e) for told in (w.errors, w.drifts) for e in told[1:] if e is not None}
        if any((a is None) != (b is None) for a, b in zip(w.errors, w.drifts)):
            yield "an error is told without its drift"
    if len(outputs) > 1:
        yield "errors are told of another number of outputs"
    for vector in (*c.refuted, *c.unfit):
        if len(vector) != len(c.decisions):
            yield "a combination that was ruled out is not one of these decisions"
        if any(not 0 <= v < len(w.values) for v, w in zip(vector, c.decisions)):
            yield "a combination that was ruled out has a value that does not exist"


def _close(what: str, claim: Close, model: Model, run: Settings, number: int) -> Iterator[str]:
    close = model.closeness(run, number)
    on = f"{what}, on {f'held-out inputs {number}' if number else 'its own inputs'},"
    if not abs(close.pcc - claim.pcc) <= SAME_PCC:
        yield f"{on} has a PCC of {close.pcc:.7f}, not {claim.pcc:.7f}"
    if close.l2 != claim.l2 and not abs(close.l2 - claim.l2) <= SAME_PCC:
        yield f"{on} has a relative L2 of {close.l2:.6f}, not {claim.l2:.6f}"
    if not abs(close.top1 - claim.top1) <= SAME_PCC:
        yield f"{on} keeps the largest element of {close.top1:.2%} of the rows, not {claim.top1:.2%}"


def _verified(c: Certificate, model: Model) -> Iterator[str]:
    run = replace(c.settings, numerics=c.verified_numerics)
    for number, claim in enumerate(c.calls):
        yield from _close("what was found", claim, model, run, number)
        if claim.pcc < c.pcc:
            yield f"the PCC {claim.pcc:.6f} is below the budget of {c.pcc}"
        if claim.l2 > c.l2_limit:
            yield f"the relative L2 {claim.l2:.4f} is above {c.l2_limit:.4f}, which is what a PCC of {c.pcc} allows"
        if claim.top1 < c.top1:
            yield f"{claim.top1:.2%} of the rows keep their largest element; {c.top1:.2%} are asked"


def _others(c: Certificate, model: Model) -> Iterator[str]:
    """The start and the greedy search's result: what was found is compared with both."""
    greedy = (c.greedy, c.greedy_ns, c.greedy_pcc)
    if any(one is None for one in greedy) and any(one is not None for one in greedy):
        yield "the greedy search's result is told without its settings"
    for what, settings, pcc in (
        ("the start", c.start, c.start_pcc),
        ("the greedy search's result", c.greedy, c.greedy_pcc),
    ):
        if settings is None or pcc is None:
            continue
        run, calls = replace(settings, numerics=c.verified_numerics), list[Close]()
        for number in range(1 + c.held_out):
            calls.append(model.closeness(run, number))
            if not calls[-1].keeps(c.pcc, c.top1):
                break
        lowest = min(close.pcc for close in calls)
        if not abs(lowest - pcc) <= SAME_PCC:
            yield f"{what} has a PCC of {lowest:.7f}, not {pcc:.7f}"
    if c.greedy is not None and (ns := model.ns(c.greedy)) != c.greedy_ns:
        yield f"the greedy search's result takes {ns} ns, not {c.greedy_ns}"


def _decisions(c: Certificate, model: Model) -> Iterator[str]:
    """That the settings are the decisions, that no combination is quicker than the bound, and what is told of each."""
    problem, chosen = c.problem, {d: w.chosen for d, w in enumerate(c.decisions) if w.chosen}
    decisions = problem.decisions
    if c.found_by == "solver":
        base = replace(c.settings, per_op=c.start.per_op)
        if settings_with(base, decisions, chosen) != c.settings:
            yield "the settings are not what the decisions say"
    elif chosen:
        yield f"decisions are changed, and the result is told to be of the {c.found_by}"
    if c.changes != len(chosen):
        yield f"{len(chosen)} decisions are changed, not {c.changes}"
    ways = ways_of(model, c.start, cure=c.goal == "cure")
    known = {op for settings, graphs in ways for d in decisions_of(graphs, model.chip, settings) for op in d.ops}
    if not {op for d in decisions for op in d.ops} <= known:
        yield "a decision is about an op that the model does not have"
        return
    structures = [Structure(s, g, Times.of(g, decisions, model.chip, s)) for s, g in ways]
    yield from _told(c, problem, structures)
    bound = None
    for structure in structures:
        posed = replace(problem, tables=structure.times.tables)
        if c.goal == "faster":
            quicker = solve(posed.relaxed(), at_most_ns=c.bound_ns - 1)
            if quicker.status in ("optimal", "feasible"):
                bound = min(bound or quicker.ns, quicker.ns)
        elif c.fewest_changes > 1:
            fewer = solve(posed, goal="fewest", at_most=c.fewest_changes - 1)
            if fewer.status in ("optimal", "feasible") and not c.smaller_refuted:
                yield f"{len(fewer.assignment)} changes are enough as errors add up, not {c.fewest_changes}"
    yield from _ruled_out(c, model, decisions, [structure.settings for structure in structures])
    if bound is not None:
        yield f"a combination within the budget takes {bound} ns, less than the bound of {c.bound_ns} ns"


def _told(c: Certificate, problem: Problem, structures: Sequence[Structure]) -> Iterator[str]:
    """What the page says of single decisions follows from the tables of times and errors."""
    times, chosen = structures[0].times, {d: w.chosen for d, w in enumerate(c.decisions) if w.chosen}
    best = Verified(c.settings, c.verified_ns, c.calls, c.found_by, chosen)
    own = next((s.times for s in structures if s.settings == replace(c.settings, per_op=s.settings.per_op)), None)
    if c.decisions != tuple(account.weighed(problem.decisions, times, problem, best.assignment)):
        yield "what values of decisions save alone is not what is told"
    first = Verified(c.start, c.start_ns, (), "start")
    if c.found_by == "solver" and own is None:
        yield "the settings that were found are in none of the model's placements"
    elif c.found_by == "solver" and own is not None:
        if c.path != tuple(account.path(structures, problem, best, first, ())):
            yield "the changes one by one are not what is told"
        if c.predicted_ns != own.ns(best.assignment):
            yield f"the decisions add up to {own.ns(best.assignment)} ns, not {c.predicted_ns}"
        if not _near(c.predicted_error, problem.error(best.assignment)):
            yield "the predicted error is not what the decisions' errors add up to"
    weighed = tuple(account.rejected(problem.decisions, times, problem, best))
    if c.rejected[: len(weighed)] != weighed:
        yield "what was not taken, or why, is not what is told"
    floor = min(structure.times.least_ns() for structure in structures)
    if c.solver and c.floor_ns != min(floor, c.verified_ns):  # without one there are no decisions to take it from
        yield f"the floor is {min(floor, c.verified_ns)} ns, not {c.floor_ns}"


def _ruled_out(c: Certificate, model: Model, decisions: Sequence[Decision], ways: list[Settings]) -> Iterator[str]:
    """That what was ruled out by running it fails in every placement that it could be tried in."""
    for vector in c.refuted:
        run = replace(settings_with(ways[0], decisions, assignment_of(vector)), numerics=c.verified_numerics)
        if all(model.closeness(run, number).keeps(c.pcc, c.top1) for number in range(1 + c.held_out)):
            yield "a combination that was ruled out keeps the budget"
    for vector in c.unfit:
        if all(model.planned(settings_with(way, decisions, assignment_of(vector))) is not None for way in ways):
            yield "a combination that was said not to fit the chip fits"


def _errors(c: Certificate, model: Model, seed: int | None, seconds: float) -> Iterator[str]:
    """The errors that the search relied on, measured again."""
    known = [(w, v) for w in c.decisions if w.about not in EXACT_EITHER_WAY for v in range(len(w.values))]
    known = [(w, v) for w, v in known if v and w.errors[v] is not None]
    for w in c.decisions:
        if w.about in EXACT_EITHER_WAY and any(any(e or ()) for e in (*w.errors, *w.drifts)):
            yield f"{w.op}: {w.about} is told to change the error, which it cannot"
    if not c.start_error:
        return
    settings = next(iter(ways_of(model, c.start, cure=c.goal == "cure")))[0]
    run = replace(computing_choices(settings), numerics=c.numerics)
    graphs = [Graph(loaded, inputs, model.chip, run, c.numerics) for loaded, inputs in model.loaded(run)]
    whole = [off for g in graphs for off in g.whole()]
    if not _near(c.start_error, [noise for noise, _ in whole]) or not _near(
        c.start_drift, [drift for _, drift in whole]
    ):
        yield "the error at the start is not what is told"
    until = time.monotonic() + seconds
    random.Random(seed).shuffle(known)
    for number, (weighed, v) in enumerate(known):
        if number >= LEAST_LOOKED_AT and time.monotonic() > until:
            break
        one = Decision(weighed.op, weighed.about, weighed.ops, weighed.values)
        ops = frozenset(one.ops)
        try:
            before = [off for g in graphs for off in g.error(ops, run)]
            after = [off for g in graphs for off in g.error(ops, settings_with(run, [one], {0: v}))]
        except ProveoutError as error:
            yield f"{one.said(v)} cannot be measured: {error}"
            continue
        for told, part, what in ((weighed.errors[v], 0, "error"), (weighed.drifts[v], 1, "drift")):
            for said, a, b in zip(told or (), after, before):
                if not _same(said, a[part] - b[part], max(abs(a[part]), abs(b[part]))):
                    yield f"{one.said(v)} adds {a[part] - b[part]:.3g} to the {what}, not {said:.3g}"


def _near(claims: Sequence[float], measured: Sequence[float]) -> bool:
    return len(claims) == len(measured) and all(_same(a, b, max(abs(a), abs(b))) for a, b in zip(claims, measured))


def _same(claim: float, measured: float, size: float) -> bool:
    return math.isfinite(claim) and abs(claim - measured) <= SAME_ERROR * size + TINY_ERROR
