"""Small, seeded models in eval mode with their inputs, built from configs: nothing is downloaded.

Heads are 32 wide and sequences 32 long (whole tiles) unless a model says otherwise; biases and norms are not at their
trivial initial values,
and weights are large enough for outputs to vary: a wrong bias, mask or statistic shows in the numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

Sample = tuple[nn.Module, dict[str, Tensor]]

SEQ, VOCAB = 32, 1000
_TEXT: dict[str, Any] = {"vocab_size": VOCAB, "initializer_range": 0.1}
_TOKENS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
_ENCODER = {"hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 512}
_NARROW = {
    "hidden_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 192,
}
_DECODER = {"n_embd": 128, "n_layer": 2, "n_head": 4, "n_positions": 64, "use_cache": False}


def bert() -> Sample:
    """Question answering on a batch of two: the second sequence is padded after 20 tokens."""
    from transformers import BertConfig, BertForQuestionAnswering

    model = _seeded(lambda: BertForQuestionAnswering(BertConfig(**_TEXT, **_ENCODER, pad_token_id=0)))
    mask = torch.ones(2, SEQ, dtype=torch.long)
    mask[1, 20:] = 0
    segments = torch.zeros(2, SEQ, dtype=torch.long)
    segments[:, 12:] = 1
    return model, {"input_ids": _ids(2) * mask, "attention_mask": mask, "token_type_ids": segments}


def albert() -> Sample:
    """Masked language modelling, with one layer's weights shared by both layers."""
    from transformers import AlbertConfig, AlbertForMaskedLM

    config = AlbertConfig(**_TEXT, **_ENCODER, **_TOKENS, embedding_size=64)
    return _seeded(lambda: AlbertForMaskedLM(config)), {"input_ids": _ids(1)}


def gpt2() -> Sample:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(**_TEXT, **_TOKENS, **_DECODER)
    return _seeded(lambda: GPT2LMHeadModel(config)), {"input_ids": _ids(1)}


def codegen() -> Sample:
    """Rotary positions and a parallel feed-forward; its merged QKV is cut for four accelerators."""
    from transformers import CodeGenConfig, CodeGenForCausalLM

    config = CodeGenConfig(**_TEXT, **_TOKENS, **_DECODER, rotary_dim=16)
    return _seeded(lambda: CodeGenForCausalLM(config)), {"input_ids": _ids(1)}


def resnet18() -> Sample:
    """ResNet-18's blocks and depths at half its widths."""
    from transformers import ResNetConfig, ResNetForImageClassification

    config = ResNetConfig(
        layer_type="basic",
        depths=[2, 2, 2, 2],
        hidden_sizes=[32, 64, 128, 256],
        embedding_size=32,
        num_labels=10,
    )
    return _seeded(lambda: ResNetForImageClassification(config)), {"pixel_values": _image(3, 64)}


def mobilenet_v2() -> Sample:
    from transformers import MobileNetV2Config, MobileNetV2ForImageClassification

    config = MobileNetV2Config(image_size=64, depth_multiplier=0.5, num_labels=10)
    return _seeded(lambda: MobileNetV2ForImageClassification(config)), {"pixel_values": _image(3, 64)}


def mnist_cnn() -> Sample:
    """PyTorch's MNIST example, on 3 x 32 x 32 images."""
    return _seeded(MnistCnn), {"x": _image(3, 32)}


class MnistCnn(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 32, kernel_size=3)
        self.conv2 = nn.Conv2d(32, 64, kernel_size=3)
        self.fc1 = nn.Linear(64 * 14 * 14, 128)
        self.fc2 = nn.Linear(128, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.conv1(x))
        x = torch.relu(self.conv2(x))
        x = nn.functional.max_pool2d(x, 2).flatten(1)
        return nn.functional.log_softmax(self.fc2(torch.relu(self.fc1(x))), dim=1)


def vit() -> Sample:
    """A class token before 16 patches; heads of 24, which fill no tile."""
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(**_NARROW, image_size=32, patch_size=8, num_labels=10)
    return _seeded(lambda: ViTForImageClassification(config)), {"pixel_values": _image(3, 32)}


def segformer() -> Sample:
    """Semantic segmentation: attention over shrunk keys, depthwise convolutions, bilinear upsampling."""
    from transformers import SegformerConfig, SegformerForSemanticSegmentation

    config = SegformerConfig(
        depths=[1, 1, 1, 1],
        hidden_sizes=[32, 64, 96, 128],
        num_attention_heads=[1, 2, 3, 4],
        decoder_hidden_size=64,
        num_labels=10,
    )
    return _seeded(lambda: SegformerForSemanticSegmentation(config)), {"pixel_values": _image(3, 64)}


def clip() -> Sample:
    """Two texts, each pooled at the place of its end token, against one image."""
    from transformers import CLIPConfig, CLIPModel

    text = {**_NARROW, **_TOKENS, "eos_token_id": 999, "vocab_size": VOCAB, "projection_dim": 64}
    vision = {**_NARROW, "image_size": 32, "patch_size": 8, "projection_dim": 64}
    model = _seeded(lambda: CLIPModel(CLIPConfig(text_config=text, vision_config=vision, projection_dim=64)))
    ids = _ids(2, length=12)
    ids[0, 7:] = ids[1, 11:] = 999
    mask = torch.ones_like(ids)
    mask[0, 8:] = 0
    return model, {"input_ids": ids, "pixel_values": _image(3, 32), "attention_mask": mask}


