"""Measures models on an NVIDIA GPU, PyTorch's modes beside ours: `python tests/bench/cuda.py [-o FILE] [ROW…]`.

One process per row; inside it the modes take turns and medians are kept. Rows that the file holds already are not
measured again, so that a run that was stopped goes on where it was. Times are microseconds per call:
 device   CUDA events around calls that follow each other, inputs on the GPU
 host     wall time per call from host memory and back to it, two calls in flight where there are two queues
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import fcntl
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parent))

ROWS = [
    *(f"{name}|bfloat16|1" for name in ("gpt2 128", "mnist 28", "bert-large 384", "codegen-350m 128", "resnet18 224", "resnet18 32")),  # noqa: E501
    *(f"{name}|bfloat16|8" for name in ("resnet18 224", "gpt2 128", "bert-large 384")),
    *(f"{name}|float32|1" for name in ("gpt2 128", "resnet18 224", "bert-large 384")),
]  # fmt: skip
ROUNDS, CALLS = 25, 10
Call = Callable[[], Any]
KEPT: list[Call] = []


def per_call_us(call: Call, calls: int = CALLS) -> float:
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    begin.record()
    for _ in range(calls):
        call()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1e3 / calls


def wall_us(stream_of_calls: Callable[[int], None], calls: int = 40) -> float:
    torch.cuda.synchronize()
    started = time.perf_counter()
    stream_of_calls(calls)
    torch.cuda.synchronize()
    return (time.perf_counter() - started) * 1e6 / calls


def in_one_graph(function: Call) -> tuple[Call, list[Any]]:
    """PyTorch's own code inside one CUDA graph, inputs in place. The function is kept: a graph does not hold weights."""  # noqa: E501
    KEPT.append(function)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            function()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        outputs = tensors(function())
    return graph.replay, outputs


def tensors(output: Any) -> list[torch.Tensor]:
    if isinstance(output, torch.Tensor):
        return [output]
    values = output.values() if isinstance(output, dict) else output
    return [t for value in values for t in tensors(value)]


def pcc(outputs: list[torch.Tensor], reference: list[torch.Tensor]) -> float:
    def one(a: torch.Tensor, b: torch.Tensor) -> float:
        x, y = (t.detach().double().flatten().cpu() for t in (a, b))
        x, y = x - x.mean(), y - y.mean()
        return float((x @ y) / (x.norm() * y.norm()))

    return min(one(a, b) for a, b in zip(outputs, reference, strict=True))


def pytorch_modes(
    model: Any, inputs: dict[str, Any], full: bool, images: bool
) -> Iterator[tuple[str, Call, list[torch.Tensor]]]:
    import torch._dynamo as dynamo

    def compiled(**options: Any) -> Call:
        dynamo.reset()
        function, given = torch.compile(model, **options), dict(inputs)
        return lambda: function(**given)

    if full:
        yield "inductor", (call := compiled()), tensors(call())
        reduced = compiled(mode="reduce-overhead")
        for _ in range(4):
            torch.compiler.cudagraph_mark_step_begin()
            made = [t.clone() for t in tensors(reduced())]
        yield "reduce-overhead", reduced, made
    replay, outputs = in_one_graph(compiled())
    replay()
    yield "inductor, one graph", replay, outputs
    if full:
        with contextlib.suppress(Exception):
            replay, outputs = in_one_graph(compiled(options={"triton.enable_pdl": True}))
            replay()
            yield "inductor + pdl, one graph", replay, outputs
    if images:
        model = copy.deepcopy(model).to(memory_format=torch.channels_last)
        inputs = {"x": inputs["x"].contiguous(memory_format=torch.channels_last)}
        replay, outputs = in_one_graph(compiled())
        replay()
        yield "inductor channels-last, one graph", replay, outputs


