"""Numbers of whole Programs: `fast` and `faithful` on the modelled chip, weights in block floats, and what is shown."""

from __future__ import annotations

import runpy
from dataclasses import replace
from fractions import Fraction

import numbers_by_hand as hand
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import proveout
from proveout import ttnn
from proveout.chip.specs import CHIPS
from proveout.coding import from_json, to_json
from proveout.columns.table import row
from proveout.columns.words import numbers
from proveout.engine.snapshot import save_calls
from proveout.errors import UsageError
from proveout.kernels import blockfloat
from proveout.kernels.arithmetic import formats as packing
from proveout.kernels.arithmetic import matrix
from proveout.kernels.arithmetic.matrix import Unit
from proveout.kernels.faithful import Compute, faithful, keywords
from proveout.kernels.faithful.products import convolution, in_blocks
from proveout.kernels.faithful.reductions import summing, total
from proveout.kernels.table import infer, kernels, refusal, storing
from proveout.program import Construct, Name, Ref, Step
from proveout.report.script import write_script
from proveout.types import DRAM, Job, Origin, Record, Settings, TensorSpec, Workload

N150 = CHIPS["n150"]


@pytest.fixture(autouse=True)
def afresh():
    torch._dynamo.reset()
    torch.manual_seed(0)


class Net(nn.Module):
    """Every kind of weight: a table, a convolution, linears with and without bias."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(9, 40)
        self.conv = nn.Conv2d(3, 20, 3, padding=1)
        self.first = nn.Linear(40, 33)
        self.second = nn.Linear(33, 7, bias=False)

    def forward(self, x: torch.Tensor, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.relu(self.conv(x)), self.second(torch.relu(self.first(self.table(ids))))


def net() -> tuple[Net, tuple[torch.Tensor, torch.Tensor]]:
    return Net().eval(), (torch.randn(2, 3, 9, 9), torch.tensor([[1, 2, 8], [0, 3, 4]]))


def close(found, wanted, **tolerance):
    for f, w in zip(found, wanted, strict=True):
        torch.testing.assert_close(f, w, **tolerance)


# ---- weights in other formats ---------------------------------------------------------------------------------------


def with_packed_weights(model: Net, dtype: str) -> Net:
    """Eager, with the weights that the chip holds: a linear's as the host packs its transpose, one column per output
    channel for the convolution."""
    copy = Net().eval()
    copy.load_state_dict(model.state_dict())
    for linear in (copy.first, copy.second):
        linear.weight.data = blockfloat.quantise(linear.weight.data.t(), dtype).float().t().contiguous()
    columns = copy.conv.weight.data.permute(2, 3, 1, 0)
    packed = blockfloat.quantise(columns.reshape(-1, 20), dtype).float().reshape(columns.shape)
    copy.conv.weight.data = packed.permute(3, 2, 0, 1).contiguous()
    return copy


@pytest.mark.parametrize("dtype", blockfloat.FORMATS)
def test_packed_weights_give_what_eager_gives_with_them(dtype):
    model, inputs = net()
    with torch.no_grad():
        wanted, exact = with_packed_weights(model, dtype)(*inputs), model(*inputs)
    found = proveout.compile(model, inputs, settings={"weights": dtype, "verify": True})(*inputs)
    close(found, wanted)
    pcc = min(float(torch.corrcoef(torch.stack([f.flatten(), e.flatten()]))[0, 1]) for f, e in zip(found, exact))
    assert pcc > {"bfloat8_b": 0.9995, "bfloat4_b": 0.95}[dtype]


def test_packed_weights_under_bfloat16_give_what_eagers_bfloat16_model_gives():
    model, inputs = net()
    wide = with_packed_weights(model, "bfloat8_b").bfloat16()
    with torch.no_grad():
        wanted = wide(inputs[0].bfloat16(), inputs[1])
    found = proveout.compile(model, inputs, settings={"precision": "bfloat16", "weights": "bfloat8_b"})(*inputs)
    close(found, [w.float() for w in wanted], rtol=0.016, atol=1e-2)


def formats(program, kernel: str, key: str) -> list[str]:
    return [program.specs[s.attr(key).name].dtype for s in program.body if s.kernel == kernel]


def test_only_products_and_convolutions_have_packed_weights_and_a_cast_is_a_step():
    model, inputs = net()
    compiled = proveout.compile(model, inputs, settings={"precision": "bfloat16", "weights": "bfloat8_b"})
    program = compiled.program
    linears = [s for s in program.body if s.kernel in ("ttnn.linear", "ttnn.matmul")]
    assert [program.specs[s.attr("input_tensor_b").name].dtype for s in linears] == ["bfloat8_b"] * 2
    assert formats(program, "ttnn.embedding", "weight") == ["bfloat16"]
    (conv,) = (s for s in program.body if s.kernel == "ttnn.conv2d")
    assert keywords(conv.attr("conv_config"))["weights_dtype"] == Name("ttnn.bfloat8_b")
    casts = [s for s in program.setup if s.attr("dtype") == Name("ttnn.bfloat8_b")]
    assert {s.kernel for s in casts} == {"ttnn.from_torch"}
    assert all(s.attr("dtype") != Name("ttnn.bfloat8_b") for s in program.body)


def test_packed_weights_are_as_small_as_their_tiles():
    model, inputs = net()
    same = proveout.compile(model, inputs, settings={"precision": "bfloat16"})
    packed = proveout.compile(model, inputs, settings={"precision": "bfloat16", "weights": "bfloat4_b"})
    linear_tiles = 2 * 2 + 2 * 1
    assert same.memory.weight_bytes - packed.memory.weight_bytes == linear_tiles * (2048 - 576)


def test_the_last_override_that_matches_counts():
    model, inputs = net()
    overrides = {"*": "bfloat4_b", "first": "bfloat8_b", "aten.convolution.default": "same", "sec*": "same"}
    compiled = proveout.compile(model, inputs, settings={"precision": "bfloat16", "overrides": overrides})
    program = compiled.program
    assert formats(program, "ttnn.linear", "input_tensor_b") == ["bfloat8_b"]
    assert formats(program, "ttnn.matmul", "input_tensor_b") == ["bfloat16"]
    (conv,) = (s for s in program.body if s.kernel == "ttnn.conv2d")
    assert set(keywords(conv.attr("conv_config"))) == {"activation"}, "its weights are as they were"


def test_an_override_picks_one_of_several_layers_that_are_alike():
    layers = [nn.Sequential(nn.Linear(64, 64), nn.ReLU()) for _ in range(4)]
    model, x = nn.Sequential(*layers).eval(), torch.randn(4, 64)
    chosen = {"precision": "bfloat16", "weights": "bfloat8_b", "overrides": {"1": "bfloat4_b", "3.0": "same"}}
    program = proveout.compile(model, x, settings=chosen).program
    found = formats(program, "ttnn.linear", "input_tensor_b")
    assert found == ["bfloat8_b", "bfloat4_b", "bfloat8_b", "bfloat16"]


def test_an_override_reaches_everything_inside_a_module():
    settings = Settings.of({"overrides": {"encoder": "bfloat8_b", "encoder.0.head": "same"}})
    assert settings.weights_of(Origin(module="encoder.3.fc")) == "bfloat8_b"
    assert settings.weights_of(Origin(module="encoder.0.head.fc")) == "same"
    assert settings.weights_of(Origin(module="encoders")) == "same"
    assert settings.packs_weights
    assert not Settings().packs_weights


def test_a_weight_the_chip_computes_is_cast_by_the_chip():
    class Doubled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(40, 20))

        def forward(self, x):
            return x @ (self.weight * 2.5).relu()

    model, x = Doubled().eval(), torch.randn(4, 40)
    compiled = proveout.compile(model, x, settings={"weights": "bfloat4_b", "verify": True})
    assert "ttnn.typecast" in {s.kernel for s in compiled.program.setup}
    with torch.no_grad():
        weight = (model.weight * 2.5).relu()
    wanted = x @ blockfloat.quantise(weight, "bfloat4_b", "device").float()
    torch.testing.assert_close(compiled(x), wanted)


@pytest.mark.slow
def test_a_changed_weight_is_packed_again():
    model, x = nn.Linear(40, 20).eval(), torch.randn(4, 40)
    compiled = proveout.compile(model, x, settings={"weights": "bfloat8_b"})
    compiled(x)
    with torch.no_grad():
        model.weight.mul_(3.3)
        wanted = F.linear(x, blockfloat.quantise(model.weight.t(), "bfloat8_b").float().t(), model.bias)
    torch.testing.assert_close(compiled(x), wanted)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"weights": "int4"}, "unknown value for setting 'weights': 'int4'; valid: bfloat16, bfloat4_b"),
        ({"overrides": {"head": "int4"}}, "unknown format for 'head' in setting 'overrides': 'int4'"),
        ({"overrides": {3: "same"}}, "3 is not a module's path or an ATen op"),
        ({"overrides": "head"}, "takes {pattern: format} or a list of such pairs, not 'head'"),
        ({"numerics": "exact"}, "unknown value for setting 'numerics': 'exact'; valid: faithful, fast"),
    ],
)
def test_a_wrong_setting_is_refused_by_name(given, message):
    with pytest.raises(UsageError) as told:
        Settings.of(given)
    assert message in str(told.value)


@pytest.mark.parametrize("setting", [{"weights": "bfloat8_b"}, {"numerics": "faithful"}])
def test_a_device_without_the_chips_numbers_refuses_them(setting):
    with pytest.raises(UsageError, match="'cpu'"):
        proveout.compile(nn.Linear(4, 4), torch.randn(2, 4), device="cpu", settings=setting)


def test_settings_about_numbers_travel_as_json_and_are_shown():
    settings = Settings.of({"numerics": "faithful", "overrides": [["head", "same"]], "weights": "bfloat8_b"})
    assert from_json(Settings, to_json(settings)) == settings
    job = Job(Workload("net", "net.py", "x"), "sim", replace(settings, overrides=()))
    assert numbers(row(Record(job, "passed"))) == "model bfloat8_b weights faithful"
    assert numbers(row(Record(replace(job, settings=Settings()), "passed"))) == "model fast"
    assert numbers(row(Record(replace(job, device="cpu", settings=Settings()), "passed"))) == "model"


# ---- faithful -------------------------------------------------------------------------------------------------------


def meaning(kernel: str, fidelity: str | None = None, chip=N150, out: str = "bfloat16", **attrs):
    """The faithful meaning of one call, and the attributes that stand for specs bound to names."""
    specs = {k: v for k, v in attrs.items() if isinstance(v, TensorSpec)}
    refs = tuple((k, Ref(k) if k in specs else v) for k, v in attrs.items())
    step = Step(kernel, refs, ("out",))
    return faithful(step, {**specs, "out": TensorSpec((1,), out, "tile", DRAM)}, chip, fidelity)


def tile(*shape: int, dtype: str = "bfloat16") -> TensorSpec:
    return TensorSpec(shape, dtype, "tile", DRAM)


def test_a_faithful_linear_is_the_rules_written_by_hand():
    a, b, bias = torch.randn(3, 50).bfloat16(), torch.randn(50, 4).bfloat16(), torch.randn(4).bfloat16()
    linear = meaning("ttnn.linear", input_tensor_a=tile(3, 50), input_tensor_b=tile(50, 4), bias=tile(4))
    found = linear(input_tensor_a=a, input_tensor_b=b, bias=bias)
    assert found.dtype == torch.bfloat16
    for i in range(3):
        for j in range(4):
            dest = hand.matmul_element(a[i].tolist(), b[:, j].tolist(), "HiFi2", False)
            assert Fraction(found[i, j].item()) == hand.add_element(float(dest), bias[j].item(), False)


@pytest.mark.parametrize(
    ("in0", "in1", "fidelity", "fp32_dest"),
    [
        ("bfloat16", "bfloat16", "HiFi2", False),
        ("bfloat16", "bfloat8_b", "HiFi2", False),
        ("bfloat8_b", "bfloat4_b", "LoFi", False),
        ("float32", "float32", "HiFi3", True),
    ],
)
def test_a_product_without_a_config_runs_as_ttnn_would(in0, in1, fidelity, fp32_dest):
    family = kernels()["ttnn.matmul"].faithful
    specs = {"input_tensor_a": tile(32, 32, dtype=in0), "input_tensor_b": tile(32, 32, dtype=in1)}
    out = tile(32, 32, dtype=in0)
    wanted = Compute(fidelity, fp32_dest, out=in0, block_tiles=1, l1_acc=not fp32_dest)
    assert family.compute(specs, out, N150, None) == wanted
    assert family.compute(specs, out, N150, "HiFi4") == replace(wanted, fidelity="HiFi4")
    assert family.compute(specs, out, CHIPS["p150"], "LoFi").arch == "blackhole"


def test_a_steps_own_config_decides_and_without_a_fidelity_it_means_lofi():
    family = kernels()["ttnn.matmul"].faithful
    specs = {"input_tensor_a": tile(32, 32), "input_tensor_b": tile(32, 32)}
    said = Construct.of(
        "ttnn.WormholeComputeKernelConfig", math_fidelity=Name("ttnn.MathFidelity.HiFi3"), fp32_dest_acc_en=True
    )
    given = {**specs, "compute_kernel_config": said}
    out = tile(32, 32)
    assert family.compute(given, out, N150, "LoFi") == Compute("HiFi3", True, block_tiles=1)
    given = {
        **specs,
        "compute_kernel_config": Construct.of("ttnn.WormholeComputeKernelConfig", packer_l1_acc=True),
        "program_config": Construct.of(
            "ttnn.MatmulMultiCoreReuseMultiCastProgramConfig", in0_block_w=2, out_subblock_h=1
        ),
    }
    assert family.compute(given, out, N150, None) == Compute("LoFi", block_tiles=2, l1_acc=True)


def test_blocks_of_k_meet_in_l1_as_tt_metals_kernel_adds_them():
    """From three blocks on the packer adds up all but the last, which starts from the sum; with a bias from two on, and
    all of them; with fewer, or without `l1_acc`, each starts from the one before."""
    a, b = torch.randn(1, 8, 128).bfloat16(), torch.randn(1, 128, 6).bfloat16()
    unit = Unit("wormhole", 4)
    parts = [matrix.matmul(a[..., i : i + 32], b[:, i : i + 32], unit) for i in range(0, 128, 32)]
    compute = Compute("HiFi4", block_tiles=1, l1_acc=True)
    held = parts[0]
    for part in parts[1:3]:
        held = packing.add_in_l1(held, part, fp32=False)
    assert torch.equal(in_blocks(a, b, compute, bias=False), matrix.matmul(a[..., 96:], b[:, 96:], unit, held))
    assert torch.equal(in_blocks(a, b, compute, bias=True), packing.add_in_l1(held, parts[3], fp32=False))
    chained = matrix.matmul(a, b, unit)
    assert torch.equal(in_blocks(a, b, replace(compute, block_tiles=2), bias=False), chained)
    assert torch.equal(in_blocks(a, b, replace(compute, l1_acc=False), bias=True), chained)
    assert not torch.equal(in_blocks(a, b, compute, bias=False), chained)


def test_a_block_float_result_is_quantised_at_every_block():
    a, b = torch.randn(1, 8, 64).bfloat16(), torch.randn(1, 64, 16).bfloat16()
    first = matrix.matmul(a[..., :32], b[:, :32], Unit("wormhole", 1))
    start = blockfloat.quantise(first, "bfloat8_b", "device").float()
    wanted = matrix.matmul(a[..., 32:], b[:, 32:], Unit("wormhole", 1), start)
    assert torch.equal(in_blocks(a, b, Compute("LoFi", out="bfloat8_b", block_tiles=1), bias=False), wanted)


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("padding", [(1, 1), (1, 0, 2, 1)])
def test_a_faithful_convolution_is_torchs_up_to_the_chips_rounding(groups, padding):
    image, weight, bias = torch.randn(2, 8, 9, 10), torch.randn(6, 8 // groups, 3, 2), torch.randn(6)
    call = {
        "in_channels": 8, "out_channels": 6, "batch_size": 2, "input_height": 9, "input_width": 10,
        "kernel_size": (3, 2), "stride": (2, 1), "padding": padding, "dilation": (1, 2), "groups": groups,
    }  # fmt: skip
    flat = image.permute(0, 2, 3, 1).reshape(1, 1, -1, 8)
    found = convolution("ttnn.conv2d", Compute("HiFi4", True, out="float32"), flat, weight, bias_tensor=bias, **call)
    wanted = kernels()["ttnn.conv2d"].meaning(flat, weight, bias_tensor=bias, **call)
    torch.testing.assert_close(found, wanted, rtol=2e-3, atol=2e-2)
    assert not torch.equal(found, wanted)


def test_a_convolutions_window_lies_height_width_channels():
    """One position: the convolution is one row times one column, in that order; channels are padded to 8, rows of the
    window to whole tiles."""
    image, weight = torch.randn(1, 5, 3, 2).bfloat16(), torch.randn(1, 5, 3, 2).bfloat16()
    call = {"in_channels": 5, "out_channels": 1, "batch_size": 1, "input_height": 3, "input_width": 2}
    flat = image.permute(0, 2, 3, 1).reshape(1, 1, -1, 5)
    found = convolution("ttnn.conv2d", Compute("LoFi", False), flat, weight, kernel_size=(3, 2), **call)
    padded = (F.pad(t.permute(0, 2, 3, 1), (0, 3)).reshape(3, 16) for t in (image, weight))
    row_, column = (F.pad(t, (0, 16)).flatten().tolist() for t in padded)
    assert Fraction(found.item()) == hand.matmul_element(row_, column, "LoFi", False)


def test_multiply_runs_on_the_vector_unit_and_add_on_the_matrix_unit():
    """tt-metal#35077: the product is rounded to nearest even, and 0 times anything is 0. A sum keeps 10 bits after the
    larger operand's point and is rounded once more."""
    a, b = torch.randn(4000).bfloat16(), torch.randn(4000).bfloat16()
    a[0], b[0] = 0, float("inf")
    spec = tile(4000)
    times = meaning("ttnn.multiply", "LoFi", input_tensor_a=spec, input_tensor_b=spec)
    found = times(input_tensor_a=a, input_tensor_b=b)
    assert torch.equal(found[1:], (a * b)[1:])
    assert found[0] == 0
    plus = meaning("ttnn.add", "LoFi", input_tensor_a=spec, input_tensor_b=spec)
    b[0] = 1
    found = plus(input_tensor_a=a, input_tensor_b=b)
    wanted = [hand.add_element(x, y, False) for x, y in zip(a.tolist(), b.tolist())]
    assert list(map(Fraction, found.tolist())) == wanted
    assert not torch.equal(found, a + b)
    minus = meaning("ttnn.rsub", input_tensor_a=spec, input_b=2.5)
    assert minus(input_tensor_a=a, input_b=2.5).tolist() == [
        float(hand.add_element(2.5, -x, False)) for x in a.tolist()
    ]


