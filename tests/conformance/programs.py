"""Compiles the test models and every sample of the op table, and saves their Programs, for `replay.py`:
`programs.py -o FOLDER [--chip n150] [MODEL … | samples | decoders]`."""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "models"))
sys.path.insert(0, str(Path(__file__).parents[1] / "ops"))
from harness import run
from small_decoders import CONFIGS, small
from zoo import MODELS

import proveout
from proveout.chip.specs import CHIPS, MOCKED
from proveout.generation import GREEDY, Generator, Sampling
from proveout.ops.table import all_ops
from proveout.types import Settings

PRECISIONS = ("model", "bfloat16")
WAYS: tuple[dict[str, object], ...] = (
    *({"precision": p} for p in PRECISIONS),
    {"precision": "bfloat16", "trace": True},
)
"""Of compiling a model. Where dispatch hides kernels little is worth cutting over the cores: in a trace it is."""
SAMPLES, DECODERS = "samples", "decoders"
USERS = (4, 1)
PAGE_SIZES = (0, 32)
"""Of a decoder's cache; 0: it lies in one piece for each user."""
DRAWN = Sampling(0.8, top_k=32, top_p=0.9)


def save_model(name: str, folder: Path, device: str) -> int:
    saved = 0
    for way in WAYS:
        torch._dynamo.reset()
        model, inputs = MODELS[name]()
        compiled = proveout.compile(model, inputs, device=device, settings=way, dry_run=True)
        how = "-trace" if "trace" in way else ""
        for number, program in enumerate(compiled.programs):
            program.save(folder / f"{name}-{way['precision']}{how}-{number}")
            saved += 1
    return saved


def save_samples(folder: Path, device: str) -> int:
    saved = 0
    for op in all_ops():
        for index, sample in enumerate(op.samples() if op.samples else ()):
            for precision in PRECISIONS:
                program = run(op.aten, sample, device, Settings(precision=precision))[1].program
                if any(not step.on_host for step in program.steps):
                    program.save(folder / f"{op.aten}-{index}-{precision}")
                    saved += 1
    return saved


@dataclass(frozen=True)
class Decoder:
    """One way to compile a small decoder."""

    name: str
    users: int
    precision: str
    page_size: int = 0
    sampling: Sampling | None = None
    more: dict[str, object] = field(default_factory=dict)

    @property
    def stem(self) -> str:
        how = "sampled" if self.sampling == DRAWN else "tuned" if self.more else "paged" if self.page_size else "static"
        return f"{self.name}-{self.precision}-{self.users}-{how}"


def decoders(device: str) -> Iterator[Decoder]:
    for users, precision, page_size, name in itertools.product(USERS, reversed(PRECISIONS), PAGE_SIZES, CONFIGS):
        yield Decoder(name, users, precision, page_size, GREEDY if page_size else None)
    for users in USERS:
        yield Decoder("llama", users, "bfloat16", sampling=DRAWN)
        yield Decoder("llama", users, "bfloat16", more={"weights": "bfloat8_b", "trace": True})


def save_decoders(folder: Path, device: str) -> int:
    """Prefill and decode of every small decoder. A Program that is there already is not made again."""
    saved = 0
    for decoder in decoders(device):
        if (folder / f"{decoder.stem}-decode").exists():
            continue
        torch._dynamo.reset()
        generator = Generator.compile(
            small(decoder.name),
            device=device,
            settings={"precision": decoder.precision, **decoder.more},
            max_length=128,
            batch=decoder.users,
            prompt_lengths=(32,),
            page_size=decoder.page_size,
            sampling=decoder.sampling,
            dry_run=True,
        )
        for phase, program in generator.programs.items():
            program.save(folder / f"{decoder.stem}-{phase.replace(' ', '-')}")
            saved += 1
    return saved


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="*", default=[*MODELS, SAMPLES, DECODERS])
    parser.add_argument("--chip", default="n150")
    parser.add_argument("-o", "--output", type=Path, required=True)
    arguments = parser.parse_args()
    CHIPS.update(MOCKED)
    folder, device = arguments.output / arguments.chip, f"sim:{arguments.chip}"
    for name in arguments.what:
        if name == DECODERS:
            saved = save_decoders(folder / DECODERS, device)
        else:
            saved = save_samples(folder / SAMPLES, device) if name == SAMPLES else save_model(name, folder, device)
        print(f"{name}: {saved} Programs", flush=True)


if __name__ == "__main__":
    main()