def llama() -> Sample:
    """Rotary positions, four query heads to two key heads; the second sequence is padded at the front."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(**_TEXT, **_ENCODER, **_TOKENS, num_key_value_heads=2, use_cache=False)
    mask = torch.ones(2, SEQ, dtype=torch.long)
    mask[1, :6] = 0
    return _seeded(lambda: LlamaForCausalLM(config)), {"input_ids": _ids(2) * mask, "attention_mask": mask}


def mamba() -> Sample:
    """Selective state spaces: the recurrence runs token by token."""
    from transformers import MambaConfig, MambaForCausalLM

    config = MambaConfig(**_TEXT, **_TOKENS, hidden_size=64, state_size=8, num_hidden_layers=2, use_cache=False)
    return _seeded(lambda: MambaForCausalLM(config)), {"input_ids": _ids(1, length=16)}


def t5() -> Sample:
    """Encoder and decoder with relative position buckets, and a padded input."""
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(
        vocab_size=VOCAB,
        d_model=96,
        d_kv=24,
        d_ff=192,
        num_layers=2,
        num_heads=4,
        use_cache=False,
        pad_token_id=0,
        eos_token_id=1,
        decoder_start_token_id=0,
    )
    mask = torch.ones(1, SEQ, dtype=torch.long)
    mask[:, 25:] = 0
    inputs = {"input_ids": _ids(1) * mask, "attention_mask": mask, "decoder_input_ids": _ids(1, length=9)}
    return _seeded(lambda: T5ForConditionalGeneration(config)), inputs


def whisper() -> Sample:
    """An audio encoder behind two 1-d convolutions, and a text decoder; a second of sound is 100 frames."""
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    config = WhisperConfig(
        vocab_size=VOCAB,
        d_model=64,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=128,
        decoder_ffn_dim=128,
        num_mel_bins=20,
        max_source_positions=50,
        max_target_positions=32,
        init_std=0.1,
        use_cache=False,
        **_TOKENS,
        decoder_start_token_id=1,
        suppress_tokens=None,
        begin_suppress_tokens=None,
    )
    sound = torch.randn(1, 20, 100, generator=torch.Generator().manual_seed(1))
    inputs = {"input_features": sound, "decoder_input_ids": _ids(1, length=9)}
    return _seeded(lambda: WhisperForConditionalGeneration(config)), inputs


def bert_4x256() -> Sample:
    """For benchmarks: four layers, hidden 256, the real vocabulary, sequence 128."""
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=30522,
        hidden_size=256,
        num_hidden_layers=4,
        num_attention_heads=4,
        intermediate_size=1024,
        initializer_range=0.06,
    )
    return _seeded(lambda: BertModel(config)), {"input_ids": _ids(1, length=128, vocabulary=30522)}


MODELS: dict[str, Callable[[], Sample]] = {
    "bert": bert,
    "albert": albert,
    "gpt2": gpt2,
    "codegen": codegen,
    "resnet18": resnet18,
    "mobilenet_v2": mobilenet_v2,
    "mnist_cnn": mnist_cnn,
    "vit": vit,
    "segformer": segformer,
    "clip": clip,
    "llama": llama,
    "mamba": mamba,
    "t5": t5,
    "whisper": whisper,
}

QUICK = ("albert", "mnist_cnn")  # one of each kind for `make check`; the others are marked slow
EACH_MODEL = [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in MODELS]


def bert_base() -> Sample:
    from transformers import BertConfig, BertModel

    return _seeded(lambda: BertModel(BertConfig())), {"input_ids": _ids(1, 128, 30522)}


def gpt2_small() -> Sample:
    from transformers import GPT2Config, GPT2LMHeadModel

    return _seeded(lambda: GPT2LMHeadModel(GPT2Config(use_cache=False))), {"input_ids": _ids(1, 128, 50257)}


def resnet18_224() -> Sample:
    from transformers import ResNetConfig, ResNetForImageClassification

    widths = [64, 128, 256, 512]
    config = ResNetConfig(
        embedding_size=64, hidden_sizes=widths, depths=[2, 2, 2, 2], layer_type="basic", num_labels=1000
    )
    return _seeded(lambda: ResNetForImageClassification(config)), {"pixel_values": _image(3, 224)}


BIG: dict[str, Callable[[], Sample]] = {
    "bert_4x256": bert_4x256,
    "bert_base": bert_base,
    "gpt2": gpt2_small,
    "resnet18": resnet18_224,
}
"""At their published sizes, for benchmarks."""


def _seeded(build: Callable[[], nn.Module]) -> nn.Module:
    """Build a model from seed 0, then move its biases, norms and statistics off their initial values.

    Image models get He's weights, which keep the signal's size from layer to layer; text models have theirs from
    the config's `initializer_range`.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = build().eval()
        is_image_model = any(isinstance(part, nn.Conv2d) for part in model.modules())
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if parameter.dim() > 1 and is_image_model:
                    nn.init.kaiming_normal_(parameter)
                if parameter.dim() == 1:
                    start = 0.0 if name.endswith("bias") else 1.0
                    parameter.copy_(start + 0.1 * torch.randn_like(parameter))
            for name, buffer in model.named_buffers():
                if name.endswith("running_mean"):
                    buffer.normal_(0.0, 0.1)
                elif name.endswith("running_var"):
                    buffer.uniform_(0.5, 1.5)
    return model


def _ids(batch: int, length: int = SEQ, vocabulary: int = VOCAB) -> Tensor:
    """Token ids above the special ones."""
    return torch.randint(3, vocabulary, (batch, length), generator=torch.Generator().manual_seed(1))


def _image(channels: int, size: int) -> Tensor:
    return torch.randn(1, channels, size, size, generator=torch.Generator().manual_seed(1))