def test_two_float32_tensors_meet_in_the_vector_unit():
    a, b = torch.randn(40), torch.randn(40)
    wide = tile(40, dtype="float32")
    times = meaning("ttnn.multiply", "LoFi", out="float32", input_tensor_a=wide, input_tensor_b=wide)
    assert torch.equal(times(input_tensor_a=a, input_tensor_b=b), a * b)


@pytest.mark.parametrize("dim", [None, -1, (0, 2)])
@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("name", ["sum", "mean"])
def test_faithful_sums_have_torchs_shape_and_nearly_its_numbers(name, keepdim, dim):
    x = torch.randn(3, 40, 33).bfloat16()
    found = summing(f"ttnn.{name}", Compute("HiFi4", True), x, dim, keepdim)
    wanted = getattr(torch, name)(x.float(), dim, keepdim)
    assert found.shape == wanted.shape
    torch.testing.assert_close(found.float(), wanted, rtol=2e-2, atol=1e-1)


def test_a_sum_along_rows_is_a_product_and_down_the_rows_a_pool():
    """Phases outside the two halves of a tile, and inside them: not the same bits."""
    x, compute = torch.randn(64, 64).bfloat16(), Compute("HiFi4")
    column = torch.full((1, 64, 1), 0.3).bfloat16()
    assert torch.equal(total(x, 1, 0.3, compute), matrix.matmul(x[None], column, compute.unit)[0])
    assert torch.equal(total(x, 0, 0.3, compute), matrix.sum_rows(x[None], 0.3, compute.unit)[0])
    assert not torch.equal(total(x.t().contiguous(), 0, 0.3, compute).t(), total(x, 1, 0.3, compute))


