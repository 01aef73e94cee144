"""Models train on the embedded chip as they do in eager: losses, gradients, parameters, statistics, random numbers."""

from __future__ import annotations

import functools

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils._pytree import tree_leaves
from zoo import MODELS

from proveout.check.compare import compare
from proveout.engine.backend import Capture

STEPS = 20


@pytest.fixture(autouse=True)
def fresh_dynamo():
    torch._dynamo.reset()


def capture(**settings):
    return Capture.of("sim", {"precision": "model", "verify": True, **settings}, keep=True)


def on_host(backend, phase):
    """Per ATen op, how many nodes of a phase's graphs stayed on the host; and their share."""
    graphs = [g for g in backend.compiled if g.program.name.endswith(phase)]
    assert graphs
    coverage = functools.reduce(lambda a, b: a + b, (g.coverage for g in graphs))
    names = [op.aten for op in coverage.on_host]
    assert all(op.reason for op in coverage.on_host)
    return {name: names.count(name) for name in sorted(set(names))}, coverage.host_share


# ---- two small models, trained -----------------------------------------------------------------------------------


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        # no bias: that of the keys has no gradient but rounding, which Adam would blow up to whole steps
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x):
        batch, length, _ = x.shape
        split = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, -1)
        q, k, v = split.permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.dropout(self.out(y.transpose(1, 2).reshape(x.shape)))
        return x + self.dropout(self.down(F.gelu(self.up(self.norm2(x)))))


class Transformer(nn.Module):
    def __init__(self, vocabulary=50, width=32):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width, padding_idx=0)
        self.positions = nn.Embedding(16, width)
        self.blocks = nn.Sequential(Block(width, 2), Block(width, 2))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary)

    def forward(self, ids, labels):
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1]))
        logits = self.head(self.norm(self.blocks(x)))
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten())

    @staticmethod
    def batch():
        ids = torch.randint(0, 50, (4, 16))
        labels = ids.roll(-1, 1)
        labels[:, -1] = -100
        return ids, labels


class Cnn(nn.Module):
    def __init__(self):
        super().__init__()
        # no bias before a batch norm, which takes it out again: its gradient is rounding alone
        self.conv1, self.norm1 = nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8, momentum=0.3)
        self.conv2 = nn.Conv2d(8, 16, 3, stride=2)
        self.dropout, self.head = nn.Dropout(0.25), nn.Linear(16 * 3 * 3, 5)

    def forward(self, images, labels):
        x = F.max_pool2d(torch.relu(self.norm1(self.conv1(images))), 3, 2, 1)
        x = F.avg_pool2d(torch.relu(self.conv2(x)), 2, 1)
        return F.cross_entropy(self.head(self.dropout(x.flatten(1))), labels, label_smoothing=0.1)

    @staticmethod
    def batch():
        return torch.randn(8, 3, 18, 18), torch.randint(0, 5, (8,))


def trained(model, function, optimiser, batches):
    """Losses of a training run; random numbers start from the same seed whatever runs the model."""
    torch.manual_seed(1)
    losses = []
    for batch in batches:
        optimiser.zero_grad()
        loss = function(*batch)
        loss.backward()
        optimiser.step()
        losses.append(loss.detach())
    return torch.stack(losses), dict(model.named_parameters()), dict(model.named_buffers())


ADAM = functools.partial(torch.optim.Adam, lr=3e-3)
SGD = functools.partial(torch.optim.SGD, lr=0.05, momentum=0.9)
LEFT_ON_HOST = {
    (Transformer, "forward"): {"aten.bernoulli.p": 4, "aten.view.default": 1},
    (Transformer, "backward"): {},
    (Cnn, "forward"): {"aten.add.Tensor": 1, "aten.bernoulli.p": 1, "aten.eq.Scalar": 1},
    (Cnn, "backward"): {},
}
"""Random numbers are eager's own, and int64 labels and counters are of any size."""


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "optimiser"), [(Transformer, ADAM), (Cnn, SGD), (Cnn, ADAM)])
def test_training_gives_eagers_losses_and_parameters(kind, optimiser):
    torch.manual_seed(0)
    ours, theirs = kind(), kind()
    theirs.load_state_dict(ours.state_dict())
    batches = [kind.batch() for _ in range(2)] * (STEPS // 2)
    backend = capture()
    compiled = torch.compile(ours, backend=backend)
    found = trained(ours, compiled, optimiser(ours.parameters()), batches)
    wanted = trained(theirs, theirs, optimiser(theirs.parameters()), batches)
    torch.testing.assert_close(found, wanted, rtol=1e-3, atol=2e-4)
    assert wanted[0][-1] < wanted[0][0]
    for phase in ("forward", "backward"):
        assert on_host(backend, phase)[0] == LEFT_ON_HOST[kind, phase]


# ---- what the two rest on ----------------------------------------------------------------------------------------

ORDERS = {
    "one dimension": lambda: torch.randn(33),
    "rows": lambda: torch.randn(64, 129),
    "transposed": lambda: torch.randn(5, 7).t(),
    "channels last": lambda: torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
    "permuted": lambda: torch.randn(2, 3, 4, 5).permute(3, 1, 0, 2),
    "expanded": lambda: torch.randn(1, 64).expand(5, 64),
    "every second": lambda: torch.randn(64, 64)[:, ::2].t(),
    "bfloat16": lambda: torch.randn(64, 9).bfloat16(),
}


@pytest.mark.slow
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("p", "inplace"), [(0.1, False), (0.5, False), (1.0, False), (0.3, True)])
def test_dropout_draws_eagers_numbers(order, p, inplace):
    """Exactly: the mask, the scale, the gradient, and where the random stream is afterwards."""
    torch.manual_seed(0)
    x = ORDERS[order]()

    def run(function):
        leaf = x.detach().requires_grad_()
        torch.manual_seed(5)
        out = function(leaf)
        out.square().sum().backward()
        return out.detach(), leaf.grad, torch.rand(1)

    def model(leaf):
        return F.dropout(leaf * 2, p, True, inplace)

    for got, wanted in zip(run(torch.compile(model, backend=capture())), run(model)):
        assert torch.equal(got, wanted)


