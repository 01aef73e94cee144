"""What `cuda.py` measures, and how: rows, modes, and the processes they run in."""

from __future__ import annotations

import argparse
import contextlib
import copy
import faulthandler
import fcntl
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from cuda_decode import LENGTH, PROMPT, OneToken, program_step
from cuda_models import build
from cuda_programs import loaded
from torch.utils.flop_counter import FlopCounterMode

from proveout import vision
from proveout.devices.cuda.decode import Decoding
from proveout.devices.cuda.modes import Runner
from proveout.types import Settings

FORWARD = ("bert-large 384", "gpt2 128", "codegen-350m 128", "resnet18 224", "resnet18 32", "mnist 28")
GENERATION = ("gpt2 64+64", "codegen-350m 64+64")
ONLY_GRAPHS = "BENCH_ONLY_GRAPHS"
"""Set for a row's process that leaves out reduce-overhead: slow to prepare, and never as fast as one CUDA graph."""
ROWS = [
    *(f"{name}|bfloat16|1" for name in (*FORWARD, *GENERATION)),
    *(f"{name}|float32|1" for name in FORWARD),
    *(f"{name}|bfloat16|8" for name in FORWARD),
    *(f"{name}|bfloat16+int8|1" for name in GENERATION),
    "bert-large 384|bfloat16+float8|8", "bert-large 384|float32+tf32|1", "resnet18 224|float32+tf32|1",
    "gpt2 128|float16|1",
    *(f"{name}|float32|1" for name in GENERATION),
]  # fmt: skip
SETTINGS: dict[str, dict[str, Any]] = {
    "": {}, "int8": {"weights": "int8"}, "float8": {"weights": "float8"}, "tf32": {"precision": "tf32"},
}  # fmt: skip
"""What may follow a row's dtype, as settings of ours. PyTorch's modes are allowed TF32 where we are."""
ROUNDS, CALLS = 25, 10
LOG = 20_000
"""Characters that are kept of what a row said that was ended."""
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


def wall_us(stream_of_calls: Callable[[int], None], calls: int) -> float:
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

    plain = compiled()
    if full:
        yield "inductor", plain, tensors(plain())
    if full and not os.environ.get(ONLY_GRAPHS):
        reduced = compiled(mode="reduce-overhead")
        for _ in range(4):
            torch.compiler.cudagraph_mark_step_begin()
            made = [t.clone() for t in tensors(reduced())]
        yield "reduce-overhead", reduced, made
    replay, outputs = in_one_graph(plain)
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
    name, numbers, batch = row.split("|")
    dtype_name, _, setting = numbers.partition("+")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = setting == "tf32"
    measure = measure_generation if "+" in name else measure_forward
    made = measure(row, name, dtype_name, Settings.of(SETTINGS[setting]), int(batch), lock)
    pytorch = {
        mode: us for mode, us in made["device_us"].items() if not mode.startswith("proveout") and made["right"][mode]
    }
    ours = {mode: us for mode, us in made["device_us"].items() if mode.startswith("proveout")}
    made["best_pytorch"] = min(pytorch, key=lambda mode: pytorch[mode])
    made["best_pytorch_us"] = pytorch[made["best_pytorch"]]
    made["ratio"] = round(min(ours.values()) / made["best_pytorch_us"], 3)
    return {"row": row, **made, "state": gpu_state(), "versions": versions(), "rounds": ROUNDS}


def versions() -> dict[str, str]:
    import transformers
    import triton

    return {
        "torch": torch.__version__, "triton": triton.__version__, "transformers": transformers.__version__,
        "gpu": torch.cuda.get_device_name(), "python": sys.version.split()[0],
    }  # fmt: skip