def measure_row(row: str, lock: Path) -> dict[str, Any]:
    from cuda_models import build
    from cuda_programs import loaded

    from proveout.devices.cuda.modes import Runner

    name, dtype_name, batch = row.split("|")
    dtype, full = (
        getattr(torch, dtype_name),
        dtype_name == "bfloat16" and batch == "1" and not os.environ.get("BENCH_SHORT"),
    )
    preparing = contextlib.ExitStack()
    preparing.enter_context(locked(lock, shared=True))
    model, inputs = build(name, int(batch), dtype)
    images = "x" in inputs
    started = time.time()
    ours, given = loaded(model, inputs)
    weight_bytes = sum(p.nbytes for p in model.parameters())
    on_gpu = {k: v.cuda() for k, v in inputs.items()}
    model = model.cuda()
    device_calls: dict[str, Call] = {}
    results: dict[str, list[torch.Tensor]] = {}
    with torch.no_grad():
        from torch.utils.flop_counter import FlopCounterMode

        with FlopCounterMode(display=False) as counter:
            results["eager"] = [t.clone() for t in tensors(model(**on_gpu))]
        flops = counter.get_total_flops()
        reference = tensors(model.float()(**{k: v.float() if v.is_floating_point() else v for k, v in on_gpu.items()}))
        model.to(dtype)
        eager_inputs = dict(on_gpu)
        device_calls["eager"] = lambda: model(**eager_inputs)
        for mode, call, outputs in pytorch_modes(model, on_gpu, full, images):
            device_calls[mode], results[mode] = call, outputs
        pytorch_s = time.time() - started
        here = [t.cuda() for t in given]
        results["proveout none"] = tensors(ours.run(here).outputs)
        place, kernels = ours.place, ours.kernels(here).call
        runners = {
            "none": Runner(kernels, place, False, 1), "trace": Runner(kernels, place, True, 1),
            "2cq": Runner(kernels, place, False, 2), "trace+2cq": Runner(kernels, place, True, 2),
        }  # fmt: skip
        device_calls["proveout none"] = lambda: runners["none"].run(here)
        captured = runners["trace"].captured(here)
        if captured is not None:
            captured.replay()
            device_calls["proveout trace"], results["proveout trace"] = captured.replay, captured.outputs
        torch.cuda.synchronize()
        equal = {}
        for mode, runner in runners.items():
            made = runner.run(given)
            equal[mode] = all(torch.equal(a, b.cpu()) for a, b in zip(made, results["proveout none"]))
        compile_s = time.time() - started
        preparing.close()
        with locked(lock):
            for call in device_calls.values():
                per_call_us(call, 3)
            ceilings = measured_ceilings()
            device: dict[str, list[float]] = {mode: [] for mode in device_calls}
            for _ in range(ROUNDS):
                for mode, call in device_calls.items():
                    device[mode].append(per_call_us(call, CALLS if "one graph" in mode or "trace" in mode else 4))
            host: dict[str, list[float]] = {mode: [] for mode in runners}
            for _ in range(7):
                for mode, runner in runners.items():
                    host[mode].append(wall_us(lambda calls, runner=runner: stream(runner, given, calls)))
            state = gpu_state()
        profile = kernel_times(captured.replay) if captured is not None else {}
    io_bytes = sum(t.nbytes for t in (*inputs.values(), *results["eager"]))
    floor = max(
        (weight_bytes + io_bytes) / ceilings["copy_bytes_per_us"], flops / ceilings[f"{dtype_name}_flop_per_us"]
    )
    medians = {mode: round(statistics.median(samples), 2) for mode, samples in device.items()}
    best = min(v for k, v in medians.items() if not k.startswith("proveout"))
    return {
        "row": row, "device_us": medians, "host_us": {m: round(statistics.median(s), 1) for m, s in host.items()},
        "pcc": {mode: round(pcc(made, reference), 6) for mode, made in results.items()}, "modes_equal": equal,
        "best_pytorch_us": best, "ratio": round(min(v for k, v in medians.items() if k.startswith("proveout")) / best, 3),  # noqa: E501
        "roofline_us": round(floor, 1), "flops": flops, "weight_bytes": weight_bytes, "ceilings": ceilings, "state": state,  # noqa: E501
        "versions": {"torch": torch.__version__, "gpu": torch.cuda.get_device_name()},
        "rounds": ROUNDS, "spread_us": {m: [round(min(s), 2), round(max(s), 2)] for m, s in device.items()},
        "prepare_s": [round(pytorch_s), round(compile_s)], "kernels_us": profile,
    }  # fmt: skip


def stream(runner: Any, given: list[Any], calls: int) -> None:
    waiting: list[Any] = []
    for _ in range(calls):
        waiting.append(runner.submit(given))
        if len(waiting) >= runner.queues:
            waiting.pop(0).result()
    for pending in waiting:
        pending.result()


