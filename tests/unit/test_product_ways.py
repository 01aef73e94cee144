"""Which way a product is computed: a GPU for large ones, compiled code, torch alone; and what happens without them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from test_numerics_hard import same

from proveout.kernels.arithmetic import compiled, gpu, matrix, products
from proveout.kernels.arithmetic.errata import counting
from proveout.kernels.arithmetic.matrix import Unit
from proveout.kernels.arithmetic.operands import operand, padded

UNIT = Unit("wormhole", 2)


def operands(batch: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    return torch.randn(batch, 40, 50).bfloat16(), torch.randn(1, 50, 33).bfloat16()


def test_large_products_go_to_a_gpu_that_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = operands()
    sent: list[int] = []

    def elsewhere(in0: torch.Tensor, in1: torch.Tensor, unit: Unit, start: torch.Tensor | None) -> torch.Tensor:
        sent.append(in0.numel())
        return matrix.matmul(in0, in1, unit, start)

    monkeypatch.setattr(gpu, "matmul", elsewhere)
    monkeypatch.setattr(gpu, "LARGE", 40 * 50 * 33)
    for usable, wanted in ((False, []), (True, [2000])):
        monkeypatch.setattr(gpu, "usable", lambda usable=usable: usable)
        assert same(products.matmul(a, b, UNIT), matrix.matmul(a, b, UNIT))
        products.matmul(a[:, :-1], b, UNIT)  # smaller
        assert sent == wanted


def test_a_gpu_without_room_leaves_the_product_to_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object) -> torch.Tensor:
        raise torch.cuda.OutOfMemoryError("no room")

    a, b = operands()
    monkeypatch.setattr(gpu, "matmul", full)
    monkeypatch.setattr(gpu, "usable", lambda: True)
    monkeypatch.setattr(gpu, "LARGE", 1)
    assert same(products.matmul(a, b, UNIT), matrix.matmul(a, b, UNIT))


def test_compiled_code_is_built_when_there_is_enough_to_multiply_and_leaves_no_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if compiled.library() is None:
        pytest.skip("no C compiler here")
    compiled.library.cache_clear()
    monkeypatch.setenv("PROVEOUT_CACHE", str(tmp_path))
    monkeypatch.setattr(compiled.tempfile, "tempdir", str(tmp_path))
    a, b = operands()
    monkeypatch.setattr(compiled, "_asked_for", 0)
    monkeypatch.setattr(compiled, "WORTH_BUILDING", 2 * 40 * 50 * 33)
    first = products.matmul(a, b, UNIT)
    assert compiled.library.cache_info().currsize == 0
    assert same(products.matmul(a, b, UNIT), first)
    assert compiled.library.cache_info().currsize == 1
    assert not list(tmp_path.rglob("*"))


@pytest.mark.parametrize("broken", ["no compiler", "a compiler that fails", "a torn file"])
def test_without_compiled_code_torch_computes_the_same_bits(monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    compiled.library.cache_clear()
    if broken == "no compiler":
        monkeypatch.setattr(compiled.shutil, "which", lambda name: None)
    elif broken == "a compiler that fails":
        monkeypatch.setattr(compiled, "FLAGS", ("-no-such-flag-at-all",))
    else:
        monkeypatch.setattr(compiled, "_build", lambda compiler, path: path.write_bytes(b"\x7fELF and no more"))
    monkeypatch.setattr(compiled, "WORTH_BUILDING", 0)
    try:
        assert compiled.library() is None
        a, b = operands(3)
        assert same(products.matmul(a, b, UNIT), matrix.matmul(a, b.expand(3, -1, -1), UNIT))
    finally:
        compiled.library.cache_clear()


@pytest.mark.parametrize("threads", [1, 3])
def test_compiled_products_on_any_number_of_threads_have_the_same_bits_and_hits(
    threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if compiled.library() is None:
        pytest.skip("no C compiler here")
    monkeypatch.setattr(compiled, "ALONE", 0)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    torch.manual_seed(1)
    a, b = torch.randn(2, 70, 96), torch.randn(2, 96, 65)
    a[:, ::9], b[:, :32] = 0.0, 1.0
    a[:, ::9, 0], a[:, ::9, 16], a[:, ::9, 24] = 1.0, -1.0, -(2.0**-23)
    unit = Unit("wormhole", 4, fp32_dest=True)
    with counting() as errata:
        found = compiled.matmul(a, b, unit)
    with counting() as plain:
        assert same(found, matrix.matmul(a, b, unit))
    assert errata.hits == plain.hits > 0


@pytest.mark.parametrize("half", [False, True], ids=["float32", "float16"])
@pytest.mark.parametrize("src_a", [False, True])
def test_compiled_code_reads_operands_as_torch_does(src_a: bool, half: bool) -> None:
    code = compiled.library()
    if code is None:
        pytest.skip("no C compiler here")
    bits = torch.randint(-(1 << 31), (1 << 31) - 1, (1, 64, 64), generator=torch.Generator().manual_seed(0))
    x = bits.short().view(torch.float16) if half else bits.int().view(torch.float32)
    unit = Unit("wormhole", 4, fp32_dest=True, half=half)
    found, wanted = compiled._operand(code, x, unit, src_a), operand(padded(x, src_a), unit, src_a)
    assert torch.equal(found.exponents, wanted.exponents)
    high, low = (t.parts & 0x7FFF7FFF for t in (found, wanted))
    assert torch.equal(high, low)
    signs = (found.parts ^ wanted.parts) & -0x7FFF8000
    assert bool(((signs >> 16 & 0x8000 == 0) | (wanted.parts >> 16 & 0x7FFF == 0)).all())  # only a zero may differ


def test_empty_products_are_zeros_or_what_was_there() -> None:
    start = torch.randn(1, 2, 3)
    assert torch.equal(products.matmul(torch.ones(1, 2, 0), torch.ones(1, 0, 3), UNIT), torch.zeros(1, 2, 3))
    assert torch.equal(products.matmul(torch.ones(1, 2, 0), torch.ones(1, 0, 3), UNIT, start), start)
    assert products.matmul(torch.ones(1, 0, 4), torch.ones(1, 4, 3), UNIT).shape == (1, 0, 3)
