"""Buffers that a Program writes to stay on the device, hold what eager's hold, and are never stale."""

from __future__ import annotations

import gc
import threading
import weakref

import pytest
import torch
from torch import nn

import proveout
from proveout.engine import generating, watch
from proveout.engine.backend import Capture
from proveout.engine.writes import take_writes
from proveout.program import FROM_TORCH, TO_TORCH, InvalidProgram, Program, verify

LIVE, COPIED = {"precision": "model"}, {"precision": "bfloat16"}
"""Under `model` sim reads a float32 buffer's own storage; under `bfloat16` it must hold a copy."""
both = pytest.mark.parametrize("settings", [LIVE, COPIED], ids=["live", "copied"])


@pytest.fixture(autouse=True)
def fresh_dynamo():
    torch._dynamo.reset()
    torch.manual_seed(0)


class Cache(nn.Module):
    """A buffer, and something that writes to it and reads it on the device. Whole numbers: bfloat16 holds them."""

    def __init__(self, write, rows=64, width=32):
        super().__init__()
        self.register_buffer("kept", torch.randint(-8, 8, (rows, width)).float())
        self.write = write

    def forward(self, x, where):
        self.write(self.kept, x, where)
        return self.kept[:, 14:18] * 2 + x[0, 0]


def whole(kept, x, where):
    kept.add_(x[:1])


def by_index(kept, x, where):
    kept[where] = x


def by_index_copy(kept, x, where):
    kept.index_copy_(0, where, x)


def by_slice(kept, x, where):
    kept[3:5] = x


def by_corner(kept, x, where):
    kept[3:5, 8:16] = x[:, 8:16]


def by_row(kept, x, where):
    kept[7] = x[0]


def twice(kept, x, where):
    kept[3:5] = x
    kept[where] = x + 1


def scaled_then_put(kept, x, where):
    kept.mul_(0.5)
    kept[where] = x


def added_by_index(kept, x, where):
    kept.index_put_((where,), x, accumulate=True)


def overwritten(kept, x, where):
    kept.copy_(x[:1].expand_as(kept))


def shifted(kept, x, where):
    kept[1:] = kept[:-1].clone()
    kept[:2] = x


WRITES = [
    whole,
    by_index,
    by_index_copy,
    by_slice,
    by_corner,
    by_row,
    twice,
    scaled_then_put,
    added_by_index,
    overwritten,
    shifted,
]
RE_INPLACED = [by_index, by_index_copy, by_slice, by_corner, by_row, twice]


def pair(write, **sizes):
    """Two models with the same buffer."""
    theirs = Cache(write, **sizes).eval()
    ours = Cache(write, **sizes).eval()
    ours.load_state_dict(theirs.state_dict())
    return ours, theirs


def given(step=0):
    return torch.randint(-4, 4, (2, 32)).float(), torch.tensor([step % 64, (step + 9) % 64])


def compiled_with(model, settings, device="sim"):
    capture = Capture.of(device, settings, keep=True)
    return torch.compile(model, backend=capture), capture


def program_of(capture, index=-1) -> Program:
    return capture.compiled[index].program


def crossing(program) -> list[int]:
    """Bytes of each transfer at every call, as the host has them."""
    moves = [s for s in program.body if s.is_transfer]
    return [program.specs[(s.uses if s.kernel == FROM_TORCH else s.outputs)[0]].nbytes for s in moves]


@torch.no_grad()
def assert_same(function, ours, theirs, steps=3):
    for step in range(steps):
        x, where = given(step)
        torch.testing.assert_close(function(x, where), theirs(x, where))
        torch.testing.assert_close(ours.kept, theirs.kept)


@pytest.mark.slow
@both
@pytest.mark.parametrize("device", ["sim", "cpu"])
@pytest.mark.parametrize("write", WRITES, ids=lambda w: w.__name__)
def test_the_buffer_holds_what_eagers_holds_after_each_call(write, device, settings):
    ours, theirs = pair(write)
    function, _ = compiled_with(ours, settings, device)
    assert_same(function, ours, theirs)


