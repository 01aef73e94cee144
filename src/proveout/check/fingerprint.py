"""What a device's matrix product is, found from outside: width, order, rounding and special values, by probes.

A probe is a row of a few numbers times a column of ones (FPRev's idea: large numbers that cancel show which small ones
were added before they did). Nothing is asked but a product of bfloat16, or of float32 where the device has one.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from proveout.devices.registry import find
from proveout.errors import UsageError

Product = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""[1, K] times [K, 1]."""

DEPTH, TALLEST, LARGE = 64, 30, 12
ONES = 6144


@dataclass(frozen=True)
class Fingerprint:
    """What the probes of one way to multiply found."""

    name: str
    operands: str
    destination_bits: int | str
    """Bits of significand that a running sum keeps."""
    step: int
    """Products that are aligned with each other before the running sum is rounded; 1: one after another."""
    lanes: int
    """Running sums side by side, where products are added one after another."""
    group: int
    """Products of a step that are aligned, and rounded, by themselves first."""
    kept_bits: int | str
    """Bits below the largest product of a group that the others keep."""
    rounding: str
    """Of halves: away from zero, up, to even, or cut."""
    infinity: str
    """Whether infinity is special, or a large number."""
    ones: float
    """The sum of 6144 ones."""
    minus_one: float
    """1 - 1 - 2^-23, the 1 in the running sum: -16 is tt-metal#38306."""

    @property
    def verdict(self) -> str:
        return next((name for name, known in KNOWN.items() if known(self)), "none that we know")


KNOWN: dict[str, Callable[[Fingerprint], bool]] = {
    "a Tensix matrix unit, 16-bit destination": lambda f: (f.step, f.group, f.destination_bits) == (16, 8, 8),
    "Wormhole's matrix unit, float32 destination": lambda f: (f.step, f.group, f.minus_one) == (16, 8, -16.0),
    "Blackhole's matrix unit, float32 destination": lambda f: (f.step, f.group) == (16, 8) and f.minus_one != -16.0,
    "a tensor core: products aligned with the running sum, and cut": lambda f: (
        f.step > 1 and f.infinity == "special" and f.rounding == "cut"
    ),
    "IEEE float32 sums": lambda f: f.infinity == "special" and f.kept_bits in (23, 24, "all"),
}