def test_integers_and_other_kernels_keep_their_fast_meaning():
    whole = tile(40, dtype="int32")
    plus = meaning("ttnn.add", out="int32", input_tensor_a=whole, input_tensor_b=whole)
    assert plus is kernels()["ttnn.add"].meaning
    assert meaning("ttnn.relu6", input_tensor=tile(40)) is kernels()["ttnn.relu6"].meaning


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["model", "bfloat16"])
def test_a_model_runs_faithfully_and_fidelity_is_felt(precision):
    model, inputs = net()
    with torch.no_grad():
        exact = model(*inputs)
    errors = {}
    for fidelity in ("LoFi", "HiFi4"):
        chosen = {"precision": precision, "numerics": "faithful", "math_fidelity": fidelity, "verify": True}
        compiled = proveout.compile(model, inputs, settings=chosen)
        errors[fidelity] = sum(float((f - e).norm() / e.norm()) for f, e in zip(compiled(*inputs), exact))
    assert errors["HiFi4"] < errors["LoFi"] < 0.2
    assert errors["HiFi4"] < {"model": 0.01, "bfloat16": 0.03}[precision]


def test_a_faithful_model_checks_step_by_step_as_it_runs():
    from proveout.check.steps import compare_steps

    model, inputs = net()
    compiled = proveout.compile(
        model, inputs, settings={"precision": "bfloat16", "numerics": "faithful", "math_fidelity": "LoFi"}
    )
    low = {c.name: c.pcc for c in compare_steps(compiled, inputs, {}) if c.pcc is not None}
    compiled = proveout.compile(model, inputs, settings={"precision": "bfloat16"})
    high = {c.name: c.pcc for c in compare_steps(compiled, inputs, {}) if c.pcc is not None}
    assert min(low.values()) < min(high.values())


