"""Our Triton kernels against what they mean, over odd shapes, strides and dtypes: on a GPU where there is one, else in
Triton's interpreter on the CPU, for which `test_cuda_interpreted.py` runs this file in a process of its own."""

from __future__ import annotations

import os

import pytest
import torch
import torch.nn.functional as F

pytest.importorskip("triton", reason="Triton is not installed")
GPU = torch.cuda.is_available()
if not GPU and os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip("there is no GPU: test_cuda_interpreted.py runs this file", allow_module_level=True)

import triton.runtime.interpreter as interpreter

from proveout.devices.cuda import ops
from proveout.devices.cuda.launch import attentions, convolutions, products

DEVICE = "cuda" if GPU else "cpu"
DTYPES = [torch.float16, torch.bfloat16] if GPU else [torch.float16]  # the interpreter has no products in bfloat16
Tensor = torch.Tensor


@pytest.fixture(autouse=True)
def _numbers_as_newer_numpy_wants_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """The interpreter turns arrays of one element into numbers, which numpy 2.4 and later refuse."""
    original = interpreter._patch_lang_tensor

    def patched(tensor: type, scope: object) -> None:
        original(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))
        scope.set_attr(tensor, "__bool__", lambda self: self.handle.data.size != 1 or bool(self.handle.data.item()))

    if not GPU:
        monkeypatch.setattr(interpreter, "_patch_lang_tensor", patched)
    torch.manual_seed(0)


def random(*shape: int, dtype: torch.dtype = torch.float16) -> Tensor:
    return torch.randn(*shape, device=DEVICE).to(dtype)


def error(given: Tensor, expected: Tensor) -> float:
    assert given.shape == expected.shape
    return float((given.float() - expected.float()).norm() / expected.float().norm())


def near(given: Tensor, expected: Tensor) -> bool:
    return error(given, expected) < (4e-3 if given.dtype == torch.bfloat16 else 6e-4)


def tile(bm: int, bn: int, bk: int, split: int = 1, tma: int = 0) -> dict[str, int]:
    return {"BM": bm, "BN": bn, "BK": bk, "SPLIT": split, "TMA": tma, "warps": 4, "stages": 2}


def stream(bm: int, bn: int, bk: int) -> dict[str, int]:
    return {"BM": bm, "BN": bn, "BK": bk, "PER": 1, "warps": 4, "stages": 2}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    ("m", "k", "n", "numbers"),
    [
        (50, 128, 128, tile(32, 64, 64)),
        (33, 192, 64, tile(16, 64, 64, split=2)),
        (70, 104, 200, tile(64, 64, 32, split=3)),
        (65, 128, 136, tile(64, 64, 64, tma=1)),
        (65, 136, 520, stream(64, 64, 64)),
    ],
    ids=["plain", "split", "nothing divides", "copy engine", "streamed"],
)
@pytest.mark.parametrize("transposed", [False, True], ids=["rows", "columns"])
def test_a_product_with_bias_and_activation(
    m: int, k: int, n: int, numbers: dict[str, int], transposed: bool, dtype: torch.dtype
) -> None:
    a, w, bias = random(m, k, dtype=dtype), random(k, n, dtype=dtype) * k**-0.5, random(n, dtype=dtype)
    w = w.t().contiguous().t() if transposed else w
    for name in ("", "gelu", "gelu_tanh", "relu"):
        y, _ = products.launch_product(numbers, a, w, bias, name)
        assert near(y, ops.ACTIVATIONS[name](a.float() @ w.float() + bias.float()))


@pytest.mark.parametrize(
    "numbers", [tile(16, 64, 64), tile(16, 64, 64, 3), stream(16, 64, 64)], ids=["1", "3", "streamed"]
)
def test_a_product_with_norms_before_and_in_its_residual(numbers: dict[str, int]) -> None:
    a, w, bias, residual = random(40, 192) * 2 + 1, random(192, 128) * 0.1, random(128), random(40, 128) + 0.5
    gamma, beta, scale, shift = random(192), random(192), random(128), random(128)
    folded, columns, moved = ops.fold_norm(w, bias, gamma, beta)
    y, stats = products.launch_product(
        numbers, a, folded, moved, "gelu", residual, None, ops.moments(a), columns, 1e-5,
        ops.moments(residual), scale, shift, 1e-5, True,
    )  # fmt: skip
    inner = F.layer_norm(a.float(), (192,), gamma.float(), beta.float(), 1e-5) @ w.float() + bias.float()
    expected = F.gelu(inner) + F.layer_norm(residual.float(), (128,), scale.float(), shift.float(), 1e-5)
    assert near(y, expected)
    assert error(stats, ops.moments(y)) < 1e-5


