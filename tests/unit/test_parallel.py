"""Several chips: what is cut over them gives what one chip gives, and what cannot be cut says why."""

from __future__ import annotations

import re
import runpy
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx

import proveout
from proveout.check.steps import replay
from proveout.chip.specs import CHIPS
from proveout.compiler import compile_graph
from proveout.compiler.decompositions import decompositions
from proveout.compiler.graph_passes import GRAPH_PASSES
from proveout.compiler.parallel.batch import BatchSplit, split_batch
from proveout.compiler.profile import Profile
from proveout.devices.execute import on_chips, run_step, unrounded
from proveout.devices.resident import Resident
from proveout.engine.snapshot import save_calls
from proveout.errors import CompileError, DeviceError
from proveout.kernels.pieces import Pieces, pieces_of
from proveout.kernels.table import kernels, meaning_on
from proveout.program import DEALLOCATE, Program
from proveout.report.script import write_script
from proveout.types import Settings

B = 6


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)


def traced(function, *inputs):
    """A functional ATen graph, after the graph passes."""
    with torch.no_grad():
        trace = make_fx(
            function, tracing_mode="fake", decomposition_table=decompositions(), _allow_non_fake_inputs=True
        )
        gm = trace(*inputs)
    output = next(n for n in gm.graph.nodes if n.op == "output")
    if not isinstance(output.args[0], (list, tuple)):
        output.args = ((output.args[0],),)
    for graph_pass in GRAPH_PASSES:
        gm = graph_pass(gm)
    return gm


def cut(function, *inputs, chips=2, weights=()):
    return split_batch(traced(function, *inputs), frozenset(weights), chips)


# ---- the rules -------------------------------------------------------------------------------------------------------

W = torch.randn(8, 8)
TABLE = torch.randn(10, 8)


def x(*shape):
    return torch.randn(B, *shape, generator=torch.Generator().manual_seed(1))


def ids(*shape):
    return torch.randint(0, 8, (B, *shape), generator=torch.Generator().manual_seed(2))


