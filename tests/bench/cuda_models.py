"""The models that `cuda.py` measures: architectures from transformers' configurations and two small networks, with
seeded weights. `layers` makes a shorter one with the same shapes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

Sample = tuple[nn.Module, dict[str, Tensor]]


def bert_large(batch: int, layers: int = 0) -> Sample:
    from transformers import BertConfig, BertModel

    config = BertConfig(
        hidden_size=1024, num_hidden_layers=layers or 24, num_attention_heads=16, intermediate_size=4096
    )
    ids = torch.randint(0, config.vocab_size, (batch, 384))
    return BertModel(config), {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def gpt2(batch: int, layers: int = 0) -> Sample:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(n_layer=layers or 12, use_cache=False)
    return GPT2LMHeadModel(config), {"input_ids": torch.randint(0, config.vocab_size, (batch, 128))}


def codegen_350m(batch: int, layers: int = 0) -> Sample:
    from transformers import CodeGenConfig, CodeGenForCausalLM

    config = CodeGenConfig(
        n_layer=layers or 20, n_embd=1024, n_head=16, rotary_dim=32, vocab_size=51200, use_cache=False
    )
    return CodeGenForCausalLM(config), {"input_ids": torch.randint(0, 50000, (batch, 128))}


class Block(nn.Module):
    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outside)
        self.conv2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outside)
        self.shortcut = None
        if stride != 1 or inside != outside:
            conv = nn.Conv2d(inside, outside, 1, stride, bias=False)
            self.shortcut = nn.Sequential(conv, nn.BatchNorm2d(outside))

    def forward(self, x: Tensor) -> Tensor:
        beside = x if self.shortcut is None else self.shortcut(x)
        return torch.relu(self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x))))) + beside)


class ResNet18(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU())
        self.pool = nn.MaxPool2d(3, 2, 1)
        widths = (
            (64, 64, 1),
            (64, 64, 1),
            (64, 128, 2),
            (128, 128, 1),
            (128, 256, 2),
            (256, 256, 1),
            (256, 512, 2),
            (512, 512, 1),
        )
        self.blocks = nn.Sequential(*(Block(*w) for w in widths))
        self.fc = nn.Linear(512, 1000)
        for module in self.modules():
            if isinstance(module, nn.BatchNorm2d):  # as after training: statistics that are not 0 and 1
                nn.init.normal_(module.running_mean, 0.0, 0.1)
                nn.init.uniform_(module.running_var, 0.5, 1.5)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.blocks(self.pool(self.stem(x))).mean((2, 3)))


class MnistCnn(nn.Module):
    """PyTorch's MNIST example."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 32, 3), nn.Conv2d(32, 64, 3)
        self.fc1, self.fc2 = nn.Linear(9216, 128), nn.Linear(128, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.conv2(torch.relu(self.conv1(x))))
        x = nn.functional.max_pool2d(x, 2).flatten(1)
        return nn.functional.log_softmax(self.fc2(torch.relu(self.fc1(x))), dim=1)


def images(make: Callable[[], nn.Module], channels: int, size: int) -> Callable[..., Sample]:
    return lambda batch, layers=0: (make(), {"x": torch.randn(batch, channels, size, size)})


MODELS: dict[str, Callable[..., Sample]] = {
    "bert-large 384": bert_large,
    "gpt2 128": gpt2,
    "codegen-350m 128": codegen_350m,
    "resnet18 224": images(ResNet18, 3, 224),
    "resnet18 32": images(ResNet18, 3, 32),
    "mnist 28": images(MnistCnn, 1, 28),
}


def build(name: str, batch: int, dtype: torch.dtype, layers: int = 0) -> tuple[nn.Module, dict[str, Any]]:
    torch.manual_seed(0)
    model, inputs = MODELS[name](batch, layers)
    cast = {k: v.to(dtype) if v.is_floating_point() else v for k, v in inputs.items()}
    return model.eval().to(dtype), cast