@pytest.mark.slow
@both
@pytest.mark.parametrize("write", WRITES, ids=lambda w: w.__name__)
def test_every_pass_keeps_the_meaning(write, settings):
    ours, theirs = pair(write)
    function, capture = compiled_with(ours, {**settings, "verify": True})
    assert_same(function, ours, theirs, steps=2)
    program = program_of(capture)
    verify(program)
    copies = {s.uses[0]: s.outputs[0] for s in program.setup if s.kernel == FROM_TORCH}
    assert all(program.specs[value] == program.specs[copies[weight]] for weight, value in program.state)


@both
@pytest.mark.parametrize("write", RE_INPLACED, ids=lambda w: w.__name__)
def test_only_what_an_update_puts_there_crosses(write, settings):
    ours, _ = pair(write)
    function, capture = compiled_with(ours, settings)
    with torch.no_grad():
        function(*given())
    program = program_of(capture)
    assert max(crossing(program)) <= ours.kept.nbytes / 8
    assert [w for w, _ in program.state] == list(program.weights)


@both
def test_what_must_be_read_back_whole_is_still_not_sent_again(settings):
    ours, _ = pair(whole)
    function, capture = compiled_with(ours, settings)
    with torch.no_grad():
        function(*given())
    program = program_of(capture)
    (weight,) = program.weights
    assert [s.uses for s in program.setup if s.kernel == FROM_TORCH] == [(weight,)]
    assert not any(weight in s.uses for s in program.body)


@both
def test_counted_transfers_are_the_programs(settings):
    model = Cache(by_index).eval()
    compiled = proveout.compile(model, given(), settings=settings)
    for step in range(3):
        compiled(*given(step))
        assert compiled.num_transfers == compiled.program.num_transfers
    assert compiled.program.state


def sends(monkeypatch):
    """Every weight that is given to a device, with its Program's name, from now on."""
    from proveout.devices.resident import Resident

    given_names: list[tuple[str, str]] = []
    original = Resident.set_weights

    def spy(self, weights):
        given_names.extend((self.program.name, name) for name in weights)
        original(self, weights)

    monkeypatch.setattr(Resident, "set_weights", spy)
    return given_names


@both
@pytest.mark.parametrize("write", [whole, by_index], ids=lambda w: w.__name__)
def test_our_own_write_back_is_not_a_change(write, settings, monkeypatch):
    sent = sends(monkeypatch)
    ours, theirs = pair(write)
    function, _ = compiled_with(ours, settings)
    assert_same(function, ours, theirs, steps=5)
    assert len(sent) == 1


def by_data(model):
    model.kept.data.mul_(2)


def in_place(model):
    model.kept.zero_()


def by_numpy(model):
    model.kept.numpy()[5] = 3


def by_replacing(model):
    model.kept = torch.ones_like(model.kept)


def by_data_assignment(model):
    model.kept.data = torch.full_like(model.kept, 2)


@both
@pytest.mark.parametrize("write", [whole, by_index], ids=lambda w: w.__name__)
@pytest.mark.parametrize("change", [by_data, in_place, by_numpy, by_replacing, by_data_assignment])
def test_a_users_write_is_seen(change, write, settings):
    ours, theirs = pair(write)
    function, _ = compiled_with(ours, settings)
    assert_same(function, ours, theirs, steps=2)
    for model in (ours, theirs):
        with torch.no_grad():
            change(model)
    assert_same(function, ours, theirs, steps=2)