def test_two_residuals_and_rows_that_lie_apart() -> None:
    whole, w = random(20, 256), random(64, 64) * 0.1
    a, first, second = whole[:, 64:128], whole[:, 128:192], whole[:, 192:]
    y, _ = products.launch_product(tile(16, 64, 32), a, w, None, "", first, second)
    assert near(y, a.float() @ w.float() + first.float() + second.float())


@pytest.mark.parametrize("split", [1, 2])
def test_a_product_for_branches_activates_some_columns_turns_others_and_writes_beside_a_third(split: int) -> None:
    a, w, bias = random(40, 64), random(64, 208) * 0.1, random(208)
    angle = torch.rand(20, 8, device=DEVICE) * 6
    turn = products.Turn(angle.cos().bfloat16(), angle.sin().bfloat16(), 80, 176, 16)
    whole = random(40, 300)
    before = whole.clone()
    rest = None, None, None, None, 0.0, None, None, None, 0.0, False
    products.launch_product(tile(16, 64, 32, split), a, w, bias, "gelu", *rest, 80, whole[:, 92:], turn)
    y = a.float() @ w.float() + bias.float()
    heads = y[:, 80:176].view(2, 20, 6, 16).transpose(1, 2)
    turned = ops.turned(heads, turn.cos, turn.sin, "pairs").transpose(1, 2).reshape(40, 96)
    assert near(whole[:, 92:], torch.cat((F.gelu(y[:, :80]), turned, y[:, 176:]), 1))
    assert torch.equal(whole[:, :92], before[:, :92])


