"""What models do besides arithmetic: views, writes in place, sizes from data, odd dtypes, custom ops, generation."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import proveout


@pytest.fixture(autouse=True)
def fresh_dynamo():
    torch._dynamo.reset()
    torch.manual_seed(0)


class Module(nn.Module):
    """A model out of a function."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


def in_place_on_a_view(x):
    y = x * 2
    y[1:3].add_(5)
    y.t()[0].mul_(-1)
    return y


def view_of_an_input(x):
    return x.view(-1), x[1:], x.t()


def write_through_a_view_of_an_input(x):
    x[:, 1].zero_()
    return x.sum()


def transposed_then_viewed(x):
    return x.transpose(0, 1).contiguous().view(-1, 2).relu()


def overlapping_windows(x):
    return x.flatten().unfold(0, 4, 2).sum(-1) + x.as_strided((3, 2), (1, 5)).sum()


def masked(x):
    return x[x > 0].exp(), torch.nonzero(x > 0.5)


def picked_by_value(x):
    count = int((x > 0).sum())
    return x.flatten()[:count] * 2


def branch_on_data(x):
    return x.relu() if x.sum() > 0 else x.neg().relu() + 1


def complex_numbers(x):
    z = torch.complex(x, x.flip(0))
    return (z * z.conj()).real, torch.fft.fft(x), z.abs()


def half_and_double(x):
    return (x.half() * 2).float(), x.double().cumsum(0), (x.to(torch.float16) @ x.t().half())


def integers(x):
    big = (x * 1e6).long() * 10**12
    return big, big // 7, big % 5, torch.arange(5) * 2**40, x.to(torch.uint8)


def empty_and_scalar(x):
    nothing = x[:0]
    return nothing.sum(), torch.cat([nothing, x]), x.mean().unsqueeze(0), torch.zeros(0, 3) @ x[:3, :4]


def quantised(x):
    q = torch.quantize_per_tensor(x, 0.1, 0, torch.qint8)
    return q.dequantize() + 1


def several_kinds_of_output(x):
    return {"a": x + 1, "b": [x.shape[0], (x * 2,)], "c": None, "d": 3.5}


FUNCTIONS = [
    in_place_on_a_view,
    view_of_an_input,
    write_through_a_view_of_an_input,
    transposed_then_viewed,
    overlapping_windows,
    masked,
    picked_by_value,
    branch_on_data,
    complex_numbers,
    half_and_double,
    integers,
    empty_and_scalar,
    quantised,
    several_kinds_of_output,
]


@pytest.mark.parametrize("device", ["sim", "cpu"])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_computes_what_eager_computes(function, device):
    x = torch.randn(6, 4)
    ours, theirs = x.clone(), x.clone()
    compiled = torch.compile(Module(function), backend="proveout", options={"device": device})
    for _ in range(2):
        torch.testing.assert_close(compiled(ours), function(theirs))
        torch.testing.assert_close(ours, theirs)


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(6, 4), (9, 4), (2, 4), (1, 4), (6, 7), (30, 2)])
def test_dynamic_shapes(shape):
    model = Module(lambda x: torch.softmax(x @ x.t() / x.shape[0], -1) @ x.cumsum(0)[:, : x.shape[1] // 2 + 1])
    compiled = torch.compile(model, backend="proveout", dynamic=True)
    for rows in (shape[0], shape[0] + 3):
        x = torch.randn(rows, shape[1])
        torch.testing.assert_close(compiled(x), model(x))


def test_one_program_per_shape_and_no_more_than_the_limit(monkeypatch):
    from proveout.engine import graph

    monkeypatch.setattr(graph, "MAX_SHAPES", 3)
    captured = proveout.engine.backend.Capture.of("sim", keep=True)
    compiled = torch.compile(Module(lambda x: x * 2 + 1), backend=captured, dynamic=True)
    for rows in (3, 4, 5, 6, 7, 3, 3):
        x = torch.randn(rows, 4)
        torch.testing.assert_close(compiled(x), x * 2 + 1)
    (function,) = captured.graphs
    assert len(function.variants) == 3
    assert len(captured.compiled) == 6


@torch.library.custom_op("proveout_test::twice_plus", mutates_args=())
def twice_plus(x: torch.Tensor, amount: float) -> torch.Tensor:
    return x * 2 + amount


@twice_plus.register_fake
def _(x, amount):
    return torch.empty_like(x)


def test_a_custom_op_runs_on_the_host():
    model = Module(lambda x: torch.relu(twice_plus(torch.sin(x), 0.5)))
    x = torch.randn(4, 8)
    compiled = proveout.compile(model, (x,))
    torch.testing.assert_close(compiled(x), model(x))
    (op,) = compiled.coverage.on_host
    assert op.aten == "proveout_test.twice_plus.default"
    assert "an op of proveout_test, not of ATen" in op.reason


def test_higher_order_ops_run_the_graph_in_eager():
    def either(x):
        return torch.cond(x.sum() > 0, lambda t: t.sin(), lambda t: t.cos(), (x,))

    x = torch.randn(4, 4)
    compiled = proveout.compile(Module(either), (x,))
    torch.testing.assert_close(compiled(x), either(x))
    assert compiled.coverage.remain == compiled.coverage.before > 0
    assert "higher-order" in compiled.coverage.on_host[0].reason


@pytest.mark.slow
@pytest.mark.parametrize(
    ("architecture", "cache"),
    [
        pytest.param("gpt2", "static", marks=pytest.mark.whole, id="gpt2-static cache"),
        pytest.param("gpt2", None, id="gpt2-growing cache"),
        pytest.param("llama", "static", id="llama-static cache"),
        pytest.param("llama", None, marks=pytest.mark.whole, id="llama-growing cache"),
    ],
)
def test_generation_is_eagers_token_for_token(architecture, cache):
    transformers = pytest.importorskip("transformers")
    ids = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2, "vocab_size": 200}
    if architecture == "gpt2":
        config = transformers.GPT2Config(n_embd=64, n_layer=2, n_head=2, n_positions=64, **ids)
        model = transformers.GPT2LMHeadModel(config).eval()
    else:
        sizes = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
        config = transformers.LlamaConfig(**sizes, intermediate_size=128, max_position_embeddings=64, **ids)
        model = transformers.LlamaForCausalLM(config).eval()
    model.generation_config.eos_token_id = None
    prompt = torch.randint(3, 200, (2, 7))
    how = {"max_new_tokens": 10, "do_sample": False, "cache_implementation": cache, "disable_compile": True}
    wanted = model.generate(prompt, attention_mask=torch.ones_like(prompt), **how)
    model.forward = torch.compile(model.forward, backend="proveout")
    found = model.generate(prompt, attention_mask=torch.ones_like(prompt), **how)
    assert torch.equal(found, wanted)