PARALLEL = {
    "pointwise": (lambda a: torch.tanh(a) * 2 + 1, x(8)),
    "broadcast of a weight": (lambda a: a + W[0], x(8)),
    "two inputs": (lambda a, b: a * b, x(4, 8), x(1, 8)),
    "zeros as long as the batch": (lambda a: torch.cat([a, torch.zeros(B, 3)], 1), x(8)),
    "a mask expanded to the batch": (lambda a: a + torch.ones(4, 4).triu().expand(B, 1, 4, 4), x(2, 4, 4)),
    "a token expanded to the batch": (lambda a: torch.cat([W[:1, None].expand(B, 1, 8), a], 1), x(4, 8)),
    "positions of every row": (lambda a: a + F.embedding(torch.arange(4)[None].expand(B, 4), TABLE), x(4, 8)),
    "a weight repeated": (lambda a: a + W[:1].repeat(B, 1), x(8)),
    "mm": (lambda a: a @ W, x(8)),
    "addmm": (lambda a: F.linear(a, W, W[0]), x(8)),
    "addmm, rows added": (lambda a, b: torch.addmm(a, b, W), x(8), x(8)),
    "mm from the right": (lambda a: W @ a.t(), x(8)),
    "linear of many rows": (lambda a: F.linear(a, W), x(4, 8)),
    "bmm": (lambda a, b: torch.bmm(a, b), x(3, 8), x(8, 4)),
    "bmm with heads": (lambda a: torch.matmul(a, a.transpose(-1, -2)), x(2, 3, 8)),
    "baddbmm": (lambda a, b: torch.baddbmm(torch.ones(1, 1, 4), a, b), x(3, 8), x(8, 4)),
    "mv": (lambda a: torch.mv(a, W[0]), x(8)),
    "convolution": (lambda a: F.conv2d(a, W[:, :, None, None], W[0]), x(8, 4, 4)),
    "max pool": (lambda a: F.max_pool2d(a, 2), x(8, 4, 4)),
    "average pool": (lambda a: F.avg_pool2d(a, 2), x(8, 4, 4)),
    "adaptive pool": (lambda a: F.adaptive_avg_pool2d(a, 2), x(8, 4, 4)),
    "upsample": (lambda a: F.interpolate(a, scale_factor=2), x(8, 4, 4)),
    "pad": (lambda a: F.pad(a, (1, 2, 0, 1)), x(8, 4)),
    "softmax": (lambda a: a.softmax(-1), x(8)),
    "log softmax": (lambda a: a.log_softmax(1), x(4, 8)),
    "cumsum": (lambda a: a.cumsum(1), x(8)),
    "sort": (lambda a: a.sort(dim=1)[0], x(8)),
    "topk": (lambda a: a.topk(3, dim=1)[1], x(8)),
    "flip": (lambda a: a.flip([1]), x(8)),
    "sum": (lambda a: a.sum(1), x(4, 8)),
    "mean, kept": (lambda a: a.mean((1, 2), keepdim=True), x(4, 8)),
    "variance": (lambda a: a.var(1), x(4, 8)),
    "maximum and where": (lambda a: a.max(1)[1], x(8)),
    "argmax": (lambda a: a.argmax(-1), x(8)),
    "layer norm": (lambda a: F.layer_norm(a, (8,), W[0], W[1]), x(4, 8)),
    "group norm": (lambda a: F.group_norm(a, 2, W[0], W[1]), x(8, 4)),
    "batch norm": (lambda a: F.batch_norm(a, W[0], W[1].abs(), W[2], W[3]), x(8, 4)),
    "merged with rows": (lambda a: a.reshape(B * 4, 8).relu().view(B, 4, 8), x(4, 8)),
    "merged after a move": (lambda a: a.transpose(0, 1).reshape(4, B * 8).relu(), x(4, 8)),
    "permute": (lambda a: a.permute(2, 0, 1), x(4, 8)),
    "expand": (lambda a: a.unsqueeze(1).expand(B, 3, 8), x(8)),
    "repeat": (lambda a: a.repeat(1, 2), x(8)),
    "squeeze": (lambda a: a.unsqueeze(0).squeeze(0), x(8)),
    "stack": (lambda a, b: torch.stack([a, b], 1), x(8), x(8)),
    "split": (lambda a: a.split(4, 1)[1], x(8)),
    "chunk": (lambda a: a.chunk(2, -1)[0], x(8)),
    "unbind": (lambda a: a.unbind(1)[2], x(4, 8)),
    "slice": (lambda a: a[:, 2:6], x(8)),
    "slice of everything": (lambda a: a[:, :] * a[0:B], x(8)),
    "select": (lambda a: a[:, 1], x(4, 8)),
    "embedding": (lambda i: F.embedding(i, TABLE), ids(4)),
    "lookup": (lambda i: TABLE[i], ids(4)),
    "index of another dimension": (lambda a: a[:, torch.tensor([2, 0])], x(4, 8)),
    "index select": (lambda a: a.index_select(1, torch.tensor([2, 0])), x(4, 8)),
    "gather": (lambda a, i: a.gather(1, i), x(8), ids(3)),
    "scatter": (lambda a, i: a.scatter(1, i, 1.0), x(8), ids(3)),
    "write a slice": (lambda a, b: a.slice_scatter(b, 1, 2, 4), x(4, 8), x(2, 8)),
    "write one": (lambda a, b: a.select_scatter(b, 1, 2), x(4, 8), x(8)),
    "write by index": (lambda a, b: torch.ops.aten.index_put(a, [None, torch.tensor([1])], b), x(4, 8), x(1, 8)),
    "attention": (lambda a: F.scaled_dot_product_attention(a, a, a), x(2, 4, 8)),
    "masked attention": (
        lambda a, m: F.scaled_dot_product_attention(a, a, a, attn_mask=m), x(2, 4, 8), x(1, 4, 4)),
    "causal attention": (lambda a: F.scaled_dot_product_attention(a, a, a, is_causal=True), x(2, 4, 8)),
    "casts": (lambda a: a.to(torch.bfloat16).float().clone(), x(8)),
    "where": (lambda a: torch.where(a > 0, a, 0.0).masked_fill(a > 1, 2.0), x(8)),
    "new zeros": (lambda a: torch.cat([a, a.new_zeros(B, 3)], 1), x(8)),
    "like": (lambda a: torch.zeros_like(a) + torch.ones_like(a[:, :1]), x(8)),
    "triangle": (lambda a: a.tril(), x(4, 4)),
}  # fmt: skip


