"""Compiles the test models and every sample of the op table, and saves their Programs, for `replay.py`:
`programs.py -o FOLDER [--chip n150] [MODEL … | samples | decoders | wide]`."""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
import transformers

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
SAMPLES, DECODERS, WIDE_DECODERS = "samples", "decoders", "wide"
USERS = (4, 1)
WIDE_WAYS = ((32, 0), (1, 32))
"""Users and the size of a page."""
PAGE_SIZES = (0, 32)
"""Of a decoder's cache; 0: it lies in one piece for each user."""
DRAWN = Sampling(0.8, top_k=32, top_p=0.9)
ONE_LAYER = {"num_hidden_layers": 1, "max_position_embeddings": 2048}
NAMES = ("hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads", "head_dim", "vocab_size")


def sizes(*numbers: int) -> dict[str, int]:
    return {**ONE_LAYER, **dict(zip(NAMES, numbers))}


WIDE = {
    "llama-3.1-8b": lambda: transformers.LlamaConfig(**sizes(4096, 14336, 32, 8, 128, 128256)),
    "llama-3.2-1b": lambda: transformers.LlamaConfig(**sizes(2048, 8192, 32, 8, 64, 128256), tie_word_embeddings=True),
    "qwen-3-8b": lambda: transformers.Qwen3Config(**sizes(4096, 12288, 32, 8, 128, 151936)),
    "mistral-7b": lambda: transformers.MistralConfig(**sizes(4096, 14336, 32, 8, 128, 32768), sliding_window=None),
    "phi-3-mini": lambda: transformers.Phi3Config(**sizes(3072, 8192, 32, 32, 96, 32064)),
    "gemma-3-1b": lambda: transformers.Gemma3TextConfig(**sizes(1152, 6912, 4, 1, 256, 262144), sliding_window=512),
    "gpt-2": lambda: transformers.GPT2Config(n_layer=1),
    "falcon-7b": lambda: transformers.FalconConfig(num_hidden_layers=1),
    "mixtral-8x7b": lambda: transformers.MixtralConfig(**sizes(4096, 14336, 32, 8, 128, 32000)),
}


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
    trace: bool = False
    weights: str = ""
    cache: str = "same"
    wide: bool = False
    """Of its published widths: what is cut over many cores, and with which configs, is only seen there."""

    @property
    def settings(self) -> dict[str, object]:
        chosen = {"precision": self.precision, "trace": self.trace, "cache": self.cache}
        return chosen | ({"weights": self.weights} if self.weights else {})

    @property
    def stem(self) -> str:
        how = "sampled" if self.sampling == DRAWN else "paged" if self.page_size else "static"
        trace = "-trace" if self.trace else ""
        cache = "" if self.cache == "same" else f"-{self.cache}-cache"
        return f"{self.name}-{self.weights or self.precision}{cache}{trace}-{self.users}-{how}"

    def model(self) -> torch.nn.Module:
        if not self.wide:
            return small(self.name)
        with torch.device("meta"):
            return transformers.AutoModelForCausalLM.from_config(WIDE[self.name]())


def small_decoders() -> Iterator[Decoder]:
    for users, way, page_size, name in itertools.product(USERS, WAYS, PAGE_SIZES, CONFIGS):
        yield Decoder(name, users, page_size=page_size, sampling=GREEDY if page_size else None, **way)
    for users in USERS:
        yield Decoder("llama", users, "bfloat16", sampling=DRAWN)
        yield Decoder("llama", users, "bfloat16", trace=True, weights="bfloat8_b")
    yield from packed_caches(CONFIGS, itertools.product(USERS, PAGE_SIZES))


def packed_caches(names: Iterable[str], ways: Iterable[tuple[int, int]], wide: bool = False) -> Iterator[Decoder]:
    """With keys and values in 8 bits."""
    for (users, page_size), name in itertools.product(ways, names):
        yield Decoder(name, users, "bfloat16", page_size, None, True, "bfloat8_b", "bfloat8_b", wide)


def wide_decoders() -> Iterator[Decoder]:
    for (users, page_size), name in itertools.product(WIDE_WAYS, WIDE):
        yield Decoder(name, users, "bfloat16", page_size, trace=True, weights="bfloat8_b", wide=True)
    yield from packed_caches(WIDE, WIDE_WAYS, wide=True)


def save_decoders(decoders: Iterator[Decoder], folder: Path, device: str) -> int:
    """Prefill and decode of every decoder. A Program that is there already is not made again."""
    saved = 0
    for decoder in decoders:
        if (folder / f"{decoder.stem}-decode").exists():
            continue
        torch._dynamo.reset()
        generator = Generator.compile(
            decoder.model(),
            device=device,
            settings=decoder.settings,
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
    parser.add_argument("what", nargs="*", default=[*MODELS, SAMPLES, DECODERS, WIDE_DECODERS])
    parser.add_argument("--chip", default="n150")
    parser.add_argument("-o", "--output", type=Path, required=True)
    arguments = parser.parse_args()
    CHIPS.update(MOCKED)
    folder, device = arguments.output / arguments.chip, f"sim:{arguments.chip}"
    for name in arguments.what:
        if name in (DECODERS, WIDE_DECODERS):
            decoders = small_decoders() if name == DECODERS else wide_decoders()
            saved = save_decoders(decoders, folder / name, device)
        else:
            saved = save_samples(folder / SAMPLES, device) if name == SAMPLES else save_model(name, folder, device)
        print(f"{name}: {saved} Programs", flush=True)


if __name__ == "__main__":
    main()
