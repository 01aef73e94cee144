"""The matrix unit's rules as a Triton kernel: every bit of the plain code's, over odd shapes, formats and exponents. On
a GPU where there is one, else in Triton's interpreter: `test_cuda_interpreted.py` runs this file in its own process."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

pytest.importorskip("triton", reason="Triton is not installed")
GPU = torch.cuda.is_available()
if not GPU and os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip("there is no GPU: test_cuda_interpreted.py runs this file", allow_module_level=True)

from test_cuda_kernels import _numbers_as_newer_numpy_wants_them  # noqa: F401
from test_numerics_hard import numbers, same, stored

from proveout.kernels.arithmetic import gpu, matrix, products
from proveout.kernels.arithmetic.errata import counting
from proveout.kernels.arithmetic.matrix import Unit
from proveout.kernels.arithmetic.vectors import check_file

FOLDER = Path(__file__).parents[1] / "data" / "ttsim"
Case = tuple[Unit, tuple[int, int, int], str, str, tuple[int, int], tuple[int, int], str, bool]
HARD: list[Case] = [
    # unit, rows, depth and columns, formats, exponent fields, what follows the point, whether dest holds something
    (Unit("wormhole", 4), (33, 7, 5), "bfloat16", "bfloat16", (110, 140), (110, 140), "any", False),
    (Unit("blackhole", 4, True), (4, 33, 6), "float32", "bfloat8_b", (120, 128), (127, 127), "any", True),
    (Unit("wormhole", 1), (9, 17, 31), "bfloat4_b", "float32", (0, 255), (120, 128), "ties", True),
    (Unit("wormhole", 3, True), (3, 16, 37), "bfloat16", "float32", (0, 255), (0, 255), "short", True),
    (Unit("blackhole", 2), (5, 9, 7), "bfloat8_b", "bfloat16", (1, 12), (120, 128), "ties", False),
    (Unit("wormhole", 4, True), (16, 32, 16), "float32", "float32", (240, 254), (1, 12), "cancel", True),
    (Unit("wormhole", 2), (5, 31, 6), "bfloat16", "bfloat16", (254, 255), (0, 1), "any", True),
    (Unit("blackhole", 4), (5, 8, 6), "float32", "float32", (190, 205), (190, 205), "cancel", True),
]


@pytest.mark.cuda
@pytest.mark.parametrize("case", HARD, ids=lambda c: f"{c[2]}-{c[3]}-{c[6]}")
def test_the_kernel_has_every_bit_of_the_plain_code(case: Case) -> None:
    unit, (rows, depth, columns), dtype0, dtype1, first, second, kind, begin = case
    generator = torch.Generator().manual_seed(11)
    a = stored(numbers((1, rows, depth), first, kind, generator), dtype0)
    b = stored(numbers((1, depth, columns), second, kind, generator), dtype1)
    start = numbers((1, rows, columns), (100, 150), "any", generator) if begin else None
    if start is not None and not unit.fp32_dest:
        start = start.bfloat16().float()
    assert same(gpu.matmul(a, b, unit, start), matrix.matmul(a, b, unit, start))


@pytest.mark.cuda
@pytest.mark.parametrize("fp32_dest", [False, True])
def test_float16_operands_of_any_pattern(fp32_dest: bool) -> None:
    generator = torch.Generator().manual_seed(3)
    a, b = (torch.randint(-(1 << 15), 1 << 15, s, generator=generator).short() for s in ((1, 20, 19), (1, 19, 18)))
    unit = Unit("wormhole", 4, fp32_dest, half=True)
    a, b = a.view(torch.float16), b.view(torch.float16)
    assert same(gpu.matmul(a, b, unit), matrix.matmul(a, b, unit))


@pytest.mark.cuda
def test_one_matrix_serves_a_batch_on_either_side() -> None:
    torch.manual_seed(0)
    one, many = torch.randn(1, 6, 8).bfloat16(), torch.randn(2, 8, 5).bfloat16()
    unit = Unit("wormhole", 1)
    assert same(gpu.matmul(one, many, unit), matrix.matmul(one.expand(2, -1, -1), many, unit))
    left, right = many.transpose(1, 2), one.transpose(1, 2)
    assert same(gpu.matmul(left, right, unit), matrix.matmul(left, right.expand(2, -1, -1), unit))


@pytest.mark.cuda
def test_the_erratum_is_wormholes_and_counted() -> None:
    row = torch.zeros(1, 1, 32)
    row[0, 0, 0], row[0, 0, 16], row[0, 0, 24] = 1.0, -1.0, -(2.0**-23)
    ones = torch.ones(1, 32, 1)
    with counting() as errata:
        assert gpu.matmul(row, ones, Unit("wormhole", 1, True)).item() == -16
        assert gpu.matmul(row, ones, Unit("blackhole", 1, True)).item() == -(2.0**-23)
    assert errata.hits == 1


@pytest.mark.cuda
@pytest.mark.skipif(not GPU, reason="needs an NVIDIA GPU: Triton's interpreter would take an hour")
@pytest.mark.parametrize("path", sorted(FOLDER.glob("matmul_*.npz")), ids=lambda p: p.stem)
def test_the_simulators_products_are_the_gpus(path: Path) -> None:
    assert [f for f in check_file(path, gpu.matmul) if f.equal != f.total] == []


@pytest.mark.cuda
@pytest.mark.skipif(not GPU, reason="needs an NVIDIA GPU")
@pytest.mark.parametrize("fp32_dest", [False, True])
def test_a_large_product_goes_to_the_gpu_and_has_the_cpus_bits(
    fp32_dest: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    a, b = torch.randn(1, 300, 500).bfloat16(), torch.randn(1, 500, 600).bfloat16()
    unit = Unit("wormhole", 3, fp32_dest)
    found = products.matmul(a, b, unit)
    assert same(products.matmul(a.cuda(), b.cuda(), unit).cpu(), found)
    monkeypatch.setattr(gpu, "LARGE", 1 << 62)
    assert same(products.matmul(a, b, unit), found)
