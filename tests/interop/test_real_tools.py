"""Our exports, handed to the real tools: each in its own environment (`make test-interop` makes them)."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import zoo

from proveout import recording
from proveout.engine.compiled import compile
from proveout.report.perf import files as perf
from proveout.report.perf.advice import advise
from proveout.report.perf.sheet import Sheet, make_sheet
from proveout.types import Comparison

pytestmark = [pytest.mark.interop, pytest.mark.slow]
ROOT = Path(__file__).parents[2]
RUNS = {
    "bert": ("bert", "sim:n150", {}),
    "bert-traced-p150": ("bert", "sim:p150", {"trace": True, "math_fidelity": "LoFi", "weights": "bfloat8_b"}),
    "resnet18": ("resnet18", "sim:n150", {"queues": 2}),
    "gpt2-model-precision": ("gpt2", "sim:n150", {"precision": "model"}),
    "bert-two-chips": ("bert", "sim:n300", {"parallel": "tensor"}),
}

NOT_IN_ITS_TABLE = {
    "BatchNormOperation",
    "FullDeviceOperation",
    "GatherDeviceOperation",
    "PagedFillCacheDeviceOperation",
    "ProdAllDeviceOperation",
    "ProdNcDeviceOperation",
    "RotaryEmbeddingHfDeviceOperation",
    "ScatterDeviceOperation",
    "SortDeviceOperation",
    "TopKDeviceOperation",
    "UntilizeCodegenDeviceOperation",
    "UpdateKVCacheOperation",
}
"""Classes of tt-metal that tt-perf-report 1.4.1 has no category for, whoever runs them."""


def tool(name: str, program: str) -> str:
    path = ROOT / ".venv-interop" / name / "bin" / program
    if not (ROOT / ".venv-interop" / name / "made").exists():
        pytest.skip(f"{name} is not installed: run `make test-interop` where PyPI can be reached")
    return str(path)


@pytest.fixture(scope="module", params=RUNS)
def export(request, tmp_path_factory) -> tuple[Sheet, dict[str, Path]]:
    model, device, settings = RUNS[request.param]
    folder = tmp_path_factory.mktemp(request.param)
    module, inputs = getattr(zoo, model)()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PROVEOUT_CACHE", str(folder / "cache"))
        chosen = {"precision": "bfloat16", **settings}
        compiled = compile(module, inputs, device=device, settings=chosen, record=folder / "programs")
    sheet = make_sheet(request.param, recording.load(folder / "programs"))
    checked = next(s for s in compiled.program.body if s.kernel in ("ttnn.linear", "ttnn.matmul", "ttnn.conv2d"))
    comparison = Comparison("step", checked.outputs[0], 0.9995, 0.01, 0.1, 0.97, True, accumulated_pcc=0.999)
    files = perf.write(sheet, advise(sheet.recorded), folder / "out", datetime.now(UTC), [comparison])
    return sheet, files


# -------------------------------------------------------------------------------------- tt-perf-report


@pytest.fixture(scope="module")
def reported(export, tmp_path_factory) -> tuple[Sheet, str, list[dict[str, str]]]:
    """What tt-perf-report prints for the export, and the rows it writes."""
    sheet, files = export
    rows = tmp_path_factory.mktemp("rows") / "rows.csv"
    program = tool("tt-perf-report", "tt-perf-report")
    printed = subprocess.run([program, str(files["csv"]), "--no-color"], capture_output=True, text=True, timeout=120)
    assert printed.returncode == 0, printed.stderr
    written = subprocess.run(
        [program, str(files["csv"]), "--no-color", "--csv", str(rows)], capture_output=True, text=True, timeout=120
    )
    assert written.returncode == 0, written.stderr
    return sheet, printed.stdout, list(csv.DictReader(rows.open()))


def test_tt_perf_report_knows_the_format_and_every_operation(reported):
    sheet, printed, rows = reported
    assert "CSV format: v2.1" in printed
    assert set(re.findall(r"Unclassified operation '(\w+)'", printed)) <= NOT_IN_ITS_TABLE
    assert "unknown shape" not in printed
    assert "Traceback" not in printed
    hosted = sum(row.kind == "host" for row in sheet.rows)
    assert f"{len(sheet.device_rows)} device ops, {hosted} host ops" in printed
    assert len(rows) == len(sheet.device_rows) + hosted


def test_tt_perf_report_has_our_device_times_cores_and_total(reported):
    sheet, _, rows = reported
    timed = [row for row in rows if "(torch)" not in row["OP Code"]]
    assert [float(row["Device Time"]) for row in timed] == [
        pytest.approx(row.time.ns / 1e3) for row in sheet.device_rows
    ]
    assert [int(float(row["Cores"])) for row in timed] == [row.time.cores for row in sheet.device_rows]
    assert sum(float(row["Device Time"]) for row in timed) == pytest.approx(sheet.kernel_ns / 1e3)


def test_tt_perf_report_analyses_every_matmul_in_full_below_its_peaks(reported):
    _, _, rows = reported
    products = [row for row in rows if row["OP Code"].startswith("MatmulDeviceOperation")]
    assert products
    for row in products:
        assert row["Bound Analysis"] == "full"
        assert 0 < float(row["FLOPs %"]) <= 100
        assert float(row["DRAM %"] or 0) <= 100


# ------------------------------------------------------------------------------------- ttnn-visualizer


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """The real server on a free port of this machine, with folders of its own."""
    program = tool("ttnn-visualizer", "ttnn-visualizer")
    folder = tmp_path_factory.mktemp("visualizer")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    settings = {
        "APP_DATA_DIRECTORY": str(folder / "app"),
        "REPORT_DATA_DIRECTORY": str(folder / "reports"),
        "LAUNCH_BROWSER_ON_START": "false",
        "USAGE_RECORDING_DISABLED": "true",
    }
    log = (folder / "log").open("w")
    child = subprocess.Popen(
        [program, "--host", "127.0.0.1", "--port", str(port)],
        cwd=folder,
        env={**os.environ, **settings},
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    address = f"http://127.0.0.1:{port}/api"
    try:
        for _ in range(120):
            try:
                urllib.request.urlopen(f"{address}/up", timeout=5)
                break
            except OSError:
                assert child.poll() is None, (folder / "log").read_text()
                time.sleep(0.5)
        yield address
    finally:
        os.killpg(child.pid, signal.SIGTERM)
        child.wait(timeout=30)


@pytest.fixture(scope="module")
def opened(export, server):
    """The export opened in the server: a way to ask it."""
    sheet, files = export
    paths = {"profiler_path": str(files["memory"]), "performance_path": str(files["performance"])}
    asked = urllib.request.Request(
        f"{server}/instance/local-paths", json.dumps(paths).encode(), {"Content-Type": "application/json"}
    )
    instance = json.loads(urllib.request.urlopen(asked, timeout=60).read())["instance_id"]

    def get(path: str) -> Any:
        try:
            answer = urllib.request.urlopen(f"{server}/{path}?instanceId={instance}", timeout=60)
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{path}: {error.code} {error.read()[:300]!r}") from error
        return json.loads(answer.read())

    return sheet, get


def test_the_visualizer_serves_our_operations_with_their_tensors(opened):
    sheet, get = opened
    operations = get("operations")
    body = [step for r in sheet.recorded for step in r.program.body]
    assert len(operations) == len(body)
    for operation, step in zip(operations, body, strict=True):
        assert operation["name"].removeprefix("(torch) ") == step.kernel
        assert len(operation["inputs"]) == len(step.uses)
        assert len(operation["outputs"]) == len(step.outputs)
    assert len(get("tensors")) >= len({n for s in body for n in s.outputs})


def test_the_visualizer_serves_devices_buffers_and_where_times_come_from(opened):
    sheet, get = opened
    (device,) = get("devices")
    assert device["num_compute_cores"] == sheet.chip.cores
    assert len(get("operation-buffers")) == sum(len(r.program.body) for r in sheet.recorded)
    buffers = get("buffers")
    assert {b["buffer_type"] for b in buffers} == {0, 1}
    # Addresses lie in each core's L1, above what kernels and firmware keep.
    reserved = sheet.chip.l1_per_core - sheet.chip.l1_allocatable
    assert all(reserved <= b["address"] < sheet.chip.l1_per_core for b in buffers if b["buffer_type"] == 1)
    assert get("buffer-pages")
    assert "modelled" in get("report-metadata")["times"]
    assert "modelled" in get("config")["times"]
    assert get("cluster-descriptor")["arch"] == {"0": sheet.chip.arch}


def test_the_visualizer_shows_the_pcc_of_a_call(opened):
    sheet, get = opened
    checked = next(
        (i, step)
        for i, step in enumerate((s for r in sheet.recorded for s in r.program.body), 1)
        if step.kernel in ("ttnn.linear", "ttnn.matmul", "ttnn.conv2d")
    )
    (output,) = get(f"operations/{checked[0]}")["outputs"]
    comparison = output["comparison"]
    assert comparison["local"]["actual_pcc"] == 0.9995
    assert comparison["global"]["actual_pcc"] == 0.999


def test_the_visualizer_serves_the_performance_report(opened):
    sheet, get = opened
    report = get("performance/perf-results/report")["report"]
    device = [row for row in report if row["op_type"] == "tt_dnn_device"]
    assert [row["raw_op_code"] for row in device] == [row.code for row in sheet.device_rows]
    assert sum(float(row["device_time"]) for row in device) == pytest.approx(sheet.kernel_ns / 1e3, rel=1e-3)
    assert get("performance/device-log")
    meta = get("performance/device-log/meta")
    assert (meta["architecture"], meta["max_cores"]) == (sheet.chip.arch, sheet.chip.cores)


LINK = """
import json, sys
from ttnn_visualizer.agent import linking
from ttnn_visualizer.agent.handles import ReportRegistry, load_report
registry = ReportRegistry()
report = load_report(registry, profiler_path=sys.argv[1], performance_path=sys.argv[2])
link = linking.operation_link(registry, report["handle"])
print(json.dumps({**link.as_response(), "unanswerable": report["unanswerable"]}))
"""


def test_the_visualizer_links_the_two_folders(export):
    sheet, files = export
    python = tool("ttnn-visualizer", "python")
    done = subprocess.run(
        [python, "-c", LINK, str(files["memory"]), str(files["performance"])],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    link = json.loads(done.stdout.splitlines()[-1])
    assert link["status"] == "linked"
    assert link["matched_rows"] == len(sheet.device_rows)
    assert link["unanswerable"] == []
