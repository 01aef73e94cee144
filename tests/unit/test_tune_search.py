"""A search over single ops: its times are the plan's, its answer is brute force's, its certificate can be replayed."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import random

import pytest
import torch
from planted import MODELS, _weighty
from test_cause import chain
from torch import nn

import proveout
from proveout.cause.explain import explain
from proveout.check import compare_outputs, compare_steps
from proveout.coding import from_json, to_json
from proveout.errors import CompileError, UsageError
from proveout.report.tune.text import text as shown
from proveout.tune.account import Verified
from proveout.tune.certificate import Certificate, Weighed, read
from proveout.tune.check import check, faults
from proveout.tune.errors import Measurements
from proveout.tune.model import Close, Model, held_out
from proveout.tune.rounds import Rounds
from proveout.tune.search import Options, tune
from proveout.tune.solve import Problem, Solved, solve
from proveout.tune.space import Decision, Table, Times, decisions_of, settings_with
from proveout.tune.structures import Structure, ways_of
from proveout.tune.verify import Verifier, Watch
from proveout.types import Settings

START = Settings(precision="bfloat16", memory="dram", trace=True, products="default", sharding="interleaved")


def model_of(name: str, settings: Settings = START) -> Model:
    torch.manual_seed(3)
    kind, shape = MODELS[name]
    module = _weighty(kind().eval())
    return Model(module, ((torch.randn(shape),), {}), "sim:n150", settings)


# ------------------------------------------------------------------------------------------- brute force


def drawn(seed: int) -> Problem:
    """A random graph of up to 12 decisions: ops whose time depends on their own values and their neighbours'."""
    rng = random.Random(seed)
    count = rng.randint(4, 12)
    sizes = [rng.randint(2, 3 if count < 9 else 2) for _ in range(count)]
    decisions = [Decision(f"op{d}", "result", (f"op{d}",), ("", "a", "b")[:n]) for d, n in enumerate(sizes)]
    tables = []
    for d in range(count):
        scope = tuple(sorted({d, *rng.sample(range(count), rng.randint(0, 2))}))
        rows = [
            (values, rng.randint(100, 2000))
            for values in itertools.product(*(range(sizes[i]) for i in scope))
            if not any(values) or rng.random() > 0.1  # some combinations cannot be had
        ]
        tables.append(Table(scope, tuple(rows), rng.randint(1, 3), rng.random() < 0.2))
    outputs = rng.randint(1, 2)
    errors = {
        (d, v): tuple(rng.choice([0.0, rng.uniform(-1e-4, 3e-3)]) for _ in range(outputs))
        for d in range(count)
        for v in range(1, sizes[d])
    }
    start = tuple(rng.uniform(0, 4e-3) for _ in range(outputs))
    problem = Problem(decisions, tables, errors, start, 6e-3, rng.choice([1, 1, 2]))
    drifts = {dv: tuple(rng.choice([0.0, rng.uniform(-0.04, 0.03)]) for _ in range(outputs)) for dv in errors}
    return dataclasses.replace(problem, drifts=drifts, start_drift=(-0.01,) * outputs) if seed % 2 else problem


def every(problem: Problem):
    """All assignments within the budget, with their times."""
    times = Times(problem.decisions, Settings(queues=problem.queues), list(problem.tables))
    for values in itertools.product(*(range(len(d.values)) for d in problem.decisions)):
        assignment = {d: v for d, v in enumerate(values) if v}
        ns = times.ns(assignment)
        outputs = range(len(problem.start))
        noises = [s + sum(problem.errors[a][k] for a in assignment.items()) for k, s in enumerate(problem.start)]
        scales = [sum(problem.drifts[a][k] for a in assignment.items()) if problem.drifts else 0.0 for k in outputs]
        drifts = [s + d for s, d in zip(problem.start_drift or (0.0,) * len(outputs), scales)]
        if ns is not None and all(n + d * d <= problem.budget for n, d in zip(noises, drifts)):
            yield ns, assignment


