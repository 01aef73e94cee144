"""`faithful` products on an NVIDIA GPU: `PYTHONPATH=src python tests/bench/faithful_cuda.py -o OUT.json [--limit S]`.

Needs PyTorch, Triton, numpy. Counts the bits that agree with the simulator's vectors (tests/data/ttsim); ns a product
by size, fidelity and destination, with operands on the GPU and with operands on the CPU, whence `sim` sends them; bits
and time beside the CPU's code, by size; bits on hard numbers; other blocks of the destination.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import triton

from proveout.kernels.arithmetic import compiled, errata, gpu, matrix, products, vectors
from proveout.kernels.arithmetic.bits import Tensor, floats
from proveout.kernels.arithmetic.matrix import Unit

FOLDER = Path(__file__).parents[1] / "data" / "ttsim"
FIDELITIES = ("LoFi", "HiFi2", "HiFi3", "HiFi4")
SIZES = ((128, 768, 768), (128, 768, 3072), (1024, 1024, 1024), (3136, 576, 64), (2048, 2048, 2048))
SMALL = ((64, 64, 256), (128, 256, 128), (128, 512, 256), (128, 768, 768))
BLOCKS = ((16, 32, 4), (32, 32, 4), (8, 32, 2), (32, 64, 8))
WINDOWS = ((0, 255), (1, 12), (110, 140), (120, 128), (240, 254), (0, 1), (254, 255))


def units(half: bool = False) -> Iterator[Unit]:
    for arch in ("wormhole", "blackhole"):
        for wide in (False, True):
            for phases in range(1, 5):
                yield Unit(arch, phases, wide, half)  # type: ignore[arg-type]


def name(unit: Unit) -> str:
    return f"{FIDELITIES[unit.phases - 1]} {'float32' if unit.fp32_dest else 'bfloat16'}"


def equal(found: Tensor, wanted: Tensor) -> int:
    return int((found.view(torch.int32) == wanted.view(torch.int32)).sum())


def simulated(path: Path) -> dict[str, Any]:
    """One file of vectors by the GPU."""
    findings = vectors.check_file(path, gpu.matmul)
    first = next((f"{f.case} {f.setting} {f.arch} {f.first}" for f in findings if f.first), None)
    return {"equal": sum(f.equal for f in findings), "total": sum(f.total for f in findings), "first": first}


def numbers(shape: tuple[int, ...], window: tuple[int, int], generator: torch.Generator) -> Tensor:
    def drawn(low: int, high: int) -> Tensor:
        return torch.randint(low, high + 1, shape, generator=generator, dtype=torch.int32)

    after = torch.where(drawn(0, 1) == 0, drawn(0, (1 << 23) - 1), drawn(0, 1) << drawn(12, 22))
    return floats(drawn(0, 1) << 31 | drawn(*window) << 23 | after)


def hard() -> dict[str, int]:
    """Any exponents, ties, odd shapes, mixed formats, a destination that holds something: the plain code's bits."""
    generator = torch.Generator().manual_seed(0)
    told = {"equal": 0, "total": 0, "hits_differ": 0}
    for i, window in enumerate(WINDOWS):
        for j, other in enumerate(WINDOWS):
            a, b = numbers((2, 37, 70), window, generator), numbers((1 + i % 2, 70, 41), other, generator)
            a = a.bfloat16() if (i + j) % 2 else a
            b = b.bfloat16() if j % 3 == 1 else b
            start = numbers((2, 37, 41), (100, 150), generator) if j % 2 else None
            unit = list(units())[(7 * i + j) % 16]
            start = start if unit.fp32_dest or start is None else start.bfloat16().float()
            with errata.counting() as here:
                found = gpu.matmul(a, b, unit, start)
            with errata.counting() as there:
                wanted = matrix.matmul(a.expand(2, -1, -1), b.expand(2, -1, -1), unit, start)
            told["equal"] += equal(found, wanted)
            told["total"] += wanted.numel()
            told["hits_differ"] += here.hits != there.hits
    return told


def seconds(function: Callable[[], Any]) -> float:
    """The best of three, wall."""
    taken = []
    for _ in range(3):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        function()
        torch.cuda.synchronize()
        taken.append(time.perf_counter() - begin)
    return min(taken)


