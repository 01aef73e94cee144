"""torch.compile and proveout.compile: mutation, fresh weights, several models, graph breaks, sizes, errors."""

from __future__ import annotations

import gc
import importlib
import threading
import weakref

import pytest
import torch
from torch import nn

import proveout
from proveout.engine.backend import Capture
from proveout.errors import CompileError, UsageError


@pytest.fixture(autouse=True)
def fresh_dynamo():
    torch._dynamo.reset()
    torch.manual_seed(0)


class Two(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.first, self.second = nn.Linear(width, width), nn.Linear(width, 4)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))


def compiled_with(model, precision="model", device="sim"):
    options = {"device": device, "settings": {"precision": precision}}
    return torch.compile(model, backend="proveout", options=options)


def close(a, b, precision):
    tolerance = {"rtol": 0.05, "atol": 0.05} if precision == "bfloat16" else {}
    torch.testing.assert_close(a, b, **tolerance)


@pytest.mark.slow
def test_every_model_of_a_long_session_is_compiled():
    """Dynamo gives up on one code object after eight compilations; each of ours has its own."""
    for size in range(1, 13):
        compiled = proveout.compile(torch.nn.Linear(size, 2).eval(), torch.ones(1, size))
        assert len(compiled.programs) == 1


def test_the_name_alone_is_enough():
    model, x = Two(), torch.randn(3, 16)
    torch.testing.assert_close(torch.compile(model, backend="proveout")(x), model(x))


@pytest.mark.parametrize("precision", ["model", "bfloat16"])
@pytest.mark.parametrize("device", ["sim", "cpu"])
class TestWeightsAreNeverStale:
    def check(self, change, precision, device, width=16):
        model, x = Two(width).eval(), torch.randn(3, width)
        compiled = compiled_with(model, precision, device)
        with torch.no_grad():
            close(compiled(x), model(x), precision)
            before = model(x)
            change(model)
            assert not torch.allclose(before, model(x), rtol=0.1, atol=0.1)
            close(compiled(x), model(x), precision)

    def test_in_place(self, precision, device):
        self.check(lambda m: m.first.weight.mul_(3.0), precision, device)

    def test_through_data(self, precision, device):
        self.check(lambda m: m.first.weight.data.mul_(3.0), precision, device)

    def test_one_element_through_data_of_a_large_weight(self, precision, device):
        def change(model):
            model.first.bias.data.zero_().add_(1)
            model.first.weight.data[7, 130] += 500.0

        self.check(change, precision, device, width=256)

    def test_rows_swapped_through_data(self, precision, device):
        def change(model):
            weight = model.second.weight
            weight.data.copy_(weight.data.flip(0) * 1.0)

        self.check(change, precision, device, width=2048)

    def test_data_replaced(self, precision, device):
        self.check(lambda m: setattr(m.first.weight, "data", torch.randn(16, 16)), precision, device)

    def test_parameter_replaced(self, precision, device):
        self.check(lambda m: setattr(m.first, "weight", nn.Parameter(torch.randn(16, 16))), precision, device)

    def test_through_numpy(self, precision, device):
        def change(model):
            model.first.weight.detach().numpy()[:] *= 3.0

        self.check(change, precision, device)

    def test_load_state_dict(self, precision, device):
        self.check(lambda m: m.load_state_dict(Two().state_dict()), precision, device)


def test_a_buffer_that_is_a_slice_is_watched_too():
    class Sliced(nn.Module):
        def __init__(self):
            super().__init__()
            self.base = torch.randn(16, 64)
            self.register_buffer("w", self.base[:, :16])

        def forward(self, x):
            return x @ self.w

    model, x = Sliced().eval(), torch.randn(3, 16)
    compiled = proveout.compile(model, (x,), settings={"precision": "bfloat16"})
    close(compiled(x), model(x), "bfloat16")
    model.base.data.mul_(-1)
    close(compiled(x), model(x), "bfloat16")


def test_large_models_are_watched_in_parts(monkeypatch):
    from proveout.engine import watch

    monkeypatch.setattr(watch, "EXACT_BYTES", 64 * 1024)
    model, x = Two(256).eval(), torch.randn(3, 256)
    compiled = proveout.compile(model, (x,), settings={"precision": "bfloat16"})
    model.first.weight.data.mul_(-1)
    close(compiled(x), model(x), "bfloat16")
    model.first.weight.data[200, 3] += 100.0
    for _ in range(8):
        found = compiled(x)
    close(found, model(x), "bfloat16")