@pytest.mark.parametrize("chips", [2, 3])
@pytest.mark.parametrize("name", PARALLEL)
def test_rows_apart_are_rows_together(name, chips):
    function, *inputs = PARALLEL[name]
    split = cut(function, *inputs, chips=chips)
    assert isinstance(split, BatchSplit), split
    output = next(n for n in split.graph.graph.nodes if n.op == "output")
    (node,) = output.args[0]
    (dim,) = split.splits[node.name]
    pieces = [split.graph(*(t.chunk(chips)[chip] for t in inputs))[0] for chip in range(chips)]
    torch.testing.assert_close(torch.cat(pieces, dim), function(*inputs))


MIXING = {
    "mean of the batch": (lambda a: a - a.mean(0), x(8), "aten.mean.dim.*reduces over the batch"),
    "sum of all": (lambda a: a.sum(), x(8), "aten.sum.default.*reduces over the batch"),
    "batch norm in training": (
        lambda a: F.batch_norm(a, None, None, training=True), x(8, 4), "statistics of the whole batch"),
    "joined along the batch": (lambda a: torch.cat([a, a]), x(8), "aten.cat.default.*joins along the batch"),
    "products of all rows": (lambda a: a.t() @ a, x(8), "sums over the batch"),
    "every row with every row": (lambda a: a @ a.t(), x(8), "batch in different dimensions|sums over"),
    "softmax over the batch": (lambda a: a.softmax(0), x(8), "along the batch"),
    "some rows": (lambda a: a[1:], x(8), "some rows of the batch"),
    "one row": (lambda a: a[0], x(8), "takes the batch apart"),
    "rows by index": (lambda a: a[torch.tensor([1, 0])], x(8), "rows of the batch"),
    "random numbers": (lambda a: torch.bernoulli(a.sigmoid()), x(8), "random numbers for the whole batch"),
    "noise": (lambda a: a * torch.rand(B, 8), x(8), "rows of the batch differ"),
    "row numbers": (lambda a: a + torch.arange(B)[:, None], x(8), "constant differs between the rows"),
    "moved into another dimension": (lambda a: a.t().reshape(-1), x(8), "reshapes the batch"),
    "repeated": (lambda a: a.repeat(2, 1), x(8), "repeats the batch"),
    "squeezed": (lambda a: a.squeeze(), x(1, 8), "drops depends on the batch"),
    "padded": (lambda a: F.pad(a, (0, 0, 1, 0)), x(8), "pads the batch"),
    "unknown": (lambda a: torch.linalg.inv(a), x(4, 4), "nobody has said"),
    "batch of one": (lambda a: a + 1, torch.randn(1, 8), "the batch is 1"),
    "no batch": (lambda a: a + 1, torch.tensor(1.0), "no input has a batch"),
}  # fmt: skip


@pytest.mark.parametrize("name", MIXING)
def test_what_mixes_the_batch_is_refused_with_the_op_and_the_reason(name):
    function, value, reason = MIXING[name]
    found = cut(function, value)
    assert isinstance(found, str)
    assert re.search(reason, found), found


def test_a_weight_as_long_as_the_batch_is_no_batch():
    assert "it is no part of the batch" in str(cut(lambda a, w: a + w, x(8), torch.randn(B, 8), weights={1}))


def test_a_vector_as_long_as_the_batch_may_be_something_else():
    split = cut(lambda a, statistics: a + statistics, x(B), torch.randn(B))
    assert isinstance(split, BatchSplit)
    assert sorted(d for (d,) in split.splits.values() if d is not None) == [0, 0]


def test_inputs_without_a_batch_do_not_hide_the_one_that_has_it():
    split = cut(lambda a, p, m: a + p + m, x(8), torch.randn(1, 8), torch.randn(1, 1))
    assert isinstance(split, BatchSplit)
    assert split.batch == B


# ---- whole Programs --------------------------------------------------------------------------------------------------


def compiled_for(function, inputs, weights=(), chips=2, dram=None, **chosen):
    """(compiled graph, its Program on the device); the last arguments of the function are the weights."""
    chip = replace(CHIPS["n300"], chips=chips, **({"dram_bank_bytes": dram} if dram else {}))
    gm = make_fx(function, tracing_mode="fake", decomposition_table=decompositions())(*inputs, *weights)
    output = next(n for n in gm.graph.nodes if n.op == "output")
    if not isinstance(output.args[0], (list, tuple)):
        output.args = ((output.args[0],),)
    positions = frozenset(range(len(inputs), len(inputs) + len(weights)))
    settings = Settings(verify=True, **chosen)
    made = compile_graph(gm, weights=positions, profile=Profile("ttnn"), settings=settings, chip=chip, name="test")
    loaded = Resident(made.program)
    loaded.set_weights(dict(zip(made.program.weights, weights)))
    return made, loaded