def speed(size: tuple[int, int, int], unit: Unit, device: str) -> float:
    m, k, n = size
    a, b = (torch.randn(1, *shape, device=device).bfloat16() for shape in ((m, k), (k, n)))
    gpu.matmul(a, b, unit)
    return round(seconds(lambda: gpu.matmul(a, b, unit)) / (m * k * n) * 1e9, 6)


def on_the_cpu(size: tuple[int, int, int], unit: Unit) -> tuple[dict[str, Any], Tensor, Tensor, Tensor]:
    """Wall ns of the CPU's code, and its result."""
    m, k, n = size
    a, b = torch.randn(1, m, k).bfloat16(), torch.randn(1, k, n).bfloat16()
    large, gpu.LARGE = gpu.LARGE, 1 << 62
    compiled.library()
    begin = time.perf_counter()
    out = products.matmul(a, b, unit)
    taken = time.perf_counter() - begin
    gpu.LARGE = large
    return {"cpu_ns": round(taken / (m * k * n) * 1e9, 4)}, a, b, out


def against_the_cpu(size: tuple[int, int, int], unit: Unit) -> dict[str, Any]:
    told, a, b, wanted = on_the_cpu(size, unit)
    products_of = size[0] * size[1] * size[2]
    gpu.matmul(a, b, unit)
    told["gpu_ns"] = round(seconds(lambda: gpu.matmul(a, b, unit)) / products_of * 1e9, 6)
    return told | {"equal": equal(gpu.matmul(a, b, unit), wanted), "total": wanted.numel()}


def blocks(size: tuple[int, int, int], unit: Unit) -> dict[str, float]:
    told = {}
    chosen, warps = dict(gpu.BLOCK), gpu.WARPS
    for bm, bn, gpu.WARPS in BLOCKS:
        gpu.BLOCK.update(BM=bm, BN=bn)
        told[f"{bm}x{bn}, {gpu.WARPS} warps"] = speed(size, unit, "cuda")
    gpu.BLOCK.update(chosen)
    gpu.WARPS = warps
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", type=Path, required=True, help="where the JSON goes")
    parser.add_argument("--limit", type=float, default=100.0, help="begin nothing after so many seconds")
    asked = parser.parse_args()
    begun = time.perf_counter()
    torch.manual_seed(0)
    told: dict[str, Any] = {
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "triton": triton.__version__,
        "block": {**gpu.BLOCK, "warps": gpu.WARPS},
    }

    def note(part: str, key: str, compute: Callable[[], Any]) -> None:
        if time.perf_counter() - begun > asked.limit:
            told.setdefault("left_out", []).append(f"{part}: {key}")
            return
        told.setdefault(part, {})[key] = compute()
        told["wall_s"] = round(time.perf_counter() - begun, 1)
        asked.o.write_text(json.dumps(told, indent=1))
        print(f"{told['wall_s']:6.1f} s  {part}: {key}: {told[part][key]}", flush=True)

    for path in sorted(FOLDER.glob("matmul_*.npz")):
        note("simulator", path.stem, lambda path=path: simulated(path))  # type: ignore[misc]
    plain = [u for u in units() if u.arch == "wormhole"]
    for device in ("cuda", "cpu"):
        for unit in plain:
            part = f"ns a product, operands on the {'GPU' if device == 'cuda' else 'CPU'}"
            note(part, name(unit), lambda unit=unit, device=device: speeds(unit, device))  # type: ignore[misc]
    for size in SMALL:
        key = f"HiFi2 bfloat16 {'x'.join(map(str, size))}"
        note("beside the CPU", key, lambda size=size: against_the_cpu(size, plain[1]))  # type: ignore[misc]
    for unit in plain:
        key = f"{name(unit)} 512x768x768"
        note("beside the CPU", key, lambda unit=unit: against_the_cpu((512, 768, 768), unit))  # type: ignore[misc]
    for unit in (plain[3], plain[0]):
        for size in SIZES[1:3]:
            key = f"{name(unit)} {'x'.join(map(str, size))}"
            note("blocks", key, lambda size=size, unit=unit: blocks(size, unit))  # type: ignore[misc]
    note("hard numbers", "all", hard)


def speeds(unit: Unit, device: str) -> dict[str, float]:
    return {"x".join(map(str, size)): speed(size, unit, device) for size in SIZES}


if __name__ == "__main__":
    main()