@pytest.mark.parametrize("bk", [128, 512], ids=["in parts", "at once"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_a_few_rows_times_a_matrix(bk: int, dtype: torch.dtype) -> None:
    a, w, bias = random(2, 300, dtype=dtype), ops.columns(random(300, 21, dtype=dtype)), random(21, dtype=dtype)
    gamma, beta = random(300, dtype=dtype), random(300, dtype=dtype)
    numbers = {"BN": 4, "BK": bk, "warps": 4, "stages": 1}
    made = products.launch_vector(numbers, a, w, None, bias, "relu")
    assert near(made, torch.relu(a.float() @ w.float() + bias.float()))
    residual, second = random(2, 40, dtype=dtype)[:, :21], random(2, 21, dtype=dtype)
    operands = a, w, None, bias, "gelu_tanh", residual, second, gamma, beta, 1e-5
    assert near(products.launch_vector(numbers, *operands), ops.vector_meaning(*operands))


def test_a_matrix_in_eight_bits() -> None:
    a, w = random(1, 200), random(200, 32)
    packed, scale = ops.pack(w, "int8")
    numbers = {"BN": 4, "BK": 256, "warps": 4, "stages": 1}
    assert near(products.launch_vector(numbers, a, packed, scale), ops.vector_meaning(a, packed, scale, *NOTHING))
    assert error(ops.vector(a, packed, scale, *NOTHING), a.float() @ w.float()) < 0.01
    packed, scale = ops.pack(w, "float8")
    assert error(ops.scaled(a, packed, scale, None, "", None, None), a.float() @ w.float()) < 0.04


NOTHING = (None, "", None, None, None, None, 0.0)


@pytest.mark.parametrize("mask", ["numbers", "booleans", ""])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_a_token_joins_a_cache_and_attends_to_it(mask: str, dtype: torch.dtype) -> None:
    q = random(2, 1, 4, 24, dtype=dtype).transpose(1, 2)
    k, v = (random(2, 2, 1, 24, dtype=dtype) for _ in "kv")
    keys, values = random(2, 2, 50, 32, dtype=dtype)[..., :24], random(2, 2, 50, 24, dtype=dtype)
    position = torch.tensor([33], device=DEVICE)
    seen = torch.arange(50, device=DEVICE) <= 33
    given = {"numbers": torch.where(seen, 0.0, -1e9)[None, None, None].to(dtype), "booleans": seen.expand(2, 1, 1, 50)}
    copies = keys.clone(), values.clone()
    expected = ops.append_meaning(q, k, v, *copies, position, given.get(mask), 0.3)
    numbers = {"BN": 32, "warps": 4, "stages": 1}
    made = attentions.launch_append(numbers, q, k, v, keys, values, position, given.get(mask), 0.3)
    assert near(made, expected)
    assert torch.equal(keys, copies[0])
    assert torch.equal(values, copies[1])


def test_a_norm_of_rows() -> None:
    x, gamma, beta = random(7, 100) * 3 + 1, random(100), random(100)
    made = products.launch_norm({"BM": 2, "warps": 1, "stages": 1}, x, gamma, beta, 1e-5)
    assert near(made, F.layer_norm(x.float(), (100,), gamma.float(), beta.float(), 1e-5))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    ("queries", "keys", "depth", "mask"),
    [(40, 40, 64, "causal"), (33, 50, 24, "numbers"), (64, 64, 32, "booleans"), (20, 40, 16, "")],
)
def test_attention_of_grouped_heads(queries: int, keys: int, depth: int, mask: str, dtype: torch.dtype) -> None:
    q = random(2, queries, 4, depth, dtype=dtype).transpose(1, 2)
    k, v = (random(2, 2, keys, depth, dtype=dtype) for _ in "kv")
    given = None
    if mask == "numbers":
        given = random(2, 1, queries, keys, dtype=dtype)
    elif mask == "booleans":
        given = torch.rand(1, 1, queries, keys, device=DEVICE) > 0.3
    made = attentions.launch_attention(
        {"BM": 16, "BN": 32, "warps": 4, "stages": 2}, q, k, v, given, mask == "causal", 0.2
    )
    exact = given.float() if mask == "numbers" else given
    assert near(made, ops.attention_of(q.float(), k.float(), v.float(), exact, mask == "causal", 0.2))
    assert made.transpose(1, 2).is_contiguous()


@pytest.mark.parametrize(("turn", "depth", "angles"), [("pairs", 64, 32), ("pairs", 24, 8), ("halves", 32, 32)])
@pytest.mark.parametrize("rows", [32, 37])
def test_attention_turns_queries_and_keys_by_their_positions(turn: str, depth: int, angles: int, rows: int) -> None:
    q, k, v = (random(2, rows, heads, depth).transpose(1, 2) for heads in (4, 2, 2))
    angle = torch.rand(rows, angles, device=DEVICE) * 6
    cos, sin = angle.cos().bfloat16(), angle.sin().bfloat16()
    numbers = {"BM": 16, "BN": 32, "warps": 4, "stages": 2}
    made = attentions.launch_attention(numbers, q, k, v, None, True, 0.2, cos, sin, turn)
    turned = (ops.turned(t.float(), cos, sin, turn) for t in (q, k))
    assert near(made, ops.attention_of(*turned, v.float(), None, True, 0.2))


def test_a_query_that_sees_nothing_gives_zeros() -> None:
    q, k, v = (random(1, 1, 16, 16) for _ in "qkv")
    mask = torch.ones(1, 1, 16, 16, dtype=torch.bool, device=DEVICE)
    mask[..., 3, :] = False
    made = attentions.launch_attention({"BM": 16, "BN": 32, "warps": 4, "stages": 2}, q, k, v, mask, False, 0.25)
    assert bool((made[0, 0, 3] == 0).all())
    assert bool(made.isfinite().all())


@pytest.mark.parametrize(
    ("image", "filters", "window", "stride", "padding", "dilation", "split", "residual"),
    [
        ((1, 9, 9, 64), 32, 3, 1, 1, 1, 2, True),
        ((2, 12, 10, 3), 64, 7, 2, 3, 1, 1, False),
        ((1, 8, 8, 64), 64, 1, 2, 0, 1, 1, False),
        ((1, 10, 10, 32), 16, 3, 1, 2, 2, 3, True),
    ],
    ids=["split", "stem", "shortcut", "dilated"],
)
@pytest.mark.parametrize("tma", [0, 1])
def test_a_convolution_with_its_batch_norm(
    image: tuple[int, ...],
    filters: int,
    window: int,
    stride: int,
    padding: int,
    dilation: int,
    split: int,
    residual: bool,
    tma: int,
) -> None:
    x, weight = random(*image), random(filters, image[3], window, window) * 0.1
    mean, variance, gamma, beta = random(filters), random(filters).abs() + 0.5, random(filters), random(filters)
    w, bias = ops.fold_conv(weight, None, mean, variance, gamma, beta, 1e-5)
    sizes = [[n, n] for n in (window, stride, padding, dilation)]
    picture = x.permute(0, 3, 1, 2).float()
    expected = F.conv2d(picture, weight.float(), None, *sizes[1:])
    expected = F.batch_norm(expected, mean.float(), variance.float(), gamma.float(), beta.float(), eps=1e-5)
    expected = expected.permute(0, 2, 3, 1).reshape(1, 1, -1, filters)
    rest = random(*expected.shape) if residual else None
    made = convolutions.launch_conv(tile(32, 32, 32, split, tma), x, w, bias, rest, "relu", list(image), *sizes)
    assert near(made, torch.relu(expected if rest is None else expected + rest.float()))


@pytest.mark.parametrize(
    ("image", "other", "window", "stride", "split"),
    [((1, 5, 6, 64), 32, 3, 1, 2), ((2, 4, 4, 32), 64, 1, 1, 1), ((1, 5, 5, 32), 32, 3, 2, 3)],
    ids=["block", "both 1 x 1", "both with steps"],
)
@pytest.mark.parametrize("tma", [0, 1])
def test_a_convolution_with_one_beside_it(
    image: tuple[int, ...], other: int, window: int, stride: int, split: int, tma: int
) -> None:
    padding, filters = window // 2, 32
    height, width = (ops.conv_size(n, window, stride, padding, 1) for n in image[1:3])
    x, beside = random(*image), random(image[0], other, 2 * height, 2 * width - 1).permute(0, 2, 3, 1)
    inner = window * window * image[3]
    w, bias = random(inner + other, filters) * inner**-0.5, random(filters).float()
    sizes = [[n, n] for n in (window, stride, padding, 1)]
    operands = (x, w, bias, None, "relu", list(image), *sizes, beside, [2, 2])
    expected = ops.conv_meaning(*(t.float() if isinstance(t, Tensor) else t for t in operands))
    assert near(convolutions.launch_conv(tile(32, 32, 32, split, tma), *operands), expected)


@pytest.mark.parametrize(
    ("image", "filters", "window", "stride", "padding", "together", "tile"),
    [
        ((2, 12, 16, 3), 64, 7, 2, 3, 2, (16, 128, 64)),
        ((1, 9, 11, 3), 24, 3, 1, 1, 4, (32, 64, 32)),
        ((1, 8, 8, 1), 32, 3, 1, 0, 4, (16, 32, 256)),
        ((1, 10, 12, 4), 16, 5, 3, 2, 4, (16, 32, 64)),
    ],
    ids=["stem", "nothing divides", "one channel", "stride 3"],
)
def test_a_convolution_of_few_channels_that_lie_apart(
    image: tuple[int, ...],
    filters: int,
    window: int,
    stride: int,
    padding: int,
    together: int,
    tile: tuple[int, int, int],
) -> None:
    batch, height, width, channels = image
    x = random(batch, channels, height, width).permute(0, 2, 3, 1)
    w, bias = random(window * window * channels, filters) * 0.1, random(filters).float()
    sizes = [[n, n] for n in (window, stride, padding, 1)]
    numbers = dict(zip(("BM", "BN", "BK"), tile)) | {"TOGETHER": together, "warps": 4, "stages": 2}
    operands = (x, w, bias, None, "relu", list(image), *sizes)
    expected = ops.conv_meaning(*(t.float() if isinstance(t, Tensor) else t for t in operands))
    assert near(convolutions.launch_conv(numbers, *operands), expected)


@pytest.mark.parametrize(
    ("image", "window", "stride", "padding", "dilation"),
    [((2, 9, 7, 64), 3, 2, 1, 1), ((1, 6, 6, 24), 2, 2, 0, 1), ((1, 9, 9, 8), 3, 1, 1, 2)],
    ids=["stem", "even", "dilated"],
)
def test_a_max_pool(image: tuple[int, ...], window: int, stride: int, padding: int, dilation: int) -> None:
    x = random(*image)
    x[0, 3, 3, 1] = float("nan")
    sizes = [[n, n] for n in (window, stride, padding, dilation)]
    made = convolutions.launch_pool({"BM": 16, "BN": 32, "warps": 4, "stages": 1}, x, list(image), *sizes)
    assert torch.equal(made.nan_to_num(7e4), ops.pool_meaning(x, list(image), *sizes).nan_to_num(7e4))


@pytest.mark.parametrize(("rows", "positions", "k", "numbers"), [(1, 49, 64, (8, 64)), (3, 4, 200, (4, 64))], ids=str)
def test_a_product_of_means(rows: int, positions: int, k: int, numbers: tuple[int, int]) -> None:
    a, w, bias = random(rows * positions, k), random(24, k).t() * k**-0.5, random(24)
    sizes = {"BN": numbers[0], "BK": numbers[1], "warps": 4, "stages": 1}
    made = products.launch_vector(sizes, a, w, None, bias, positions=positions)
    expected = a.float().unflatten(0, (rows, positions)).mean(1).to(a.dtype).float() @ w.float() + bias.float()
    assert near(made, expected)
