"""Outputs that look at other outputs' memory, complex gradients, and kernels that are larger than a core."""

from __future__ import annotations

import pytest
import torch

import proveout

X = torch.randn(4, 8, generator=torch.Generator().manual_seed(0))


class Wrap(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


@pytest.mark.parametrize("device", ["cpu", "sim"])
@pytest.mark.parametrize(
    "function",
    [
        lambda x: (y := x * 2, y.view(torch.int32)),
        lambda x: (y := x * 2, y.view(torch.int16), y.view(torch.float64)),
        lambda x: ((y := x * 2).view(torch.uint8), y),
        lambda x: (y := x * 2, y[1:].view(torch.int32), y.view(torch.int32)[:, 2:]),
        lambda x: (z := torch.complex(x, x * 2), z.real, z.imag),
        lambda x: (z := torch.fft.rfft(x), torch.view_as_real(z)),
        lambda x: (z := torch.fft.rfft(x), z.conj()),
        lambda x: (x.view(torch.int32), x + 1),
        lambda x: ((z := torch.complex(x, x * 2)).conj(), torch.view_as_real(z), z.imag),
        lambda x: (y := x * 2, torch.view_as_complex(y.unflatten(-1, (-1, 2))).conj()),
    ],
    ids=[
        *("int32", "other sizes", "bytes first", "parts", "real and imag", "view_as_real", "conjugate", "of an input"),
        "conjugate first",
        "conjugate of real numbers",
    ],
)
def test_a_view_of_an_output_has_its_own_dtype(device, function):
    torch._dynamo.reset()
    compiled = proveout.compile(Wrap(function).eval(), X, device=device)
    for ours, theirs in zip(compiled(X), function(X), strict=True):
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        if device == "cpu" or theirs.is_floating_point() or theirs.is_complex():
            torch.testing.assert_close(ours, theirs, rtol=1e-2, atol=1e-2, equal_nan=True)


def complex_of(x):
    return torch.view_as_complex(x.unflatten(-1, (-1, 2)))


@pytest.mark.parametrize("device", ["cpu", "sim"])
@pytest.mark.parametrize(
    "function",
    [
        lambda x: complex_of(torch.zeros_like(x).expand(2, 4, 8)),
        lambda x: complex_of((x + 1)[:, :4]),
        lambda x: torch.full((4, 1), 7).t().view(torch.int32) + x.long().sum(),
        lambda x: (x + 1)[:, :4].as_strided((3, 3), (9, 2)),
        lambda x: (x + 1).t().relu().as_strided((3, 3), (9, 2)),
        lambda x: (x + 1).t()[2:].as_strided((3, 3), (9, 2)),
        lambda x: (x + 1).sum(-1, keepdim=True).expand(4, 8).as_strided((2, 2), (1, 1)),
        lambda x: torch.complex(x, x * 2)[:, 2:].imag.as_strided((3, 3), (7, 2)),
        lambda x: (x + 1)[1:, 2:].as_strided_scatter(torch.zeros(2, 2), (2, 2), (9, 4)),
        lambda x: (x + 1).expand(3, 4, 8).as_strided_scatter(torch.zeros(2, 2), (2, 2), (9, 4)),
        lambda x: (x + 1).expand(3, 4, 8).as_strided_scatter(torch.zeros(2, 2), (2, 2), (9, 4), 5).mT[1:],
    ],
    ids=[
        *("complex and expanded", "complex and cut", "integers", "cut", "turned", "turned and cut", "expanded"),
        *("imaginary", "scattered", "scattered into an expanded", "a view of that"),
    ],
)
def test_an_op_that_looks_at_memory_sees_eagers(device, function):
    torch._dynamo.reset()
    compiled = proveout.compile(Wrap(function).eval(), X, device=device)
    torch.testing.assert_close(compiled(X), function(X), rtol=1e-2, atol=2e-2)


def test_strides_over_memory_that_no_tensor_fills_are_followed_in_eager():
    def function(x):
        return torch.complex(x, x * 2).conj().as_strided((3, 3), (9, 2))

    torch._dynamo.reset()
    compiled = proveout.compile(Wrap(function).eval(), X, device="sim")
    torch.testing.assert_close(compiled(X), function(X))


def of_real_numbers(x):
    z = torch.view_as_complex(x.unflatten(-1, (-1, 2)))
    z.real.add_(1)
    return torch.view_as_real(z), z


@pytest.mark.parametrize("device", ["cpu", "sim"])
@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x[1:], x[1:].chunk(2)[-1].mT),
        lambda x: (x.relu_(), x[-1:], x[1:, 2:]),
        lambda x: ((y := x + 1)[1:], y[2:].mT),
        of_real_numbers,
    ],
    ids=["of an input", "of a written input", "of a result", "as complex"],
)
def test_a_view_of_any_size_lies_where_eager_has_it(device, function):
    """With sizes that vary, PyTorch finds such a view in its argument by strides and offset of what we give back."""
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="proveout", options={"device": device})
    for size in (4, 5, 3, 7):
        x = torch.randn(size, 8, generator=torch.Generator().manual_seed(size))
        ours, theirs = x.clone(), x.clone()
        with torch.no_grad():
            torch.testing.assert_close(compiled(ours), function(theirs), rtol=1e-2, atol=1e-2)
        torch.testing.assert_close(ours, theirs, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("device", ["cpu", "sim"])
@pytest.mark.parametrize(
    "function",
    [
        lambda x: (torch.fft.rfft(x) * torch.fft.rfft(x).conj()).real.sum(),
        lambda x: torch.fft.rfft(x).abs().pow(2).sum(),
        lambda x: torch.fft.ifft(torch.fft.fft(x) * (1 + 2j)).conj().imag.sum(),
        lambda x: (torch.complex(x, x) @ torch.complex(x, -x).mH).abs().sum(),
    ],
    ids=["product", "abs", "fft", "adjoint"],
)
def test_gradients_pass_through_complex_conjugates(device, function):
    torch._dynamo.reset()
    ours, theirs = (X.clone().requires_grad_() for _ in range(2))
    torch.compile(function, backend="proveout", options={"device": device})(ours).backward()
    function(theirs).backward()
    torch.testing.assert_close(ours.grad, theirs.grad, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("device", ["cpu", "sim"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_the_gradient_of_a_conjugate_may_come_as_one_or_not(device, dynamic):
    """PyTorch may trace it as a conjugate yet to be made and hand over one that is made, or the other way round."""
    torch._dynamo.reset()

    def function(a, b):
        a.real.add_(1)
        return torch.cat([b, a]).conj(), a.conj(), torch.stack([a, a.flip(0)], -1)

    compiled = torch.compile(function, backend="proveout", options={"device": device}, dynamic=dynamic)
    for size in (4, 5, 3):
        generator = torch.Generator().manual_seed(size)
        given = [
            torch.randn(1, 6, dtype=torch.complex64, generator=generator),
            torch.randn(size, 6, generator=generator),
        ]
        gradients = []
        for call in (compiled, function):
            leaves = [g.clone().requires_grad_() for g in given]
            results = call(*(leaf.clone() for leaf in leaves))
            torch.autograd.backward(results, [torch.full_like(r, 2j if r.is_complex() else 1) for r in results])
            gradients.append([leaf.grad for leaf in leaves])
        torch.testing.assert_close(*gradients, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("device", ["cpu", "sim"])
@pytest.mark.parametrize("number", [3, 200, 255])
def test_bytes_are_combined_with_numbers_as_integers(device, number):
    torch._dynamo.reset()
    x = torch.arange(24, dtype=torch.uint8).reshape(4, 6) * 10

    def function(x):
        return x ^ number, x & number, x | number, x + number, x * 3, x > number

    compiled = proveout.compile(Wrap(function).eval(), x, device=device)
    for ours, theirs in zip(compiled(x), function(x), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0)


def test_a_cast_to_complex_keeps_the_fraction():
    from proveout.kernels.table import kernels

    cast = kernels()["ttnn.typecast"].meaning
    assert cast(input_tensor=torch.tensor([1.5]), dtype=torch.complex64).item() == 1.5 + 0j
    assert cast(input_tensor=torch.tensor([-1.5]), dtype=torch.int32).item() == -1


@pytest.mark.parametrize(
    ("channels", "out_channels", "groups", "size"),
    [(3712, 3712, 16, 4), (7392, 7392, 28, 4), (4096, 4096, 32, 14), (7392, 3696, 28, 4)],
    ids=["regnet_x_320", "regnet_y_320", "resnext101_32x16d", "fewer out than in"],
)
def test_a_convolution_that_fits_no_core_runs_in_whole_groups_or_stays_on_the_host_for_that_reason(
    channels, out_channels, groups, size
):
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = torch.nn.Conv2d(channels, out_channels, 3, padding=1, groups=groups, stride=2).eval()
    x = torch.randn(1, channels, size, size)
    compiled = proveout.compile(model, x, device="sim")
    (op,) = [op for op in compiled.coverage.ops if "conv" in op.aten]
    convolutions = [step for step in compiled.program.body if step.kernel == "ttnn.conv2d"]
    if channels == out_channels:
        assert op.state == "converted"
        assert len(convolutions) > 1
        assert sum(step.attr("groups") for step in convolutions) == groups
    else:
        assert op.state == "host"
        assert "B of each core's L1 for its own buffers" in op.reason
    torch.testing.assert_close(compiled(x), model(x), rtol=2e-2, atol=2e-2)


def test_so_does_its_backward():
    torch._dynamo.reset()
    model = torch.nn.Conv2d(1280, 1280, 3, padding=1, groups=1280)
    x = torch.randn(1, 1280, 28, 28, requires_grad=True)
    torch.compile(model, backend="proveout")(x).sum().backward()
    assert torch.isfinite(x.grad).all()


@pytest.mark.parametrize("function", [lambda x: x.flip(0), lambda x: (x * 2).t(), lambda x: (x + 1).view(2, -1)])
def test_an_output_can_be_written_to_while_gradients_are_kept(function):
    """On the device it may be a part of a larger tensor, which is no one's but ours (gradient fuzz seed 40382)."""
    torch._dynamo.reset()
    x, y = (X.clone().requires_grad_() for _ in range(2))
    for run, leaf in ((torch.compile(function, backend="proveout"), x), (function, y)):
        run(leaf).mul_(3).sum().backward()
    torch.testing.assert_close(x.grad, y.grad)