def test_fast_calls_the_kernels_own_meanings():
    """No layer between the body and torch where nothing is packed."""
    for kernel in kernels().values():
        assert storing(kernel, ("bfloat16",)) is kernel.meaning


# ---- the kernel table and the eager face ----------------------------------------------------------------------------


def out_spec(kernel: str, **attrs) -> TensorSpec:
    specs = {k: v for k, v in attrs.items() if isinstance(v, TensorSpec)}
    return infer(Step(kernel, tuple((k, Ref(k) if k in specs else v) for k, v in attrs.items()), ()), specs)[0]


BF8, BF4 = tile(32, 64, dtype="bfloat8_b"), tile(64, 32, dtype="bfloat4_b")


@pytest.mark.parametrize(
    ("kernel", "attrs", "dtype"),
    [
        # as real ttnn 0.81.1 answers on its mock device
        ("ttnn.matmul", {"input_tensor_a": BF8, "input_tensor_b": BF4}, "bfloat8_b"),
        ("ttnn.matmul", {"input_tensor_a": tile(32, 64), "input_tensor_b": BF4}, "bfloat16"),
        ("ttnn.matmul", {"input_tensor_a": tile(32, 64, dtype="float32"), "input_tensor_b": BF4}, "float32"),
        ("ttnn.matmul", {"input_tensor_a": BF8, "input_tensor_b": tile(64, 32)}, "bfloat8_b"),
        ("ttnn.add", {"input_tensor_a": BF8, "input_tensor_b": tile(32, 64)}, "bfloat8_b"),
        ("ttnn.add", {"input_tensor_a": tile(32, 64), "input_tensor_b": BF8}, "bfloat16"),
        ("ttnn.permute", {"input_tensor": BF8, "dims": (1, 0)}, "bfloat8_b"),
        ("ttnn.reshape", {"input_tensor": BF8, "shape": (64, 32)}, "bfloat8_b"),
        ("ttnn.pow", {"input_tensor": BF4, "exponent": 2.0}, "bfloat4_b"),
        ("ttnn.add", {"input_tensor_a": BF8, "input_tensor_b": BF8}, "bfloat8_b"),
        ("ttnn.exp", {"input_tensor": BF8}, "bfloat8_b"),
        ("ttnn.sum", {"input_tensor": BF8, "dim": -1}, "bfloat8_b"),
        ("ttnn.softmax", {"input_tensor": BF8, "dim": -1}, "bfloat8_b"),
        ("ttnn.typecast", {"input_tensor": tile(32, 64), "dtype": Name("ttnn.bfloat8_b")}, "bfloat8_b"),
        ("ttnn.typecast", {"input_tensor": BF8, "dtype": Name("ttnn.bfloat16")}, "bfloat16"),
        ("ttnn.to_layout", {"tensor": BF8, "layout": Name("ttnn.ROW_MAJOR_LAYOUT")}, "bfloat16"),
    ],
)
def test_results_have_ttnns_dtype(kernel, attrs, dtype):
    assert out_spec(kernel, **attrs).dtype == dtype


