"""The explorer's page of generation: what was planned, measured and taken under load, kinds apart."""

from __future__ import annotations

import pytest

pytest.importorskip("streamlit.testing.v1")
pytest.importorskip("plotly")

from test_explorer import shown, text_of
from test_load_figures import answered, ran

from proveout.app import data, explorer_generation
from proveout.cli.verbs.tokens import record_of
from proveout.generation.speed import SpeedAsk, SpeedRow, SpeedTold
from proveout.load.records import ENDPOINT, record
from proveout.load.slo import slo_of
from proveout.serving import Configuration, Load
from proveout.store import Store
from proveout.types import Timing


def fill(folder):
    store = Store(folder)
    serving = Configuration("served", ENDPOINT, load=Load("poisson", 10.0), multiprocess=False)
    run = ran([answered(100 * i, 50 + i % 9) for i in range(120)])
    store.write(record(run, serving, slo_of("ttft=55ms"), {"url": "http://127.0.0.1:1"}, 60.0))
    first, later = (
        Timing(what, "modelled", "sim:n150", (ns,), interval_ns=(ns * 0.5, ns * 2.0), verdict="predicted")
        for what, ns in (("first token", 30_000_000), ("time per token", 8_000_000))
    )
    row = SpeedRow(32, 128, 256, "modelled", first, later, 10**9, 10**8, 2 * 10**9, 12 * 10**9, True, "", 4096, 900)
    store.write(record_of(SpeedAsk("llama.py", device="sim:n150"), SpeedTold("llama", rows=(row,)), row))
    return folder


def test_the_page_tells_kinds_apart(monkeypatch, tmp_path):
    board = data.board(fill(tmp_path))
    assert board.unreadable == ()
    rows = {entry.row.device: explorer_generation.row(entry) for entry in board.entries}
    assert (rows["endpoint"]["kind"], rows["sim:n150"]["kind"]) == ("measured", "modelled")
    assert rows["sim:n150"]["per_user"] == 125.0
    assert rows["sim:n150"]["tokens_per_s"] == 32 * 125.0


@pytest.mark.parametrize(("device", "words"), [("endpoint", "Kept the limits"), ("sim:n150", "Longest context")])
def test_a_link_shows_one_record(monkeypatch, tmp_path, device, words):
    board = data.board(fill(tmp_path))
    [entry] = [e for e in board.entries if e.row.device == device]
    said = text_of(shown("explorer_generation", monkeypatch, tmp_path, record=entry.id))
    assert words in said
    assert f"on {device}" in said


def test_a_record_without_a_time_to_first_token_is_shown_with_the_time_it_has(monkeypatch, tmp_path):
    later = Timing("time per token", "modelled", "sim:n150", (8_000_000,), verdict="predicted")
    row = SpeedRow(1, 128, 256, "modelled", None, later, 10**9, 10**8, 2 * 10**9, 12 * 10**9, True, "", None, 900)
    Store(tmp_path).write(record_of(SpeedAsk("mamba.py", device="sim:n150"), SpeedTold("mamba", rows=(row,)), row))
    said = text_of(shown("explorer_generation", monkeypatch, tmp_path))
    assert "Time per output token" in said
    assert "modelled on sim:n150" in said


def test_the_records_are_on_every_other_page_too(monkeypatch, tmp_path):
    fill(tmp_path)
    shown("explorer_models", monkeypatch, tmp_path)
    for entry in data.board(tmp_path).entries:
        shown("explorer_model", monkeypatch, tmp_path, record=entry.id)