@both
def test_two_models_that_share_a_buffer_see_each_others_writes(settings):
    first, _ = pair(by_index)
    second = Cache(whole).eval()
    second.kept = first.kept
    a, b = Cache(by_index).eval(), Cache(whole).eval()
    a.kept = b.kept = first.kept.clone()
    ours = [compiled_with(m, settings)[0] for m in (first, second)]
    with torch.no_grad():
        for step, which in enumerate([0, 1, 0, 0, 1, 1, 0]):
            x, where = given(step)
            torch.testing.assert_close(ours[which](x, where), (a, b)[which](x, where))
            torch.testing.assert_close(first.kept, a.kept)


@both
@pytest.mark.parametrize("exact_bytes", [64 << 20, 4096], ids=["all looked at", "a part looked at"])
def test_inference_tensors_have_no_versions_and_are_still_never_stale(settings, exact_bytes, monkeypatch):
    monkeypatch.setattr(watch, "EXACT_BYTES", exact_bytes)
    with torch.inference_mode():
        ours, theirs = pair(by_index)
        other = Cache(whole).eval()
        other.kept = ours.kept
        function, _ = compiled_with(ours, settings)
        another, _ = compiled_with(other, settings)
        for step in range(4):
            x, where = given(step)
            torch.testing.assert_close(function(x, where), theirs(x, where))
            another(x, where)
            theirs.kept.add_(x[:1])
            torch.testing.assert_close(ours.kept, theirs.kept)