@pytest.mark.parametrize("seed", [*range(20), 500, 506])
def test_the_solver_equals_brute_force(seed: int):
    problem = drawn(seed)
    within = list(every(problem))
    found = solve(problem)
    assert found.status == "optimal"
    assert found.ns == min(ns for ns, _ in within)
    assert found.bound == found.ns
    fewest = solve(problem, goal="fewest")
    assert (len(fewest.assignment), fewest.ns) == min((len(a), ns) for ns, a in within)
    assert solve(problem, at_most_ns=found.ns - 1).status == "infeasible"


def test_what_was_refuted_is_not_given_again_nor_anything_less_exact():
    problem = drawn(1)
    first = solve(problem)
    second = solve(dataclasses.replace(problem, refuted=[first.assignment]))
    better = [
        d
        for d in range(len(problem.decisions))
        if problem.alone(d, second.assignment.get(d, 0)) < problem.alone(d, first.assignment.get(d, 0))
    ]
    assert better
    assert second.ns >= first.ns
    third = solve(dataclasses.replace(problem, excluded=[first.assignment]))
    assert third.assignment != first.assignment


# ------------------------------------------------------------------------------------- times and settings


@pytest.mark.slow
@pytest.mark.parametrize("name", ["transformer", "residual", "gated"])
def test_tables_add_up_to_the_plan_of_the_compiled_model(name: str):
    model = model_of(name, dataclasses.replace(START, memory="auto", products="configured", sharding="norms"))
    graphs = model.planned(model.start)
    decisions = decisions_of(graphs, model.chip, model.start)
    rng = random.Random(0)
    compared = 0
    for _ in range(12):
        some = rng.sample(decisions, 4)
        times = Times.of(graphs, some, model.chip, model.start)
        assert times.ns({}) == model.ns(model.start)
        assignment = {d: rng.randrange(len(one.values)) for d, one in enumerate(some)}
        told, ns = times.ns(assignment), model.ns(settings_with(model.start, some, assignment))
        if told is not None and ns is not None:
            assert told == ns
            compared += 1
    assert compared >= 6


def test_equal_layers_are_one_decision():
    model = model_of("transformer")
    decisions = decisions_of(model.planned(START), model.chip, START)
    up = [d for d in decisions if d.op == "blocks.*.qkv:ttnn.linear" and d.about == "weights"]
    assert [d.ops for d in up] == [("blocks.0.qkv:ttnn.linear", "blocks.1.qkv:ttnn.linear")]


def test_a_decision_changes_its_own_step_and_keeps_the_formats_after_it():
    torch.manual_seed(0)
    module, x = nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 64)).eval(), torch.randn(32, 64)
    chosen = {"precision": "bfloat16", "per_op": [["0:ttnn.linear", "result", "bfloat8_b"]]}
    compiled = proveout.compile(module, (x,), device="sim:n150", settings=chosen)
    first, second = (s for s in compiled.program.body if s.kernel == "ttnn.linear")
    assert compiled.program.specs[first.outputs[0]].dtype == "bfloat8_b"
    assert compiled.program.specs[second.outputs[0]].dtype == "bfloat16"
    assert compare_outputs(compiled(x), module(x), 0.99)[0].passed


@pytest.mark.parametrize(
    ("per_op", "words"),
    [
        ("weights", "takes a list of"),
        ([["linear", "weights", "bfloat8_b"]], "module:kernel"),
        ([[":ttnn.linear", "weight", "bfloat8_b"]], "weights"),
        ([[":ttnn.linear", "fidelity", "HiFi5"]], "HiFi4"),
    ],
)
def test_wrong_decisions_are_refused_with_a_sentence(per_op, words):
    with pytest.raises(UsageError, match=words):
        Settings.of({"per_op": per_op})


def test_a_decision_about_an_op_that_is_not_there_is_told(monkeypatch):
    said: list[str] = []
    monkeypatch.setattr("proveout.engine.compiled.log.warning", lambda text, *words: said.append(text % words))
    chosen = {
        "precision": "bfloat16",
        "per_op": [["0:ttnn.liner", "weights", "bfloat8_b"], ["*:*", "fidelity", "LoFi"]],
    }
    proveout.compile(nn.Linear(64, 64).eval(), (torch.randn(32, 64),), device="sim:n150", settings=chosen)
    assert said == ["per_op: no op is called '0:ttnn.liner'; the nearest is ':ttnn.linear'."]