def same_shapes_as_specs(program, loaded, inputs):
    """Replay every Step: what each chip and the host hold is as the Program says."""
    values = dict(zip(program.inputs, inputs))
    values |= {n: loaded.value(n) for n in (*program.weights, *(c.name for c in program.constants))}
    for step in program.steps:
        if step.kernel != DEALLOCATE:
            values.update(zip(step.outputs, run_step(step, values, on_chips(unrounded, program.chips))))
            for name in step.outputs:
                assert {tuple(p.shape) for p in pieces_of(values[name])} == {program.specs[name].shape}, name


def mlp(a, w1, b1, w2):
    hidden = F.gelu(F.linear(a.reshape(-1, 64), w1, b1)).view(a.shape[0], -1, 128)
    return (hidden @ w2).softmax(-1), hidden.mean(1), w2 * 2


MLP = (torch.randn(128, 64), torch.randn(128), torch.randn(128, 64))


@pytest.mark.slow
@given(st.integers(2, 9), st.integers(2, 4))
@hypothesis_settings(deadline=None, max_examples=12)
def test_any_batch_over_any_chips_gives_what_one_chip_gives(batch, chips):
    a = torch.randn(batch, 3, 64)
    several, loaded = compiled_for(mlp, (a,), MLP, chips)
    one, alone = compiled_for(mlp, (a,), MLP, chips, parallel="none")
    assert several.program.chips == chips
    assert one.program.chips == 1
    result = loaded.run([a])
    for found, wanted in zip(result.outputs, alone.run([a]).outputs, strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)
    assert result.num_transfers == several.program.num_transfers == one.program.num_transfers
    same_shapes_as_specs(several.program, loaded, [a])


def test_an_uneven_batch_repeats_its_last_row_and_drops_it_again():
    a = torch.randn(3, 2, 64)
    made, _ = compiled_for(mlp, (a,), MLP)
    text = str(made.program)
    assert "aten.index_select.default(self=%a_1, dim=0, index=%rows.index)  # host: fills 3 rows up to 4" in text
    assert "mesh_mapper=ttnn.ShardTensorToMesh(device, dim=0)" in text
    assert "mesh_composer=ttnn.ConcatMeshToTensor(device, dim=0)" in text
    assert "the 3 rows that were asked for" in text
    assert made.coverage.parallel == (
        "data parallel: a batch of 3 over 2 chips, 2 rows each (1 repeated to fill them up)",
    )


def test_what_every_chip_has_whole_comes_from_the_first():
    made, loaded = compiled_for(lambda a, b: (a + 1, b.exp()), (torch.randn(4, 8), torch.randn(3)))
    assert "ttnn.get_device_tensors" in str(made.program)
    b = torch.randn(3)
    _, found = loaded.run([torch.randn(4, 8), b]).outputs
    torch.testing.assert_close(found, b.exp())


def test_steps_on_the_host_see_all_rows():
    def function(a, i):
        return (torch.linalg.inv(i.to(torch.float32).mean() * torch.eye(2)) @ a.view(2, -1)[:, :2], a + 1)

    made, loaded = compiled_for(lambda a, i: a + i.view(B, 2, 2).cumsum(1).view(B, 4).float(), (x(4), ids(4)), chips=4)
    host = [s for s in made.program.body if s.on_host]
    assert made.program.chips == 4
    assert any(s.attr("size") == (8, 2, 2) for s in host), [s.attrs for s in host]
    same_shapes_as_specs(made.program, loaded, [x(4), ids(4)])
    torch.testing.assert_close(loaded.run([x(4), ids(4)]).outputs[0], x(4) + ids(4).view(B, 2, 2).cumsum(1).view(B, 4))
    assert "one chip" in compiled_for(function, (x(4), ids(4)))[0].coverage.parallel[0]


ALIKE_ON_ONE_CHIP = {
    "an input viewed": lambda a, p: a.view(1, 2, 8),
    "an input viewed and itself": lambda a, p: (a.view(1, 2, 8), a),
    "a result viewed": lambda a, p: a.exp().view(1, 2, 8),
    "one row expanded": lambda a, p: (a[:, 0] + 1, p.expand(2, 8)),
    "one row expanded and itself": lambda a, p: (a[:, 0] + p.expand(2, 8), p.expand(2, 8) + a[:, 0], p + 1),
    "on the host": lambda a, p: (a.double().view(1, 2, 8).cumsum(2), p.double().expand(2, 8) + a[:, 0]),
}
"""With one row a chip, views and expands change nothing there, but they do for the whole batch."""