def probe(name: str, operands: torch.dtype, product: Product) -> Fingerprint:
    def at(values: dict[int, float], depth: int = DEPTH) -> float:
        row = torch.zeros(1, depth)
        for k, value in values.items():
            row[0, k] = value
        return float(product(row.to(operands), torch.ones(depth, 1, dtype=operands)).double())

    tall = 2.0**TALLEST
    swallowed = [k for k in range(2, DEPTH) if at({0: tall, 1: -tall, k: 1.0}) != 1.0]
    together = next(k for k in range(2, DEPTH + 1) if k not in swallowed)
    step = together if together > 2 else 1
    # what meets the first product in one running sum, and not before: the next step, or the next turn of its lane
    far = min(step if step > 1 else min(swallowed, default=1), DEPTH // 3)
    kept = _bits(lambda big: at({0: big, far: 1.0, 2 * far: -big}))
    inside = _bits(lambda big: at({0: big, 1: -big, 2: 1.0}))
    return Fingerprint(
        name,
        str(operands).removeprefix("torch."),
        kept + 1 if isinstance(kept, int) else kept,
        step,
        1 if step > 1 else min(swallowed, default=1),
        _group(at, step, inside),
        inside,
        _rounding(at, far, kept),
        _infinity(at),
        at(dict.fromkeys(range(ONES), 1.0), ONES),
        at({0: 1.0, 16: -1.0, 24: -(2.0**-23)}),
    )


def _bits(after: Callable[[float], float]) -> int | str:
    """The largest power of 2 beside which a one survives."""
    survived = [p for p in range(1, TALLEST) if after(2.0**p) == 1.0]
    return "all" if len(survived) == TALLEST - 1 else max(survived, default=0)


def _group(at: Callable[..., float], step: int, inside: int | str) -> int:
    """Where six small numbers begin to be added up before they meet a large one: each alone is too small for that.
    Where none is too small, the step is one group."""
    if step < 12 or inside == "all" or int(inside) >= LARGE:
        return step

    def small(first: int) -> float:
        return at({0: 2.0**LARGE, 1: -(2.0**LARGE), **dict.fromkeys(range(first, first + 6), 1.0)})

    together = small(step - 6)
    return next((first for first in range(2, step - 5) if small(first) == together), step)


def _rounding(at: Callable[..., float], far: int, kept: int | str) -> str:
    """Halves of the last bit that a running sum keeps, beside 1, 1 + a bit, and -1. Where the result is narrower than
    the sum (bfloat16 of a float32 sum) it shows its own rounding: there the 1 is taken away again before it is seen."""
    shown = max((p for p in range(1, 24) if at({0: 1.0, far: 2.0**-p}) == 1 + 2.0**-p), default=0)
    hidden = isinstance(kept, int) and kept > shown and 4 * far <= DEPTH
    bits = kept if hidden and isinstance(kept, int) else shown
    bit, half = 2.0**-bits, 2.0 ** -(bits + 1)

    def beyond(lead: float, *small: float) -> float:
        """What is left of a lead and small numbers, in steps of their own, when the lead is taken away."""
        row = {0: lead, **{far * (i + 1): value for i, value in enumerate(small)}}
        return at({**row, 3 * far: -lead}) if hidden else at(row) - lead

    even, negative = beyond(1.0, half), beyond(-1.0, -half)
    if even == 0.0 and negative == 0.0:
        return "to even" if (beyond(1.0, bit, half) if hidden else at({0: 1.0 + bit, far: half}) - 1.0) > bit else "cut"
    return "away from zero" if negative < 0.0 else "up"


def _infinity(at: Callable[..., float]) -> str:
    clash = at({0: math.inf, 1: -math.inf})
    return "special" if math.isnan(clash) else "a large number"


# ---- the ways that a device multiplies ------------------------------------------------------------------------------


def fingerprints(device: str) -> Iterator[Fingerprint]:
    """Of every way that a device by this name multiplies: `sim` in both modes and with both destinations."""
    info = find(device)
    if info.reason:
        raise UsageError(f"{device} cannot be probed: {info.reason}. See: proveout devices")
    if info.target == "torch":
        if info.name != info.family:
            raise UsageError(
                f"{device} is {info.family} by another way, and multiplies as it does: probe {info.family}."
            )
        yield from _of_torch(device, info.family)
    elif info.numerics:
        assert info.spec is not None
        for numerics in ("fast", "faithful"):
            yield from _of_ttnn("proveout.ttnn", f"{info.name} {numerics}", chip=info.spec.name, numerics=numerics)
    else:
        yield from _of_ttnn("ttnn", info.name)


def _of_torch(name: str, place: str) -> Iterator[Fingerprint]:
    """By torch.matmul on tensors that lie there, as PyTorch is set."""
    for dtype in (torch.bfloat16, torch.float32):
        yield probe(f"{name}, torch.matmul", dtype, lambda a, b: (a.to(place) @ b.to(place)).cpu())


def _of_ttnn(module: str, name: str, **options: Any) -> Iterator[Fingerprint]:
    """By ttnn's own calls, so that the same probes run on silicon. In LoFi: a further phase goes over both halves of a
    tile again, which makes two steps look like one."""
    ttnn = importlib.import_module(module)
    device = ttnn.open_device(device_id=0, **options)
    try:
        for dtype, wide in ((torch.bfloat16, False), (torch.float32, True)):
            config = ttnn.WormholeComputeKernelConfig(math_fidelity=ttnn.MathFidelity.LoFi, fp32_dest_acc_en=wide)
            kind = ttnn.float32 if wide else ttnn.bfloat16

            def product(a: torch.Tensor, b: torch.Tensor, kind: Any = kind, config: Any = config) -> torch.Tensor:
                x, y = (ttnn.from_torch(t, dtype=kind, layout=ttnn.TILE_LAYOUT, device=device) for t in (a, b))
                out: torch.Tensor = ttnn.to_torch(ttnn.matmul(x, y, compute_kernel_config=config))
                return out.reshape(-1)[:1]

            yield probe(f"{name}, LoFi", dtype, product)
    finally:
        ttnn.close_device(device)