TAKES_BFLOAT8_B = {
    "ttnn.add": ("input_tensor_a", "input_tensor_b"), "ttnn.div": ("input_tensor_a", "input_tensor_b"),
    "ttnn.eq": ("input_tensor_a", "input_tensor_b"), "ttnn.maximum": ("input_tensor_a", "input_tensor_b"),
    "ttnn.multiply": ("input_tensor_a", "input_tensor_b"), "ttnn.subtract": ("input_tensor_a", "input_tensor_b"),
    "ttnn.pow": ("input_tensor",), "ttnn.softmax": ("input_tensor",), "ttnn.layer_norm": ("input_tensor",),
    "ttnn.rms_norm": ("input_tensor",), "ttnn.max": ("input_tensor",), "ttnn.mean": ("input_tensor",),
    "ttnn.sum": ("input_tensor",), **dict.fromkeys(
        (f"ttnn.{n}" for n in ("exp", "gelu", "neg", "relu", "sigmoid", "silu", "sqrt", "tanh")), ("input_tensor",)
    ),
}  # fmt: skip
"""Kernels that ttnn 0.81.1 was seen to take on its mock device with bfloat8_b operands, giving bfloat8_b."""
MORE = {"ttnn.pow": {"exponent": 2.0}, "ttnn.softmax": {"dim": -1}}