@pytest.mark.parametrize("name", ALIKE_ON_ONE_CHIP)
def test_a_view_that_changes_nothing_for_one_row_still_changes_the_whole(name):
    function, inputs = ALIKE_ON_ONE_CHIP[name], (torch.randn(2, 1, 8), torch.randn(1, 8))
    _, loaded = compiled_for(function, inputs)
    for found, wanted in zip(loaded.run(list(inputs)).outputs, _flat(function(*inputs)), strict=True):
        torch.testing.assert_close(found, wanted)


def test_a_saved_program_runs_as_before(tmp_path):
    a = torch.randn(5, 2, 64)
    made, loaded = compiled_for(mlp, (a,), MLP)
    again = Program.load(made.program.save(tmp_path))
    assert (again, again.chips) == (made.program, 2)
    other = Resident(again)
    other.set_weights(dict(zip(again.weights, MLP)))
    assert all(map(torch.equal, other.run([a]).outputs, loaded.run([a]).outputs))


def test_a_program_for_two_chips_is_not_loaded_on_one():
    made, _ = compiled_for(mlp, (torch.randn(4, 2, 64),), MLP)
    with pytest.raises(DeviceError, match=r"is for 2 chips and sim:n150 has 1\. Compile it"):
        proveout.open_device("sim:n150").load(made.program, Settings())


def test_one_chip_runs_the_kernels_own_meanings():
    assert all(meaning_on(kernel, 1) is kernel.meaning for kernel in kernels().values())


def test_every_chip_shares_the_one_copy_of_a_weight():
    made, loaded = compiled_for(mlp, (torch.randn(4, 2, 64),), MLP)
    results = {name for step in made.program.setup for name in step.outputs}
    (first, second) = loaded.value(next(name for name in made.program.resident if name in results))
    assert first.untyped_storage().data_ptr() == second.untyped_storage().data_ptr()
    assert loaded.holds_live(made.program.weights[0])


def test_a_check_replays_all_chips_step_by_step():
    a = torch.randn(4, 2, 64)
    _, loaded = compiled_for(mlp, (a,), MLP)
    found = replay(loaded, [a])
    assert found
    assert all(c.passed for c in found)


# ---- tensor parallel -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chips", [2, 4])
def test_cut_columns_give_what_whole_ones_give(chips):
    a = torch.randn(3, 64)
    weights = (torch.randn(256, 64), torch.randn(256), torch.randn(256, 128))
    function = lambda a, w, b, v: F.relu(F.linear(a, w, b)) @ v  # noqa: E731
    made, loaded = compiled_for(function, (a,), weights, chips, parallel="tensor")
    assert made.coverage.parallel == (f"tensor parallel: the columns of 2 linears over {chips} chips",)
    assert sum(s.kernel == "ttnn.all_gather" for s in made.program.body) == 2
    torch.testing.assert_close(loaded.run([a]).outputs[0], function(a, *weights), rtol=1e-5, atol=1e-4)
    same_shapes_as_specs(made.program, loaded, [a])
    whole, _ = compiled_for(function, (a,), weights, chips, parallel="none")
    assert made.plan.memory.weight_bytes == whole.plan.memory.weight_bytes // chips


def test_columns_are_cut_by_themselves_only_where_weights_do_not_fit():
    a, w = torch.randn(1, 64), torch.randn(256, 64)
    plenty, _ = compiled_for(F.linear, (a,), (w,))
    assert plenty.coverage.parallel == ("one chip of 2: the batch is 1",)
    scarce, loaded = compiled_for(F.linear, (a,), (w,), dram=2 * 4096)
    assert scarce.coverage.parallel == ("tensor parallel: the columns of 1 linear over 2 chips",)
    assert scarce.plan.memory.fits
    torch.testing.assert_close(loaded.run([a]).outputs[0], F.linear(a, w), rtol=1e-5, atol=1e-4)


