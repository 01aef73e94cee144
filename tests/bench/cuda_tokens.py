"""Decoders with a cache in pages on an NVIDIA GPU: `python tests/bench/cuda_tokens.py [--device cuda] [-o FILE]`.

For a small Llama and a small GPT-2: 64 tokens of prompts of different lengths in float32 are eager's; requests that
arrive by Poisson, served by the scheduler on fewer pages than all would fill, get the tokens that they get alone; in
bfloat16 (one CUDA graph a step) top-1 and top-5 under teacher forcing; and time to first token, time per token and
tokens per second for 1 and 32 users. Needs no package beside torch, Triton and transformers. A part that would begin
after `--budget-s` is left out, and named.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import transformers

from proveout.batching.engines import GeneratorEngine
from proveout.batching.scheduler import Request, Scheduler
from proveout.batching.serving import MeasuredClock, serve
from proveout.generation import GREEDY, Generator
from proveout.generation.agreement import agreement, eager_tokens
from proveout.generation.child import prompts
from proveout.generation.speed import SpeedAsk
from proveout.generation.speed_child import timed
from proveout.load.figures import times
from proveout.measure.arrivals import poisson
from proveout.types import Settings

POSITIONS = 512
CONFIGS: dict[str, Callable[[], Any]] = {
    "llama": lambda: transformers.LlamaConfig(
        vocab_size=8192,
        hidden_size=512,
        intermediate_size=1408,
        num_hidden_layers=4,
        num_attention_heads=8,
        num_key_value_heads=4,
        max_position_embeddings=POSITIONS,
    ),
    "gpt2": lambda: transformers.GPT2Config(vocab_size=8192, n_embd=512, n_layer=4, n_head=8, n_positions=POSITIONS),
}
EXACT = {"cuda": "cuda:eager"}
"""Where numbers are judged and not times, nothing is compiled by Inductor."""
BEGAN = time.monotonic()
Row = dict[str, Any]


def decoder(name: str) -> Any:
    """Weights are large enough for the tokens to differ from each other."""
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(CONFIGS[name]()).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(2)
    return model


def same_tokens(name: str, device: str) -> Iterator[Row]:
    """Prompts of four lengths in float32, in pages, 64 tokens."""
    device = EXACT.get(device, device)
    model, lengths = decoder(name), (40, 33, 21, 5)
    ids, mask = prompts(lengths, model, 0)
    generator = Generator.compile(model, device=device, max_length=128, batch=4, page_size=32, sampling=GREEDY)
    ours = torch.stack(list(generator.generate(ids, 64, mask=mask)), 1)
    theirs = eager_tokens(model, ids, mask, 64)
    yield {"what": "tokens equal to eager's, float32", "value": int((ours == theirs).sum()), "of": ours.numel()}
    requests = _requests(model)
    scheduler = Scheduler(pages=8, page_size=32, slots=4, max_length=128)
    run, tokens = serve(requests, scheduler, GeneratorEngine(generator), MeasuredClock())
    alone = [eager_tokens(model, row := torch.tensor([r.prompt]), torch.ones_like(row), r.max_tokens) for r in requests]
    equal = sum(t == a[0].tolist() for t, a in zip(tokens, alone))
    yield {"what": "requests with the tokens they get alone", "value": equal, "of": len(requests)}
    yield {"what": "preemptions on 8 pages", "value": scheduler.num_preemptions, "least": 1}
    yield {"what": "requests answered", "value": len(run.answered), "of": len(requests)}


def _requests(model: Any) -> list[Request]:
    random = torch.Generator().manual_seed(1)
    due = poisson(100.0, 0.1, seed=1)
    words = model.config.vocab_size
    lengths = [int(torch.randint(20, 60, (), generator=random)) for _ in due]
    return [
        Request(n, tuple(torch.randint(0, words, (length,), generator=random).tolist()), 40, int(at))
        for n, (at, length) in enumerate(zip(due, lengths))
    ]


def close_logits(name: str, device: str) -> Iterator[Row]:
    """bfloat16 on eager's own tokens, in pages, a step in one CUDA graph."""
    device, model = EXACT.get(device, device), decoder(name)
    ids, mask = prompts((40, 21), model, 0)
    theirs = eager_tokens(model, ids, mask, 32)
    settings = {"precision": "bfloat16", "trace": device.startswith("cuda")}
    generator = Generator.compile(model, device=device, settings=settings, max_length=128, batch=2, page_size=32)
    close = agreement(generator, ids, mask, theirs)
    yield {"what": "top-1, bfloat16", "value": close.top1, "least": 0.9}
    yield {"what": "top-5, bfloat16", "value": close.top5, "least": 0.97}
    yield {"what": "PCC of the logits, bfloat16", "value": close.pcc, "least": 0.998}


