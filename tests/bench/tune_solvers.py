"""CP-SAT against Optuna's samplers on the same questions: `python tests/bench/tune_solvers.py [NAME:CERTIFICATE…]`.

The questions are the 20 random graphs of the tests, and those behind certificates of `tests/bench/tune.py`, each as
`bert_base:DIR/bert_base.json`. Both see the same tables of times and the same sums of errors. What a trial costs where
a model must be run for it is not counted. Optuna is no dependency of ours: install it to run this.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1] / "unit"), str(Path(__file__).parent)]

import optuna  # noqa: E402
import tune as bench  # noqa: E402
from test_tune_search import drawn  # noqa: E402

from proveout.tune.certificate import read  # noqa: E402
from proveout.tune.solve import Problem, solve  # noqa: E402
from proveout.tune.space import Times  # noqa: E402
from proveout.tune.structures import ways_of  # noqa: E402
from proveout.types import Settings  # noqa: E402

TRIALS = (100, 300)
SEEDS = (0,)
FAR = 10**12


@dataclass(frozen=True)
class Answer:
    seconds: float
    ns: int | None
    """None where nothing within the budget came up."""


def by_cp_sat(problem: Problem) -> Answer:
    began = time.process_time()
    solved = solve(problem)
    assert solved.status == "optimal", solved.status
    return Answer(time.process_time() - began, solved.ns)


def by_optuna(problem: Problem, trials: int, seed: int) -> Answer:
    """The tree-structured Parzen estimator over categorical choices, the budget as a constraint, begun with nothing
    decided."""
    times = Times(problem.decisions, Settings(queues=problem.queues), list(problem.tables))  # type: ignore[arg-type]

    def objective(trial: optuna.Trial) -> float:
        sizes = [len(d.values) for d in problem.decisions]
        values = [trial.suggest_categorical(f"d{d}", list(range(size))) for d, size in enumerate(sizes)]
        chosen = {d: v for d, v in enumerate(values) if v}
        ns = times.ns(chosen) if all(one in problem.errors for one in chosen.items()) else None
        over = max((e - problem.budget for e in problem.error(chosen)), default=0.0) if ns is not None else 1.0
        trial.set_user_attr("over", over)
        return float(ns) if ns is not None else float(FAR)

    sampler = optuna.samplers.TPESampler(
        seed=seed, multivariate=True, constraints_func=lambda trial: (trial.user_attrs["over"],)
    )
    began = time.process_time()
    study = optuna.create_study(sampler=sampler)
    study.enqueue_trial({f"d{d}": 0 for d in range(len(problem.decisions))})
    study.optimize(objective, n_trials=trials)
    kept = [t.value for t in study.trials if t.user_attrs["over"] <= 0 and t.value is not None and t.value < FAR]
    return Answer(time.process_time() - began, round(min(kept)) if kept else None)


def of_certificate(name: str, path: Path) -> Problem:
    """The question of the placement that the certificate's settings are in."""
    c = read(path)
    model = bench.model_of(name, False, c.pcc)
    found = replace(c.settings, per_op=c.start.per_op)
    settings, graphs = next(way for way in ways_of(model, c.start, cure=False) if way[0] == found)
    tables = Times.of(graphs, c.problem.decisions, model.chip, settings).tables
    return replace(c.problem, tables=tables, refuted=(), excluded=())


def compared(label: str, problems: Sequence[Problem]) -> list[str]:
    exact = [by_cp_sat(p) for p in problems]
    rows = [f"| {label} | CP-SAT | {len(problems)} of {len(problems)} | 0 % | {mean_s(exact):.2f} s | proven |"]
    for trials in TRIALS:
        pairs = [(e, by_optuna(p, trials, seed)) for p, e in zip(problems, exact) for seed in SEEDS]
        over = [a.ns / e.ns - 1 for e, a in pairs if a.ns is not None and e.ns is not None]
        equal = sum(o == 0 for o in over)
        worst = f"{max(over):.1%}" if len(over) == len(pairs) else f"{len(pairs) - len(over)} without any"
        seconds = mean_s([a for _, a in pairs])
        what = f"Optuna TPE, {trials} trials"
        rows.append(f"| {label} | {what} | {equal} of {len(pairs)} | {worst} | {seconds:.2f} s | none |")
        print(rows[-1], file=sys.stderr, flush=True)
    return rows


def mean_s(answers: Sequence[Answer]) -> float:
    return sum(a.seconds for a in answers) / len(answers)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("certificates", nargs="*", metavar="NAME:CERTIFICATE")
    options = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    rows = compared("20 random graphs", [drawn(seed) for seed in range(20)])
    for one in options.certificates:
        name, _, path = one.partition(":")
        rows += compared(name, [of_certificate(name, Path(path))])
    print("| question | solver | optimum found | worst above it | processor time each | bound |")
    print("|---|---|---:|---:|---:|---|")
    print("\n".join(rows))


if __name__ == "__main__":
    main()
