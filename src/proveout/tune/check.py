"""Replays a certificate: every claim in it is made again from the model, by itself, and compared."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

from proveout.compiler.program_passes.decide import computing_choices
from proveout.errors import ProveoutError
from proveout.tune.certificate import Certificate
from proveout.tune.errors import Graph
from proveout.tune.model import Model
from proveout.tune.solve import Problem, solve
from proveout.tune.space import EXACT_EITHER_WAY, Decision, Times, decisions_of, settings_with
from proveout.tune.structures import ways_of
from proveout.types import Settings

SAME_PCC = 1e-6
SAME_ERROR = 0.02
"""Of an error that is measured again: sums in another order change its last digits."""
TINY_ERROR = 1e-9
LOOKED_AT = 3
"""Errors of decisions that are measured again, drawn at random."""


def check(certificate: Certificate, model: Model, seed: int = 0) -> tuple[str, ...]:
    """What does not hold of a certificate, each as a sentence; nothing where all of it does."""
    return tuple(faults(certificate, model, seed))


def faults(c: Certificate, model: Model, seed: int = 0) -> Iterator[str]:
    """Likewise, one by one, what is found quickly first."""
    if c.sealed().seal != c.seal:
        yield "the certificate was changed after it was written: its seal does not fit what it says"
    if model.seal() != c.data:
        yield "the model's weights or inputs are not those that were tuned"
        return
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
    yield from _decisions(c, model)
    yield from _pccs(c, model)
    yield from _errors(c, model, seed)


def _pccs(c: Certificate, model: Model) -> Iterator[str]:
    run = replace(c.settings, numerics=c.verified_numerics)
    if len(c.verified_top1) != len(c.verified_pcc) or len(c.verified_pcc) != 1 + c.held_out:
        yield f"{len(c.verified_pcc)} PCCs are told of {1 + c.held_out} calls"
    for number, told in enumerate(c.verified_pcc):
        pcc, top1 = model.closeness(run, number)
        what = f"held-out inputs {number}" if number else "the model's own inputs"
        if abs(pcc - told) > SAME_PCC:
            yield f"on {what} the PCC is {pcc:.7f}, not {told:.7f}"
        if pcc < c.pcc:
            yield f"on {what} the PCC {pcc:.6f} is below the budget of {c.pcc}"
        if number < len(c.verified_top1) and abs(top1 - c.verified_top1[number]) > SAME_PCC:
            yield f"on {what} {top1:.2%} of the rows keep their largest element, not {c.verified_top1[number]:.2%}"
        if top1 < c.top1:
            yield f"on {what} {top1:.2%} of the rows keep their largest element; {c.top1:.2%} are asked"


def _decisions(c: Certificate, model: Model) -> Iterator[str]:
    """That the settings are the decisions, and that no combination is quicker than the bound."""
    decisions = [Decision(w.op, w.about, w.ops, w.values) for w in c.decisions]
    chosen = {d: w.chosen for d, w in enumerate(c.decisions) if w.chosen}
    if any(not 0 <= w.chosen < len(w.values) or len(w.values) != len(w.errors) for w in c.decisions):
        yield "a decision's choice is not among its values"
        return
    if c.found_by == "solver":
        base = replace(c.settings, per_op=c.start.per_op)
        if settings_with(base, decisions, chosen) != c.settings:
            yield "the settings are not what the decisions say"
    if c.changes != len(chosen):
        yield f"{len(chosen)} decisions are changed, not {c.changes}"
    errors = {(d, v): e for d, w in enumerate(c.decisions) for v, e in enumerate(w.errors) if v and e is not None}
    values = [len(w.values) for w in c.decisions]
    ruled_out = [v for vector in (*c.refuted, *c.unfit) for v in zip(vector, values)]
    if any(not 0 <= v < most for v, most in ruled_out):
        yield "a combination that was ruled out has a value that does not exist"
        return
    if any(len(e) != len(c.start_error) for e in errors.values()):
        yield "errors are told of another number of outputs"
        return
    bound = None
    ways = ways_of(model, c.start, cure=c.goal == "cure")
    known = {op for settings, graphs in ways for d in decisions_of(graphs, model.chip, settings) for op in d.ops}
    if not {op for d in decisions for op in d.ops} <= known:
        yield "a decision is about an op that the model does not have"
        return
    for settings, graphs in ways:
        times = Times.of(graphs, decisions, model.chip, settings)
        refuted, unfit = ([_assignment(v) for v in vectors] for vectors in (c.refuted, c.unfit))
        problem = Problem(
            decisions, times.tables, errors, c.start_error, c.budget_error, c.start.queues, refuted, unfit
        )
        if c.goal == "faster":
            quicker = solve(problem.relaxed(), at_most_ns=c.bound_ns - 1)
            if quicker.status in ("optimal", "feasible"):
                bound = min(bound or quicker.ns, quicker.ns)
        elif c.fewest_changes > 1:
            fewer = solve(problem, goal="fewest", at_most=c.fewest_changes - 1)
            if fewer.status in ("optimal", "feasible") and not c.smaller_refuted:
                yield f"{len(fewer.assignment)} changes are enough as errors add up, not {c.fewest_changes}"
    yield from _refuted(c, model, decisions, [settings for settings, _ in ways])
    if bound is not None:
        yield f"a combination within the budget takes {bound} ns, less than the bound of {c.bound_ns} ns"
    if c.bound_ns > c.verified_ns:
        yield "the bound is above what was found"


def _refuted(c: Certificate, model: Model, decisions: list[Decision], ways: list[Settings]) -> Iterator[str]:
    """That what was ruled out by running it fails in every placement that it could be tried in."""
    if any(len(v) != len(decisions) for v in (*c.refuted, *c.unfit)):
        yield "a combination that was ruled out is not one of these decisions"
        return
    for vector in c.refuted:
        run = replace(settings_with(ways[0], decisions, _assignment(vector)), numerics=c.verified_numerics)
        close = [model.closeness(run, number) for number in range(1 + c.held_out)]
        if all(pcc >= c.pcc and top1 >= c.top1 for pcc, top1 in close):
            yield "a combination that was ruled out keeps the budget"
    for vector in c.unfit:
        if all(model.planned(settings_with(way, decisions, _assignment(vector))) is not None for way in ways):
            yield "a combination that was said not to fit the chip fits"


def _assignment(vector: tuple[int, ...]) -> dict[int, int]:
    return {d: v for d, v in enumerate(vector) if v}


def _errors(c: Certificate, model: Model, seed: int) -> Iterator[str]:
    """Some of the errors that the search relied on, measured again."""
    known = [(w, v) for w in c.decisions if w.about not in EXACT_EITHER_WAY for v in range(len(w.values))]
    known = [(w, v) for w, v in known if v and w.errors[v] is not None]
    if not known:
        return
    settings = next(iter(ways_of(model, c.start, cure=c.goal == "cure")))[0]
    run = replace(computing_choices(settings), numerics=c.numerics)
    graphs = [Graph(loaded, inputs, model.chip, run, c.numerics) for loaded, inputs in model.loaded(run)]
    for weighed, v in random.Random(seed).sample(known, min(LOOKED_AT, len(known))):
        one = Decision(weighed.op, weighed.about, weighed.ops, weighed.values)
        ops = frozenset(one.ops)
        try:
            before = [e for g in graphs for e in g.error(ops, run)]
            after = [e for g in graphs for e in g.error(ops, settings_with(run, [one], {0: v}))]
        except ProveoutError as error:
            yield f"{one.said(v)} cannot be measured: {error}"
            continue
        for told, a, b in zip(weighed.errors[v] or (), after, before):
            if abs(told - (a - b)) > SAME_ERROR * max(abs(a), abs(b)) + TINY_ERROR:
                yield f"{one.said(v)} adds {a - b:.3g} to the error, not {told:.3g}"
