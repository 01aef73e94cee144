"""Decoders are planned without their weights, and of equal layers a few are captured: the Programs are the same."""

from __future__ import annotations

import re

import pytest
import torch

pytest.importorskip("transformers")

from small_decoders import small, without_weights

from proveout.engine.layers import alike_layers
from proveout.engine.repeat import Repeat
from proveout.errors import UsageError
from proveout.generation import Generator, cache, generator
from proveout.generation.twin import twin_of


def planned(model, **options):
    made = Generator.compile(
        model, settings={"precision": "bfloat16"}, max_length=64, batch=2, prompt_lengths=(32,), dry_run=True, **options
    )
    texts = {name: re.sub(r"graph\d+", "graph", str(program)) for name, program in made.programs.items()}
    return made, (texts, [(phase.predicted, phase.memory) for phase in made.phases])


ALTERNATING = {"num_hidden_layers": 8, "layer_types": ["sliding_attention", "full_attention"] * 4}


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        pytest.param("llama", {"num_hidden_layers": 5}, marks=pytest.mark.slow),
        pytest.param("gemma3", ALTERNATING, marks=pytest.mark.whole_decoders),
        pytest.param("mixtral", {"num_hidden_layers": 5}, marks=pytest.mark.whole_decoders),
    ],
)
def test_a_plan_of_a_few_layers_is_the_plan_of_all(name, changed, monkeypatch):
    model = without_weights(name, **changed)
    few, plan = planned(model)
    assert few._few.repeat.times >= 1
    monkeypatch.setattr(generator, "alike_layers", lambda *_: None)
    _, whole = planned(model)
    assert plan == whole


def test_layers_that_differ_are_seen_before_and_while_they_are_written():
    model = without_weights("llama", num_hidden_layers=8)
    assert alike_layers(model, "model").repeat == Repeat("model.model.layers", 1, 5)
    model.model.layers[6].mlp = torch.nn.Identity()
    assert alike_layers(model, "model") is None
    assert alike_layers(without_weights("llama", num_hidden_layers=3), "model") is None


@pytest.mark.slow
def test_a_difference_that_no_module_shows_is_seen_in_the_graph(monkeypatch):
    model = without_weights("llama", num_hidden_layers=4)
    for number, layer in enumerate(model.model.layers):
        layer.mlp.factors = [1.0 + number]
    plain = type(model.model.layers[0].mlp).forward
    monkeypatch.setattr(type(layer.mlp), "forward", lambda self, x: plain(self, x) * self.factors[0])
    assert alike_layers(model, "model") is not None
    made = Generator.compile(model, settings={"precision": "bfloat16"}, max_length=32, dry_run=True)
    assert made._few is None, "every layer was captured"
    assert len(made.decode_phase.program.state) == 8


@pytest.mark.parametrize("changed", [{}, {"multi_query": False}, {"new_decoder_architecture": True, "num_kv_heads": 2}])
def test_falcon_s_heads_are_slices_with_the_same_numbers(changed):
    model = small("falcon", **changed)
    ids = torch.randint(0, 128, (2, 9))
    with torch.no_grad():
        assert torch.equal(twin_of(model, 64)(ids).logits, model(ids).logits)


def test_a_model_elsewhere_is_copied_to_its_device_and_stays_where_it_was():
    model = small("gpt2")
    twin = twin_of(model, 64, torch.device("meta"))
    assert {t.device.type for t in (*twin.parameters(), *twin.buffers())} == {"meta"}
    assert twin.lm_head.weight is twin.transformer.wte.weight, "one tensor stays one"
    assert {t.device.type for t in model.parameters()} == {"cpu"}


def test_windows_are_those_of_sliding_layers_whichever_way_transformers_tells_them(monkeypatch):
    model = without_weights("gemma3")
    shapes = cache.layer_shapes(model)
    assert [shape.window for shape in shapes] == [16, None]
    kinds, _ = cache.get_layer_types_and_kwargs(model.config)
    monkeypatch.setattr(cache, "get_layer_types_and_kwargs", lambda config: (kinds, {"sliding_window": 16}))
    assert cache.layer_shapes(model) == shapes


def test_a_model_whose_shapes_depend_on_data_is_refused_in_a_sentence(monkeypatch):
    model = small("llama")
    plain = type(model.model).forward
    monkeypatch.setattr(type(model.model), "forward", lambda self, input_ids, **rest: int(input_ids.sum()) and plain)
    with pytest.raises(UsageError, match="LlamaForCausalLM computes with numbers that it reads from its tensors"):
        Generator.compile(model, device="cpu", max_length=32)


@pytest.mark.slow
def test_falcon_is_planned_without_its_weights():
    made, _ = planned(without_weights("falcon", num_hidden_layers=4))
    assert [phase.name for phase in made.phases] == ["prefill 32", "decode"]
    assert not any(step.on_host for phase in made.phases for step in phase.program.body)