def test_columns_are_filled_up_to_whole_tiles_and_dropped_again():
    a, weights = torch.randn(3, 64), (torch.randn(100, 64), torch.randn(100))
    made, loaded = compiled_for(F.linear, (a,), weights, parallel="tensor")
    assert "aten.constant_pad_nd.default" in str(made.program.setup)
    torch.testing.assert_close(loaded.run([a]).outputs[0], F.linear(a, *weights), rtol=1e-5, atol=1e-4)
    same_shapes_as_specs(made.program, loaded, [a])


def test_few_columns_and_products_of_activations_stay_whole():
    with pytest.raises(CompileError, match=r"parallel='tensor' cannot be.*40 columns are less than a tile on each"):
        compiled_for(F.linear, (torch.randn(4, 64),), (torch.randn(40, 64),), parallel="tensor")
    with pytest.raises(CompileError, match=r"parallel='tensor' cannot be: the model has no linear"):
        compiled_for(torch.matmul, (torch.randn(4, 64), torch.randn(64, 64)), parallel="tensor")


# ---- through the front door ------------------------------------------------------------------------------------------


class Encoder(nn.Module):
    """A BERT layer and a half: embeddings, masked attention, feed-forward, norms, a pooled output."""

    def __init__(self, causal=False, width=64):
        super().__init__()
        self.words, self.places = nn.Embedding(50, width), nn.Embedding(128, width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.causal = causal

    def forward(self, ids, mask=None):
        rows, length = ids.shape
        h = self.words(ids) + self.places(torch.arange(length, device=ids.device))
        q, k, v = (t.view(rows, length, -1, 32).transpose(1, 2) for t in self.qkv(h).chunk(3, -1))
        bias = None if mask is None else (1.0 - mask[:, None, None, :].float()) * -1e4
        a = F.scaled_dot_product_attention(q, k, v, attn_mask=bias, is_causal=self.causal)
        h = self.norm1(h + self.out(a.transpose(1, 2).flatten(2)))
        h = self.norm2(h + self.down(F.gelu(self.up(h))))
        return h @ self.words.weight.t() if self.causal else (h, torch.tanh(h[:, 0]))


class Cnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.head = nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.Linear(32 * 16, 10)

    def forward(self, image):
        return self.head(F.max_pool2d(F.relu(self.norm(self.conv(image))), 2).flatten(1)).log_softmax(-1)


def tokens(batch):
    return torch.randint(0, 50, (batch, 16))


MODELS = {
    "bert": (Encoder, lambda n: (tokens(n), (torch.rand(n, 16) > 0.2).long())),
    "gpt2": (lambda: Encoder(causal=True), lambda n: (tokens(n),)),
    "cnn": (Cnn, lambda n: (torch.randn(n, 3, 8, 8),)),
}


@pytest.mark.slow
@pytest.mark.parametrize("batch", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("name", MODELS)
def test_a_model_on_two_chips_gives_what_it_gives_on_one(name, batch):
    build, make = MODELS[name]
    model, inputs = build().eval(), make(batch)
    two = proveout.compile(model, inputs, device="sim:n300", settings={"verify": True})
    one = proveout.compile(model, inputs, device="sim:n300", settings={"parallel": "none"})
    assert two.program.chips == (1 if batch == 1 else 2), two.parallel
    assert one.parallel == ("one chip of 2: parallel='none' asks for it",)
    for found, wanted in zip(_flat(two(*inputs)), _flat(one(*inputs)), strict=True):
        assert found.shape == wanted.shape
        assert found.stride() == wanted.stride()
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)
    assert two.num_transfers == two.coverage.num_transfers == one.num_transfers


def _flat(result):
    return result if isinstance(result, tuple) else (result,)


class Centred(nn.Module):
    def forward(self, a):
        return a - a.mean(0)


def test_a_refusal_names_the_users_line_and_data_makes_it_an_error():
    compiled = proveout.compile(Centred(), torch.randn(4, 8), device="sim:n300")
    (note,) = compiled.parallel
    line = Centred.forward.__code__.co_firstlineno + 1
    assert note == f"one chip of 2: aten.mean.dim at {__file__}:{line}: it reduces over the batch"
    torch._dynamo.reset()
    with pytest.raises(CompileError, match=r"parallel='data' cannot be: aten.mean.dim at .*reduces over the batch"):
        proveout.compile(Centred(), torch.randn(4, 8), device="sim:n300", settings={"parallel": "data"})


def test_a_device_with_one_chip_says_nothing():
    compiled = proveout.compile(nn.ReLU(), torch.randn(4, 8), settings={"parallel": "data"})
    assert (compiled.parallel, compiled.program.chips) == ((), 1)


@pytest.mark.parametrize("parallel", ["data", "tensor"])
def test_weights_written_in_place_are_seen_by_all_chips(parallel):
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64)).eval()
    a = torch.randn(4, 64)
    compiled = proveout.compile(model, a, device="sim:n300", settings={"parallel": parallel})
    for change in (lambda: model[0].weight.mul_(2), lambda: model[2].weight.data.neg_(), lambda: model[0].bias.add_(1)):
        with torch.no_grad():
            change()
            torch.testing.assert_close(compiled(a), model(a), rtol=1e-5, atol=1e-5)