def test_two_models_do_not_disturb_each_other():
    a, b, x = Two().eval(), Two().eval(), torch.randn(3, 16)
    with torch.no_grad():
        ca = proveout.compile(a, (x,))
        torch.testing.assert_close(ca(x), a(x))
        cb = proveout.compile(b, (x,), settings={"precision": "bfloat16"})
        close(cb(x), b(x), "bfloat16")
        torch.testing.assert_close(ca(x), a(x))


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(4))
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        x.mul_(2.0)
        self.seen.add_(x.sum(0))
        self.steps += 1
        return x + self.seen


@pytest.mark.parametrize("device", ["sim", "cpu"])
def test_inputs_and_buffers_are_mutated_as_in_eager(device):
    ours, theirs = Counter(), Counter()
    compiled = compiled_with(ours, device=device)
    for _ in range(3):
        x = torch.randn(3, 4)
        y = x.clone()
        torch.testing.assert_close(compiled(x), theirs(y))
        torch.testing.assert_close(x, y)
    torch.testing.assert_close(ours.seen, theirs.seen)
    assert int(ours.steps) == 3


def test_compiling_leaves_buffers_inputs_and_random_state_alone():
    model, x = Counter(), torch.randn(3, 4)
    kept, state = x.clone(), torch.get_rng_state()
    proveout.compile(model, (x,))
    assert torch.equal(x, kept)
    assert torch.equal(model.seen, torch.zeros(4))
    assert torch.equal(torch.get_rng_state(), state)


def test_batch_norm_statistics_move_in_training():
    ours = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
    theirs = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
    theirs.load_state_dict(ours.state_dict())
    compiled = compiled_with(ours)
    for _ in range(2):
        x = torch.randn(2, 3, 8, 8)
        torch.testing.assert_close(compiled(x), theirs(x))
    torch.testing.assert_close(ours[1].running_mean, theirs[1].running_mean)
    torch.testing.assert_close(ours[1].running_var, theirs[1].running_var)


def test_training_gives_eagers_gradients():
    model, x = Two(), torch.randn(5, 16)
    compiled_with(model)(x).square().sum().backward()
    found = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    model(x).square().sum().backward()
    for got, parameter in zip(found, model.parameters()):
        torch.testing.assert_close(got, parameter.grad)


@pytest.mark.slow
def test_training_sees_each_step_of_the_optimiser():
    ours, theirs = Two(), Two()
    theirs.load_state_dict(ours.state_dict())
    compiled = compiled_with(ours)
    optimisers = [torch.optim.SGD(m.parameters(), 0.1) for m in (ours, theirs)]
    for _ in range(5):
        x = torch.randn(8, 16)
        losses = []
        for model, optimiser in zip((compiled, theirs), optimisers):
            optimiser.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimiser.step()
            losses.append(loss.detach())
        torch.testing.assert_close(losses[0], losses[1])


class Breaking(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x):
        y = self.a(x)
        torch._dynamo.graph_break()
        return self.b(y)


def test_all_graphs_of_a_model_count():
    model, x = Breaking().eval(), torch.randn(2, 8)
    compiled = proveout.compile(model, (x,))
    assert compiled.coverage.num_graphs == 2
    (cut,) = compiled.coverage.graph_breaks
    assert "test_engine.py:" in cut
    assert "graph_break" in cut
    assert sum(op.aten == "aten.addmm.default" for op in compiled.coverage.ops) == 2
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), model(x))
    assert compiled.num_transfers == compiled.coverage.num_transfers == 4


@pytest.mark.parametrize("dynamic", [None, True])
def test_other_batch_sizes(dynamic):
    model = Two().eval()
    compiled = torch.compile(model, backend="proveout", dynamic=dynamic)
    with torch.no_grad():
        for batch in (3, 5, 2, 5, 9, 1):
            x = torch.randn(batch, 16)
            torch.testing.assert_close(compiled(x), model(x))


class Fallbacks(nn.Module):
    """Ops, dtypes and results without a kernel, between ops that have one."""

    def forward(self, x):
        y = torch.relu(x) * 2
        values, order = torch.sort(y, dim=-1)
        half = (values.half() + 1).float()
        picked = torch.gather(half, 1, order)
        spectrum = torch.fft.fft(picked).abs()
        return torch.sigmoid(spectrum), order, torch.tensor([1, 2])


def test_what_has_no_kernel_falls_back_without_harm():
    model, x = Fallbacks(), torch.randn(3, 8)
    compiled = proveout.compile(model, (x,), settings={"verify": True})
    for got, wanted in zip(compiled(x), model(x)):
        torch.testing.assert_close(got, wanted)
    host = {op.aten: op.reason for op in compiled.coverage.on_host}
    assert host["aten.sort.default"] == "ttnn.sort takes bfloat16, not float32"
    assert compiled.num_transfers == compiled.coverage.num_transfers


