"""The fixed parts of `tests/test_ops.py`."""

HEAD = '''"""Op tests of {name}: every different ttnn call of the model, on numbers like the model's, against float32.

Numbers are such as bfloat16 holds, as in tt-metal's own tests, so that storing them in it rounds nothing off; what a
block format rounds off counts.

Written by `proveout bringup`. Plain pytest; it needs the package and nothing else. Edit it as you like.
On Tenstorrent hardware change the import to `import ttnn`.
"""

import math
from dataclasses import dataclass

import pytest
import torch

from proveout import ttnn


@dataclass(frozen=True)
class Normal:
    mean: float = 0.0
    spread: float = 1.0
    low: float = -4.0
    high: float = 4.0

    def draw(self, shape, generator):
        return (torch.randn(shape, generator=generator) * self.spread + self.mean).clamp(self.low, self.high)


@dataclass(frozen=True)
class Integers:
    low: int
    high: int

    def draw(self, shape, generator):
        return torch.randint(self.low, self.high + 1, shape, generator=generator)


@dataclass(frozen=True)
class OneOf:
    low: float
    high: float

    def draw(self, shape, generator):
        return torch.where(torch.rand(shape, generator=generator) < 0.5, self.low, self.high)


@dataclass(frozen=True)
class T:
    """An operand: its shape, dtype, layout, where it lies, and how its numbers are drawn."""

    shape: tuple
    dtype: object
    layout: object
    place: str
    numbers: object


@dataclass(frozen=True)
class Case:
    function: object
    operands: dict
    attributes: object


PLACES = {{"dram": lambda: ttnn.DRAM_MEMORY_CONFIG, "l1": lambda: ttnn.L1_MEMORY_CONFIG}}
FLOATS = (ttnn.float32, ttnn.bfloat16, ttnn.bfloat8_b, ttnn.bfloat4_b)


def sharded(shape, strategy, dtype=None):
    """The tensor cut over as many cores as whole tiles allow."""
    rows, columns = math.prod(shape[:-1]) // 32, shape[-1] // 32
    if math.prod(shape[:-1]) % 32 or shape[-1] % 32:
        raise ValueError("its rows or columns are no whole tiles")
    down = max(n for n in range(1, 9) if rows % n == 0) if strategy != "width" else 1
    across = max(n for n in range(1, 9) if columns % n == 0) if strategy != "height" else 1
    if down * across == 1:
        raise ValueError("a single shard")
    grid = ttnn.CoreGrid(y=down, x=across)
    kind = {{"height": ttnn.ShardStrategy.HEIGHT, "width": ttnn.ShardStrategy.WIDTH, "block": ttnn.ShardStrategy.BLOCK}}
    return ttnn.create_sharded_memory_config(
        (32 * rows // down, 32 * columns // across), grid, kind[strategy], use_height_and_width_as_shard_shape=True
    )


def send(operand, numbers, device, dtype, memory):
    if isinstance(operand.dtype, torch.dtype):
        return numbers.to(operand.dtype)
    floats = operand.dtype in FLOATS
    numbers = numbers.float() if floats else numbers.to(torch.int32)
    chosen = dtype if dtype and floats and operand.layout == ttnn.TILE_LAYOUT else operand.dtype
    if operand.place == "host":
        return ttnn.from_torch(numbers, dtype=operand.dtype, layout=operand.layout)
    config = memory or PLACES[operand.place]()
    if memory is not None and operand.place != "host" and memory not in (ttnn.L1_MEMORY_CONFIG,):
        plain = ttnn.from_torch(numbers, dtype=chosen, layout=operand.layout, device=device)
        return ttnn.to_memory_config(plain, memory)
    return ttnn.from_torch(numbers, dtype=chosen, layout=operand.layout, device=device, memory_config=config)


def stored(number):
    """A number in an operand's place, among bfloat16 ones."""
    return float(torch.tensor(number).bfloat16())


def run(device, case, dtype=None, fidelity=None, sharding=None):
    """One call: [(found, wanted in float32)] for each of its results."""
    generator = torch.Generator().manual_seed(0)
    function, attributes = case.function(), case.attributes(device)
    narrow = getattr(ttnn, dtype) if dtype else None
    if fidelity:
        key = "compute_config" if "weight_tensor" in case.operands else "compute_kernel_config"
        attributes[key] = ttnn.WormholeComputeKernelConfig(math_fidelity=getattr(ttnn.MathFidelity, fidelity))
    if sharding:
        attributes.pop("memory_config", None)
    if narrow and attributes.get("dtype") in FLOATS:
        attributes["dtype"] = narrow
    operands, exact, first = {{}}, {{}}, True
    for name, given in case.operands.items():
        several = isinstance(given, list)
        sent, plain = [], []
        for operand in given if several else [given]:
            numbers = operand.numbers.draw(operand.shape, generator)
            if operand.dtype in FLOATS and operand.dtype != ttnn.float32:
                numbers = numbers.bfloat16()
            memory = None
            if sharding == "l1" and operand.place != "host":
                memory = ttnn.L1_MEMORY_CONFIG
            elif sharding and first:
                memory = sharded(operand.shape, sharding)
            sent.append(send(operand, numbers, device, narrow, memory))
            plain.append(numbers.float() if operand.dtype in FLOATS else numbers)
        first = False
        operands[name], exact[name] = (sent, plain) if several else (sent[0], plain[0])
    found = function(**operands, **attributes)
    if any(getattr(sent, "dtype", None) == ttnn.bfloat16 for sent in operands.values()):
        exact |= {{k: stored(v) for k, v in attributes.items() if k.startswith("input_tensor") and type(v) is float}}
    wanted = ttnn.get_golden_function(function)(**{{**attributes, **exact}})
    found, wanted = ([r] if not isinstance(r, (list, tuple)) else list(r) for r in (found, wanted))
    taken = [ttnn.to_torch(result) for result in found]
    return [(t.to(w.dtype) if w.is_floating_point() else t, w) for t, w in zip(taken, wanted)]


def open_device(faithful=False):
    """`faithful` computes products by the chip's own rules, fidelity included; real ttnn always does."""
    return ttnn.open_device(device_id=0, l1_small_size=16384, **({{"numerics": "faithful"}} if faithful else {{}}))


def pcc(found, wanted):
    """Pearson's correlation; where one side is constant it is undefined, and closeness decides."""
    finite = torch.isfinite(wanted)
    assert torch.equal(finite, torch.isfinite(found)), "not finite in other places"
    a, b = found[finite].double(), wanted[finite].double()
    scale = (a - a.mean()).norm() * (b - b.mean()).norm() if len(a) else 0
    if not scale:
        return 1.0 if torch.allclose(a, b, rtol=2e-2, atol=1e-3 * float(b.abs().max()) if len(b) else 0) else 0.0
    return float(((a - a.mean()) @ (b - b.mean())) / scale)


CASES = {{
{cases}
}}
'''

TAIL = """
KNOBS = {{
{knobs}
}}

# (call, knob, lowest PCC that passes)
TESTS = [
{tests}
]

# What ttnn does not take, and why.
REFUSED = {{
{refused}
}}


@pytest.fixture(scope="module")
def devices():
    opened = {{faithful: open_device(faithful) for faithful in (False, True)}}
    yield opened
    for device in opened.values():
        ttnn.close_device(device)


@pytest.mark.parametrize(("call", "knob", "least"), TESTS)
def test_op(devices, call, knob, least):
    for found, wanted in run(devices["fidelity" in KNOBS[knob]], CASES[call], **KNOBS[knob]):
        assert found.shape == wanted.shape
        if wanted.is_floating_point():
            assert pcc(found, wanted) >= least
        else:
            assert torch.equal(found.to(wanted.dtype), wanted)
"""