POOLS = {
    "plain": (torch.randn(2, 3, 8, 10), (2,)),
    "ties": (torch.randn(2, 3, 9, 11).round(), (3, 2, 1)),
    "not a number": (torch.randn(1, 2, 6, 6).masked_fill(torch.rand(1, 2, 6, 6) > 0.6, torch.nan), (3, 1, 1)),
    "-inf": (torch.full((1, 2, 6, 7), -torch.inf), (3, 2, 1)),
    "dilated, ceil": (torch.randn(1, 2, 10, 10), (3, 2, 1, 2, True)),
    "uneven": (torch.randn(3, 9, 11), ((3, 2), (1, 2), (1, 0))),
    "bfloat16": (torch.randn(2, 3, 9, 11).bfloat16(), (3, 2)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", POOLS)
def test_max_pool_gives_eagers_indices_and_gradient(name):
    x, parameters = POOLS[name]

    def run(function):
        leaf = x.detach().requires_grad_()
        out, indices = function(leaf)
        (out * out.detach().nan_to_num(1, 1, 1)).sum().backward()
        return out, indices, leaf.grad

    model = functools.partial(_pooled, parameters)
    backend = capture()
    for got, wanted in zip(run(torch.compile(model, backend=backend)), run(model)):
        torch.testing.assert_close(got, wanted, rtol=0, atol=0, equal_nan=True)
    assert not on_host(backend, "forward")[0]
    assert not on_host(backend, "backward")[0]


def _pooled(parameters, x):
    names = ("kernel_size", "stride", "padding", "dilation", "ceil_mode")
    return F.max_pool2d(x, **dict(zip(names, parameters)), return_indices=True)


# ---- gradients of the zoo ----------------------------------------------------------------------------------------

NEGLIGIBLE = 1e-6
"""Of a model's largest gradient: what is smaller is rounding, of a gradient that is mathematically zero."""


def batch_of(inputs):
    """Eight images instead of one: a batch norm over the four pixels left of one is so ill-conditioned that eager's own
    gradients correlate with float64's by no more than 0.99."""
    generator = torch.Generator().manual_seed(2)
    return {
        name: torch.randn(8, *x.shape[1:], generator=generator) if x.is_floating_point() else x
        for name, x in inputs.items()
    }


def gradients(model, function, inputs):
    model.zero_grad()
    torch.manual_seed(3)
    outputs = function(**inputs)
    sum(t.square().mean() for t in tree_leaves(outputs) if t.is_floating_point()).backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


@pytest.fixture
def two_threads():
    """The order of sums that the bounds hold for. Rounding may put an activation of MobileNetV2 beyond a ReLU6's
    corner, and eager's own gradients are then 0.02 off float64's: inputs changed by 1e-7 show it."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


QUICK = ("bert", "gpt2", "mnist_cnn", "vit")


@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.whole) for n in MODELS])
def test_gradients_of_the_zoo(name, two_threads):
    model, inputs = MODELS[name]()
    model.train()
    inputs = batch_of(inputs)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    backend = capture()
    found = gradients(model, torch.compile(model, backend=backend), inputs)
    after = {key: value.clone() for key, value in model.named_buffers()}
    model.load_state_dict(before)
    wanted = gradients(model, model, inputs)
    assert found.keys() == wanted.keys()
    floor = NEGLIGIBLE * max(float(g.abs().max()) for g in wanted.values())
    for key, gradient in wanted.items():
        if gradient.abs().max() > floor:
            verdict = compare(found[key], gradient, name=key, threshold=0.9999)
            assert verdict.passed, verdict
            assert verdict.rel_l2 < 0.01
        else:
            assert found[key].abs().max() < 10 * floor, key
    torch.testing.assert_close(after, dict(model.named_buffers()), rtol=1e-4, atol=1e-5)
    left, share = on_host(backend, "backward")
    assert share < 0.02, left