def measured_ceilings() -> dict[str, float]:
    """What this GPU does at best: bytes of a large copy and operations of a large product, per microsecond."""
    big = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
    to = torch.empty_like(big)
    found = {
        "copy_bytes_per_us": 2 * big.nbytes / statistics.median(per_call_us(lambda: to.copy_(big), 3) for _ in range(5))
    }
    for dtype in (torch.bfloat16, torch.float32):
        a = torch.randn(8192 if dtype == torch.bfloat16 else 4096, 8192, dtype=dtype, device="cuda")
        b = torch.randn(8192, 8192, dtype=dtype, device="cuda")
        us = statistics.median(per_call_us(lambda a=a, b=b: a @ b, 2) for _ in range(3))
        found[f"{str(dtype)[6:]}_flop_per_us"] = 2 * a.shape[0] * 8192 * 8192 / us
    return {k: round(v) for k, v in found.items()}


def kernel_times(call: Call) -> dict[str, list[float]]:
    """Kernel name -> [count, total microseconds] of one call, from PyTorch's profiler."""
    from torch.profiler import ProfilerActivity, profile

    with contextlib.suppress(Exception):
        with profile(activities=[ProfilerActivity.CUDA]) as seen:
            call()
            torch.cuda.synchronize()
        rows = [e for e in seen.key_averages() if e.device_time_total > 0]
        rows.sort(key=lambda e: -e.device_time_total)
        return {e.key[:80]: [e.count, round(e.device_time_total, 1)] for e in rows[:14]}
    return {}


def gpu_state() -> str:
    query = "clocks.sm,clocks.mem,temperature.gpu,power.draw,clocks_event_reasons.active"
    with contextlib.suppress(Exception):
        run = subprocess.run(
            ["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"], capture_output=True, text=True
        )
        return run.stdout.strip()
    return ""


@contextlib.contextmanager
def locked(path: Path, shared: bool = False) -> Iterator[None]:
    """Timed sections of rows that are prepared side by side come one after another, and while nobody compiles."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        yield


def show(rows: dict[str, Any]) -> None:
    for row in rows.values():
        if "device_us" not in row:
            print(f"{row.get('row')}: {row.get('error', '')[-300:]}")
            continue
        print(
            f"{row['row']}: {row['ratio']} of the best PyTorch mode ({row['best_pytorch_us']} us); roofline {row['roofline_us']} us; equal {row['modes_equal']}; prepared in {row['prepare_s']} s"  # noqa: E501
        )
        for mode, us in row["device_us"].items():
            print(f"   {mode:36} {us:10.1f} us   pcc {row['pcc'].get(mode, float('nan')):.6f}")
        print("   from host memory:", row["host_us"])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("rows", nargs="*", default=ROWS)
    parser.add_argument("-o", "--out", type=Path, default=Path("results/cuda.json"))
    parser.add_argument("--jobs", type=int, default=1, help="rows prepared at the same time")
    parser.add_argument("--lock", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--limit", type=float, default=540, help="seconds for one row")
    args = parser.parse_args()
    if args.lock:
        from proveout import vision

        vision.serve()
        args.out.write_text(json.dumps(measure_row(args.rows[0], args.lock)))
        return
    args.out.parent.mkdir(parents=True, exist_ok=True)
    known: dict[str, Any] = json.loads(args.out.read_text()) if args.out.exists() else {}
    waiting = [row for row in args.rows if "device_us" not in known.get(row, {})]
    with tempfile.TemporaryDirectory() as folder:
        running: dict[str, tuple[Any, Path, Path, float]] = {}
        while waiting or running:
            while waiting and len(running) < args.jobs:
                row = waiting.pop(0)
                made, log = (
                    Path(folder) / f"{len(known)}-{len(running)}-{time.time_ns()}.{x}" for x in ("json", "log")
                )
                command = [sys.executable, __file__, row, "-o", str(made), "--lock", str(Path(folder) / "lock")]
                running[row] = (
                    subprocess.Popen(command, stdout=log.open("w"), stderr=subprocess.STDOUT),
                    made,
                    log,
                    time.time(),
                )
            time.sleep(0.2)
            for row, (child, made, log, begun) in list(running.items()):
                if child.poll() is None and time.time() - begun < args.limit:
                    continue
                child.kill()
                child.wait()
                known[row] = (
                    json.loads(made.read_text()) if made.exists() else {"row": row, "error": log.read_text()[-3000:]}
                )
                args.out.write_text(json.dumps(known, indent=1))
                del running[row]
                show({row: known[row]})
                sys.stdout.flush()
    if os.environ.get("SHOW_ALL"):
        show(known)


if __name__ == "__main__":
    main()