class Convolved(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.last = (nn.Conv2d(64, 64, 3, padding=1) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.one(x))
        return self.last(torch.relu(self.two(y) + y))


def test_convolutions_left_in_shards_need_fewer_moves_and_change_no_number():
    torch.manual_seed(0)
    start = dataclasses.replace(START, memory="auto")
    model = Model(Convolved().eval(), ((torch.randn(1, 64, 28, 28),), {}), "sim:n150", start)
    graphs = model.planned(start)
    decisions = [d for d in decisions_of(graphs, model.chip, start) if d.about == "memory" and "height" in d.values]
    assert {d.op.partition(":")[2] for d in decisions} == {"ttnn.conv2d", "ttnn.add"}
    times = Times.of(graphs, decisions, model.chip, start)
    first = {0: decisions[0].values.index("height")}
    assert times.ns(first) is None, "an activation reads no shards and writes none"
    with pytest.raises(CompileError, match="different shards"):
        proveout.compile(
            model.module, model.call[0], device="sim:n150", settings=settings_with(start, decisions, first)
        )
    for kind in ("height", "block"):
        everywhere = {d: one.values.index(kind) for d, one in enumerate(decisions)}
        settings = settings_with(start, decisions, everywhere)
        assert times.ns(everywhere) == model.ns(settings)
        assert kind == "block" or model.ns(settings) < model.ns(start)
        compiled = proveout.compile(model.module, model.call[0], device="sim:n150", settings=settings)
        sources = [compiled.program.specs[s.attr("input_tensor").name] for s in compiled.program.body
                   if s.kernel == "ttnn.conv2d"]  # fmt: skip
        assert [s.memory.sharding for s in sources] == ["interleaved", kind, kind]
        assert model.closeness(settings) == model.closeness(start)


# ------------------------------------------------------------------------------------------- certificates


@functools.cache
def certificate() -> Certificate:
    found = tune(model_of("recurrent", dataclasses.replace(START, pcc=0.999)), Options())
    return from_json(Certificate, json.loads(json.dumps(to_json(found))))


@pytest.mark.slow
def test_a_certificate_is_never_slower_than_greedy_and_holds():
    found = certificate()
    assert found.holds
    assert found.greedy_ns is not None
    assert found.floor_ns <= found.bound_ns <= found.verified_ns <= found.greedy_ns <= found.start_ns
    assert found.predicted_ns == found.verified_ns
    assert all(r.reason == "gain too small" or "PCC" in r.reason for r in found.rejected)
    assert check(found, model_of("recurrent", found.start)) == ()


@pytest.mark.slow
@pytest.mark.parametrize("columns", ["80", "120"])
def test_a_certificate_fits_its_terminal(columns: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", columns)
    lines = shown("a recurrent net on sim:n150", certificate()).splitlines()
    assert max(map(len, lines)) <= int(columns)
    assert lines == [line.rstrip() for line in lines]
    assert any("not taken" in line for line in lines)


@pytest.mark.slow
def test_a_certificate_holds_whose_ops_are_in_one_placement_alone():
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(256, 256), nn.LayerNorm(256), nn.Linear(256, 256)).eval()
    model = Model(module, ((torch.randn(128, 256),), {}), "sim:n150", START)
    found = tune(model, Options(greedy=False))
    assert found.settings.sharding == "auto"
    in_l1 = dataclasses.replace(START, memory="auto", products="configured")
    norm = decisions_of(model.planned(in_l1), model.chip, in_l1)
    (norm,) = (d for d in norm if d.about == "memory" and "layer_norm" in d.op)
    settings, graphs = ways_of(model, START, cure=False)[0]
    alone = Times.of(graphs, [norm], model.chip, settings)
    saves = tuple(alone.ns({}) - alone.ns({0: v}) for v in range(2))
    row = Weighed(norm.op, norm.about, norm.ops, norm.values, ((), (0.0,)), ((), (0.0,)), saves, 0)
    ruled_out = {n: tuple((*v, 0) for v in getattr(found, n)) for n in ("refuted", "unfit")}
    found = dataclasses.replace(found, decisions=(*found.decisions, row), **ruled_out).sealed()
    assert check(found, model) == ()


def _swapped(c: Certificate):
    """Two decisions with other choices than they had."""
    one = next(d for d, w in enumerate(c.decisions) if w.chosen)
    two = next(d for d in range(len(c.decisions)) if d != one)
    rows = list(c.decisions)
    other = (rows[two].chosen + 1) % len(rows[two].values)
    rows[one], rows[two] = (dataclasses.replace(rows[d], chosen=c) for d, c in ((one, 0), (two, other)))
    return tuple(rows)


def _told_of(c: Certificate, **changed):
    """The first measured value that was not chosen, told to be something else."""
    d, v = next(
        (d, v)
        for d, w in enumerate(c.decisions)
        for v in range(1, len(w.values))
        if v != w.chosen and w.errors[v] is not None and w.about not in ("memory", "config")
    )
    rows, row = list(c.decisions), c.decisions[d]
    parts = {
        n: tuple(change(x) if i == v else x for i, x in enumerate(getattr(row, n))) for n, change in changed.items()
    }
    rows[d] = dataclasses.replace(row, **parts)
    return tuple(rows)


TAMPERED = {
    "a time": (
        lambda c: {
            "verified_ns": c.verified_ns - 50,
            "bound_ns": c.verified_ns + 1,
            "verified_pcc": tuple(p + 1e-4 for p in c.verified_pcc),
        },
        ("a call takes", "less than the bound", "has a PCC"),
    ),
    "the settings": (lambda c: {"settings": c.start, "pcc": 0.99999}, ("other Programs", "below the budget")),
    "the data": (lambda c: {"data": "0" * 64}, ("weights or inputs",)),
    "all errors": (lambda c: {"decisions": _halved(c)}, ("to the error",)),
    "two choices": (lambda c: {"decisions": _swapped(c)}, ("not what the decisions say",)),
    "the seed": (lambda c: {"seed": c.seed + 1}, ("the seed is told",)),
    "the seed of the start": (
        lambda c: {"seed": 77, "start": dataclasses.replace(c.start, seed=77)},
        ("on held-out inputs", "has a PCC"),
    ),
    "the bound": (lambda c: {"bound_ns": c.verified_ns + 1}, ("not between the floor", "less than the bound")),
    "the bound and its budget": (
        lambda c: {"bound_ns": c.verified_ns, "budget_error": 1e-9},
        ("a PCC of 0.999 allows",),
    ),
    "the bound and the error at the start": (
        lambda c: {"bound_ns": c.verified_ns, "start_error": (1.0,) * len(c.start_error)},
        ("error at the start",),
    ),
    "one error": (lambda c: {"decisions": _told_of(c, errors=lambda e: (0.5, *e[1:]))}, ("to the error",)),
    "one drift": (lambda c: {"decisions": _told_of(c, drifts=lambda e: (0.5, *e[1:]))}, ("to the drift",)),
    "one saving": (lambda c: {"decisions": _told_of(c, saves_ns=lambda ns: (ns or 0) + 1)}, ("save alone",)),
    "the scale": (lambda c: {"verified_l2": tuple(x / 2 for x in c.verified_l2)}, ("relative L2",)),
    "greedy's time": (lambda c: {"greedy_ns": 2 * c.greedy_ns}, ("greedy search's result takes",)),
    "greedy's settings": (lambda c: {"greedy": None}, ("without its settings",)),
    "the start's PCC": (lambda c: {"start_pcc": 0.5}, ("the start has a PCC",)),
    "another chip": (lambda c: {"device": "sim:p150"}, ("the device",)),
    "no held-out inputs": (
        lambda c: {"held_out": 0, **{f"verified_{n}": getattr(c, f"verified_{n}")[:1] for n in ("pcc", "l2", "top1")}},
        ("no held-out inputs",),
    ),
    "another model's Programs": (lambda c: {"programs": tuple("0" * len(p) for p in c.programs)}, ("other Programs",)),
    "a combination that fits": (lambda c: {"unfit": ((0,) * len(c.decisions),)}, ("not to fit the chip fits",)),
    "a combination that holds": (lambda c: {"refuted": ((0,) * len(c.decisions),)}, ("keeps the budget",)),
    "the reason of a rejection": (
        lambda c: {"rejected": (dataclasses.replace(c.rejected[0], reason="PCC 0.1"), *c.rejected[1:])},
        ("not taken, or why",),
    ),
    "what was predicted": (lambda c: {"predicted_ns": c.predicted_ns - 1}, ("add up to",)),
    "a change on the way": (lambda c: {"path": c.path[1:]}, ("one by one",)),
    "the floor": (lambda c: {"floor_ns": 0}, ("the floor is",)),
}


@pytest.mark.slow
@pytest.mark.parametrize("what", TAMPERED)
def test_a_tampered_certificate_is_rejected_even_where_its_seal_is_made_again(what: str):
    found, (change, words) = certificate(), TAMPERED[what]
    again = dataclasses.replace(found, **change(found)).sealed()
    missing, said = set(words), list[str]()
    for sentence in faults(again, _replayed(again.start, found.start), seed=0):
        said.append(sentence)
        missing -= {word for word in missing if word in sentence}
        if not missing:
            break
    assert not missing, said


@functools.cache
def _replayed(start: Settings, first: Settings) -> Model:
    """As a replay has it: compiled once for all that start alike."""
    return model_of("recurrent", start if start.seed != first.seed else first)


@pytest.mark.slow
@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_a_certificate_with_a_number_that_is_none_is_refused(tmp_path, number: float):
    document = to_json(certificate()) | {"pcc": number}
    (tmp_path / "c.json").write_text(json.dumps(document))
    with pytest.raises(UsageError, match="NaN or Infinity"):
        read(tmp_path / "c.json")
    (tmp_path / "c.json").write_text(json.dumps(to_json(certificate()) | {"proven": True}))
    with pytest.raises(UsageError, match="no field 'proven'"):
        read(tmp_path / "c.json")


@pytest.mark.parametrize("change", [{"chosen": 99}, {"chosen": -1}, {"values": []}, {"saves_ns": [1]}])
def test_a_certificate_whose_choice_is_not_among_its_values_is_refused(tmp_path, change):
    document = to_json(certificate())
    document["decisions"][0] |= change
    (tmp_path / "c.json").write_text(json.dumps(document))
    with pytest.raises(UsageError, match="was chosen among values that are not all there"):
        read(tmp_path / "c.json")


def _halved(c: Certificate):
    return tuple(
        dataclasses.replace(w, errors=tuple(e and tuple(x / 2 for x in e) for e in w.errors)) for w in c.decisions
    )


def test_a_changed_certificate_breaks_its_seal():
    found = certificate()
    other = dataclasses.replace(found, verified_ns=found.verified_ns - 1)
    assert "changed after it was written" in check(other, model_of("recurrent", found.start))[0]


def test_a_file_that_is_no_certificate_is_refused(tmp_path):
    for text, words in (("[]", "schema None"), ('{"schema": 9}', "schema 9"), ("{", "cannot be read")):
        (tmp_path / "c.json").write_text(text)
        with pytest.raises(UsageError, match=words):
            read(tmp_path / "c.json")
    (tmp_path / "c.json").write_text('{"schema": 3, "goal": "slower"}')
    with pytest.raises(UsageError, match="goal"):
        read(tmp_path / "c.json")


@pytest.mark.slow
def test_measurements_are_kept_and_those_of_other_weights_are_not_used(tmp_path):
    kept = tmp_path / "kept.json"
    model = model_of("gated", dataclasses.replace(START, pcc=0.999))
    first = tune(model, Options(kept=kept, greedy=False))
    notes: list[str] = []
    before = kept.read_text()
    again = tune(model, Options(kept=kept, greedy=False, note=notes.append))
    assert again == first
    assert kept.read_text() == before
    assert held_out(model.call, 0, 1)[0][0].equal(held_out(model.call, 0, 1)[0][0])
    with torch.no_grad():
        next(iter(model.module.parameters())).mul_(1.5)
    seal = json.loads(before)["seal"]
    tune(model, Options(kept=kept, greedy=False))
    assert json.loads(kept.read_text())["seal"] != seal


@pytest.mark.slow
def test_rows_that_keep_their_largest_element_are_a_budget_of_their_own():
    start = dataclasses.replace(START, pcc=0.98)
    loose = tune(model_of("mlp", start), Options(greedy=False))
    strict = tune(model_of("mlp", start), Options(greedy=False, top1=0.95))
    assert min(loose.verified_top1) < 0.95 <= min(strict.verified_top1)
    assert loose.verified_ns <= strict.verified_ns < strict.start_ns
    assert check(strict, model_of("mlp", start)) == ()
    raised = dataclasses.replace(loose, verified_top1=(1.0,) * len(loose.verified_top1), top1=0.95).sealed()
    assert any("largest element" in sentence for sentence in check(raised, model_of("mlp", start)))


# ---------------------------------------------------------------------------------------------- out of time


def positive(width: int = 1024) -> Model:
    """A model whose bfloat16 sums are too far off at a PCC of 0.99995, and whose float32 sums are not."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(width, width, bias=False), nn.ReLU(), nn.Linear(width, 32)).eval()
    return Model(module, ((torch.rand(32, width),), {}), "sim:n150", dataclasses.replace(START, pcc=0.99995))


@pytest.mark.slow
@pytest.mark.parametrize("greedy", [False, True])
def test_a_search_without_any_time_leaves_what_it_verified_and_a_bound_that_holds(greedy: bool):
    start = dataclasses.replace(START, pcc=0.999)
    short = tune(model_of("mlp", start), Options(minutes=0, greedy=greedy))
    assert short.holds
    assert "out of time" in " ".join(short.notes)
    assert all(w.errors[1:].count(None) == len(w.errors) - 1 for w in short.decisions if w.about == "weights")
    assert check(short, model_of("mlp", start)) == ()
    whole = tune(model_of("mlp", start), Options(greedy=greedy))
    assert short.bound_ns <= whole.bound_ns <= whole.verified_ns <= short.verified_ns


def test_a_bound_that_counts_on_no_unmeasured_value_is_rejected():
    start = dataclasses.replace(START, pcc=0.999)
    short = tune(model_of("mlp", start), Options(minutes=0, greedy=False))
    assert short.bound_ns < short.verified_ns
    bold = dataclasses.replace(short, bound_ns=short.verified_ns).sealed()
    assert "less than the bound" in " ".join(check(bold, model_of("mlp", start)))


@pytest.mark.slow
def test_a_search_that_is_ended_from_outside_leaves_its_best_which_can_be_replayed():
    class Ended(Exception):
        pass

    left: list[Certificate] = []

    def keep(certificate: Certificate) -> None:
        left.append(certificate)
        if certificate.found_by == "solver":
            raise Ended

    start = dataclasses.replace(START, pcc=0.999)
    with pytest.raises(Ended):
        tune(model_of("residual", start), Options(better=keep))
    assert [c.found_by for c in left] == ["greedy", "solver"]
    assert left[0].verified_ns > left[1].verified_ns
    for certificate in left:
        assert certificate.holds
        assert "ended from outside" in certificate.notes[-1]
        assert check(certificate, model_of("residual", start)) == ()


def test_rounds_back_off_where_no_sum_of_errors_says_why_a_combination_fails():
    """As rows that lose their largest element do."""
    decisions = [Decision(f"op{d}", "result", (f"op{d}",), ("", "bfloat8_b")) for d in range(12)]
    tables = [Table((d,), (((0,), 1000), ((1,), 900 - d)), 1, False) for d in range(12)]
    problem = Problem(decisions, tables, {(d, 1): (0.1,) for d in range(12)}, (0.0,), 1.0)
    structure = Structure(START, (), Times(decisions, START, tables))

    class Scaled(Verifier):
        def candidate(self, structure: Structure, problem: Problem, answer: Solved) -> Verified:
            calls = (Close(0.999, 0.01, 1.0 if len(answer.assignment) <= 3 else 0.5),)
            return Verified(START, answer.ns, calls, "solver", answer.assignment, answer.ns)

    verifier = Scaled(model_of("mlp"), "fast", 0, 0.99, 0.9, Measurements(None, ""), Watch.of(1))
    outcome = Rounds(verifier, 0, lambda text: None, lambda outcome: None).quickest([structure], problem, None)
    assert outcome.best is not None
    assert len(outcome.best.assignment) == 2, "ten of 1.0, five of 0.5, two of 0.25"
    assert len(outcome.refuted) == 2
    assert outcome.budget == problem.budget, "the bound is of the whole budget"
    assert outcome.solved.bound <= outcome.best.ns


@pytest.mark.slow
def test_what_keeps_its_pcc_and_loses_its_scale_is_not_taken():
    """LoFi cuts what it multiplies: layer after layer the outputs get smaller, and no PCC says so."""
    torch.manual_seed(0)
    layers = [layer for _ in range(12) for layer in (nn.Linear(64, 64, bias=False), nn.ReLU())]
    with torch.no_grad():
        for layer in layers[::2]:
            layer.weight.copy_(torch.rand(64, 64) / 32)
    start = dataclasses.replace(START, pcc=0.99)
    model = Model(nn.Sequential(*layers).eval(), ((torch.rand(32, 64) ** 4,), {}), "sim:n150", start)
    coarse = model.closeness(dataclasses.replace(start, math_fidelity="LoFi", numerics="faithful"))
    assert coarse.pcc > 0.99
    assert coarse.l2 > 0.1425
    assert not coarse.keeps(0.99)
    found = tune(model, Options(minutes=2))
    assert found.holds
    assert max(found.verified_l2) <= found.l2_limit == pytest.approx(0.1425, abs=1e-4)
    lofi = [w for w in found.decisions if w.about == "fidelity" and "LoFi" in w.values]
    assert all(w.drifts[w.values.index("LoFi")][0] < 0 for w in lofi)
    assert check(found, model) == ()


@pytest.mark.slow
def test_where_the_start_is_too_far_off_both_searches_begin_with_sums_in_float32():
    model = positive()
    found = tune(model, Options(minutes=0.5))
    assert "both searches begin there" in found.notes[0]
    assert found.start.per_op == (("*:*", "accumulate", "float32"),)
    assert found.holds
    assert found.greedy_ns is not None
    assert found.verified_ns <= found.greedy_ns
    assert not any(w.about == "accumulate" for w in found.decisions)
    assert any(w.about == "fidelity" for w in found.decisions)
    assert check(found, model) == ()


# -------------------------------------------------------------------------------------------------- cures


@pytest.mark.slow
def test_the_chain_that_fails_while_each_op_passes_is_explained_and_cured_by_the_fewest_changes():
    module, x = chain()
    chosen = Settings(precision="bfloat16", numerics="faithful")
    compiled = proveout.compile(module, (x,), device="sim:n150", settings=chosen)
    assert all(c.passed for c in compare_steps(compiled, (x,), {}))
    assert not compare_outputs(compiled(x), module(x), 0.99)[0].passed
    (graph,) = explain(compiled, ((x,), {})).graphs
    assert "amplification" in " ".join(graph.said)

    model = Model(module, ((x,), {}), "sim:n150", chosen)
    found = tune(model, Options(goal="cure"))
    assert found.holds
    assert found.start_pcc < 0.99 <= min(found.verified_pcc)
    assert not any(r.reason == "gain too small" for r in found.rejected)
    assert {w.op for w in found.decisions if w.chosen} == {"conv:ttnn.conv2d"}
    decisions = [Decision(w.op, w.about, w.ops, w.values) for w in found.decisions]
    for fewer in range(found.changes):  # brute force: nothing smaller is a cure
        for changed in itertools.combinations(range(len(decisions)), fewer):
            for values in itertools.product(*(range(1, len(decisions[d].values)) for d in changed)):
                settings = settings_with(chosen, decisions, dict(zip(changed, values)))
                assert min(model.pcc(settings, n) for n in range(1)) < 0.99 or (
                    min(model.pcc(settings, n) for n in range(1, 3)) < 0.99
                )


def test_a_model_that_passes_needs_no_cure():
    with pytest.raises(UsageError, match="nothing to cure"):
        tune(model_of("mlp"), Options(goal="cure"))
