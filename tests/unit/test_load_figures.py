"""Claims about what a run under load says: limits, goodput, refused percentiles, traces, capacity, Records."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scripted_endpoint import Endpoint, Script

from proveout.cli import main
from proveout.errors import UsageError
from proveout.load.capacity import capacity
from proveout.load.exchange import Exchange, Run
from proveout.load.figures import figures, times
from proveout.load.plan import Ask, replay_plan, steady_plan
from proveout.load.records import ENDPOINT, record
from proveout.load.slo import slo_of
from proveout.load.text import capacity_text, text
from proveout.serving import Configuration, Load
from proveout.store import Store

MS = 1_000_000
SERVING = Configuration("m", ENDPOINT, load=Load("poisson", 10.0), multiprocess=False)


def answered(due_ms: float, first_ms: float = 50, gap_ms: float = 10, tokens: int = 5, error: str = "") -> Exchange:
    due = round(due_ms * MS)
    pieces = [due + round((first_ms + i * gap_ms) * MS) for i in range(tokens)]
    return Exchange(due, due + 1000, pieces, pieces[-1] if pieces else due, error=error)


def ran(exchanges: list[Exchange]) -> Run:
    return Run(tuple(exchanges), 0, max(e.ended_ns for e in exchanges))


def test_goodput_counts_only_what_keeps_every_limit():
    fine, late, slow = answered(0), answered(100, first_ms=300), answered(200, gap_ms=80)
    broken = answered(300, error="the connection was closed after 5 tokens")
    slo = slo_of("ttft=200ms,tpot=50ms")
    assert [slo.kept(e) for e in (fine, late, slow, broken)] == [True, False, False, False]
    report = figures(ran([fine, late, slow, broken] * 25), SERVING, slo)
    assert report["good_share"] == 0.25
    assert report["goodput"] == pytest.approx(0.25 * 100 / report["total_s"])
    assert (report["errors"], report["error_kinds"][0]["requests"]) == (25, 25)


def test_percentiles_that_the_sample_cannot_support_are_refused_with_what_they_need():
    report = figures(ran([answered(100 * i, 50 + i % 7) for i in range(60)]), SERVING)
    assert report["ttft_ms_p50"] is not None
    assert report["ttft_ms_p99"] is None
    assert "p99 needs" in report["reasons"]["ttft_ms_p99"]
    assert report["verdict"] == "INVALID"
    assert "TTFT: 60 samples" in json.dumps(report["verdict_reasons"])
    assert "p99 needs" in text(report)


def test_first_tokens_and_gaps_of_an_answer_that_broke_off_are_counted():
    run = ran([answered(0), answered(10, tokens=3, error="cut")])
    assert len(times(run, "ttft")) == 2
    assert len(times(run, "itl")) == 4 + 2
    assert len(times(run, "latency")) == len(times(run, "tpot")) == 1


def test_a_piece_of_several_tokens_counts_as_the_server_says():
    exchange = answered(0, tokens=3, gap_ms=10)
    exchange.tokens = 6
    assert exchange.per_token_ns == pytest.approx(20 * MS / 5)


def test_a_client_that_sends_late_says_so():
    exchanges = [answered(100 * i) for i in range(1000)]
    for exchange in exchanges:
        exchange.sent_ns = exchange.intended_ns + 5 * MS
    kinds = [p["kind"] for p in figures(ran(exchanges), SERVING)["verdict_reasons"]]
    assert "client late" in kinds


@pytest.mark.parametrize("bad", ["ttft", "ttft=5", "ttft=-1ms", "ttft=nanms", "ttft=1ms,ttft=2ms", "speed=1ms"])
def test_limits_that_are_none_are_refused(bad):
    with pytest.raises(UsageError):
        slo_of(bad)


def test_limits_take_any_unit():
    assert dict(slo_of("TTFT=0.2s, tpot=50ms,itl=500us").longest_ns) == {"ttft": 2e8, "tpot": 5e7, "itl": 5e5}


# ----------------------------------------------------------------------------------------- plans


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("own.csv", "at_s,prompt_tokens,max_tokens\n10,5,2\n10.5,7,3\n"),
        ("own.jsonl", '{"at_s": 10, "prompt_tokens": 5, "max_tokens": 2}\n\n'
         '{"at_ms": 10500, "prompt_tokens": 7, "max_tokens": 3}\n'),
        ("mooncake.jsonl", '{"timestamp": 0, "input_length": 5, "output_length": 2, "hash_ids": []}\n'
         '{"timestamp": 500, "input_length": 7, "output_length": 3, "hash_ids": []}\n'),
        ("azure.csv", "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,5,2\n"
         "2023-11-16 18:17:04.4799600,7,3\n"),
    ],
)  # fmt: skip
def test_traces_of_four_kinds_are_replayed(tmp_path, name, content):
    path = tmp_path / name
    path.write_text(content)
    plan = replay_plan(path, Ask(1, 1), speed=2)
    assert plan.intended_ns.tolist() == [0, 250 * MS]
    assert [(a.prompt_tokens, a.max_tokens) for a in plan.asks] == [(5, 2), (7, 3)]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("", "holds no request"),
        ("a,b\n1,2\n", "request 1 of t.csv: it has no time"),
        ("at_s\nsoon\n", "'soon', which is no time"),
        ("at_s,max_tokens\n1,-3\n", "'-3', which is no number of tokens"),
        ("at_s\n5\n1\n", "starts before the one ahead"),
        ('{"at_s": 1}\nnope\n', "line 2 of t.csv is not a JSON object"),
        ('{"at_s": 1, "prompt": 5}\n', "prompt is no text"),
        ("at_s\n1e300\n", "which is no time"),
    ],
)
def test_a_trace_that_cannot_be_replayed_says_where(tmp_path, content, sentence):
    path = tmp_path / "t.csv"
    path.write_text(content)
    with pytest.raises(UsageError, match=sentence):
        replay_plan(path, Ask(1, 1))


def test_a_rate_too_low_for_its_duration_is_refused():
    with pytest.raises(UsageError, match="is no request"):
        steady_plan(Load("poisson", 0.001), 1.0, Ask(1, 1))


# --------------------------------------------------------------------------------------- capacity


def queue(rate: float, seconds: float = 200.0, servers: int = 4, service_ms: float = 100.0) -> Run:
    """Requests by Poisson to so many servers, each of which takes one at a time: capacity is servers ÷ service."""
    due = np.sort(np.random.default_rng(3).uniform(0, seconds * 1e3, int(rate * seconds)))
    free = [0.0] * servers
    exchanges = []
    for at in due:
        server = free.index(min(free))
        start = max(free[server], at)
        free[server] = start + service_ms
        exchanges.append(answered(at, first_ms=start - at + service_ms / 2, gap_ms=service_ms / 8))
    return ran(exchanges)


def test_capacity_is_found_below_what_the_servers_can_do():
    answer = capacity(queue, slo_of("ttft=250ms,tpot=20ms"), start_rate=5, attain=0.95)
    assert answer.rate is not None
    assert 28 < answer.rate < 40
    assert answer.missed_rate / answer.rate <= 1.05
    assert "Capacity:" in capacity_text(answer)


def test_capacity_under_a_limit_that_nothing_keeps_is_none():
    answer = capacity(queue, slo_of("ttft=250ms,tpot=1ms"), start_rate=5)
    assert (answer.rate, answer.shown_rate) == (None, None)
    assert len(answer.runs) < 10, "it ends when a run has only a few requests"
    assert "do not keep ttft=250ms,tpot=1ms" in answer.reason


def test_capacity_says_when_a_run_is_too_short_to_tell():
    answer = capacity(lambda rate: queue(rate, 2.0), slo_of("ttft=9s"), start_rate=5)
    assert answer.rate is None
    assert "run for at least" in answer.reason


# ----------------------------------------------------------------------------------------- Records


def test_a_record_has_the_times_apart_and_is_found_by_sql(tmp_path):
    store = Store(tmp_path)
    store.write(record(ran([answered(100 * i) for i in range(40)]), SERVING, slo_of("ttft=1s"), {"url": "u"}, 60.0))
    _, rows = store.query("select did, device, first_token_ms, per_token_ms, first_token_kind, goodput from records")
    assert rows[0][:5] == ("load", "endpoint", 50.0, 10.0, "measured")
    assert rows[0][5] == pytest.approx(10, rel=0.1)


@pytest.mark.slow
def test_the_verb_measures_an_endpoint_and_keeps_a_record(tmp_path, capsys):
    with Endpoint(Script(first_s=0.02, gap_s=0.002, tokens=4)) as server:
        line = ["load", server.url, "--rate", "40", "--duration", "1", "--slo", "ttft=5s", "--cache-dir", str(tmp_path)]
        assert main([*line, "--json"]) == 0
        report = json.loads(capsys.readouterr().out)["report"]
        assert {b["max_tokens"] for b in server.script.bodies} == {16}
        prompts = {b["prompt"] for b in server.script.bodies}
        assert len(prompts) == len(server.script.bodies), "no two prompts are alike"
        assert {len(p.split()) for p in prompts} == {128}
        assert main([*line, "--api", "chat", "--header", "Authorization: Bearer k", "--seed", "1"]) == 0
        assert "TTFT" in capsys.readouterr().out
        assert "authorization: bearer k" in server.script.heads[-1].lower()
    assert (report["answered"], report["errors"], report["good_share"]) == (report["requests"], 0, 1.0)
    records, bad = Store(tmp_path).records()
    assert (len(records), bad) == (2, [])
    assert "Bearer" not in json.dumps([r.report for r in records])
    assert {r.timing("first token").kind for r in records} == {"measured"}


@pytest.mark.slow
def test_the_verb_says_that_nothing_keeps_a_limit(tmp_path, capsys):
    with Endpoint(Script(first_s=0.0, gap_s=0.0, tokens=1)) as server:
        line = [
            "load",
            server.url,
            "--capacity",
            "--rate",
            "20",
            "--duration",
            "0.5",
            "--slo",
            "ttft=1us",
            "--arrivals",
        ]
        assert main([*line, "constant", "--cache-dir", str(tmp_path)]) == 1
    printed = capsys.readouterr()
    assert "missed" in printed.out
    assert "Capacity: not known" in printed.out


@pytest.mark.parametrize(
    "options",
    [["--rate", "0"], ["--arrivals", "x"], ["--api", "x"], ["--body", "[1]"], ["--header", "x"], ["--slo", "x=1ms"],
     ["--capacity"], ["--capacity", "--replay", "x.csv", "--slo", "ttft=1s"], ["--replay", "missing.csv"],
     ["--timeout", "nan"], ["--attain", "2", "--capacity", "--slo", "ttft=1s"]],
)  # fmt: skip
def test_what_cannot_be_right_is_refused_before_anything_is_sent(options, capsys):
    assert main(["load", "http://127.0.0.1:9", *options]) == 2
    assert "error" in capsys.readouterr().err