@both
def test_shapes_that_alternate_share_one_buffer(settings):
    """Prefill and decode: two graphs, one cache."""

    class Prefill(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("kept", torch.zeros(64, 32))

        def forward(self, x, start):
            self.kept[start + torch.arange(x.shape[0])] = x
            return self.kept[:, :4] * 2

    ours, theirs = Prefill().eval(), Prefill().eval()
    function = torch.compile(ours, backend=Capture.of("sim", settings), dynamic=False)
    with torch.no_grad():
        for rows, start in ((8, 0), (1, 8), (1, 9), (8, 3), (1, 0), (8, 8), (1, 60)):
            x = torch.randint(-4, 4, (rows, 32)).float()
            torch.testing.assert_close(function(x, torch.tensor(start)), theirs(x, torch.tensor(start)))
            torch.testing.assert_close(ours.kept, theirs.kept)


@both
def test_symbolic_sizes_share_one_buffer(settings):
    ours, theirs = pair(by_index)
    function = torch.compile(ours, backend=Capture.of("sim", settings), dynamic=True)
    with torch.no_grad():
        for rows in (2, 3, 5, 2, 3):
            x, where = torch.randint(-4, 4, (rows, 32)).float(), torch.randperm(64)[:rows]
            torch.testing.assert_close(function(x, where), theirs(x, where))
            torch.testing.assert_close(ours.kept, theirs.kept)


@both
def test_a_tensor_held_by_a_plain_object_is_state_too(settings, monkeypatch):
    class Box:
        def __init__(self):
            self.kept = torch.zeros(64, 32)

    class Reader(nn.Module):
        def forward(self, x, where, box):
            box.kept[where] = x
            return box.kept[:, :4] * 2

    sent = sends(monkeypatch)
    function, capture = compiled_with(Reader(), settings)
    ours, theirs = Box(), Box()
    with torch.no_grad():
        for step in range(4):
            x, where = given(step)
            torch.testing.assert_close(function(x, where, ours), Reader()(x, where, theirs))
            torch.testing.assert_close(ours.kept, theirs.kept)
        assert len(program_of(capture).state) == len(sent) == 1
        ours, theirs = Box(), Box()
        for step in range(2):
            x, where = given(step)
            torch.testing.assert_close(function(x, where, ours), Reader()(x, where, theirs))
        assert len(sent) == 2


def test_an_argument_that_is_written_to_is_not_state():
    class Writer(nn.Module):
        def forward(self, x, kept):
            kept[3:5] = x
            return kept.sum(0)

    function, capture = compiled_with(Writer(), LIVE)
    x, kept = torch.randn(2, 32), torch.randn(64, 32)
    with torch.no_grad():
        function(x, kept)
    torch.testing.assert_close(kept[3:5], x)
    assert program_of(capture).state == ()


@pytest.mark.slow
@both
def test_a_cache_that_is_gone_is_not_kept(settings):
    ours, theirs = pair(by_index)
    function, capture = compiled_with(ours, settings)
    assert_same(function, ours, theirs, steps=2)
    gone = weakref.ref(ours.kept.untyped_storage())
    ours.kept = theirs.kept.clone()
    gc.collect()
    assert gone() is None
    (variant,) = capture.graphs[0].variants.values()
    assert variant._loaded is not None, "the model itself is still there"
    assert_same(function, ours, theirs, steps=2)


@both
def test_outputs_do_not_move_with_the_buffer(settings):
    class Old(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("kept", torch.ones(4, 32))

        def forward(self, x):
            before = self.kept.clone()
            self.kept.add_(x)
            return before, self.kept * 1, self.kept[1:3]

    ours, theirs = Old().eval(), Old().eval()
    function, _ = compiled_with(ours, settings)
    with torch.no_grad():
        results = [(function(x), theirs(x)) for x in (torch.full((4, 32), n) for n in (1.0, 2.0, 4.0))]
        for found, wanted in results:
            torch.testing.assert_close(found, wanted)
        results[-1][0][1].zero_()
        results[-1][1][1].zero_()
        torch.testing.assert_close(function(torch.ones(4, 32)), theirs(torch.ones(4, 32)))
        function(torch.ones(4, 32))[2].zero_()
        theirs(torch.ones(4, 32))[2].zero_()
        torch.testing.assert_close(function(torch.ones(4, 32)), theirs(torch.ones(4, 32)))


@both
def test_buffers_written_from_each_other_keep_their_order(settings):
    class Swap(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("a", torch.arange(64.0).view(2, 32))
            self.register_buffer("b", -torch.arange(64.0).view(2, 32))

        def forward(self, x):
            old = self.a.clone()
            self.a.copy_(self.b)
            self.b.copy_(old)
            self.b[0] = x
            return self.a + self.b

    ours, theirs = Swap().eval(), Swap().eval()
    function, _ = compiled_with(ours, settings)
    with torch.no_grad():
        for n in range(3):
            x = torch.full((32,), float(n))
            torch.testing.assert_close(function(x), theirs(x))
            torch.testing.assert_close(dict(ours.named_buffers()), dict(theirs.named_buffers()))


@pytest.mark.parametrize("first", ["a", "b"])
def test_views_of_a_buffer_are_written_before_the_buffer_changes(first):
    """Integers stay on the host, where a transpose is a view of the live buffer."""

    class Turn(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("a", torch.arange(16).view(4, 4))
            self.register_buffer("b", -torch.arange(16).view(4, 4))

        def forward(self, x):
            to, source = (self.a, self.b) if first == "a" else (self.b, self.a)
            old = to.clone()
            to.copy_(source.t())
            source.copy_(old.t())
            return to + source + x

    ours, theirs = Turn().eval(), Turn().eval()
    function, _ = compiled_with(ours, LIVE)
    with torch.no_grad():
        for n in range(3):
            assert torch.equal(function(torch.tensor(n)), theirs(torch.tensor(n)))
            assert torch.equal(ours.a, theirs.a)
            assert torch.equal(ours.b, theirs.b)


@both
@pytest.mark.parametrize("training", [False, True], ids=["no_grad", "training"])
def test_batch_norm_statistics(settings, training):
    def model():
        torch.manual_seed(1)
        return nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.ReLU()).train()

    ours, theirs = model(), model()
    function, _ = compiled_with(ours, settings)
    close = {"rtol": 2e-2, "atol": 2e-2} if settings is COPIED else {}
    for _ in range(3):
        x = torch.randn(8, 16)
        with torch.set_grad_enabled(training):
            torch.testing.assert_close(function(x), theirs(x), **close)
        torch.testing.assert_close(dict(ours.named_buffers()), dict(theirs.named_buffers()), **close)


@both
def test_a_run_that_fails_changes_neither_side(settings, monkeypatch):
    from proveout.devices.resident import Resident

    ours, theirs = pair(whole)
    function, _ = compiled_with(ours, settings)
    assert_same(function, ours, theirs, steps=2)
    original = Resident.run

    def failing(self, inputs):
        original(self, inputs)
        raise RuntimeError("the cable was pulled")

    monkeypatch.setattr(Resident, "run", failing)
    with torch.no_grad(), pytest.raises(RuntimeError, match="cable"):
        function(*given())
    monkeypatch.setattr(Resident, "run", original)
    torch.testing.assert_close(ours.kept, theirs.kept)
    assert_same(function, ours, theirs, steps=2)


@both
def test_an_index_outside_is_eagers_error_and_leaves_the_buffer_right(settings):
    ours, theirs = pair(by_index)
    function, _ = compiled_with(ours, settings)
    assert_same(function, ours, theirs, steps=1)
    with torch.no_grad(), pytest.raises((IndexError, RuntimeError)):
        function(torch.ones(2, 32), torch.tensor([0, 64]))
    torch.testing.assert_close(ours.kept, theirs.kept)
    assert_same(function, ours, theirs, steps=2)


@both
@pytest.mark.parametrize("dry_run", [False, True])
def test_looking_changes_nothing(settings, dry_run):
    ours, theirs = pair(by_index)
    compiled = proveout.compile(ours, given(), settings=settings, dry_run=dry_run)
    assert torch.equal(ours.kept, theirs.kept)
    if not dry_run:
        assert_same(compiled, ours, theirs, steps=2)


@both
def test_threads_take_turns(settings):
    ours, theirs = pair(by_index)
    function, _ = compiled_with(ours, settings)
    assert_same(function, ours, theirs, steps=1)
    failures: list[BaseException] = []

    def work(first):
        try:
            with torch.no_grad():
                for step in range(8):
                    function(
                        torch.full((2, 32), float(first)), torch.tensor([first * 16 + step, first * 16 + step + 8])
                    )
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    for first in range(4):
        theirs.kept[first * 16 : first * 16 + 16] = first
    assert torch.equal(ours.kept, theirs.kept)
    assert_same(function, ours, theirs, steps=2)


def test_a_saved_program_remembers_its_state(tmp_path):
    ours, _ = pair(by_index)
    function, capture = compiled_with(ours, LIVE)
    with torch.no_grad():
        function(*given())
    program = program_of(capture)
    again = Program.load(program.save(tmp_path))
    assert again == program
    assert again.state == program.state != ()
    assert f"state %{program.state[0][0]} <- %{program.state[0][1]}" in str(program).splitlines()
    from dataclasses import replace

    assert replace(program, state=()) != program


def test_a_state_that_is_not_there_at_the_end_is_refused():
    from dataclasses import replace

    ours, _ = pair(by_index)
    function, capture = compiled_with(ours, LIVE)
    with torch.no_grad():
        function(*given())
    program = program_of(capture)
    (weight, value), *_ = program.state
    freed = next(s.uses[0] for s in program.body if s.kernel == "ttnn.deallocate")
    host = next(s.outputs[0] for s in program.body if s.kernel == TO_TORCH)
    for wrong in ((weight, freed), (weight, host), (weight, "nothing"), (program.inputs[0], value)):
        with pytest.raises(InvalidProgram, match="state"):
            verify(replace(program, state=(wrong,)))


def test_what_is_added_to_the_old_value_is_read_back_and_not_added_again():
    graph = torch.fx.experimental.proxy_tensor.make_fx(
        lambda kept, x, where: [kept.copy_(torch.ops.aten.index_put(kept, [where], x, True))], tracing_mode="fake"
    )(torch.zeros(8, 4), torch.ones(2, 4), torch.tensor([1, 2]))
    _, writes = take_writes(graph)
    assert [w.call for w in writes.writes] == [torch.ops.aten.copy_.default]


def small_model(architecture):
    transformers = pytest.importorskip("transformers")
    ids = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2, "vocab_size": 96}
    if architecture == "gpt2":
        config = transformers.GPT2Config(n_embd=32, n_layer=1, n_head=2, n_positions=64, **ids)
        model = transformers.GPT2LMHeadModel(config).eval()
    else:
        sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2}
        config = transformers.LlamaConfig(**sizes, intermediate_size=64, max_position_embeddings=64, **ids)
        model = transformers.LlamaForCausalLM(config).eval()
    model.generation_config.eos_token_id = None
    return model


@pytest.mark.slow
@both
@pytest.mark.parametrize("architecture", ["gpt2", "llama"])
def test_a_decode_step_does_not_transfer_the_static_cache(architecture, settings, monkeypatch):
    model = small_model(architecture)
    prompt = torch.randint(3, 96, (2, 7))
    how = {"max_new_tokens": 6, "do_sample": False, "cache_implementation": "static", "disable_compile": True}
    wanted = [model.generate(p, attention_mask=torch.ones_like(p), **how) for p in (prompt, prompt.flip(0))]
    capture = Capture.of("sim", settings, keep=True)
    sent = sends(monkeypatch)
    model.forward = torch.compile(model.forward, backend=capture)
    found = [model.generate(p, attention_mask=torch.ones_like(p), **how) for p in (prompt, prompt.flip(0))]
    assert settings is COPIED or all(map(torch.equal, found, wanted))
    program = program_of(capture)
    assert len(program.state) == 2
    assert max(crossing(program)) < max(program.specs[w].nbytes for w, _ in program.state)
    assert {sent.count((program.name, weight)) for weight, _ in program.state} == {2}, "once for each cache"


@pytest.mark.slow
def test_what_torch_compile_returns_generates_by_two_graphs_and_its_model_stays_as_it_was():
    """torch hands `generate` to the model inside, which then calls itself uncompiled."""
    model = small_model("llama")
    prompt, mask = torch.randint(3, 96, (2, 7)), torch.ones(2, 7, dtype=torch.long)
    mask[1, :3] = 0
    how = {"attention_mask": mask, "max_new_tokens": 6, "do_sample": False, "cache_implementation": "static"}
    wanted = model.generate(prompt, **how)
    capture = Capture.of("sim", LIVE, keep=True)
    compiled = torch.compile(model, backend=capture)
    assert torch.equal(compiled.generate(prompt, **how), wanted)
    assert len(capture.graphs) == 2, "prefill and decode"
    assert len(program_of(capture).state) == 2, "keys and values stay on the chip"
    assert torch.equal(compiled.generate(prompt, **how), wanted)
    assert torch.equal(model.generate(prompt, **how), wanted)
    assert len(capture.graphs) == 2
    assert model._compiled_call_impl is None
    assert torch.compile(model, backend="eager").generate.__self__ is model, "other backends' are torch's"
    assert not hasattr(torch.compile(torch.nn.Linear(2, 2), backend=capture), "generate")


def test_a_cache_that_grows_is_told_before_every_length_is_compiled(monkeypatch):
    told = list[str]()
    monkeypatch.setattr(generating.log, "warning", told.append)
    model = small_model("llama")
    compiled = torch.compile(model, backend=Capture.of("sim", LIVE))
    with pytest.raises(ValueError, match="max_new_tokens"):
        compiled.generate(torch.ones(1, 3, dtype=torch.long), max_new_tokens=0)
    (warning,) = told
    assert "cache_implementation='static'" in warning


@pytest.mark.slow
@pytest.mark.parametrize("prefill", ["eager", "compiled"])
def test_a_cache_that_is_read_and_reset_between_calls(prefill):
    transformers = pytest.importorskip("transformers")
    model = small_model("llama")
    function, capture = compiled_with(model, LIVE)
    ours, theirs = (transformers.StaticCache(config=model.config, max_cache_len=32) for _ in range(2))
    with torch.no_grad():
        for length in (7, 5, 7):
            tokens = torch.randint(3, 96, (2, length))
            first = function if prefill == "compiled" else model
            first(input_ids=tokens, past_key_values=ours)
            model(input_ids=tokens, past_key_values=theirs)
            for _ in range(3):
                tokens = torch.randint(3, 96, (2, 1))
                found = function(input_ids=tokens, past_key_values=ours).logits
                torch.testing.assert_close(found, model(input_ids=tokens, past_key_values=theirs).logits)
                for name in ("keys", "values"):
                    a, b = (getattr(cache.layers[0], name) for cache in (ours, theirs))
                    torch.testing.assert_close(a, b)
            for cache in (ours, theirs):
                cache.reset()
    assert any(len(c.program.state) == 2 for c in capture.compiled)


@both
def test_parameters_that_are_updated_without_autograd(settings):
    class Average(nn.Module):
        def __init__(self):
            super().__init__()
            self.mean = nn.Parameter(torch.zeros(4, 32))

        def forward(self, x):
            self.mean.mul_(0.5).add_(x)
            return self.mean * 2

    ours, theirs = Average().eval(), Average().eval()
    function, capture = compiled_with(ours, settings)
    with torch.no_grad():
        for n in range(4):
            x = torch.full((4, 32), float(n))
            torch.testing.assert_close(function(x), theirs(x))
            torch.testing.assert_close(ours.mean, theirs.mean)
    assert len(program_of(capture).state) == 1


def as_operand(kept, x, where):
    return x @ kept


def as_bias(kept, x, where):
    return x @ torch.eye(32) + kept[0]


def as_table(kept, x, where):
    return torch.nn.functional.embedding(where % 32, kept)


def as_table_index(kept, x, where):
    return kept[where % 32]


def as_scale(kept, x, where):
    return torch.nn.functional.layer_norm(x, (32,), kept[0], kept[1])


def as_filter(kept, x, where):
    return torch.nn.functional.conv2d(x.view(1, 2, 4, 8), kept[:2, :18].reshape(2, 2, 3, 3), padding=1)


def transposed(kept, x, where):
    return kept.t().contiguous() * 2


READS = [as_operand, as_bias, as_table, as_table_index, as_scale, as_filter, transposed]


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings", [LIVE, COPIED, COPIED | {"weights": "bfloat8_b"}], ids=["live", "copied", "packed"]
)
@pytest.mark.parametrize("read", READS, ids=lambda r: r.__name__)
def test_what_is_read_before_the_write_is_the_last_calls_value(read, settings):
    class Reader(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("kept", torch.randint(-2, 2, (32, 32)).float())

        def forward(self, x, where):
            out = read(self.kept, x, where)
            self.kept[where % 32] = x
            self.kept.neg_()
            return out

    torch.manual_seed(3)
    ours = Reader().eval()
    theirs = Reader().eval()
    theirs.load_state_dict(ours.state_dict())
    function, capture = compiled_with(ours, settings | {"verify": True})
    close = {} if settings is LIVE else {"rtol": 2e-2, "atol": 5e-2}
    with torch.no_grad():
        for step in range(4):
            x, where = torch.randint(-2, 2, (2, 32)).float(), torch.tensor([step, step + 5])
            torch.testing.assert_close(function(x, where), theirs(x, where), **close)
            torch.testing.assert_close(ours.kept, theirs.kept)
    verify(program_of(capture))


def test_buffers_that_overlap_are_right():
    class Halves(nn.Module):
        def __init__(self):
            super().__init__()
            base = torch.zeros(4, 32)
            self.register_buffer("low", base[:3])
            self.register_buffer("high", base[1:])

        def forward(self, x):
            self.low.add_(x)
            self.high.mul_(2)
            return self.low + self.high

    ours, theirs = Halves().eval(), Halves().eval()
    function, _ = compiled_with(ours, LIVE)
    with torch.no_grad():
        for n in range(4):
            x = torch.full((32,), float(n))
            torch.testing.assert_close(function(x), theirs(x))
            torch.testing.assert_close(ours.low, theirs.low)
            torch.testing.assert_close(ours.high, theirs.high)


class Deep(nn.Module):
    """Layers whose weights and activations crowd a small chip, and a cache between them."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(64, 64, bias=False) for _ in range(3))
        self.register_buffer("kept", torch.zeros(64, 64))
        for index, parameter in enumerate(self.parameters()):
            parameter.data = torch.randint(-1, 2, (64, 64), generator=torch.Generator().manual_seed(index)).float()

    def forward(self, x, where):
        early = y = x
        for layer in self.layers:
            y = torch.clamp(layer(y), -2, 2)
            self.kept[where] = y
            y = torch.clamp(y @ self.kept, -2, 2)
        return torch.relu(y + early)


def on_small_chip(tiles):
    """Of 4 KiB, as float32 takes: a weight or the cache is 4 of them."""
    from dataclasses import replace

    from proveout.chip.specs import CHIPS
    from proveout.devices.sim import Sim

    return Sim(replace(CHIPS["n150"], name="tiny", grid=(1, 1), dram_banks=1, dram_bank_bytes=tiles * 4096))


@both
@pytest.mark.parametrize(
    ("tiles", "keeps", "moves"),
    [(200, True, False), (30, True, True), (14, False, True)],
    ids=["room for all", "room for the cache", "no room"],
)
def test_a_cache_stays_where_others_give_way_and_gives_way_itself_at_last(tiles, keeps, moves, settings):
    ours, theirs = Deep().eval(), Deep().eval()
    tiles = tiles if settings is LIVE else tiles // 2
    capture = Capture.of(on_small_chip(tiles), settings | {"verify": True, "memory": "dram"}, keep=True)
    function = torch.compile(ours, backend=capture)
    with torch.no_grad():
        for step in range(3):
            x, where = torch.randint(-2, 3, (32, 64)).float(), torch.arange(32) + step * 7
            assert torch.equal(function(x, where), theirs(x, where))
            assert torch.equal(ours.kept, theirs.kept)
    program = program_of(capture)
    assert bool(program.state) == keeps
    assert any(s.kernel == "ttnn.to_device" for s in program.body) == moves


@both
def test_a_cache_that_is_written_in_pieces_is_sent_at_every_call(settings):
    """No chip of this size adds to the whole of it at once."""
    ours, theirs = pair(whole, rows=256)
    capture = Capture.of(on_small_chip(16 if settings is LIVE else 8), settings | {"verify": True}, keep=True)
    assert_same(torch.compile(ours, backend=capture), ours, theirs)
    program = program_of(capture)
    assert any(s.kernel == "aten.slice.Tensor" for s in program.body)
    assert program.state == ()


def test_a_model_that_returns_its_buffer_returns_the_buffer_itself():
    class Returning(Cache):
        def forward(self, x, where):
            super().forward(x, where)
            return self.kept, self.kept.view(-1)

    ours, theirs = Returning(by_index).eval(), Returning(by_index).eval()
    theirs.load_state_dict(ours.state_dict())
    function, _ = compiled_with(ours, COPIED)
    with torch.no_grad():
        for step in range(3):
            found, wanted = (f(*g) for g in [given(step)] for f in (function, theirs))
            assert found[0] is ours.kept
            assert torch.equal(found[1], wanted[1])
            found[1][5] = wanted[1][5] = 7