def measure_forward(row: str, name: str, dtype_name: str, settings: Settings, batch: int, lock: Path) -> dict[str, Any]:
    full = dtype_name == "bfloat16" and settings == Settings() and batch == 1
    dtype = getattr(torch, dtype_name)
    model, inputs = build(name, batch, dtype)
    images = "x" in inputs
    started = time.time()
    ours, given = loaded(model, inputs, settings=settings)
    weight_bytes = sum(p.nbytes for p in model.parameters())
    on_gpu = {k: v.cuda() for k, v in inputs.items()}
    model = model.cuda()
    device_calls: dict[str, Call] = {}
    results: dict[str, list[torch.Tensor]] = {}
    with torch.no_grad():
        with FlopCounterMode(display=False) as counter:
            results["eager"] = [t.clone() for t in tensors(model(**on_gpu))]
        flops = counter.get_total_flops()
        exact = copy.deepcopy(model).double()
        reference = tensors(exact(**{k: v.double() if v.is_floating_point() else v for k, v in on_gpu.items()}))
        del exact
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
        with alone(lock):
            ceilings = measured_ceilings()
            device = turns(device_calls)
            host: dict[str, list[float]] = {mode: [] for mode in runners}
            for _ in range(5):
                for mode, runner in runners.items():
                    host[mode].append(wall_us(lambda calls, runner=runner: stream(runner, given, calls), 20))
            profile = kernel_times(captured.replay) if captured is not None else {}
    io_bytes = sum(t.nbytes for t in (*inputs.values(), *results["eager"]))
    rate = ceilings[
        "float32_flop_per_us" if dtype_name == "float32" and settings.precision != "tf32" else "bfloat16_flop_per_us"
    ]
    closeness = {mode: round(pcc(made, reference), 6) for mode, made in results.items()}
    return {
        **summary(device), "host_us": {m: round(statistics.median(s), 1) for m, s in host.items()}, "pcc": closeness,
        "right": {mode: closeness[mode] > closeness["eager"] - 0.002 for mode in closeness}, "modes_equal": equal,
        "roofline_us": round(max((weight_bytes + io_bytes) / ceilings["copy_bytes_per_us"], flops / rate), 1),
        "flops": flops, "weight_bytes": weight_bytes, "ceilings": ceilings, "ours": ours.report,
        "prepare_s": [round(pytorch_s), round(compile_s)], "kernels_us": profile,
    }  # fmt: skip


def turns(calls: dict[str, Call]) -> dict[str, list[float]]:
    """Samples of each mode, taken in turns."""
    for call in calls.values():
        per_call_us(call, 3)
    samples: dict[str, list[float]] = {mode: [] for mode in calls}
    for _ in range(ROUNDS):
        for mode, call in calls.items():
            samples[mode].append(per_call_us(call, CALLS if "graph" in mode or "trace" in mode else 4))
    return samples


def summary(device: dict[str, list[float]]) -> dict[str, Any]:
    return {
        "device_us": {mode: round(statistics.median(samples), 2) for mode, samples in device.items()},
        "samples_us": {mode: [round(us, 2) for us in samples] for mode, samples in device.items()},
        "spread_us": {mode: [round(min(s), 2), round(max(s), 2)] for mode, s in device.items()},
    }


