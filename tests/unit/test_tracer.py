"""Claims about the tracer: every node with its sizes, forward and backward, and reports made of raw dumps alone."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
import torch
from torch import nn

from proveout import cli
from proveout.capture import LiveModel, discover
from proveout.capture.named import named
from proveout.errors import UsageError
from proveout.report.drawing.histogram import histogram
from proveout.report.stat import node_counts, write_reports
from proveout.tracer import raw
from proveout.tracer.live import trace
from proveout.tracer.stat import tensor_of
from proveout.types import Settings, Workload

SMALL, LARGE = raw.TracedTensor((2,), "float32", 8), raw.TracedTensor((1024,), "bfloat16", 2048)
ADD = raw.Node("add", "aten.add.Tensor", (SMALL, LARGE), (LARGE,))
MUL = raw.Node("mul", "aten.mul.Tensor", (SMALL, SMALL), (SMALL,))
DUMP = raw.TracedModel("tiny", "tiny.py", "ab", "original", (raw.TracedGraph("forward", (ADD, MUL, MUL)),))


def found(model: nn.Module, *args: torch.Tensor) -> LiveModel:
    return LiveModel(Workload("tiny", "tiny.py", "ab12"), model, args, {})


def traced(model: nn.Module, *args: torch.Tensor, **options: object) -> raw.TracedModel:
    asked = {"orig": True, "backward": False, "profile": None, "device": "sim", "settings": Settings()} | options
    return trace(found(model, *args), **asked)  # type: ignore[arg-type]


def ops(dump: raw.TracedModel, phase: str) -> list[str]:
    return [node.op for graph in dump.graphs if graph.phase == phase for node in graph.nodes]


def test_original_graphs_hold_aten_ops_forward_and_backward(tmp_path: Path) -> None:
    profile = tmp_path / "profile" / "tiny.json"
    dump = traced(nn.Sequential(nn.Linear(4, 3), nn.Tanh()), torch.ones(2, 4), backward=True, profile=profile)
    assert "aten.addmm.default" in ops(dump, "forward")
    assert "aten.tanh_backward.default" in ops(dump, "backward")
    addmm = next(n for n in dump.graphs[0].nodes if n.op == "aten.addmm.default")
    assert [(t.shape, t.nbytes) for t in addmm.inputs] == [((3,), 12), ((2, 4), 32), ((4, 3), 48)]
    assert [(t.shape, t.dtype) for t in addmm.outputs] == [((2, 3), "float32")]
    events = json.loads(profile.read_text())["traceEvents"]
    assert any(event.get("name") == "aten::addmm" for event in events)


def test_compiled_graphs_hold_ttnn_calls_and_modelled_times(tmp_path: Path) -> None:
    profile = tmp_path / "tiny.json"
    model = nn.Linear(4, 3)
    dump = traced(model, torch.ones(2, 4), orig=False, settings=Settings(precision="bfloat16"), profile=profile)
    assert "ttnn.linear" in ops(dump, "forward")
    document = json.loads(profile.read_text())
    assert document["otherData"] == {"times": "modelled"}
    assert sum(event["dur"] for event in document["traceEvents"]) > 0


def test_an_argument_used_twice_is_two_inputs() -> None:
    class Square(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * x

    (mul,) = traced(Square(), torch.ones(4)).graphs[0].nodes
    assert len(mul.inputs) == 2


def test_a_model_without_gradients_says_why_it_has_no_backward_graph() -> None:
    dump = traced(nn.Tanh(), torch.ones(4), backward=True)
    assert dump.count("backward") == 0
    assert "no output depends on a parameter" in dump.note


@pytest.mark.parametrize(
    ("dtype", "size"),
    [("bool", 1), ("float8_e4m3fn", 1), ("bfloat16", 2), ("float16", 2), ("int64", 8), ("float64", 8),
     ("complex64", 8), ("complex128", 16)],
)  # fmt: skip
def test_every_dtype_counts_at_its_real_size(dtype: str, size: int) -> None:
    assert tensor_of(torch.empty(3, 5, dtype=getattr(torch, dtype))).nbytes == 15 * size


# -------------------------------------------------------------------------------------------- reports


def rows(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.open()))


def test_reports_count_nodes_and_sizes(tmp_path: Path) -> None:
    write_reports([DUMP, DUMP], tmp_path)
    assert rows(tmp_path / "fw_node_count.csv") == [
        {"op_type": "aten.mul.Tensor", "count": "4", "models": "2"},
        {"op_type": "aten.add.Tensor", "count": "2", "models": "2"},
    ]
    assert rows(tmp_path / "fw_total_input_size_dist" / "aten.add.Tensor.csv") == [
        {"total_input_size_bytes": "2056", "count": "2"}
    ]
    assert rows(tmp_path / "fw_total_output_size_dist" / "aten.mul.Tensor.csv") == [
        {"total_output_size_bytes": "8", "count": "4"}
    ]
    assert (tmp_path / "fw_total_input_size_dist" / "aten.add.Tensor.svg").read_text().startswith("<svg")
    assert not (tmp_path / "bw_node_count.csv").exists()


def test_reports_of_fewer_dumps_leave_nothing_of_the_earlier_ones(tmp_path: Path) -> None:
    write_reports([DUMP], tmp_path)
    only_add = raw.TracedModel("tiny", "tiny.py", "ab", "original", (raw.TracedGraph("backward", (ADD,)),))
    write_reports([only_add], tmp_path)
    left = sorted(p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*.csv"))
    assert left == [
        "bw_node_count.csv",
        "bw_total_input_size_dist/aten.add.Tensor.csv",
        "bw_total_output_size_dist/aten.add.Tensor.csv",
    ]


def test_report_only_makes_the_same_bytes_from_the_raw_dumps(tmp_path: Path) -> None:
    raw.save(DUMP, tmp_path / "stat" / "raw")
    write_reports([DUMP], tmp_path / "direct")
    assert cli.main(["trace", "--report-only", "-o", str(tmp_path / "stat")]) == 0
    for path in (tmp_path / "direct").rglob("*.*"):
        assert (tmp_path / "stat" / path.relative_to(tmp_path / "direct")).read_bytes() == path.read_bytes()


def test_a_dump_survives_its_file(tmp_path: Path) -> None:
    raw.save(DUMP, tmp_path)
    assert raw.load(tmp_path) == [DUMP]
    assert node_counts([DUMP], "backward") == []


def test_a_histogram_puts_a_size_into_the_bin_that_begins_at_or_below_it() -> None:
    text = histogram("op", "said", {0: 1, 1023: 2, 1024: 3, 1500: 4})
    assert ">0 B<" in text
    assert ">1 KiB<" in text
    assert [f">{n}<" in text for n in (1, 2, 7)] == [True] * 3


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["trace"], "no model was named"),
        (["trace", "linear", "--report-only"], "--report-only traces nothing"),
        (["trace", "--report-only", "-o", "nowhere"], "no raw dumps in nowhere/raw"),
    ],
)
def test_what_cannot_be_traced_is_refused(
    words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(words) == 2
    assert message in capsys.readouterr().err


# ---------------------------------------------------------------------------------------------- names


def test_a_stem_of_the_corpora_is_a_model_s_name() -> None:
    (one,) = named(["Two-Layer"])
    assert (one.name, one.script.name) == ("two_layer", "two_layer.py")
    assert named(["selftest/linear"])[0].script.parent.name == "selftest"


def test_a_corpus_is_all_of_its_scripts() -> None:
    assert {"linear", "attention"} <= {one.name for one in named(["selftest"])}


def test_any_other_name_is_served_by_transformers() -> None:
    (one,) = named(["bert"], ["selftest"], "num_hidden_layers=1")
    assert (one.script.name, one.script_args) == ("from_transformers.py", "bert num_hidden_layers=1")
    assert one.call("from_transformers::BertModel") == "bert::BertModel"


def test_a_name_in_two_corpora_asks_which(tmp_path: Path) -> None:
    for corpus in ("a", "b"):
        (tmp_path / corpus).mkdir()
        (tmp_path / corpus / "net.py").write_text("")
    with pytest.raises(UsageError, match="in several corpora: a/net, b/net"):
        named(["net"], [str(tmp_path)])
    assert named(["b/net"], [str(tmp_path)])[0].script == tmp_path / "b" / "net.py"


@pytest.mark.slow
def test_a_name_that_transformers_does_not_know_is_answered_with_the_nearest() -> None:
    pytest.importorskip("transformers")
    from proveout.capture.from_transformers import build

    with pytest.raises(UsageError, match="Similar names: bert"):
        build("brt", {})
    (asked,) = named(["brt"])
    told = discover(asked.script, script_args=asked.script_args).error
    assert told.startswith("'brt' is not a script in the corpora, an architecture of transformers")