def test_inputs_written_in_place_hold_all_rows():
    def step(cache, a):
        cache[:, 1] = a
        return cache.sum(1)

    cache, wanted, a = torch.zeros(3, 2, 8), torch.zeros(3, 2, 8), torch.randn(3, 8)
    result = torch.compile(step, backend="proveout", options={"device": "sim:n300"})(cache, a)
    torch.testing.assert_close(result, step(wanted, a))
    torch.testing.assert_close(cache, wanted)


def test_training_goes_on_where_gradients_need_the_whole_batch():
    model, twin = nn.Linear(8, 4), nn.Linear(8, 4)
    twin.load_state_dict(model.state_dict())
    a = torch.randn(4, 8)
    torch.compile(model, backend="proveout", options={"device": "sim:n300"})(a).square().sum().backward()
    twin(a).square().sum().backward()
    torch.testing.assert_close(model.weight.grad, twin.weight.grad)


@pytest.mark.slow
def test_two_chips_are_modelled_faster_than_one_on_a_batch_of_eight():
    model = Encoder(width=256).eval()
    a, settings = torch.randint(0, 50, (8, 128)), {"trace": True, "precision": "bfloat16"}
    two = proveout.compile(model, a, device="sim:n300", settings=settings, dry_run=True)
    one = proveout.compile(model, a, device="sim:n300", settings={**settings, "parallel": "none"}, dry_run=True)
    assert two.program.chips == 2, two.parallel
    assert two.plan.total_ns < 0.9 * one.plan.total_ns
    assert two.memory.l1_peak_bytes < one.memory.l1_peak_bytes


@pytest.mark.parametrize(("parallel", "batch"), [("data", 3), ("tensor", 3)])
def test_an_exported_script_opens_the_mesh_and_gives_the_same(parallel, batch, tmp_path, capsys):
    model = nn.Sequential(nn.Conv2d(3, 32, 1), nn.Flatten(), nn.Linear(32 * 16, 64)).eval()
    a = torch.randn(batch, 3, 4, 4)
    compiled = proveout.compile(model, a, device="sim:n300", settings={"parallel": parallel})
    (folder,) = save_calls(compiled, (a,), {}, tmp_path)
    script = write_script(folder, "mesh")
    runpy.run_path(str(script), run_name="__main__")
    assert "as compiled" in capsys.readouterr().out
    assert "device = ttnn.open_mesh_device(ttnn.MeshShape(1, 2)" in script.read_text()


def test_hand_written_ttnn_runs_on_a_mesh():
    from proveout import ttnn

    mesh = ttnn.open_mesh_device(ttnn.MeshShape(1, 2))
    a = torch.randn(4, 32)
    piece = ttnn.from_torch(a, layout=ttnn.TILE_LAYOUT, device=mesh, mesh_mapper=ttnn.ShardTensorToMesh(mesh, dim=0))
    assert piece.shape == (2, 32)
    both = ttnn.all_gather(ttnn.relu(piece), dim=0)
    assert isinstance(both.data, Pieces)
    first, second = ttnn.get_device_tensors(both)
    assert torch.equal(ttnn.to_torch(first), a.relu())
    assert torch.equal(ttnn.to_torch(second), a.relu())
    joined = ttnn.to_torch(ttnn.relu(piece), mesh_composer=ttnn.ConcatMeshToTensor(mesh, dim=0))
    assert torch.equal(joined, a.relu())
    with pytest.raises(RuntimeError, match="lies on 2 chips; to_torch needs a mesh_composer"):
        ttnn.to_torch(piece)
    with pytest.raises(RuntimeError, match="a mesh of 8 chips is not there"):
        ttnn.open_mesh_device(ttnn.MeshShape(2, 4))
