"""What Programs become for a GPU, run by the fused calls' meanings on the CPU: the same numbers in fewer calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pytest
import torch
from torch import nn

import proveout
from proveout.devices.cuda.rewrite import rewrite
from proveout.devices.resident import Resident
from proveout.errors import EnvironmentFault
from proveout.program import Program


class Layer(nn.Module):
    """A transformer's layer, its norms before or after, on heads of 32."""

    def __init__(self, width: int = 128, after: bool = False) -> None:
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 256), nn.Linear(256, width)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.after = after

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.after:
            x = self.first(x + self.attend(x))
            return self.second(x + self.down(nn.functional.gelu(self.up(x))))
        x = x + self.attend(self.first(x))
        return x + self.down(nn.functional.gelu(self.up(self.second(x))))

    def attend(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (p(x).unflatten(-1, (4, 32)).transpose(1, 2) for p in (self.q, self.k, self.v))
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(mixed.transpose(1, 2).flatten(2))


class Images(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.Conv2d(16, 16, 3, padding=1, bias=False)
        self.bn1, self.bn2 = nn.BatchNorm2d(16), nn.BatchNorm2d(16)
        for norm in (self.bn1, self.bn2):
            nn.init.normal_(norm.running_mean)
            nn.init.uniform_(norm.running_var, 0.5, 2.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(x)) + x)


def compiled(model: nn.Module, x: torch.Tensor) -> tuple[Program, list[torch.Tensor], Mapping[str, torch.Tensor]]:
    made = proveout.compile(model, x, device="cpu")
    seen: list[tuple] = []
    with made.watching(lambda variant, arguments: seen.append((variant, list(arguments)))):
        made(x)
    variant, arguments = seen[0]
    graph = variant.compiled
    weights = {n: arguments[i] for n, i in zip(graph.program.weights, graph.weight_positions)}
    return graph.program, [arguments[i] for i in graph.input_positions], weights


def outputs(program: Program, inputs: list[torch.Tensor], weights: Mapping[str, torch.Tensor]) -> list[torch.Tensor]:
    loaded = Resident(program)
    loaded.set_weights(weights)
    return loaded.run(inputs).outputs


def calls(program: Program) -> Counter[str]:
    return Counter(s.kernel.split(".")[1] for s in program.body if s.kernel.startswith("proveout."))


@pytest.mark.parametrize("fold", [True, False], ids=["folded", "apart"])
@pytest.mark.parametrize("after", [False, True], ids=["norms before", "norms after"])
def test_a_transformer_layer_is_four_products_and_one_attention(after: bool, fold: bool) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(Layer(after=after), Layer(after=after)).eval().bfloat16()
    program, inputs, weights = compiled(model, torch.randn(1, 40, 128).bfloat16())
    made = rewrite(program, fold)
    found = calls(made)
    assert (found["product"], found["attention"]) == (8, 2)
    norms = sum(s.kernel == "ttnn.layer_norm" for s in made.body) + found["norm"]
    assert norms == (1 if fold else 4)  # of the first layer's input, or of the result that the caller gets
    (expected,), (given,) = outputs(program, inputs, weights), outputs(made, inputs, weights)
    assert (given.float() - expected.float()).norm() / expected.float().norm() < 0.01


def test_a_convolution_takes_in_its_batch_norm_residual_and_relu() -> None:
    torch.manual_seed(0)
    program, inputs, weights = compiled(Images().eval().bfloat16(), torch.randn(2, 3, 16, 16).bfloat16())
    made = rewrite(program)
    assert calls(made) == {"conv": 2}
    assert not {"ttnn.batch_norm", "ttnn.relu", "ttnn.add"} & {s.kernel for s in made.body}
    (expected,), (given,) = outputs(program, inputs, weights), outputs(made, inputs, weights)
    assert given.shape == expected.shape
    assert (given.float() - expected.float()).norm() / expected.float().norm() < 0.01


def test_float32_is_left_as_it_is() -> None:
    torch.manual_seed(0)
    program, inputs, weights = compiled(Layer().eval(), torch.randn(1, 8, 128))
    made = rewrite(program)
    assert calls(made) == {}
    assert torch.equal(*outputs(made, inputs, weights), *outputs(program, inputs, weights))


def test_a_value_that_somebody_else_reads_is_still_made() -> None:
    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(64, 64)

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            y = self.linear(x)
            return y, torch.relu(y) + x

    torch.manual_seed(0)
    program, inputs, weights = compiled(Both().eval().bfloat16(), torch.randn(8, 64).bfloat16())
    expected, given = outputs(program, inputs, weights), outputs(rewrite(program), inputs, weights)
    for a, b in zip(given, expected, strict=True):
        assert (a.float() - b.float()).norm() / b.float().norm() < 0.01


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_a_machine_without_a_gpu_says_so_in_one_sentence() -> None:
    with pytest.raises(EnvironmentFault, match="device 'cuda' cannot be used here: there is no NVIDIA GPU"):
        proveout.compile(nn.Linear(2, 2), torch.ones(1, 2), device="cuda")