def measure_generation(
    row: str, name: str, dtype_name: str, settings: Settings, batch: int, lock: Path
) -> dict[str, Any]:
    """Decoding a token after a prompt of 64, and 64 tokens in a row: eager and Inductor with a static cache in one CUDA
    graph, and ours."""
    dtype, gpu = getattr(torch, dtype_name), torch.device("cuda", 0)
    started = time.time()
    model, inputs = build(name.replace("64+64", "128"), batch, dtype)
    prompt = inputs["input_ids"][:, : PROMPT + 1].contiguous()
    weight_bytes = sum(p.nbytes for p in model.parameters())
    here = OneToken(model, batch, torch.device("cpu"))
    there = OneToken(copy.deepcopy(model).cuda(), batch, gpu)
    there.prefill(prompt[:, :-1].cuda())
    there.at(PROMPT)
    ours, on_gpu = program_step(here, there, prompt[:, -1:].clone(), settings, gpu)
    steps: dict[str, Any] = {"eager": there, "proveout none": ours, "eager, one graph": there, "proveout trace": ours}
    torch._dynamo.reset()
    compiled = torch.compile(there, fullgraph=True)
    steps["inductor, one graph"] = lambda tokens, position: compiled(tokens, position)
    made: dict[str, torch.Tensor] = {}
    logits: dict[str, torch.Tensor] = {}
    decodings: dict[str, Decoding] = {}
    errors: dict[str, str] = {}

    def begin(decoding: Decoding) -> None:
        there.reset()
        there.prefill(prompt[:, :-1].cuda())
        there.at(PROMPT)
        decoding.start(prompt[:, -1:].cuda(), PROMPT)

    for mode, step in steps.items():
        decoding = Decoding(step, batch, gpu, trace="graph" in mode or "trace" in mode)
        try:
            begin(decoding)
            decoding.advance()
            begin(decoding)
            decoding.advance()
            logits[mode] = decoding.logits.clone()
            begin(decoding)
            made[mode] = decoding.generate(LENGTH - PROMPT - 1).cpu()
            decodings[mode] = decoding
        except Exception as error:
            errors[mode] = f"{type(error).__name__}: {error}"[:500]
            if mode.startswith("proveout"):
                raise
    there.reset()
    exact = copy.deepcopy(there.model).double()
    with torch.no_grad():
        reference = [exact(input_ids=prompt.cuda(), use_cache=False).logits[:, -1]]
    del exact
    compile_s = time.time() - started

    def token(decoding: Decoding) -> Call:
        def call() -> None:
            decoding.position.fill_(PROMPT)
            decoding.advance()

        return call

    with alone(lock):
        ceilings = measured_ceilings()
        calls = {mode: token(decoding) for mode, decoding in decodings.items()}
        there.at(PROMPT)
        samples: dict[str, list[float]] = {mode: [] for mode in calls}
        for _ in range(ROUNDS):
            for mode, call in calls.items():
                there.at(PROMPT)
                samples[mode].append(per_call_us(call, 10))
        profile = kernel_times(calls["proveout trace"])
    closeness = {mode: round(pcc([made], reference), 6) for mode, made in logits.items()}
    same = {mode: int((tokens == made["eager"]).all(0).long().cumprod(0).sum()) for mode, tokens in made.items()}
    return {
        **summary(samples), "pcc": closeness,
        "right": {mode: closeness[mode] > closeness["eager"] - 0.002 for mode in logits},
        "equal_tokens": same, "tokens": made["eager"].shape[1], "errors": errors,
        "tie": tie(made["eager"], made["proveout trace"], there, prompt),
        "modes_equal": {"trace": bool((made["proveout trace"] == made["proveout none"]).all())},
        "roofline_us": round(weight_bytes / ceilings["copy_bytes_per_us"], 1), "weight_bytes": weight_bytes,
        "ceilings": ceilings, "ours": on_gpu.report, "prepare_s": [0, round(compile_s)], "kernels_us": profile,
    }  # fmt: skip


def tie(eager: torch.Tensor, ours: torch.Tensor, there: OneToken, prompt: torch.Tensor) -> dict[str, Any]:
    """Where the tokens of the first sequence part: eager's two logits there, which are one rounding apart where it is a
    tie."""
    apart = (eager[0] != ours[0]).nonzero()
    if not len(apart):
        return {}
    at = int(apart[0])
    text = torch.cat((prompt[:1], eager[:1, :at]), 1).cuda()
    with torch.no_grad():
        logits = there.model(input_ids=text, use_cache=False).logits[0, -1].float()
    top = logits.topk(2).values
    return {
        "at": at, "eager": float(logits[eager[0, at]]), "ours": float(logits[ours[0, at]]),
        "top": [float(top[0]), float(top[1])],
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
def alone(lock: Path) -> Iterator[None]:
    """Timed sections come one after another, and everything that runs beside them is stopped meanwhile: each process
    group that has a file by its number in the lock's folder. A lock that preparing processes share would do too, but
    then the slowest of them holds up all that are ready."""
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        groups = beside(lock) - {os.getpgrp()}
        signalled(groups, signal.SIGSTOP)
        time.sleep(0.05)  # what they had launched has ended
        try:
            yield
        finally:
            signalled(groups, signal.SIGCONT)


def beside_folder(lock: Path) -> Path:
    return lock.with_name(lock.name + ".beside")


def beside(lock: Path) -> set[int]:
    return {int(file.name) for file in beside_folder(lock).glob("*") if file.name.isdecimal()}


def signalled(groups: set[int], number: int) -> None:
    for group in groups:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, number)


def start_row(command: list[str], log: Path, lock: Path) -> subprocess.Popen[bytes] | None:
    """A row's process in a group of its own, unless a timed section is under way: then none may join it."""
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return None
        with log.open("w") as out:
            child = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, start_new_session=True)
        (beside_folder(lock) / str(child.pid)).touch()
    return child