@pytest.mark.parametrize("kernel", TAKES_BFLOAT8_B)
def test_what_ttnn_was_seen_to_take_in_bfloat8_b_is_taken_and_stays(kernel):
    attrs = {**dict.fromkeys(TAKES_BFLOAT8_B[kernel], BF8), **MORE.get(kernel, {})}
    assert refusal(kernels()[kernel], attrs) is None
    assert out_spec(kernel, **attrs).dtype == "bfloat8_b"


def test_hand_written_ttnn_packs_on_the_host_and_on_the_chip():
    device = ttnn.open_device(device_id=0)
    x = torch.randn(40, 50)
    there = ttnn.from_torch(x, dtype=ttnn.bfloat4_b, layout=ttnn.TILE_LAYOUT, device=device)
    assert there.dtype == ttnn.bfloat4_b
    back = ttnn.to_torch(there)
    assert back.dtype == torch.float32
    assert torch.equal(back, blockfloat.quantise(x, "bfloat4_b").float())
    wide = ttnn.from_torch(x, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)
    cast = ttnn.to_torch(ttnn.typecast(wide, ttnn.bfloat4_b))
    assert torch.equal(cast, blockfloat.quantise(x.bfloat16(), "bfloat4_b", "device").float())
    added = ttnn.to_torch(ttnn.add(there, there))
    assert torch.equal(added, blockfloat.quantise(2 * back, "bfloat4_b", "device").float())