def test_fallback_error_names_the_op_the_reason_and_the_line():
    with pytest.raises(CompileError, match=r"aten.sort.*takes bfloat16.*test_engine.py:\d+") as caught:
        proveout.compile(Fallbacks(), (torch.randn(3, 8),), settings={"fallback": "error"})
    assert "fallback='host'" in str(caught.value)


def test_random_numbers_are_drawn_anew_at_every_call():
    model, x = nn.Dropout(0.5), torch.ones(64)
    compiled = compiled_with(model.train())
    torch.manual_seed(1)
    first = compiled(x), compiled(x)
    torch.manual_seed(1)
    second = model(x), model(x)
    assert not torch.equal(*first)
    torch.testing.assert_close(first[0], second[0])
    torch.testing.assert_close(first[1], second[1])


class Aliases(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(4, 4))

    def forward(self, x):
        y = x + 1
        return y, y.clone(), self.w.clone(), x.clone(), y.t()


def test_outputs_share_memory_only_where_eagers_do():
    model, x = Aliases().eval(), torch.randn(4, 4)
    compiled = proveout.compile(model, (x,))
    y, copy, weight, given, view = compiled(x)
    kept = x.clone(), model.w.detach().clone()
    for tensor in (copy, weight, given):
        tensor.fill_(7)
    torch.testing.assert_close(y, kept[0] + 1)
    assert torch.equal(x, kept[0])
    assert torch.equal(model.w, kept[1])
    y.fill_(5)
    assert torch.equal(view, torch.full((4, 4), 5.0))


def test_outputs_have_eagers_strides():
    class Transposed(nn.Module):
        def forward(self, x):
            return (x * 2).permute(2, 0, 1), (x.permute(0, 2, 1) + 1)

    x = torch.randn(2, 3, 5)
    for got, wanted in zip(proveout.compile(Transposed(), (x,))(x), Transposed()(x)):
        assert got.stride() == wanted.stride()


@pytest.mark.slow
def test_a_dead_model_is_let_go():
    model, x = Two(64).eval(), torch.randn(3, 64)
    compiled = compiled_with(model, "bfloat16")
    with torch.no_grad():
        compiled(x)
    weight = weakref.ref(model.first.weight)
    storage = weakref.ref(model.first.weight.untyped_storage())
    del model, compiled
    torch._dynamo.reset()
    gc.collect()
    assert weight() is None
    assert storage() is None


def test_threads():
    model, results = Two().eval(), {}
    compiled = proveout.compile(model, (torch.randn(3, 16),))

    def work(seed):
        x = torch.randn(3, 16, generator=torch.Generator().manual_seed(seed))
        results[seed] = all(torch.allclose(compiled(x), model(x), atol=1e-5) for _ in range(20))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(results.values())
    assert len(results) == 4


def test_several_devices_at_once():
    model, x = Two().eval(), torch.randn(3, 16)
    compiled = [proveout.compile(model, (x,), device=d) for d in ("sim:n150", "sim:p150", "cpu")]
    with torch.no_grad():
        for c in compiled:
            torch.testing.assert_close(c(x), model(x))
    assert [c.device for c in compiled] == ["sim:n150", "sim:p150", "cpu"]
    assert compiled[2].plan is None


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"device": "sum"}, "unknown device 'sum'; valid: cpu"),
        ({"settings": {"precison": "model"}}, "unknown setting 'precison'; valid: .*Did you mean 'precision'"),
        (
            {"settings": {"precision": "int3"}},
            "unknown value for setting 'precision': 'int3'; valid: bfloat16, float16, model, tf32",
        ),
        ({"settings": {"verify": 1}}, "'verify' takes True or False"),
        ({"settings": 3}, "settings must be a dict"),
    ],
)
def test_bad_options_are_refused_at_once(given, words):
    with pytest.raises(UsageError, match=words):
        proveout.compile(Two(), (torch.randn(3, 16),), **given)


def test_torch_compile_tells_our_sentence_as_the_cause():
    with pytest.raises(
        torch._dynamo.exc.BackendCompilerFailed, match="unknown option 'devise'; valid: device, settings"
    ):
        torch.compile(Two(), backend="proveout", options={"devise": "sim"})(torch.randn(3, 16))