def end_row(child: subprocess.Popen[bytes], lock: Path) -> None:
    """Ends a row's process with what it started. Where it was ended in its timed section, the others go on."""
    midway = child.poll() is None
    if midway:
        child.send_signal(signal.SIGCONT)
        child.send_signal(signal.SIGUSR1)
        time.sleep(0.5)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    (beside_folder(lock) / str(child.pid)).unlink(missing_ok=True)
    if midway:
        with lock.open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:  # another one's section: it wakes them
                return
            signalled(beside(lock), signal.SIGCONT)


def show(rows: dict[str, Any]) -> None:
    for row in rows.values():
        if "device_us" not in row:
            print(f"{row.get('row')}: {row.get('error', '')[-600:]}")
            continue
        print(
            f"{row['row']}: {row['ratio']} of {row['best_pytorch']} ({row['best_pytorch_us']} us); roofline "
            f"{row['roofline_us']} us; equal {row['modes_equal']}; {row['ours']}; prepared in {row['prepare_s']} s"
        )
        for mode, us in row["device_us"].items():
            print(f"   {mode:36} {us:10.1f} us   pcc {row['pcc'].get(mode, float('nan')):.6f}")
        for key in ("host_us", "equal_tokens", "tie", "errors"):
            if row.get(key):
                print(f"   {key}: {row[key]}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure models on an NVIDIA GPU.")
    parser.add_argument("rows", nargs="*", default=ROWS)
    parser.add_argument("-o", "--out", type=Path, default=Path("results/cuda.json"))
    parser.add_argument("--jobs", type=int, default=1, help="rows prepared at the same time")
    parser.add_argument(
        "--lock",
        type=Path,
        help="a file that timed sections lock; process groups in LOCK.beside/ stop meanwhile",
    )
    parser.add_argument("--only-graphs", action="store_true", help="leave out reduce-overhead")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--limit", type=float, default=240, help="seconds for one row")
    parser.add_argument(
        "--budget-s", type=float, default=1e9, help="seconds for all: what is not done then stays for the next run"
    )
    args = parser.parse_args()
    if args.child:
        faulthandler.register(signal.SIGUSR1)  # a row that is ended says where it was
        vision.serve()
        made = measure_row(args.rows[0], args.lock)
        draft = args.out.with_suffix(".draft")
        draft.write_text(json.dumps(made))
        draft.rename(args.out)
        return
    end = time.time() + args.budget_s
    args.out.parent.mkdir(parents=True, exist_ok=True)
    known: dict[str, Any] = json.loads(args.out.read_text()) if args.out.exists() else {}
    waiting = [row for row in args.rows if "device_us" not in known.get(row, {})]
    if args.only_graphs:
        os.environ[ONLY_GRAPHS] = "1"
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with tempfile.TemporaryDirectory() as folder:
        lock = args.lock or Path(folder) / "lock"
        beside_folder(lock).mkdir(exist_ok=True)
        running: dict[str, tuple[subprocess.Popen[bytes], Path, Path, float]] = {}
        try:
            while (waiting and time.time() < end - 60) or running:
                while waiting and len(running) < args.jobs and time.time() < end - 60:
                    stem = Path(folder) / str(time.time_ns())
                    made, log = stem.with_suffix(".json"), stem.with_suffix(".log")
                    script = str(Path(__file__).with_name("cuda.py"))
                    command = [sys.executable, script, waiting[0], "-o", str(made), "--child", "--lock", str(lock)]
                    child = start_row(command, log, lock)
                    if child is None:
                        break
                    running[waiting.pop(0)] = child, made, log, time.time()
                time.sleep(0.2)
                for row, (child, made, log, begun) in list(running.items()):
                    if child.poll() is None and time.time() < min(begun + args.limit, end):
                        continue
                    end_row(child, lock)
                    late = {"row": row, "error": log.read_text()[-LOG:] + f"\nended after {time.time() - begun:.0f} s"}
                    known[row] = json.loads(made.read_text()) if made.exists() else late
                    args.out.write_text(json.dumps(known, indent=1))
                    del running[row]
                    show({row: known[row]})
                    sys.stdout.flush()
        finally:
            for child, *_ in running.values():
                end_row(child, lock)