def test_hand_written_ttnn_can_be_faithful():
    config = ttnn.WormholeComputeKernelConfig(math_fidelity=ttnn.MathFidelity.HiFi3, fp32_dest_acc_en=True)
    a, b = torch.randn(5, 60), torch.randn(60, 6)
    for chosen, (fidelity, wide) in ((None, ("HiFi2", False)), (config, ("HiFi3", True))):
        device = ttnn.open_device(device_id=0, numerics="faithful")
        x, y = (ttnn.from_torch(t, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device) for t in (a, b))
        found = ttnn.to_torch(ttnn.matmul(x, y, compute_kernel_config=chosen))
        unit = Unit("wormhole", {"HiFi2": 2, "HiFi3": 3}[fidelity], wide)
        dest = matrix.matmul(a.bfloat16()[None], b.bfloat16()[None], unit)[0]
        assert torch.equal(found, packing.pack_bfloat16(dest, wide).bfloat16())


def test_an_exported_model_with_packed_weights_reproduces_its_outputs(tmp_path, capsys):
    model, inputs = net()
    compiled = proveout.compile(model, inputs, settings={"precision": "bfloat16", "weights": "bfloat8_b"})
    (folder,) = save_calls(compiled, inputs, {}, tmp_path)
    runpy.run_path(str(write_script(folder, "net")), run_name="__main__")
    assert "as compiled" in capsys.readouterr().out


def test_block_floats_exist_in_tile_layout_alone():
    x = torch.randn(4, 4)
    assert ttnn.from_torch(x, dtype=ttnn.bfloat8_b).layout == ttnn.TILE_LAYOUT
    with pytest.raises(RuntimeError, match="Layout must be Layout::TILE for bfloat8_b or bfloat4_b!"):
        ttnn.from_torch(x, dtype=ttnn.bfloat8_b, layout=ttnn.ROW_MAJOR_LAYOUT)


@pytest.mark.parametrize("kernel", ["ttnn.sum", "ttnn.mean", "ttnn.max", "ttnn.softmax"])
def test_reductions_and_softmax_refuse_bfloat4_b_as_ttnn_does(kernel):
    told = refusal(kernels()[kernel], {"input_tensor": BF4, "dim": -1})
    assert told is not None
    assert str(told).endswith("not bfloat4_b")


def test_the_packer_rounds_a_float32_destination_away_from_zero_on_ties():
    x = torch.tensor([1 + 2.0**-8, -1 - 2.0**-8, 1 + 2.0**-9, float("inf")])
    assert packing.pack_bfloat16(x, fp32_dest=True).tolist() == [1 + 2.0**-7, -1 - 2.0**-7, 1.0, float("inf")]