def speeds(name: str, device: str) -> Iterator[Row]:
    """What `proveout tokens` measures, and the scheduler under load, in bfloat16 with one CUDA graph a step."""
    model = decoder(name).bfloat16()
    settings = Settings.of({"trace": device.startswith("cuda")})
    for batch in (1, 32):
        generator = Generator.compile(
            model,
            device=device,
            settings=settings,
            max_length=256,
            batch=batch,
            page_size=32,
            pages=8 * batch,
            sampling=GREEDY,
        )
        ask = SpeedAsk("", device=device, settings=settings, new_tokens=100, runs=20)
        first, later = timed(generator, ask, 128)
        for timing in (first, later):
            yield {"what": f"{timing.what}, {batch} users, ms (median)", "value": timing.median_ns / 1e6}
        yield {"what": f"tokens/s/user, {batch} users", "value": 1e9 / later.median_ns}
        yield {"what": f"tokens/s, {batch} users", "value": batch * 1e9 / later.median_ns}
    engine = GeneratorEngine(generator)
    run, _ = serve(_requests(model), Scheduler(256, 32, 32, 256), engine, MeasuredClock())  # the shapes of the next run
    run, _ = serve(_requests(model), Scheduler(256, 32, 32, 256), engine, MeasuredClock())
    for what in ("ttft", "tpot"):
        yield {
            "what": f"under load, {what} in ms (median)",
            "value": statistics.median(times(run, what)) / 1e6,
        }
    tokens = sum(len(e.pieces_ns) for e in run.exchanges)
    yield {"what": "under load, tokens/s", "value": tokens * 1e9 / run.ended_ns}


PARTS = (same_tokens, speeds, close_logits)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--budget-s", type=float, default=45.0)
    parser.add_argument("-o", "--output", type=Path)
    arguments = parser.parse_args()
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(4)  # eager's small products on the host: more threads only wait for each other
    rows: list[Row] = []
    for part in PARTS:
        for name in CONFIGS:
            if time.monotonic() - BEGAN > arguments.budget_s:
                rows.append({"model": name, "part": part.__name__, "what": "left out: no time", "value": 0, "least": 1})
                continue
            with warnings.catch_warnings(record=True) as heard:
                warnings.simplefilter("always")
                try:
                    for row in part(name, arguments.device):
                        rows.append({"model": name, "part": part.__name__, **row})
                        show(rows[-1])
                except Exception as error:  # the other parts are to be seen as well
                    rows.append({"model": name, "part": part.__name__, "what": repr(error)[:200], "value": 0, "of": 1})
                    show(rows[-1])
                    traceback.print_exception(error, limit=-6, file=sys.stdout)
            for text in dict.fromkeys(str(w.message).splitlines()[0] for w in heard if "proveout" in w.filename):
                print(f"     warning: {text}", flush=True)
    print(f"{sum(map(ok, rows))} of {len(rows)} rows ok, {time.monotonic() - BEGAN:.1f} s")
    if arguments.output:
        arguments.output.write_text(json.dumps(rows, indent=1))
    return int(not all(map(ok, rows)))


def ok(row: Row) -> bool:
    value = row["value"]
    return value == row["of"] if "of" in row else value >= row.get("least", float("-inf"))


def show(row: Row) -> None:
    value = f"{row['value']:.5g}" + (f" of {row['of']}" if "of" in row else "")
    print(
        f"{'ok  ' if ok(row) else 'MISS'} {time.monotonic() - BEGAN:5.1f} s {row['model']:6} {row['what']:50} {value}",
        flush=True,
    )


if __name__ == "__main__":
    raise SystemExit(main())
