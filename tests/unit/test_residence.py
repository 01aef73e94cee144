"""A cache that lives on the chip: prefill and decode hand it to each other, and the host never sees it."""

from __future__ import annotations

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from proveout.engine.residence import Residence, Shared, TensorForm
from proveout.generation import GREEDY, Generator
from proveout.generation.agreement import eager_tokens

SIZES = {"vocab_size": 64, "intermediate_size": 64, "num_hidden_layers": 1, "max_position_embeddings": 64}


def llama(head_dim: int = 32) -> LlamaForCausalLM:
    torch.manual_seed(0)
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "hidden_size": 4 * head_dim}
    return LlamaForCausalLM(LlamaConfig(**SIZES, **heads)).eval()


def generator_of(model: LlamaForCausalLM, **options: object) -> Generator:
    settings = options.pop("settings", {"precision": "bfloat16"})
    return Generator.compile(model, settings=settings, max_length=64, batch=2, sampling=GREEDY, **options)  # type: ignore[arg-type]


def tokens_of(generator: Generator, ids: torch.Tensor, count: int = 8) -> torch.Tensor:
    return torch.stack(list(generator.generate(ids, count)), 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", [{}, {"page_size": 32}, {"device": "sim:n300"}], ids=["whole users", "pages", "two chips"]
)
def test_keys_and_values_never_cross_to_the_host(options: dict[str, object]) -> None:
    settings = {"precision": "bfloat16", "parallel": "tensor" if options.get("device") else "none"}
    generator = generator_of(llama(), settings=settings, **options)
    ids = torch.randint(0, 64, (2, 5))
    assert torch.equal(tokens_of(generator, ids), tokens_of(generator, ids))
    assert [len(phase.program.state) for phase in generator.phases] == [2, 2]
    assert [len(phase.program.outputs) for phase in generator.phases] == [1, 1]
    assert all(not buffer.any() for buffer in generator._store.buffers())


@pytest.mark.slow
def test_programs_that_hold_the_cache_in_other_forms_give_eagers_tokens_too() -> None:
    model = llama()
    generator = generator_of(model, settings={"precision": "model"}, prompt_lengths=(5,))
    assert len(forms_of(generator)) == 2  # in float32 a token is scattered into rows, a prompt into tiles
    ids = torch.randint(0, 64, (2, 5))
    expected = eager_tokens(model, ids, torch.ones_like(ids), 8)
    assert torch.equal(tokens_of(generator, ids), expected)
    assert torch.equal(tokens_of(generator, ids), expected)


@pytest.mark.slow
def test_compiling_another_length_leaves_the_cache_alone() -> None:
    model = llama()
    generator = generator_of(model)
    ids = torch.randint(0, 64, (2, 5))
    expected = generator.prefill(ids).argmax(-1), torch.tensor([5, 5])
    after = generator.decode(*expected)
    generator.prefill(ids)
    generator.prefill_phase(64)
    assert torch.equal(generator.decode(*expected), after)


class Holder:
    """Stands for a loaded Program."""

    def __init__(self) -> None:
        self.state: dict[str, torch.Tensor] = {}

    def keep(self, state: dict[str, torch.Tensor]) -> None:
        self.state.update(state)

    def set_weights(self, weights: dict[str, torch.Tensor]) -> None:
        self.state.update({name: tensor.to(torch.bfloat16) for name, tensor in weights.items()})

    def drop_weights(self, names: list[str]) -> None:
        for name in names:
            del self.state[name]

    def run_step(self, step: object, values: dict[str, torch.Tensor]) -> tuple[torch.Tensor]:
        return (values["held"].float(),)


def forms_of(generator: Generator) -> set[TensorForm]:
    return {TensorForm.of(p.program, weight) for p in generator.phases for weight, _ in p.program.state}


def test_programs_of_one_form_hand_a_tensor_over_as_it_is_and_others_through_the_host() -> None:
    generator = generator_of(llama(), prompt_lengths=(5,))
    (form,) = forms_of(generator)
    host = torch.zeros(2, 2, 64, 32)
    residence = Residence([host])
    first, second, third = Holder(), Holder(), Holder()
    residence.bring(first, [Shared("a", form, host)])  # type: ignore[arg-type]
    value = torch.ones(2, 2, 64, 32, dtype=torch.bfloat16)
    residence.leave(first, Shared("a", form, host), value)  # type: ignore[arg-type]
    residence.bring(second, [Shared("b", form, host)])  # type: ignore[arg-type]
    assert second.state["b"] is value
    assert not first.state
    assert not host.any()
    other = TensorForm(form.spec, (("layout", "other"),))
    residence.bring(third, [Shared("c", other, host)])  # type: ignore[arg-type]
    assert torch.equal(third.state["c"], value)
    assert not second.state
    residence.give_back(host)
    assert bool((host == 1).all())
    assert not third.state
