"""Saved models: arguments and outputs go where they went, by their place and never by what they hold."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import nn

import proveout
from proveout.engine.artifact import load_compiled
from proveout.errors import DeviceError, UsageError

X, Y, Z = (torch.randn(4, 8, generator=torch.Generator().manual_seed(s)) for s in range(3))


class Wrap(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function
        torch.manual_seed(0)
        self.weight = nn.Parameter(torch.randn(8, 8))

    def forward(self, *args, **kwargs):
        return self.function(self.weight, *args, **kwargs)


def again(function, *example, path, **kwargs):
    """The model compiled on the CPU for an example, saved and loaded."""
    model = Wrap(function).eval()
    return model, load_compiled(proveout.compile(model, device="cpu", call=(example, kwargs)).save(path / "model"))


def assert_same(a, b):
    a, b = (torch.utils._pytree.tree_leaves(v) for v in (a, b))
    for ours, theirs in zip(a, b, strict=True):
        assert not isinstance(theirs, torch.Tensor) or (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        if isinstance(theirs, torch.Tensor):
            torch.testing.assert_close(ours, theirs)
        else:
            assert ours == theirs


def test_heads_that_are_equal_on_the_example_stay_apart(tmp_path):
    model, saved = again(lambda w, x: (x @ w, x @ w.T), torch.zeros(4, 8), path=tmp_path)
    assert_same(saved(X), model(X))


def test_arguments_that_were_one_tensor_stay_apart(tmp_path):
    t = torch.ones(4, 8)
    model, saved = again(lambda w, a, b, c: (a - b) @ w + 2 * c, t, t, t, path=tmp_path)
    assert_same(saved(X, Y, Z), model(X, Y, Z))


def test_arguments_that_share_memory_stay_apart(tmp_path):
    t = torch.ones(8, 8)
    model, saved = again(lambda w, a, b: a @ w - b, t[:4], t[4:], path=tmp_path)
    assert_same(saved(X, Y), model(X, Y))


@pytest.mark.parametrize(
    "function",
    [
        lambda w, x: (x, x @ w, x),
        lambda w, x: (x.view(-1), (x @ w).t(), x[1:, ::2]),
        lambda w, x: {"y": (y := x @ w), "part": y[1], "bits": y.view(torch.int32)},
        lambda w, x: (x @ w, w, w[0], None, 3, "text"),
        lambda w, x: torch.fft.rfft(x @ w),
        lambda w, x: [torch.zeros(0), x[:0], (x > 0).any()],
    ],
    ids=["arguments", "views", "views of outputs", "weights and values", "complex", "empty"],
)
def test_outputs_come_from_where_they_came(tmp_path, function):
    model, saved = again(function, torch.zeros(4, 8), path=tmp_path)
    assert_same(saved(X), model(X))
    assert_same(saved(X.t().contiguous().t()), model(X))


def test_a_value_that_was_compiled_in_is_asked_for_again(tmp_path):
    model, saved = again(lambda w, x, *, flip: x @ w if flip else x, X, flip=True, path=tmp_path)
    assert_same(saved(X, flip=True), model(X, flip=True))
    with pytest.raises(DeviceError, match="is False; the model was compiled for True"):
        saved(X, flip=False)
    with pytest.raises(DeviceError, match=r"is torch.float64; the model was compiled for torch.float32"):
        saved(X.double(), flip=True)


def test_a_model_that_writes_to_its_argument_is_not_saved(tmp_path):
    with pytest.raises(UsageError, match="writes to its own buffers or arguments"):
        again(lambda w, x: x.add_(1) @ w, X.clone(), path=tmp_path)


def test_loading_checks_the_call_that_was_saved(tmp_path):
    again(lambda w, x: x @ w, X, path=tmp_path)
    path = tmp_path / "model" / "weights.safetensors"
    data = bytearray(path.read_bytes())
    data[-64:] = bytes(64)
    path.write_bytes(bytes(data))
    with pytest.raises(
        UsageError, match=r"output 0 is not what the model gave when it was saved. Save the model again."
    ):
        load_compiled(tmp_path / "model")


@pytest.mark.parametrize(("bits", "loads"), [(1, True), (1 << 27, False)])
@pytest.mark.parametrize("dtype", [torch.int32, torch.int16])
def test_floats_seen_as_integers_are_checked_as_floats(tmp_path, bits, loads, dtype):
    """Their last bits are another order of sums; others are another model."""
    again(lambda w, x: (y := x @ w, y.view(dtype)), X, path=tmp_path)
    reference, plain = reference_of(tmp_path / "model")
    reference["output 1"] = (reference["output 1"].view(torch.int32) + bits).view(dtype)
    save_reference(tmp_path / "model", reference, plain)
    if loads:
        load_compiled(tmp_path / "model")
    else:
        with pytest.raises(UsageError, match="output 1 is not what the model gave"):
            load_compiled(tmp_path / "model")


@pytest.mark.parametrize("numbers", [torch.zeros(4, 8), X, torch.ones(4, 8, dtype=torch.int64).cumsum(1)])
@pytest.mark.parametrize("field", ["inputs", "outputs"])
def test_places_that_were_exchanged_are_seen_whatever_the_example_held(tmp_path, numbers, field):
    """Arguments and outputs that are equal on the example are none on the call that loading makes again."""
    again(lambda w, a, b, c: (a - 2 * b, c * 3 - a), numbers, numbers, numbers, path=tmp_path)
    head = tmp_path / "model" / "compiled.json"
    document = json.loads(head.read_text())
    document[field] = document[field][::-1]
    head.write_text(json.dumps(document))
    with pytest.raises(UsageError, match="is not what the model gave when it was saved"):
        load_compiled(tmp_path / "model")


def changed(path, name, change):
    """A JSON file of a saved model with something else in it."""
    document = json.loads((path / name).read_text())
    change(document)
    (path / name).write_text(json.dumps(document))


def reference_of(path):
    """The tensors of a saved call, and its plain values."""
    with safe_open(path / "reference.safetensors", "pt") as file:
        return {name: file.get_tensor(name) for name in sorted(file.keys())}, json.loads(file.metadata()["plain"])


def save_reference(path, tensors, plain):
    save_file(tensors, path / "reference.safetensors", {"plain": json.dumps(plain)})


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda head: head["outputs"][-1].update(value=4), "output 3 is not what the model gave when it was saved"),
        (lambda head: head["outputs"][-1].update(value=3.0), "output 3 is not what the model gave when it was saved"),
        (lambda head: head["constants"][0].__setitem__(1, 5), "argument 2 is 2; the model was compiled for 5"),
        (lambda head: head["constants"].pop(), "argument 2 is 2, and nothing says that the model was compiled for it"),
        (lambda head: head.update(results=exchanged(head["results"])), "its results are not nested as when"),
        (lambda head: head.update(arguments=exchanged(head["arguments"])), "its arguments are not nested as when"),
    ],
    ids=["an output", "an output's type", "an argument", "no argument", "names of outputs", "names of arguments"],
)
def test_plain_values_and_names_of_a_call_are_what_they_were(tmp_path, change, told):
    again(lambda w, x, y, n: {"a": x @ w, "b": y * n, "c": (x, 3)}, path=tmp_path, x=X, y=Y, n=2)
    changed(tmp_path / "model", "compiled.json", change)
    with pytest.raises(UsageError, match=told):
        load_compiled(tmp_path / "model")


def exchanged(structure):
    """Its names a and b, and x and y, the other way round."""
    words = json.dumps(structure)
    for one, other in (("a", "b"), ("x", "y")):
        words = words.replace(f'"{one}"', '"?"').replace(f'"{other}"', f'"{one}"').replace('"?"', f'"{other}"')
    return json.loads(words)


@pytest.mark.parametrize("value", [float("inf"), float("nan"), 1 << 70, "\ud800"])
def test_what_would_come_back_as_something_else_is_not_saved(tmp_path, value):
    with pytest.raises(UsageError, match=r"an output is .*; tensors and plain values can be saved"):
        again(lambda w, x: (x @ w, value), X, path=tmp_path)


def test_a_program_that_was_changed_is_not_taken_for_the_saved_one(tmp_path):
    """Where few numbers are negative, a model without its relu is the same to the reference."""
    path = proveout.compile(nn.Sequential(nn.Linear(8, 8), nn.ReLU()).eval(), X + 9, device="sim").save(tmp_path / "m")

    def without_relu(program):
        for step in program["body"]:
            step["attrs"] = [a for a in step["attrs"] if a[0] not in ("activations", "activation", "program_config")]

    changed(path, "program/program.json", without_relu)
    with pytest.raises(UsageError, match=r"compiled\.json does not fit the Program"):
        load_compiled(path)


def test_a_view_of_a_size_that_was_forged_takes_no_memory(tmp_path):
    again(lambda w, x: (y := x @ w, y.view(torch.int32)), X, path=tmp_path)

    def forge(head):
        head["outputs"][1]["view"] |= {"shape": [1 << 40], "stride": [0]}

    changed(tmp_path / "model", "compiled.json", forge)
    with pytest.raises(UsageError, match="output 1 is not what the model gave"):
        load_compiled(tmp_path / "model")


def test_the_containers_of_a_call_import_nothing(tmp_path):
    again(lambda w, x: {"y": x @ w}, X, path=tmp_path)
    reference, plain = reference_of(tmp_path / "model")
    results = {"results": {"fields": ["antigravity.Output", [["y", "*"]]]}}
    changed(tmp_path / "model", "compiled.json", lambda head: head.update(results))
    save_reference(tmp_path / "model", reference, plain | results)
    assert set(load_compiled(tmp_path / "model")(X)) == {"y"}
    assert "antigravity" not in sys.modules


@pytest.mark.slow
def test_another_process_loads_what_a_library_returned(tmp_path):
    from transformers import BertConfig, BertModel

    config = BertConfig(hidden_size=32, num_hidden_layers=1, num_attention_heads=1, intermediate_size=32, vocab_size=9)
    tokens = torch.tensor([[1, 2, 3, 4]])
    compiled = proveout.compile(BertModel(config).eval(), {"input_ids": tokens}, device="cpu")
    path = compiled.save(tmp_path / "bert")
    assert type(load_compiled(path)(input_ids=tokens)).__name__ == "BaseModelOutputWithPoolingAndCrossAttentions"
    code = f"from proveout.engine.artifact import load_compiled; import torch; m = load_compiled({str(path)!r}); "
    code += "print(sorted(m(input_ids=torch.tensor([[1, 2, 3, 4]]))))"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert told.strip() == "['last_hidden_state', 'pooler_output']"


def test_named_arguments_are_taken_by_name_in_whatever_order(tmp_path):
    class Named(torch.nn.Module):
        def forward(self, d, *, q, r):
            return d["a"] - 2 * d["b"] + 3 * q - 4 * r

    zero, (a, b, q, r) = torch.zeros(2, 32), torch.randn(4, 2, 32)
    compiled = proveout.compile(Named(), device="cpu", call=(({"a": zero, "b": zero},), {"r": zero, "q": zero}))
    loaded = load_compiled(compiled.save(tmp_path / "named"))
    torch.testing.assert_close(loaded({"b": b, "a": a}, q=q, r=r), a - 2 * b + 3 * q - 4 * r)
    with pytest.raises(DeviceError, match="this call gives"):
        loaded({"a": a, "c": b}, q=q, r=r)
