"""Claims about continuous batching: no page is leaked or shared, first come is first served, and every request gets the
tokens that it gets alone."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proveout.batching.engines import GeneratorEngine, ModelledEngine, StepTimes
from proveout.batching.scheduler import Request, Scheduler
from proveout.batching.serving import MeasuredClock, ModelledClock, serve
from proveout.batching.simulated import Served, padded_lengths, simulated, step_times
from proveout.cli import main
from proveout.coding import from_json, to_json
from proveout.errors import UsageError
from proveout.generation.pages import Pages
from proveout.generation.speed import SpeedRow, SpeedTold
from proveout.load.figures import figures, times
from proveout.load.plan import Ask, steady_plan
from proveout.load.records import record
from proveout.load.slo import slo_of
from proveout.load.text import text
from proveout.measure.arrivals import poisson
from proveout.serving import Configuration, Load
from proveout.store import Store
from proveout.types import Timing

MS = 1_000_000


class Cached:
    """Computes from its cache alone: a token is a hash of all that lies in the pages of its sequence. Where a page were
    shared, lost or not computed anew, tokens would change."""

    def __init__(self, scheduler: Scheduler, prefill_ns: int = 3, decode_ns: int = 1) -> None:
        self.scheduler, self.memory = scheduler, {}
        self.ns = prefill_ns, decode_ns
        self.most = 0

    def _put(self, sequence, position, token):
        table = self.scheduler.pages.table(sequence.request.number)
        page, offset = divmod(position, self.scheduler.pages.size)
        self.memory[table[page], offset] = token

    def _token(self, sequence):
        pages, size = self.scheduler.pages.table(sequence.request.number), self.scheduler.pages.size
        seen = tuple(self.memory[pages[i // size], i % size] for i in range(sequence.length))
        return hash(seen) % 1000

    def prefill(self, sequences):
        for sequence in sequences:
            for position, token in enumerate(sequence.tokens):
                self._put(sequence, position, token)
        return [self._token(s) for s in sequences], self.ns[0] * sum(s.length for s in sequences)

    def decode(self, sequences):
        for sequence in sequences:
            self._put(sequence, sequence.length - 1, sequence.generated[-1])
        self.most = max(self.most, len(sequences))
        check(self.scheduler)
        return [self._token(s) for s in sequences], self.ns[1]


def check(scheduler: Scheduler) -> None:
    """No page has two holders, and none is lost."""
    held = [page for s in scheduler.running for page in scheduler.pages.table(s.request.number)]
    assert len(set(held)) == len(held)
    assert len(held) + scheduler.pages.free == scheduler.pages.total
    slots = [s.slot for s in scheduler.running]
    assert len(set(slots)) == len(slots)
    order = [s.request.number for s in (*scheduler.running, *scheduler.waiting)]
    assert order == sorted(order), "nobody overtakes"


def alone(request: Request, pages: int, size: int) -> list[int]:
    scheduler = Scheduler(pages, size, 1)
    return serve([Request(0, request.prompt, request.max_tokens)], scheduler, Cached(scheduler), ModelledClock())[1][0]


workloads = st.lists(
    st.tuples(st.integers(0, 40), st.integers(1, 12), st.integers(1, 10)), min_size=1, max_size=14
)  # (gap to the one before, prompt, new tokens)


@settings(max_examples=120, deadline=None)
@given(workloads, st.integers(6, 20), st.integers(1, 4), st.integers(1, 5), st.integers(1, 16))
def test_every_request_gets_the_tokens_that_it_gets_alone(workload, pages, size, slots, prefill_tokens):
    requests, due = [], 0
    for number, (gap, prompt, new) in enumerate(workload):
        due += gap
        requests.append(Request(number, tuple(range(number, number + prompt)), new, due))
    scheduler = Scheduler(pages, size, slots, prefill_tokens=prefill_tokens)
    fits = [not scheduler.refusal(r) for r in requests]
    run, tokens = serve(requests, scheduler, Cached(scheduler), ModelledClock())
    check(scheduler)
    assert scheduler.pages.free == scheduler.pages.total
    for request, exchange, got, served in zip(requests, run.exchanges, tokens, fits):
        assert bool(exchange.error) != served
        assert got == (alone(request, pages, size) if served else [])
        assert exchange.pieces_ns == sorted(exchange.pieces_ns)
    firsts = [e.pieces_ns[0] for e in run.exchanges if not e.error]
    assert firsts == sorted(firsts), "first come, first served"


def test_preemption_recomputes_and_the_earliest_never_gives_way():
    scheduler = Scheduler(pages=8, page_size=2, slots=4)
    requests = [Request(n, (n, n + 1), 8) for n in range(4)]
    run, tokens = serve(requests, scheduler, Cached(scheduler), ModelledClock())
    assert scheduler.num_preemptions > 0
    assert tokens == [alone(r, 8, 2) for r in requests]
    ends = [e.ended_ns for e in run.exchanges]
    assert ends[0] == min(ends)


def test_those_that_run_get_a_token_between_two_prefills():
    scheduler = Scheduler(100, 4, 8, prefill_tokens=4)
    for number in range(4):
        scheduler.submit(Request(number, (1, 2, 3, 4), 5))
    kinds = []
    while step := scheduler.next():
        kinds.append(step.kind)
        scheduler.done(step, [0] * len(step.sequences))
    assert kinds[:6] == ["prefill", "decode"] * 3


def test_a_request_ends_at_a_stop_token():
    scheduler = Scheduler(10, 4, 1)
    requests = [Request(0, (1,), 9, stop=frozenset({3}))]
    _, tokens = serve(requests, scheduler, ModelledEngine(StepTimes(1, ((32, 1),))), ModelledClock())
    assert tokens == [[1, 2, 3]]


def test_what_can_never_fit_is_refused_and_harms_nobody():
    scheduler = Scheduler(4, 4, 2)
    requests = [Request(0, (1,) * 30, 1), Request(1, (1,), 2), Request(2, (), 2)]
    run, tokens = serve(requests, scheduler, ModelledEngine(StepTimes(1, ((32, 1),))), ModelledClock())
    assert run.status == "partial"
    assert "the cache holds 16" in run.exchanges[0].error
    assert [len(t) for t in tokens] == [0, 2, 0]


def test_modelled_times_are_those_of_the_steps():
    """One request: TTFT is the prefill, TPOT the decode step; a prompt beyond the longest length takes several."""
    engine = ModelledEngine(StepTimes(10 * MS, ((32, 20 * MS), (128, 50 * MS))))
    requests = [Request(0, (1,) * 100, 5), Request(1, (1,) * 10, 5, 1000 * MS), Request(2, (1,) * 160, 2, 2000 * MS)]
    run, _ = serve(requests, Scheduler(100, 32, 4), engine, ModelledClock())
    assert run.kind == "modelled"
    assert [e.first_ns for e in run.exchanges] == [50 * MS, 20 * MS, 70 * MS]
    assert {e.per_token_ns for e in run.exchanges} == {10 * MS}


def test_a_trace_of_thousands_of_requests_takes_seconds():
    due = poisson(40.0, 100.0, seed=1).tolist()
    requests = [Request(n, (1,) * 64, 32, ns) for n, ns in enumerate(due)]
    began = time.process_time()
    engine = ModelledEngine(StepTimes(20 * MS, ((64, 15 * MS),)))
    run, _ = serve(requests, Scheduler(32 * 8, 32, 32), engine, ModelledClock())
    assert len(run.answered) == len(requests) > 3500
    assert time.process_time() - began < 20
    report = figures(run, Configuration("m", "sim"))
    assert report["kind"] == "modelled"
    assert report["tpot_ms_p50"] >= 20
    assert times(run, "ttft").min() >= 15 * MS


def told(first_ms: float, later_ms: float) -> SpeedTold:
    """A decoder of four users whose steps are known to ±50 %."""
    first, later = (
        Timing(what, "modelled", "sim", (round(ms * MS),), interval_ns=(ms * MS / 2, ms * MS * 1.5))
        for what, ms in (("first token", first_ms), ("time per token", later_ms))
    )
    return SpeedTold("m", rows=(SpeedRow(4, 32, 64, "modelled", first, later, 0, 0),))


def test_a_plan_is_simulated_at_both_ends_of_the_prediction():
    plan = steady_plan(Load("constant", 1.0), 4.0, Ask(20, 5))
    assert padded_lengths(plan) == (32,)
    low, middle, high = (
        simulated(plan, step_times(told(20, 10), end), Scheduler(8, 32, 4)) for end in ("low", "middle", "high")
    )
    for run, share in ((low, 0.5), (middle, 1.0), (high, 1.5)):
        assert {e.first_ns for e in run.exchanges} == {round(20 * MS * share)}
        assert {e.per_token_ns for e in run.exchanges} == {10 * MS * share}
    serving = Configuration("m", "sim", load=plan.load, multiprocess=False)
    kept = record(middle, serving, slo_of("ttft=25ms"), {}, 60.0, (low, high))
    assert {(t.kind, t.verdict) for t in kept.timings} == {("modelled", "predicted")}
    assert kept.timing("first token").interval_ns == (10 * MS, 30 * MS)
    assert kept.timing("time per token").interval_ns == (5 * MS, 15 * MS)
    assert kept.report["prediction"]["ttft_ms_p50"] == [10.0, 30.0]
    assert kept.report["good_share"] == 1.0
    assert "either end" in text(kept.report)


@pytest.mark.slow
def test_a_model_is_put_under_load_in_modelled_time(tmp_path, capsys):
    line = ["load", "transformers/gpt2", "--small", "--slots", "4", "--rate", "30", "--duration", "20"]
    line += ["--prompt-tokens", "20", "--max-tokens", "8", "--slo", "ttft=1s,tpot=1s", "--cache-dir", str(tmp_path)]
    assert main([*line, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)["report"]
    assert (report["kind"], report["errors"], report["device_type"]) == ("modelled", 0, "sim:n150")
    low, high = report["prediction"]["tpot_ms_p50"]
    assert low < report["tpot_ms_p50"] < high
    [kept], bad = Store(tmp_path).records()
    assert (kept.job.device, bad) == ("sim:n150", [])


@pytest.mark.slow
def test_tokens_tells_modelled_and_measured_times_apart(tmp_path, capsys):
    line = ["tokens", "transformers/gpt2", "--small", "--batch", "1", "--prompt-length", "16", "--new-tokens", "8"]
    assert main([*line, "--device", "sim,cpu", "--cache-dir", str(tmp_path), "--json"]) == 0
    modelled, measured = json.loads(capsys.readouterr().out)["rows"]
    assert (modelled["kind"], measured["kind"]) == ("modelled", "measured")
    low, high = modelled["per_token"]["interval_ns"]
    assert low < modelled["per_token"]["samples_ns"][0] < high
    assert modelled["weight_bytes"] + modelled["cache_bytes"] <= modelled["peak_bytes"] < modelled["dram_bytes"]
    assert modelled["longest_context"] >= 1
    assert len(measured["per_token"]["samples_ns"]) == 8
    assert {r.job.device for r in Store(tmp_path).records()[0]} == {"sim:n150", "cpu"}


@pytest.mark.parametrize("option", [["--batch", "0"], ["--prompt-length", "a"], ["--device", "nope"], ["--batch", ""]])
def test_tokens_refuses_what_cannot_be_right(option, capsys):
    assert main(["tokens", "transformers/gpt2", *option]) == 2
    assert "error" in capsys.readouterr().err


@pytest.mark.parametrize(("total", "size"), [(0, 1), (1, 0)])
def test_a_cache_without_room_is_refused(total, size):
    with pytest.raises(UsageError):
        Pages(total, size)


@pytest.mark.slow
def test_a_generator_serves_several_requests_with_the_tokens_of_each_alone():
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    from proveout.generation import Generator

    torch.manual_seed(0)
    config = GPT2Config(n_layer=2, n_head=2, n_embd=32, vocab_size=97, n_positions=64, bos_token_id=0, eos_token_id=0)
    model = GPT2LMHeadModel(config).eval()
    generator = Generator.compile(model, device="cpu", max_length=64, batch=3, page_size=8, pages=8)
    requests = [Request(n, tuple(range(1 + n, 6 + 2 * n)), 6) for n in range(5)]
    scheduler = Scheduler(pages=8, page_size=8, slots=3, max_length=64)
    run, tokens = serve(requests, scheduler, GeneratorEngine(generator), MeasuredClock())
    assert run.kind == "measured"
    assert (times(run, "itl") > 0).all()
    assert from_json(Served, to_json(Served.of("m", run))).run.exchanges == run.exchanges, "as a worker tells it"
    for request, got in zip(requests, tokens):
        ids = torch.tensor([request.prompt])
        eager = model.generate(ids, max_new_tokens=6, do_sample=False, eos_token_id=None, pad_token_id=0)
        assert got == eager[0, len(request.prompt) :].tolist()