def test_a_setting_among_torch_compile_s_options_is_told_its_place():
    with pytest.raises(
        torch._dynamo.exc.BackendCompilerFailed,
        match=r"'precision' is a setting\. Use: options=\{'settings': \{'precision': 'bfloat16'\}\}",
    ):
        torch.compile(Two(), backend="proveout", options={"precision": "bfloat16"})(torch.randn(3, 16))


def test_not_a_module():
    with pytest.raises(UsageError, match=r"must be a torch\.nn\.Module, not function"):
        proveout.compile(lambda x: x, (torch.randn(3),))


def test_dry_run_runs_nothing_on_the_device(monkeypatch):
    from proveout.devices.sim import Sim

    monkeypatch.setattr(Sim, "load", lambda *a: pytest.fail("loaded"))
    compiled = proveout.compile(Two().eval(), (torch.randn(3, 16),), dry_run=True)
    assert compiled.coverage.before == 5
    assert compiled.plan.total_ns > 0


def test_the_seeds_quickstart_runs_as_written():
    from proveout import torch_ttnn, ttnn

    module, input_data = Two(), torch.randn(3, 16)
    device = ttnn.open_device(device_id=0)
    option = torch_ttnn.TorchTtnnOption(device=device)
    ttnn_module = torch.compile(module, backend=torch_ttnn.backend, options=option)
    out = ttnn_module(input_data)
    torch.testing.assert_close(out, module(input_data))
    out.sum().backward()
    assert module.first.weight.grad is not None


@pytest.mark.slow
def test_every_compilation_in_a_process_is_compiled_however_many_there_were():
    """Dynamo runs a function in eager, and says so in its log alone, after eight compilations of one code object."""
    x = torch.randn(2, 4)
    made = [proveout.compile(torch.nn.Linear(4, 4).eval(), (x,)) for _ in range(10)]
    assert [len(compiled.programs) for compiled in made] == [1] * 10


def test_a_graph_break_inside_a_library_names_its_file_as_on_every_machine(tmp_path, monkeypatch):
    package = tmp_path / "lib" / "site-packages" / "breaking"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(
        "import torch\ndef step(x):\n    torch._dynamo.graph_break()\n    return x + 1\n"
    )
    monkeypatch.syspath_prepend(package.parent)
    step = importlib.import_module("breaking").step

    class Calls(nn.Module):
        def forward(self, x):
            return step(x * 2)

    (cut,) = proveout.compile(Calls(), (torch.ones(2, 2),)).coverage.graph_breaks
    assert cut.startswith("breaking/__init__.py:3: ")


def test_a_function_that_dynamo_gives_up_is_a_graph_break_with_its_reason():
    """None of the graphs that are captured, if there are any, ends before its function does."""
    lock = threading.Lock()

    class Locked(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)

        def forward(self, x):
            with lock:
                return self.second(self.first(x))

    compiled = proveout.compile(Locked().eval(), torch.randn(2, 4))
    (reason,) = compiled.coverage.graph_breaks
    assert "lock" in reason
    with pytest.raises(CompileError, match="there is no Program: a function that stays in eager"):
        _ = compiled.program


class Normed(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(8)

    def forward(self, x):
        return self.norm(x)


def test_inputs_of_one_model_do_not_make_the_sizes_of_another_vary():
    """Dynamo remembers which sizes varied by a function's name, and all our models are called by one function."""
    torch._dynamo.reset()
    for rows in (2, 3, 5):
        compiled = proveout.compile(Normed().eval(), torch.randn(rows, 8))
        assert all(graph.is_static for graph in compiled._capture.graphs)


def test_steps_know_their_module_and_line_where_sizes_are_symbols_too():
    capture = Capture.of("sim", None, keep=True)
    function = torch.compile(Normed().eval(), backend=capture, dynamic=True)
    function(torch.randn(3, 8))
    (compiled,) = capture.compiled
    norms = [s for s in compiled.program.body if s.kernel == "ttnn.layer_norm"]
    assert [s.origin.module for s in norms] == ["norm"]
    assert norms[0].origin.source


class Mixed(torch.nn.Module):
    """What eager's addition gives lies as its first operand does; group norm wants its operand in order."""

    def __init__(self):
        super().__init__()
        self.linear, self.norm = torch.nn.Linear(32, 32), torch.nn.GroupNorm(8, 32)

    def forward(self, x):
        y = self.linear(x.flatten(2).transpose(1, 2)).transpose(1, 2).reshape(x.shape)
        return self.norm(y + x)


def test_a_plan_with_values_lays_them_out_as_they_were_traced():
    model, x = Mixed().eval(), torch.randn(1, 32, 8, 8)
    compiled = proveout.compile(model, (x,), device="sim", dry_run=True)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), model(x))
